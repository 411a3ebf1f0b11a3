/* Tensors of a Transformer's layers: their names in other programs, and their places in a model's
 * parameters. In Etude, queries, keys and values are columns of one parameter; other programs have
 * a tensor for each. Some programs store a projection as [outputs, inputs], Etude as [inputs,
 * outputs].
 *
 *     et_tensor_map map = { &model, params, ET_NAMES_TRANSFORMERS };
 *     if (et_tensor_map_each(&map, write_one, self, &error)) ...
 *     static int write_one(void *self, const et_mapped_tensor *mapped, et_error *error)
 *     {
 *         et_mapped_tensor_get(mapped, params, values);  mapped->name, mapped->shape
 *     }
 *
 * Tables of embeddings and the bias of the output are not mapped, because programs share them in
 * different ways. */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_TENSOR_MAP_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_TENSOR_MAP_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/nn/transformer.h"
#include "engine/tensor/params.h"

#define ET_MAPPED_NAME_MAX 192

/* Programs with names of tensors: MarianMT of transformers, Marian. */
typedef enum et_tensor_names { ET_NAMES_TRANSFORMERS, ET_NAMES_MARIAN, ET_NAMES } et_tensor_names;

/* A tensor of another program: the columns first, first + 1, ... of an Etude parameter. */
typedef struct et_mapped_tensor {
    char name[ET_MAPPED_NAME_MAX];
    et_shape shape; /* there */
    int param;      /* the parameter in Etude; -1: a bias that the model does not have */
    int64_t first;
    bool turned; /* [outputs, inputs] there */
} et_mapped_tensor;

/* All borrowed. params: of the model, materialized. */
typedef struct et_tensor_map {
    const et_transformer *model;
    et_params *params;
    et_tensor_names names;
} et_tensor_map;

typedef int et_mapped_tensor_fn(void *self, const et_mapped_tensor *mapped, et_error *error);

/* Calls fn for each tensor, encoder first; stops at the first that fails. */
int et_tensor_map_each(const et_tensor_map *map, et_mapped_tensor_fn *fn, void *self,
                       et_error *error);

/* Copies a tensor's values, in the other program's layout, into the parameter and back. A bias that
 * the model does not have is zeros. */
void et_mapped_tensor_put(const et_mapped_tensor *mapped, et_params *params, const float *values);
void et_mapped_tensor_get(const et_mapped_tensor *mapped, et_params *params, float *values);

/* New params with the parameters of a model, declared but without memory. *params: set even on
 * failure. */
int et_transformer_declare(et_params **params, const et_transformer *model, et_error *error);

/* Whether a row of the table of a scope has only zeros, as Marian begins a target. */
bool et_table_row_is_zero(et_params *params, const char *scope, int64_t row);

#endif
