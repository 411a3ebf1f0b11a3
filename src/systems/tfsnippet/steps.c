/* Epochs and steps. The call for the next one ends the current one, in TFSnippet's order:
 *
 *   step   AFTER_STEP in reverse, step_time, closed, checkpoint if asked for
 *   epoch  AFTER_EPOCH in reverse, epoch_time, closed, checkpoint if due or asked for
 *
 * The step or epoch is closed before the checkpoint, so a restored state has done all of it. A
 * state that was saved within an epoch opens the epoch again without an event; one saved within a
 * step ends the step first. */
#include <math.h>

#include "base/clock.h"
#include "engine/comm/together.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/run/run.h"

static void close_step(et_loop *loop)
{
    loop->at.within_step = loop->at.ends_step = false;
    loop->step_data = NULL;
    loop->clock.step_begun = (double)NAN;
    et_loop_drop_pairs(loop, false);
}

static void close_epoch(et_loop *loop)
{
    close_step(loop);
    et_loop_drop_pairs(loop, true);
    loop->at.within_epoch = false;
    loop->clock.epoch_begun = (double)NAN;
}

static void forget_metrics(et_loop *loop)
{
    et_logger_clear(&loop->metrics.step);
    et_logger_clear(&loop->metrics.epoch);
    loop->best.is_last = false;
}

static bool save_asked(const et_loop *loop)
{
    return loop->saves.after_step || loop->saves.after_epoch;
}

static int save(et_loop *loop, bool transient)
{
    loop->saves.after_step = loop->saves.after_epoch = false;
    return et_run_save(loop->run, loop->at.step, transient, &loop->error);
}

/* Makes the requested, undone save: the epoch is over for it, as for the program's next work. */
static void drop(et_loop *loop)
{
    close_epoch(loop);
    forget_metrics(loop);
    loop->at.resumes = false;
    if (save_asked(loop) && !loop->error.status)
        save(loop, false);
}

/* The program ends here: a restart continues in this epoch. */
void et_loop_end_open(et_loop *loop)
{
    if (save_asked(loop) && !loop->error.status) {
        close_step(loop);
        save(loop, false);
    }
    drop(loop);
}

static int ready_to_leave(et_loop *loop)
{
    int status = et_loop_ready(loop);
    return status ? status : et_loop_refuse_in_handler(loop);
}

int et_loop_leave(et_loop *loop)
{
    int status = ready_to_leave(loop);
    if (status)
        return status;
    if (loop->at.within_epoch)
        et_run_touch(loop->run);
    drop(loop);
    return loop->error.status;
}

int et_loop_leave_steps(et_loop *loop)
{
    int status = ready_to_leave(loop);
    if (status)
        return status;
    if (loop->at.within_step)
        et_run_touch(loop->run);
    loop->saves.after_epoch = save_asked(loop);
    loop->saves.after_step = false;
    status = et_flows_leave(&loop->flows, loop->step_data, &loop->error);
    close_step(loop);
    return et_loop_explain(loop, status, &loop->error);
}

static int save_now(void *self, et_error *error)
{
    et_loop *loop = self;
    int status = et_run_save(loop->run, loop->at.step, false, error);
    return status ? status : et_run_finish_saves(loop->run, loop->at.step, error);
}

/* One status for all ranks; only rank 0 writes. */
static int save_durably(et_loop *loop)
{
    et_error failure = ET_ERROR_INIT;
    int status = et_together_run(loop->options.comm, save_now, loop, &failure);
    return status ? et_loop_fail(loop, &failure) : ET_OK;
}

/* An open epoch is saved once more at its end, after its AFTER event. */
int et_loop_make_checkpoint(et_loop *loop)
{
    int status = et_loop_ready(loop);
    if (!status && loop->phase == ET_LOOP_ENDING)
        status = et_fail(&loop->error, ET_EUSAGE,
                         "the loop has ended: a checkpoint would hold the last step, not the "
                         "parameters that early stopping restored");
    if (!status && !loop->options.checkpoint_dir)
        status = et_fail(&loop->error, ET_ECONFIG,
                         "Checkpoint directory is not configured: give the loop checkpoint_dir");
    if (status)
        return status;
    status = save_durably(loop);
    if (loop->at.within_step)
        loop->saves.after_step = true;
    else if (loop->at.within_epoch)
        loop->saves.after_epoch = true;
    return status;
}

/* Asked to stop, with nothing half done: what there is is saved for the next start. */
static int look_around(et_loop *loop)
{
    int status = et_run_between_steps(loop->run, loop->at.step, &loop->error);
    et_loop_read_best(loop); /* a save of it may have failed */
    if (status != ET_EINTERRUPTED)
        return status;
    status = et_run_save_unsaved(loop->run, loop->at.step, true, &loop->error);
    return status ? status
                  : et_fail(&loop->error, ET_EINTERRUPTED, "asked to stop at epoch %lld, step %lld",
                            (long long)loop->at.epoch, (long long)loop->at.step);
}

/* ---- steps ---- */

static int end_step(et_loop *loop)
{
    int status = et_loop_fire(loop, ET_EVENT_AFTER_STEP, &(et_loop_event){ 0 }, true);
    if (!status)
        status = et_loop_collect_time(loop, ET_LOOP_STEP_TIME, &loop->clock.step_begun);
    if (status)
        return status;
    close_step(loop);
    et_run_touch(loop->run);
    const bool after_epoch = loop->saves.after_epoch;
    status = loop->saves.after_step ? save(loop, false) : ET_OK;
    loop->saves.after_epoch = after_epoch;
    return status;
}

/* max_step: the pass is left, and only a higher limit in this epoch would continue it. */
static void close_pass(et_loop *loop, const et_source *source)
{
    et_flow *flow = source ? et_flows_find(&loop->flows, source) : NULL;
    if (flow)
        et_flow_close(flow);
}

static int take_batch(et_loop *loop, et_source *source, bool *over)
{
    if (!source)
        return ET_OK;
    const et_loop_options *o = &loop->options;
    et_flow *flow = et_flows_find(&loop->flows, source);
    bool saves = o->checkpoint_dir || (o->restore_checkpoint && *o->restore_checkpoint);
    int status = flow ? ET_OK : et_flows_add(&loop->flows, "", source, saves, &loop->error);
    flow = status ? NULL : et_flows_find(&loop->flows, source);
    if (!status)
        status = et_flow_next(flow, over, &loop->error);
    loop->step_data = status || *over ? NULL : flow->cursor.batch;
    return status;
}

static int begin_step(et_loop *loop, et_source *source, bool *over)
{
    int64_t max_step = loop->options.max_step;
    if (!source && !max_step)
        return et_fail(&loop->error, ET_EUSAGE,
                       "steps without data would never end: give max_step or a source");
    *over = max_step && loop->at.step >= max_step;
    if (*over)
        close_pass(loop, source);
    int status = *over ? ET_OK : take_batch(loop, source, over);
    if (status || *over)
        return status;
    loop->at.step++;
    loop->at.within_step = true;
    loop->clock.step_begun = et_clock_monotonic();
    return et_loop_fire(loop, ET_EVENT_BEFORE_STEP, &(et_loop_event){ 0 }, false);
}

bool et_loop_next_step(et_loop *loop, et_source *source)
{
    bool over = false;
    int status = et_loop_ready(loop);
    if (!status && loop->firing)
        status = et_fail(&loop->error, ET_EUSAGE,
                         "Another step loop has been opened: no steps in a handler of an event");
    if (!status && !loop->at.within_epoch)
        status =
            et_fail(&loop->error, ET_EUSAGE, "Step loop must be opened within active epoch loop");
    loop->saves.after_step |= loop->at.ends_step; /* as where it was not broken */
    loop->at.within_step |= loop->at.ends_step;
    if (!status && loop->at.within_step)
        status = end_step(loop);
    if (!status)
        status = look_around(loop);
    if (!status)
        status = begin_step(loop, source, &over);
    return !et_loop_explain(loop, status, &loop->error) && !over;
}

/* ---- epochs ---- */

static int end_epoch(et_loop *loop)
{
    int64_t freq = loop->options.checkpoint_epoch_freq;
    close_step(loop);
    int status = et_loop_fire(loop, ET_EVENT_AFTER_EPOCH, &(et_loop_event){ 0 }, true);
    if (!status)
        status = et_loop_collect_time(loop, ET_LOOP_EPOCH_TIME, &loop->clock.epoch_begun);
    if (status)
        return status;
    close_epoch(loop);
    loop->at.epochs_done = loop->at.epoch;
    loop->at.steps_done = loop->at.step;
    et_flows_end_epoch(&loop->flows);
    et_run_touch(loop->run);
    bool due = freq && loop->at.epoch % freq == 0;
    return due || save_asked(loop) ? save(loop, false) : ET_OK;
}

static int begin_epoch(et_loop *loop)
{
    bool resumes = loop->at.resumes;
    loop->at.resumes = false;
    loop->at.within_epoch = true;
    loop->clock.epoch_begun = et_clock_monotonic();
    if (resumes)
        return ET_OK;
    loop->at.epoch++;
    int status = et_flows_begin_epoch(&loop->flows, &loop->error);
    return status ? et_loop_explain(loop, status, &loop->error)
                  : et_loop_fire(loop, ET_EVENT_BEFORE_EPOCH, &(et_loop_event){ 0 }, false);
}

/* An epoch that is resumed is within max_epoch, and what follows its steps is to be done. */
static bool is_done(const et_loop *loop)
{
    const et_loop_options *o = &loop->options;
    return (o->max_epoch && loop->at.epoch - loop->at.resumes >= o->max_epoch) ||
           (o->max_step && loop->at.step - loop->at.resumes >= o->max_step);
}

bool et_loop_next_epoch(et_loop *loop)
{
    int status = et_loop_ready(loop);
    if (!status && loop->firing)
        status = et_fail(&loop->error, ET_EUSAGE,
                         "Another epoch loop has been opened: no epochs in a handler of an event");
    if (!status && loop->at.within_epoch)
        status = end_epoch(loop);
    if (!status)
        status = look_around(loop);
    if (et_loop_explain(loop, status, &loop->error))
        return false;
    if (is_done(loop)) {
        forget_metrics(loop);
        return false;
    }
    return begin_epoch(loop) == ET_OK;
}
