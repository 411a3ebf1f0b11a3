/* Outputs of batches come as [outer, rows, inner], rows along the axis that is asked for. They are
 * appended as they come, rows first: [rows, outer, inner]; at the end, where there is an outer
 * dimension, one pass over memory puts it in front. */
#include <etude/loop_evaluator.h>

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"

typedef struct output {
    char *name; /* owned */
    et_dtype dtype;
    et_shape shape;      /* of a batch's; at the end of all */
    size_t outer, inner; /* elements before the axis, bytes behind it */
    char *data;          /* [rows, outer, inner]; at the end as shape says */
    size_t capacity;     /* bytes */
} output;

struct et_outputs {
    output *outputs; /* [count] */
    int count, axis;
    int64_t rows;
};

void et_outputs_free(et_outputs *outputs)
{
    if (!outputs)
        return;
    for (int i = 0; outputs->outputs && i < outputs->count; i++) {
        et_free(outputs->outputs[i].name);
        et_free(outputs->outputs[i].data);
    }
    et_free(outputs->outputs);
    et_free(outputs);
}

et_tensor et_outputs_tensor(const et_outputs *outputs, const char *name)
{
    et_tensor tensor = { .data = NULL };
    for (int i = 0; i < outputs->count; i++) {
        const output *o = &outputs->outputs[i];
        if (!strcmp(o->name, name))
            tensor = (et_tensor){ .data = o->data, .dtype = o->dtype, .shape = o->shape };
    }
    return tensor;
}

/* What is done with each batch; number from 0. */
typedef int batch_fn(void *payload, et_pass *pass, const et_batch *batch, int64_t number,
                     et_error *error);

/* Runs the pass on all that is left of the source's pass; a batch of the next one is given back. */
static int run_pass(et_pass *pass, et_source *source, uint64_t seed, batch_fn *take, void *payload,
                    et_error *error)
{
    et_batch *batch = NULL;
    int64_t number = 0, epoch = 0;
    int status = et_pass_prepare(pass, &source->layout, error);
    if (!status)
        status = et_batch_new(&batch, &source->layout, error);
    while (!status) {
        et_position before;
        et_source_position(source, &before);
        status = et_source_next(source, batch, error);
        if (status || !batch->filled[0])
            break;
        if (number && batch->epoch != epoch) {
            status = et_source_seek(source, &before, error);
            break;
        }
        epoch = batch->epoch;
        status = et_pass_run(pass, batch, seed, (uint64_t)number, error);
        if (!status)
            status = take(payload, pass, batch, number++, error);
    }
    et_batch_free(batch);
    return !status && !number ? et_fail(error, ET_EDATA, "the source has no batch to run on")
                              : status;
}

static int find(et_tensor *tensor, const et_pass *pass, const char *name, et_error *error)
{
    *tensor = et_pass_output(pass, name);
    return tensor->data ? ET_OK : et_fail(error, ET_ECONFIG, "the pass has no output %s", name);
}

/* ---- side by side ---- */

static int set_shape(const et_outputs *all, output *o, et_tensor tensor, const et_batch *batch,
                     et_error *error)
{
    char shape[ET_SHAPE_TEXT_MAX];
    int axis = all->axis;
    if (axis < 0 || axis >= tensor.shape.rank ||
        tensor.shape.size[axis] != batch->layout->capacity[0])
        return et_fail(error, ET_ECONFIG,
                       "output %s is %s: dimension %d does not count the batch's %lld rows",
                       o->name, et_shape_print(tensor.shape, shape), axis,
                       (long long)batch->layout->capacity[0]);
    o->dtype = tensor.dtype;
    o->shape = tensor.shape;
    o->outer = 1;
    o->inner = et_dtype_size(tensor.dtype);
    for (int d = 0; d < axis; d++)
        o->outer *= (size_t)tensor.shape.size[d];
    for (int d = axis + 1; d < tensor.shape.rank; d++)
        o->inner *= (size_t)tensor.shape.size[d];
    return ET_OK;
}

static int append(output *o, et_tensor tensor, const et_batch *batch, int64_t rows, et_error *error)
{
    size_t row = o->outer * o->inner, count = (size_t)batch->filled[0];
    size_t used = (size_t)rows * row, places = (size_t)batch->layout->capacity[0];
    char *data = et_vector_grow(o->data, &o->capacity, used + count * row, 1, 4096);
    if (!data)
        return et_alloc_failed(error, used + count * row, "outputs");
    o->data = data;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < o->outer; k++)
            memcpy(data + used + i * row + k * o->inner,
                   (const char *)tensor.data + (k * places + i) * o->inner, o->inner);
    return ET_OK;
}

static int take_outputs(void *payload, et_pass *pass, const et_batch *batch, int64_t number,
                        et_error *error)
{
    et_outputs *all = payload;
    int status = ET_OK;
    for (int i = 0; !status && i < all->count; i++) {
        output *o = &all->outputs[i];
        et_tensor tensor;
        status = find(&tensor, pass, o->name, error);
        if (!status && !number)
            status = set_shape(all, o, tensor, batch, error);
        if (!status)
            status = append(o, tensor, batch, all->rows, error);
    }
    all->rows += batch->filled[0];
    return status;
}

/* From [rows, outer, inner] to [outer, rows, inner]. */
static int turn(output *o, int64_t count, int axis, et_error *error)
{
    size_t rows = (size_t)count;
    o->shape.size[axis] = count;
    if (o->outer == 1)
        return ET_OK;
    char *data = et_alloc(rows, o->outer * o->inner);
    if (!data)
        return et_alloc_failed(error, rows * o->outer * o->inner, "outputs");
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < o->outer; k++)
            memcpy(data + (k * rows + i) * o->inner, o->data + (i * o->outer + k) * o->inner,
                   o->inner);
    et_free(o->data);
    o->data = data;
    return ET_OK;
}

static int open_outputs(et_outputs **out, const char *const *names, int count, int axis,
                        et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%d outputs to collect; at least one", count);
    et_outputs *all = et_alloc_zero(1, sizeof *all);
    if (!all)
        return et_alloc_failed(error, sizeof *all, "outputs");
    all->axis = axis;
    all->outputs = et_alloc_zero((size_t)count, sizeof *all->outputs);
    for (int i = 0; all->outputs && i < count; i++)
        if ((all->outputs[i].name = et_strdup(names[i])))
            all->count++;
    if (all->count < count) {
        et_outputs_free(all);
        return et_alloc_failed(error, (size_t)count * sizeof(output), "outputs");
    }
    *out = all;
    return ET_OK;
}

int et_outputs_collect(et_outputs **out, et_pass *pass, et_source *source, const char *const *names,
                       int count, int axis, uint64_t seed, et_error *error)
{
    et_outputs *all = NULL;
    *out = NULL;
    int status = open_outputs(&all, names, count, axis, error);
    if (!status)
        status = run_pass(pass, source, seed, take_outputs, all, error);
    for (int i = 0; !status && i < count; i++)
        status = turn(&all->outputs[i], all->rows, axis, error);
    if (status) {
        et_outputs_free(all);
        return status;
    }
    *out = all;
    return ET_OK;
}

/* ---- averages ---- */

typedef struct averages {
    const char *const *names;
    double *sums; /* [count]: the caller's */
    double rows;
    int count;
} averages;

static int take_averages(void *payload, et_pass *pass, const et_batch *batch, int64_t number,
                         et_error *error)
{
    averages *all = payload;
    (void)number;
    for (int i = 0; i < all->count; i++) {
        et_tensor tensor;
        char shape[ET_SHAPE_TEXT_MAX];
        int status = find(&tensor, pass, all->names[i], error);
        if (status)
            return status;
        if (tensor.dtype != ET_F32 || et_shape_count(tensor.shape) != 1)
            return et_fail(error, ET_ECONFIG, "output %s is %s %s: one float32 is averaged",
                           all->names[i], et_shape_print(tensor.shape, shape),
                           et_dtype_name(tensor.dtype));
        all->sums[i] += (double)batch->filled[0] * (double)*(const float *)tensor.data;
    }
    all->rows += (double)batch->filled[0];
    return ET_OK;
}

int et_outputs_average(double *out, et_pass *pass, et_source *source, const char *const *names,
                       int count, uint64_t seed, et_error *error)
{
    averages all = { .names = names, .sums = out, .count = count };
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%d outputs to average; at least one", count);
    memset(out, 0, (size_t)count * sizeof *out);
    int status = run_pass(pass, source, seed, take_averages, &all, error);
    for (int i = 0; !status && i < count; i++)
        out[i] /= all.rows;
    return status;
}
