/* The loop of a controller. Invariants:
 *
 *   (1) between boundaries only steps happen;
 *   (2) `next` is the first action of this step that has not acted. The state has it, by name,
 *       and also `stopper`, the action that has ended the run: a run that it ended stays
 *       finished;
 *   (3) an interruption changes nothing that the run computes, logs or finally keeps.
 */
#include "train/run/controller.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/text/format.h"
#include "engine/comm/comm.h"
#include "train/run/controller_private.h"
#include "train/run/run_names.h"
#include "train/run/trainer.h"

/* ---- set-up ---- */

static int check_action(const et_listed_action *listed, et_error *error)
{
    const et_action_class *class = listed->action ? listed->action->class : NULL;
    if (!class || !class->name || !*class->name || !class->act)
        return et_fail(error, ET_EUSAGE, "an action needs a class with a name and an act function");
    if (listed->acts == ET_ACTS_WHEN_DUE && !class->due)
        return et_fail(error, ET_EUSAGE,
                       "action %s is never due: put it into eval_actions or train_actions, or wrap "
                       "it in et_conditional",
                       class->name);
    return ET_OK;
}

/* Names tell in the state which action comes next. */
static int check_actions(const et_controller *c, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < c->count; i++)
        status = check_action(&c->actions[i], error);
    for (int i = 0; !status && i < c->count; i++)
        for (int k = 0; k < i; k++) {
            const char *name = c->actions[i].action->class->name;
            if (!strcmp(name, c->actions[k].action->class->name))
                return et_fail(error, ET_EUSAGE, "two actions are called %s", name);
        }
    return status;
}

static void list(et_controller *c, et_action *const *actions, int count, int acts)
{
    for (int i = 0; i < count; i++)
        c->actions[c->count++] = (et_listed_action){ actions[i], acts };
}

static void list_own(et_controller *c, int own)
{
    list(c, (et_action *[]){ &c->own[own].action }, 1, ET_ACTS_WHEN_DUE);
}

/* The controller's own around the program's, which act before the save. */
static int list_actions(et_controller *c, et_error *error)
{
    const et_controller_options *o = &c->options;
    const et_outer_loop_options *outer = &c->outer;
    size_t count = ET_OWN_ACTIONS + (size_t)o->action_count + (size_t)outer->train_action_count +
                   (size_t)outer->eval_action_count;
    c->actions = et_alloc(count, sizeof *c->actions);
    if (!c->actions)
        return et_alloc_failed(error, count * sizeof *c->actions, "actions");
    et_controller_make_own(c);
    list_own(c, ET_OWN_LOG);
    list(c, outer->train_actions, outer->train_action_count, ET_ACTS_AFTER_LOOP);
    list_own(c, ET_OWN_VALIDATE);
    list(c, outer->eval_actions, outer->eval_action_count, ET_ACTS_AFTER_EVALUATION);
    list(c, o->actions, o->action_count, ET_ACTS_WHEN_DUE);
    list_own(c, ET_OWN_SAVE);
    c->next = c->stopper = c->count;
    return check_actions(c, error);
}

int64_t et_controller_best(const et_controller *c, double *value)
{
    return et_run_best_step(c->run, value);
}

bool et_controller_improving(const et_controller *c)
{
    return c->improving;
}

bool et_controller_stopped_early(const et_controller *c)
{
    return c->stopper < c->count &&
           c->actions[c->stopper].action == &c->own[ET_OWN_VALIDATE].action;
}

/* A run may be past its end: train_steps was more once. What acts at an end has acted there. */
static bool has_finished(const et_controller *c)
{
    int64_t left = c->options.train_steps - c->trainer->step;
    bool ended = left == 0 || c->stopper < c->count;
    return left < 0 || (ended && c->next == c->count);
}

int et_controller_start(et_controller *c, int64_t *step, et_error *error)
{
    et_trainer *trainer = c->trainer;
    int status = et_run_restore(c->run, step, error);
    if (status || *step >= 0)
        return status;
    trainer->step = c->loop_began = 0;
    c->next = c->stopper = c->count;
    c->at_boundary = false;
    if (trainer->class->start)
        status = trainer->class->start(trainer, error);
    if (!status && trainer->class->loop_begin)
        status = trainer->class->loop_begin(trainer, error);
    return status;
}

/* Opening the logs cuts them off, which must not happen before a checkpoint has been read, nor
 * where there is nothing to do. */
static int restore(et_controller *c, et_error *error)
{
    int64_t step;
    bool reads = c->by_call && c->trainer != &c->nobody && c->model_dir;
    if (reads)
        et_controller_tell(c, "restoring or initializing model...");
    int status = et_controller_start(c, &step, error);
    if (!status && reads && step >= 0)
        et_controller_tell(c, "restored from checkpoint: %s/" ET_CHECKPOINT_FOLDER "/ckpt-%lld",
                           c->model_dir, (long long)step);
    if (et_controller_stopped_early(c) && !et_controller_has_enough(c))
        c->stopper = c->count; /* more patience, or a better target, than it had */
    c->finished = !status && !c->by_call && step >= 0 && has_finished(c);
    if (status || c->finished)
        return status;
    status = et_run_begin(c->run, error);
    return status ? status : et_recovery_open(&c->recovery, c->run, c->trainer, step, error);
}

static int attach(et_controller *c, et_error *error)
{
    const et_trainer_class *trainer = c->trainer->class;
    et_evaluator *evaluator = c->options.evaluator;
    int status = trainer->attach ? trainer->attach(c->trainer, c->state, error) : ET_OK;
    if (!status && c->trainer != &c->nobody && evaluator && evaluator->class->attach)
        status = evaluator->class->attach(evaluator, c->state, error);
    return status ? status : et_state_add(c->state, "progress", &et_controller_progress, c, error);
}

/* The order of adding is the order of restoring. Without a trainer the directory is another
 * process's, so the run has none. */
static int open_parts(et_controller *c, et_error *error)
{
    int status = et_state_new(&c->state, error);
    if (!status)
        status = list_actions(c, error);
    if (!status)
        status = attach(c, error);
    c->options.run.state = c->state;
    if (c->options.evaluator && !c->options.run.best_data)
        c->options.run.best_data = c->options.evaluator->data;
    c->options.run.model_dir = c->trainer == &c->nobody ? NULL : c->model_dir;
    if (!status) {
        status = et_run_open(&c->run, &c->options.run, error);
        c->options.run.console = NULL;
    }
    return status ? status : restore(c, error);
}

/* Settings whose combination makes no sense where calls say what is done. */
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

static int check_planned(const et_controller_options *o, et_error *error)
{
    if (!o->trainer || !o->run.model_dir || (!o->trainer->class->step && !o->trainer->class->train))
        return et_fail(error, ET_EUSAGE,
                       "a controller needs a trainer with a step function, and model_dir");
    if (!o->trainer->class->step || o->trainer->class->train)
        return et_fail(error, ET_EUSAGE, "a trainer with its own train function needs outer_loop");
    if (o->target && isnan(*o->target))
        return et_fail(error, ET_ECONFIG, "target: not a number");
    if ((o->patience || o->target) &&
        (!o->run.best_metric || !o->evaluator || !o->validation_interval))
        return et_fail(error, ET_ECONFIG,
                       "%s: needs an evaluator, validation_interval and run.best_metric",
                       o->patience ? "patience" : "target");
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
    return o->outer_loop ? check_outer(o, error) : check_planned(o, error);
}

int et_controller_open(et_controller **out, const et_controller_options *options, et_error *error)
{
    static const et_trainer_class nobody = { .name = "nobody" };
    *out = NULL;
    int status = check_options(options, error);
    et_controller *c = status ? NULL : et_alloc_zero(1, sizeof *c);
    if (!c) {
        et_sink_close(options ? options->run.console : NULL, NULL);
        return status ? status : et_alloc_failed(error, sizeof *c, "a controller");
    }
    c->options = *options;
    if (options->target) {
        c->target = *options->target;
        c->options.target = &c->target;
    }
    c->recovery = (et_recovery){ .max_trials = options->recovery_max_trials };
    c->by_call = options->outer_loop != NULL;
    if (c->by_call)
        c->outer = *options->outer_loop;
    c->nobody.class = &nobody;
    c->trainer = options->trainer ? options->trainer : &c->nobody;
    c->trainer->summary_interval = options->summary_interval;
    const et_inside *inside = options->run.inside;
    c->track = inside && inside->track ? inside->track : et_track_off();
    c->model_dir = options->run.model_dir ? et_strdup(options->run.model_dir) : NULL;
    status = options->run.model_dir && !c->model_dir ? et_alloc_failed(error, 0, "a controller")
                                                     : open_parts(c, error);
    status = et_comm_agree(options->run.comm, status, NULL, error);
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
    et_recovery_release(&c->recovery);
    et_free(c->actions);
    et_free(c->model_dir);
    et_arena_release(&c->arena);
    et_arena_release(&c->loop_arena);
    et_free(c);
    return status;
}

bool et_controller_finished(const et_controller *controller)
{
    return controller->finished;
}

/* ---- the loop ---- */

/* Every step, also without an observer, so that rate and loss are there when one is asked for. Of a
 * trainer's own inner loop all its steps at once. */
static void show(et_controller *c, int64_t steps)
{
    const et_trainer *trainer = c->trainer;
    et_trainer_view view = { NAN, NAN, 0, NULL, 0 };
    if (trainer->class->view)
        trainer->class->view(trainer, &view);
    et_meter_add(&c->meter, &view, steps);
    et_showing showing = { .step = trainer->step,
                           .steps = c->goal.target,
                           .loss = et_recent_mean(c->meter.loss),
                           .learning_rate = view.learning_rate,
                           .rate = view.unit ? et_recent_mean(c->meter.rate) : NAN,
                           .unit = view.unit,
                           .epoch = view.epoch,
                           .time = c->meter.step_start,
                           .units = view.units,
                           .seconds = c->meter.step_seconds };
    et_run_show(c->run, &showing);
}

/* Static, as a trace outlives its controller. */
static const et_activity action_activities[ET_OWN_ACTIONS + 1] = {
    [ET_OWN_LOG] = { .name = "log", .kind = "log" },
    [ET_OWN_VALIDATE] = { .name = "validate", .kind = "validate" },
    [ET_OWN_SAVE] = { .name = "save", .kind = "save" },
    [ET_OWN_ACTIONS] = { .name = "action", .kind = "action" },
};

static const et_activity step_activity = { .name = ET_CONTROLLER_STEP_SPAN, .kind = "step" };

int et_controller_check_count(const et_controller *c, et_error *error)
{
    const et_error *failure = &c->miscounted;
    return failure->status ? et_fail(error, failure->status, "%s", failure->text) : ET_OK;
}

/* A count that went wrong is no step that could be saved. */
static int check_count(et_controller *c, int64_t before, int64_t steps, et_error *error)
{
    int status = et_trainer_advanced(c->trainer, before, steps, &c->miscounted);
    return status ? et_controller_check_count(c, error) : ET_OK;
}

/* One step as a span of the trace; steps count from 1 there, as in logs. */
static int run_step(et_controller *c, et_error *error)
{
    et_trainer *trainer = c->trainer;
    int64_t before = trainer->step;
    et_track_begin(c->track, &step_activity, before + 1);
    int status = trainer->class->step(trainer, error);
    et_track_end(c->track);
    trainer->step += !status;
    return status ? status : check_count(c, before, 1, error);
}

/* All steps up to `until`, by the trainer's own inner loop. */
static int run_train(et_controller *c, int64_t until, et_error *error)
{
    et_arena_release(&c->loop_arena);
    et_value *values = et_value_dict(&c->loop_arena);
    const int64_t before = c->trainer->step;
    et_track_begin(c->track, &step_activity, before + 1);
    int status = values ? et_trainer_run(c->trainer, until - before, values, error)
                        : et_alloc_failed(error, sizeof *values, "a log");
    et_track_end(c->track);
    if (!status)
        status = check_count(c, before, until - before, error);
    c->loop_values = status ? NULL : values;
    return status;
}

/* Does steps up to `until`. ET_EINTERRUPTED: asked to stop before, and save_and_stop says what that
 * means. A step is done whole or not at all, so requests are served between steps. */
static int inner_loop(et_controller *c, int64_t until, et_error *error)
{
    et_trainer *trainer = c->trainer;
    et_assert(until > trainer->step);
    int counted = et_controller_check_count(c, error);
    if (counted)
        return counted;
    c->at_boundary = false;
    c->meter.step_start = et_clock_monotonic();
    while (trainer->step < until) {
        const int64_t before = trainer->step;
        int status = et_run_between_steps(c->run, before, error);
        if (!status)
            status = trainer->class->train ? run_train(c, until, error) : run_step(c, error);
        if (status)
            return status;
        et_run_touch(c->run);
        show(c, trainer->step - before);
    }
    c->at_boundary = true;
    return ET_OK;
}

int et_controller_loop_steps(const et_controller *c, int64_t step, int64_t *steps, et_error *error)
{
    const et_outer_loop_options *outer = &c->outer;
    *steps = outer->steps_per_loop ? outer->steps_per_loop(outer->payload, step)
                                   : c->options.steps_per_loop;
    if (*steps > 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "steps_per_loop gives %lld after step %lld; it must give at least 1",
                   (long long)*steps, (long long)step);
}

static void cut(int64_t *until, int64_t step)
{
    *until = step < *until ? step : *until;
}

/* By call: where the loop that began at loop_began ends. With steps_per_loop 4, eval_interval 6: 4,
 * 6, 10, 12. An inner loop that is under way where settings have changed ends with the next step.
 */
static int loop_end(const et_controller *c, int64_t *until, et_error *error)
{
    const et_action *validate = &c->own[ET_OWN_VALIDATE].action;
    int64_t from = c->loop_began, steps;
    int status = et_controller_loop_steps(c, from, &steps, error);
    if (status)
        return status;
    *until = c->goal.target;
    if (steps < *until - from)
        *until = from + steps;
    cut(until, validate->class->due(validate, from));
    *until = *until > c->trainer->step ? *until : c->trainer->step + 1;
    return ET_OK;
}

/* With steps_per_loop 1000, step 250, intervals 100 and 1000: 300. */
static int next_boundary(const et_controller *c, int64_t *until, et_error *error)
{
    int64_t step = c->trainer->step, most = c->options.steps_per_loop;
    et_assert(step < c->goal.target && c->next == c->count);
    if (c->by_call)
        return loop_end(c, until, error);
    *until = c->goal.target;
    if (most && most < *until - step)
        *until = step + most;
    for (int i = 0; i < c->count; i++) {
        const et_action *action = c->actions[i].action;
        int64_t due = action->class->due(action, step);
        et_assert(due > step);
        cut(until, due);
    }
    return ET_OK;
}

/* Which of the controller's own; ET_OWN_ACTIONS: the program's. */
static int own_number(const et_controller *c, const et_action *action)
{
    int i = 0;
    while (i < ET_OWN_ACTIONS && action != &c->own[i].action)
        i++;
    return i;
}

static bool is_present(const et_controller *c, const et_action *action)
{
    int own = own_number(c, action);
    return own == ET_OWN_ACTIONS || c->own[own].present;
}

/* Whether it was due when this step's actions began to act: exactly here or, by call, since the
 * inner loop began. Each inner loop is logged then. */
static bool was_due(const et_controller *c, int i)
{
    const et_action *action = c->actions[i].action;
    int64_t step = c->trainer->step, since = c->by_call ? c->loop_began : step - 1;
    if (c->actions[i].acts == ET_ACTS_AFTER_EVALUATION)
        action = &c->own[ET_OWN_VALIDATE].action;
    if (c->actions[i].acts == ET_ACTS_AFTER_LOOP)
        return true;
    if (c->by_call && action == &c->own[ET_OWN_LOG].action)
        return true;
    return since >= 0 && action->class->due(action, since) <= step;
}

/* By call what was evaluated is saved, so that these weights are there. */
static bool acts_at_end(const et_controller *c, int i)
{
    int64_t step = c->trainer->step;
    if (!c->by_call)
        return step >= c->goal.target;
    if (c->actions[i].action == &c->own[ET_OWN_SAVE].action)
        return c->values || (c->goal.saves && step == c->goal.target);
    return step == c->goal.target;
}

/* At the end all act, due or not: the last step is always logged, evaluated and saved. Where an
 * action has ended the run that goes for those before it as well, and what was due has acted. */
static bool acts(const et_controller *c, int i)
{
    const et_listed_action *listed = &c->actions[i];
    bool due = was_due(c, i);
    if (!is_present(c, listed->action) || i == c->stopper)
        return false;
    if (listed->acts == ET_ACTS_AFTER_LOOP && !c->loop_values)
        return false;
    if (listed->acts == ET_ACTS_AFTER_EVALUATION && !c->values)
        return false;
    if (c->stopper < c->count)
        return i > c->stopper || !due;
    return due || listed->acts == ET_ACTS_AFTER_EVALUATION || acts_at_end(c, i);
}

/* *stops: the action ends the run, which it did not before. */
static int act_one(et_controller *c, const et_listed_action *listed, bool *stops, et_error *error)
{
    et_action *action = listed->action;
    int64_t step = c->trainer->step;
    bool last = step >= c->goal.target;
    bool on_loop = listed->acts == ET_ACTS_AFTER_LOOP;
    const et_moment now = { .step = step,
                            .end = last || c->stopper < c->count,
                            .logs = on_loop ? c->loop_values : c->values,
                            .stop = stops,
                            .rank = et_comm_rank(c->options.run.comm) };
    et_run_touch(c->run);
    et_assert(c->at_boundary && !c->miscounted.status);
    et_track_begin(c->track, &action_activities[own_number(c, action)], step);
    int status = et_run_check(c->run, error);
    if (!status && c->trainer->class->gather)
        status = c->trainer->class->gather(c->trainer, error);
    if (!status)
        status = action->class->act(action, &now, error);
    et_track_end(c->track);
    *stops = *stops && !now.end;
    return status;
}

/* Lets this step's actions act, from `next` on; none writes where another process works by now.
 * That one counts as done while it acts: what the save saves has nothing left to do. */
static int act(et_controller *c, et_error *error)
{
    while (c->next < c->count) {
        int i = c->next++;
        bool stops = false;
        int status = acts(c, i) ? act_one(c, &c->actions[i], &stops, error) : ET_OK;
        if (status) {
            c->next = i;
            return status;
        }
        if (stops) {
            c->stopper = i;
            c->stopped_target = c->goal.target;
            c->next = 0;
        }
    }
    if (c->at_boundary)
        c->loop_began = c->trainer->step;
    return ET_OK;
}

/* The save is waited for: the process ends when this has returned. Before the first step there
 * is nothing to save, and the message says so. */
static int save_and_stop(et_controller *c, et_error *error)
{
    int64_t step = c->trainer->step;
    et_comm_resume(c->options.run.comm);
    int status = et_run_save_unsaved(c->run, step, true, error);
    if (!status)
        status = et_run_await_saves(c->run, step, error);
    status = et_run_agree(c->run, status, error);
    if (status)
        return status;
    if (!c->model_dir)
        return et_fail(error, ET_EINTERRUPTED,
                       "interrupted after step %s; not saved, because there is no model_dir",
                       et_format_count(step).text);
    return step ? et_fail(error, ET_EINTERRUPTED, "interrupted: saved step %s. %s",
                          et_format_count(step).text, ET_CONTROLLER_RESUMES)
                : et_fail(error, ET_EINTERRUPTED, "%s", ET_CONTROLLER_NOT_BEGUN);
}

static void begin_boundary(et_controller *c)
{
    et_assert(c->at_boundary && c->next == c->count);
    c->next = 0;
    c->values = NULL;
}

/* What the checkpoint had left to do is done next, as where a run goes on. */
static int go_back(et_controller *c, et_error *error)
{
    int status = et_recovery_go_back(&c->recovery, c->run, c->trainer, error);
    et_meter_start_window(&c->meter);
    if (!status && error)
        *error = (et_error)ET_ERROR_INIT; /* the step's: it has not failed the run */
    return status;
}

/* By call a stop ends its call alone, and that call again where the run goes on in a process that
 * makes the same ones. */
static void begin_call(et_controller *c)
{
    bool same = c->stop_restored && c->stopped_target == c->goal.target;
    c->stop_restored = false;
    if (c->by_call && !same)
        c->stopper = c->count;
}

/* Up to the end, or where an action has ended the run. */
static int run_loops(et_controller *c, et_error *error)
{
    const bool stopped = c->stopper < c->count;
    int status = act(c, error); /* what the last interruption cut short */
    bool told = false;
    if (!status && stopped)
        begin_call(c);
    while (!status && c->stopper == c->count && c->trainer->step < c->goal.target) {
        int64_t until;
        status = next_boundary(c, &until, error);
        if (!status && !told)
            et_controller_tell(c, "train | step: %6lld | training until step %lld...",
                               (long long)c->trainer->step, (long long)c->goal.target);
        told = true;
        if (!status)
            status = inner_loop(c, until, error);
        if (status == ET_EDIVERGED)
            status = go_back(c, error);
        else if (!status)
            begin_boundary(c);
        if (!status)
            status = act(c, error);
    }
    return status;
}

/* An error leaves the newest checkpoint as the place to go on from. */
int et_controller_run(et_controller *c, const et_controller_goal *goal, et_error *error)
{
    et_controller_sane(c);
    et_assert(goal->target >= 0 && goal->eval_interval >= 0 && goal->eval_steps >= -1);
    c->goal = *goal;
    c->own[ET_OWN_VALIDATE].every = goal->eval_interval;
    c->own[ET_OWN_VALIDATE].present = goal->evaluates;
    c->last = c->next < c->count ? c->values : NULL;
    et_meter_start_window(&c->meter);
    /* What a run that went further has yet to do is for the call that it was made in. */
    bool past = c->by_call && c->trainer->step > goal->target;
    int status = past ? ET_OK : et_run_agree(c->run, run_loops(c, error), error);
    if (!status && c->by_call && goal->saves)
        status = et_run_save_unsaved(c->run, c->trainer->step, false, error);
    if (status == ET_EINTERRUPTED)
        return save_and_stop(c, error);
    if (!status)
        status = et_run_finish_saves(c->run, c->trainer->step, error);
    return et_run_agree(c->run, status, error);
}

int et_controller_train(et_controller *c, et_error *error)
{
    const et_controller_options *o = &c->options;
    et_controller_goal goal = { o->train_steps, o->validation_interval, o->validation_steps,
                                o->evaluator && o->validation_interval, true };
    if (c->by_call)
        return et_fail(error, ET_EUSAGE, "with outer_loop, use et_controller_train_to");
    if (!c->finished)
        return et_controller_run(c, &goal, error);
    return et_run_agree(c->run, et_run_finish_saves(c->run, c->trainer->step, error), error);
}
