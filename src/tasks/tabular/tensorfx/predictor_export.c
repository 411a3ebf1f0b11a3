/* Exports of predictors: the encoder's texts and the model's settings, as they were read, with the
 * weights (train/checkpoint/artifact/artifact.h). */
#include <etude/model_export.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/onnx/batches.h"
#include "tasks/tabular/tensorfx/predictor_private.h"

static int write_own(const et_predictor *p, const char *path, const char *precision,
                     et_error *error)
{
    const et_table_model *from = p->model;
    const et_artifact_content model = { .texts = from->text,
                                        .count = ET_TABLE_MODEL_TEXTS,
                                        .params = from->params,
                                        .step = from->step,
                                        .identity = from->identity,
                                        .precision = precision };
    return et_artifact_write(&model, path, error);
}

/* ---- ONNX: encoded rows in, predictions out ---- */

/* Where(IsNaN(x), missing, x) */
static const char *put_numbers(et_onnx *to, const et_encoded_field *field, const char *value,
                               const float *missing)
{
    char name[96];
    float *own = et_onnx_reserve_floats(to, field->width);
    if (!own)
        return NULL;
    memcpy(own, missing, (size_t)field->width * sizeof *own);
    snprintf(name, sizeof name, ":missing %.60s", field->name);
    const char *instead = et_onnx_floats(to, name, own, et_shape_1(field->width));
    return et_onnx_call(to, "Where", et_onnx_call(to, "IsNaN", value), instead, value);
}

/* -1 is missing; any other id that is no entry's is unknown, as are places of entries that are too
 * rare for the feature. ids: room for 2 [width]. */
static const char *put_ids(et_onnx *to, const et_encoded_field *field, const char *value,
                           const int32_t *missing, int64_t *ids)
{
    const int width = (int)field->width;
    int64_t *unknown = ids, *none = ids + width;
    for (int c = 0; c < width; c++) {
        unknown[c] = field->unknown[c];
        none[c] = missing[c];
    }
    const char *below = et_onnx_call(to, "Less", value, et_onnx_int(to, 0));
    const char *unseen = et_onnx_ints(to, unknown, width);
    const char *above = et_onnx_call(to, "Greater", value, unseen);
    const char *known =
        et_onnx_call(to, "Where", et_onnx_call(to, "Or", below, above), unseen, value);
    return et_onnx_call(to, "Where", et_onnx_call(to, "Equal", value, et_onnx_int(to, -1)),
                        et_onnx_ints(to, none, width), known);
}

/* What predicting has for missing and unknown values. */
static const char *put_input(void *payload, et_onnx *to, const char *name, const char *value)
{
    const et_encoder *encoder = ((const et_predictor *)payload)->model->encoder;
    int index = 0;
    while (index < et_encoder_fields(encoder) &&
           strcmp(et_encoder_field(encoder, index)->name, name) != 0)
        index++;
    if (index == et_encoder_fields(encoder)) /* the mask of a batch */
        return value;
    const et_encoded_field *field = et_encoder_field(encoder, index);
    if (field->kind == ET_ENCODED_WORDS)
        return value;
    float *item = et_alloc((size_t)field->width, sizeof *item);
    int64_t *ids = et_alloc(2 * (size_t)field->width, sizeof *ids);
    const char *put = NULL;
    if (item && ids && et_encoder_missing(encoder, index, item, NULL))
        put = value; /* predicting fails there, too */
    else if (item && ids)
        put = field->kind == ET_ENCODED_IDS ? put_ids(to, field, value, (const void *)item, ids)
                                            : put_numbers(to, field, value, item);
    et_free(item);
    et_free(ids);
    return put;
}

/* offset + scale x value in doubles, as a predictor has it. */
static const char *put_output(void *payload, et_onnx *to, const char *name, const char *value,
                              et_onnx_type *type)
{
    const et_predictor *p = payload;
    int output = 0;
    while (output < p->outputs && strcmp(p->output[output].name, name) != 0)
        output++;
    if (output == p->outputs || !et_predictor_unit(p, output, 0))
        return value;
    const int64_t count = p->output[output].width;
    double *numbers = et_alloc(2 * (size_t)count, sizeof *numbers);
    if (!numbers)
        return NULL;
    for (int64_t k = 0; k < count; k++) {
        const et_target_unit *unit = et_predictor_unit(p, output, k);
        numbers[k] = unit->offset;
        numbers[count + k] = unit->scale;
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
        return et_fail(error, ET_ECONFIG, "precision %s: ONNX is only written in float32",
                       precision);
    const et_onnx_edges edges = { .input = put_input, .output = put_output, .payload = (void *)p };
    return et_onnx_export_batches(path, p->model->params, &p->layout, p->model->build,
                                  p->model->payload, &edges, error);
}

int et_predictor_export(const et_predictor *p, const char *path, const et_export_options *options,
                        et_error *error)
{
    static const et_export_options defaults = { 0 };
    const et_export_options *o = options ? options : &defaults;
    if (!o->format)
        return write_own(p, path, o->precision, error);
    return strcmp(o->format, "onnx")
               ? et_fail(error, ET_ECONFIG, "format %s: for tables choose onnx, or no format",
                         o->format)
               : write_onnx(p, path, o->precision, error);
}
