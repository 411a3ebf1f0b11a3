#include "tasks/tabular/predict/row_reader.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"

#define STANDARD_INPUT "standard input"

/* Bytes of a block at first; it ends before it would need more, but for a row that is longer. */
#define BLOCK_BYTES ((size_t)1 << 18)

struct et_row_reader {
    et_rows *rows;
    int cells; /* of a row */
    const char *name;
    size_t keep;  /* the same of columns that are kept */
    int64_t most; /* rows of a block */
    bool lenient;
    et_row held;
    bool holds; /* a row that did not fit in the block before */
};

/* ---- blocks ---- */

int et_row_block_open(et_row_block *block, int64_t rows, const et_encoder *encoder, size_t keep,
                      et_error *error)
{
    et_assert(rows > 0 && encoder);
    size_t cells = (size_t)et_encoder_cells(encoder);
    *block = (et_row_block){ .room = BLOCK_BYTES };
    block->row = et_alloc_zero((size_t)rows, sizeof *block->row);
    block->cell = cells > SIZE_MAX / (size_t)rows
                      ? NULL
                      : et_alloc_zero((size_t)rows * cells, sizeof *block->cell);
    block->kept = keep > SIZE_MAX / (size_t)rows
                      ? NULL
                      : et_alloc_zero((size_t)rows * keep + 1, sizeof *block->kept);
    block->bytes = et_alloc(block->room, 1);
    if (block->row && block->cell && block->kept && block->bytes)
        return ET_OK;
    et_row_block_release(block);
    return et_alloc_failed(error, (size_t)rows * cells * sizeof *block->cell, "rows");
}

void et_row_block_release(et_row_block *block)
{
    et_free(block->row);
    et_free(block->cell);
    et_free(block->kept);
    et_free(block->bytes);
    et_arena_release(&block->arena);
    *block = (et_row_block){ .count = 0 };
}

/* Room for bytes: in the block, or of its own where a row is longer than a block. NULL: no memory.
 */
static size_t bytes_of(const et_row *row, const et_row_reader *r)
{
    size_t bytes = row->json.length;
    for (int i = 0; row->cells && i < r->cells; i++)
        bytes += row->cells[i].length;
    for (size_t i = 0; row->kept && i < r->keep; i++)
        bytes += row->kept[i].length;
    return bytes;
}

/* Copies a cell's text to bytes; returns the place after it. */
static char *add_cell(et_cell *to, const et_cell *cell, char *bytes)
{
    *to = *cell;
    if (!cell->text)
        return bytes;
    memcpy(bytes, cell->text, cell->length);
    to->text = bytes;
    return bytes + cell->length;
}

/* Copies the texts of a row: to the block, or to its arena where a row is longer than a block. */
static int add_row(const et_row_reader *r, et_row_block *block, const et_row *row, et_error *error)
{
    et_assert(block->count < r->most);
    const size_t size = bytes_of(row, r);
    const bool fits = size <= block->room - block->used;
    char *bytes = fits ? block->bytes + block->used : et_arena_alloc(&block->arena, size);
    et_block_row to = { .line = row->number };
    if (!bytes)
        return et_alloc_failed(error, size, "a row");
    block->used += fits ? size : 0;
    if (row->json.data) {
        to.json = (et_bytes){ bytes, row->json.length };
        memcpy(bytes, row->json.data, row->json.length);
    } else {
        to.cells = block->cell + block->count * r->cells;
        to.kept = block->kept + (size_t)block->count * r->keep;
    }
    for (int i = 0; to.cells && i < r->cells; i++)
        bytes = add_cell(&to.cells[i], &row->cells[i], bytes);
    for (size_t i = 0; to.kept && i < r->keep; i++)
        bytes = add_cell(&to.kept[i], &row->kept[i], bytes);
    block->row[block->count++] = to;
    return ET_OK;
}

int et_row_block_parse(et_row_block *block, const et_table_model *model, int64_t row,
                       et_error *error)
{
    et_block_row *r = &block->row[row];
    et_assert(row < block->count && r->json.data);
    r->cells = block->cell + row * et_encoder_cells(model->encoder);
    return et_row_parse(r->cells,
                        &(et_json_columns){ et_encoder_row_layout(model->encoder),
                                            model->texts.metadata, model->csv.missing },
                        &r->json, &block->arena, &r->object, error);
}

/* ---- reading ---- */

static int format_of(const et_row_reader_options *o)
{
    if (o->format != ET_ROWS_AUTO || !o->path)
        return o->format == ET_ROWS_AUTO ? ET_ROWS_CSV : o->format;
    if (et_path_is_jsonl(o->path))
        return ET_ROWS_JSONL;
    return et_path_ends(o->path, ".tsv") ? ET_ROWS_TSV : ET_ROWS_CSV;
}

static int open_csv(et_row_reader *r, const et_row_reader_options *options,
                    const et_encoder *encoder, const et_strings *path, et_error *error)
{
    et_rows_options o = { .csv = options->csv,
                          .header = (et_header)options->header,
                          .no_targets = true,
                          .optional = true,
                          .keep = options->keep,
                          .jsonl = "say --input-format jsonl" };
    o.csv.names = o.header != ET_HEADER_ABSENT;
    if (options->delimiter)
        o.csv.delimiter = options->delimiter;
    else if (format_of(options) == ET_ROWS_TSV)
        o.csv.delimiter = '\t';
    const int status = options->path
                           ? et_csv_open(&o.reader, r->name, &o.csv, error)
                           : et_csv_open_stream(&o.reader, STDIN_FILENO, r->name, &o.csv, error);
    return status ? status
                  : et_rows_open_csv(&r->rows, et_encoder_row_layout(encoder), path, &o, error);
}

int et_row_reader_open(et_row_reader **out, const et_row_reader_options *options,
                       const et_encoder *encoder, et_error *error)
{
    *out = NULL;
    et_row_reader *r = et_alloc_zero(1, sizeof *r);
    if (!r)
        return et_alloc_failed(error, sizeof *r, "a reader of rows");
    r->cells = et_encoder_cells(encoder);
    r->name = options->path ? options->path : STANDARD_INPUT;
    r->keep = options->keep.count;
    r->most = options->rows;
    r->lenient = options->lenient;
    const et_strings path = { &r->name, 1 };
    int status = format_of(options) == ET_ROWS_JSONL
                     ? et_rows_open_jsonl(&r->rows, et_encoder_row_layout(encoder), &path,
                                          options->path ? -1 : STDIN_FILENO, error)
                     : open_csv(r, options, encoder, &path, error);
    if (status)
        et_row_reader_close(r);
    else
        *out = r;
    return status;
}

void et_row_reader_close(et_row_reader *r)
{
    if (r)
        et_rows_close(r->rows);
    et_free(r);
}

bool et_row_reader_waits(const et_row_reader *r)
{
    return !r->holds && et_rows_wait(r->rows);
}

int et_row_reader_next(et_row_reader *r, et_row_block *block, et_error *error)
{
    et_assert(r->most > 0);
    int status = ET_OK;
    et_arena_release(&block->arena);
    block->count = 0;
    block->used = 0;
    while (!status && block->count < r->most && !(block->count && et_row_reader_waits(r))) {
        et_error reason = ET_ERROR_INIT;
        /* The row that did not fit in the block before, or the next one. */
        const bool held = r->holds;
        r->holds = false;
        status = held ? ET_OK : et_rows_next(r->rows, &r->held, &reason);
        if (status == ET_EDATA && r->held.number && r->lenient) {
            const char *text = et_arena_strdup(&block->arena, reason.text);
            block->row[block->count++] = (et_block_row){ .line = r->held.number, .failure = text };
            status = text ? ET_OK : et_alloc_failed(error, sizeof reason.text, "a message");
            continue;
        }
        if (status)
            return et_fail(error, status, "%s", reason.text);
        if (r->held.end)
            break;
        r->holds = block->count && bytes_of(&r->held, r) > block->room - block->used;
        if (r->holds)
            break;
        status = add_row(r, block, &r->held, error);
    }
    return status;
}
