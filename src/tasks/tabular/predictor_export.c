/* A model for use alone: what rows are encoded by and what the model is, as it was read, beside its
 * weights (train/model_export.h). */
#include <etude/model_export.h>

#include <string.h>

#include "base/alloc.h"
#include "base/reserved.h"
#include "onnx/batches.h"
#include "tasks/tabular/predictor_private.h"

static int write_own(const et_predictor *p, const char *path, const char *precision,
                     et_error *error)
{
    const et_table_model *from = p->model;
    const et_model_export model = { .texts = from->text,
                                    .count = ET_TABLE_TEXTS,
                                    .params = from->params,
                                    .step = from->step,
                                    .identity = from->identity,
                                    .precision = precision };
    return et_model_export_write(&model, path, error);
}

/* offset + scale x value in doubles, as a predictor has it. */
static const char *put_output(void *payload, et_onnx *to, const char *name, const char *value,
                              et_onnx_type *type)
{
    const et_predictor *p = payload;
    const int64_t count = p->model->unit_count;
    if (p->values < 0 || strcmp(name, p->output[p->values].name) != 0)
        return value;
    double *numbers = et_alloc(2 * (size_t)count, sizeof *numbers);
    if (!numbers)
        return NULL;
    for (int64_t k = 0; k < count; k++) {
        numbers[k] = p->model->units[k].offset;
        numbers[count + k] = p->model->units[k].scale;
    }
    const char *wide = et_onnx_call(to, "Cast", value);
    et_onnx_set_int(to, "to", ET_ONNX_F64);
    wide = et_onnx_call(to, "Mul", wide, et_onnx_doubles(to, numbers + count, count));
    wide = et_onnx_call(to, "Add", wide, et_onnx_doubles(to, numbers, count));
    et_free(numbers);
    *type = ET_ONNX_F64;
    return wide;
}

static int write_onnx(const et_predictor *p, const char *path, const char *precision,
                      et_error *error)
{
    if (precision && strcmp(precision, "float32") != 0)
        return et_fail(error, ET_ECONFIG, "precision %s: ONNX is written in float32 alone",
                       precision);
    const et_onnx_edges edges = { .output = put_output, .payload = (void *)p };
    return et_onnx_export_batches(path, p->model->params, &p->layout, p->model->build,
                                  p->model->payload, &edges, error);
}

int et_predictor_export_as(const et_predictor *p, const char *path,
                           const et_export_options *options, et_error *error)
{
    static const et_export_options defaults = { 0 };
    const et_export_options *o = options ? options : &defaults;
    int status = et_options_check(o, "et_export_options", error);
    if (status)
        return status;
    if (!o->format)
        return write_own(p, path, o->precision, error);
    return strcmp(o->format, "onnx")
               ? et_fail(error, ET_ECONFIG, "format %s: of tables there is onnx, or none",
                         o->format)
               : write_onnx(p, path, o->precision, error);
}

int et_predictor_export(const et_predictor *p, const char *path, et_error *error)
{
    return et_predictor_export_as(p, path, NULL, error);
}
