/* TFSnippet, tests/trainer/test_trainer.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "numbers.h"

/* A trainer whose step assigns the batch, 10 to 14, to "var"; "loss_x" is the sum of the batch. The
 * bound value of "a" is 56. */
typedef struct fixture {
    looped l;
    et_device *device;
    et_pass *pass;
    et_source *source;
    et_loop_trainer *trainer;
    char collected[256]; /* "name=value ", of the first event */
    int summaries;       /* added */
} fixture;

static void build(et_scope *s, void *payload)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_node *x = et_batch_input(s, "x");
    et_node *rows = et_sum(et_batch_input(s, "mask"));
    (void)payload;
    et_output(s, "var", et_variable(s, "var", et_shape_1(5), zeros));
    et_measure(s, "loss_x", et_scale(et_sum(x), 5), rows);
}

static int assign(void *payload, et_loop *loop, et_error *error)
{
    fixture *f = payload;
    const et_batch *batch = et_loop_step_data(loop);
    et_params *params = f->l.params;
    assert_true(weight_of(params, "a") == 56);
    int status = et_pass_run(f->pass, batch, 0, (uint64_t)et_loop_step(loop), error);
    if (status)
        return status;
    et_params_begin_change(params);
    memcpy(et_params_values(params) + et_params_offset(params, et_params_find(params, "var")),
           batch->data[0], 5 * sizeof(float));
    et_params_changed(params, true);
    return ET_OK;
}

static int note(void *payload, const char *event, const void *what, et_error *error)
{
    fixture *f = payload;
    const et_loop_event *e = what;
    (void)error;
    if (!strcmp(event, ET_EVENT_SUMMARY_ADDED)) {
        assert_non_null(e->bytes);
        f->summaries++;
    } else if (!*f->collected) {
        for (int i = 0; i < e->count; i++) {
            const size_t used = strlen(f->collected);
            snprintf(f->collected + used, sizeof f->collected - used, "%s=%g ", e->metrics[i].name,
                     e->metrics[i].value);
        }
    }
    return ET_OK;
}

static void open_fixture(fixture *f, const char *summary_dir)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int index;
    *f = (fixture){ .summaries = 0 };
    looped_init(&f->l);
    et_params_free(f->l.params);
    assert_ok(et_params_new(&f->l.params, error));
    assert_ok(
        et_params_declare_variable(f->l.params, "a", et_shape_scalar(), zeros, &index, error));
    f->source = numbers_source(10, 5, 5);
    assert_ok(et_device_open(&f->device, error));
    assert_ok(et_pass_open(&f->pass, f->device, f->l.params, &f->source->layout, build, NULL, NULL,
                           error));
    assert_ok(et_params_materialize(f->l.params, false, error));
    f->l.options.max_epoch = 1;
    f->l.options.summary_dir = summary_dir;
    looped_begin(&f->l);
    et_event_hub *events = et_loop_events(f->l.loop);
    assert_ok(et_event_hub_on(events, ET_EVENT_METRICS_COLLECTED, note, f, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_SUMMARY_ADDED, note, f, error));
}

static void close_fixture(fixture *f)
{
    et_loop_trainer_close(f->trainer);
    looped_end(&f->l);
    et_pass_close(f->pass);
    et_device_close(f->device);
    et_source_close(f->source);
    looped_free(&f->l);
}

/* Trains an epoch of one step. metric: the name of the loss; "": it is not collected. "var" is also
 * a parameter's histogram after the update. */
static void run(fixture *f, const char *metric, const char *const *histograms, int count)
{
    static const et_bound_value bound = { .variable = "a", .value = { .constant = 56 } };
    static const float values[] = { 10, 11, 12, 13, 14 };
    const et_loop_measure loss = { metric, "loss_x" };
    const et_loop_trainer_options options = { .source = f->source,
                                              .pass = f->pass,
                                              .step = assign,
                                              .payload = f,
                                              .metrics = &loss,
                                              .metric_count = !metric || *metric,
                                              .histograms = histograms,
                                              .histogram_count = count,
                                              .bound_values = &bound,
                                              .bound_value_count = 1 };
    et_params *params = f->l.params;
    char expected[64];
    assert_ok(et_loop_trainer_open(&f->trainer, f->l.loop, &options, error));
    assert_ok(et_loop_trainer_run(f->trainer, error));
    snprintf(expected, sizeof expected, "%s=60 ", metric ? metric : "loss");
    if (!metric || *metric)
        assert_string_equal(f->collected, expected);
    else
        assert_null(strstr(f->collected, "loss"));
    assert_memory_equal(et_params_values(params) +
                            et_params_offset(params, et_params_find(params, "var")),
                        values, sizeof values);
}

/* A trainer without a summary writer. */
static void expect_runs(const char *metric, const char *const *histograms, int count)
{
    fixture f;
    open_fixture(&f, NULL);
    run(&f, metric, histograms, count);
    assert_int_equal(f.summaries, 0);
    close_fixture(&f);
}

static void test_trainer__trainer__props(void **state)
{
    (void)state;
    static const char *const summary = "var";
    const et_loop_trainer_options endless = { .step = assign };
    looped l;
    et_loop_trainer *t;
    expect_runs("loss_x", &summary, 1);
    expect_runs("", NULL, 0);
    expect_runs("", &summary, 1);
    looped_init(&l);
    looped_open(&l);
    assert_fails(et_loop_trainer_open(&t, l.loop, &endless, error), ET_ECONFIG,
                 "needs max_epoch or max_step");
    looped_free(&l);
}

static void test_trainer__trainer__run(void **state)
{
    static const char *const histogram = "var";
    fixture f;
    size_t length;
    int found = 0;
    open_fixture(&f, in(state, "summaries"));
    run(&f, "loss_x", &histogram, 1);
    assert_int_equal(f.summaries, 1);
    close_fixture(&f);
    char *file = get_file(in(state, "summaries/events.out.tfevents.0000000000.etude"), &length);
    for (size_t i = 0; i + 5 <= length; i++)
        found += !memcmp(file + i, "\x0a\x03var", 5);
    assert_int_equal(found, 1);
    free(file);
    expect_runs("loss_x", &histogram, 1);
}

static void test_trainer__loss_trainer__props(void **state)
{
    (void)state;
    expect_runs("loss_x", NULL, 0);
    expect_runs(NULL, NULL, 0);
}

static void test_trainer__loss_trainer__run(void **state)
{
    (void)state;
    expect_runs("loss_x", NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer__trainer__props),
        cmocka_unit_test(test_trainer__trainer__run),
        cmocka_unit_test(test_trainer__loss_trainer__props),
        cmocka_unit_test(test_trainer__loss_trainer__run),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
