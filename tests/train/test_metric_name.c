#include "train/checkpoint/metric_name.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

#include "base/arena.h"

static void test_metric_name__is_double(void **state)
{
    (void)state;
    const char *const doubles[][2] = {
        { "validation_loss", "validation_nll" },
        { "validation_log_likelihood", "validation_log_loss" },
        { "loss", "nll" },
        { "news/validation_loss", "news|validation_log_loss" },
        { "train.training_loss", "train.training_nll" },
    };
    const char *const others[][2] = {
        { "validation_loss", "training_loss" },
        { "validation_loss", "loss" },
        { "news/validation_loss", "validation_nll" },
        { "news/loss", "chat/nll" },
        { "validation_loss", "validation_brier" },
        { "validation_loss", "best_validation_nll" },
        { "validation_loss", "" },
        { "total_loss", "nll" },
        { "measured.validation_loss", "validation.validation_nll" },
    };
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        if (!et_metric_is_double(doubles[i][0], doubles[i][1]) ||
            !et_metric_is_double(doubles[i][1], doubles[i][0]))
            fail_msg("%s and %s are one measure", doubles[i][0], doubles[i][1]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (et_metric_is_double(others[i][0], others[i][1]) ||
            et_metric_is_double(others[i][1], others[i][0]))
            fail_msg("%s and %s are two measures", others[i][0], others[i][1]);
}

static void test_metric_name__lower_is_better(void **state)
{
    (void)state;
    const char *const lower[] = { "loss",
                                  "validation_loss",
                                  "validation_log_loss",
                                  "news/validation_nll",
                                  "a|validation_rmse",
                                  "validation_mae",
                                  "word_error_rate",
                                  "wer",
                                  "validation.validation_perplexity",
                                  "cross_entropy",
                                  "validation_calibration_error",
                                  "validation_interval_width",
                                  "validation_mape",
                                  "eval_time",
                                  "seconds" };
    const char *const higher[] = { "validation_accuracy",
                                   "validation_log_likelihood",
                                   "r2",
                                   "auc",
                                   "loss/validation_accuracy",
                                   "sacrebleu_score",
                                   "answer",
                                   "losses|validation_f1",
                                   "maestro",
                                   "water",
                                   "" };
    for (size_t i = 0; i < sizeof lower / sizeof *lower; i++)
        if (!et_metric_lower_is_better(lower[i]))
            fail_msg("a lower %s is better", lower[i]);
    for (size_t i = 0; i < sizeof higher / sizeof *higher; i++)
        if (et_metric_lower_is_better(higher[i]))
            fail_msg("a higher %s is better", higher[i]);
}

static void test_metric_name__equals(void **state)
{
    (void)state;
    assert_true(et_metric_equals(0.08139396508, -0.08139396051));
    assert_true(et_metric_equals(0, -0.0) && et_metric_equals(NAN, NAN));
    assert_true(et_metric_equals(INFINITY, -INFINITY));
    assert_false(et_metric_equals(1, 1.001) || et_metric_equals(NAN, 1) ||
                 et_metric_equals(1, NAN));
    assert_false(et_metric_equals(INFINITY, 1) || et_metric_equals(1, INFINITY));
}

/* Of equal ones the first stays; another number, another measure, or a value that is not a number
 * is no repetition. */
static void test_metric_name__repeats(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value_set_string(logs, "validation_nll", "text");
    et_value_set_float(logs, "validation_loss", 0.5);
    et_value_set_float(logs, "validation_accuracy", 0.5);
    et_value_set_float(logs, "validation_log_loss", 0.4);
    et_value_set_float(logs, "validation_log_likelihood", -0.4);
    assert_false(et_value_failed(logs));
    for (const et_value *v = logs->first; v; v = v->next)
        assert_int_equal(et_metric_repeats(logs, v), v == logs->last);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_metric_name__is_double),
        cmocka_unit_test(test_metric_name__lower_is_better),
        cmocka_unit_test(test_metric_name__equals),
        cmocka_unit_test(test_metric_name__repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
