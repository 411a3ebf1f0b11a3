/* An optimizer, for its own files: optimizer.c (its parts and arrays) and update.c (an update).
 * Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_OPTIMIZER_PRIVATE_H
#define ETUDE_ENGINE_OPTIM_OPTIMIZER_PRIVATE_H

#include "engine/comm/comm.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/options.h"
#include "engine/optim/rules/rule.h"

/* Clipping: limits of a gradient before a rule sees it. A list of clips acts in its order, each on
 * the result of the earlier ones. Norms become factors of the scale that rules multiply gradients
 * with, so they cost no pass; clipped values are written. By norm: Pascanu, Mikolov and Bengio
 * 2013, "On the difficulty of training recurrent neural networks". */
#define ET_CLIPS_MAX 4

typedef enum et_clip_scope {
    ET_CLIP_VALUES,  /* values one by one: min(max(g, -limit), limit) */
    ET_CLIP_TENSORS, /* each tensor: g limit / max(norm, limit) */
    ET_CLIP_ALL,     /* the same by the norm of all */
} et_clip_scope;

typedef struct et_clip {
    et_clip_scope scope;
    double limit; /* above 0 */
} et_clip;

/* The chosen rule, NULL if none is, and its settings. options.c */
const et_optimizer_rule *et_rule_chosen(const et_optimizer_options *options, const void **settings);

/* A rule's clips in order; returns how many. */
int et_rule_clips(const et_optimizer_rule *rule, const void *settings, et_clip clips[ET_CLIPS_MAX]);

/* The weight decay, and expressions for the parameters that decay. False: the rule has none. */
bool et_rule_decay(const et_optimizer_rule *rule, const void *settings, double *decay,
                   et_strings *include, et_strings *exclude);

/* Expressions for the tensors that are not adapted, and their list's name; rule->adapts is set. */
const char *et_rule_adapts(const et_optimizer_rule *rule, const void *settings,
                           et_strings *exclude);

/* The division of a group for an update: tensors, chunks that a rule works on, and blocks for sums
 * of squares. All depend only on the group and the rule, not on threads; so do the sums. */
/* Elements of one piece of work. Its arrays (weight, two slots, gradient, average and shadow: 22
 * bytes per element, 352 KiB) stay in the second-level cache. */
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

/* The part of a group that each rank updates, if an optimizer is divided among ranks: ZeRO stage 1
 * (Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
 * section 5.1). A part is consecutive elements of arrays over the group, about as long as the other
 * parts. If a rule uses whole tensors, a part ends with a tensor. Parts depend only on the group
 * and the number of ranks. A single process has the whole group. */
typedef struct et_optim_owners {
    et_comm *comm; /* borrowed; NULL: this process alone */
    int rank, ranks;
    int64_t *cut;     /* [ranks + 1], owned: rank r has elements cut[r] to cut[r + 1] - 1 */
    et_error failure; /* of sending; status 0: no failure */
} et_optim_owners;

/* This rank's elements of arrays over the group. */
static inline et_range et_optim_own(const et_optim_owners *owners)
{
    return (et_range){ owners->cut[owners->rank], owners->cut[owners->rank + 1] };
}

/* The part of a section in a range of these arrays; count 0: no part. */
static inline et_optim_section et_optim_section_in(const et_optim_section *section, et_range range)
{
    et_optim_section in = *section;
    int64_t before = range.begin > section->packed ? range.begin - section->packed : 0;
    int64_t after = section->packed + section->count - range.end;
    in.begin += before;
    in.packed += before;
    in.count -= before + (after > 0 ? after : 0);
    in.count = in.count > 0 ? in.count : 0;
    return in;
}

/* Assigns chunks of a rule with scratch to OpenMP's present number of threads; additional later
 * ones take part only in common work. A thread does whole chunks, in its own scratch, and takes the
 * next when it is done; there is no barrier in a chunk. Chunks that would delay the others, or that
 * take much scratch, come first, and all threads do them together: the rule divides its loops. Both
 * ways give the same bits. */
typedef struct et_optim_team {
    et_optim_section
        *sections;          /* [count], owned: the chunks of a rank, each part the longest first */
    size_t count, together; /* the first `together` are done so */
    int threads;            /* threads with their own scratch: at most one per chunk */
    float *scratch;         /* [threads][each], owned, or more for chunks that all threads do
                             * together */
    size_t each;            /* whole lines of the cache */
} et_optim_team;

/* The moving average that an optimizer keeps of weights, and of variables on request
 * (et_ema_options): one array with the layout of the store's values, so that the store can point to
 * it. The rules' kernels update the average of weights in the pass that changes them. */
typedef struct et_optim_average {
    et_ema_options options;
    float *data;      /* [size of the store], borrowed from a slot; NULL: no average */
    et_range *ranges; /* [range_count], owned, ascending: elements with an average; variables last
                       */
    int *variables;   /* [variable_count], owned: in the store, ascending by place */
    int range_count, variable_count;
} et_optim_average;

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

#endif
