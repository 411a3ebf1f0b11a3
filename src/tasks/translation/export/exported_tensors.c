#include "tasks/translation/export/export_private.h"

#include <stdio.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"

void et_export_warn_norms(const et_transformer *model, const char *program, float there)
{
    et_assert(model && program);
    const float encoder = model->encoder.norm_epsilon, decoder = model->decoder.norm_epsilon;
    if (encoder != there || decoder != there)
        et_log(ET_LOG_WARNING,
               "task.model.%s.norm_epsilon is %g, but norms of %s add %g, so results there differ "
               "in the last digits",
               encoder != there ? "encoder" : "decoder",
               (double)(encoder != there ? encoder : decoder), program, (double)there);
}

void et_exported_tensors_release(et_exported_tensors *list)
{
    et_free(list->tensors);
    *list = (et_exported_tensors){ .params = list->params };
}

int et_exported_tensors_add(et_exported_tensors *list, const et_mapped_tensor *mapped,
                            et_error *error)
{
    et_assert(list->params && mapped);
    const int64_t elements = et_shape_count(mapped->shape);
    if (!ET_VECTOR_APPEND(list->tensors, list->count, list->capacity, *mapped))
        return et_alloc_failed(error, "a list of tensors");
    list->most = elements > list->most ? elements : list->most;
    return ET_OK;
}

static int add_one(void *self, const et_mapped_tensor *mapped, et_error *error)
{
    return et_exported_tensors_add(self, mapped, error);
}

int et_exported_tensors_add_layers(et_exported_tensors *list, const et_transformer *model,
                                   et_tensor_names names, et_error *error)
{
    et_assert(list->params && model);
    const et_tensor_map map = { model, list->params, names };
    return et_tensor_map_each(&map, add_one, list, error);
}

static int add_named(et_exported_tensors *list, const char *name, const char *scope,
                     const char *param, et_shape shape, et_error *error)
{
    et_mapped_tensor mapped = { .shape = shape,
                                .param =
                                    et_params_find_printf(list->params, "%s/%s", scope, param) };
    snprintf(mapped.name, sizeof mapped.name, "%s", name);
    return et_exported_tensors_add(list, &mapped, error);
}

int et_exported_tensors_add_table(et_exported_tensors *list, const char *name, const char *scope,
                                  int64_t rows, et_error *error)
{
    const int i = et_params_find_printf(list->params, "%s/table", scope);
    et_assert(i >= 0);
    const et_shape whole = et_params_shape(list->params, i);
    et_assert(rows <= whole.size[0]);
    return add_named(list, name, scope, "table", et_shape_2(rows, whole.size[1]), error);
}

int et_exported_tensors_add_tables(et_exported_tensors *list, const et_exported_table *tables,
                                   int count, et_error *error)
{
    int status = ET_OK;
    for (const et_exported_table *t = tables; t < tables + count && !status; t++)
        if (!t->left_out)
            status = et_exported_tensors_add_table(list, t->name, t->scope, t->rows, error);
    return status;
}

int et_exported_tensors_add_bias(et_exported_tensors *list, const char *name, const char *scope,
                                 int64_t count, et_error *error)
{
    et_assert(count > 0);
    return add_named(list, name, scope, "bias", et_shape_2(1, count), error);
}
