/* Cross-entropy in parts: each kernel is compared with its reference, and all together with the
 * kernel for whole rows. */
#include "engine/kernel/arguments.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "engine/kernel/harness.h"

typedef struct setting {
    int64_t rows, vocabulary, columns;
    et_dtype kept, gradient;
    float smoothing, spread;
    float agreement; /* of two draws; 0: rows are independent */
} setting;

/* Everything that the kernels read and write. */
typedef struct work {
    et_softmax_rows rows;
    float *logits; /* [rows, vocabulary] */
    float *part;   /* [rows, columns] */
    void **kept;   /* [parts] */
    int32_t *labels;
} work;

static float *next(float **at, int64_t count)
{
    float *begin = *at;
    *at += count;
    return begin;
}

/* Logits are rounded to quarters, so that a row's largest is often there twice. */
static work open_work(const setting *s)
{
    int64_t parts = (s->vocabulary + s->columns - 1) / s->columns, count = s->rows * s->vocabulary;
    work w = { .logits = make_floats((size_t)count, s->spread, 1),
               .part = make((size_t)(s->rows * s->columns), sizeof(float)),
               .kept = make((size_t)parts, sizeof(void *)),
               .labels = make((size_t)s->rows, sizeof(int32_t)) };
    const et_random random = { .seed = 4, .site = 2 };
    for (int64_t i = 0; i < count; i++)
        w.logits[i] = roundf(4 * w.logits[i]) / 4;
    for (int64_t t = 0; t < s->rows; t++) {
        uint64_t word = et_random_below(random, (uint64_t)t, (uint64_t)s->vocabulary);
        w.labels[t] = t % 7 == 5 ? -1 : (int32_t)word;
        if (t % 3 == 0) /* the first of the largest, or one of them */
            w.logits[t * s->vocabulary + (int64_t)word] = 2 * s->spread;
    }
    for (int64_t p = 0; p < parts; p++)
        w.kept[p] = make((size_t)(s->rows * s->columns), sizeof(float));
    for (int64_t t = 0; s->agreement > 0 && t < s->rows / 2; t++)
        w.labels[s->rows / 2 + t] = w.labels[t];
    float *numbers = make((size_t)(s->rows * (4 * parts + 6)), sizeof(float));
    w.rows = (et_softmax_rows){ .rows = s->rows,
                                .vocabulary = s->vocabulary,
                                .columns = s->columns,
                                .parts = parts,
                                .labels = w.labels,
                                .smoothing = s->smoothing,
                                .agreement = s->agreement };
    w.rows.largest = next(&numbers, parts * s->rows);
    w.rows.sum = next(&numbers, parts * s->rows);
    w.rows.shifted = next(&numbers, parts * s->rows);
    w.rows.label_logit = next(&numbers, s->rows);
    w.rows.label_leads = next(&numbers, s->rows);
    w.rows.loss = next(&numbers, s->rows);
    w.rows.nll = next(&numbers, s->rows);
    w.rows.correct = next(&numbers, s->rows);
    w.rows.apart = s->agreement > 0 ? next(&numbers, parts * s->rows) : NULL;
    w.rows.mean_apart = next(&numbers, s->rows);
    return w;
}

static void close_work(work *w)
{
    for (int64_t p = 0; p < w->rows.parts; p++)
        free(w->kept[p]);
    free(w->kept);
    free(w->rows.largest);
    free(w->logits);
    free(w->part);
    free(w->labels);
}

static void run_parts(const et_kernels *table, const setting *s, work *w)
{
    for (int64_t p = 0; p < w->rows.parts; p++) {
        int64_t columns = et_softmax_part_columns(&w->rows, p);
        for (int64_t t = 0; t < s->rows; t++)
            memcpy(w->part + t * columns, w->logits + t * s->vocabulary + p * s->columns,
                   (size_t)columns * sizeof(float));
        table->softmax_parts->part(&w->rows, p, w->kept[p], s->kept, w->part);
    }
}

/* Loss, nll, correct; then the derivatives, at their places in the whole row. */
static void run_all(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    work w = open_work(s);
    run_parts(table, s, &w);
    for (int64_t t = 0; t < s->rows; t += 5) /* not a vector's width */
        table->softmax_parts->join(&w.rows, t, t + 5 < s->rows ? t + 5 : s->rows);
    memcpy(result, w.rows.loss, (size_t)(3 * s->rows) * sizeof(float));
    for (int64_t p = 0; p < w.rows.parts; p++) {
        int64_t columns = et_softmax_part_columns(&w.rows, p);
        size_t count = (size_t)(s->rows * columns);
        float *wide = make(count, sizeof *wide);
        table->softmax_parts->grad(&w.rows, p, w.part, s->gradient, w.kept[p], s->kept);
        widen(wide, w.part, count, s->gradient);
        for (int64_t t = 0; t < s->rows; t++)
            memcpy(result + 3 * s->rows + t * s->vocabulary + p * s->columns, wide + t * columns,
                   (size_t)columns * sizeof(float));
        free(wide);
    }
    close_work(&w);
}

/* Largest, sum and shifted of each part. */
static void run_first(const et_kernels *table, const void *with, float *result)
{
    const setting *s = with;
    work w = open_work(s);
    run_parts(table, s, &w);
    memcpy(result, w.rows.largest, (size_t)(3 * w.rows.parts * s->rows) * sizeof(float));
    close_work(&w);
}

static const setting settings[] = {
    { 1, 1, 1, ET_F32, ET_F32, 0, 1, 0 },          { 3, 7, 16, ET_F32, ET_F32, 0.1f, 3, 0 },
    { 37, 129, 64, ET_F32, ET_F32, 0.1f, 3, 0 },   { 37, 129, 64, ET_BF16, ET_F32, 0.1f, 3, 0 },
    { 37, 129, 64, ET_BF16, ET_BF16, 0, 3, 0 },    { 100, 1000, 256, ET_F32, ET_BF16, 0.1f, 3, 0 },
    { 16, 515, 33, ET_F32, ET_F32, 0, 3, 0 },      { 9, 10007, 256, ET_F32, ET_F32, 0.1f, 3, 0 },
    { 9, 1000, 256, ET_F32, ET_F32, 0.1f, 30, 0 }, { 5, 257, 256, ET_BF16, ET_BF16, 0.1f, 1, 0 },
};

static const setting drawn_twice[] = {
    { 2, 1, 1, ET_F32, ET_F32, 0, 1, 5 },
    { 8, 7, 16, ET_F32, ET_F32, 0.1f, 3, 1 },
    { 38, 129, 64, ET_F32, ET_F32, 0.1f, 2, 5 },
    { 38, 129, 64, ET_BF16, ET_BF16, 0.1f, 1, 5 },
    { 64, 1000, 256, ET_F32, ET_BF16, 0, 2, 0.5f },
    { 10, 515, 33, ET_F32, ET_F32, 0.1f, 60, 5 }, /* some underflow */
};

static void test_softmax_parts__equal_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        const setting *s = &settings[i];
        char name[80];
        snprintf(name, sizeof name, "softmax parts, case %d", (int)i);
        bool half = s->kept == ET_BF16 || s->gradient == ET_BF16;
        int64_t parts = (s->vocabulary + s->columns - 1) / s->columns;
        check_tables(name, run_first, s, (size_t)(3 * parts * s->rows), 1e-5, 2e-6);
        check_tables(name, run_all, s, (size_t)(s->rows * (3 + s->vocabulary)), 2e-5,
                     half ? 1.0 / 64 : 4e-6);
    }
}

/* Derivatives are as large as what two draws differ by, so are their roundings. */
static void test_softmax_parts__draws_equal_the_reference(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(drawn_twice); i++) {
        const setting *s = &drawn_twice[i];
        char name[80];
        snprintf(name, sizeof name, "softmax parts of two draws, case %d", (int)i);
        const bool half = s->kept == ET_BF16 || s->gradient == ET_BF16;
        const double range = 1 + (double)(s->agreement * s->spread);
        check_tables(name, run_all, s, (size_t)(s->rows * (3 + s->vocabulary)), 2e-5,
                     range * (half ? 1.0 / 128 : 4e-6));
    }
}

/* Logits so far below 0 that e^-m is infinite, in parts that fill no vector. */
static void test_softmax_parts__draws_far_below_zero(void **state)
{
    (void)state;
    const setting s = { 4, 37, 9, ET_F32, ET_F32, 0.1f, 2, 5 };
    for (size_t i = 0; i < COUNT(table_names); i++) {
        const et_kernels *table = et_kernels_named(table_names[i]);
        if (!table)
            continue;
        work w = open_work(&s);
        for (int64_t k = 0; k < s.rows * s.vocabulary; k++)
            w.logits[k] -= 1000;
        run_parts(table, &s, &w);
        table->softmax_parts->join(&w.rows, 0, s.rows);
        for (int64_t t = 0; t < s.rows; t++)
            assert_true(isfinite(w.rows.loss[t]) && fabsf(w.rows.loss[t]) < 100);
        close_work(&w);
    }
}

/* log softmax of one row, in double. */
static void log_probabilities(double *of, const float *x, int64_t count)
{
    double largest = -INFINITY, sum = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, x[i]);
    for (int64_t i = 0; i < count; i++)
        sum += exp(x[i] - largest);
    for (int64_t i = 0; i < count; i++)
        of[i] = x[i] - largest - log(sum);
}

/* The loss as the paper has it, from whole rows: means of both draws' cross-entropies, and both
 * divergences. */
static void test_softmax_parts__draws_are_the_formula(void **state)
{
    (void)state;
    const setting s = { 12, 300, 64, ET_F32, ET_F32, 0.1f, 2, 5 };
    float *both = make((size_t)(s.rows * (3 + s.vocabulary)), sizeof *both);
    double *p = make((size_t)s.vocabulary, sizeof *p), *q = make((size_t)s.vocabulary, sizeof *q);
    run_all(et_kernels_best(), &s, both);
    work w = open_work(&s);
    for (int64_t t = 0; t < s.rows / 2; t++) {
        const int64_t u = t + s.rows / 2, label = w.labels[t];
        double divergence = 0, sum_p = 0, sum_q = 0;
        log_probabilities(p, w.logits + t * s.vocabulary, s.vocabulary);
        log_probabilities(q, w.logits + u * s.vocabulary, s.vocabulary);
        for (int64_t i = 0; i < s.vocabulary; i++) {
            divergence += (exp(p[i]) - exp(q[i])) * (p[i] - q[i]);
            sum_p += p[i];
            sum_q += q[i];
        }
        const double on = 0.9, off = 0.1 / (double)(s.vocabulary - 1);
        const double entropy = -on * log(on) - (double)(s.vocabulary - 1) * off * log(off);
        double expected = 0;
        if (label >= 0) {
            const double of_p = -on * p[label] - off * (sum_p - p[label]) - entropy;
            const double of_q = -on * q[label] - off * (sum_q - q[label]) - entropy;
            expected = (of_p + of_q) / 2 + 5.0 / 4 * divergence;
        }
        assert_float_equal((double)both[t] + (double)both[u], expected, 1e-4 * (1 + expected));
    }
    close_work(&w);
    free(both);
    free(p);
    free(q);
}

/* The same numbers as from whole rows of float32. */
static void test_softmax_parts__equal_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(settings); i++) {
        setting s = settings[i];
        s.kept = s.gradient = ET_F32;
        size_t rows = (size_t)s.rows, count = rows * (size_t)s.vocabulary;
        float *parts = make(3 * rows + count, sizeof *parts),
              *whole = make(3 * rows, sizeof *whole);
        run_all(et_kernels_best(), &s, parts);
        work w = open_work(&s);
        et_kernels_best()->softmax_cross_entropy(w.logits, whole, whole + rows, whole + 2 * rows,
                                                 w.labels, s.smoothing, true, s.rows, s.vocabulary,
                                                 ET_F32);
        for (size_t k = 0; k < 3 * rows; k++)
            assert_float_equal(parts[k], whole[k], 2e-5 * (1 + fabs(whole[k])));
        for (size_t k = 0; k < count; k++)
            assert_float_equal(parts[3 * rows + k], w.logits[k], 2e-6);
        close_work(&w);
        free(parts);
        free(whole);
    }
}

/* A NaN anywhere reaches the loss of its row and no other. */
static void test_softmax_parts__nan(void **state)
{
    (void)state;
    const setting s = { 4, 100, 32, ET_F32, ET_F32, 0.1f, 3, 0 };
    for (size_t i = 0; i < COUNT(table_names); i++) {
        const et_kernels *table = et_kernels_named(table_names[i]);
        if (!table)
            continue;
        work w = open_work(&s);
        w.logits[2 * s.vocabulary + 77] = NAN;
        run_parts(table, &s, &w);
        table->softmax_parts->join(&w.rows, 0, s.rows);
        for (int64_t t = 0; t < s.rows; t++)
            assert_int_equal(isnan(w.rows.loss[t]) != 0, t == 2);
        close_work(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_softmax_parts__equal_the_reference),
        cmocka_unit_test(test_softmax_parts__draws_equal_the_reference),
        cmocka_unit_test(test_softmax_parts__draws_far_below_zero),
        cmocka_unit_test(test_softmax_parts__draws_are_the_formula),
        cmocka_unit_test(test_softmax_parts__equal_the_whole),
        cmocka_unit_test(test_softmax_parts__nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
