/* The tensors and sizes of a call, for prepare and run functions of ops. Everything is static
 * inline. ops.c has the invariants of these functions. */
#ifndef ETUDE_ENGINE_EXEC_CPU_OP_PRIVATE_H
#define ETUDE_ENGINE_EXEC_CPU_OP_PRIVATE_H

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

static inline const et_tensor *in_tensor(const et_plan *plan, const et_plan_call *call, int i)
{
    return &plan->values[call->in[i]].tensor;
}

static inline const et_tensor *out_tensor(const et_plan *plan, const et_plan_call *call, int i)
{
    return &plan->values[call->out[i]].tensor;
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

/* op_softmax_loss.c: adds rows with a label to a loss's sums: in double and in order of rows, for
 * any number of threads. loss, nll and correct [rows] as kernels give them. */
void et_plan_add_loss_rows(double sums[ET_LOSS_SUM_COUNT], const int32_t *labels, const float *loss,
                           const float *nll, const float *correct, int64_t rows);

/* Preparing and running the ops that have their own files. */
int et_prepare_vocabulary_loss(et_plan *plan, et_plan_call *call, et_error *error);
void et_run_vocabulary_loss(const et_plan *plan, const et_plan_call *call);
int et_prepare_softmax_loss(et_plan *plan, et_plan_call *call, et_error *error);
void et_run_softmax_loss(const et_plan *plan, const et_plan_call *call);
int et_prepare_cached_attention(et_plan *plan, et_plan_call *call, et_error *error);
void et_run_cached_attention(const et_plan *plan, const et_plan_call *call);
int et_prepare_vocabulary_best(et_plan *plan, et_plan_call *call, et_error *error);
void et_run_vocabulary_best(const et_plan *plan, const et_plan_call *call);
void et_run_row_sum(const et_plan *plan, const et_plan_call *call);
void et_run_softmax(const et_plan *plan, const et_plan_call *call);
void et_run_log_softmax(const et_plan *plan, const et_plan_call *call);
int et_prepare_cross_entropy(et_plan *plan, et_plan_call *call, et_error *error);
void et_run_cross_entropy(const et_plan *plan, const et_plan_call *call);
void et_run_labelled(const et_plan *plan, const et_plan_call *call);

/* op_layout.c */
et_plan_run_fn et_run_reshape, et_run_concatenate, et_run_slice, et_run_slice_grad, et_run_gather,
    et_run_gather_grad, et_run_one_hot, et_run_cast, et_run_embed_columns,
    et_run_embed_columns_grad, et_run_noise, et_run_bernoulli;
int et_prepare_gather_grad(et_plan *plan, et_plan_call *call, et_error *error);

/* op_candidates.c */
int et_prepare_candidates(et_plan *plan, et_plan_call *call, et_error *error);
et_plan_run_fn et_run_candidates;

/* op_layers.c */
et_plan_run_fn et_run_scaled_copies, et_run_scaled_copies_grad, et_run_rms_norm,
    et_run_rms_norm_grad, et_run_batch_norm, et_run_batch_norm_grad, et_run_convolution,
    et_run_convolution_weight_grad, et_run_pool, et_run_pool_grad;
int et_prepare_scaled_copies_grad(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_rms_norm_grad(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_batch_norm(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_batch_norm_grad(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_convolution(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_convolution_grad(et_plan *plan, et_plan_call *call, et_error *error);
int et_prepare_convolution_weight_grad(et_plan *plan, et_plan_call *call, et_error *error);

#endif
