/* Invariants:
 *   (1) between boundaries nothing but steps happens;
 *   (2) `next` is the first action of this step that has not acted; it is in the state, by name,
 *       as is `stopper`, the one that has ended the run: what it ended is finished for good;
 *   (3) whether a run was interrupted shows nowhere in what it computes, logs or keeps in the
 *       end. */
#include "train/controller.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/reserved.h"
#include "train/controller_private.h"

int et_evaluate(et_evaluator *evaluator, int64_t step, int64_t limit, bool (*stops)(void *payload),
                void *payload, et_value *logs, et_error *error)
{
    const et_evaluator_class *class = evaluator->class;
    bool more = true;
    int status = class->begin ? class->begin(evaluator, step, error) : ET_OK;
    for (int64_t i = 0; !status && more && (!limit || i < limit); i++)
        status = stops && stops(payload)
                     ? et_fail(error, ET_EINTERRUPTED, "%s was interrupted", class->name)
                     : class->step(evaluator, &more, error);
    /* Also after a failure: what begin has set up is taken down there. */
    int ended =
        class->end ? class->end(evaluator, status ? NULL : logs, status ? NULL : error) : ET_OK;
    return status ? status : ended;
}

/* ---- what resumes ------------------------------------------------------------------------ */

static const char *name_of(const et_controller *c, int action)
{
    return action < c->count ? c->actions[action]->class->name : "";
}

/* An evaluation's values, for the actions that have not seen them: a run that is interrupted
 * between two goes on with what they would have seen. Numbers bit for bit. */
static void save_values(et_value *to, const et_value *values)
{
    for (const et_value *v = values->first; v; v = v->next) {
        if (v->kind == ET_VALUE_DICT)
            save_values(et_value_set_dict(to, v->key), v);
        else if (v->kind == ET_VALUE_FLOAT)
            et_part_set_real(to, v->key, v->real);
        else if (v->kind == ET_VALUE_INT)
            et_value_set_int(to, v->key, v->integer);
        else if (v->kind == ET_VALUE_BOOL)
            et_value_set_bool(to, v->key, v->boolean);
        else if (v->kind == ET_VALUE_STRING)
            et_value_set_string(to, v->key, v->string);
    }
}

static void restore_values(et_value *to, const et_value *dict)
{
    for (const et_value *v = dict->first; v; v = v->next) {
        double real;
        if (v->kind == ET_VALUE_DICT)
            restore_values(et_value_set_dict(to, v->key), v);
        else if (v->kind == ET_VALUE_INT)
            et_value_set_int(to, v->key, v->integer);
        else if (v->kind == ET_VALUE_BOOL)
            et_value_set_bool(to, v->key, v->boolean);
        else if (!et_part_read_real(dict, v->key, &real, NULL))
            et_value_set_float(to, v->key, real);
        else if (v->kind == ET_VALUE_STRING)
            et_value_set_string(to, v->key, v->string);
    }
}

static int restore_evaluation(et_controller *c, const et_value *dict, et_error *error)
{
    const et_value *values = et_value_get(dict, "evaluation");
    c->values = NULL;
    if (!values)
        return ET_OK;
    et_arena_release(&c->arena);
    et_value *copy = et_value_dict(&c->arena);
    restore_values(copy, values);
    c->values = copy;
    return et_value_failed(copy) ? et_alloc_failed(error, 0, "the state") : ET_OK;
}

/* {"step": 2000, "next": "", "stopped_by": "", "recent_loss": ..., "recent_weight": ...} */
static int save_progress(const void *self, et_value *dict, et_error *error)
{
    const et_controller *c = self;
    et_value_set_int(dict, "step", c->options.trainer->step);
    et_value_set_string(dict, "next", name_of(c, c->next));
    et_value_set_string(dict, "stopped_by", name_of(c, c->stopper));
    if (c->values && c->next < c->count)
        save_values(et_value_set_dict(dict, "evaluation"), c->values);
    et_part_set_real(dict, "recent_loss", c->meter.loss.sum);
    return et_part_set_real(dict, "recent_weight", c->meter.loss.weight)
               ? ET_OK
               : et_alloc_failed(error, 0, "the state");
}

/* By name, so that actions may come and go between versions. "" is the end of the list. A name
 * that is not there any more is an error: what should have acted next is not known. */
static int restore_action(et_controller *c, const et_value *dict, const char *key, int *action,
                          et_error *error)
{
    const char *name;
    int status = et_value_read_string(dict, key, &name, error);
    if (status)
        return status;
    for (*action = 0; *action < c->count; ++*action)
        if (!strcmp(name_of(c, *action), name))
            return ET_OK;
    return *name ? et_fail(error, ET_EFORMAT, "%s: there is no action named %s", key, name) : ET_OK;
}

static int restore_progress(void *self, const et_value *dict, et_error *error)
{
    et_controller *c = self;
    int64_t step;
    int status = et_value_read_int(dict, "step", &step, error);
    if (!status && step < 0)
        status = et_fail(error, ET_EFORMAT, "step: %lld is negative", (long long)step);
    if (!status)
        status = et_part_read_real(dict, "recent_loss", &c->meter.loss.sum, error);
    if (!status)
        status = et_part_read_real(dict, "recent_weight", &c->meter.loss.weight, error);
    if (status)
        return status;
    c->options.trainer->step = step;
    status = restore_action(c, dict, "next", &c->next, error);
    if (!status)
        status = restore_action(c, dict, "stopped_by", &c->stopper, error);
    return status ? status : restore_evaluation(c, dict, error);
}

static const et_part_class progress_part = { "progress", save_progress, restore_progress };

/* ---- set-up ------------------------------------------------------------------------------ */

/* Names tell in the state which action comes next. */
static int check_names(const et_controller *c, et_error *error)
{
    for (int i = 0; i < c->count; i++)
        for (int k = 0; k < i; k++)
            if (!strcmp(name_of(c, i), name_of(c, k)))
                return et_fail(error, ET_EUSAGE, "two actions are named %s", name_of(c, i));
    return ET_OK;
}

/* The controller's own around the program's, which act before the save. */
static int list_actions(et_controller *c, et_error *error)
{
    const et_controller_options *o = &c->options;
    size_t count = ET_OWN_ACTIONS + (size_t)o->action_count;
    c->actions = et_alloc(count, sizeof *c->actions);
    if (!c->actions)
        return et_alloc_failed(error, count * sizeof *c->actions, "actions");
    et_controller_make_own(c);
    c->actions[c->count++] = &c->own[ET_OWN_LOG].action;
    c->actions[c->count++] = &c->own[ET_OWN_VALIDATE].action;
    for (int i = 0; i < o->action_count; i++)
        c->actions[c->count++] = o->actions[i];
    c->actions[c->count++] = &c->own[ET_OWN_SAVE].action;
    c->next = c->stopper = c->count;
    return check_names(c, error);
}

/* A run may be past its end: train_steps was more once. What acts at an end has acted there. */
static bool has_finished(const et_controller *c)
{
    int64_t left = c->options.train_steps - c->options.trainer->step;
    bool ended = left == 0 || c->stopper < c->count;
    return left < 0 || (ended && c->next == c->count);
}

/* Opening the logs cuts them off, which must not happen before a checkpoint has been read, nor
 * where there is nothing to do. */
static int restore(et_controller *c, et_error *error)
{
    et_trainer *trainer = c->options.trainer;
    int64_t step;
    int status = et_run_restore(c->run, &step, error);
    if (status)
        return status;
    if (step < 0 && trainer->class->start)
        status = trainer->class->start(trainer, error);
    if (!status && step < 0 && trainer->class->loop_begin)
        status = trainer->class->loop_begin(trainer, error);
    c->finished = !status && step >= 0 && has_finished(c);
    if (status || c->finished)
        return status;
    status = et_run_begin(c->run, error);
    return status ? status : et_recovery_open(&c->recovery, c->run, trainer, step, error);
}

/* The order of adding is the order of restoring. */
static int open_parts(et_controller *c, et_error *error)
{
    et_trainer *trainer = c->options.trainer;
    int status = et_state_new(&c->state, error);
    if (!status)
        status = list_actions(c, error);
    if (!status && trainer->class->attach)
        status = trainer->class->attach(trainer, c->state, error);
    if (!status)
        status = et_state_add(c->state, "progress", &progress_part, c, error);
    c->options.run.state = c->state;
    if (!status) {
        status = et_run_open(&c->run, &c->options.run, error);
        c->options.run.console = NULL;
    }
    return status ? status : restore(c, error);
}

static int check_options(const et_controller_options *o, et_error *error)
{
    int status = et_options_check(o, "et_controller_options", error);
    if (!status)
        status = et_options_check(&o->run, "et_run_options", error);
    if (status)
        return status;
    if (!o->trainer || !o->trainer->class->step || !o->run.model_dir)
        return et_fail(error, ET_EUSAGE, "a controller needs a trainer with a step, and model_dir");
    const int64_t counts[] = { o->train_steps, o->steps_per_loop, o->summary_interval,
                               o->validation_interval, o->checkpoint_interval };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
        if (counts[i] < 0)
            return et_fail(error, ET_ECONFIG, "steps and intervals are at least 0");
    return ET_OK;
}

int et_controller_open(et_controller **out, const et_controller_options *options, et_error *error)
{
    *out = NULL;
    int status = check_options(options, error);
    et_controller *c = status ? NULL : et_alloc_zero(1, sizeof *c);
    if (!c)
        return status ? status : et_alloc_failed(error, sizeof *c, "a controller");
    c->options = *options;
    c->recovery = (et_recovery){ .max_trials = options->recovery_max_trials };
    status = open_parts(c, error);
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
    et_arena_release(&c->arena);
    et_free(c);
    return status;
}

bool et_controller_finished(const et_controller *controller)
{
    return controller->finished;
}

/* ---- the loop ---------------------------------------------------------------------------- */

/* Every step, also without an observer, so that rate and loss are there when one is asked for. */
static void show(et_controller *c)
{
    const et_trainer *trainer = c->options.trainer;
    et_trainer_view view = { NAN, NAN, 0, NULL, 0 };
    if (trainer->class->view)
        trainer->class->view(trainer, &view);
    et_meter_add(&c->meter, &view);
    et_showing showing = { .step = trainer->step,
                           .steps = c->options.train_steps,
                           .loss = et_recent_mean(c->meter.loss),
                           .learning_rate = view.learning_rate,
                           .rate = view.unit ? et_recent_mean(c->meter.rate) : NAN,
                           .unit = view.unit,
                           .epoch = view.epoch };
    et_run_show(c->run, &showing);
}

/* Static, as a trace outlives its controller. */
static const et_label action_labels[ET_OWN_ACTIONS + 1] = {
    [ET_OWN_LOG] = { .name = "log", .kind = "log" },
    [ET_OWN_VALIDATE] = { .name = "validate", .kind = "validate" },
    [ET_OWN_SAVE] = { .name = "save", .kind = "save" },
    [ET_OWN_ACTIONS] = { .name = "action", .kind = "action" },
};

static const et_label step_label = { .name = ET_CONTROLLER_STEP_SPAN, .kind = "step" };

static et_track *track_of(const et_controller *c)
{
    const et_inside *inside = c->options.run.inside;
    return inside && inside->track ? inside->track : et_track_off();
}

/* One step as a span of the trace; steps count from 1 there, as in logs. */
static int run_step(et_controller *c, et_error *error)
{
    et_trainer *trainer = c->options.trainer;
    et_track *track = track_of(c);
    et_track_begin(track, &step_label, trainer->step + 1);
    int status = trainer->class->step(trainer, error);
    et_track_end(track);
    trainer->step += !status;
    return status;
}

/* Does steps up to `until`. ET_EINTERRUPTED: asked to stop before. A step is done whole or not at
 * all, so requests are served between steps. */
static int inner_loop(et_controller *c, int64_t until, et_error *error)
{
    et_trainer *trainer = c->options.trainer;
    et_assert(until > trainer->step);
    c->meter.step_start = et_clock_monotonic();
    while (trainer->step < until) {
        if (et_run_asked_to_stop(c->run))
            return ET_EINTERRUPTED; /* save_and_stop says what that means */
        int status = et_run_look_after_saves(c->run, trainer->step, error);
        if (!status)
            status = et_run_save_if_asked(c->run, trainer->step, error);
        if (!status)
            status = run_step(c, error);
        if (status)
            return status;
        et_run_touch(c->run);
        show(c);
    }
    return ET_OK;
}

/* With steps_per_loop 1000, step 250, intervals 100 and 1000: 300. */
static int64_t next_boundary(const et_controller *c)
{
    int64_t step = c->options.trainer->step, until = c->options.train_steps;
    int64_t most = c->options.steps_per_loop;
    if (most && most < until - step)
        until = step + most;
    for (int i = 0; i < c->count; i++) {
        int64_t due = c->actions[i]->class->due(c->actions[i], step);
        et_assert(due > step);
        until = due < until ? due : until;
    }
    return until;
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

/* At the end all act, due or not: the last step is always logged, evaluated and saved. Where an
 * action has ended the run that goes for those before it as well, and what was due has acted. */
static bool acts(const et_controller *c, int i)
{
    int64_t step = c->options.trainer->step;
    const et_action *action = c->actions[i];
    bool due = step > 0 && action->class->due(action, step - 1) == step;
    if (!is_present(c, action) || i == c->stopper)
        return false;
    if (c->stopper < c->count)
        return i > c->stopper || !due;
    return due || step >= c->options.train_steps;
}

static int act_one(et_controller *c, et_action *action, et_error *error)
{
    int64_t step = c->options.trainer->step;
    et_track *track = track_of(c);
    bool last = step >= c->options.train_steps, stop = false;
    et_moment now = { step, last || c->stopper < c->count, c->values, &stop };
    et_run_touch(c->run);
    et_track_begin(track, &action_labels[own_number(c, action)], step);
    int status = et_run_check(c->run, error);
    if (!status)
        status = action->class->act(action, &now, error);
    et_track_end(track);
    if (status || !stop || now.end)
        return status;
    c->stopper = c->next - 1;
    c->next = 0;
    return ET_OK;
}

/* Lets this step's actions act, from `next` on; none writes where another process works by now.
 * That one counts as done while it acts: what the save saves has nothing left to do. */
static int act(et_controller *c, et_error *error)
{
    while (c->next < c->count) {
        int i = c->next++;
        int status = acts(c, i) ? act_one(c, c->actions[i], error) : ET_OK;
        if (status) {
            c->next = i;
            return status;
        }
    }
    return ET_OK;
}

/* The save is waited for: the process ends when this has returned. Before the first step there
 * is nothing to save, and the message says so. */
static int save_and_stop(et_controller *c, et_error *error)
{
    int64_t step = c->options.trainer->step;
    int status = et_run_unsaved(c->run) ? et_run_save(c->run, step, true, error) : ET_OK;
    if (!status)
        status = et_run_finish_saves(c->run, step, error);
    if (status)
        return status;
    return step ? et_fail(error, ET_EINTERRUPTED, "interrupted: saved step %s. %s",
                          et_format_count(step).text, ET_CONTROLLER_GOES_ON)
                : et_fail(error, ET_EINTERRUPTED, "%s", ET_CONTROLLER_NOT_BEGUN);
}

static void begin_boundary(et_controller *c)
{
    c->next = 0;
    c->values = NULL;
}

/* What the checkpoint had left to do is done next, as where a run goes on. */
static int go_back(et_controller *c, et_error *error)
{
    int status = et_recovery_go_back(&c->recovery, c->run, c->options.trainer, error);
    et_meter_start_window(&c->meter);
    return status;
}

/* An error leaves the newest checkpoint as the place to go on from. */
int et_controller_train(et_controller *c, et_error *error)
{
    if (c->finished)
        return ET_OK;
    et_meter_start_window(&c->meter);
    int status = act(c, error); /* what the last interruption cut short */
    while (!status && c->stopper == c->count && c->options.trainer->step < c->options.train_steps) {
        status = inner_loop(c, next_boundary(c), error);
        if (status == ET_EDIVERGED)
            status = go_back(c, error);
        else if (!status)
            begin_boundary(c);
        if (!status)
            status = act(c, error);
    }
    if (status == ET_EINTERRUPTED)
        return save_and_stop(c, error);
    return status ? status : et_run_finish_saves(c->run, c->options.trainer->step, error);
}
