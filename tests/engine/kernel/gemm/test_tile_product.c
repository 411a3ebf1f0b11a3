/* Products by AMX's tiles against sums in double, on every number of whole tiles up to some. */
#include "engine/kernel/gemm/tile_product.h"

#include <math.h>
#include <stdlib.h>

#include "engine/kernel/harness.h"
#include "skip.h"

enum { UNIT = ET_TILE_UNIT, MOST = 5 * UNIT };

typedef struct problem {
    int64_t n, k, lda, ldc;
    et_bf16 *a, *b;  /* [UNIT, lda], [k, n] as stored */
    et_bf16 *panels; /* of b */
    float *c;        /* [UNIT, ldc] */
} problem;

static problem begin(const et_kernels *kernels, int64_t n, int64_t k, int64_t more)
{
    problem p = { .n = n, .k = k, .lda = k + more, .ldc = n + more };
    p.a = make_act((size_t)(UNIT * p.lda), 1, 1, ET_BF16);
    p.b = make_act((size_t)(k * n), 1, 2, ET_BF16);
    p.c = make_floats((size_t)(UNIT * p.ldc), 1, 3);
    p.panels = make((size_t)(k * n), sizeof *p.panels);
    for (int64_t j = 0; j < n; j += UNIT) {
        const et_stored columns = { p.b + j, k, UNIT, n, ET_BF16 };
        kernels->staging->row_pairs(p.panels + j * k, k, UNIT, &columns);
    }
    return p;
}

static void end(problem *p)
{
    free(p->a), free(p->b), free(p->panels), free(p->c);
}

static double element(const et_bf16 *x, int64_t i)
{
    float value;
    widen(&value, x + i, 1, ET_BF16);
    return (double)value;
}

static double sum_of(const problem *p, int64_t i, int64_t j, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t l = 0; l < p->k; l++) {
        const double term = element(p->a, i * p->lda + l) * element(p->b, l * p->n + j);
        sum += term;
        *size += fabs(term);
    }
    return sum;
}

static void check(const et_kernels *kernels, int64_t n, int64_t k, int64_t more)
{
    problem p = begin(kernels, n, k, more);
    float *before = make_floats((size_t)(UNIT * p.ldc), 1, 3);
    et_tile_product(p.c, p.ldc, p.a, p.lda, p.panels, n, k);
    for (int64_t i = 0; i < UNIT; i++)
        for (int64_t j = 0; j < p.ldc; j++) {
            double size, is = (double)p.c[i * p.ldc + j];
            if (j >= n && p.c[i * p.ldc + j] != before[i * p.ldc + j])
                fail_msg("row %d: column %d after the last of %d changed", (int)i, (int)j, (int)n);
            if (j < n && !(fabs(is - sum_of(&p, i, j, &size)) <= 1e-6 * size))
                fail_msg("n %d, k %d: [%d, %d] is %g", (int)n, (int)k, (int)i, (int)j, is);
        }
    free(before);
    end(&p);
}

static void test_tile_product__sums(void **state)
{
    const et_kernels *kernels = et_kernels_best();
    (void)state;
    if (!et_tile_product_for(kernels))
        test_skip("this CPU has no AMX");
    for (int64_t n = UNIT; n <= MOST; n += UNIT)
        for (int64_t k = UNIT; k <= MOST; k += UNIT)
            check(kernels, n, k, n == k ? 24 : 0);
}

/* Columns of a larger product have the same bits. */
static void test_tile_product__columns(void **state)
{
    const et_kernels *kernels = et_kernels_best();
    (void)state;
    if (!et_tile_product_for(kernels))
        test_skip("this CPU has no AMX");
    problem p = begin(kernels, MOST, MOST, 0);
    float *part = make((size_t)(UNIT * MOST), sizeof *part);
    et_tile_product(p.c, p.ldc, p.a, p.lda, p.panels, p.n, p.k);
    et_tile_product(part, UNIT, p.a, p.lda, p.panels + 2 * UNIT * p.k, UNIT, p.k);
    for (int64_t i = 0; i < UNIT; i++)
        assert_memory_equal(part + i * UNIT, p.c + i * p.ldc + 2 * UNIT, UNIT * sizeof *part);
    free(part);
    end(&p);
}

/* Tables without bfloat16 instructions have no tiles either. */
static void test_tile_product__tables(void **state)
{
    (void)state;
    assert_false(et_tile_product_for(et_kernels_named("plain")));
    if (et_kernels_named("avx2"))
        assert_false(et_tile_product_for(et_kernels_named("avx2")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tile_product__sums),
        cmocka_unit_test(test_tile_product__columns),
        cmocka_unit_test(test_tile_product__tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
