#include "engine/kernel/harness.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

typedef struct setting {
    et_ew_program program;
    int64_t rows, width;
    float spread; /* of the inputs */
} setting;

static const char *const names[ET_EW_OP_COUNT] = {
#define ELEMENTWISE(id, name, inputs, reads, formula, da, db) [ET_EW_##id] = name,
#include "engine/kernel/elementwise.def"
#undef ELEMENTWISE
};

static const et_random random_use = { .seed = 0x123456789abcdefull, .step = 77 };

/* All outputs of the program, one after another. */
static void run_program(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const et_ew_program *p = &s->program;
    const size_t count = (size_t)(s->rows * s->width);
    void *in[ET_EW_INPUTS_MAX], *out[ET_EW_OUTPUTS_MAX];
    for (int i = 0; i < p->inputs; i++) {
        const size_t sizes[] = { count, (size_t)s->width, (size_t)s->rows, 1 };
        size_t size = sizes[p->broadcast[i]];
        in[i] = make_act(size, s->spread, (uint32_t)i, p->input_dtype[i]);
    }
    for (int i = 0; i < p->outputs; i++)
        out[i] = make(count, et_dtype_size(p->output_dtype[i]));
    table->elementwise(p, out, (const void *const *)in, s->rows, s->width, random_use);
    for (int i = 0; i < p->outputs; i++) {
        widen(result + (size_t)i * count, out[i], count, p->output_dtype[i]);
        free(out[i]);
    }
    for (int i = 0; i < p->inputs; i++)
        free(in[i]);
}

/* One operation on two full inputs. */
static et_ew_program single(et_ew_op op, float x, et_dtype dtype)
{
    return (et_ew_program){
        .inputs = 2,
        .steps = 1,
        .outputs = 1,
        .input_dtype = { dtype, dtype },
        .step = { { .op = op, .a = 0, .b = 1, .to = 2, .x = x, .site = 5 } },
        .output = { 2 },
        .output_dtype = { dtype },
    };
}

static void test_elementwise__every_operation(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = { { 1, 1 }, { 3, 7 }, { 1, 16 }, { 129, 33 }, { 1000, 33 } };
    char name[64];
    for (int op = 0; op < ET_EW_OP_COUNT; op++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
            for (size_t i = 0; i < COUNT(sizes); i++) {
                setting s = { single((et_ew_op)op, 0.3f, (et_dtype)dtype), sizes[i][0], sizes[i][1],
                              2.0f };
                snprintf(name, sizeof name, "%s, %s, %d x %d", names[op],
                         et_dtype_name((et_dtype)dtype), (int)s.rows, (int)s.width);
                check_tables(name, run_program, &s, (size_t)(s.rows * s.width), 1e-6,
                             unit_of((et_dtype)dtype));
            }
}

/* a - b with either of them repeated over rows, columns or both. */
static void test_elementwise__repeated(void **state)
{
    (void)state;
    char name[64];
    for (int how = 0; how < 4 * 4; how++)
        for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
            for (size_t r = 0; r < COUNT(some_rows); r++)
                for (size_t w = 0; w < 4; w++) {
                    setting s = { single(ET_EW_SUB, 0, (et_dtype)dtype), some_rows[r],
                                  some_widths[w], 2.0f };
                    s.program.broadcast[0] = (et_ew_broadcast)(how % 4);
                    s.program.broadcast[1] = (et_ew_broadcast)(how / 4);
                    snprintf(name, sizeof name, "repeated %d %d, %s, %d x %d", how % 4, how / 4,
                             et_dtype_name((et_dtype)dtype), (int)s.rows, (int)s.width);
                    check_tables(name, run_program, &s, (size_t)(s.rows * s.width), 1e-6,
                                 unit_of((et_dtype)dtype));
                }
    const et_ew_program p = { .inputs = 3,
                              .steps = 2,
                              .outputs = 1,
                              .broadcast = { ET_EW_ROW, ET_EW_COLUMN, ET_EW_ONE },
                              .step = { { .op = ET_EW_ADD, .a = 0, .b = 1, .to = 3 },
                                        { .op = ET_EW_ADD, .a = 3, .b = 2, .to = 4 } },
                              .output = { 4 } };
    const float row[3] = { 1, 2, 3 }, column[2] = { 10, 20 }, number = 100;
    const float sums[6] = { 111, 112, 113, 121, 122, 123 };
    float out[6];
    et_kernels_reference.elementwise(&p, (void *[]){ out },
                                     (const void *[]){ row, column, &number }, 2, 3, random_use);
    assert_memory_equal(out, sums, sizeof sums);
}

/* All kernels use one table of formulas; these values were computed independently. */
static void test_elementwise__known_values(void **state)
{
    (void)state;
    static const struct {
        et_ew_op op;
        float a, b, x, wanted;
    } known[] = {
        { ET_EW_ADD, 3, 4, 0, 7 },
        { ET_EW_SUB, 3, 4, 0, -1 },
        { ET_EW_MUL, 3, 4, 0, 12 },
        { ET_EW_DIV, 3, 4, 0, 0.75f },
        { ET_EW_SCALE, 3, 0, -2, -6 },
        { ET_EW_OFFSET, 3, 0, -2, 1 },
        { ET_EW_COPY, 3, 0, 0, 3 },
        { ET_EW_RELU, -3, 0, 0, 0 },
        { ET_EW_RELU, 3, 0, 0, 3 },
        { ET_EW_GELU, 1, 0, 0, 0.8413447f },
        { ET_EW_TANH, 1, 0, 0, 0.7615942f },
        { ET_EW_SIGMOID, 1, 0, 0, 0.7310586f },
        { ET_EW_SWISH, 1, 0, 0, 0.7310586f },
        { ET_EW_SOFTPLUS, 1, 0, 0, 1.3132617f },
        { ET_EW_SOFTPLUS, 100, 0, 0, 100 },
        { ET_EW_SOFTPLUS, -100, 0, 0, 0 },
        { ET_EW_SELU, 2, 0, 0, 2.1014020f },
        { ET_EW_SELU, -1, 0, 0, -1.1113307f },
        { ET_EW_SELU, -100, 0, 0, -1.7580993f },
        { ET_EW_MISH, 1, 0, 0, 0.8650984f },
        { ET_EW_MISH, -2, 0, 0, -0.2525015f },
        { ET_EW_MISH, 100, 0, 0, 100 },
        { ET_EW_SIN, 1, 0, 0, 0.8414710f },
        { ET_EW_SIN, -100, 0, 0, 0.5063656f },
        { ET_EW_SIN, 1e6f, 0, 0, NAN },
        { ET_EW_COS, 1, 0, 0, 0.5403023f },
        { ET_EW_COS, 3, 0, 0, -0.9899925f },
        { ET_EW_COS, -100, 0, 0, 0.8623189f },
        { ET_EW_COS, -INFINITY, 0, 0, NAN },
        { ET_EW_EXP, 1, 0, 0, 2.7182818f },
        { ET_EW_EXP, -90, 0, 0, 0 },
        { ET_EW_EXP, 90, 0, 0, INFINITY },
        { ET_EW_LOG, 10, 0, 0, 2.3025851f },
        { ET_EW_LOG, 1, 0, 0, 0 },
        { ET_EW_LOG, 0, 0, 0, -INFINITY },
        { ET_EW_LOG, -1, 0, 0, NAN },
        { ET_EW_LOG, 1e-40f, 0, 0, -92.1034f },
        { ET_EW_LOG, INFINITY, 0, 0, INFINITY },
        { ET_EW_SQRT, 2, 0, 0, 1.4142136f },
        { ET_EW_SQRT, -2, 0, 0, NAN },
        { ET_EW_SQUARE, -3, 0, 0, 9 },
        { ET_EW_RECIPROCAL, -4, 0, 0, -0.25f },
        { ET_EW_POWER, 2, 0, 3, 8 },
        { ET_EW_POWER, -2, 0, 3, -8 },
        { ET_EW_POWER, -2, 0, 4, 16 },
        { ET_EW_POWER, -2, 0, -3, -0.125f },
        { ET_EW_POWER, 2, 0, 0.5f, 1.4142136f },
        { ET_EW_POWER, -2, 0, 0.5f, NAN },
        { ET_EW_POWER, 0, 0, 1.5f, 0 },
        { ET_EW_POWER, 0, 0, -1.5f, INFINITY },
        { ET_EW_ABS, -3, 0, 0, 3 },
        { ET_EW_AT_LEAST, 1, 0, 2, 2 },
        { ET_EW_AT_LEAST, 3, 0, 2, 3 },
        { ET_EW_AT_MOST, 1, 0, 2, 1 },
        { ET_EW_AT_MOST, 3, 0, 2, 2 },
        { ET_EW_RELU_GRAD, 5, 0, 0, 0 },
        { ET_EW_RELU_GRAD, 5, 1, 0, 5 },
        { ET_EW_TANH_GRAD, 5, 0.5f, 0, 3.75f },
        { ET_EW_SIGMOID_GRAD, 5, 0.25f, 0, 0.9375f },
        { ET_EW_GELU_GRAD, 5, 0, 0, 2.5f },
        { ET_EW_SWISH_GRAD, 5, 0, 0, 2.5f },
        { ET_EW_SELU_GRAD, 5, 1, 0, 5.2535049f },
        { ET_EW_SELU_GRAD, 5, 0, 0, 8.7904967f },
        { ET_EW_MISH_GRAD, 5, 0, 0, 3 },
        { ET_EW_ABS_GRAD, 5, -3, 0, -5 },
        { ET_EW_ABS_GRAD, 5, 0, 0, 0 },
        { ET_EW_AT_LEAST_GRAD, 5, 2, 2, 0 },
        { ET_EW_AT_LEAST_GRAD, 5, 3, 2, 5 },
        { ET_EW_AT_MOST_GRAD, 5, 2, 2, 0 },
        { ET_EW_AT_MOST_GRAD, 5, 1, 2, 5 },
    };
    bool seen[ET_EW_OP_COUNT] = { [ET_EW_DROPOUT] = true };
    for (size_t i = 0; i < COUNT(known); i++)
        for (size_t t = 0; t <= COUNT(table_names); t++) {
            const et_kernels *k =
                t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
            const et_ew_program p = single(known[i].op, known[i].x, ET_F32);
            float got, wanted = known[i].wanted;
            if (!k)
                continue;
            seen[known[i].op] = true;
            k->elementwise(&p, (void *[]){ &got }, (const void *[]){ &known[i].a, &known[i].b }, 1,
                           1, random_use);
            if (isnan(wanted)
                    ? !isnan(got)
                    : got != wanted && !(fabsf(got - wanted) <= 1e-6f * fabsf(wanted) + 2e-7f))
                fail_msg("%s, %s of %g and %g: %.9g, not %.9g", k->name, names[known[i].op],
                         (double)known[i].a, (double)known[i].b, (double)got, (double)wanted);
        }
    for (int op = 0; op < ET_EW_OP_COUNT; op++)
        if (!seen[op])
            fail_msg("%s has no known value", names[op]);
}

/* bias + relu + dropout + residual with a second output, as a plan fuses them; registers are
 * written over. */
static void test_elementwise__chain(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++) {
                setting s = {
                    .program = {
                        .inputs = 3,
                        .steps = 4,
                        .outputs = 2,
                        .broadcast = { ET_EW_FULL, ET_EW_ROW, ET_EW_FULL },
                        .input_dtype = { (et_dtype)dtype, ET_F32, ET_F32 },
                        .step = {
                            { .op = ET_EW_ADD, .a = 0, .b = 1, .to = 0 },
                            { .op = ET_EW_RELU, .a = 0, .to = 3 },
                            { .op = ET_EW_DROPOUT, .a = 3, .to = 3, .x = 0.1f, .site = 9 },
                            { .op = ET_EW_ADD, .a = 3, .b = 2, .to = 2 },
                        },
                        .output = { 2, 0 },
                        .output_dtype = { (et_dtype)dtype, ET_F32 },
                    },
                    .rows = some_rows[r], .width = some_widths[w], .spread = 1.0f,
                };
                check_tables("chain", run_program, &s, (size_t)(2 * s.rows * s.width), 1e-6,
                             unit_of((et_dtype)dtype));
            }
}

/* Values at which an operation saturates or overflows, and NaN. */
static void test_elementwise__extremes(void **state)
{
    (void)state;
    static const et_ew_op ops[] = { ET_EW_RELU, ET_EW_GELU, ET_EW_TANH,     ET_EW_SIGMOID,
                                    ET_EW_EXP,  ET_EW_SQRT, ET_EW_SOFTPLUS, ET_EW_ABS,
                                    ET_EW_SELU, ET_EW_MISH, ET_EW_SIN,      ET_EW_COS };
    static const float in[] = { 0.0f, -0.0f, 1e-30f, -1e-30f, 88.0f,    -88.0f,
                                100,  -100,  1e30f,  -1e30f,  INFINITY, -30.0f };
    for (size_t op = 0; op < COUNT(ops); op++)
        for (size_t t = 0; t < COUNT(table_names); t++) {
            const et_kernels *table = et_kernels_named(table_names[t]);
            const et_ew_program p = single(ops[op], 0, ET_F32);
            float fast[COUNT(in)], slow[COUNT(in)];
            const void *const from[2] = { in, in };
            if (!table)
                continue;
            table->elementwise(&p, (void *[]){ fast }, from, 1, COUNT(in), random_use);
            et_kernels_reference.elementwise(&p, (void *[]){ slow }, from, 1, COUNT(in),
                                             random_use);
            for (size_t i = 0; i < COUNT(in); i++)
                if (fast[i] != slow[i] && !(isnan(fast[i]) && isnan(slow[i])) &&
                    !(fabsf(fast[i] - slow[i]) <= 1e-6f * fmaxf(1, fabsf(slow[i]))))
                    fail_msg("op %d, %s, of %g: %g, reference %g", (int)ops[op], table->name, in[i],
                             fast[i], slow[i]);
        }
}

static void test_elementwise__nan_stays(void **state)
{
    (void)state;
    static const et_ew_op ops[] = { ET_EW_ADD,     ET_EW_MUL,  ET_EW_SCALE, ET_EW_RELU,
                                    ET_EW_GELU,    ET_EW_TANH, ET_EW_SWISH, ET_EW_SIGMOID,
                                    ET_EW_EXP,     ET_EW_LOG,  ET_EW_SQRT,  ET_EW_SOFTPLUS,
                                    ET_EW_DIV,     ET_EW_ABS,  ET_EW_POWER, ET_EW_AT_LEAST,
                                    ET_EW_AT_MOST, ET_EW_SELU, ET_EW_MISH,  ET_EW_SIN,
                                    ET_EW_COS };
    float in[33], out[33];
    for (size_t i = 0; i < COUNT(in); i++)
        in[i] = NAN;
    const void *const from[2] = { in, in };
    for (size_t op = 0; op < COUNT(ops); op++)
        for (size_t t = 0; t < COUNT(table_names); t++) {
            const et_kernels *table = et_kernels_named(table_names[t]);
            const et_ew_program p = single(ops[op], 1, ET_F32);
            if (!table)
                continue;
            table->elementwise(&p, (void *[]){ out }, from, 1, COUNT(in), random_use);
            for (size_t i = 0; i < COUNT(in); i++)
                if (!isnan(out[i]))
                    fail_msg("op %d, %s, lane %zu: %g", (int)ops[op], table->name, i, out[i]);
        }
}

/* Dropout keeps exactly the reference's elements, about as many as the rate says, and keeps the
 * mean. The test computes the reference's decision from the definition. */
static void test_elementwise__dropout_mask(void **state)
{
    (void)state;
    const int64_t count = 100003;
    float *in = make((size_t)count, sizeof *in), *out = make((size_t)count, sizeof *out);
    const et_ew_program p = single(ET_EW_DROPOUT, 0.3f, ET_F32);
    et_random use = random_use;
    use.site = 5;
    for (int64_t i = 0; i < count; i++)
        in[i] = 1.0f;
    for (size_t t = 0; t < COUNT(table_names) + 1; t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        double sum = 0;
        if (!table)
            continue;
        table->elementwise(&p, (void *[]){ out }, (const void *[]){ in, in }, 1, count, random_use);
        for (int64_t e = 0; e < count; e++) {
            uint32_t word = et_random_block(use, (uint64_t)e >> 3).word[(e >> 1) & 3];
            bool keep = ((word >> (16 * (e & 1))) & 0xffff) >= 19661; /* 0.3 * 65536 */
            if ((out[e] != 0) != keep)
                fail_msg("%s: element %d", table->name, (int)e);
            sum += out[e];
        }
        assert_true(fabs(sum / (double)count - 1.0) < 0.01);
    }
    free(in);
    free(out);
}

static void test_elementwise__dropout_numbers(void **state)
{
    (void)state;
    assert_int_equal(et_dropout_threshold(0.0f), 0);
    assert_int_equal(et_dropout_threshold(0.5f), 32768);
    assert_int_equal(et_dropout_threshold(0.999999f), 65535);
    assert_true(et_dropout_scale(0.0f) == 1.0f);
    assert_true(et_dropout_scale(0.5f) == 2.0f);
}

/* An output may be the buffer of an input of its size. */
static void test_elementwise__in_place(void **state)
{
    (void)state;
    const int64_t count = 2000;
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        const et_ew_program p = single(ET_EW_ADD, 0, ET_F32);
        float *a = make_floats((size_t)count, 1, 1), *b = make_floats((size_t)count, 1, 2);
        float *sum = make((size_t)count, sizeof *sum);
        for (int64_t i = 0; i < count; i++)
            sum[i] = a[i] + b[i];
        if (table) {
            table->elementwise(&p, (void *[]){ b }, (const void *[]){ a, b }, 1, count, random_use);
            assert_memory_equal(b, sum, (size_t)count * sizeof *sum);
        }
        free(a);
        free(b);
        free(sum);
    }
}

/* d/db of each function's derivative kernel, by central differences of the reference. */
static void test_elementwise__gradients(void **state)
{
    (void)state;
    static const struct {
        et_ew_op function, derivative;
        bool by_output; /* the derivative takes the function's output, not its input */
    } pairs[] = {
        { ET_EW_RELU, ET_EW_RELU_GRAD, true },    { ET_EW_GELU, ET_EW_GELU_GRAD, false },
        { ET_EW_TANH, ET_EW_TANH_GRAD, true },    { ET_EW_SIGMOID, ET_EW_SIGMOID_GRAD, true },
        { ET_EW_SWISH, ET_EW_SWISH_GRAD, false },
    };
    static const float at[] = { -3.1f, -1.0f, -0.25f, 0.125f, 0.5f, 2.0f };
    const float h = 1.0f / 128;
    const et_kernels *k = &et_kernels_reference;
    for (size_t i = 0; i < COUNT(pairs); i++)
        for (size_t j = 0; j < COUNT(at); j++) {
            float x[3] = { at[j] - h, at[j], at[j] + h }, y[3], one = 1.0f, grad;
            const et_ew_program f = single(pairs[i].function, 0, ET_F32);
            const et_ew_program d = single(pairs[i].derivative, 0, ET_F32);
            k->elementwise(&f, (void *[]){ y }, (const void *[]){ x, x }, 1, 3, random_use);
            const float *b = pairs[i].by_output ? &y[1] : &x[1];
            k->elementwise(&d, (void *[]){ &grad }, (const void *[]){ &one, b }, 1, 1, random_use);
            assert_true(fabsf((y[2] - y[0]) / (2 * h) - grad) < 1e-4f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise__every_operation),
        cmocka_unit_test(test_elementwise__repeated),
        cmocka_unit_test(test_elementwise__known_values),
        cmocka_unit_test(test_elementwise__chain),
        cmocka_unit_test(test_elementwise__extremes),
        cmocka_unit_test(test_elementwise__nan_stays),
        cmocka_unit_test(test_elementwise__dropout_mask),
        cmocka_unit_test(test_elementwise__dropout_numbers),
        cmocka_unit_test(test_elementwise__in_place),
        cmocka_unit_test(test_elementwise__gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
