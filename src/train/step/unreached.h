/* Parameters whose gradient is exactly zero in all of the first updates: initial values of zeros
 * before a relu do that, or a part of the model that has no effect on its loss. A warning names
 * them. Only parameters that the loss depends on are examined, each until its gradient is not zero.
 * Not part of the state: a resumed run examines its own first updates. */
#ifndef ETUDE_TRAIN_STEP_UNREACHED_H
#define ETUDE_TRAIN_STEP_UNREACHED_H

#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"

typedef struct et_unreached {
    int *param;  /* [count] indices in the store, those without a gradient so far; owned */
    int count;   /* 0: nothing to examine */
    int trained; /* parameters that were examined at first */
    int updates; /* examined */
} et_unreached;

int et_unreached_open(et_unreached *unreached, const et_pass *pass, const et_optimizer *optimizer,
                      et_error *error);
void et_unreached_release(et_unreached *unreached);

/* Call before each update. gradient: as the store's. */
void et_unreached_examine(et_unreached *unreached, const et_params *params, const float *gradient);

#endif
