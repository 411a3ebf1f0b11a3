#include <etude/controller.h>
#include <etude/ready_actions.h>

#include <math.h>

#include "formats/events/log_names.h"

static int64_t due(const et_action *action, int64_t step)
{
    const et_conditional *self = (const et_conditional *)action;
    int64_t first = ET_ACTION_NEVER;
    if (self->interval)
        return step > INT64_MAX - self->interval ? ET_ACTION_NEVER
                                                 : (step / self->interval + 1) * self->interval;
    for (int i = 0; i < self->count; i++) {
        const et_action_class *class = self->actions[i]->class;
        int64_t next = class->due ? class->due(self->actions[i], step) : ET_ACTION_NEVER;
        first = next < first ? next : first;
    }
    return first;
}

static int act(et_action *action, const et_moment *now, et_error *error)
{
    const et_conditional *self = (const et_conditional *)action;
    bool holds = false;
    int status = self->condition(self->payload, now, &holds, error);
    for (int i = 0; holds && !status && i < self->count; i++)
        status = self->actions[i]->class->act(self->actions[i], now, error);
    return status;
}

void et_conditional_init(et_conditional *self, const char *name, et_condition_fn *condition,
                         void *payload, et_action *const *actions, int count)
{
    *self = (et_conditional){ .kind = { name, due, act },
                              .condition = condition,
                              .payload = payload,
                              .actions = actions,
                              .count = count };
    self->action.class = &self->kind;
}

static int is_multiple(void *interval, const et_moment *now, bool *holds, et_error *error)
{
    (void)error;
    *holds = now->step % *(const int64_t *)interval == 0;
    return ET_OK;
}

int et_periodic_init(et_conditional *self, const char *name, int64_t interval,
                     et_action *const *actions, int count, et_error *error)
{
    if (interval < 1)
        return et_fail(error, ET_ECONFIG, "action %s: the interval is %lld steps; give at least 1",
                       name ? name : "", (long long)interval);
    et_conditional_init(self, name, is_multiple, &self->interval, actions, count);
    self->interval = interval;
    return ET_OK;
}

int et_recovery_condition_holds(void *recovery_condition, const et_moment *now, bool *holds,
                                et_error *error)
{
    et_recovery_condition *self = recovery_condition;
    double loss;
    *holds = false;
    if (!now->logs || et_value_read_float(now->logs, ET_LOGGED_TRAINING_LOSS, &loss, NULL))
        return et_fail(error, ET_ECONFIG,
                       "step %lld: logs have no number " ET_LOGGED_TRAINING_LOSS
                       "; a recovery condition is for train actions",
                       (long long)now->step);
    *holds =
        isnan(loss) || (now->step >= self->recovery_begin_steps && loss > self->loss_upper_bound);
    if (!*holds || ++self->recover_counter <= self->recovery_max_trials)
        return ET_OK;
    return et_fail(error, ET_EDIVERGED,
                   "step %lld: " ET_LOGGED_TRAINING_LOSS " is %g, and the bound is %g. This "
                   "happened %lld times; the limit is %lld (recovery_max_trials)",
                   (long long)now->step, loss, self->loss_upper_bound,
                   (long long)self->recover_counter, (long long)self->recovery_max_trials);
}
