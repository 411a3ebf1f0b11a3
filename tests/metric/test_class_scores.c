/* Scores of classes and of values: compared with scikit-learn's on the same predictions, to
 * rounding (tools/golden-scores); scores without a value; and refused inputs. */
#include <etude/class_scores.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "metric/class_scores.h"

#define GOLDEN    ET_TEST_SOURCE "/tests/metric/data/class_scores.txt"
#define ROWS      100
#define COLUMNS   5
#define TOLERANCE 1e-13

/* A case of the file. */
typedef struct golden {
    char kind[16], name[40];
    int rows, columns;
    int32_t class[ROWS];
    float target[ROWS * COLUMNS], given[ROWS * COLUMNS];
    double weight[ROWS];
} golden;

static double read_number(FILE *file)
{
    char text[64];
    assert_int_equal(fscanf(file, "%63s", text), 1);
    char *end;
    double number = strtod(text, &end);
    assert_true(*end == 0);
    return number;
}

static bool read_case(FILE *file, golden *g)
{
    if (fscanf(file, "%15s %39s %d %d", g->kind, g->name, &g->rows, &g->columns) != 4)
        return false;
    assert_true(g->rows <= ROWS && g->columns <= COLUMNS);
    bool classes = !strcmp(g->kind, "classes");
    for (int i = 0; i < g->rows; i++) {
        for (int k = 0; k < (classes ? 1 : g->columns); k++)
            g->target[i * (classes ? 1 : g->columns) + k] = (float)read_number(file);
        g->class[i] = classes ? (int32_t)g->target[i] : 0;
        g->weight[i] = read_number(file);
        for (int k = 0; k < g->columns; k++)
            g->given[i * g->columns + k] = (float)read_number(file);
    }
    return true;
}

/* Ours has the names and the order of the file. */
static int compare(FILE *file, const golden *g, const et_value *ours)
{
    int compared = 0;
    for (const et_value *one = ours->first; one; one = one->next, compared++) {
        char name[40];
        assert_int_equal(fscanf(file, " score %39s", name), 1);
        double theirs = read_number(file);
        assert_string_equal(one->key + strlen("validation_"), name);
        if (!(fabs(one->real - theirs) <= TOLERANCE * fmax(1, fabs(theirs))))
            fail_msg("%s, %s: %.17g is not %.17g", g->name, name, one->real, theirs);
    }
    return compared;
}

static void compare_classes(FILE *file, const golden *g, et_value *dict)
{
    et_class_predictions p = { .count = g->rows,
                               .classes = g->columns,
                               .probability = g->given,
                               .target = g->class,
                               .weight = g->weight };
    et_class_scores scores;
    double confusion[COLUMNS * COLUMNS];
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_class_scores_compute(&scores, confusion, &p, &error), ET_OK);
    assert_int_equal(et_class_scores_log(&scores, "validation_", dict, &error), ET_OK);
    assert_int_equal(compare(file, g, dict), 9);
    assert_int_equal(fscanf(file, " confusion%*[\n]"), 0);
    for (int i = 0; i < g->columns * g->columns; i++)
        assert_true(fabs(confusion[i] - read_number(file)) < TOLERANCE);
}

static void compare_values(FILE *file, const golden *g, et_value *dict)
{
    et_value_predictions p = { .count = g->rows,
                               .targets = g->columns,
                               .value = g->given,
                               .target = g->target,
                               .weight = g->weight };
    et_value_scores scores;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_value_scores_compute(&scores, &p, &error), ET_OK);
    assert_int_equal(et_value_scores_log(&scores, "validation_", dict, &error), ET_OK);
    assert_int_equal(compare(file, g, dict), 4);
}

static void test_class_scores__as_scikit_learn(void **state)
{
    (void)state;
    FILE *file = fopen(GOLDEN, "r");
    assert_non_null(file);
    static golden g;
    int classes = 0, values = 0;
    while (read_case(file, &g)) {
        et_arena *arena = et_arena_new();
        et_value *dict = et_value_dict(arena);
        if (!strcmp(g.kind, "classes") && ++classes)
            compare_classes(file, &g, dict);
        else if (!strcmp(g.kind, "values") && ++values)
            compare_values(file, &g, dict);
        else
            fail_msg("%s", g.kind);
        et_arena_free(arena);
    }
    assert_true(feof(file));
    fclose(file);
    assert_int_equal(classes, 7);
    assert_int_equal(values, 5);
}

/* By hand: three rows that count, of weight 1, 2 and 1. */
static void test_class_scores__by_hand(void **state)
{
    (void)state;
    static const float p[] = { 0.25F, 0.75F, 0.75F, 0.25F, 0.5F, 0.5F, NAN, NAN };
    static const int32_t t[] = { 1, 0, 1, -1 };
    static const double w[] = { 1, 2, 1, 9 };
    et_class_predictions given = {
        .count = 4, .classes = 2, .probability = p, .target = t, .weight = w, .bins = 1
    };
    et_class_scores s;
    double matrix[4];
    assert_int_equal(et_class_scores_compute(&s, matrix, &given, NULL), ET_OK);
    static const double expected[] = { 2, 0, 1, 1 };
    for (int i = 0; i < 4; i++)
        assert_true(matrix[i] == expected[i]);
    assert_true(s.accuracy == 0.75 && s.balanced_accuracy == 0.75);
    assert_true(s.precision == 1 && s.recall == 0.5 && s.auc == 1);
    assert_true(s.brier == (0.0625 + 2 * 0.0625 + 0.25) / 4);
    assert_true(fabs(s.calibration_error - (0.75 - 2.75 / 4)) < 1e-15);
    assert_true(fabs(s.log_loss - (3 * -log(0.75) - log(0.5)) / 4) < 1e-15);
    given.first = true;
    assert_int_equal(et_class_scores_compute(&s, NULL, &given, NULL), ET_OK);
    assert_true(s.precision == 2.0 / 3 && s.recall == 1 && s.f1 == 0.8 && s.auc == 1);
}

/* Of two classes the positive one: ten rows that say 0.75 for a class of one row, not how sure the
 * likelier class is. */
static void test_class_scores__calibration_of_two(void **state)
{
    (void)state;
    float p[20];
    int32_t t[10] = { 1 };
    for (int i = 0; i < 10; i++) {
        p[2 * i] = 0.25F;
        p[2 * i + 1] = 0.75F;
    }
    et_class_predictions given = { .count = 10, .classes = 2, .probability = p, .target = t };
    et_class_scores s;
    assert_int_equal(et_class_scores_compute(&s, NULL, &given, NULL), ET_OK);
    assert_true(fabs(s.calibration_error - 0.65) < 1e-15);
    /* Half of the rows surely of class 0, which they are not: the likelier class is right as often
     * as it says, class 1 is not as frequent as it says. */
    for (int i = 0; i < 10; i++) {
        p[2 * i] = i % 2 ? 0.75F : 0.25F;
        p[2 * i + 1] = 1 - p[2 * i];
        t[i] = i == 0 || i == 2 || (i % 2 && i < 5);
    }
    given.bins = 1;
    assert_int_equal(et_class_scores_compute(&s, NULL, &given, NULL), ET_OK);
    assert_true(fabs(s.calibration_error - 0.1) < 1e-15);
    given.first = true;
    assert_int_equal(et_class_scores_compute(&s, NULL, &given, NULL), ET_OK);
    assert_true(fabs(s.calibration_error - 0.1) < 1e-15);
}

static void test_class_scores__one_class_has_no_auc(void **state)
{
    (void)state;
    static const float p[] = { 0.25F, 0.75F, 0.75F, 0.25F };
    static const int32_t t[] = { 1, 1 };
    et_class_predictions given = { .count = 2, .classes = 2, .probability = p, .target = t };
    et_class_scores s;
    assert_int_equal(et_class_scores_compute(&s, NULL, &given, NULL), ET_OK);
    assert_true(isnan(s.auc));
    assert_true(s.accuracy == 0.5 && s.balanced_accuracy == 0.5 && s.recall == 0.5);
}

static void refuse_classes(const et_class_predictions *p, int status, const char *words)
{
    et_class_scores s;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_class_scores_compute(&s, NULL, p, &error), status);
    if (!strstr(error.text, words))
        fail_msg("\"%s\" does not say \"%s\"", error.text, words);
}

static void test_class_scores__refused(void **state)
{
    (void)state;
    static const float p[] = { 0.25F, 0.75F, 0.75F, NAN }, fine[] = { 0, 1, 1, 0 };
    static const int32_t t[] = { 1, 0 }, none[] = { -1, -1 }, large[] = { 0, 2 };
    static const double w[] = { 1, INFINITY }, zero[] = { 0, 0 };
    et_class_predictions g = { .count = 2, .classes = 2, .probability = p, .target = t };
    refuse_classes(&g, ET_EDATA, "row 2: the probability of class 1 is");
    g.probability = fine;
    g.weight = w;
    refuse_classes(&g, ET_EDATA, "row 2: the weight is inf");
    g.weight = zero;
    refuse_classes(&g, ET_EDATA, "2 rows: all weights are 0");
    g.weight = NULL;
    g.target = none;
    refuse_classes(&g, ET_EDATA, "2 rows: all weights are 0");
    g.target = large;
    refuse_classes(&g, ET_EDATA, "row 2: the target is class 2, but there are 2 classes");
    g.target = t;
    g.classes = 1;
    refuse_classes(&g, ET_ECONFIG, "1 classes: give at least 2");
    g.classes = 2;
    g.bins = -1;
    refuse_classes(&g, ET_ECONFIG, "-1 bins");
    g.bins = 0;
    g.count = 0;
    refuse_classes(&g, ET_EDATA, "there are no rows");
}

/* Off by 1, -1, 2 and not at all, around 1e12 and 1e15: a float32 has none of these. */
static void test_value_scores__doubles(void **state)
{
    (void)state;
    static const double offsets[] = { 1e12, -1e15, 0 };
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        const double o = offsets[i];
        const double v[] = { o - 2, o - 2, o + 3, o + 3, o },
                     t[] = { o - 3, o - 1, o + 1, o + 3, NAN };
        et_value_predictions p = { .count = 5, .wide_value = v, .wide_target = t };
        et_value_scores s;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_OK);
        assert_true(s.mse == 1.5 && s.mae == 1 && s.rmse == sqrt(1.5) && s.r2 == 1 - 6.0 / 20);
        static const float narrow[5];
        p.value = p.target = narrow;
        assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_ECONFIG);
        p.value = p.target = NULL;
        p.wide_target = NULL;
        assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_ECONFIG);
    }
}

static void test_value_scores__missing_and_refused(void **state)
{
    (void)state;
    static const float v[] = { 1, 2, 5 }, t[] = { 0, NAN, 2 }, wrong[] = { 1, NAN, 5 };
    et_value_predictions p = { .count = 3, .value = v, .target = t };
    et_value_scores s;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_value_scores_compute(&s, NULL, &error), ET_EUSAGE);
    assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_OK);
    assert_true(s.mse == 5 && s.mae == 2 && s.rmse == sqrt(5) && s.r2 == 1 - 10.0 / 2);
    p.value = wrong;
    assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "row 2: "));
    static const float gone[] = { NAN, NAN, NAN };
    p.value = v;
    p.target = gone;
    assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "rows: all weights are 0"));
    p.targets = -1;
    assert_int_equal(et_value_scores_compute(&s, &p, &error), ET_ECONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class_scores__as_scikit_learn),
        cmocka_unit_test(test_class_scores__by_hand),
        cmocka_unit_test(test_class_scores__calibration_of_two),
        cmocka_unit_test(test_class_scores__one_class_has_no_auc),
        cmocka_unit_test(test_class_scores__refused),
        cmocka_unit_test(test_value_scores__doubles),
        cmocka_unit_test(test_value_scores__missing_and_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
