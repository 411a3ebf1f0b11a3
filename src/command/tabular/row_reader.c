#include "command/tabular/row_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/vector.h"
#include "data/table/features/metadata.h"
#include "data/table/features/schema.h"
#include "data/text/text.h"

#define STANDARD_INPUT "standard input"

/* Bytes of a block at first; it ends before it would need more, but for a row that is longer. */
#define BLOCK_BYTES ((size_t)1 << 18)
#define READ_BYTES  ((size_t)1 << 16)

struct et_row_reader {
    et_row_reader_options options;
    const et_encoder *encoder;
    const char *name;
    int descriptor; /* of lines of JSON; owned unless it is standard input */
    bool stream;    /* a pipe, a terminal: what is there is not waited for */
    bool ended;
    /* of CSV */
    et_csv *csv;
    et_columns columns;
    bool found; /* columns are known */
    et_csv_row held;
    bool holds; /* a row that did not fit in the block before */
    /* of JSON */
    char *bytes; /* owned */
    size_t begin, end, room;
    int64_t line;
    bool skipping; /* the rest of a line that is too long */
};

/* ---- blocks ---- */

int et_row_block_open(et_row_block *block, int64_t rows, const et_encoder *encoder, et_error *error)
{
    size_t cells = (size_t)et_encoder_cells(encoder);
    *block = (et_row_block){ .room = BLOCK_BYTES };
    block->row = et_alloc_zero((size_t)rows, sizeof *block->row);
    block->cell = cells > SIZE_MAX / (size_t)rows
                      ? NULL
                      : et_alloc_zero((size_t)rows * cells, sizeof *block->cell);
    block->bytes = et_alloc(block->room, 1);
    if (block->row && block->cell && block->bytes)
        return ET_OK;
    et_row_block_release(block);
    return et_alloc_failed(error, (size_t)rows * cells * sizeof *block->cell, "rows");
}

void et_row_block_release(et_row_block *block)
{
    et_free(block->row);
    et_free(block->cell);
    et_free(block->bytes);
    et_arena_release(&block->arena);
    *block = (et_row_block){ .count = 0 };
}

static void clear(et_row_block *block)
{
    et_arena_release(&block->arena);
    block->count = 0;
    block->used = 0;
}

/* Room for bytes: in the block, or of its own where a row is longer than a block. NULL: no memory.
 */
static char *take(et_row_block *block, size_t bytes)
{
    if (bytes > block->room - block->used)
        return et_arena_alloc(&block->arena, bytes);
    block->used += bytes;
    return block->bytes + block->used - bytes;
}

static bool has_room(const et_row_block *block, size_t bytes)
{
    return !block->count || bytes <= block->room - block->used;
}

static int add_failure(et_row_block *block, int64_t line, const et_error *reason, et_error *error)
{
    const char *text = et_arena_strdup(&block->arena, reason->text);
    block->row[block->count++] = (et_block_row){ .line = line, .failure = text };
    return text ? ET_OK : et_alloc_failed(error, sizeof reason->text, "a message");
}

/* ---- CSV ---- */

static size_t bytes_of(const et_csv_row *row)
{
    size_t bytes = 0;
    for (int i = 0; i < row->count; i++)
        bytes += row->cell[i].length;
    return bytes;
}

/* Cells in the encoder's order, their texts copied. */
static int add_cells(et_row_reader *r, et_row_block *block, const et_csv_row *row, et_error *error)
{
    const et_cell *from = et_columns_take(&r->columns, row);
    size_t cells = (size_t)r->columns.count;
    et_cell *to = block->cell + (size_t)block->count * cells;
    char *bytes = take(block, bytes_of(row));
    if (!bytes)
        return et_alloc_failed(error, bytes_of(row), "a row");
    for (size_t i = 0; i < cells; i++) {
        to[i] = from[i];
        if (!from[i].text)
            continue;
        memcpy(bytes, from[i].text, from[i].length);
        to[i].text = bytes;
        bytes += from[i].length;
    }
    block->row[block->count++] = (et_block_row){ .line = row->line, .cells = to };
    return ET_OK;
}

/* The first row says which column is which; *skip: it is a header. */
static int find_columns(et_row_reader *r, const et_csv_row *first, bool *skip, et_error *error)
{
    if (first->count && first->cell[0].text && first->cell[0].length &&
        first->cell[0].text[0] == '{')
        return et_fail(error, ET_EDATA,
                       "%s:%" PRId64 ": this looks like JSON lines; say --input-format jsonl",
                       r->name, first->line);
    int status = et_columns_find(&r->columns, r->encoder, first, (et_header)r->options.header,
                                 false, r->name, error);
    r->found = !status;
    *skip = !status && r->columns.header;
    if (!*skip)
        et_csv_take_missing(r->csv);
    return status;
}

/* The first row of what is no CSV at all fails somehow or other. */
static int fail_first(int status, et_error *error)
{
    const et_error reason = *error;
    return et_fail(error, status, "%s; if these are JSON lines, say --input-format jsonl",
                   reason.text);
}

/* The next row that is none of a header. */
static int next_row(et_row_reader *r, et_csv_row *row, et_error *error)
{
    bool skip = true;
    int status = ET_OK;
    if (r->holds) {
        r->holds = false;
        *row = r->held;
        return ET_OK;
    }
    while (!status && skip) {
        skip = false;
        status = et_csv_next(r->csv, row, error);
        if (status == ET_EDATA && !r->found)
            return fail_first(status, error);
        if (!status && row->count && !r->found)
            status = find_columns(r, row, &skip, error);
    }
    return status;
}

static int next_csv(et_row_reader *r, et_row_block *block, et_error *error)
{
    int status = ET_OK;
    while (!status && block->count < r->options.rows && !(block->count && et_row_reader_waits(r))) {
        et_csv_row row;
        et_error reason = ET_ERROR_INIT;
        status = next_row(r, &row, &reason);
        if (status == ET_EDATA && r->found && r->options.lenient) {
            status = add_failure(block, row.line, &reason, error);
            continue;
        }
        if (status)
            return et_fail(error, status, "%s", reason.text);
        r->ended = !row.count;
        if (r->ended)
            break;
        r->holds = !has_room(block, bytes_of(&row));
        r->held = row;
        if (r->holds)
            break;
        status = add_cells(r, block, &row, error);
    }
    return status;
}

/* ---- JSON lines ---- */

/* More bytes behind what is left, which is moved to the front. */
static int fill(et_row_reader *r, et_error *error)
{
    if (r->begin) {
        memmove(r->bytes, r->bytes + r->begin, r->end - r->begin);
        r->end -= r->begin;
        r->begin = 0;
    }
    char *bytes = et_vector_grow(r->bytes, &r->room, r->end + READ_BYTES, 1, 4 * READ_BYTES);
    if (!bytes)
        return et_alloc_failed(error, r->end + READ_BYTES, "a line");
    r->bytes = bytes;
    ssize_t got;
    do
        got = read(r->descriptor, r->bytes + r->end, READ_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return et_fail_errno(error, "cannot read %s", r->name);
    r->end += (size_t)got;
    r->ended = !got;
    return ET_OK;
}

static int check_line(const et_row_reader *r, const char *text, size_t length, et_error *error)
{
    size_t bad;
    if (memchr(text, 0, length))
        return et_fail(error, ET_EDATA, "%s:%" PRId64 ": a byte is NUL: save the text as UTF-8",
                       r->name, r->line);
    if (!et_utf8_valid(text, length, &bad))
        return et_fail(error, ET_EDATA,
                       "%s:%" PRId64 ": byte %zu of the line is not UTF-8: save the text as UTF-8",
                       r->name, r->line, bad + 1);
    return ET_OK;
}

static bool is_blank(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

static int add_line(et_row_reader *r, et_row_block *block, const char *text, size_t length,
                    et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    const size_t mark = r->line == 1 ? et_utf8_mark(text, length) : 0;
    text += mark;
    length -= mark;
    if (is_blank(text, length))
        return ET_OK;
    int status = check_line(r, text, length, &reason);
    if (status && r->options.lenient)
        return add_failure(block, r->line, &reason, error);
    if (status)
        return et_fail(error, status, "%s", reason.text);
    char *copy = take(block, length + 1);
    if (!copy)
        return et_alloc_failed(error, length, "a line");
    memcpy(copy, text, length);
    copy[length] = 0;
    block->row[block->count++] = (et_block_row){ .line = r->line, .text = copy };
    return ET_OK;
}

/* One that is too long ends reading, or stands in its block and is skipped to its end. */
static int refuse_line(et_row_reader *r, et_row_block *block, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    const int status = et_fail(&reason, ET_EDATA, "%s:%" PRId64 ": a line of more than %zu bytes",
                               r->name, r->line, ET_CSV_ROW_MAX);
    if (!r->options.lenient)
        return et_fail(error, status, "%s", reason.text);
    r->skipping = true;
    return add_failure(block, r->line, &reason, error);
}

/* Drops what there is of it. */
static int skip_line(et_row_reader *r, et_error *error)
{
    const char *text = r->bytes + r->begin;
    const char *end = memchr(text, '\n', r->end - r->begin);
    r->begin += end ? (size_t)(end - text) + 1 : r->end - r->begin;
    r->skipping = !end && !r->ended;
    r->line += !r->skipping;
    return r->skipping ? fill(r, error) : ET_OK;
}

static int next_jsonl(et_row_reader *r, et_row_block *block, et_error *error)
{
    int status = ET_OK;
    while (!status && block->count < r->options.rows) {
        if (r->skipping) {
            status = skip_line(r, error);
            continue;
        }
        const char *text = r->bytes + r->begin;
        size_t there = r->end - r->begin;
        const char *end = there ? memchr(text, '\n', there) : NULL;
        size_t length = end ? (size_t)(end - text) : there;
        if (!end && !r->ended && there <= ET_CSV_ROW_MAX) {
            if (block->count && et_row_reader_waits(r))
                break;
            status = fill(r, error);
            continue;
        }
        if (length > ET_CSV_ROW_MAX) {
            status = refuse_line(r, block, error);
            continue;
        }
        if (!there)
            break;
        if (!has_room(block, length + 1))
            break;
        status = add_line(r, block, text, length, error);
        r->begin += length + (end != NULL);
        r->line++;
    }
    return status;
}

/* In a column of texts the usual ones are values: JSON has quotes around all texts, and where CSV
 * has some it takes them as such too. */
static bool is_missing(const char *text, const char *const *missing, et_schema_type type)
{
    if (!*text)
        return true;
    return et_csv_missing_place(missing, text, strlen(text)) >= 0 &&
           (type != ET_SCHEMA_DISCRETE || !et_is_one_of(text, et_csv_usual_missing));
}

/* A truth value is what the column has: programs that write CSV spell it in other ways than JSON.
 */
static const char *truth_text(const et_table_model *model, const char *column, bool truth)
{
    static const char *const spellings[][3] = { { "false", "False", "FALSE" },
                                                { "true", "True", "TRUE" } };
    for (int i = 0; i < 3; i++)
        if (et_metadata_entry(model->metadata, column, spellings[truth][i],
                              strlen(spellings[truth][i])) >= 0)
            return spellings[truth][i];
    return spellings[truth][0];
}

static int set_cell(et_cell *cell, const et_table_model *model, const et_schema_field *field,
                    const et_value *value, et_error *error)
{
    const char *text = NULL;
    switch (value->kind) {
    case ET_VALUE_NULL:
        *cell = (et_cell){ NULL, 0 };
        return ET_OK;
    case ET_VALUE_STRING:
        text = value->string;
        break;
    case ET_VALUE_BOOL:
        text = truth_text(model, field->name, value->boolean);
        break;
    case ET_VALUE_INT:
    case ET_VALUE_FLOAT:
        text = value->text;
        break;
    default:
        return et_fail(error, ET_EDATA, "column %s is %s: one value is expected", field->name,
                       et_json_kind_name(value->kind));
    }
    et_assert(text != NULL);
    *cell = is_missing(text, model->csv.missing, field->type) ? (et_cell){ NULL, 0 }
                                                              : (et_cell){ text, strlen(text) };
    return ET_OK;
}

/* A column of several values is a list of so many. */
static int set_column(et_cell *cells, const et_table_model *model, int field, const et_value *value,
                      et_error *error)
{
    const et_schema_field *f = et_schema_at(et_encoder_schema(model->encoder), field);
    et_cell *cell = cells + et_encoder_cell(model->encoder, field);
    if (f->length == 1)
        return set_cell(cell, model, f, value, error);
    if (value->kind != ET_VALUE_LIST || (int64_t)value->count != f->length)
        return et_fail(error, ET_EDATA, "column %s needs a list of %lld values", f->name,
                       (long long)f->length);
    int status = ET_OK;
    for (const et_value *v = value->first; v && !status; v = v->next)
        status = set_cell(cell++, model, f, v, error);
    return status;
}

#define NAMES_MAX 256

/* Columns that predictions need and the row does not have, ended by NULL. */
static void find_absent(const char *names[NAMES_MAX + 1], const et_encoder *encoder,
                        const et_value *row)
{
    const et_schema *schema = et_encoder_schema(encoder);
    int count = 0;
    for (int i = 0; i < et_schema_count(schema) && count < NAMES_MAX; i++)
        if (et_encoder_reads(encoder, i, false) &&
            !et_value_get(row, et_schema_at(schema, i)->name))
            names[count++] = et_schema_at(schema, i)->name;
    names[count] = NULL;
}

/* Of a row with names that the schema does not have; known: with others that it has. */
static int check_names(const et_encoder *encoder, const et_value *row, bool known, et_error *error)
{
    const et_schema *schema = et_encoder_schema(encoder);
    const char *absent[NAMES_MAX + 1];
    find_absent(absent, encoder, row);
    for (const et_value *v = row->first; v; v = v->next) {
        const char *nearest =
            et_schema_position(schema, v->key) < 0 ? et_nearest(v->key, absent) : NULL;
        if (nearest)
            return et_fail(
                error, ET_EDATA,
                "the model knows no column %.64s. Nearest: %.64s, which the row does not "
                "have; give it, null where there is no value",
                v->key, nearest);
    }
    if (known || !absent[0])
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "the model knows none of the row's columns; %.64s is one of its", absent[0]);
}

int et_row_cells(et_cell *cells, const et_table_model *model, const et_value *row, et_error *error)
{
    const et_encoder *encoder = model->encoder;
    int status = ET_OK;
    bool known = false, unknown = false;
    memset(cells, 0, (size_t)et_encoder_cells(encoder) * sizeof *cells);
    for (const et_value *v = row->first; v && !status; v = v->next) {
        int field = et_schema_position(et_encoder_schema(encoder), v->key);
        known |= field >= 0;
        unknown |= field < 0;
        if (field >= 0)
            status = set_column(cells, model, field, v, error);
    }
    return status || !unknown ? status : check_names(encoder, row, known, error);
}

int et_row_block_parse(et_row_block *block, const et_table_model *model, int64_t row,
                       et_error *error)
{
    et_block_row *r = &block->row[row];
    size_t cells = (size_t)et_encoder_cells(model->encoder);
    et_value *value;
    et_cell *to = block->cell + (size_t)row * cells;
    int status =
        et_json_parse_written(&value, &block->arena, r->text, strlen(r->text), "the line", error);
    if (status == ET_EFORMAT)
        return et_fail_while(error, ET_EDATA, "no JSON");
    if (!status && value->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EDATA, "%s is no row: an object, {\"column\": value}, is",
                       et_json_kind_name(value->kind));
    if (!status)
        status = et_row_cells(to, model, value, error);
    r->cells = to;
    return status;
}

/* ---- opening ---- */

static int format_of(const et_row_reader_options *o)
{
    if (o->format != ET_ROWS_AUTO || !o->path)
        return o->format == ET_ROWS_AUTO ? ET_ROWS_CSV : o->format;
    if (et_path_ends(o->path, ".jsonl") || et_path_ends(o->path, ".ndjson"))
        return ET_ROWS_JSONL;
    return et_path_ends(o->path, ".tsv") ? ET_ROWS_TSV : ET_ROWS_CSV;
}

static int open_csv(et_row_reader *r, et_error *error)
{
    et_csv_options options = r->options.csv;
    options.names = r->options.header != ET_HEADER_ABSENT;
    if (r->options.delimiter)
        options.delimiter = r->options.delimiter;
    else if (r->options.format == ET_ROWS_TSV)
        options.delimiter = '\t';
    return r->stream ? et_csv_open_stream(&r->csv, STDIN_FILENO, r->name, &options, error)
                     : et_csv_open(&r->csv, r->name, &options, error);
}

static int open_lines(et_row_reader *r, const char *path, et_error *error)
{
    r->room = 4 * READ_BYTES;
    r->bytes = et_alloc(r->room, 1);
    if (!r->bytes)
        return et_alloc_failed(error, r->room, "a reader of rows");
    return path ? et_file_open(&r->descriptor, path, error) : ET_OK;
}

int et_row_reader_open(et_row_reader **out, const et_row_reader_options *options,
                       const et_encoder *encoder, et_error *error)
{
    *out = NULL;
    et_row_reader *r = et_alloc_zero(1, sizeof *r);
    if (!r)
        return et_alloc_failed(error, sizeof *r, "a reader of rows");
    r->options = *options;
    r->options.format = format_of(options);
    r->encoder = encoder;
    r->name = options->path ? options->path : STANDARD_INPUT;
    r->stream = !options->path;
    r->line = 1;
    r->descriptor = STDIN_FILENO;
    int status = r->options.format != ET_ROWS_JSONL ? open_csv(r, error)
                                                    : open_lines(r, options->path, error);
    if (status)
        et_row_reader_close(r);
    else
        *out = r;
    return status;
}

void et_row_reader_close(et_row_reader *r)
{
    if (!r)
        return;
    if (r->descriptor != STDIN_FILENO)
        close(r->descriptor);
    et_columns_release(&r->columns);
    et_csv_close(r->csv);
    et_free(r->bytes);
    et_free(r);
}

bool et_row_reader_waits(const et_row_reader *r)
{
    struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
    if (!r->stream || r->ended || r->holds)
        return false;
    if (r->csv ? et_csv_has_line(r->csv)
               : memchr(r->bytes + r->begin, '\n', r->end - r->begin) != NULL)
        return false;
    return poll(&input, 1, 0) == 0;
}

int et_row_reader_next(et_row_reader *r, et_row_block *block, et_error *error)
{
    clear(block);
    if (r->ended && r->options.format != ET_ROWS_JSONL)
        return ET_OK;
    return r->options.format == ET_ROWS_JSONL ? next_jsonl(r, block, error)
                                              : next_csv(r, block, error);
}
