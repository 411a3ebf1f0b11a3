#include "engine/kernel/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

typedef struct setting {
    int64_t rows, width;
    et_dtype dtype;
} setting;

/* y [rows, width], then stats [rows, 2]. */
static void run_norm(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    void *x = make_act(count, 3, 1, s->dtype), *y = make(count, et_dtype_size(s->dtype));
    float *gamma = make_floats((size_t)s->width, 1, 2);
    float *beta = make_floats((size_t)s->width, 1, 3);
    table->layer_norm(y, result + count, x, gamma, beta, 1e-3f, s->rows, s->width, s->dtype);
    widen(result, y, count, s->dtype);
    table->layer_norm(x, NULL, x, gamma, beta, 1e-3f, s->rows, s->width, s->dtype);
    assert_memory_equal(x, y, count * et_dtype_size(s->dtype));
    free(x);
    free(y);
    free(gamma);
    free(beta);
}

/* dx [rows, width], dgamma and dbeta [width]. The stats come from the reference. */
static void run_norm_grad(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width), width = (size_t)s->width;
    void *x = make_act(count, 3, 1, s->dtype), *dy = make_act(count, 1, 4, s->dtype);
    void *y = make(count, et_dtype_size(s->dtype));
    float *gamma = make_floats(width, 1, 2), *stats = make(2 * (size_t)s->rows, 4);
    float *scratch = make((size_t)et_row_blocks(s->rows) * 2 * width, 4);
    et_kernels_reference.layer_norm(y, stats, x, gamma, gamma, 1e-3f, s->rows, s->width, s->dtype);
    /* dx replaces dy, as the header allows; the reference gets separate memory */
    void *dx = table == &et_kernels_reference ? y : dy;
    const et_layer_norm_grad norm = { .dx = dx,
                                      .dgamma = result + count,
                                      .dbeta = result + count + width,
                                      .scratch = scratch,
                                      .dy = dy,
                                      .x = x,
                                      .stats = stats,
                                      .gamma = gamma,
                                      .rows = s->rows,
                                      .width = s->width,
                                      .dtype = s->dtype };
    table->layer_norm_grad(&norm);
    widen(result, dx, count, s->dtype);
    free(x);
    free(dy);
    free(y);
    free(gamma);
    free(stats);
    free(scratch);
}

static void run_column_sum(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    void *x = make_act((size_t)(s->rows * s->width), 1, 1, s->dtype);
    float *scratch = make((size_t)(et_row_blocks(s->rows) * s->width), 4);
    table->column_sum(result, scratch, x, s->rows, s->width, s->dtype);
    free(x);
    free(scratch);
}

static void each_size(const char *name, run_fn *run, int64_t per_row, int64_t per_column,
                      double absolute)
{
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++) {
                setting s = { some_rows[r], some_widths[w], (et_dtype)dtype };
                int64_t full = run == run_column_sum ? 0 : s.rows * s.width;
                int64_t size = full + per_row * s.rows + per_column * s.width;
                check_tables(name, run, &s, (size_t)size, absolute, unit_of((et_dtype)dtype));
            }
}

static void test_norm__layer_norm(void **state)
{
    (void)state;
    each_size("layer_norm", run_norm, 2, 0, 1e-5);
}

static void test_norm__layer_norm_grad(void **state)
{
    (void)state;
    each_size("layer_norm_grad", run_norm_grad, 0, 2, 2e-4);
}

/* The derivative gives layer_norm's result once more, in x's place here. */
static void check_same_y(const et_kernels *table, const setting *s)
{
    const size_t count = (size_t)(s->rows * s->width), width = (size_t)s->width;
    void *x = make_act(count, 3, 1, s->dtype), *dy = make_act(count, 1, 4, s->dtype);
    void *y = make(count, et_dtype_size(s->dtype));
    float *gamma = make_floats(width, 1, 2), *beta = make_floats(width, 1, 3);
    float *stats = make(2 * (size_t)s->rows, 4), *sums = make(2 * width, 4);
    float *scratch = make((size_t)et_row_blocks(s->rows) * 2 * width, 4);
    table->layer_norm(y, stats, x, gamma, beta, 1e-3f, s->rows, s->width, s->dtype);
    const et_layer_norm_grad norm = { .dx = dy,
                                      .y = x,
                                      .dgamma = sums,
                                      .dbeta = sums + width,
                                      .scratch = scratch,
                                      .dy = dy,
                                      .x = x,
                                      .stats = stats,
                                      .gamma = gamma,
                                      .beta = beta,
                                      .rows = s->rows,
                                      .width = s->width,
                                      .dtype = s->dtype };
    table->layer_norm_grad(&norm);
    if (memcmp(x, y, count * et_dtype_size(s->dtype)))
        fail_msg("%s: %lld x %lld %s", table->name, (long long)s->rows, (long long)s->width,
                 et_dtype_name(s->dtype));
    void *all[] = { x, dy, y, gamma, beta, stats, sums, scratch };
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void test_norm__derivative_gives_y_again(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(table_names); t++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
            for (size_t w = 0; w < COUNT(some_widths); w++) {
                const et_kernels *table = et_kernels_named(table_names[t]);
                setting s = { 131, some_widths[w], (et_dtype)dtype };
                /* the reference keeps its statistics in less precision than it computes with */
                if (table && table != &et_kernels_reference)
                    check_same_y(table, &s);
            }
}

static void test_norm__column_sum(void **state)
{
    (void)state;
    each_size("column_sum", run_column_sum, 0, 1, 1e-4);
}

static void run_row_sum(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    void *x = make_act((size_t)(s->rows * s->width), 1, 1, s->dtype);
    table->row_sum(result, x, s->rows, s->width, s->dtype);
    free(x);
}

static void test_norm__row_sum(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(some_rows); r++)
        for (size_t w = 0; w < COUNT(some_widths); w++)
            for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
                setting s = { .rows = some_rows[r],
                              .width = some_widths[w],
                              .dtype = (et_dtype)dtype };
                check_tables("row_sum", run_row_sum, &s, (size_t)s.rows, 1e-4, 1e-6);
            }
    float x[6] = { 1, 2, 3, -1, 0.5f, 0 }, sum[2];
    et_kernels_reference.row_sum(sum, x, 2, 3, ET_F32);
    assert_true(sum[0] == 6 && sum[1] == -0.5f);
}

/* The sum of the first `rows` elements. */
static void run_sum(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    void *x = make_act((size_t)s->rows, 1, 1, s->dtype);
    result[0] = (float)table->sum(x, s->rows, s->dtype);
    free(x);
}

/* As many elements, and one after them, which must not change. */
static void run_fill(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    void *y = make_act((size_t)s->rows + 1, 1, 1, s->dtype);
    table->fill(y, -0.1f, s->rows, s->dtype);
    widen(result, y, (size_t)s->rows + 1, s->dtype);
    free(y);
}

/* Around a vector, a run of a sum, the grain of threads, and the most parts. */
static void test_norm__sum_and_fill(void **state)
{
    (void)state;
    static const int64_t counts[] = {
        0, 1, 7, 16, 17, 1023, 1024, 1025, 16383, 16391, 65537, 200003
    };
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            setting s = { counts[i], 1, (et_dtype)dtype };
            check_tables("sum", run_sum, &s, 1, 1e-3, 1e-6);
            check_tables("fill", run_fill, &s, (size_t)counts[i] + 1, 0, 0);
        }
}

/* Many large numbers and their negatives add up to 0; a NaN is never lost. */
static void test_norm__sum_keeps(void **state)
{
    (void)state;
    enum { SIZE = 100003 };
    float *x = make(SIZE, sizeof *x);
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        for (int i = 0; i < SIZE; i++)
            x[i] = i % 2 ? -1e6f : 1e6f;
        assert_true(table->sum(x, SIZE - 1, ET_F32) == 0);
        assert_true(table->sum(x, SIZE, ET_F32) == 1e6);
        x[SIZE - 2] = NAN;
        assert_true(isnan(table->sum(x, SIZE, ET_F32)));
    }
    free(x);
}

/* A row far from 0 keeps its variance: the mean is subtracted before squaring. */
static void test_norm__large_mean(void **state)
{
    (void)state;
    float x[100], y[100], ones[100], zeros[100] = { 0 };
    for (int i = 0; i < 100; i++) {
        x[i] = 10000.0f + (float)(i % 2);
        ones[i] = 1.0f;
    }
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        table->layer_norm(y, NULL, x, ones, zeros, 1e-6f, 1, 100, ET_F32);
        for (int i = 0; i < 100; i++)
            assert_true(fabsf(y[i] - (i % 2 ? 1.0f : -1.0f)) < 2e-3f);
    }
}

enum { ROWS = 3, WIDTH = 5 };

/* sum of w * layer_norm(x): its derivatives equal those of layer_norm for dy = w. */
static double weighted_sum(const float *x, const float *gamma, const float *beta, const float *w)
{
    float y[ROWS * WIDTH];
    double sum = 0;
    et_kernels_reference.layer_norm(y, NULL, x, gamma, beta, 1e-3f, ROWS, WIDTH, ET_F32);
    for (int i = 0; i < ROWS * WIDTH; i++)
        sum += (double)w[i] * y[i];
    return sum;
}

static void test_norm__finite_difference(void **state)
{
    (void)state;
    const float h = 1.0f / 256;
    float *all = make_floats(ROWS * WIDTH * 2 + WIDTH * 2, 1, 8);
    float *x = all, *gamma = all + ROWS * WIDTH, *beta = gamma + WIDTH, *w = beta + WIDTH;
    float grad[ROWS * WIDTH + 2 * WIDTH], stats[2 * ROWS], y[ROWS * WIDTH];
    et_kernels_reference.layer_norm(y, stats, x, gamma, beta, 1e-3f, ROWS, WIDTH, ET_F32);
    const et_layer_norm_grad norm = { .dx = grad,
                                      .dgamma = grad + ROWS * WIDTH,
                                      .dbeta = grad + ROWS * WIDTH + WIDTH,
                                      .dy = w,
                                      .x = x,
                                      .stats = stats,
                                      .gamma = gamma,
                                      .rows = ROWS,
                                      .width = WIDTH,
                                      .dtype = ET_F32 };
    et_kernels_reference.layer_norm_grad(&norm);
    for (int i = 0; i < ROWS * WIDTH + 2 * WIDTH; i++) {
        const float saved = all[i];
        all[i] = saved + h;
        double above = weighted_sum(x, gamma, beta, w);
        all[i] = saved - h;
        double below = weighted_sum(x, gamma, beta, w);
        all[i] = saved;
        assert_true(fabs((above - below) / (2 * h) - grad[i]) < 1e-3);
    }
    free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm__layer_norm),
        cmocka_unit_test(test_norm__layer_norm_grad),
        cmocka_unit_test(test_norm__derivative_gives_y_again),
        cmocka_unit_test(test_norm__column_sum),
        cmocka_unit_test(test_norm__row_sum),
        cmocka_unit_test(test_norm__sum_and_fill),
        cmocka_unit_test(test_norm__sum_keeps),
        cmocka_unit_test(test_norm__large_mean),
        cmocka_unit_test(test_norm__finite_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
