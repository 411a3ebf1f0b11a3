/* Reads the pickle of a state dict: names of tensors, and the position of their values. A pickle is
 * a program for a stack machine that may call any Python function. This reader knows the
 * instructions and the few globals that a dict of tensors needs, and refuses every other by name.
 * It calls nothing.
 *
 *     et_pickle pickle = { .bytes = bytes, .length = length, .name = path };
 *     et_arena arena = ET_ARENA_INIT;
 *     if (et_pickle_read_tensors(&pickle, &tensors, &count, &arena, &error)) ...
 *
 * Time and memory are linear in the length of the bytes. Format: Lib/pickletools.py of Python,
 * protocol 2 and those before it; tensors: torch/serialization.py. */
#ifndef ETUDE_FORMATS_TORCH_PICKLE_H
#define ETUDE_FORMATS_TORCH_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

#include "base/arena.h"

typedef struct et_pickle {
    const char *bytes;
    size_t length;
    size_t at;        /* where the next pickle begins; after a read, the end of this pickle */
    const char *name; /* of the file, for messages */
} et_pickle;

/* Types of weights; ET_PICKLE_OTHER: integers, doubles. */
typedef enum et_pickle_type {
    ET_PICKLE_OTHER,
    ET_PICKLE_FLOAT32,
    ET_PICKLE_FLOAT16,
    ET_PICKLE_BFLOAT16,
} et_pickle_type;

/* A run of elements, which tensors can share. */
typedef struct et_pickle_storage {
    const char *key;  /* its name in the archive */
    const char *type; /* "FloatStorage" */
    et_pickle_type kind;
    size_t width;   /* bytes of an element */
    uint64_t count; /* of elements */
} et_pickle_storage;

/* Elements offset .. offset + product of shape - 1 of a storage, in order. */
typedef struct et_pickle_tensor {
    const char *name;
    const et_pickle_storage *storage;
    uint64_t offset;
    et_shape shape;
} et_pickle_tensor;

/* The tensors of a dict, in its order. All lives in arena, and nothing points into bytes.
 * ET_EFORMAT: damaged, or another object; the message names the place and the fault. */
int et_pickle_read_tensors(et_pickle *pickle, et_pickle_tensor **tensors, size_t *count,
                           et_arena *arena, et_error *error);

/* A list of texts. */
int et_pickle_read_texts(et_pickle *pickle, const char ***texts, size_t *count, et_arena *arena,
                         et_error *error);

/* Reads a dict of facts about the writer: *little_endian is its entry with this name. */
int et_pickle_read_order(et_pickle *pickle, bool *little_endian, et_error *error);

#endif
