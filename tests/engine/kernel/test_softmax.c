#include "engine/kernel/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"

typedef struct setting {
    int64_t rows, width;
    et_dtype dtype;
    float smoothing;
    bool gradient;
    float spread, shift; /* logits: normal * spread + shift */
    int k;
} setting;

static int32_t *make_labels(int64_t rows, int64_t vocabulary)
{
    int32_t *labels = make((size_t)rows, sizeof *labels);
    const et_random random = { .seed = 4, .site = 2 };
    for (int64_t t = 0; t < rows; t++)
        labels[t] =
            t % 7 == 5 ? -1 : (int32_t)et_random_below(random, (uint64_t)t, (uint64_t)vocabulary);
    return labels;
}

/* Logits (the gradient where asked), loss, nll, correct. */
static void run_entropy(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    int32_t *labels = make_labels(s->rows, s->width);
    void *logits = make_act(count, s->spread, 1, s->dtype);
    float *loss = result + count, *nll = loss + s->rows, *correct = nll + s->rows;
    for (size_t i = 0; i < count && s->shift != 0; i++)
        ((float *)logits)[i] += s->shift;
    table->softmax_cross_entropy(logits, loss, nll, correct, labels, s->smoothing, s->gradient,
                                 s->rows, s->width, s->dtype);
    widen(result, logits, count, s->dtype);
    free(labels);
    free(logits);
}

static void check_entropy(setting s, double absolute)
{
    char name[96];
    snprintf(name, sizeof name, "cross entropy %s %d x %d, smoothing %g, gradient %d",
             et_dtype_name(s.dtype), (int)s.rows, (int)s.width, s.smoothing, s.gradient);
    check_tables(name, run_entropy, &s, (size_t)(s.rows * s.width + 3 * s.rows), absolute,
                 unit_of(s.dtype));
}

static void test_softmax__cross_entropy(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        for (size_t r = 0; r < COUNT(some_rows); r++)
            for (size_t w = 0; w < COUNT(some_widths); w++)
                for (int way = 0; way < 4; way++)
                    check_entropy((setting){ .rows = some_rows[r],
                                             .width = some_widths[w],
                                             .dtype = (et_dtype)dtype,
                                             .smoothing = way & 1 ? 0.1f : 0.0f,
                                             .gradient = way & 2,
                                             .spread = 3 },
                                  dtype == ET_BF16 ? 1e-5 : 4e-6);
}

static void test_softmax__large_vocabulary(void **state)
{
    (void)state;
    for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
        check_entropy((setting){ .rows = 5,
                                 .width = 10007,
                                 .dtype = (et_dtype)dtype,
                                 .smoothing = 0.1f,
                                 .gradient = true,
                                 .spread = 3 },
                      2e-5);
}

/* Far from 0, nothing overflows. The logits' own rounding there is 3e-5. */
static void test_softmax__far_logits(void **state)
{
    (void)state;
    check_entropy((setting){ .rows = 9,
                             .width = 333,
                             .smoothing = 0.1f,
                             .gradient = true,
                             .spread = 40,
                             .shift = 500 },
                  2e-4);
}

static void run_log_softmax(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    void *x = make_act(count, 5, 1, s->dtype);
    table->log_softmax(x, x, s->rows, s->width, s->dtype);
    widen(result, x, count, s->dtype);
    free(x);
}

static void run_softmax(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width);
    void *x = make_act(count, 5, 1, s->dtype), *y = make(count, et_dtype_size(s->dtype));
    table->softmax(y, x, s->rows, s->width, s->dtype);
    widen(result, y, count, s->dtype);
    table->softmax(x, x, s->rows, s->width, s->dtype);
    if (memcmp(x, y, count * et_dtype_size(s->dtype)))
        fail_msg("%s: other bits in place", table->name);
    free(x);
    free(y);
}

static void run_labelled(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    int32_t labels[1024];
    assert_true(s->rows <= (int64_t)COUNT(labels));
    for (int64_t t = 0; t < s->rows; t++)
        labels[t] = (int32_t)(t * 7 % 5) - 2;
    table->labelled(result, labels, s->rows);
}

/* value, then index as float; ties and NaNs are frequent. */
static void run_top_k(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    const size_t count = (size_t)(s->rows * s->width), found = (size_t)(s->rows * s->k);
    float *x = make_floats(count, 4, 1);
    int32_t *index = make(found, sizeof *index);
    for (size_t i = 0; i < count; i++)
        x[i] = i % 23 == 3 ? NAN : roundf(x[i]);
    table->top_k(result, index, x, s->k, s->rows, s->width);
    for (size_t i = 0; i < found; i++)
        result[found + i] = (float)index[i];
    free(x);
    free(index);
}

static void test_softmax__log_softmax(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(some_rows); r++)
        for (size_t w = 0; w < COUNT(some_widths); w++) {
            const size_t count = (size_t)(some_rows[r] * some_widths[w]);
            for (int dtype = ET_F32; dtype <= ET_BF16; dtype++) {
                setting s = { .rows = some_rows[r],
                              .width = some_widths[w],
                              .dtype = (et_dtype)dtype };
                double unit = dtype == ET_BF16 ? unit_of(ET_BF16) : 0;
                check_tables("log_softmax", run_log_softmax, &s, count, 5e-6, 1e-6 + unit);
                check_tables("softmax", run_softmax, &s, count, 1e-7, 5e-6 + unit);
            }
        }
}

enum { FEW = 20, CLASSES_MAX = 17 };

typedef struct entropy {
    float logits[FEW * CLASSES_MAX], loss[FEW], nll[FEW], correct[FEW];
} entropy;

/* Whole numbers, so that several classes are often the largest; one row has a NaN. */
static void run_few(const et_kernels *table, entropy *e, int64_t first, int64_t rows,
                    int64_t classes, et_dtype dtype)
{
    const size_t count = (size_t)(rows * classes), at = (size_t)(first * classes);
    float *all = make_floats((size_t)(FEW * classes), 3, 1);
    int32_t *labels = make_labels(FEW, classes);
    void *logits = make(count, et_dtype_size(dtype));
    all[3 * classes] = NAN;
    for (size_t i = 0; i < count; i++) {
        const float x = roundf(all[at + i]);
        if (dtype == ET_BF16)
            ((et_bf16 *)logits)[i] = et_bf16_from_float(x);
        else
            ((float *)logits)[i] = x;
    }
    table->softmax_cross_entropy(logits, e->loss + first, e->nll + first, e->correct + first,
                                 labels + first, 0.1f, true, rows, classes, dtype);
    widen(e->logits + at, logits, count, dtype);
    free(all);
    free(labels);
    free(logits);
}

/* A row alone, or among a few, has the bits that it has among many. */
static void check_few(const et_kernels *table, int64_t classes, et_dtype dtype)
{
    entropy whole = { 0 }, expected = { 0 };
    run_few(table, &whole, 0, FEW, classes, dtype);
    run_few(&et_kernels_reference, &expected, 0, FEW, classes, dtype);
    assert_memory_equal(whole.correct, expected.correct, sizeof whole.correct);
    for (int64_t rows = 1; rows < FEW; rows++)
        for (int64_t first = 0; first + rows <= FEW; first += rows) {
            entropy part = whole;
            memset(part.logits + first * classes, 0, (size_t)(rows * classes) * sizeof(float));
            for (int64_t t = first; t < first + rows; t++)
                part.loss[t] = part.nll[t] = part.correct[t] = -1;
            run_few(table, &part, first, rows, classes, dtype);
            assert_memory_equal(&part, &whole, sizeof part);
        }
}

static void test_softmax__few_rows(void **state)
{
    (void)state;
    for (size_t t = 0; t < COUNT(table_names); t++)
        for (int64_t classes = 1; classes <= CLASSES_MAX; classes++)
            for (int dtype = ET_F32; dtype <= ET_BF16; dtype++)
                if (et_kernels_named(table_names[t]))
                    check_few(et_kernels_named(table_names[t]), classes, (et_dtype)dtype);
}

/* By hand: e^0 : e^log 3 is 1 : 3, however large the common offset. */
static void test_softmax__known_rows(void **state)
{
    (void)state;
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *k =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        float x[4] = { 0, 1.0986123f, 80, 81.0986123f }, y[4];
        if (!k)
            continue;
        k->softmax(y, x, 2, 2, ET_F32);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(y[i] - (i % 2 ? 0.75f : 0.25f)) < 2e-6f);
        k->log_softmax(y, x, 2, 2, ET_F32);
        for (int i = 0; i < 4; i++)
            assert_true(fabsf(y[i] - (i % 2 ? -0.2876821f : -1.3862944f)) < 2e-6f);
    }
}

static void test_softmax__labelled(void **state)
{
    (void)state;
    for (size_t r = 0; r < COUNT(some_rows); r++) {
        setting s = { .rows = some_rows[r] };
        check_tables("labelled", run_labelled, &s, (size_t)s.rows, 0, 0);
    }
    float y[3];
    et_kernels_reference.labelled(y, (int32_t[]){ -1, 0, 7 }, 3);
    assert_true(y[0] == 0 && y[1] == 1 && y[2] == 1);
}

static void test_softmax__top_k(void **state)
{
    (void)state;
    static const int ks[] = { 1, 5, 10, 33 };
    for (size_t r = 0; r < COUNT(some_rows); r++)
        for (size_t w = 0; w < COUNT(some_widths); w++)
            for (size_t k = 0; k < COUNT(ks); k++) {
                setting s = { .rows = some_rows[r], .width = some_widths[w], .k = ks[k] };
                if (s.k <= s.width)
                    check_tables("top_k", run_top_k, &s, (size_t)(2 * s.rows * s.k), 0, 0);
            }
}

static void test_softmax__top_k_order(void **state)
{
    (void)state;
    static const float x[] = { NAN, 2, -INFINITY, 7, 2, 7, NAN, 1 };
    static const int32_t expected[] = { 3, 5, 1, 4, 7, 2, 0, 6 };
    for (size_t t = 0; t <= COUNT(table_names); t++) {
        const et_kernels *table =
            t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
        float value[8];
        int32_t index[8];
        if (!table)
            continue;
        table->top_k(value, index, x, 8, 1, 8);
        assert_memory_equal(index, expected, sizeof expected);
        assert_true(value[0] == 7 && value[5] == -INFINITY && isnan(value[6]));
    }
}

/* A NaN or an infinite logit makes the loss a NaN: training has to notice. */
static void test_softmax__nan_is_seen(void **state)
{
    (void)state;
    const int32_t label = 1;
    for (size_t t = 0; t <= COUNT(table_names); t++)
        for (int i = 0; i < 45; i++) /* 40 classes, then 5 */
            for (int inf = 0; inf < 2; inf++) {
                const et_kernels *table = t < COUNT(table_names) ? et_kernels_named(table_names[t])
                                                                 : &et_kernels_reference;
                float x[40] = { 0 }, loss = 0, nll = 0, correct = 0;
                if (!table)
                    continue;
                x[i % 40] = inf ? INFINITY : NAN;
                table->softmax_cross_entropy(x, &loss, &nll, &correct, &label, 0.1f, true, 1,
                                             i < 40 ? 40 : 5, ET_F32);
                assert_true(isnan(loss));
            }
}

/* A perfect prediction scores 0, whatever the smoothing. */
static void test_softmax__perfect_prediction(void **state)
{
    (void)state;
    static const float smoothings[] = { 0.0f, 0.1f, 0.5f };
    const int32_t label = 2;
    for (size_t i = 0; i < COUNT(smoothings); i++)
        for (size_t t = 0; t <= COUNT(table_names); t++) {
            const et_kernels *table =
                t < COUNT(table_names) ? et_kernels_named(table_names[t]) : &et_kernels_reference;
            float x[20], loss, nll, correct;
            for (int j = 0; j < 20; j++)
                x[j] = logf(j == 2 ? 1 - smoothings[i] : fmaxf(smoothings[i] / 19, 1e-30f));
            if (!table)
                continue;
            table->softmax_cross_entropy(x, &loss, &nll, &correct, &label, smoothings[i], false, 1,
                                         20, ET_F32);
            assert_true(fabsf(loss) < 1e-6f && correct == 1.0f);
            assert_true(fabsf(nll + logf(1 - smoothings[i])) < 1e-6f);
        }
}

static double loss_of(const float *logits, const int32_t *labels)
{
    float x[3 * 6], loss[3], nll[3], correct[3];
    memcpy(x, logits, sizeof x);
    et_kernels_reference.softmax_cross_entropy(x, loss, nll, correct, labels, 0.1f, false, 3, 6,
                                               ET_F32);
    return (double)loss[0] + loss[1] + loss[2];
}

static void test_softmax__finite_difference(void **state)
{
    (void)state;
    const int32_t labels[3] = { 4, -1, 0 };
    const float h = 1.0f / 64;
    float *x = make_floats(18, 1, 9), grad[18], loss[3], nll[3], correct[3];
    memcpy(grad, x, sizeof grad);
    et_kernels_reference.softmax_cross_entropy(grad, loss, nll, correct, labels, 0.1f, true, 3, 6,
                                               ET_F32);
    for (int i = 0; i < 18; i++) {
        const float saved = x[i];
        x[i] = saved + h;
        double above = loss_of(x, labels);
        x[i] = saved - h;
        double below = loss_of(x, labels);
        x[i] = saved;
        assert_true(fabs((above - below) / (2 * h) - grad[i]) < 1e-4);
    }
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax__cross_entropy),
        cmocka_unit_test(test_softmax__large_vocabulary),
        cmocka_unit_test(test_softmax__far_logits),
        cmocka_unit_test(test_softmax__few_rows),
        cmocka_unit_test(test_softmax__log_softmax),
        cmocka_unit_test(test_softmax__known_rows),
        cmocka_unit_test(test_softmax__labelled),
        cmocka_unit_test(test_softmax__top_k),
        cmocka_unit_test(test_softmax__top_k_order),
        cmocka_unit_test(test_softmax__nan_is_seen),
        cmocka_unit_test(test_softmax__perfect_prediction),
        cmocka_unit_test(test_softmax__finite_difference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
