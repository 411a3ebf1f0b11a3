/* Gradient accumulation: how many batches make one update, and where their gradients add up.
 * With one batch the store's own gradients are the sum and nothing is copied. */
#ifndef ETUDE_TRAIN_ACCUMULATE_H
#define ETUDE_TRAIN_ACCUMULATE_H

#include <etude/params.h>

#include "kernel/kernels.h"

typedef struct et_accumulator {
    et_params *params;
    const et_kernels *kernels;
    int batches; /* of one update */
    float *sum;  /* [flat size], owned; NULL with one batch */
} et_accumulator;

int et_accumulator_init(et_accumulator *accumulator, et_params *params, const et_kernels *kernels,
                        int batches, et_error *error);
void et_accumulator_release(et_accumulator *accumulator);

/* Adds the store's gradients, those of batch `index` of the update (from 0). */
void et_accumulator_add(et_accumulator *accumulator, int index);

/* The sum over all batches of the update. */
const float *et_accumulator_sum(const et_accumulator *accumulator);

#endif
