/* Vectors of float32 for the kernel sources that are written once and compiled per instruction
 * set. One of targets/avx512.h, targets/avx2.h and targets/plain.h gives, with V_LANES lanes:
 *
 *   vf, vm           floats; one truth value per lane. + - * / work on vf directly.
 *   v_set, v_load, v_store, v_load_bf16, v_store_bf16 (to nearest even, NaN stays NaN);
 *   ..._n            the same for the first n lanes only (0 <= n; V_LANES or more: all); the
 *                    other lanes read as 0 and are not touched in memory
 *   v_fma            a * b + c (one rounding where the CPU has it)
 *   v_max, v_min     the second operand where either is a NaN
 *   v_sqrt, v_round  to the nearest whole number
 *   v_scale2         p * 2^n, n a whole number in [-126, 128]
 *   v_split          x = m 2^e, m in [1, 2); x positive, normal and finite
 *   v_gt, v_not_le   a > b; not (a <= b), which is true for a NaN
 *   v_first(n)       true in the first n lanes
 *   v_bits           lanes lane.. of a run of packed bits; lane is a multiple of V_LANES
 *   v_select         m ? a : b;  v_any: whether any lane is true;  v_lanes: a bit for each
 *   v_sum, v_largest over the lanes, in a fixed order
 *   v_folded         lane i: the lanes of vector i, folded two by two in a fixed order
 *   v_transpose      V_LANES vectors as a square matrix
 *   v_load_units_n, v_store_units_n  lanes of two bfloat16 as they lie in memory, n elements
 *   v_load_pairs_n   such lanes from two rows: element i of the first, element i of the second
 *   v_load_units, v_store_units, v_load_pairs  all lanes of these
 *   vi               32-bit whole numbers, + on them directly; v_load_int; v_float to float
 *   v_quad           the same four bytes in each lane
 *   v_dot            sum + the four products of bytes of each lane, a's unsigned, b's signed; exact
 *   v_dot_pairs      sum + the two products of bfloat16 of each lane
 *   v_store_bytes    to the nearest of 0 .. 255, which the value must be near
 *   vd               sums in double: v_add_squares, v_total
 *   v_keep           dropout's decisions for V_BLOCKS Philox blocks, base + offset[i]; see
 *                    simd/random.h
 *
 * Everything is static, so that nothing compiled with an instruction set's flags can be linked
 * into code that must run without it. Include this once per compiled table. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_SIMD_H
#define ETUDE_ENGINE_KERNEL_SIMD_SIMD_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"
#include "base/inline.h"

/* Unrolls the following loop completely, so that its arrays of vectors live in registers; or by a
 * number of rounds, to reduce loop overhead. */
#define ET_PRAGMA(text) _Pragma(#text)
#ifdef __clang__
#define ET_UNROLL           _Pragma("unroll")
#define ET_UNROLL_BY(count) ET_PRAGMA(unroll count)
#else
#define ET_UNROLL           _Pragma("GCC unroll 16")
#define ET_UNROLL_BY(count) ET_PRAGMA(GCC unroll count)
#endif

/* Constants for dropout's decisions: Philox's round keys, the constant half of its counter, and the
 * smallest 16-bit number that is kept. Made once per call of a kernel (simd/random.h), read by
 * every block of its elements. key has the key of each of the ten rounds; counter the upper two of
 * Philox's four words, step and site; the lower two count blocks. Keys are as wide as the lanes of
 * the vectors' multiplication, so that they are loaded into every lane at once. */
typedef struct keep_stream {
    uint64_t key[10][2];
    uint32_t counter[2];
    uint32_t threshold;
} keep_stream;

/* Philox4x32's two multipliers, and the increments of its keys from round to round (Salmon et al.
 * 2011, "Parallel random numbers: as easy as 1, 2, 3"). */
#define ET_PHILOX_M0 0xD2511F53u
#define ET_PHILOX_M1 0xCD9E8D57u
#define ET_PHILOX_W0 0x9E3779B9u
#define ET_PHILOX_W1 0xBB67AE85u

/* By the flags of the file that includes this; kernels_plain.c asks for the plain one whatever its
 * flags are. */
#if defined(ET_SIMD_PLAIN)
#include "engine/kernel/simd/targets/plain.h"
#elif defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__)
#include "engine/kernel/simd/targets/avx512.h"
#elif defined(__AVX2__) && defined(__FMA__)
#include "engine/kernel/simd/targets/avx2.h"
#else
#include "engine/kernel/simd/targets/plain.h"
#endif

/* The upper half first, as the instruction has it, which also takes subnormal numbers for 0. */
#ifndef V_DOT_PAIRS
ET_INLINE vf v_dot_pairs(vf sum, vf a, vf b)
{
    const vf a_low = (vf)((vi)a << 16), a_high = (vf)((vi)a & (int32_t)0xffff0000);
    const vf b_low = (vf)((vi)b << 16), b_high = (vf)((vi)b & (int32_t)0xffff0000);
    return v_fma(a_low, b_low, v_fma(a_high, b_high, sum));
}
#endif

/* A vector from an array of act type; dtype is a constant wherever speed matters. */
ET_INLINE vf v_read(const void *x, int64_t i, et_dtype dtype)
{
    return dtype == ET_BF16 ? v_load_bf16((const et_bf16 *)x + i) : v_load((const float *)x + i);
}

/* The first n lanes from element i on, zeros in the others. n may exceed the number of lanes: loops
 * pass the rest of their row. */
ET_INLINE vf v_read_n(const void *x, int64_t i, int64_t n, et_dtype dtype)
{
    if (n >= V_LANES)
        return v_read(x, i, dtype);
    return dtype == ET_BF16 ? v_load_bf16_n((const et_bf16 *)x + i, n)
                            : v_load_n((const float *)x + i, n);
}

/* Writes the first n lanes from element i on, rounded to nearest even if y is bfloat16; writes
 * nothing after them. */
ET_INLINE void v_write_n(void *y, int64_t i, vf value, int64_t n, et_dtype dtype)
{
    if (dtype == ET_BF16) {
        if (n >= V_LANES)
            v_store_bf16((et_bf16 *)y + i, value);
        else
            v_store_bf16_n((et_bf16 *)y + i, value, n);
    } else {
        if (n >= V_LANES)
            v_store((float *)y + i, value);
        else
            v_store_n((float *)y + i, value, n);
    }
}

/* The same of float32. */
ET_INLINE vf v_get_n(const float *x, int64_t i, int64_t n)
{
    return v_read_n(x, i, n, ET_F32);
}

ET_INLINE void v_put_n(float *y, int64_t i, vf value, int64_t n)
{
    v_write_n(y, i, value, n, ET_F32);
}

/* One element as float32. */
ET_INLINE float row_value(const void *x, int64_t i, et_dtype dtype)
{
    return dtype == ET_BF16 ? et_bf16_to_float(((const et_bf16 *)x)[i]) : ((const float *)x)[i];
}

ET_INLINE vf v_plus(vf a, vf b)
{
    return a + b;
}

/* Lane i: the sum over the lanes of vector i, in a fixed order. */
ET_INLINE vf v_sums(const vf r[V_LANES])
{
    return v_folded(r, v_plus);
}

/* Lane i: the largest lane of vector i. */
ET_INLINE vf v_largests(const vf r[V_LANES])
{
    return v_folded(r, v_max);
}

/* Calls a function whose last argument is an element type, with that argument constant.
 * ET_BY_DTYPE(dtype, norm_row, y, x) is
 *   if (dtype == ET_BF16) norm_row(y, x, ET_BF16); else norm_row(y, x, ET_F32);
 * so an ET_INLINE function is compiled twice, and asks for the type in no loop. */
#define ET_BY_DTYPE(dtype, function, ...)                                                          \
    do {                                                                                           \
        if ((dtype) == ET_BF16)                                                                    \
            function(__VA_ARGS__, ET_BF16);                                                        \
        else                                                                                       \
            function(__VA_ARGS__, ET_F32);                                                         \
    } while (0)

#endif
