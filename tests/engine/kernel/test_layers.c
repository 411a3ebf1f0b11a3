/* The kernels of layers other than the Transformer's in every table: against the reference, and
 * with 1, 2 and 3 threads. */
#include "engine/kernel/harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

typedef struct setting {
    int64_t rows, width;
    et_dtype dtype;
    bool given;
    int64_t each; /* rows of a sample; every third sample does not count; 0: all count */
} setting;

/* Row norms: result is y, rstd; dx, dgamma. */
static void run_rms(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    void *x = make_act(count, 2, 1, s->dtype), *dy = make_act(count, 1, 2, s->dtype);
    void *y = make(count, et_dtype_size(s->dtype));
    float *gamma = make_floats((size_t)s->width, 1, 3), *rstd = result + count;
    float *scratch = make((size_t)(et_row_blocks(s->rows) * s->width), sizeof *scratch);
    table->rms_norm(y, rstd, x, gamma, 1e-3f, s->rows, s->width, s->dtype);
    widen(result, y, count, s->dtype);
    table->rms_norm(y, NULL, x, gamma, 1e-3f, s->rows, s->width, s->dtype);
    float *dx = rstd + s->rows;
    table->rms_norm_grad(dy, dx + count, scratch, dy, x, rstd, gamma, s->rows, s->width, s->dtype);
    widen(dx, dy, count, s->dtype);
    free(x);
    free(dy);
    free(y);
    free(gamma);
    free(scratch);
}

/* Result: mean, variance, y; dgamma, dbeta, dx. x and dy are written in place. */
static void run_batch(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width), width = (size_t)s->width;
    void *x = make_act(count, 2, 1, s->dtype), *dy = make_act(count, 1, 2, s->dtype);
    void *y = copy_act(x, count, s->dtype);
    float *gamma = make_floats(width, 1, 3), *beta = make_floats(width, 1, 4);
    float *scratch = make((size_t)et_row_blocks(s->rows) * 2 * width, sizeof *scratch);
    float *mean = result, *variance = mean + width, *rest = variance + width;
    float *mask = make((size_t)s->rows, sizeof *mask);
    for (int64_t i = 0; i < s->rows; i++)
        mask[i] = i % 3 == 1 ? 0 : 1;
    const et_counted counted = { s->each ? mask : NULL, s->each };
    table->column_moments(mean, variance, scratch, x, &counted, s->rows, s->width, s->dtype);
    const et_batch_statistics norm = { mean, variance, gamma, beta, 0.1f, s->given, counted };
    table->batch_norm(y, y, &norm, s->rows, s->width, s->dtype);
    widen(rest, y, count, s->dtype);
    rest += count;
    table->batch_norm_grad(dy, rest, rest + width, scratch, dy, x, &norm, s->rows, s->width,
                           s->dtype);
    widen(rest + 2 * width, dy, count, s->dtype);
    free(x);
    free(dy);
    free(y);
    free(gamma);
    free(beta);
    free(scratch);
    free(mask);
}

/* Sums over 1,000 rows of numbers of about 1: an error of a float sum, in absolute terms. */
static void test_layers__norms(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++)
                for (int kind = 0; kind < 4; kind++) {
                    static const int64_t each[] = { 0, 0, 1, 49 };
                    setting s = { some_rows[r], some_widths[w], (et_dtype)dtype, kind == 1,
                                  each[kind] };
                    const size_t count = (size_t)(s.rows * s.width), width = (size_t)s.width;
                    check_tables("rms_norm", run_rms, &s, 2 * count + (size_t)s.rows + width, 3e-4,
                                 unit_of(s.dtype));
                    check_tables("batch_norm", run_batch, &s, 2 * count + 4 * width, 3e-3,
                                 unit_of(s.dtype));
                }
}

/* Mean 1000, deviation 1/8: squares less the square of the mean would have nothing left. */
static void test_layers__moments_do_not_cancel(void **state)
{
    (void)state;
    enum { ROWS = 300 };
    float x[ROWS], mean, variance, scratch[3];
    for (int i = 0; i < ROWS; i++)
        x[i] = 1000.0f + (i % 2 ? 0.125f : -0.125f);
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        table->column_moments(&mean, &variance, scratch, x, &(et_counted){ NULL, 1 }, ROWS, 1,
                              ET_F32);
        assert_true(mean == 1000.0f && variance == 0.015625f);
    }
}

/* Rows that do not count are not even read: they may contain NaN. */
static void test_layers__uncounted_rows(void **state)
{
    (void)state;
    enum { ROWS = 6, WIDTH = 2 };
    const float mask[ROWS / 2] = { 1, 0, 1 }, none[ROWS / 2] = { 0 };
    const float x[ROWS * WIDTH] = { 1, 10, 3, 30, NAN, NAN, INFINITY, NAN, 5, 50, 7, 70 };
    const float gamma[WIDTH] = { 1, 1 }, beta[WIDTH] = { 9, 9 };
    float mean[WIDTH], variance[WIDTH], scratch[2 * WIDTH], y[ROWS * WIDTH], dx[ROWS * WIDTH],
        dgamma[WIDTH], dbeta[WIDTH];
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        const et_counted counted = { mask, 2 }, nothing = { none, 2 };
        table->column_moments(mean, variance, scratch, x, &counted, ROWS, WIDTH, ET_F32);
        assert_true(mean[0] == 4 && mean[1] == 40 && variance[0] == 5 && variance[1] == 500);
        const et_batch_statistics norm = { mean, variance, gamma, beta, 0, false, counted };
        table->batch_norm(y, x, &norm, ROWS, WIDTH, ET_F32);
        table->batch_norm_grad(dx, dgamma, dbeta, scratch, x, x, &norm, ROWS, WIDTH, ET_F32);
        for (int i = 4; i < 8; i++)
            assert_true(y[i] == 0 && dx[i] == 0);
        assert_true(fabsf(y[0] - (9 - 3 / sqrtf(5))) < 1e-5f && dbeta[1] == 160);
        table->column_moments(mean, variance, scratch, x, &nothing, ROWS, WIDTH, ET_F32);
        assert_true(mean[0] == 0 && variance[1] == 0);
    }
}

static const et_column columns[] = { { 5, 3 }, { 1, 1 }, { 700, 40 }, { 9, 16 } };
enum { COLUMNS = 4, WIDTH = 60, TABLE = 5 * 3 + 1 + 700 * 40 + 9 * 16 };

static void run_columns(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)s->rows * WIDTH;
    const et_column_embedding shape = { columns, COLUMNS, s->rows, WIDTH, s->dtype };
    int32_t *ids = make((size_t)s->rows * COLUMNS, sizeof *ids);
    for (int64_t i = 0; i < s->rows * COLUMNS; i++)
        ids[i] = (int32_t)et_random_below((et_random){ .seed = 3 }, (uint64_t)i,
                                          (uint64_t)columns[i % COLUMNS].rows + 1) -
                 1;
    float *values = make_floats(TABLE, 1, 1), *before = make_floats(TABLE, 1, 2);
    void *y = make(count, et_dtype_size(s->dtype)), *dy = make_act(count, 1, 4, s->dtype);
    table->embed_columns(y, ids, values, &shape);
    widen(result, y, count, s->dtype);
    memcpy(result + count, before, TABLE * sizeof *before);
    table->embed_columns_grad(result + count, ids, dy, &shape);
    free(ids);
    free(values);
    free(before);
    free(y);
    free(dy);
}

static void test_layers__columns(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++) {
            setting s = { .rows = some_rows[r], .dtype = (et_dtype)dtype };
            check_tables("embed_columns", run_columns, &s, (size_t)s.rows * WIDTH + TABLE, 1e-3,
                         unit_of(s.dtype));
        }
}

/* Result: y; dw, drow, dcolumn. width: of the matrix. given: with scales of columns. */
static void run_copies(const et_kernels *table, const void *with, float *result)
{
    enum { COPIES = 3 };
    const setting *s = with;
    const size_t matrix = (size_t)(s->rows * s->width), count = COPIES * matrix;
    const size_t rows = COPIES * (size_t)s->rows, columns_all = COPIES * (size_t)s->width;
    float *w = make_floats(matrix, 1, 1), *row = make_floats(rows, 1, 2);
    float *column = make_floats(columns_all, 1, 3);
    void *y = make(count, et_dtype_size(s->dtype)), *dy = make_act(count, 1, 4, s->dtype);
    const et_scaled_matrix copies = { w,      row,     s->given ? column : NULL, s->rows, s->width,
                                      COPIES, s->dtype };
    table->scaled_copies(y, &copies);
    widen(result, y, count, s->dtype);
    float *dw = result + count, *drow = dw + matrix, *dcolumn = drow + rows;
    const et_scaled_matrix_grad to = { dy, dw, drow, s->given ? dcolumn : NULL };
    memset(dcolumn, 0, columns_all * sizeof *dcolumn);
    table->scaled_copies_grad(&to, &copies);
    free(w);
    free(row);
    free(column);
    free(y);
    free(dy);
}

/* Sums over 1,000 rows or columns of numbers of about 1, as of norms. */
static void test_layers__copies(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t d = 0; d < COUNT(some_widths); d++) {
                setting s = { .rows = some_rows[r],
                              .width = some_widths[d],
                              .dtype = (et_dtype)dtype };
                s.given = (r + d) % 3 > 0;
                const size_t matrix = (size_t)(s.rows * s.width);
                check_tables("scaled_copies", run_copies, &s,
                             4 * matrix + 3 * (size_t)(s.rows + s.width), 2e-3, unit_of(s.dtype));
            }
}

typedef struct pooling {
    et_pool_shape shape;
    bool special; /* NaN, infinities, equal elements */
} pooling;

static size_t elements(const et_pool_shape *s, bool out)
{
    return (size_t)(s->batch * (out ? s->down.out * s->across.out : s->down.in * s->across.in) *
                    s->channels);
}

static void run_pool(const et_kernels *table, const void *with, float *result)
{
    const pooling *p = with;
    const et_pool_shape *s = &p->shape;
    const size_t x_count = elements(s, false), y_count = elements(s, true);
    const size_t size = et_dtype_size(s->dtype);
    void *x = make_act(x_count, 1, 1, s->dtype), *dy = make_act(y_count, 1, 2, s->dtype);
    void *y = make(y_count, size), *dx = make(x_count, size);
    float *place = s->mean ? NULL : result + y_count + x_count;
    for (size_t i = 0; i < x_count && p->special; i++)
        if (s->dtype == ET_F32)
            ((float *)x)[i] = i % 7 == 0 ? NAN : i % 5 == 0 ? -INFINITY : (float)(i % 3);
    table->pool(y, place, x, s);
    table->pool_grad(dx, dy, place, s);
    widen(result, y, y_count, s->dtype);
    widen(result + y_count, dx, x_count, s->dtype);
    free(x);
    free(dy);
    free(y);
    free(dx);
}

static void test_layers__pooling(void **state)
{
    (void)state;
    static const struct {
        int64_t batch, height, width, channels, kernel[2], stride[2];
        bool same;
    } cases[] = {
        { 1, 1, 1, 1, { 1, 1 }, { 1, 1 }, false },   { 2, 7, 5, 3, { 2, 2 }, { 2, 2 }, false },
        { 3, 8, 9, 16, { 3, 3 }, { 2, 2 }, true },   { 2, 6, 6, 33, { 3, 2 }, { 1, 2 }, true },
        { 9, 14, 14, 20, { 5, 4 }, { 1, 1 }, true }, { 4, 10, 3, 64, { 10, 3 }, { 10, 3 }, false },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int k = 0; k < 8; k++) {
            pooling p = { { .batch = cases[i].batch, .channels = cases[i].channels }, k & 4 };
            p.shape.mean = k & 1;
            p.shape.dtype = k & 2 ? ET_BF16 : ET_F32;
            p.shape.down = et_window_of(cases[i].height, cases[i].kernel[0], cases[i].stride[0], 1,
                                        cases[i].same);
            p.shape.across = et_window_of(cases[i].width, cases[i].kernel[1], cases[i].stride[1], 1,
                                          cases[i].same);
            if (p.special && p.shape.mean)
                continue;
            size_t y = elements(&p.shape, true), x = elements(&p.shape, false);
            check_tables("pool", run_pool, &p, p.shape.mean ? x + y : x + 2 * y, 1e-5,
                         unit_of(p.shape.dtype));
        }
}

static void run_samples(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const et_random random = { .seed = 0x123456789abcdefULL, .step = 1ULL << 33, .site = 99 };
    const size_t count = (size_t)s->rows;
    void *y = make(count, et_dtype_size(s->dtype)), *p = make_act(count, 0.5f, 1, s->dtype);
    table->noise(y, s->rows, random, s->dtype);
    widen(result, y, count, s->dtype);
    table->bernoulli(p, p, 4 * s->rows, s->rows, random, s->dtype);
    widen(result + count, p, count, s->dtype);
    free(y);
    free(p);
}

/* The bits of base/numbers/philox.h, which the reference uses. */
static void test_layers__samples(void **state)
{
    (void)state;
    static const int64_t counts[] = { 1, 3, 255, 256, 257, 20000, 70001 };
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t i = 0; i < COUNT(counts); i++) {
            setting s = { .rows = counts[i], .dtype = (et_dtype)dtype };
            check_tables("samples", run_samples, &s, 2 * (size_t)s.rows, 0, 0);
        }
}

/* 0 never, 1 always, a half about half the time. */
static void test_layers__bernoulli_has_its_probability(void **state)
{
    (void)state;
    enum { MANY = 30000 };
    float *p = make(MANY, sizeof *p), *y = make(MANY, sizeof *y);
    for (int i = 0; i < MANY; i++)
        p[i] = (float)(i % 3) * 0.5f;
    et_kernels_best()->bernoulli(y, p, 0, MANY, (et_random){ 5, 6, 7 }, ET_F32);
    double hits[3] = { 0 };
    for (int i = 0; i < MANY; i++)
        hits[i % 3] += (double)y[i];
    assert_true(hits[0] == 0 && hits[2] == MANY / 3);
    assert_true(fabs(hits[1] - MANY / 6.0) < 5 * sqrt(MANY / 12.0));
    free(p);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers__norms),
        cmocka_unit_test(test_layers__moments_do_not_cancel),
        cmocka_unit_test(test_layers__uncounted_rows),
        cmocka_unit_test(test_layers__columns),
        cmocka_unit_test(test_layers__copies),
        cmocka_unit_test(test_layers__pooling),
        cmocka_unit_test(test_layers__samples),
        cmocka_unit_test(test_layers__bernoulli_has_its_probability),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
