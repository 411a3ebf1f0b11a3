/* An update rule: a class that updates one chunk of the flat arrays at a time. Chunks are updated
 * in parallel, so a rule has no state except slots. Private to this folder.
 *
 * Most rules only need single elements. If a rule needs norms of tensors (LARS, LAMB), each chunk
 * is within one tensor, and a previous pass adds up the sums of each tensor. If a rule has slots of
 * another shape (Adafactor's rows and columns), chunks are whole tensors. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_RULE_H
#define ETUDE_ENGINE_OPTIM_RULES_RULE_H

#include <etude/dtype.h>
#include <etude/group.h>

#include "engine/kernel/kernels.h"
#include "engine/optim/clip.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/options.h"

/* Slots that a rule may keep in addition to the weights, and sums of a tensor that it may
 * request. */
#define ET_RULE_SLOTS_MAX 4
#define ET_RULE_SUMS_MAX  2

/* The cuts between chunks. */
typedef enum et_rule_granularity {
    ET_RULE_ELEMENTS, /* anywhere: a chunk may contain padding and several small tensors */
    ET_RULE_TENSORS,  /* within a tensor, without its padding */
    ET_RULE_WHOLE,    /* a tensor is a chunk, except those whose `scratch` is 0 */
} et_rule_granularity;

typedef struct et_rule_slot {
    const char *name; /* in checkpoints; one name has one meaning in all rules: "momentum" is added
                         to the weight, its rate included */
    /* The slot's shape for a parameter's; false: it has none. NULL: the same shape; another shape
     * is only for rules of whole tensors. */
    bool (*shape)(et_shape parameter, bool adapts, et_shape *slot);
    float initial; /* each element, before the first update */
} et_rule_slot;

/* Numbers of one update, the same for all chunks. */
typedef struct et_rule_step {
    int64_t iterations;   /* updates done before this one */
    int64_t slot_updates; /* of them, those since the slots began */
    float average_decay;
} et_rule_step;

/* A chunk of the flat arrays. */
typedef struct et_rule_chunk {
    float *weight;
    float *slot[ET_RULE_SLOTS_MAX]; /* in the class's order, from the chunk's first element on; a
                                     * slot with another shape than the tensor's as a whole; NULL
                                     * past their count and for a missing slot */
    float *gradient;                /* used up: a rule may write its result here */
    et_bf16 *shadow;                /* NULL: none */
    float *average;                 /* NULL: none, or it is to be a copy */
    int64_t count;                  /* elements of weight, gradient, shadow and average */
    double rate;                    /* of the schedule, times the parameters' multiplier */
    float gradient_scale;           /* caller's scale times clipping */
    double decay;                   /* weight decay here; 0: none */
    bool adapts;                    /* the rule's work on whole tensors applies here (`adapt`) */
    float *scratch;                 /* at least the size that `scratch` returned; NULL without it */
    const et_shape *shape;          /* of the tensor; these three not for ET_RULE_ELEMENTS */
    int64_t first;                  /* element of the tensor that the chunk begins with */
    const double *sums;             /* [ET_RULE_SUMS_MAX]: what `before` added up for the tensor */
} et_rule_chunk;

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

/* Layer adaptation: the list of excluded tensors, the rule's own or else weight decay's, and that
 * list's name. */
static inline const char *et_rule_adaptation(et_strings *exclude, const et_strings *own,
                                             const et_strings *from_decay)
{
    *exclude = own->count ? *own : *from_decay;
    return own->count ? "exclude_from_layer_adaptation" : "exclude_from_weight_decay";
}

/* For its norms: sums[0] of weights, sums[1] of the gradient after `before`. */
static inline void et_rule_add_squares(const et_kernels *kernels, const et_rule_chunk *chunk,
                                       double sums[ET_RULE_SUMS_MAX])
{
    if (!chunk->adapts)
        return;
    sums[0] += kernels->sum_of_squares(chunk->weight, chunk->count);
    sums[1] += kernels->sum_of_squares(chunk->gradient, chunk->count);
}

/* w -= decay w + rate g, with g in the chunk's gradient. */
static inline void et_rule_move(const et_kernels *kernels, const et_rule_step *step,
                                const et_rule_chunk *chunk, double rate, double decay)
{
    et_slice_update update = et_rule_update(step, chunk, (float)decay);
    update.gradient_scale = 1;
    kernels->sgd(&update, &(et_momentum){ .rate = (float)rate });
}

/* A rule is a row: its slots, its clips, its work on a chunk. Methods take all the options and look
 * at their own struct. before and update are called from several threads. */
typedef struct et_rule_class {
    const char *name;
    et_rule_granularity cut;
    bool writes; /* writes into gradients; they are cleared afterwards, since a pass writes only
                  * those that its loss reaches, and others stay zero */
    /* The slots that these options need; returns how many. */
    int (*slots)(const et_optimizer_options *options, et_rule_slot slots[ET_RULE_SLOTS_MAX]);
    /* Clips in order; returns how many. NULL: et_rule_usual_clips. */
    int (*clips)(const et_optimizer_options *options, et_clip clips[ET_CLIPS_MAX]);
    /* The weight decay, and expressions that say which parameters decay. NULL: the rule has none.
     */
    double (*decay)(const et_optimizer_options *options, et_strings *include, et_strings *exclude);
    /* Expressions for the parameters that the rule's work on whole tensors excludes; returns the
     * list's name. NULL: all are excluded. */
    const char *(*adapt)(const et_optimizer_options *options, et_strings *exclude);
    /* Floats of scratch for the update of a tensor, aligned to 64 bytes; 0: none, and its chunks
     * are parts of it. The rule shares out its loops, for chunks of all threads together (team.h).
     * NULL: no tensor needs any. */
    size_t (*scratch)(const et_optimizer_options *options, et_shape parameter, bool adapts);
    /* For every chunk before any weight changes: adds to the tensor's sums, which begin at 0. It
     * may change slots. NULL: no such pass. */
    void (*before)(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk,
                   double sums[ET_RULE_SUMS_MAX]);
    void (*update)(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk);
} et_rule_class;

#define RULE(ID, name, help) extern const et_rule_class et_rule_##name;
#include "engine/optim/rules/rules.def"
#undef RULE

/* The row of rules.def; NULL: ET_OPTIMIZER_NONE. rule_table.c */
const et_rule_class *et_rule_of(int type);

/* et_optimizer_new with a rule that no option names. */
int et_optimizer_new_rule(et_optimizer **out, et_params *params, const et_group *group,
                          const et_kernels *kernels, const et_rule_class *rule,
                          const et_optimization_options *options, et_error *error);

#endif
