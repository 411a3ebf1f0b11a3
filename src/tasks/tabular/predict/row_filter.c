#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/threads/thread.h"
#include "tasks/tabular/predict/prediction_lines.h"

#define STANDARD_INPUT "standard input"

/* Bytes of a block's texts. A block ends before it would need more; a row with longer texts gets
 * its own memory. */
#define BLOCK_BYTES ((size_t)1 << 18)

struct et_row_reader {
    et_rows *rows;
    int cells; /* of a row */
    const char *name;
    size_t keep;  /* number of columns that are kept */
    int64_t most; /* rows of a block */
    bool lenient;
    et_row held;
    bool holds; /* a row that did not fit in the block before */
};

/* ---- copies of rows ---- */

int et_row_block_open(et_row_block *block, int64_t rows, const et_encoder *encoder, size_t keep,
                      et_error *error)
{
    et_assert(rows > 0 && encoder);
    size_t cells = (size_t)et_encoder_cells(encoder);
    *block = (et_row_block){ .room = BLOCK_BYTES };
    block->row = et_alloc_zero(rows, sizeof *block->row);
    block->cell = cells > SIZE_MAX / (size_t)rows
                      ? NULL
                      : et_alloc_zero((size_t)rows * cells, sizeof *block->cell);
    block->kept = keep > SIZE_MAX / (size_t)rows
                      ? NULL
                      : et_alloc_zero((size_t)rows * keep, sizeof *block->kept);
    block->bytes = et_alloc(block->room, 1);
    if (block->row && block->cell && block->kept && block->bytes)
        return ET_OK;
    et_row_block_release(block);
    return et_alloc_failed(error, "rows");
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

/* Bytes of the row's texts. */
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

/* Copies the texts of a row to the block, or to its arena if they do not fit. */
static int add_row(const et_row_reader *r, et_row_block *block, const et_row *row, et_error *error)
{
    et_assert(block->count < r->most);
    const size_t size = bytes_of(row, r);
    const bool fits = size <= block->room - block->used;
    char *bytes = fits ? block->bytes + block->used : et_arena_alloc(&block->arena, size);
    et_block_row to = { .line = row->number };
    if (!bytes)
        return et_alloc_failed(error, "a row");
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

/* ---- reading rows ---- */

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
    et_row_reader *r;
    if (ET_ALLOC_ZERO(r, 1, "a reader of rows", error))
        return ET_ENOMEM;
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

static bool waits_for_input(const et_row_reader *r)
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
    while (!status && block->count < r->most && !(block->count && waits_for_input(r))) {
        et_error reason = ET_ERROR_INIT;
        /* The row that did not fit in the previous block, or the next row. */
        const bool held = r->holds;
        r->holds = false;
        status = held ? ET_OK : et_rows_next(r->rows, &r->held, &reason);
        if (status == ET_EDATA && r->held.number && r->lenient) {
            const char *text = et_arena_strdup(&block->arena, reason.text);
            block->row[block->count++] = (et_block_row){ .line = r->held.number, .failure = text };
            status = text ? ET_OK : et_alloc_failed(error, "a message");
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

/* ---- rows to lines ---- */

/* A block of rows. From et_queue_put to et_queue_take it belongs to a thread or a queue. */
typedef struct work {
    bool done;
    et_row_block rows;
    et_strbuf lines;
    et_unknown_values unseen; /* of its rows */
    int status;               /* of the row that ended it; lines has the rows before */
    et_error error;
} work;

/* A predictor, and its thread if several threads predict. */
typedef struct worker {
    const struct pool *all;
    et_predictor *predictor;
    pthread_t thread;
} worker;

typedef struct pool {
    et_row_filter *filter;
    worker workers[ET_PREDICTORS_MAX];
    int threads; /* in addition to the caller's thread; 0: none */
    work *work;  /* [works], a ring */
    int works;
    et_queue *ready, *done; /* [works] of work: to the threads, and back in any order */
    int64_t written;        /* number of written blocks; the filter counts the read ones */
} pool;

/* A bad row ends the block, or is kept with its message. */
static void fail_row(const et_row_reader *r, work *w, int64_t i, int status, et_error *reason)
{
    et_block_row *row = &w->rows.row[i];
    et_fail_while(reason, status, "%s:%lld", r->name, (long long)row->line);
    if (status == ET_EDATA && r->lenient) {
        row->failure = et_arena_strdup(&w->rows.arena, reason->text);
        if (row->failure)
            return;
        status = et_alloc_failed(reason, "a message");
    }
    w->status = status;
    w->error = *reason;
    w->rows.count = i;
}

/* Makes the lines of the rows, up to the first row that ends the block. */
static void predict_block(const et_row_filter *filter, et_predictor *p, work *w)
{
    int64_t put = 0, at = 0;
    w->status = ET_OK;
    et_strbuf_reset(&w->lines);
    for (int64_t i = 0; i < w->rows.count; i++) {
        et_block_row *row = &w->rows.row[i];
        et_error reason = ET_ERROR_INIT;
        if (row->failure)
            continue;
        int status = row->cells ? ET_OK : et_row_block_parse(&w->rows, p->model, i, &reason);
        if (!status)
            status = et_predictor_put(p, put, row->cells, NULL, &reason);
        if (status) {
            fail_row(filter->reader, w, i, status, &reason);
            continue;
        }
        et_unknown_values_add(&w->unseen, row->cells, NULL, row->line);
        put++;
    }
    et_error reason = ET_ERROR_INIT;
    int status = put ? et_predictor_run(p, put, &reason) : ET_OK;
    for (int64_t i = 0; i < w->rows.count && !status; i++) {
        const et_block_row *row = &w->rows.row[i];
        if (row->failure)
            continue;
        const int bad = et_predictor_check(p, at, NULL, &reason);
        const et_prediction_row line = { row->line, et_predictor_key(p, row->cells), row->kept,
                                         row->object };
        if (bad)
            fail_row(filter->reader, w, i, bad, &reason);
        else
            et_prediction_lines_add(filter->lines, p, at, &line, &w->lines);
        at++;
    }
    if (!status && w->lines.failed)
        status = et_alloc_failed(&reason, "predictions");
    if (status) {
        w->status = status;
        w->error = reason;
    }
}

static void *work_beside(void *payload)
{
    worker *self = payload;
    omp_set_num_threads(1);
    for (void *w; !et_queue_take(self->all->ready, &w, NULL) && w;) {
        predict_block(self->all->filter, self->predictor, w);
        et_queue_put(self->all->done, w);
    }
    return NULL;
}

static int open_pool(pool *all, et_error *error)
{
    et_row_filter *filter = all->filter;
    const et_predictors *predictors = filter->predictors;
    const et_table_model *model = predictors->each[0]->model;
    const int works = predictors->count > 1 ? 2 * predictors->count + 1 : 1;
    const size_t keep = filter->reader->keep;
    all->work = et_alloc_zero(works, sizeof *all->work);
    filter->found = et_alloc_zero(keep, sizeof *filter->found);
    if (!all->work || !filter->found)
        return et_alloc_failed(error, "rows");
    int status =
        et_unknown_values_open(&filter->unseen, model->encoder, model->texts.metadata, error);
    for (; all->works < works && !status; all->works++) {
        work *w = &all->work[all->works];
        status = et_row_block_open(&w->rows, filter->reader->most, model->encoder, keep, error);
        if (!status)
            status =
                et_unknown_values_open(&w->unseen, model->encoder, model->texts.metadata, error);
    }
    if (status || predictors->count < 2)
        return status;
    if (!(status = et_queue_open(&all->ready, works, error)))
        status = et_queue_open(&all->done, works, error);
    for (; all->threads < predictors->count && !status; all->threads += !status) {
        worker *next = &all->workers[all->threads];
        *next = (worker){ .all = all, .predictor = predictors->each[all->threads] };
        status = et_thread_start(&next->thread, work_beside, next, error);
    }
    return status;
}

static void close_pool(pool *all)
{
    if (all->ready) {
        et_queue_stop(all->ready);
        for (void *w; !et_queue_take(all->ready, &w, NULL) && w;)
            continue; /* drops blocks that no thread has begun */
    }
    for (int i = 0; i < all->threads; i++)
        et_thread_join(all->workers[i].thread);
    et_queue_close(all->ready);
    et_queue_close(all->done);
    for (int i = 0; i < all->works; i++) {
        et_row_block_release(&all->work[i].rows);
        et_strbuf_release(&all->work[i].lines);
        et_unknown_values_release(&all->work[i].unseen);
    }
    et_free(all->work);
}

/* Writes the oldest block once it is done, and reports its filtered rows in order. */
static int write_oldest(pool *all, et_error *error)
{
    et_row_filter *filter = all->filter;
    const et_strings *keep = &filter->lines->form.keep;
    et_assert(all->written < filter->blocks);
    work *w = &all->work[all->written % all->works];
    for (void *next; !w->done && !et_queue_take(all->done, &next, NULL);)
        ((work *)next)->done = true;
    all->written++;
    w->done = false;
    for (int64_t i = 0; i < w->rows.count; i++)
        if (w->rows.row[i].failure)
            et_log(ET_LOG_WARNING, "%s; left out", w->rows.row[i].failure);
    et_unknown_values_take(&filter->unseen, &w->unseen);
    /* A row of JSON may lack a column, but if all rows do, its name is probably wrong. */
    for (int64_t i = 0; i < w->rows.count; i++) {
        const et_block_row *row = &w->rows.row[i];
        for (size_t k = 0; k < keep->count; k++)
            filter->found[k] |=
                row->kept || (row->object && et_value_get(row->object, keep->items[k]));
    }
    int status = w->lines.length
                     ? filter->write(filter->self, w->lines.data, w->lines.length, error)
                     : ET_OK;
    return status || !w->status ? status : et_fail(error, w->status, "%s", w->error.text);
}

/* Before it waits for input it writes all finished rows: a program that asks row by row is answered
 * row by row. */
static int run(pool *all, et_error *error)
{
    et_row_filter *filter = all->filter;
    et_error reason = ET_ERROR_INIT;
    int status = ET_OK, read = ET_OK;
    for (bool more = true; !status;) {
        const bool waits = !more || waits_for_input(filter->reader);
        const int64_t until = waits ? 0 : all->works - 1;
        while (filter->blocks - all->written > until && !status)
            status = write_oldest(all, error);
        if (status || !more)
            break;
        work *w = &all->work[filter->blocks % all->works];
        read = et_row_reader_next(filter->reader, &w->rows, &reason);
        more = !read && w->rows.count;
        if (!w->rows.count)
            continue;
        filter->blocks++;
        if (all->threads) {
            et_queue_put(all->ready, w);
        } else {
            predict_block(filter, filter->predictors->each[0], w);
            w->done = true;
        }
    }
    return status || !read ? status : et_fail(error, read, "%s", reason.text);
}

int et_row_filter_run(et_row_filter *filter, et_error *error)
{
    et_assert(filter->predictors->count && filter->lines && filter->reader && filter->write);
    pool all = { .filter = filter };
    et_strbuf head = ET_STRBUF_INIT;
    int status = open_pool(&all, error);
    et_prediction_lines_begin(filter->lines, filter->predictors->each[0], &head);
    if (!status && head.failed)
        status = et_alloc_failed(error, "a header");
    if (!status && head.length)
        status = filter->write(filter->self, head.data, head.length, error);
    et_strbuf_release(&head);
    if (!status)
        status = run(&all, error);
    close_pool(&all);
    return status;
}

void et_row_filter_warn(const et_row_filter *filter)
{
    const et_strings *keep = &filter->lines->form.keep;
    et_unknown_values_warn(&filter->unseen);
    for (size_t i = 0; i < keep->count && filter->blocks; i++)
        if (!filter->found[i])
            et_log(ET_LOG_WARNING, "--keep %s: no row has this column", keep->items[i]);
}

void et_row_filter_release(et_row_filter *filter)
{
    et_free(filter->found);
    et_unknown_values_release(&filter->unseen);
}
