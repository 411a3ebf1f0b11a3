/* What prepare and run functions of ops share: a step's tensors and their sizes. Everything is
 * static. What always holds for these functions stands in ops.c. */
#ifndef ETUDE_EXEC_OP_PRIVATE_H
#define ETUDE_EXEC_OP_PRIVATE_H

#include "exec/plan_private.h"

static inline const et_kernels *kernels(const et_plan *plan)
{
    return plan->device->kernels;
}

/* Borrowed for this run: an input may be bound elsewhere before the next. */
static inline void *in(const et_plan *plan, const et_plan_step *step, int i)
{
    return et_plan_data(plan, step->in[i]);
}

static inline void *out(const et_plan *plan, const et_plan_step *step, int i)
{
    return et_plan_data(plan, step->out[i]);
}

static inline const et_tensor *in_tensor(const et_plan *plan, const et_plan_step *step, int i)
{
    return &plan->values[step->in[i]].tensor;
}

static inline const et_tensor *out_tensor(const et_plan *plan, const et_plan_step *step, int i)
{
    return &plan->values[step->out[i]].tensor;
}

/* x [T, D] has T rows of D columns, a bias [D] one row of D, a scalar one element, an image
 * [N, H, W, C] N H W rows of C. */
static inline int64_t width_of(const et_tensor *tensor)
{
    int rank = tensor->shape.rank;
    return rank == 0 ? 1 : tensor->shape.size[rank - 1];
}

static inline int64_t rows_of(const et_tensor *tensor)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < tensor->shape.rank; i++)
        rows *= tensor->shape.size[i];
    return rows;
}

/* Aligned to 64, and nobody else's until the step is over. */
static inline float *scratch(const et_plan *plan)
{
    return (float *)(void *)plan->scratch;
}

#endif
