/* What a controller's own actions do.
 *
 * A log is a dict with a dict of its own for each summary directory:
 *   {"train": {"training_loss": 4.1, ..., "learning_rate": 0.0007, "epoch": 2, "time": {...}}}
 *   {"validation": {"accuracy": 0.912, ..., "best_step": 2000, "time": {"seconds": 1.5}}}
 * What depends on the clock stands under "time", so that logs of equal runs are equal without
 * it. */
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "train/controller_private.h"

/* Multiples of an interval, not distances from where the run began, so that a resumed run acts at
 * the same steps. */
static int64_t due(const et_action *action, int64_t step)
{
    const et_own_action *self = (const et_own_action *)action;
    if (!self->present || !self->every)
        return ET_ACTION_NEVER;
    return (step / self->every + 1) * self->every;
}

/* The window is what lies between two logs: its rates are what the log says of speed. */
void et_meter_start_window(et_meter *meter)
{
    meter->window_start = et_clock_monotonic();
    meter->window_steps = meter->window_units = 0;
}

void et_meter_add(et_meter *meter, const et_trainer_view *view)
{
    double now = et_clock_monotonic();
    meter->window_steps++;
    meter->window_units += view->units;
    et_recent_add(&meter->rate, (double)view->units / (now - meter->step_start));
    meter->step_start = now;
    if (!isnan(view->loss))
        et_recent_add(&meter->loss, view->loss);
}

/* What the window's steps were like, and the rate and epoch of the last one. */
static int fill_training_log(et_controller *c, et_value *train, et_error *error)
{
    const et_trainer *trainer = c->options.trainer;
    double seconds = et_clock_monotonic() - c->meter.window_start;
    et_trainer_view view = { NAN, NAN, 0, NULL, 0 };
    int status = trainer->class->loop_end
                     ? trainer->class->loop_end(c->options.trainer, train, error)
                     : ET_OK;
    if (status)
        return status;
    if (trainer->class->view)
        trainer->class->view(trainer, &view);
    if (!isnan(view.learning_rate))
        et_value_set_float(train, "learning_rate", view.learning_rate);
    if (view.epoch)
        et_value_set_int(train, "epoch", view.epoch);
    et_value *time = et_value_set_dict(train, ET_SINK_TIME);
    char name[64];
    snprintf(name, sizeof name, "%ss_per_second", view.unit ? view.unit : "unit");
    et_value_set_float(time, "steps_per_second", (double)c->meter.window_steps / seconds);
    if (view.unit)
        et_value_set_float(time, name, (double)c->meter.window_units / seconds);
    return et_value_failed(train) ? et_alloc_failed(error, 0, "a log") : ET_OK;
}

/* The window starts anew after the writing, so that the time of a log counts in no rate. */
static int act_log(et_action *action, const et_moment *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    const et_trainer_class *class = c->options.trainer->class;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    int status = fill_training_log(c, et_value_set_dict(logs, "train"), error);
    if (!status)
        status = et_run_log(c->run, now->step, logs, error);
    et_arena_release(&arena);
    if (!status && class->loop_begin)
        status = class->loop_begin(c->options.trainer, error);
    et_meter_start_window(&c->meter);
    return status;
}

static bool stops(void *controller)
{
    return et_run_asked_to_stop(((et_controller *)controller)->run);
}

/* The values, and how long they took: the clock is in the log only. */
static int log_values(et_controller *c, int64_t step, const et_value *values, double seconds,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value *copy = et_value_set_dict(logs, c->options.evaluator->class->name);
    int status =
        copy ? et_value_merge(copy, values, error) : et_alloc_failed(error, sizeof *copy, "a log");
    et_value_set_float(et_value_set_dict(copy, ET_SINK_TIME), "seconds", seconds);
    if (!status)
        status = et_run_log(c->run, step, logs, error);
    et_arena_release(&arena);
    return status;
}

/* ET_EINTERRUPTED comes before any of the rest, so an evaluation that was cut short leaves no log
 * and changes no best. */
static int act_validate(et_action *action, const et_moment *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    et_arena_release(&c->arena);
    et_value *values = et_value_dict(&c->arena);
    double start = et_clock_monotonic();
    int status = values ? et_evaluate(c->options.evaluator, now->step, 0, stops, c, values, error)
                        : et_alloc_failed(error, sizeof *values, "a log");
    if (!status)
        status = et_run_note_best(c->run, now->step, values, error);
    if (!status)
        status = log_values(c, now->step, values, et_clock_monotonic() - start, error);
    c->values = status ? NULL : values;
    c->meter.window_start += et_clock_monotonic() - start; /* rates are those of training */
    return status;
}

static int act_save(et_action *action, const et_moment *now, et_error *error)
{
    return et_run_save(((et_own_action *)action)->controller->run, now->step, false, error);
}

static const et_action_class classes[ET_OWN_ACTIONS] = {
    [ET_OWN_LOG] = { "log", due, act_log },
    [ET_OWN_VALIDATE] = { "validate", due, act_validate },
    [ET_OWN_SAVE] = { "save", due, act_save },
};

void et_controller_make_own(et_controller *c)
{
    const et_controller_options *o = &c->options;
    bool validates = o->evaluator && o->validation_interval;
    const int64_t every[ET_OWN_ACTIONS] = { o->summary_interval, o->validation_interval,
                                            o->checkpoint_interval };
    for (int i = 0; i < ET_OWN_ACTIONS; i++)
        c->own[i] =
            (et_own_action){ { &classes[i] }, c, every[i], i != ET_OWN_VALIDATE || validates };
}
