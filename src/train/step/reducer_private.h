/* The tree of reducer.c, for ranked.c. */
#ifndef ETUDE_TRAIN_STEP_REDUCER_PRIVATE_H
#define ETUDE_TRAIN_STEP_REDUCER_PRIVATE_H

#include "train/step/reducer.h"

/* Most sums at once, with 2^31 shards: per level of the tree one sum at each end of the range. */
#define ET_TREE_DEPTH 64

/* The sum of shards first to first + count - 1. */
typedef struct et_tree_node {
    int first, count, slot;
} et_tree_node;

typedef struct et_tree_slot {
    float *array; /* [trained + means]; with one shard [means] */
    double loss, divisor;
    et_measured *measured; /* [measures] */
} et_tree_slot;

typedef struct et_tree {
    et_reducer reducer;
    et_params *params; /* borrowed, as gradients, which are its, and kernels */
    float *gradients;
    const et_kernels *kernels;
    int64_t trained, means; /* elements of a slot's two parts */
    int measures, tracks;
    et_tree_slot slots[ET_TREE_DEPTH]; /* [slot_count] */
    int slot_count;
    et_measured *block;                /* what measured of all slots point into */
    et_tree_node stack[ET_TREE_DEPTH]; /* [depth]: from left to right, no two of them siblings */
    int depth;
    int free[ET_TREE_DEPTH], free_count; /* slots */
    int next;                            /* shard to come */
} et_tree;

/* A tree that adds shards first to end - 1 of `shards`; their sums are the nodes of its stack. */
int et_tree_open_part(et_tree **out, const et_pass *pass, int shards, int first, int end,
                      et_error *error);

/* Whether two sums are the two halves of one sum in the tree of `shards` shards. */
bool et_tree_siblings(int shards, et_tree_node left, et_tree_node right);

/* A move while a shard is added: its gradients (from -1), or another slot, are added into a
 * slot. */
typedef struct et_tree_move {
    int to, from;
    bool adds; /* false: takes their place */
} et_tree_move;

typedef struct et_tree_moves {
    et_tree_move move[ET_TREE_DEPTH + 1];
    int count;
} et_tree_moves;

/* Adds the next shard, in two parts. push changes the stack and returns the moves between slots
 * that produce its sums. Then the moves are made: for gradients first to end - 1, range by range as
 * they become final, and once for everything else. */
void et_tree_push(et_tree *self, int shard, et_tree_moves *moves);
void et_tree_move_gradients(const et_tree *self, const et_tree_moves *moves, int64_t first,
                            int64_t end);
void et_tree_move_rest(et_tree *self, const et_tree_moves *moves, const et_pass *pass);

/* Whether the loss and all gradients of a pass are finite. */
bool et_tree_is_finite(const et_tree *tree, const et_pass *pass);

/* The stack after shards first to end - 1 were added: its nodes (NULL: not wanted). Returns its
 * depth; *most: the greatest depth so far. */
int et_tree_nodes(int shards, int first, int end, et_tree_node *nodes, int *most);

/* The sum of all, in the slot at that place, as a reducer gives it. */
void et_tree_give(et_tree *self, int index, et_reduced *out);

#endif
