#include <etude/ready_actions.h>

static int64_t due(const et_action *action, int64_t step)
{
    const et_conditional *self = (const et_conditional *)action;
    int64_t first = ET_ACTION_NEVER;
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
