/* The contents of a checkpoint, collected before they are shown: sizes by purpose, parameters by
 * block, the verdict of every checksum.
 *
 *     et_inspection it;
 *     et_inspection_open(&it, path, &error);
 *     ... it.blocks[i].elements, it.damaged ...
 *     et_inspection_close(&it);
 */
#ifndef ETUDE_COMMAND_RUNS_INSPECTION_H
#define ETUDE_COMMAND_RUNS_INSPECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/value.h>

#include "formats/safetensors/safetensors.h"

/* What tensors of a checkpoint are for (train/checkpoint/state.h). */
typedef enum et_inspection_part {
    ET_INSPECTION_WEIGHTS,
    ET_INSPECTION_AVERAGE,
    ET_INSPECTION_OPTIMIZER,
    ET_INSPECTION_EXPORT, /* of one file: its texts, and scales of narrow weights */
    ET_INSPECTION_PARTS
} et_inspection_part;

/* Weights with a common prefix: "encoder/layer_0" for encoder/layer_0/output/weight, "hidden_0" for
 * hidden_0/weight. Consecutive blocks that differ only in one number of their names are one. */
typedef struct et_inspection_block {
    char *name;       /* of the first; owned */
    int64_t last;     /* number of the last; -1: a single block */
    int64_t blocks;   /* in a row */
    int64_t tensors;  /* of each */
    int64_t elements; /* of each */
} et_inspection_block;

typedef struct et_inspection {
    char *path; /* owned */
    et_safetensors *file;
    int64_t elements; /* of all tensors */
    int64_t weights;  /* elements of weights */
    uint64_t bytes[ET_INSPECTION_PARTS];
    et_inspection_block *blocks; /* [block_count], owned, in the order of the data */
    size_t block_count, block_capacity;
    bool *wrong;     /* [tensors of the file] differs from its checksum; owned */
    size_t damaged;  /* how many do */
    et_error fault;  /* of the first of them */
    et_arena *arena; /* of state */
    et_value *state; /* the state tree; NULL: none */
    uint64_t file_bytes;
} et_inspection;

/* Reads every byte. ET_ENOTFOUND, ET_EFORMAT: no such file, none of named tensors. A tensor that is
 * damaged is no error here. */
int et_inspection_open(et_inspection *it, const char *path, et_error *error);

void et_inspection_close(et_inspection *it); /* zeros are fine */

/* For people: sizes; parameters by block; every tensor with its verdict and the state tree, or the
 * damaged ones alone. */
int et_inspection_print(const et_inspection *it, bool all, et_error *error);

/* For people: sizes; parameters by block; every tensor with its verdict and the state tree, or only
 * the damaged tensors. */
void et_inspection_describe(const et_inspection *it, et_value *dict, bool tensors);

#endif
