#include "engine/kernel/harness.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

static const int64_t counts[] = { 1, 7, 16, 33, 4095, 4097, 50001 };

typedef struct setting {
    int64_t count;
    int way; /* which options are on */
} setting;

/* Optional parts by way's bits. */
static et_slice_update update_of(const setting *s, float *weight, const float *gradient,
                                 et_bf16 *shadow, float *average)
{
    return (et_slice_update){ .weight = weight,
                              .gradient = gradient,
                              .shadow = s->way & 1 ? shadow : NULL,
                              .average = s->way & 2 ? average : NULL,
                              .decay = s->way & 4 ? 1e-3f : 0.0f,
                              .gradient_scale = 0.25f,
                              .average_decay = 0.99f,
                              .count = s->count };
}

/* Two updates of weight, m, v, shadow, average (five arrays), optional parts by way's bits. */
static void run_adam(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *m = make_floats(n, 0.1f, 2);
    float *v = make_floats(n, 0.1f, 3), *g = make_floats(n, 1, 4), *average = make_floats(n, 1, 5);
    et_bf16 *shadow = make_act(n, 1, 6, ET_BF16);
    for (size_t i = 0; i < n; i++)
        v[i] = fabsf(v[i]);
    const et_slice_update update = update_of(s, weight, g, shadow, average);
    const et_adam_moments moments = { m, v, 0.01f, 0.9f, 0.98f, 1e-9f };
    for (int step = 0; step < 2; step++)
        table->adam(&update, &moments);
    memcpy(result, weight, n * 4);
    memcpy(result + n, m, n * 4);
    memcpy(result + 2 * n, v, n * 4);
    memcpy(result + 3 * n, average, n * 4);
    widen(result + 4 * n, shadow, n, ET_BF16);
    free(weight), free(m), free(v), free(g), free(average), free(shadow);
}

static void run_sgd(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *a = make_floats(n, 0.1f, 2);
    float *g = make_floats(n, 1, 4), *average = make_floats(n, 1, 5);
    et_bf16 *shadow = make_act(n, 1, 6, ET_BF16);
    const et_slice_update update = update_of(s, weight, g, shadow, average);
    const et_momentum momentum = { s->way & 8 ? a : NULL, 0.1f, 0.9f, s->way & 16 };
    for (int step = 0; step < 2; step++)
        table->sgd(&update, &momentum);
    memcpy(result, weight, n * 4);
    memcpy(result + n, a, n * 4);
    memcpy(result + 2 * n, average, n * 4);
    widen(result + 3 * n, shadow, n, ET_BF16);
    free(weight), free(a), free(g), free(average), free(shadow);
}

static float *make_squares(size_t n, float scale, uint32_t use)
{
    float *x = make_floats(n, scale, use);
    for (size_t i = 0; i < n; i++)
        x[i] = fabsf(x[i]);
    return x;
}

/* Two updates; m, v and the largest v, the weight and its copies, as run_adam. */
static void run_amsgrad(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *m = make_floats(n, 0.1f, 2), *g = make_floats(n, 1, 4);
    float *v = make_squares(n, 0.1f, 3), *most = make_squares(n, 0.1f, 7);
    float *average = make_floats(n, 1, 5);
    et_bf16 *shadow = make_act(n, 1, 6, ET_BF16);
    const et_slice_update update = update_of(s, weight, g, shadow, average);
    const et_adam_moments moments = { m, v, 0.01f, 0.9f, 0.98f, 1e-9f };
    for (int step = 0; step < 2; step++)
        table->amsgrad(&update, &moments, most);
    memcpy(result, weight, n * 4);
    memcpy(result + n, m, n * 4);
    memcpy(result + 2 * n, v, n * 4);
    memcpy(result + 3 * n, most, n * 4);
    memcpy(result + 4 * n, average, n * 4);
    widen(result + 5 * n, shadow, n, ET_BF16);
    free(weight), free(m), free(v), free(most), free(g), free(average), free(shadow);
}

/* Squares well above the mean's, whose difference is divided by. */
static void run_rmsprop(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *g = make_floats(n, 1, 4), *a = make_floats(n, 0.1f, 2);
    float *squares = make_squares(n, 1, 3), *mean = make_floats(n, 0.1f, 7);
    float *average = make_floats(n, 1, 5);
    et_bf16 *shadow = make_act(n, 1, 6, ET_BF16);
    for (size_t i = 0; i < n; i++)
        squares[i] += 1;
    const et_slice_update update = update_of(s, weight, g, shadow, average);
    const et_mean_squares told = {
        squares, s->way & 8 ? mean : NULL, s->way & 16 ? a : NULL, 0.01f, 0.9f, 0.9f, 1e-3f
    };
    for (int step = 0; step < 2; step++)
        table->rmsprop(&update, &told);
    memcpy(result, weight, n * 4);
    memcpy(result + n, squares, n * 4);
    memcpy(result + 2 * n, mean, n * 4);
    memcpy(result + 3 * n, a, n * 4);
    memcpy(result + 4 * n, average, n * 4);
    widen(result + 5 * n, shadow, n, ET_BF16);
    free(weight), free(g), free(a), free(squares), free(mean), free(average), free(shadow);
}

static void run_adagrad(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *g = make_floats(n, 1, 4);
    float *squares = make_squares(n, 0.1f, 3), *average = make_floats(n, 1, 5);
    et_bf16 *shadow = make_act(n, 1, 6, ET_BF16);
    const et_slice_update update = update_of(s, weight, g, shadow, average);
    for (int step = 0; step < 2; step++)
        table->adagrad(&update, &(et_square_sums){ squares, 0.01f, 1e-3f });
    memcpy(result, weight, n * 4);
    memcpy(result + n, squares, n * 4);
    memcpy(result + 2 * n, average, n * 4);
    widen(result + 3 * n, shadow, n, ET_BF16);
    free(weight), free(g), free(squares), free(average), free(shadow);
}

/* A direction, and the results of two blends, one of them in place. */
static void run_direction(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t n = (size_t)s->count;
    float *weight = make_floats(n, 1, 1), *m = make_floats(n, 0.1f, 2), *g = make_floats(n, 1, 4);
    float *v = make_squares(n, 0.1f, 3);
    const et_adam_direction direction = { .gradient = g,
                                          .weight = weight,
                                          .m = m,
                                          .v = v,
                                          .gradient_scale = 0.25f,
                                          .beta_1 = 0.9f,
                                          .beta_2 = 0.98f,
                                          .epsilon = 1e-3f,
                                          .m_scale = 5,
                                          .v_scale = 20,
                                          .decay = s->way & 4 ? 0.1f : 0,
                                          .count = s->count };
    table->adam_direction(&direction);
    memcpy(result, g, n * 4);
    memcpy(result + n, m, n * 4);
    memcpy(result + 2 * n, v, n * 4);
    table->blend(weight, g, 0.5f, -2, s->count);
    memcpy(result + 3 * n, weight, n * 4);
    table->blend(weight, weight, 0.25f, 0, s->count);
    memcpy(result + 4 * n, weight, n * 4);
    free(weight), free(m), free(v), free(g);
}

static void test_slice_update__adam(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int way = 0; way < 8; way++) {
            setting s = { counts[i], way };
            check_tables("adam", run_adam, &s, (size_t)(5 * s.count), 1e-6,
                         way & 1 ? 1.0 / 128 : 2e-6);
        }
}

static void test_slice_update__sgd(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++)
        for (int way = 0; way < 32; way++) {
            setting s = { counts[i], way };
            check_tables("sgd", run_sgd, &s, (size_t)(4 * s.count), 1e-6,
                         way & 1 ? 1.0 / 128 : 2e-6);
        }
}

/* Every other rule's kernel, with all that way's bits may switch on. */
static void test_slice_update__rules(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        run_fn *run;
        int ways, arrays;
    } rules[] = {
        { "amsgrad", run_amsgrad, 8, 6 },
        { "rmsprop", run_rmsprop, 32, 6 },
        { "adagrad", run_adagrad, 8, 4 },
        { "direction", run_direction, 8, 5 },
    };
    for (size_t r = 0; r < COUNT(rules); r++)
        for (size_t i = 0; i < COUNT(counts); i++)
            for (int way = 0; way < rules[r].ways; way++) {
                setting s = { counts[i], way };
                check_tables(rules[r].name, rules[r].run, &s, (size_t)(rules[r].arrays * s.count),
                             2e-6, way & 1 ? 1.0 / 128 : 2e-6);
            }
}

/* By hand, from zeros and a gradient of 1/2: v of Adam's is 1/200 once and a little less than its
 * largest after a gradient of 0. */
static void test_slice_update__known_rules(void **state)
{
    (void)state;
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *k =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        if (!k)
            continue;
        float w = 1, m = 0, v = 0, most = 0, s = 0, c = 0, a = 0, g = 0.5f;
        const et_slice_update update = {
            .weight = &w, .gradient = &g, .gradient_scale = 1, .count = 1
        };
        const et_adam_moments moments = { &m, &v, 0.1f, 0.9f, 0.98f, 0 };
        k->amsgrad(&update, &moments, &most);
        g = 0;
        k->amsgrad(&update, &moments, &most);
        assert_true(fabsf(most - 0.005f) < 1e-8f && v < 0.00491f);
        assert_true(fabsf(w - (float)(1 - 0.1 * (0.05 + 0.045) / sqrt(0.005))) < 1e-6f);
        w = 1, g = 0.5f; /* s = 0.025, d = 0.025 - 0.05^2 */
        k->rmsprop(&update, &(et_mean_squares){ &s, &c, NULL, 0.1f, 0.9f, 0, 0.25f });
        assert_true(fabsf(w - (float)(1 - 0.05 / (sqrt(0.0225) + 0.25))) < 1e-6f);
        w = 1, s = 0;
        k->rmsprop(&update, &(et_mean_squares){ &s, NULL, &a, 0.1f, 0.9f, 0.5f, 0.25f });
        assert_true(fabsf(a - (float)(0.05 / sqrt(0.275))) < 1e-6f && fabsf(w - (1 - a)) < 1e-6f);
        w = 1, s = 0.75f;
        k->adagrad(&update, &(et_square_sums){ &s, 0.1f, 0.25f });
        assert_true(fabsf(w - (float)(1 - 0.05 / 1.25)) < 1e-6f);
        w = 1, m = 0, v = 0;
        k->adam_direction(
            &(et_adam_direction){ &g, &w, &m, &v, 1, 0.9f, 0.98f, 0.5f, 10, 50, 0.125f, 1 });
        assert_true(fabsf(g - (0.5f / 1.0f + 0.125f)) < 1e-6f && w == 1);
        w = FLT_MIN, a = 0;
        k->blend(&w, &a, 0.5f, 1, 1);
        assert_true(w == 0);
    }
}

/* One step of Adam by hand: m = 0.1, v = 0.02, so w = 1 - 0.1 * 0.1 / sqrt(0.02). Of SGD with
 * momentum 0.9: a = 0.9 - 0.1, and with Nesterov w += 0.9 a - 0.1. */
static void test_slice_update__known_steps(void **state)
{
    (void)state;
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *k =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        float w = 1, m = 0, v = 0, g = 1, a = 1, average = 2;
        et_bf16 shadow = 0;
        if (!k)
            continue;
        et_slice_update update = { &w, &g, &shadow, &average, 0, 1, 0.75f, 1 };
        k->adam(&update, &(et_adam_moments){ &m, &v, 0.1f, 0.9f, 0.98f, 0 });
        assert_true(fabsf(w - (float)(1 - 0.1 * 0.1 / sqrt(0.02))) < 1e-6f);
        assert_int_equal(shadow, et_bf16_from_float(w));
        assert_true(fabsf(average - (2 + 0.25f * (w - 2))) < 1e-6f);
        w = 1;
        update.shadow = NULL, update.average = NULL;
        k->sgd(&update, &(et_momentum){ &a, 0.1f, 0.9f, false });
        assert_true(fabsf(a - 0.8f) < 1e-6f && fabsf(w - 1.8f) < 1e-6f);
        w = 1, a = 1;
        k->sgd(&update, &(et_momentum){ &a, 0.1f, 0.9f, true });
        assert_true(fabsf(w - 1.62f) < 1e-6f);
    }
}

/* Gradients of 0 for long enough: m and a end at 0, not among the subnormal numbers, where v may
 * stay. A NaN is not taken for a small number. */
static void test_slice_update__moments_settle(void **state)
{
    (void)state;
    static const float small[] = { FLT_MIN, -FLT_MIN, 1e-40f, -1e-44f, 1.2e-38f };
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *k =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        enum { MANY = 37 };
        float w[MANY], m[MANY], v[MANY], a[MANY], g[MANY] = { 0 };
        if (!k)
            continue;
        for (int i = 0; i < MANY; i++)
            w[i] = 1, m[i] = a[i] = small[i % 5], v[i] = 1e-40f;
        m[MANY - 1] = a[MANY - 1] = NAN;
        m[0] = a[0] = 1e-37f;
        const et_slice_update update = {
            .weight = w, .gradient = g, .gradient_scale = 1, .count = MANY
        };
        k->adam(&update, &(et_adam_moments){ m, v, 0.1f, 0.9f, 0.999f, 1e-7f });
        k->sgd(&update, &(et_momentum){ a, 0.1f, 0.9f, false });
        assert_true(m[0] > 0.8e-37f && a[0] > 0.8e-37f);
        assert_true(isnan(m[MANY - 1]) && isnan(a[MANY - 1]) && v[1] > 0);
        for (int i = 1; i < MANY - 1; i++)
            assert_true(m[i] == 0 && a[i] == 0 && w[i] == 1);
    }
}

static void run_sums(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    float *x = make_floats((size_t)s->count, 1, 1), *y = make_floats((size_t)s->count, 1, 2);
    result[0] = (float)table->sum_of_squares(x, s->count);
    table->accumulate(y, x, s->count);
    memcpy(result + 1, y, (size_t)s->count * sizeof *y);
    free(x);
    free(y);
}

static void test_slice_update__sums(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(counts); i++) {
        setting s = { counts[i], 0 };
        check_tables("sums", run_sums, &s, (size_t)s.count + 1, 0, 2e-7);
    }
}

static void test_slice_update__sum_is_not_finite(void **state)
{
    (void)state;
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    float x[100] = { 0 };
    for (size_t t = 0; t < COUNT(table_names); t++)
        for (int i = 0; i < 100; i++) {
            const et_kernels *table = et_kernels_named(table_names[t]);
            if (!table)
                continue;
            x[i] = bad[i % 3];
            assert_false(isfinite(table->sum_of_squares(x, 100)));
            x[i] = 1e30f; /* its square is no float32, but a double */
            assert_true(isfinite(table->sum_of_squares(x, 100)));
            x[i] = 0;
        }
}

/* Every upper half with the lower halves where rounding turns. */
static void test_slice_update__bf16_conversion(void **state)
{
    (void)state;
    static const uint32_t low[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };
    enum { COUNT_ALL = 65536 * 6 };
    float *x = make(COUNT_ALL, sizeof *x), *back = make(65536, sizeof *back);
    et_bf16 *slow = make(COUNT_ALL, 2), *fast = make(COUNT_ALL, 2), *all = make(65536, 2);
    for (uint32_t i = 0; i < COUNT_ALL; i++) {
        uint32_t bits = (i / 6) << 16 | low[i % 6];
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (et_bf16)i;
    et_kernels_reference.to_bf16(slow, x, COUNT_ALL);
    for (size_t t = 0; t < COUNT(table_names); t++) {
        const et_kernels *table = et_kernels_named(table_names[t]);
        if (!table)
            continue;
        table->to_bf16(fast, x, COUNT_ALL);
        assert_memory_equal(fast, slow, COUNT_ALL * 2);
        table->from_bf16(back, all, 65535);
        for (uint32_t i = 0; i < 65535; i++) {
            uint32_t bits;
            memcpy(&bits, &back[i], sizeof bits);
            assert_int_equal(bits, i << 16);
        }
    }
    free(x), free(back), free(slow), free(fast), free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slice_update__adam),
        cmocka_unit_test(test_slice_update__sgd),
        cmocka_unit_test(test_slice_update__rules),
        cmocka_unit_test(test_slice_update__known_rules),
        cmocka_unit_test(test_slice_update__known_steps),
        cmocka_unit_test(test_slice_update__moments_settle),
        cmocka_unit_test(test_slice_update__sums),
        cmocka_unit_test(test_slice_update__sum_is_not_finite),
        cmocka_unit_test(test_slice_update__bf16_conversion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
