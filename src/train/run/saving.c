/* Saves of a run, and failed saves. A save runs in the background, so its failure is found later,
 * between two steps.
 *
 *   saved                                    ->  nothing
 *   failed                                   ->  a warning, and the current step is saved
 *   failed again, on_failed_save: stop       ->  the run ends with the error
 *                 on_failed_save: go_on      ->  a warning; the next due save tries again
 *   another process has the directory        ->  the run ends with the error
 *
 * At the end of a run, and after a request to stop, an unsaved state is an error with any setting.
 *
 * The manager itself repeats a failed save of the best checkpoint, because a later step is not the
 * best. After a second failure, the run warns or ends as above. The best stays marked as lost: if
 * no later step is as good, the end of the run is an error.
 *
 * If each rank has a part of the state, all ranks call these functions at the same places. Rank 0
 * decides whether to save; the others serve. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text/format.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"
#include "train/run/run_private.h"

void et_run_tell(const et_run *run, const char *format, ...)
{
    char text[1024];
    va_list arguments;
    if (!run->options.observer.tell)
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    run->options.observer.tell(run->options.observer.self, text);
}

static int end_or_warn(et_run *run, const et_error *failure, const char *what, et_error *error)
{
    bool stops = run->saves.ends || run->options.on_failed_save == ET_FAILED_SAVE_STOP;
    if (stops || failure->status == ET_EBUSY)
        return et_fail(error, failure->status, "%s", failure->text);
    et_log(ET_LOG_WARNING, "%s; training continues, and %s", failure->text, what);
    return ET_OK;
}

static void sane(const et_run *run)
{
    const et_run_saves *saves = &run->saves;
    et_assert(run->options.state);
    et_assert(!run->checkpoints || run->options.model_dir);
    et_assert(saves->failed >= 0 && (!saves->again || saves->failed == 1));
    et_assert(!saves->failed || saves->failure.status);
    et_assert(!saves->is_best || run->checkpoints);
    et_assert(!saves->held || run->checkpoints);
    et_assert(saves->best_saved >= -1);
    et_assert(run->in_parts || !run->saves_again);
    et_assert(!run->in_parts || !run->alone);
}

/* Handles a failed save. ET_OK: the run continues. */
static int settle(et_run *run, const et_error *failure, et_error *error)
{
    et_assert(failure->status);
    et_run_saves *saves = &run->saves;
    if (saves->is_best) {
        /* After the second failure, the arrays of the best step have changed, so its checkpoint is
         * lost. Then the previous best counts again, and the next validation that is better becomes
         * the best. */
        const et_run_best failed = run->best;
        et_run_best *best = &run->best;
        *best = saves->best_before;
        best->lost = true;
        best->lost_value = failed.lost ? failed.lost_value : failed.value;
        best->lost_tie = failed.lost ? failed.lost_tie : failed.tie;
        best->lost_step = failed.lost ? failed.lost_step : failed.step;
        best->since = failed.since; /* the lost best was an improvement too */
        saves->is_best = false;
        saves->best_failure = *failure;
        run->unsaved = true;
        return end_or_warn(run, failure, "the best checkpoint is not saved", error);
    }
    run->unsaved = true;
    saves->failure = *failure;
    saves->failed++;
    saves->again = saves->failed == 1 && !saves->ends && failure->status != ET_EBUSY;
    if (saves->again) {
        et_log(ET_LOG_WARNING, "%s; trying once more", failure->text);
        return ET_OK;
    }
    return end_or_warn(run, failure, "the steps since the last checkpoint are not saved", error);
}

static void note_saved(et_run *run)
{
    if (run->saves.is_best)
        run->saves.best_saved = run->best.step;
    else
        run->saves.failed = 0;
    run->saves.is_best = false;
}

/* Waits for a save in progress. */
static int settle_last(et_run *run, et_error *error)
{
    if (!run->checkpoints || !et_checkpoints_saving(run->checkpoints))
        return ET_OK;
    et_error failure = ET_ERROR_INIT;
    if (et_checkpoints_wait(run->checkpoints, &failure))
        return settle(run, &failure, error);
    note_saved(run);
    return ET_OK;
}

/* ---- a best in memory ---- */

static int start_held(et_run *run, et_error *error)
{
    et_error failure = ET_ERROR_INIT;
    int status = run->saves.held ? settle_last(run, error) : ET_OK;
    if (status || !run->saves.held)
        return status;
    et_assert(!run->saves.is_best);
    run->saves.held = false;
    run->saves.is_best = true;
    if (run->saves.best_before.known)
        et_checkpoints_replace_best(run->checkpoints, run->saves.best_before.step);
    return et_checkpoints_save_held(run->checkpoints, &failure) ? settle(run, &failure, error)
                                                                : ET_OK;
}

/* Writes the held best, and waits for this save and any other save. */
static int write_held(et_run *run, et_error *error)
{
    int status = start_held(run, error);
    return status ? status : settle_last(run, error);
}

/* Holds a copy of the best; the previous best stays on the disk. False: no memory for the copy. */
static bool hold_best(et_run *run, const et_run_best *best, const et_value *logs)
{
    const et_run_best before = run->best;
    run->best = *best;
    const bool holds = !et_checkpoints_hold_best(run->checkpoints, best->step, logs, NULL);
    if (!holds)
        run->best = before;
    if (!holds || run->saves.held)
        return holds;
    run->saves.best_before = before;
    run->saves.held_since = et_clock_monotonic();
    run->saves.held = true;
    return true;
}

int et_run_settle(et_run *run, et_error *error)
{
    int status = write_held(run, error);
    run->saves.again = false;
    return status;
}

int et_run_end_saves(et_run *run, et_error *error)
{
    run->saves.ends = true;
    int status = settle_last(run, error);
    int written = write_held(run, status ? NULL : error);
    return status ? status : written;
}

/* Flushes the logs before the checkpoint that records their lengths. */
static int begin(et_run *run, int64_t step, bool transient, et_error *error)
{
    et_error failure = ET_ERROR_INIT;
    int status = write_held(run, error);
    if (status)
        return status;
    run->saves.again = false;
    if (!transient)
        run->saves.due = step;
    status = run->sink ? et_sink_flush(run->sink, &failure) : ET_OK;
    if (!status)
        status = transient ? et_checkpoints_save_transient(run->checkpoints, step, &failure)
                           : et_checkpoints_save(run->checkpoints, step, &failure);
    run->unsaved = status != ET_OK;
    if (!status)
        return ET_OK;
    et_fail_while(&failure, status, "saving step %s", et_format_count(step).text);
    return settle(run, &failure, error);
}

/* Tries once more: saves the step that was due, or a transient checkpoint if that step is over. */
static int try_again(et_run *run, int64_t step, et_error *error)
{
    return begin(run, step, run->saves.due != step, error);
}

/* ---- with the parts of other ranks ---- */

int et_run_with_parts(et_run *run, et_run_saving_fn *save, void *self, et_error *error)
{
    sane(run);
    const et_state *state = run->options.state;
    bool others = et_comm_rank(run->options.comm) != 0;
    int status = run->in_parts ? et_comm_agree(run->options.comm, ET_OK, NULL, error) : ET_OK;
    if (status)
        return status;
    if (others)
        return run->in_parts ? et_tensor_shards_give(state, error) : ET_OK;
    status = save(self, error);
    return run->in_parts ? et_tensor_shards_end(state, status, error) : status;
}

/* A request to save; unsaved: only if something happened since the last save. */
typedef struct request {
    et_run *run;
    int64_t step;
    bool transient, unsaved;
} request;

static int save_request(void *self, et_error *error)
{
    const request *r = self;
    et_run *run = r->run;
    et_assert(r->step >= 0);
    int status = run->checkpoints ? write_held(run, error) : ET_OK;
    if (status || !run->checkpoints || (r->unsaved && !run->unsaved))
        return status;
    if (run->options.verbose && !r->transient)
        et_run_tell(run, "step  %s  saving", et_format_count(r->step).text);
    return begin(run, r->step, r->transient, error);
}

int et_run_save(et_run *run, int64_t step, bool transient, et_error *error)
{
    request r = { run, step, transient, false };
    return et_run_with_parts(run, save_request, &r, error);
}

int et_run_save_unsaved(et_run *run, int64_t step, bool transient, et_error *error)
{
    request r = { run, step, transient, true };
    return et_run_with_parts(run, save_request, &r, error);
}

int et_run_save_best(et_run *run, const et_run_best *best, const et_value *logs, et_error *error)
{
    et_error failure = ET_ERROR_INIT;
    et_assert(best->known && best->step >= 0 && best->since >= 0);
    int status = settle_last(run, error);
    if (status)
        return status;
    et_assert(!run->saves.is_best);
    if (run->alone && run->checkpoints && !run->options.best_unsaved &&
        et_checkpoints_may_hold(run->checkpoints) && hold_best(run, best, logs))
        return ET_OK;
    if ((status = write_held(run, error)))
        return status;
    run->saves.best_before = run->best;
    run->saves.is_best = run->checkpoints != NULL;
    run->best = *best;
    if (!run->checkpoints || run->options.best_unsaved) {
        run->saves.is_best = false;
        return ET_OK;
    }
    if (run->saves.best_before.known)
        et_checkpoints_replace_best(run->checkpoints, run->saves.best_before.step);
    if (et_checkpoints_save_best(run->checkpoints, best->step, logs, &failure))
        return settle(run, &failure, error);
    if (!et_checkpoints_saving(run->checkpoints))
        note_saved(run);
    return ET_OK;
}

static int save_again(void *self, et_error *error)
{
    const request *r = self;
    return r->run->saves.again ? try_again(r->run, r->step, error) : ET_OK;
}

/* If the state is in parts, a save is tried again at the next boundary, because only there all
 * ranks know of the failure. */
int et_run_look_after_saves(et_run *run, int64_t step, et_error *error)
{
    bool ended = run->checkpoints && et_checkpoints_ended(run->checkpoints);
    int status = ended ? settle_last(run, error) : ET_OK;
    if (!status && et_run_is_held_due(run))
        status = start_held(run, error);
    bool again = run->in_parts ? run->saves_again : run->saves.again;
    if (status || !again)
        return status;
    request r = { .run = run, .step = step };
    run->saves_again = false;
    return et_run_with_parts(run, save_again, &r, error);
}

static int await_saves(void *self, et_error *error)
{
    const request *r = self;
    et_run *run = r->run;
    int status = write_held(run, error);
    while (!status && run->saves.again) {
        status = try_again(run, r->step, error);
        if (!status)
            status = settle_last(run, error);
    }
    if (!status && run->saves.failed)
        return et_fail(error, run->saves.failure.status, "%s", run->saves.failure.text);
    return status;
}

int et_run_await_saves(et_run *run, int64_t step, et_error *error)
{
    request r = { .run = run, .step = step };
    return et_run_with_parts(run, await_saves, &r, error);
}

int et_run_finish_saves(et_run *run, int64_t step, et_error *error)
{
    int status = et_run_await_saves(run, step, error);
    if (status)
        return status;
    /* Checks that the best of this run was saved, and that its checkpoint still exists. */
    const et_run_best *best = &run->best;
    const et_error *failure = &run->saves.best_failure;
    if (!run->checkpoints || run->options.best_unsaved || !et_run_has_own_best(run))
        return ET_OK;
    if (best->lost)
        return et_fail(error, failure->status ? failure->status : ET_EIO,
                       "cannot save the best checkpoint, step %s (%s %s)%s%s; %s/%s has an older "
                       "one: use the newest checkpoint, or train again from an earlier one",
                       et_format_count(best->lost_step).text, best->metric,
                       et_format_value(best->lost_value).text, failure->status ? ": " : "",
                       failure->text, run->options.model_dir, ET_CHECKPOINT_BEST);
    bool has = run->saves.best_saved != best->step;
    status = has ? ET_OK : et_checkpoints_has_best(run->checkpoints, best->step, &has, error);
    if (status || has)
        return status;
    return et_fail(error, ET_ENOTFOUND,
                   "%s/%s: the best checkpoint, step %s, was saved here, but is missing",
                   run->options.model_dir, ET_CHECKPOINT_BEST, et_format_count(best->step).text);
}
