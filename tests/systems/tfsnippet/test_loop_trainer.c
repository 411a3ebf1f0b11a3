#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/tensor/params.h"
#include "systems/tfsnippet/trainer_fixture.h"

/* What happened, in order, as words. */
typedef struct journal {
    world *world;
    et_loop_trainer *trainer;
    char text[4096];
    int steps, fails_at; /* 0: never */
    volatile sig_atomic_t stop;
    int64_t stops_at; /* step; 0: never */
} journal;

static void write_word(journal *j, const char *word)
{
    size_t used = strlen(j->text);
    snprintf(j->text + used, sizeof j->text - used, "%s%s", used ? " " : "", word);
}

static int count_step(void *payload, et_loop *loop, et_error *error)
{
    journal *j = payload;
    (void)loop;
    write_word(j, "step");
    return ++j->steps == j->fails_at ? et_fail(error, ET_EDATA, "step %d is bad", j->steps) : ET_OK;
}

static int note_trainer(void *payload, const char *event, const void *what, et_error *error)
{
    journal *j = payload;
    (void)error;
    assert_ptr_equal(what, j->trainer);
    write_word(j, event);
    return ET_OK;
}

static int note_loop(void *payload, const char *event, const void *what, et_error *error)
{
    char word[64];
    (void)what, (void)error;
    snprintf(word, sizeof word, "[%s]", event);
    write_word(payload, word);
    return ET_OK;
}

static int note_other(void *payload, const char *event, const void *what, et_error *error)
{
    char word[64];
    (void)what, (void)error;
    snprintf(word, sizeof word, "%s'", event);
    write_word(payload, word);
    return ET_OK;
}

static void open_counting(journal *j, world *w)
{
    const et_loop_trainer_options options = { .source = w->held_out,
                                              .step = count_step,
                                              .payload = j };
    assert_ok(et_loop_trainer_open(&j->trainer, w->loop, &options, error));
}

static const char *const events[] = {
    ET_EVENT_BEFORE_EXECUTION, ET_EVENT_AFTER_EXECUTION, ET_EVENT_BEFORE_EPOCH,
    ET_EVENT_EPOCH_EVALUATION, ET_EVENT_EPOCH_ANNEALING, ET_EVENT_EPOCH_LOGGING,
    ET_EVENT_AFTER_EPOCH,      ET_EVENT_BEFORE_STEP,     ET_EVENT_STEP_EVALUATION,
    ET_EVENT_STEP_ANNEALING,   ET_EVENT_STEP_LOGGING,    ET_EVENT_AFTER_STEP,
};

#define STEP "before_step step step_evaluation step_annealing step_logging after_step' after_step "
#define EPOCH                                                                                      \
    "[before_epoch] before_epoch [before_step] " STEP "[after_step] [before_step] " STEP           \
    "[after_step] epoch_evaluation epoch_annealing epoch_logging after_epoch [after_epoch] "

static void test_trainer__order(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w };
    static const char *const around[] = { ET_EVENT_BEFORE_EPOCH, ET_EVENT_AFTER_EPOCH,
                                          ET_EVENT_BEFORE_STEP, ET_EVENT_AFTER_STEP };
    world_open(&w);
    world_loop(&w);
    open_counting(&j, &w);
    et_event_hub *own = et_loop_trainer_events(j.trainer);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_ok(et_event_hub_on(own, events[i], note_trainer, &j, error));
    assert_ok(et_event_hub_on(own, ET_EVENT_AFTER_STEP, note_other, &j, error));
    for (size_t i = 0; i < 4; i++)
        assert_ok(et_event_hub_on(et_loop_events(w.loop), around[i], note_loop, &j, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "before_execution " EPOCH EPOCH "after_execution");
    assert_int_equal(et_loop_step(w.loop), 4);
    assert_non_null(strstr(w.printed, "Trainable Parameters"));
    et_loop_trainer_close(j.trainer);
    assert_ok(et_loop_end(w.loop, error));
    world_close(&w);
}

/* ---- hooks ---- */

typedef struct named {
    journal *journal;
    const char *name;
} named;

static int call(void *payload, et_error *error)
{
    const named *n = payload;
    char word[64];
    (void)error;
    snprintf(word, sizeof word, "%s@%lld/%lld", n->name,
             (long long)et_loop_epoch(n->journal->world->loop),
             (long long)et_loop_step(n->journal->world->loop));
    write_word(n->journal, word);
    return ET_OK;
}

static int take_off(void *payload, et_error *error)
{
    const named *n = payload;
    assert_int_equal(et_loop_trainer_remove_hooks(n->journal->trainer, ET_HOOK_ANNEALING), 2);
    return call(payload, error);
}

/* Hooks act if the counter is a multiple: evaluation, annealing, logging, each in the order of
 * adding. */
static void test_trainer__hooks(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w };
    named names[] = { { &j, "log" }, { &j, "anneal" }, { &j, "eval" }, { &j, "second" } };
    world_open(&w);
    w.options.max_epoch = 4;
    world_loop(&w);
    open_counting(&j, &w);
    const struct {
        int kind, name;
        et_every every;
    } hooks[] = {
        { ET_HOOK_LOGGING, 0, ET_EVERY_STEPS(3) },     { ET_HOOK_LOGGING, 0, ET_EVERY_EPOCHS(3) },
        { ET_HOOK_ANNEALING, 1, ET_EVERY_STEPS(6) },   { ET_HOOK_ANNEALING, 1, ET_EVERY_EPOCHS(4) },
        { ET_HOOK_EVALUATION, 2, ET_EVERY_STEPS(3) },  { ET_HOOK_EVALUATION, 3, ET_EVERY_STEPS(6) },
        { ET_HOOK_EVALUATION, 2, ET_EVERY_EPOCHS(2) },
    };
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++)
        assert_ok(et_loop_trainer_call_after(j.trainer, hooks[i].kind, call, &names[hooks[i].name],
                                             hooks[i].every, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "step step step eval@2/3 log@2/3 step eval@2/4 step step eval@3/6 "
                                "second@3/6 anneal@3/6 log@3/6 log@3/6 step step eval@4/8 "
                                "anneal@4/8");
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

/* A hook may remove hooks of its kind, even itself; a program's own handlers stay. */
static void test_trainer__removes_hooks(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w };
    named off = { &j, "off" }, other = { &j, "other" }, log = { &j, "log" };
    world_open(&w);
    world_loop(&w);
    open_counting(&j, &w);
    assert_ok(et_loop_trainer_call_after(j.trainer, ET_HOOK_ANNEALING, take_off, &off,
                                         ET_EVERY_STEPS(1), error));
    assert_ok(et_loop_trainer_call_after(j.trainer, ET_HOOK_ANNEALING, call, &other,
                                         ET_EVERY_STEPS(1), error));
    assert_ok(et_loop_trainer_call_after(j.trainer, ET_HOOK_LOGGING, call, &log, ET_EVERY_STEPS(2),
                                         error));
    assert_ok(et_event_hub_on(et_loop_trainer_events(j.trainer), ET_EVENT_STEP_ANNEALING,
                              note_other, &j, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "step off@1/1 step_annealing' step step_annealing' log@1/2 "
                                "step step_annealing' step step_annealing' log@2/4");
    assert_int_equal(et_loop_trainer_remove_hooks(j.trainer, ET_HOOK_ANNEALING), 0);
    assert_int_equal(et_loop_trainer_remove_hooks(j.trainer, ET_HOOK_EVALUATION), 0);
    assert_int_equal(et_loop_trainer_remove_hooks(j.trainer, ET_HOOK_LOGGING), 1);
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

static void test_trainer__every_mistakes(void **state)
{
    (void)state;
    static const et_every bad[] = { { 0, 0 }, { 1, 1 }, { -1, 0 }, { 0, -1 }, { -1, 1 } };
    world w;
    journal j = { .world = &w };
    world_open(&w);
    world_loop(&w);
    open_counting(&j, &w);
    et_annealing_variable variable;
    assert_ok(et_annealing_variable_init(&variable, w.params, "weight", 1, 0.5, 0, error));
    const et_every good = ET_EVERY_STEPS(1);
    assert_fails(et_loop_trainer_evaluate_after(j.trainer, NULL, good, error), ET_ECONFIG,
                 "needs an evaluator");
    assert_fails(et_loop_trainer_anneal_after(j.trainer, NULL, good, error), ET_ECONFIG,
                 "needs a variable");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_fails(et_loop_trainer_log_after(j.trainer, bad[i], error), ET_ECONFIG,
                     "exactly one");
        assert_fails(et_loop_trainer_evaluate_after(j.trainer, NULL, bad[i], error), ET_ECONFIG,
                     "exactly one");
        assert_fails(et_loop_trainer_anneal_after(j.trainer, &variable, bad[i], error), ET_ECONFIG,
                     "exactly one");
    }
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

static int run_again(void *payload, et_error *error)
{
    journal *j = payload;
    et_error refused = ET_ERROR_INIT;
    (void)error;
    assert_int_equal(et_loop_trainer_run(j->trainer, &refused), ET_EUSAGE);
    assert_non_null(strstr(refused.text, "already running"));
    write_word(j, "refused");
    return ET_OK;
}

static void test_trainer__mistakes(void **state)
{
    (void)state;
    static const et_loop_measure missing = { "x", "none" };
    static const et_bound_value nowhere = { .value = { .constant = 1 } };
    static const char *const summary = "total", *const none = "none", *const unnamed[] = { NULL };
    world w;
    journal j = { .world = &w };
    world_open(&w);
    w.options.max_epoch = 0;
    world_loop(&w);
    et_loop_trainer *out;
    const et_loop_trainer_options good = { .source = w.held_out, .step = count_step };
    assert_fails(et_loop_trainer_open(&out, w.loop, &good, error), ET_ECONFIG, "max_epoch");
    assert_int_equal(et_loop_set_max_epoch(w.loop, 1), ET_OK);
    const struct {
        et_loop_trainer_options options;
        const char *says;
    } cases[] = {
        { { .source = w.training }, "needs a step" },
        { { .source = w.training, .pass = w.pass }, "needs a step" },
        { { .pass = w.pass, .optimizer = w.optimizer }, "needs a step" },
        { { .step = count_step, .metrics = &missing, .metric_count = 1 }, "need a pass" },
        { { .step = count_step, .summaries = &summary, .summary_count = 1 }, "need a pass" },
        { { .step = count_step, .histograms = &none, .histogram_count = 1 },
          "histogram none: the store has no such parameter or variable" },
        { { .step = count_step, .histogram_count = 1 }, "1 histograms, but the list" },
        { { .step = count_step, .histograms = unnamed, .histogram_count = 1 },
          "histogram 0 has no name" },
        { { .source = w.training,
            .pass = w.pass,
            .optimizer = w.optimizer,
            .shards = 2,
            .histograms = &summary,
            .histogram_count = 1 },
          "without shards" },
        { { .source = w.training,
            .pass = w.pass,
            .optimizer = w.optimizer,
            .metrics = &missing,
            .metric_count = 1 },
          "the pass has no measure none" },
        { { .step = count_step, .bound_values = &nowhere, .bound_value_count = 1 },
          "bound value 0" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(et_loop_trainer_open(&out, w.loop, &cases[i].options, error), ET_ECONFIG,
                     cases[i].says);
    assert_fails(et_loop_trainer_open(&out, w.loop, NULL, error), ET_EUSAGE,
                 "et_loop_trainer_options: NULL");
    open_counting(&j, &w);
    assert_ok(et_loop_trainer_call_after(j.trainer, ET_HOOK_LOGGING, run_again, &j,
                                         ET_EVERY_EPOCHS(1), error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "step step refused");
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

/* A step's failure is that of the run and of the loop; nothing acts after it. */
static void test_trainer__failure(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w, .fails_at = 3 };
    world_open(&w);
    world_loop(&w);
    open_counting(&j, &w);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        assert_ok(
            et_event_hub_on(et_loop_trainer_events(j.trainer), events[i], note_trainer, &j, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_fails(et_loop_trainer_run(j.trainer, error), ET_EDATA, "step 3 is bad");
    assert_string_equal(strstr(j.text, "after_epoch"), "after_epoch before_epoch before_step step");
    assert_fails(et_loop_end(w.loop, error), ET_EDATA, "step 3 is bad");
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

/* ---- hooks that fail ---- */

static int say_nothing(void *payload, et_error *error)
{
    (void)payload, (void)error;
    return ET_EIO;
}

static int collect_nameless(void *payload, et_error *error)
{
    (void)error;
    return et_loop_collect(payload, "", 1);
}

static int drive_steps(void *payload, et_error *error)
{
    (void)error;
    et_loop_next_step(payload, NULL);
    return ET_OK;
}

static int drive_epochs(void *payload, et_error *error)
{
    (void)error;
    et_loop_next_epoch(payload);
    return ET_OK;
}

static int end_loop(void *payload, et_error *error)
{
    return et_loop_end(payload, error);
}

/* The loop keeps a hook's failure, with its own text or without one, and no hook may drive the loop
 * that called it. */
static void test_trainer__hooks_that_fail(void **state)
{
    (void)state;
    static const struct {
        et_hook_fn *hook;
        int status;
        const char *says;
    } cases[] = {
        { say_nothing, ET_EIO, "without an error text" },
        { collect_nameless, ET_EDATA, "a metric has no name" },
        { drive_steps, ET_EUSAGE, "no steps in a handler" },
        { drive_epochs, ET_EUSAGE, "no epochs in a handler" },
        { end_loop, ET_EUSAGE, "not ended in a handler" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int epochs = 0; epochs < 2; epochs++) {
            world w;
            journal j = { .world = &w };
            world_open(&w);
            world_loop(&w);
            open_counting(&j, &w);
            assert_ok(et_loop_trainer_call_after(j.trainer, ET_HOOK_LOGGING, cases[i].hook, w.loop,
                                                 epochs ? ET_EVERY_EPOCHS(1) : ET_EVERY_STEPS(1),
                                                 error));
            assert_ok(et_loop_begin(w.loop, error));
            assert_fails(et_loop_trainer_run(j.trainer, error), cases[i].status, cases[i].says);
            assert_string_equal(j.text, epochs ? "step step" : "step");
            assert_fails(et_loop_end(w.loop, error), cases[i].status, cases[i].says);
            et_loop_trainer_close(j.trainer);
            world_close(&w);
        }
}

/* A program that clears the loop's handlers has cleared its own. */
static void test_trainer__cleared_events(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w };
    world_open(&w);
    world_loop(&w);
    open_counting(&j, &w);
    assert_ok(et_event_hub_clear(et_loop_events(w.loop), NULL, error));
    assert_ok(et_event_hub_on(et_loop_trainer_events(j.trainer), ET_EVENT_BEFORE_EPOCH,
                              note_trainer, &j, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "before_epoch step step before_epoch step step");
    et_loop_trainer_close(j.trainer);
    assert_ok(et_loop_end(w.loop, error));
    world_close(&w);
}

/* Without data, up to max_step. */
static void test_trainer__no_data(void **state)
{
    (void)state;
    world w;
    journal j = { .world = &w };
    world_open(&w);
    w.options.max_step = 3;
    world_loop(&w);
    const et_loop_trainer_options options = { .step = count_step, .payload = &j };
    assert_ok(et_loop_trainer_open(&j.trainer, w.loop, &options, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(j.trainer, error));
    assert_string_equal(j.text, "step step step");
    et_loop_trainer_close(j.trainer);
    world_close(&w);
}

/* ---- with pass and optimizer ---- */

typedef struct memory_sink {
    et_sink sink;
    double weighted[64], loss[64];
    int weighted_count, loss_count;
} memory_sink;

static int sink_write(et_sink *sink, int64_t step, const et_value *values, et_error *error)
{
    memory_sink *m = (memory_sink *)sink;
    const et_value *weighted = et_value_get(values, "weighted");
    const et_value *loss = et_value_get(values, "metrics/loss");
    (void)step, (void)error;
    if (weighted)
        m->weighted[m->weighted_count++] = weighted->real;
    if (loss)
        m->loss[m->loss_count++] = loss->real;
    return ET_OK;
}

static int sink_flush(et_sink *sink, et_error *error)
{
    (void)sink, (void)error;
    return ET_OK;
}

static const et_sink_class sink_class = {
    .name = "memory", .write = sink_write, .flush = sink_flush, .close = sink_flush
};

/* Each step's loss and outputs are collected; values are fed before it; the model learns. */
static void test_trainer__trains(void **state)
{
    (void)state;
    static memory_sink sink;
    static const char *const summary = "weighted";
    sink = (memory_sink){ .sink = { &sink_class } };
    world w;
    world_open(&w);
    w.options.max_epoch = 10;
    w.options.summary_writer = &sink.sink;
    world_loop(&w);
    et_annealing_scalar rate, weight;
    const et_annealing_scalar_options rates = { .initial_value = 0.02, .ratio = 0.5, .epochs = 5 };
    const et_annealing_scalar_options weights = { .initial_value = 8, .ratio = 0.5, .steps = 5 };
    assert_ok(et_annealing_scalar_init(&rate, w.loop, &rates, error));
    assert_ok(et_annealing_scalar_init(&weight, w.loop, &weights, error));
    const et_bound_value bound_values[] = {
        { .optimizer = w.optimizer, .value = et_annealing_scalar_dynamic(&rate) },
        { .variable = "weight", .value = et_annealing_scalar_dynamic(&weight) },
    };
    const et_loop_measure metrics[] = { { "loss", NULL }, { "never", "never" }, { "y", "y" } };
    const et_loop_trainer_options options = { .source = w.training,
                                              .pass = w.pass,
                                              .optimizer = w.optimizer,
                                              .seed = 1,
                                              .metrics = metrics,
                                              .metric_count = 3,
                                              .summaries = &summary,
                                              .summary_count = 1,
                                              .bound_values = bound_values,
                                              .bound_value_count = 2 };
    et_loop_trainer *trainer = NULL;
    assert_ok(et_loop_trainer_open(&trainer, w.loop, &options, error));
    assert_ok(et_loop_trainer_log_after(trainer, ET_EVERY_EPOCHS(1), error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(trainer, error));
    assert_ok(et_loop_end(w.loop, error));
    assert_int_equal(et_optimizer_iterations(w.optimizer), 50);
    assert_int_equal(sink.weighted_count, 50);
    assert_int_equal(sink.loss_count, 50);
    for (int i = 0; i < 50; i++)
        assert_true(sink.weighted[i] == 4 * 8 * pow(0.5, i / 5));
    assert_true(et_optimizer_learning_rate(w.optimizer) == 0.01);
    assert_true(sink.loss[49] < sink.loss[0]);
    assert_non_null(strstr(w.printed, "y: 10.5"));
    assert_null(strstr(w.printed, "never"));
    et_loop_trainer_close(trainer);
    world_close(&w);
}

/* The same bits as a loop by hand, dropout included. */
static void test_trainer__as_by_hand(void **state)
{
    (void)state;
    world w, hand;
    world_open(&w);
    world_open(&hand);
    world_loop(&w);
    const et_loop_trainer_options options = {
        .source = w.training, .pass = w.pass, .optimizer = w.optimizer, .seed = 1
    };
    et_loop_trainer *trainer = NULL;
    et_batch *batch = NULL;
    assert_ok(et_loop_trainer_open(&trainer, w.loop, &options, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(trainer, error));
    assert_ok(et_batch_new(&batch, &hand.training->layout, error));
    for (uint64_t step = 1; step <= 2 * WORLD_ROWS / 4; step++) {
        assert_ok(et_source_next(hand.training, batch, error));
        assert_ok(et_pass_run(hand.pass, batch, 1, step, error));
        assert_ok(et_optimizer_update(hand.optimizer, hand.pass, NULL, error));
    }
    assert_memory_equal(et_params_values(w.params), et_params_values(hand.params),
                        (size_t)et_params_flat_size(w.params) * sizeof(float));
    et_batch_free(batch);
    et_loop_trainer_close(trainer);
    world_close(&w);
    world_close(&hand);
}

static void test_trainer__summary_mistakes(void **state)
{
    (void)state;
    static memory_sink sink;
    static const char *const none = "none", *const many = "doubled";
    const char *const *cases[] = { &none, &many };
    for (int i = 0; i < 2; i++) {
        world w;
        world_open(&w);
        sink = (memory_sink){ .sink = { &sink_class } };
        w.options.summary_writer = &sink.sink;
        world_loop(&w);
        const et_loop_trainer_options options = { .source = w.training,
                                                  .pass = w.pass,
                                                  .optimizer = w.optimizer,
                                                  .summaries = cases[i],
                                                  .summary_count = 1 };
        et_loop_trainer *trainer = NULL;
        assert_ok(et_loop_trainer_open(&trainer, w.loop, &options, error));
        assert_ok(et_loop_begin(w.loop, error));
        assert_fails(et_loop_trainer_run(trainer, error), ET_ECONFIG, "no such output");
        et_loop_trainer_close(trainer);
        world_close(&w);
    }
}

static int count_summaries(void *payload, const char *event, const void *what, et_error *error)
{
    (void)event, (void)error;
    *(int *)payload += ((const et_loop_event *)what)->bytes != NULL;
    return ET_OK;
}

/* Histograms of outputs, parameters and variables in each step; only in event files. */
static void test_trainer__histograms(void **state)
{
    (void)state;
    static memory_sink sink;
    static const char *const names[] = { "doubled", "total", "weight", "basis", "none" };
    char directory[] = "trainer-XXXXXX";
    assert_non_null(mkdtemp(directory));
    for (int kind = 0; kind < 4; kind++) {
        int added = 0;
        world w;
        world_open(&w);
        sink = (memory_sink){ .sink = { &sink_class } };
        w.options.summary_dir = kind < 3 ? directory : NULL;
        w.options.summary_writer = kind == 3 ? &sink.sink : NULL;
        world_loop(&w);
        const et_loop_trainer_options options = { .source = w.training,
                                                  .pass = w.pass,
                                                  .optimizer = w.optimizer,
                                                  .shards = kind == 1 ? 2 : 0,
                                                  .histograms = kind == 1 ? names + 2 : names,
                                                  .histogram_count = kind == 1   ? 2
                                                                     : kind == 2 ? 5
                                                                                 : 4 };
        et_loop_trainer *trainer = NULL;
        assert_ok(et_loop_trainer_open(&trainer, w.loop, &options, error));
        assert_ok(et_loop_begin(w.loop, error));
        assert_ok(et_event_hub_on(et_loop_events(w.loop), ET_EVENT_SUMMARY_ADDED, count_summaries,
                                  &added, error));
        if (kind < 2)
            assert_ok(et_loop_trainer_run(trainer, error));
        else
            assert_fails(et_loop_trainer_run(trainer, error), kind == 2 ? ET_ECONFIG : ET_EUSAGE,
                         kind == 2 ? "histogram none: neither the pass nor the store"
                                   : "only be written to event files");
        assert_int_equal(added, kind < 2 ? 2 * WORLD_ROWS / 4 : 0);
        et_loop_trainer_close(trainer);
        world_close(&w);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf ./%s", directory);
    assert_int_equal(system(command), 0);
}

/* ---- what resumes ---- */

enum { EPOCHS = 6, STEPS = EPOCHS * WORLD_ROWS / 4 };

static int ask_to_stop(void *payload, et_error *error)
{
    journal *j = payload;
    (void)error;
    if (et_loop_step(j->world->loop) == j->stops_at)
        j->stop = 1;
    return ET_OK;
}

static int note_step(void *payload, const char *event, const void *what, et_error *error)
{
    journal *j = payload;
    char word[64];
    (void)what, (void)error;
    snprintf(word, sizeof word, "%s@%lld", event, (long long)et_loop_step(j->world->loop));
    write_word(j, word);
    return ET_OK;
}

typedef struct ended {
    float *values; /* [flat size], owned */
    size_t bytes;
    int64_t iterations;
    double best, rate;
    char tail[512]; /* of the printed text */
} ended;

/* One start of a run of EPOCHS: dropout, drawn data, a rate annealed every two epochs, a weight
 * annealed every three steps, evaluation every epoch and every four steps, logs. */
static int start_run(const char *directory, int64_t stops_at, journal *j, ended *e)
{
    world w;
    world_open(&w);
    w.options.max_epoch = EPOCHS;
    w.options.checkpoint_dir = directory;
    w.options.early_stopping = true;
    w.options.stop = &j->stop;
    j->world = &w;
    j->stop = 0;
    j->stops_at = stops_at;
    et_annealing_variable weight;
    assert_ok(et_annealing_variable_init(&weight, w.params, "weight", 0.1, 0.7, 0.01, error));
    world_loop(&w);
    et_annealing_scalar rate;
    const et_annealing_scalar_options rates = { .initial_value = 0.02, .ratio = 0.5, .epochs = 2 };
    assert_ok(et_annealing_scalar_init(&rate, w.loop, &rates, error));
    const et_bound_value bound = { .optimizer = w.optimizer,
                                   .value = et_annealing_scalar_dynamic(&rate) };
    const et_loop_measure loss = { "loss", NULL };
    const et_loop_trainer_options options = { .source = w.training,
                                              .pass = w.pass,
                                              .optimizer = w.optimizer,
                                              .seed = 1,
                                              .metrics = &loss,
                                              .metric_count = 1,
                                              .bound_values = &bound,
                                              .bound_value_count = 1 };
    const et_loop_evaluator_options held_out = { .source = w.held_out, .pass = w.test };
    et_loop_trainer *t = NULL;
    et_loop_evaluator *evaluator = NULL;
    assert_ok(et_loop_trainer_open(&t, w.loop, &options, error));
    assert_ok(et_loop_evaluator_open(&evaluator, w.loop, &held_out, error));
    assert_ok(et_loop_trainer_evaluate_after(t, evaluator, ET_EVERY_EPOCHS(1), error));
    assert_ok(et_loop_trainer_evaluate_after(t, evaluator, ET_EVERY_STEPS(4), error));
    assert_ok(et_loop_trainer_anneal_after(t, &weight, ET_EVERY_STEPS(3), error));
    assert_ok(et_loop_trainer_log_after(t, ET_EVERY_EPOCHS(3), error));
    assert_ok(
        et_loop_trainer_call_after(t, ET_HOOK_LOGGING, ask_to_stop, j, ET_EVERY_STEPS(1), error));
    et_event_hub *own = et_loop_trainer_events(t);
    assert_ok(et_event_hub_on(own, ET_EVENT_BEFORE_EPOCH, note_step, j, error));
    assert_ok(et_event_hub_on(own, ET_EVENT_AFTER_EPOCH, note_step, j, error));
    assert_ok(et_loop_begin(w.loop, error));
    et_error error = ET_ERROR_INIT;
    int status = et_loop_trainer_run(t, &error);
    if (status && status != ET_EINTERRUPTED)
        fail_msg("%s", error.text);
    e->best = et_loop_best_valid_metric(w.loop);
    e->rate = et_optimizer_learning_rate(w.optimizer);
    et_loop_trainer_close(t);
    et_loop_evaluator_close(evaluator);
    assert_int_equal(et_loop_end(w.loop, NULL), status);
    e->bytes = (size_t)et_params_flat_size(w.params) * sizeof(float);
    free(e->values);
    e->values = malloc(e->bytes);
    memcpy(e->values, et_params_values(w.params), e->bytes);
    e->iterations = et_optimizer_iterations(w.optimizer);
    const char *last = strstr(w.printed, "loss: ");
    snprintf(e->tail, sizeof e->tail, "%s", last ? last : "");
    world_close(&w);
    return status;
}

static void remove_directory(const char *directory)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf ./%s", directory);
    assert_int_equal(system(command), 0);
}

/* Stopped after any step and resumed, it ends with the same bits: weights, annealed variable, rate,
 * best value; and each event has come once. */
static void test_trainer__resumes(void **state)
{
    (void)state;
    static const int64_t stops[] = { 1, 2, 3, 5, 12, 14, 15, 16, 29, 30 };
    char directory[] = "trainer-XXXXXX";
    journal whole = { .stop = 0 };
    ended expected = { .values = NULL }, seen = { .values = NULL };
    assert_non_null(mkdtemp(directory));
    assert_int_equal(start_run(directory, 0, &whole, &expected), ET_OK);
    remove_directory(directory);
    assert_int_equal(expected.iterations, STEPS);
    assert_true(expected.rate == 0.005);
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        journal j = { .stop = 0 };
        assert_int_equal(start_run(directory, stops[i], &j, &seen), ET_EINTERRUPTED);
        assert_int_equal(start_run(directory, 0, &j, &seen), ET_OK);
        remove_directory(directory);
        assert_string_equal(j.text, whole.text);
        assert_memory_equal(seen.values, expected.values, expected.bytes);
        assert_int_equal(seen.iterations, expected.iterations);
        assert_memory_equal(&seen.best, &expected.best, sizeof seen.best);
        assert_true(seen.rate == expected.rate || stops[i] == STEPS); /* set by a step */
    }
    free(expected.values);
    free(seen.values);
}

/* Trains a loop up to max_epoch with a trainer. added: the program adds the trainer's optimizer
 * itself, after the trainer. Returns a copy of the weights, which the caller frees. */
static float *train_to(const char *directory, int64_t max_epoch, bool added)
{
    world w;
    et_loop_trainer *t = NULL, *other = NULL;
    world_open(&w);
    w.options.max_epoch = max_epoch;
    w.options.checkpoint_dir = directory;
    w.options.checkpoint_epoch_freq = 1;
    assert_ok(et_loop_open(&w.loop, w.params, &w.options, error));
    const et_loop_trainer_options options = {
        .source = w.training, .pass = w.pass, .optimizer = w.optimizer, .seed = 1
    };
    assert_ok(et_loop_trainer_open(&t, w.loop, &options, error));
    assert_ok(et_loop_trainer_open(&other, w.loop, &options, error));
    et_loop_trainer_close(other);
    if (added)
        assert_ok(et_state_add_optimizer(et_loop_state(w.loop), "optimizer", w.optimizer, error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(t, error));
    assert_int_equal(et_optimizer_iterations(w.optimizer), max_epoch * WORLD_ROWS / 4);
    et_loop_trainer_close(t);
    assert_ok(et_loop_end(w.loop, error));
    size_t bytes = (size_t)et_params_flat_size(w.params) * sizeof(float);
    float *values = malloc(bytes);
    memcpy(values, et_params_values(w.params), bytes);
    world_close(&w);
    return values;
}

/* The optimizer resumes, whether the program has added it or not. */
static void test_trainer__optimizer_resumes(void **state)
{
    (void)state;
    char directory[] = "trainer-XXXXXX";
    assert_non_null(mkdtemp(directory));
    for (int added = 0; added < 2; added++) {
        float *whole = train_to(directory, 4, added);
        remove_directory(directory);
        free(train_to(directory, 2, added));
        float *parts = train_to(directory, 4, !added);
        remove_directory(directory);
        assert_memory_equal(whole, parts, 40 * sizeof(float));
        free(whole);
        free(parts);
    }
}

/* A loop that saves, and has begun: the optimizer would be in no checkpoint. */
static void test_trainer__too_late(void **state)
{
    (void)state;
    char directory[] = "trainer-XXXXXX";
    assert_non_null(mkdtemp(directory));
    for (int saves = 0; saves < 2; saves++) {
        world w;
        et_loop_trainer *t = NULL;
        world_open(&w);
        w.options.checkpoint_dir = saves ? directory : NULL;
        assert_ok(et_loop_open(&w.loop, w.params, &w.options, error));
        assert_ok(et_loop_begin(w.loop, error));
        const et_loop_trainer_options options = {
            .source = w.training, .pass = w.pass, .optimizer = w.optimizer, .seed = 1
        };
        if (saves)
            assert_fails(et_loop_trainer_open(&t, w.loop, &options, error), ET_ECONFIG,
                         "open the trainer before et_loop_begin");
        else
            assert_ok(et_loop_trainer_open(&t, w.loop, &options, error));
        assert_fails(et_state_add_optimizer(et_loop_state(w.loop), "optimizer", w.optimizer, error),
                     ET_EUSAGE, "attach parts of the state before the run begins");
        et_loop_trainer_close(t);
        world_close(&w);
    }
    remove_directory(directory);
}

static int allocations_at(void *payload, et_error *error)
{
    size_t *seen = payload, count = et_alloc_count();
    (void)error;
    seen[1] += seen[0] && count > seen[0];
    seen[0] = count;
    return ET_OK;
}

/* No step allocates memory. */
static void test_trainer__allocates_nothing(void **state)
{
    (void)state;
    static const char *const summary = "weighted";
    size_t seen[2] = { 0 };
    world w;
    world_open(&w);
    w.options.max_epoch = 8;
    world_loop(&w);
    const et_bound_value bound = { .variable = "weight", .value = { .constant = 0.5 } };
    const et_loop_measure loss = { "loss", NULL };
    const et_loop_trainer_options options = { .source = w.training,
                                              .pass = w.pass,
                                              .optimizer = w.optimizer,
                                              .metrics = &loss,
                                              .metric_count = 1,
                                              .summaries = &summary,
                                              .summary_count = 1,
                                              .bound_values = &bound,
                                              .bound_value_count = 1 };
    et_loop_trainer *trainer = NULL;
    assert_ok(et_loop_trainer_open(&trainer, w.loop, &options, error));
    assert_ok(et_loop_trainer_call_after(trainer, ET_HOOK_LOGGING, allocations_at, seen,
                                         ET_EVERY_STEPS(2), error));
    assert_ok(et_loop_begin(w.loop, error));
    assert_ok(et_loop_trainer_run(trainer, error));
    assert_true(seen[1] <= 1); /* metrics that are collected for the first time */
    et_loop_trainer_close(trainer);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trainer__order),
        cmocka_unit_test(test_trainer__hooks),
        cmocka_unit_test(test_trainer__removes_hooks),
        cmocka_unit_test(test_trainer__every_mistakes),
        cmocka_unit_test(test_trainer__mistakes),
        cmocka_unit_test(test_trainer__failure),
        cmocka_unit_test(test_trainer__hooks_that_fail),
        cmocka_unit_test(test_trainer__cleared_events),
        cmocka_unit_test(test_trainer__no_data),
        cmocka_unit_test(test_trainer__trains),
        cmocka_unit_test(test_trainer__as_by_hand),
        cmocka_unit_test(test_trainer__summary_mistakes),
        cmocka_unit_test(test_trainer__histograms),
        cmocka_unit_test(test_trainer__resumes),
        cmocka_unit_test(test_trainer__optimizer_resumes),
        cmocka_unit_test(test_trainer__too_late),
        cmocka_unit_test(test_trainer__allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
