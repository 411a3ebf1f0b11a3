/* The table of sinusoids compared with its formula. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/kernel/positions.h"

/* Fewer rows than are turned from one, as many, and many; columns in whole lines and not. */
static const int64_t shapes[][2] = { { 1, 4 }, { 31, 6 }, { 32, 34 }, { 100, 128 }, { 9000, 10 } };

/* As the formula rounds to float32: at most its last bit is another. */
static void check(bool open)
{
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        int64_t rows = shapes[k][0], dim = shapes[k][1], half = dim / 2;
        float *table = malloc((size_t)(rows * dim) * sizeof *table);
        assert_non_null(table);
        et_positions_fill(table, rows, dim, open);
        for (int64_t p = 0; p < rows; p++)
            for (int64_t i = 0; i < half; i++) {
                double angle =
                    (double)p * exp(-(double)i * log(1e4) / (double)(open ? half : half - 1));
                assert_true(fabs(table[p * dim + i] - sin(angle)) < 6e-8);
                assert_true(fabs(table[p * dim + half + i] - cos(angle)) < 6e-8);
            }
        free(table);
    }
}

static void test_positions__are_sines_and_cosines(void **state)
{
    (void)state;
    check(false);
}

/* 10000^(-2i / dim), which does not reach 1/10000. */
static void test_positions__open(void **state)
{
    (void)state;
    check(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_positions__are_sines_and_cosines),
        cmocka_unit_test(test_positions__open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
