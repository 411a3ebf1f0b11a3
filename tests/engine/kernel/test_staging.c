/* Staging against its reference, to the bit: only sums that become bfloat16 are rounded. */
#include "engine/kernel/arguments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "engine/kernel/harness.h"

/* rows x columns as stored, and how much more the target has of each. */
typedef struct size {
    int64_t rows, columns, stride, more_rows, more_columns;
} size;

static const size sizes[] = {
    { 1, 1, 1, 0, 0 },     { 1, 1, 3, 5, 0 },         { 7, 3, 3, 0, 2 },
    { 16, 16, 16, 0, 0 },  { 17, 33, 40, 3, 1 },      { 64, 64, 64, 0, 0 },
    { 31, 64, 70, 1, 64 }, { 100, 130, 131, 28, 30 }, { 33, 128, 128, 31, 0 },
    { 5, 70, 70, 16, 16 },
};

/* Type as stored, type of the target. */
static const et_dtype types[][2] = { { ET_F32, ET_F32 },
                                     { ET_BF16, ET_F32 },
                                     { ET_BF16, ET_BF16 } };

typedef void stage_fn(const et_staging *staging, void *to, const size *s, et_dtype dtype,
                      const et_stored *from);

static void by_rows(const et_staging *staging, void *to, const size *s, et_dtype dtype,
                    const et_stored *from)
{
    staging->rows(to, s->rows + s->more_rows, s->columns + s->more_columns, dtype, from);
}

static void across(const et_staging *staging, void *to, const size *s, et_dtype dtype,
                   const et_stored *from)
{
    staging->across(to, s->columns + s->more_columns, s->rows + s->more_rows, dtype, from);
}

static void row_pairs(const et_staging *staging, void *to, const size *s, et_dtype dtype,
                      const et_stored *from)
{
    (void)dtype;
    staging->row_pairs(to, (s->rows + s->more_rows + 1) / 2 * 2, s->columns + s->more_columns,
                       from);
}

static void pairs_across(const et_staging *staging, void *to, const size *s, et_dtype dtype,
                         const et_stored *from)
{
    (void)dtype;
    staging->pairs_across(to, (s->columns + s->more_columns + 1) / 2 * 2, s->rows + s->more_rows,
                          from);
}

/* Bytes beyond the target must not change. */
static void check(stage_fn *stage, const size *s, const et_dtype type[2])
{
    size_t stored = (size_t)((s->rows - 1) * s->stride + s->columns);
    et_stored from = { make_act(stored, 1.0f, 1, type[0]), s->rows, s->columns, s->stride,
                       type[0] };
    size_t count = (size_t)((s->rows + s->more_rows + 1) * (s->columns + s->more_columns + 1));
    size_t bytes = count * et_dtype_size(type[1]);
    char *expected = make(count, 4), *got = make(count, 4);
    memset(expected, 0x55, bytes);
    stage(et_kernels_reference.staging, expected, s, type[1], &from);
    for (size_t i = 0; i < COUNT(table_names); i++) {
        const et_kernels *table = et_kernels_named(table_names[i]);
        if (!table)
            continue;
        memset(got, 0x55, bytes);
        stage(table->staging, got, s, type[1], &from);
        if (memcmp(got, expected, bytes) != 0)
            fail_msg("%s: %lld x %lld + %lld x %lld, %s to %s", table->name, (long long)s->rows,
                     (long long)s->columns, (long long)s->more_rows, (long long)s->more_columns,
                     et_dtype_name(type[0]), et_dtype_name(type[1]));
    }
    free((void *)(uintptr_t)from.data);
    free(expected);
    free(got);
}

static void check_all(stage_fn *stage, size_t first_type)
{
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (size_t t = first_type; t < COUNT(types); t++)
            check(stage, &sizes[i], types[t]);
}

static void test_staging__rows(void **state)
{
    (void)state;
    check_all(by_rows, 0);
}

static void test_staging__across(void **state)
{
    (void)state;
    check_all(across, 0);
}

static void test_staging__row_pairs(void **state)
{
    (void)state;
    check_all(row_pairs, 2);
}

static void test_staging__pairs_across(void **state)
{
    (void)state;
    check_all(pairs_across, 2);
}

/* By hand: 3 rows of 2, with one row and one column more. */
static void test_staging__pairs_by_hand(void **state)
{
    (void)state;
    const et_bf16 stored[] = { 1, 2, 3, 4, 5, 6 };
    const et_stored from = { stored, 3, 2, 2, ET_BF16 };
    const et_bf16 pairs[12] = { 1, 3, 2, 4, 0, 0, 5, 0, 6, 0, 0, 0 };
    const et_bf16 turned[8] = { 1, 2, 3, 4, 5, 6, 0, 0 };
    et_bf16 got[12];
    et_kernels_best()->staging->row_pairs(got, 4, 3, &from);
    assert_memory_equal(got, pairs, sizeof pairs);
    et_kernels_best()->staging->pairs_across(got, 2, 4, &from);
    assert_memory_equal(got, turned, sizeof turned);
}

typedef struct finish_case {
    et_finish how;
    const float *from, *c;
} finish_case;

/* C is converted to float for the comparison, including the gaps between its rows. */
static void run_finish(const et_kernels *table, const void *setting, float *result)
{
    const finish_case *it = setting;
    size_t count = (size_t)(it->how.rows * it->how.c_stride);
    void *c = make(count, sizeof(float));
    memset(c, 0, count * sizeof(float));
    if (it->how.c == ET_F32)
        memcpy(c, it->c, count * sizeof(float));
    table->staging->finish(&it->how, c, it->from);
    widen(result, c, count, it->how.c);
    free(c);
}

static void test_staging__finish(void **state)
{
    (void)state;
    float *from = make_floats(3 * 20 * 90, 1.0f, 1), *c = make_floats(20 * 100, 1.0f, 2);
    float *bias = make_floats(90, 1.0f, 3);
    from[90] = NAN; /* stays NaN, with relu too: check_tables requires NaN for NaN */
    for (int64_t columns = 1; columns <= 90; columns += 17)
        for (int bits = 0; bits < 32; bits++) {
            finish_case it = { { .rows = 20,
                                 .columns = columns,
                                 .parts = bits & 1 ? 3 : 1,
                                 .part_stride = 20 * 90,
                                 .from_stride = 90,
                                 .c_stride = 100,
                                 .bias = bits & 2 ? bias : NULL,
                                 .relu = bits & 4,
                                 .accumulate = bits & 8,
                                 .c = bits & 16 ? ET_BF16 : ET_F32 },
                               from,
                               c };
            if (it.how.accumulate && it.how.c == ET_BF16)
                continue;
            check_tables("finish", run_finish, &it, 20 * 100, 1e-6, unit_of(it.how.c));
        }
    free(from);
    free(c);
    free(bias);
}

typedef struct relu_case {
    int64_t columns;
    et_dtype dtype;
    const void *c;
} relu_case;

enum { RELU_ROWS = 5, RELU_STRIDE = 100 };

/* The gaps between rows are part of the result. */
static void run_relu(const et_kernels *table, const void *setting, float *result)
{
    const relu_case *it = setting;
    const size_t count = RELU_ROWS * RELU_STRIDE;
    void *c = make(count, et_dtype_size(it->dtype));
    memcpy(c, it->c, count * et_dtype_size(it->dtype));
    table->staging->relu(c, RELU_ROWS, it->columns, RELU_STRIDE, it->dtype);
    widen(result, c, count, it->dtype);
    free(c);
}

/* A NaN stays NaN. Nothing is rounded. */
static void test_staging__relu(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
        void *c = make_act(RELU_ROWS * RELU_STRIDE, 1.0f, 4, (et_dtype)dtype);
        if (dtype == ET_BF16)
            ((et_bf16 *)c)[RELU_STRIDE] = et_bf16_from_float(NAN);
        else
            ((float *)c)[RELU_STRIDE] = NAN;
        for (int64_t columns = 1; columns <= 90; columns += 17) {
            relu_case it = { columns, (et_dtype)dtype, c };
            check_tables("relu", run_relu, &it, RELU_ROWS * RELU_STRIDE, 0, 0);
        }
        free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_staging__rows),          cmocka_unit_test(test_staging__across),
        cmocka_unit_test(test_staging__row_pairs),     cmocka_unit_test(test_staging__pairs_across),
        cmocka_unit_test(test_staging__pairs_by_hand), cmocka_unit_test(test_staging__finish),
        cmocka_unit_test(test_staging__relu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
