/* Matrix products, compared with the reference; equal bits for any number of threads and for any
 * number of rows with equal row tiles; no allocation during a run. */
#include "engine/kernel/gemm/gemm.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/kernel/gemm/grid.h"
#include "engine/kernel/malloc_count.h"
#include "engine/kernel/reference/reference.h"

enum { THREADS = 4 };

static et_gemm_cache *cache;

static int open_cache(void **state)
{
    (void)state;
    return et_gemm_cache_open(&cache, THREADS, NULL);
}

static int close_cache(void **state)
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

static void *matrix(int64_t rows, int64_t stride, et_dtype dtype, uint32_t seed)
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

static double at(const void *from, et_dtype dtype, int64_t index)
{
    return dtype == ET_BF16 ? (double)et_bf16_to_float(((const et_bf16 *)from)[index])
                            : (double)((const float *)from)[index];
}

/* Operands and result of a product; bytes: size of C. */
typedef struct operands {
    void *a, *b, *packed, *c;
    float *bias;
    size_t bytes;
} operands;

static int64_t stride_of(int64_t given, int64_t dense)
{
    return given ? given : dense;
}

static operands operands_of(const et_gemm_shape *s)
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

static void release(operands *o)
{
    et_free(o->a);
    et_free(o->b);
    et_free(o->packed);
    et_free(o->bias);
    et_free(o->c);
}

static et_gemm *product(const et_gemm_shape *shape)
{
    et_error error = ET_ERROR_INIT;
    et_gemm *gemm = NULL;
    if (et_gemm_get(&gemm, cache, shape, &error))
        fail_msg("%s", error.text);
    return gemm;
}

static const void *pack(const et_gemm_shape *shape, const et_gemm *gemm, operands *o)
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

/* Runs a product and the reference on equal operands; elements between rows must not change. */
static void check(const et_gemm_shape *shape)
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

/* Types of A and B, and of C. */
static const et_dtype types[][2] = { { ET_F32, ET_F32 },
                                     { ET_BF16, ET_F32 },
                                     { ET_BF16, ET_BF16 } };

enum { VARIANTS = 3 * 2 * 2 * 2 * 2 * 2 * 2 };

/* Variant number of a shape; false: there is no such product. */
static bool vary(et_gemm_shape *shape, int variant)
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

static const int64_t small_sizes[][3] = { { 1, 1, 1 },    { 3, 17, 31 },   { 17, 3, 1 },
                                          { 1, 129, 17 }, { 129, 31, 17 }, { 31, 1, 129 },
                                          { 65, 64, 48 } };

static void test_gemm__equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof small_sizes / sizeof *small_sizes; i++)
        for (int variant = 0; variant < VARIANTS; variant++) {
            et_gemm_shape shape = { .m = small_sizes[i][0],
                                    .n = small_sizes[i][1],
                                    .k = small_sizes[i][2] };
            if (vary(&shape, variant))
                check(&shape);
        }
}

static void test_gemm__strides(void **state)
{
    (void)state;
    for (int variant = 0; variant < VARIANTS; variant++)
        for (int which = 1; which < 8; which++) {
            et_gemm_shape shape = { .m = 37, .n = 70, .k = 45 };
            if (!vary(&shape, variant))
                continue;
            shape.lda = which & 1 ? 101 : 0;
            shape.ldb = which & 2 ? 90 : 0;
            shape.ldc = which & 4 ? 83 : 0;
            check(&shape);
        }
}

static void test_gemm__row_tiles(void **state)
{
    (void)state;
    static const int64_t rows[] = { 1, 5, 32, 63 };
    for (int variant = 0; variant < VARIANTS; variant++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            et_gemm_shape shape = { .m = rows[i], .n = 300, .k = 33, .row_tile = 32 };
            if (vary(&shape, variant))
                check(&shape);
        }
}

/* Shapes that are cut along all ways: rows, columns, pieces and chunks of k, each with a rest. */
static const et_gemm_shape cut_shapes[] = {
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

/* In each type that they have. */
static void for_cut_shapes(void (*look)(const et_gemm_shape *shape))
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

static void test_gemm__cut_shapes(void **state)
{
    (void)state;
    for_cut_shapes(check);
}

/* Relu keeps the NaN of a whole row in every implementation; oneDNN's own relu would make it 0. */
static void check_nan(const et_gemm_shape *given)
{
    et_gemm_shape shape = *given;
    shape.accumulate = false;
    shape.activation = ET_GEMM_RELU;
    operands o = operands_of(&shape);
    const int64_t row = shape.m / 2, ldc = stride_of(shape.ldc, shape.n);
    const int64_t first = shape.transpose_a ? row : row * stride_of(shape.lda, shape.k);
    if (shape.a == ET_BF16)
        ((et_bf16 *)o.a)[first] = et_bf16_from_float(NAN);
    else
        ((float *)o.a)[first] = NAN;
    const et_gemm *gemm = product(&shape);
    et_gemm_run(gemm, o.c, o.a, pack(&shape, gemm, &o), o.bias);
    for (int64_t i = 0; i < shape.m; i++)
        for (int64_t j = 0; j < shape.n; j++)
            assert_int_equal(isnan(at(o.c, shape.c, i * ldc + j)) != 0, i == row);
    release(&o);
}

static void test_gemm__relu_keeps_nan(void **state)
{
    (void)state;
    for_cut_shapes(check_nan);
}

/* A copy of B from one run is not used in the next: B may have changed. */
static void test_gemm__another_b(void **state)
{
    (void)state;
    et_gemm_shape shape = { .m = 400, .n = 70, .k = 60, .transpose_a = true };
    operands o = operands_of(&shape), other = operands_of(&shape);
    const et_gemm *gemm = product(&shape);
    float *c = o.c, *b = o.b;
    et_gemm_run(gemm, other.c, o.a, o.b, NULL);
    for (int64_t i = 0; i < shape.k * shape.n; i++)
        b[i] *= -2;
    et_gemm_run(gemm, c, o.a, b, NULL);
    for (int64_t i = 0; i < shape.m * shape.n; i++)
        assert_true(c[i] == -2 * ((const float *)other.c)[i]);
    /* Tiles that run one by one use the B of their own call. */
    for (int64_t tile = 0; tile < et_gemm_tiles(gemm); tile++)
        et_gemm_run_tile(gemm, tile, 0, c, o.a, other.b, NULL);
    assert_memory_equal(c, other.c, o.bytes);
    release(&o);
    release(&other);
}

enum { GROUPS = 3 };

/* The shape of one of GROUPS products whose columns are side by side. */
static et_gemm_shape beside(const et_gemm_shape *one)
{
    et_gemm_shape shape = *one;
    shape.lda = GROUPS * (one->transpose_a ? one->m : one->k);
    shape.ldb = GROUPS * (one->transpose_b ? one->k : one->n);
    shape.ldc = GROUPS * one->n;
    return shape;
}

/* All groups at once, by any number of threads, have the bits of each by itself. */
static void check_groups(const et_gemm_shape *one)
{
    const et_gemm_shape shape = beside(one);
    const et_gemm *gemm = product(&shape);
    operands o = operands_of(&shape);
    float *bias = one->bias ? matrix(1, shape.ldc, ET_F32, 5) : NULL;
    char *each = malloc(o.bytes), *start = malloc(o.bytes);
    assert_true(each && start);
    memcpy(each, o.c, o.bytes);
    memcpy(start, o.c, o.bytes);
    const et_gemm_groups groups = { .count = GROUPS,
                                    .a = shape.lda / GROUPS,
                                    .b = shape.ldb / GROUPS,
                                    .c = one->n,
                                    .bias = one->n,
                                    .rows = one->m };
    for (int64_t g = 0; g < GROUPS; g++)
        et_gemm_run(gemm, each + (size_t)(g * groups.c) * et_dtype_size(shape.c),
                    (char *)o.a + (size_t)(g * groups.a) * et_dtype_size(shape.a),
                    (char *)o.b + (size_t)(g * groups.b) * et_dtype_size(shape.b),
                    bias ? bias + g * groups.bias : NULL);
    for (int threads = 1; threads <= THREADS; threads++) {
        omp_set_num_threads(threads);
        memcpy(o.c, start, o.bytes);
        et_gemm_run_groups(gemm, &groups, o.c, o.a, o.b, bias);
        assert_int_equal(omp_get_max_threads(), threads);
        assert_memory_equal(each, o.c, o.bytes);
    }
    omp_set_num_threads(2);
    et_free(bias);
    free(each);
    free(start);
    release(&o);
}

static void test_gemm__groups(void **state)
{
    (void)state;
    for (int variant = 0; variant < VARIANTS; variant++) {
        et_gemm_shape shape = { .m = 37, .n = 70, .k = 45 }, narrow = { .m = 150, .n = 2, .k = 40 };
        if (vary(&shape, variant) && !shape.pack_b)
            check_groups(&shape);
        if (vary(&narrow, variant) && !narrow.pack_b)
            check_groups(&narrow);
    }
    check_groups(&(et_gemm_shape){ .m = 16, .n = 16, .k = 20000, .bias = true });
    check_groups(&(et_gemm_shape){ .m = 1000, .n = 129, .k = 300 });
}

/* Of a batch that is not full, tiles without its rows are left out. */
static void test_gemm__groups_of_few_rows(void **state)
{
    (void)state;
    const et_gemm_shape one = { .m = 4000, .n = 64, .k = 64 }, shape = beside(&one);
    const et_gemm *gemm = product(&shape);
    operands o = operands_of(&shape);
    float *c = o.c, *whole = malloc(o.bytes);
    const int64_t rows = et_gemm_tile_part(gemm, 0).rows, size = shape.ldc;
    assert_non_null(whole);
    assert_true(rows < one.m && et_gemm_sums(gemm) == 0);
    et_gemm_groups groups = { GROUPS, one.k, one.n, one.n, 0, one.m };
    et_gemm_run_groups(gemm, &groups, whole, o.a, o.b, NULL);
    memset(c, 0, o.bytes);
    groups.rows = rows;
    et_gemm_run_groups(gemm, &groups, c, o.a, o.b, NULL);
    assert_memory_equal(c, whole, (size_t)(rows * size) * sizeof *c);
    for (int64_t i = rows * size; i < one.m * size; i++)
        assert_true(c[i] == 0);
    free(whole);
    release(&o);
}

/* Runs with each number of threads and expects the bits of the first. */
static void check_threads(const et_gemm_shape *shape)
{
    operands o = operands_of(shape);
    const et_gemm *gemm = product(shape);
    const void *b = pack(shape, gemm, &o);
    void *start = malloc(o.bytes), *first = malloc(o.bytes);
    assert_true(start && first);
    memcpy(start, o.c, o.bytes);
    for (int threads = 1; threads <= THREADS; threads++) {
        omp_set_num_threads(threads);
        memcpy(o.c, start, o.bytes);
        et_gemm_run(gemm, o.c, o.a, b, o.bias);
        if (threads == 1)
            memcpy(first, o.c, o.bytes);
        assert_memory_equal(first, o.c, o.bytes);
    }
    omp_set_num_threads(2);
    free(start);
    free(first);
    release(&o);
}

static void test_gemm__equal_bits_for_any_threads(void **state)
{
    (void)state;
    for_cut_shapes(check_threads);
}

/* Calls look with a cache of products of its own in place of the common one. */
static void with_cache(et_gemm_preference way, size_t l2, void (*look)(const et_gemm_shape *shape))
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

/* Two threads have two pieces each, and neither waits for the other for more than a tenth of the
 * time. */
static void test_gemm__own_pieces_are_even(void **state)
{
    (void)state;
    static const int64_t sums[] = { 512, 1025, 2049, 3600, 4095, 4097, 6145, 9999 };
    for (size_t type = 0; type < 2; type++)
        for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
            const et_dtype dtype = type ? ET_BF16 : ET_F32;
            const et_gemm_shape shape = {
                .m = 128, .n = 128, .k = sums[i], .a = dtype, .b = dtype, .transpose_a = true
            };
            const et_gemm_means means = { .direct = true, .l2 = 1 << 20 };
            const et_gemm_grid grid = et_gemm_grid_of(&shape, &means);
            const int64_t last = shape.k - (grid.pieces - 1) * grid.piece_k;
            assert_true(grid.pieces % 2 == 0 && grid.chunk_k <= grid.piece_k);
            assert_true(last >= grid.piece_k * 9 / 10);
        }
}

/* Whichever way this CPU does faster, each is right and has equal bits for any number of threads.
 */
static void test_gemm__both_ways(void **state)
{
    (void)state;
    static const et_gemm_preference ways[] = { ET_GEMM_BLOCKS, ET_GEMM_OWN };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        with_cache(ways[i], 0, check);
        with_cache(ways[i], 0, check_threads);
    }
}

/* Gradients of weights use Etude's own kernel only in the type of their multiplication, and only if
 * operands agree on it. */
static void test_gemm__ways_are_taken(void **state)
{
    (void)state;
    for (int half = 0; half <= 1; half++)
        for (int way = ET_GEMM_BEST; way <= ET_GEMM_OWN; way++) {
            et_gemm_shape shape = { .m = 513, .n = 517, .k = 2100, .transpose_a = true };
            et_gemm_cache *other;
            et_gemm *gemm;
            shape.a = shape.b = half ? ET_BF16 : ET_F32;
            assert_int_equal(et_gemm_cache_open(&other, 1, NULL), ET_OK);
            et_gemm_cache_prefer(other, (et_gemm_preference)way);
            assert_int_equal(et_gemm_get(&gemm, other, &shape, NULL), ET_OK);
            bool own = strcmp(et_gemm_implementation(gemm), "own") == 0;
            bool widened = et_gemm_multiplied_as(other, shape.a) != shape.a;
            assert_int_equal(own, et_gemm_own_gradients(other, shape.a));
            if (way == ET_GEMM_BLOCKS || widened)
                assert_false(own);
            else if (way == ET_GEMM_OWN)
                assert_true(own);
            et_gemm_cache_close(other);
        }
}

/* Where blocks are the best way for gradients of weights, narrow ones are our own kernel's. */
static void test_gemm__narrow_gradients(void **state)
{
    (void)state;
    static const et_gemm_shape shapes[] = {
        { .m = 64, .n = 105, .k = 128, .transpose_a = true },
        { .m = 784, .n = 10, .k = 128, .transpose_a = true },
        { .m = 65, .n = 512, .k = 128, .transpose_a = true },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        et_gemm_cache *fresh;
        et_gemm *gemm;
        assert_int_equal(et_gemm_cache_open(&fresh, 1, NULL), ET_OK);
        assert_int_equal(et_gemm_get(&gemm, fresh, &shapes[i], NULL), ET_OK);
        bool own = strcmp(et_gemm_implementation(gemm), "own") == 0;
        assert_int_equal(own, i < 2 || et_gemm_own_gradients(fresh, ET_F32));
        et_gemm_cache_close(fresh);
    }
}

/* Small products that are worth two threads are work for two, evenly: tiles of one size. */
static void test_gemm__small_ones_are_shared(void **state)
{
    (void)state;
    static const et_gemm_shape shapes[] = {
        { .m = 128, .n = 40, .k = 512 },
        { .m = 128, .n = 40, .k = 512, .transpose_b = true },
        { .m = 128, .n = 512, .k = 40 },
        { .m = 128, .n = 128, .k = 768, .transpose_a = true },
        { .m = 40, .n = 512, .k = 128, .transpose_a = true },
        { .m = 768, .n = 128, .k = 128, .pack_b = true },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const et_gemm *gemm = product(&shapes[i]);
        const et_gemm_part first = et_gemm_tile_part(gemm, 0);
        assert_int_equal(et_gemm_tiles(gemm) % 2, 0);
        for (int64_t tile = 0; tile < et_gemm_tiles(gemm); tile++) {
            const et_gemm_part part = et_gemm_tile_part(gemm, tile);
            assert_int_equal(part.rows, first.rows);
            assert_int_equal(part.columns, first.columns);
        }
    }
}

/* A product's result with the first size of cache, for comparison with other sizes. */
static struct {
    void *c;
    int64_t tiles;
} seen[2 * sizeof cut_shapes / sizeof *cut_shapes * sizeof types / sizeof *types];
static size_t seen_count, seen_at;

static void compare_with_seen(const et_gemm_shape *shape)
{
    const et_gemm *gemm = product(shape);
    if (strcmp(et_gemm_implementation(gemm), "own") != 0)
        return;
    operands o = operands_of(shape);
    et_gemm_run(gemm, o.c, o.a, o.b, o.bias);
    assert_true(seen_at < sizeof seen / sizeof *seen);
    if (seen_at == seen_count) {
        seen[seen_count].c = malloc(o.bytes);
        assert_non_null(seen[seen_count].c);
        seen[seen_count].tiles = et_gemm_tiles(gemm);
        memcpy(seen[seen_count++].c, o.c, o.bytes);
    }
    assert_memory_equal(seen[seen_at].c, o.c, o.bytes);
    assert_true(et_gemm_tiles(gemm) >= seen[seen_at++].tiles); /* caches get smaller */
    release(&o);
}

/* Tiles depend on the second-level cache, and sums do not: bits are the same for Etude's own
 * kernel, whose blocks have one order whatever their size. */
static void test_gemm__equal_bits_for_any_cache(void **state)
{
    (void)state;
    static const size_t sizes[] = { (size_t)4 << 20, (size_t)1 << 20, (size_t)256 << 10 };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        seen_at = 0;
        with_cache(ET_GEMM_OWN, sizes[i], compare_with_seen);
    }
    assert_true(seen_count > 0);
    for (size_t i = 0; i < seen_count; i++)
        free(seen[i].c);
    seen_count = 0;
}

/* The smaller cache has the narrower tiles. */
static void test_gemm__tiles_follow_the_cache(void **state)
{
    (void)state;
    const et_gemm_shape shape = { .m = 512, .n = 2048, .k = 4096, .transpose_a = true };
    int64_t before = 0;
    for (size_t l2 = (size_t)2 << 20; l2 >= (size_t)512 << 10; l2 /= 2) {
        et_gemm_cache *other;
        et_gemm *gemm;
        assert_int_equal(et_gemm_cache_open(&other, 1, NULL), ET_OK);
        et_gemm_cache_assume_l2(other, l2);
        assert_int_equal(et_gemm_get(&gemm, other, &shape, NULL), ET_OK);
        et_gemm_part part = et_gemm_tile_part(gemm, 0);
        const size_t most = l2 > (size_t)512 << 10 ? l2 / 4 : l2 / 8 * 3; /* the fewest columns */
        assert_true((size_t)(part.rows * part.columns) * sizeof(float) <= most);
        assert_true(et_gemm_tiles(gemm) > before);
        before = et_gemm_tiles(gemm);
        et_gemm_cache_close(other);
    }
}

/* Decoding: a row has the same bits alone, in 5, 64 and 320 rows, with one packed B. */
static void check_rows(et_gemm_shape shape)
{
    static const int64_t rows[] = { 1, 5, 64 };
    shape.m = 320;
    operands o = operands_of(&shape);
    const et_gemm *whole = product(&shape);
    const void *b = pack(&shape, whole, &o);
    et_gemm_run(whole, o.c, o.a, b, o.bias);
    char *c = malloc(o.bytes);
    assert_non_null(c);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        /* The first rows, and rows that were in the middle. */
        for (int64_t first = 0; first <= 250; first += 250) {
            shape.m = rows[i];
            const et_gemm *few = product(&shape);
            size_t row = (size_t)shape.n * et_dtype_size(shape.c);
            if (shape.pack_b)
                assert_true(et_gemm_same_packing(whole, few));
            const char *a = (const char *)o.a + (size_t)(first * shape.k) * et_dtype_size(shape.a);
            et_gemm_run(few, c, a, b, o.bias);
            assert_memory_equal(c, (char *)o.c + (size_t)first * row, (size_t)rows[i] * row);
        }
    }
    free(c);
    release(&o);
}

static void test_gemm__equal_bits_for_any_rows(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = { { 384, 128 }, { 128, 256 }, { 1000, 100 }, { 512, 512 } };
    for (size_t type = 0; type < sizeof types / sizeof *types; type++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (int packed = 0; packed <= 1; packed++) {
                et_gemm_shape shape = { .n = sizes[i][0],
                                        .k = sizes[i][1],
                                        .a = types[type][0],
                                        .b = types[type][0],
                                        .c = types[type][1],
                                        .bias = true,
                                        .activation = ET_GEMM_RELU,
                                        .pack_b = packed,
                                        .row_tile = 32 };
                check_rows(shape);
            }
}

/* Tiles run by hand in a parallel region, and whole products by each thread of one. */
static void test_gemm__inside_a_parallel_region(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cut_shapes / sizeof *cut_shapes; i++) {
        const et_gemm_shape *shape = &cut_shapes[i];
        operands o = operands_of(shape);
        const et_gemm *gemm = product(shape);
        const void *b = pack(shape, gemm, &o);
        char *tiled = malloc(o.bytes), *alone[2] = { malloc(o.bytes), malloc(o.bytes) };
        assert_true(tiled && alone[0] && alone[1]);
        memcpy(tiled, o.c, o.bytes);
        memcpy(alone[0], o.c, o.bytes);
        memcpy(alone[1], o.c, o.bytes);
        et_gemm_run(gemm, o.c, o.a, b, o.bias);
#pragma omp parallel num_threads(3)
        {
#pragma omp for schedule(static, 1)
            for (int64_t tile = 0; tile < et_gemm_tiles(gemm); tile++)
                et_gemm_run_tile(gemm, tile, omp_get_thread_num(), tiled, o.a, b, o.bias);
#pragma omp for
            for (int64_t sum = 0; sum < et_gemm_sums(gemm); sum++)
                et_gemm_run_sum(gemm, sum, tiled, o.bias);
#pragma omp for
            for (int copy = 0; copy < 2; copy++)
                et_gemm_run(gemm, alone[copy], o.a, b, o.bias);
        }
        assert_memory_equal(tiled, o.c, o.bytes);
        assert_memory_equal(alone[0], o.c, o.bytes);
        assert_memory_equal(alone[1], o.c, o.bytes);
        free(tiled);
        free(alone[0]);
        free(alone[1]);
        release(&o);
    }
}

static void test_gemm__tiles_cover_the_result_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cut_shapes / sizeof *cut_shapes; i++) {
        const et_gemm *gemm = product(&cut_shapes[i]);
        int64_t area = 0;
        for (int64_t tile = 0; tile < et_gemm_tiles(gemm); tile++) {
            et_gemm_part part = et_gemm_tile_part(gemm, tile);
            assert_true(part.row + part.rows <= cut_shapes[i].m);
            assert_true(part.column + part.columns <= cut_shapes[i].n);
            area += part.rows * part.columns;
        }
        int64_t whole = cut_shapes[i].m * cut_shapes[i].n;
        assert_int_equal(area % whole, 0);
        assert_true(area == whole || et_gemm_sums(gemm) > 0);
    }
}

static void test_gemm__no_rows(void **state)
{
    (void)state;
    et_gemm_shape shape = { .m = 0, .n = 8, .k = 8 };
    const et_gemm *gemm = product(&shape);
    assert_int_equal(et_gemm_tiles(gemm), 0);
    et_gemm_run(gemm, NULL, NULL, NULL, NULL);
}

static void test_gemm__made_once(void **state)
{
    (void)state;
    et_gemm_shape shape = { .m = 40, .n = 72, .k = 24, .row_tile = 32 };
    const et_gemm *first = product(&shape);
    size_t made = et_gemm_cache_primitives(cache);
    assert_ptr_equal(product(&shape), first);
    shape.m = 104; /* more of the same tiles: no primitive is made */
    assert_ptr_not_equal(product(&shape), first);
    assert_int_equal(et_gemm_cache_primitives(cache), made);
}

/* Every thread of the team runs the whole product, so that each has its copies. */
static void run_on_every_thread(const et_gemm *gemm, const operands *o, const void *b)
{
#pragma omp parallel num_threads(2)
    {
#pragma omp critical(test_gemm_warm)
        et_gemm_run(gemm, o->c, o->a, b, o->bias);
    }
    et_gemm_run(gemm, o->c, o->a, b, o->bias);
}

/* No memory of ours, ever. oneDNN's bookkeeping, a map of arguments per execution, goes through
 * the program's operator new (command/etude/small_new.cpp), which keeps it; its older kernels,
 * named gemm, ask malloc for buffers as well. */
static void test_gemm__asks_no_memory_in_a_run(void **state)
{
    (void)state;
    static const et_gemm_shape shapes[] = {
        { .m = 4096, .n = 384, .k = 128, .pack_b = true, .bias = true },
        { .m = 128, .n = 128, .k = 4096, .transpose_a = true, .accumulate = true },
        { .m = 512, .n = 512, .k = 4096, .transpose_a = true, .accumulate = true },
        { .m = 64, .n = 512, .k = 128, .pack_b = true, .row_tile = 32 },
        { .m = 128, .n = 500, .k = 40, .transpose_b = true },
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int half = 0; half <= 1; half++) {
            et_gemm_shape shape = shapes[i];
            shape.a = shape.b = half ? ET_BF16 : ET_F32;
            operands o = operands_of(&shape);
            const et_gemm *gemm = product(&shape);
            const void *b = pack(&shape, gemm, &o);
            run_on_every_thread(gemm, &o, b);
            size_t ours = et_alloc_count();
            malloc_counts before = malloc_count_so_far();
            et_gemm_run(gemm, o.c, o.a, b, o.bias);
            malloc_counts after = malloc_count_so_far();
            assert_int_equal(et_alloc_count(), ours);
            if (strncmp(et_gemm_implementation(gemm), "brg", 3) == 0)
                assert_int_equal(after.calls, before.calls);
            else
                print_message("%s: %zu mallocs of oneDNN, %zu bytes, in %lld tiles\n",
                              et_gemm_implementation(gemm), after.calls - before.calls,
                              after.bytes - before.bytes, (long long)et_gemm_tiles(gemm));
            release(&o);
        }
    if (!malloc_count_works())
        print_message("mallocs are not counted under a sanitizer\n");
}

/* ETUDE_BF16 is read when a cache is opened. */
static const char *implementation(const char *wanted, et_dtype dtype)
{
    static char name[64];
    /* More rows than our own kernel takes. */
    et_gemm_shape shape = { .m = 2 * ET_GEMM_FEW_ROWS, .n = 64, .k = 64, .a = dtype, .b = dtype };
    const char *given = getenv("ETUDE_BF16");
    char *kept = given ? strdup(given) : NULL;
    et_gemm_cache *other;
    et_gemm *gemm;
    setenv("ETUDE_BF16", wanted, 1);
    assert_int_equal(et_gemm_cache_open(&other, 1, NULL), ET_OK);
    assert_int_equal(et_gemm_get(&gemm, other, &shape, NULL), ET_OK);
    snprintf(name, sizeof name, "%s", et_gemm_implementation(gemm));
    et_gemm_cache_close(other);
    if (kept)
        setenv("ETUDE_BF16", kept, 1);
    else
        unsetenv("ETUDE_BF16");
    free(kept);
    return name;
}

static void test_gemm__bf16_is_multiplied_as_asked(void **state)
{
    (void)state;
    char plain[64];
    snprintf(plain, sizeof plain, "%s", implementation("", ET_F32));
    assert_string_equal(implementation("widen", ET_BF16), plain);
    const char *native = implementation("native", ET_BF16);
    if (et_gemm_has_bf16())
        assert_non_null(strstr(native, "bf16"));
    else
        assert_string_equal(native, plain);
    print_message("%s: %s for bfloat16\n", et_gemm_isa(), implementation("", ET_BF16));
}

/* Allocation number `fails_at` fails, all others succeed. */
static size_t fails_at, allocation;

static void *failing_allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    void *memory = NULL;
    if (allocation++ == fails_at)
        return NULL;
    return posix_memalign(&memory, alignment < 16 ? 16 : alignment, size) ? NULL : memory;
}

static void *failing_reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return allocation++ == fails_at ? NULL : realloc(memory, size);
}

static void plain_release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static int make_some(void)
{
    static const et_gemm_shape shapes[] = {
        { .m = 40, .n = 72, .k = 24, .ldc = 80 },
        { .m = 16, .n = 16, .k = 3000, .transpose_a = true },
        { .m = 33, .n = 150, .k = 24, .pack_b = true, .row_tile = 32, .transpose_b = true },
        { .m = 16, .n = 16, .k = 300, .a = ET_BF16, .b = ET_BF16, .c = ET_BF16 },
    };
    et_error error = ET_ERROR_INIT;
    et_gemm_cache *other;
    int status = et_gemm_cache_open(&other, 2, &error);
    for (size_t i = 0; !status && i < sizeof shapes / sizeof *shapes; i++) {
        et_gemm *gemm;
        status = et_gemm_get(&gemm, other, &shapes[i], &error);
        if (status)
            et_gemm_cache_close(other);
    }
    if (!status)
        et_gemm_cache_close(other);
    if (status)
        assert_non_null(strstr(error.text, "out of memory"));
    return status;
}

static void test_gemm__every_failing_allocation(void **state)
{
    (void)state;
    et_allocator hooks = { .allocate = failing_allocate,
                           .reallocate = failing_reallocate,
                           .release = plain_release };
    et_allocator_set(&hooks);
    int status = ET_ENOMEM;
    for (fails_at = 0; status && fails_at < 1000; fails_at++) {
        allocation = 0;
        status = make_some();
        assert_true(status == ET_OK || status == ET_ENOMEM);
    }
    et_allocator_set(NULL);
    assert_int_equal(status, ET_OK);
    assert_true(fails_at > 10);
}

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__equals_the_reference),
        cmocka_unit_test(test_gemm__strides),
        cmocka_unit_test(test_gemm__row_tiles),
        cmocka_unit_test(test_gemm__cut_shapes),
        cmocka_unit_test(test_gemm__relu_keeps_nan),
        cmocka_unit_test(test_gemm__another_b),
        cmocka_unit_test(test_gemm__equal_bits_for_any_threads),
        cmocka_unit_test(test_gemm__own_pieces_are_even),
        cmocka_unit_test(test_gemm__both_ways),
        cmocka_unit_test(test_gemm__groups),
        cmocka_unit_test(test_gemm__groups_of_few_rows),
        cmocka_unit_test(test_gemm__ways_are_taken),
        cmocka_unit_test(test_gemm__narrow_gradients),
        cmocka_unit_test(test_gemm__small_ones_are_shared),
        cmocka_unit_test(test_gemm__equal_bits_for_any_cache),
        cmocka_unit_test(test_gemm__tiles_follow_the_cache),
        cmocka_unit_test(test_gemm__equal_bits_for_any_rows),
        cmocka_unit_test(test_gemm__inside_a_parallel_region),
        cmocka_unit_test(test_gemm__tiles_cover_the_result_once),
        cmocka_unit_test(test_gemm__no_rows),
        cmocka_unit_test(test_gemm__made_once),
        cmocka_unit_test(test_gemm__asks_no_memory_in_a_run),
        cmocka_unit_test(test_gemm__bf16_is_multiplied_as_asked),
        cmocka_unit_test(test_gemm__every_failing_allocation),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
