/* etude predict: options, and a filter from rows to lines (prediction_lines.h). */
#include <omp.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/tabular/decision.h"
#include "command/tabular/tabular_commands.h"
#include "formats/records/packed.h"
#include "tasks/tabular/predict/prediction_lines.h"

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
                   "predictions, plain or .gz (default: standard output)"),
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
                   "predictions, plain or .gz (default: standard output)"),
    ET_OPTION_COUNT(predict_options, batch_size, "batch-size", "N", 1, ET_PREDICTOR_BATCH_MAX,
                    "rows per computed batch (default: 10)", .field.default_number = 10),
    ET_OPTION_END
};

const et_usage et_usage_tfx_predict = { options_of_tfx, sizeof(predict_options),
                                        "Predicts rows of CSV. Prints a line of JSON per row.",
                                        "--model jobs/iris/model --input rows.csv" };

static int check(predict_options *args, et_error *error)
{
    static const char *const others[] = { ".tsv", ".tsv.gz", ".xlsx", ".parquet", ".html" };
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
    args->form.csv = args->output_format == 2;
    if (!args->output_format && args->output)
        args->form.csv =
            et_path_ends(args->output, ".csv") || et_path_ends(args->output, ".csv.gz");
    args->rows.lenient = args->skip;
    args->rows.rows = args->options.batch_size = args->batch_size;
    int status = et_name_list_read(&args->form.keep, "--keep", &args->keep, &args->arena, error);
    args->rows.keep = args->form.keep;
    return status;
}

/* ---- the whole ---- */

/* From rows to the output. */
typedef struct prediction {
    const predict_options *args;
    et_predictors predictors;
    et_decision decision;
    et_prediction_lines lines;
    et_row_filter filter;
    et_packed_writer *file; /* NULL: standard output */
} prediction;

/* As et_print_results, straight to standard output, past its buffer. */
static int write_results(void *self, const char *bytes, size_t length, et_error *error)
{
    prediction *all = self;
    et_assert(bytes && length);
    if (all->file)
        return et_packed_write(all->file, bytes, length, error);
    if (!isatty(STDOUT_FILENO))
        return et_fd_write(STDOUT_FILENO, bytes, length, "standard output", error);
    et_print_results(stdout, bytes, length);
    return et_print_end(ET_OK, error);
}

static int open_all(prediction *all, et_error *error)
{
    const predict_options *args = all->args;
    et_row_reader_options rows = args->rows;
    et_prediction_form form = args->form;
    int status = et_predictors_open(&all->predictors, args->model_dir, &args->options,
                                    omp_get_max_threads(), error);
    if (status)
        return status;
    const et_predictor *p = all->predictors.each[0];
    const et_decision_classes classes = et_decision_classes_of(p);
    if (et_decision_is_given(&args->decision))
        form.decision = &all->decision.how;
    rows.csv = p->model->csv;
    if ((status = et_decision_open(&all->decision, &args->decision, &classes, error)) ||
        (status = et_prediction_lines_open(&all->lines, p, &form, error)) ||
        (status = et_row_reader_open(&all->filter.reader, &rows, p->model->encoder, error)))
        return status;
    return args->output ? et_packed_writer_open(&all->file, args->output,
                                                et_path_ends(args->output, ".gz"), error)
                        : ET_OK;
}

#define NAMES_SHOWN 12

/* At a terminal a person types: names the columns that the model reads. */
static void tell_waiting(const prediction *all)
{
    const et_encoder *encoder = all->predictors.each[0]->model->encoder;
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
    prediction all = { .args = args };
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
    et_row_filter *filter = &all.filter;
    *filter = (et_row_filter){ &all.predictors, &all.lines, .write = write_results, .self = &all };
    if (!(status = open_all(&all, error))) {
        tell_waiting(&all);
        status = et_row_filter_run(filter, error);
    }
    if (!status && !filter->blocks)
        et_log(ET_LOG_WARNING, "%s: no rows, so no predictions",
               args->rows.path ? args->rows.path : "standard input");
    status = et_packed_writer_end(all.file, status, error);
    if (!status)
        et_row_filter_warn(filter);
    et_row_filter_release(filter);
    et_row_reader_close(filter->reader);
    et_prediction_lines_release(&all.lines);
    et_decision_release(&all.decision);
    et_predictors_close(&all.predictors);
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
