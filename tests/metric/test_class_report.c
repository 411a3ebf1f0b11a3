/* Lines and curves of classes: compared with scikit-learn's on the same predictions, to rounding
 * (tools/golden-class-report); rows of one class; refused thresholds and costs. */
#include "metric/class_scores.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define GOLDEN    ET_TEST_SOURCE "/tests/metric/data/class_report.txt"
#define ROWS      100
#define CLASSES   4
#define TOLERANCE 1e-12

typedef struct golden {
    char name[40];
    int rows, classes, has_costs;
    double threshold;
    double costs[CLASSES * CLASSES], weight[ROWS];
    int32_t target[ROWS];
    float probability[ROWS * CLASSES];
    et_class_predictions predictions;
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

static void read_case(FILE *file, golden *g)
{
    assert_int_equal(fscanf(file, "%39s %d %d", g->name, &g->rows, &g->classes), 3);
    assert_true(g->rows <= ROWS && g->classes <= CLASSES);
    g->threshold = read_number(file);
    assert_int_equal(fscanf(file, "%d", &g->has_costs), 1);
    for (int i = 0; g->has_costs && i < g->classes * g->classes; i++)
        g->costs[i] = read_number(file);
    for (int row = 0; row < g->rows; row++) {
        assert_int_equal(fscanf(file, "%d", &g->target[row]), 1);
        g->weight[row] = read_number(file);
        for (int c = 0; c < g->classes; c++)
            g->probability[row * g->classes + c] = (float)read_number(file);
    }
    g->predictions = (et_class_predictions){ .count = g->rows,
                                             .classes = g->classes,
                                             .probability = g->probability,
                                             .target = g->target,
                                             .weight = g->weight,
                                             .threshold = g->threshold,
                                             .costs = g->has_costs ? g->costs : NULL };
}

static void compare_lines(FILE *file, const golden *g)
{
    et_class_scores scores;
    et_class_line lines[CLASSES];
    double confusion[CLASSES * CLASSES];
    assert_int_equal(et_class_scores_compute(&scores, confusion, &g->predictions, NULL), 0);
    et_class_lines(lines, confusion, g->classes);
    for (int c = 0; c < g->classes; c++) {
        assert_float_equal(lines[c].precision, read_number(file), TOLERANCE);
        assert_float_equal(lines[c].recall, read_number(file), TOLERANCE);
        assert_float_equal(lines[c].f1, read_number(file), TOLERANCE);
        assert_float_equal(lines[c].support, read_number(file), TOLERANCE);
    }
}

static void compare_curve(FILE *file, const et_class_curve *curve, int points)
{
    assert_int_equal(curve->count, points);
    for (int i = 0; i < points; i++) {
        assert_float_equal(curve->x[i], read_number(file), TOLERANCE);
        assert_float_equal(curve->y[i], read_number(file), TOLERANCE);
    }
}

static void test_class_report__as_scikit_learn(void **state)
{
    (void)state;
    FILE *file = fopen(GOLDEN, "r");
    char word[40];
    int cases = 0, curves = 0;
    static golden g;
    assert_non_null(file);
    while (fscanf(file, "%39s", word) == 1 && strcmp(word, "end") != 0) {
        int class, points;
        et_class_curve curve;
        if (!strcmp(word, "case")) {
            read_case(file, &g);
            cases++;
        } else if (!strcmp(word, "lines")) {
            compare_lines(file, &g);
        } else {
            assert_int_equal(fscanf(file, "%d %d", &class, &points), 2);
            int status = !strcmp(word, "roc")
                             ? et_roc_curve(&curve, &g.predictions, class, NULL)
                             : et_calibration_curve(&curve, &g.predictions, class, NULL);
            assert_int_equal(status, 0);
            compare_curve(file, &curve, points);
            et_class_curve_release(&curve);
            curves++;
        }
    }
    fclose(file);
    assert_int_equal(cases, 6);
    assert_int_equal(curves, 4 * 2 + 2 * 4 + 3 * 2 + 4);
}

/* The class with the largest probability, whichever it is. */
static void test_class_report__largest(void **state)
{
    (void)state;
    const float p[] = { 0.5F, 0.25F, 0.25F, 0.125F, 0.125F, 0.75F, 0.25F, 0.5F, 0.25F };
    const int32_t target[] = { 0, 2, 2 };
    et_class_curve curve;
    const et_class_predictions given = {
        .count = 3, .classes = 3, .probability = p, .target = target, .bins = 2
    };
    assert_int_equal(et_calibration_curve(&curve, &given, -1, NULL), 0);
    assert_int_equal(curve.count, 2);
    assert_float_equal(curve.x[0], 0.5, 0);
    assert_float_equal(curve.y[0], 0.5, 0);
    assert_float_equal(curve.weight[0], 2, 0);
    assert_float_equal(curve.x[1], 0.75, 0);
    assert_float_equal(curve.y[1], 1, 0);
    et_class_curve_release(&curve);
}

static void test_class_report__one_class(void **state)
{
    (void)state;
    const float p[] = { 0.5F, 0.5F, 0.25F, 0.75F };
    const int32_t target[] = { 1, 1 };
    et_class_curve curve;
    const et_class_predictions given = {
        .count = 2, .classes = 2, .probability = p, .target = target
    };
    assert_int_equal(et_roc_curve(&curve, &given, 1, NULL), 0);
    assert_int_equal(curve.count, 0);
    et_class_curve_release(&curve);
}

static void refuses(const et_class_predictions *given, const char *words)
{
    et_class_scores scores;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_class_scores_compute(&scores, NULL, given, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, words));
}

static void test_class_report__refused_choices(void **state)
{
    (void)state;
    const float p[] = { 0.5F, 0.5F, 0 }, three[] = { 0.5F, 0.25F, 0.25F };
    const int32_t target[] = { 1 };
    const double costs[] = { 0, 1, -1, 0 };
    et_class_predictions given = { .count = 1, .classes = 2, .probability = p, .target = target };
    given.threshold = 1.5;
    refuses(&given, "threshold 1.5");
    given.threshold = 0.5;
    given.costs = costs;
    refuses(&given, "not both");
    given.threshold = 0;
    refuses(&given, "prediction 0 for class 1 is -1");
    given = (et_class_predictions){
        .count = 1, .classes = 3, .probability = three, .target = target, .threshold = 0.5
    };
    refuses(&given, "two classes");
}

/* The positive class may be the first one. A probability that equals the threshold is enough. */
static void test_class_report__threshold_of_the_first(void **state)
{
    (void)state;
    const float p[] = { 0.25F, 0.75F, 0.125F, 0.875F };
    const int32_t target[] = { 0, 1 };
    double confusion[4];
    et_class_scores scores;
    const et_class_predictions given = { .count = 2,
                                         .classes = 2,
                                         .probability = p,
                                         .target = target,
                                         .first = true,
                                         .threshold = 0.25 };
    assert_int_equal(et_class_scores_compute(&scores, confusion, &given, NULL), 0);
    assert_float_equal(confusion[0], 1, 0);
    assert_float_equal(confusion[3], 1, 0);
    assert_float_equal(scores.recall, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_class_report__as_scikit_learn),
        cmocka_unit_test(test_class_report__largest),
        cmocka_unit_test(test_class_report__one_class),
        cmocka_unit_test(test_class_report__refused_choices),
        cmocka_unit_test(test_class_report__threshold_of_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
