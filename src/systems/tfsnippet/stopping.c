/* The valid metric and early stopping. The run keeps the best step as a whole snapshot, in addition
 * to the last ones. Without a directory, the values of the parameters are kept here. When a clean
 * end goes back to the best step, checkpoints of the last steps do not change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/checkpoint.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "engine/comm/together.h"
#include "engine/tensor/params.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/run.h"

/* The run needs a dict for info.json, and every value on all ranks. */
int et_loop_note_valid(et_loop *loop, double value)
{
    et_assert(loop->run && loop->options.valid_metric_name);
    const size_t bytes = (size_t)et_params_flat_size(loop->params) * sizeof(float);
    et_loop_best *best = &loop->best;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_value_set_float(values, loop->options.valid_metric_name, value);
    int status = et_value_failed(values)
                     ? et_alloc_failed(&loop->error, 0, "the best metric")
                     : et_run_note_best(loop->run, loop->at.step, values, &loop->error);
    et_arena_release(&arena);
    et_loop_read_best(loop);
    best->is_last =
        !status && !isnan(value) && best->step == loop->at.step && !et_run_since_best(loop->run);
    if (!best->is_last || !loop->options.early_stopping || loop->options.checkpoint_dir)
        return status;
    if (!best->values)
        best->values = et_alloc(bytes, 1);
    if (!best->values)
        return et_alloc_failed(&loop->error, bytes, "the best parameters");
    /* Keeps all values; a clean end may restore only a group. */
    memcpy(best->values, et_params_values(loop->params), bytes);
    return ET_OK;
}

void et_loop_read_best(et_loop *loop)
{
    loop->best.step = et_run_best_step(loop->run, &loop->best.value);
}

/* ---- the end ---- */

/* Copies one parameter between arrays of all parameters. */
static void copy_parameter(const et_loop *loop, float *to, const float *from, int index)
{
    size_t offset = (size_t)et_params_offset(loop->params, index);
    memcpy(to + offset, from + offset,
           (size_t)et_shape_count(et_params_shape(loop->params, index)) * sizeof(float));
}

/* Reads a whole file. If only a group is wanted, restores the other parameters from a copy. */
static int take_file(et_loop *loop, const char *path, et_error *error)
{
    size_t bytes = (size_t)et_params_flat_size(loop->params) * sizeof(float);
    if (!loop->options.group)
        return et_checkpoint_load_weights(loop->params, path, false, NULL, error);
    float *now = et_alloc(bytes, 1);
    if (!now)
        return et_alloc_failed(error, bytes, "the best parameters");
    memcpy(now, et_params_values(loop->params), bytes);
    int status = et_checkpoint_load_weights(loop->params, path, false, NULL, error);
    for (int i = 0; !status && i < et_group_count(loop->group); i++)
        copy_parameter(loop, now, et_params_values(loop->params), et_group_param(loop->group, i));
    et_params_begin_change(loop->params);
    memcpy(et_params_values(loop->params), now, bytes);
    et_params_changed(loop->params, true);
    et_free(now);
    return status;
}

/* *own: the snapshot is of the step and the value that this run found best. Another run that began
 * anew in the directory may have saved the same step. */
static int find_best(et_loop *loop, char **path, bool *own, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    int64_t step = -1;
    double value = NAN;
    int status = et_checkpoint_best_info(&info, loop->options.checkpoint_dir, &arena, error);
    if (!status)
        status = et_value_read_int(info, ET_CHECKPOINT_STEP, &step, error);
    const char *name = loop->options.valid_metric_name;
    const et_value *found = status ? NULL : et_value_get(info, name);
    if (found && found->kind == ET_VALUE_NULL) /* in a file: a number that is not finite */
        *own = !isfinite(loop->best.value);
    else
        *own = found && !et_value_read_float(info, name, &value, NULL) && value == loop->best.value;
    *own = *own && step == loop->best.step;
    et_arena_release(&arena);
    return status ? status : et_checkpoint_best(path, loop->options.checkpoint_dir, error);
}

static void tell_restored(et_loop *loop, const char *what, const char *which)
{
    et_strbuf_reset(&loop->out.line);
    et_strbuf_printf(&loop->out.line, "Restore early-stopping parameters: %s %s", what, which);
    et_loop_print(loop, et_strbuf_text(&loop->out.line));
}

/* The best step's snapshot may be missing if the run went back to an earlier checkpoint or began
 * from another run's file. */
static void tell_gone(const et_loop *loop)
{
    et_log(ET_LOG_WARNING,
           "early stopping: the best step was %lld, but its snapshot is missing; the parameters "
           "are unchanged",
           (long long)loop->best.step);
}

/* Rank 0's. */
static int read_snapshot(et_loop *loop, et_error *error)
{
    et_assert(loop->options.checkpoint_dir && loop->best.step >= 0);
    char *path = NULL;
    bool own = false;
    et_error failure = ET_ERROR_INIT;
    int status = find_best(loop, &path, &own, &failure);
    if (status == ET_ENOTFOUND || (!status && !own)) {
        tell_gone(loop);
        status = ET_OK;
    } else if (status) {
        et_fail(error, status, "%s", failure.text);
    } else {
        status = take_file(loop, path, error);
        if (!status)
            tell_restored(loop, "from checkpoint", path);
    }
    et_free(path);
    return status;
}

/* Rank 0 reads the snapshot and sends its parameters to all. */
static int take_snapshot(et_loop *loop, et_error *error)
{
    et_comm *comm = loop->options.comm;
    const size_t bytes = (size_t)et_params_flat_size(loop->params) * sizeof(float);
    int status = et_comm_rank(comm) ? ET_OK : read_snapshot(loop, error);
    if (et_comm_size(comm) == 1)
        return status;
    et_params_begin_change(loop->params);
    status = et_together_give(comm, status, et_params_values(loop->params), bytes, error);
    et_params_changed(loop->params, true);
    return status;
}

int et_loop_take_best(void *self, et_error *error)
{
    et_loop *loop = self;
    char text[24];
    if (!loop->options.early_stopping)
        return ET_OK;
    if (loop->error.status) {
        et_log(ET_LOG_WARNING, "early stopping: the best parameters are not restored after an "
                               "error or an interruption");
        return ET_OK;
    }
    /* A save of the best may have failed since it was noted. */
    int status = et_run_broadcast_best(loop->run, ET_OK, error);
    et_loop_read_best(loop);
    if (status)
        return status;
    if (loop->best.step < 0) {
        et_log(ET_LOG_WARNING,
               "early stopping was never triggered: no value of %s was collected; the parameters "
               "are unchanged",
               loop->options.valid_metric_name);
        return ET_OK;
    }
    if (loop->options.checkpoint_dir)
        return take_snapshot(loop, error);
    if (!loop->best.values) {
        tell_gone(loop);
        return ET_OK;
    }
    /* The group's part of the kept values, or all. */
    bool some = loop->options.group != NULL;
    int count = some ? et_group_count(loop->group) : et_params_count(loop->params);
    et_params_begin_change(loop->params);
    for (int i = 0; i < count; i++)
        copy_parameter(loop, et_params_values(loop->params), loop->best.values,
                       some ? et_group_param(loop->group, i) : i);
    et_params_changed(loop->params, true);
    snprintf(text, sizeof text, "%lld", (long long)loop->best.step);
    tell_restored(loop, "of step", text);
    return ET_OK;
}
