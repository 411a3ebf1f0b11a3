/* Cross-entropy in parts: each kernel against its reference, and all of them against the whole
 * row's kernel. */
#include "kernel/softmax_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "kernel/harness.h"

typedef struct setting {
    int64_t rows, vocabulary, columns;
    et_dtype kept, gradient;
    float smoothing, spread;
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
    float *numbers = make((size_t)(s->rows * (3 * parts + 5)), sizeof(float));
    w.rows = (et_softmax_rows){ .rows = s->rows,
                                .vocabulary = s->vocabulary,
                                .columns = s->columns,
                                .parts = parts,
                                .labels = w.labels,
                                .smoothing = s->smoothing };
    w.rows.largest = next(&numbers, parts * s->rows);
    w.rows.sum = next(&numbers, parts * s->rows);
    w.rows.shifted = next(&numbers, parts * s->rows);
    w.rows.label_logit = next(&numbers, s->rows);
    w.rows.label_leads = next(&numbers, s->rows);
    w.rows.loss = next(&numbers, s->rows);
    w.rows.nll = next(&numbers, s->rows);
    w.rows.correct = next(&numbers, s->rows);
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

/* Loss, nll, correct; then the derivatives, where they stand in the whole row. */
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
    { 1, 1, 1, ET_F32, ET_F32, 0, 1 },          { 3, 7, 16, ET_F32, ET_F32, 0.1f, 3 },
    { 37, 129, 64, ET_F32, ET_F32, 0.1f, 3 },   { 37, 129, 64, ET_BF16, ET_F32, 0.1f, 3 },
    { 37, 129, 64, ET_BF16, ET_BF16, 0, 3 },    { 100, 1000, 256, ET_F32, ET_BF16, 0.1f, 3 },
    { 16, 515, 33, ET_F32, ET_F32, 0, 3 },      { 9, 10007, 256, ET_F32, ET_F32, 0.1f, 3 },
    { 9, 1000, 256, ET_F32, ET_F32, 0.1f, 30 }, { 5, 257, 256, ET_BF16, ET_BF16, 0.1f, 1 },
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
    const setting s = { 4, 100, 32, ET_F32, ET_F32, 0.1f, 3 };
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
        cmocka_unit_test(test_softmax_parts__equal_the_whole),
        cmocka_unit_test(test_softmax_parts__nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
