#include "train/accumulate.h"

#include <string.h>

#include "base/alloc.h"

int et_accumulator_init(et_accumulator *accumulator, et_params *params, const et_kernels *kernels,
                        int batches, et_error *error)
{
    size_t bytes = (size_t)et_params_flat_size(params) * sizeof(float);
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

void et_accumulator_add(et_accumulator *accumulator, int index)
{
    if (!accumulator->sum)
        return;
    int64_t size = et_params_flat_size(accumulator->params);
    const float *gradients = et_params_gradients(accumulator->params);
    if (index == 0)
        memcpy(accumulator->sum, gradients, (size_t)size * sizeof(float));
    else
        accumulator->kernels->accumulate(accumulator->sum, gradients, size);
}

const float *et_accumulator_sum(const et_accumulator *accumulator)
{
    return accumulator->sum ? accumulator->sum : et_params_gradients(accumulator->params);
}
