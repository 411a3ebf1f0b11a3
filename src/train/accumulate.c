/* The gradient of a step's loss is the sum of its batches' gradients, since the loss is a sum
 * over tokens: sum = g[0] + g[1] + ... + g[batches - 1], in this order, element by element, so
 * the bits do not depend on threads. Division by the tokens of all batches is left to the
 * update.
 *
 * Each batch's gradient is read once more, to see whether it is finite: a sum that is not would
 * not tell whose fault it is, and the batch to blame is to be named. Of small cost beside the
 * passes forward and back that made it.
 *
 * With one batch the gradients of the store are that sum; then there is no array here and add
 * does nothing. With more, an array of the store's flat size (4 bytes an element, padding
 * included) is kept for the whole run. The other way, to let backward passes add to the store's
 * array, would cost every kernel that writes a gradient a reading of it, in the common case of
 * one batch too. */
#include "train/accumulate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* The array is not zeroed: the first batch of an update overwrites it. */
int et_accumulator_init(et_accumulator *accumulator, et_params *params, const et_kernels *kernels,
                        int batches, et_error *error)
{
    et_assert(batches >= 1);
    et_assert(et_params_ready(params));
    size_t bytes = (size_t)et_params_trained_size(params) * sizeof(float);
    *accumulator = (et_accumulator){ params, kernels, batches, NULL };
    if (batches == 1)
        return ET_OK;
    accumulator->sum = et_alloc_aligned(bytes, 64);
    return accumulator->sum ? ET_OK : et_alloc_failed(error, bytes, "accumulated gradients");
}

void et_accumulator_release(et_accumulator *accumulator)
{
    et_free(accumulator->sum);
    accumulator->sum = NULL;
}

/* Batch 0 is copied, not added to zeros: one pass over memory less, and -0 stays -0. */
bool et_accumulator_add(et_accumulator *accumulator, int index)
{
    et_assert(index >= 0 && index < accumulator->batches);
    if (!accumulator->sum)
        return true;
    int64_t size = et_params_trained_size(accumulator->params);
    const float *gradients = et_params_gradients(accumulator->params);
    if (index == 0)
        memcpy(accumulator->sum, gradients, (size_t)size * sizeof(float));
    else
        accumulator->kernels->accumulate(accumulator->sum, gradients, size);
    return isfinite(accumulator->kernels->sum_of_squares(gradients, size)) != 0;
}

float *et_accumulator_sum(const et_accumulator *accumulator)
{
    return accumulator->sum ? accumulator->sum : et_params_gradients(accumulator->params);
}
