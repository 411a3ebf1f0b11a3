/* The transforms that read the quantiles of the metadata: quantile, robust and clip. */
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/table/features/emit.h"
#include "data/table/features/transforms_private.h"

/* As scikit-learn's QuantileTransformer: the normal's quantile at 1e-7. */
#define NORMAL_END 5.199337582605575
/* The output of robust is between -ROBUST_MOST and ROBUST_MOST. */
#define ROBUST_MOST 3
/* clip does not change values up to this many interquartile ranges from the median, nor up to
 * CLIP_LEAST standard deviations. An exponential distribution has 1 of 300 values beyond. */
#define CLIP_FROM  5
#define CLIP_LEAST 4

void et_fit_quantile(et_fitted *fitted, const et_fitting *with)
{
    const et_column_metadata *m = with->metadata;
    int n = m->quantile_count;
    et_fit_one_column(fitted, with);
    if (n < 2) {
        et_fitting_lacks(with, "quantiles");
        return;
    }
    double *points = et_arena_array(with->arena, (size_t)n, sizeof *points);
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

void et_fit_robust(et_fitted *fitted, const et_fitting *with)
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
        et_fitting_lacks(with, "finite range of values");
}

/* Bounds outliers to +-3. hypot, because the square may overflow. */
int et_apply_robust(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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

/* Mean and standard deviation of the quantiles, after each is clipped to within `far` of the
 * middle. */
static void fit_clipped(et_fitted *fitted, const et_column_metadata *m, double middle, double far)
{
    double mean = 0, square = 0;
    for (int i = 0; i < m->quantile_count; i++) {
        const double d = fmax(-far, fmin(m->quantiles[i] - middle, far)), before = d - mean;
        mean += before / (i + 1);
        square += before * (d - mean);
    }
    fitted->offset = middle + mean;
    fitted->divisor = sqrt(square / m->quantile_count);
}

void et_fit_clip(et_fitted *fitted, const et_fitting *with)
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
        fit_clipped(fitted, m, middle, far);
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
int et_apply_clip(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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
    const char *inverse = et_emit_with_each(e, "Max", size, offsetof(et_fitted, bend));
    inverse = et_emit_with_each(e, "Div", inverse, offsetof(et_fitted, bend));
    const char *r = et_onnx_call(to, "Div", et_emit_number(to, 1), inverse);
    const char *factor =
        et_onnx_call(to, "Mul", r, et_onnx_call(to, "Sub", et_emit_number(to, 2), r));
    return et_emit_cast(to, et_onnx_call(to, "Mul", z, factor), ET_ONNX_F32);
}

/* The rank of x among the quantiles, 0..1. If several quantiles equal x: their mean rank. */
static double portion(const et_fitted *f, double x)
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

int et_apply_quantile(const et_fitted *f, const et_reading *value, void *to, et_error *error)
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
    const char **parts = et_alloc_zero((size_t)e->count, sizeof *parts), *y = NULL;
    for (int i = 0; parts && i < e->count; i++) {
        const et_fitted *f = e->fitted[i];
        const int64_t at = i;
        const char *x = et_onnx_call(e->to, "Gather", e->x, et_onnx_ints(e->to, &at, 1));
        et_onnx_set_int(e->to, "axis", 1);
        parts[i] = f->point[0] < f->point[f->points - 1]
                       ? et_emit_portion(e->to, f, x)
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
    const char *p = emit_portions(e), *z = et_normal_quantile_emit(to, p);
    z = et_onnx_call(to, "Max", low, et_onnx_call(to, "Min", high, z));
    z = et_onnx_call(to, "Where", et_onnx_call(to, "Less", p, et_emit_number(to, 1)), z, high);
    z = et_onnx_call(to, "Where", et_onnx_call(to, "LessOrEqual", p, et_emit_number(to, 0)), low,
                     z);
    return et_emit_cast(to, z, ET_ONNX_F32);
}
