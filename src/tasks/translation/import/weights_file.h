/* A file of weights of another program: safetensors, PyTorch's, numpy's, Marian's. Its tensors are
 * read one by one, as float32. Remembers which were read, so that a tensor that belongs to nothing
 * is noticed.
 *
 *     et_weights_file *file;
 *     if (et_weights_file_open(&file, "model.safetensors", &error)) ...
 *     if (et_weights_file_need(file, "final_logits_bias", shape, &values, &error)) ...
 *     if (et_weights_file_check_seen(file, &error)) ...
 *     et_weights_file_close(file);
 *
 * One thread at a time. */
#ifndef ETUDE_TASKS_TRANSLATION_IMPORT_WEIGHTS_FILE_H
#define ETUDE_TASKS_TRANSLATION_IMPORT_WEIGHTS_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>
#include <etude/tensor.h>

#include "formats/marian/marian_model.h"
#include "formats/numpy/npz.h"

typedef struct et_weights_file et_weights_file;

/* A file whose name ends in ".safetensors", else one of PyTorch's. ET_EFORMAT: damaged, or another
 * file. */
int et_weights_file_open(et_weights_file **out, const char *path, et_error *error);

/* The same of arrays of numpy, which become the file's, also after a failure. Arrays of bytes
 * ("special:...") are no tensors. */
int et_weights_file_take_npz(et_weights_file **out, et_npz *npz, const char *path, et_error *error);

/* The same of a binary model of Marian. Multipliers of rows (ET_MARIAN_MULTIPLIER) need not be
 * read.
 */
int et_weights_file_take_marian(et_weights_file **out, et_marian_model *model, const char *path,
                                et_error *error);
void et_weights_file_close(et_weights_file *file); /* NULL allowed */

/* Whether there is a tensor of the name, and its shape. Of two with one name the last counts. */
bool et_weights_file_find(const et_weights_file *file, const char *name, et_shape *shape);

/* The next tensor from number *i on whose name has an ending; NULL: there is none. *i: 0 at first.
 */
const char *et_weights_file_next(const et_weights_file *file, const char *ending, size_t *i);

/* "float16" or "bfloat16" if all tensors except these [count] have this type; else NULL. */
const char *et_weights_file_precision(const et_weights_file *file, const char *const *except,
                                      size_t count);

/* Tensors of more elements are refused by all reads: a file may claim any size. */
void et_weights_file_limit(et_weights_file *file, size_t elements);

/* The values of a tensor, which must be there; borrowed until the next read. ET_EFORMAT: no such
 * tensor, or it is not of float32, float16 or bfloat16, has values that are not finite, or is too
 * large. */
int et_weights_file_read(et_weights_file *file, const char *name, const float **values,
                         et_error *error);

/* The same of a tensor that must have a shape, which the settings of the model give. */
int et_weights_file_need(et_weights_file *file, const char *name, et_shape shape,
                         const float **values, et_error *error);

/* ET_EFORMAT names a tensor that was never read. */
int et_weights_file_check_seen(const et_weights_file *file, et_error *error);

/* "PATH: NAME WHAT" */
int et_weights_file_refuse(const et_weights_file *file, const char *name, const char *what,
                           et_error *error);

#endif
