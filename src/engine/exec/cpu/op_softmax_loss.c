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
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"

/* Scratch: loss, nll and correct of each row. */
int et_prepare_softmax_loss(et_plan *plan, et_plan_call *call, et_error *error)
{
    (void)error;
    int64_t rows = plan->values[call->in[0]].tensor.shape.size[0];
    call->scratch = (size_t)(3 * rows) * sizeof(float);
    return ET_OK;
}

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
void et_run_softmax_loss(const et_plan *plan, const et_plan_call *call)
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
