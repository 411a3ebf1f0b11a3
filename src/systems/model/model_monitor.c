#include "systems/model/model_monitor.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/values/value.h"
#include "formats/events/log_names.h"
#include "formats/events/progress.h"
#include "systems/model/model_private.h"
#include "systems/modelgarden/training_table.h"
#include "train/checkpoint/metric_name.h"
#include "train/checkpoint/run_names.h"

#define COLUMNS 3 /* of validation, at most */

static et_model_monitor *monitor_of_action(et_action *action)
{
    return (et_model_monitor *)(void *)((char *)action - offsetof(et_model_monitor, action));
}

/* ---- logs of training ---- */

static void forget(et_model_monitor *w)
{
    et_arena_release(&w->arena);
    w->arena = (et_arena)ET_ARENA_INIT;
    w->logs = NULL;
}

static int keep_logs(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    et_model_monitor *w = (et_model_monitor *)(void *)self;
    const et_value *train = et_value_get(values, ET_LOGGED_TRAIN);
    (void)step;
    if (!train)
        return ET_OK;
    forget(w);
    w->logs = et_value_dict(&w->arena);
    int status = w->logs ? et_value_merge(w->logs, train, error) : ET_OK;
    return status || (w->logs && !et_value_failed(w->logs))
               ? status
               : et_alloc_failed(error, 0, "the values of an epoch");
}

static int flush(et_sink *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

static int close_sink(et_sink *self, et_error *error)
{
    (void)self, (void)error; /* a member of the monitor */
    return ET_OK;
}

/* ---- the end of an epoch ---- */

static int64_t due(const et_action *self, int64_t step)
{
    const et_model_monitor *w =
        (const et_model_monitor *)(const void *)((const char *)self -
                                                 offsetof(et_model_monitor, action));
    const int64_t each = w->epoch_steps;
    return each ? w->base + ((step - w->base) / each + 1) * each : ET_ACTION_NEVER;
}

static int64_t epoch_of(const et_model_monitor *w, int64_t step)
{
    return w->epoch_steps ? (step - w->base + w->epoch_steps - 1) / w->epoch_steps : 1;
}

/* Columns are known with the first values of a validation: the one that is monitored, and others in
 * the order of the logs. */
static int open_table(et_model_monitor *w, const et_value *validation, et_error *error)
{
    const char *directory = w->fit->run_dir;
    et_training_table_options options = {
        .progress = w->progress,
        .best = w->monitored,
        .lowest = w->monitored && et_metric_lower_is_better(w->monitored),
        .epochs = true,
        .steps = w->target,
        .began = w->began,
        .now = &w->showing,
        .log = directory ? et_arena_printf(&w->names, "%s/" ET_RUN_LOG, directory) : NULL,
    };
    if (w->monitored)
        et_main_metrics_add(&options.metrics, w->monitored);
    for (const et_value *v = validation ? validation->first : NULL; v; v = v->next)
        if (v->kind == ET_VALUE_FLOAT && et_logged_prefix(v->key) &&
            options.metrics.count < COLUMNS)
            et_main_metrics_add(&options.metrics, et_arena_strdup(&w->names, v->key));
    options.most = options.metrics.count;
    return w->names.failed ? et_alloc_failed(error, 0, "a table")
                           : et_training_table_open(&w->table, &options, error);
}

static int tell(et_model_monitor *w, int64_t step, const et_value *validation, et_error *error)
{
    et_value *values = et_value_dict(&w->arena);
    et_value *train = et_value_set_dict(values, ET_LOGGED_TRAIN);
    int status = w->table ? ET_OK : open_table(w, validation, error);
    if (!status && train && w->logs)
        status = et_value_merge(train, w->logs, error);
    et_value *valid = validation ? et_value_set_dict(values, ET_LOGGED_VALIDATION) : NULL;
    if (!status && valid)
        status = et_value_merge(valid, validation, error);
    if (!status && (!values || et_value_failed(values)))
        status = et_alloc_failed(error, 0, "the values of an epoch");
    w->showing.epoch = epoch_of(w, step);
    return status ? status : w->table->class->write(w->table, step, values, error);
}

/* Copies weights from the model, as a reader of the model sees them, or back. */
static void copy_weights(const et_model_monitor *w, bool back)
{
    et_params *params = w->keeps->params;
    float *values = et_params_values(params), *kept = w->best;
    for (int i = 0; i < et_params_count(params); i++) {
        const size_t count = (size_t)et_shape_count(et_params_shape(params, i));
        float *own = values + et_params_offset(params, i);
        memcpy(back ? own : kept, back ? kept : own, count * sizeof *own);
        kept += count;
    }
}

void et_model_monitor_restore(const et_model_monitor *w)
{
    et_params_begin_change(w->keeps->params);
    copy_weights(w, true);
    et_params_changed(w->keeps->params, true);
}

static int keep_best(et_model_monitor *w, const et_moment *now, et_error *error)
{
    const et_value *step = now->logs ? et_value_get(now->logs, ET_LOGGED_BEST_STEP) : NULL;
    if (!step)
        return ET_OK;
    w->best_step = step->integer;
    if (!w->keeps || w->best_step != now->step)
        return ET_OK;
    const size_t count = (size_t)et_params_elements(w->keeps->params);
    if (!w->best)
        w->best = et_alloc(count, sizeof *w->best);
    if (!w->best)
        return et_alloc_failed(error, count * sizeof *w->best, "the best weights");
    const bool shown = et_model_show_average(w->keeps);
    copy_weights(w, false);
    if (shown)
        et_model_hide_average(w->keeps);
    return ET_OK;
}

static int end_epoch(et_action *self, const et_moment *now, et_error *error)
{
    et_model_monitor *w = monitor_of_action(self);
    const et_fit *fit = w->fit;
    int status = w->progress ? tell(w, now->step, now->logs, error) : ET_OK;
    et_value *logs = w->logs ? w->logs : et_value_dict(&w->arena);
    if (!status)
        status =
            logs ? keep_best(w, now, error) : et_alloc_failed(error, 0, "the values of an epoch");
    if (!status && now->logs)
        status = et_value_merge(logs, now->logs, error);
    if (!status && et_value_failed(logs))
        status = et_alloc_failed(error, 0, "the values of an epoch");
    if (!status && fit->callback)
        status = fit->callback(fit->payload, epoch_of(w, now->step), logs, now->stop, error);
    forget(w);
    return status;
}

/* ---- the bar ---- */

static void show(void *self, const et_showing *showing)
{
    et_model_monitor *w = self;
    et_progress_field fields[] = { { ET_LOGGED_LOSS, showing->loss, true } };
    const et_progress_state state = { .step = showing->step,
                                      .steps = showing->steps,
                                      .fields = fields,
                                      .field_count = 1,
                                      .rate = showing->rate,
                                      .unit = "samples/s",
                                      .epoch = showing->epoch,
                                      .seconds_left = NAN,
                                      .time = showing->time };
    et_progress_update(w->progress, &state);
}

static void hear(void *self, const char *text)
{
    et_progress_message(((et_model_monitor *)self)->progress, text);
}

et_observer et_model_monitor_observer(et_model_monitor *w)
{
    return (et_observer){ .self = w,
                          .show = w->fit->verbose == ET_FIT_BAR ? show : NULL,
                          .tell = w->progress ? hear : NULL };
}

int et_model_monitor_open(et_model_monitor *w, const et_fit *fit, et_error *error)
{
    static const et_sink_class sink = {
        .name = "fit", .write = keep_logs, .flush = flush, .close = close_sink
    };
    static const et_action_class action = { .name = "epoch", .due = due, .act = end_epoch };
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    et_assert(fit);
    *w =
        (et_model_monitor){ .sink = { &sink }, .action = { &action }, .fit = fit, .best_step = -1 };
    w->arena = w->names = (et_arena)ET_ARENA_INIT;
    w->showing = (et_showing){ .loss = (double)NAN };
    w->began = et_clock_monotonic();
    options.fd = STDERR_FILENO;
    options.mode = fit->verbose == ET_FIT_BAR ? ET_PROGRESS_AUTO : ET_PROGRESS_QUIET;
    return fit->verbose == ET_FIT_QUIET ? ET_OK : et_progress_open(&w->progress, &options, error);
}

void et_model_monitor_close(et_model_monitor *w)
{
    if (w->table)
        (void)w->table->class->close(w->table, NULL);
    et_arena_release(&w->names);
    et_progress_close(w->progress);
    et_free(w->best);
    et_arena_release(&w->arena);
}
