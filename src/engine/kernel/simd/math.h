/* exp, log, tanh, sin, cos, the logistic and the normal distribution function on the vectors of
 * simd.h. tests/engine/kernel/simd/test_math.c checks the errors stated here. Polynomials without a
 * source are Chebyshev fits computed for this file. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_MATH_H
#define ETUDE_ENGINE_KERNEL_SIMD_MATH_H

#include <math.h>

#include "engine/kernel/simd/simd.h"

/* e^x within 2 units in the last place. x = n log 2 + r, |r| <= log(2) / 2, log 2 in two parts
 * (Cody and Waite); e^r = 1 + r + r^2 p(r), fit error 9e-9. From -87 down: 0; above 88.72:
 * infinity; a NaN stays. The order of the operands of v_max and v_min lets a NaN through: both
 * return the second if either is one. */
ET_INLINE vf v_exp(vf x)
{
    vm above = v_not_le(x, v_set(-87.0f));
    x = v_min(v_set(89.0f), v_max(v_set(-88.0f), x));
    vf n = v_round(x * v_set(1.44269504f));
    vf r = v_fma(n, v_set(-0.693359375f), x);
    r = v_fma(n, v_set(2.12194440e-4f), r);
    vf p = v_fma(v_set(0.001392691806f), r, v_set(0.008363767023f));
    p = v_fma(p, r, v_set(0.04166655016f));
    p = v_fma(p, r, v_set(0.1666657342f));
    p = v_fma(p, r, v_set(0.5f));
    p = v_fma(p, r * r, r) + v_set(1.0f);
    return v_select(above, v_scale2(p, n), v_set(0.0f));
}

/* 2^x with an error below 3e-6 of it, for sums of many: 2^n p(x - n), n the nearest whole number.
 * From -126 down: about 0; x is below 128. A NaN is lost and counts as about 0: use it only if the
 * terms are known to be numbers, or are checked elsewhere. */
ET_INLINE vf v_exp2(vf x)
{
    x = v_max(x, v_set(-126.0f));
    const vf n = v_round(x), f = x - n;
    vf p = v_fma(v_set(0.00957010128f), f, v_set(0.0559178591f));
    p = v_fma(p, f, v_set(0.240247443f));
    p = v_fma(p, f, v_set(0.693121791f));
    p = v_fma(p, f, v_set(0.999999285f));
    return v_scale2(p, n);
}

/* 2^x within 2.5e-7 of itself, for weights that are read one by one; at 0 it is 1. From -126 down:
 * about 0; x is below 128; a NaN stays. */
ET_INLINE vf v_exp2_fine(vf x)
{
    x = v_max(v_set(-126.0f), x);
    const vf n = v_round(x), f = x - n;
    vf p = v_fma(v_set(0.001327647198f), f, v_set(0.009675541334f));
    p = v_fma(p, f, v_set(0.05550713274f));
    p = v_fma(p, f, v_set(0.2402211972f));
    p = v_fma(p, f, v_set(0.6931469671f));
    p = v_fma(p, f, v_set(1.0f));
    return v_scale2(p, n);
}

/* log x within 2 units in the last place (near 1: within 2e-7), for x positive, normal and finite.
 * x = m 2^e with m in [2/3, 4/3); log m = 2 atanh s, s = (m - 1) / (m + 1), |s| <= 1/5, by its
 * series to s^11 (rest 2e-10). e log 2, the larger part unless e is 0, is added last, in one
 * multiply-add. */
ET_INLINE vf v_log(vf x)
{
    vf e, m = v_split(x, &e);
    const vm large = v_gt(m, v_set(1.33333333f));
    m = v_select(large, m * v_set(0.5f), m);
    e = v_select(large, e + v_set(1.0f), e);
    const vf s = (m - v_set(1.0f)) / (m + v_set(1.0f)), z = s * s;
    vf p = v_fma(v_set(2.0f / 11), z, v_set(2.0f / 9));
    p = v_fma(p, z, v_set(2.0f / 7));
    p = v_fma(p, z, v_set(2.0f / 5));
    p = v_fma(p, z, v_set(2.0f / 3));
    p = v_fma(p * z, s, v_set(2.0f) * s);
    return v_fma(e, v_set(0.69314718f), p);
}

/* 1 / (1 + e^-x) with a relative error below 4e-7 unless it underflows. For large -x the
 * exponential is infinite and the result 0, without a special case. */
ET_INLINE vf v_sigmoid(vf x)
{
    return v_set(1.0f) / (v_set(1.0f) + v_exp(v_set(0.0f) - x));
}

/* tanh x with a relative error below 4e-7: an odd polynomial for |x| < 0.6 (fit error 3e-9),
 * elsewhere 1 - 2 / (e^2x + 1). There e^2x may be infinite or 0, which gives 1 and -1. Near 0 the
 * formula would cancel, hence the polynomial. */
ET_INLINE vf v_tanh(vf x)
{
    vf z = x * x;
    vf p = v_fma(v_set(-0.00584964391f), z, v_set(0.02075134911f));
    p = v_fma(p, z, v_set(-0.05376798351f));
    p = v_fma(p, z, v_set(0.1333167963f));
    p = v_fma(p, z, v_set(-0.3333328283f));
    p = v_fma(p, z, v_set(0.9999999975f));
    vf e = v_exp(x + x);
    vf far = v_set(1.0f) - v_set(2.0f) / (e + v_set(1.0f));
    return v_select(v_gt(v_set(0.36f), z), x * p, far);
}

/* sin(x + n pi / 2), of x whole quarters of a turn taken away: x = k pi / 2 + r, |r| <= pi / 4, pi
 * / 2 in three parts (Cody and Waite; k has at most 16 bits, so its product with the first part is
 * exact). Series of sin and cos to r^9 and r^8 with fitted ends, error 4e-9. Within 3e-7 for |x| <=
 * 8192, within 2e-6 for |x| <= 65536; beyond that, a NaN. */
ET_INLINE vf v_sin_turned(vf x, float n)
{
    const vf k = v_round(x * v_set(0.636619772f));
    vf r = v_fma(k, v_set(-1.5703125f), x);
    r = v_fma(k, v_set(-4.837512969970703125e-4f), r);
    r = v_fma(k, v_set(-7.54978995489188216e-8f), r);
    const vf z = r * r;
    vf s = v_fma(v_set(2.7557319e-6f), z, v_set(-1.9841270e-4f));
    s = v_fma(s, z, v_set(8.3333333e-3f));
    s = v_fma(s, z, v_set(-1.6666667e-1f));
    s = v_fma(s * z, r, r);
    vf c = v_fma(v_set(2.4433157e-5f), z, v_set(-1.3887316e-3f));
    c = v_fma(c, z, v_set(4.1666646e-2f));
    c = v_fma(c, z * z, v_fma(z, v_set(-0.5f), v_set(1.0f)));
    /* The quarter: 0, 1/4, 1/2 or 3/4 of a turn. */
    const vf turns = (k + v_set(n)) * v_set(0.25f);
    const vf quarter = turns - v_round(turns - v_set(0.375f));
    const vf half = quarter + quarter;
    const vm second = v_gt(quarter, v_set(0.375f));
    const vm odd = v_gt(half - v_select(second, v_set(1.0f), v_set(0.0f)), v_set(0.25f));
    const vf y = v_select(odd, c, s);
    const vm far = v_gt(v_max(x, v_set(0.0f) - x), v_set(65536.0f));
    return v_select(far, v_set(NAN), v_select(second, v_set(0.0f) - y, y));
}

ET_INLINE vf v_sin(vf x)
{
    return v_sin_turned(x, 0);
}

ET_INLINE vf v_cos(vf x)
{
    return v_sin_turned(x, 1);
}

/* The normal distribution function within 4e-7, and with it the density's exponential e^(-x^2/2):
 * erfc(u) = t q(t) e^(-u^2), t = 1 / (1 + 0.3275911 u), u = |x| / sqrt 2 (Abramowitz and Stegun,
 * Handbook of Mathematical Functions, 7.1.26). Phi(x) = erfc(-x / sqrt 2) / 2: the tail is half of
 * erfc(u), and by symmetry Phi is the tail below 0 and one less the tail above. */
ET_INLINE vf v_phi(vf x, vf *exponential)
{
    vf u = v_max(x, v_set(0.0f) - x) * v_set(0.70710678f);
    vf t = v_set(1.0f) / v_fma(v_set(0.3275911f), u, v_set(1.0f));
    vf q = v_fma(v_set(1.061405429f), t, v_set(-1.453152027f));
    q = v_fma(q, t, v_set(1.421413741f));
    q = v_fma(q, t, v_set(-0.284496736f));
    q = v_fma(q, t, v_set(0.254829592f));
    *exponential = v_exp(v_set(0.0f) - u * u);
    vf tail = v_set(0.5f) * t * q * *exponential;
    return v_select(v_gt(x, v_set(0.0f)), v_set(1.0f) - tail, tail);
}

#endif
