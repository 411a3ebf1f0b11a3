/* The controller's own actions.
 *
 * A log is a dict with a nested dict for each summary directory:
 *
 *   {"train": {"training_loss": 4.1, ..., "learning_rate": 0.0007, "epoch": 2, "time": {...}}}
 *   {"validation": {"accuracy": 0.912, ..., "best_step": 2000, "time": {"seconds": 1.5}}}
 *
 * Values that depend on the clock are under "time", so logs of equal runs are equal without it. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/events/log_names.h"
#include "systems/orbit/controller_private.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/eval_shard.h"
#include "train/run/run.h"

/* Actions are due at multiples of the interval, so a resumed run acts at the same steps. */
static int64_t due(const et_action *action, int64_t step)
{
    const et_own_action *self = (const et_own_action *)action;
    if (!self->every)
        return ET_ACTION_NEVER;
    return (step / self->every + 1) * self->every;
}

/* The values of the window's steps, with the rate and the epoch of the last step. A trainer with an
 * inner loop of its own has left its values here; loop_end tells those of others. */
static int collect(et_inner_loop *loop, et_error *error)
{
    const et_trainer_class *class = loop->trainer->class;
    et_value *values = (et_value *)loop->steps.values;
    loop->steps.values = NULL;
    if (!class->train) {
        et_arena_release(&loop->steps.arena);
        values = et_value_dict(&loop->steps.arena);
        int status = class->loop_end ? class->loop_end(loop->trainer, values, error) : ET_OK;
        if (status)
            return status;
    }
    const et_trainer_view view = et_inner_loop_view(loop);
    if (!isnan(view.learning_rate))
        et_value_set_float(values, ET_LOGGED_LEARNING_RATE, view.learning_rate);
    if (view.epoch)
        et_value_set_int(values, "epoch", view.epoch);
    loop->steps.values = values;
    return et_value_failed(values) ? et_alloc_failed(error, 0, "a log") : ET_OK;
}

/* logs has one dict of values, in the directory of its name; sink takes them in place of the run's
 * files. */
static int write_log(const et_controller *c, et_sink *sink, int64_t step, const et_value *logs,
                     et_error *error)
{
    et_assert(step >= 0 && (sink || c->run));
    if (et_value_failed(logs))
        return et_alloc_failed(error, 0, "a log");
    if (!sink)
        return et_run_log(c->run, step, logs, error);
    int status = et_sink_write(sink, step, logs->first, error);
    return status ? status : et_sink_flush(sink, error);
}

/* Appends "{"loss":0.25}" to the line, after its times. */
static void tell_values(const et_controller *c, const char *line, const et_value *values)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (!et_controller_is_called(c) || !c->options.run.observer.tell)
        return;
    et_json_print(&text, values, 0);
    et_controller_tell(c, "%s | output: %s", line, et_strbuf_text(&text));
    et_strbuf_release(&text);
}

static int log_window(et_controller *c, int64_t step, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena), *train = et_value_set_dict(logs, ET_LOGGED_TRAIN);
    int status = train ? et_value_merge(train, c->loop.steps.values, error)
                       : et_alloc_failed(error, sizeof *logs, "a log");
    et_value *time = et_value_set_dict(train, ET_SINK_TIME);
    const et_meter *meter = &c->loop.meter;
    const double seconds = et_clock_monotonic() - meter->window_start;
    const double rate = (double)meter->window_steps / seconds;
    const et_trainer_view view = et_inner_loop_view(&c->loop);
    char name[64], line[80];
    snprintf(name, sizeof name, "%ss_per_second", view.unit ? view.unit : "unit");
    et_value_set_float(time, "steps_per_second", rate);
    if (view.unit)
        et_value_set_float(time, name, (double)meter->window_units / seconds);
    if (!status)
        status = write_log(c, c->outer.summaries, step, logs, error);
    et_arena_release(&arena);
    snprintf(line, sizeof line, "train | step: %6lld | steps/sec: %6.1f", (long long)step, rate);
    if (!status)
        tell_values(c, line, c->loop.steps.values);
    return status;
}

/* The window restarts after writing, so the time of a log counts in no rate. */
static int act_log(et_action *action, const et_moment *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    et_trainer *trainer = c->loop.trainer;
    int status = collect(&c->loop, error);
    if (!status)
        status = log_window(c, now->step, error);
    if (!status && trainer->class->loop_begin && !trainer->class->train)
        status = trainer->class->loop_begin(trainer, error);
    et_meter_start_window(&c->loop.meter);
    return status;
}

static bool stops(void *controller)
{
    return et_run_signalled(((et_controller *)controller)->run);
}

/* Logs the values and the time of the evaluation, which is only in the log. */
static int log_values(et_controller *c, const et_value *values, double seconds, et_error *error)
{
    int64_t step = c->loop.trainer->step;
    const et_outer_loop_options *outer = &c->outer;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value *copy = et_value_set_dict(logs, c->options.evaluator->class->name);
    int status =
        copy ? et_value_merge(copy, values, error) : et_alloc_failed(error, sizeof *copy, "a log");
    et_value *time = et_value_set_dict(copy, ET_SINK_TIME);
    et_value_set_float(time, "seconds", seconds);
    if (!isnan(c->evaluation_rate))
        et_value_set_float(time, "steps_per_second", c->evaluation_rate);
    if (!status)
        status = write_log(c, outer->eval_summaries ? outer->eval_summaries : outer->summaries,
                           step, logs, error);
    et_arena_release(&arena);
    return status;
}

static void tell_evaluation(const et_controller *c, const et_value *values, double seconds)
{
    char line[120];
    int64_t step = c->loop.trainer->step;
    if (isnan(c->evaluation_rate))
        snprintf(line, sizeof line, " eval | step: %6lld | eval time: %6.1f sec", (long long)step,
                 seconds);
    else
        snprintf(line, sizeof line, " eval | step: %6lld | steps/sec: %6.1f | eval time: %6.1f sec",
                 (long long)step, c->evaluation_rate, seconds);
    tell_values(c, line, values);
}

static uint64_t checksum_of(const et_value *values)
{
    uint64_t both[2] = { 0, 0 };
    for (const et_value *v = values->first; v; v = v->next) {
        both[1] = v->kind == ET_VALUE_DICT ? checksum_of(v) : 0;
        if (v->kind == ET_VALUE_FLOAT)
            memcpy(&both[1], &v->real, sizeof v->real);
        both[0] = et_checksum(both, sizeof both);
    }
    return both[0];
}

static void note_change(et_unchanged *u, const et_value *values, int64_t step)
{
    et_assert(!u->count || u->from <= u->to);
    const uint64_t now = checksum_of(values);
    u->first = u->count ? u->first : now;
    u->from = u->count ? u->from : step;
    u->to = step;
    u->count++;
    u->changed |= now != u->first;
}

/* A value equal to the best is an improvement if its tie is lower. */
static int note_best(et_controller *c, int64_t step, et_value *values, et_error *error)
{
    double best;
    const bool first = et_run_best_step(c->run, &best) < 0;
    const double tie = et_run_best_tie(c->run);
    const int status = et_run_note_best(c->run, step, values, error);
    const bool better = et_run_since_best(c->run) == 0 || et_run_best_tie(c->run) < tie;
    c->improving = !status && !first && et_run_best_step(c->run, &best) == step && better;
    return status;
}

int et_controller_evaluate_now(et_controller *c, int64_t limit, et_error *error)
{
    int64_t step = c->loop.trainer->step;
    et_evaluator *evaluator = c->options.evaluator;
    et_controller_sane(c);
    et_assert(evaluator && limit >= -1);
    limit = limit < 0 ? 0 : limit;
    et_inner_loop *loop = &c->loop;
    et_arena_release(&loop->evaluation.arena);
    loop->evaluation.values = loop->last = NULL;
    et_value *values = et_value_dict(&loop->evaluation.arena);
    if (limit)
        et_controller_tell(c, " eval | step: %6lld | running %lld steps of evaluation...",
                           (long long)step, (long long)limit);
    else
        et_controller_tell(c, " eval | step: %6lld | running complete evaluation...",
                           (long long)step);
    double start = et_clock_monotonic();
    int status = values ? et_evaluate_on_ranks(evaluator, c->options.run.comm, step, limit, stops,
                                               c, values, error)
                        : et_alloc_failed(error, sizeof *values, "a log");
    double seconds = et_clock_monotonic() - start;
    c->evaluation_seconds = seconds;
    c->evaluated = status ? c->evaluated : step;
    if (!status)
        note_change(&c->unchanged, values, step);
    c->evaluation_rate = limit ? (double)evaluator->done / seconds : (double)NAN;
    if (!status)
        status = note_best(c, step, values, error);
    if (!status)
        status = log_values(c, values, et_clock_monotonic() - start, error);
    if (!status)
        tell_evaluation(c, values, seconds);
    loop->evaluation.values = loop->last = status ? NULL : values;
    loop->meter.window_start += et_clock_monotonic() - start; /* rates count training only */
    return status;
}

bool et_controller_has_enough(const et_controller *c)
{
    const et_controller_options *o = &c->options;
    double best;
    if (o->patience && et_run_since_best(c->run) >= o->patience)
        return true;
    if (!o->target || et_run_best_step(c->run, &best) < 0)
        return false;
    return o->run.best_comparison == ET_COMPARE_LOWER ? best <= c->target : best >= c->target;
}

/* ET_EINTERRUPTED returns before logging, so an interrupted evaluation leaves no log and changes no
 * best. */
static int act_validate(et_action *action, const et_moment *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    int status = et_controller_evaluate_now(c, c->eval_steps, error);
    *now->stop |= !status && et_controller_has_enough(c);
    return status;
}

static int act_save(et_action *action, const et_moment *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    et_controller_tell(c, "saving checkpoint to %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld.",
                       c->model_dir, (long long)now->step);
    return et_run_save(c->run, now->step, false, error);
}

const et_action_class et_own_actions[ET_OWN_ACTIONS] = {
    [ET_OWN_LOG] = { "log", due, act_log },
    [ET_OWN_VALIDATE] = { "validate", due, act_validate },
    [ET_OWN_SAVE] = { "save", due, act_save },
};

void et_controller_tell(const et_controller *c, const char *format, ...)
{
    const et_observer *observer = &c->options.run.observer;
    et_strbuf line = ET_STRBUF_INIT;
    va_list arguments;
    if (!et_controller_is_called(c) || !observer->tell)
        return;
    va_start(arguments, format);
    et_strbuf_vprintf(&line, format, arguments);
    va_end(arguments);
    observer->tell(observer->self, et_strbuf_text(&line));
    et_strbuf_release(&line);
}
