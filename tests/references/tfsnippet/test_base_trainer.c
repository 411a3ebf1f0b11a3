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

/* A hook's name and when it runs, in the order of adding. */
static const struct {
    const char *name;
    int kind;
    et_every every;
} hooks[] = {
    { "print_logs", ET_HOOK_LOGGING, { .steps = 3 } },
    { "print_logs", ET_HOOK_LOGGING, { .epochs = 4 } },
    { "eval", ET_HOOK_EVALUATION, { .steps = 5 } },
    { "eval", ET_HOOK_EVALUATION, { .epochs = 6 } },
    { "anneal", ET_HOOK_ANNEALING, { .steps = 7 } },
    { "anneal", ET_HOOK_ANNEALING, { .epochs = 8 } },
    { "eval1.run", ET_HOOK_EVALUATION, { .steps = 9 } },
    { "eval2.run", ET_HOOK_EVALUATION, { .epochs = 10 } },
    { "anneal1.anneal", ET_HOOK_ANNEALING, { .steps = 11 } },
    { "anneal2.anneal", ET_HOOK_ANNEALING, { .epochs = 12 } },
    { "print_logs", ET_HOOK_LOGGING, { .steps = 13 } },
    { "print_logs", ET_HOOK_LOGGING, { .epochs = 14 } },
    { "eval2", ET_HOOK_EVALUATION, { .steps = 15 } },
    { "eval2", ET_HOOK_EVALUATION, { .epochs = 16 } },
    { "anneal2", ET_HOOK_ANNEALING, { .steps = 17 } },
    { "anneal2", ET_HOOK_ANNEALING, { .epochs = 18 } },
};
enum { HOOKS = sizeof hooks / sizeof *hooks };

/* What hooks did in a run of 18 epochs of one step: "epoch:name ". */
typedef struct hooked {
    looped l;
    char text[2048];
} hooked;

typedef struct named {
    hooked *h;
    const char *name;
} named;

static int append(void *payload, et_error *error)
{
    const named *n = payload;
    const size_t used = strlen(n->h->text);
    (void)error;
    snprintf(n->h->text + used, sizeof n->h->text - used, "%d:%s ", (int)et_loop_step(n->h->l.loop),
             n->name);
    return ET_OK;
}

static int append_batch(void *payload, const et_batch *batch, double *values, et_error *error)
{
    (void)batch;
    values[0] = 1;
    return append(payload, error);
}

/* print_logs; the training summary comes before the first step. */
static void append_log(void *payload, const char *text)
{
    named n = { payload, "print_logs" };
    (void)text;
    if (et_loop_step(n.h->l.loop))
        append(&n, NULL);
}

/* The variables change after step 11 and after epoch 12. */
static int look_at_variables(void *payload, et_loop *loop, et_error *error)
{
    const hooked *h = payload;
    (void)error;
    assert_true(weight_of(h->l.params, "anneal1") == (et_loop_step(loop) > 11 ? .5 : 1));
    assert_true(weight_of(h->l.params, "anneal2") == (et_loop_step(loop) > 12 ? 1 : 2));
    return ET_OK;
}

/* The handlers of the six events, in their order. */
static void expect_hooks(const char *text)
{
    char expected[2048] = "";
    for (int n = 1; n <= 18; n++)
        for (int event = 0; event < 2 * ET_HOOK_KINDS; event++)
            for (int i = 0; i < HOOKS; i++) {
                const et_every every = hooks[i].every;
                const bool epochs = event >= ET_HOOK_KINDS;
                const size_t used = strlen(expected);
                if (hooks[i].kind == event % ET_HOOK_KINDS && epochs == (every.epochs > 0) &&
                    n % (every.epochs + every.steps) == 0 && !strstr(hooks[i].name, ".anneal"))
                    snprintf(expected + used, sizeof expected - used, "%d:%s ", n, hooks[i].name);
            }
    assert_string_equal(text, expected);
}

static void test_base_trainer__add_and_remove_hooks(void **state)
{
    (void)state;
    static const char *const variables[] = { "anneal1", "anneal2" };
    static const int removed[] = {
        [ET_HOOK_LOGGING] = 4, [ET_HOOK_EVALUATION] = 6, [ET_HOOK_ANNEALING] = 6
    };
    static const et_every wrong[] = { { 0, 0 }, { 1, 1 } };
    hooked h = { .text = "" };
    named names[HOOKS];
    et_loop_trainer *t;
    et_loop_evaluator *evals[2];
    et_annealing_variable anneals[2];
    numbers_init(&h.l, variables, 2);
    h.l.options.max_epoch = 18;
    h.l.options.print = append_log;
    h.l.options.print_payload = &h;
    et_source *source = numbers_source(0, 1, 1), *held_out = numbers_source(0, 1, 1);
    const et_loop_trainer_options options = { .step = look_at_variables,
                                              .payload = &h,
                                              .source = source };
    looped_open(&h.l);
    assert_ok(et_loop_trainer_open(&t, h.l.loop, &options, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_annealing_variable_init(&anneals[i], h.l.params, variables[i], i + 1, .5,
                                             -INFINITY, error));
    for (int i = 0, evaluators = 0, annealed = 0; i < HOOKS; i++) {
        const et_every every = hooks[i].every;
        names[i] = (named){ &h, hooks[i].name };
        if (hooks[i].kind == ET_HOOK_LOGGING) {
            assert_ok(et_loop_trainer_log_after(t, every, error));
        } else if (strstr(hooks[i].name, ".run")) {
            const et_loop_evaluator_options valid = { .source = held_out,
                                                      .run_batch = append_batch,
                                                      .payload = &names[i] };
            et_loop_evaluator **eval = &evals[evaluators++];
            assert_ok(et_loop_evaluator_open(eval, h.l.loop, &valid, error));
            assert_ok(et_loop_trainer_evaluate_after(t, *eval, every, error));
        } else if (strstr(hooks[i].name, ".anneal")) {
            assert_ok(et_loop_trainer_anneal_after(t, &anneals[annealed++], every, error));
        } else {
            assert_ok(
                et_loop_trainer_call_after(t, hooks[i].kind, append, &names[i], every, error));
        }
    }
    assert_ok(et_loop_begin(h.l.loop, error));
    assert_ok(et_loop_trainer_run(t, error));
    expect_hooks(h.text);
    for (int kind = 0; kind < ET_HOOK_KINDS; kind++) {
        assert_int_equal(et_loop_trainer_remove_hooks(t, kind), removed[kind]);
        assert_int_equal(et_loop_trainer_remove_hooks(t, kind), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_fails(et_loop_trainer_log_after(t, wrong[i], error), ET_ECONFIG, "exactly one");
        assert_fails(
            et_loop_trainer_call_after(t, ET_HOOK_EVALUATION, append, names, wrong[i], error),
            ET_ECONFIG, "exactly one");
        assert_fails(et_loop_trainer_anneal_after(t, &anneals[0], wrong[i], error), ET_ECONFIG,
                     "exactly one");
    }
    et_loop_trainer_close(t);
    for (int i = 0; i < 2; i++)
        et_loop_evaluator_close(evals[i]);
    looped_end(&h.l);
    et_source_close(source);
    et_source_close(held_out);
    looped_free(&h.l);
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
