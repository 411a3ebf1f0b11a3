/* Weights by Marian's names (interchange/tensor_map.h, marian_files.h). Tables there have no row of
 * the token that begins a target: it is the last row here, and zeros. */
#include <string.h>

#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"

static int read_table(const et_import_reading *r, const char *name, const char *scope,
                      et_error *error)
{
    et_shape shape;
    const float *values;
    float *table = et_import_param(r, scope, "table", &shape);
    const int64_t rows = shape.size[0] - 1, width = shape.size[1];
    int status = et_weights_file_need(r->file, name, et_shape_2(rows, width), &values, error);
    if (status)
        return status;
    memcpy(table, values, (size_t)(rows * width) * sizeof *table);
    memset(table + rows * width, 0, (size_t)width * sizeof *table);
    return ET_OK;
}

/* Older files have it the other way round. */
static int read_output(const et_import_reading *r, const char *scope, et_error *error)
{
    et_shape shape;
    const float *values;
    if (!et_weights_file_find(r->file, ET_MARIAN_OUTPUT_WIDE, &shape))
        return read_table(r, ET_MARIAN_OUTPUT, scope, error);
    float *table = et_import_param(r, scope, "table", &shape);
    const int64_t rows = shape.size[0] - 1, width = shape.size[1];
    int status = et_weights_file_need(r->file, ET_MARIAN_OUTPUT_WIDE, et_shape_2(width, rows),
                                      &values, error);
    for (int64_t i = 0; i < rows && !status; i++)
        for (int64_t k = 0; k < width; k++)
            table[i * width + k] = values[k * rows + i];
    memset(table + rows * width, 0, (size_t)width * sizeof *table);
    return status;
}

static int read_bias(const et_import_reading *r, const char *scope, et_error *error)
{
    et_shape shape;
    const float *values;
    float *bias = et_import_param(r, scope, "bias", &shape);
    const int64_t count = shape.size[0] - 1;
    int status =
        et_weights_file_need(r->file, ET_MARIAN_BIAS, et_shape_2(1, count), &values, error);
    if (!status)
        memcpy(bias, values, (size_t)count * sizeof *bias);
    bias[count] = 0;
    return status;
}

static int read_tables(const et_import_reading *r, const et_import_facts *facts,
                       const et_transformer *model, et_error *error)
{
    int status;
    if (facts->shared)
        status = read_table(r, ET_MARIAN_SHARED, model->target.scope, error);
    else
        status = read_table(r, ET_MARIAN_OF_ENCODER, model->source.scope, error);
    if (!status && !facts->shared)
        status = read_table(r, ET_MARIAN_OF_DECODER, model->target.scope, error);
    if (!status && !facts->tied)
        status = read_output(r, model->output.scope, error);
    return status ? status : read_bias(r, model->output.scope, error);
}

int et_import_read_marian_tensors(et_import *from, et_params *params, const et_transformer *model,
                                  et_error *error)
{
    et_import_reading r = { .file = from->weights, .params = params };
    const et_tensor_map map = { model, params, ET_NAMES_MARIAN };
    et_weights_file_limit(from->weights, (size_t)et_params_elements(params));
    et_params_begin_change(params);
    int status = read_tables(&r, &from->facts, model, error);
    if (!status)
        status = et_tensor_map_each(&map, et_import_read_mapped, &r, error);
    et_params_changed(params, true);
    return status ? status : et_weights_file_check_seen(from->weights, error);
}
