/* etude compare: compares runs. Reads only. First facts about each run, then settings that differ,
 * then logged values: the last and the best; for rates the median. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/text/terminal.h"
#include "base/vector.h"
#include "command/command.h"
#include "command/print.h"
#include "command/runs/histories.h"
#include "command/runs/history.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"

#define RUNS_MAX 16

typedef struct comparison {
    const et_compare_args *args;
    et_histories runs;
    et_run_settings settings;
    const char **metrics; /* [metric_count] names of all series, in the order of the runs; owned */
    size_t metric_count, metric_capacity;
    et_map index;
    size_t first, end; /* runs of the grid that is being made */
    bool brief;        /* names without the part before the last dot, if that is unambiguous */
} comparison;

const et_option et_compare_options[] = {
    ET_OPTION_FLAG(et_compare_args, all, "all", "show settings that are equal, too"),
    ET_OPTION_JSON(et_compare_args, json), ET_OPTION_REST(et_compare_args, words, "RUN RUN..."),
    ET_OPTION_END
};

const et_usage et_usage_compare = {
    et_compare_options, sizeof(et_compare_args),
    "Compares runs: settings that differ, last and best values, speed.", "runs/a runs/b"
};

/* ---- metrics ---- */

static int list_metrics(comparison *c, et_error *error)
{
    int64_t found;
    for (size_t i = 0; i < c->runs.count; i++)
        for (size_t k = 0; k < c->runs.items[i]->count; k++) {
            const char *name = c->runs.items[i]->series[k].name;
            if (et_map_get(&c->index, name, &found))
                continue;
            if (!et_map_put(&c->index, name, (int64_t)c->metric_count) ||
                !ET_VECTOR_APPEND(c->metrics, c->metric_count, c->metric_capacity, name))
                return et_alloc_failed(error, "names of metrics");
        }
    return ET_OK;
}

/* Rates and seconds: their best value means little. */
static bool is_time(const char *name)
{
    return strstr(name, ".time.") != NULL;
}

static bool is_counter(const char *name)
{
    const char *dot = strrchr(name, '.');
    const char *leaf = dot ? dot + 1 : name;
    return !strncmp(leaf, ET_LOGGED_OF_BEST, strlen(ET_LOGGED_OF_BEST)) || !strcmp(leaf, "epoch") ||
           !strcmp(leaf, ET_LOGGED_LEARNING_RATE);
}

ET_SORT_NUMBERS(compare_reals, double)

/* The median of the values that are not NaN. NaN: no such value, or no memory. */
static double median(const et_history_series *s)
{
    et_assert(s->count > 0);
    size_t count = 0;
    double *values = et_alloc(s->count + 1, sizeof *values), middle = (double)NAN;
    for (size_t i = 0; values && i < s->count; i++)
        if (!isnan(s->points[i].value))
            values[count++] = s->points[i].value;
    if (count) {
        qsort(values, count, sizeof *values, compare_reals);
        middle = count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
    }
    et_free(values);
    return middle;
}

/* ---- for people ---- */

static void add_head(et_grid *grid, const char *text)
{
    for (size_t i = 0; i < grid->columns; i++)
        et_grid_add(grid, NULL);
    et_grid_add(grid, text);
    for (size_t i = 1; i < grid->columns; i++)
        et_grid_add(grid, NULL);
}

/* ORDER facts. */
enum { EXPERIMENT, STATE, STEP, SECONDS, PARAMETERS, BEST, CHOSEN, FACTS };
static const char *const facts[] = { "experiment", "state", "step",       "time",
                                     "parameters", "best",  "  chosen by" };

static void add_fact(et_grid *grid, const et_history *h, int fact)
{
    const et_history_best best =
        fact >= BEST ? et_history_best_of(h) : (et_history_best){ .series = NULL };
    const et_value *name = et_history_setting(h, "experiment");
    const char *state = fact == STATE ? et_history_state_name(et_history_state_of(h)) : "";
    const int64_t steps = et_history_steps(h), done = fact == STEP ? et_history_steps_done(h) : 0;
    const double seconds = fact == SECONDS ? et_history_seconds_in_all(h) : (double)NAN;
    const int64_t parameters = fact == PARAMETERS ? et_run_parameters(h) : 0;
    if (fact == EXPERIMENT)
        et_grid_add(grid, name && name->kind == ET_VALUE_STRING ? name->string : "-");
    else if (*state)
        et_grid_add(grid, state);
    else if (fact == STEP)
        et_grid_addf(grid, "%s%s%s", done < 0 ? "-" : et_format_count(done).text,
                     steps > 0 ? "/" : "", steps > 0 ? et_format_count(steps).text : "");
    else if (!isnan(seconds))
        et_grid_add(grid, et_format_duration(seconds).text);
    else if (parameters)
        et_grid_add(grid, et_format_count(parameters).text);
    else if (fact == BEST && best.series)
        et_grid_addf(grid, "%s at %s", et_format_value(best.value).text,
                     et_format_count(best.step).text);
    else if (fact == CHOSEN && best.metric)
        et_grid_add(grid, et_logged_short(best.metric));
    else
        et_grid_add(grid, "-");
}

static void add_settings(et_grid *grid, const comparison *c)
{
    const et_run_settings *s = &c->settings;
    bool any = false;
    for (size_t i = 0; i < s->count; i++) {
        if (!s->differs[i] && !c->args->all)
            continue;
        if (!any)
            add_head(grid, c->args->all ? "settings" : "settings that differ");
        any = true;
        et_grid_addf(grid, "  %s", c->brief ? et_run_settings_head(s, i) : s->names[i]);
        for (size_t k = c->first; k < c->end; k++) {
            const char *value = et_run_settings_value(s, i, k);
            et_grid_add(grid, value ? value : "-");
        }
    }
}

static void add_metric(et_grid *grid, const et_history *h, const char *name)
{
    const et_history_series *s = et_history_find(h, name);
    if (!s) {
        et_grid_add(grid, "-");
        return;
    }
    double last = s->points[s->count - 1].value;
    bool lower = et_history_is_lower_better(h, s);
    const et_history_point *best = et_history_extreme(s, lower);
    if (is_time(name))
        et_grid_add(grid, et_format_value(median(s)).text);
    else if (is_counter(name) || !best)
        et_grid_add(grid, et_format_value(last).text);
    else
        et_grid_addf(grid, "%s (%s at %s)", et_format_value(last).text,
                     et_format_value(best->value).text, et_format_count(best->step).text);
}

/* Shortens "validation.validation_loss" to "validation_loss". */
static const char *brief_name(const char *name)
{
    const char *dot = strrchr(name, '.');
    const bool twice = dot && et_logged_prefix(dot + 1) &&
                       (!strncmp(name, ET_LOGGED_TRAIN ".", sizeof ET_LOGGED_TRAIN) ||
                        !strncmp(name, ET_LOGGED_VALIDATION ".", sizeof ET_LOGGED_VALIDATION));
    return twice ? dot + 1 : name;
}

/* Whether, in each run with this series, an earlier series has the same values. */
static bool is_repeated(const comparison *c, const char *name)
{
    bool repeated = true;
    for (size_t k = 0; k < c->runs.count && repeated; k++) {
        const et_history_series *s = et_history_find(c->runs.items[k], name);
        repeated = !s || et_history_repeats(c->runs.items[k], s);
    }
    return repeated;
}

static void add_metrics(et_grid *grid, const comparison *c, bool times)
{
    bool any = false;
    for (size_t i = 0; i < c->metric_count; i++) {
        const char *name = c->metrics[i];
        if (is_time(name) != times || (!c->args->all && (is_counter(name) || is_repeated(c, name))))
            continue;
        if (!any)
            add_head(grid, times ? "speed: median" : "last value (best at its step)");
        any = true;
        et_grid_addf(grid, "  %s", c->brief ? brief_name(name) : name);
        for (size_t k = c->first; k < c->end; k++)
            add_metric(grid, c->runs.items[k], name);
    }
}

static void fill(et_grid *grid, const comparison *c)
{
    et_assert(c->first <= c->end && c->end <= c->runs.count);
    *grid = (et_grid){ .columns = c->end - c->first + 1, .most = ET_GRID_CELL_MAX };
    et_grid_add(grid, NULL);
    for (size_t i = c->first; i < c->end; i++)
        et_grid_add(grid, c->runs.items[i]->model_dir);
    for (int fact = 0; fact < FACTS; fact++) {
        et_grid_add(grid, facts[fact]);
        for (size_t i = c->first; i < c->end; i++)
            add_fact(grid, c->runs.items[i], fact);
    }
    add_settings(grid, c);
    add_metrics(grid, c, false);
    add_metrics(grid, c, true);
}

/* The number of runs that fit side by side on a terminal; all elsewhere. */
static size_t count_fitting(const comparison *c)
{
    et_grid grid;
    if (!isatty(STDOUT_FILENO))
        return c->runs.count;
    fill(&grid, c);
    const size_t fitting = et_grid_fitting(&grid, (size_t)et_terminal_width(STDOUT_FILENO));
    et_grid_release(&grid);
    return fitting > 2 ? fitting - 1 : 1;
}

/* If not all runs fit, names are shortened; if they still do not fit, the runs are printed in
 * several tables. */
static int print_text(comparison *c, et_error *error)
{
    int status = ET_OK;
    c->end = c->runs.count;
    size_t fitting = count_fitting(c);
    c->brief = fitting < c->runs.count;
    if (c->brief)
        fitting = count_fitting(c);
    for (c->first = 0; c->first < c->runs.count && !status; c->first = c->end) {
        et_grid grid;
        c->end = c->first + fitting < c->runs.count ? c->first + fitting : c->runs.count;
        fill(&grid, c);
        if (c->first)
            fputc('\n', stdout);
        status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
        et_grid_release(&grid);
    }
    return status;
}

/* ---- for programs ---- */

static int print_json(const comparison *c, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *all = et_value_dict(&arena), *runs = et_value_set_list(all, "runs");
    for (size_t i = 0; i < c->runs.count; i++) {
        const et_history *h = c->runs.items[i];
        et_value *run = et_value_add_dict(runs);
        const int64_t parameters = et_run_parameters(h);
        const et_history_best best = et_history_best_of(h);
        et_history_describe(h, &best, run);
        if (parameters)
            et_value_set_int(run, "parameters", parameters);
    }
    et_value *settings = et_value_set_dict(all, "settings");
    for (size_t i = 0; i < c->settings.count; i++) {
        if (!c->settings.differs[i] && !c->args->all)
            continue;
        et_value *list = et_value_set_list(settings, c->settings.names[i]);
        for (size_t k = 0; k < c->runs.count; k++)
            et_value_add_string(list, et_run_settings_value(&c->settings, i, k));
    }
    et_value *metrics = et_value_set_dict(all, "metrics");
    for (size_t i = 0; i < c->metric_count; i++) {
        const char *name = c->metrics[i];
        et_value *list = et_value_set_list(metrics, name);
        for (size_t k = 0; k < c->runs.count; k++) {
            const et_history *h = c->runs.items[k];
            const et_history_series *s = et_history_find(h, name);
            et_value *dict = et_value_add_dict(list);
            const et_history_point *best =
                s ? et_history_extreme(s, et_history_is_lower_better(h, s)) : NULL;
            if (s)
                et_value_set_float(dict, "last", s->points[s->count - 1].value);
            if (s)
                et_value_set_float(dict, "median", median(s));
            if (best)
                et_value_set_float(dict, "best", best->value);
            if (best)
                et_value_set_int(dict, ET_LOGGED_BEST_STEP, best->step);
        }
    }
    int status = et_print_json(all, error);
    et_arena_release(&arena);
    return status;
}

/* ---- the command ---- */

int et_compare_runs(const et_compare_args *args, et_error *error)
{
    comparison all = { .args = args }, *c = &all;
    int status = et_histories_open(&c->runs, &args->words, error);
    if (!status && c->runs.count < 2)
        status = et_fail(error, ET_EUSAGE, "compare: give at least two runs%s%s",
                         c->runs.count ? ", not only " : "",
                         c->runs.count ? c->runs.items[0]->model_dir : "");
    else if (!status && c->runs.count > RUNS_MAX)
        status = et_fail(
            error, ET_EUSAGE,
            "compare: %zu runs are too many for one page; give at most %d, or use `etude runs`",
            c->runs.count, RUNS_MAX);
    if (!status && !(status = et_run_settings_open(&c->settings, &c->runs, error)) &&
        !(status = list_metrics(c, error)))
        status = args->json ? print_json(c, error) : print_text(c, error);
    et_free(c->metrics);
    et_map_release(&c->index);
    et_run_settings_close(&c->settings);
    et_histories_close(&c->runs);
    return status;
}

int et_cmd_compare(const et_call *call, et_error *error)
{
    return et_compare_runs(call->options, error);
}
