/* What an update rule is: the class behind optimizer.h. A rule sees one chunk of the flat
 * arrays at a time; chunks are updated in parallel, so it keeps no state but slots.
 * Private to this folder. */
#ifndef ETUDE_OPTIM_RULE_H
#define ETUDE_OPTIM_RULE_H

#include <etude/dtype.h>

#include "kernel/kernels.h"
#include "optim/options.h"

/* Arrays that a rule may keep beside the weights: Adam's two moments. */
#define ET_RULE_SLOTS_MAX 2

/* Numbers of one update, the same for all chunks. */
typedef struct et_rule_step {
    int64_t iterations;   /* updates done before this one */
    double rate;          /* of the schedule */
    float gradient_scale; /* caller's scale times clipping */
    float average_decay;
} et_rule_step;

/* A chunk of the flat arrays. */
typedef struct et_rule_chunk {
    float *weight;
    float *slot[ET_RULE_SLOTS_MAX]; /* in the class's order; NULL past its count */
    const float *gradient;
    et_bf16 *shadow; /* NULL: none */
    float *average;  /* NULL: none, or it is to be a copy */
    int64_t count;   /* elements of each array */
    bool decays;     /* weight decay applies here */
} et_rule_chunk;

/* What the kernels are told of a chunk, whatever the rule; decay: what a weight loses of itself. */
static inline et_slice_update et_rule_update(const et_rule_step *step, const et_rule_chunk *chunk,
                                             float decay)
{
    return (et_slice_update){ .weight = chunk->weight,
                              .gradient = chunk->gradient,
                              .shadow = chunk->shadow,
                              .average = chunk->average,
                              .decay = decay,
                              .gradient_scale = step->gradient_scale,
                              .average_decay = step->average_decay,
                              .count = chunk->count };
}

/* A rule is a row: what it keeps, where it clips, what it does to a chunk. Methods take all
 * the options and look at their own struct. update is called from several threads at once. */
typedef struct et_rule_class {
    const char *name;
    /* Names of the slots that these options need; returns how many. */
    int (*slots)(const et_optimizer_options *options, const char *names[ET_RULE_SLOTS_MAX]);
    /* Largest gradient norm; 0: any. */
    double (*clip_norm)(const et_optimizer_options *options);
    void (*update)(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk);
} et_rule_class;

extern const et_rule_class et_rule_sgd;
extern const et_rule_class et_rule_adam;
extern const et_rule_class et_rule_adamw;

#endif
