/* Update rules (<etude/optimizer_rule.h>), for Etude's own: rows of rules.def, whose kernels scale
 * gradients and write shadow and average in the same pass. Private to this folder.
 *
 * Most rules only need single elements. If a rule needs norms of tensors (LARS, LAMB), each chunk
 * is within one tensor, and a previous pass adds up the sums of each tensor. If a rule has slots of
 * another shape (Adafactor's rows and columns), chunks are whole tensors. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_RULE_H
#define ETUDE_ENGINE_OPTIM_RULES_RULE_H

#include <etude/group.h>
#include <etude/optimizer_rule.h>

#include <stdint.h>

#include "base/fields/fields.h"
#include "engine/kernel/kernels.h"
#include "engine/optim/rules/rule_options.h"

/* Clipping: limits of a gradient before a rule sees it. A list of clips acts in its order, each on
 * the result of the earlier ones: values one by one, the norm of each tensor, the norm of all.
 * Norms become factors of the scale that rules multiply gradients with, so they cost no pass;
 * clipped values are written. To add one: a class here, and its users. */
#define ET_CLIPS_MAX 4

typedef enum et_clip_scope { ET_CLIP_VALUES, ET_CLIP_TENSORS, ET_CLIP_ALL } et_clip_scope;

typedef struct et_clip_class {
    const char *name;
    et_clip_scope scope;
    /* Of scope VALUES: changes each value of gradient. */
    void (*values)(float *gradient, int64_t count, float limit);
    /* For the other kinds: the factor for a gradient of that L2 norm; 1 if it is small enough. */
    double (*factor)(double norm, double limit);
} et_clip_class;

typedef struct et_clip {
    const et_clip_class *class;
    double limit; /* above 0 */
} et_clip;

extern const et_clip_class et_clip_value;       /* min(max(g, -limit), limit) */
extern const et_clip_class et_clip_norm;        /* each tensor: g limit / max(norm, limit) */
extern const et_clip_class et_clip_global_norm; /* the same by the norm of all */

/* Files that Model Garden has saved have it in each group. */
#define TENSORFLOW_NAME ET_FIELD_ONLY("name", NULL, "no effect: the name in TensorFlow")

/* The kernels' arguments for a chunk, for any rule; decay: the share that a weight loses. */
static inline et_slice_update et_rule_update(const et_rule_step *step, const et_rule_chunk *chunk,
                                             float decay)
{
    return (et_slice_update){ .weight = chunk->weight,
                              .gradient = chunk->gradient,
                              .shadow = chunk->shadow,
                              .average = chunk->average,
                              .decay = decay,
                              .gradient_scale = chunk->gradient_scale,
                              .average_decay = step->average_decay,
                              .count = chunk->count };
}

/* The schedule's rate over 1 + decay * iterations, for rules with the legacy `decay` of Keras. */
static inline double et_rule_decayed_rate(const et_rule_step *step, const et_rule_chunk *chunk,
                                          double decay)
{
    return chunk->rate / (1 + decay * (double)step->iterations);
}

/* For its norms: sums[0] of weights, sums[1] of the gradient after `before`. */
static inline void et_rule_add_squares(const et_rule_step *step, const et_rule_chunk *chunk,
                                       double sums[ET_RULE_SUMS_MAX])
{
    if (!chunk->adapts)
        return;
    sums[0] += step->kernels->sum_of_squares(chunk->weight, chunk->count);
    sums[1] += step->kernels->sum_of_squares(chunk->gradient, chunk->count);
}

/* w -= decay w + rate g, with g in the chunk's gradient. */
static inline void et_rule_move(const et_rule_step *step, const et_rule_chunk *chunk, double rate,
                                double decay)
{
    et_slice_update update = et_rule_update(step, chunk, (float)decay);
    update.gradient_scale = 1;
    step->kernels->sgd(&update, &(et_momentum){ .rate = (float)rate });
}

/* Adam's update of a chunk, for all rules that use it, also for some parameters only. */
typedef struct et_adam_numbers {
    double beta_1, beta_2, epsilon;
    double rate;  /* of the chunk, without the bias correction */
    double decay; /* fraction that a weight loses; 0: none */
} et_adam_numbers;

/* m and v are of the chunk; largest: of v so far; NULL: not amsgrad. */
void et_adam_update(const et_adam_numbers *numbers, const et_rule_step *step,
                    const et_rule_chunk *chunk, float *m, float *v, float *largest);

/* The first members of a row. */
#define ET_RULE(name_)                                                                             \
    .name = #name_, .fields = &et_rule_##name_##_fields, .size = sizeof(et_##name_##_options),     \
    .fused = true

/* The list of lamb and lars; an empty one means that of weight decay. */
#define ET_NO_ADAPTATION "exclude_from_layer_adaptation"
#define ET_NO_DECAY      "exclude_from_weight_decay"

#define RULE(ID, name, help) extern const et_optimizer_rule et_rule_##name;
#include "engine/optim/rules/rules.def"
#undef RULE

/* The chosen rule, NULL if none is, and its settings. rule_settings.c */
const et_optimizer_rule *et_rule_chosen(const et_optimizer_options *options, const void **settings);

/* A rule's clips in order; returns how many. */
int et_rule_clips(const et_optimizer_rule *rule, const void *settings, et_clip clips[ET_CLIPS_MAX]);

/* The weight decay, and expressions for the parameters that decay. False: the rule has none. */
bool et_rule_decay(const et_optimizer_rule *rule, const void *settings, double *decay,
                   et_strings *include, et_strings *exclude);

/* Expressions for the tensors that are not adapted, and their list's name; rule->adapts is set. */
const char *et_rule_adapts(const et_optimizer_rule *rule, const void *settings,
                           et_strings *exclude);

#endif
