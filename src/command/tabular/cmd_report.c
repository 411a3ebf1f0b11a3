/* etude report: a page about a run of a table.
 *
 *   evaluation (scores, classes), history (curves), explain (importance), train.log (warnings)
 *       -> report_page -> one HTML file
 *
 * The command is `evaluate` with another output: it chooses rows and weights in the same way. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/threads/team.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/ranks.h"
#include "command/runs/chart.h"
#include "command/runs/history.h"
#include "command/tabular/table_scores.h"
#include "command/tabular/tabular_commands.h"
#include "data/text/paths.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/predict/explain.h"
#include "tasks/tabular/setup/setup.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

/* ---- the page ---- */

/* The page of `etude report`: one HTML document for light and dark screens, which loads nothing.
 * Texts may come from anyone, so they are escaped. page.html.failed remembers a lack of memory. */

typedef struct report_page {
    et_strbuf html; /* owned by the caller */
    bool section;   /* one is open */
    bool facts;     /* a list of facts is open */
} report_page;

/* Pixels. A page of 420 pixels shows a chart nearly in this size, so its text is readable. */
#define CHART_WIDTH  400
#define CHART_HEIGHT 320

static const char page_head[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n";

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark;--back:#f6f7f9;--card:#fff;--text:#1c2430;--soft:#5c6877;"
    "--line:#dde2e8;--mark:#2f6fde}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#12161c;--card:#1a2029;--text:#e4e9f0;"
    "--soft:#98a4b3;--line:#2c3541;--mark:#7aa7ff}}\n"
    "body{margin:0 auto;max-width:980px;padding:16px;background:var(--back);color:var(--text);"
    "font:15px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,\"DejaVu Sans\",sans-serif}\n"
    "section{background:var(--card);border:1px solid var(--line);border-radius:8px;"
    "padding:4px 18px 14px;margin:14px 0;overflow-x:auto}\n"
    "h1{font-size:22px;overflow-wrap:anywhere}h2{font-size:17px}h3{font-size:15px}\n"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 18px}\n"
    "dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}\n"
    "table{border-collapse:collapse;margin:6px 0}\n"
    "td,th{padding:3px 12px 3px 0;text-align:left;border-bottom:1px solid var(--line);"
    "vertical-align:top}\n"
    ".number{text-align:right;font-variant-numeric:tabular-nums}\n"
    "pre{background:var(--back);border:1px solid var(--line);border-radius:6px;padding:8px 12px;"
    "overflow-x:auto;font-size:13px}\n"
    "summary{cursor:pointer;color:var(--mark)}svg{max-width:100%;height:auto;"
    "margin:6px 24px 6px 0;vertical-align:top}\n"
    "@media(max-width:600px){body{padding:8px;font-size:14px}section{padding:2px 12px 12px}"
    "td,th{padding:3px 10px 3px 0;font-size:13px}td:last-child{min-width:7em}"
    ".number:last-child{min-width:0}dl{grid-template-columns:minmax(5em,max-content) 1fr;"
    "gap:2px 10px}pre{white-space:pre-wrap;overflow-wrap:anywhere}svg{margin-right:0}}\n"
    "</style>\n";

static void page_begin(report_page *page, const char *title)
{
    *page = (report_page){ .section = false };
    et_strbuf_append(&page->html, page_head);
    et_strbuf_append(&page->html, "<title>");
    et_markup_append(&page->html, title);
    et_strbuf_append(&page->html, "</title>\n");
    et_strbuf_append(&page->html, style);
    et_strbuf_append(&page->html, "</head>\n<body>\n<h1>");
    et_markup_append(&page->html, title);
    et_strbuf_append(&page->html, "</h1>\n");
}

static void end_facts(report_page *page)
{
    et_strbuf_append(&page->html, page->facts ? "</dl>\n" : "");
    page->facts = false;
}

static void append_element(report_page *page, const char *name, const char *text)
{
    et_strbuf_printf(&page->html, "<%s>", name);
    et_markup_append(&page->html, text);
    et_strbuf_printf(&page->html, "</%s>\n", name);
}

/* Ends the section before. */
static void page_section(report_page *page, const char *title)
{
    et_assert(title);
    end_facts(page);
    et_strbuf_append(&page->html, page->section ? "</section>\n<section>\n" : "<section>\n");
    append_element(page, "h2", title);
    page->section = true;
}

/* "rows 30,162": consecutive ones are one list. */
static void page_fact(report_page *page, const char *name, const char *format, ...)
{
    et_assert(name && format);
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    et_strbuf_append(&page->html, page->facts ? "" : "<dl>\n");
    page->facts = true;
    append_element(page, "dt", name);
    append_element(page, "dd", et_strbuf_text(&text));
    page->html.failed |= text.failed;
    et_strbuf_release(&text);
}

static void page_text(report_page *page, const char *format, ...)
{
    et_strbuf text = ET_STRBUF_INIT;
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(&text, format, arguments);
    va_end(arguments);
    end_facts(page);
    append_element(page, "p", et_strbuf_text(&text));
    page->html.failed |= text.failed;
    et_strbuf_release(&text);
}

/* Line by line, because escaped text is first made plain. */
static void append_lines(report_page *page, const char *text)
{
    et_strbuf line = ET_STRBUF_INIT;
    et_strbuf_append(&page->html, "<pre>");
    while (*text) {
        const size_t length = strcspn(text, "\n");
        et_strbuf_reset(&line);
        et_strbuf_append_bytes(&line, text, length);
        et_markup_append(&page->html, et_strbuf_text(&line));
        et_strbuf_append_char(&page->html, '\n');
        text += length + (text[length] == '\n');
    }
    et_strbuf_append(&page->html, "</pre>\n");
    page->html.failed |= line.failed;
    et_strbuf_release(&line);
}

/* Adds lines unchanged, such as commands. */
static void page_lines(report_page *page, const char *text)
{
    end_facts(page);
    append_lines(page, text);
}

static void page_grid(report_page *page, const et_grid *grid)
{
    end_facts(page);
    et_grid_append(grid, ET_GRID_HTML, &page->html);
}

/* A chart without points is left out. Successive charts are side by side on a wide page. */
static int page_chart(report_page *page, const et_chart *chart, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    size_t points = 0;
    end_facts(page);
    for (size_t i = 0; i < chart->count; i++)
        points += chart->curves[i].count;
    int status =
        points ? et_chart_svg(&page->html, chart, CHART_WIDTH, CHART_HEIGHT, &reason) : ET_OK;
    return status == ET_EDATA || !status ? ET_OK : et_fail(error, status, "%s", reason.text);
}

static int page_bars(report_page *page, const et_chart_bars *bars, et_error *error)
{
    end_facts(page);
    return bars->count ? et_chart_bars_svg(&page->html, bars, CHART_WIDTH, error) : ET_OK;
}

/* ---- the report ---- */

#define TEXT_MAX     ((size_t)64 << 20) /* bytes of train.log and params.yaml */
#define REPEATS      5
#define COLUMNS_MAX  2000 /* most columns of the table */
#define MEASURED_MAX 500  /* most columns whose importance is measured */
#define WARNINGS_MAX 50
#define BARS_MAX     25 /* most columns whose importance is drawn */

typedef struct report_options {
    et_evaluate_args general;
    const char *output;
    int64_t rows;
} report_options;

static const et_option options[] = {
    ET_OPTION_TEXT(report_options, output, "output", "FILE",
                   "page to write, FILE.html (default: RUN.html, if no such file exists)"),
    ET_OPTION_COUNT(report_options, rows, "rows", "N", 0, ET_OPTION_COUNT_MAX,
                    "measure importance on at most N rows (default: 2,000; 0: none)",
                    .field.default_number = 2000),
    ET_OPTION_MODEL_DIR(report_options, general.model_dir),
    ET_OPTION_TASK(report_options, general.task),
    ET_OPTION_LIST(report_options, general.data, "data", "FILE",
                   "score these files, not the run's validation data; may be given again"),
    ET_OPTION_CHECKPOINT(report_options, general.checkpoint),
    ET_OPTION_SET(report_options, general.set,
                  "settings that override the run's settings; may be given again"),
    ET_OPTION_LIVE_WEIGHTS(report_options, general.live_weights),
    ET_OPTION_QUIET(report_options, general.quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_RUN(report_options, general.model_dir),
    ET_OPTION_REST(report_options, general.data, "[FILE]..."),
    ET_OPTION_END,
};

const et_usage et_usage_report = {
    options, sizeof(report_options),
    "Writes a page about a run of a table: data, columns, scores, curves, importance,\n"
    "warnings, settings, and how to use the model.",
    "runs/adult --output adult.html"
};

typedef struct reporting {
    const report_options *args;
    const et_program *program;
    const char *run;  /* with the history, the log and the settings */
    const char *task; /* one of the run's tasks, whose folder is --model-dir; NULL: it has one */
    et_history *history;
    et_table_scores scores;
    report_page page;
    char *output; /* owned: the default */
} reporting;

/* ---- the run and its data ---- */

/* NULL: no such file. The caller owns the text. */
static char *read_text(const reporting *r, const char *name)
{
    char *text;
    size_t length;
    const et_path path = et_path_of(r->run, name);
    return et_file_read(&text, &length, path.text, TEXT_MAX, NULL) ? NULL : text;
}

static void add_run(reporting *r, const et_evaluation *evaluation)
{
    const et_history *h = r->history;
    const et_history_best best = et_history_best_of(h);
    const double seconds = et_history_seconds_in_all(h);
    const int64_t steps = et_history_steps(h);
    const int64_t done = et_history_steps_done(h);
    report_page *page = &r->page;
    page_section(page, "Run");
    page_fact(page, "experiment", "%s", evaluation->experiment->name);
    if (*et_history_state_name(et_history_state_of(h)))
        page_fact(page, "state", "%s", et_history_state_name(et_history_state_of(h)));
    if (done >= 0)
        page_fact(page, "steps", "%s%s%s", et_format_count(done).text, steps > 0 ? " of " : "",
                  steps > 0 ? et_format_count(steps).text : "");
    if (!isnan(seconds))
        page_fact(page, "training time", "%s", et_format_duration(seconds).text);
    page_fact(page, "parameters", "%s",
              et_format_count(et_params_elements(evaluation->params)).text);
    page_fact(page, "checkpoint", "%s, step %lld", evaluation->path, (long long)evaluation->step);
    if (best.series && best.step >= 0)
        page_fact(page, "best", "%s %s at step %lld", best.metric, et_format_value(best.value).text,
                  (long long)best.step);
}

static void add_files(report_page *page, const char *name, const et_strings *files)
{
    for (size_t i = 0; i < files->count; i++)
        page_fact(page, i ? "" : name, "%s", files->items[i]);
}

static void add_data(reporting *r, const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    const et_column_metadata *first =
        et_metadata_count(task->texts.metadata) ? et_metadata_at(task->texts.metadata, 0) : NULL;
    report_page *page = &r->page;
    page_section(page, "Data");
    add_files(page, "training", &o->train_data.input_path);
    if (r->args->general.data.count)
        add_files(page, "scored", &r->args->general.data);
    else if (et_tabular_has_validation_data(o))
        add_files(page, "validation", &o->validation_data.input_path);
    else if (et_tabular_has_out_of_fold(task))
        page_fact(page, "validation",
                  "%lld folds: each row by the models that did not learn it (%s)",
                  (long long)o->n_splits, ET_SERIES_FOLDS);
    else
        page_fact(page, "validation", "%g %% of the training rows, which are held out",
                  100 * o->held_out);
    if (first && first->count + first->missing > 0)
        page_fact(page, "rows", "%s", et_format_count(first->count + first->missing).text);
    page_fact(page, "columns", "%s", et_format_count(et_schema_count(task->texts.schema)).text);
    for (size_t i = 0; i < o->target.count; i++)
        page_fact(page, "target", "%s", o->target.items[i]);
    if (o->id)
        page_fact(page, "ID", "%s", o->id);
}

/* ---- columns ---- */

static int add_columns(reporting *r, const et_tabular_task *task, et_error *error)
{
    static const char *const head[] = { "column", "type", "missing", "distinct", "use" };
    const int count = et_schema_count(task->texts.schema);
    et_column_use *uses = et_alloc((size_t)count + 1, sizeof *uses);
    et_grid grid = { .columns = 5, .left = 2, .last_left = true };
    if (!uses)
        return et_alloc_failed(error, "columns");
    et_tabular_find_uses(task, uses);
    page_section(&r->page, "Columns");
    et_grid_add_row(&grid, head);
    for (int i = 0; i < count && i < COLUMNS_MAX; i++) {
        const et_column_use *use = &uses[i];
        const et_schema_field *field = et_schema_at(task->texts.schema, i);
        const et_column_metadata *m = et_metadata_find(task->texts.metadata, field->name);
        et_strbuf text = ET_STRBUF_INIT;
        et_column_use_print(&text, use, m);
        et_grid_add(&grid, field->name);
        et_grid_add(&grid, et_schema_type_name(field->type));
        et_grid_add(&grid, m ? et_format_count(m->missing).text : "");
        et_grid_add(&grid, m ? et_format_count(et_column_distinct(m)).text : "");
        et_grid_take(&grid, &text);
    }
    page_grid(&r->page, &grid);
    if (count > COLUMNS_MAX)
        page_text(&r->page, "%s more columns are not listed.",
                  et_format_count(count - COLUMNS_MAX).text);
    et_grid_release(&grid);
    et_free(uses);
    return ET_OK;
}

/* ---- scores ---- */

static void add_values(et_grid *grid, const et_value *logs, const char *set)
{
    for (const et_value *v = logs->first; v; v = v->next) {
        if (et_metric_repeats(logs, v))
            continue;
        if (v->kind == ET_VALUE_DICT) {
            add_values(grid, v, v->key);
        } else if (et_value_is_number(v)) {
            et_grid_addf(grid, "%s%s%s", set, *set ? "/" : "", et_evaluation_name(logs, v));
            et_grid_addf(grid, "%.6g", et_value_number(v));
        }
    }
}

static int add_class_chart(reporting *r, bool roc, et_error *error)
{
    et_class_chart chart;
    et_error reason = ET_ERROR_INIT;
    int status = et_class_chart_open(&chart, roc, r->scores.set, r->scores.sets, &reason);
    if (!status)
        status = page_chart(&r->page, &chart.chart, &reason);
    et_class_chart_release(&chart);
    return status == ET_EDATA || !status ? ET_OK : et_fail(error, status, "%s", reason.text);
}

/* Predicted against true, and residuals against predicted, with the lines of perfect predictions.
 */
static int add_number_charts(reporting *r, const et_number_rows *rows, et_error *error)
{
    double predicted[2] = { (double)INFINITY, -(double)INFINITY };
    double span[2] = { (double)INFINITY, -(double)INFINITY }; /* of both lists of numbers */
    const double zero[2] = { 0, 0 };
    double *residual;
    if (ET_ALLOC(residual, rows->count + 1, "residuals", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < rows->count; i++) {
        residual[i] = rows->truth[i] - rows->predicted[i];
        predicted[0] = fmin(predicted[0], rows->predicted[i]);
        predicted[1] = fmax(predicted[1], rows->predicted[i]);
        span[0] = fmin(span[0], fmin(rows->truth[i], rows->predicted[i]));
        span[1] = fmax(span[1], fmax(rows->truth[i], rows->predicted[i]));
    }
    const et_chart_curve against[] = { { "rows", rows->truth, rows->predicted, rows->count },
                                       { "perfect", span, span, 2 } };
    const et_chart_curve residuals[] = { { "rows", rows->predicted, residual, rows->count },
                                         { "perfect", predicted, zero, 2 } };
    et_strbuf label[3] = { ET_STRBUF_INIT, ET_STRBUF_INIT, ET_STRBUF_INIT };
    et_strbuf_printf(&label[0], "%s, true", rows->target);
    et_strbuf_printf(&label[1], "%s, predicted%s", rows->target, rows->median ? " (median)" : "");
    et_strbuf_printf(&label[2], "%s, true - predicted", rows->target);
    const et_chart charts[] = { { .title = "predicted and true",
                                  .x_label = et_strbuf_text(&label[0]),
                                  .y_label = et_strbuf_text(&label[1]),
                                  .curves = against,
                                  .count = 2,
                                  .dots = 1 },
                                { .title = "residuals",
                                  .x_label = et_strbuf_text(&label[1]),
                                  .y_label = et_strbuf_text(&label[2]),
                                  .curves = residuals,
                                  .count = 2,
                                  .dots = 1 } };
    if (rows->set)
        page_text(&r->page, "Rows of %s:", rows->set);
    if (rows->all > rows->count)
        page_text(&r->page, "The charts have %s of %s rows.",
                  et_format_count((int64_t)rows->count).text,
                  et_format_count((int64_t)rows->all).text);
    int status = ET_OK;
    for (int i = 0; i < 2 && !status; i++)
        status = page_chart(&r->page, &charts[i], error);
    for (int i = 0; i < 3; i++) {
        r->page.html.failed |= label[i].failed;
        et_strbuf_release(&label[i]);
    }
    et_free(residual);
    return status;
}

static int add_scores(reporting *r, const et_value *logs, et_error *error)
{
    et_grid grid = { .columns = 2, .left = 1 };
    int status = ET_OK;
    page_section(&r->page, "Scores");
    et_grid_add(&grid, "metric");
    et_grid_add(&grid, "value");
    add_values(&grid, logs, "");
    page_grid(&r->page, &grid);
    et_grid_release(&grid);
    for (size_t i = 0; i < r->scores.sets && !status; i++)
        status = et_class_tables_append(&r->scores.set[i], ET_GRID_HTML, &r->page.html, error);
    if (!status && r->scores.sets)
        status = add_class_chart(r, true, error);
    if (!status && r->scores.sets)
        status = add_class_chart(r, false, error);
    if (r->scores.number_count)
        page_text(&r->page, "rmse, mae and residuals have the unit of the target's column.");
    for (size_t i = 0; i < r->scores.number_count && !status; i++)
        status = add_number_charts(r, &r->scores.numbers[i], error);
    return status;
}

/* ---- candidates ---- */

/* The part of the model that is a candidate's: weights of its members, NAME or NAME_1 to NAME_K. A
 * run with one member has no list. */
static double weight_of(const et_value *ensemble, const char *candidate)
{
    const size_t length = strlen(candidate);
    double sum = 0;
    for (const et_value *m = ensemble ? ensemble->first : NULL; m; m = m->next) {
        const char *name = NULL;
        double weight = 0;
        if (et_value_read_string(m, "name", &name, NULL) ||
            et_value_read_float(m, "weight", &weight, NULL) ||
            strncmp(name, candidate, length) != 0)
            continue;
        const char *rest = name + length;
        if (!*rest || (*rest == '_' && rest[1] && !rest[1 + strspn(rest + 1, "0123456789")]))
            sum += weight;
    }
    return sum;
}

/* A line of members.jsonl as a row: candidate, the metrics of head, time, weight. */
static void add_candidate(reporting *r, et_grid *grid, const et_value *line,
                          const et_value *metrics, const et_value *ensemble)
{
    const et_value *values = et_value_get(line, "values"),
                   *deviation = et_value_get(line, "deviation");
    const char *name = "", *why = "";
    double seconds = 0, value, margin;
    (void)et_value_read_string(line, "candidate", &name, NULL);
    if (!values || !metrics) {
        (void)et_value_read_string(line, "left_out", &why, NULL);
        page_text(&r->page, "%s was left out: %s.", name, why);
        return;
    }
    et_grid_add(grid, name);
    for (const et_value *m = metrics->first; m; m = m->next)
        if (et_value_read_float(values, m->key, &value, NULL))
            et_grid_add(grid, "");
        else if (et_value_read_float(deviation, m->key, &margin, NULL))
            et_grid_add(grid, et_format_value(value).text);
        else
            et_grid_addf(grid, "%s +- %s", et_format_value(value).text,
                         et_format_value(margin).text);
    (void)et_value_read_float(line, "seconds", &seconds, NULL);
    et_grid_add(grid, et_format_duration(seconds).text);
    if (ensemble)
        et_grid_addf(grid, "%.2f", weight_of(ensemble, name));
}

/* The trained candidates of a series, such as tabular/auto, and their weights. */
static int add_candidates(reporting *r, et_error *error)
{
    const et_value *ensemble = et_history_setting(r->history, "task.ensemble");
    const et_value *metrics = NULL;
    const char *names[ET_CHART_BARS_MAX];
    double weights[ET_CHART_BARS_MAX];
    et_chart_bars bars = { .title = "weights in the model", .names = names, .values = weights };
    et_arena arena = ET_ARENA_INIT;
    et_grid grid = { .left = 1 };
    char *text = read_text(r, ET_SERIES_LOG);
    int status = ET_OK;
    if (ensemble && (ensemble->kind != ET_VALUE_LIST || !ensemble->count))
        ensemble = NULL;
    if (text)
        page_section(&r->page, "Candidates");
    for (char *at = text, *end; at && *at && !status; at = end) {
        const size_t length = strcspn(at, "\n");
        et_value *line;
        end = at + length + (at[length] == '\n');
        /* The last line may be incomplete. */
        if (et_json_parse(&line, &arena, at, length, ET_SERIES_LOG, NULL) ||
            line->kind != ET_VALUE_DICT)
            continue;
        const et_value *values = et_value_get(line, "values");
        if (!metrics && values && values->kind == ET_VALUE_DICT) {
            metrics = values;
            grid.columns = 2 + values->count + (ensemble != NULL);
            et_grid_add(&grid, "candidate");
            for (const et_value *m = values->first; m; m = m->next)
                et_grid_add(&grid, m->key);
            et_grid_add(&grid, "time");
            if (ensemble)
                et_grid_add(&grid, "weight");
        }
        add_candidate(r, &grid, line, metrics, ensemble);
        if (ensemble && values && bars.count < ET_CHART_BARS_MAX &&
            !et_value_read_string(line, "candidate", &names[bars.count], NULL)) {
            weights[bars.count] = weight_of(ensemble, names[bars.count]);
            bars.count++;
        }
    }
    if (metrics) {
        page_grid(&r->page, &grid);
        status = page_bars(&r->page, &bars, error);
    }
    et_grid_release(&grid);
    et_arena_release(&arena);
    et_free(text);
    return status;
}

/* ---- curves ---- */

static int make_curve(et_chart_curve *curve, const et_history_series *s, et_arena *arena,
                      et_error *error)
{
    et_assert(s->count > 0);
    double *x = et_arena_array(arena, s->count, sizeof *x);
    double *y = et_arena_array(arena, s->count, sizeof *y);
    *curve = (et_chart_curve){ et_history_label(s, arena), x, y, s->count };
    if (arena->failed)
        return et_alloc_failed(error, "a curve");
    for (size_t i = 0; i < s->count; i++) {
        x[i] = (double)s->points[i].step;
        y[i] = s->points[i].value;
    }
    return ET_OK;
}

/* Series that are NULL are left out. */
static int add_curves(reporting *r, const et_history_series *const *series, int count,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_chart_curve curves[2];
    et_chart chart = { .x_label = "step", .curves = curves };
    int status = ET_OK;
    for (int i = 0; i < count && !status; i++)
        if (series[i])
            status = make_curve(&curves[chart.count++], series[i], &arena, error);
    if (chart.count == 1) { /* its name is that of the axis */
        chart.y_label = curves[0].name;
        curves[0].name = NULL;
    } else {
        chart.y_label = "loss";
    }
    if (!status)
        status = page_chart(&r->page, &chart, error);
    et_arena_release(&arena);
    return status;
}

/* NULL: the run has not logged it. */
static const et_history_series *find_loss(const reporting *r, const char *name)
{
    const et_history_series *found;
    const et_path word = et_path_print("%s%s%s", r->task ? r->task : "", r->task ? "." : "", name);
    return et_history_match(r->history, word.text, &found, 1) ? found : NULL;
}

static int add_history(reporting *r, et_error *error)
{
    const et_history_series *loss =
        r->task ? find_loss(r, ET_LOGGED_TRAINING_LOSS) : et_history_loss(r->history);
    const et_history_series *losses[] = { loss, find_loss(r, ET_LOGGED_VALIDATION_LOSS) };
    /* The best value of a run of several tasks may be another task's. */
    const et_history_series *best = r->task ? NULL : et_history_best_of(r->history).series;
    /* A single value is in the scores. */
    const bool curves = loss && loss->count > 1;
    if (!curves && !(best && best->count > 1))
        return ET_OK;
    page_section(&r->page, "Curves");
    int status = curves ? add_curves(r, losses, 2, error) : ET_OK;
    return status || !best || best == loss || best->count < 2 ? status
                                                              : add_curves(r, &best, 1, error);
}

/* ---- importance ---- */

static int append_importance(reporting *r, const et_importances *all, const et_explain_facts *facts,
                             const char *path, et_error *error)
{
    const char *names[BARS_MAX];
    double values[BARS_MAX];
    et_strbuf label = ET_STRBUF_INIT;
    et_grid grid = { .columns = 3, .left = 1 };
    page_text(&r->page,
              "How much worse %s (%.6g on %s of %s) becomes if a column is permuted: mean "
              "and standard deviation of %d permutations.",
              facts->metric, facts->score, et_format_many(facts->rows, "row").text, path, REPEATS);
    et_strbuf_printf(&label, "how much worse %s becomes", facts->metric);
    et_chart_bars bars = { .x_label = et_strbuf_text(&label), .names = names, .values = values };
    for (; bars.count < BARS_MAX && (size_t)bars.count < all->count; bars.count++) {
        names[bars.count] = all->items[bars.count].column;
        values[bars.count] = all->items[bars.count].mean;
    }
    int status = page_bars(&r->page, &bars, error);
    et_importances_head(&grid);
    for (size_t i = 0; i < all->count; i++)
        et_importances_row(&all->items[i], &grid);
    page_grid(&r->page, &grid);
    et_grid_release(&grid);
    et_strbuf_release(&label);
    return status;
}

/* If the predictor cannot read the file, the page says so, because its other parts are still
 * good. */
static int add_importance(reporting *r, const et_evaluation *evaluation, et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(evaluation->task);
    /* The file of rows with cells: the scored file, else the validation file, else the first
     * training file. */
    const et_tabular_options *o = &task->options;
    const char *path = r->args->general.data.count ? r->args->general.data.items[0]
                       : o->validation_data.input_path.count
                           ? o->validation_data.input_path.items[0]
                       : o->train_data.input_path.count ? o->train_data.input_path.items[0]
                                                        : NULL;
    et_arena arena = ET_ARENA_INIT;
    et_strings files;
    et_explain *e = NULL;
    et_error reason = ET_ERROR_INIT;
    if (!r->args->rows || !path)
        return ET_OK;
    page_section(&r->page, "Importance of columns");
    if (!et_paths_match(&files, &(et_strings){ &path, 1 }, NULL, &arena, NULL) && files.count)
        path = files.items[0];
    const et_predictor_options predictor = { .checkpoint = r->args->general.checkpoint,
                                             .live_weights = r->args->general.live_weights };
    const et_explain_options how = { .rows.path = path,
                                     .most = r->args->rows,
                                     .threads = et_team_threads() };
    int status = et_explain_open(&e, evaluation->model_dir, &predictor, &how, &reason);
    if (!status) {
        et_importances all;
        status = et_importances_measure(&all, e, REPEATS, MEASURED_MAX, error);
        if (!status)
            status = append_importance(r, &all, et_explain_facts_of(e), path, error);
        if (!status && all.left)
            page_text(&r->page, "%s more columns were not measured.",
                      et_format_count((int64_t)all.left).text);
        et_importances_release(&all);
    } else if (status == ET_ENOMEM)
        status = et_fail(error, status, "%s", reason.text);
    else {
        page_text(&r->page, "Not measured: %s", reason.text);
        status = ET_OK;
    }
    et_explain_close(e);
    et_arena_release(&arena);
    return status;
}

/* ---- texts of the run ---- */

/* Adds the warnings of train.log, each once, without the time of day. */
static void add_warnings(reporting *r)
{
    char *text = read_text(r, ET_RUN_MESSAGES);
    et_strbuf lines = ET_STRBUF_INIT;
    int count = 0;
    for (char *line = text, *end; line && *line && count < WARNINGS_MAX; line = end) {
        end = line + strcspn(line, "\n");
        end += *end ? (*end = 0, 1) : 0;
        const char *warning = strstr(line, "warning: ");
        if (!warning || strstr(et_strbuf_text(&lines), warning))
            continue;
        et_strbuf_printf(&lines, "%s\n", warning);
        count++;
    }
    page_section(&r->page, "Warnings");
    if (count)
        page_lines(&r->page, et_strbuf_text(&lines));
    else
        page_text(&r->page, "Training gave no warning.");
    if (count == WARNINGS_MAX)
        page_text(&r->page, "%s has the others.", ET_RUN_MESSAGES);
    r->page.html.failed |= lines.failed;
    et_strbuf_release(&lines);
    et_free(text);
}

static void add_use(reporting *r)
{
    const et_shell_word word = et_shell_quote(r->args->general.model_dir);
    const char *run = word.text, *etude = r->program->name;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text,
                     "# predictions of new rows, a line of JSON for each\n"
                     "%s predict %s --input new.csv\n"
                     "# scores of rows with the target\n"
                     "%s evaluate %s new.csv\n"
                     "# how predictions depend on a column\n"
                     "%s explain %s new.csv --partial COLUMN\n"
                     "# a server: POST /predict\n"
                     "%s serve %s\n"
                     "# one file with all that predictions need\n"
                     "%s export %s --output model.safetensors\n",
                     etude, run, etude, run, etude, run, etude, run, etude, run);
    page_section(&r->page, "Use of the model");
    page_lines(&r->page, et_strbuf_text(&text));
    r->page.html.failed |= text.failed;
    et_strbuf_release(&text);
}

/* ---- the whole ---- */

static int opened(void *payload, et_evaluation *evaluation, et_error *error)
{
    reporting *r = payload;
    (void)error;
    r->scores.keeps_numbers = true;
    et_table_scores_attach(&r->scores, evaluation, 0, NULL);
    return ET_OK;
}

static int fill(reporting *r, const et_evaluation *evaluation, const et_value *logs,
                et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(evaluation->task);
    page_begin(&r->page, evaluation->model_dir);
    add_run(r, evaluation);
    add_data(r, task);
    int status;
    if (!(status = add_scores(r, logs, error)) && !(status = add_candidates(r, error)) &&
        !(status = add_importance(r, evaluation, error)) && !(status = add_columns(r, task, error)))
        status = add_history(r, error);
    add_warnings(r);
    add_use(r);
    char *text = read_text(r, ET_RUN_SETTINGS);
    page_section(&r->page, "Settings");
    if (text) {
        /* Lines that are shown when the reader asks. */
        report_page *page = &r->page;
        end_facts(page);
        et_strbuf_append(&page->html, "<details>");
        append_element(page, "summary", "all settings (" ET_RUN_SETTINGS ")");
        append_lines(page, text);
        et_strbuf_append(&page->html, "</details>\n");
    }
    et_free(text);
    end_facts(&r->page);
    et_strbuf_append(&r->page.html, r->page.section ? "</section>\n" : "");
    et_strbuf_append(&r->page.html, "</body>\n</html>\n");
    return status || !r->page.html.failed ? status : et_alloc_failed(error, "a page");
}

static int write_page(void *payload, const et_evaluation *evaluation, const et_value *logs,
                      bool json, et_error *error)
{
    reporting *r = payload;
    const char *path = r->args->output ? r->args->output : r->output;
    (void)json;
    int status = fill(r, evaluation, logs, error);
    if (!status)
        status = et_file_write(path, r->page.html.data, r->page.html.length, error);
    et_strbuf_release(&r->page.html);
    if (!status)
        et_print(stdout, "report       %s\n", path);
    return status;
}

static int check_output(void *payload, et_outputs *outputs, et_error *error)
{
    reporting *r = payload;
    return et_outputs_check(outputs, "--output", r->args->output ? r->args->output : r->output,
                            error);
}

int et_cmd_report(const et_call *call, et_error *error)
{
    reporting r = { .args = call->options, .program = call->program };
    const et_evaluate_more more = { &r, opened, et_table_scores_run, write_page, check_output };
    int status = et_ranks_refuse(call, "it writes one page", error);
    const char *run = r.args->general.model_dir, *given = r.args->output;
    et_artifact artifact = { .name = NULL };
    const bool member = !status && !et_artifact_open(&artifact, run, NULL) && artifact.member;
    r.run = member ? artifact.member->run : run;
    r.task = member ? artifact.member->name : NULL;
    if (!status)
        status = et_history_open(&r.history, r.run, error);
    if (!status && given && !et_path_ends(given, ".html"))
        status = et_fail(error, ET_EUSAGE, "--output %s: choose a name in .html", given);
    if (!status && !given) {
        /* RUN.html, next to the run. */
        et_strbuf name = ET_STRBUF_INIT;
        et_strbuf_append_bytes(&name, run, et_path_length(run));
        et_strbuf_append(&name, ".html");
        r.output = et_strbuf_detach(&name);
        if (!r.output)
            status = et_alloc_failed(error, "a path");
        else if (et_file_exists(r.output))
            status = et_fail(error, ET_EUSAGE,
                             "%s exists: give --output %s to replace it, or another name", r.output,
                             et_shell_quote(r.output).text);
    }
    if (!status)
        status = et_evaluate_own_data(call, &r.args->general, &more, error);
    et_history_close(r.history);
    et_artifact_close(&artifact);
    et_table_scores_release(&r.scores);
    et_free(r.output);
    return status;
}
