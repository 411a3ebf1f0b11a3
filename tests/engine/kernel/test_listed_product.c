/* Products with listed rows of a table, in every table of kernels: against the reference, with 1, 2
 * and 3 threads; a result does not depend on other rows and words. */
#include "engine/kernel/harness.h"

#include <stdlib.h>

typedef struct setting {
    int64_t rows, count, width;
    et_dtype dtype;
    bool biased;
} setting;

enum { VOCABULARY = 300 };

static void run_list(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    void *h = make_act((size_t)(s->rows * s->width), 1, 1, s->dtype);
    float *words = make_floats((size_t)(VOCABULARY * s->width), 1, 2);
    float *bias = make_floats(VOCABULARY, 1, 3);
    int32_t *list = make((size_t)s->count, sizeof *list);
    for (int64_t i = 0; i < s->count; i++)
        list[i] = (int32_t)(i * 37 % VOCABULARY);
    const et_listed_product product = { s->rows,  s->count, s->width, h,
                                        s->dtype, list,     words,    s->biased ? bias : NULL };
    table->listed_product(result, &product);
    for (int64_t r = 0; r < s->rows; r += 3) /* one row, one word */
        for (int64_t i = 0; i < s->count; i += 11) {
            float alone;
            et_listed_product one = product;
            one.rows = one.count = 1;
            one.h = (const char *)h + (size_t)(r * s->width) * et_dtype_size(s->dtype);
            one.words = list + i;
            table->listed_product(&alone, &one);
            assert_true(alone == result[r * s->count + i]);
        }
    free(h);
    free(words);
    free(bias);
    free(list);
}

static void test_listed_product__tables(void **state)
{
    (void)state;
    static const int64_t counts[] = { 1, 7, 64, 1001 }, rows[] = { 1, 3, 8 };
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(rows); r++)
            for (size_t c = 0; c < COUNT(counts); c++)
                for (size_t w = 0; w < COUNT(some_widths); w++) {
                    const setting s = { rows[r], counts[c], some_widths[w], (et_dtype)dtype,
                                        w % 2 == 0 };
                    check_tables("listed_product", run_list, &s, (size_t)(s.rows * s.count), 1e-4,
                                 1e-5);
                }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_listed_product__tables) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
