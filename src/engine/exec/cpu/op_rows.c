/* Ops with a number or a distribution for each row as result. */
#include <string.h>

#include "base/assert.h"
#include "engine/exec/cpu/op_private.h"

void et_run_row_sum(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = in_tensor(plan, call, 0);
    kernels(plan)->row_sum(out(plan, call, 0), x->data, x->shape.size[0], x->shape.size[1],
                           x->dtype);
}

void et_run_softmax(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = in_tensor(plan, call, 0);
    kernels(plan)->softmax(out(plan, call, 0), x->data, x->shape.size[0], x->shape.size[1],
                           x->dtype);
}

void et_run_log_softmax(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *x = in_tensor(plan, call, 0);
    kernels(plan)->log_softmax(out(plan, call, 0), x->data, x->shape.size[0], x->shape.size[1],
                               x->dtype);
}

/* Reserves room for the three results of rows, which may have no readers. */
int et_prepare_cross_entropy(et_plan *plan, et_plan_call *call, et_error *error)
{
    (void)error;
    call->scratch = (size_t)(3 * in_tensor(plan, call, 0)->shape.size[0]) * sizeof(float);
    return ET_OK;
}

/* The kernel turns logits into derivatives in place, so it gets a copy: logits may have other
 * readers. Without derivatives it does not change them. */
void et_run_cross_entropy(const et_plan *plan, const et_plan_call *call)
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

void et_run_labelled(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = &plan->values[call->out[0]].tensor;
    kernels(plan)->labelled(y->data, in_tensor(plan, call, 0)->data, y->shape.size[0]);
}
