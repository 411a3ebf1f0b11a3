/* Invariants:
 *   (1) between boundaries nothing but steps happens;
 *   (2) `next` is the first action of this step that has not acted; it is in the state, by name;
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

/* {"step": 2000, "next": "", "recent_loss": ..., "recent_weight": ...} */
static int save_progress(const void *self, et_value *dict, et_error *error)
{
    const et_controller *c = self;
    et_value_set_int(dict, "step", c->options.trainer->step);
    et_value_set_string(dict, "next", c->next < c->count ? c->actions[c->next]->class->name : "");
    et_part_set_real(dict, "recent_loss", c->meter.loss.sum);
    return et_part_set_real(dict, "recent_weight", c->meter.loss.weight)
               ? ET_OK
               : et_alloc_failed(error, 0, "the state");
}

/* By name, so that actions may come and go between versions. "" is the end of the list. A name
 * that is not there any more is an error: what should have acted next is not known. */
static int restore_next(et_controller *c, const et_value *dict, et_error *error)
{
    const char *name;
    int status = et_value_read_string(dict, "next", &name, error);
    if (status)
        return status;
    for (c->next = 0; c->next < c->count; c->next++)
        if (!strcmp(c->actions[c->next]->class->name, name))
            return ET_OK;
    return *name ? et_fail(error, ET_EFORMAT, "next: there is no action named %s", name) : ET_OK;
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
    return restore_next(c, dict, error);
}

static const et_part_class progress_part = { "progress", save_progress, restore_progress };

/* ---- set-up ------------------------------------------------------------------------------ */

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
    c->next = c->count;
    return ET_OK;
}

/* A run may be past its end: train_steps was more once. What acts at an end has acted there. */
static bool has_finished(const et_controller *c)
{
    int64_t left = c->options.train_steps - c->options.trainer->step;
    return left < 0 || (left == 0 && c->next == c->count);
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
    return status || c->finished ? status : et_run_begin(c->run, error);
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

/* Lets this step's actions act, from `next` on; none writes where another process works by now.
 * That one counts as done while it acts: what the save saves has nothing left to do. At the end
 * all act, due or not: the last step is always logged, evaluated and saved. */
static int act(et_controller *c, et_error *error)
{
    int64_t step = c->options.trainer->step;
    et_track *track = track_of(c);
    while (c->next < c->count) {
        et_action *action = c->actions[c->next++];
        bool end = c->stop || step >= c->options.train_steps;
        bool due = step > 0 && action->class->due(action, step - 1) == step;
        if (!is_present(c, action) || !(due || end))
            continue;
        et_run_touch(c->run);
        et_moment now = { step, end, c->values, &c->stop };
        et_track_begin(track, &action_labels[own_number(c, action)], step);
        int status = et_run_check(c->run, error);
        if (!status)
            status = action->class->act(action, &now, error);
        et_track_end(track);
        if (status) {
            c->next--;
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

/* An error leaves the newest checkpoint as the place to go on from. */
int et_controller_train(et_controller *c, et_error *error)
{
    if (c->finished)
        return ET_OK;
    et_meter_start_window(&c->meter);
    int status = act(c, error); /* what the last interruption cut short */
    while (!status && !c->stop && c->options.trainer->step < c->options.train_steps) {
        status = inner_loop(c, next_boundary(c), error);
        if (status)
            break;
        c->next = 0;
        c->values = NULL;
        status = act(c, error);
    }
    if (status == ET_EINTERRUPTED)
        return save_and_stop(c, error);
    return status ? status : et_run_finish_saves(c->run, c->options.trainer->step, error);
}
