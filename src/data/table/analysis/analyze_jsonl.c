/* Tables of JSON lines: a first pass finds the columns, which are all keys in the order in which
 * they come, and the others read their values one by one, as those of CSV. A row that lacks a key
 * has no value there. Strings such as "NA", which CSV files have for missing values, are missing in
 * a column of numbers and texts in a column of texts, as in prediction. */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "data/table/analysis/analyze_private.h"
#include "data/table/rows/csv_scan.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/schema.h"

/* A column while it is found. */
typedef struct found {
    const char *name;       /* in the arena */
    int64_t numbers, texts; /* values; neither counts the usual words for missing ones */
} found;

typedef struct reading {
    et_table_stats *stats;
    et_rows *rows; /* of the open file */
    int file;
    et_arena line;
    et_map index; /* of names to columns */
} reading;

/* One line. */
typedef int line_fn(void *payload, reading *r, const et_value *object, int64_t line,
                    et_error *error);

static const char *path_of(const reading *r)
{
    return r->stats->paths->items[r->file];
}

static int parse(reading *r, const et_row *row, line_fn *use, void *payload, et_error *error)
{
    et_value *object;
    et_arena_release(&r->line);
    int status = et_json_parse_written(&object, &r->line, row->json.data, row->json.length,
                                       "the line", error);
    if (status == ET_EFORMAT)
        return et_fail_while(error, ET_EDATA, "%s:%lld", path_of(r), (long long)row->number);
    if (!status && object->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: %s is not a row; write an object, {\"column\": value}", path_of(r),
                       (long long)row->number, et_json_kind_name(object->kind));
    return status ? status : use(payload, r, object, row->number, error);
}

static int read_file(reading *r, line_fn *use, void *payload, et_error *error)
{
    const et_strings one = { &r->stats->paths->items[r->file], 1 };
    et_row row;
    int status = et_rows_open_jsonl(&r->rows, NULL, &one, -1, error);
    while (!status) {
        status = et_rows_next(r->rows, &row, error);
        if (status || row.end)
            break;
        status = parse(r, &row, use, payload, error);
    }
    et_rows_close(r->rows);
    r->rows = NULL;
    return status;
}

static int read_lines(et_table_stats *stats, et_map *index, line_fn *use, void *payload,
                      et_error *error)
{
    reading r = { .stats = stats, .line = ET_ARENA_INIT, .index = *index };
    int status = ET_OK;
    for (; !status && r.file < (int)stats->paths->count; r.file++)
        status = read_file(&r, use, payload, error);
    *index = r.index;
    et_arena_release(&r.line);
    return status;
}

/* ---- columns ---- */

typedef struct finding {
    found *columns;
    size_t count, capacity;
    et_arena *arena; /* of names */
} finding;

static int add_column(finding *f, reading *r, const char *name, int64_t line, et_error *error)
{
    found *columns = et_vector_grow(f->columns, &f->capacity, f->count + 1, sizeof *columns, 64);
    char *copy = et_arena_strdup(f->arena, name);
    if (columns)
        f->columns = columns;
    if (!*name)
        return et_fail(error, ET_EDATA, "%s:%lld: a key is empty: give the column a name",
                       path_of(r), (long long)line);
    if (f->count == ET_CSV_COLUMNS_MAX)
        return et_fail(error, ET_EDATA, "%s:%lld: more than %d columns", path_of(r),
                       (long long)line, ET_CSV_COLUMNS_MAX);
    if (!columns || !copy || !et_map_put(&r->index, copy, (int64_t)f->count))
        return et_alloc_failed(error, sizeof *columns, "columns");
    columns[f->count++] = (found){ .name = copy };
    return ET_OK;
}

static bool is_number(const char *text)
{
    static const et_number_format plain;
    double number;
    const et_cell_class class = et_cell_classify(&plain, text, strlen(text), &number);
    return class == ET_CELL_INTEGER || class == ET_CELL_REAL ||
           (class == ET_CELL_TEXT && et_notation_find(text, strlen(text)).notations);
}

static void count_value(found *to, const et_value *value)
{
    if (value->kind == ET_VALUE_INT || value->kind == ET_VALUE_FLOAT)
        to->numbers++;
    else if (value->kind == ET_VALUE_BOOL)
        to->texts++;
    else if (value->kind == ET_VALUE_STRING && !et_is_one_of(value->string, et_csv_usual_missing))
        *(is_number(value->string) ? &to->numbers : &to->texts) += 1;
}

static int find_line(void *payload, reading *r, const et_value *object, int64_t line,
                     et_error *error)
{
    finding *f = payload;
    int status = ET_OK;
    for (const et_value *v = object->first; v && !status; v = v->next) {
        int64_t at = (int64_t)f->count;
        if (v->kind == ET_VALUE_LIST || v->kind == ET_VALUE_DICT)
            return et_fail(error, ET_EDATA,
                           "%s:%lld: column %.60s is %s: give one value (write a column for each "
                           "part, such as %.60s.%s)",
                           path_of(r), (long long)line, v->key, et_json_kind_name(v->kind), v->key,
                           v->kind == ET_VALUE_DICT && v->first ? v->first->key : "1");
        if (!et_map_get(&r->index, v->key, &at))
            status = add_column(f, r, v->key, line, error);
        if (!status)
            count_value(&f->columns[at], v);
    }
    return status;
}

/* Each key is a field. */
static int take_columns(et_table_head *head, const finding *f, et_arena *arena, et_error *error)
{
    head->columns = head->fields = (int)f->count;
    head->name = et_arena_array(arena, f->count, sizeof *head->name);
    head->numeric = et_arena_array(arena, f->count, sizeof *head->numeric);
    for (size_t i = 0; !arena->failed && i < f->count; i++) {
        head->name[i] = f->columns[i].name;
        head->numeric[i] = (double)f->columns[i].texts <=
                           ET_TEXT_SHARE * (double)(f->columns[i].texts + f->columns[i].numbers);
    }
    return arena->failed ? et_alloc_failed(error, f->count * sizeof *head->name, "columns") : ET_OK;
}

static int take_schema(et_table_head *head, const et_schema *schema, et_arena *arena,
                       et_error *error)
{
    head->columns = head->fields = et_schema_count(schema);
    head->name = et_arena_array(arena, (size_t)head->fields, sizeof *head->name);
    head->numeric = et_arena_array(arena, (size_t)head->fields, sizeof *head->numeric);
    for (int i = 0; !arena->failed && i < head->fields; i++) {
        head->name[i] = et_schema_at(schema, i)->name;
        head->numeric[i] = et_schema_numeric(et_schema_at(schema, i));
    }
    return arena->failed ? et_alloc_failed(error, sizeof *head->name, "columns") : ET_OK;
}

int et_table_head_jsonl(et_table_stats *stats, et_arena *arena, et_error *error)
{
    et_table_head *head = &stats->head;
    et_map index = ET_MAP_INIT;
    finding f = { .arena = arena };
    *head = (et_table_head){ .jsonl = true, .header = true };
    if (stats->options->schema)
        return take_schema(head, stats->options->schema, arena, error);
    int status = read_lines(stats, &index, find_line, &f, error);
    if (!status && !f.count)
        status = et_fail(error, ET_EDATA, "%s: the file has no rows", *stats->paths->items);
    if (!status)
        status = take_columns(head, &f, arena, error);
    et_map_release(&index);
    et_free(f.columns);
    return status;
}

/* ---- values ---- */

typedef struct adding {
    const et_value **value; /* [fields]: of the line; NULL: it has none */
} adding;

/* Adds one value; text NULL: it is missing. */
static void add_text(et_column_stats *stats, const char *text, int file, int64_t line)
{
    static const uint32_t first_line;
    unsigned char class = ET_CELL_MISSING;
    double number = 0;
    const et_text_span span = { 0, (uint32_t)(text ? strlen(text) : 0) };
    if (text)
        class = et_column_stats_reads(stats)
                    ? ET_CELL_UNREAD
                    : (unsigned char)et_cell_classify(&stats->format, text, span.length, &number);
    const et_column_part part = { text, &class, &number, &span, &first_line, line, file, 1 };
    et_column_stats_add(stats, &part);
}

/* Notes which marker of missing values a value is. */
static void note_missing(et_table_stats *stats, const et_value *value)
{
    const char *text = value->kind == ET_VALUE_STRING ? value->string : value->text;
    const int index =
        text ? et_csv_missing_index(stats->options->csv.missing, text, strlen(text)) : -1;
    if (index >= 0)
        stats->missing_found |= (uint64_t)1 << (index < 63 ? index : 63);
}

static int add_value(reading *r, int field, const et_value *value, int64_t line, et_error *error)
{
    const et_table_stats *t = r->stats;
    const et_schema_field as = { .name = t->head.name[field],
                                 .type =
                                     t->head.numeric[field] ? ET_SCHEMA_REAL : ET_SCHEMA_DISCRETE,
                                 .notation = t->field[field].format.notation };
    const et_json_columns columns = { .missing = t->options->csv.missing };
    et_cell cell = { NULL, 0 };
    int status = value ? et_json_cell(&cell, &columns, &as, value, error) : ET_OK;
    if (status)
        return et_fail_while(error, status, "%s:%lld", path_of(r), (long long)line);
    if (value && !cell.text)
        note_missing(r->stats, value);
    add_text(&r->stats->field[field], cell.text, r->file, line);
    return ET_OK;
}

/* The values of a field of a schema may be a list. */
static int add_field(reading *r, int field, const et_value *value, int64_t line, et_error *error)
{
    const et_schema *schema = r->stats->options->schema;
    const int64_t length = schema ? et_schema_at(schema, field)->length : 1;
    int status = ET_OK;
    if (length == 1 || !value || value->kind != ET_VALUE_LIST)
        return add_value(r, field, value, line, error);
    for (const et_value *v = value->first; v && !status; v = v->next)
        status = add_value(r, field, v, line, error);
    return status;
}

static int add_line(void *payload, reading *r, const et_value *object, int64_t line,
                    et_error *error)
{
    adding *a = payload;
    et_table_stats *stats = r->stats;
    int status = ET_OK;
    memset(a->value, 0, (size_t)stats->head.fields * sizeof(const et_value *));
    for (const et_value *v = object->first; v; v = v->next) {
        int64_t at;
        if (et_map_get(&r->index, v->key, &at))
            a->value[at] = v;
    }
    for (int i = 0; i < stats->head.fields && !status; i++)
        status = add_field(r, i, a->value[i], line, error);
    stats->rows++;
    return status;
}

int et_table_read_jsonl(et_table_stats *stats, et_error *error)
{
    et_map index = ET_MAP_INIT;
    adding a = { et_alloc_zero((size_t)stats->head.fields, sizeof *a.value) };
    bool whole = a.value != NULL;
    for (int i = 0; whole && i < stats->head.fields; i++)
        whole = et_map_put(&index, stats->head.name[i], i);
    int status = whole ? read_lines(stats, &index, add_line, &a, error)
                       : et_alloc_failed(error, (size_t)stats->head.fields, "columns");
    et_map_release(&index);
    et_free((void *)a.value);
    return status;
}
