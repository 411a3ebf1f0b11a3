/* LAMB (You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes")
 * as in Model Garden. With Adam's m and v of t updates, and norms of each tensor:
 *   u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + weight_decay_rate w
 *   w -= rate |w| / |u| u;  if a norm is 0, or the tensor is excluded: w -= rate u
 * u replaces the gradient in the previous pass, which adds up both norms. The legacy `decay` of
 * Keras divides the rate by 1 + decay * iterations. */
#include <math.h>

#include "base/assert.h"
#include "engine/optim/rules/rule.h"

static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[0].name = "m";
    slot[1].name = "v";
    return 2;
}

static void before(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                   double sums[ET_RULE_SUMS_MAX])
{
    const et_lamb_options *o = options;
    double t = (double)step->slot_updates + 1;
    et_assert(chunk->slot[0] && chunk->slot[1]);
    const et_adam_direction direction = {
        .gradient = chunk->gradient,
        .weight = chunk->weight,
        .m = chunk->slot[0],
        .v = chunk->slot[1],
        .gradient_scale = chunk->gradient_scale,
        .beta_1 = (float)o->beta_1,
        .beta_2 = (float)o->beta_2,
        .epsilon = (float)o->epsilon,
        .m_scale = (float)(1 / (1 - pow(o->beta_1, t))),
        .v_scale = (float)(1 / (1 - pow(o->beta_2, t))),
        .decay = (float)chunk->decay,
        .count = chunk->count,
    };
    step->kernels->adam_direction(&direction);
    et_rule_add_squares(step, chunk, sums);
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_lamb_options *o = options;
    double weight = sqrt(chunk->sums[0]), direction = sqrt(chunk->sums[1]);
    double ratio = weight > 0 && direction > 0 ? weight / direction : 1;
    et_rule_move(step, chunk, et_rule_decayed_rate(step, chunk, o->decay) * ratio, 0);
}

const et_optimizer_rule et_rule_lamb = {
    ET_RULE(lamb),   .cut = ET_RULE_TENSORS, .adapts = ET_NO_ADAPTATION,
    .writes = true,  .slots = slots,         .before = before,
    .update = update
};
