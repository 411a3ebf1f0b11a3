/* Exports of predictors: the encoder's texts and the model's settings, as they were read, with the
 * weights (train/checkpoint/artifact/artifact.h). */
#include <etude/model_export.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/values/json.h"
#include "data/table/features/encoder.h"
#include "engine/onnx/batches.h"
#include "tasks/tabular/predict/predict.h"

/* ---- ONNX: encoded rows, or columns as they are ---- */

/* An export. refused: bool [rows, 1] for raw columns; NULL for encoded rows. */
typedef struct writing {
    const et_predictor *p;
    const char *refused;
} writing;

/* -1 is missing. Any other id without an entry is unknown, and so are entries that are too rare for
 * the feature. ids: room for 2 [width]. */
static const char *put_ids(et_onnx *to, const et_encoded_field *field, const char *value,
                           const int32_t *missing, int64_t *ids)
{
    et_assert(field->kind == ET_ENCODED_IDS && missing && ids);
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

/* -1: the mask of a batch. */
static int find_field(const et_encoder *encoder, const char *name)
{
    for (int i = 0; i < et_encoder_fields(encoder); i++)
        if (!strcmp(et_encoder_field(encoder, i)->name, name))
            return i;
    return -1;
}

/* Encodes missing and unknown values as predicting does. */
static const char *put_input(void *payload, et_onnx *to, const char *name, const char *value)
{
    const et_encoder *encoder = ((const writing *)payload)->p->model->encoder;
    const int index = find_field(encoder, name);
    if (index < 0)
        return value;
    const et_encoded_field *field = et_encoder_field(encoder, index);
    if (field->kind == ET_ENCODED_WORDS)
        return value;
    float *item = et_alloc(field->width, sizeof *item);
    int64_t *ids = et_alloc(2 * (size_t)field->width, sizeof *ids);
    const char *put = NULL;
    if (item && ids && et_encoder_missing(encoder, index, item, NULL))
        put = value; /* predicting fails here too */
    else if (item && ids && field->kind == ET_ENCODED_IDS)
        put = put_ids(to, field, value, (const void *)item, ids);
    else if (item && ids) {
        /* Where(IsNaN(x), missing, x) */
        const char *instead = et_onnx_array(to, item, et_shape_1(field->width));
        put = et_onnx_call(to, "Where", et_onnx_call(to, "IsNaN", value), instead, value);
    }
    et_free(item);
    et_free(ids);
    return put;
}

/* ---- columns as they are ---- */

#define RAW_LABEL  "label"
#define RAW_SCORES "probabilities"

static bool is_scores(const et_predictor *p, int output)
{
    return output == p->target && p->kind->labelled;
}

static bool is_taken(void *payload, const char *name)
{
    const et_predictor *p = ((const writing *)payload)->p;
    bool taken = et_params_find(p->model->params, name) >= 0;
    for (int i = 0; i < p->outputs; i++)
        taken |= is_scores(p, i) ? !strcmp(name, RAW_LABEL) || !strcmp(name, RAW_SCORES)
                                 : !strcmp(name, p->output[i].name);
    return taken;
}

/* ["a", "b"] */
static void append_list(et_strbuf *out, const char *const *texts, int64_t count)
{
    et_strbuf_append_char(out, '[');
    for (int64_t i = 0; i < count; i++) {
        et_strbuf_append(out, i ? ", " : "");
        et_json_print_string(out, texts[i]);
    }
    et_strbuf_append_char(out, ']');
}

static int note(et_onnx *to, const char *key, et_strbuf *value, et_error *error)
{
    int status = value->failed ? et_alloc_failed(error, "names") : ET_OK;
    if (!status)
        et_onnx_note(to, key, et_strbuf_text(value));
    et_strbuf_release(value);
    return status;
}

static int note_list(et_onnx *to, const char *key, const char *const *texts, int64_t count,
                     et_error *error)
{
    et_strbuf list = ET_STRBUF_INIT;
    append_list(&list, texts, count);
    return note(to, key, &list, error);
}

/* Notes the names of the columns of outputs. */
static int note_names(const et_predictor *p, et_onnx *to, et_error *error)
{
    const et_table_output *output = p->target < 0 ? NULL : &p->output[p->target];
    int status =
        p->field ? note_list(to, "targets", p->field->column, p->field->width, error) : ET_OK;
    if (status)
        return status;
    if (p->kind == &et_target_classes)
        return note_list(to, "classes", p->labels, p->classes, error);
    if (p->kind != &et_target_labels && p->kind != &et_target_quantiles)
        return ET_OK;
    et_assert(output);
    if (p->kind == &et_target_labels) {
        /* The labels of each of several targets. */
        et_strbuf list = ET_STRBUF_INIT;
        for (int64_t i = 0; i < output->width; i++) {
            et_strbuf_append(&list, i ? ", " : "[");
            append_list(&list, output->choice + 2 * i, 2);
        }
        et_strbuf_append_char(&list, ']');
        return note(to, "classes", &list, error);
    }
    return note_list(to, "quantiles", output->value, output->width, error);
}

static int put_columns(void *payload, et_onnx *to, const char *const *names, const char **values,
                       int count, et_error *error)
{
    writing *w = payload;
    const et_table_model *model = w->p->model;
    const et_encoder_onnx how = { model->encoder, model->missing, ET_ONNX_ROWS, is_taken, w };
    int *fields;
    if (ET_ALLOC(fields, count, "a model to export", error))
        return ET_ENOMEM;
    int status = ET_OK;
    for (int i = 0; i < count && !status; i++) {
        fields[i] = find_field(model->encoder, names[i]);
        if (fields[i] < 0)
            status = et_fail(error, ET_ECONFIG,
                             "the model reads %s, which is not a feature: use --inputs encoded",
                             names[i]);
    }
    if (!status &&
        !(status = et_encoder_onnx_add(&how, to, fields, count, values, &w->refused, error)))
        status = note_names(w->p, to, error);
    et_free(fields);
    return status;
}

/* Numbers of refused rows are NaN. */
static void refuse_rows(const writing *w, et_onnx *to, et_onnx_result *result)
{
    et_assert(w->refused && result->rank >= 1);
    const double nan = NAN;
    int64_t shape[ET_RANK_MAX] = { -1 };
    for (int i = 1; i < result->rank; i++)
        shape[i] = 1;
    const char *refused =
        et_onnx_call(to, "Reshape", w->refused, et_onnx_ints(to, shape, result->rank));
    const char *instead =
        result->type == ET_ONNX_F64 ? et_onnx_doubles(to, &nan, 1) : et_onnx_float(to, (float)nan);
    result->value = et_onnx_call(to, "Where", refused, instead, result->value);
}

/* The class with the largest score; "" if scores are NaN. */
static void add_label(const et_predictor *p, et_onnx *to, const char *scores)
{
    et_assert(p->classes > 0 && p->labels);
    static const char *const none[] = { "" };
    const et_onnx_dim dims[] = { { ET_ONNX_ROWS, 0 } };
    const int64_t axis = 1;
    const char *best = et_onnx_call(to, "ArgMax", scores);
    et_onnx_set_int(to, "axis", 1);
    et_onnx_set_int(to, "keepdims", 0);
    const char *label = et_onnx_call(to, "Gather", et_onnx_texts(to, p->labels, p->classes), best);
    const char *sum = et_onnx_call(to, "ReduceSum", scores, et_onnx_ints(to, &axis, 1));
    et_onnx_set_int(to, "keepdims", 0);
    label = et_onnx_call(to, "Where", et_onnx_call(to, "IsNaN", sum), et_onnx_texts(to, none, 1),
                         label);
    et_onnx_output(to, label, RAW_LABEL, ET_ONNX_TEXT, dims, 1);
}

/* The label of each of several targets with two classes. */
static int add_labels(const et_predictor *p, et_onnx *to, const char *scores, et_error *error)
{
    et_assert(p->kind == &et_target_labels);
    static const char *const none[] = { "" };
    const et_table_output *output = &p->output[p->target];
    const et_onnx_dim dims[] = { { ET_ONNX_ROWS, 0 }, { NULL, output->width } };
    const char **texts;
    if (ET_ALLOC_ZERO(texts, 2 * (size_t)output->width, "labels", error))
        return ET_ENOMEM;
    const char **yes = texts + output->width;
    for (int64_t i = 0; i < output->width; i++) {
        texts[i] = output->choice[2 * i];
        yes[i] = output->choice[2 * i + 1];
    }
    const char *label = et_onnx_call(
        to, "Where", et_onnx_call(to, "Greater", scores, et_onnx_float(to, 0.5f)),
        et_onnx_texts(to, yes, (int)output->width), et_onnx_texts(to, texts, (int)output->width));
    label = et_onnx_call(to, "Where", et_onnx_call(to, "IsNaN", scores), et_onnx_texts(to, none, 1),
                         label);
    et_onnx_output(to, label, RAW_LABEL, ET_ONNX_TEXT, dims, 2);
    et_free(texts);
    return ET_OK;
}

/* ---- outputs ---- */

/* offset + scale x value in doubles, as a predictor has it. */
static void put_unit(const et_predictor *p, et_onnx *to, int output, et_onnx_result *result)
{
    et_assert(output >= 0 && output < p->outputs);
    const int64_t count = p->output[output].width;
    double *numbers = et_alloc(2 * (size_t)count, sizeof *numbers);
    for (int64_t k = 0; numbers && k < count; k++) {
        const et_target_unit *unit = et_predictor_unit(p, output, k);
        numbers[k] = unit->offset;
        numbers[count + k] = unit->scale;
    }
    const char *wide = et_onnx_call(to, "Cast", result->value);
    et_onnx_set_int(to, "to", ET_ONNX_F64);
    wide =
        et_onnx_call(to, "Mul", wide, numbers ? et_onnx_doubles(to, numbers + count, count) : NULL);
    result->value =
        et_onnx_call(to, "Add", wide, numbers ? et_onnx_doubles(to, numbers, count) : NULL);
    result->type = ET_ONNX_F64;
    et_free(numbers);
}

static int put_output(void *payload, et_onnx *to, et_onnx_result *result, et_error *error)
{
    const writing *w = payload;
    const et_predictor *p = w->p;
    int output = 0;
    while (output < p->outputs && strcmp(p->output[output].name, result->name) != 0)
        output++;
    if (output == p->outputs)
        return ET_OK;
    if (et_predictor_unit(p, output, 0))
        put_unit(p, to, output, result);
    if (!w->refused)
        return ET_OK;
    refuse_rows(w, to, result);
    if (!is_scores(p, output))
        return ET_OK;
    result->name = RAW_SCORES;
    if (p->kind == &et_target_labels)
        return add_labels(p, to, result->value, error);
    add_label(p, to, result->value);
    return ET_OK;
}

int et_predictor_export(const et_predictor *p, const char *path, const et_export_options *options,
                        et_error *error)
{
    static const et_export_options defaults = { 0 };
    static const char *const inputs[] = { "raw", "encoded", NULL };
    const et_export_options *o = options ? options : &defaults;
    const et_table_model *model = p->model;
    const bool raw = o->format && (!o->inputs || !strcmp(o->inputs, "raw"));
    if (o->source_text || o->target_text)
        return et_fail(error, ET_ECONFIG, "%s is for the format bergamot: leave it out",
                       o->source_text ? o->source_text : o->target_text);
    if (o->inputs && !et_is_one_of(o->inputs, inputs))
        return et_fail(error, ET_ECONFIG, "inputs %s: choose raw or encoded", o->inputs);
    if (o->inputs && !o->format)
        return et_fail(error, ET_ECONFIG, "inputs %s is for the format onnx: choose this format",
                       o->inputs);
    if (!o->format) {
        const et_artifact_content content = { .texts = model->text,
                                              .count = ET_TABLE_MODEL_FILES,
                                              .params = model->params,
                                              .step = model->step,
                                              .identity = model->identity,
                                              .precision = o->precision };
        return et_artifact_write(&content, path, error);
    }
    if (strcmp(o->format, "onnx"))
        return et_fail(error, ET_ECONFIG, "format %s: for tables choose onnx, or no format",
                       o->format);
    if (o->precision && strcmp(o->precision, "float32") != 0)
        return et_fail(error, ET_ECONFIG, "precision %s: ONNX is only written in float32",
                       o->precision);
    writing w = { .p = p };
    const et_onnx_edges edges = {
        .input = put_input, .inputs = raw ? put_columns : NULL, .output = put_output, .payload = &w
    };
    return et_onnx_export_batches(path, model->params, p->layout, model->build, model->payload,
                                  &edges, error);
}
