/* Matrix products have equal bits for any number of threads, for any size of the cache, and for any
 * number of rows with equal row tiles; groups of products have the bits of each product alone. */
#include "engine/kernel/gemm/gemm.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/kernel/gemm/products.h"

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

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__equal_bits_for_any_threads),
        cmocka_unit_test(test_gemm__both_ways),
        cmocka_unit_test(test_gemm__groups),
        cmocka_unit_test(test_gemm__groups_of_few_rows),
        cmocka_unit_test(test_gemm__equal_bits_for_any_cache),
        cmocka_unit_test(test_gemm__equal_bits_for_any_rows),
        cmocka_unit_test(test_gemm__inside_a_parallel_region),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
