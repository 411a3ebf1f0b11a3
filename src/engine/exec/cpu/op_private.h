/* The tensors and sizes of a call, for prepare and run functions of ops. Everything is static
 * inline. cpu_ops.c has the invariants of these functions. */
#ifndef ETUDE_ENGINE_EXEC_CPU_OP_PRIVATE_H
#define ETUDE_ENGINE_EXEC_CPU_OP_PRIVATE_H

#include <string.h>

#include "engine/exec/plan_private.h"

static inline const et_kernels *kernels(const et_plan *plan)
{
    return plan->device->kernels;
}

/* Borrowed for this run: an input may be bound elsewhere before the next. */
static inline void *in(const et_plan *plan, const et_plan_call *call, int i)
{
    return et_plan_data(plan, call->in[i]);
}

static inline void *out(const et_plan *plan, const et_plan_call *call, int i)
{
    return et_plan_data(plan, call->out[i]);
}

#define IN(i)  in(plan, call, i)
#define OUT(i) out(plan, call, i)

/* Rows and columns: x [T, D] has T rows of D columns; a bias [D] has one row; a scalar is one row
 * of one column; an image [N, H, W, C] has N H W rows of C columns. */
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

/* The numbers of this op in this step. */
static inline et_random random_of(const et_plan *plan, const et_plan_call *call)
{
    et_random random = plan->random;
    random.site = call->node->attributes.site;
    return random;
}

/* Aligned to 64, and reserved until the call ends. */
static inline float *scratch(const et_plan *plan)
{
    return (float *)(void *)plan->scratch;
}

/* The scratch of sums over rows: `each` vectors as wide as x of partial sums for each block of its
 * rows, and after them `more` vectors for results that nobody reads. */
size_t et_cpu_scratch_of_sums(const et_plan *plan, const et_plan_call *call);

/* Result 0, the gradient of a table, before rows are added to it: the base, input 2, or zeros
 * without one. If memory.c has given both the same place, nothing is copied. */
static inline const et_tensor *begin_table(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *table = out_tensor(plan, call, 0);
    if (call->in_count < 3)
        memset(table->data, 0, et_tensor_bytes(*table));
    else if (in(plan, call, 2) != table->data)
        memcpy(table->data, in(plan, call, 2), et_tensor_bytes(*table));
    return table;
}

/* [ET_OP_COUNT] */
extern const et_op_functions *const et_cpu_ops[];
extern const et_overlap et_cpu_overlaps[];

/* The rows of et_cpu_ops: et_cpu_SUM. */
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db)
#define X(id, name, fewest, most) extern const et_op_functions et_cpu_##id;
#include "engine/graph/ops.def"
#undef X

#endif
