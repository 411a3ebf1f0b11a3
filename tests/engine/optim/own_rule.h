/* A rule of a program: Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms"),
 *
 *   w -= rate (sign(b1 m + (1 - b1) g) + weight_decay_rate w),  m = b2 m + (1 - b2) g
 *
 * over public headers alone. */
#ifndef ETUDE_TESTS_OPTIM_OWN_RULE_H
#define ETUDE_TESTS_OPTIM_OWN_RULE_H

#include <etude/optimizer_rule.h>

typedef struct lion_options {
    double beta_1, beta_2, clipvalue, clipnorm, global_clipnorm, weight_decay_rate;
    et_strings exclude_from_weight_decay;
} lion_options;

static const et_field lion_rows[] = {
    ET_FIELD_FLOAT(lion_options, beta_1, 0.9, 0, 1, "share of m in the direction"),
    ET_FIELD_FLOAT(lion_options, beta_2, 0.99, 0, 1, "what remains of m"),
    ET_RULE_CLIPS(lion_options, 0),
    ET_RULE_DECAY(lion_options, weight_decay_rate),
    ET_RULE_NO_DECAY(lion_options),
    ET_FIELD_END
};
static const et_fields lion_fields = { "lion", lion_rows };

static int lion_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0].name = "lion_m";
    return 1;
}

static void lion_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const lion_options *o = options;
    const float b1 = (float)o->beta_1, b2 = (float)o->beta_2;
    const float rate = (float)chunk->rate, decay = (float)chunk->decay;
    float *w = chunk->weight, *m = chunk->slot[0];
    (void)step;
    for (int64_t i = 0; i < chunk->count; i++) {
        const float g = chunk->gradient[i], u = b1 * m[i] + (1 - b1) * g;
        w[i] -= rate * ((float)((u > 0) - (u < 0)) + decay * w[i]);
        m[i] = b2 * m[i] + (1 - b2) * g;
    }
}

static const et_optimizer_rule lion = { .name = "lion",
                                        .fields = &lion_fields,
                                        .size = sizeof(lion_options),
                                        .slots = lion_slots,
                                        .update = lion_update };
static const et_optimizer_rule *const own_rules[] = { &lion, NULL };

#endif
