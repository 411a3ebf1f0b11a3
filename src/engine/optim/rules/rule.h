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

#include "engine/kernel/kernels.h"
#include "engine/optim/rules/clip.h"
#include "engine/optim/rules/rule_options.h"

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

/* The chosen rule, NULL if none is, and its settings. rule_table.c */
const et_optimizer_rule *et_rule_chosen(const et_optimizer_options *options, const void **settings);

/* Etude's rule number i, from 0, with its settings; NULL after the last. */
const et_optimizer_rule *et_rule_number(const et_optimizer_options *options, int i,
                                        const void **settings);

/* The member of a rule's settings that a row of this kind describes; NULL: its table has no such
 * row. */
const void *et_rule_member(const et_optimizer_rule *rule, const void *settings, const char *name,
                           et_field_kind kind);

/* A rule's clips in order; returns how many. */
int et_rule_clips(const et_optimizer_rule *rule, const void *settings, et_clip clips[ET_CLIPS_MAX]);

/* The weight decay, and expressions for the parameters that decay. False: the rule has none. */
bool et_rule_decay(const et_optimizer_rule *rule, const void *settings, double *decay,
                   et_strings *include, et_strings *exclude);

/* Expressions for the tensors that are not adapted, and their list's name; rule->adapts is set. */
const char *et_rule_adapts(const et_optimizer_rule *rule, const void *settings,
                           et_strings *exclude);

#endif
