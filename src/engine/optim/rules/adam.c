/* Adam (Kingma and Ba 2015) as in Keras's legacy class: epsilon is outside the bias correction,
 * which is part of the rate. AdamW is the same after w -= rate * weight_decay_rate * w. With t
 * updates counted from 1:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   w -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)
 * amsgrad (Reddi, Kale and Kumar 2018) has the largest v so far under the root. Keras's newer
 * classes, adam_experimental and adamw_experimental, compute the same; in the latter, all weights
 * decay. */
#include "engine/optim/rules/rule.h"

#include <math.h>

#include "base/assert.h"

/* First and second moment; 8 bytes a weight, 12 with the largest of the second. */
static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "m";
    slot[1].name = "v";
    slot[2].name = "vhat";
    return ((const et_adam_options *)options)->amsgrad ? 3 : 2;
}

/* t counts from 1; the correction is computed in double once for a chunk, then everything is
 * float32. */
void et_adam_update(const et_adam_numbers *numbers, const et_rule_step *step,
                    const et_rule_chunk *chunk, float *m, float *v, float *largest)
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
        step->kernels->amsgrad(&update, &moments, largest);
    else
        step->kernels->adam(&update, &moments);
}

/* Decay is decoupled from the gradient (Loshchilov and Hutter 2019, "Decoupled weight decay
 * regularization"), but not from the rate: the schedule scales it. */
static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam_options *o = options;
    const et_adam_numbers numbers = { o->beta_1, o->beta_2, o->epsilon, chunk->rate,
                                      chunk->rate * chunk->decay };
    et_adam_update(&numbers, step, chunk, chunk->slot[0], chunk->slot[1], chunk->slot[2]);
}

#define ADAM(name_)                                                                                \
    const et_optimizer_rule et_rule_##name_ = { ET_RULE(name_), .cut = ET_RULE_ELEMENTS,           \
                                                .slots = slots, .update = update }
ADAM(adam);
ADAM(adam_experimental);
ADAM(adamw);
ADAM(adamw_experimental);
