/* The division of a group for an update: tensors, chunks that a rule works on, and blocks for sums
 * of squares. All depend only on the group and the rule, not on threads; so do the sums. Private to
 * this folder. */
#ifndef ETUDE_ENGINE_OPTIM_SLOT_LAYOUT_H
#define ETUDE_ENGINE_OPTIM_SLOT_LAYOUT_H

#include "engine/optim/rules/rule.h"

/* Elements of one piece of work: all arrays of it (weight, two slots, gradient, average and
 * shadow: 22 bytes an element, 352 KiB) stay in the second-level cache. */
#define ET_OPTIM_CHUNK 16384

typedef struct et_optim_tensor {
    int param;      /* in the store */
    int64_t begin;  /* in the store's flat arrays */
    int64_t packed; /* in arrays over the group */
    int64_t size;   /* elements, without padding */
    et_shape shape;
    size_t scratch;         /* floats that its update works in */
    bool decays, adapts;    /* by the rule's lists of names */
    double decay;           /* weight decay; 0: none */
    double rate_multiplier; /* of the schedule's rate */
    int group;              /* 1 for the first of parameter_groups, ...; 0: in none */
    bool whole;             /* it is one chunk */
} et_optim_tensor;

/* Part of a range of the group. tensor: the tensor that contains it, or the first of several. */
typedef struct et_optim_section {
    int64_t begin, packed, count;
    int tensor;
} et_optim_section;

typedef struct et_optim_layout {
    et_optim_tensor *tensors; /* [tensor_count], owned, by place */
    et_optim_section *chunks; /* [chunk_count], owned, ascending; all of the group once */
    et_optim_section *blocks; /* [block_count], owned, ascending */
    size_t tensor_count, chunk_count, block_count;
    et_range *ranges; /* [range_count], owned: the group's */
    int range_count;
    int64_t size; /* elements of the group, padding included */
} et_optim_layout;

/* Tensors of a group: nothing decays, adapts or is whole; all have the schedule's rate. */
int et_optim_layout_init(et_optim_layout *layout, const et_group *group, et_error *error);
void et_optim_layout_release(et_optim_layout *layout);

/* Makes chunks from the tensors' members, and blocks, of whole tensors if by_tensor. Call once. */
int et_optim_layout_divide(et_optim_layout *layout, et_rule_granularity how, bool by_tensor,
                           et_error *error);

#endif
