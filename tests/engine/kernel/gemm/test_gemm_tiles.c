/* How matrix products are cut into tiles and pieces, and which implementation computes them. */
#include "engine/kernel/gemm/gemm.h"

#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kernel/gemm/gemm_private.h"
#include "engine/kernel/gemm/products.h"

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

int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm__own_pieces_are_even),
        cmocka_unit_test(test_gemm__ways_are_taken),
        cmocka_unit_test(test_gemm__narrow_gradients),
        cmocka_unit_test(test_gemm__small_ones_are_shared),
        cmocka_unit_test(test_gemm__tiles_follow_the_cache),
        cmocka_unit_test(test_gemm__tiles_cover_the_result_once),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
