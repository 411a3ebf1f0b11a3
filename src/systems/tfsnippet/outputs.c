/* Outputs of a pass. Those of a batch are [outer, rows, inner], with rows along the requested axis.
 * They are appended with rows first: [rows, outer, inner]. At the end, if there is an outer
 * dimension, one pass over memory moves it to the front.
 *
 * Ranks read every batch and run the pass on every n-th. All run it on the first batch, which shows
 * the shapes of outputs. Then all ranks get all outputs in the order of batches. */
#include <etude/loop_evaluator.h>

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/vector.h"
#include "data/batches/cursor.h"
#include "engine/comm/collected.h"

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
    int64_t rows; /* that are here */
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
    for (int i = 0; name && i < outputs->count; i++) {
        const output *o = &outputs->outputs[i];
        if (!strcmp(o->name, name))
            tensor = (et_tensor){ .data = o->data, .dtype = o->dtype, .shape = o->shape };
    }
    return tensor;
}

/* A pass over data. */
typedef struct job {
    et_pass *pass; /* borrowed, as all but rows */
    et_source *source;
    et_comm *comm;
    uint64_t seed;
    int64_t *rows; /* [batches]: of each, whoever ran it */
    size_t batches, capacity;
} job;

/* What is done with a batch that the pass has run on; mine: it is this rank's, else the first. */
typedef int batch_fn(void *payload, const job *j, const et_batch *batch, bool mine,
                     et_error *error);

static int rank_of(const job *j, size_t batch)
{
    return (int)(batch % (size_t)et_comm_size(j->comm));
}

static int run_batch(job *j, const et_batch *batch, batch_fn *take, void *payload, et_error *error)
{
    size_t number = j->batches;
    et_assert(batch->filled[0] > 0 && j->batches <= j->capacity);
    bool mine = rank_of(j, number) == et_comm_rank(j->comm);
    int64_t *rows = et_vector_grow(j->rows, &j->capacity, number + 1, sizeof *rows, 64);
    if (!rows)
        return et_alloc_failed(error, number * sizeof *rows, "outputs");
    j->rows = rows;
    rows[j->batches++] = batch->filled[0];
    if (number && !mine)
        return ET_OK;
    int status = et_pass_run(j->pass, batch, j->seed, (uint64_t)number, error);
    return status ? status : take(payload, j, batch, mine, error);
}

/* Runs the pass on all that is left of the source's pass; a batch of the next one is given back. */
static int run_pass(job *j, batch_fn *take, void *payload, et_error *error)
{
    et_batch_cursor cursor = { .source = NULL };
    bool over = false;
    int status = et_pass_prepare(j->pass, &j->source->layout, error);
    if (!status)
        status = et_batch_cursor_open(&cursor, j->source, error);
    while (!status) {
        status = et_batch_cursor_next(&cursor, &over, error);
        if (status || over)
            break;
        status = run_batch(j, cursor.batch, take, payload, error);
    }
    if (!status)
        status = et_batch_cursor_give_back(&cursor, error);
    et_batch_cursor_release(&cursor);
    return !status && !j->batches ? et_fail(error, ET_EDATA, "the source has no batch") : status;
}

/* What all ranks have of batches, each `each` bytes of its rows or, by_rows false, of its own: mine
 * becomes all of it, in the order of batches. status: how this rank came here. */
static int join(const job *j, int status, char **mine, size_t each, bool by_rows, et_error *error)
{
    size_t total = 0, at = 0, own = 0;
    et_collected all = { 0 };
    char *joined = NULL;
    if (et_comm_size(j->comm) == 1)
        return status;
    for (size_t i = 0; i < j->batches; i++) {
        size_t size = each * (by_rows ? (size_t)j->rows[i] : 1);
        total += size;
        own += rank_of(j, i) == et_comm_rank(j->comm) ? size : 0;
    }
    if (!status)
        status = et_collected_open(&all, j->comm, error);
    if (!status && !(joined = et_alloc(total, 1)))
        status = et_alloc_failed(error, total, "outputs of all ranks");
    status = et_collected_take(&all, j->comm, status, *mine, own, error);
    et_assert(status || joined);
    for (size_t i = 0; !status && i < j->batches; i++) {
        size_t size = each * (by_rows ? (size_t)j->rows[i] : 1);
        const char *theirs = et_collected_next(&all, rank_of(j, i), size);
        if (theirs)
            memcpy(joined + at, theirs, size);
        else
            status = et_fail(error, ET_EFAIL, "ranks ran on different batches");
        at += size;
    }
    et_collected_release(&all);
    if (status) {
        et_free(joined);
        return status;
    }
    et_free(*mine);
    *mine = joined;
    return ET_OK;
}

static int find(et_tensor *tensor, const et_pass *pass, const char *name, et_error *error)
{
    *tensor = et_pass_output(pass, name);
    return tensor->data ? ET_OK : et_fail(error, ET_ECONFIG, "the pass has no output %s", name);
}

static int check_names(const char *const *names, int count, const char *what, et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "%d outputs to %s: give at least one", count, what);
    for (int i = 0; i < count; i++)
        if (!names || !names[i])
            return et_fail(error, ET_ECONFIG, "output %d to %s has no name", i, what);
    return ET_OK;
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
                       "output %s is %s: dimension %d must be the %lld rows of the batch", o->name,
                       et_shape_print(tensor.shape, shape), axis,
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
    et_assert(rows >= 0 && row > 0);
    et_assert(tensor.dtype == o->dtype && count <= (size_t)batch->layout->capacity[0]);
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

static int take_outputs(void *payload, const job *j, const et_batch *batch, bool mine,
                        et_error *error)
{
    et_outputs *all = payload;
    int status = ET_OK;
    for (int i = 0; !status && i < all->count; i++) {
        output *o = &all->outputs[i];
        et_tensor tensor;
        status = find(&tensor, j->pass, o->name, error);
        if (!status && j->batches == 1)
            status = set_shape(all, o, tensor, batch, error);
        if (!status && mine)
            status = append(o, tensor, batch, all->rows, error);
    }
    all->rows += mine ? batch->filled[0] : 0;
    return status;
}

/* In the order of batches. */
static int join_outputs(et_outputs *all, const job *j, int status, et_error *error)
{
    for (int i = 0; i < all->count; i++) {
        output *o = &all->outputs[i];
        status = join(j, status, &o->data, o->outer * o->inner, true, error);
    }
    all->rows = 0;
    for (size_t i = 0; i < j->batches; i++)
        all->rows += j->rows[i];
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
    int status = check_names(names, count, "collect", error);
    if (status)
        return status;
    et_outputs *all = et_alloc_zero(1, sizeof *all);
    if (!all)
        return et_alloc_failed(error, sizeof *all, "outputs");
    all->axis = axis;
    all->outputs = et_alloc_zero((size_t)count, sizeof *all->outputs);
    all->count = all->outputs ? count : 0;
    bool copied = all->outputs;
    for (int i = 0; copied && i < count; i++)
        copied = (all->outputs[i].name = et_strdup(names[i]));
    if (!copied) {
        et_outputs_free(all);
        return et_alloc_failed(error, (size_t)count * sizeof(output), "outputs");
    }
    *out = all;
    return ET_OK;
}

int et_outputs_collect(et_outputs **out, et_comm *comm, et_pass *pass, et_source *source,
                       const char *const *names, int count, int axis, uint64_t seed,
                       et_error *error)
{
    et_outputs *all = NULL;
    job j = { .pass = pass, .source = source, .comm = comm, .seed = seed };
    *out = NULL;
    int status = open_outputs(&all, names, count, axis, error);
    if (status)
        return status;
    status = join_outputs(all, &j, run_pass(&j, take_outputs, all, error), error);
    for (int i = 0; !status && i < count; i++)
        status = turn(&all->outputs[i], all->rows, axis, error);
    status = et_comm_agree(comm, status, NULL, error);
    et_free(j.rows);
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
    int count;
    double *values; /* [batches, count], owned */
    size_t batches, capacity;
} averages;

static int read_value(const job *j, const char *name, double *value, et_error *error)
{
    char shape[ET_SHAPE_TEXT_MAX];
    et_tensor tensor;
    int status = find(&tensor, j->pass, name, error);
    if (status)
        return status;
    if (tensor.dtype != ET_F32 || et_shape_count(tensor.shape) != 1)
        return et_fail(error, ET_ECONFIG,
                       "output %s is %s %s: only a single float32 can be averaged", name,
                       et_shape_print(tensor.shape, shape), et_dtype_name(tensor.dtype));
    *value = (double)*(const float *)tensor.data;
    return ET_OK;
}

static int take_averages(void *payload, const job *j, const et_batch *batch, bool mine,
                         et_error *error)
{
    averages *all = payload;
    size_t count = (size_t)all->count, at = all->batches * count;
    int status = ET_OK;
    (void)batch;
    double *values = et_vector_grow(all->values, &all->capacity, at + count, sizeof *values, 64);
    if (!values)
        return et_alloc_failed(error, (at + count) * sizeof *values, "averages");
    all->values = values;
    for (size_t i = 0; !status && i < count; i++)
        status = read_value(j, all->names[i], &values[at + i], error);
    all->batches += mine;
    return status;
}

static void average(const averages *all, const job *j, double *out)
{
    double rows = 0;
    memset(out, 0, (size_t)all->count * sizeof *out);
    for (size_t b = 0; b < j->batches; b++) {
        for (int i = 0; i < all->count; i++)
            out[i] += (double)j->rows[b] * all->values[b * (size_t)all->count + (size_t)i];
        rows += (double)j->rows[b];
    }
    for (int i = 0; i < all->count; i++)
        out[i] /= rows;
}

int et_outputs_average(double *out, et_comm *comm, et_pass *pass, et_source *source,
                       const char *const *names, int count, uint64_t seed, et_error *error)
{
    averages all = { .names = names, .count = count };
    job j = { .pass = pass, .source = source, .comm = comm, .seed = seed };
    int status = check_names(names, count, "average", error);
    if (status)
        return status;
    status = run_pass(&j, take_averages, &all, error);
    char *values = (char *)all.values;
    status = join(&j, status, &values, (size_t)count * sizeof *all.values, false, error);
    all.values = (double *)(void *)values;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        average(&all, &j, out);
    et_free(all.values);
    et_free(j.rows);
    return status;
}
