/* Candidates of a sampled softmax: see et_candidates. Runs on one thread: it passes over the
 * classes twice, with about as many steps as candidates. */
#include <math.h>

#include "engine/exec/cpu/op_private.h"

/* Of each class its place among the candidates. */
int et_prepare_candidates(et_plan *plan, et_plan_call *call, et_error *error)
{
    (void)plan, (void)error;
    call->scratch = (size_t)call->node->attributes.classes * sizeof(int32_t);
    return ET_OK;
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

/* Others, in the order of a permutation of all classes, until there are count. */
static void take_others(int32_t *candidates, int64_t taken, int64_t count, const int32_t *found,
                        int64_t classes, et_random random)
{
    const et_random_order order = et_random_order_of(random, (uint32_t)classes);
    for (uint32_t i = 0; taken < count; i++) {
        const int32_t class = (int32_t)et_random_order_at(&order, i);
        if (found[class] == ABSENT)
            candidates[taken++] = class;
    }
}

void et_run_candidates(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *labels = in_tensor(plan, call, 0);
    const int64_t classes = call->node->attributes.classes, count = call->node->attributes.count;
    const int64_t rows = labels->shape.size[0];
    int32_t *found = (int32_t *)(void *)plan->scratch, *candidates = out(plan, call, 0);
    int32_t *targets = out(plan, call, 1);
    float *offsets = out(plan, call, 2);
    const int64_t own = take_labels(candidates, found, classes, labels->data, rows);
    take_others(candidates, own, count, found, classes, random_of(plan, call));
    for (int64_t t = 0; targets && t < rows; t++) {
        const int32_t label = ((const int32_t *)labels->data)[t];
        targets[t] = label < 0 ? -1 : found[label];
    }
    const double stands_for = count > own ? (double)(classes - own) / (double)(count - own) : 1;
    const float offset = (float)log(stands_for);
    for (int64_t i = 0; offsets && i < count; i++)
        offsets[i] = i < own ? 0 : offset;
}
