/* Invariants:
 *   (1) only steps happen between boundaries;
 *   (2) position.next is the first action of this step that has not acted. The state has its name,
 *       and the name of position.stopper, the action that ended the run for good;
 *   (3) an interrupted run computes, logs and keeps the same as an uninterrupted one. */
#include "train/run/inner_loop.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/aside.h"
#include "base/files/file.h"
#include "base/options.h"
#include "base/text/format.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include "formats/events/log_names.h"
#include "formats/events/sink.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"
#include "train/ranks/broadcast.h"
#include "train/run/run_private.h"
#include "train/step/trainer.h"

/* ---- recovery ---- */

/* recovery.json:
 *
 *   {"trials":1,"all":2,"step":1000,"failed":1250,"memory":{"data":{...}}}
 *
 * The file is written before the state is restored. A run that resumes from checkpoint "step" and
 * finds the file continues with "memory". A run that resumes from a newer checkpoint has already
 * recovered, so it reads only the number of trials. */

#define FILE_MOST   (1 << 20)
#define TRIALS_MOST INT32_MAX

/* ---- the file ---- */

static int write_trials(const et_recovery *r, const et_run *run, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    et_value_set_int(dict, "trials", r->trials);
    et_value_set_int(dict, "all", r->all);
    et_value_set_int(dict, "step", r->step);
    et_value_set_int(dict, "failed", r->failed);
    et_value *memory = et_value_set_dict(dict, "memory");
    int status = memory && r->memory ? et_value_merge(memory, r->memory, error) : ET_OK;
    if (!status)
        status = et_json_write(et_path_of(run->options.model_dir, ET_RUN_RECOVERY).text, dict, 0,
                               "\n", error);
    et_arena_release(&arena);
    return status;
}

static int read_file(et_recovery *r, const char *path, et_error *error)
{
    et_value *dict;
    int status = et_value_read_file(&dict, &r->arena, path, FILE_MOST, et_json_parse, error);
    if (status)
        return status;
    r->memory = et_value_get(dict, "memory");
    if ((status = et_value_read_int(dict, "trials", &r->trials, error)) ||
        (status = et_value_read_int(dict, "all", &r->all, error)) ||
        (status = et_value_read_int(dict, "step", &r->step, error)) ||
        (status = et_value_read_int(dict, "failed", &r->failed, error)))
        return et_fail_while(error, status, "%s", path);
    if (r->trials < 1 || r->all < r->trials || r->all > TRIALS_MOST || r->step < 0 ||
        r->failed <= r->step)
        status = et_fail(
            error, ET_EFORMAT, "trials %lld of %lld, from step %lld after %lld: impossible",
            (long long)r->trials, (long long)r->all, (long long)r->step, (long long)r->failed);
    else if (!r->memory || r->memory->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "memory: missing or not a dict");
    return status ? et_fail_while(error, status, "%s", path) : ET_OK;
}

/* ---- resuming, going back ---- */

/* The numbers are as read_file accepts them, or all 0. */
static void sane(const et_recovery *r)
{
    et_assert(r->trials >= 0 && r->trials <= r->all);
    et_assert(r->all <= TRIALS_MOST);
    et_assert(!r->all || (r->step >= 0 && r->failed > r->step));
    et_assert(!r->memory || r->memory->kind == ET_VALUE_DICT);
}

static int retry(const et_recovery *r, et_trainer *trainer, int64_t step, et_error *error)
{
    const et_trainer_class *class = trainer->class;
    if (!r->all || !class->retry)
        return ET_OK;
    return class->retry(trainer, r->all, step == r->step ? r->memory : NULL, error);
}

/* Gives all ranks the values that rank 0 has read or decided. */
static int broadcast(et_recovery *r, et_run *run, int status, et_error *error)
{
    et_comm *comm = run->options.comm;
    int64_t numbers[] = { r->trials, r->all, r->step, r->failed, r->memory != NULL };
    if ((status = et_together_give(comm, status, numbers, sizeof numbers, error)))
        return status;
    if (et_comm_rank(comm))
        et_arena_release(&r->arena);
    if (numbers[4])
        status = et_values_broadcast(r->memory, &r->memory, &r->arena, comm, ET_OK, error);
    r->trials = numbers[0];
    r->all = numbers[1];
    r->step = numbers[2];
    r->failed = numbers[3];
    return status;
}

/* A file without its checkpoint belongs to an earlier run. */
static int begin(et_recovery *r, et_run *run, int64_t step, et_error *error)
{
    if (et_comm_rank(run->options.comm))
        return ET_OK;
    if (!run->options.model_dir)
        return r->max_trials <= 0 ? ET_OK
                                  : et_fail(error, ET_ECONFIG,
                                            "recovery_max_trials: a run without model_dir has no "
                                            "checkpoint to go back to; give it one");
    const et_path path = et_path_of(run->options.model_dir, ET_RUN_RECOVERY);
    if (!et_file_exists(path.text))
        return ET_OK;
    return step >= 0 ? read_file(r, path.text, error) : et_aside_move_path(path.text, error);
}

int et_recovery_open(et_recovery *r, et_run *run, et_trainer *trainer, int64_t step,
                     et_error *error)
{
    int status = begin(r, run, step, error);
    if (!status && step < 0 && r->max_trials > 0)
        status = et_run_save(run, trainer->step, false, error);
    status = broadcast(r, run, status, error);
    if (!status && (status = retry(r, trainer, step, error)))
        et_fail_while(error, status, "%s/" ET_RUN_RECOVERY,
                      run->options.model_dir ? run->options.model_dir : "the run");
    return status;
}

/* The next trial, if there is one left. */
static int count_trial(et_recovery *r, const et_run *run, int64_t failed, et_error *error)
{
    char what[ET_ERROR_TEXT_MAX];
    snprintf(what, sizeof what, "%s", error ? error->text : "");
    int64_t newest = et_checkpoints_newest_step(run->checkpoints);
    bool new_row = !r->all || newest >= r->failed;
    int64_t trials = new_row ? 1 : r->trials + 1;
    if (trials > r->max_trials)
        return et_fail(
            error, ET_EDIVERGED,
            "%.700s. This happened %lld times in a row; the limit is %lld (recovery_max_trials)",
            what, (long long)trials, (long long)r->max_trials);
    et_log(ET_LOG_WARNING, "%.700s. Going back to step %s: trial %lld of %lld", what,
           et_format_count(newest).text, (long long)trials, (long long)r->max_trials);
    r->trials = trials;
    r->all++;
    r->step = newest;
    r->failed = failed;
    sane(r);
    return ET_OK;
}

static int decide(et_recovery *r, et_run *run, et_trainer *trainer, et_error *error)
{
    if (et_comm_rank(run->options.comm))
        return ET_OK;
    et_error failure = ET_ERROR_INIT;
    int status = et_run_settle(run, &failure);
    if (!status)
        status = et_checkpoints_drop_newer(run->checkpoints, trainer->step, &failure);
    if (status)
        return et_fail(error, status, "%s", failure.text);
    if ((status = count_trial(r, run, trainer->step + 1, error)))
        return status;
    et_arena_release(&r->arena);
    et_value *memory = et_value_dict(&r->arena);
    status = trainer->class->diverged ? trainer->class->diverged(trainer, memory, error) : ET_OK;
    r->memory = memory;
    if (!status && et_value_failed(memory))
        status = et_alloc_failed(error, "the state");
    return status ? status : write_trials(r, run, error);
}

/* Called after a step failed with ET_EDIVERGED; error is the step's. ET_OK: the checkpoint is
 * restored. ET_EDIVERGED: no trial is left. */
static int go_back(et_recovery *r, et_run *run, et_trainer *trainer, et_error *error)
{
    int64_t step;
    sane(r);
    if (r->max_trials <= 0)
        return ET_EDIVERGED;
    int status = broadcast(r, run, decide(r, run, trainer, error), error);
    if (!status)
        status = et_run_rewind(run, &step, error);
    if (!status && step != r->step) {
        r->step = step;
        status = et_comm_rank(run->options.comm) ? ET_OK : write_trials(r, run, error);
    }
    return status ? status : retry(r, trainer, step, error);
}

/* ---- making ---- */

int et_inner_loop_init(et_inner_loop *loop, size_t actions, et_error *error)
{
    loop->learning_rate = (double)NAN;
    return ET_ALLOC(loop->actions, actions, "actions", error);
}

void et_inner_loop_release(et_inner_loop *loop)
{
    et_arena_release(&loop->recovery.arena);
    et_free(loop->actions);
    et_arena_release(&loop->evaluation.arena);
    et_arena_release(&loop->steps.arena);
    if (loop->trainer && loop->trainer->driver == loop)
        loop->trainer->driver = NULL;
    *loop = (et_inner_loop){ .trainer = NULL };
}

void et_inner_loop_list(et_inner_loop *loop, et_listed_action one)
{
    et_assert(!one.needs || one.sees);
    loop->actions[loop->count++] = one;
    loop->position.next = loop->position.stopper = loop->count;
}

const char *et_inner_loop_name(const et_inner_loop *loop, int action)
{
    return action < loop->count ? loop->actions[action].action->class->name : "";
}

void et_inner_loop_sane(const et_inner_loop *loop)
{
    const et_loop_position *position = &loop->position;
    et_assert(loop->trainer && loop->run && loop->track && loop->actions);
    et_assert(position->next >= 0 && position->next <= loop->count);
    et_assert(position->stopper >= 0 && position->stopper <= loop->count);
    et_assert(position->next == loop->count || position->at_boundary);
    et_assert(loop->step >= 0 && position->began >= 0);
    et_assert(loop->meter.window_steps >= 0);
    for (int i = 0; i < loop->count; i++)
        et_assert(loop->actions[i].action && loop->actions[i].sees);
}

/* Checks a step that the program has set. */
static int check_step(const et_inner_loop *loop, et_error *error)
{
    const et_trainer *trainer = loop->trainer;
    et_comm *comm = loop->run->options.comm;
    const int ranks = et_comm_size(comm);
    void *all = NULL;
    int status = trainer->step >= 0
                     ? ET_OK
                     : et_fail(error, ET_ECONFIG, "the trainer %s is at step %lld; set at least 0",
                               trainer->class->name, (long long)trainer->step);
    if (ranks > 1)
        status = et_together_table(comm, status, &trainer->step, sizeof trainer->step, &all, error);
    const int64_t *steps = all;
    for (int rank = 1; !status && rank < ranks; rank++)
        if (steps[rank] != steps[0])
            status =
                et_fail(error, ET_ECONFIG,
                        "the trainer %s is at step %lld on rank 0, but at step %lld on rank "
                        "%d; set the same step on all ranks",
                        trainer->class->name, (long long)steps[0], (long long)steps[rank], rank);
    et_free(all);
    return status;
}

int et_inner_loop_start(et_inner_loop *loop, int64_t *step, et_error *error)
{
    et_trainer *trainer = loop->trainer;
    int status = et_run_restore(loop->run, step, error);
    if (status || *step >= 0)
        return status;
    trainer->step = loop->first;
    if ((status = check_step(loop, error)))
        return status;
    loop->planned = loop->target = 0;
    loop->position = (et_loop_position){ .next = loop->count, .stopper = loop->count };
    if (trainer->class->start)
        status = trainer->class->start(trainer, error);
    /* A trainer that keeps its weights sets their step. */
    loop->position.began = loop->step = trainer->step;
    if (loop->first)
        et_run_touch(loop->run);
    if (!status && trainer->class->loop_begin)
        status = trainer->class->loop_begin(trainer, error);
    return status;
}

/* ---- summaries ---- */

int et_trainer_write_summary(const et_trainer *trainer, const et_summary *summary, et_error *error)
{
    const et_inner_loop *loop = trainer->driver;
    const int64_t step = trainer->step + 1;
    size_t length;
    bool any;
    if (!summary)
        return et_fail(error, ET_EUSAGE, "the summary of a step is NULL");
    const void *bytes = et_summary_bytes(summary, &length);
    if (loop && loop->summaries)
        return et_sink_write_summary(loop->summaries, step, bytes, length, error);
    et_sink *sink = loop ? et_run_sink(loop->run) : NULL;
    const et_sink_message message = { ET_LOGGED_TRAIN, step, bytes, length, NULL, 0 };
    return sink ? et_sink_write_message(sink, &message, &any, error) : ET_OK;
}

/* ---- rates ---- */

/* A window is the time between two logs, which have its rates. */
void et_meter_start_window(et_meter *meter)
{
    meter->window_start = et_clock_monotonic();
    meter->window_steps = meter->window_units = 0;
}

et_trainer_view et_inner_loop_view(const et_inner_loop *loop)
{
    et_trainer_view view = { NAN, NAN, 0, NULL, 0 };
    if (loop->trainer->class->view)
        loop->trainer->class->view(loop->trainer, &view);
    return view;
}

/* Called after every step, also without an observer, because logs need the rate and the loss. A
 * trainer with its own inner loop makes all its steps at once. */
static void show(et_inner_loop *loop, int64_t steps)
{
    const et_trainer_view view = et_inner_loop_view(loop);
    const double now = et_clock_monotonic();
    et_meter *meter = &loop->meter;
    loop->learning_rate = view.learning_rate;
    loop->epoch = view.epoch;
    meter->window_steps += steps;
    meter->window_units += view.units;
    meter->step_seconds = now - meter->step_start;
    et_recent_add(&meter->rate, (double)view.units / meter->step_seconds);
    meter->step_start = now;
    if (!isnan(view.loss))
        et_recent_add(&meter->loss, view.loss);
    const et_showing showing = { .step = loop->trainer->step,
                                 .steps = loop->goal.target,
                                 .loss = et_recent_mean(meter->loss),
                                 .learning_rate = view.learning_rate,
                                 .rate = view.unit ? et_recent_mean(meter->rate) : NAN,
                                 .unit = view.unit,
                                 .epoch = view.epoch,
                                 .time = meter->step_start,
                                 .units = view.units,
                                 .seconds = meter->step_seconds };
    et_run_show(loop->run, &showing);
}

/* ---- steps ---- */

static const et_activity step_activity = { .name = ET_RUN_STEP_SPAN, .kind = "step" };

int et_inner_loop_check_count(const et_inner_loop *loop, et_error *error)
{
    const et_error *failure = &loop->miscounted;
    return failure->status ? et_fail(error, failure->status, "%s", failure->text) : ET_OK;
}

/* A step with a wrong count must not be saved. */
static int check_count(et_inner_loop *loop, int64_t before, int64_t steps, et_error *error)
{
    int status = et_trainer_advanced(loop->trainer, before, steps, &loop->miscounted);
    return status ? et_inner_loop_check_count(loop, error) : ET_OK;
}

/* All steps up to `until`, by the trainer's own inner loop. */
static int run_train(et_inner_loop *loop, int64_t until, et_error *error)
{
    et_arena_release(&loop->steps.arena);
    et_value *values = et_value_dict(&loop->steps.arena);
    const int64_t before = loop->trainer->step;
    et_track_begin(loop->track, &step_activity, before + 1);
    int status = values ? et_trainer_run(loop->trainer, until - before, values, error)
                        : et_alloc_failed(error, "a log");
    et_track_end(loop->track);
    if (!status)
        status = check_count(loop, before, until - before, error);
    loop->steps.values = status ? NULL : values;
    return status;
}

/* Makes steps up to `until`. Each step is a span of the trace, where steps count from 1, as in
 * logs. Requests are served between steps. ET_EINTERRUPTED: asked to stop; save_and_stop writes the
 * message. */
static int run_steps(et_inner_loop *loop, int64_t until, et_error *error)
{
    et_trainer *trainer = loop->trainer;
    et_assert(until > trainer->step);
    int counted = et_inner_loop_check_count(loop, error);
    if (counted)
        return counted;
    loop->position.at_boundary = false;
    loop->meter.step_start = et_clock_monotonic();
    while (trainer->step < until) {
        const int64_t before = trainer->step;
        int status = et_run_between_steps(loop->run, before, error);
        if (!status && trainer->class->train) {
            status = run_train(loop, until, error);
        } else if (!status) {
            et_track_begin(loop->track, &step_activity, before + 1);
            status = et_trainer_step(trainer, error);
            et_track_end(loop->track);
            if (!status)
                status = check_count(loop, before, 1, error);
        }
        if (status)
            return status;
        et_run_touch(loop->run);
        loop->step = trainer->step;
        show(loop, trainer->step - before);
    }
    loop->position.at_boundary = true;
    return ET_OK;
}

int et_inner_loop_steps(const et_inner_loop *loop, int64_t step, int64_t *steps, et_error *error)
{
    const et_loop_length *length = &loop->length;
    *steps = length->steps ? length->steps(length->payload, step) : length->constant;
    if (!length->steps && !*steps)
        *steps = INT64_MAX;
    if (*steps > 0)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "steps_per_loop gives %lld after step %lld; it must give at least 1",
                   (long long)*steps, (long long)step);
}

static int64_t next_due(const et_listed_action *listed, int64_t step)
{
    return listed->asked ? listed->asked->class->due(listed->asked, step) : step + 1;
}

/* The end of the loop that began at position.began. Example: with length 1000, begun at 250, and
 * rows that are due every 100 and 400 steps, the loop ends at 300. If settings have changed
 * meanwhile and this end has passed, the loop ends with the next step. */
static int next_boundary(const et_inner_loop *loop, int64_t *until, et_error *error)
{
    const int64_t from = loop->position.began, step = loop->trainer->step;
    int64_t steps;
    et_assert(step < loop->goal.target && loop->position.next == loop->count);
    int status = et_inner_loop_steps(loop, from, &steps, error);
    if (status)
        return status;
    *until = loop->goal.target;
    if (steps < *until - from)
        *until = from + steps;
    for (int i = 0; i < loop->count; i++) {
        const et_listed_action *listed = &loop->actions[i];
        const int64_t due = listed->ends_loop ? next_due(listed, from) : *until;
        et_assert(!listed->ends_loop || due > from);
        *until = due < *until ? due : *until;
    }
    *until = *until > step ? *until : step + 1;
    return ET_OK;
}

/* ---- actions ---- */

/* Whether the action was due in this loop of steps. If the begin of the loop is unknown: whether
 * the action is due at this step. */
static bool was_due(const et_inner_loop *loop, const et_listed_action *listed)
{
    const int64_t step = loop->trainer->step, began = loop->position.began;
    const int64_t since = began < step ? began : step - 1;
    return !listed->asked || (since >= 0 && next_due(listed, since) <= step);
}

static bool has_ended(const et_inner_loop *loop)
{
    return loop->trainer->step >= loop->goal.target;
}

static bool is_stopped(const et_inner_loop *loop)
{
    return loop->position.stopper < loop->count;
}

/* If an action ends the run, earlier actions that were not due act too, as at every end of a
 * run. */
static bool acts(const et_inner_loop *loop, int i)
{
    const et_listed_action *listed = &loop->actions[i];
    const unsigned when = listed->acts;
    if (!when || i == loop->position.stopper || (listed->needs && !listed->sees->values))
        return false;
    if (is_stopped(loop))
        return i > loop->position.stopper || !was_due(loop, listed);
    return (when & ET_ACTS_EACH_LOOP) || (when & ET_ACTS_WHEN_DUE && was_due(loop, listed)) ||
           (when & ET_ACTS_WHEN_EVALUATED && loop->evaluation.values) ||
           (when & ET_ACTS_AT_END && has_ended(loop));
}

/* *stops: true if the action ends the run and the run was not ending already. */
static int act_one(et_inner_loop *loop, const et_listed_action *listed, bool *stops,
                   et_error *error)
{
    et_action *action = listed->action;
    int64_t step = loop->trainer->step;
    const et_action_context now = { .step = step,
                                    .end = has_ended(loop) || is_stopped(loop),
                                    .logs = listed->sees->values,
                                    .stop = stops,
                                    .rank = et_comm_rank(loop->run->options.comm) };
    et_run_touch(loop->run);
    et_assert(loop->position.at_boundary && !loop->miscounted.status);
    et_track_begin(loop->track, listed->activity, step);
    int status = et_run_check(loop->run, error);
    if (!status && loop->trainer->class->gather)
        status = loop->trainer->class->gather(loop->trainer, error);
    if (!status)
        status = et_callback_status(action->class->act(action, &now, error), "an action", error);
    et_track_end(loop->track);
    *stops = *stops && !now.end;
    return status;
}

/* Runs this step's actions from `next` on. No action writes if another process has taken the
 * directory. A running action counts as done, so a checkpoint that the action saves does not list
 * it as open. */
static int act(et_inner_loop *loop, et_error *error)
{
    et_loop_position *position = &loop->position;
    while (position->next < loop->count) {
        int i = position->next++;
        bool stops = false;
        int status = acts(loop, i) ? act_one(loop, &loop->actions[i], &stops, error) : ET_OK;
        if (status) {
            position->next = i;
            return status;
        }
        if (stops) {
            position->stopper = i;
            position->stopped_target = loop->goal.call ? loop->goal.target : -1;
            position->stop_restored = false;
            position->next = 0;
        }
    }
    if (position->at_boundary)
        position->began = loop->trainer->step;
    loop->steps.values = NULL;
    return ET_OK;
}

/* ---- the loop ---- */

/* Waits for the save, because the process ends after this call. Before the first step nothing is
 * saved, and the message differs. */
static int save_and_stop(et_inner_loop *loop, et_error *error)
{
    int64_t step = loop->trainer->step;
    et_comm_resume(loop->run->options.comm);
    int status = et_run_save_unsaved(loop->run, step, true, error);
    if (!status)
        status = et_run_await_saves(loop->run, step, error);
    if ((status = et_run_agree(loop->run, status, error)))
        return status;
    if (!loop->run->options.model_dir)
        return et_fail(error, ET_EINTERRUPTED,
                       "interrupted after step %s; not saved, because there is no model_dir",
                       et_format_count(step).text);
    return step ? et_fail(error, ET_EINTERRUPTED, "interrupted: saved step %s. %s",
                          et_format_count(step).text, ET_RUN_RESUMES)
                : et_fail(error, ET_EINTERRUPTED, "%s", ET_RUN_NOT_BEGUN);
}

/* If the program has changed the step since the last call, a loop begins at this step without open
 * actions. */
static int take_step(et_inner_loop *loop, et_error *error)
{
    const int64_t step = loop->trainer->step;
    int status = check_step(loop, error);
    if (status || step == loop->step)
        return status;
    loop->step = step;
    loop->position =
        (et_loop_position){ .began = step, .next = loop->count, .stopper = loop->count };
    et_run_touch(loop->run);
    return ET_OK;
}

/* Trains up to the target, or until an action ends the run. */
static int run_loops(et_inner_loop *loop, et_error *error)
{
    const bool stopped = is_stopped(loop);
    int status = act(loop, error); /* the open actions of an interrupted run */
    if (!status && stopped) {
        /* A stop ends only the current call. If the process restarts and repeats its calls, the
         * stop ends the same call again. */
        et_loop_position *position = &loop->position;
        bool same = position->stop_restored && position->stopped_target == loop->goal.target;
        position->stop_restored = false;
        if (loop->goal.call && !same)
            position->stopper = loop->count;
    }
    if (!status && loop->goal.call && !is_stopped(loop))
        et_run_tell(loop->run, "train | step: %6lld | training until step %lld...",
                    (long long)loop->trainer->step, (long long)loop->goal.target);
    while (!status && !is_stopped(loop) && !has_ended(loop)) {
        int64_t until;
        status = next_boundary(loop, &until, error);
        if (!status)
            status = run_steps(loop, until, error);
        if (status == ET_EDIVERGED) {
            /* The open actions of the checkpoint act next, as in a resumed run. The target stays,
             * because schedules follow it; the checkpoint's may be older. */
            const int64_t planned = loop->planned, target = loop->target;
            status = go_back(&loop->recovery, loop->run, loop->trainer, error);
            loop->planned = planned;
            loop->target = target;
            et_meter_start_window(&loop->meter);
            if (!status && error) /* the step's, which has not failed the run */
                *error = (et_error)ET_ERROR_INIT;
        } else if (!status) {
            et_assert(loop->position.at_boundary && loop->position.next == loop->count);
            loop->position.next = 0;
            loop->evaluation.values = NULL;
        }
        if (!status)
            status = act(loop, error);
    }
    return status;
}

int et_inner_loop_finish(et_inner_loop *loop, int status, et_error *error)
{
    if (!status)
        status = et_run_finish_saves(loop->run, loop->trainer->step, error);
    return et_run_agree(loop->run, status, error);
}

/* A run past the target leaves its open actions to the call that made these steps. */
int et_inner_loop_run(et_inner_loop *loop, const et_goal *goal, et_error *error)
{
    et_inner_loop_sane(loop);
    et_assert(goal->target >= 0);
    int status = take_step(loop, error);
    if (status)
        return status;
    loop->goal = *goal;
    loop->last = loop->position.next < loop->count ? loop->evaluation.values : NULL;
    et_meter_start_window(&loop->meter);
    bool past = loop->trainer->step > goal->target;
    if (!past)
        status = et_run_agree(loop->run, run_loops(loop, error), error);
    if (!status && goal->saves)
        status = et_run_save_unsaved(loop->run, loop->trainer->step, false, error);
    if (status == ET_EINTERRUPTED)
        return save_and_stop(loop, error);
    return et_inner_loop_finish(loop, status, error);
}
