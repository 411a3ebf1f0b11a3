/* TFSnippet, tests/trainer/test_base_trainer.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "numbers.h"

/* What was called, in order, and the batches of the steps. */
typedef struct journal {
    et_loop_trainer *trainer;
    char text[2048];
    int steps, calls;
} journal;

static int no_step(void *payload, et_loop *loop, et_error *error)
{
    journal *j = payload;
    const et_batch *batch = et_loop_step_data(loop);
    const float *x = batch->data[0];
    (void)error;
    assert_int_equal(et_loop_step(loop), j->steps + 1);
    assert_int_equal(batch->filled[0], j->steps % 2 ? 2 : 4);
    assert_true(x[0] == (j->steps++ % 2 ? 4 : 0));
    return ET_OK;
}

static int any_step(void *payload, et_loop *loop, et_error *error)
{
    (void)payload, (void)loop, (void)error;
    return ET_OK;
}

static int one(void *payload, const et_batch *batch, double *values, et_error *error)
{
    (void)payload, (void)batch, (void)error;
    values[0] = 1;
    return ET_OK;
}

static int note(void *payload, const char *event, const void *what, et_error *error)
{
    journal *j = payload;
    const size_t used = strlen(j->text);
    (void)error;
    assert_ptr_equal(what, j->trainer);
    snprintf(j->text + used, sizeof j->text - used, "%s ", event);
    return ET_OK;
}

static int called(void *payload, et_error *error)
{
    (void)error;
    ++*(int *)payload;
    return ET_OK;
}

static void test_base_trainer__props(void **state)
{
    (void)state;
    looped l;
    et_loop_trainer *t;
    const et_loop_trainer_options options = { .step = any_step };
    looped_init(&l);
    l.options.max_step = 1;
    looped_open(&l);
    assert_ok(et_loop_trainer_open(&t, l.loop, &options, error));
    assert_non_null(et_loop_trainer_events(t));
    et_loop_trainer_close(t);
    looped_free(&l);
}

static void test_base_trainer__add_and_remove_hooks(void **state)
{
    (void)state;
    static const char *const names[] = { "anneal1", "anneal2" };
    static const et_every wrong[] = { { 0, 0 }, { 1, 1 } };
    int calls = 0;
    looped l;
    et_loop_trainer *t;
    et_loop_evaluator *evals[2];
    et_annealing_variable anneals[2];
    numbers_init(&l, names, 2);
    et_source *source = numbers_source(0, 6, 4);
    const et_loop_trainer_options options = { .step = any_step, .source = source };
    et_source *held_out = numbers_source(0, 6, 4);
    const et_loop_evaluator_options valid = { .source = held_out, .run_batch = one };
    looped_open(&l);
    assert_ok(et_loop_trainer_open(&t, l.loop, &options, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_annealing_variable_init(&anneals[i], l.params, names[i], i + 1, .5, -INFINITY,
                                             error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_loop_evaluator_open(&evals[i], l.loop, &valid, error));
    for (int i = 3; i <= 14; i += i == 4 ? 9 : 1)
        assert_ok(
            et_loop_trainer_log_after(t, i % 2 ? ET_EVERY_STEPS(i) : ET_EVERY_EPOCHS(i), error));
    for (int i = 5; i <= 16; i++) {
        const et_every every = i % 2 ? ET_EVERY_STEPS(i) : ET_EVERY_EPOCHS(i);
        if (i == 5 || i == 6 || i == 15 || i == 16)
            assert_ok(
                et_loop_trainer_call_after(t, ET_HOOK_EVALUATION, called, &calls, every, error));
        if (i == 9 || i == 10)
            assert_ok(et_loop_trainer_evaluate_after(t, evals[i - 9], every, error));
    }
    for (int i = 7; i <= 18; i++) {
        const et_every every = i % 2 ? ET_EVERY_STEPS(i) : ET_EVERY_EPOCHS(i);
        if (i == 7 || i == 8 || i == 17 || i == 18)
            assert_ok(
                et_loop_trainer_call_after(t, ET_HOOK_ANNEALING, called, &calls, every, error));
        if (i == 11 || i == 12)
            assert_ok(et_loop_trainer_anneal_after(t, &anneals[i - 11], every, error));
    }
    assert_int_equal(et_loop_trainer_remove_hooks(t, ET_HOOK_LOGGING), 4);
    assert_int_equal(et_loop_trainer_remove_hooks(t, ET_HOOK_EVALUATION), 6);
    assert_int_equal(et_loop_trainer_remove_hooks(t, ET_HOOK_ANNEALING), 6);
    for (int i = 0; i < 2; i++) {
        assert_fails(et_loop_trainer_log_after(t, wrong[i], error), ET_ECONFIG, "exactly one");
        assert_fails(
            et_loop_trainer_call_after(t, ET_HOOK_EVALUATION, called, &calls, wrong[i], error),
            ET_ECONFIG, "exactly one");
        assert_fails(et_loop_trainer_anneal_after(t, &anneals[0], wrong[i], error), ET_ECONFIG,
                     "exactly one");
    }
    et_loop_trainer_close(t);
    for (int i = 0; i < 2; i++)
        et_loop_evaluator_close(evals[i]);
    et_source_close(source);
    et_source_close(held_out);
    looped_free(&l);
}

static void test_base_trainer__hook_freq(void **state)
{
    (void)state;
    int calls = 0;
    looped l;
    et_loop_trainer *t;
    const et_loop_trainer_options options = { .step = any_step };
    looped_init(&l);
    l.options.max_step = 10;
    looped_begin(&l);
    assert_ok(et_loop_trainer_open(&t, l.loop, &options, error));
    assert_ok(et_loop_trainer_call_after(t, ET_HOOK_EVALUATION, called, &calls, ET_EVERY_STEPS(5),
                                         error));
    assert_ok(et_loop_trainer_run(t, error));
    assert_int_equal(calls, 2);
    et_loop_trainer_close(t);
    looped_end(&l);
    looped_free(&l);
}

static int run_again(void *payload, const char *event, const void *what, et_error *error)
{
    journal *j = payload;
    et_error refused = ET_ERROR_INIT;
    (void)event, (void)what, (void)error;
    assert_int_equal(et_loop_trainer_run(j->trainer, &refused), ET_EUSAGE);
    assert_non_null(strstr(refused.text, "already running"));
    j->calls++;
    return ET_OK;
}

#define STEP "before_step step_evaluation step_annealing step_logging after_step "
#define EPOCH                                                                                      \
    "before_epoch " STEP STEP "epoch_evaluation epoch_annealing epoch_logging after_epoch "

static void test_base_trainer__run(void **state)
{
    (void)state;
    static const char *const events[] = {
        ET_EVENT_BEFORE_EPOCH,    ET_EVENT_BEFORE_STEP,      ET_EVENT_STEP_ANNEALING,
        ET_EVENT_STEP_EVALUATION, ET_EVENT_STEP_LOGGING,     ET_EVENT_AFTER_STEP,
        ET_EVENT_EPOCH_ANNEALING, ET_EVENT_EPOCH_EVALUATION, ET_EVENT_EPOCH_LOGGING,
        ET_EVENT_AFTER_EPOCH,
    };
    for (int again = 0; again < 2; again++) {
        journal j = { .steps = 0 };
        looped l;
        numbers_init(&l, NULL, 0);
        l.options.max_epoch = again ? 1 : 2;
        et_source *source = numbers_source(0, 6, 4);
        const et_loop_trainer_options options = { .source = source,
                                                  .step = no_step,
                                                  .payload = &j };
        looped_begin(&l);
        assert_ok(et_loop_trainer_open(&j.trainer, l.loop, &options, error));
        et_event_hub *own = et_loop_trainer_events(j.trainer);
        for (size_t i = 0; !again && i < sizeof events / sizeof *events; i++)
            assert_ok(et_event_hub_on(own, events[i], note, &j, error));
        if (again)
            assert_ok(et_event_hub_on(own, ET_EVENT_AFTER_STEP, run_again, &j, error));
        assert_ok(et_loop_trainer_run(j.trainer, error));
        assert_int_equal(j.steps, again ? 2 : 4);
        assert_int_equal(j.calls, again ? 2 : 0);
        assert_string_equal(j.text, again ? "" : EPOCH EPOCH);
        et_loop_trainer_close(j.trainer);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base_trainer__props),
        cmocka_unit_test(test_base_trainer__add_and_remove_hooks),
        cmocka_unit_test(test_base_trainer__hook_freq),
        cmocka_unit_test(test_base_trainer__run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
