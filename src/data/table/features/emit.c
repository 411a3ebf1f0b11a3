#include "data/table/features/encoder_private.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"

const char *et_emit_cast(et_onnx *to, const char *x, et_onnx_type type)
{
    const char *y = et_onnx_call(to, "Cast", x);
    et_onnx_set_int(to, "to", type);
    return y;
}

const char *et_emit_number(et_onnx *to, double x)
{
    return et_onnx_doubles(to, &x, 1);
}

const char *et_emit_flat(et_onnx *to, const char *x)
{
    const int64_t axis = 1;
    return et_onnx_call(to, "Squeeze", x, et_onnx_ints(to, &axis, 1));
}

const char *et_emit_one_hot(et_onnx *to, const char *index, int64_t columns)
{
    static const float off_on[] = { 0, 1 };
    return et_onnx_call(to, "OneHot", et_emit_flat(to, index), et_onnx_int(to, columns),
                        et_onnx_array(to, off_on, et_shape_1(2)));
}

const char *et_emit_count(et_onnx *to, const char *rows)
{
    const int64_t axis = 1;
    return et_onnx_call(to, "ReduceSum", et_emit_cast(to, rows, ET_ONNX_I64),
                        et_onnx_ints(to, &axis, 1));
}

const char *et_emit_with_each(const et_emitting *e, const char *op, const char *x, size_t member)
{
    double *all = et_alloc((size_t)e->count, sizeof *all);
    for (int i = 0; all && i < e->count; i++)
        memcpy(&all[i], (const char *)e->fitted[i] + member, sizeof *all);
    const char *y = et_onnx_call(e->to, op, x, all ? et_onnx_doubles(e->to, all, e->count) : NULL);
    et_free(all);
    return y;
}

const char *et_emit_deviation(const et_emitting *e)
{
    const char *y = et_emit_with_each(e, "Sub", e->x, offsetof(et_fitted, offset));
    y = et_emit_with_each(e, "Div", y, offsetof(et_fitted, divisor));
    return et_emit_with_each(e, "Mul", y, offsetof(et_fitted, span));
}

/* ---- quantiles ---- */

/* The points as blocks whose size is about the square root of their number, [blocks + 1, size],
 * padded with infinity, and the last point of each block. */
typedef struct blocks {
    const char *points, *ends;
    int64_t size;
} blocks;

static blocks emit_blocks(et_onnx *to, const et_fitted *f)
{
    blocks b = { .size = (int64_t)ceil(sqrt(f->points)) };
    const int64_t count = (f->points + b.size - 1) / b.size, shape[] = { count + 1, b.size };
    double *all = et_alloc((size_t)(shape[0] * b.size + count), sizeof *all);
    if (!all)
        return b;
    double *ends = all + shape[0] * b.size;
    for (int64_t i = 0; i < shape[0] * b.size; i++)
        all[i] = i < f->points ? f->point[i] : (double)INFINITY;
    for (int64_t i = 0; i < count; i++)
        ends[i] = all[(i + 1) * b.size - 1];
    b.points = et_onnx_call(to, "Reshape", et_onnx_doubles(to, all, shape[0] * b.size),
                            et_onnx_ints(to, shape, 2));
    b.ends = et_onnx_doubles(to, ends, count);
    et_free(all);
    return b;
}

/* et_fitted_points_below as nodes, int64 [rows, 1]: counts the blocks below x, then the points
 * below x in the next block. op: Less, or LessOrEqual. */
static const char *emit_points_below(et_onnx *to, const blocks *b, const char *x, const char *op)
{
    const char *whole = et_emit_count(to, et_onnx_call(to, op, b->ends, x));
    const char *next = et_onnx_call(to, "Gather", b->points, et_emit_flat(to, whole));
    const char *more = et_emit_count(to, et_onnx_call(to, op, next, x));
    return et_onnx_call(to, "Add", more, et_onnx_call(to, "Mul", whole, et_onnx_int(to, b->size)));
}

const char *et_emit_portion(et_onnx *to, const et_fitted *f, const char *x)
{
    const blocks b = emit_blocks(to, f);
    const int64_t last = f->points - 1;
    const char *zero = et_onnx_int(to, 0), *one = et_onnx_int(to, 1), *end = et_onnx_int(to, last);
    const char *points = et_onnx_doubles(to, f->point, f->points);
    x = et_onnx_call(to, "Min", x, et_emit_number(to, DBL_MAX)); /* below what fills the blocks */
    const char *from = emit_points_below(to, &b, x, "Less");
    const char *until = et_onnx_call(to, "Sub", emit_points_below(to, &b, x, "LessOrEqual"), one);
    const char *low = et_onnx_call(to, "Gather", points, et_onnx_call(to, "Max", until, zero));
    const char *high = et_onnx_call(to, "Gather", points, et_onnx_call(to, "Min", from, end));
    const char *equal = et_emit_cast(to, et_onnx_call(to, "Add", from, until), ET_ONNX_F64);
    equal = et_onnx_call(to, "Div", equal, et_emit_number(to, 2.0 * (double)last));
    const char *between = et_onnx_call(to, "Div", et_onnx_call(to, "Sub", x, low),
                                       et_onnx_call(to, "Sub", high, low));
    between = et_onnx_call(to, "Add", et_emit_cast(to, until, ET_ONNX_F64), between);
    between = et_onnx_call(to, "Div", between, et_emit_number(to, (double)last));
    const char *y = et_onnx_call(to, "Where", et_onnx_call(to, "Equal", until, end),
                                 et_emit_number(to, 1), between);
    y = et_onnx_call(to, "Where", et_onnx_call(to, "Equal", from, zero), et_emit_number(to, 0), y);
    return et_onnx_call(to, "Where", et_onnx_call(to, "LessOrEqual", from, until), equal, y);
}
