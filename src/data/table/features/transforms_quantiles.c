/* The transforms that read the quantiles of the metadata: quantile, robust and clip. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/table/features/encoder_private.h"
#include "data/table/features/transforms.h"

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
    double *all = et_alloc(e->count, sizeof *all);
    for (int i = 0; all && i < e->count; i++)
        memcpy(&all[i], (const char *)e->fitted[i] + member, sizeof *all);
    const char *y = et_onnx_call(e->to, op, x, all ? et_onnx_doubles(e->to, all, e->count) : NULL);
    et_free(all);
    return y;
}

const char *et_emit_deviation(const et_emitting *e)
{
    const char *y = et_emit_with_each(e, "Sub", e->x, offsetof(et_fitted_transform, offset));
    y = et_emit_with_each(e, "Div", y, offsetof(et_fitted_transform, divisor));
    return et_emit_with_each(e, "Mul", y, offsetof(et_fitted_transform, span));
}

/* ---- quantiles ---- */

/* The points as blocks whose size is about the square root of their number, [blocks + 1, size],
 * padded with infinity, and the last point of each block. */
typedef struct blocks {
    const char *points, *ends;
    int64_t size;
} blocks;

static blocks emit_blocks(et_onnx *to, const et_fitted_transform *f)
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

/* The rank 0..1 of x, float64 [rows, 1], among the points of fitted, as in the transform quantile.
 * At least two points differ. */
static const char *emit_portion(et_onnx *to, const et_fitted_transform *f, const char *x)
{
    const blocks b = emit_blocks(to, f);
    const int64_t last = f->points - 1;
    const char *zero = et_onnx_int(to, 0), *one = et_onnx_int(to, 1), *end = et_onnx_int(to, last);
    const char *points = et_onnx_doubles(to, f->point, f->points);
    x = et_onnx_call(to, "Min", x, et_emit_number(to, DBL_MAX)); /* below the padding of the
                                                                    blocks */
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

/* The inverse of the standard normal distribution function: algorithm AS 241, PPND16 (Wichura,
 * Applied Statistics 37, 1988): quotients of polynomials, near the centre in q = p - 1/2, in the
 * tails in r = sqrt(-log(p)) of the nearer end. Relative error about 1e-16. */

#define TERMS 8

/* Highest power first, over the denominator's. */
typedef struct quotient {
    double above[TERMS], below[TERMS];
} quotient;

static const quotient centre = {
    { 2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
      4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
      1.3314166789178437745e+2, 3.3871328727963666080e+0 },
    { 5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4,
      2.1213794301586595867e+4, 5.3941960214247511077e+3, 6.8718700749205790830e+2,
      4.2313330701600911252e+1, 1.0 },
};
static const quotient near_tail = {
    { 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
      1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
      4.63033784615654529590e+0, 1.42343711074968357734e+0 },
    { 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
      1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
      2.05319162663775882187e+0, 1.0 },
};
static const quotient far_tail = {
    { 2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
      2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e+0,
      5.46378491116411436990e+0, 6.65790464350110377720e+0 },
    { 2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5,
      7.86869131145613259100e-4, 1.48753612908506148525e-2, 1.36929880922735805310e-1,
      5.99832206555887937690e-1, 1.0 },
};

static double divide(const quotient *of, double r)
{
    double above = 0, below = 0;
    for (int i = 0; i < TERMS; i++) {
        above = above * r + of->above[i];
        below = below * r + of->below[i];
    }
    return above / below;
}

static const char *emit_polynomial(et_onnx *to, const double *terms, const char *r)
{
    const char *y = et_emit_number(to, terms[0]);
    for (int i = 1; i < TERMS; i++)
        y = et_onnx_call(to, "Add", et_onnx_call(to, "Mul", y, r), et_emit_number(to, terms[i]));
    return y;
}

static const char *emit_quotient(et_onnx *to, const quotient *of, const char *r)
{
    return et_onnx_call(to, "Div", emit_polynomial(to, of->above, r),
                        emit_polynomial(to, of->below, r));
}

static const char *normal_quantile_emit(et_onnx *to, const char *p)
{
    const char *q = et_onnx_call(to, "Sub", p, et_emit_number(to, 0.5));
    const char *inner =
        et_onnx_call(to, "Sub", et_emit_number(to, 0.180625), et_onnx_call(to, "Mul", q, q));
    const char *middle = et_onnx_call(to, "Mul", q, emit_quotient(to, &centre, inner));
    const char *less =
        et_onnx_call(to, "Min", p, et_onnx_call(to, "Sub", et_emit_number(to, 1), p));
    const char *r =
        et_onnx_call(to, "Sqrt", et_onnx_call(to, "Neg", et_onnx_call(to, "Log", less)));
    const char *z = et_onnx_call(
        to, "Where", et_onnx_call(to, "LessOrEqual", r, et_emit_number(to, 5)),
        emit_quotient(to, &near_tail, et_onnx_call(to, "Sub", r, et_emit_number(to, 1.6))),
        emit_quotient(to, &far_tail, et_onnx_call(to, "Sub", r, et_emit_number(to, 5))));
    z = et_onnx_call(to, "Where", et_onnx_call(to, "Less", q, et_emit_number(to, 0)),
                     et_onnx_call(to, "Neg", z), z);
    return et_onnx_call(
        to, "Where",
        et_onnx_call(to, "LessOrEqual", et_onnx_call(to, "Abs", q), et_emit_number(to, 0.425)),
        middle, z);
}

double et_normal_quantile(double p)
{
    et_assert(p > 0 && p < 1);
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * divide(&centre, 0.180625 - q * q);
    double r = sqrt(-log(q < 0 ? p : 1 - p));
    double z = r <= 5 ? divide(&near_tail, r - 1.6) : divide(&far_tail, r - 5);
    return q < 0 ? -z : z;
}

/* As scikit-learn's QuantileTransformer: the normal's quantile at 1e-7. */
#define NORMAL_END 5.199337582605575
/* The output of robust is between -ROBUST_MOST and ROBUST_MOST. */
#define ROBUST_MOST 3
/* clip does not change values up to this many interquartile ranges from the median, or up to
 * CLIP_LEAST standard deviations. One of 300 values of an exponential distribution is further
 * away. */
#define CLIP_FROM  5
#define CLIP_LEAST 4

void et_fit_quantile(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    int n = m->quantile_count;
    et_fit_one_column(fitted, with);
    if (n < 2) {
        et_fitting_lacks(with, "quantiles");
        return;
    }
    double *points = et_arena_array(with->arena, n, sizeof *points);
    for (int i = 0; points && i < n; i++) {
        points[i] = m->quantiles[i];
        et_assert(isfinite(points[i]) && (!i || points[i - 1] <= points[i])); /* metadata.h */
    }
    fitted->point = points;
    fitted->points = n;
}

/* The quantile at p, 0..1, of the metadata, by linear interpolation. */
static double quantile_at(const et_column_metadata *m, double p)
{
    const double at = p * (m->quantile_count - 1), low = floor(at);
    const double *q = m->quantiles + (int)low;
    return at == low ? q[0] : q[0] + (at - low) * (q[1] - q[0]);
}

void et_fit_robust(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    et_fit_line(fitted, with);
    if (m->quantile_count < 2) {
        et_fitting_lacks(with, "quantiles");
        return;
    }
    const double middle = quantile_at(m, 0.75) - quantile_at(m, 0.25);
    const double all = quantile_at(m, 1) - quantile_at(m, 0);
    fitted->offset = quantile_at(m, 0.5);
    fitted->divisor = middle > 0 ? middle : all > 0 ? all / 2 : 1;
    fitted->span = middle > 0 || all > 0 ? 1 : 0;
    if (!isfinite(fitted->divisor))
        et_fitting_problem(with,
                           "%s has values from %g to %g, and their difference is too large for a "
                           "double: correct them, or leave the column out (--drop)",
                           with->field->name, quantile_at(m, 0), quantile_at(m, 1));
}

/* Bounds outliers to +-3. hypot, because the square may overflow. */
int et_apply_robust(const et_fitted_transform *f, const et_reading *value, void *to,
                    et_error *error)
{
    const double x = value->number;
    const double z = value->missing ? 0 : (x - f->offset) / f->divisor * f->span;
    return et_put_number(to, z / hypot(1, z / ROBUST_MOST), x, error);
}

/* z is clipped to +-LARGE, where the square does not overflow and the result is the same. An
 * infinite z gives NaN. */
const char *et_emit_robust(et_emitting *e)
{
    const double LARGE = 1e150;
    et_onnx *to = e->to;
    const char *all = et_emit_deviation(e);
    const char *z = et_onnx_call(to, "Max", et_emit_number(to, -LARGE),
                                 et_onnx_call(to, "Min", et_emit_number(to, LARGE), all));
    const char *third = et_onnx_call(to, "Div", z, et_emit_number(to, ROBUST_MOST));
    const char *root =
        et_onnx_call(to, "Add", et_emit_number(to, 1), et_onnx_call(to, "Mul", third, third));
    const char *y = et_onnx_call(to, "Div", z, et_onnx_call(to, "Sqrt", root));
    y = et_onnx_call(to, "Add", y, et_onnx_call(to, "Sub", all, all));
    return et_emit_cast(to, y, ET_ONNX_F32);
}

void et_fit_clip(et_fitted_transform *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    if (m->quantile_count < 2 || !m->has_range) {
        et_fit_one_column(fitted, with);
        et_fitting_lacks(with, m->has_range ? "quantiles" : "min and max");
        return;
    }
    const double middle = quantile_at(m, 0.5);
    const double far = CLIP_FROM * (quantile_at(m, 0.75) - quantile_at(m, 0.25));
    const bool spans = far > 0 && isfinite(far);
    if (spans && !(m->max - middle <= far && middle - m->min <= far)) {
        et_fit_line(fitted, with);
        /* Mean and standard deviation of the quantiles, after each is clipped to within `far` of
         * the middle. */
        double mean = 0, square = 0;
        for (int i = 0; i < m->quantile_count; i++) {
            const double d = fmax(-far, fmin(m->quantiles[i] - middle, far)), before = d - mean;
            mean += before / (i + 1);
            square += before * (d - mean);
        }
        fitted->offset = middle + mean;
        fitted->divisor = sqrt(square / m->quantile_count);
    } else if (m->has_moments) {
        et_fit_standardize(fitted, with);
    } else {
        et_fit_robust(fitted, with);
    }
    const double most = fmax(m->max - fitted->offset, fitted->offset - m->min);
    fitted->bend = spans ? fmax(far / fitted->divisor, CLIP_LEAST) : most / fitted->divisor;
    if (!(fitted->span > 0))
        fitted->bend = 1;
}

/* z; if |z| > t: 2 t - t^2 / |z| with z's sign. This bounds outliers to +-2 t. */
int et_apply_clip(const et_fitted_transform *f, const et_reading *value, void *to, et_error *error)
{
    const double x = value->number;
    const double z = value->missing ? 0 : (x - f->offset) / f->divisor * f->span;
    const double r = f->bend / fmax(fabs(z), f->bend);
    return et_put_number(to, z * r * (2 - r), x, error);
}

const char *et_emit_clip(et_emitting *e)
{
    et_onnx *to = e->to;
    const char *z = et_emit_deviation(e), *size = et_onnx_call(to, "Abs", z);
    const char *inverse = et_emit_with_each(e, "Max", size, offsetof(et_fitted_transform, bend));
    inverse = et_emit_with_each(e, "Div", inverse, offsetof(et_fitted_transform, bend));
    const char *r = et_onnx_call(to, "Div", et_emit_number(to, 1), inverse);
    const char *factor =
        et_onnx_call(to, "Mul", r, et_onnx_call(to, "Sub", et_emit_number(to, 2), r));
    return et_emit_cast(to, et_onnx_call(to, "Mul", z, factor), ET_ONNX_F32);
}

/* The rank of x among the quantiles, 0..1. If several quantiles are equal to x: their mean rank. */
static double portion(const et_fitted_transform *f, double x)
{
    int last = f->points - 1, from = et_fitted_points_below(f, x, false),
        to = et_fitted_points_below(f, x, true) - 1;
    if (from <= to)
        return (from + to) / (2.0 * last);
    if (from == 0 || to == last)
        return from == 0 ? 0 : 1;
    et_assert(to == from - 1);
    double low = f->point[to], high = f->point[from];
    return (to + (x - low) / (high - low)) / last;
}

int et_apply_quantile(const et_fitted_transform *f, const et_reading *value, void *to,
                      et_error *error)
{
    if (value->missing || f->point[0] == f->point[f->points - 1])
        return et_put_number(to, 0, 0, error);
    double p = portion(f, value->number), z = NORMAL_END;
    if (p <= 0)
        z = -NORMAL_END;
    else if (p < 1)
        z = fmax(-NORMAL_END, fmin(NORMAL_END, et_normal_quantile(p)));
    return et_put_number(to, z, value->number, error);
}

/* portion as nodes, float64 [rows, count]. A constant column gets 0.5, which becomes 0. */
static const char *emit_portions(const et_emitting *e)
{
    const char **parts = et_alloc_zero(e->count, sizeof *parts), *y = NULL;
    for (int i = 0; parts && i < e->count; i++) {
        const et_fitted_transform *f = e->fitted[i];
        const int64_t at = i;
        const char *x = et_onnx_call(e->to, "Gather", e->x, et_onnx_ints(e->to, &at, 1));
        et_onnx_set_int(e->to, "axis", 1);
        parts[i] = f->point[0] < f->point[f->points - 1]
                       ? emit_portion(e->to, f, x)
                       : et_onnx_call(e->to, "Add", et_emit_number(e->to, 0.5),
                                      et_onnx_call(e->to, "Mul", x, et_emit_number(e->to, 0)));
    }
    y = parts ? et_onnx_node(e->to, "Concat", parts, e->count) : NULL;
    et_onnx_set_int(e->to, "axis", 1);
    et_free(parts);
    return y;
}

const char *et_emit_quantile(et_emitting *e)
{
    et_onnx *to = e->to;
    const char *low = et_emit_number(to, -NORMAL_END), *high = et_emit_number(to, NORMAL_END);
    const char *p = emit_portions(e), *z = normal_quantile_emit(to, p);
    z = et_onnx_call(to, "Max", low, et_onnx_call(to, "Min", high, z));
    z = et_onnx_call(to, "Where", et_onnx_call(to, "Less", p, et_emit_number(to, 1)), z, high);
    z = et_onnx_call(to, "Where", et_onnx_call(to, "LessOrEqual", p, et_emit_number(to, 0)), low,
                     z);
    return et_emit_cast(to, z, ET_ONNX_F32);
}
