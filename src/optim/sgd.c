/* Keras legacy SGD: a = momentum * a - rate * g; w += a, or Nesterov's look ahead, w +=
 * momentum * a - rate * g with the new a. The legacy `decay` divides the rate by 1 + decay *
 * iterations. */
#include "base/assert.h"
#include "optim/rule.h"

/* Without momentum nothing is kept: the kernel takes a NULL accumulator. */
static int slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "momentum";
    return options->sgd.momentum > 0 ? 1 : 0;
}

static int clips(const et_optimizer_options *options, et_clip list[ET_CLIPS_MAX])
{
    const et_sgd_options *o = &options->sgd;
    int count = et_clip_add(list, 0, &et_clip_value, o->clipvalue);
    count = et_clip_add(list, count, &et_clip_norm, o->clipnorm);
    return et_clip_add(list, count, &et_clip_global_norm, o->global_clipnorm);
}

/* decay comes on top of the schedule, counted in updates done before this one. */
static void update(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_sgd_options *o = &options->sgd;
    et_assert(o->momentum == 0 || chunk->slot[0]);
    double rate = chunk->rate / (1 + o->decay * (double)step->iterations);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    const et_momentum momentum = { chunk->slot[0], (float)rate, (float)o->momentum, o->nesterov };
    kernels->sgd(&update, &momentum);
}

/* Its row of `rules` in optimizer.c. */
const et_rule_class et_rule_sgd = {
    .name = "sgd", .slots = slots, .clips = clips, .update = update
};
