/* Outputs of a pass. Outputs of a batch are [outer, rows, inner], with rows along the requested
 * axis, and are appended with rows first: [rows, outer, inner]. At the end, one pass over memory
 * moves an outer dimension to the front.
 *
 * Ranks read every batch and run the pass on every n-th. All run it on the first batch, which shows
 * the shapes of outputs. Then all ranks get all outputs in the order of batches. */
#include <etude/loop_evaluator.h>

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/vector.h"
#include "data/batches/source.h"
#include "engine/comm/together.h"
#include "engine/tensor/tensor.h"
#include "train/ranks/eval_shard.h"

typedef struct output {
    const char *name; /* in the arena */
    et_dtype dtype;
    et_shape shape;      /* of a batch's; at the end of all */
    size_t outer, inner; /* elements before the axis, bytes after it */
    char *data;          /* [rows, outer, inner]; at the end as shape says */
    size_t capacity;     /* bytes */
} output;

struct et_outputs {
    et_arena arena;
    output *outputs; /* [count], in arena */
    int count, axis;
    int64_t rows;
};

void et_outputs_free(et_outputs *outputs)
{
    if (!outputs)
        return;
    for (int i = 0; outputs->outputs && i < outputs->count; i++)
        et_free(outputs->outputs[i].data);
    et_arena_release(&outputs->arena);
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
    et_pass *pass; /* borrowed */
    uint64_t seed;
    et_eval_shard share;
    et_strbuf row; /* of a batch: its number of rows, then the bytes that pack appends */
    /* At the first batch, on all ranks: checks the outputs; NULL: not needed. */
    int (*check)(struct job *self, const et_batch *batch, et_error *error);
    int (*pack)(struct job *self, const et_batch *batch, et_error *error);
    et_outputs *all;          /* collected outputs */
    const char *const *names; /* [count]: averaged outputs */
    double *sums, weight;     /* [count] */
    int count;
} job;

static int run_batch(void *self, const et_batch *batch, int64_t number, bool mine, et_error *error)
{
    job *j = self;
    et_assert(batch->filled[0] > 0);
    const bool checks = !number && j->check;
    if (!mine && !checks)
        return ET_OK;
    int status = et_pass_run(j->pass, batch, j->seed, (uint64_t)number, error);
    if (!status && checks)
        status = j->check(j, batch, error);
    if (status || !mine)
        return status;
    et_strbuf_reset(&j->row);
    et_strbuf_append_bytes(&j->row, &batch->filled[0], sizeof batch->filled[0]);
    if ((status = j->pack(j, batch, error)) ||
        (j->row.failed && (status = et_alloc_failed(error, "outputs"))))
        return status;
    return et_eval_shard_keep_row(&j->share, j->row.data, j->row.length, error);
}

/* Runs the pass on all batches of the source's first pass; a batch of the next is given back. */
static int run_pass(job *j, et_source *source, et_error *error)
{
    et_batch_cursor cursor = { .source = NULL };
    int status = et_source_claim(source, "a collection of outputs", error);
    if (status)
        return status;
    if (!(status = et_pass_prepare(j->pass, &source->layout, error)) &&
        !(status = et_batch_cursor_open(&cursor, source, error)) &&
        !(status = et_batch_cursor_rewind(&cursor, false, error)) &&
        !(status = et_eval_shard_batches(&j->share, &cursor, run_batch, error)))
        status = et_batch_cursor_give_back(&cursor, error);
    et_batch_cursor_release(&cursor);
    et_source_end(source);
    return !status && !j->share.batches ? et_fail(error, ET_EDATA, "the source has no batch")
                                        : status;
}

/* Every rank joins, even after a failure. row: adds the outputs of a batch. */
static int run_job(job *j, et_comm *comm, et_source *source, et_eval_shard_row_fn *row,
                   et_error *error)
{
    j->share = (et_eval_shard){ .options = { .comm = comm, .self = j }, .row = row };
    et_eval_shard_begin(&j->share);
    int status = et_eval_shard_join(&j->share, run_pass(j, source, error), error);
    et_eval_shard_release(&j->share);
    et_strbuf_release(&j->row);
    return status;
}

static int fail_apart(et_error *error)
{
    return et_fail(error, ET_EFAIL, "ranks ran on different batches");
}

/* Reads the number of rows at the begin of a row; size bytes follow. */
static bool read_rows(int64_t *rows, const char **row, size_t *size)
{
    if (*size < sizeof *rows)
        return false;
    memcpy(rows, *row, sizeof *rows);
    *row += sizeof *rows;
    *size -= sizeof *rows;
    return *rows > 0;
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

static int check_outputs(job *j, const et_batch *batch, et_error *error)
{
    const int axis = j->all->axis;
    for (int i = 0; i < j->all->count; i++) {
        output *o = &j->all->outputs[i];
        char shape[ET_SHAPE_TEXT_MAX];
        et_tensor tensor;
        int status = find(&tensor, j->pass, o->name, error);
        if (status)
            return status;
        if (axis < 0 || axis >= tensor.shape.rank ||
            tensor.shape.size[axis] != batch->layout->capacity[0])
            return et_fail(error, ET_ECONFIG,
                           "output %s is %s: dimension %d must be the %lld rows of the batch",
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
    }
    return ET_OK;
}

/* Rows first. */
static int pack_outputs(job *j, const et_batch *batch, et_error *error)
{
    const size_t count = (size_t)batch->filled[0], most = (size_t)batch->layout->capacity[0];
    et_assert(count <= most);
    for (int n = 0; n < j->all->count; n++) {
        const output *o = &j->all->outputs[n];
        et_tensor tensor;
        int status = find(&tensor, j->pass, o->name, error);
        if (status)
            return status;
        et_assert(tensor.dtype == o->dtype);
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < o->outer; k++)
                et_strbuf_append_bytes(
                    &j->row, (const char *)tensor.data + (k * most + i) * o->inner, o->inner);
    }
    return ET_OK;
}

static int add_outputs(void *self, const void *row, size_t size, et_error *error)
{
    et_outputs *all = ((job *)self)->all;
    const char *at = row;
    int64_t rows = 0;
    if (!read_rows(&rows, &at, &size))
        return fail_apart(error);
    for (int i = 0; i < all->count; i++) {
        output *o = &all->outputs[i];
        const size_t bytes = o->outer * o->inner;
        const size_t used = (size_t)all->rows * bytes, more = (size_t)rows * bytes;
        if (size < more)
            return fail_apart(error);
        if (!ET_VECTOR_GROW(o->data, o->capacity, used + more))
            return et_alloc_failed(error, "outputs");
        memcpy(o->data + used, at, more);
        at += more;
        size -= more;
    }
    all->rows += rows;
    return ET_OK;
}

/* From [rows, outer, inner] to [outer, rows, inner]. */
static int turn_all(void *self, et_error *error)
{
    et_outputs *all = self;
    const size_t rows = (size_t)all->rows;
    for (int n = 0; n < all->count; n++) {
        output *o = &all->outputs[n];
        o->shape.size[all->axis] = all->rows;
        if (o->outer == 1)
            continue;
        char *data = et_alloc(rows, o->outer * o->inner);
        if (!data)
            return et_alloc_failed(error, "outputs");
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < o->outer; k++)
                memcpy(data + (k * rows + i) * o->inner, o->data + (i * o->outer + k) * o->inner,
                       o->inner);
        et_free(o->data);
        o->data = data;
    }
    return ET_OK;
}

static int open_outputs(et_outputs **out, const char *const *names, int count, int axis,
                        et_error *error)
{
    int status = check_names(names, count, "collect", error);
    if (status)
        return status;
    et_outputs *all;
    if (ET_ALLOC_ZERO(all, 1, "outputs", error))
        return ET_ENOMEM;
    all->axis = axis;
    all->outputs = et_arena_array(&all->arena, count, sizeof *all->outputs);
    all->count = count;
    for (int i = 0; all->outputs && i < count; i++)
        all->outputs[i].name = et_arena_strdup(&all->arena, names[i]);
    if (all->arena.failed) {
        et_outputs_free(all);
        return et_alloc_failed(error, "outputs");
    }
    *out = all;
    return ET_OK;
}

int et_outputs_collect(et_outputs **out, et_comm *comm, et_pass *pass, et_source *source,
                       const char *const *names, int count, int axis, uint64_t seed,
                       et_error *error)
{
    et_outputs *all = NULL;
    *out = NULL;
    int status = open_outputs(&all, names, count, axis, error);
    if (status)
        return status;
    job j = {
        .pass = pass, .seed = seed, .check = check_outputs, .pack = pack_outputs, .all = all
    };
    status = run_job(&j, comm, source, add_outputs, error);
    if (!status)
        status = et_together_run(comm, turn_all, all, error);
    if (status)
        et_outputs_free(all);
    else
        *out = all;
    return status;
}

/* ---- averages ---- */

static int pack_values(job *j, const et_batch *batch, et_error *error)
{
    (void)batch;
    for (int i = 0; i < j->count; i++) {
        char shape[ET_SHAPE_TEXT_MAX];
        et_tensor tensor;
        int status = find(&tensor, j->pass, j->names[i], error);
        if (status)
            return status;
        if (!et_tensor_is_real(tensor) || et_shape_count(tensor.shape) != 1)
            return et_fail(error, ET_ECONFIG,
                           "output %s is %s %s: only a single float can be averaged", j->names[i],
                           et_shape_print(tensor.shape, shape), et_dtype_name(tensor.dtype));
        const double value = et_tensor_number(tensor, 0);
        et_strbuf_append_bytes(&j->row, &value, sizeof value);
    }
    return ET_OK;
}

static int add_values(void *self, const void *row, size_t size, et_error *error)
{
    job *j = self;
    const char *at = row;
    int64_t rows;
    if (!read_rows(&rows, &at, &size) || size != j->count * sizeof(double))
        return fail_apart(error);
    for (int i = 0; i < j->count; i++, at += sizeof(double)) {
        double value;
        memcpy(&value, at, sizeof value);
        j->sums[i] += (double)rows * value;
    }
    j->weight += (double)rows;
    return ET_OK;
}

int et_outputs_average(double *out, et_comm *comm, et_pass *pass, et_source *source,
                       const char *const *names, int count, uint64_t seed, et_error *error)
{
    job j = { .pass = pass, .seed = seed, .pack = pack_values, .names = names, .count = count };
    int status = check_names(names, count, "average", error);
    if (status)
        return status;
    if (ET_ALLOC_ZERO(j.sums, count, "averages", error))
        return ET_ENOMEM;
    status = run_job(&j, comm, source, add_values, error);
    for (int i = 0; !status && i < count; i++)
        out[i] = j.sums[i] / j.weight;
    et_free(j.sums);
    return status;
}
