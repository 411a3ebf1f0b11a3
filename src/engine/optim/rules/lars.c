/* LARS (You, Gitman and Ginsburg 2017, "Large batch training of convolutional networks") as in
 * Model Garden. With g' = g + weight_decay_rate w and norms of each tensor:
 *
 *   classic  r = rate eeta |w| / |g'|,  v = momentum v + r g',  w -= v
 *            nesterov: w -= momentum v + r g'
 *   popular  v = momentum v + g',  u = v, nesterov: momentum v + g',  w -= rate eeta |w| / |u| u
 *
 * If a norm is 0, or the tensor is excluded, rate replaces the product with the norms. g', or u,
 * replaces the gradient in the previous pass, which adds up both norms. */
#include <math.h>

#include "base/assert.h"
#include "engine/optim/rules/rule.h"

/* Kept without momentum too: LARS has it as a rule. */
static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = ((const et_lars_options *)options)->classic_momentum ? "momentum" : "velocity";
    return 1;
}

static void before(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                   double sums[ET_RULE_SUMS_MAX])
{
    const et_lars_options *o = options;
    float *g = chunk->gradient, *v = chunk->slot[0], momentum = (float)o->momentum;
    float weight = (float)chunk->decay;
    et_assert(v);
    step->kernels->blend(g, chunk->weight, chunk->gradient_scale, weight, chunk->count);
    if (!o->classic_momentum) {
        step->kernels->blend(v, g, momentum, 1, chunk->count);
        step->kernels->blend(g, v, o->nesterov ? 1 : 0, o->nesterov ? momentum : 1, chunk->count);
    }
    et_rule_add_squares(step, chunk, sums);
}

/* The kernel's accumulator is -v: both begin at 0, and the slot has v with the sign changed. */
static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_lars_options *o = options;
    double weight = sqrt(chunk->sums[0]), gradient = sqrt(chunk->sums[1]);
    double trust = weight > 0 && gradient > 0 ? o->eeta * weight / gradient : 1;
    double rate = chunk->rate * trust;
    if (!o->classic_momentum) {
        et_rule_move(step, chunk, rate, 0);
        return;
    }
    et_slice_update update = et_rule_update(step, chunk, 0);
    update.gradient_scale = 1;
    step->kernels->sgd(
        &update, &(et_momentum){ chunk->slot[0], (float)rate, (float)o->momentum, o->nesterov });
}

const et_optimizer_rule et_rule_lars = {
    ET_RULE(lars),   .cut = ET_RULE_TENSORS, .adapts = ET_NO_ADAPTATION,
    .writes = true,  .slots = slots,         .before = before,
    .update = update
};
