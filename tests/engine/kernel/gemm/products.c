#include "engine/kernel/gemm/products.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/kernel/reference/reference.h"

et_gemm_cache *cache;

int open_cache(void **state)
{
    (void)state;
    return et_gemm_cache_open(&cache, THREADS, NULL);
}

int close_cache(void **state)
{
    (void)state;
    et_gemm_cache_close(cache);
    return 0;
}

/* Values in [-1, 1) from a counter. */
static float value(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(int32_t)(*seed & 0xffffff00u) / 2147483648.0f;
}

void *matrix(int64_t rows, int64_t stride, et_dtype dtype, uint32_t seed)
{
    size_t count = (size_t)(rows * stride);
    float *real = et_alloc_aligned(count * sizeof(float) + 64, 64);
    assert_non_null(real);
    et_bf16 *half = (et_bf16 *)(void *)real;
    for (size_t i = 0; i < count; i++) {
        float drawn = value(&seed);
        if (dtype == ET_BF16)
            half[i] = et_bf16_from_float(drawn);
        else
            real[i] = drawn;
    }
    return real;
}

double at(const void *from, et_dtype dtype, int64_t index)
{
    return dtype == ET_BF16 ? (double)et_bf16_to_float(((const et_bf16 *)from)[index])
                            : (double)((const float *)from)[index];
}

int64_t stride_of(int64_t given, int64_t dense)
{
    return given ? given : dense;
}

operands operands_of(const et_gemm_shape *s)
{
    operands o = { 0 };
    int64_t ldc = stride_of(s->ldc, s->n);
    o.a = s->transpose_a ? matrix(s->k, stride_of(s->lda, s->m), s->a, 1)
                         : matrix(s->m, stride_of(s->lda, s->k), s->a, 1);
    o.b = s->transpose_b ? matrix(s->n, stride_of(s->ldb, s->k), s->b, 2)
                         : matrix(s->k, stride_of(s->ldb, s->n), s->b, 2);
    o.bias = s->bias ? matrix(1, s->n, ET_F32, 3) : NULL;
    o.c = matrix(s->m, ldc, s->c, 4);
    o.bytes = (size_t)(s->m * ldc) * et_dtype_size(s->c);
    return o;
}

void release(operands *o)
{
    et_free(o->a);
    et_free(o->b);
    et_free(o->packed);
    et_free(o->bias);
    et_free(o->c);
}

et_gemm *product(const et_gemm_shape *shape)
{
    et_error error = ET_ERROR_INIT;
    et_gemm *gemm = NULL;
    if (et_gemm_get(&gemm, cache, shape, &error))
        fail_msg("%s", error.text);
    return gemm;
}

const void *pack(const et_gemm_shape *shape, const et_gemm *gemm, operands *o)
{
    if (!shape->pack_b)
        return o->b;
    if (!o->packed) {
        o->packed = et_alloc_aligned(et_gemm_packed_size(gemm), 64);
        assert_non_null(o->packed);
        et_gemm_pack(gemm, o->packed, o->b);
    }
    return o->packed;
}

void check(const et_gemm_shape *shape)
{
    operands o = operands_of(shape);
    const et_gemm *gemm = product(shape);
    const void *b = pack(shape, gemm, &o);
    float *expected = malloc(o.bytes + 1);
    assert_non_null(expected);
    memcpy(expected, o.c, o.bytes);
    et_gemm_shape plain = *shape;
    plain.pack_b = false;
    et_gemm_reference(&plain, expected, o.a, o.b, o.bias);
    et_gemm_run(gemm, o.c, o.a, b, o.bias);
    /* The rounding of a sum of k terms below 1 grows as sqrt(k); that of the result is half an ulp.
     */
    double absolute = 2e-6 * (2.0 + sqrt((double)shape->k));
    double relative = shape->c == ET_BF16 ? 1.0 / 128 : 1e-6;
    int64_t count = (int64_t)(o.bytes / et_dtype_size(shape->c));
    for (int64_t i = 0; i < count; i++) {
        double got = at(o.c, shape->c, i), want = at(expected, shape->c, i);
        if (!(fabs(got - want) <= absolute + relative * fabs(want)))
            fail_msg("%lld x %lld x %lld, ta %d tb %d packed %d bias %d relu %d accumulate %d "
                     "%s to %s, row tile %lld: element %lld is %g, expected %g",
                     (long long)shape->m, (long long)shape->n, (long long)shape->k,
                     shape->transpose_a, shape->transpose_b, shape->pack_b, shape->bias,
                     shape->activation, shape->accumulate, et_dtype_name(shape->a),
                     et_dtype_name(shape->c), (long long)shape->row_tile, (long long)i, got, want);
    }
    free(expected);
    release(&o);
}

const et_dtype types[][2] = { { ET_F32, ET_F32 }, { ET_BF16, ET_F32 }, { ET_BF16, ET_BF16 } };

bool vary(et_gemm_shape *shape, int variant)
{
    const et_dtype *type = types[variant % 3];
    int bits = variant / 3;
    shape->a = shape->b = type[0];
    shape->c = type[1];
    shape->transpose_a = bits & 1;
    shape->transpose_b = bits >> 1 & 1;
    shape->pack_b = bits >> 2 & 1;
    shape->bias = bits >> 3 & 1;
    shape->activation = bits >> 4 & 1 ? ET_GEMM_RELU : ET_GEMM_LINEAR;
    shape->accumulate = bits >> 5 & 1;
    bool sums = shape->accumulate && (shape->c != ET_F32 || shape->activation);
    return !sums;
}

const et_gemm_shape cut_shapes[] = {
    { .m = 1000, .n = 129, .k = 1000 },
    { .m = 1000, .n = 129, .k = 1000, .pack_b = true, .bias = true },
    { .m = 129, .n = 31, .k = 3601, .transpose_a = true },
    { .m = 129, .n = 31, .k = 3601, .transpose_a = true, .accumulate = true, .ldc = 40 },
    { .m = 513, .n = 517, .k = 2100, .transpose_a = true, .accumulate = true },
    { .m = 513, .n = 517, .k = 2100, .transpose_a = true, .transpose_b = true, .bias = true },
    { .m = 1000, .n = 700, .k = 600, .pack_b = true, .bias = true, .activation = ET_GEMM_RELU },
    { .m = 100, .n = 129, .k = 700, .pack_b = true, .transpose_b = true },
    { .m = 257, .n = 100, .k = 300, .pack_b = true, .transpose_a = true },
    { .m = 128, .n = 300, .k = 784, .bias = true, .activation = ET_GEMM_RELU },
    { .m = 100, .n = 710, .k = 500, .transpose_b = true },
    { .m = 784, .n = 300, .k = 128, .transpose_a = true },
    { .m = 100, .n = 41, .k = 700, .bias = true, .activation = ET_GEMM_RELU },
    { .m = 100, .n = 41, .k = 700, .transpose_b = true },
    /* a transposed B of short rows, which blocks copy themselves if it is dense */
    { .m = 128, .n = 500, .k = 40, .transpose_b = true },
    { .m = 100, .n = 130, .k = 7, .transpose_b = true, .bias = true, .activation = ET_GEMM_RELU },
    { .m = 100, .n = 130, .k = 33, .transpose_b = true, .accumulate = true, .ldc = 140 },
    { .m = 100, .n = 130, .k = 40, .transpose_b = true, .ldb = 48 },
    { .m = 100, .n = 41, .k = 700, .transpose_a = true },
    { .m = 770, .n = 100, .k = 130, .pack_b = true, .bias = true },
    { .m = 16, .n = 16, .k = 20000 },
    { .m = 17, .n = 3, .k = 20000, .bias = true, .activation = ET_GEMM_RELU },
    { .m = 16, .n = 16, .k = 20000, .transpose_a = true, .accumulate = true },
    /* a last piece of one chunk */
    { .m = 16, .n = 16, .k = 6300 },
    { .m = 16, .n = 16, .k = 7200, .transpose_a = true, .transpose_b = true, .accumulate = true },
};

void for_cut_shapes(void (*look)(const et_gemm_shape *shape))
{
    for (size_t i = 0; i < sizeof cut_shapes / sizeof *cut_shapes; i++)
        for (size_t type = 0; type < sizeof types / sizeof *types; type++) {
            et_gemm_shape shape = cut_shapes[i];
            shape.a = shape.b = types[type][0];
            shape.c = types[type][1];
            if (!(shape.accumulate && shape.c != ET_F32))
                look(&shape);
        }
}

void with_cache(et_gemm_preference way, size_t l2, void (*look)(const et_gemm_shape *shape))
{
    et_gemm_cache *common = cache;
    assert_int_equal(et_gemm_cache_open(&cache, THREADS, NULL), ET_OK);
    et_gemm_cache_prefer(cache, way);
    if (l2)
        et_gemm_cache_assume_l2(cache, l2);
    for_cut_shapes(look);
    et_gemm_cache_close(cache);
    cache = common;
}
