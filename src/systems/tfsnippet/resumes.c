/* The state of a loop, besides store and run:
 *
 *   loop      counters, whether an epoch is open, how long summaries have waited
 *   metrics   {"epoch": {...}, "step": {...}}, without values that depend on the clock
 *   data      positions of sources (steps.c)
 *   objects   {name: ...} of the program; each of them may be missing */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "systems/tfsnippet/loop_private.h"
#include "train/checkpoint/state.h"

/* ---- loop ---- */

static int save_loop(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    et_assert(loop->metrics.commits && loop->at.epochs_done <= loop->at.epoch);
    et_value_set_int(dict, "epoch", loop->at.epoch);
    et_value_set_int(dict, "step", loop->at.step);
    et_value_set_bool(dict, "within_epoch", loop->at.within_epoch || loop->at.resumes);
    et_value_set_int(dict, "epochs_done", loop->at.epochs_done);
    et_value_set_int(dict, "steps_done", loop->at.steps_done);
    et_value_set_bool(dict, "is_best", loop->best.is_last);
    et_value *waited = et_value_set_dict(dict, "waited");
    for (int i = 0; i < loop->options.summary_commit_freq_count; i++)
        et_value_set_int(waited, loop->metrics.commits[i].name, loop->metrics.commits[i].waited);
    if (loop->at.within_step || loop->at.ends_step)
        et_value_set_bool(dict, "within_step", true);
    return et_value_failed(dict) ? et_alloc_failed(error, 0, "a state tree") : ET_OK;
}

static int restore_loop(void *self, const et_value *dict, et_error *error)
{
    et_loop *loop = self;
    const struct {
        const char *key;
        int64_t *value;
    } counters[] = { { "epoch", &loop->at.epoch },
                     { "step", &loop->at.step },
                     { "epochs_done", &loop->at.epochs_done },
                     { "steps_done", &loop->at.steps_done } };
    int status = ET_OK;
    for (size_t i = 0; !status && i < sizeof counters / sizeof *counters; i++) {
        status = et_value_read_int(dict, counters[i].key, counters[i].value, error);
        if (!status && *counters[i].value < 0)
            status = et_fail(error, ET_EFORMAT, "%s: %lld is negative", counters[i].key,
                             (long long)*counters[i].value);
    }
    if (!status && (loop->at.epochs_done > loop->at.epoch || loop->at.steps_done > loop->at.step))
        status = et_fail(error, ET_EFORMAT,
                         "epoch %lld, step %lld: no more can be done, and %lld and %lld are",
                         (long long)loop->at.epoch, (long long)loop->at.step,
                         (long long)loop->at.epochs_done, (long long)loop->at.steps_done);
    if (!status)
        status = et_value_read_bool(dict, "within_epoch", &loop->at.resumes, error);
    if (!status)
        status = et_value_read_bool(dict, "is_best", &loop->best.is_last, error);
    loop->at.ends_step = false;
    if (!status && et_value_get(dict, "within_step"))
        status = et_value_read_bool(dict, "within_step", &loop->at.ends_step, error);
    /* Frequencies may have changed: missing ones begin anew. */
    const et_value *counts = et_value_get(dict, "waited");
    for (int i = 0; !status && i < loop->options.summary_commit_freq_count; i++) {
        et_loop_commit *commit = &loop->metrics.commits[i];
        int64_t waited;
        if (!et_value_read_int(counts, commit->name, &waited, NULL) && waited >= 0)
            commit->waited = waited % commit->every;
    }
    return status;
}

static const et_part_class loop_part = { "a loop", save_loop, restore_loop };

/* ---- metrics ---- */

static int save_metrics(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    et_value *epoch = et_value_set_dict(dict, "epoch"), *step = et_value_set_dict(dict, "step");
    if (!epoch || !step)
        return et_alloc_failed(error, 0, "a state tree");
    int status = et_logger_save(&loop->metrics.epoch, epoch, error);
    return status ? status : et_logger_save(&loop->metrics.step, step, error);
}

static int restore_metrics(void *self, const et_value *dict, et_error *error)
{
    et_loop *loop = self;
    const et_value *epoch = et_value_get(dict, "epoch"), *step = et_value_get(dict, "step");
    if (!epoch || epoch->kind != ET_VALUE_DICT || !step || step->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EFORMAT, "epoch or step is missing");
    int status = et_logger_restore(&loop->metrics.epoch, epoch, error);
    return status ? status : et_logger_restore(&loop->metrics.step, step, error);
}

static const et_part_class metrics_part = { "a loop's metrics", save_metrics, restore_metrics };

/* ---- objects ---- */

static int save_objects(const void *self, et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    int status = ET_OK;
    for (size_t i = 0; !status && i < loop->own.object_count; i++) {
        const et_loop_object *object = &loop->own.objects[i];
        et_value *one = et_value_set_dict(dict, object->name);
        status = one ? object->kind->save(object->self, one, error)
                     : et_alloc_failed(error, 0, "a state tree");
        if (status)
            et_fail_while(error, status, "%s", object->name);
    }
    return status;
}

static int restore_objects(void *self, const et_value *dict, et_error *error)
{
    const et_loop *loop = self;
    for (const et_value *one = dict->first; one; one = one->next) {
        size_t at = 0;
        while (at < loop->own.object_count && strcmp(loop->own.objects[at].name, one->key) != 0)
            at++;
        if (at == loop->own.object_count)
            et_log(ET_LOG_WARNING,
                   "the checkpoint has an object named %s, but this loop does not: the next "
                   "checkpoint will omit it",
                   one->key);
    }
    for (size_t i = 0; i < loop->own.object_count; i++) {
        const et_loop_object *object = &loop->own.objects[i];
        const et_value *one = et_value_get(dict, object->name);
        if (!one && !loop->options.restore_partial)
            return et_fail(error, ET_ECONFIG,
                           "object %s is not in the checkpoint; set restore_partial to leave it "
                           "unchanged",
                           object->name);
        if (!one) {
            et_log(ET_LOG_WARNING, "the checkpoint has no object named %s: the object is unchanged",
                   object->name);
            continue;
        }
        int status = one->kind == ET_VALUE_DICT ? object->kind->restore(object->self, one, error)
                                                : et_fail(error, ET_EFORMAT, "not a dict");
        if (status)
            return et_fail_while(error, status, "%s", object->name);
    }
    return ET_OK;
}

static const et_part_class objects_part = { "objects of a loop", save_objects, restore_objects };

/* ---- optimizers of trainers ---- */

int et_loop_add_parts(et_loop *loop, et_error *error)
{
    /* "optimizer", "optimizer/2", ...: in the order of trainers, skipping used names. */
    int status = ET_OK;
    for (size_t i = 0; !status && i < loop->own.optimizer_count; i++) {
        char name[32] = "optimizer";
        for (int n = 2; et_state_has(loop->state, NULL, name); n++)
            snprintf(name, sizeof name, "optimizer/%d", n);
        if (!et_state_has(loop->state, loop->own.optimizers[i], NULL))
            status = et_state_add_optimizer(loop->state, name, loop->own.optimizers[i], error);
    }
    if (!status)
        status = et_state_add(loop->state, "loop", &loop_part, loop, error);
    if (!status)
        status = et_state_add(loop->state, "metrics", &metrics_part, loop, error);
    if (!status)
        status = et_state_add(loop->state, "data", &et_flows_part, &loop->flows, error);
    return status ? status : et_state_add(loop->state, "objects", &objects_part, loop, error);
}
