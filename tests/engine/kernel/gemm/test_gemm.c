/* Matrix products, compared with the reference. */
#include "engine/kernel/gemm/gemm.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/kernel/gemm/products.h"

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

static void test_gemm__no_rows(void **state)
{
    (void)state;
    et_gemm_shape shape = { .m = 0, .n = 8, .k = 8 };
    const et_gemm *gemm = product(&shape);
    assert_int_equal(et_gemm_tiles(gemm), 0);
    et_gemm_run(gemm, NULL, NULL, NULL, NULL);
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
        cmocka_unit_test(test_gemm__no_rows),
        cmocka_unit_test(test_gemm__bf16_is_multiplied_as_asked),
    };
    return cmocka_run_group_tests(tests, open_cache, close_cache);
}
