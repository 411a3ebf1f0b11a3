/* Epochs and steps. The call for the next one ends the current one, in TFSnippet's order:
 *
 *   step   AFTER_STEP in reverse, step_time, closed, checkpoint if asked for
 *   epoch  AFTER_EPOCH in reverse, epoch_time, closed, checkpoint if due or asked for
 *
 * The step or epoch is closed before the checkpoint, so a restored state has done all of it. A
 * state that was saved within an epoch opens the epoch again without an event; one saved within a
 * step ends the step first. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "data/batches/source.h"
#include "engine/comm/together.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/run/run.h"

void et_flows_release(et_flows *flows)
{
    for (size_t i = 0; i < flows->count; i++) {
        et_free(flows->flows[i].name);
        et_free(flows->flows[i].reader);
        et_batch_cursor_release(&flows->flows[i].cursor);
    }
    et_free(flows->flows);
    et_arena_release(&flows->arena);
    *flows = (et_flows){ 0 };
}

static et_flow *find_flow(et_flows *flows, const et_source *source)
{
    for (size_t i = 0; i < flows->count; i++)
        if (flows->flows[i].cursor.source == source)
            return &flows->flows[i];
    return NULL;
}

static bool is_taken(const et_flows *flows, const char *name)
{
    for (size_t i = 0; i < flows->count; i++)
        if (!strcmp(flows->flows[i].name, name))
            return true;
    return false;
}

static int claim(et_flow *flow, et_error *error)
{
    int status = et_source_claim(flow->cursor.source, flow->reader, error);
    flow->open = !status;
    return status;
}

static void close_flow(et_flow *flow)
{
    if (!flow->open)
        return;
    et_source_position(flow->cursor.source, &flow->at);
    et_source_end(flow->cursor.source);
    flow->open = false;
}

/* {"position": {...}, "pass": 3, "over": 1}; "pass" -1: none is open. */
static int restore_flow(et_flow *flow, const et_value *dict, et_error *error)
{
    const et_value *position = et_value_get(dict, "position");
    int64_t pass;
    int status = et_value_read_int(dict, "pass", &pass, error);
    if (!status)
        status = et_value_read_int(dict, "over", &flow->over, error);
    if (!status && flow->over < 0)
        status = et_fail(error, ET_EFORMAT, "over: %lld is negative", (long long)flow->over);
    if (!status && (!position || position->kind != ET_VALUE_DICT))
        status = et_fail(error, ET_EFORMAT, "the position is missing");
    if (!status)
        status = claim(flow, error);
    if (!status)
        status = et_batch_cursor_restore(&flow->cursor, position, error);
    close_flow(flow);
    if (status)
        return et_fail_while(error, status, "%s%s", *flow->name ? "source " : "source of steps",
                             flow->name);
    flow->known = true;
    flow->pass_over = flow->over;
    flow->cursor.begun = pass >= 0;
    flow->cursor.pass = pass;
    flow->empty = pass < 0;
    return ET_OK;
}

static void sane(const et_flow *flow)
{
    et_assert(flow->cursor.source && flow->name && flow->cursor.batch);
    et_assert(!flow->cursor.waits || flow->cursor.begun);
    et_assert(flow->over >= 0 && flow->pass_over >= 0 && flow->pass_over <= flow->over);
    et_assert(!flow->cursor.begun || flow->cursor.pass >= 0);
    et_assert(flow->known || (!flow->open && !flow->cursor.begun));
}

int et_flows_add(et_flows *flows, const char *name, et_source *source, bool saved, et_error *error)
{
    const et_flow *known = find_flow(flows, source);
    if (known)
        return et_fail(error, ET_ECONFIG,
                       *known->name ? "%s: this source already gives steps, as %s"
                                    : "%s: this source already gives steps%s",
                       name, known->name);
    if (is_taken(flows, name) && *name)
        return et_fail(error, ET_ECONFIG, "two sources of steps have the name %s", name);
    if (saved && is_taken(flows, name))
        return et_fail(error, ET_ECONFIG,
                       "two sources of steps have no name, so a checkpoint could not distinguish "
                       "them: name them with et_loop_add_source");
    if (!ET_VECTOR_GROW(flows->flows, flows->capacity, flows->count + 1))
        return et_alloc_failed(error, "a source");
    const size_t length = sizeof "a loop (source )" + strlen(name);
    et_flow flow = { .name = et_strdup(name), .reader = et_alloc(length, 1), .empty = true };
    int status = flow.name && flow.reader ? et_batch_cursor_open(&flow.cursor, source, error)
                                          : et_alloc_failed(error, "a source");
    if (!status)
        snprintf(flow.reader, length, *name ? "a loop (source %s)" : "a loop", name);
    const et_value *restored = et_value_get(flows->restored, name);
    if (!status && restored)
        status = restore_flow(&flow, restored, error);
    if (!status) {
        flows->flows[flows->count++] = flow;
        return ET_OK;
    }
    et_batch_cursor_release(&flow.cursor);
    et_free(flow.name);
    et_free(flow.reader);
    return status;
}

static void end_flows(et_flows *flows)
{
    for (size_t i = 0; i < flows->count; i++)
        flows->flows[i].over = flows->flows[i].pass_over = 0;
}

/* ---- batches ---- */

/* Goes to the beginning of a pass, or to this loop's position if another reader moved the
 * source. */
static int open_pass(et_flow *flow, et_error *error)
{
    et_position now;
    int status = claim(flow, error);
    if (status)
        return status;
    et_source_position(flow->cursor.source, &now);
    if (!flow->known)
        status = et_batch_cursor_rewind(&flow->cursor, true, error);
    else if (!et_position_equal(&now, &flow->at))
        status = et_source_seek(flow->cursor.source, &flow->at, error);
    flow->known = true;
    return status;
}

/* A pass is unfinished if its cursor has given a batch and its next batch is of the same pass. */
static int leave_pass(et_flow *flow, et_error *error)
{
    if (!flow->cursor.begun || flow->cursor.waits) {
        close_flow(flow);
        return ET_OK;
    }
    int status = flow->open ? ET_OK : open_pass(flow, error);
    if (!status)
        status = et_batch_cursor_rewind(&flow->cursor, true, error);
    flow->empty = true;
    close_flow(flow);
    return status;
}

static int next_batch(et_flow *flow, bool *over, et_error *error)
{
    sane(flow);
    *over = flow->pass_over > 0;
    if (*over) {
        flow->pass_over--;
        return ET_OK;
    }
    int status;
    if ((status = flow->open ? ET_OK : open_pass(flow, error)) ||
        (status = et_batch_cursor_next(&flow->cursor, over, error)))
        return status;
    flow->over += *over;
    const bool ended = !flow->cursor.begun;
    if (ended && flow->empty) /* two ends in a row */
        status = et_fail(error, ET_EDATA, "the source of steps gives no batch");
    else if (ended)
        status = et_batch_cursor_rewind(&flow->cursor, true, error);
    flow->empty = ended;
    if (*over)
        close_flow(flow);
    sane(flow);
    return status;
}

/* ---- as a part of the state ---- */

static int save_flows(const void *self, et_value *dict, et_error *error)
{
    const et_flows *flows = self;
    for (size_t i = 0; i < flows->count; i++) {
        const et_flow *flow = &flows->flows[i];
        if (!flow->known)
            continue;
        et_value *one = et_value_set_dict(dict, flow->name);
        et_value *position = et_value_set_dict(one, "position");
        int status = flow->open || flow->cursor.waits
                         ? et_batch_cursor_save(&flow->cursor, position, error)
                         : et_position_save(&flow->at, position, error);
        if (status)
            return status;
        const bool within = flow->cursor.begun && !flow->cursor.waits;
        et_value_set_int(one, "pass", within ? flow->cursor.pass : -1);
        et_value_set_int(one, "over", flow->over);
    }
    /* Keeps the restored position of the unnamed source until a step shows which source that is. */
    const et_value *waiting = is_taken(flows, "") ? NULL : et_value_get(flows->restored, "");
    if (!waiting)
        return ET_OK;
    et_value *copy = et_value_set_dict(dict, "");
    return copy ? et_value_merge(copy, waiting, error) : et_alloc_failed(error, "a state tree");
}

/* A copy is kept for the source without a name, which comes with the first step. */
static int restore_flows(void *self, const et_value *dict, et_error *error)
{
    et_flows *flows = self;
    et_arena_release(&flows->arena);
    flows->restored = et_value_dict(&flows->arena);
    int status = flows->restored ? et_value_merge(flows->restored, dict, error)
                                 : et_alloc_failed(error, "the state");
    for (const et_value *one = dict->first; !status && one; one = one->next) {
        et_flow *flow = NULL;
        for (size_t i = 0; i < flows->count; i++)
            if (!strcmp(flows->flows[i].name, one->key))
                flow = &flows->flows[i];
        if (flow)
            status = restore_flow(flow, one, error);
        else if (*one->key)
            et_log(ET_LOG_WARNING, "the checkpoint has a source named %s, but this loop does not",
                   one->key);
    }
    return status;
}

const et_part_class et_flows_part = { "positions in data", save_flows, restore_flows };

/* ---- the end of steps and epochs ---- */

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

static int save(et_loop *loop)
{
    loop->saves.after_step = loop->saves.after_epoch = false;
    return et_run_save(loop->run, loop->at.step, false, &loop->error);
}

/* Closes the epoch, then makes a requested save, so the saved epoch has ended. */
static void drop(et_loop *loop)
{
    close_epoch(loop);
    forget_metrics(loop);
    loop->at.resumes = false;
    if (save_asked(loop) && !loop->error.status)
        save(loop);
}

/* The program ends now: a restart continues in this epoch. */
void et_loop_end_open(et_loop *loop)
{
    if (save_asked(loop) && !loop->error.status) {
        close_step(loop);
        save(loop);
    }
    drop(loop);
    for (size_t i = 0; i < loop->flows.count; i++) {
        et_flow *flow = &loop->flows.flows[i];
        et_position now;
        close_flow(flow);
        if (!flow->cursor.waits || flow->cursor.source->reader)
            continue; /* another reader has moved the source */
        et_source_position(flow->cursor.source, &now);
        if (et_position_equal(&now, &flow->at)) /* the next reader sees a failure */
            (void)et_batch_cursor_give_back(&flow->cursor, NULL);
    }
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
    status = ET_OK;
    for (size_t i = 0; loop->step_data && !status && i < loop->flows.count; i++)
        if (loop->flows.flows[i].cursor.batch == loop->step_data)
            status = leave_pass(&loop->flows.flows[i], &loop->error);
    close_step(loop);
    return et_loop_explain(loop, status, &loop->error);
}

static int save_now(void *self, et_error *error)
{
    et_loop *loop = self;
    int status = et_run_save(loop->run, loop->at.step, false, error);
    return status ? status : et_run_finish_saves(loop->run, loop->at.step, error);
}

/* An open epoch is saved once more at its end, after its AFTER event. All ranks get one status;
 * only rank 0 writes. */
int et_loop_make_checkpoint(et_loop *loop)
{
    et_error failure = ET_ERROR_INIT;
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
    if (et_together_run(loop->options.comm, save_now, loop, &failure))
        status = et_loop_fail(loop, &failure);
    if (loop->at.within_step)
        loop->saves.after_step = true;
    else if (loop->at.within_epoch)
        loop->saves.after_epoch = true;
    return status;
}

/* Between steps: handles a request to stop by saving for the next start. */
static int check_stop(et_loop *loop)
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
    et_assert(loop->at.within_step && loop->at.within_epoch);
    int status;
    if ((status = et_loop_fire(loop, ET_EVENT_AFTER_STEP, &(et_loop_event){ 0 }, true)) ||
        (status = et_loop_collect_time(loop, ET_LOOP_STEP_TIME, &loop->clock.step_begun)))
        return status;
    close_step(loop);
    et_run_touch(loop->run);
    const bool after_epoch = loop->saves.after_epoch;
    status = loop->saves.after_step ? save(loop) : ET_OK;
    loop->saves.after_epoch = after_epoch;
    return status;
}

static int begin_step(et_loop *loop, et_source *source, bool *over)
{
    const et_loop_options *o = &loop->options;
    et_assert(loop->at.within_epoch && !loop->at.within_step);
    if (!source && !o->max_step)
        return et_fail(&loop->error, ET_EUSAGE,
                       "steps without data would never end: give max_step or a source");
    int status = ET_OK;
    et_flow *flow = source ? find_flow(&loop->flows, source) : NULL;
    *over = o->max_step && loop->at.step >= o->max_step;
    if (*over && flow) /* the pass is left: only a higher limit in this epoch would continue it */
        close_flow(flow);
    if (!*over && source) {
        bool saves = o->checkpoint_dir || (o->restore_checkpoint && *o->restore_checkpoint);
        status = flow ? ET_OK : et_flows_add(&loop->flows, "", source, saves, &loop->error);
        flow = status ? NULL : find_flow(&loop->flows, source);
        if (!status)
            status = next_batch(flow, over, &loop->error);
        loop->step_data = status || *over ? NULL : flow->cursor.batch;
    }
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
    const bool ends = !status && loop->at.ends_step;
    loop->saves.after_step |= ends; /* as without the interruption */
    loop->at.within_step |= ends;
    if (!status && loop->at.within_step)
        status = end_step(loop);
    if (!status)
        status = check_stop(loop);
    if (!status)
        status = begin_step(loop, source, &over);
    return !et_loop_explain(loop, status, &loop->error) && !over;
}

/* ---- epochs ---- */

static int end_epoch(et_loop *loop)
{
    et_assert(loop->at.within_epoch);
    int64_t freq = loop->options.checkpoint_epoch_freq;
    close_step(loop);
    int status;
    if ((status = et_loop_fire(loop, ET_EVENT_AFTER_EPOCH, &(et_loop_event){ 0 }, true)) ||
        (status = et_loop_collect_time(loop, ET_LOOP_EPOCH_TIME, &loop->clock.epoch_begun)))
        return status;
    close_epoch(loop);
    loop->at.epochs_done = loop->at.epoch;
    loop->at.steps_done = loop->at.step;
    end_flows(&loop->flows);
    et_run_touch(loop->run);
    bool due = freq && loop->at.epoch % freq == 0;
    return due || save_asked(loop) ? save(loop) : ET_OK;
}

static int begin_epoch(et_loop *loop)
{
    et_assert(!loop->at.within_epoch && !loop->at.within_step);
    bool resumes = loop->at.resumes;
    loop->at.resumes = false;
    loop->at.within_epoch = true;
    loop->clock.epoch_begun = et_clock_monotonic();
    if (resumes)
        return ET_OK;
    loop->at.epoch++;
    end_flows(&loop->flows);
    int status = ET_OK;
    for (size_t i = 0; !status && i < loop->flows.count; i++)
        status = leave_pass(&loop->flows.flows[i], &loop->error);
    return status ? et_loop_explain(loop, status, &loop->error)
                  : et_loop_fire(loop, ET_EVENT_BEFORE_EPOCH, &(et_loop_event){ 0 }, false);
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
        status = check_stop(loop);
    if (et_loop_explain(loop, status, &loop->error))
        return false;
    /* A resumed epoch counts as within max_epoch: its steps may be done, but its end is not. */
    const et_loop_options *o = &loop->options;
    if ((o->max_epoch && loop->at.epoch - loop->at.resumes >= o->max_epoch) ||
        (o->max_step && loop->at.step - loop->at.resumes >= o->max_step)) {
        forget_metrics(loop);
        return false;
    }
    return begin_epoch(loop) == ET_OK;
}
