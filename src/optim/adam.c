/* Adam (Kingma and Ba 2015) as Keras' legacy class has it: epsilon stands outside the bias
 * correction, which is folded into the rate. AdamW is the same after w -= rate *
 * weight_decay_rate * w. With t updates counted from 1:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   w -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon) */
#include <math.h>

#include "base/assert.h"
#include "optim/rule.h"

/* First and second moment; 8 bytes a weight, whatever the options. */
static int slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[0].name = "m";
    slot[1].name = "v";
    return 2;
}

/* One chunk of both rules. t counts from 1; the correction is computed in double once for a
 * chunk, then everything is float32. decay: what a weight loses of itself, 0: none. */
static void update_with(const et_kernels *kernels, double beta_1, double beta_2, double epsilon,
                        double decay, const et_rule_step *step, const et_rule_chunk *chunk)
{
    et_assert(step->slot_updates >= 0);
    et_assert(chunk->slot[0] && chunk->slot[1]);
    double t = (double)step->slot_updates + 1;
    double rate_t = chunk->rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    const et_slice_update update = et_rule_update(step, chunk, (float)decay);
    const et_adam_moments moments = { .m = chunk->slot[0],
                                      .v = chunk->slot[1],
                                      .rate_t = (float)rate_t,
                                      .beta_1 = (float)beta_1,
                                      .beta_2 = (float)beta_2,
                                      .epsilon = (float)epsilon };
    kernels->adam(&update, &moments);
}

static int adam_clips(const et_optimizer_options *options, et_clip clips[ET_CLIPS_MAX])
{
    const et_adam_options *o = &options->adam;
    int count = et_clip_add(clips, 0, &et_clip_value, o->clipvalue);
    count = et_clip_add(clips, count, &et_clip_norm, o->clipnorm);
    return et_clip_add(clips, count, &et_clip_global_norm, o->global_clipnorm);
}

static void adam_update(const et_kernels *kernels, const et_optimizer_options *options,
                        const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam_options *o = &options->adam;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, 0, step, chunk);
}

/* Keras clips by both global norms in turn, which comes to the smaller. */
static int adamw_clips(const et_optimizer_options *options, et_clip clips[ET_CLIPS_MAX])
{
    const et_adamw_options *o = &options->adamw;
    double one = o->gradient_clip_norm, two = o->global_clipnorm;
    double limit = one > 0 && two > 0 ? fmin(one, two) : one > 0 ? one : two;
    int count = et_clip_add(clips, 0, &et_clip_value, o->clipvalue);
    count = et_clip_add(clips, count, &et_clip_norm, o->clipnorm);
    return et_clip_add(clips, count, &et_clip_global_norm, limit);
}

static void adamw_decay(const et_optimizer_options *options, et_strings *include,
                        et_strings *exclude)
{
    *include = options->adamw.include_in_weight_decay;
    *exclude = options->adamw.exclude_from_weight_decay;
}

/* Decay is decoupled from the gradient (Loshchilov and Hutter 2019, "Decoupled weight decay
 * regularization"), but not from the rate: the schedule scales it. */
static void adamw_update(const et_kernels *kernels, const et_optimizer_options *options,
                         const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adamw_options *o = &options->adamw;
    double decay = chunk->decays ? chunk->rate * o->weight_decay_rate : 0;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, decay, step, chunk);
}

/* The rows of `rules` in optimizer.c. */
const et_rule_class et_rule_adam = {
    .name = "adam", .slots = slots, .clips = adam_clips, .update = adam_update
};
const et_rule_class et_rule_adamw = { .name = "adamw",
                                      .slots = slots,
                                      .clips = adamw_clips,
                                      .decay = adamw_decay,
                                      .update = adamw_update };
