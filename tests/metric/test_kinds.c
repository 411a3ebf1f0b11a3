/* Kinds of metrics: values by hand, and that merging in any grouping changes no bit of them. */
#include "metric/metric.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/numbers/philox.h"
#include "base/values/json.h"
#include "formats/files.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const et_confusion two = ET_CONFUSION(2), three = ET_CONFUSION(3);

static void *new_state(const et_metric *metric)
{
    void *state = calloc(1, et_metric_size(metric));
    assert_non_null(state);
    return state;
}

static void test_kinds__values(void **state)
{
    (void)state;
    static const struct {
        const et_metric *metric;
        et_sample samples[5];
        double values[5];
    } cases[] = {
        { &et_metric_mean, { { 2, 0, 1 }, { 5, 0, 3 } }, { 4.25 } },
        { &et_metric_sum, { { 2, 0, 1 }, { 5, 0, 3 } }, { 7 } },
        { &et_metric_ratio, { { 2, 0, 1 }, { 5, 0, 3 } }, { 1.75 } },
        { &et_metric_accuracy, { { 2, 2, 1 }, { 1, 0, 3 }, { 0, 0, 4 } }, { 0.625 } },
        { &et_metric_regression, /* d: 1, -1, 0, 2; mean of targets 2.5, spread 5 */
          { { 2, 1, 1 }, { 1, 2, 1 }, { 3, 3, 1 }, { 6, 4, 1 } },
          { 1.5, 1.22474487139158905, 1, -0.2 } },
        { &two.metric, /* tp 2, fp 1, fn 1, tn 1 */
          { { 1, 1, 2 }, { 1, 0, 1 }, { 0, 1, 1 }, { 0, 0, 1 } },
          { 0.6, 2.0 / 3, 2.0 / 3, 2.0 / 3, (2.0 / 3 + 0.5) / 2 } },
        { &three.metric, /* class 0: 2 of 2, predicted three times; class 1: 1 of 2; class 2 never
                          * seen */
          { { 0, 0, 2 }, { 0, 1, 1 }, { 1, 1, 1 } },
          { 0.75, (2.0 / 3 + 1) / 2, 0.75, (0.8 + 2.0 / 3) / 2, 0.75 } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const *names;
        void *bytes = new_state(cases[i].metric);
        double values[ET_METRIC_VALUES_MAX];
        for (size_t k = 0; k < COUNT(cases[i].samples); k++)
            if (cases[i].samples[k].weight > 0)
                et_metric_add(cases[i].metric, bytes, &cases[i].samples[k]);
        if (cases[i].metric != &et_metric_sum && cases[i].metric != &et_metric_ratio)
            et_metric_add(cases[i].metric, bytes, &(et_sample){ NAN, NAN, 0 }); /* ignored */
        int count = et_metric_names(cases[i].metric, &names);
        assert_int_equal(et_metric_value(cases[i].metric, bytes, values), count);
        for (int k = 0; k < count; k++)
            if (!(fabs(values[k] - cases[i].values[k]) < 1e-15))
                fail_msg("%s, %s: %.17g is not %.17g", cases[i].metric->class->name, names[k],
                         values[k], cases[i].values[k]);
        memset(bytes, 0, et_metric_size(cases[i].metric));
        et_metric_value(cases[i].metric, bytes, values);
        assert_true(cases[i].metric == &et_metric_sum ? values[0] == 0 : isnan(values[0]));
        free(bytes);
    }
}

/* Targets far from 0 with a small spread: what plain sums of squares would lose. */
static void test_kinds__r2_far_from_zero(void **state)
{
    (void)state;
    void *bytes = new_state(&et_metric_regression);
    double values[ET_METRIC_VALUES_MAX];
    for (int i = 0; i < 1000; i++) {
        double target = 1e9 + i % 2, value = target + (i % 4 < 2 ? 0.1 : -0.1);
        et_metric_add(&et_metric_regression, bytes, &(et_sample){ value, target, 1 });
    }
    et_metric_value(&et_metric_regression, bytes, values);
    assert_true(fabs(values[3] - (1 - 0.01 / 0.25)) < 1e-6);
    free(bytes);
}

static et_sample sample(uint64_t i)
{
    et_random random = { 3, 0, 0 };
    return (et_sample){ floor(3 * et_random_uniform(random, 3 * i)),
                        floor(3 * et_random_uniform(random, 3 * i + 1)),
                        et_random_uniform(random, 3 * i + 2) };
}

/* Parts of `size` samples, merged from the last to the first. */
static void merge_parts(const et_metric *metric, uint64_t size, uint64_t count, double *values)
{
    void *whole = new_state(metric), *part = new_state(metric);
    for (uint64_t parts = (count + size - 1) / size; parts-- > 0;) {
        memset(part, 0, et_metric_size(metric));
        for (uint64_t i = parts * size; i < (parts + 1) * size && i < count; i++) {
            et_sample one = sample(i);
            et_metric_add(metric, part, &one);
        }
        et_metric_merge(metric, whole, part);
    }
    et_metric_value(metric, whole, values);
    free(whole), free(part);
}

static void test_kinds__any_grouping(void **state)
{
    (void)state;
    static const et_metric *const metrics[] = {
        &et_metric_mean,     &et_metric_sum,        &et_metric_ratio, &et_metric_perplexity,
        &et_metric_accuracy, &et_metric_regression, &three.metric,
    };
    enum { SAMPLES = 1000 };
    for (size_t m = 0; m < COUNT(metrics); m++) {
        double whole[ET_METRIC_VALUES_MAX], parts[ET_METRIC_VALUES_MAX];
        const char *const *names;
        size_t count = (size_t)et_metric_names(metrics[m], &names);
        merge_parts(metrics[m], SAMPLES, SAMPLES, whole);
        for (uint64_t size = 1; size < SAMPLES; size = 2 * size + 1) {
            merge_parts(metrics[m], size, SAMPLES, parts);
            assert_memory_equal(whole, parts, count * sizeof *whole);
        }
    }
}

/* Weight of samples of class target that were taken for class value. */
static double cell(const void *state, int target, int value)
{
    const int64_t *counts = state;
    return (double)counts[target * three.classes + value] / 0x1p24;
}

static void test_kinds__confusion_cells(void **state)
{
    (void)state;
    void *bytes = new_state(&three.metric);
    et_metric_add(&three.metric, bytes, &(et_sample){ .value = 2, .target = 1, .weight = 0.25 });
    et_metric_add(&three.metric, bytes, &(et_sample){ .value = 2, .target = 1, .weight = 1 });
    assert_true(cell(bytes, 1, 2) == 1.25);
    assert_true(cell(bytes, 2, 1) == 0);
    const double none[] = { -1, NAN, INFINITY, 0x1p39, 0 };
    for (size_t i = 0; i < COUNT(none); i++)
        et_metric_add(&three.metric, bytes,
                      &(et_sample){ .value = 2, .target = 1, .weight = none[i] });
    assert_true(cell(bytes, 1, 2) == 1.25);
    free(bytes);
}

/* Counts through JSON; of another size or kind they are refused. */
static void test_kinds__saved_counts(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *dict = et_value_dict(&arena), *parsed;
    void *from = new_state(&three.metric), *to = new_state(&three.metric);
    for (uint64_t i = 0; i < 50; i++) {
        et_sample one = sample(i);
        et_metric_add(&three.metric, from, &one);
    }
    et_metric_save(&three.metric, from, dict);
    et_json_print(&text, dict, 0);
    assert_ok(et_json_parse(&parsed, &arena, text.data, text.length, "t", error));
    assert_ok(et_metric_restore(&three.metric, to, parsed, error));
    assert_memory_equal(from, to, et_metric_size(&three.metric));
    assert_fails(et_metric_restore(&two.metric, to, parsed, error), ET_EFORMAT, "not a list of 4");
    assert_fails(et_metric_restore(&et_metric_regression, to, parsed, error), ET_EFORMAT,
                 "is a regression here and a confusion there");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    free(from), free(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds__values),       cmocka_unit_test(test_kinds__r2_far_from_zero),
        cmocka_unit_test(test_kinds__any_grouping), cmocka_unit_test(test_kinds__confusion_cells),
        cmocka_unit_test(test_kinds__saved_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
