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

/* Files that Model Garden has saved have it in each group. */
#define TENSORFLOW_NAME ET_FIELD_ONLY("name", NULL, "no effect: the name in TensorFlow")

/* C17 has no name for it. */
#define PI 3.14159265358979323846

/* Far above any decay or rate that trains; the default of Model Garden's pre_offset_learning_rate.
 * Steps are whole numbers that a double holds exactly, since schedules compute with doubles. */
#define DECAY_MAX 1e6
#define RATE_MAX  1e6
#define STEPS_MAX ((int64_t)1 << 53)

/* The same members in several structs, so that keys and limits cannot drift apart. Each expands to
 * one row or several of a table; type is the struct whose members they are. Decays of moments end
 * below 1: at 1 the bias correction would divide by 0. */
#define EPSILON(type, member, value, text) ET_FIELD_FLOAT(type, member, value, 1e-30, 1, text)
#define BETAS(type, second)                                                                        \
    ET_FIELD_FLOAT(type, beta_1, 0.9, 0, 0.999999, "decay of the first moment"),                   \
        ET_FIELD_FLOAT(type, beta_2, second, 0, 0.9999999, "decay of the second moment")
#define ADAM_MEMBERS(type, eps)                                                                    \
    BETAS(type, 0.999), EPSILON(type, epsilon, eps, "added to the root of the second moment")
#define AMSGRAD(type)                                                                              \
    ET_FIELD_BOOL(type, amsgrad, false, "AMSGrad: divide by the largest second moment so far")
#define MOMENTUM(type, value)                                                                      \
    ET_FIELD_FLOAT(type, momentum, value, 0, 1,                                                    \
                   "momentum: fraction of the last update that is kept; 0: none")
#define NESTEROV(type, value)     ET_FIELD_BOOL(type, nesterov, value, "Nesterov momentum")
#define NAMES(type, member, text) ET_FIELD_STRINGS(type, member, text, .ended = true)
#define NO_DECAY(type)                                                                             \
    NAMES(type, exclude_from_weight_decay, "regular expressions of parameters without weight decay")
#define NO_ADAPTATION(type)                                                                        \
    NAMES(type, exclude_from_layer_adaptation,                                                     \
          "regular expressions of parameters without layer adaptation; none: " ET_NO_DECAY)
#define RATE_DECAY(type)                                                                           \
    ET_FIELD_FLOAT(type, decay, 0, 0, 1, "the rate is divided by 1 + decay * step")
#define JIT_COMPILE(type)                                                                          \
    ET_FIELD_BOOL(type, jit_compile, false, "no effect: updates are always compiled")

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

/* The table of a rule's rows, name_fields, with the name of its setting for messages. */
#define ET_RULE_FIELDS(name_) const et_fields et_rule_##name_##_fields = { #name_, name_##_fields }

/* The first members of a row. */
#define ET_RULE(name_)                                                                             \
    .name = #name_, .fields = &et_rule_##name_##_fields, .size = sizeof(et_##name_), .fused = true

/* The list of lamb and lars; empty: the list for weight decay. */
#define ET_NO_ADAPTATION "exclude_from_layer_adaptation"
#define ET_NO_DECAY      "exclude_from_weight_decay"

#define RULE(ID, name, help) extern const et_optimizer_rule et_rule_##name;
#include "engine/optim/rules/rules.def"
#undef RULE

#endif
