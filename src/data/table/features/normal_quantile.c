/* The inverse of the standard normal distribution function: algorithm AS 241, PPND16 (Wichura,
 * Applied Statistics 37, 1988): quotients of polynomials, near the centre in q = p - 1/2, in the
 * tails in r = sqrt(-log(p)) of the nearer end. Relative error about 1e-16. */
#include <math.h>

#include "base/assert.h"
#include "data/table/features/emit.h"
#include "data/table/features/transforms.h"

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
static const quotient near = {
    { 7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
      1.27045825245236838258e+0, 3.64784832476320460504e+0, 5.76949722146069140550e+0,
      4.63033784615654529590e+0, 1.42343711074968357734e+0 },
    { 1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2,
      1.48103976427480074590e-1, 6.89767334985100004550e-1, 1.67638483018380384940e+0,
      2.05319162663775882187e+0, 1.0 },
};
static const quotient far = {
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

const char *et_normal_quantile_emit(et_onnx *to, const char *p)
{
    const char *q = et_onnx_call(to, "Sub", p, et_emit_number(to, 0.5));
    const char *inner =
        et_onnx_call(to, "Sub", et_emit_number(to, 0.180625), et_onnx_call(to, "Mul", q, q));
    const char *middle = et_onnx_call(to, "Mul", q, emit_quotient(to, &centre, inner));
    const char *less =
        et_onnx_call(to, "Min", p, et_onnx_call(to, "Sub", et_emit_number(to, 1), p));
    const char *r =
        et_onnx_call(to, "Sqrt", et_onnx_call(to, "Neg", et_onnx_call(to, "Log", less)));
    const char *z =
        et_onnx_call(to, "Where", et_onnx_call(to, "LessOrEqual", r, et_emit_number(to, 5)),
                     emit_quotient(to, &near, et_onnx_call(to, "Sub", r, et_emit_number(to, 1.6))),
                     emit_quotient(to, &far, et_onnx_call(to, "Sub", r, et_emit_number(to, 5))));
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
    double z = r <= 5 ? divide(&near, r - 1.6) : divide(&far, r - 5);
    return q < 0 ? -z : z;
}
