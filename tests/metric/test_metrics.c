#include <etude/metrics.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "formats/files.h"
#include "metric/metric.h"

static et_metrics *make_metrics(void)
{
    et_metrics *metrics;
    assert_ok(et_metrics_new(&metrics, error));
    assert_ok(et_metrics_define(metrics, "loss", &et_metric_mean, error));
    assert_ok(et_metrics_define(metrics, "tokens", &et_metric_sum, error));
    assert_ok(et_metrics_define(metrics, "accuracy", &et_metric_ratio, error));
    assert_ok(et_metrics_define(metrics, "perplexity", &et_metric_perplexity, error));
    assert_ok(et_metrics_define(metrics, "loss", &et_metric_mean, error));
    return metrics;
}

static void test_metrics__values(void **state)
{
    (void)state;
    et_metrics *metrics = make_metrics();
    assert_true(isnan(et_metrics_value(metrics, "loss")));
    assert_true(et_metrics_value(metrics, "tokens") == 0);
    et_metrics_add(metrics, "loss", 2, 1);
    et_metrics_add(metrics, "loss", 5, 3);
    et_metrics_add(metrics, "tokens", 100, 1);
    et_metrics_add(metrics, "tokens", 50, 1);
    et_metrics_add(metrics, "accuracy", 30, 100);
    et_metrics_add(metrics, "accuracy", 10, 60);
    et_metrics_add(metrics, "perplexity", 4, 2);
    assert_true(et_metrics_value(metrics, "loss") == 4.25);
    assert_true(et_metrics_value(metrics, "tokens") == 150);
    assert_true(et_metrics_value(metrics, "accuracy") == 0.25);
    assert_true(fabs(et_metrics_value(metrics, "perplexity") - 7.38905609893065) < 1e-13);
    et_metrics_reset(metrics);
    assert_true(isnan(et_metrics_value(metrics, "loss")));
    et_metrics_free(metrics);
}

static void test_metrics__merge(void **state)
{
    (void)state;
    et_metrics *left = make_metrics(), *right = make_metrics();
    et_metrics_add(left, "loss", 1, 2);
    et_metrics_add(right, "loss", 4, 4);
    et_metrics_add(right, "tokens", 7, 1);
    et_metrics_merge(left, right);
    assert_true(et_metrics_value(left, "loss") == 3);
    assert_true(et_metrics_value(left, "tokens") == 7);
    assert_true(et_metrics_value(right, "loss") == 4);
    et_metrics_free(left);
    et_metrics_free(right);
}

/* Ranks send bytes; values of one metric are logged under its name. */
static void test_metrics__bytes_and_several_values(void **state)
{
    (void)state;
    static const et_confusion two = ET_CONFUSION(2);
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_metrics *sets[2];
    void *bytes, *others;
    for (int i = 0; i < 2; i++) {
        assert_ok(et_metrics_new(&sets[i], error));
        assert_ok(et_metrics_define(sets[i], "loss", &et_metric_mean, error));
        assert_ok(et_metrics_define(sets[i], "spam", &two.metric, error));
        et_metrics_add(sets[i], "loss", i, 1);
        et_metrics_add_sample_at(sets[i], et_metrics_index(sets[i], "spam"),
                                 &(et_sample){ .value = i, .target = 1, .weight = 1 });
    }
    assert_int_equal(et_metrics_bytes(sets[0], &bytes), et_metrics_bytes(sets[1], &others));
    et_metrics_merge_bytes(sets[0], others);
    et_value *dict = et_value_dict(&arena);
    assert_ok(et_metrics_results(sets[0], dict, error));
    et_json_print(&text, dict, 0);
    assert_string_equal(text.data, "{\"loss\":0.5,\"spam/accuracy\":0.5,\"spam/precision\":1.0,"
                                   "\"spam/recall\":0.5,\"spam/f1\":0.6666666666666666,"
                                   "\"spam/balanced_accuracy\":0.5}");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    et_metrics_free(sets[0]);
    et_metrics_free(sets[1]);
}

static void test_metrics__results_in_order(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_metrics *metrics = make_metrics();
    et_metrics_add(metrics, "loss", 0.5, 1);
    et_metrics_add(metrics, "accuracy", 1, 4);
    et_value *dict = et_value_dict(&arena);
    assert_ok(et_metrics_results(metrics, dict, error));
    et_json_print(&text, dict, 0);
    assert_string_equal(text.data,
                        "{\"loss\":0.5,\"tokens\":0.0,\"accuracy\":0.25,\"perplexity\":null}");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    et_metrics_free(metrics);
}

/* Through JSON text and back, with every bit, also of values that JSON cannot write. */
static void test_metrics__state_bit_for_bit(void **state)
{
    (void)state;
    static const double values[] = {
        0.1, 1.0 / 3, -0.0, 1e308, 5e-324, INFINITY, -INFINITY, NAN, 12345678901234567.0, 2.5
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_strbuf text = ET_STRBUF_INIT;
        et_metrics *from = make_metrics(), *to = make_metrics();
        et_metrics_add(from, "accuracy", values[i], values[i]);
        et_metrics_add(from, "loss", values[i], 1);
        et_value *dict = et_value_dict(&arena), *read;
        assert_ok(et_metrics_state.save(from, dict, error));
        et_json_print(&text, dict, 0);
        assert_ok(et_json_parse(&read, &arena, text.data, text.length, "test", error));
        et_metrics_add(to, "loss", 99, 1);
        assert_ok(et_metrics_state.restore(to, read, error));
        double a = et_metrics_value(from, "loss"), b = et_metrics_value(to, "loss");
        assert_memory_equal(&a, &b, sizeof a);
        et_strbuf again = ET_STRBUF_INIT;
        dict = et_value_dict(&arena);
        assert_ok(et_metrics_state.save(to, dict, error));
        et_json_print(&again, dict, 0);
        assert_string_equal(text.data, again.data);
        et_strbuf_release(&text);
        et_strbuf_release(&again);
        et_arena_release(&arena);
        et_metrics_free(from);
        et_metrics_free(to);
    }
}

static void test_metrics__other_definitions(void **state)
{
    (void)state;
    static const struct {
        const char *text, *part;
    } cases[] = {
        { "{}", "0 metrics, but this run has 2" },
        { "{\"a\":{\"class\":\"mean\",\"total\":1,\"weight\":1},\"c\":{}}", "b" },
        { "{\"a\":{\"class\":\"sum\",\"total\":1,\"weight\":1},\"b\":{}}", "a: is a mean here" },
        { "{\"a\":{\"class\":\"mean\",\"total\":\"bits:12x\",\"weight\":1},\"b\":{}}",
          "'bits:12x' is not a number" },
        { "{\"a\":{\"class\":\"mean\",\"total\":\"bit\",\"weight\":1},\"b\":{}}",
          "'bit' is not a number" },
        { "{\"a\":{\"class\":\"mean\",\"total\":\"bits:7ff80000000000000\",\"weight\":1},"
          "\"b\":{}}",
          "'bits:7ff80000000000000' is not a number" },
        { "{\"a\":{\"class\":\"mean\",\"total\":true,\"weight\":1},\"b\":{}}", "total" },
        { "{\"a\":3,\"b\":{}}", "a" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_metrics *metrics;
        et_value *read;
        assert_ok(et_metrics_new(&metrics, error));
        assert_ok(et_metrics_define(metrics, "a", &et_metric_mean, error));
        assert_ok(et_metrics_define(metrics, "b", &et_metric_mean, error));
        assert_ok(et_json_parse(&read, &arena, cases[i].text, strlen(cases[i].text), "t", error));
        assert_fails(et_metrics_state.restore(metrics, read, error), ET_EFORMAT, cases[i].part);
        et_metrics_free(metrics);
        et_arena_release(&arena);
    }
}

/* Missing metrics are skipped; invalid ones are refused. */
static void test_metrics__mistakes(void **state)
{
    (void)state;
    static const et_confusion none = ET_CONFUSION(0), one = ET_CONFUSION(1),
                              less = ET_CONFUSION(-1000), huge = ET_CONFUSION((int64_t)1 << 32),
                              three = ET_CONFUSION(3);
    const et_metric *unsound[] = { &none.metric, &one.metric, &less.metric, &huge.metric, NULL };
    et_metrics *metrics = NULL, *other = NULL;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_metrics_new(&metrics, &error), ET_OK);
    for (size_t i = 0; i < sizeof unsound / sizeof unsound[0]; i++)
        assert_int_equal(et_metrics_define(metrics, "digits", unsound[i], &error), ET_EUSAGE);
    assert_int_equal(et_metrics_define(metrics, NULL, &et_metric_sum, &error), ET_EUSAGE);
    assert_int_equal(et_metrics_define(metrics, "digits", &three.metric, &error), ET_OK);
    assert_int_equal(et_metrics_define(metrics, "digits", &three.metric, &error), ET_OK);
    assert_int_equal(et_metrics_define(metrics, "digits", &et_metric_sum, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "digits"));

    const int place = et_metrics_index(metrics, "digits");
    assert_int_equal(et_metrics_index(metrics, "digit"), -1);
    et_metrics_add(metrics, "digit", 1, 1);
    et_metrics_add(metrics, NULL, 1, 1);
    assert_int_equal(et_metrics_index(metrics, NULL), -1);
    assert_true(isnan(et_metrics_value(metrics, NULL)));
    et_metrics_add_at(metrics, -1, 1, 1);
    et_metrics_add_at(metrics, 9999, 1, 1);
    assert_true(isnan(et_metrics_value(metrics, "digit")));

    /* An invalid class counts nowhere: of two valid ones, one is right. */
    const et_sample samples[] = { { 0, 0, 1 },  { 1, 2, 1 },   { 3, 3, 1 },        { 4, 1, 1 },
                                  { 1, -1, 1 }, { NAN, 1, 1 }, { 1e300, 1e300, 1 } };
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        et_metrics_add_sample_at(metrics, place, &samples[i]);
        const char *refusing = et_metrics_refusing(metrics, &samples[i]);
        assert_true(i < 2 ? !refusing : !strcmp(refusing, "digits"));
    }
    assert_float_equal(et_metrics_value(metrics, "digits"), 0.5, 0);

    assert_int_equal(et_metrics_new(&other, &error), ET_OK);
    assert_int_equal(et_metrics_define(other, "digits", &et_metric_sum, &error), ET_OK);
    assert_int_equal(et_metrics_define(other, "sum", &et_metric_sum, &error), ET_OK);
    et_metrics_add(other, "digits", 7, 1);
    et_metrics_merge(metrics, other);
    assert_float_equal(et_metrics_value(metrics, "digits"), 0.5, 0);
    et_metrics_free(metrics);
    et_metrics_free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metrics__values),
        cmocka_unit_test(test_metrics__merge),
        cmocka_unit_test(test_metrics__bytes_and_several_values),
        cmocka_unit_test(test_metrics__results_in_order),
        cmocka_unit_test(test_metrics__state_bit_for_bit),
        cmocka_unit_test(test_metrics__other_definitions),
        cmocka_unit_test(test_metrics__mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
