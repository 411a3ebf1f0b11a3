/* Products of rows with a packed weight, as float32 and as bytes, and the best tokens. */
#include "engine/kernel/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    int64_t rows, n, k;
    et_row_kind kind;
    et_dtype dtype; /* of x and y, and of the floats that a weight is packed from */
    bool bias, relu, transposed;
    int64_t first, count; /* only these rows */
} setting;

/* A weight in its own memory, packed for a table. */
static et_row_weight pack(const et_kernels *table, const void *from, et_dtype dtype,
                          const setting *s)
{
    size_t size = et_row_weight_size(table->panel, s->n, s->k, s->kind);
    void *memory = aligned_alloc(64, size);
    assert_non_null(memory);
    memset(memory, 0x7f, size);
    et_row_weight weight = et_row_weight_at(memory, table->panel, s->n, s->k, s->kind);
    et_row_weight_pack(&weight, from, dtype, s->transposed);
    return weight;
}

static void *scratch_of(size_t size)
{
    return size ? aligned_alloc(64, (size + 63) / 64 * 64) : NULL;
}

static void run_product(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const et_dtype stored = s->kind == ET_ROW_F32 ? s->dtype : ET_F32;
    char *x = make_act((size_t)(s->rows * s->k), 1, 1, s->dtype);
    void *from = make_act((size_t)(s->n * s->k), 0.1f, 2, stored);
    float *bias = make_floats((size_t)s->n, 1, 3);
    void *y = make((size_t)(s->count * s->n), et_dtype_size(s->dtype));
    et_row_weight weight = pack(table, from, stored, s);
    const et_row_product shape = {
        .rows = s->count,
        .x = s->dtype,
        .y = s->dtype,
        .weight = &weight,
        .bias = s->bias ? bias : NULL,
        .relu = s->relu,
        .scratch = scratch_of(et_row_scratch(s->count, s->k, s->kind, s->dtype)),
    };
    table->row_product(y, x + (size_t)(s->first * s->k) * et_dtype_size(s->dtype), &shape);
    widen(result, y, (size_t)(s->count * s->n), s->dtype);
    free(shape.scratch), free(weight.panels), free(x), free(from), free(bias), free(y);
}

/* Odd sizes: every number of rows in a block, columns and depths past whole panels. */
static void test_row_product__tables(void **state)
{
    (void)state;
    static const int64_t rows[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 31 };
    static const struct {
        int64_t n, k;
    } sizes[] = { { 1, 1 }, { 33, 5 }, { 64, 128 }, { 70, 131 }, { 257, 64 }, { 127, 30 } };
    char name[64];
    for (size_t i = 0; i < COUNT(rows); i++)
        for (size_t j = 0; j < COUNT(sizes); j++) {
            const bool odd = (i + j) & 1;
            setting s = { .rows = rows[i],
                          .n = sizes[j].n,
                          .k = sizes[j].k,
                          .bias = odd,
                          .relu = i & 2,
                          .transposed = !odd,
                          .count = rows[i] };
            for (int way = 0; way < 4; way++) {
                s.kind = way % 2 ? ET_ROW_INT8 : ET_ROW_F32;
                s.dtype = way < 2 ? ET_F32 : ET_BF16;
                snprintf(name, sizeof name, "%lld x %lld x %lld, way %d", (long long)s.rows,
                         (long long)s.n, (long long)s.k, way);
                check_tables(name, run_product, &s, (size_t)(s.rows * s.n), 2e-6,
                             fmax(2e-6, unit_of(s.dtype)));
            }
        }
}

/* Large enough for several threads. */
static void test_row_product__threads(void **state)
{
    (void)state;
    setting s = { .rows = 40, .n = 500, .k = 130, .bias = true, .count = 40 };
    for (int way = 0; way < 4; way++) {
        s.kind = way % 2 ? ET_ROW_INT8 : ET_ROW_F32;
        s.dtype = way < 2 ? ET_F32 : ET_BF16;
        check_tables("large", run_product, &s, (size_t)(s.rows * s.n), 1e-5,
                     fmax(1e-5, unit_of(s.dtype)));
    }
}

/* The reference reads packed weights too, so this compares y = x W with W itself, for every table's
 * panels. Bytes are only near. */
static void test_row_product__packing(void **state)
{
    (void)state;
    enum { ROWS = 3, N = 70, K = 37 };
    float *x = make_floats(ROWS * K, 1, 1), *from = make_floats(N * K, 0.1f, 2), y[ROWS * N];
    for (size_t i = 0; i < COUNT(table_names); i++)
        for (int way = 0; way < 4; way++) {
            const et_kernels *table = et_kernels_named(table_names[i]);
            const bool transposed = way & 1, bytes = way & 2;
            if (!table)
                continue;
            setting s = { .rows = ROWS, .n = N, .k = K, .transposed = transposed, .count = ROWS };
            s.kind = bytes ? ET_ROW_INT8 : ET_ROW_F32;
            run_product(table, &s, y);
            double off = 0, size = 0;
            for (int r = 0; r < ROWS; r++)
                for (int j = 0; j < N; j++) {
                    double sum = 0;
                    for (int l = 0; l < K; l++)
                        sum += (double)x[r * K + l] * from[transposed ? j * K + l : l * N + j];
                    off += pow(y[r * N + j] - sum, 2);
                    size += sum * sum;
                }
            assert_true(sqrt(off / size) < (bytes ? 0.02 : 1e-6));
        }
    free(x);
    free(from);
}

/* Bytes of a weight are those of the weight rounded to bytes before, with the same scales. */
static void test_row_product__packing_of_rounded(void **state)
{
    (void)state;
    enum { N = 70, K = 37 };
    const et_kernels *table = et_kernels_best();
    float *from = make_floats(N * K, 0.1f, 2), rounded[N * K], scale[N];
    int8_t q[N * K];
    for (int transposed = 0; transposed < 2; transposed++) {
        const setting s = { .n = N, .k = K, .transposed = transposed, .kind = ET_ROW_INT8 };
        const int64_t rows = transposed ? N : K, columns = transposed ? K : N;
        et_row_weight_to_bytes(q, scale, from, rows, columns, transposed);
        et_row_weight_from_bytes(rounded, q, scale, rows, columns, transposed);
        et_row_weight a = pack(table, from, ET_F32, &s), b = pack(table, rounded, ET_F32, &s);
        const size_t bytes = (size_t)((N + a.panel - 1) / a.panel * a.panel * ((K + 3) / 4 * 4));
        assert_memory_equal(a.panels, b.panels, bytes);
        assert_memory_equal(a.scale, scale, sizeof scale);
        assert_memory_equal(b.scale, scale, sizeof scale);
        assert_memory_equal(a.offset, b.offset, sizeof scale);
        for (int j = 0; j < N; j++)
            assert_true(a.error[j] > b.error[j] && b.error[j] >= 0);
        free(a.panels);
        free(b.panels);
    }
    free(from);
}

/* Relu keeps a NaN, here of a bias, and makes negative values 0; without relu all values stay, and
 * so they do without a bias. */
static void test_row_product__relu_keeps_nan(void **state)
{
    (void)state;
    const float x = -1, w[] = { 1, 1, 1, 1 }, bias[] = { NAN, -5, 5, -INFINITY };
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        for (int way = 0; way < 6 && table; way++) {
            setting s = { .rows = 1, .n = 4, .k = 1, .transposed = true };
            s.kind = way % 2 ? ET_ROW_INT8 : ET_ROW_F32;
            et_row_weight weight = pack(table, w, ET_F32, &s);
            void *scratch = scratch_of(et_row_scratch(1, 1, s.kind, ET_F32));
            float y[4] = { 0, 7, 0, 0 };
            const et_row_product shape = { .rows = 1,
                                           .weight = &weight,
                                           .bias = way < 4 ? bias : NULL,
                                           .relu = way < 2,
                                           .scratch = scratch };
            table->row_product(y, &x, &shape);
            free(scratch);
            free(weight.panels);
            if (shape.relu)
                assert_true(isnan(y[0]) && y[1] == 0 && y[2] > 3 && y[3] == 0);
            else if (shape.bias)
                assert_true(isnan(y[0]) && y[1] < -5 && y[2] > 3 && y[3] == -INFINITY);
            else
                assert_true(y[0] < 0 && y[1] == y[0] && y[2] == y[0] && y[3] == y[0]);
        }
    }
}

/* As bytes: a row of zeros, or nearly so, gives zeros. A number that is not finite is not lost,
 * also if all others are zero or not finite. */
static void test_row_product__odd_rows_of_bytes(void **state)
{
    (void)state;
    enum { ROWS = 6, N = 5, K = 33 };
    static const float all[ROWS] = { 0, 1e-40f, NAN, 0, 1, INFINITY };
    static const float one[ROWS] = { 0, 1e-38f, NAN, NAN, -INFINITY, INFINITY };
    float *from = make_floats(N * K, 0.1f, 2), x[ROWS * K], y[ROWS * N];
    for (int i = 0; i < ROWS * K; i++)
        x[i] = i % K == 20 ? one[i / K] : all[i / K];
    const setting s = { .n = N, .k = K, .kind = ET_ROW_INT8 };
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        et_row_weight weight = pack(table, from, ET_F32, &s);
        void *scratch = scratch_of(et_row_scratch(ROWS, K, s.kind, ET_F32));
        table->row_product(
            y, x, &(et_row_product){ .rows = ROWS, .weight = &weight, .scratch = scratch });
        for (int i = 0; i < ROWS * N; i++)
            assert_true(i < 2 * N ? y[i] == 0 : isnan(y[i]));
        free(scratch);
        free(weight.panels);
    }
    free(from);
}

/* A row has the same bits alone and among others, in any block. */
static void test_row_product__independent_rows(void **state)
{
    (void)state;
    enum { ROWS = 29, N = 70 };
    float all[ROWS * N], some[ROWS * N];
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        setting s = { .rows = ROWS, .n = N, .k = 131, .bias = true, .relu = true };
        for (int way = 0; way < 4 && table; way++) {
            s.kind = way % 2 ? ET_ROW_INT8 : ET_ROW_F32;
            s.dtype = way < 2 ? ET_F32 : ET_BF16;
            s.first = 0;
            s.count = ROWS;
            run_product(table, &s, all);
            for (s.first = 0; s.first < ROWS; s.first++) {
                s.count = s.first % 5 + 1 < ROWS - s.first ? s.first % 5 + 1 : ROWS - s.first;
                run_product(table, &s, some);
                assert_memory_equal(some, all + s.first * N, (size_t)s.count * N * sizeof(float));
            }
        }
    }
}

/* Bytes lose at most half a unit of every number. */
static void test_row_product__bytes_are_near(void **state)
{
    (void)state;
    setting s = { .rows = 9, .n = 65, .k = 300, .count = 9, .kind = ET_ROW_F32 };
    float exact[9 * 65], bytes[9 * 65];
    run_product(&et_kernels_reference, &s, exact);
    s.kind = ET_ROW_INT8;
    run_product(&et_kernels_reference, &s, bytes);
    double off = 0, size = 0;
    for (int i = 0; i < 9 * 65; i++) {
        off += pow((double)exact[i] - bytes[i], 2);
        size += pow(exact[i], 2);
    }
    assert_true(off > 0 && sqrt(off / size) < 0.01);
}

/* ---- best tokens ---- */

typedef struct best_setting {
    int64_t rows, pieces, width;
    int count;
    float spread; /* of the table's numbers: how much logits differ */
    et_dtype dtype;
    bool same; /* all tokens are equal: bytes exclude none */
} best_setting;

/* result: log p [rows, count], then the pieces as floats. */
static void run_best(const et_kernels *table, const void *with, float *result)
{
    const best_setting *s = with;
    void *h = make_act((size_t)(s->rows * s->width), 1, 5, s->dtype);
    float *from = make_floats((size_t)(s->pieces * s->width), s->spread, 6);
    for (int64_t i = 0; i < s->pieces * s->width && s->same; i++)
        from[i] = from[i % s->width];
    setting packed = { .n = s->pieces, .k = s->width, .kind = ET_ROW_INT8, .transposed = true };
    et_row_weight weight = pack(table, from, ET_F32, &packed);
    size_t wanted = (size_t)(s->rows * s->count);
    int32_t *token = make(wanted, sizeof *token);
    const et_best_tokens shape = { .rows = s->rows,
                                   .count = s->count,
                                   .weight = &weight,
                                   .table = from,
                                   .dtype = s->dtype,
                                   .scratch = scratch_of(3 * et_best_scratch(&weight)) };
    table->best_tokens(result, token, h, &shape);
    for (size_t i = 0; i < wanted; i++)
        result[wanted + i] = (float)token[i];
    free(shape.scratch), free(weight.panels), free(h), free(from), free(token);
}

static void test_best_tokens__tables(void **state)
{
    (void)state;
    static const best_setting settings[] = {
        { 1, 2, 1, 2, 1, ET_F32, false },
        { 3, 12, 32, 8, 0.3f, ET_F32, false },
        { 25, 1003, 64, 8, 0.2f, ET_F32, false },
        { 50, 700, 33, 2, 0.5f, ET_BF16, false },
        { 5, 2000, 128, 128, 0.1f, ET_F32, false },
        { 4, 900, 48, 10, 0.001f, ET_F32, false }, /* nearly equal logits */
    };
    char name[64];
    for (size_t i = 0; i < COUNT(settings); i++) {
        const best_setting *s = &settings[i];
        snprintf(name, sizeof name, "best tokens, case %zu", i);
        check_tables(name, run_best, s, (size_t)(2 * s->rows * s->count), 1.5e-3, 0);
    }
}

/* If nothing can be excluded, the whole row is computed; ties go to the smaller number. */
static void test_best_tokens__all_alike(void **state)
{
    (void)state;
    const best_setting s = { 2, 1500, 40, 6, 0.2f, ET_F32, true };
    check_tables("all tasks equally", run_best, &s, (size_t)(2 * s.rows * s.count), 1e-5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_product__tables),
        cmocka_unit_test(test_row_product__packing),
        cmocka_unit_test(test_row_product__packing_of_rounded),
        cmocka_unit_test(test_row_product__relu_keeps_nan),
        cmocka_unit_test(test_row_product__odd_rows_of_bytes),
        cmocka_unit_test(test_row_product__threads),
        cmocka_unit_test(test_row_product__independent_rows),
        cmocka_unit_test(test_row_product__bytes_are_near),
        cmocka_unit_test(test_best_tokens__tables),
        cmocka_unit_test(test_best_tokens__all_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
