/* Where tensors of another program go: the parameters of the model. */
#include <stdio.h>

#include "base/assert.h"
#include "tasks/translation/import/import_private.h"

float *et_import_param(const et_import_reading *r, const char *scope, const char *name,
                       et_shape *shape)
{
    char whole[ET_MAPPED_NAME_MAX];
    snprintf(whole, sizeof whole, "%s/%s", scope, name);
    const int i = et_params_find(r->params, whole);
    et_assert(i >= 0);
    *shape = et_params_shape(r->params, i);
    return et_params_values(r->params) + et_params_offset(r->params, i);
}

int et_import_read_mapped(void *self, const et_mapped_tensor *mapped, et_error *error)
{
    const et_import_reading *r = self;
    const float *values;
    int status = et_weights_file_need(r->file, mapped->name, mapped->shape, &values, error);
    if (!status)
        et_mapped_tensor_put(mapped, r->params, values);
    return status;
}
