/* The tensors of an export: those of the layers by their names there, and what a format adds.
 *
 *     et_exported_tensors list = { .params = params };
 *     if (et_exported_tensors_add_layers(&list, &model, ET_NAMES_TRANSFORMERS, &error) ||
 *         et_exported_tensors_add_table(&list, "lm_head.weight", "output", rows, &error)) ...
 *     for (size_t i = 0; i < list.count; i++)
 *         et_mapped_tensor_get(&list.tensors[i], list.params, values);
 *     et_exported_tensors_release(&list);
 */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_EXPORTED_TENSORS_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_EXPORTED_TENSORS_H

#include "tasks/translation/interchange/tensor_map.h"

typedef struct et_exported_tensors {
    et_params *params;         /* borrowed */
    et_mapped_tensor *tensors; /* [count] owned */
    size_t count, capacity;
    int64_t most; /* elements of the largest */
} et_exported_tensors;

void et_exported_tensors_release(et_exported_tensors *list);

int et_exported_tensors_add(et_exported_tensors *list, const et_mapped_tensor *mapped,
                            et_error *error);
int et_exported_tensors_add_layers(et_exported_tensors *list, const et_transformer *model,
                                   et_tensor_names names, et_error *error);

/* The first rows of the table of a scope. */
int et_exported_tensors_add_table(et_exported_tensors *list, const char *name, const char *scope,
                                  int64_t rows, et_error *error);

/* The first values of the bias of a scope, [1, count]; zeros if the model has none. */
int et_exported_tensors_add_bias(et_exported_tensors *list, const char *name, const char *scope,
                                 int64_t count, et_error *error);

#endif
