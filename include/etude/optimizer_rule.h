/* Update rules: rules of the program's own for optimizers (optimizer.h). A rule is a const class
 * with the table of its settings, its slots, and the update of a chunk of the parameters. Schedule,
 * clipping, weight decay, parameter groups, averages, ranks and checkpoints are Etude's.
 *
 *     typedef struct momentum_options { double beta; } momentum_options;
 *     static const et_field rows[] = {
 *         ET_FIELD_FLOAT(momentum_options, beta, 0.9, 0, 1, "what remains of m"), ET_FIELD_END };
 *     static const et_fields momentum_fields = { "own_momentum", rows };
 *     static int momentum_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
 *     { slots[0].name = "own_m"; return 1; }
 *     static void momentum_update(const void *options, const et_rule_step *step,
 *                                 const et_rule_chunk *chunk)
 *     {
 *         const float beta = (float)((const momentum_options *)options)->beta;
 *         for (int64_t i = 0; i < chunk->count; i++) {
 *             chunk->slot[0][i] = beta * chunk->slot[0][i] + chunk->gradient[i];
 *             chunk->weight[i] -= (float)chunk->rate * chunk->slot[0][i];
 *         }
 *     }
 *     static const et_optimizer_rule own_momentum = { .name = "own_momentum",
 *         .fields = &momentum_fields, .size = sizeof(momentum_options),
 *         .slots = momentum_slots, .update = momentum_update };
 *     static const et_optimizer_rule *const rules[] = { &own_momentum, NULL };
 *     et_optimizer_setup setup = { .rules = rules, .rule = "own_momentum",
 *                                  .settings = "optimizer: {own_momentum: {beta: 0.8}}" };
 *
 * For settings of the command and of et_task_open, set et_task_kind.rules (experiment.h). */
#ifndef ETUDE_OPTIMIZER_RULE_H
#define ETUDE_OPTIMIZER_RULE_H

#include <math.h>

#include <etude/dtype.h>
#include <etude/fields.h>
#include <etude/tensor.h>

/* Limits: slots of a rule, sums of a tensor, rules of a program. */
#define ET_RULE_SLOTS_MAX 4
#define ET_RULE_SUMS_MAX  2
#define ET_OWN_RULES_MAX  8

/* The cuts between chunks. They depend only on the parameters, never on the number of threads. */
typedef enum et_rule_granularity {
    ET_RULE_TENSORS,  /* within a tensor */
    ET_RULE_WHOLE,    /* a tensor is a chunk, except those whose `scratch` is 0 */
    ET_RULE_ELEMENTS, /* anywhere: a chunk may contain several tensors, and zeros between them,
                         which must remain zero. The fastest for many small tensors */
} et_rule_granularity;

typedef struct et_rule_slot {
    const char *name; /* in checkpoints; static. One name has one meaning in all rules: "momentum"
                         is added to the weight, its rate included */
    /* The slot's shape for a parameter's; false: it has none. NULL: the same shape; another shape
     * is only for ET_RULE_WHOLE. */
    bool (*shape)(et_shape parameter, bool adapts, et_shape *slot);
    float initial; /* each element, before the first update */
} et_rule_slot;

/* Numbers of one update, the same for all chunks. */
typedef struct et_rule_step {
    int64_t iterations;   /* updates done before this one */
    int64_t slot_updates; /* of them, those since the slots began: for a bias correction */
    float average_decay;  /* internal */
    const struct et_kernels *kernels; /* internal */
} et_rule_step;

/* A chunk of the parameters. */
typedef struct et_rule_chunk {
    float *weight;                  /* [count]: to change */
    float *slot[ET_RULE_SLOTS_MAX]; /* [count] each, in the rule's order; a slot with another shape
                                     * than the tensor's as a whole; NULL past their number and for
                                     * a missing slot */
    float *gradient;                /* [count]: mean gradient, clipped. The rule may write to it */
    int64_t count;                  /* elements */
    double rate;           /* learning rate: the schedule's, times the group's multiplier */
    double decay;          /* weight decay of these parameters; 0: none */
    bool adapts;           /* no expression of the list `adapts` matches the tensor's name */
    float *scratch;        /* at least the size that `scratch` returned; NULL without it */
    const et_shape *shape; /* of the tensor; the last three not for ET_RULE_ELEMENTS */
    int64_t first;         /* element of the tensor that the chunk begins with */
    const double *sums;    /* [ET_RULE_SUMS_MAX]: sums of `before` over the tensor */
    /* internal, of fused rules */
    et_bf16 *shadow;
    float *average;
    float gradient_scale;
} et_rule_chunk;

/* Methods get the rule's settings, a struct that `fields` describes. In before and update only its
 * numbers are valid, because texts and lists have been freed. Several threads call before and
 * update at once, each for another chunk; results must depend only on the arguments. */
typedef struct et_optimizer_rule {
    const char *name; /* of the choice in settings: optimizer_config.optimizer.type=own_momentum */
    /* Settings under optimizer_config.optimizer.<name>; NULL: none. These rows act by their names,
     * without code of the rule: clipvalue, clipnorm, global_clipnorm (ET_RULE_CLIPS);
     * weight_decay_rate, which becomes et_rule_chunk.decay (ET_RULE_DECAY), with
     * exclude_from_weight_decay (ET_RULE_NO_DECAY) and include_in_weight_decay. Lists whose names
     * begin with exclude_from_ or include_in_ are regular expressions that are searched in names of
     * parameters. */
    const et_fields *fields;
    size_t size; /* of the struct */
    et_rule_granularity cut;
    const char *adapts; /* row of a list of tensors that the rule treats another way, for example
                           without their norm: et_rule_chunk.adapts is false there. NULL: false
                           everywhere */
    bool writes;        /* internal: writes into gradients */
    bool fused;         /* internal: scales gradients, and writes shadow and average, itself */
    /* The slots for these settings; returns their number. NULL: none. */
    int (*slots)(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX]);
    /* For ET_RULE_WHOLE: floats of scratch for the update of a tensor. 0: no scratch, and the
     * tensor may be cut into chunks. NULL: no scratch, and tensors stay whole. */
    size_t (*scratch)(const void *options, et_shape parameter, bool adapts);
    /* For every chunk before any weight changes: adds to the tensor's sums, which begin at 0. It
     * may change slots and gradient. NULL: no such pass. */
    void (*before)(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                   double sums[ET_RULE_SUMS_MAX]);
    void (*update)(const void *options, const et_rule_step *step, const et_rule_chunk *chunk);
} et_optimizer_rule;

/* Rows of a rule's table, for members of the same names, with the default of global_clipnorm. */
#define ET_RULE_CLIPS(type, value)                                                                 \
    ET_FIELD_FLOAT(type, clipvalue, 0, 0, HUGE_VAL,                                                \
                   "maximal absolute value of a gradient element; 0: no limit", .nullable = true), \
        ET_FIELD_FLOAT(type, clipnorm, 0, 0, HUGE_VAL,                                             \
                       "maximal L2 norm of a parameter's gradient; 0: no limit",                   \
                       .nullable = true),                                                          \
        ET_FIELD_FLOAT(type, global_clipnorm, value, 0, HUGE_VAL,                                  \
                       "maximal global L2 norm of the gradient; 0: no limit", .nullable = true)
#define ET_RULE_DECAY(type, member)                                                                \
    ET_FIELD_FLOAT(                                                                                \
        type, member, 0, 0, 1e6,                                                                   \
        "decoupled weight decay: each step subtracts learning rate * this * weight; 0: none")
#define ET_RULE_NO_DECAY(type)                                                                     \
    ET_FIELD_STRINGS(type, exclude_from_weight_decay,                                              \
                     "regular expressions of parameters without weight decay")

#endif
