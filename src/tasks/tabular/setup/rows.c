/* Opens the rows: encoded and numbered training rows; validation rows, from other files or held
 * out. */
#include <math.h>
#include <string.h>

#include <etude/log.h>
#include <etude/settings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "data/batches/source.h"
#include "data/table/analysis/column_use.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"
#include "data/table/table.h"
#include "data/text/paths.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/identity.h"

/* ---- a mix ---- */

/* task.train_data.mix. The files of all parts are one table, so schema, classes and held-out rows
 * are those of all parts. A part is a range of rows, and training samples are drawn from the parts
 * by weight. */
static const et_tabular_part *part_at(const et_tabular_task *task, size_t i)
{
    return (const et_tabular_part *)task->options.train_data.mix.items + i;
}

/* The files of all parts become task->paths. */
static int find_mix(et_tabular_task *task, et_error *error)
{
    const size_t count = task->options.train_data.mix.count;
    et_strings found[ET_TABULAR_MIX_MAX], *all = &task->paths;
    size_t files = 0;
    for (size_t i = 0; i < count; i++) {
        int status = et_paths_match(&found[i], &part_at(task, i)->input_path, "task.train_data.mix",
                                    &task->arena, error);
        if (status)
            return status;
        task->mix.file[i] = files;
        files += found[i].count;
    }
    const char **items = et_arena_alloc(&task->arena, files * sizeof *items);
    if (!items)
        return et_alloc_failed(error, files * sizeof *items, "paths");
    *all = (et_strings){ .items = items };
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < found[i].count; k++)
            items[all->count++] = found[i].items[k];
    return ET_OK;
}

/* Rows of the table. They are in order, and so is the table's end where there is a limit. */
static int open_mix_part(et_samples **out, const et_tabular_task *task, size_t at,
                         const unsigned char *side, uint32_t *which, et_error *error)
{
    et_assert(at < task->options.train_data.mix.count);
    const int64_t begin = at ? task->mix.end[at - 1] : 0;
    int64_t end = task->mix.end[at], count = 0;
    end = end < task->table->count ? end : task->table->count;
    for (int64_t row = begin; row < end; row++)
        if (!side || side[row] == ET_TABULAR_LEARNED)
            which[count++] = (uint32_t)row;
    if (!count)
        return et_fail(error, ET_EDATA,
                       "task.train_data.mix[%zu]: %s: no row is left for training; leave this "
                       "table out, or change held_out or limit",
                       at, task->paths.items[task->mix.file[at]]);
    return et_tabular_choose(out, task->table, which, count, error);
}

/* The training data become a mix of the rows that are learned; side NULL: all are. */
static int open_mix(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    et_assert(task->table);
    const et_tabular_data *data = &task->options.train_data;
    const size_t count = data->mix.count;
    const uint64_t seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed;
    et_samples *parts[ET_TABULAR_MIX_MAX] = { NULL };
    double weights[ET_TABULAR_MIX_MAX];
    uint32_t *which = et_alloc((size_t)task->table->count, sizeof *which);
    int status =
        which ? ET_OK : et_alloc_failed(error, (size_t)task->table->count * sizeof *which, "rows");
    for (size_t i = 0; !status && i < count; i++) {
        weights[i] = part_at(task, i)->weight;
        status = open_mix_part(&parts[i], task, i, side, which, error);
    }
    if (!status)
        status = et_mix_open(&task->training, parts, weights, (int)count, seed, error);
    for (size_t i = 0; status && i < count; i++)
        et_samples_close(parts[i]);
    et_free(which);
    return status;
}

/* ---- the group or the time of each row ---- */

/* A column of the training table beside its encoded rows. */
typedef struct row_keys {
    uint64_t *group; /* [count] equal for equal values; NULL: times were asked for */
    double *time;    /* [count] numbers, or dates in seconds (et_date_seconds); NULL: groups were */
    int64_t count;
} row_keys;

typedef struct key_reading {
    row_keys *keys;
    size_t capacity;
    et_rows *rows;
    const et_encoder *encoder;
    const char *column;
    int field; /* of the schema */
    int cell;  /* of a row */
    et_number_format format;
    bool times;
    bool dates; /* the texts of times are dates */
    et_date_order order;
    int zone;  /* of the first date */
    void **to; /* [fields]: a row, encoded */
    et_error *error;
} key_reading;

static int refuse(const key_reading *r, const et_row *row, const char *what)
{
    const et_cell *cell = &row->cells[r->cell];
    return et_fail(r->error, ET_EDATA, "%s:%lld: column %s: \"%.*s\" %s",
                   r->rows->paths.items[row->file], (long long)row->number, r->column,
                   (int)(cell->length < 40 ? cell->length : 40), cell->text, what);
}

/* Times are in order only in one zone, or if all say how far they are from UTC. */
static int check_zone(key_reading *r, const et_row *row, const et_date *date)
{
    if (!r->keys->count)
        r->zone = date->zone;
    if (date->zone == r->zone)
        return ET_OK;
    return refuse(r, row,
                  !date->zone
                      ? "has no time zone, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset from UTC in every row: 2024-05-31T12:30+02:00"
                  : date->zone == ET_DATE_OFFSET
                      ? "has an offset from UTC, unlike earlier rows, so the order of the times is "
                        "unknown; write the offset in every row: 2024-05-31T12:30+02:00"
                      : "names a time zone of unknown offset, so the order of the times is "
                        "unknown; write the offset from UTC: 2024-05-31T12:30+02:00");
}

static int read_time(key_reading *r, double *time, const et_row *row)
{
    const et_cell *cell = &row->cells[r->cell];
    et_date date;
    if (!r->dates)
        return et_number_is(et_notation_parse(time, &r->format, cell->text, cell->length)) &&
                       isfinite(*time)
                   ? ET_OK
                   : refuse(r, row, "is not a number, as in other rows; correct it");
    if (!et_date_read(&date, cell->text, cell->length, r->order))
        return refuse(r, row,
                      r->order == ET_DATE_DAY_FIRST
                          ? "is not a date with the day first, as --time needs; write "
                            "2024-05-31T12:30"
                          : "is not a date, as --time needs; write 2024-05-31T12:30");
    *time = et_date_seconds(&date);
    return check_zone(r, row, &date);
}

static int keep(key_reading *r, const et_row *row)
{
    row_keys *keys = r->keys;
    const et_cell *cell = &row->cells[r->cell];
    double number = 0;
    if (!cell->text)
        return et_fail(r->error, ET_EDATA,
                       "%s:%lld: column %s has no value; fill it in, or leave the row out",
                       r->rows->paths.items[row->file], (long long)row->number, r->column);
    int status = r->times ? read_time(r, &number, row) : ET_OK;
    if (status)
        return status;
    void *grown = r->times ? (void *)et_vector_grow(keys->time, &r->capacity,
                                                    (size_t)keys->count + 1, sizeof number, 1024)
                           : et_vector_grow(keys->group, &r->capacity, (size_t)keys->count + 1,
                                            sizeof(uint64_t), 1024);
    if (!grown)
        return et_alloc_failed(r->error, r->capacity * sizeof number, "keys of rows");
    if (r->times) {
        keys->time = grown;
        keys->time[keys->count++] = number;
        return ET_OK;
    }
    /* In a column of numbers, "1" and "1.0" are the same group. */
    const et_schema *schema = et_encoder_schema(r->encoder);
    const bool numeric =
        et_schema_at(schema, r->field)->type != ET_SCHEMA_DISCRETE &&
        et_number_is(et_notation_parse(&number, &r->format, cell->text, cell->length));
    keys->group = grown;
    keys->group[keys->count++] =
        numeric ? et_checksum(&number, sizeof number) : et_checksum(cell->text, cell->length);
    return ET_OK;
}

/* As a table of samples leaves them out. */
static bool has_target(const key_reading *r)
{
    const et_encoder *encoder = r->encoder;
    for (int f = 0; f < et_encoder_fields(encoder); f++) {
        const et_encoded_field *field = et_encoder_field(encoder, f);
        const float *value = r->to[f];
        int32_t class;
        memcpy(&class, value, sizeof class);
        if (field->kind == ET_ENCODED_CLASS && class < 0)
            return false;
        const bool numbers = et_encoded_is_target(field->kind) && field->kind != ET_ENCODED_CLASS;
        for (int64_t i = 0; numbers && i < field->width; i++)
            if (isnan(value[i]))
                return false;
    }
    return true;
}

static int find_column(key_reading *r, const et_encoder *encoder)
{
    const et_schema *schema = et_encoder_schema(encoder);
    const char *option = r->times ? "--time" : "--group";
    r->field = et_schema_position(schema, r->column);
    if (r->field < 0) {
        const int count = et_schema_count(schema);
        const char **names = et_alloc_zero((size_t)count + 1, sizeof *names);
        for (int i = 0; names && i < count; i++)
            names[i] = et_schema_at(schema, i)->name;
        const int status = et_fail(
            r->error, ET_ECONFIG,
            "%s: the table has no column %.60s%s; `etude data analyze FILE` lists its columns",
            option, r->column, names ? et_nearest_hint(r->column, names, "").text : "");
        et_free(names);
        return status;
    }
    const et_schema_field *field = et_schema_at(schema, r->field);
    if (et_encoder_cell_count(encoder, r->field) != 1 || field->length == ET_SCHEMA_VARIABLE)
        return et_fail(r->error, ET_ECONFIG,
                       "%s: column %s has several values in a row; name another column", option,
                       r->column);
    r->cell = et_encoder_cell(encoder, r->field);
    r->format = et_number_format_of(field);
    r->dates = field->type == ET_SCHEMA_DISCRETE;
    return ET_OK;
}

/* Reads the rows that have a target, in the order of et_table_samples_open with the same encoder
 * and paths. order: of dates. ET_ECONFIG: the table has no such column. ET_EDATA: a row has no
 * value; with times, a value that is neither a number nor a date, or whose time zone cannot be
 * compared with that of earlier rows. */
static int row_keys_read(row_keys *keys, const char *column, bool times, et_date_order order,
                         const et_encoder *encoder, const et_metadata *metadata,
                         const et_strings *paths, const et_rows_options *options, et_error *error)
{
    et_assert(keys && column && paths->count);
    const int fields = et_encoder_fields(encoder);
    const et_layout *layout = et_encoder_layout(encoder);
    key_reading r = { .keys = keys,
                      .column = column,
                      .times = times,
                      .order = order,
                      .encoder = encoder,
                      .error = error };
    et_arena arena = ET_ARENA_INIT;
    et_row row = { .end = false };
    *keys = (row_keys){ 0 };
    int status = find_column(&r, encoder);
    if (status)
        return status;
    r.to = et_arena_array(&arena, (size_t)fields, sizeof *r.to);
    for (int f = 0; r.to && f < fields; f++)
        r.to[f] = et_arena_array(&arena, (size_t)et_shape_count(layout->field[f].item),
                                 et_dtype_size(layout->field[f].dtype));
    if (arena.failed)
        status = et_alloc_failed(error, (size_t)fields * sizeof *r.to, "a row");
    if (!status)
        status = et_rows_open_files(&r.rows, et_encoder_row_layout(encoder), paths, options,
                                    metadata, error);
    while (!status && !(status = et_rows_next(r.rows, &row, error)) && !row.end) {
        status = et_row_encode(encoder, r.rows, &row, r.to, error);
        if (!status && has_target(&r))
            status = keep(&r, &row);
    }
    et_rows_close(r.rows);
    et_arena_release(&arena);
    return status;
}

/* ---- rows ---- */

/* Of a setting that was checked. */
static char character(const char *text)
{
    char c = 0;
    (void)et_csv_character(&c, text);
    return c;
}

et_table_samples_options et_tabular_table_options(const et_tabular_options *options,
                                                  const char *const *missing)
{
    static const et_header headers[] = { [ET_TABULAR_HEADER_AUTO] = ET_HEADER_FOUND,
                                         [ET_TABULAR_HEADER_TRUE] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_FALSE] = ET_HEADER_ABSENT,
                                         [ET_TABULAR_HEADER_YES] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_NO] = ET_HEADER_ABSENT };
    return (et_table_samples_options){ .csv = { .delimiter = character(options->delimiter),
                                                .comment = character(options->comment),
                                                .missing = missing },
                                       .header = headers[options->header] };
}

int et_tabular_open_table(et_tabular_task *task, et_samples **out, const et_strings *paths,
                          int64_t limit, et_error *error)
{
    et_assert(out && paths->count && limit >= 0);
    et_table_samples_options options = et_tabular_table_options(&task->options, task->missing);
    et_samples *all;
    options.paths = *paths;
    if (paths != &task->paths) {
        options.csv.known = &task->known;
        options.metadata = task->texts.metadata;
    }
    int status = et_table_samples_open(&all, task->encoder, &options, error);
    if (!status && paths == &task->paths) {
        const size_t count = task->options.train_data.mix.count;
        for (size_t i = 0; i < count; i++)
            task->mix.end[i] =
                i + 1 < count ? et_table_first(all, task->mix.file[i + 1]) : all->count;
    }
    if (status || !limit || limit >= all->count) {
        *out = status ? NULL : all;
        return status;
    }
    status = et_take_open(out, all, limit, error);
    if (status)
        et_samples_close(all);
    return status;
}

/* Whether the training rows are needed. An evaluation on other rows does not need them. */
static bool is_trained(const et_tabular_task *task)
{
    return !task->context.evaluates || !et_tabular_has_validation_data(&task->options);
}

int et_tabular_find_files(et_tabular_task *task, et_error *error)
{
    const et_tabular_data *from = &task->options.train_data;
    const et_tabular_data *data = &task->options.validation_data;
    int status = !is_trained(task) ? ET_OK
                 : from->mix.count
                     ? find_mix(task, error)
                     : et_paths_match(&task->paths, &from->input_path, "task.train_data.input_path",
                                      &task->arena, error);
    if (!status && data->input_path.count)
        status = et_paths_match(&task->validation_paths[0], &data->input_path,
                                "task.validation_data.input_path", &task->arena, error);
    for (size_t i = 0; i < data->sets.count && !status; i++)
        status = et_paths_match(&task->validation_paths[i],
                                &((const et_tabular_set *)data->sets.items)[i].input_path,
                                "task.validation_data.sets", &task->arena, error);
    return status;
}

/* ---- the split ---- */

typedef struct class_reading {
    int field;
    int32_t *class; /* [rows] */
} class_reading;

static void read_classes(void *payload, const et_batch *batch, int64_t first)
{
    const class_reading *r = payload;
    memcpy(r->class + first, batch->data[r->field], (size_t)batch->filled[0] * sizeof *r->class);
}

/* The rows of the table on one side. */
static int open_part(et_samples **out, et_samples *table, const unsigned char *side,
                     et_tabular_side wanted, uint32_t *which, et_error *error)
{
    int64_t count = 0;
    for (int64_t i = 0; i < table->count; i++)
        if (side[i] == wanted)
            which[count++] = (uint32_t)i;
    return et_tabular_choose(out, table, which, count, error);
}

/* Opens the training rows: all rows (side NULL), or the rows of the table that are learned. which:
 * room for the numbers of rows. */
static int open_training(et_tabular_task *task, const unsigned char *side, uint32_t *which,
                         et_error *error)
{
    et_samples *rows = task->table ? task->table : task->validation_tables[0];
    if (task->table && task->options.train_data.mix.count)
        return open_mix(task, side, error);
    return side ? open_part(&task->training, rows, side, ET_TABULAR_LEARNED, which, error)
                : et_tabular_borrow(&task->training, rows, error);
}

static int list_validated(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    et_assert(task->table && task->validation[0] && !task->validated);
    const size_t count = (size_t)task->validation[0]->count;
    task->validated = et_alloc(count + 1, sizeof *task->validated);
    if (!task->validated)
        return et_alloc_failed(error, count * sizeof *task->validated, "validated rows");
    for (int64_t row = 0, at = 0; row < task->table->count; row++)
        if (side[row] == ET_TABULAR_VALIDATED)
            task->validated[at++] = (uint32_t)row;
    return ET_OK;
}

/* Rows of one time or group are on one side, so the share may be far from the set one. */
static void tell_share(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    const int64_t held = task->validation[0]->count, rows = task->table->count;
    if (task->context.evaluates || (double)held <= 2 * o->held_out * (double)rows ||
        2 * held <= rows)
        return;
    const bool times = et_tabular_is_named(o->time);
    et_log(ET_LOG_WARNING,
           "%s of %s rows are held out, and the model learns only the others: all rows with the "
           "same %s are on one side; name another column with %s, or validation rows with --valid",
           et_format_count(held).text, et_format_count(rows).text, times ? o->time : o->groups,
           times ? "--time" : "--group");
}

static int split(et_tabular_task *task, unsigned char *side, uint32_t *which, int32_t *class,
                 const row_keys *keys, et_error *error)
{
    et_assert(keys && which);
    et_samples *table = task->table;
    const et_tabular_options *o = &task->options;
    const et_tabular_splitting how = { .rows = table->count,
                                       .class = class,
                                       .group = keys->group,
                                       .time = keys->time,
                                       .folds = o->n_splits,
                                       .share = o->held_out,
                                       .seed = task->context.seed };
    int status = ET_OK;
    if (class) {
        class_reading r = { et_layout_find(&table->layout, task->target.field->name), class };
        status = et_tabular_read(table, table->count, read_classes, &r, error);
    }
    if (!status)
        status = et_tabular_parts(side, &how, error);
    if (!status && o->n_splits)
        status = et_tabular_warn_copies(task, side, NULL, error);
    for (int64_t i = 0; !status && i < table->count; i++)
        side[i] = (unsigned char)et_tabular_side_of(&how, side[i], o->fold < 0 ? 0 : o->fold);
    const bool each = o->n_splits && o->fold < 0; /* in turn: only whether they can be made */
    if (!status)
        status = open_training(task, each ? NULL : side, which, error);
    if (each && !task->context.evaluates)
        return status;
    if (each)
        memset(side, ET_TABULAR_VALIDATED, (size_t)table->count);
    if (!status)
        status = open_part(&task->validation[0], table, side, ET_TABULAR_VALIDATED, which, error);
    task->validations = !status;
    if (!status && !o->n_splits)
        tell_share(task);
    return status ? status : list_validated(task, side, error);
}

/* Reads the groups or times of all rows of the files; a table with a limit has the first rows. */
static int read_keys(const et_tabular_task *task, row_keys *keys, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool times = et_tabular_is_named(o->time);
    const et_table_samples_options table = et_tabular_table_options(o, task->missing);
    const et_rows_options how = { .csv = table.csv, .header = table.header };
    if (!times && !et_tabular_is_named(o->groups))
        return ET_OK;
    const char *column = times ? o->time : o->groups;
    const et_date_order given = et_column_date_order(task->texts.features, column);
    const et_date_order order =
        given ? given : et_metadata_find(task->texts.metadata, column)->order;
    if (times && order == ET_DATE_TIME && !task->context.evaluates)
        et_log(ET_LOG_WARNING,
               "column %s has times of day without a date: --time orders rows of all days by their "
               "time of day",
               column);
    int status = row_keys_read(keys, column, times, order, task->encoder, task->texts.metadata,
                               &task->paths, &how, error);
    et_assert(status || keys->count >= task->table->count);
    return status;
}

static int hold_out(et_tabular_task *task, et_error *error)
{
    et_assert(task->table);
    const size_t rows = (size_t)task->table->count;
    const bool classes = task->target.classes;
    if (rows < 2)
        return et_fail(
            error, ET_EDATA,
            "only %zu row: too few to hold out any; name validation_data, or set task.held_out: 0",
            rows);
    row_keys keys = { 0 };
    unsigned char *side = et_alloc(rows, sizeof *side);
    uint32_t *which = et_alloc(rows, sizeof *which);
    int32_t *class = classes ? et_alloc(rows, sizeof *class) : NULL;
    int status = side && which && (class || !classes)
                     ? read_keys(task, &keys, error)
                     : et_alloc_failed(error, rows * sizeof *which, "rows that are held out");
    if (!status)
        status = split(task, side, which, class, &keys, error);
    et_free(keys.group);
    et_free(keys.time);
    et_free(side);
    et_free(which);
    et_free(class);
    return status;
}

bool et_tabular_has_out_of_fold(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return o->n_splits && o->fold < 0 && !et_tabular_has_validation_data(o) &&
           et_file_exists_in(task->context.model_dir, ET_SERIES_FOLDS);
}

/* Refuses validation files together with folds in training, and an evaluation of folds that has no
 * rows to score. */
static int check_folds(const et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool group = et_tabular_is_named(o->groups), time = et_tabular_is_named(o->time);
    const char *setting = o->n_splits ? "n_splits" : group ? "groups" : time ? "time" : NULL;
    if (setting && task->validation_paths[0].count && !task->context.evaluates)
        return et_fail(error, ET_ECONFIG,
                       "task.%s splits the training rows, but validation_data names files; leave "
                       "one of them out",
                       setting);
    if (o->n_splits && o->fold < 0 && !task->validation_paths[0].count && task->context.evaluates &&
        !et_tabular_has_out_of_fold(task))
        return et_fail(error, ET_ECONFIG,
                       "the model was trained on folds, so some of its models learned each row; "
                       "name a file to evaluate");
    return ET_OK;
}

/* Whether rows of the training files are validated, here or fold by fold. */
static bool splits(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return !task->validation_tables[0] && (o->n_splits || o->held_out > 0);
}

/* ---- opening ---- */

/* Checks by checksum that the rows are those of the newest checkpoint. */
static int check_same_rows(const et_tabular_task *task, et_error *error)
{
    const et_identity *identity = task->context.identity;
    const char *digits;
    uint64_t was, is = task->training->fingerprint;
    if (!is_trained(task) || !identity || !identity->values ||
        et_value_read_string(identity->values, ET_IDENTITY_DATA, &digits, NULL) ||
        !et_checksum_parse(&was, digits) || was == is)
        return ET_OK;
    const char *run = task->context.model_dir, *file = task->paths.items[0];
    if (task->options.ensemble.count)
        return et_fail(error, ET_EDATA,
                       "%s was trained on other rows than %s (checksum %s, was %s); train another "
                       "run on these",
                       run, file, et_checksum_print(is).digits, digits);
    return et_fail(
        error, ET_EDATA,
        "%s was trained on other rows than %s, or with other held-out rows (checksum %s, was %s). "
        "Train another run from its weights, for example: etude train %s-2 --init %s --data %s",
        run, file, et_checksum_print(is).digits, digits, run, run, file);
}

char et_tabular_delimiter_of(const et_value *identity)
{
    const et_value *text = et_value_get(identity, ET_IDENTITY_DELIMITER);
    const bool one = text && text->kind == ET_VALUE_STRING && text->string[0] && !text->string[1];
    return one && et_csv_may_delimit(text->string[0]) ? text->string[0] : 0;
}

/* ---- weights ---- */

typedef struct weights {
    int field;
    double sum;
} weights;

static void add_weights(void *payload, const et_batch *batch, int64_t first)
{
    weights *w = payload;
    const float *weight = batch->data[w->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        w->sum += (double)weight[i];
}

/* Checks that some row has a weight above 0; otherwise there is no loss and no score. */
static int check_weights_of(const et_tabular_task *task, et_samples *rows, const char *what,
                            et_error *error)
{
    weights w = { 0, 0 };
    if (!task->target.weight)
        return ET_OK;
    w.field = et_layout_find(&rows->layout, task->target.weight);
    int status = et_tabular_read(rows, rows->count, add_weights, &w, error);
    return status || w.sum > 0
               ? status
               : et_fail(error, ET_EDATA,
                         "all weights of the %s rows are 0: give some of them a weight above 0",
                         what);
}

/* Finds the delimiter of the first training file, or without training that of the newest
 * checkpoint. Errors in the rows of the file are reported by the reader of all rows. */
static int find_delimiter(et_tabular_task *task, et_error *error)
{
    const et_identity *identity = task->context.identity;
    if (is_trained(task) && !et_path_is_jsonl(task->paths.items[0])) {
        const et_csv_options options = et_tabular_table_options(&task->options, task->missing).csv;
        et_csv_row row;
        et_csv *csv;
        int status = et_csv_open(&csv, task->paths.items[0], &options, error);
        if (status)
            return status;
        (void)et_csv_next(csv, &row, NULL);
        task->delimiter = et_csv_delimiter(csv);
        et_csv_close(csv);
    } else if (!is_trained(task) && identity)
        task->delimiter = et_tabular_delimiter_of(identity->values);
    task->known = et_columns_known(et_encoder_row_layout(task->encoder), task->delimiter);
    return ET_OK;
}

int et_tabular_open_rows(et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const et_table_samples_options how = et_tabular_table_options(o, task->missing);
    int status = check_folds(task, error);
    if (!status)
        status = find_delimiter(task, error);
    if (!status && is_trained(task))
        status =
            et_tabular_open_table(task, &task->table, &task->paths, o->train_data.limit, error);
    for (int i = 0; i < ET_TABULAR_SETS_MAX && !status && task->validation_paths[i].count; i++) {
        status = et_tabular_open_table(task, &task->validation_tables[i],
                                       &task->validation_paths[i], o->validation_data.limit, error);
        if (!status)
            status = et_tabular_borrow(&task->validation[i], task->validation_tables[i], error);
        task->validations += !status;
    }
    if (!status)
        status = splits(task) ? hold_out(task, error) : open_training(task, NULL, NULL, error);
    if (!status)
        status = check_same_rows(task, error);
    if (!status && task->training)
        status = check_weights_of(task, task->training, "training", error);
    for (int i = 0; i < task->validations && !status; i++)
        status = check_weights_of(task, task->validation[i], "validation", error);
    if (!status && (!o->n_splits || task->validation_tables[0]))
        status = et_tabular_warn_copies(task, NULL, &how, error);
    return status ? status : et_tabular_warn_unlearnable(task, error);
}

void et_tabular_close_rows(et_tabular_task *task)
{
    et_free(task->validated);
    et_samples_close(task->training);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->validation[i]);
    et_samples_close(task->table);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->validation_tables[i]);
}
