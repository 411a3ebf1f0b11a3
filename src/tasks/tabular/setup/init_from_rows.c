/* Values that a model gets from the training rows before its first step, in variables that
 * checkpoints keep: bins of columns, mean and deviation of targets, weights of classes. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/identity.h"

/* ---- classes ---- */

typedef struct class_counts {
    int field;
    int64_t *count; /* [classes] */
} class_counts;

static void count_classes(void *payload, const et_batch *batch, int64_t first)
{
    et_assert(((const class_counts *)payload)->field >= 0);
    const class_counts *c = payload;
    const int32_t *class = batch->data[c->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        if (class[i] >= 0)
            c->count[class[i]]++;
}

/* Rows by classes times the class's own: all classes weigh the same, and the mean weight is 1. */
static int balance(const et_tabular_task *task, float *weight, et_error *error)
{
    et_assert(task->training && task->target.classes > 0);
    const int classes = task->target.classes;
    class_counts c = { et_layout_find(&task->training->layout, task->target.field->name),
                       et_alloc_zero((size_t)classes, sizeof *c.count) };
    int64_t rows = 0, found = 0;
    if (!c.count)
        return et_alloc_failed(error, (size_t)classes * sizeof *c.count, "weights of classes");
    int status = et_tabular_read(task->training, task->training->count, count_classes, &c, error);
    for (int i = 0; i < classes; i++) {
        rows += c.count[i];
        found += c.count[i] > 0;
    }
    for (int i = 0; i < classes; i++)
        weight[i] = c.count[i] ? (float)((double)rows / ((double)found * (double)c.count[i])) : 1;
    et_free(c.count);
    return status;
}

/* "label: 2.5", "label=2.5" */
static int read_weight(const et_tabular_task *task, const char *text, float *weight,
                       et_error *error)
{
    const et_encoded_field *field = task->target.field;
    const char *colon = strrchr(text, ':'), *equals = strrchr(text, '=');
    const char *end = colon > equals ? colon : equals;
    char *rest = NULL;
    int class = 0;
    double number = end ? et_decimal_read(end + 1, &rest) : NAN;
    if (!end || rest == end + 1 || *rest || !(number >= 0) || number > 1e6)
        return et_fail(
            error, ET_ECONFIG,
            "--class-weights: \"%s\" is not of the form CLASS:WEIGHT, with a weight from 0 "
            "to 1e6; for equal classes, write balanced",
            text);
    const size_t length = (size_t)(end - text);
    while (class < field->classes && (strlen(field->label[class]) != length ||
                                      memcmp(field->label[class], text, length) != 0))
        class ++;
    if (class == field->classes)
        return et_fail(error, ET_ECONFIG, "--class-weights: %.*s is not a class of %s (%s, %s%s)",
                       (int)length, text, field->column[0], field->label[0],
                       field->classes > 1 ? field->label[1] : "",
                       field->classes > 2 ? ", ..." : "");
    weight[class] = (float)number;
    return ET_OK;
}

static int weigh_classes(const et_tabular_task *task, float *weight, et_error *error)
{
    const et_strings *given = &task->options.class_weights;
    int status = ET_OK;
    if (given->count == 1 && !strcmp(given->items[0], "balanced"))
        return balance(task, weight, error);
    for (int i = 0; i < task->target.classes; i++)
        weight[i] = 1;
    for (size_t i = 0; !status && i < given->count; i++)
        status = read_weight(task, given->items[i], weight, error);
    return status;
}

/* ---- values ---- */

/* Sums of the differences from the first row, so that no two large numbers are subtracted. */
typedef struct moments {
    int field;
    bool written; /* the field has doubles */
    int64_t width;
    double *base, *sum, *squares; /* [width] */
    int64_t rows;
} moments;

static void add_moments(void *payload, const et_batch *batch, int64_t first)
{
    moments *m = payload;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        for (int64_t k = 0; k < m->width; k++) {
            const void *all = batch->data[m->field];
            int64_t at = i * m->width + k;
            double t = m->written ? et_encoded_written(all, at) : (double)((const float *)all)[at];
            if (first + i == 0)
                m->base[k] = t;
            m->sum[k] += t - m->base[k];
            m->squares[k] += (t - m->base[k]) * (t - m->base[k]);
        }
    m->rows += batch->filled[0];
}

/* Steps of a float32 at a mean, in deviations: more are too coarse to learn from. */
#define STEP_MOST 1e-3

/* Standardized in double by the metadata. Mean and deviation of the training rows are near those of
 * the metadata, unless the metadata are of other rows, or have no moments. */
static int fit_values(const et_tabular_task *task, float *mean, float *deviation, et_error *error)
{
    et_assert(task->training && task->target.values > 0);
    const int written = et_encoder_written(task->encoder);
    const et_encoded_field *target = task->target.field;
    const char *field =
        written < 0 ? task->target.field->name : et_encoder_field(task->encoder, written)->name;
    const size_t width = (size_t)task->target.values;
    double *all = et_alloc_zero(3 * width, sizeof *all);
    if (!all)
        return et_alloc_failed(error, 3 * width * sizeof *all, "means of targets");
    moments m = { et_layout_find(&task->training->layout, field),
                  written >= 0,
                  task->target.values,
                  all,
                  all + width,
                  all + 2 * width,
                  0 };
    int status = et_tabular_read(task->training, task->training->count, add_moments, &m, error);
    for (size_t k = 0; !status && k < width; k++) {
        const et_target_unit unit = et_encoder_unit(task->encoder, (int64_t)k);
        const double middle = m.sum[k] / (double)m.rows;
        const double variance = m.squares[k] / (double)m.rows - middle * middle;
        const double center = (m.base[k] - unit.offset + middle) / unit.scale;
        const double fitted = sqrt(fmax(0, variance)) / unit.scale;
        /* A constant target has the deviation 1: its loss is that of its mean. */
        mean[k] = (float)center;
        deviation[k] = (float)fitted > 0 && isfinite((float)fitted) ? (float)fitted : 1;
        if (fitted > 0 && !(fabs(center) * (double)FLT_EPSILON <= STEP_MOST * fitted))
            status = et_fail(
                error, ET_EDATA,
                "%s: target %s has the mean %.9g and the deviation %.3g in the training rows, but "
                "%.9g and %.3g in the metadata, too different for float32; make the metadata again "
                "from these rows",
                task->file[ET_TABLE_FILE_METADATA].path, target->column[k],
                unit.offset + unit.scale * center, unit.scale * fitted, unit.offset, unit.scale);
    }
    et_free(all);
    return status;
}

/* Means and deviations that came with the weights of another run, whose metadata may differ. */
static int restate_values(const et_tabular_task *task, float *mean, float *deviation,
                          et_error *error)
{
    et_assert(task->options.init_checkpoint);
    const size_t width = (size_t)task->target.values;
    et_arena arena = ET_ARENA_INIT;
    et_target_unit *was = et_arena_array(&arena, width, sizeof *was);
    et_identity identity;
    char *path = NULL;
    bool found;
    int status = was ? et_checkpoint_find_weights(&path, task->options.init_checkpoint, error)
                     : et_alloc_failed(error, width * sizeof *was, "means of targets");
    if (!status && !et_identity_of_file(&identity, path, &arena))
        identity.values = NULL;
    if (!status)
        status = et_target_unit_read(was, (int64_t)width, &found, identity.values, error);
    for (size_t k = 0; !status && k < width; k++) {
        const et_target_unit is = et_encoder_unit(task->encoder, (int64_t)k);
        const double center = was[k].offset - is.offset + was[k].scale * (double)mean[k];
        mean[k] = (float)(center / is.scale);
        deviation[k] = (float)(was[k].scale * (double)deviation[k] / is.scale);
    }
    et_free(path);
    et_arena_release(&arena);
    return status;
}

float *et_tabular_variable(et_params *params, const char *name)
{
    et_assert(params && name);
    char full[64];
    snprintf(full, sizeof full, ET_TABULAR_TARGET_SCOPE "/%s", name);
    int index = et_params_find(params, full);
    return index < 0 ? NULL : et_params_values(params) + et_params_offset(params, index);
}

/* kept: mean and deviation come with the weights that the run began with, in their own unit. */
int et_tabular_init_from_rows(et_tabular_task *task, et_params *params, et_error *error)
{
    et_assert(params && task->encoder);
    const et_tabular_options *o = &task->options;
    const bool begun = o->init_checkpoint && *o->init_checkpoint;
    const bool kept = begun && !(o->init_pattern && *o->init_pattern);
    int status;
    if ((!kept && (status = et_tabular_model_fit(params, &o->model, task->encoder, task->training,
                                                 error))) ||
        (!begun && (status = et_tabular_model_begin(params, &o->model, task->encoder, error))) ||
        (et_tabular_is_pack(o) &&
         (status = et_pack_begin(params, &o->model.pack, task->has_rates, error))))
        return status;
    float *mean = et_tabular_variable(params, ET_TABULAR_MEAN);
    float *deviation = et_tabular_variable(params, ET_TABULAR_DEVIATION);
    float *weight = et_tabular_variable(params, ET_TABULAR_CLASS_WEIGHT);
    et_params_begin_change(params);
    if (mean && deviation)
        status = kept ? restate_values(task, mean, deviation, error)
                      : fit_values(task, mean, deviation, error);
    if (!status && weight)
        status = weigh_classes(task, weight, error);
    et_params_changed(params, true);
    return status;
}
