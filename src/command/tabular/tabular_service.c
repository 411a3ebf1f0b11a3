#include "command/tabular/tabular_commands.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <etude/metadata.h>
#include <etude/value.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/tabular/decision.h"
#include "command/web/form.h"
#include "command/web/serving.h"
#include "data/table/analysis/column_use.h"
#include "data/table/features/encoder.h"
#include "data/table/features/unknown_values.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/schema.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/predict/prediction_lines.h"

/* ---- input fields ---- */

/* Facts for a form about the columns that a model reads.
 *
 *     "columns": ["sold_on", "rooms", "city"],
 *     "fields": [{"name": "sold_on", "kind": "date", "example": "2024-05-31"},
 *                {"name": "rooms", "kind": "number", "example": "3"},
 *                {"name": "city", "kind": "class", "example": "Rome", "values": ["Rome", "Oslo"]}],
 *     "example": "{\"rows\": [{\"sold_on\": \"2024-05-31\", \"rooms\": 3, \"city\": \"Rome\"}]}"
 *
 * Kinds: number, date, datetime, time, class (values are all that training had) and text (values
 * are some of them, or missing). Examples are typical training values, written as the column writes
 * them, dates as in ISO 8601. A column without known values has no example. */

/* Most values of a list to choose from, and most suggestions of a text field. */
#define CLASSES_MAX     100
#define SUGGESTIONS_MAX 200

/* A date as inputs of browsers write it, in the arena of facts. NULL: the text is no date. */
static const char *iso_date(et_arena *arena, const char *text, et_date_order order,
                            const char **kind)
{
    et_date d;
    if (!et_date_read(&d, text, strlen(text), order))
        return NULL;
    const bool clock = strchr(text, ':') != NULL;
    *kind = order == ET_DATE_TIME ? "time" : clock ? "datetime" : "date";
    char *all = et_arena_printf(arena, "%04d-%02d-%02dT%02d:%02d", d.year, d.month + 1, d.day + 1,
                                d.hour, d.minute);
    if (all && !clock)
        all[10] = 0;
    return all && order == ET_DATE_TIME ? all + 11 : all;
}

/* The median, else the mean; whole for columns of integers, else of 15 digits: the middle of 1.1
 * and 1.3 has more. NaN: not known. */
static double typical_number(const et_schema_field *field, const et_column_metadata *m)
{
    double value = m->quantile_count ? m->quantiles[m->quantile_count / 2]
                   : m->has_moments  ? m->mean
                                     : (double)NAN;
    char text[32];
    if (field->type == ET_SCHEMA_INTEGER)
        return nearbyint(value);
    (void)et_decimal_parse(&value, text, (size_t)et_decimal_print(text, sizeof text, 15, 0, value));
    return value;
}

/* Writes a number in the column's notation, with a decimal comma if the column has one. */
static const char *written_number(et_arena *arena, const et_schema_field *field, double value)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (value == nearbyint(value) && fabs(value) < 1e15)
        et_strbuf_printf(&text, "%.0f", value);
    else
        et_strbuf_append_double(&text, value);
    char *copy = et_strbuf_keep(&text, arena);
    char *point = copy && field->notation == ET_NOTATION_COMMA ? strchr(copy, '.') : NULL;
    if (point)
        *point = ',';
    return copy;
}

static void describe_field(et_value *fields, et_value *row, const et_schema_field *field,
                           const et_column_metadata *m)
{
    et_value *f = et_value_add_dict(fields);
    const bool numeric = field->type != ET_SCHEMA_DISCRETE,
               single = !field->length || field->length == 1;
    const char *kind = numeric && single ? "number" : "text", *example = NULL;
    const double number = numeric && single ? typical_number(field, m) : (double)NAN;
    const bool dates = !numeric && single && m->dates > 0 && m->dates == m->count;
    const bool listed = !numeric && single && !dates && m->entry_count > 0;
    if (!isnan(number)) {
        example = written_number(fields->arena, field, number);
        if (number == nearbyint(number) && fabs(number) < 1e15)
            et_value_set_int(row, field->name, (int64_t)number);
        else
            et_value_set_float(row, field->name, number);
    } else if (dates) {
        kind = m->order == ET_DATE_TIME ? "time" : "date";
        if (m->entry_count)
            example = iso_date(fields->arena, m->entries[0], m->order, &kind);
    } else if (listed) {
        const bool whole = !m->cut && m->entry_count <= CLASSES_MAX && !et_column_is_key(m);
        kind = whole ? "class" : "text";
        example = m->entries[0];
    }
    et_value_set_string(f, "name", field->name);
    et_value_set_string(f, "kind", kind);
    if (example)
        et_value_set_string(f, "example", example);
    if (example && isnan(number))
        et_value_set_string(row, field->name, example);
    et_value *values = listed ? et_value_set_list(f, "values") : NULL;
    for (int i = 0; i < m->entry_count && i < SUGGESTIONS_MAX && values; i++)
        et_value_add_string(values, m->entries[i]);
}

/* ---- requests ---- */

typedef enum form { LIST, LINES, CSV } form;

typedef struct predictions {
    et_service service; /* the first member */
    et_predictor *predictor;
    et_prediction_lines json, csv;
    et_decision decision; /* of the lines */
    int64_t items_max;    /* of a request */
    /* of a batch that is computed together */
    struct origin {
        et_service_request *request;
        int64_t row;
    } * origin; /* [batch_size of the predictor] */
    int64_t count;
    et_strbuf line;
    et_unknown_values
        request; /* values that the model has never seen, in the request whose rows are read now */
    /* such values of all answered requests; printed by the thread that reads */
    pthread_mutex_t lock;
    et_unknown_values unseen;
} predictions;

/* A client's question. */
typedef struct asked {
    form form;      /* of the answer */
    bool csv;       /* of the rows */
    et_cell *cells; /* [items, cells of a row] */
    int64_t *line;  /* [items]: of CSV; NULL of JSON */
    int64_t written;
    bool tells;              /* the answer names values that the model has never seen */
    const et_value *unknown; /* these values as a list in the request's arena; NULL: none */
} asked;

static const et_encoder *encoder_of(const predictions *all)
{
    return all->predictor->model->encoder;
}

/* ---- opening ---- */

static void close_service(et_service *self)
{
    predictions *all = (predictions *)(void *)self;
    if (!all)
        return;
    et_prediction_lines_release(&all->json);
    et_prediction_lines_release(&all->csv);
    et_decision_release(&all->decision);
    et_predictor_close(all->predictor);
    et_strbuf_release(&all->line);
    et_unknown_values_release(&all->request);
    et_unknown_values_release(&all->unseen);
    pthread_mutex_destroy(&all->lock);
    et_free(all->origin);
    et_free(all);
}

static int open_lines(predictions *all, const et_service_options *options, et_error *error)
{
    const et_decision_args args = { .threshold = options->threshold,
                                    .costs = { options->costs, options->cost_count } };
    const et_decision_classes classes = et_decision_classes_of(all->predictor);
    et_prediction_form lines = { .decision =
                                     et_decision_is_given(&args) ? &all->decision.how : NULL };
    int status = et_decision_open(&all->decision, &args, &classes, error);
    if (!status)
        status = et_prediction_lines_open(&all->json, all->predictor, &lines, error);
    lines.csv = true;
    return status ? status : et_prediction_lines_open(&all->csv, all->predictor, &lines, error);
}

static int open_service(et_service **out, const char *model_dir, const et_service_options *options,
                        et_error *error)
{
    const et_predictor_options o = { .checkpoint = options->checkpoint,
                                     .live_weights = options->live_weights };
    *out = NULL;
    if (options->precision)
        return et_fail(
            error, ET_ECONFIG,
            "--precision: models of tables always use the precision of training; leave it out");
    predictions *all;
    if (ET_ALLOC_ZERO(all, 1, "a service", error))
        return ET_ENOMEM;
    all->service.ET_CLASS = &et_tabular_service;
    pthread_mutex_init(&all->lock, NULL);
    all->items_max = options->items_max;
    int status;
    if (!(status = et_predictor_open(&all->predictor, model_dir, &o, error)) &&
        !(status = open_lines(all, options, error))) {
        size_t origins = (size_t)all->predictor->batch_size;
        all->origin = et_alloc_zero(origins, sizeof *all->origin);
        if (!all->origin)
            status = et_alloc_failed(error, "a service");
    }
    const et_table_model *model = status ? NULL : all->predictor->model;
    if (!status && !(status = et_unknown_values_open(&all->request, model->encoder,
                                                     model->texts.metadata, error)))
        status = et_unknown_values_open(&all->unseen, model->encoder, model->texts.metadata, error);
    if (status)
        close_service(&all->service);
    else
        *out = &all->service;
    return status;
}

static void describe(const et_service *self, et_value *facts)
{
    const predictions *all = (const predictions *)(const void *)self;
    const et_predictor *p = all->predictor;
    et_value_set_string(facts, "checkpoint", p->facts.checkpoint);
    et_value_set_int(facts, "step", p->facts.step);
    const et_encoder *encoder = encoder_of(all);
    const et_schema *schema = et_encoder_schema(encoder);
    et_value *columns = et_value_set_list(facts, "columns");
    et_value *fields = et_value_set_list(facts, "fields");
    et_value *body = et_value_dict(facts->arena);
    et_value *row = et_value_add_dict(et_value_set_list(body, "rows"));
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < et_schema_count(schema); i++) {
        const et_schema_field *field = et_schema_at(schema, i);
        if (!et_encoder_reads(encoder, i, false))
            continue;
        et_value_add_string(columns, field->name);
        if (fields)
            describe_field(fields, row, field,
                           et_metadata_find(p->model->texts.metadata, field->name));
    }
    if (!et_value_failed(body))
        et_json_print(&text, body, 0);
    if (text.length)
        et_value_set_string(facts, "example", et_strbuf_text(&text));
    et_strbuf_release(&text);
    et_value *labels = p->facts.labels ? et_value_set_list(facts, "labels") : NULL;
    for (int i = 0; i < p->facts.labels; i++)
        et_value_add_string(labels, p->facts.label[i]);
}

/* ---- values that the model has never seen ---- */

static et_value *add_counter(et_value *counters, const char *name, const char *help)
{
    et_value *counter = et_value_add_dict(counters);
    et_value_set_string(counter, "name", name);
    et_value_set_string(counter, "help", help);
    et_value_set_string(counter, "label", "column");
    return et_value_set_dict(counter, "values");
}

static void count(const et_service *self, et_value *counters)
{
    predictions *all = (predictions *)(void *)self;
    et_value *unknown =
        add_counter(counters, "unknown_values_total", "Values unknown to the model, by column.");
    et_value *missing =
        add_counter(counters, "unseen_missing_total",
                    "Missing values in columns without missing training values, by column.");
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < all->unseen.columns; i++) {
        const et_unknown_values_column *c = &all->unseen.column[i];
        if (c->unknown)
            et_value_set_int(unknown, c->name, c->unknown);
        if (c->missing)
            et_value_set_int(missing, c->name, c->missing);
    }
    pthread_mutex_unlock(&all->lock);
}

static void add_unknown(et_value *list, const char *column, int64_t values, int64_t row,
                        const char *value)
{
    et_value *dict = et_value_add_dict(list);
    et_value_set_string(dict, "column", column);
    et_value_set_int(dict, "values", values);
    et_value_set_int(dict, "row", row);
    et_value_set_string(dict, "value", value);
}

/* Called when all rows of a request are put. Adds the values that the model has never seen to the
 * request's answer and to the service's totals. */
static void take_unseen(predictions *all, et_service_request *request)
{
    asked *what = request->payload;
    et_value *list = what->tells ? et_value_list(request->arena) : NULL;
    for (int i = 0; list && i < all->request.columns; i++) {
        const et_unknown_values_column *c = &all->request.column[i];
        if (c->unknown)
            add_unknown(list, c->name, c->unknown, c->first, c->value);
        if (c->missing)
            add_unknown(list, c->name, c->missing, c->first_absent, NULL);
    }
    if (what->tells && et_value_failed(list))
        request->status = et_alloc_failed(&request->error, "an answer");
    what->unknown = list;
    pthread_mutex_lock(&all->lock);
    et_unknown_values_take(&all->unseen, &all->request);
    pthread_mutex_unlock(&all->lock);
}

/* ---- rows ---- */

static et_cell *cells_of(const predictions *all, const asked *what, int64_t row)
{
    et_assert(row >= 0);
    return what->cells + row * et_encoder_cells(encoder_of(all));
}

/* Other names are ignored, as other columns of CSV, if the row has all columns that the model
 * reads: otherwise a misspelt name would be a missing value. */
static int check_names(const predictions *all, const et_value *row, et_error *error)
{
    const et_encoder *encoder = encoder_of(all);
    const et_schema *schema = et_encoder_schema(encoder);
    const et_value *other = NULL;
    int lacking = 0; /* columns that the model reads and the row does not have */
    for (int i = 0; i < et_schema_count(schema); i++)
        lacking += et_encoder_reads(encoder, i, false);
    for (const et_value *v = row->first; v; v = v->next) {
        const int at = et_schema_position(schema, v->key);
        if (at >= 0)
            lacking -= et_encoder_reads(encoder, at, false);
        else
            other = other ? other : v;
    }
    for (int i = 0; other && lacking && i < et_schema_count(schema); i++) {
        const char *name = et_schema_at(schema, i)->name;
        if (et_encoder_reads(encoder, i, false) && !et_value_get(row, name))
            return et_fail(
                error, ET_EDATA,
                "the model has no column %.64s%s. The row lacks %.64s: give this column, "
                "with null for a missing value",
                other->key, et_predictor_hint(all->predictor, other->key, false).text, name);
    }
    return ET_OK;
}

static int read_row(const predictions *all, et_service_request *request, asked *what,
                    const et_value *row, et_error *error)
{
    const et_table_model *model = all->predictor->model;
    const et_json_columns columns = { et_encoder_row_layout(model->encoder), model->texts.metadata,
                                      model->csv.missing };
    char where[48];
    int status = ET_OK;
    snprintf(where, sizeof where, "row %lld", (long long)request->items + 1);
    if (row->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EDATA, "%s is %s; expected an object, {\"column\": value}", where,
                       et_json_kind_name(row->kind));
    status = check_names(all, row, error);
    if (!status)
        status = et_row_cells(cells_of(all, what, request->items), &columns, row, error);
    if (status)
        return et_fail_while(error, status, "%s", where);
    request->items++;
    return ET_OK;
}

static int make_cells(const predictions *all, et_service_request *request, asked *what, size_t rows,
                      et_error *error)
{
    size_t cells = (size_t)et_encoder_cells(encoder_of(all));
    what->cells = cells > SIZE_MAX / (rows + 1) / sizeof *what->cells
                      ? NULL
                      : et_arena_array(request->arena, rows * cells, sizeof *what->cells);
    return what->cells ? ET_OK : et_alloc_failed(error, "rows");
}

/* Whether the answer names values that the model has never seen. */
static int read_tells(const et_service_request *request, asked *what, et_error *error)
{
    const et_value *tells = et_value_get(request->json, "unknown");
    if (tells && tells->kind != ET_VALUE_BOOL)
        return et_fail(error, ET_EDATA, "unknown: expected true or false, found %s",
                       et_json_kind_name(tells->kind));
    what->tells = tells && tells->boolean;
    if (what->tells && what->form == CSV)
        return et_fail(
            error, ET_EDATA,
            "unknown: not possible in CSV; accept application/json or application/x-ndjson");
    return ET_OK;
}

/* A row in place of the object that has rows. */
static int check_no_row(const predictions *all, const et_value *json, et_error *error)
{
    const et_value *first = json->first;
    if (!first || et_value_get(json, "rows") ||
        et_schema_position(et_encoder_schema(encoder_of(all)), first->key) < 0)
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "the body is a row; rows go in a list: {\"rows\": [{\"%.64s\": ...}]}",
                   first->key);
}

static int read_json(const predictions *all, et_service_request *request, asked *what,
                     et_error *error)
{
    static const char *const keys[] = { "rows", "unknown", NULL };
    const et_value *rows = et_value_get(request->json, "rows");
    int status;
    if (!(status = check_no_row(all, request->json, error)) &&
        !(status = et_service_keys(request, keys, error)))
        status = read_tells(request, what, error);
    if (status)
        return status;
    if (!rows || rows->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EDATA, "rows: expected a list of objects, found %s",
                       rows ? et_json_kind_name(rows->kind) : "nothing");
    if ((int64_t)rows->count > all->items_max) {
        request->items = (int64_t)rows->count; /* too many: the server refuses the request */
        return ET_OK;
    }
    status = make_cells(all, request, what, rows->count, error);
    for (const et_value *row = rows->first; row && !status && !et_service_ended(request);
         row = row->next)
        status = read_row(all, request, what, row, error);
    return status;
}

/* ---- CSV ---- */

/* Cells point into the body. The last row may lack its line end: the body's final 0 makes room for
 * it. If the body has too many rows, one more than the limit is read. */
static int read_csv(const predictions *all, et_service_request *request, asked *what,
                    et_error *error)
{
    static const char *const body = "the body";
    et_rows_options options = { .csv = all->predictor->model->csv,
                                .no_targets = true,
                                .optional = true };
    char *text = request->text;
    const size_t lines = (size_t)et_csv_count_lines(text, text + request->length) + 1;
    const size_t most = (size_t)all->items_max + 1, count = lines < most ? lines : most;
    et_rows *rows = NULL;
    options.csv.names = true;
    what->line = et_arena_array(request->arena, count + 1, sizeof *what->line);
    if (!what->line)
        return et_alloc_failed(error, "rows");
    int status;
    if (!(status = make_cells(all, request, what, count + 1, error)) &&
        !(status = et_csv_open_text(&options.reader, text, request->length, body, &options.csv,
                                    error)) &&
        !(status = et_rows_open_csv(&rows, et_encoder_row_layout(encoder_of(all)),
                                    &(et_strings){ &body, 1 }, &options, error))) {
        const size_t cells = (size_t)et_encoder_cells(encoder_of(all));
        et_row row;
        while (!status && request->items <= all->items_max && !et_service_ended(request)) {
            status = et_rows_next(rows, &row, error);
            if (status || row.end)
                break;
            memcpy(cells_of(all, what, request->items), row.cells, cells * sizeof *what->cells);
            what->line[request->items++] = row.number;
        }
    }
    et_rows_close(rows);
    return status;
}

/* ---- requests ---- */

static void begin_answer(const predictions *all, et_service_request *request)
{
    asked *what = request->payload;
    et_strbuf head = ET_STRBUF_INIT;
    if (what->form == CSV)
        et_prediction_lines_begin(&all->csv, all->predictor, &head);
    else if (what->form == LIST)
        et_strbuf_append(&head, "{\"predictions\": [");
    et_service_answer_text(request, &head);
}

static void end_answer(et_service_request *request)
{
    const asked *what = request->payload;
    et_strbuf end = ET_STRBUF_INIT;
    if (what->form == LIST)
        et_strbuf_append_char(&end, ']');
    if (what->tells) {
        et_strbuf_append(&end, what->form == LIST ? ", \"unknown\": " : "{\"unknown\": ");
        if (what->unknown)
            et_json_print(&end, what->unknown, 0);
        else
            et_strbuf_append(&end, "[]");
    }
    if (what->form == LIST || what->tells)
        et_strbuf_append(&end, "}\n");
    et_service_answer_text(request, &end);
}

static int read_request(et_service *self, et_service_request *request, et_error *error)
{
    const predictions *all = (const predictions *)(const void *)self;
    asked *what = et_arena_alloc(request->arena, sizeof *what);
    request->payload = what;
    if (!what)
        return et_alloc_failed(error, "a request");
    const double csv = et_http_accepts(request->accept, "text/csv");
    const double lines = et_http_accepts(request->accept, "application/x-ndjson");
    const double list = fmax(et_http_accepts(request->accept, "application/json"),
                             et_http_accepts(request->accept, "*/*"));
    what->form = LIST;
    if (csv > 0 && csv >= lines && csv >= list) {
        what->form = CSV;
        request->answer_type = "text/csv; charset=utf-8";
    } else if (lines > 0 && lines >= list) {
        what->form = LINES;
        request->answer_type = "application/x-ndjson";
    }
    int status =
        request->json ? read_json(all, request, what, error) : read_csv(all, request, what, error);
    if (!status && !request->items) {
        begin_answer(all, request);
        end_answer(request);
    }
    return status;
}

/* ---- answers ---- */

#define WHERE 48

static void name_row(const asked *what, int64_t row, char *where)
{
    snprintf(where, WHERE, what->line ? "the body:%lld" : "row %lld",
             (long long)(what->line ? what->line[row] : row + 1));
}

/* A line of JSON ends with a line end, which in a list is a comma's place. */
static void answer_row(predictions *all, struct origin *origin, int64_t at)
{
    et_assert(at >= 0);
    et_service_request *request = origin->request;
    asked *what = request->payload;
    const et_prediction_lines *lines = what->form == CSV ? &all->csv : &all->json;
    char where[WHERE];
    name_row(what, origin->row, where);
    request->status = et_predictor_check(all->predictor, at, where, &request->error);
    if (request->status)
        return;
    et_strbuf_reset(&all->line);
    const et_cell *cells = cells_of(all, what, origin->row);
    const et_prediction_row line = { .key = et_predictor_key(all->predictor, cells) };
    et_prediction_lines_add(lines, all->predictor, at, &line, &all->line);
    if (all->line.failed) {
        request->status = et_alloc_failed(&request->error, "an answer");
        return;
    }
    if (what->form == LIST && what->written++)
        et_service_answer(request, ",\n", 2);
    et_service_answer(request, all->line.data, all->line.length - (what->form == LIST));
}

/* Computes and answers the rows that were put. */
static void run_batch(predictions *all)
{
    et_error error = ET_ERROR_INIT;
    int status = all->count ? et_predictor_run(all->predictor, all->count, &error) : ET_OK;
    for (int64_t i = 0; i < all->count; i++) {
        et_service_request *request = all->origin[i].request;
        if (request->status)
            continue;
        if (!status) {
            answer_row(all, &all->origin[i], i);
            continue;
        }
        request->status = status;
        request->error = error;
    }
    all->count = 0;
}

/* An invalid row ends its request; earlier rows of the request are computed but not answered. If
 * the client no longer waits, the remaining rows are skipped. */
static void put_rows(predictions *all, et_service_request *request)
{
    const asked *what = request->payload;
    for (int64_t row = 0; row < request->items && !request->status && !et_service_ended(request);
         row++) {
        char where[WHERE];
        name_row(what, row, where);
        request->status = et_predictor_put(all->predictor, all->count, cells_of(all, what, row),
                                           where, &request->error);
        if (request->status) {
            et_unknown_values_clear(&all->request);
            return;
        }
        et_unknown_values_add(&all->request, cells_of(all, what, row), NULL, row + 1);
        all->origin[all->count++] = (struct origin){ request, row };
        if (all->count == all->predictor->batch_size)
            run_batch(all);
    }
    take_unseen(all, request);
}

static void answer(et_service *self, et_service_request *const *requests, size_t count)
{
    predictions *all = (predictions *)(void *)self;
    for (size_t i = 0; i < count; i++) {
        begin_answer(all, requests[i]);
        put_rows(all, requests[i]);
    }
    run_batch(all);
    for (size_t i = 0; i < count; i++)
        end_answer(requests[i]);
}

const et_service_class et_tabular_service = {
    .name = "predict",
    .items = "rows",
    .example = "{\"rows\": [{\"age\": 39, \"job\": \"clerk\"}]}",
    .types = (const char *const[]){ "text/csv", NULL },
    .decides = true,
    .open = open_service,
    .close = close_service,
    .describe = describe,
    .read = read_request,
    .answer = answer,
    .count = count,
};
