/* Adam (Kingma and Ba 2015) as in Keras's legacy class: epsilon is outside the bias correction,
 * which is part of the rate. AdamW is the same after w -= rate * weight_decay_rate * w. With t
 * updates counted from 1:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   w -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)
 * amsgrad (Reddi, Kale and Kumar 2018) has the largest v so far under the root. Keras's newer
 * classes, adam_experimental and adamw_experimental, compute the same; in the latter, all weights
 * decay. */
#include "engine/optim/rules/adam.h"

#include <math.h>

#include "base/assert.h"

/* First and second moment; 8 bytes a weight, 12 with the largest of the second. */
static int slots_with(bool amsgrad, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "m";
    slot[1].name = "v";
    slot[2].name = "vhat";
    return amsgrad ? 3 : 2;
}

/* t counts from 1; the correction is computed in double once for a chunk, then everything is
 * float32. */
void et_adam_update(const et_kernels *kernels, const et_adam_numbers *numbers,
                    const et_rule_step *step, const et_rule_chunk *chunk, float *m, float *v,
                    float *largest)
{
    et_assert(step->slot_updates >= 0);
    et_assert(m && v);
    double t = (double)step->slot_updates + 1;
    double beta_1 = numbers->beta_1, beta_2 = numbers->beta_2;
    double rate_t = numbers->rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    const et_slice_update update = et_rule_update(step, chunk, (float)numbers->decay);
    const et_adam_moments moments = { .m = m,
                                      .v = v,
                                      .rate_t = (float)rate_t,
                                      .beta_1 = (float)beta_1,
                                      .beta_2 = (float)beta_2,
                                      .epsilon = (float)numbers->epsilon };
    if (largest)
        kernels->amsgrad(&update, &moments, largest);
    else
        kernels->adam(&update, &moments);
}

static void update_with(const et_kernels *kernels, double beta_1, double beta_2, double epsilon,
                        const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam_numbers numbers = { beta_1, beta_2, epsilon, chunk->rate,
                                      chunk->rate * chunk->decay };
    et_adam_update(kernels, &numbers, step, chunk, chunk->slot[0], chunk->slot[1], chunk->slot[2]);
}

/* ---- adam, adam_experimental ---- */

static int adam_slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    return slots_with(options->adam.amsgrad, slot);
}

static void adam_update(const et_kernels *kernels, const et_optimizer_options *options,
                        const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam_options *o = &options->adam;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, step, chunk);
}

static int newer_adam_slots(const et_optimizer_options *options,
                            et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    return slots_with(options->adam_experimental.amsgrad, slot);
}

static void newer_adam_update(const et_kernels *kernels, const et_optimizer_options *options,
                              const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam_experimental_options *o = &options->adam_experimental;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, step, chunk);
}

/* ---- adamw, adamw_experimental ---- */

static int adamw_slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    return slots_with(options->adamw.amsgrad, slot);
}

/* Model Garden's class clips by its own norm, and passes the result to Keras. */
static int adamw_clips(const et_optimizer_options *options, et_clip clips[ET_CLIPS_MAX])
{
    int count = et_clip_add(clips, 0, &et_clip_global_norm, options->adamw.gradient_clip_norm);
    return et_rule_usual_clips(options, clips, count);
}

static double adamw_decay(const et_optimizer_options *options, et_strings *include,
                          et_strings *exclude)
{
    *include = options->adamw.include_in_weight_decay;
    *exclude = options->adamw.exclude_from_weight_decay;
    return options->adamw.weight_decay_rate;
}

/* Decay is decoupled from the gradient (Loshchilov and Hutter 2019, "Decoupled weight decay
 * regularization"), but not from the rate: the schedule scales it. */
static void adamw_update(const et_kernels *kernels, const et_optimizer_options *options,
                         const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adamw_options *o = &options->adamw;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, step, chunk);
}

static int newer_adamw_slots(const et_optimizer_options *options,
                             et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    return slots_with(options->adamw_experimental.amsgrad, slot);
}

static double newer_adamw_decay(const et_optimizer_options *options, et_strings *include,
                                et_strings *exclude)
{
    *include = *exclude = (et_strings){ 0 };
    return options->adamw_experimental.weight_decay;
}

static void newer_adamw_update(const et_kernels *kernels, const et_optimizer_options *options,
                               const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adamw_experimental_options *o = &options->adamw_experimental;
    update_with(kernels, o->beta_1, o->beta_2, o->epsilon, step, chunk);
}

const et_rule_class et_rule_adam = { .name = "adam", .slots = adam_slots, .update = adam_update };
const et_rule_class et_rule_adam_experimental = { .name = "adam_experimental",
                                                  .slots = newer_adam_slots,
                                                  .update = newer_adam_update };
const et_rule_class et_rule_adamw = { .name = "adamw",
                                      .slots = adamw_slots,
                                      .clips = adamw_clips,
                                      .decay = adamw_decay,
                                      .update = adamw_update };
const et_rule_class et_rule_adamw_experimental = { .name = "adamw_experimental",
                                                   .slots = newer_adamw_slots,
                                                   .decay = newer_adamw_decay,
                                                   .update = newer_adamw_update };
