/* C = A B against its reference, each operand either way, on sizes with tails in every direction.
 */
#include "engine/kernel/arguments.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/kernel/harness.h"

typedef struct setting {
    int64_t m, n, k, more; /* more: elements between stored rows, of A, B and C */
    bool transposed, across;
    bool accumulate, bias, relu, ahead, room;
    et_dtype ab;
} setting;

static const struct {
    int64_t m, n, k, more;
} sizes[] = {
    { 1, 1, 1, 0 },     { 8, 48, 64, 0 },   { 9, 49, 7, 3 },     { 3, 16, 33, 0 },
    { 16, 64, 128, 0 }, { 17, 31, 5, 1 },   { 24, 80, 100, 16 }, { 5, 96, 3, 2 },
    { 40, 127, 64, 0 }, { 33, 10, 128, 5 }, { 12, 128, 127, 0 },
};

/* The length of an operand's stored row, including the gap to the next. */
static int64_t stride(int64_t rows, int64_t columns, bool transposed, int64_t more)
{
    return (transposed ? rows : columns) + more;
}

/* From the first stored element to the last. */
static size_t stored(int64_t rows, int64_t columns, bool transposed, int64_t more)
{
    int64_t lines = transposed ? columns : rows, width = transposed ? rows : columns;
    return (size_t)((lines - 1) * (width + more) + width);
}

/* C from end to end: elements between its rows must not change. */
static size_t result_size(const setting *s)
{
    return stored(s->m, s->n, false, s->more);
}

static void run(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    int64_t a_stride = stride(s->m, s->k, s->transposed, s->more);
    void *a = make_act(stored(s->m, s->k, s->transposed, s->more), 1, 1, s->ab);
    void *b = make_act(stored(s->k, s->n, s->across, s->more), 1, 2, s->ab);
    void *room = et_alloc_aligned(et_float_product_scratch(s->m, s->k, s->ab), 64);
    assert_non_null(room);
    float *c = make_floats(result_size(s), 1, 3), *bias = make_floats((size_t)s->n, 1, 4);
    et_float_product p = { .m = s->m,
                           .n = s->n,
                           .k = s->k,
                           .ab = s->ab,
                           .a = a,
                           .b = b,
                           .c = c,
                           .room = s->room ? room : NULL,
                           .a_row = s->transposed ? 1 : a_stride,
                           .a_step = s->transposed ? a_stride : 1,
                           .ldb = stride(s->k, s->n, s->across, s->more),
                           .ldc = s->n + s->more,
                           .across = s->across,
                           .accumulate = s->accumulate,
                           .bias = s->bias ? bias : NULL,
                           .relu = s->relu,
                           .ahead = s->ahead };
    table->float_product(&p);
    memcpy(result, c, result_size(s) * sizeof *c);
    free(a), free(b), free(c), free(bias), et_free(room);
}

/* Size `size` with the options that way's bits say. */
static setting setting_of(size_t size, int way)
{
    return (setting){ .m = sizes[size].m,
                      .n = sizes[size].n,
                      .k = sizes[size].k,
                      .more = sizes[size].more,
                      .transposed = way & 1,
                      .across = way & 2,
                      .accumulate = way & 4,
                      .bias = way & 8,
                      .relu = way & 16 };
}

static void test_float_product__equals_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int way = 0; way < 32; way++) {
            setting s = setting_of(i, way);
            check_tables("float product", run, &s, result_size(&s), 2e-5, 2e-6);
        }
}

/* Gradients of weights: A's rows copied on the way, float32 and pairs of bfloat16, which has sums
 * twice as long. Products of bfloat16 are exact in float32, so sums are as good. */
static void test_float_product__gradients_equal_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int way = 0; way < 8; way++) {
            setting s = setting_of(i, 1 | (way & 3) << 2);
            s.room = true;
            s.ab = way & 4 ? ET_BF16 : ET_F32;
            s.k *= s.ab == ET_BF16 && way & 1 ? 2 : 1;
            check_tables("gradient", run, &s, result_size(&s), 2e-5, 2e-6);
        }
}

/* Reading A from the room does not change the result either. */
static void test_float_product__room_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++) {
        setting s = setting_of(i, 1);
        size_t bytes = result_size(&s) * sizeof(float);
        float *with = make(1, bytes), *without = make(1, bytes);
        s.room = true;
        run(et_kernels_best(), &s, with);
        s.room = false;
        run(et_kernels_best(), &s, without);
        assert_memory_equal(with, without, bytes);
        free(with);
        free(without);
    }
}

/* Looking ahead moves no bit. */
static void test_float_product__ahead_changes_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (int way = 0; way < 4; way++) {
            setting s = setting_of(i, way);
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

/* Rows and columns may be cut anywhere: tiles of a product depend on it. */
static void test_float_product__cuts_change_nothing(void **state)
{
    (void)state;
    enum { M = 21, N = 70, K = 50 };
    float *a = make_floats(M * K, 1, 1), *b = make_floats(K * N, 1, 2);
    float whole[M * N], parts[M * N];
    et_float_product p = { .m = M, .n = N, .k = K, .a = a, .b = b, .c = whole };
    p.a_row = K, p.a_step = 1, p.ldb = p.ldc = N;
    et_kernels_best()->float_product(&p);
    for (int64_t row = 0; row < M; row += 5)
        for (int64_t column = 0; column < N; column += 33) {
            et_float_product part = p;
            part.m = M - row < 5 ? M - row : 5;
            part.n = N - column < 33 ? N - column : 33;
            part.a = a + row * K;
            part.b = b + column;
            part.c = parts + row * N + column;
            et_kernels_best()->float_product(&part);
        }
    assert_memory_equal(whole, parts, sizeof whole);
    free(a);
    free(b);
}

/* As every relu of the library has it. */
static void test_float_product__relu_keeps_nan(void **state)
{
    (void)state;
    float a = NAN, b = 1, c = 5;
    const et_float_product p = { .m = 1,
                                 .n = 1,
                                 .k = 1,
                                 .a = &a,
                                 .b = &b,
                                 .c = &c,
                                 .a_row = 1,
                                 .a_step = 1,
                                 .ldb = 1,
                                 .ldc = 1,
                                 .relu = true };
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        if (!table)
            continue;
        c = 5;
        table->float_product(&p);
        assert_true(isnan(c));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_float_product__equals_the_reference),
        cmocka_unit_test(test_float_product__gradients_equal_the_reference),
        cmocka_unit_test(test_float_product__room_changes_nothing),
        cmocka_unit_test(test_float_product__ahead_changes_nothing),
        cmocka_unit_test(test_float_product__cuts_change_nothing),
        cmocka_unit_test(test_float_product__relu_keeps_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
