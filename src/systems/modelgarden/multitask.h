/* Several tasks together, for the library, beyond <etude/multitask.h>. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_H
#define ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_H

#include <etude/multitask.h>

#include "systems/modelgarden/learner.h"

typedef struct et_multitask_inside {
    et_params *const
        *views;     /* [count]: how each task sees the store (engine/tensor/params_view.h) */
    et_task *whole; /* is initialized when its tasks are */
} et_multitask_inside;

/* inside: what it points to is borrowed; NULL: tasks see all alike. */
int et_multitask_open_inside(et_multitask **out, const et_multitask_part *parts, int count,
                             const et_multitask_inside *inside, et_device *device,
                             et_params *params, const et_multitask_options *options,
                             et_error *error);

/* Closing it closes the multitask. */
et_learner *et_multitask_learner(et_multitask *multitask);

#endif
