/* JSON lines: one object per line. Lines are returned where they are in a buffer; another thread
 * may parse them. A bad line is skipped when the next line is read. */
#include "data/table/rows/rows.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "data/table/schema/schema.h"
#include "formats/records/packed.h"

#define READ_BYTES ((size_t)1 << 16)

typedef struct json_rows {
    et_rows rows;
    int descriptor;
    bool stream;            /* the descriptor is the caller's, and may have to be waited for */
    et_packed_reader *file; /* otherwise */
    bool ended;
    char *bytes; /* [room] */
    size_t begin, end, room;
    int64_t line;  /* that begins at begin */
    bool skipping; /* begin is within a line that is too long */
} json_rows;

static const char *name_of(const json_rows *self)
{
    return self->rows.paths.items[0];
}

static void json_close(et_rows *rows)
{
    json_rows *self = (json_rows *)rows;
    et_packed_reader_close(self->file);
    et_free(self->bytes);
    et_free(self);
}

/* ---- lines ---- */

/* Reads more bytes after the rest, which is moved to the front. */
static int fill(json_rows *self, et_error *error)
{
    if (self->begin) {
        memmove(self->bytes, self->bytes + self->begin, self->end - self->begin);
        self->end -= self->begin;
        self->begin = 0;
    }
    if (!ET_VECTOR_GROW(self->bytes, self->room, self->end + READ_BYTES))
        return et_alloc_failed(error, "a line");
    size_t got = 0;
    int status = ET_OK;
    if (self->stream) {
        ssize_t count;
        do
            count = read(self->descriptor, self->bytes + self->end, READ_BYTES);
        while (count < 0 && errno == EINTR);
        if (count < 0)
            status = et_fail_errno(error, "cannot read %s", name_of(self));
        else
            got = (size_t)count;
    } else {
        status = et_packed_read(self->file, self->bytes + self->end, READ_BYTES, &got, error);
        if (status)
            status = et_fail_while(error, status, "%s", name_of(self));
    }
    self->end += got;
    self->ended = !got;
    return status;
}

/* The end of the line that begins at begin; NULL: not read yet. */
static const char *line_end(const json_rows *self)
{
    const size_t there = self->end - self->begin;
    return there ? memchr(self->bytes + self->begin, '\n', there) : NULL;
}

static bool has_line(const json_rows *self)
{
    return self->ended || line_end(self) || self->end - self->begin > ET_CSV_ROW_MAX;
}

/* A failure of this call occurs again in next, which reports it. */
static bool json_waits(et_rows *rows)
{
    json_rows *self = (json_rows *)rows;
    struct pollfd input = { .fd = self->descriptor, .events = POLLIN };
    while (self->stream && !has_line(self)) {
        if (poll(&input, 1, 0) == 0)
            return true;
        if (fill(self, NULL))
            break;
    }
    return false;
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* Takes a line of at most ET_CSV_ROW_MAX bytes. For a blank line, *row stays without JSON. */
static int take_line(json_rows *self, const char *text, size_t length, et_row *row, et_error *error)
{
    const size_t mark = self->line == 1 ? et_utf8_mark(text, length) : 0;
    row->number = self->line;
    if (is_blank(text + mark, length - mark))
        return ET_OK;
    row->json = (et_bytes){ text + mark, length - mark };
    row->end = false;
    size_t bad;
    if (memchr(row->json.data, 0, row->json.length))
        return et_fail(error, ET_EDATA, "%s:%" PRId64 ": a byte is NUL: save the text as UTF-8",
                       name_of(self), self->line);
    if (!et_utf8_valid(row->json.data, row->json.length, &bad))
        return et_fail(error, ET_EDATA,
                       "%s:%" PRId64 ": byte %zu of the line is not UTF-8: save the text as UTF-8",
                       name_of(self), self->line, bad + 1);
    return ET_OK;
}

static int json_next(et_rows *rows, et_row *row, et_error *error)
{
    json_rows *self = (json_rows *)rows;
    int status = ET_OK;
    while (!status && row->end) {
        while (!status && self->skipping) { /* the rest of a line that is too long */
            const char *end = line_end(self);
            self->begin = end ? (size_t)(end - self->bytes) + 1 : self->end;
            self->skipping = !end && !self->ended;
            if (self->skipping)
                status = fill(self, error);
            else
                self->line++;
        }
        while (!status && !has_line(self))
            status = fill(self, error);
        if (status || self->begin == self->end)
            return status;
        const char *text = self->bytes + self->begin, *end = line_end(self);
        const size_t length = end ? (size_t)(end - text) : self->end - self->begin;
        if (length > ET_CSV_ROW_MAX) {
            self->skipping = true;
            row->number = self->line;
            return et_fail(error, ET_EDATA, "%s:%" PRId64 ": a line of more than %zu bytes",
                           name_of(self), self->line, ET_CSV_ROW_MAX);
        }
        status = take_line(self, text, length, row, error);
        self->begin += length + (end != NULL);
        self->line++;
    }
    return status;
}

static const et_rows_class json_rows_class = { "JSON lines", json_next, json_waits, json_close };

int et_rows_open_jsonl(et_rows **out, const et_row_layout *layout, const et_strings *path,
                       int stream, et_error *error)
{
    et_assert(path->count == 1);
    json_rows *self = et_rows_new(sizeof *self, &json_rows_class, layout, *path, error);
    if (!self)
        return ET_ENOMEM;
    self->line = 1;
    self->descriptor = stream;
    self->stream = stream >= 0;
    int status = self->stream ? ET_OK : et_file_open(&self->descriptor, path->items[0], error);
    if (!self->stream && !status)
        status = et_packed_reader_open(&self->file, self->descriptor, name_of(self), NULL, error);
    if (status)
        json_close(&self->rows);
    else
        *out = &self->rows;
    return status;
}

/* ---- objects ---- */

/* Writes a truth value as the column spells it, because programs that write CSV do not use JSON's
 * words.
 */
static const char *truth_text(const et_metadata *metadata, const char *column, bool truth)
{
    static const char *const spellings[][3] = { { "false", "False", "FALSE" },
                                                { "true", "True", "TRUE" } };
    for (int i = 0; metadata && i < 3; i++)
        if (et_metadata_entry(metadata, column, spellings[truth][i], strlen(spellings[truth][i])) >=
            0)
            return spellings[truth][i];
    return spellings[truth][0];
}

int et_json_cell(et_cell *cell, const et_json_columns *columns, const et_schema_field *field,
                 const et_value *value, et_error *error)
{
    const char *text = NULL, *point;
    switch (value->kind) {
    case ET_VALUE_NULL:
        *cell = (et_cell){ NULL, 0 };
        return ET_OK;
    case ET_VALUE_STRING:
        text = value->string;
        break;
    case ET_VALUE_BOOL:
        text = truth_text(columns->metadata, field->name, value->boolean);
        break;
    case ET_VALUE_INT:
    case ET_VALUE_FLOAT:
        text = value->text;
        point = field->notation == ET_NOTATION_COMMA ? strchr(text, '.') : NULL;
        if (point) {
            char *copy = et_arena_strdup(value->arena, text);
            if (!copy)
                return et_alloc_failed(error, "a number");
            copy[point - text] = ',';
            text = copy;
        }
        break;
    default:
        return et_fail(error, ET_EDATA, "column %s is %s: give one value", field->name,
                       et_json_kind_name(value->kind));
    }
    /* In a column of texts, the usual markers of missing values are values: JSON quotes all texts,
     * and CSV also reads quoted markers as values. */
    const size_t length = strlen(text);
    const bool missing =
        !length ||
        (et_csv_missing_index(columns->missing, text, length, false) >= 0 &&
         (field->type != ET_SCHEMA_DISCRETE || !et_is_one_of(text, et_csv_usual_missing) ||
          et_csv_missing_index(columns->missing, text, length, true) >= 0));
    *cell = missing ? (et_cell){ NULL, 0 } : (et_cell){ text, length };
    return ET_OK;
}

/* A column of several values is a list of so many. */
static int set_column(et_cell *cells, const et_json_columns *columns, int field,
                      const et_value *value, et_error *error)
{
    const et_schema_field *f = et_schema_at(columns->layout->schema, field);
    et_cell *cell = cells + columns->layout->begin[field];
    if (f->length == 1)
        return et_json_cell(cell, columns, f, value, error);
    if (value->kind != ET_VALUE_LIST || (int64_t)value->count != f->length)
        return et_fail(error, ET_EDATA, "column %s: give a list of %lld values", f->name,
                       (long long)f->length);
    int status = ET_OK;
    for (const et_value *v = value->first; v && !status; v = v->next)
        status = et_json_cell(cell++, columns, f, v, error);
    return status;
}

#define NAMES_MAX 256

int et_row_cells(et_cell *cells, const et_json_columns *columns, const et_value *object,
                 et_error *error)
{
    const et_row_layout *layout = columns->layout;
    int status = ET_OK, lacking = 0; /* columns that predictions need and the row does not have */
    bool known = false, unknown = false;
    memset(cells, 0, layout->count * sizeof *cells);
    for (const et_value *v = object->first; v && !status; v = v->next) {
        int field = et_schema_position(layout->schema, v->key);
        known |= field >= 0;
        unknown |= field < 0;
        if (field < 0)
            continue;
        lacking -= layout->reads[false][field];
        status = set_column(cells, columns, field, v, error);
    }
    if (status || !unknown)
        return status;
    /* The row has names outside the schema; known: it also has names of the schema. */
    const et_schema *schema = layout->schema;
    const char *absent[NAMES_MAX + 1]; /* the first of them, ended by NULL */
    int count = 0;
    for (int i = 0; i < et_schema_count(schema); i++)
        lacking += layout->reads[false][i];
    if (!lacking)
        return ET_OK;
    for (int i = 0; i < et_schema_count(schema) && count < NAMES_MAX; i++)
        if (layout->reads[false][i] && !et_value_get(object, et_schema_at(schema, i)->name))
            absent[count++] = et_schema_at(schema, i)->name;
    absent[count] = NULL;
    for (const et_value *v = object->first; v; v = v->next) {
        const char *nearest =
            et_schema_position(schema, v->key) < 0 ? et_nearest(v->key, absent) : NULL;
        if (nearest)
            return et_fail(error, ET_EDATA,
                           "the model has no column %.64s. Nearest: %.64s, which the row lacks; "
                           "give this column, with null for a missing value",
                           v->key, nearest);
    }
    if (known || !absent[0])
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "the model has none of the row's columns; one of its columns is %.64s",
                   absent[0]);
}

int et_row_object(const et_value **object, const et_bytes *json, et_arena *arena, et_error *error)
{
    et_value *value = NULL;
    int status = et_json_parse_written(&value, arena, json->data, json->length, NULL, error);
    *object = value;
    if (status == ET_EFORMAT) {
        const char *line = json->data;
        const et_error reason = error ? *error : (et_error)ET_ERROR_INIT;
        size_t length = json->length;
        while (length && is_blank(line + length - 1, 1))
            length--;
        for (; length && is_blank(line, 1); length--)
            line++;
        /* A line of a list, or of an object on several lines. */
        const bool part = !length || line[0] != '{' || line[length - 1] != '}';
        status =
            et_fail(error, ET_EDATA, "%s%s", reason.text,
                    part ? "; write each row as an object in one line: {\"column\": value}" : "");
    }
    if (!status && value->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EDATA, "%s is not a row; write an object, {\"column\": value}",
                       et_json_kind_name(value->kind));
    return status;
}

int et_row_parse(et_cell *cells, const et_json_columns *columns, const et_bytes *json,
                 et_arena *arena, const et_value **object, et_error *error)
{
    const et_value *own;
    const et_value **to = object ? object : &own;
    const int status = et_row_object(to, json, arena, error);
    return status ? status : et_row_cells(cells, columns, *to, error);
}

/* Rows of files of JSON lines, one after another, as cells. */

typedef struct object_rows {
    et_rows rows;
    et_json_columns columns;
    et_rows *lines;     /* of the open file; NULL: none */
    size_t file, begun; /* index of the open file, and number of opened files */
    et_arena arena;     /* of a row */
    et_cell cells[];    /* [cells of the encoder] */
} object_rows;

bool et_path_is_jsonl(const char *path)
{
    static const char *const endings[] = { ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (et_path_ends(path, endings[i]))
            return true;
    return false;
}

int et_paths_jsonl(bool *out, const et_strings *paths, et_error *error)
{
    size_t count = 0, other = 0;
    for (size_t i = 0; i < paths->count; i++)
        if (et_path_is_jsonl(paths->items[i]))
            count++;
        else
            other = i;
    *out = count > 0;
    return !count || count == paths->count
               ? ET_OK
               : et_fail(error, ET_EDATA,
                         "%s is not JSON lines, but other files of the table are: give files of "
                         "one format",
                         paths->items[other]);
}

static void object_close(et_rows *rows)
{
    object_rows *self = (object_rows *)rows;
    et_rows_close(self->lines);
    et_arena_release(&self->arena);
    et_free(self);
}

static int object_next(et_rows *rows, et_row *row, et_error *error)
{
    object_rows *self = (object_rows *)rows;
    int status = ET_OK;
    while (!status && row->end) {
        if (!self->lines) {
            if (self->begun == rows->paths.count)
                return ET_OK;
            self->file = self->begun++;
            const et_strings one = { &self->rows.paths.items[self->file], 1 };
            status = et_rows_open_jsonl(&self->lines, self->rows.layout, &one, -1, error);
        }
        if (!status)
            status = et_rows_next(self->lines, row, error);
        if (!status && row->end) {
            et_rows_close(self->lines);
            self->lines = NULL;
        }
    }
    if (status)
        return status;
    et_arena_release(&self->arena);
    row->file = self->file;
    status = et_row_parse(self->cells, &self->columns, &row->json, &self->arena, NULL, error);
    row->json = (et_bytes){ NULL, 0 };
    row->cells = self->cells;
    return status ? et_fail_while(error, status, "%s:%lld", rows->paths.items[self->file],
                                  (long long)row->number)
                  : ET_OK;
}

static const et_rows_class object_rows_class = { "objects", object_next, NULL, object_close };

/* As et_rows_open_jsonl, of several files, as rows of cells. */
static int open_objects(et_rows **out, const et_strings *paths, const et_json_columns *columns,
                        et_error *error)
{
    et_assert(paths->count > 0);
    const size_t size = sizeof(object_rows) + columns->layout->count * sizeof(et_cell);
    object_rows *self = et_rows_new(size, &object_rows_class, columns->layout, *paths, error);
    if (!self)
        return ET_ENOMEM;
    self->columns = *columns;
    *out = &self->rows;
    return ET_OK;
}

int et_rows_open_files(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                       const et_rows_options *options, const et_metadata *metadata, et_error *error)
{
    const et_json_columns columns = { layout, metadata, options->csv.missing };
    bool jsonl;
    int status = et_paths_jsonl(&jsonl, paths, error);
    if (status)
        return status;
    return jsonl ? open_objects(out, paths, &columns, error)
                 : et_rows_open_csv(out, layout, paths, options, error);
}
