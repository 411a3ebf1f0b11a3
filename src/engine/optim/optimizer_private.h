/* An optimizer, for its own files: optimizer.c (its parts and getters), slots.c (its arrays),
 * update.c (an update). Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_OPTIMIZER_PRIVATE_H
#define ETUDE_ENGINE_OPTIM_OPTIMIZER_PRIVATE_H

#include "engine/optim/average.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/owners.h"
#include "engine/optim/rules/clip.h"
#include "engine/optim/schedule.h"
#include "engine/optim/slot_layout.h"
#include "engine/optim/team.h"

/* The parts of a slot for a rule: the beginning of each tensor's part. */
typedef struct et_slot_offsets {
    int64_t *at; /* [tensors], owned; -1: this rank has no slot for it; NULL: the slot has the
                  * group's layout, from this rank's part on */
} et_slot_offsets;

struct et_optimizer {
    const et_optimizer_rule *rule;
    void *settings; /* [rule->size] of the rule, owned; their lists and texts only during new */
    et_schedule schedule;
    et_regularization_options regularization;
    double rate_override;      /* replaces the rate; NaN: none */
    const et_kernels *kernels; /* borrowed, static */
    et_params *params;         /* borrowed */
    float *weights;            /* the store's own */
    int64_t iterations;        /* updates done, 0 before the first */
    int64_t slots_from;        /* iterations when the rule's slots began */
    bool held;                 /* slots are referenced */
    const et_group *limit;     /* what changes; borrowed. NULL: all */
    et_optim_layout layout;
    et_optim_owners owners;
    et_clip clips[ET_CLIPS_MAX];
    int clip_count;
    bool by_tensor;      /* a clip asks for norms of tensors */
    double *partial;     /* [blocks or chunks x ET_RULE_SUMS_MAX]: sums of a pass, by piece */
    double *tensor_sums; /* [tensors x ET_RULE_SUMS_MAX]: the rule's */
    double *squares;     /* [tensors]: of gradients, where by_tensor */
    double *factors;     /* [tensors]: of the gradient's scale, where by_tensor */
    et_optim_team team;  /* of a rule with scratch */
    int rule_slots, slot_count;
    et_slot slots[ET_RULE_SLOTS_MAX + 1]; /* the rule's, then the average */
    et_slot_offsets offsets[ET_RULE_SLOTS_MAX];
    et_slot_part *parts; /* [part_count], owned */
    int part_count;
    int64_t *cuts; /* [most parts x (ranks + 1)], owned: where parts point; NULL: one rank */
    float initial[ET_RULE_SLOTS_MAX]; /* of the rule's slots */
    et_optim_average average;
};

/* slots.c. Slots, average and scratch of this rank's elements (optimizer->owners). After a failure,
 * everything made so far is freed with the rest. */
int et_optimizer_make_slots(et_optimizer *optimizer, et_error *error);
void et_optimizer_free_slots(et_optimizer *optimizer);

/* As it began. */
void et_optimizer_fill_slot(et_optimizer *optimizer, int slot);

#endif
