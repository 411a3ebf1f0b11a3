/* The vectors of simd.h on AVX2 with FMA: 8 lanes, masks as lanes of ones. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_TARGETS_AVX2_H
#define ETUDE_ENGINE_KERNEL_SIMD_TARGETS_AVX2_H

#include <immintrin.h>

/* 8 floats are a register; 4 Philox blocks are one of 64-bit lanes, and give 32 decisions. */
#define V_LANES  8
#define V_BLOCKS 4
/* Rows of a product's block: with three vectors of columns, 12 of the 16 registers hold sums. A
 * unit of k would be 25 instructions, 6 of which count and step, so two units share these. */
#define V_PRODUCT_ROWS  4
#define V_PRODUCT_UNITS 2
/* The same of a product with a weight: 12 sums, 2 columns and 1 row in 16 registers. */
#define V_PANEL_ROWS 6

typedef __m256 vf;
typedef __m256 vm;
typedef int32_t vi __attribute__((vector_size(32)));

/* Lane i is on if n > i; n is cut to 8 so that it fits an int. */
ET_INLINE __m256i v_first_lanes(int64_t n)
{
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : (int)n), lane);
}

/* All bits of a lane or none, as comparisons give them. */
ET_INLINE vm v_first(int64_t n)
{
    return _mm256_castsi256_ps(v_first_lanes(n));
}

ET_INLINE vf v_set(float x)
{
    return _mm256_set1_ps(x);
}

ET_INLINE vf v_load(const float *x)
{
    return _mm256_loadu_ps(x);
}

/* Masked loads touch no memory in masked lanes. */
ET_INLINE vf v_load_n(const float *x, int64_t n)
{
    return _mm256_maskload_ps(x, v_first_lanes(n));
}

ET_INLINE void v_store(float *y, vf value)
{
    _mm256_storeu_ps(y, value);
}

ET_INLINE void v_store_n(float *y, vf value, int64_t n)
{
    _mm256_maskstore_ps(y, v_first_lanes(n), value);
}

/* A bfloat16 is the upper half of a float32. */
ET_INLINE vf v_load_bf16(const et_bf16 *x)
{
    __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)x));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}

/* There is no masked load of 16-bit numbers before AVX-512. */
ET_INLINE vf v_load_bf16_n(const et_bf16 *x, int64_t n)
{
    et_bf16 lane[8] = { 0 };
    for (int64_t i = 0; i < n && i < 8; i++)
        lane[i] = x[i];
    return v_load_bf16(lane);
}

/* Nearest even: add 0x7fff plus the bit that stays lowest. A NaN keeps its upper bits and gets the
 * quiet bit, so it does not become an infinity. packus works within halves of a register; the
 * permutation brings the two halves together. */
ET_INLINE __m128i v_narrow(vf value)
{
    __m256i bits = _mm256_castps_si256(value);
    __m256i top = _mm256_srli_epi32(bits, 16);
    __m256i odd = _mm256_and_si256(top, _mm256_set1_epi32(1));
    __m256i even = _mm256_add_epi32(_mm256_add_epi32(bits, odd), _mm256_set1_epi32(0x7fff));
    __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(value, value, _CMP_UNORD_Q));
    __m256i quiet = _mm256_or_si256(top, _mm256_set1_epi32(0x40));
    __m256i result = _mm256_blendv_epi8(_mm256_srli_epi32(even, 16), quiet, nan);
    __m256i packed = _mm256_packus_epi32(result, result);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}

ET_INLINE void v_store_bf16(et_bf16 *y, vf value)
{
    _mm_storeu_si128((__m128i *)y, v_narrow(value));
}

/* By way of the stack: there is no masked store of 16-bit numbers before AVX-512. */
ET_INLINE void v_store_bf16_n(et_bf16 *y, vf value, int64_t n)
{
    et_bf16 lane[8];
    v_store_bf16(lane, value);
    for (int64_t i = 0; i < n && i < 8; i++)
        y[i] = lane[i];
}

#include "engine/kernel/simd/units.h"

/* One rounding. */
ET_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* The instruction returns the second operand if either is a NaN, as simd.h requires. */
ET_INLINE vf v_max(vf a, vf b)
{
    return _mm256_max_ps(a, b);
}

ET_INLINE vf v_min(vf a, vf b)
{
    return _mm256_min_ps(a, b);
}

ET_INLINE vf v_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}

/* To nearest even, without the flag of an inexact result. */
ET_INLINE vf v_round(vf a)
{
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* In two halves, so that 2^128 does not overflow before p brings it back. */
ET_INLINE vf v_scale2(vf p, vf n)
{
    __m256i whole = _mm256_cvtps_epi32(n);
    __m256i half = _mm256_srai_epi32(whole, 1);
    __m256i rest = _mm256_sub_epi32(whole, half);
    __m256i bias = _mm256_set1_epi32(127);
    vf first = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, bias), 23));
    vf second = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, bias), 23));
    return p * first * second;
}

/* For positive, normal numbers: bits 23 to 30 are the exponent plus 127. */
ET_INLINE vf v_split(vf x, vf *exponent)
{
    __m256i bits = _mm256_castps_si256(x);
    __m256i power = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127));
    __m256i fraction = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffff));
    *exponent = _mm256_cvtepi32_ps(power);
    return _mm256_castsi256_ps(_mm256_or_si256(fraction, _mm256_set1_epi32(0x3f800000)));
}

/* Ordered and quiet: false for a NaN, and no exception. */
ET_INLINE vm v_gt(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
}

/* Not less or equal, unordered and quiet: true for a NaN. */
ET_INLINE vm v_not_le(vf a, vf b)
{
    return _mm256_cmp_ps(a, b, _CMP_NLE_UQ);
}

/* Each lane tests its own bit of the byte. */
ET_INLINE vm v_bits(const uint8_t *bits, int64_t lane)
{
    __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    __m256i all = _mm256_set1_epi32(bits[lane / 8]);
    return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, bit), bit));
}

/* By the top bit of each lane, which a mask has as all others. */
ET_INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, m);
}

/* The top bits of the lanes: bit i is lane i. */
ET_INLINE unsigned v_lanes(vm m)
{
    return (unsigned)_mm256_movemask_ps(m);
}

ET_INLINE bool v_any(vm m)
{
    return _mm256_movemask_ps(m) != 0;
}

/* Halves are added until one lane is left: 8 -> 4 -> 2 -> 1, the same order every time. */
ET_INLINE float v_sum(vf a)
{
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* Folded as v_sum is. */
ET_INLINE float v_largest(vf a)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* Like a transposition that adds on the way: 8 vectors to 4, to 2, to 1, each with half as many
 * terms of each sum left. 0x44 takes the lower halves of both operands, 0xee the upper ones, 0x20
 * and 0x31 likewise of whole registers. The order of a sum is fixed but not v_sum's: the two may
 * differ in a last bit. */
ET_INLINE vf v_folded(const vf r[V_LANES], vf (*const fold)(vf, vf))
{
    vf t[4];
    ET_UNROLL
    for (int i = 0; i < 4; i++)
        t[i] = fold(_mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]),
                    _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]));
    vf low = fold(_mm256_shuffle_ps(t[0], t[1], 0x44), _mm256_shuffle_ps(t[0], t[1], 0xee));
    vf high = fold(_mm256_shuffle_ps(t[2], t[3], 0x44), _mm256_shuffle_ps(t[2], t[3], 0xee));
    return fold(_mm256_permute2f128_ps(low, high, 0x20), _mm256_permute2f128_ps(low, high, 0x31));
}

/* Pairs of rows, pairs of pairs, then the two halves of the registers. */
ET_INLINE void v_transpose(vf r[V_LANES])
{
    vf s[8];
    ET_UNROLL
    for (int i = 0; i < 8; i += 4) {
        vf a = _mm256_unpacklo_ps(r[i], r[i + 1]), b = _mm256_unpackhi_ps(r[i], r[i + 1]);
        vf c = _mm256_unpacklo_ps(r[i + 2], r[i + 3]);
        vf d = _mm256_unpackhi_ps(r[i + 2], r[i + 3]);
        s[i] = _mm256_shuffle_ps(a, c, 0x44);
        s[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
        s[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
        s[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
    }
    ET_UNROLL
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(s[i], s[i + 4], 0x31);
    }
}

/* From any address. */
ET_INLINE vi v_load_int(const void *x)
{
    return (vi)_mm256_loadu_si256(x);
}

/* By way of float: a broadcast from memory costs no arithmetic port. */
ET_INLINE vi v_quad(const uint8_t *x)
{
    float four;
    memcpy(&four, x, sizeof four);
    return (vi)_mm256_castps_si256(_mm256_set1_ps(four));
}

/* By 16-bit numbers: the product of bytes that AVX2 has loses sums above 32,767. Even bytes and odd
 * ones apart, each widened to 16 bits, b's with its sign; madd then adds two products of 16-bit
 * numbers in 32. Four products of at most 255 * 128 fit easily. */
ET_INLINE vi v_dot(vi sum, vi a, vi b)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    __m256i a_even = _mm256_and_si256((__m256i)a, low), a_odd = _mm256_srli_epi16((__m256i)a, 8);
    __m256i b_even = _mm256_srai_epi16(_mm256_slli_epi16((__m256i)b, 8), 8);
    __m256i b_odd = _mm256_srai_epi16((__m256i)b, 8);
    return sum + (vi)_mm256_madd_epi16(a_even, b_even) + (vi)_mm256_madd_epi16(a_odd, b_odd);
}

/* Exact up to 2^24, to nearest even beyond. */
ET_INLINE vf v_float(vi a)
{
    return _mm256_cvtepi32_ps((__m256i)a);
}

/* To the nearest, then saturated: 32 to 16 to 8 bits. */
ET_INLINE void v_store_bytes(uint8_t *y, vf value)
{
    __m256i whole = _mm256_cvtps_epi32(value);
    __m128i words =
        _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((__m128i *)y, _mm_packus_epi16(words, words));
}

/* The lower and the upper four lanes. */
typedef struct vd {
    __m256d low, high;
} vd;

/* Widened first: squares of float32 are exact in double. */
ET_INLINE void v_add_squares(vd *sum, vf x)
{
    __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
    __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
    sum->low = _mm256_fmadd_pd(low, low, sum->low);
    sum->high = _mm256_fmadd_pd(high, high, sum->high);
}

/* Lanes in their order. */
ET_INLINE double v_total(vd sum)
{
    double lane[4];
    _mm256_storeu_pd(lane, _mm256_add_pd(sum.low, sum.high));
    return lane[0] + lane[1] + lane[2] + lane[3];
}

/* Four Philox counters in 64-bit lanes, as in avx512.h. An unsigned a >= b is max(a, b) == a
 * here. 0xd8 puts 64-bit lanes in the order 0, 2, 1, 3: interleaving and packing work within halves
 * of a register. */
ET_INLINE void v_keep(uint8_t keep[V_BLOCKS], uint64_t base, const uint64_t offset[V_BLOCKS],
                      const keep_stream *stream)
{
    const __m256i m0 = _mm256_set1_epi64x(ET_PHILOX_M0), m1 = _mm256_set1_epi64x(ET_PHILOX_M1);
    __m256i in_order = _mm256_add_epi64(_mm256_set1_epi64x((int64_t)base),
                                        _mm256_loadu_si256((const __m256i *)offset));
    __m256i c0 = _mm256_permute4x64_epi64(in_order, 0xd8);
    __m256i c1 = _mm256_srli_epi64(c0, 32);
    __m256i c2 = _mm256_set1_epi64x(stream->counter[0]);
    __m256i c3 = _mm256_set1_epi64x(stream->counter[1]);
    ET_UNROLL
    for (int round = 0; round < 10; round++) {
        __m256i p0 = _mm256_mul_epu32(c0, m0), p1 = _mm256_mul_epu32(c2, m1);
        __m256i k0 = _mm256_set1_epi64x((int64_t)stream->key[round][0]);
        __m256i k1 = _mm256_set1_epi64x((int64_t)stream->key[round][1]);
        c0 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), c1), k0);
        c2 = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), c3), k1);
        c1 = p1;
        c3 = p0;
    }
    /* The words of a block side by side: c0 and c1, c2 and c3 of each lane. */
    __m256i a = _mm256_blend_epi32(c0, _mm256_slli_epi64(c1, 32), 0xaa);
    __m256i b = _mm256_blend_epi32(c2, _mm256_slli_epi64(c3, 32), 0xaa);
    __m256i threshold = _mm256_set1_epi16((short)stream->threshold);
    __m256i low = _mm256_unpacklo_epi64(a, b), high = _mm256_unpackhi_epi64(a, b);
    low = _mm256_cmpeq_epi16(_mm256_max_epu16(low, threshold), low);
    high = _mm256_cmpeq_epi16(_mm256_max_epu16(high, threshold), high);
    /* Sixteen-bit masks to bytes, halves of the register put back in order, a bit from each
     * byte. */
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
    uint32_t bits = (uint32_t)_mm256_movemask_epi8(packed);
    memcpy(keep, &bits, sizeof bits);
}

#endif
