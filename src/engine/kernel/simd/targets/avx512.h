/* The vectors of simd.h on AVX-512 (F, BW, DQ, VL): 16 lanes, masks in registers. */
#ifndef ETUDE_ENGINE_KERNEL_SIMD_TARGETS_AVX512_H
#define ETUDE_ENGINE_KERNEL_SIMD_TARGETS_AVX512_H

#include <immintrin.h>

/* 16 floats are a register; 8 Philox blocks are one of 64-bit lanes, and give 64 decisions. */
#define V_LANES  16
#define V_BLOCKS 8
/* Rows of a product's block: as many sums as hide the latency of a fused multiply-add. */
#define V_PRODUCT_ROWS  8
#define V_PRODUCT_UNITS 1
/* Rows times vectors of a product with a weight: 24 sums, 2 columns and 1 row in 32 registers. */
#define V_PANEL_ROWS 12

typedef __m512 vf;
typedef __mmask16 vm;
/* Not __m512i, which gcc 12 moves about between the sums of v_dot. */
typedef int32_t vi __attribute__((vector_size(64)));

/* n may be more than there are lanes, and more than a shift allows. */
ET_INLINE vm v_first(int64_t n)
{
    return n >= 16 ? (vm)0xffffu : (vm)((1u << n) - 1u);
}

ET_INLINE vf v_set(float x)
{
    return _mm512_set1_ps(x);
}

ET_INLINE vf v_load(const float *x)
{
    return _mm512_loadu_ps(x);
}

/* Masked loads touch no memory in masked lanes, so an array may end at a page's end. */
ET_INLINE vf v_load_n(const float *x, int64_t n)
{
    return _mm512_maskz_loadu_ps(v_first(n), x);
}

ET_INLINE void v_store(float *y, vf value)
{
    _mm512_storeu_ps(y, value);
}

/* A masked store touches nothing after n either: another thread may be writing there. */
ET_INLINE void v_store_n(float *y, vf value, int64_t n)
{
    _mm512_mask_storeu_ps(y, v_first(n), value);
}

/* A bfloat16 is the upper half of a float32. */
ET_INLINE vf v_widen(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

ET_INLINE vf v_load_bf16(const et_bf16 *x)
{
    return v_widen(_mm256_loadu_si256((const __m256i *)x));
}

ET_INLINE vf v_load_bf16_n(const et_bf16 *x, int64_t n)
{
    return v_widen(_mm256_maskz_loadu_epi16(v_first(n), x));
}

/* Nearest even: add 0x7fff plus the bit that stays lowest. The CPU's own conversion would
 * flush denormals. */
ET_INLINE __m256i v_narrow(vf value)
{
    __m512i bits = _mm512_castps_si512(value);
    __m512i top = _mm512_srli_epi32(bits, 16);
    __m512i odd = _mm512_and_si512(top, _mm512_set1_epi32(1));
    __m512i even = _mm512_add_epi32(_mm512_add_epi32(bits, odd), _mm512_set1_epi32(0x7fff));
    __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
    __m512i result = _mm512_srli_epi32(even, 16);
    result = _mm512_mask_or_epi32(result, nan, top, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(result);
}

ET_INLINE void v_store_bf16(et_bf16 *y, vf value)
{
    _mm256_storeu_si256((__m256i *)y, v_narrow(value));
}

ET_INLINE void v_store_bf16_n(et_bf16 *y, vf value, int64_t n)
{
    _mm256_mask_storeu_epi16(y, v_first(n), v_narrow(value));
}

/* The same for lanes of 16 bits. */
ET_INLINE __mmask32 v_first_halves(int64_t n)
{
    return n >= 32 ? 0xffffffffu : (1u << n) - 1u;
}

/* Two bfloat16 fill a lane; masked elements read as zero. */
ET_INLINE vf v_load_units_n(const et_bf16 *x, int64_t n)
{
    return _mm512_castsi512_ps(_mm512_maskz_loadu_epi16(v_first_halves(n), x));
}

ET_INLINE void v_store_units_n(et_bf16 *y, vf units, int64_t n)
{
    _mm512_mask_storeu_epi16(y, v_first_halves(n), _mm512_castps_si512(units));
}

/* All lanes, without the work that masks are. */
ET_INLINE vf v_load_units(const et_bf16 *x)
{
    return _mm512_castsi512_ps(_mm512_loadu_si512(x));
}

ET_INLINE void v_store_units(et_bf16 *y, vf units)
{
    _mm512_storeu_si512(y, _mm512_castps_si512(units));
}

ET_INLINE vf v_load_pairs(const et_bf16 *x, const et_bf16 *next)
{
    __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)x));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_castps_si512(v_load_bf16(next))));
}

/* x in the lower halves, next in the upper ones, as v_load_bf16_n puts it there anyway. */
ET_INLINE vf v_load_pairs_n(const et_bf16 *x, const et_bf16 *next, int64_t n)
{
    __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(v_first(n), x));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_castps_si512(v_load_bf16_n(next, n))));
}

ET_INLINE vf v_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}

#ifdef __AVX512BF16__
#define V_DOT_PAIRS
ET_INLINE vf v_dot_pairs(vf sum, vf a, vf b)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
#endif

/* The instruction returns the second operand if either is a NaN, as simd.h requires. */
ET_INLINE vf v_max(vf a, vf b)
{
    return _mm512_max_ps(a, b);
}

ET_INLINE vf v_min(vf a, vf b)
{
    return _mm512_min_ps(a, b);
}

ET_INLINE vf v_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}

/* To nearest even, without the flag of an inexact result. */
ET_INLINE vf v_round(vf a)
{
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* The instruction handles 2^128 and denormal results by itself. */
ET_INLINE vf v_scale2(vf p, vf n)
{
    return _mm512_scalef_ps(p, n);
}

/* Two instructions for it: the exponent, and the fraction in [1, 2). */
ET_INLINE vf v_split(vf x, vf *exponent)
{
    *exponent = _mm512_getexp_ps(x);
    return _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
}

/* Ordered and quiet: false for a NaN, and no exception. */
ET_INLINE vm v_gt(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}

/* Not less or equal, unordered and quiet: true for a NaN. */
ET_INLINE vm v_not_le(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NLE_UQ);
}

/* Two bytes are a mask. */
ET_INLINE vm v_bits(const uint8_t *bits, int64_t lane)
{
    return (vm)(bits[lane / 8] | bits[lane / 8 + 1] << 8);
}

/* The instruction returns its second source where the mask is set. */
ET_INLINE vf v_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}

/* A mask is these bits already. */
ET_INLINE unsigned v_lanes(vm m)
{
    return m;
}

ET_INLINE bool v_any(vm m)
{
    return m != 0;
}

/* Halves are added until one lane is left: 16 -> 8 -> 4 -> 2 -> 1, the same order every time. */
ET_INLINE float v_sum(vf a)
{
    __m256 half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 quarter = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_add_ss(quarter, _mm_movehdup_ps(quarter)));
}

/* Folded as v_sum is. */
ET_INLINE float v_largest(vf a)
{
    __m256 half = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 quarter = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
    quarter = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
    return _mm_cvtss_f32(_mm_max_ss(quarter, _mm_movehdup_ps(quarter)));
}

/* Folds halves of vectors until each sum is in one lane: 30 moves instead of the 64 of 16 separate
 * sums. 0x44 and 0xee take halves of each 128-bit lane of both operands; 0x88 and 0xdd take its
 * even and its odd 128-bit lanes. fold is a constant. */
ET_INLINE vf v_folded(const vf r[V_LANES], vf (*const fold)(vf, vf))
{
    vf t[8], u[4];
    ET_UNROLL
    for (int i = 0; i < 8; i++)
        t[i] = fold(_mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]),
                    _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]));
    ET_UNROLL
    for (int i = 0; i < 4; i++)
        u[i] = fold(_mm512_shuffle_ps(t[2 * i], t[2 * i + 1], 0x44),
                    _mm512_shuffle_ps(t[2 * i], t[2 * i + 1], 0xee));
    vf low = fold(_mm512_shuffle_f32x4(u[0], u[1], 0x44), _mm512_shuffle_f32x4(u[0], u[1], 0xee));
    vf high = fold(_mm512_shuffle_f32x4(u[2], u[3], 0x44), _mm512_shuffle_f32x4(u[2], u[3], 0xee));
    return fold(_mm512_shuffle_f32x4(low, high, 0x88), _mm512_shuffle_f32x4(low, high, 0xdd));
}

/* Pairs of rows, pairs of pairs, then the 4 x 4 grid of 128-bit lanes twice. */
ET_INLINE void v_transpose(vf r[V_LANES])
{
    vf s[16], t[16];
    ET_UNROLL
    for (int i = 0; i < 16; i += 4) {
        vf a = _mm512_unpacklo_ps(r[i], r[i + 1]), b = _mm512_unpackhi_ps(r[i], r[i + 1]);
        vf c = _mm512_unpacklo_ps(r[i + 2], r[i + 3]);
        vf d = _mm512_unpackhi_ps(r[i + 2], r[i + 3]);
        s[i] = _mm512_shuffle_ps(a, c, 0x44);
        s[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
        s[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
        s[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
    }
    ET_UNROLL
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(s[i], s[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(s[i], s[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(s[i + 8], s[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(s[i + 8], s[i + 12], 0xdd);
    }
    ET_UNROLL
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}

/* The lower and the upper eight lanes. */
typedef struct vd {
    __m512d low, high;
} vd;

/* Widened first: squares of float32 are exact in double. */
ET_INLINE void v_add_squares(vd *sum, vf x)
{
    __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
    __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    sum->low = _mm512_fmadd_pd(low, low, sum->low);
    sum->high = _mm512_fmadd_pd(high, high, sum->high);
}

/* Lanes in their order: the same bits every time. */
ET_INLINE double v_total(vd sum)
{
    double lane[8], total = 0;
    _mm512_storeu_pd(lane, _mm512_add_pd(sum.low, sum.high));
    for (int i = 0; i < 8; i++)
        total += lane[i];
    return total;
}

/* From any address. */
ET_INLINE vi v_load_int(const void *x)
{
    return (vi)_mm512_loadu_si512(x);
}

/* By way of float: a broadcast from memory costs no arithmetic port. */
ET_INLINE vi v_quad(const uint8_t *x)
{
    float four;
    memcpy(&four, x, sizeof four);
    return (vi)_mm512_castps_si512(_mm512_set1_ps(four));
}

/* One instruction with VNNI; without it, two products of 16-bit numbers, for even and odd bytes.
 * Both are exact: a product is at most 255 * 127. */
ET_INLINE vi v_dot(vi sum, vi a, vi b)
{
#ifdef __AVX512VNNI__
    return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#else
    const __m512i low = _mm512_set1_epi16(0xff);
    __m512i a_even = _mm512_and_si512((__m512i)a, low), a_odd = _mm512_srli_epi16((__m512i)a, 8);
    __m512i b_even = _mm512_srai_epi16(_mm512_slli_epi16((__m512i)b, 8), 8);
    __m512i b_odd = _mm512_srai_epi16((__m512i)b, 8);
    return sum + (vi)_mm512_madd_epi16(a_even, b_even) + (vi)_mm512_madd_epi16(a_odd, b_odd);
#endif
}

/* Exact up to 2^24, to nearest even beyond. */
ET_INLINE vf v_float(vi a)
{
    return _mm512_cvtepi32_ps((__m512i)a);
}

/* To the nearest; the value is in range, so cutting off the upper bits loses nothing. */
ET_INLINE void v_store_bytes(uint8_t *y, vf value)
{
    _mm_storeu_si128((__m128i *)y, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(value)));
}

/* Eight Philox counters, a word of each in the low half of a 64-bit lane: the 64-bit product then
 * holds both halves that a round needs, and the next product ignores the high halves. Even lanes
 * take blocks 0-3, odd lanes 4-7, so that two interleavings bring the words into the order of
 * elements. 0x96 is the exclusive or of three operands. */
ET_INLINE void v_keep(uint8_t keep[V_BLOCKS], uint64_t base, const uint64_t offset[V_BLOCKS],
                      const keep_stream *stream)
{
    const __m512i m0 = _mm512_set1_epi64(ET_PHILOX_M0), m1 = _mm512_set1_epi64(ET_PHILOX_M1);
    __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    __m512i index = _mm512_add_epi64(_mm512_set1_epi64((int64_t)base), _mm512_loadu_si512(offset));
    __m512i c0 = _mm512_permutexvar_epi64(order, index);
    __m512i c1 = _mm512_srli_epi64(c0, 32);
    __m512i c2 = _mm512_set1_epi64(stream->counter[0]);
    __m512i c3 = _mm512_set1_epi64(stream->counter[1]);
    ET_UNROLL
    for (int round = 0; round < 10; round++) {
        __m512i p0 = _mm512_mul_epu32(c0, m0), p1 = _mm512_mul_epu32(c2, m1);
        __m512i k0 = _mm512_set1_epi64((int64_t)stream->key[round][0]);
        __m512i k1 = _mm512_set1_epi64((int64_t)stream->key[round][1]);
        c0 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p1, 32), c1, k0, 0x96);
        c2 = _mm512_ternarylogic_epi64(_mm512_srli_epi64(p0, 32), c3, k1, 0x96);
        c1 = p1;
        c3 = p0;
    }
    /* The words of a block side by side: c0 and c1, c2 and c3 of each lane. */
    __m512i a = _mm512_mask_blend_epi32(0xaaaa, c0, _mm512_slli_epi64(c1, 32));
    __m512i b = _mm512_mask_blend_epi32(0xaaaa, c2, _mm512_slli_epi64(c3, 32));
    __m512i threshold = _mm512_set1_epi16((short)stream->threshold);
    /* Sixteen bits of a word are an element's number; one comparison decides about 32 elements. */
    uint32_t low = _mm512_cmpge_epu16_mask(_mm512_unpacklo_epi64(a, b), threshold);
    uint32_t high = _mm512_cmpge_epu16_mask(_mm512_unpackhi_epi64(a, b), threshold);
    uint64_t bits = low | (uint64_t)high << 32;
    memcpy(keep, &bits, sizeof bits);
}

#endif
