#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "systems/tfsnippet/trainer_fixture.h"

typedef struct seen {
    et_source *source; /* 0 .. 5, in batches of 4 */
    float bound;       /* value of the variable in the last batch */
    et_scheduled_variable variable;
    int batches;
    char events[256];
} seen;

static int mean_of_batch(void *payload, const et_batch *batch, double *values, et_error *error)
{
    seen *s = payload;
    const int32_t *n = batch->data[0];
    (void)error;
    values[0] = 0;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        values[0] += n[i] / (double)batch->filled[0];
    s->batches++;
    if (s->variable.params)
        s->bound = (float)et_scheduled_variable_get(&s->variable);
    return ET_OK;
}

static double triple(void *payload, const et_batch *batch)
{
    (void)payload;
    return batch->filled[0] == 4 ? 1 : 3;
}

static double negative(void *payload, const et_batch *batch)
{
    (void)payload, (void)batch;
    return -1;
}

static void numbers_open(seen *s)
{
    et_samples *samples = NULL;
    et_batches_options options = { .capacity = { 4 } };
    memset(s, 0, sizeof *s);
    assert_ok(et_sequence_open(&samples, "n", 0, 6, 1, error));
    assert_ok(et_batches_open(&s->source, samples, &options, error));
}

static int note(void *payload, const char *event, const void *what, et_error *error)
{
    char *events = payload;
    const et_loop_event *told = what;
    (void)error;
    snprintf(events + strlen(events), 256 - strlen(events), "%s ", event);
    for (int i = 0; !strcmp(event, ET_EVENT_METRICS_COLLECTED) && i < told->count; i++)
        snprintf(events + strlen(events), 256 - strlen(events), "%s=%g ", told->metrics[i].name,
                 told->metrics[i].value);
    return ET_OK;
}

static void in_epoch(world *w)
{
    world_loop(w);
    assert_ok(et_loop_begin(w->loop, error));
    assert_true(et_loop_next_epoch(w->loop));
}

/* 0 to 5 in batches of 4 and 2, of which the second counts three times. */
static void test_evaluator__weights(void **state)
{
    (void)state;
    world w;
    seen s;
    world_open(&w);
    numbers_open(&s);
    in_epoch(&w);
    et_loop_evaluator *evaluator = NULL;
    const et_loop_evaluator_options options = {
        .source = s.source, .run_batch = mean_of_batch, .weight = triple, .payload = &s
    };
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_true(isnan(et_loop_evaluator_last(evaluator, NULL)));
    for (int again = 1; again < 3; again++) {
        assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
        assert_int_equal(s.batches, 2 * again);
        assert_true(et_loop_evaluator_last(evaluator, "valid_loss") == (1.5 + 3 * 4.5) / 4);
    }
    assert_true(isnan(et_loop_evaluator_last(evaluator, "other")));
    et_loop_evaluator_close(evaluator);
    world_close(&w);
    et_source_close(s.source);
}

/* Several metrics of a pass: all in one event, between those of the evaluator. */
static void test_evaluator__pass(void **state)
{
    (void)state;
    world w;
    char events[256] = "";
    world_open(&w);
    in_epoch(&w);
    et_loop_evaluator *evaluator = NULL;
    const et_loop_measure metrics[] = { { "valid_y", "y" }, { NULL, NULL }, { "part", "loss" } };
    const et_loop_evaluator_options options = {
        .source = w.held_out, .pass = w.test, .metrics = metrics, .metric_count = 3
    };
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    et_event_hub *own = et_loop_evaluator_events(evaluator);
    assert_ok(et_event_hub_on(own, ET_EVENT_BEFORE_EXECUTION, note, events, error));
    assert_ok(et_event_hub_on(own, ET_EVENT_AFTER_EXECUTION, note, events, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    const et_loop_metric *last;
    assert_int_equal(et_loop_evaluator_last_metrics(evaluator, &last), 3);
    assert_string_equal(last[0].name, "valid_y");
    assert_string_equal(last[1].name, "valid_loss");
    assert_true(last[0].value == 3.5);
    assert_true(last[1].value > 0 && last[1].value == et_loop_best_valid_metric(w.loop));
    assert_true(last[2].value == last[1].value);
    assert_string_equal(events, "before_execution after_execution ");
    double first = last[1].value;
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_true(et_loop_evaluator_last(evaluator, "valid_loss") == first);
    et_loop_evaluator_close(evaluator);
    world_close(&w);
}

typedef struct rerun {
    et_loop_evaluator *evaluator;
    int refused;
} rerun;

static int run_again(void *payload, const char *event, const void *what, et_error *error)
{
    rerun *a = payload;
    et_error refused = ET_ERROR_INIT;
    (void)event, (void)what, (void)error;
    assert_int_equal(et_loop_evaluator_run(a->evaluator, NULL, 0, &refused), ET_EUSAGE);
    assert_non_null(strstr(refused.text, "already running"));
    a->refused++;
    return ET_OK;
}

static void test_evaluator__reentrant(void **state)
{
    (void)state;
    world w;
    rerun a = { NULL, 0 };
    world_open(&w);
    in_epoch(&w);
    const et_loop_evaluator_options options = { .source = w.held_out, .pass = w.test };
    assert_ok(et_loop_evaluator_open(&a.evaluator, w.loop, &options, error));
    assert_ok(et_event_hub_on(et_loop_evaluator_events(a.evaluator), ET_EVENT_BEFORE_EXECUTION,
                              run_again, &a, error));
    assert_ok(et_loop_evaluator_run(a.evaluator, NULL, 0, error));
    assert_int_equal(a.refused, 1);
    et_loop_evaluator_close(a.evaluator);
    world_close(&w);
}

static double count_up(void *payload)
{
    return ++*(double *)payload;
}

/* Set in every batch, values of the run over those of the evaluator; afterwards all old values are
 * back. */
static void test_evaluator__bound_values(void **state)
{
    (void)state;
    world w;
    seen s;
    double counted = 0;
    world_open(&w);
    numbers_open(&s);
    assert_ok(et_scheduled_variable_init(&s.variable, w.params, "weight", 9, error));
    in_epoch(&w);
    const et_bound_value fixed = { .variable = "weight", .value = { .constant = 34 } };
    const et_bound_value moving = { .variable = "weight",
                                    .value = { .get = count_up, .payload = &counted } };
    const et_loop_evaluator_options options = { .source = s.source,
                                                .run_batch = mean_of_batch,
                                                .payload = &s,
                                                .bound_values = &fixed,
                                                .bound_value_count = 1 };
    et_loop_evaluator *evaluator = NULL;
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_true(s.bound == 34);
    const et_bound_value more[] = { moving,
                                    { .optimizer = w.optimizer, .value = { .constant = 0.5 } } };
    assert_ok(et_loop_evaluator_run(evaluator, more, 2, error));
    assert_true(s.bound == 2 && counted == 2);
    assert_true(et_optimizer_learning_rate(w.optimizer) == 0.01);
    assert_true(et_scheduled_variable_get(&s.variable) == 9);
    const et_bound_value none = { .variable = "none" };
    assert_fails(et_loop_evaluator_run(evaluator, &none, 1, error), ET_ECONFIG, "variable none");
    et_loop_evaluator_close(evaluator);
    world_close(&w);
    et_source_close(s.source);
}

static int no_value(void *payload, const et_batch *batch, double *values, et_error *error)
{
    (void)error;
    values[0] = batch->filled[0] == 4 ? (double)NAN : 7;
    values[1] = (double)NAN;
    ((seen *)payload)->batches++;
    return ET_OK;
}

/* A batch without a value does not count, a metric without one is not collected. */
static void test_evaluator__no_values(void **state)
{
    (void)state;
    world w;
    seen s;
    world_open(&w);
    numbers_open(&s);
    in_epoch(&w);
    const et_loop_measure metrics[] = { { "some", NULL }, { "none", NULL } };
    const et_loop_evaluator_options options = { .source = s.source,
                                                .metrics = metrics,
                                                .metric_count = 2,
                                                .run_batch = no_value,
                                                .payload = &s };
    et_loop_evaluator *evaluator = NULL;
    assert_ok(
        et_event_hub_on(et_loop_events(w.loop), ET_EVENT_METRICS_COLLECTED, note, s.events, error));
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_string_equal(s.events, "metrics_collected some=7 ");
    et_loop_evaluator_close(evaluator);
    world_close(&w);
    et_source_close(s.source);
}

static double not_a_number_first(void *payload)
{
    return ++*(int *)payload == 1 ? (double)NAN : 0;
}

/* A pass that gives NaN for a batch has given a value: the mean is no better for it. */
static void test_evaluator__not_finite(void **state)
{
    (void)state;
    world w;
    int asked = 0;
    world_open(&w);
    in_epoch(&w);
    const et_bound_value bound = { .variable = "weight",
                                   .value = { .get = not_a_number_first, .payload = &asked } };
    const et_loop_measure metrics[] = { { "valid_loss", NULL }, { "never", "never" } };
    const et_loop_evaluator_options options = {
        .source = w.held_out, .pass = w.test, .metrics = metrics, .metric_count = 2
    };
    const et_loop_metric *last;
    et_loop_evaluator *evaluator = NULL;
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    double best = et_loop_best_valid_metric(w.loop);
    assert_true(best > 0);
    assert_int_equal(et_loop_print_logs(w.loop), 0);
    *w.printed = 0;
    assert_ok(et_loop_evaluator_run(evaluator, &bound, 1, error));
    assert_int_equal(asked, 2);
    assert_int_equal(et_loop_evaluator_last_metrics(evaluator, &last), 1);
    assert_true(isnan(last[0].value));
    assert_true(et_loop_best_valid_metric(w.loop) == best);
    assert_int_equal(et_loop_print_logs(w.loop), 0);
    assert_non_null(strstr(w.printed, "valid loss: nan\n"));
    et_loop_evaluator_close(evaluator);
    world_close(&w);
}

/* A failed run, which the program ignores, is followed by another. */
static void test_evaluator__again_after_a_failure(void **state)
{
    (void)state;
    world w;
    seen s;
    world_open(&w);
    numbers_open(&s);
    in_epoch(&w);
    const et_loop_evaluator_options good = { .source = s.source,
                                             .run_batch = mean_of_batch,
                                             .payload = &s };
    et_loop_evaluator_options bad = good;
    bad.weight = negative;
    et_loop_evaluator *evaluator = NULL, *failing = NULL;
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &good, error));
    assert_ok(et_loop_evaluator_open(&failing, w.loop, &bad, error));
    assert_fails(et_loop_evaluator_run(failing, NULL, 0, error), ET_EDATA, "has the weight -1");
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_true(et_loop_evaluator_last(evaluator, NULL) == 2.5);
    et_loop_evaluator_close(evaluator);
    et_loop_evaluator_close(failing);
    world_close(&w);
    et_source_close(s.source);
}

/* One pass of data that repeats, each time the same. */
static void test_evaluator__endless(void **state)
{
    (void)state;
    world w;
    seen s = { .batches = 0 };
    et_samples *samples = NULL;
    et_batches_options batches = { .repeat = true, .shuffle = true, .capacity = { 4 } };
    world_open(&w);
    in_epoch(&w);
    assert_ok(et_sequence_open(&samples, "n", 0, 6, 1, error));
    assert_ok(et_batches_open(&s.source, samples, &batches, error));
    const et_loop_evaluator_options options = { .source = s.source,
                                                .run_batch = mean_of_batch,
                                                .payload = &s };
    et_loop_evaluator *evaluator = NULL;
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    for (int again = 1; again < 4; again++) {
        assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
        assert_int_equal(s.batches, 2 * again);
        assert_true(fabs(et_loop_evaluator_last(evaluator, NULL) - 2.5) < 1e-12);
    }
    et_loop_evaluator_close(evaluator);
    world_close(&w);
    et_source_close(s.source);
}

/* Data without batches: nothing is collected, and no value of the last run stays. */
static void test_evaluator__no_data(void **state)
{
    (void)state;
    world w;
    seen s;
    world_open(&w);
    numbers_open(&s);
    in_epoch(&w);
    et_source *none = nothing_source(&s.source->layout);
    const et_loop_evaluator_options options = { .source = none,
                                                .run_batch = mean_of_batch,
                                                .payload = &s };
    et_loop_evaluator *evaluator = NULL;
    assert_ok(
        et_event_hub_on(et_loop_events(w.loop), ET_EVENT_METRICS_COLLECTED, note, s.events, error));
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
    assert_string_equal(s.events, "");
    assert_int_equal(s.batches, 0);
    assert_true(isnan(et_loop_evaluator_last(evaluator, NULL)));
    et_loop_evaluator_close(evaluator);
    world_close(&w);
    et_source_close(none);
    et_source_close(s.source);
}

static void test_evaluator__mistakes(void **state)
{
    (void)state;
    static const et_loop_measure missing = { "x", "none" };
    static const et_bound_value nowhere = { .value = { .constant = 1 } };
    world w;
    seen s;
    world_open(&w);
    numbers_open(&s);
    world_loop(&w);
    const struct {
        et_loop_evaluator_options options;
        const char *says;
    } cases[] = {
        { { .pass = w.test }, "source" },
        { { .source = w.held_out }, "a pass or run_batch" },
        { { .source = w.held_out, .pass = w.test, .run_batch = mean_of_batch },
          "either a pass or run_batch" },
        { { .source = w.held_out, .pass = w.test, .weight = triple, .equal_weights = true },
          "equal weights" },
        { { .source = w.held_out, .pass = w.test, .metrics = &missing, .metric_count = 1 },
          "the pass has no measure none" },
        { { .source = w.held_out, .pass = w.test, .metrics = &missing, .metric_count = -1 },
          "-1 metrics" },
        { { .source = w.held_out,
            .pass = w.test,
            .bound_values = &nowhere,
            .bound_value_count = 1 },
          "bound value 0" },
    };
    et_loop_evaluator *out;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(et_loop_evaluator_open(&out, w.loop, &cases[i].options, error), ET_ECONFIG,
                     cases[i].says);
    assert_fails(et_loop_evaluator_open(&out, w.loop, NULL, error), ET_EUSAGE,
                 "et_loop_evaluator_options: NULL");
    const et_loop_evaluator_options heavy = {
        .source = s.source, .run_batch = mean_of_batch, .payload = &s, .weight = negative
    };
    assert_ok(et_loop_begin(w.loop, error));
    assert_true(et_loop_next_epoch(w.loop));
    assert_ok(et_loop_evaluator_open(&out, w.loop, &heavy, error));
    assert_fails(et_loop_evaluator_run(out, NULL, 0, error), ET_EDATA, "has the weight -1");
    et_loop_evaluator_close(out);
    world_close(&w);
    et_source_close(s.source);
}

/* Outside of an epoch there is nothing to collect into. */
static void test_evaluator__outside(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    world_loop(&w);
    et_loop_evaluator *evaluator = NULL;
    const et_loop_evaluator_options options = { .source = w.held_out, .pass = w.test };
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &options, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_fails(et_loop_evaluator_run(evaluator, NULL, 0, error), ET_EUSAGE, "epoch");
    et_loop_evaluator_close(evaluator);
    world_close(&w);
}

static void test_evaluator__no_valid_metric(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    w.options.valid_metric_name = "";
    world_loop(&w);
    et_loop_evaluator *out;
    const et_loop_evaluator_options options = { .source = w.held_out, .pass = w.test };
    assert_fails(et_loop_evaluator_open(&out, w.loop, &options, error), ET_ECONFIG,
                 "has no name, and the loop has no valid_metric_name");
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluator__weights),
        cmocka_unit_test(test_evaluator__pass),
        cmocka_unit_test(test_evaluator__reentrant),
        cmocka_unit_test(test_evaluator__bound_values),
        cmocka_unit_test(test_evaluator__no_values),
        cmocka_unit_test(test_evaluator__mistakes),
        cmocka_unit_test(test_evaluator__outside),
        cmocka_unit_test(test_evaluator__no_valid_metric),
        cmocka_unit_test(test_evaluator__not_finite),
        cmocka_unit_test(test_evaluator__again_after_a_failure),
        cmocka_unit_test(test_evaluator__endless),
        cmocka_unit_test(test_evaluator__no_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
