/* etude plot: curves of logged values, in the terminal, as SVG or as PNG. Reads only, so a run may
 * be training.
 *
 * For each run it draws every series that a name means (history.h); without a name, the metric of
 * the best checkpoint, or the loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/runs/chart.h"
#include "command/runs/histories.h"
#include "command/runs/history.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

#define MATCHES_MAX 256 /* series of one name in a run */
#define CURVES_MAX  4096

enum { BY_STEP, BY_EPOCH, BY_TIME };
static const char *const by_names[] = { "step", "epoch", "time", NULL };

typedef struct plot {
    et_strings runs, metrics;
    const char *output;
    const char *attention; /* a text; NULL: curves */
    int64_t width, height; /* 0: as it fits */
    double smooth;
    bool log;
    int x, by; /* value of --x, -1: not given; the chosen unit of x */
    et_histories histories;
    et_arena arena;         /* of the title and the curves */
    et_chart_curve *curves; /* [count] */
    size_t count;
    const char *only; /* the metric of all curves so far; NULL: several */
    const char *title;
} plot;

static const et_option options[] = {
    ET_OPTION_LIST(
        plot, metrics, "metric", "NAME",
        "value to draw, may be given again (default: the value that chooses the best checkpoint)"),
    ET_OPTION_TEXT(
        plot, output, "output", "FILE",
        "picture to write, FILE.svg or FILE.png (default: characters on standard output)"),
    ET_OPTION_CHOICE(plot, x, "x", NULL, by_names, "step (default), epoch or time",
                     .field.default_number = -1),
    ET_OPTION_FLAG(plot, log, "log", "logarithmic axis of values"),
    ET_OPTION_REAL(
        plot, smooth, "smooth", "W", 0, DBL_MAX,
        "smooth curves by an exponential average; W: weight of earlier values, such as 0.9"),
    ET_OPTION_COUNT(plot, width, "width", "N", 0, ET_OPTION_COUNT_MAX,
                    "width in characters, or in pixels of a picture"),
    ET_OPTION_COUNT(plot, height, "height", "N", 0, ET_OPTION_COUNT_MAX,
                    "height in lines, or in pixels of a picture"),
    ET_OPTION_TEXT(plot, attention, "attention", "TEXT",
                   "instead of curves, draw the model's attention for a line of text"),
    ET_OPTION_REST(plot, runs, "RUN..."),
    ET_OPTION_END
};

const et_usage et_usage_plot = {
    options, sizeof(plot),
    "Draws curves of the values that runs logged. For a directory, draws all runs\nin it.",
    "runs/a runs/b --metric loss --output loss.svg"
};

/* ---- curves ---- */

/* TensorBoard's smoothing: an exponential average with weight w for the past, divided by the sum of
 * the weights, so that the first value is unchanged. Values that are not finite are skipped. */
static void smooth(double *y, size_t count, double w)
{
    double sum = 0, weight = 0;
    for (size_t i = 0; i < count && w > 0; i++) {
        if (!isfinite(y[i]))
            continue;
        sum = w * sum + (1 - w) * y[i];
        weight = w * weight + (1 - w);
        y[i] = sum / weight;
    }
}

/* Names the run if there are several, and the metric if there are several; with one run, always the
 * metric. */
static const char *name_curve(plot *p, const et_history *h, const et_history_series *s)
{
    const char *label = et_history_label(s, &p->arena);
    const char *run = p->histories.count > 1 ? h->model_dir : "";
    return !*run     ? label
           : p->only ? run
                     : et_arena_printf(&p->arena, "%s  %s", run, label ? label : "");
}

static int add_curve(plot *p, const et_history *h, const et_history_series *s, et_error *error)
{
    double *x = et_arena_array(&p->arena, s->count, sizeof *x);
    double *y = et_arena_array(&p->arena, s->count, sizeof *y);
    const char *name = name_curve(p, h, s);
    if (p->arena.failed)
        return et_alloc_failed(error, "a curve");
    et_assert(s->count > 0);
    double epoch = et_history_steps_per_epoch(h);
    for (size_t i = 0; i < s->count; i++) {
        const et_history_point *point = &s->points[i];
        x[i] = p->by == BY_TIME    ? et_history_seconds(h, point->wall)
               : p->by == BY_EPOCH ? (double)point->step / epoch
                                   : (double)point->step;
        y[i] = s->points[i].value;
    }
    smooth(y, s->count, p->smooth);
    p->curves[p->count++] = (et_chart_curve){ name, x, y, s->count };
    return ET_OK;
}

/* Calls take for each series that is to be drawn. */
typedef int take_fn(plot *p, const et_history *h, const et_history_series *s, et_error *error);

static int each_series(plot *p, take_fn *take, et_error *error)
{
    const et_history_series *found[MATCHES_MAX];
    int status = ET_OK;
    for (size_t i = 0; i < p->histories.count && !status; i++) {
        const et_history *h = p->histories.items[i];
        for (size_t m = 0; m < p->metrics.count && !status; m++) {
            size_t count = et_history_match(h, p->metrics.items[m], found, MATCHES_MAX);
            count = count > MATCHES_MAX ? MATCHES_MAX : count;
            for (size_t k = 0; k < count && !status; k++)
                status = take(p, h, found[k], error);
        }
        /* Without a given name: the metric of the best, if all runs with a best use the same
         * metric; else the loss. NULL: the run has no logs. */
        const et_history_series *usual =
            p->histories.alike ? et_history_best_of(h).series : et_history_loss(h);
        if (!p->metrics.count && usual)
            status = take(p, h, usual, error);
    }
    return status;
}

/* A first pass over the names alone: a name common to all curves is left out of the legend. */
static int note_metric(plot *p, const et_history *h, const et_history_series *s, et_error *error)
{
    (void)h;
    if (p->count++)
        p->only = p->only && !strcmp(p->only, s->name) ? p->only : NULL;
    else if ((p->title = et_history_label(s, &p->arena)) != NULL)
        p->only = s->name;
    return p->title ? ET_OK : et_alloc_failed(error, "a title");
}

/* ---- checks ---- */

static int check_names(const plot *p, et_error *error)
{
    int status = ET_OK;
    for (size_t m = 0; m < p->metrics.count && !status; m++)
        status = et_histories_check_metric(&p->histories, p->metrics.items[m], error);
    for (size_t i = 0; i < p->histories.count && !status && p->by == BY_EPOCH; i++)
        if (isnan(et_history_steps_per_epoch(p->histories.items[i])))
            status = et_fail(error, ET_EDATA, "--x epoch: %s logged no epochs; use --x step",
                             p->histories.items[i]->model_dir);
    return status;
}

static int check_options(plot *p, et_error *error)
{
    if (!p->runs.count)
        return et_fail(error, ET_EUSAGE, "plot: name a run, or a directory with runs");
    p->by = p->x < 0 ? BY_STEP : p->x;
    if (p->smooth >= 1)
        return et_fail(error, ET_EUSAGE,
                       "--smooth: give a weight of at least 0 and less than 1, such as 0.9");
    if (p->output && p->attention && !et_path_ends(p->output, ".svg"))
        return et_fail(error, ET_EUSAGE,
                       "--output %s: a picture of attention is an SVG file; choose a name in .svg",
                       p->output);
    int status = p->output ? et_chart_check_picture("--output", p->output, error) : ET_OK;
    if (status)
        return status;
    int64_t wide_min = p->output ? ET_CHART_SVG_MIN : ET_CHART_TEXT_WIDTH_MIN;
    int64_t tall_min = p->output ? ET_CHART_SVG_MIN : ET_CHART_TEXT_HEIGHT_MIN;
    int64_t most = p->output ? ET_CHART_SVG_MAX : ET_CHART_TEXT_MAX;
    const char *unit = p->output ? "pixels" : "characters";
    if (p->width && (p->width < wide_min || p->width > most))
        return et_fail(error, ET_EUSAGE, "--width: %lld to %lld %s, not %lld", (long long)wide_min,
                       (long long)most, unit, (long long)p->width);
    if (p->height && (p->height < tall_min || p->height > most))
        return et_fail(error, ET_EUSAGE, "--height: %lld to %lld %s, not %lld", (long long)tall_min,
                       (long long)most, unit, (long long)p->height);
    return ET_OK;
}

/* ---- drawing ---- */

static et_chart chart_of(const plot *p)
{
    static const char *const labels[] = { "step", "epoch", "time" };
    bool one = p->count == 1 && p->histories.count < 2;
    return (et_chart){ .title = p->only ? p->title
                                : one   ? p->curves[0].name
                                        : NULL,
                       .x_label = labels[p->by],
                       .curves = p->curves,
                       .count = p->count,
                       .log = p->log,
                       .time = p->by == BY_TIME };
}

static int draw(plot *p, const et_call *call, et_error *error)
{
    int status = et_histories_open(&p->histories, &p->runs, error);
    if (!status) {
        /* Runs before anything is read: a file that is read must not be an output. */
        et_outputs outputs = { .program = call->program };
        for (size_t i = 0; i < p->histories.count; i++)
            et_outputs_read(&outputs,
                            et_path_of(p->histories.items[i]->model_dir, ET_RUN_LOG).text);
        et_outputs_check(&outputs, "--output", p->output, error);
        if (!p->output)
            et_outputs_check_standard(&outputs, error);
        status = et_outputs_release(&outputs);
    }
    if (!status && !(status = check_names(p, error)))
        status = each_series(p, note_metric, error);
    if (!status && p->count > CURVES_MAX)
        status =
            et_fail(error, ET_EDATA, "more than %d curves: name fewer runs or metrics", CURVES_MAX);
    if (!status && !(p->curves = et_arena_array(&p->arena, p->count, sizeof *p->curves)))
        status = et_alloc_failed(error, "curves");
    p->count = 0;
    if (!status)
        status = each_series(p, add_curve, error);
    if (!status && !p->count)
        status = et_fail(error, ET_EDATA, "%s: the run has not logged anything yet",
                         p->histories.items[0]->model_dir);
    if (status)
        return status;
    /* A single curve is named by the title. */
    et_chart chart = chart_of(p);
    if (chart.title && p->count == 1)
        p->curves[0].name = NULL;
    const int width = (int)p->width, height = (int)p->height;
    return p->output ? et_chart_write(p->output, &chart, width, height, error)
                     : et_chart_print(&chart, width, height, error);
}

/* ---- attention ---- */

static int check_attention(const plot *p, const et_call *call, et_error *error)
{
    const char *run = p->runs.items[0];
    if (p->runs.count > 1)
        return et_fail(error, ET_EUSAGE, "plot: --attention takes one run, but found %s and %s",
                       run, p->runs.items[1]);
    if (p->metrics.count || p->x >= 0 || p->log || p->smooth > 0 || p->width || p->height)
        return et_fail(error, ET_EUSAGE,
                       "plot: --attention needs --output and no other option; the other options "
                       "are for curves");
    if (!p->output)
        return et_fail(error, ET_EUSAGE,
                       "plot: --attention makes a picture: name its file with --output FILE.svg");
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, run);
    et_outputs_check(&outputs, "--output", p->output, error);
    return et_outputs_release(&outputs);
}

static int draw_attention(const plot *p, const et_call *call, et_error *error)
{
    const et_task_kind *kind;
    const char *run = p->runs.items[0];
    int status = check_attention(p, call, error);
    if (status || (status = et_experiment_find_kind(&kind, call->program, run, error)))
        return status;
    if (!kind->attention)
        return et_fail(error, ET_ECONFIG,
                       "plot: --attention: %s is a model of %s, which has no attention to draw%s",
                       run, kind->name,
                       et_artifact_check_single(run, NULL)
                           ? "; give --task NAME and --attention FILE to the command of a task"
                           : "");
    return kind->attention(run, p->attention, p->output, error);
}

int et_cmd_plot(const et_call *call, et_error *error)
{
    plot *p = call->options;
    int status = check_options(p, error);
    if (!status)
        status = p->attention ? draw_attention(p, call, error) : draw(p, call, error);
    et_arena_release(&p->arena);
    et_histories_close(&p->histories);
    return status;
}
