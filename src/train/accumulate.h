/* Gradient accumulation: how many batches make one update, and where their gradients add up.
 * With one batch the store's own gradients are the sum and nothing is copied.
 *
 *     for (int i = 0; i < accumulator.batches; i++) {
 *         ... a forward and backward pass fills the store's gradients ...
 *         if (!et_accumulator_add(&accumulator, i)) ... this batch's gradient is not finite
 *     }
 *     et_optimizer_apply(optimizer, et_accumulator_sum(&accumulator), scale); */
#ifndef ETUDE_TRAIN_ACCUMULATE_H
#define ETUDE_TRAIN_ACCUMULATE_H

#include <stdbool.h>

#include <etude/params.h>

#include "kernel/kernels.h"

typedef struct et_accumulator {
    et_params *params;         /* borrowed; its gradients are what is added */
    const et_kernels *kernels; /* borrowed, static */
    int batches;               /* of one update, at least 1 */
    float *sum;                /* [flat size], owned; NULL with one batch */
} et_accumulator;

/* params is materialized and outlives the accumulator. The only failure is memory, with more
 * than one batch. */
int et_accumulator_init(et_accumulator *accumulator, et_params *params, const et_kernels *kernels,
                        int batches, et_error *error);
void et_accumulator_release(et_accumulator *accumulator);

/* Adds the store's gradients, those of batch `index` of the update (from 0). False: there are
 * several batches, and this one's gradient is not finite; what was added up is then of no use.
 * With one batch always true: the update measures that gradient itself. */
bool et_accumulator_add(et_accumulator *accumulator, int index);

/* The sum over all batches of the update, [flat size]. With one batch these are the store's
 * gradients. Valid until the next pass or add. */
const float *et_accumulator_sum(const et_accumulator *accumulator);

#endif
