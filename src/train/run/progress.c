#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/values/value.h"
#include "formats/events/log_names.h"
#include "train/run/inner_loop.h"

/* In a list, a dict and a number that is not finite are stored as a dict with one of these members.
 */
#define REAL "real"
#define DICT "dict"

static void save_values(et_value *to, const et_value *values);

static void save_items(et_value *to, const et_value *list)
{
    for (const et_value *v = list->first; v; v = v->next)
        if (v->kind == ET_VALUE_LIST)
            save_items(et_value_add_list(to), v);
        else if (v->kind == ET_VALUE_DICT)
            save_values(et_value_set_dict(et_value_add_dict(to), DICT), v);
        else if (v->kind == ET_VALUE_FLOAT && !isfinite(v->real))
            et_part_set_real(et_value_add_dict(to), REAL, v->real);
        else
            et_value_append_copy(to, NULL, v);
}

/* The values of an evaluation, for actions that have not seen them yet. A run that is interrupted
 * between two actions gives the second action the same values, bit for bit. */
static void save_values(et_value *to, const et_value *values)
{
    for (const et_value *v = values->first; v; v = v->next)
        if (v->kind == ET_VALUE_DICT)
            save_values(et_value_set_dict(to, v->key), v);
        else if (v->kind == ET_VALUE_LIST)
            save_items(et_value_set_list(to, v->key), v);
        else if (v->kind == ET_VALUE_FLOAT)
            et_part_set_real(to, v->key, v->real);
        else if (v->kind == ET_VALUE_INT)
            et_value_set_int(to, v->key, v->integer);
        else if (v->kind == ET_VALUE_BOOL)
            et_value_set_bool(to, v->key, v->boolean);
        else
            et_value_set_string(to, v->key, v->kind == ET_VALUE_STRING ? v->string : NULL);
}

static void restore_values(et_value *to, const et_value *dict);

static void restore_items(et_value *to, const et_value *list)
{
    for (const et_value *v = list->first; v; v = v->next) {
        const et_value *dict = et_value_get(v, DICT);
        double real;
        if (v->kind == ET_VALUE_LIST)
            restore_items(et_value_add_list(to), v);
        else if (dict && dict->kind == ET_VALUE_DICT)
            restore_values(et_value_add_dict(to), dict);
        else if (v->kind == ET_VALUE_DICT && !et_part_read_real(v, REAL, &real, NULL))
            et_value_add_float(to, real);
        else if (v->kind == ET_VALUE_STRING)
            et_value_add_string(to, v->string);
        else
            et_value_append_copy(to, NULL, v);
    }
}

static void restore_values(et_value *to, const et_value *dict)
{
    for (const et_value *v = dict->first; v; v = v->next) {
        double real;
        if (v->kind == ET_VALUE_DICT)
            restore_values(et_value_set_dict(to, v->key), v);
        else if (v->kind == ET_VALUE_LIST)
            restore_items(et_value_set_list(to, v->key), v);
        else if (v->kind == ET_VALUE_INT)
            et_value_set_int(to, v->key, v->integer);
        else if (v->kind == ET_VALUE_BOOL)
            et_value_set_bool(to, v->key, v->boolean);
        else if (!et_part_read_real(dict, v->key, &real, NULL))
            et_value_set_float(to, v->key, real);
        else
            et_value_set_string(to, v->key, v->kind == ET_VALUE_STRING ? v->string : NULL);
    }
}

/* If dict has no such member, the values stay NULL. */
static int restore_logs(et_logged *logged, const et_value *dict, const char *name, et_error *error)
{
    const et_value *values = et_value_get(dict, name);
    logged->values = NULL;
    if (!values)
        return ET_OK;
    et_arena_release(&logged->arena);
    et_value *copy = et_value_dict(&logged->arena);
    restore_values(copy, values);
    logged->values = copy;
    return et_value_failed(copy) ? et_alloc_failed(error, "the state") : ET_OK;
}

/* If every row ends loops, all actions are due at a loop's last step. Then the begin of the loop
 * has no effect. */
static bool asks_for_begin(const et_inner_loop *loop)
{
    bool asks = false;
    for (int i = 0; i < loop->count; i++)
        asks |= loop->actions[i].asked && !loop->actions[i].ends_loop;
    return asks;
}

/* {"step": 2000, "next": "", "stopped_by": "", "recent_loss": ..., "recent_weight": ...}. Of the
 * last step, if known: "learning_rate", "epoch". Within a loop also "loop": 1900. If an action has
 * stopped a call: "stopped_target": 5000. If the driver changed the target: "planned": 5000,
 * "length": 4200. Values that actions have not seen: "evaluation", "inner_loop". */
static int save_progress(const void *self, et_value *dict, et_error *error)
{
    const et_inner_loop *loop = self;
    const et_loop_position *position = &loop->position;
    const bool pending = position->next < loop->count;
    (void)error;
    et_value_set_int(dict, "step", loop->trainer->step);
    et_value_set_string(dict, "next", et_inner_loop_name(loop, position->next));
    et_value_set_string(dict, "stopped_by", et_inner_loop_name(loop, position->stopper));
    /* A loop without open actions is over. */
    if (asks_for_begin(loop) && position->began < loop->trainer->step &&
        !(position->at_boundary && !pending))
        et_value_set_int(dict, "loop", position->began);
    if (position->stopper < loop->count && position->stopped_target >= 0)
        et_value_set_int(dict, "stopped_target", position->stopped_target);
    if (loop->target) {
        et_value_set_int(dict, "planned", loop->planned);
        et_value_set_int(dict, "length", loop->target);
    }
    if (pending && loop->evaluation.values)
        save_values(et_value_set_dict(dict, "evaluation"), loop->evaluation.values);
    if (pending && loop->steps.values)
        save_values(et_value_set_dict(dict, "inner_loop"), loop->steps.values);
    et_part_set_real(dict, "recent_loss", loop->meter.loss.sum);
    et_part_set_real(dict, "recent_weight", loop->meter.loss.weight);
    if (!isnan(loop->learning_rate))
        et_part_set_real(dict, ET_LOGGED_LEARNING_RATE, loop->learning_rate);
    if (loop->epoch)
        et_value_set_int(dict, "epoch", loop->epoch);
    return ET_OK;
}

/* Finds the action by name, because versions may have different actions. "" is the end of the list.
 * An unknown name is an error, because the next action is unknown. */
static int restore_action(et_inner_loop *loop, const et_value *dict, const char *key, int *action,
                          et_error *error)
{
    const char *name;
    int status = et_value_read_string(dict, key, &name, error);
    if (status)
        return status;
    for (*action = 0; *action < loop->count; ++*action)
        if (!strcmp(et_inner_loop_name(loop, *action), name))
            return ET_OK;
    return *name ? et_fail(error, ET_EFORMAT, "%s: no action is called %s", key, name) : ET_OK;
}

/* Steps are not negative, and a loop cannot begin after its own step. */
static int restore_steps(et_inner_loop *loop, const et_value *dict, et_error *error)
{
    int64_t step, began;
    int status = et_value_read_int(dict, "step", &step, error);
    if (!status && step < 0)
        status = et_fail(error, ET_EFORMAT, "step: %lld is negative", (long long)step);
    if (status)
        return status;
    began = step;
    if (asks_for_begin(loop) && et_value_get(dict, "loop"))
        status = et_value_read_int(dict, "loop", &began, error);
    if (!status && (began < 0 || began > step))
        status = et_fail(error, ET_EFORMAT, "loop: began at step %lld, but the step is %lld",
                         (long long)began, (long long)step);
    loop->trainer->step = loop->step = step;
    loop->position.began = began;
    return status;
}

/* Both numbers or neither. The run must not have passed the length. */
static int restore_length(et_inner_loop *loop, const et_value *dict, et_error *error)
{
    loop->planned = loop->target = 0;
    if (!et_value_get(dict, "length"))
        return ET_OK;
    int status = et_value_read_int(dict, "planned", &loop->planned, error);
    if (!status)
        status = et_value_read_int(dict, "length", &loop->target, error);
    if (!status && (loop->planned < 1 || loop->target < loop->trainer->step))
        status = et_fail(error, ET_EFORMAT, "length: %lld of planned %lld, at step %lld",
                         (long long)loop->target, (long long)loop->planned,
                         (long long)loop->trainer->step);
    return status;
}

static int restore_progress(void *self, const et_value *dict, et_error *error)
{
    et_inner_loop *loop = self;
    et_loop_position *position = &loop->position;
    int status;
    position->stopped_target = -1;
    position->stop_restored = true;
    loop->last = NULL;
    if ((status = restore_steps(loop, dict, error)) ||
        (status = et_part_read_real(dict, "recent_loss", &loop->meter.loss.sum, error)) ||
        (status = et_part_read_real(dict, "recent_weight", &loop->meter.loss.weight, error)) ||
        (status = restore_action(loop, dict, "next", &position->next, error)) ||
        (status = restore_action(loop, dict, "stopped_by", &position->stopper, error)) ||
        (status = restore_length(loop, dict, error)))
        return status;
    position->at_boundary = position->next < loop->count;
    loop->learning_rate = (double)NAN;
    loop->epoch = 0;
    if ((et_value_get(dict, ET_LOGGED_LEARNING_RATE) &&
         (status =
              et_part_read_real(dict, ET_LOGGED_LEARNING_RATE, &loop->learning_rate, error))) ||
        (et_value_get(dict, "epoch") &&
         (status = et_value_read_int(dict, "epoch", &loop->epoch, error))))
        return status;
    if (et_value_get(dict, "stopped_target") &&
        (status = et_value_read_int(dict, "stopped_target", &position->stopped_target, error)))
        return status;
    status = restore_logs(&loop->evaluation, dict, "evaluation", error);
    return status ? status : restore_logs(&loop->steps, dict, "inner_loop", error);
}

const et_part_class et_progress_part = { "progress", save_progress, restore_progress };
