/* Ops whose result is a number or a distribution for each row. */
#include <string.h>

#include "base/assert.h"
#include "exec/plan_private.h"

static const et_tensor *input(const et_plan *plan, const et_plan_step *step, int i)
{
    return &plan->values[step->in[i]].tensor;
}

static void *out(const et_plan *plan, const et_plan_step *step, int i)
{
    return et_plan_data(plan, step->out[i]);
}

void et_run_row_sum(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *x = input(plan, step, 0);
    plan->device->kernels->row_sum(out(plan, step, 0), x->data, x->shape.size[0], x->shape.size[1],
                                   x->dtype);
}

void et_run_softmax(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *x = input(plan, step, 0);
    plan->device->kernels->softmax(out(plan, step, 0), x->data, x->shape.size[0], x->shape.size[1],
                                   x->dtype);
}

void et_run_log_softmax(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *x = input(plan, step, 0);
    plan->device->kernels->log_softmax(out(plan, step, 0), x->data, x->shape.size[0],
                                       x->shape.size[1], x->dtype);
}

/* Room for the three results of rows, of which some may be nobody's. */
int et_prepare_cross_entropy(et_plan *plan, et_plan_step *step, et_error *error)
{
    (void)error;
    step->scratch = (size_t)(3 * input(plan, step, 0)->shape.size[0]) * sizeof(float);
    return ET_OK;
}

/* The kernel turns logits into derivatives in place; logits may have other readers, so it is given
 * a copy. Where nobody wants derivatives it leaves them as they are. */
void et_run_cross_entropy(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *logits = input(plan, step, 0), *labels = input(plan, step, 1);
    const int64_t rows = logits->shape.size[0], classes = logits->shape.size[1];
    float *unread = (float *)(void *)plan->scratch, *row[3];
    void *gradient = out(plan, step, 3);
    et_assert(step->node->attributes.gradient || !gradient);
    for (int i = 0; i < 3; i++)
        row[i] = out(plan, step, i) ? out(plan, step, i) : unread + i * rows;
    if (gradient)
        memcpy(gradient, logits->data, et_tensor_bytes(*logits));
    plan->device->kernels->softmax_cross_entropy(gradient ? gradient : logits->data, row[0], row[1],
                                                 row[2], labels->data, step->node->attributes.x,
                                                 gradient != NULL, rows, classes, logits->dtype);
}

void et_run_labelled(const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *y = &plan->values[step->out[0]].tensor;
    plan->device->kernels->labelled(y->data, input(plan, step, 0)->data, y->shape.size[0]);
}
