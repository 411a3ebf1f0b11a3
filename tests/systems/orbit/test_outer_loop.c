/* The outer loop call by call. The cases of Orbit's own tests are in tests/references/orbit. */
#include <etude/outer_loop.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"
#include "systems/orbit/outer_play.h"

#include "formats/event_lines.h"
#include "systems/orbit/controller.h"

/* ---- what happens ---- */

static int64_t odd_loops(void *payload, int64_t at)
{
    (void)payload;
    return at < 4 ? 2 : 3;
}

/* Evaluated steps are saved. */
static void test_outer_loop__order(void **state)
{
    static const struct {
        int64_t steps, per_loop, eval, save;
        const char *words, *saved;
    } cases[] = {
        { 5, 10, 0, 5, "L5 t5 V5 e5 ", "5 " },
        { 12, 4, 6, 5, "L4 t4 L6 t6 V6 e6 L10 t10 L12 t12 V12 e12 ", "6 10 12 " },
        { 7, 3, 0, 2, "L3 t3 L6 t6 L7 t7 V7 e7 ", "3 6 7 " },
        { 10, 0, 0, 0, "L2 t2 L4 t4 L7 t7 L10 t10 V10 e10 ", "10 " }, /* by the function */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        play p = { .options = { .steps_per_loop = cases[i].per_loop,
                                .checkpoint_interval = cases[i].save } };
        char directory[700];
        et_arena arena = ET_ARENA_INIT;
        et_value *logs = et_value_dict(&arena);
        int64_t steps;
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "order"), i);
        p.outer.steps_per_loop = cases[i].per_loop ? NULL : odd_loops;
        words[0] = 0;
        begin(&p, directory);
        assert_int_equal(et_controller_steps_per_loop(p.controller),
                         cases[i].per_loop ? cases[i].per_loop : 2);
        assert_ok(et_controller_train_and_evaluate(p.controller, cases[i].steps, -1, cases[i].eval,
                                                   logs, error));
        assert_string_equal(words, cases[i].words);
        assert_int_equal(et_controller_step(p.controller), cases[i].steps);
        assert_ok(et_value_read_int(logs, "steps", &steps, error));
        assert_int_equal(steps, VALIDATION);
        assert_null(et_value_get(logs, "steps_per_second")); /* of all data there is no rate */
        et_value *none = et_value_dict(&arena);
        assert_ok(
            et_controller_train_and_evaluate(p.controller, cases[i].steps, -1, 0, none, error));
        assert_int_equal(none->count, 0);
        finish(&p);
        assert_string_equal(checkpoints(directory), cases[i].saved);
        et_arena_release(&arena);
    }
}

/* Absolute targets, call by call; loops are cut short by the end of a call. */
static void test_outer_loop__calls(void **state)
{
    const char *directory = in(state, "calls");
    play p = { .options = { .steps_per_loop = 4, .checkpoint_interval = 100 } };
    words[0] = 0;
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, true, error));
    assert_string_equal(checkpoints(directory), "");
    assert_ok(et_controller_train_to(p.controller, 3, true, error));
    assert_ok(et_controller_evaluate(p.controller, 2, NULL, error));
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    assert_string_equal(checkpoints(directory), "6 ");
    assert_ok(et_controller_train_to(p.controller, 11, true, error));
    assert_string_equal(words, "L4 t4 L6 t6 V6 e6 L10 t10 L11 t11 ");
    assert_ok(et_controller_save(p.controller, error));
    assert_string_equal(checkpoints(directory), "6 11 ");
    finish(&p);
}

/* Past its target a call trains nothing, and saves unsaved steps once. */
static void test_outer_loop__past_its_target(void **state)
{
    const char *directory = in(state, "past");
    play p = { .options = { .steps_per_loop = 4 } };
    words[0] = 0;
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, true, error));
    assert_ok(et_controller_train_to(p.controller, 3, true, error));
    assert_string_equal(checkpoints(directory), "");
    assert_ok(et_controller_train_to(p.controller, 3, false, error));
    assert_string_equal(checkpoints(directory), "6 ");
    assert_int_equal(et_controller_step(p.controller), 6);
    assert_ok(et_controller_train_and_evaluate(p.controller, 4, -1, 0, NULL, error));
    assert_string_equal(words, "L4 t4 L6 t6 ");
    finish(&p);
}

/* A program that knows its step sets it before it opens the controller, or between two calls. Loops
 * begin there. A checkpoint replaces it. */
static void test_outer_loop__step_of_the_program(void **state)
{
    static const struct {
        int64_t first;
        const char *words, *saved;
    } cases[] = {
        { 0, "L4 t4 L8 t8 L10 t10 ", "10 " },
        { 3, "L7 t7 L10 t10 ", "10 " },
        { 10, "", "10 " },
        { 12, "", "12 " },
    };
    int64_t step;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "own_step"), i);
        for (int again = 0; again < 2; again++) {
            play p = { .options = { .steps_per_loop = 4 } };
            words[0] = 0;
            prepare(&p, directory);
            p.trainer.trainer.step = again ? 5 : cases[i].first;
            assert_ok(et_controller_open(&p.controller, &p.options, error));
            assert_ok(et_controller_train_to(p.controller, 10, false, error));
            assert_string_equal(words, again ? "" : cases[i].words);
            finish(&p);
            assert_string_equal(checkpoints(directory), cases[i].saved);
        }
    }
    play p = { .options = { .steps_per_loop = 4 } };
    int64_t *own = &p.trainer.trainer.step;
    prepare(&p, in(state, "between"));
    *own = 2;
    assert_ok(et_controller_open(&p.controller, &p.options, error));
    words[0] = 0;
    assert_ok(et_controller_train_to(p.controller, 7, true, error));
    *own = 20;
    assert_ok(et_controller_train_to(p.controller, 10, true, error));
    assert_ok(et_controller_train_to(p.controller, 25, true, error));
    *own = 0;
    assert_ok(et_controller_train_to(p.controller, 5, true, error));
    assert_string_equal(words, "L6 t6 L7 t7 L24 t24 L25 t25 L4 t4 L5 t5 ");
    assert_ok(et_controller_restore(p.controller, NULL, &step, error)); /* there is none */
    assert_int_equal(step, -1);
    assert_int_equal(*own, 2);
    *own = -1;
    assert_fails(et_controller_train_to(p.controller, 5, true, error), ET_ECONFIG,
                 "is at step -1; set at least 0");
    finish(&p);
    for (int first = 9; first <= 11; first++) { /* up to train_steps */
        char directory[700];
        play planned = { .options = { .steps_per_loop = 4, .train_steps = 10 } };
        snprintf(directory, sizeof directory, "%s-%d", in(state, "planned"), first);
        prepare(&planned, directory);
        planned.options.outer_loop = NULL;
        planned.trainer.trainer.step = first;
        words[0] = 0;
        assert_ok(et_controller_open(&planned.controller, &planned.options, error));
        assert_ok(et_controller_train(planned.controller, error));
        finish(&planned);
        assert_string_equal(words, first < 10 ? "L10 " : "");
        assert_string_equal(checkpoints(directory), first <= 10 ? "10 " : "11 ");
    }
    play safe = { .options = { .steps_per_loop = 4, .recovery_max_trials = 1 } };
    prepare(&safe, in(state, "recovery"));
    safe.trainer.trainer.step = 3;
    assert_ok(et_controller_open(&safe.controller, &safe.options, error));
    finish(&safe);
    assert_string_equal(checkpoints(in(state, "recovery")), "3 ");
    play wrong = { .options = { .steps_per_loop = 4 } };
    prepare(&wrong, NULL);
    wrong.trainer.trainer.step = -7;
    assert_fails(et_controller_open(&wrong.controller, &wrong.options, error), ET_ECONFIG,
                 "is at step -7; set at least 0");
    finish(&wrong);
}

/* Lines for people. */
static void test_outer_loop__lines(void **state)
{
    const char *directory = in(state, "lines");
    play p = { .options = { .steps_per_loop = 2 } };
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 2, false, error));
    assert_ok(et_controller_evaluate(p.controller, 3, NULL, error));
    assert_ok(et_controller_evaluate(p.controller, -1, NULL, error));
    assert_ok(et_controller_save(p.controller, error));
    static const char *const lines[] = {
        "restoring or initializing model...\n",
        "train | step:      0 | training until step 2...\n",
        "train | step:      2 | steps/sec: ",
        " | output: {\"sum\":",
        "saving checkpoint to ",
        " eval | step:      2 | running 3 steps of evaluation...\n",
        " eval | step:      2 | steps/sec: ",
        " | eval time: ",
        " eval | step:      2 | running complete evaluation...\n",
        " eval | step:      2 | eval time:    0.0 sec | output: {\"steps\":5,",
        "saved checkpoint to ",
        "/checkpoints/ckpt-2.\n",
    };
    const char *at = p.told;
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        at = strstr(at, lines[i]);
        if (!at)
            fail_msg("\"%s\" is not in its place in:\n%s", lines[i], p.told);
    }
    finish(&p);
}

/* Without values of the trainer, there is only the rate, and only if the number of steps is known.
 * Nested values are kept unchanged. */
static void test_outer_loop__values(void **state)
{
    const char *directory = in(state, "values");
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    double rate;
    play p = { .silent = true, .options = { .steps_per_loop = 2 } };
    begin(&p, directory);
    assert_ok(et_controller_evaluate(p.controller, 5, logs, error));
    assert_int_equal(logs->count, 1);
    assert_ok(et_value_read_float(logs, "steps_per_second", &rate, error));
    assert_true(rate > 0);
    logs = et_value_dict(&arena);
    assert_ok(et_controller_evaluate(p.controller, -1, logs, error));
    assert_int_equal(logs->count, 0);
    p.silent = false;
    p.nested = true;
    assert_ok(et_controller_evaluate(p.controller, -1, logs, error));
    assert_non_null(et_value_path(logs, "sets.one.first"));
    assert_non_null(
        strstr(logged(directory), "{\"step\":0,\"validation\":{\"sets\":{\"one\":{\"steps\":5,"));
    char path[800];
    snprintf(path, sizeof path, "%s/validation/sets/one", directory);
    assert_true(file_is_there(path));
    finish(&p);
    et_arena_release(&arena);
}

/* A trainer's logs, with a directory for each of its groups; an evaluator's logs are in another. */
static void test_outer_loop__directories(void **state)
{
    const char *directory = in(state, "directories");
    char path[800];
    play p = { .nested = true, .options = { .steps_per_loop = 2 } };
    begin(&p, directory);
    char sums[2][50], weights[100] = "";
    for (int loop = 0; loop < 2; loop++) {
        const int to = 2 * (loop + 1);
        assert_ok(et_controller_train_to(p.controller, to, false, error));
        snprintf(sums[loop], sizeof sums[loop], "%d sum %lld\n%d time/steps_per_second ", to,
                 (long long)p.loop_sum, to);
        snprintf(weights + strlen(weights), 50, "%d first %g\n", to,
                 (double)et_params_values(p.params)[0]);
    }
    assert_ok(et_controller_evaluate(p.controller, -1, NULL, error));
    snprintf(path, sizeof path, "%s/train", directory);
    const char *first = strstr(event_lines(path), sums[0]);
    assert_ptr_equal(first, event_lines(path));
    assert_non_null(strstr(first, sums[1]));
    snprintf(path, sizeof path, "%s/train/weight", directory);
    assert_string_equal(event_lines(path), weights);
    snprintf(path, sizeof path, "%s/validation/sets/one", directory);
    assert_non_null(strstr(event_lines(path), "4 steps 5\n"));
    assert_null(strstr(event_lines(path), "sum"));
    finish(&p);
}

/* ---- summaries that are handed in ---- */

typedef struct memory_sink {
    et_sink sink;
    char text[1000];
    int flushed;
} memory_sink;

static int remember(et_sink *self, int64_t at, const et_value *values, et_error *error)
{
    memory_sink *m = (memory_sink *)self;
    size_t length = strlen(m->text);
    (void)error;
    snprintf(m->text + length, sizeof m->text - length, "%d:", (int)at);
    for (const et_value *v = values->first; v; v = v->next) {
        length = strlen(m->text);
        snprintf(m->text + length, sizeof m->text - length, "%s ", v->key);
    }
    return ET_OK;
}

static int flush(et_sink *self, et_error *error)
{
    (void)error;
    ((memory_sink *)self)->flushed++;
    return ET_OK;
}

static const et_sink_class memory_class = { .name = "memory", .write = remember, .flush = flush };

/* An evaluation's own sink is always used; without one it uses the trainer's. */
static void test_outer_loop__summaries(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        memory_sink train = { .sink.class = &memory_class }, eval = { .sink.class = &memory_class };
        play p = { .options = { .steps_per_loop = 2 } };
        p.outer.summaries = &train.sink;
        p.outer.eval_summaries = own ? &eval.sink : NULL;
        begin(&p, NULL);
        assert_ok(et_controller_train_and_evaluate(p.controller, 4, -1, 0, NULL, error));
        assert_string_equal(train.text, own ? "2:sum weight time 4:sum weight time "
                                            : "2:sum weight time 4:sum weight time "
                                              "4:steps first unknown time ");
        assert_string_equal(eval.text, own ? "4:steps first unknown time " : "");
        assert_int_equal(train.flushed + eval.flushed, 3);
        finish(&p);
    }
}

/* Records once every summary_interval steps, at the steps at which planned runs log. */
static int step_and_record(et_trainer *self, et_error *error)
{
    (void)error;
    if (et_trainer_records(self))
        say("r%d ", (int)self->step + 1);
    return ET_OK;
}

/* A step that writes a scalar and a histogram, every two steps. */
static int step_and_summarize(et_trainer *self, et_error *error)
{
    const double values[] = { 1, 2, (double)self->step };
    et_summary *summary = NULL;
    if (!et_trainer_records(self))
        return ET_OK;
    int status = et_summary_new(&summary, error);
    if (!status)
        status = et_summary_add_scalar(summary, "number", (double)self->step, error);
    if (!status)
        status = et_summary_add_histogram(summary, "values", values, 3, error);
    if (!status)
        status = et_trainer_write_summary(self, summary, error);
    et_summary_free(summary);
    return status;
}

/* With the logs of training; also in a run that goes on from an older checkpoint, and up to
 * train_steps. */
static void test_outer_loop__summaries_of_steps(void **state)
{
    static const et_trainer_class class = { .name = "summarizes", .step = step_and_summarize };
    const et_outer_loop_options outer = { 0 };
    memory_sink other = { .sink.class = &memory_class };
    const et_outer_loop_options to_memory = { .summaries = &other.sink };
    et_trainer t = { .class = &class, .summary_interval = 1 };
    et_controller_options options = { .trainer = &t,
                                      .outer_loop = &outer,
                                      .steps_per_loop = 2,
                                      .summary_interval = 2,
                                      .run.model_dir = in(state, "of_steps") };
    et_controller *c;
    char lines[4096];
    assert_ok(et_trainer_train(&t, 1, NULL, error)); /* without a driver */
    for (int process = 0; process < 2; process++) {
        t.step = 0;
        assert_ok(et_controller_open(&c, &options, error));
        assert_ok(et_controller_train_to(c, process ? 8 : 4, false, error));
        assert_ok(et_controller_train_to(c, process ? 8 : 7, true, error));
        assert_ok(et_controller_close(c, error));
    }
    snprintf(lines, sizeof lines, "%s", event_lines(below(options.run.model_dir, "train")));
    int count = 0;
    for (const char *at = lines; (at = strstr(at, "number")) != NULL; at++)
        count++;
    assert_int_equal(count, 4);
    for (int step = 2; step <= 8; step += 2) {
        char line[40];
        snprintf(line, sizeof line, "%d number %d\n", step, step - 1);
        assert_non_null(strstr(lines, line));
    }
    assert_ok(et_trainer_train(&t, 1, NULL, error)); /* the controller is closed */

    t.step = 0;
    options.outer_loop = NULL;
    options.train_steps = 4;
    options.run.model_dir = in(state, "of_planned");
    assert_ok(et_controller_open(&c, &options, error));
    assert_ok(et_controller_train(c, error));
    assert_ok(et_controller_close(c, error));
    assert_non_null(strstr(event_lines(below(options.run.model_dir, "train")), "4 number 3\n"));

    t.step = 0;
    options.outer_loop = &to_memory;
    assert_ok(et_controller_open(&c, &options, error));
    assert_ok(et_controller_close(c, error));
    options.run.model_dir = NULL;
    t.step = 0;
    assert_ok(et_controller_open(&c, &options, error));
    assert_fails(et_controller_train_to(c, 4, false, error), ET_EUSAGE,
                 "memory: a serialized summary can only be written to event files");
    assert_ok(et_controller_close(c, error));
}

/* A trainer's own inner loop; nothing is kept without a directory. */
static int train_by_itself(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error)
{
    (void)error;
    self->step += self->step == 6 ? num_steps + 1 : num_steps;
    et_value_set_int(logs, "sum", num_steps);
    say("n%d ", (int)num_steps);
    return ET_OK;
}

static void test_outer_loop__trainers(void **state)
{
    static const et_trainer_class records = { .name = "records", .step = step_and_record };
    static const et_trainer_class whole = { .name = "whole", .train = train_by_itself };
    et_trainer t = { .class = &records };
    et_outer_loop_options outer = { 0 };
    et_controller_options options = {
        .trainer = &t, .outer_loop = &outer, .steps_per_loop = 2, .summary_interval = 4
    };
    et_controller *c;
    (void)state;
    words[0] = 0;
    assert_ok(et_controller_open(&c, &options, error));
    assert_ok(et_controller_train_to(c, 9, false, error));
    assert_string_equal(words, "r4 r8 ");
    assert_ok(et_controller_close(c, error));

    words[0] = 0;
    t = (et_trainer){ .class = &whole };
    assert_ok(et_controller_open(&c, &options, error));
    assert_ok(et_controller_train_to(c, 5, false, error));
    assert_ok(et_controller_train_to(c, 6, false, error));
    assert_string_equal(words, "n2 n2 n1 n1 ");
    assert_fails(et_controller_train_to(c, 9, false, error), ET_EFAIL,
                 "whole was called to advance from step 6 to 8, but is at 9");
    assert_int_equal(t.step, 6);
    assert_ok(et_controller_close(c, error));
}

static int count_alone(et_trainer *self, et_error *error)
{
    (void)error;
    self->step += self->step == 6;
    return ET_OK;
}

/* A wrong count is corrected; nothing is trained or saved with it until a restore. */
static void test_outer_loop__wrong_count(void **state)
{
    static const et_trainer_class whole = { .name = "whole", .train = train_by_itself },
                                  steps = { .name = "whole", .step = count_alone };
    char name[16], directory[600];
    int64_t step;
    for (int own = 0; own < 2; own++) {
        et_trainer t = { .class = own ? &whole : &steps };
        et_outer_loop_options outer = { 0 };
        et_controller *c;
        snprintf(name, sizeof name, "wrong%d", own);
        snprintf(directory, sizeof directory, "%s", in(state, name));
        et_controller_options options = {
            .trainer = &t, .outer_loop = &outer, .steps_per_loop = 2, .run.model_dir = directory
        };
        assert_ok(et_controller_open(&c, &options, error));
        assert_ok(et_controller_train_to(c, 4, false, error));
        for (int again = 0; again < 2; again++) {
            assert_fails(et_controller_train_to(c, 20, false, error), ET_EFAIL,
                         own ? "from step 6 to 8, but is at 9" : "from step 6 to 7, but is at 8");
            assert_int_equal(t.step, 6);
        }
        assert_fails(et_controller_save(c, error), ET_EFAIL, "was called to advance from step");
        assert_ok(et_controller_restore(c, NULL, &step, error));
        assert_int_equal(step, 4);
        assert_int_equal(t.step, 4);
        assert_ok(et_controller_train_to(c, 6, false, error));
        assert_ok(et_controller_close(c, error));
    }
    et_trainer t = { .class = &steps, .step = 6 };
    assert_fails(et_trainer_train(&t, 3, NULL, error), ET_EFAIL, "from step 6 to 7, but is at 8");
    assert_int_equal(t.step, 6);
}

/* All steps of a trainer's own loop count: the rate is at least the steps divided by the whole
 * time. */
static void test_outer_loop__rate_of_own_loops(void **state)
{
    static const et_trainer_class whole = { .name = "whole", .train = train_by_itself };
    et_trainer t = { .class = &whole };
    et_outer_loop_options outer = { 0 };
    et_controller_options options = { .trainer = &t,
                                      .outer_loop = &outer,
                                      .steps_per_loop = 1000,
                                      .summary_interval = 2000,
                                      .run.model_dir = in(state, "rate") };
    et_controller *c;
    char path[700];
    double rate = 0, began = et_clock_monotonic();
    assert_ok(et_controller_open(&c, &options, error));
    assert_ok(et_controller_train_to(c, 2000, false, error));
    assert_ok(et_controller_close(c, error));
    double all = et_clock_monotonic() - began;
    snprintf(path, sizeof path, "%s/metrics.jsonl", in(state, "rate"));
    char *text = get_file(path, &(size_t){ 0 });
    const char *log = strstr(text, "\"steps_per_second\":");
    assert_true(log && sscanf(log, "\"steps_per_second\":%lf", &rate) == 1);
    assert_true(rate * all >= 1000);
    free(text);
}

/* ---- refusals ---- */

static void test_outer_loop__refused_options(void **state)
{
    static const et_trainer_class nothing = { .name = "nothing" };
    static const et_trainer_class whole = { .name = "whole", .train = train_by_itself };
    et_trainer empty = { .class = &nothing }, own = { .class = &whole };
    play p = { .stop = 0 };
    prepare(&p, NULL);
    et_trainer *t = &p.trainer.trainer;
    et_outer_loop_options none = { 0 }, negative = { .eval_action_count = -1 };
    const struct {
        et_controller_options options;
        int status;
        const char *words;
    } cases[] = {
        { { .outer_loop = &none }, ET_EUSAGE, "should not both be NULL" },
        { { .outer_loop = &none, .trainer = t }, ET_ECONFIG, "`steps_per_loop` is required" },
        { { .outer_loop = &none, .trainer = t, .steps_per_loop = -1 }, ET_ECONFIG, "at least 0" },
        { { .outer_loop = &none, .trainer = t, .steps_per_loop = 4, .summary_interval = 6 },
          ET_ECONFIG,
          "`summary_interval` (6) must be a multiple of `steps_per_loop` (4)" },
        { { .outer_loop = &none, .trainer = t, .steps_per_loop = 4, .summary_interval = -4 },
          ET_ECONFIG,
          "at least 0" },
        { { .outer_loop = &none, .trainer = t, .steps_per_loop = 4, .validation_interval = 4 },
          ET_ECONFIG,
          "with outer_loop, call et_controller_evaluate instead" },
        { { .outer_loop = &negative, .trainer = t, .steps_per_loop = 4 }, ET_ECONFIG, "negative" },
        { { .outer_loop = &none, .trainer = &empty, .steps_per_loop = 4 },
          ET_EUSAGE,
          "a trainer needs either step or train" },
        { { .trainer = &own, .steps_per_loop = 4, .run.model_dir = in(state, "own") },
          ET_EUSAGE,
          "set et_controller_options.outer_loop" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_controller *c;
        assert_fails(et_controller_open(&c, &cases[i].options, error), cases[i].status,
                     cases[i].words);
        assert_null(c);
    }
    finish(&p);
}

static int64_t no_steps(void *payload, int64_t at)
{
    (void)payload, (void)at;
    return 0;
}

static void test_outer_loop__refused_calls(void **state)
{
    play p = { .options = { .steps_per_loop = 2 } }, q = { .stop = 0 }, r = { .stop = 0 };
    play s = { .stop = 0 }, t = { .stop = 0 };
    int64_t step;
    begin(&p, NULL);
    et_controller *c = p.controller;
    for (int steps = -2; steps <= 0; steps += 2) {
        assert_fails(et_controller_evaluate(c, steps, NULL, error), ET_ECONFIG,
                     "steps of evaluation; give at least 1, or -1 for all data");
        assert_fails(et_controller_train_and_evaluate(c, 5, steps, 0, NULL, error), ET_ECONFIG,
                     "steps of evaluation; give at least 1, or -1 for all data");
    }
    assert_fails(et_controller_train_to(c, -1, false, error), ET_ECONFIG, "at least 0");
    assert_fails(et_controller_train_and_evaluate(c, 5, -1, -1, NULL, error), ET_ECONFIG,
                 "at least 0");
    assert_fails(et_controller_save(c, error), ET_EUSAGE, "`run.model_dir` is not set");
    assert_fails(et_controller_restore(c, NULL, &step, error), ET_EUSAGE, "`run.model_dir`");
    assert_fails(et_controller_evaluate_continuously(c, 1, 0, NULL, NULL, NULL, error), ET_EUSAGE,
                 "`run.model_dir`");
    assert_fails(et_controller_train(c, error), ET_EUSAGE, "et_controller_train_to");
    assert_false(et_controller_finished(c));
    finish(&p);

    q.options.steps_per_loop = 2;
    q.outer.steps_per_loop = no_steps;
    prepare(&q, in(state, "refused calls"));
    q.options.evaluator = NULL;
    assert_ok(et_controller_open(&q.controller, &q.options, error));
    c = q.controller;
    assert_int_equal(et_controller_steps_per_loop(c), 0);
    assert_fails(et_controller_train_to(c, 4, false, error), ET_ECONFIG,
                 "steps_per_loop gives 0 after step 0; it must give at least 1");
    assert_fails(et_controller_evaluate(c, 1, NULL, error), ET_EUSAGE, "`evaluator` is not set");
    assert_fails(et_controller_train_and_evaluate(c, 4, 1, 0, NULL, error), ET_EUSAGE,
                 "`evaluator` is not set");
    assert_fails(et_controller_evaluate_continuously(c, 1, 0, NULL, NULL, NULL, error), ET_EUSAGE,
                 "`evaluator` is not set");
    finish(&q);

    s.options.steps_per_loop = 2;
    prepare(&s, in(state, "refused calls"));
    s.outer.weights = s.params;
    assert_ok(et_controller_open(&s.controller, &s.options, error));
    assert_fails(et_controller_evaluate_continuously(s.controller, 1, 0, NULL, NULL, NULL, error),
                 ET_EUSAGE, "`trainer` is set");
    finish(&s);
    t.options.steps_per_loop = 2;
    t.options.recovery_max_trials = 1;
    prepare(&t, NULL);
    assert_fails(et_controller_open(&t.controller, &t.options, error), ET_ECONFIG,
                 "a run without model_dir has no checkpoint to go back to");
    finish(&t);

    prepare(&r, in(state, "refused calls"));
    r.options.trainer = NULL;
    assert_ok(et_controller_open(&r.controller, &r.options, error));
    assert_fails(et_controller_evaluate_continuously(r.controller, 1, 0, NULL, NULL, NULL, error),
                 ET_EUSAGE, "`outer_loop.weights` is not set");
    assert_fails(et_controller_restore(r.controller, NULL, &step, error), ET_EUSAGE,
                 "`outer_loop.weights` is not set");
    assert_fails(et_controller_train_and_evaluate(r.controller, 4, 1, 0, NULL, error), ET_EUSAGE,
                 "`trainer` is not set");
    assert_fails(et_controller_save(r.controller, error), ET_EUSAGE, "`trainer` is not set");
    finish(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outer_loop__order),
        cmocka_unit_test(test_outer_loop__calls),
        cmocka_unit_test(test_outer_loop__past_its_target),
        cmocka_unit_test(test_outer_loop__step_of_the_program),
        cmocka_unit_test(test_outer_loop__summaries_of_steps),
        cmocka_unit_test(test_outer_loop__lines),
        cmocka_unit_test(test_outer_loop__values),
        cmocka_unit_test(test_outer_loop__directories),
        cmocka_unit_test(test_outer_loop__summaries),
        cmocka_unit_test(test_outer_loop__trainers),
        cmocka_unit_test(test_outer_loop__wrong_count),
        cmocka_unit_test(test_outer_loop__rate_of_own_loops),
        cmocka_unit_test(test_outer_loop__refused_options),
        cmocka_unit_test(test_outer_loop__refused_calls),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
