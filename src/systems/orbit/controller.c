/* A controller: options, a list of actions for the inner loop, and the objects opened around the
 * loop. */
#include "systems/orbit/controller.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/options.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "systems/orbit/controller_private.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/eval_shard.h"
#include "train/run/run.h"

/* ---- the controller's own actions ---- */

/* A log is a dict with a nested dict for each summary directory:
 *
 *   {"train": {"training_loss": 4.1, ..., "learning_rate": 0.0007, "epoch": 2, "time": {...}}}
 *   {"validation": {"accuracy": 0.912, ..., "best_step": 2000, "time": {"seconds": 1.5}}}
 *
 * Values that depend on the clock are under "time", so logs of equal runs are equal without it. */

/* Actions are due at multiples of their interval, so a resumed run acts at the same steps. */
static int64_t due(const et_action *action, int64_t step)
{
    const et_own_action *self = (const et_own_action *)action;
    if (!self->every)
        return ET_ACTION_NEVER;
    return (step / self->every + 1) * self->every;
}

/* The values of the window's steps, with the rate and the epoch of the last step, which another
 * process may have made. A trainer with its own inner loop has already stored its values here;
 * other trainers give them in loop_end. */
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
    if (!isnan(loop->learning_rate))
        et_value_set_float(values, ET_LOGGED_LEARNING_RATE, loop->learning_rate);
    if (loop->epoch)
        et_value_set_int(values, "epoch", loop->epoch);
    loop->steps.values = values;
    return et_value_failed(values) ? et_alloc_failed(error, "a log") : ET_OK;
}

/* logs has one dict of values, in the directory of its name; sink takes them in place of the run's
 * files. */
static int write_log(const et_controller *c, et_sink *sink, int64_t step, const et_value *logs,
                     et_error *error)
{
    et_assert(step >= 0 && (sink || c->run));
    if (et_value_failed(logs))
        return et_alloc_failed(error, "a log");
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
                       : et_alloc_failed(error, "a log");
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
static int act_log(et_action *action, const et_action_context *now, et_error *error)
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
    int status = copy ? et_value_merge(copy, values, error) : et_alloc_failed(error, "a log");
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
                        : et_alloc_failed(error, "a log");
    double seconds = et_clock_monotonic() - start;
    c->evaluation_seconds = seconds;
    c->evaluated = status ? c->evaluated : step;
    if (!status) {
        et_unchanged *u = &c->unchanged;
        const uint64_t now = checksum_of(values);
        u->first = u->count ? u->first : now;
        u->from = u->count ? u->from : step;
        u->to = step;
        u->count++;
        u->changed |= now != u->first;
    }
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

/* Whether options.patience evaluations in a row were not the best, or the best reached the target.
 */
static bool has_enough(const et_controller *c)
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
static int act_validate(et_action *action, const et_action_context *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    int status = et_controller_evaluate_now(c, c->eval_steps, error);
    *now->stop |= !status && has_enough(c);
    return status;
}

static int act_save(et_action *action, const et_action_context *now, et_error *error)
{
    et_controller *c = ((et_own_action *)action)->controller;
    et_controller_tell(c, "saving checkpoint to %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld.",
                       c->model_dir, (long long)now->step);
    return et_run_save(c->run, now->step, false, error);
}

static const et_action_class own_actions[ET_OWN_ACTIONS] = {
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

/* ---- the list ---- */

/* Static, because a trace outlives its controller. */
static const et_activity own_activities[ET_OWN_ACTIONS] = {
    [ET_OWN_LOG] = { .name = "log", .kind = "log" },
    [ET_OWN_VALIDATE] = { .name = "validate", .kind = "validate" },
    [ET_OWN_SAVE] = { .name = "save", .kind = "save" },
};

static const et_activity program_activity = { .name = "action", .kind = "action" };

static void list_own(et_controller *c, int own, et_listed_action row)
{
    et_assert(own >= 0 && own < ET_OWN_ACTIONS);
    row.action = &c->own[own].action;
    row.sees = &c->loop.evaluation;
    row.activity = &own_activities[own];
    c->own_row[own] = c->loop.count;
    et_inner_loop_list(&c->loop, row);
}

static void list(et_controller *c, et_action *const *actions, int count, et_listed_action row)
{
    et_assert(count >= 0 && (!count || actions));
    row.sees = row.sees ? row.sees : &c->loop.evaluation;
    row.activity = &program_activity;
    for (int i = 0; i < count; i++) {
        row.action = actions[i];
        et_inner_loop_list(&c->loop, row);
    }
}

static void list_due(et_controller *c, bool ends_loop)
{
    const et_controller_options *o = &c->options;
    for (int i = 0; i < o->action_count; i++)
        list(c, &o->actions[i], 1,
             (et_listed_action){ .acts = ET_ACTS_WHEN_DUE | ET_ACTS_AT_END,
                                 .asked = o->actions[i],
                                 .ends_loop = ends_loop });
}

/* Training up to train_steps: a loop ends when any action is due. At the end all actions act, due
 * or not, so the last step is always logged, evaluated and saved. */
static void list_planned(et_controller *c)
{
    const et_controller_options *o = &c->options;
    const bool evaluates = o->evaluator && o->validation_interval;
    const int64_t every[ET_OWN_ACTIONS] = { o->summary_interval,
                                            evaluates ? o->validation_interval : 0,
                                            o->checkpoint_interval };
    et_listed_action rows[ET_OWN_ACTIONS];
    for (int i = 0; i < ET_OWN_ACTIONS; i++) {
        c->own[i].every = every[i];
        rows[i] = (et_listed_action){ .acts = ET_ACTS_WHEN_DUE | ET_ACTS_AT_END,
                                      .asked = &c->own[i].action,
                                      .ends_loop = true };
    }
    if (!evaluates)
        rows[ET_OWN_VALIDATE].acts = 0;
    list_own(c, ET_OWN_LOG, rows[ET_OWN_LOG]);
    list_own(c, ET_OWN_VALIDATE, rows[ET_OWN_VALIDATE]);
    list_due(c, true);
    list_own(c, ET_OWN_SAVE, rows[ET_OWN_SAVE]);
}

/* Training call by call: each loop is logged, and only an evaluation ends a loop early. Evaluated
 * weights are saved. The call decides whether it evaluates and saves. */
static void list_called(et_controller *c)
{
    const et_outer_loop_options *outer = &c->outer;
    const et_action *validate = &c->own[ET_OWN_VALIDATE].action;
    c->own[ET_OWN_SAVE].every = c->model_dir ? c->options.checkpoint_interval : 0;
    list_own(c, ET_OWN_LOG, (et_listed_action){ .acts = ET_ACTS_EACH_LOOP });
    list(c, outer->train_actions, outer->train_action_count,
         (et_listed_action){ .acts = ET_ACTS_EACH_LOOP, .sees = &c->loop.steps, .needs = true });
    list_own(c, ET_OWN_VALIDATE, (et_listed_action){ .asked = validate, .ends_loop = true });
    list(c, outer->eval_actions, outer->eval_action_count,
         (et_listed_action){ .acts = ET_ACTS_WHEN_EVALUATED, .asked = validate, .needs = true });
    list_due(c, false);
    list_own(c, ET_OWN_SAVE, (et_listed_action){ .asked = &c->own[ET_OWN_SAVE].action });
}

/* The controller's own around the program's, which act before the save. In the state, a name says
 * which action comes next. */
static int list_actions(et_controller *c, et_error *error)
{
    const et_controller_options *o = &c->options;
    const et_outer_loop_options *outer = &c->outer;
    const et_inner_loop *loop = &c->loop;
    size_t count = ET_OWN_ACTIONS + (size_t)o->action_count + (size_t)outer->train_action_count +
                   (size_t)outer->eval_action_count;
    int status = et_inner_loop_init(&c->loop, count, error);
    if (status)
        return status;
    for (int i = 0; i < ET_OWN_ACTIONS; i++)
        c->own[i] = (et_own_action){ .action = { &own_actions[i] }, .controller = c };
    if (et_controller_is_called(c))
        list_called(c);
    else
        list_planned(c);
    for (int i = 0; i < loop->count; i++) {
        const et_listed_action *listed = &loop->actions[i];
        const et_action_class *class = listed->action ? listed->action->class : NULL;
        if (!class || !class->name || !*class->name || !class->act)
            return et_fail(error, ET_EUSAGE,
                           "an action needs a class with a name and an act function");
        if (listed->asked == listed->action && !class->due)
            return et_fail(error, ET_EUSAGE,
                           "action %s is never due: put it into eval_actions or train_actions, or "
                           "wrap it in et_conditional",
                           class->name);
    }
    for (int i = 0; i < loop->count; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(et_inner_loop_name(loop, i), et_inner_loop_name(loop, k)))
                return et_fail(error, ET_EUSAGE, "two actions are called %s",
                               et_inner_loop_name(loop, i));
    return ET_OK;
}

/* ---- set-up ---- */

void et_controller_set_length(et_controller *c, int64_t steps)
{
    et_inner_loop *loop = &c->loop;
    et_assert(!et_controller_is_called(c) && steps > loop->trainer->step);
    if (!loop->target)
        loop->planned = c->options.train_steps;
    c->options.train_steps = loop->goal.target = loop->target = steps;
}

/* Also completes an interrupted validation of this step. */
static int evaluate_last(void *self, et_error *error)
{
    et_controller *c = self;
    et_loop_position *position = &c->loop.position;
    const int64_t step = c->loop.trainer->step;
    int status = et_controller_evaluate_now(c, c->eval_steps, error);
    if (!status && position->next == c->own_row[ET_OWN_VALIDATE])
        position->next++;
    else
        c->loop.evaluation.values = NULL;
    et_run_touch(c->run);
    if (!status)
        status = et_run_save(c->run, step, true, error);
    return status ? status : et_run_await_saves(c->run, step, error);
}

int et_controller_evaluate_last(et_controller *c, et_error *error)
{
    const bool due =
        c->options.evaluator && c->options.validation_interval && c->loop.trainer->step;
    et_assert(!et_controller_is_called(c));
    return due && c->evaluated != c->loop.trainer->step
               ? et_together_run(c->options.run.comm, evaluate_last, c, error)
               : ET_OK;
}

static bool stopped_early(const et_controller *c)
{
    return c->loop.position.stopper == c->own_row[ET_OWN_VALIDATE];
}

et_controller_facts et_controller_facts_of(const et_controller *c)
{
    et_controller_facts facts = { .improving = c->improving,
                                  .stopped_early = stopped_early(c),
                                  .evaluation_seconds = c->evaluation_seconds,
                                  .length = c->options.train_steps,
                                  .steps = c->loop.steps.values };
    facts.best_step = et_run_best_step(c->run, &facts.best);
    return facts;
}

/* Opening the logs cuts them off. So a checkpoint is restored before, and a finished run opens no
 * logs. */
static int restore(et_controller *c, et_error *error)
{
    et_inner_loop *loop = &c->loop;
    et_loop_position *position = &loop->position;
    int64_t step;
    const bool called = et_controller_is_called(c);
    bool reads = called && et_controller_trains(c) && c->model_dir;
    if (reads)
        et_controller_tell(c, "restoring or initializing model...");
    int status = et_inner_loop_start(loop, &step, error);
    if (!status && reads && step >= 0)
        et_controller_tell(c, "restored from checkpoint: %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld",
                           c->model_dir, (long long)step);
    if (stopped_early(c) && !has_enough(c))
        position->stopper = loop->count; /* patience or target are larger than before */
    if (!status && !called && loop->planned == c->options.train_steps && loop->target)
        c->options.train_steps = loop->target;
    else
        loop->planned = loop->target = 0;
    if (!status && step >= 0 && position->next != c->own_row[ET_OWN_VALIDATE])
        c->evaluated = step;
    /* A run may be past its end: train_steps was more once. Its actions at an end have acted. */
    const int64_t left = c->options.train_steps - loop->trainer->step;
    const bool ended = left == 0 || position->stopper < loop->count;
    c->finished =
        !status && !called && step >= 0 && (left < 0 || (ended && position->next == loop->count));
    if (status || c->finished)
        return status;
    status = et_run_begin(c->run, error);
    return status ? status : et_recovery_open(&loop->recovery, c->run, loop->trainer, step, error);
}

static int attach(et_controller *c, et_error *error)
{
    et_trainer *trainer = c->loop.trainer;
    et_evaluator *evaluator = c->options.evaluator;
    int status = trainer->class->attach ? trainer->class->attach(trainer, c->state, error) : ET_OK;
    if (!status && et_controller_trains(c) && evaluator && evaluator->class->attach)
        status = evaluator->class->attach(evaluator, c->state, error);
    return status ? status : et_state_add(c->state, "progress", &et_progress_part, &c->loop, error);
}

/* Parts are restored in the order of adding. A controller without a trainer reads the directory of
 * another process, so its run gets no directory. */
static int open_parts(void *self, et_error *error)
{
    et_controller *c = self;
    const char *directory = c->options.run.model_dir;
    c->model_dir = directory ? et_strdup(directory) : NULL;
    if (directory && !c->model_dir)
        return et_alloc_failed(error, "a controller");
    int status;
    if (!(status = et_state_new(&c->state, error)) && !(status = list_actions(c, error)))
        status = attach(c, error);
    c->options.run.state = c->state;
    if (c->options.evaluator && !c->options.run.best_data)
        c->options.run.best_data = c->options.evaluator->data;
    c->options.run.model_dir = et_controller_trains(c) ? c->model_dir : NULL;
    if (!status) {
        status = et_run_open(&c->run, &c->options.run, error);
        c->options.run.console = NULL;
    }
    c->loop.run = c->run;
    return status ? status : restore(c, error);
}

/* Checks options of a controller that the program drives call by call. */
static int check_outer(const et_controller_options *o, et_error *error)
{
    const et_outer_loop_options *outer = o->outer_loop;
    if (!o->trainer && !o->evaluator)
        return et_fail(error, ET_EUSAGE, "`trainer` and `evaluator` should not both be NULL");
    if (o->validation_interval || o->patience || o->target)
        return et_fail(error, ET_ECONFIG,
                       "%s: with outer_loop, call et_controller_evaluate instead",
                       o->patience ? "patience"
                       : o->target ? "target"
                                   : "validation_interval");
    if (outer->train_action_count < 0 || outer->eval_action_count < 0)
        return et_fail(error, ET_ECONFIG, "the number of actions is negative");
    if ((outer->train_action_count && !outer->train_actions) ||
        (outer->eval_action_count && !outer->eval_actions))
        return et_fail(error, ET_ECONFIG, "%d actions, but the list is NULL",
                       outer->train_action_count + outer->eval_action_count);
    if (!o->trainer)
        return ET_OK;
    if (!o->trainer->class->step && !o->trainer->class->train)
        return et_fail(error, ET_EUSAGE, "a trainer needs either step or train");
    if (outer->steps_per_loop)
        return ET_OK;
    if (!o->steps_per_loop)
        return et_fail(error, ET_ECONFIG, "`steps_per_loop` is required when `trainer` is given");
    if (o->summary_interval % o->steps_per_loop)
        return et_fail(error, ET_ECONFIG,
                       "`summary_interval` (%lld) must be a multiple of `steps_per_loop` (%lld)",
                       (long long)o->summary_interval, (long long)o->steps_per_loop);
    return ET_OK;
}

static int check_options(const et_controller_options *o, et_error *error)
{
    int status = et_options_need(o, "et_controller_options", error);
    if (status)
        return status;
    const int64_t counts[] = {
        o->train_steps,         o->steps_per_loop, o->summary_interval, o->validation_interval,
        o->checkpoint_interval, o->action_count,   o->patience
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] < 0)
            return et_fail(error, ET_ECONFIG, "steps, intervals and counts must be at least 0");
    if (o->action_count && !o->actions)
        return et_fail(error, ET_ECONFIG, "%d actions, but the list is NULL", o->action_count);
    if (o->validation_steps < -1)
        return et_fail(error, ET_ECONFIG,
                       "validation_steps: %lld; give at least 1, or -1 for all data",
                       (long long)o->validation_steps);
    if (o->outer_loop)
        return check_outer(o, error);
    if (!o->trainer || (!o->trainer->class->step && !o->trainer->class->train))
        return et_fail(error, ET_EUSAGE, "a controller needs a trainer with a step function");
    if (!o->trainer->class->step || o->trainer->class->train)
        return et_fail(error, ET_EUSAGE,
                       "the trainer %s has its own train function, which only calls of "
                       "<etude/outer_loop.h> use: set et_controller_options.outer_loop and call "
                       "et_controller_train_to",
                       o->trainer->class->name ? o->trainer->class->name : "");
    if (o->target && isnan(*o->target))
        return et_fail(error, ET_ECONFIG, "target: not a number");
    if ((o->patience || o->target) &&
        (!o->run.best_metric || !o->evaluator || !o->validation_interval))
        return et_fail(error, ET_ECONFIG,
                       "%s: needs an evaluator, validation_interval and run.best_metric",
                       o->patience ? "patience" : "target");
    return ET_OK;
}

static void begin_loop(et_controller *c)
{
    static const et_trainer_class nobody = { .name = "nobody" };
    const et_controller_options *o = &c->options;
    const et_internals *internals = o->run.internals;
    et_inner_loop *loop = &c->loop;
    c->nobody.class = &nobody;
    loop->trainer = o->trainer ? o->trainer : &c->nobody;
    loop->first = loop->trainer->step;
    loop->summaries = c->outer.summaries;
    loop->trainer->driver = loop;
    loop->trainer->summary_interval = o->summary_interval;
    c->evaluated = -1;
    loop->track = internals && internals->track ? internals->track : et_track_off();
    loop->length = (et_loop_length){ c->outer.steps_per_loop, c->outer.payload, o->steps_per_loop };
    loop->recovery = (et_recovery){ .max_trials = o->recovery_max_trials };
}

int et_controller_open(et_controller **out, const et_controller_options *options, et_error *error)
{
    *out = NULL;
    int status = check_options(options, error);
    et_controller *c = status ? NULL : et_alloc_zero(1, sizeof *c);
    if (!c) {
        et_sink_close(options ? options->run.console : NULL, NULL);
        return status ? status : et_alloc_failed(error, "a controller");
    }
    /* The controller copies the borrowed options. */
    c->options = *options;
    if (options->target) {
        c->target = *options->target;
        c->options.target = &c->target;
    }
    if (options->outer_loop) {
        c->outer = *options->outer_loop;
        c->options.outer_loop = &c->outer;
    }
    begin_loop(c);
    status = et_together_run(options->run.comm, open_parts, c, error);
    if (status)
        et_controller_close(c, NULL);
    else
        *out = c;
    return status;
}

int et_controller_close(et_controller *c, et_error *error)
{
    if (!c)
        return ET_OK;
    int status = et_run_close(c->run, error);
    et_sink_close(c->options.run.console, NULL);
    et_state_free(c->state);
    et_inner_loop_release(&c->loop);
    et_free(c->model_dir);
    et_free(c);
    return status;
}

bool et_controller_finished(const et_controller *controller)
{
    return controller->finished;
}

/* Fewer steps of a slow training may change no value. */
#define CHANGED_STEPS 10

int et_controller_train(et_controller *c, et_error *error)
{
    /* If no step is left, no action runs, so this call saves the program's changes. */
    const int64_t steps = c->options.train_steps;
    const et_goal goal = { .target = steps, .saves = c->loop.trainer->step >= steps };
    if (et_controller_is_called(c))
        return et_fail(error, ET_EUSAGE, "with outer_loop, use et_controller_train_to");
    et_controller_sane(c);
    c->eval_steps = c->options.validation_steps;
    c->unchanged = (et_unchanged){ 0 };
    if (c->finished)
        return et_inner_loop_finish(&c->loop, ET_OK, error);
    int status = et_inner_loop_run(&c->loop, &goal, error);
    const et_unchanged *u = &c->unchanged;
    const bool suspicious = !u->changed && u->count > 1 && u->to - u->from >= CHANGED_STEPS;
    if (!status && suspicious && !et_comm_rank(c->options.run.comm))
        et_log(ET_LOG_WARNING,
               "all %lld validations from step %lld to step %lld gave exactly the same values, so "
               "training changes no prediction: check the learning rate, frozen parameters, and "
               "gradients of zero",
               (long long)u->count, (long long)u->from, (long long)u->to);
    return status;
}
