/* C = A^T B against its reference, on sizes with tails in every direction. */
#include "kernel/column_product.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/harness.h"

typedef struct setting {
    int64_t m, n, k, more; /* more: elements between stored rows, of A, B and C */
    bool accumulate, ahead;
} setting;

static const setting settings[] = {
    { 1, 1, 1, 0, false, false },    { 8, 48, 64, 0, false, true },
    { 9, 49, 7, 3, true, false },    { 3, 16, 33, 0, true, true },
    { 16, 64, 128, 0, false, true }, { 17, 31, 5, 1, false, true },
    { 24, 80, 100, 16, true, true }, { 5, 96, 3, 2, false, false },
    { 40, 127, 64, 0, true, true },
};

/* C from its first stored element to its last: what lies between rows must stay as it is. */
static size_t result_size(const setting *s)
{
    return (size_t)((s->m - 1) * (s->n + s->more) + s->n);
}

static void run(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    int64_t lda = s->m + s->more, ldb = s->n + s->more;
    float *a = make_floats((size_t)((s->k - 1) * lda + s->m), 1, 1);
    float *b = make_floats((size_t)((s->k - 1) * ldb + s->n), 1, 2);
    float *c = make_floats(result_size(s), 1, 3);
    et_column_product p = { .m = s->m,
                            .n = s->n,
                            .k = s->k,
                            .a = a,
                            .b = b,
                            .c = c,
                            .lda = lda,
                            .ldb = ldb,
                            .ldc = s->n + s->more,
                            .accumulate = s->accumulate,
                            .ahead = s->ahead };
    table->column_product(&p);
    memcpy(result, c, result_size(s) * sizeof *c);
    free(a);
    free(b);
    free(c);
}

static void test_column_product__equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++)
        check_tables("column product", run, &settings[i], result_size(&settings[i]), 2e-5, 2e-6);
}

/* Looking ahead moves no bit. */
static void test_column_product__ahead_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        setting s = settings[i];
        size_t bytes = result_size(&s) * sizeof(float);
        float *with = make(1, bytes), *without = make(1, bytes);
        s.ahead = true;
        run(et_kernels_best(), &s, with);
        s.ahead = false;
        run(et_kernels_best(), &s, without);
        assert_memory_equal(with, without, bytes);
        free(with);
        free(without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_column_product__equals_the_reference),
        cmocka_unit_test(test_column_product__ahead_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
