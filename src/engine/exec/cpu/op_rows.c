/* Ops with a number or a distribution for each row as result. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"

static void run_row_sum(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = in_tensor(plan, call, 0);
    kernels(plan)->row_sum(out(plan, call, 0), x->data, x->shape.size[0], x->shape.size[1],
                           x->dtype);
}

const et_op_functions et_cpu_ROW_SUM = { .run = run_row_sum };

static void run_softmax(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = in_tensor(plan, call, 0);
    const bool in_log = call->node->op == ET_OP_LOG_SOFTMAX;
    (in_log ? kernels(plan)->log_softmax : kernels(plan)->softmax)(
        out(plan, call, 0), x->data, x->shape.size[0], x->shape.size[1], x->dtype);
}

const et_op_functions et_cpu_SOFTMAX = { .run = run_softmax };
const et_op_functions et_cpu_LOG_SOFTMAX = { .run = run_softmax };

/* Loss, nll and correct of each row, which may have no readers. */
static size_t scratch_of_rows(const et_plan *plan, const et_plan_call *call)
{
    return (size_t)(3 * in_tensor(plan, call, 0)->shape.size[0]) * sizeof(float);
}

/* The kernel turns logits into derivatives in place, so it gets a copy: logits may have other
 * readers. Without derivatives it does not change them. */
static void run_cross_entropy(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *logits = in_tensor(plan, call, 0), *labels = in_tensor(plan, call, 1);
    const int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    float *unread = (float *)(void *)plan->scratch, *row[3];
    void *gradient = out(plan, call, 3);
    et_assert(call->node->attributes.gradient || !gradient);
    for (int i = 0; i < 3; i++)
        row[i] = out(plan, call, i) ? out(plan, call, i) : unread + i * rows;
    if (gradient)
        memcpy(gradient, logits->data, et_tensor_bytes(*logits));
    kernels(plan)->softmax_cross_entropy(gradient ? gradient : logits->data, row[0], row[1], row[2],
                                         labels->data, call->node->attributes.x, gradient != NULL,
                                         rows, classes, logits->dtype);
}

const et_op_functions et_cpu_CROSS_ENTROPY = { .run = run_cross_entropy,
                                               .scratch = scratch_of_rows };

static void run_labelled(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = &plan->values[call->out[0]].tensor;
    kernels(plan)->labelled(y->data, in_tensor(plan, call, 0)->data, y->shape.size[0]);
}

const et_op_functions et_cpu_LABELLED = { .run = run_labelled };

/* Softmax cross-entropy of logits that exist in full. The kernel turns logits into derivatives
 * in place; logits may have other readers, so the derivative is made in a copy.
 *
 * With z the logits of a row, y its label, V classes and smoothing e (Szegedy et al. 2016):
 *
 *     log p = z - log(sum exp z)        t[y] = 1 - e,  t[i] = e / (V - 1) elsewhere
 *     nll = -log p[y]        loss = -sum t (log p - log t)        dz = softmax(z) - t
 *
 * Rows with a label below 0 count in no sum. For tables of many classes op_vocabulary_loss.c
 * does the same without the logits in memory. */

void et_plan_add_loss_rows(double sums[ET_LOSS_SUM_COUNT], const int32_t *labels, const float *loss,
                           const float *nll, const float *correct, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++) {
        if (labels[i] < 0)
            continue;
        sums[ET_LOSS_SUM_LOSS] += loss[i];
        sums[ET_LOSS_SUM_NLL] += nll[i];
        sums[ET_LOSS_SUM_CORRECT] += correct[i];
        sums[ET_LOSS_SUM_TOKENS] += 1;
    }
}

/* Without derivatives the kernel reads the logits in their own memory: it only changes them to
 * compute a gradient. */
static void run_softmax_loss(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *logits = &plan->values[call->in[0]].tensor;
    const et_tensor *gradient = &plan->values[call->out[1]].tensor;
    const int32_t *labels = et_plan_data(plan, call->in[1]);
    et_assert(plan->values[call->in[1]].tensor.shape.size[0] == logits->shape.size[0]);
    int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    float *row = (float *)(void *)plan->scratch, *result = et_plan_data(plan, call->out[0]);
    double sums[ET_LOSS_SUM_COUNT] = { 0 };
    bool differentiate = gradient->data != NULL;
    et_assert(call->node->attributes.gradient || !differentiate);
    if (differentiate)
        memcpy(gradient->data, logits->data,
               (size_t)(rows * classes) * et_dtype_size(logits->dtype));
    plan->device->kernels->softmax_cross_entropy(
        differentiate ? gradient->data : logits->data, row, row + rows, row + 2 * rows, labels,
        call->node->attributes.x, differentiate, rows, classes, logits->dtype);
    et_plan_add_loss_rows(sums, labels, row, row + rows, row + 2 * rows, rows);
    for (int i = 0; i < ET_LOSS_SUM_COUNT; i++)
        result[i] = (float)sums[i];
}

const et_op_functions et_cpu_SOFTMAX_LOSS = { .run = run_softmax_loss, .scratch = scratch_of_rows };

/* The most likely tokens of each row, with the kernel of that name.
 *
 * The result is the `count` largest logits h table^T of each row and their log p;
 * engine/kernel/best_tokens.h says how the other tokens are excluded. The table is needed twice: as
 * bytes, packed with the plan's other weights, and as float32 for the remaining tokens, directly
 * from the store. */

/* Bytes of the kernel's scratch; room for unread tokens follows it. */
static size_t kernel_scratch(const et_plan *plan, const et_row_weight *rows)
{
    return et_best_scratch(rows) * (size_t)plan->device->threads;
}

/* The bytes of a row are added up in 32 bits, which bounds the width. transposed: a token is a
 * row of the table, and a column of the product's weight. */
static int prepare_vocabulary_best(et_plan *plan, et_plan_call *call, et_error *error)
{
    const et_plan_value *table = &plan->values[call->in[1]];
    et_row_weight rows = { .kind = ET_ROW_INT8,
                           .n = table->tensor.shape.size[0],
                           .k = table->tensor.shape.size[1],
                           .panel = plan->device->kernels->panel };
    if (table->storage != VALUE_IN_PARAMS || call->node->attributes.count > ET_BEST_COUNT_MAX ||
        rows.k > ET_ROW_BYTES_MAX)
        return et_fail(error, ET_EGRAPH,
                       "%s: the table must be a parameter of width at most %d, and at most %d "
                       "tokens can be chosen",
                       call->node->name, ET_ROW_BYTES_MAX, ET_BEST_COUNT_MAX);
    call->scratch = kernel_scratch(plan, &rows) +
                    (size_t)et_shape_count(call->node->type[1].shape) * sizeof(int32_t);
    return et_plan_add_row_pack(plan, &rows, table->node->attributes.param, ET_F32, true,
                                &call->pack[0], error);
}

/* The kernel always writes tokens; if the plan gave them no memory, they go after its scratch. */
static void run_vocabulary_best(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = &plan->values[call->in[0]].tensor;
    et_assert(h->shape.size[0] <= call->node->type[0].shape.size[0]);
    const et_plan_pack *pack = et_plan_pack_at(plan, call->pack[0]);
    int32_t *token = et_plan_data(plan, call->out[1]);
    if (!token)
        token = (int32_t *)(void *)(plan->scratch + kernel_scratch(plan, &pack->rows));
    const et_best_tokens shape = { .rows = h->shape.size[0],
                                   .count = call->node->attributes.count,
                                   .weight = &pack->rows,
                                   .table = et_plan_data(plan, call->in[1]),
                                   .dtype = h->dtype,
                                   .scratch = plan->scratch };
    plan->device->kernels->best_tokens(et_plan_data(plan, call->out[0]), token, h->data, &shape);
}

const et_op_functions et_cpu_VOCABULARY_BEST = { .run = run_vocabulary_best,
                                                 .prepare = prepare_vocabulary_best };

/* Candidates of a sampled softmax: see et_candidates. Runs on one thread: it passes over the
 * classes twice, with about as many steps as candidates. */

/* Of each class its place among the candidates. */
static size_t scratch_of_candidates(const et_plan *plan, const et_plan_call *call)
{
    (void)plan;
    return (size_t)call->node->attributes.classes * sizeof(int32_t);
}

enum { ABSENT = -1, LABELLED = -2 };

/* The classes of labels, ascending; returns how many. */
static int64_t take_labels(int32_t *candidates, int32_t *found, int64_t classes,
                           const int32_t *labels, int64_t rows)
{
    int64_t taken = 0;
    for (int64_t i = 0; i < classes; i++)
        found[i] = ABSENT;
    for (int64_t t = 0; t < rows; t++)
        if (labels[t] >= 0)
            found[labels[t]] = LABELLED;
    for (int64_t i = 0; i < classes; i++)
        if (found[i] == LABELLED) {
            found[i] = (int32_t)taken;
            candidates[taken++] = (int32_t)i;
        }
    return taken;
}

static void run_candidates(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *labels = in_tensor(plan, call, 0);
    const int64_t classes = call->node->attributes.classes, count = call->node->attributes.count;
    const int64_t rows = labels->shape.size[0];
    int32_t *found = (int32_t *)(void *)plan->scratch, *candidates = out(plan, call, 0);
    int32_t *targets = out(plan, call, 1);
    float *offsets = out(plan, call, 2);
    const int64_t own = take_labels(candidates, found, classes, labels->data, rows);
    /* Others, in the order of a permutation of all classes, until there are count. */
    const et_random_order order = et_random_order_of(random_of(plan, call), (uint32_t)classes);
    int64_t taken = own;
    for (uint32_t i = 0; taken < count; i++) {
        const int32_t class = (int32_t)et_random_order_at(&order, i);
        if (found[class] == ABSENT)
            candidates[taken++] = class;
    }
    for (int64_t t = 0; targets && t < rows; t++) {
        const int32_t label = ((const int32_t *)labels->data)[t];
        targets[t] = label < 0 ? -1 : found[label];
    }
    const double stands_for = count > own ? (double)(classes - own) / (double)(count - own) : 1;
    const float offset = (float)log(stands_for);
    for (int64_t i = 0; offsets && i < count; i++)
        offsets[i] = i < own ? 0 : offset;
}

const et_op_functions et_cpu_CANDIDATES = { .run = run_candidates,
                                            .scratch = scratch_of_candidates };
