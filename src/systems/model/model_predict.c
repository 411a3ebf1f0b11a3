/* A model in use on arrays: predictions and evaluations. A batch of predictions has one size,
 * filled or not, so that a sample's prediction does not depend on the others. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/exec/pass.h"
#include "engine/tensor/tensor.h"
#include "systems/model/model_private.h"

int et_model_check_arrays(const et_model *m, const void *x, const void *y, int64_t count,
                          et_error *error)
{
    if (m->kind->no_arrays)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_arrays);
    if (m->x < 0 || m->y < 0 || m->layout.fields != 3)
        return et_fail(error, ET_EUSAGE,
                       "this model's batches have other fields than x and y: call et_model_fit or "
                       "et_model_evaluate_source");
    if (!x || !y)
        return et_fail(error, ET_EUSAGE, "the array %s is NULL", x ? "y" : "x");
    if (count < 1 || count > UINT32_MAX)
        return et_fail(error, ET_ECONFIG, "%lld samples: give at least 1, and below 2^32",
                       (long long)count);
    return ET_OK;
}

int et_model_arrays(et_model *m, const void *x, const void *y, int64_t count,
                    const et_batches_options *options, et_source **out, et_error *error)
{
    const et_layout_field *fx = &m->layout.field[m->x], *fy = &m->layout.field[m->y];
    const et_array arrays[] = { { ET_MODEL_X, fx->dtype, x, fx->item },
                                { ET_MODEL_Y, fy->dtype, y, fy->item } };
    et_samples *samples;
    et_assert(m->x >= 0 && m->y >= 0 && count > 0);
    int status = et_arrays_open(&samples, arrays, 2, count, error);
    if (status)
        return status;
    status = et_batches_open(out, samples, options, error);
    if (status)
        et_samples_close(samples);
    return status;
}

/* ---- evaluation ---- */

int et_model_evaluate_source(et_model *m, et_source *source, et_value *logs, et_error *error)
{
    if (m->controller || m->kind->no_training)
        return et_fail(error, ET_EUSAGE, "%s",
                       m->controller ? "et_model_evaluate: not during training"
                                     : m->kind->no_training);
    if (m->own_valid && !m->has_weights)
        return et_fail(error, ET_EUSAGE,
                       "et_model_evaluate_source: this model is neither trained "
                       "nor loaded");
    if (!source && !m->own_valid)
        return et_fail(error, ET_EUSAGE, "et_model_evaluate_source: source is NULL");
    if (!logs || logs->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EUSAGE, "et_model_evaluate: logs is no dict (et_value_dict)");
    if (source && m->own_valid)
        return et_fail(error, ET_EUSAGE,
                       "et_model_evaluate_source: %s has held-out rows of its "
                       "own; give NULL",
                       m->kind->name);
    const int64_t capacity = source        ? source->layout.capacity[0]
                             : m->capacity ? m->capacity
                                           : ET_MODEL_BATCH;
    int status = et_model_open_trainer(m, capacity, 0, error);
    if (!status && source)
        status = et_model_source_set(&m->valid, source, error);
    if (!status && !et_task_trainer_evaluator(m->trainer))
        status =
            et_fail(error, ET_ECONFIG, "%s has no held-out rows to evaluate on", m->kind->name);
    if (!status)
        status = et_task_trainer_evaluate(m->trainer, -1, logs, error);
    et_model_source_set(&m->valid, NULL, NULL);
    return status;
}

int et_model_evaluate(et_model *m, const void *x, const void *y, int64_t count, et_value *logs,
                      et_error *error)
{
    const et_batches_options once = { .capacity = { m->trainer ? m->capacity : ET_MODEL_BATCH } };
    et_source *source = NULL;
    int status = et_model_check_arrays(m, x, y, count, error);
    if (!status)
        status = et_model_arrays(m, x, y, count, &once, &source, error);
    if (!status)
        status = et_model_evaluate_source(m, source, logs, error);
    et_source_close(source);
    return status;
}

/* ---- prediction ---- */

/* Fills the labels too: integers with -1, floats with 0. */
static void fill_batch(et_model *m, const char *x, int64_t count)
{
    et_assert(m->x >= 0 && count > 0 && count <= ET_MODEL_PREDICTS);
    const et_layout_field *fx = &m->layout.field[m->x], *fy = &m->layout.field[m->y];
    const size_t size = (size_t)et_shape_count(fx->item) * et_dtype_size(fx->dtype);
    et_batch_clear(m->batch);
    memcpy(m->batch->data[m->x], x, (size_t)count * size);
    if (m->y >= 0)
        memset(m->batch->data[m->y], fy->dtype == ET_I32 ? 0xff : 0,
               (size_t)count * (size_t)et_shape_count(fy->item) * et_dtype_size(fy->dtype));
    m->batch->filled[0] = count;
    et_batch_finish(m->batch);
}

static void copy_output(const et_model *m, float *out, int64_t count)
{
    const et_tensor output = et_pass_output(m->pass, et_pass_output_name(m->pass, 0));
    const int64_t numbers = count * m->width;
    et_assert(output.data && m->width > 0);
    if (output.dtype == ET_F32)
        memcpy(out, output.data, (size_t)numbers * sizeof *out);
    else
        for (int64_t i = 0; i < numbers; i++)
            out[i] = (float)et_tensor_number(output, i);
}

int et_model_predict(et_model *m, const void *x, int64_t count, void *out, et_error *error)
{
    if (m->kind->no_arrays)
        return et_fail(error, ET_EUSAGE, "%s", m->kind->no_arrays);
    if (m->x < 0 || m->layout.fields != (m->y < 0 ? 2 : 3))
        return et_fail(error, ET_EUSAGE,
                       "et_model_predict: this model's batches have other fields than x and y; run "
                       "et_model_pass on a batch of yours");
    if (count < 0 || (count && (!x || !out)))
        return et_fail(error, ET_EUSAGE, "et_model_predict: %lld samples, and %s", (long long)count,
                       !x ? "x is NULL" : "out is NULL");
    const bool shown = et_model_show_average(m);
    const et_layout_field *fx = &m->layout.field[m->x];
    const int64_t size = et_shape_count(fx->item) * (int64_t)et_dtype_size(fx->dtype);
    int status = ET_OK;
    for (int64_t at = 0; at < count && !status; at += ET_MODEL_PREDICTS) {
        const int64_t part =
            count - at < ET_MODEL_PREDICTS ? count - at : (int64_t)ET_MODEL_PREDICTS;
        fill_batch(m, (const char *)x + at * size, part);
        status = et_pass_run(m->pass, m->batch, 0, 0, error);
        if (!status)
            copy_output(m, (float *)out + at * m->width, part);
    }
    if (shown)
        et_model_hide_average(m);
    return status;
}
