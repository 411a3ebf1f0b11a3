/* Ops that move elements, look up columns and sample: see <etude/ops_layout.h> and
 * <etude/ops_random.h>. Elements of any type are copied with memcpy, blocks and rows divided among
 * threads. */
#include <etude/dtype.h>

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "engine/exec/cpu/op_private.h"
#include "engine/kernel/parallel.h"

/* `blocks` pieces of `bytes` bytes each, which begin every stride bytes: to[i] = from[i]. */
typedef struct copies {
    char *to;
    const char *from;
    size_t to_stride, from_stride, bytes;
    int64_t blocks;
} copies;

static void blocks_part(const copies *b, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        memcpy(b->to + (size_t)i * b->to_stride, b->from + (size_t)i * b->from_stride, b->bytes);
}

static void copy_blocks(const copies *b)
{
    const bool much = b->blocks * (int64_t)b->bytes >= 4 * ET_GRAIN;
    ET_PARALLEL(much, b->blocks, 1, blocks_part, b);
}

/* memory.c lets result and input share their memory if possible: then nothing is left to do. */
static void run_reshape(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const void *x = IN(0);
    if (x != y->data)
        memcpy(y->data, x, et_tensor_bytes(*y));
}

const et_op_functions et_cpu_RESHAPE = { .run = run_reshape };

/* Sizes of `whole` before the axis, and bytes of one step along it. */
static int64_t outer(et_shape whole, int axis)
{
    int64_t blocks = 1;
    for (int i = 0; i < axis; i++)
        blocks *= whole.size[i];
    return blocks;
}

static size_t inner(et_shape whole, int axis, et_dtype dtype)
{
    size_t bytes = et_dtype_size(dtype);
    for (int i = axis + 1; i < whole.rank; i++)
        bytes *= (size_t)whole.size[i];
    return bytes;
}

/* Inputs are adjacent, in their planned sizes; a run may use less. */
static void run_concatenate(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const int axis = call->node->attributes.along.axis;
    const size_t unit = inner(y->shape, axis, y->dtype);
    size_t at = 0;
    for (int i = 0; i < call->in_count; i++) {
        const et_tensor *x = TENSOR_IN(i);
        const int64_t planned = call->node->input[i]->type[0].shape.size[axis];
        const copies copy = { .to = (char *)y->data + at,
                              .from = x->data,
                              .to_stride = (size_t)y->shape.size[axis] * unit,
                              .from_stride = (size_t)x->shape.size[axis] * unit,
                              .bytes = (size_t)x->shape.size[axis] * unit,
                              .blocks = outer(x->shape, axis) };
        copy_blocks(&copy);
        at += (size_t)planned * unit;
    }
}

const et_op_functions et_cpu_CONCATENATE = { .run = run_concatenate };

/* Copies a slice out of its tensor; the derivative copies the slice into a tensor of zeros. */
static void run_slice(const et_plan *plan, const et_plan_call *call)
{
    const bool back = call->node->op == ET_OP_SLICE_GRAD;
    const et_tensor *from = TENSOR_IN(0), *to = TENSOR_OUT(0);
    const et_tensor *part = back ? from : to;
    const et_axis_range *along = &call->node->attributes.along;
    const size_t unit = inner(part->shape, along->axis, part->dtype);
    const size_t offset = (size_t)along->first * unit;
    const copies copy = { .to = (char *)to->data + (back ? offset : 0),
                          .from = (const char *)from->data + (back ? 0 : offset),
                          .to_stride = (size_t)to->shape.size[along->axis] * unit,
                          .from_stride = (size_t)from->shape.size[along->axis] * unit,
                          .bytes = (size_t)part->shape.size[along->axis] * unit,
                          .blocks = outer(part->shape, along->axis) };
    if (back)
        memset(to->data, 0, et_tensor_bytes(*to));
    copy_blocks(&copy);
}

const et_op_functions et_cpu_SLICE = { .run = run_slice };
const et_op_functions et_cpu_SLICE_GRAD = { .run = run_slice };

static void rows_part(char *y, const char *x, const int32_t *row, size_t bytes, int64_t begin,
                      int64_t end)
{
    for (int64_t r = begin; r < end; r++)
        if (row[r] < 0)
            memset(y + (size_t)r * bytes, 0, bytes);
        else
            memcpy(y + (size_t)r * bytes, x + (size_t)row[r] * bytes, bytes);
}

/* y[r] = x[row[r]]; a negative row is zeros. */
static void run_gather(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const void *x = IN(0);
    const int32_t *row = IN(1);
    const size_t bytes = width_of(y) * et_dtype_size(y->dtype);
    const bool much = rows_of(y) * (int64_t)bytes >= 4 * ET_GRAIN;
    ET_PARALLEL(much, rows_of(y), 1, rows_part, y->data, x, row, bytes);
}

const et_op_functions et_cpu_GATHER = { .run = run_gather };

/* Sums of bfloat16 rows are float32 until all are in. */
static size_t scratch_of_gather_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dx = TENSOR_OUT(0);
    return dx->dtype == ET_F32 ? 0 : et_shape_count(dx->shape) * sizeof(float);
}

static void run_gather_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *dy = TENSOR_IN(1), *dx = TENSOR_OUT(0);
    const int64_t count = et_shape_count(dx->shape);
    float *sum = dx->dtype == ET_F32 ? dx->data : scratch(plan);
    memset(sum, 0, count * sizeof *sum);
    kernels(plan)->embedding_grad(sum, IN(0), dy->data, 1, rows_of(dy), width_of(dy), rows_of(dx),
                                  dy->dtype);
    if (dx->dtype != ET_F32)
        kernels(plan)->to_bf16(dx->data, sum, count);
}

const et_op_functions et_cpu_GATHER_GRAD = { .run = run_gather_grad,
                                             .scratch = scratch_of_gather_grad };

static void one_hot_part(void *y, const int32_t *ids, int64_t depth, et_dtype dtype, int64_t begin,
                         int64_t end)
{
    const size_t row = depth * et_dtype_size(dtype);
    memset((char *)y + (size_t)begin * row, 0, (size_t)(end - begin) * row);
    for (int64_t t = begin; t < end; t++) {
        if (ids[t] < 0 || ids[t] >= depth)
            continue;
        if (dtype == ET_BF16)
            ((et_bf16 *)y)[t * depth + ids[t]] = et_bf16_from_float(1);
        else
            ((float *)y)[t * depth + ids[t]] = 1;
    }
}

/* y[t, ids[t]] = 1, all else 0; ids outside 0 .. depth - 1 have no 1. */
static void run_one_hot(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const int32_t *ids = IN(0);
    et_assert(y->dtype != ET_I32);
    ET_PARALLEL(rows_of(y) * width_of(y) >= ET_GRAIN, rows_of(y), 1, one_hot_part, y->data, ids,
                width_of(y), y->dtype);
}

const et_op_functions et_cpu_ONE_HOT = { .run = run_one_hot };

static void numbers_part(void *y, const int32_t *x, et_dtype dtype, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        if (dtype == ET_BF16)
            ((et_bf16 *)y)[i] = et_bf16_from_float((float)x[i]);
        else
            ((float *)y)[i] = (float)x[i];
}

/* y[i] = x[i] as float32 or bfloat16. */
static void run_cast(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    const int64_t count = et_shape_count(y->shape);
    const int32_t *x = IN(0);
    et_assert(y->dtype != ET_I32);
    ET_PARALLEL(count >= ET_GRAIN, count, 1, numbers_part, y->data, x, y->dtype);
}

const et_op_functions et_cpu_CAST = { .run = run_cast };

/* rows: the rows of this run; the ids may have more. */
static et_column_embedding column_shape(const et_plan_call *call, const et_tensor *rows)
{
    return (et_column_embedding){ .column = call->node->attributes.columns,
                                  .count = call->node->attributes.count,
                                  .rows = rows_of(rows),
                                  .width = width_of(rows),
                                  .dtype = rows->dtype };
}

static void run_embed_columns(const et_plan *plan, const et_plan_call *call)
{
    const et_column_embedding shape = column_shape(call, TENSOR_OUT(0));
    kernels(plan)->embed_columns(OUT(0), IN(0), IN(1), &shape);
}

const et_op_functions et_cpu_EMBED_COLUMNS = { .run = run_embed_columns };

static void run_embed_columns_grad(const et_plan *plan, const et_plan_call *call)
{
    const et_column_embedding shape = column_shape(call, TENSOR_IN(1));
    kernels(plan)->embed_columns_grad(begin_table(plan, call)->data, IN(0), IN(1), &shape);
}

const et_op_functions et_cpu_EMBED_COLUMNS_GRAD = { .run = run_embed_columns_grad };

static void run_noise(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    kernels(plan)->noise(y->data, et_shape_count(y->shape), random_of(plan, call), y->dtype);
}

const et_op_functions et_cpu_NOISE = { .run = run_noise };

static void run_bernoulli(const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *y = TENSOR_OUT(0);
    kernels(plan)->bernoulli(y->data, IN(0), 0, et_shape_count(y->shape), random_of(plan, call),
                             y->dtype);
}

const et_op_functions et_cpu_BERNOULLI = { .run = run_bernoulli };
