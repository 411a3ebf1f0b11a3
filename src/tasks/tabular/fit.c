/* What a model takes from the training rows before its first step, into variables that checkpoints
 * keep: bins of columns, mean and deviation of targets, weights of classes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/decimal.h"
#include "tasks/tabular/models.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/task_private.h"

/* ---- classes ---- */

typedef struct class_counts {
    int field;
    int64_t *count; /* [classes] */
} class_counts;

static void count_classes(void *payload, const et_batch *batch, int64_t first)
{
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
    const int classes = task->target.classes;
    class_counts c = { et_layout_find(&task->training->layout, task->target.field),
                       et_alloc_zero((size_t)classes, sizeof *c.count) };
    int64_t rows = 0, seen = 0;
    if (!c.count)
        return et_alloc_failed(error, (size_t)classes * sizeof *c.count, "weights of classes");
    int status = et_tabular_read(task->training, task->training->count, count_classes, &c, error);
    for (int i = 0; i < classes; i++) {
        rows += c.count[i];
        seen += c.count[i] > 0;
    }
    for (int i = 0; i < classes; i++)
        weight[i] = c.count[i] ? (float)((double)rows / ((double)seen * (double)c.count[i])) : 1;
    et_free(c.count);
    return status;
}

static int place_of(const et_encoded_field *field, const char *label, size_t length)
{
    for (int i = 0; i < field->classes; i++)
        if (strlen(field->label[i]) == length && !memcmp(field->label[i], label, length))
            return i;
    return -1;
}

/* "label: 2.5", "label=2.5" */
static int read_weight(const et_tabular_task *task, const char *text, float *weight,
                       et_error *error)
{
    const et_encoded_field *field =
        et_encoder_field(task->encoder, et_encoder_target(task->encoder));
    const char *colon = strrchr(text, ':'), *equals = strrchr(text, '=');
    const char *end = colon > equals ? colon : equals;
    char *rest = NULL;
    double number = end ? et_decimal_read(end + 1, &rest) : NAN;
    if (!end || rest == end + 1 || *rest || !(number >= 0) || number > 1e6)
        return et_fail(error, ET_ECONFIG,
                       "task.class_weights: \"%s\" is no \"label: weight\" with a weight from 0 to "
                       "1e6",
                       text);
    int place = place_of(field, text, (size_t)(end - text));
    if (place < 0)
        return et_fail(error, ET_ECONFIG, "task.class_weights: %.*s is no class of %s (%s, %s%s)",
                       (int)(end - text), text, task->target.field, field->label[0],
                       field->classes > 1 ? field->label[1] : "",
                       field->classes > 2 ? ", ..." : "");
    weight[place] = (float)number;
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

/* Sums of what a column of targets is off the first row's: no two large numbers are subtracted. */
typedef struct moments {
    int field;
    int64_t width;
    double *base, *sum, *squares; /* [width] */
    int64_t rows;
} moments;

static void add_moments(void *payload, const et_batch *batch, int64_t first)
{
    moments *m = payload;
    const float *target = batch->data[m->field];
    for (int64_t i = 0; i < batch->filled[0]; i++)
        for (int64_t k = 0; k < m->width; k++) {
            double t = (double)target[i * m->width + k];
            if (first + i == 0)
                m->base[k] = t;
            m->sum[k] += t - m->base[k];
            m->squares[k] += (t - m->base[k]) * (t - m->base[k]);
        }
    m->rows += batch->filled[0];
}

/* A constant target has the deviation 1: its loss is that of its mean. */
static int fit_values(const et_tabular_task *task, float *mean, float *deviation, et_error *error)
{
    const size_t width = (size_t)task->target.values;
    double *all = et_alloc_zero(3 * width, sizeof *all);
    if (!all)
        return et_alloc_failed(error, 3 * width * sizeof *all, "means of targets");
    moments m = { et_layout_find(&task->training->layout, task->target.field),
                  task->target.values,
                  all,
                  all + width,
                  all + 2 * width,
                  0 };
    int status = et_tabular_read(task->training, task->training->count, add_moments, &m, error);
    for (size_t k = 0; !status && k < width; k++) {
        double middle = m.sum[k] / (double)m.rows;
        double spread = sqrt(fmax(0, m.squares[k] / (double)m.rows - middle * middle));
        mean[k] = (float)(m.base[k] + middle);
        deviation[k] = spread > 0 && isfinite(spread) ? (float)spread : 1;
    }
    et_free(all);
    return status;
}

/* ---- all ---- */

static float *variable(et_params *params, const char *name)
{
    int index = et_params_find(params, name);
    return index < 0 ? NULL : et_params_values(params) + et_params_offset(params, index);
}

/* kept: the mean and the deviation are those of the weights that it began with. */
static int fit_target(const et_tabular_task *task, et_params *params, bool kept, et_error *error)
{
    float *mean = variable(params, ET_TABULAR_TARGET_SCOPE "/" ET_TABULAR_MEAN);
    float *deviation = variable(params, ET_TABULAR_TARGET_SCOPE "/" ET_TABULAR_DEVIATION);
    float *weight = variable(params, ET_TABULAR_TARGET_SCOPE "/" ET_TABULAR_CLASS_WEIGHT);
    int status = ET_OK;
    et_params_begin_change(params);
    if (mean && deviation && !kept)
        status = fit_values(task, mean, deviation, error);
    if (!status && weight)
        status = weigh_classes(task, weight, error);
    et_params_changed(params, true);
    return status;
}

int et_tabular_fit(et_tabular_task *task, et_params *params, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool begun = o->init_checkpoint && *o->init_checkpoint;
    const bool kept = begun && !(o->init_pattern && *o->init_pattern);
    int status =
        kept ? ET_OK
             : et_tabular_model_fit(params, &o->model, task->encoder, task->training, error);
    return status ? status : fit_target(task, params, kept, error);
}
