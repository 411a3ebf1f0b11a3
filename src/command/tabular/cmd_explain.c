/* etude explain: which columns a model's predictions depend on, and how.
 *
 *   rows -> et_explain -> importance of each column -> table, or JSON lines
 *                      -> partial dependence on a column -> table and chart, JSON lines, picture */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/threads/team.h"
#include "base/values/json.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/runs/chart.h"
#include "command/tabular/table_scores.h"
#include "command/tabular/tabular_commands.h"
#include "data/table/schema/schema.h"
#include "formats/events/progress.h"
#include "formats/grid.h"
#include "systems/training/session.h"
#include "tasks/tabular/predict/explain.h"
#include "tasks/tabular/predict/predict.h"

/* ---- measuring importance ---- */

ET_SORT_BY(by_mean, et_importance, ET_DOWN(mean), strcmp(a->column, b->column))

int et_importances_measure(et_importances *out, et_explain *explain, int repeats, size_t most,
                           et_error *error)
{
    et_assert(out && explain && repeats > 0);
    const et_schema *schema = et_encoder_schema(et_explain_predictor(explain)->model->encoder);
    const size_t fields = (size_t)et_schema_count(schema);
    const size_t room = most && most < fields ? most : fields;
    int status = ET_OK;
    *out = (et_importances){ .items = et_alloc(room, sizeof *out->items),
                             .worse = et_alloc(room * (size_t)repeats, sizeof *out->worse) };
    if (!out->items || !out->worse)
        return et_alloc_failed(error, "importance");
    for (int f = 0; f < (int)fields && !status; f++) {
        if (!et_explain_reads(explain, f))
            continue;
        if (out->count == room) {
            out->left++;
            continue;
        }
        et_importance *one = &out->items[out->count];
        *one = (et_importance){ .column = et_schema_at(schema, f)->name,
                                .worse = &out->worse[out->count * (size_t)repeats] };
        status = et_explain_importance(explain, f, repeats, one->worse, error);
        if (!status) {
            double sum = 0, squares = 0;
            for (int i = 0; i < repeats; i++)
                sum += one->worse[i];
            one->mean = sum / repeats;
            for (int i = 0; i < repeats; i++)
                squares += (one->worse[i] - one->mean) * (one->worse[i] - one->mean);
            one->deviation = sqrt(squares / repeats);
        }
        out->count++;
    }
    if (!status)
        qsort(out->items, out->count, sizeof *out->items, by_mean);
    return status;
}

void et_importances_release(et_importances *all)
{
    et_free(all->items);
    et_free(all->worse);
}

void et_importances_head(et_grid *grid)
{
    et_grid_add(grid, "column");
    et_grid_add(grid, "importance");
    et_grid_add(grid, "spread");
}

void et_importances_row(const et_importance *one, et_grid *grid)
{
    et_assert(one->column && one->worse);
    et_grid_add(grid, one->column);
    et_grid_addf(grid, "%.6f", one->mean);
    et_grid_addf(grid, "%.6f", one->deviation);
}

/* ---- the command's options ---- */

#define REPEATS_MAX 1000
#define POINTS_MAX  1000
#define BAR         20 /* characters of the longest bar */

typedef struct explain_options {
    const char *model_dir, *output, *delimiter;
    et_option_task task;
    et_predictor_options predictor;
    et_explain_options how;
    int64_t repeats, points, seed;
    et_strings partial;
    bool json;
    bool quiet;
} explain_options;

static const char *const input_formats[] = { "auto", "csv", "tsv", "jsonl", NULL };
static const char *const headers[] = { "auto", "yes", "no", "true", "false", NULL };

static const et_option options[] = {
    ET_OPTION_TEXT(explain_options, model_dir, "model-dir", "DIR",
                   "the run or export with the model", .missing = "the model"),
    ET_OPTION_TASK(explain_options, task),
    ET_OPTION_CHECKPOINT(explain_options, predictor.checkpoint),
    ET_OPTION_TEXT(explain_options, how.rows.path, "input", "FILE",
                   "rows with the target; - is standard input (default: standard input if it is a "
                   "file or a pipe, else the run's held-out rows)"),
    ET_OPTION_CHOICE(explain_options, how.rows.format, "input-format", "csv|tsv|jsonl",
                     input_formats, "format of the rows (default: by the file's name, or csv)"),
    ET_OPTION_TEXT(explain_options, delimiter, "delimiter", "C",
                   "delimiter of values (default: detected in the first row)"),
    ET_OPTION_CHOICE(explain_options, how.rows.header, "header", "auto|yes|no", headers,
                     "whether the first row has the column names"),
    ET_OPTION_TEXT(explain_options, how.metric, "metric", "NAME",
                   "score that a permuted column makes worse (default: log_loss, rmse or "
                   "pinball_loss)"),
    ET_OPTION_COUNT(explain_options, repeats, "repeats", "N", 1, REPEATS_MAX,
                    "permutations of each column (default: 5)", .field.default_number = 5),
    ET_OPTION_COUNT(explain_options, how.most, "rows", "N", 0, ET_OPTION_COUNT_MAX,
                    "use at most N rows, chosen by the seed (default: 10,000; 0: all)",
                    .field.default_number = 10000),
    ET_OPTION_COUNT(explain_options, seed, "seed", "N", 0, 9007199254740992.0,
                    "seed of permutations and of the choice of rows (default: 0)"),
    ET_OPTION_LIST(explain_options, partial, "partial", "COLUMN,...",
                   "instead: the mean prediction by values of these columns; may be given again"),
    ET_OPTION_COUNT(explain_options, points, "points", "N", 2, POINTS_MAX,
                    "of --partial: use at most N values of each column (default: 20)",
                    .field.default_number = 20),
    ET_OPTION_TEXT(explain_options, output, "output", "FILE",
                   "of --partial: picture of the curves of one column of numbers, FILE.svg or "
                   "FILE.png"),
    ET_OPTION_LIVE_WEIGHTS(explain_options, predictor.live_weights),
    ET_OPTION_FLAG(explain_options, json, "json", "print JSON lines"),
    ET_OPTION_QUIET(explain_options, quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(explain_options, model_dir),
    ET_OPTION_FILE(explain_options, how.rows.path),
    ET_OPTION_END
};

const et_usage et_usage_explain = {
    options, sizeof(explain_options),
    "Measures how much worse a model of a table becomes if a column is permuted, or how\n"
    "its mean prediction depends on a column.",
    "runs/adult new.csv --partial age,hours"
};

/* ---- checks ---- */

static int check(explain_options *args, et_error *error)
{
    if (!et_csv_character(&args->how.rows.delimiter, args->delimiter))
        return et_fail(error, ET_EUSAGE, "--delimiter %s: give one character, or tab",
                       args->delimiter);
    if (args->how.rows.header > ET_HEADER_ABSENT)
        args->how.rows.header -= ET_HEADER_ABSENT;
    if (args->output && !args->partial.count)
        return et_fail(error, ET_EUSAGE, "--output is a picture of --partial: name a column");
    if (args->how.metric && args->partial.count)
        return et_fail(error, ET_EUSAGE, "--metric has no effect with --partial: leave it out");
    args->how.seed = (uint64_t)args->seed;
    args->how.threads = et_team_threads();
    return args->output ? et_chart_check_picture("--output", args->output, error) : ET_OK;
}

static int print_object(const et_value *object, et_error *error)
{
    et_strbuf line = ET_STRBUF_INIT;
    if (et_value_failed(object))
        return et_alloc_failed(error, "results");
    et_json_print(&line, object, 0);
    et_strbuf_append_char(&line, '\n');
    int status = line.failed ? et_alloc_failed(error, "results") : ET_OK;
    if (!status)
        et_print_results(stdout, line.data, line.length);
    et_strbuf_release(&line);
    return status;
}

/* ---- importance ---- */

static const et_schema *schema_of(const et_explain *e)
{
    return et_encoder_schema(et_explain_predictor(e)->model->encoder);
}

/* "########", of the largest importance BAR characters. */
static void add_bar(et_grid *grid, double value, double largest)
{
    const int length = largest > 0 && value > 0 ? (int)lround(BAR * value / largest) : 0;
    const char *full = et_locale_is_utf8() ? "\xe2\x96\x88" : "#";
    et_strbuf bar = ET_STRBUF_INIT;
    for (int i = 0; i < length; i++)
        et_strbuf_append(&bar, full);
    et_grid_take(grid, &bar);
}

static int print_table(const et_explain *e, const et_importances *all,
                       const et_explain_facts *facts, et_error *error)
{
    const et_encoded_field *target = et_explain_predictor(e)->field;
    const bool one = target->width == 1;
    et_grid grid = { .columns = 4, .left = 1, .last_left = true, .most = ET_GRID_CELL_MAX };
    et_print(stdout, "%s%s%.70s is %.6g on %s; a permuted column makes it worse by\n",
             facts->metric, one ? " of " : "", one ? target->column[0] : "", facts->score,
             et_format_many(facts->rows, "row").text);
    et_importances_head(&grid);
    et_grid_add(&grid, "");
    for (size_t i = 0; i < all->count; i++) {
        et_importances_row(&all->items[i], &grid);
        add_bar(&grid, all->items[i].mean, all->items[0].mean);
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static int print_line(const et_importance *one, const explain_options *args,
                      const et_explain_facts *facts, et_error *error)
{
    et_assert(args->repeats > 0 && one->worse);
    et_arena arena = ET_ARENA_INIT;
    et_value *line = et_value_dict(&arena);
    et_value_set_string(line, "column", one->column);
    et_value_set_string(line, "metric", facts->metric);
    et_value_set_float(line, "score", facts->score);
    et_value_set_float(line, "importance", one->mean);
    et_value_set_float(line, "spread", one->deviation);
    et_value *repeats = et_value_set_list(line, "repeats");
    for (int64_t i = 0; i < args->repeats; i++)
        et_value_add_float(repeats, one->worse[i]);
    int status = print_object(line, error);
    et_arena_release(&arena);
    return status;
}

static int explain_all(const explain_options *args, et_explain *e, et_error *error)
{
    const et_explain_facts *facts = et_explain_facts_of(e);
    et_importances all;
    int status = et_importances_measure(&all, e, (int)args->repeats, 0, error);
    if (!status && !args->json)
        status = print_table(e, &all, facts, error);
    for (size_t i = 0; args->json && i < all.count && !status; i++)
        status = print_line(&all.items[i], args, facts, error);
    et_importances_release(&all);
    return status;
}

/* ---- partial dependence ---- */

/* A label, a target, or of quantiles a level: "0.1". */
static const char *name_of(const et_predictor *p, int i)
{
    return p->output[p->target].value[i];
}

static int print_points(const et_explain_partial *partial, const et_predictor *p,
                        const char *column, et_error *error)
{
    et_grid grid = { .columns = (size_t)partial->width + 1,
                     .left = partial->numbers ? 0 : 1,
                     .most = ET_GRID_CELL_MAX };
    et_grid_add(&grid, column);
    for (int i = 0; i < partial->width; i++)
        et_grid_add(&grid, name_of(p, i));
    for (int at = 0; at < partial->count; at++) {
        const et_cell *cell = &partial->text[at];
        et_grid_addf(&grid, "%.*s", (int)cell->length, cell->text);
        for (int i = 0; i < partial->width; i++)
            et_grid_addf(&grid, p->kind->labelled ? "%.5f" : "%.6g",
                         partial->mean[at * partial->width + i]);
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static int print_point(const et_explain_partial *partial, int at, const et_predictor *p,
                       const char *column, et_error *error)
{
    et_assert(at >= 0 && at < partial->count);
    et_arena arena = ET_ARENA_INIT;
    et_value *line = et_value_dict(&arena);
    const et_cell *cell = &partial->text[at];
    et_value_set_string(line, "column", column);
    if (partial->numbers)
        et_value_set_float(line, "value", partial->number[at]);
    else
        et_value_set_string(line, "value", et_arena_strndup(&arena, cell->text, cell->length));
    et_value *means = et_value_set_dict(line, p->kind->output);
    for (int i = 0; i < partial->width; i++)
        et_value_set_float(means, name_of(p, i), partial->mean[at * partial->width + i]);
    int status = print_object(line, error);
    et_arena_release(&arena);
    return status;
}

/* To a file or the terminal; columns of numbers. */
static int draw(const explain_options *args, const et_explain_partial *partial,
                const et_predictor *p, const char *column, et_error *error)
{
    const int curves = partial->width;
    const size_t points = (size_t)partial->count;
    et_chart_curve *curve = et_alloc_zero(curves, sizeof *curve);
    double *y = et_alloc_zero((size_t)curves * points, sizeof *y);
    const et_chart chart = {
        .title = p->kind->mean, .x_label = column, .curves = curve, .count = (size_t)curves
    };
    int status = curve && y ? ET_OK : et_alloc_failed(error, "curves");
    for (int c = 0; c < curves && !status; c++) {
        for (size_t i = 0; i < points; i++)
            y[(size_t)c * points + i] = partial->mean[i * (size_t)partial->width + (size_t)c];
        curve[c] =
            (et_chart_curve){ name_of(p, c), partial->number, y + (size_t)c * points, points };
    }
    if (!status)
        status = args->output ? et_chart_write(args->output, &chart, 0, 0, error)
                              : et_chart_print(&chart, 0, 0, error);
    et_free(curve);
    et_free(y);
    return status;
}

static int print_partial(const explain_options *args, const et_explain_partial *partial,
                         const et_predictor *p, const char *column, et_error *error)
{
    int status = ET_OK;
    for (int at = 0; args->json && at < partial->count && !status; at++)
        status = print_point(partial, at, p, column, error);
    if (!args->json)
        status = print_points(partial, p, column, error);
    const bool drawn = partial->numbers && partial->count > 1 && (args->output || !args->json);
    return status || !drawn ? status : draw(args, partial, p, column, error);
}

static int explain_column(const explain_options *args, et_explain *e, const char *name,
                          et_error *error)
{
    const int field = et_schema_position(schema_of(e), name);
    et_explain_partial partial = { .count = 0 };
    if (field < 0 || !et_explain_reads(e, field))
        return et_fail(error, ET_EUSAGE, "--partial %s: the model reads no such column%s", name,
                       et_predictor_hint(et_explain_predictor(e), name, true).text);
    int status = et_explain_partial_of(e, field, (int)args->points, &partial, error);
    if (!status && args->output && !(partial.numbers && partial.count > 1))
        status = et_fail(error, ET_EUSAGE,
                         "--output: %s is not a column of numbers that differ, so there is no "
                         "curve to draw; leave --output out",
                         name);
    if (!status)
        status = print_partial(args, &partial, et_explain_predictor(e), name, error);
    et_explain_partial_release(&partial);
    return status;
}

static int explain_columns(const explain_options *args, et_explain *e, const et_strings *names,
                           et_error *error)
{
    int status = ET_OK;
    if (args->output && names->count > 1)
        return et_fail(error, ET_EUSAGE,
                       "--output is the picture of one column, but --partial names %zu",
                       names->count);
    for (size_t i = 0; i < names->count && !status; i++) {
        if (i && !args->json)
            et_print(stdout, "\n");
        status = explain_column(args, e, names->items[i], error);
    }
    return status;
}

/* ---- rows of the run ---- */

/* The rows on which the run is validated: rows of separate files, rows held out of the training
 * files, or, with folds, all rows. Texts and numbers live in arena. */
static int take_own_rows(et_explain_options *how, const et_evaluation *evaluation, bool quiet,
                         et_arena *arena, et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(evaluation->task);
    const bool others = task->validation_tables[0] != NULL;
    const et_strings *paths = others ? &task->validation_paths[0] : &task->paths;
    if (task->options.train_data.mix.count && !others)
        return et_fail(error, ET_ECONFIG,
                       "explain: the run is trained on a mix of tables; name a file of rows");
    const char **names = et_arena_array(arena, paths->count, sizeof *names);
    if (!names)
        return et_alloc_failed(error, "names");
    for (size_t i = 0; i < paths->count; i++)
        names[i] = et_arena_strdup(arena, paths->items[i]);
    how->paths = (et_strings){ names, paths->count };
    how->only_count = (size_t)task->validation[0]->count;
    const uint32_t *rows = others ? NULL : task->validated;
    const bool all = !rows || how->only_count == (size_t)task->table->count;
    uint32_t *only = all ? NULL : et_arena_array(arena, how->only_count, sizeof *only);
    if (only)
        memcpy(only, rows, how->only_count * sizeof *only);
    how->only = only;
    if (arena->failed)
        return et_alloc_failed(error, "rows");
    if (!quiet)
        et_print(stderr, "rows         %s %s of %s%s%s; name a FILE to use other rows\n",
                 et_format_count((int64_t)how->only_count).text,
                 others ? "validation rows"
                 : all  ? "rows"
                        : "held-out rows",
                 names[0], paths->count > 1 ? ", ..." : "",
                 all && !others ? ", which the models of the folds learned" : "");
    return ET_OK;
}

static int find_own_rows(explain_options *args, const et_call *call, et_arena *arena,
                         et_error *error)
{
    et_experiment experiment;
    const char *run = args->model_dir;
    et_evaluation evaluation = { .model_dir = run, .experiment = &experiment };
    int status;
    if (!(status = et_experiment_open_run(&experiment, call->program, run, arena, error)) &&
        !(status = et_experiment_check(&experiment, error))) {
        experiment.locked = true;
        status = et_session_tell_directory(run, et_evaluation_open(&evaluation, error), error);
        if (!status)
            status = take_own_rows(&args->how, &evaluation, args->quiet, arena, error);
    }
    et_evaluation_close(&evaluation);
    return status ? et_fail_while(error, status,
                                  "explain: no FILE is given, so it reads the run's own rows")
                  : ET_OK;
}

/* ---- the whole ---- */

int et_cmd_explain(const et_call *call, et_error *error)
{
    explain_options *args = call->options;
    et_arena arena = ET_ARENA_INIT;
    et_explain *e = NULL;
    et_strings names;
    struct stat about;
    int status;
    if (!(status = check(args, error)) &&
        !(status = et_ranks_refuse(call, "it already uses all cores of a machine", error))) {
        et_outputs outputs = { .program = call->program };
        et_outputs_read_input(&outputs, args->how.rows.path);
        et_outputs_read_model(&outputs, args->model_dir, args->predictor.checkpoint);
        et_outputs_check(&outputs, "--output", args->output, error);
        et_outputs_check_standard(&outputs, error);
        status = et_outputs_release(&outputs);
    }
    if (!status)
        status = et_name_list_read(&names, "--partial", &args->partial, &arena, error);
    const bool standard = args->how.rows.path && !strcmp(args->how.rows.path, "-");
    /* A terminal and /dev/null are no input, but a file or a pipe is. */
    const bool own =
        !args->how.rows.path && (fstat(STDIN_FILENO, &about) || S_ISCHR(about.st_mode));
    if (standard)
        args->how.rows.path = NULL;
    if (!status && own)
        status = find_own_rows(args, call, &arena, error);
    if (!status) {
        status = et_explain_open(&e, args->model_dir, &args->predictor, &args->how, error);
        const et_explain_facts *facts = status ? NULL : et_explain_facts_of(e);
        if (facts && facts->unlabeled && !args->quiet)
            et_print(stderr, "%s without a target: ignored\n",
                     et_format_many(facts->unlabeled, "row").text);
        if (facts && facts->rows < facts->found && !args->quiet)
            et_print(stderr, "%s of %s rows, chosen by --seed %lld (--rows 0: all)\n",
                     et_format_count(facts->rows).text, et_format_count(facts->found).text,
                     (long long)args->seed);
        if (facts)
            status =
                names.count ? explain_columns(args, e, &names, error) : explain_all(args, e, error);
        status = et_print_end(status, error);
        et_explain_close(e);
    }
    et_arena_release(&arena);
    return status;
}
