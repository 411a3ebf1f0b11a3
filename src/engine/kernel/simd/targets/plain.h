/* The vectors of simd.h for any CPU: 4 lanes by the compilers' vector extension, which gives SSE on
 * x86-64, NEON on ARM, and plain loops elsewhere. This is also the readable definition of the other
 * two: each function is written lane by lane. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_TARGETS_PLAIN_H
#define ETUDE_ENGINE_KERNEL_SIMD_TARGETS_PLAIN_H

#include <math.h>

#include "base/dtype.h"

/* The sizes for which kernels are written: lanes of a vector, Philox blocks of one v_keep, rows of
 * a product's block and of a product with a weight, and units of k that the block's loop takes at a
 * time. They are small here, because the registers are unknown. */
#define V_LANES         4
#define V_BLOCKS        1
#define V_PRODUCT_ROWS  4
#define V_PANEL_ROWS    4
#define V_PRODUCT_UNITS 1

/* Comparisons of vf give vm: all bits of a lane, or none. */
typedef float vf __attribute__((vector_size(16)));
typedef int32_t vm __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

/* -1 is all bits. */
ET_INLINE vm v_first(int64_t n)
{
    return (vm){ -(n > 0), -(n > 1), -(n > 2), -(n > 3) };
}

ET_INLINE vf v_set(float x)
{
    return (vf){ x, x, x, x };
}

/* By memcpy: addresses need no alignment. */
ET_INLINE vf v_load(const float *x)
{
    vf value;
    memcpy(&value, x, sizeof value);
    return value;
}

/* Nothing beyond x[n - 1] is read: it may be the end of a page. */
ET_INLINE vf v_load_n(const float *x, int64_t n)
{
    float lane[4] = { 0 };
    for (int64_t i = 0; i < n && i < 4; i++)
        lane[i] = x[i];
    return v_load(lane);
}

ET_INLINE void v_store(float *y, vf value)
{
    memcpy(y, &value, sizeof value);
}

ET_INLINE void v_store_n(float *y, vf value, int64_t n)
{
    for (int64_t i = 0; i < n && i < 4; i++)
        y[i] = value[i];
}

/* Exact: a bfloat16 is the upper half of a float32. */
ET_INLINE vf v_load_bf16(const et_bf16 *x)
{
    return (vf){ et_bf16_to_float(x[0]), et_bf16_to_float(x[1]), et_bf16_to_float(x[2]),
                 et_bf16_to_float(x[3]) };
}

ET_INLINE vf v_load_bf16_n(const et_bf16 *x, int64_t n)
{
    et_bf16 lane[4] = { 0 };
    for (int64_t i = 0; i < n && i < 4; i++)
        lane[i] = x[i];
    return v_load_bf16(lane);
}

/* To nearest even, by base/dtype.h; the other targets must give the same bits. */
ET_INLINE void v_store_bf16_n(et_bf16 *y, vf value, int64_t n)
{
    for (int64_t i = 0; i < n && i < 4; i++)
        y[i] = et_bf16_from_float(value[i]);
}

ET_INLINE void v_store_bf16(et_bf16 *y, vf value)
{
    v_store_bf16_n(y, value, 4);
}

#include "engine/kernel/simd/units.h"

/* Two roundings if the compiler may not fuse (-ffp-contract=off). */
ET_INLINE vf v_fma(vf a, vf b, vf c)
{
    return a * b + c;
}

/* Bitwise: a lane of a mask has all bits or none. */
ET_INLINE vf v_select(vm m, vf a, vf b)
{
    return (vf)((m & (vm)a) | (~m & (vm)b));
}

/* A comparison with a NaN is false, so the second operand is returned. */
ET_INLINE vf v_max(vf a, vf b)
{
    return v_select(a > b, a, b);
}

ET_INLINE vf v_min(vf a, vf b)
{
    return v_select(a < b, a, b);
}

/* Correctly rounded, as everywhere (IEEE 754). */
ET_INLINE vf v_sqrt(vf a)
{
    return (vf){ sqrtf(a[0]), sqrtf(a[1]), sqrtf(a[2]), sqrtf(a[3]) };
}

/* 1.5 * 2^23 leaves no bits for a fraction; right for |a| < 2^22. */
ET_INLINE vf v_round(vf a)
{
    return (a + 12582912.0f) - 12582912.0f;
}

/* In two halves, so that 2^128 does not overflow before p brings it back. */
ET_INLINE vf v_scale2(vf p, vf n)
{
    vm bits = (vm)(n + 12582912.0f) - (vm)v_set(12582912.0f);
    vm half = bits >> 1, rest = bits - half;
    return p * (vf)((half + 127) << 23) * (vf)((rest + 127) << 23);
}

/* Sign 0, exponent bits of 1: m in [1, 2). The exponent's bias is 127. */
ET_INLINE vf v_split(vf x, vf *exponent)
{
    const vm bits = (vm)x, power = (bits >> 23) - 127;
    *exponent = (vf){ (float)power[0], (float)power[1], (float)power[2], (float)power[3] };
    return (vf)((bits & 0x7fffff) | 0x3f800000);
}

ET_INLINE vm v_gt(vf a, vf b)
{
    return a > b;
}

/* True for a NaN, because a <= b is false then. */
ET_INLINE vm v_not_le(vf a, vf b)
{
    return ~(a <= b);
}

/* Four lanes of a byte: the lower or the upper half. */
ET_INLINE vm v_bits(const uint8_t *bits, int64_t lane)
{
    int32_t four = bits[lane / 8] >> (lane & 4);
    return (vm){ -(four & 1), -(four >> 1 & 1), -(four >> 2 & 1), -(four >> 3 & 1) };
}

/* Bit i is lane i. */
ET_INLINE unsigned v_lanes(vm m)
{
    return (unsigned)((m[0] & 1) | (m[1] & 2) | (m[2] & 4) | (m[3] & 8));
}

ET_INLINE bool v_any(vm m)
{
    return (m[0] | m[1] | m[2] | m[3]) != 0;
}

/* Even and odd lanes first, as the wider vectors fold themselves in half. */
ET_INLINE float v_sum(vf a)
{
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* Undefined for NaNs: callers detect them otherwise. */
ET_INLINE float v_largest(vf a)
{
    float even = a[0] > a[2] ? a[0] : a[2], odd = a[1] > a[3] ? a[1] : a[3];
    return even > odd ? even : odd;
}

/* r[i] becomes column i. */
ET_INLINE void v_transpose(vf r[V_LANES])
{
    vf a = r[0], b = r[1], c = r[2], d = r[3];
    for (int i = 0; i < 4; i++)
        r[i] = (vf){ a[i], b[i], c[i], d[i] };
}

/* In the order of v_sum and v_largest. */
ET_INLINE vf v_folded(const vf r[V_LANES], vf (*const fold)(vf, vf))
{
    vf t[V_LANES] = { r[0], r[1], r[2], r[3] };
    v_transpose(t);
    return fold(fold(t[0], t[2]), fold(t[1], t[3]));
}

/* From any address. */
ET_INLINE vi v_load_int(const void *x)
{
    vi value;
    memcpy(&value, x, sizeof value);
    return value;
}

/* Four bytes of a row of x, against four rows of as many columns as there are lanes. */
ET_INLINE vi v_quad(const uint8_t *x)
{
    int32_t four;
    memcpy(&four, x, sizeof four);
    return (vi){ four, four, four, four };
}

/* Byte by byte of every lane, the lowest first or last as the machine has it: all four count. */
ET_INLINE vi v_dot(vi sum, vi a, vi b)
{
    ET_UNROLL
    for (int bit = 0; bit < 32; bit += 8)
        sum += (a >> bit & 255) * (b << (24 - bit) >> 24);
    return sum;
}

/* Exact up to 2^24. */
ET_INLINE vf v_float(vi a)
{
    return (vf){ (float)a[0], (float)a[1], (float)a[2], (float)a[3] };
}

/* lrintf rounds to nearest even in the default mode. */
ET_INLINE void v_store_bytes(uint8_t *y, vf value)
{
    for (int i = 0; i < 4; i++)
        y[i] = (uint8_t)lrintf(value[i]);
}

/* Squares of float32 are exact in double. */
typedef struct vd {
    double lane[4];
} vd;

ET_INLINE void v_add_squares(vd *sum, vf x)
{
    for (int i = 0; i < 4; i++)
        sum->lane[i] += (double)x[i] * x[i];
}

/* Lanes in their order: the same bits every time. */
ET_INLINE double v_total(vd sum)
{
    return sum.lane[0] + sum.lane[1] + sum.lane[2] + sum.lane[3];
}

/* Ten rounds of Philox4x32 on one counter (Salmon et al. 2011); each of its four words decides
 * about two elements, by its halves. */
ET_INLINE void v_keep(uint8_t keep[V_BLOCKS], uint64_t base, const uint64_t offset[V_BLOCKS],
                      const keep_stream *stream)
{
    const uint64_t index = base + offset[0];
    uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32);
    uint32_t c2 = stream->counter[0], c3 = stream->counter[1];
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)c0 * ET_PHILOX_M0, p1 = (uint64_t)c2 * ET_PHILOX_M1;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ (uint32_t)stream->key[round][0];
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ (uint32_t)stream->key[round][1];
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
    }
    const uint32_t word[4] = { c0, c1, c2, c3 };
    unsigned bits = 0;
    for (int i = 0; i < 4; i++) {
        bits |= (unsigned)((word[i] & 0xffffu) >= stream->threshold) << (2 * i);
        bits |= (unsigned)((word[i] >> 16) >= stream->threshold) << (2 * i + 1);
    }
    keep[0] = (uint8_t)bits;
}

#endif
