/* etude runs: a table of the runs below directories. Reads only.
 *
 * The table also has damaged runs, with the values that could be read and a warning. The exit code
 * is then 3, after the whole table was printed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/numbers/decimal.h"
#include "base/text/format.h"
#include "base/text/terminal.h"
#include "base/values/value.h"
#include "command/command.h"
#include "command/print.h"
#include "command/runs/histories.h"
#include "command/runs/history.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"

#define SETTINGS_SHOWN                                                                             \
    6 /* columns of settings that people see at most, as their terminal has room;                  \
         CSV and JSON have all */

typedef struct row {
    size_t run; /* its place in histories */
    const et_history *history;
    const et_history_series *series; /* the series that ranks the run; NULL: none */
    bool lower;                      /* the lower the better */
    double value, seconds, loss;     /* NaN: not known */
    int64_t at, parameters, done;    /* done: steps, -1: not known */
    et_history_state state;
    const char *text;     /* of the setting in --sort; NULL: none */
    double key;           /* of the metric that is sorted by; NaN: not known */
    bool key_lower;       /* the lower the better */
    const char *key_name; /* the metric in --sort; NULL: none */
} row;

typedef struct table {
    et_strings directories;
    const char *metric, *sort;
    bool json, csv;
    et_histories histories;
    et_run_settings settings;
    row *rows;                     /* [histories.count], owned */
    size_t *columns, column_count; /* settings that differ, first if all runs have them; owned */
} table;

static const et_option options[] = {
    ET_OPTION_TEXT(table, metric, "metric", "NAME",
                   "value whose best is shown (default: the value that chooses the run's best "
                   "checkpoint)"),
    ET_OPTION_TEXT(table, sort, "sort", "run|state|step|best|time|parameters|METRIC|SETTING",
                   "order of the rows; a metric by its best value, such as auc or validation_auc"),
    ET_OPTION_JSON(table, json),
    ET_OPTION_FLAG(table, csv, "csv", "print CSV, with all settings that differ"),
    ET_OPTION_REST(table, directories, "DIR..."),
    ET_OPTION_END
};

const et_usage et_usage_runs = {
    options, sizeof(table),
    "Lists the runs below directories: progress, best value, time, and the settings\nthat differ.",
    "runs --sort best"
};

static const char *leaf_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return et_logged_short(dot ? dot + 1 : name);
}

/* ---- rows ---- */

/* Measures a run by the given metric, else by the metric that chooses its best checkpoint; without
 * both, not at all. */
static void measure(const table *t, row *r)
{
    const et_history *h = r->history;
    et_history_best best = et_history_best_of(h);
    r->at = -1;
    r->value = (double)NAN;
    if (!t->metric && best.series) {
        r->series = best.series;
        r->lower = best.lower;
        r->value = best.value;
        r->at = best.step;
        return;
    }
    if (t->metric)
        et_history_match(h, t->metric, &r->series, 1);
    r->lower = r->series && et_history_is_lower_better(h, r->series);
    const et_history_point *point = r->series ? et_history_extreme(r->series, r->lower) : NULL;
    if (point) {
        r->value = point->value;
        r->at = point->step;
    }
}

/* The last training loss that is a number; NaN: none. */
static double last_loss(const et_history *h)
{
    const et_history_series *s = et_history_loss(h);
    for (size_t i = s ? s->count : 0; i > 0; i--)
        if (!isnan(s->points[i - 1].value))
            return s->points[i - 1].value;
    return (double)NAN;
}

/* Whether every run that has settings has this one. */
static bool all_have(const table *t, size_t name)
{
    for (size_t i = 0; i < t->histories.count; i++)
        if (t->histories.items[i]->settings && !et_run_settings_value(&t->settings, name, i))
            return false;
    return true;
}

static int make_rows(table *t, et_error *error)
{
    const et_run_settings *s = &t->settings;
    t->rows = et_alloc_zero(t->histories.count + 1, sizeof *t->rows);
    t->columns = et_alloc(s->count + 1, sizeof *t->columns);
    if (!t->rows || !t->columns)
        return et_alloc_failed(error, "a table");
    for (size_t i = 0; i < t->histories.count; i++) {
        row *r = &t->rows[i];
        r->run = i;
        r->history = t->histories.items[i];
        r->seconds = et_history_seconds_in_all(r->history);
        r->loss = last_loss(r->history);
        r->parameters = et_run_parameters(r->history);
        r->done = et_history_steps_done(r->history);
        r->state = et_history_state_of(r->history);
        measure(t, r);
    }
    for (int all = 1; all >= 0; all--)
        for (size_t i = 0; i < s->count; i++)
            if (s->differs[i] && all_have(t, i) == (bool)all)
                t->columns[t->column_count++] = i;
    return ET_OK;
}

/* ---- order ---- */

/* Numbers sort before texts, and missing values last; equal values keep their order. */
static int compare_numbers(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static bool is_number(const char *text, double *value)
{
    char *end;
    *value = et_decimal_read(text, &end);
    return *text && !*end;
}

static int compare_texts(const char *a, const char *b)
{
    double x, y;
    if (!a || !b)
        return !a - !b;
    const bool number_a = is_number(a, &x), number_b = is_number(b, &y);
    if (number_a != number_b)
        return number_b - number_a;
    return number_a ? compare_numbers(x, y) : strcmp(a, b);
}

static int in_order(const row *a, const row *b, int order)
{
    return order ? order : (a->run > b->run) - (a->run < b->run);
}

static int by_text(const void *left, const void *right)
{
    const row *a = left, *b = right;
    return in_order(a, b, compare_texts(a->text, b->text));
}

/* Sorts each metric's runs, the best first: values of different metrics cannot be compared. */
static int by_key(const void *left, const void *right)
{
    const row *a = left, *b = right;
    int order = compare_numbers(a->key, b->key);
    const bool both = !isnan(a->key) && !isnan(b->key);
    const int metrics = both ? strcmp(a->key_name, b->key_name) : 0;
    if (metrics)
        order = metrics;
    else if (both && !a->key_lower)
        order = -order;
    return in_order(a, b, order);
}

static int by_run(const void *left, const void *right)
{
    const row *a = left, *b = right;
    return in_order(a, b, strcmp(a->history->model_dir, b->history->model_dir));
}

/* ORDER orders. */
enum { BY_RUN, BY_STATE, BY_STEP, BY_BEST, BY_TIME, BY_PARAMETERS, ORDERS };
static const char *const orders[] = { "run", "state", "step", "best", "time", "parameters" };

/* Finds a setting by its path, or by its part after the last dot. differs: considers only settings
 * that differ. */
static bool find_setting(const table *t, const char *name, bool differs, size_t *index)
{
    const et_run_settings *s = &t->settings;
    for (int leaf = 0; leaf < 2; leaf++)
        for (*index = 0; *index < s->count; ++*index) {
            const char *dot = strrchr(s->names[*index], '.');
            if (!strcmp(leaf && dot ? dot + 1 : s->names[*index], name) &&
                (s->differs[*index] || !differs))
                return true;
        }
    return false;
}

/* Whether any run has it. */
static bool take_metric(table *t, const char *name)
{
    et_assert(name);
    bool any = false;
    char longer[ET_HISTORY_NAME_MAX + 1];
    snprintf(longer, sizeof longer, ET_LOGGED_VALIDATION "_%s", name);
    for (size_t i = 0; i < t->histories.count; i++) {
        row *r = &t->rows[i];
        /* For "auc", prefers the value of validation to the value of training. */
        const et_history_series *s = NULL;
        if (!et_history_match(r->history, longer, &s, 1))
            et_history_match(r->history, name, &s, 1);
        r->key_lower = s && et_history_is_lower_better(r->history, s);
        const et_history_point *point = s ? et_history_extreme(s, r->key_lower) : NULL;
        r->key = point ? point->value : (double)NAN;
        r->key_name = s ? s->name : NULL;
        any |= s != NULL;
    }
    return any;
}

static int unknown_order(const table *t, et_error *error)
{
    size_t series = 0, count = 0;
    for (size_t i = 0; i < t->histories.count; i++)
        series += t->histories.items[i]->count;
    const char **names;
    if (ET_ALLOC(names, ORDERS + t->column_count + series + 1, "names", error))
        return ET_ENOMEM;
    for (; count < ORDERS; count++)
        names[count] = orders[count];
    for (size_t i = 0; i < t->column_count; i++)
        names[count++] = et_run_settings_head(&t->settings, t->columns[i]);
    for (size_t i = 0; i < t->histories.count; i++)
        for (size_t k = 0; k < t->histories.items[i]->count; k++)
            names[count++] = leaf_of(t->histories.items[i]->series[k].name);
    names[count] = NULL;
    int status = et_fail(error, ET_EUSAGE,
                         "--sort: choose run, state, step, best, time, parameters, a metric or a "
                         "setting, not %s%s",
                         t->sort, et_nearest_hint(t->sort, names, "").text);
    et_free(names);
    return status;
}

/* A metric takes precedence over a setting of the same name that is equal in all runs. */
static int sort(table *t, et_error *error)
{
    size_t index;
    int order = BY_RUN;
    if (!t->sort)
        return ET_OK;
    while (order < ORDERS && strcmp(orders[order], t->sort) != 0)
        order++;
    for (size_t i = 0; i < t->histories.count; i++) {
        row *r = &t->rows[i];
        const bool best = order == BY_BEST;
        r->key = order == BY_STATE        ? (double)r->state
                 : order == BY_STEP       ? (double)r->done
                 : order == BY_TIME       ? r->seconds
                 : order == BY_PARAMETERS ? (double)r->parameters
                                          : r->value;
        r->key_lower = !best || r->lower;
        r->key_name = best && r->series ? r->series->name : "";
    }
    bool setting = order == ORDERS && find_setting(t, t->sort, true, &index);
    const bool metric = order == ORDERS && !setting && take_metric(t, t->sort);
    if (order == ORDERS && !setting && !metric) {
        setting = find_setting(t, t->sort, false, &index);
        if (!setting)
            return unknown_order(t, error);
    }
    for (size_t i = 0; setting && i < t->histories.count; i++)
        t->rows[i].text = et_run_settings_value(&t->settings, index, t->rows[i].run);
    qsort(t->rows, t->histories.count, sizeof *t->rows,
          setting           ? by_text
          : order == BY_RUN ? by_run
                            : by_key);
    const row *rows = t->rows;
    for (size_t i = 1; (order == BY_BEST || metric) && i < t->histories.count; i++) {
        if (isnan(rows[i].key))
            break;
        if (strcmp(rows[i].key_name, rows[0].key_name) != 0) {
            et_log(ET_LOG_WARNING,
                   "the runs have several metrics, such as %s and %s, and are sorted metric by "
                   "metric; to compare all runs, give --sort a metric that all of them have",
                   leaf_of(rows[0].key_name), leaf_of(rows[i].key_name));
            break;
        }
    }
    return ET_OK;
}

/* ---- printing ---- */

/* The metric of all rows; NULL: several metrics. */
static const char *common_metric(const table *t)
{
    const char *name = NULL;
    for (size_t i = 0; i < t->histories.count; i++) {
        const et_history_series *s = t->rows[i].series;
        if (s && name && strcmp(s->name, name) != 0)
            return NULL;
        name = s ? s->name : name;
    }
    return name;
}

static void add_value(et_grid *grid, double value)
{
    et_grid_add(grid, isnan(value) ? "-" : et_format_value(value).text);
}

static void add_text_row(et_grid *grid, const table *t, const row *r, bool common, size_t settings)
{
    et_grid_add(grid, r->history->model_dir);
    et_grid_add(grid, et_history_state_name(r->state));
    int64_t steps = et_history_steps(r->history);
    if (r->done < 0)
        et_grid_add(grid, "-");
    else if (steps > 0)
        et_grid_addf(grid, "%s/%s", et_format_count(r->done).text, et_format_count(steps).text);
    else
        et_grid_add(grid, et_format_count(r->done).text);
    if (!common)
        et_grid_add(grid, r->series ? leaf_of(r->series->name) : "-");
    add_value(grid, r->value);
    et_grid_add(grid, r->at < 0 ? "-" : et_format_count(r->at).text);
    add_value(grid, r->loss);
    et_grid_add(grid, isnan(r->seconds) ? "-" : et_format_duration(r->seconds).text);
    et_grid_add(grid, r->parameters ? et_format_count(r->parameters).text : "-");
    for (size_t i = 0; i < settings; i++)
        et_grid_add(grid, et_run_settings_value(&t->settings, t->columns[i], r->run));
}

/* Runs with one metric have it as the head of its column; for several, each run's row has its
 * own. */
static size_t add_heads(et_grid *grid, const table *t, const char *metric, size_t settings)
{
    const char *const heads[] = { "run",
                                  "state",
                                  "step",
                                  metric ? NULL : "metric",
                                  metric ? leaf_of(metric) : "best",
                                  "at",
                                  "loss",
                                  "time",
                                  "parameters" };
    size_t count = 0;
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        if (heads[i]) {
            et_grid_add(grid, heads[i]);
            count++;
        }
    for (size_t i = 0; i < settings; i++)
        et_grid_add(grid, et_run_settings_head(&t->settings, t->columns[i]));
    return count;
}

/* Columns at the end that a narrow terminal need not have: from "at" on. */
#define LEAST_LEFT 4

/* Reports, after the table, how many columns did not fit and how many settings were too many. */
static void say_hidden(const table *t, const et_grid *grid, size_t shown, size_t heads)
{
    const size_t settings = t->column_count - (shown > heads ? shown - heads : 0);
    et_strbuf names = ET_STRBUF_INIT;
    for (size_t i = shown; i < heads; i++)
        et_strbuf_printf(&names, "%s%s", names.length ? ", " : "", grid->cells[i]);
    if (settings)
        et_strbuf_printf(&names, "%s%s%s", names.length ? " and " : "",
                         et_format_many((int64_t)settings, "setting").text,
                         settings == 1 ? " that differs" : " that differ");
    if (names.length)
        et_print_lines(stderr, "no room for %s: --csv and --json have all\n",
                       et_strbuf_text(&names));
    et_strbuf_release(&names);
}

static int print_text(const table *t, et_error *error)
{
    et_assert(t->rows && t->columns);
    const char *metric = common_metric(t);
    size_t settings = t->column_count > SETTINGS_SHOWN ? SETTINGS_SHOWN : t->column_count;
    et_grid grid = { .columns = (metric ? 8 : 9) + settings, .most = ET_GRID_CELL_MAX };
    const size_t heads = add_heads(&grid, t, metric, settings);
    et_assert(heads + settings == grid.columns);
    for (size_t i = 0; i < t->histories.count; i++)
        add_text_row(&grid, t, &t->rows[i], metric != NULL, settings);
    const size_t least = heads - LEAST_LEFT;
    if (isatty(STDOUT_FILENO)) {
        const size_t fitting = et_grid_fitting(&grid, (size_t)et_terminal_width(STDOUT_FILENO));
        grid.shown = fitting < least ? least : fitting;
    }
    const size_t shown = grid.shown ? grid.shown : grid.columns;
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    if (!status)
        say_hidden(t, &grid, shown, heads);
    et_grid_release(&grid);
    return status;
}

/* Prints numbers in full precision for programs; an unknown value is empty. */
static void add_real(et_grid *grid, double value)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (isfinite(value))
        et_strbuf_append_double(&text, value);
    et_grid_take(grid, &text);
}

static void add_count(et_grid *grid, int64_t count, bool known)
{
    if (known)
        et_grid_addf(grid, "%lld", (long long)count);
    else
        et_grid_add(grid, NULL);
}

static int print_csv(const table *t, et_error *error)
{
    static const char *const heads[] = {
        "run",     "state",     "step", "steps", "metric", "best", ET_LOGGED_BEST_STEP,
        "seconds", "parameters"
    };
    et_grid grid = { .columns = sizeof heads / sizeof heads[0] + t->column_count };
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        et_grid_add(&grid, heads[i]);
    for (size_t i = 0; i < t->column_count; i++)
        et_grid_add(&grid, t->settings.names[t->columns[i]]);
    for (size_t i = 0; i < t->histories.count; i++) {
        const row *r = &t->rows[i];
        int64_t steps = et_history_steps(r->history);
        et_grid_add(&grid, r->history->model_dir);
        et_grid_add(&grid, et_history_state_name(r->state));
        add_count(&grid, r->done, r->done >= 0);
        add_count(&grid, steps, steps > 0);
        et_grid_add(&grid, r->series ? r->series->name : NULL);
        add_real(&grid, r->value);
        add_count(&grid, r->at, r->at >= 0);
        add_real(&grid, r->seconds);
        add_count(&grid, r->parameters, r->parameters > 0);
        for (size_t k = 0; k < t->column_count; k++)
            et_grid_add(&grid, et_run_settings_value(&t->settings, t->columns[k], r->run));
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_CSV, error);
    et_grid_release(&grid);
    return status;
}

static int print_json(const table *t, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *all = et_value_dict(&arena), *list = et_value_set_list(all, "runs");
    for (const row *r = t->rows; r < t->rows + t->histories.count; r++) {
        et_value *dict = et_value_add_dict(list);
        const et_history_best best = { .series = r->series, .step = r->at, .value = r->value };
        et_history_describe(r->history, &best, dict);
        if (r->parameters)
            et_value_set_int(dict, "parameters", r->parameters);
        et_value *settings = et_value_set_dict(dict, "settings");
        for (size_t i = 0; i < t->column_count; i++) {
            const char *name = t->settings.names[t->columns[i]];
            const et_value *value = et_history_setting(r->history, name);
            if (value && settings)
                et_value_append_copy(settings, name, value);
        }
    }
    int status = et_print_json(all, error);
    et_arena_release(&arena);
    return status;
}

/* ---- the command ---- */

int et_cmd_runs(const et_call *call, et_error *error)
{
    table *t = call->options;
    if (!t->directories.count)
        return et_fail(error, ET_EUSAGE, "runs: name a directory with runs, or several runs");
    if (t->json && t->csv)
        return et_fail(error, ET_EUSAGE, "runs: use either --json or --csv");
    int status = et_histories_open(&t->histories, &t->directories, error);
    if (!status && t->metric)
        status = et_histories_check_metric(&t->histories, t->metric, error);
    if (!status && !(status = et_run_settings_open(&t->settings, &t->histories, error)) &&
        !(status = make_rows(t, error)) && !(status = sort(t, error)))
        status = t->json  ? print_json(t, error)
                 : t->csv ? print_csv(t, error)
                          : print_text(t, error);
    if (!status && t->histories.damaged)
        status = et_fail(error, ET_EFORMAT, "runs: %d of %zu could not be read completely",
                         t->histories.damaged, t->histories.count);
    et_free(t->rows);
    et_free(t->columns);
    et_run_settings_close(&t->settings);
    et_histories_close(&t->histories);
    return status;
}
