/* etude predict: a filter from rows to lines, in the order of input.
 *
 *   rows -> blocks --a few threads, each with its own predictor--> lines -> output
 *
 * The main thread reads and writes. Other threads work on blocks, which are written in order, so
 * the output does not depend on timing. Before the main thread waits for input, it writes all
 * finished rows: a program that asks row by row is answered row by row. With one thread, the main
 * thread does everything. */
#include <omp.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/threads/thread.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/tabular/decision.h"
#include "command/tabular/tabular_commands.h"
#include "data/table/features/unknown_values.h"
#include "data/table/schema/schema.h"
#include "tasks/tabular/predict/prediction_lines.h"

#define THREADS_MAX 64

typedef struct predict_options {
    const char *model_dir, *output;
    et_option_task task;
    et_strings keep;
    et_arena arena; /* of form.keep */
    const char *delimiter;
    int64_t batch_size;
    et_decision_args decision;
    et_prediction_form form;
    bool quiet; /* no messages except warnings */
    et_predictor_options options;
    et_row_reader_options rows;
    int output_format; /* of output_formats */
    int skip;          /* bad rows: 1, else they end it */
} predict_options;

static const char *const input_formats[] = { "auto", "csv", "tsv", "jsonl", NULL };
static const char *const output_formats[] = { "auto", "jsonl", "csv", NULL };
static const char *const headers[] = { "auto", "yes", "no", "true", "false", NULL };
static const char *const invalid[] = { "stop", "skip", NULL };

static const et_option options[] = {
    ET_OPTION_TEXT(predict_options, model_dir, "model-dir", "DIR",
                   "the run, job or export with the model", .missing = "the model"),
    ET_OPTION_TASK(predict_options, task),
    ET_OPTION_CHECKPOINT(predict_options, options.checkpoint),
    ET_OPTION_TEXT(predict_options, rows.path, "input", "FILE", "rows (default: standard input)"),
    ET_OPTION_TEXT(predict_options, output, "output", "FILE",
                   "predictions (default: standard output)"),
    ET_OPTION_CHOICE(predict_options, rows.format, "input-format", "csv|tsv|jsonl", input_formats,
                     "format of the rows (default: by the file's name, or csv)"),
    ET_OPTION_CHOICE(predict_options, output_format, "output-format", "jsonl|csv", output_formats,
                     "format of the predictions (default: by the file's name, or jsonl)"),
    ET_OPTION_TEXT(predict_options, delimiter, "delimiter", "C",
                   "delimiter of values (default: detected in the first row)"),
    ET_OPTION_CHOICE(predict_options, rows.header, "header", "auto|yes|no", headers,
                     "whether the first row has the column names"),
    ET_OPTION_COUNT(predict_options, batch_size, "batch-size", "N", 1, ET_PREDICTOR_BATCH_MAX,
                    "rows per computed batch (default: 256)",
                    .field.default_number = ET_PREDICTOR_BATCH),
    ET_OPTION_LIST(predict_options, keep, "keep", "COLUMN,...",
                   "columns of the input to copy to each prediction; may be given again"),
    ET_OPTION_GROUP(predict_options, decision, et_decision_options),
    ET_OPTION_CHOICE(predict_options, skip, "invalid", NULL, invalid,
                     "what to do with an invalid row (default: stop)"),
    ET_OPTION_FLAG(predict_options, form.full, "full",
                   "print numbers in full, not with five decimals"),
    ET_OPTION_FLAG(predict_options, form.numbers, "line-numbers",
                   "print the input line with each prediction"),
    ET_OPTION_LIVE_WEIGHTS(predict_options, options.live_weights),
    ET_OPTION_QUIET(predict_options, quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(predict_options, model_dir),
    ET_OPTION_FILE(predict_options, rows.path),
    ET_OPTION_END
};

const et_usage et_usage_predict = {
    options, sizeof(predict_options),
    "Predicts rows of CSV, TSV or JSON lines. Prints a line of JSON per row.",
    "runs/adult < rows.csv > predictions.jsonl"
};

/* TensorFX's names and defaults: a few rows at a time. */
static const et_option options_of_tfx[] = {
    ET_OPTION_TEXT(predict_options, model_dir, "model", "DIR", "the job or model to predict with",
                   .missing = "the model"),
    ET_OPTION_TEXT(predict_options, rows.path, "input", "FILE", "rows (default: standard input)"),
    ET_OPTION_TEXT(predict_options, output, "output", "FILE",
                   "predictions (default: standard output)"),
    ET_OPTION_COUNT(predict_options, batch_size, "batch-size", "N", 1, ET_PREDICTOR_BATCH_MAX,
                    "rows per computed batch (default: 10)", .field.default_number = 10),
    ET_OPTION_END
};

const et_usage et_usage_tfx_predict = { options_of_tfx, sizeof(predict_options),
                                        "Predicts rows of CSV. Prints a line of JSON per row.",
                                        "--model jobs/iris/model --input rows.csv" };

static int check(predict_options *args, et_error *error)
{
    static const char *const others[] = { ".tsv", ".xlsx", ".parquet", ".html" };
    if (!et_csv_character(&args->rows.delimiter, args->delimiter))
        return et_fail(error, ET_EUSAGE, "--delimiter %s: give one character, or tab",
                       args->delimiter);
    if (args->rows.header > ET_HEADER_ABSENT)
        args->rows.header -= ET_HEADER_ABSENT;
    for (size_t i = 0; i < sizeof others / sizeof *others && args->output; i++)
        if (!args->output_format && et_path_ends(args->output, others[i]))
            return et_fail(error, ET_EUSAGE,
                           "--output %s: predictions are JSON lines or CSV; give a file .jsonl or "
                           ".csv, or --output-format",
                           args->output);
    args->form.csv = args->output_format ? args->output_format == 2
                                         : args->output && et_path_ends(args->output, ".csv");
    args->rows.lenient = args->skip;
    args->rows.rows = args->options.batch_size = args->batch_size;
    int status = et_name_list_read(&args->form.keep, "--keep", &args->keep, &args->arena, error);
    args->rows.keep = args->form.keep;
    return status;
}

/* ---- blocks and threads ---- */

/* A block of rows. From et_queue_put to et_queue_take it belongs to a thread or a queue. */
typedef struct work {
    bool done;
    et_prediction_block block;
} work;

/* A predictor, and with several the thread that uses it. */
typedef struct worker {
    const struct pool *all;
    et_predictor *predictor;
    pthread_t thread;
} worker;

typedef struct pool {
    const predict_options *args;
    et_row_reader *reader;
    et_prediction_lines lines;
    et_decision decision;
    worker workers[THREADS_MAX];
    int predictors, threads; /* threads: in addition to this one; 0: none */
    work *work;              /* [works], a ring */
    int works;
    et_queue *ready, *done;   /* [works] of work: to the threads, and back in any order */
    et_unknown_values unseen; /* of the blocks that are written */
    bool *found;              /* [keep]: a row has the column */
    int64_t read, written;    /* blocks, counted */
    et_file_writer file;
} pool;

static void work_on(const worker *self, work *w)
{
    et_assert(!w->done && self->predictor);
    const predict_options *args = self->all->args;
    const et_prediction_how how = { .lines = &self->all->lines,
                                    .name = args->rows.path ? args->rows.path : "standard input",
                                    .lenient = args->rows.lenient };
    et_prediction_block_run(&w->block, self->predictor, &how);
}

static void *work_beside(void *payload)
{
    worker *self = payload;
    omp_set_num_threads(1);
    for (void *w; !et_queue_take(self->all->ready, &w, NULL) && w;) {
        work_on(self, w);
        et_queue_put(self->all->done, w);
    }
    return NULL;
}

static int start_threads(pool *all, et_error *error)
{
    if (all->predictors < 2)
        return ET_OK;
    int status = et_queue_open(&all->ready, (size_t)all->works, error);
    if (!status)
        status = et_queue_open(&all->done, (size_t)all->works, error);
    for (; all->threads < all->predictors && !status; all->threads += !status) {
        worker *next = &all->workers[all->threads];
        status = et_thread_start(&next->thread, work_beside, next, error);
    }
    return status;
}

/* ---- reading and writing ---- */

/* As et_print_results, straight to standard output, past its buffer. */
static int write_results(const char *bytes, size_t length, et_error *error)
{
    et_assert(bytes || !length);
    if (!isatty(STDOUT_FILENO))
        return et_fd_write(STDOUT_FILENO, bytes, length, "standard output", error);
    et_print_results(stdout, bytes, length);
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}

static int write_bytes(pool *all, const et_strbuf *lines, et_error *error)
{
    if (!lines->length)
        return ET_OK;
    return all->args->output ? et_file_writer_write(&all->file, lines->data, lines->length, error)
                             : write_results(lines->data, lines->length, error);
}

/* Writes the oldest block once it is done, and reports its filtered rows in order. */
static int write_oldest(pool *all, et_error *error)
{
    et_assert(all->written < all->read);
    work *w = &all->work[all->written % all->works];
    for (void *next; !w->done && !et_queue_take(all->done, &next, NULL);)
        ((work *)next)->done = true;
    all->written++;
    w->done = false;
    for (int64_t i = 0; i < w->block.rows.count; i++)
        if (w->block.rows.row[i].failure)
            et_log(ET_LOG_WARNING, "%s; left out", w->block.rows.row[i].failure);
    et_unknown_values_take(&all->unseen, &w->block.unseen);
    /* A row of JSON may lack a column, but if all rows do, its name is probably wrong. */
    const et_row_block *rows = &w->block.rows;
    const et_strings *keep = &all->args->form.keep;
    for (int64_t row = 0; row < rows->count; row++)
        for (size_t i = 0; i < keep->count; i++)
            all->found[i] |=
                rows->row[row].kept ||
                (rows->row[row].object && et_value_get(rows->row[row].object, keep->items[i]));
    int status = write_bytes(all, &w->block.lines, error);
    if (!status && w->block.status)
        status = et_fail(error, w->block.status, "%s", w->block.error.text);
    return status;
}

/* until: how many blocks may stay on their way. */
static int write_down_to(pool *all, int64_t until, et_error *error)
{
    et_assert(until >= 0 && until < all->works);
    int status = ET_OK;
    while (all->read - all->written > until && !status)
        status = write_oldest(all, error);
    return status;
}

static int run(pool *all, et_error *error)
{
    et_strbuf head = ET_STRBUF_INIT;
    et_error reason = ET_ERROR_INIT;
    int read = ET_OK;
    et_prediction_lines_begin(&all->lines, all->workers[0].predictor, &head);
    int status =
        head.failed ? et_alloc_failed(error, 1, "a header") : write_bytes(all, &head, error);
    et_strbuf_release(&head);
    while (!status && !read) {
        status = write_down_to(all, et_row_reader_waits(all->reader) ? 0 : all->works - 1, error);
        if (status)
            break;
        work *w = &all->work[all->read % all->works];
        read = et_row_reader_next(all->reader, &w->block.rows, &reason);
        if (!w->block.rows.count)
            break;
        all->read++;
        if (all->threads) {
            et_queue_put(all->ready, w);
        } else {
            work_on(&all->workers[0], w);
            w->done = true;
        }
    }
    if (!status)
        status = write_down_to(all, 0, error);
    if (!status && !read && !all->read)
        et_log(ET_LOG_WARNING, "%s: no rows, so no predictions",
               all->args->rows.path ? all->args->rows.path : "standard input");
    return status || !read ? status : et_fail(error, read, "%s", reason.text);
}

/* ---- the whole ---- */

/* Opens one single-threaded predictor for each thread; they share the first one's model. */
static int open_predictors(pool *all, et_error *error)
{
    et_assert(!all->predictors && !all->threads);
    const predict_options *args = all->args;
    int wanted = omp_get_max_threads(), status = ET_OK;
    wanted = wanted < 1 ? 1 : wanted > THREADS_MAX ? THREADS_MAX : wanted;
    omp_set_num_threads(1);
    for (int i = 0; i < wanted && !status; i++) {
        et_predictor_options how = args->options;
        if (i)
            how = (et_predictor_options){ .batch_size = args->batch_size,
                                          .shares = all->workers[0].predictor };
        all->workers[i].all = all;
        status =
            et_predictor_open(&all->workers[i].predictor, i ? NULL : args->model_dir, &how, error);
        all->predictors += !status;
    }
    omp_set_num_threads(wanted);
    return status;
}

static int open_work(pool *all, et_error *error)
{
    const et_table_model *model = all->workers[0].predictor->model;
    int works = all->predictors > 1 ? 2 * all->predictors + 1 : 1;
    all->work = et_alloc_zero((size_t)works, sizeof *all->work);
    all->found = et_alloc_zero(all->args->form.keep.count + 1, sizeof *all->found);
    if (!all->work || !all->found)
        return et_alloc_failed(error, (size_t)works * sizeof *all->work, "rows");
    int status = et_unknown_values_open(&all->unseen, model->encoder, model->texts.metadata, error);
    for (; all->works < works && !status; all->works++) {
        work *w = &all->work[all->works];
        status =
            et_prediction_block_open(&w->block, all->args->batch_size, all->args->form.keep.count,
                                     all->workers[0].predictor, error);
    }
    return status;
}

static int open_lines(pool *all, et_error *error)
{
    const et_predictor *p = all->workers[0].predictor;
    const et_decision_classes classes = et_decision_classes_of(p);
    et_prediction_form form = all->args->form;
    int status = et_decision_open(&all->decision, &all->args->decision, &classes, error);
    if (et_decision_is_given(&all->args->decision))
        form.decision = &all->decision.how;
    return status ? status : et_prediction_lines_open(&all->lines, p, &form, error);
}

static int open_all(pool *all, et_error *error)
{
    const predict_options *args = all->args;
    int status = open_predictors(all, error);
    if (!status)
        status = open_lines(all, error);
    if (!status)
        status = open_work(all, error);
    et_row_reader_options rows = args->rows;
    if (!status) {
        const et_table_model *model = all->workers[0].predictor->model;
        rows.csv = model->csv;
        status = et_row_reader_open(&all->reader, &rows, model->encoder, error);
    }
    if (!status && args->output)
        status = et_file_writer_open(&all->file, args->output, error);
    return status ? status : start_threads(all, error);
}

static void close_all(pool *all)
{
    if (all->ready) {
        et_queue_stop(all->ready);
        for (void *w; !et_queue_take(all->ready, &w, NULL) && w;)
            continue; /* what no thread has begun is left */
    }
    for (int i = 0; i < all->threads; i++)
        et_thread_join(all->workers[i].thread);
    et_queue_close(all->ready);
    et_queue_close(all->done);
    et_row_reader_close(all->reader);
    for (int i = 0; i < all->works; i++)
        et_prediction_block_release(&all->work[i].block);
    et_free(all->work);
    et_free(all->found);
    et_unknown_values_release(&all->unseen);
    et_prediction_lines_release(&all->lines);
    et_decision_release(&all->decision);
    while (all->predictors)
        et_predictor_close(all->workers[--all->predictors].predictor);
}

#define NAMES_SHOWN 12

/* At a terminal a person types: names the columns that the model reads. */
static void tell_waiting(const pool *all)
{
    const et_encoder *encoder = all->workers[0].predictor->model->encoder;
    const et_schema *schema = et_encoder_schema(encoder);
    et_strbuf names = ET_STRBUF_INIT;
    if (all->args->rows.path || all->args->quiet || !isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return;
    for (int i = 0, shown = 0; i < et_schema_count(schema) && shown <= NAMES_SHOWN; i++)
        if (et_encoder_reads(encoder, i, false)) {
            et_strbuf_printf(&names, "%s%s", shown ? "," : "",
                             shown < NAMES_SHOWN ? et_schema_at(schema, i)->name : "...");
            shown++;
        }
    et_print_lines(stderr,
                   "Type CSV: first a line with the names of columns (%s), then rows; Ctrl-D "
                   "ends.\n",
                   et_strbuf_text(&names));
    et_strbuf_release(&names);
}

static int predict(predict_options *args, const et_call *call, et_error *error)
{
    pool all = { .args = args, .file = { .fd = -1 } };
    int status = et_ranks_refuse(
        call, "it already uses all cores of a machine, so give each process a part of the rows",
        error);
    if (!status) {
        et_outputs outputs = { .program = call->program };
        et_outputs_read_input(&outputs, args->rows.path);
        et_outputs_read_model(&outputs, args->model_dir, args->options.checkpoint);
        et_outputs_check(&outputs, "--output", args->output, error);
        if (!args->output)
            et_outputs_check_standard(&outputs, error);
        status = et_outputs_release(&outputs);
    }
    if (status)
        return status;
    status = open_all(&all, error);
    if (!status)
        tell_waiting(&all);
    if (!status)
        status = run(&all, error);
    if (all.file.fd >= 0) {
        if (status)
            et_file_writer_abandon(&all.file);
        else
            status = et_file_writer_commit(&all.file, error);
    }
    if (!status) {
        et_unknown_values_warn(&all.unseen);
        const et_strings *keep = &all.args->form.keep;
        for (size_t i = 0; i < keep->count && all.read; i++)
            if (!all.found[i])
                et_log(ET_LOG_WARNING, "--keep %s: no row has this column", keep->items[i]);
    }
    close_all(&all);
    return status;
}

static int check_and_predict(predict_options *args, const et_call *call, et_error *error)
{
    int status = check(args, error);
    if (!status)
        status = predict(args, call, error);
    et_arena_release(&args->arena);
    return status;
}

int et_cmd_predict(const et_call *call, et_error *error)
{
    return check_and_predict(call->options, call, error);
}

int et_cmd_tfx_predict(const et_call *call, et_error *error)
{
    predict_options *args = call->options;
    args->form.lists = true;
    return check_and_predict(args, call, error);
}
