/* The loop around a trainer's steps: when each action acts, with which values, and what happens if
 * a run is interrupted, fails or ends. Events are recorded as words:
 *
 *     L4     a log after step 4       V5   an evaluation         a3   action a
 *     a3!    at the end of the run    b5v  with an evaluation's values at hand */
#include "systems/orbit/controller.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/aborts.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/values/value.h"
#include "formats/files.h"
#include "skip.h"
#include "systems/orbit/controller_private.h"
#include "train/logged.h"
#include "train/run/run.h"
#include "train/said.h"

enum { STEPS = 10, BATCHES = 3, ACTIONS_MAX = 4 };

/* ---- a trainer, an evaluator and actions ---- */

/* Counts; where something is interrupted or fails is the test's. */
typedef struct toy {
    et_trainer trainer;
    et_evaluator evaluator;
    int64_t total, window; /* sums of steps' numbers: in all, since the last log */
    int64_t made;          /* the last step of this process */
    int batches;           /* of the evaluation under way */
    int64_t evaluated;     /* step */
    int started;
    volatile sig_atomic_t stop;
    int countdown;      /* words until a failure; 0: no failure */
    int breaks;         /* with this status */
    int64_t stop_after; /* this step: asked to stop; 0: never; -1: before the first */
    int64_t diverges;   /* in this step, once */
    bool looks_again;   /* an interrupted run evaluates its last step */
    bool gathers;       /* its class does */
    double pause;       /* seconds that a batch of an evaluation takes */
    double evaluating;  /* seconds, in all */
    bool improving;     /* at its end */
    et_controller *controller;
} toy;

static toy *toy_of(void *member, size_t offset)
{
    return (toy *)(void *)((char *)member - offset);
}

/* Whether the current word is to fail. */
static int broken(toy *t, et_error *error)
{
    if (t->countdown == 0 || --t->countdown)
        return ET_OK;
    return t->breaks == ET_EINTERRUPTED ? ET_EINTERRUPTED : et_fail(error, t->breaks, "broken");
}

static int save_toy(const void *self, et_value *dict, et_error *error)
{
    const toy *t = self;
    (void)error;
    et_value_set_int(dict, "total", t->total);
    return !et_value_set_int(dict, "window", t->window);
}

static int restore_toy(void *self, const et_value *dict, et_error *error)
{
    toy *t = self;
    int status = et_value_read_int(dict, "total", &t->total, error);
    return status ? status : et_value_read_int(dict, "window", &t->window, error);
}

static const et_part_class toy_part = { "toy", save_toy, restore_toy };

static int attach(et_trainer *self, et_state *state, et_error *error)
{
    return et_state_add(state, "toy", &toy_part, self, error);
}

static int start(et_trainer *self, et_error *error)
{
    (void)error;
    toy_of(self, offsetof(toy, trainer))->started++;
    return ET_OK;
}

static int loop_begin(et_trainer *self, et_error *error)
{
    (void)error;
    toy_of(self, offsetof(toy, trainer))->window = 0;
    return ET_OK;
}

static int step(et_trainer *self, et_error *error)
{
    toy *t = toy_of(self, offsetof(toy, trainer));
    int64_t number = self->step + 1;
    if (number == t->diverges) {
        t->diverges = 0;
        return et_fail(error, ET_EDIVERGED, "diverged");
    }
    t->total += number;
    t->window += number;
    t->made = number;
    t->stop = number == t->stop_after;
    return ET_OK;
}

static int loop_end(et_trainer *self, et_value *logs, et_error *error)
{
    toy *t = toy_of(self, offsetof(toy, trainer));
    int status = broken(t, error);
    if (status)
        return status;
    say("L%d ", (int)self->step);
    et_value_set_int(logs, "window", t->window);
    return ET_OK;
}

/* Of the last step, which only the process that made it knows. */
static void view(const et_trainer *self, et_trainer_view *view)
{
    const int64_t made = ((const toy *)((const char *)self - offsetof(toy, trainer)))->made;
    view->learning_rate = 1 / (double)(made + 1);
    view->epoch = made / 3 + 1;
}

static const et_trainer_class trainer_class = { .name = "toy",
                                                .attach = attach,
                                                .start = start,
                                                .loop_begin = loop_begin,
                                                .step = step,
                                                .loop_end = loop_end,
                                                .view = view };

static int gather(et_trainer *self, et_error *error)
{
    (void)error;
    say("g%d ", (int)self->step);
    return ET_OK;
}

static const et_trainer_class gathering_class = { .name = "toy",
                                                  .attach = attach,
                                                  .start = start,
                                                  .loop_begin = loop_begin,
                                                  .step = step,
                                                  .loop_end = loop_end,
                                                  .gather = gather };

static int evaluate_begin(et_evaluator *self, int64_t at, et_error *error)
{
    toy *t = toy_of(self, offsetof(toy, evaluator));
    (void)error;
    t->batches = 0;
    t->evaluated = at;
    return ET_OK;
}

static int evaluate_step(et_evaluator *self, bool *more, et_error *error)
{
    toy *t = toy_of(self, offsetof(toy, evaluator));
    double began = et_clock_monotonic();
    (void)error;
    *more = ++t->batches < BATCHES;
    if (t->pause > 0)
        et_clock_sleep(t->pause);
    t->evaluating += et_clock_monotonic() - began;
    return ET_OK;
}

static int evaluate_end(et_evaluator *self, et_value *logs, et_error *error)
{
    toy *t = toy_of(self, offsetof(toy, evaluator));
    int status = logs ? broken(t, error) : ET_OK;
    if (status || !logs)
        return status;
    say("V%d ", (int)t->evaluated);
    et_value_set_int(logs, "batches", t->batches);
    et_value_set_int(logs, "total", t->total);
    et_value_set_float(logs, "unknown", NAN);
    et_value *scores = et_value_set_list(logs, "scores");
    et_value_add_float(scores, 0.1);
    et_value_add_float(scores, NAN);
    et_value_add_int(et_value_add_list(scores), 3);
    et_value_set_float(et_value_add_dict(scores), "x", -INFINITY);
    et_value_add_string(scores, "four");
    et_value_set_null(logs, "nothing");
    return ET_OK;
}

/* Scores as evaluate_end made them, also in a run that was resumed after it. */
static void check_scores(const et_value *logs)
{
    const et_value *scores = et_value_get(logs, "scores"), *nothing = et_value_get(logs, "nothing");
    assert_true(scores && scores->kind == ET_VALUE_LIST && scores->count == 5);
    assert_true(et_value_path(logs, "scores[0]")->real == 0.1);
    assert_true(isnan(et_value_path(logs, "scores[1]")->real));
    assert_int_equal(et_value_path(logs, "scores[2][0]")->integer, 3);
    assert_true(et_value_path(logs, "scores[3].x")->real == -INFINITY);
    assert_string_equal(et_value_path(logs, "scores[4]")->string, "four");
    assert_true(nothing && nothing->kind == ET_VALUE_NULL);
}

static const et_evaluator_class evaluator_class = {
    .name = "validation", .begin = evaluate_begin, .step = evaluate_step, .end = evaluate_end
};

typedef struct acting {
    et_action action;
    toy *toy;
    int64_t every;              /* 0: never due */
    int64_t only;               /* an additional step */
    int64_t ends_at;            /* asks to end the run at this step */
    int64_t changes_at, length; /* at this step the run gets this length */
} acting;

static int64_t due(const et_action *self, int64_t after)
{
    const acting *a = (const acting *)self;
    int64_t next = a->every ? (after / a->every + 1) * a->every : ET_ACTION_NEVER;
    return a->only > after && a->only < next ? a->only : next;
}

static int act(et_action *self, const et_action_context *now, et_error *error)
{
    acting *a = (acting *)self;
    int status = broken(a->toy, error);
    if (status)
        return status;
    say("%s%d%s%s ", self->class->name, (int)now->step, now->end ? "!" : "", now->logs ? "v" : "");
    int64_t batches;
    double unknown;
    if (now->logs) {
        assert_int_equal(et_value_read_int(now->logs, "batches", &batches, NULL), ET_OK);
        assert_int_equal(batches, BATCHES);
        assert_int_equal(et_value_read_float(now->logs, "unknown", &unknown, NULL), ET_OK);
        assert_true(isnan(unknown));
        check_scores(now->logs);
    }
    if (a->length && now->step == a->changes_at)
        et_controller_set_length(a->toy->controller, a->length);
    if (now->step == a->changes_at)
        a->length = 0;
    *now->stop = *now->stop || now->step == a->ends_at;
    return ET_OK;
}

static const et_action_class class_a = { "a", due, act };
static const et_action_class class_b = { "b", due, act };
static const et_action_class class_c = { "c", due, act };
static const et_action_class class_log = { "log", due, act };

/* ---- runs ---- */

typedef struct script {
    acting acting[ACTIONS_MAX]; /* ended by one without a class */
    et_controller_options options;
} script;

/* Opens, trains, closes: a process. */
static int process(toy *t, const script *s, const char *directory, et_error *error)
{
    acting copies[ACTIONS_MAX];
    et_action *actions[ACTIONS_MAX];
    et_controller_options options = s->options;
    et_controller *controller;
    t->trainer.class = t->gathers ? &gathering_class : &trainer_class;
    t->evaluator.class = &evaluator_class;
    t->stop = t->stop_after < 0;
    for (int i = 0; i < ACTIONS_MAX && s->acting[i].action.class; i++) {
        copies[i] = s->acting[i];
        copies[i].toy = t;
        actions[i] = &copies[i].action;
        options.action_count = i + 1;
    }
    options.actions = actions;
    options.trainer = &t->trainer;
    options.evaluator = options.validation_interval ? &t->evaluator : NULL;
    options.run.model_dir = directory;
    options.run.max_to_keep = 2;
    options.run.stop = &t->stop;
    int status = et_controller_open(&controller, &options, error);
    t->controller = controller;
    if (!status)
        status = et_controller_train(controller, error);
    if (status == ET_EINTERRUPTED && t->looks_again) {
        t->stop = 0;
        assert_int_equal(et_controller_evaluate_last(controller, error), ET_OK);
    }
    t->improving = controller && et_controller_facts_of(controller).improving;
    int closed = et_controller_close(controller, status ? NULL : error);
    return status ? status : closed;
}

static const et_controller_options usual = { .train_steps = STEPS,
                                             .steps_per_loop = 1000,
                                             .summary_interval = 4,
                                             .validation_interval = 5,
                                             .checkpoint_interval = 5 };

/* a acts at 3, 6, 9, b at 5 only, and both at the end. */
static script two_actions(void)
{
    return (script){
        { { .action = { &class_a }, .every = 3 }, { .action = { &class_b }, .only = 5 } }, usual
    };
}

#define TWO_ACTIONS "a3 L4 V5 b5v a6 L8 a9 L10 V10 a10!v b10!v "

static void test_controller__order(void **state)
{
    static const struct {
        int64_t train_steps, per_loop, summary, validation;
        const char *words;
    } cases[] = {
        { 10, 1000, 4, 5, TWO_ACTIONS },       { 10, 1, 4, 5, TWO_ACTIONS },
        { 10, 7, 4, 5, TWO_ACTIONS },          { 6, 1000, 0, 0, "a3 b5 L6 a6! b6! " },
        { 5, 2, 5, 5, "a3 L5 V5 a5!v b5!v " }, { 1, 9, 0, 1, "L1 V1 a1!v b1!v " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy t = { 0 };
        script s = two_actions();
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "order"), i);
        s.options.train_steps = cases[i].train_steps;
        s.options.steps_per_loop = cases[i].per_loop;
        s.options.summary_interval = cases[i].summary;
        s.options.validation_interval = cases[i].validation;
        words[0] = 0;
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, cases[i].words);
        assert_int_equal(t.trainer.step, cases[i].train_steps);
        assert_int_equal(t.total, cases[i].train_steps * (cases[i].train_steps + 1) / 2);
        assert_int_equal(t.started, 1);
    }
}

/* All actions of a run also act without a directory, but nothing is saved. */
static void test_controller__without_a_directory(void **state)
{
    (void)state;
    toy t = { 0 };
    script s = two_actions();
    s.options.train_steps = 10;
    s.options.summary_interval = 4;
    s.options.validation_interval = 5;
    words[0] = 0;
    assert_ok(process(&t, &s, NULL, error));
    assert_string_equal(words, TWO_ACTIONS);
    assert_int_equal(t.trainer.step, 10);
}

/* Values that are elsewhere are gathered before anything acts: an evaluation, a log, an action or a
 * save. */
static void test_controller__gathers(void **state)
{
    toy t = { .gathers = true };
    script s = { { { .action = { &class_a }, .every = 3 } }, usual };
    s.options.train_steps = 4;
    s.options.summary_interval = 4;
    s.options.validation_interval = 2;
    s.options.checkpoint_interval = 1;
    words[0] = 0;
    assert_ok(process(&t, &s, in(state, "gathers"), error));
    assert_string_equal(words, "g1 g2 V2 g2 g3 a3 g3 g4 L4 g4 V4 g4 a4!v g4 ");
}

/* In Orbit, the steps per second of a log after an evaluation include its time; here they do not:
 * the time that follows from the rate excludes the evaluations' seconds. */
static void test_controller__rate(void **state)
{
    toy t = { .pause = 0.02 };
    script s = { .options = usual };
    char path[700];
    s.options.summary_interval = 0; /* one log, at the end, after the evaluations at 2, 4, 6, 8 */
    s.options.validation_interval = 2;
    double began = et_clock_monotonic();
    assert_ok(process(&t, &s, in(state, "rate"), error));
    double all = et_clock_monotonic() - began, rate = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", in(state, "rate"));
    char *text = get_file(path, &(size_t){ 0 });
    const char *log = strstr(text, "\"train\":");
    log = log ? strstr(log, "\"steps_per_second\":") : NULL;
    assert_true(log && sscanf(log, "\"steps_per_second\":%lf", &rate) == 1);
    assert_null(strstr(log + 1, "\"train\":"));
    assert_true(t.evaluating >= 5 * BATCHES * t.pause);
    assert_true(STEPS / rate <= all - t.evaluating);
    free(text);
}

/* Runs a controller that fails at the n-th word, again and again until it is done. */
static int with_a_break(const script *s, const char *directory, int countdown, int status,
                        int64_t stop_after, toy *last)
{
    int processes = 0;
    for (;;) {
        et_error error = ET_ERROR_INIT;
        *last = (toy){ .countdown = processes ? 0 : countdown,
                       .breaks = status,
                       .stop_after = processes ? 0 : stop_after };
        int found = process(last, s, directory, &error);
        if (++processes > 1 || !found) {
            if (found)
                fail_msg("%s", error.text);
            return processes;
        }
        assert_int_equal(found, status);
        if (status == ET_EINTERRUPTED && !strstr(error.text, "interrupted: saved step "))
            fail_msg("%s", error.text);
    }
}

/* Whether an evaluation, an action or the steps between are interrupted, the run resumes with it:
 * all act as often, in the order and with the values as without an interruption. */
static void test_controller__interrupted(void **state)
{
    script s = two_actions();
    toy unbroken = { 0 };
    words[0] = 0;
    assert_ok(process(&unbroken, &s, in(state, "whole"), error));
    int breaks = 0;
    for (int n = 1; n < 40; n++) {
        toy t;
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d", in(state, "interrupted"), n);
        words[0] = 0;
        /* The last of them are stops after a step instead. */
        int processes = n <= 30 ? with_a_break(&s, directory, n, ET_EINTERRUPTED, 0, &t)
                                : with_a_break(&s, directory, 0, ET_EINTERRUPTED, n - 30, &t);
        breaks += processes > 1;
        if (strcmp(words, TWO_ACTIONS) != 0)
            fail_msg("broken at %d: %s", n, words);
        assert_int_equal(t.total, unbroken.total);
        assert_string_equal(logged(directory), logged(in(state, "whole")));
    }
    assert_int_equal(breaks, 11 + 9); /* words, and steps but the last */
}

/* A failure leaves the last checkpoint: from there on all is done again, logs included. */
static void test_controller__failed(void **state)
{
    script s = two_actions();
    toy unbroken = { 0 };
    assert_ok(process(&unbroken, &s, in(state, "whole too"), error));
    for (int n = 1; n <= 11; n++) {
        toy t;
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d", in(state, "failed"), n);
        assert_int_equal(with_a_break(&s, directory, n, ET_EIO, 0, &t), 2);
        assert_int_equal(t.total, unbroken.total);
        assert_int_equal(t.started, n <= 4); /* without a checkpoint it starts again */
        assert_string_equal(logged(directory), logged(in(state, "whole too")));
    }
}

/* An action ends the run: everything that was due at that step has acted once, the rest acts as at
 * an end, the save last. The run stays finished, and if it is interrupted meanwhile, it continues
 * there. */
static void test_controller__ended(void **state)
{
    static const struct {
        int64_t ends_at;
        const char *words;
    } cases[] = { { 6, "a3 c3 L4 V5 a6 c6 L6 V6 b6!v " },
                  { 9, "a3 c3 L4 V5 a6 c6 L8 a9 c9 L9 V9 b9!v " } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int n = 0; n < 12; n++) {
            toy t;
            char directory[700];
            script s = { { { .action = { &class_a }, .every = 3 },
                           { .action = { &class_c }, .every = 3, .ends_at = cases[i].ends_at },
                           { .action = { &class_b }, .every = 100 } },
                         usual };
            snprintf(directory, sizeof directory, "%s-%zu-%d", in(state, "ended"), i, n);
            words[0] = 0;
            with_a_break(&s, directory, n, ET_EINTERRUPTED, 0, &t);
            if (strcmp(words, cases[i].words) != 0)
                fail_msg("broken at %d: %s", n, words);
            assert_int_equal(t.trainer.step, cases[i].ends_at);
            char saved[800];
            snprintf(saved, sizeof saved, "%s/checkpoints/ckpt-%d.safetensors", directory,
                     (int)cases[i].ends_at);
            assert_true(file_is_there(saved));
            words[0] = 0;
            t = (toy){ 0 };
            assert_ok(process(&t, &s, directory, error));
            assert_string_equal(words, "");
            assert_int_equal(t.trainer.step, cases[i].ends_at);
        }
}

/* The sum of steps only grows, and lower is better: the first evaluation stays the best. The run
 * ends after the third, however often it is interrupted, stays ended, and continues with more
 * patience.
 */
static void test_controller__patience(void **state)
{
    for (int n = 0; n < 8; n++) {
        toy t;
        char directory[700];
        script s = { .options = usual };
        s.options.validation_interval = 2;
        s.options.patience = 2;
        s.options.run.best_metric = "total";
        s.options.run.best_comparison = ET_COMPARE_LOWER;
        snprintf(directory, sizeof directory, "%s-%d", in(state, "patience"), n);
        words[0] = 0;
        with_a_break(&s, directory, n, ET_EINTERRUPTED, 0, &t);
        assert_string_equal(words, "V2 L4 V4 V6 L6 ");
        assert_int_equal(t.trainer.step, 6);
        words[0] = 0;
        t = (toy){ 0 };
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, "");
        s.options.patience = 3;
        t = (toy){ 0 };
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, "L8 V8 ");
        assert_int_equal(t.trainer.step, 8);
    }
    toy t = { 0 };
    script s = { .options = usual };
    s.options.patience = 1;
    assert_fails(process(&t, &s, in(state, "refused"), error), ET_ECONFIG, "run.best_metric");
}

/* The sum of steps grows: an improvement if higher is better, from the second evaluation on, which
 * may be another process's. Without a comparison there is no improvement. */
static void test_controller__improving(void **state)
{
    static const struct {
        const char *metric;
        int comparison;
        int64_t interval, steps;
        bool improving;
    } cases[] = {
        { "total", ET_COMPARE_HIGHER, 10, 10, false }, { "total", ET_COMPARE_HIGHER, 10, 12, true },
        { "total", ET_COMPARE_HIGHER, 2, 14, true },   { "total", ET_COMPARE_LOWER, 2, 16, false },
        { NULL, ET_COMPARE_HIGHER, 2, 18, false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        toy t = { 0 };
        script s = { .options = usual };
        s.options.train_steps = cases[i].steps;
        s.options.validation_interval = cases[i].interval;
        s.options.run.best_metric = cases[i].metric;
        s.options.run.best_comparison = cases[i].comparison;
        assert_ok(process(&t, &s, in(state, "improving"), error));
        assert_int_equal(t.improving, cases[i].improving);
    }
}

/* The first evaluation that reaches the target ends the run, however often it is interrupted
 * before; it stays ended, and continues with a higher target. */
static void test_controller__target(void **state)
{
    for (int n = 0; n < 8; n++) {
        toy t;
        char directory[700];
        double target = 10;
        script s = { .options = usual };
        s.options.validation_interval = 2;
        s.options.target = &target;
        s.options.run.best_metric = "total";
        snprintf(directory, sizeof directory, "%s-%d", in(state, "target"), n);
        words[0] = 0;
        with_a_break(&s, directory, n, ET_EINTERRUPTED, 0, &t);
        assert_string_equal(words, "V2 L4 V4 ");
        words[0] = 0;
        t = (toy){ 0 };
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, "");
        target = 15;
        t = (toy){ 0 };
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, "V6 L6 ");
    }
    toy t = { 0 };
    double target = NAN;
    script s = { .options = usual };
    s.options.target = &target;
    assert_fails(process(&t, &s, in(state, "not a number"), error), ET_ECONFIG, "not a number");
    target = 1;
    assert_fails(process(&t, &s, in(state, "refused"), error), ET_ECONFIG, "target: needs");
}

/* The next action is identified by its name: if it is gone, the run refuses to continue. */
static void test_controller__unknown_next(void **state)
{
    script s = two_actions();
    toy t = { .countdown = 4, .breaks = ET_EINTERRUPTED };
    assert_int_equal(process(&t, &s, in(state, "unknown"), NULL), ET_EINTERRUPTED); /* b5 */
    script less = { { { .action = { &class_a }, .every = 3 } }, usual };
    t = (toy){ 0 };
    assert_fails(process(&t, &less, in(state, "unknown"), error), ET_EFORMAT,
                 "no action is called b");
}

/* A finished run is not changed, and with more steps it continues. */
static void test_controller__finished(void **state)
{
    script s = two_actions();
    toy t = { 0 };
    const char *directory = in(state, "finished");
    assert_ok(process(&t, &s, directory, error));
    words[0] = 0;
    t = (toy){ 0 };
    assert_ok(process(&t, &s, directory, error));
    assert_string_equal(words, "");
    s.options.train_steps = 12;
    t = (toy){ 0 };
    assert_ok(process(&t, &s, directory, error));
    assert_string_equal(words, "L12 V12 a12!v b12!v ");
    assert_int_equal(t.total, 78);
    assert_int_equal(t.started, 0);
}

/* A run that gets another length on the way has it after an interruption anywhere, and is finished
 * at its end, unless another train_steps is asked for. */
static void test_controller__another_length(void **state)
{
    static const struct {
        int64_t length;
        const char *words;
    } cases[] = {
        { 7, "a3 L4 V5 b5v a6 L7 V7 a7!v b7!v " },
        { 12, "a3 L4 V5 b5v a6 L8 a9 V10 L12 V12 a12!v b12!v " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        script s = two_actions();
        s.acting[0].changes_at = 3;
        s.acting[0].length = cases[i].length;
        for (int n = 0; n < 8; n++) {
            toy t;
            char directory[700];
            snprintf(directory, sizeof directory, "%s-%d-%d", in(state, "length"), (int)i, n);
            words[0] = 0;
            with_a_break(&s, directory, 0, ET_EINTERRUPTED, n, &t);
            assert_string_equal(words, cases[i].words);
            words[0] = 0;
            t = (toy){ 0 };
            assert_ok(process(&t, &s, directory, error));
            assert_string_equal(words, "");
        }
        script more = s;
        toy t = { 0 };
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d-0", in(state, "length"), (int)i);
        more.options.train_steps = 14;
        assert_ok(process(&t, &more, directory, error));
        assert_int_equal(t.trainer.step, 14);
    }
}

/* A run that went back keeps the length that it has by now, and its checkpoints say so. */
static void test_controller__length_after_divergence(void **state)
{
    script s = two_actions();
    toy t = { .diverges = 7 };
    const char *directory = in(state, "diverged");
    s.acting[0].changes_at = 6;
    s.acting[0].length = 8;
    s.options.recovery_max_trials = 1;
    words[0] = 0;
    assert_ok(process(&t, &s, directory, error));
    assert_string_equal(words, "a3 L4 V5 b5v a6 a6 L8 V8 a8!v b8!v ");
    words[0] = 0;
    t = (toy){ 0 };
    assert_ok(process(&t, &s, directory, error));
    assert_string_equal(words, "");
    assert_int_equal(t.trainer.step, 8);
}

/* The last step of an interrupted run is evaluated once, also if the run resumes there, and if it
 * was interrupted in the evaluation of this step. */
static void test_controller__evaluates_last(void **state)
{
    static const struct {
        int countdown;
        int64_t stop_after;
        const char *words, *rest;
    } cases[] = {
        { 0, 7, "a3 L4 V5 b5v a6 V7 ", "L8 a9 L10 V10 a10!v b10!v " },
        { 0, 5, "a3 L4 V5 ", "b5v a6 L8 a9 L10 V10 a10!v b10!v " },
        { 3, 0, "a3 L4 V5 ", "b5v a6 L8 a9 L10 V10 a10!v b10!v " },
        { 0, 4, "a3 L4 V4 ", "V5 b5v a6 L8 a9 L10 V10 a10!v b10!v " },
    };
    const script s = two_actions();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char directory[700];
        toy t = { .countdown = cases[i].countdown,
                  .breaks = ET_EINTERRUPTED,
                  .stop_after = cases[i].stop_after,
                  .looks_again = true };
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "last"), i);
        words[0] = 0;
        assert_int_equal(process(&t, &s, directory, NULL), ET_EINTERRUPTED);
        assert_string_equal(words, cases[i].words);
        words[0] = 0;
        t = (toy){ .stop_after = -1, .looks_again = true };
        assert_int_equal(process(&t, &s, directory, NULL), ET_EINTERRUPTED);
        t = (toy){ 0 };
        assert_ok(process(&t, &s, directory, error));
        assert_string_equal(words, cases[i].rest);
    }
}

static int closings;

static int count_closing(et_sink *self, et_error *error)
{
    (void)self, (void)error;
    closings++;
    return ET_OK;
}

static const et_sink_class console_class = { .name = "console", .close = count_closing };

/* A console is the controller's from the call on: it is closed once, whatever is refused. */
static void test_controller__refused_options(void **state)
{
    et_sink console = { .class = &console_class };
    const struct {
        et_controller_options options;
        const et_action_class *other; /* of another action in addition to a */
        int status;
        const char *words;
    } cases[] = {
        { { .train_steps = -1, .steps_per_loop = 1 }, NULL, ET_ECONFIG, "at least 0" },
        { { .steps_per_loop = -1 }, NULL, ET_ECONFIG, "at least 0" },
        { { .steps_per_loop = 1, .summary_interval = -1 }, NULL, ET_ECONFIG, "at least 0" },
        { { .steps_per_loop = 1, .validation_interval = -1 }, NULL, ET_ECONFIG, "at least 0" },
        { { .steps_per_loop = 1, .checkpoint_interval = -5 }, NULL, ET_ECONFIG, "at least 0" },
        { { .steps_per_loop = 1, .validation_steps = -2 }, NULL, ET_ECONFIG, "-1 for all data" },
        { { .steps_per_loop = 1 }, &class_a, ET_EUSAGE, "two actions are called a" },
        { { .steps_per_loop = 1 }, &class_log, ET_EUSAGE, "two actions are called log" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy t = { 0 };
        script s = { { { .action = { &class_a } }, { .action = { cases[i].other } } },
                     cases[i].options };
        s.options.run.console = &console;
        closings = 0;
        assert_fails(process(&t, &s, in(state, "refused"), error), cases[i].status, cases[i].words);
        assert_int_equal(closings, 1);
    }
    et_run *run;
    closings = 0;
    assert_fails(et_run_open(&run, &(et_run_options){ .console = &console }, error), ET_EUSAGE,
                 "needs a state");
    assert_int_equal(closings, 1);
    et_controller *controller;
    et_trainer nothing = { .class = &(const et_trainer_class){ .name = "nothing" } };
    et_controller_options options = usual;
    options.run.model_dir = in(state, "refused");
    assert_fails(et_controller_open(&controller, &options, error), ET_EUSAGE, "needs a trainer");
    options.trainer = &nothing;
    assert_fails(et_controller_open(&controller, &options, error), ET_EUSAGE, "with a step");
    assert_null(controller);
}

/* ---- evaluation ---- */

typedef struct counting {
    et_evaluator evaluator;
    int begun, steps, ended, ended_with_logs;
    int fails_at; /* step, 0: begin; -1: none */
} counting;

static int count_begin(et_evaluator *self, int64_t at, et_error *error)
{
    counting *c = (counting *)self;
    (void)at;
    c->begun++;
    return c->fails_at ? ET_OK : et_fail(error, ET_EIO, "no data");
}

static int count_step(et_evaluator *self, bool *more, et_error *error)
{
    counting *c = (counting *)self;
    *more = ++c->steps < 5;
    return c->steps == c->fails_at ? et_fail(error, ET_EIO, "bad data") : ET_OK;
}

static int count_end(et_evaluator *self, et_value *logs, et_error *error)
{
    counting *c = (counting *)self;
    (void)error;
    c->ended++;
    c->ended_with_logs += logs != NULL;
    return ET_OK;
}

static bool stops_at_once(void *payload)
{
    (void)payload;
    return true;
}

static void test_controller__evaluate(void **state)
{
    static const et_evaluator_class whole = {
        .name = "whole", .begin = count_begin, .step = count_step, .end = count_end
    };
    static const et_evaluator_class bare = { .name = "bare", .step = count_step };
    static const struct {
        const et_evaluator_class *class;
        int64_t limit;
        int fails_at;
        bool stops;
        int status, steps, ended, ended_with_logs;
    } cases[] = {
        { &whole, 0, -1, false, ET_OK, 5, 1, 1 },
        { &whole, 3, -1, false, ET_OK, 3, 1, 1 },
        { &whole, 9, -1, false, ET_OK, 5, 1, 1 },
        { &whole, 0, 0, false, ET_EIO, 0, 1, 0 },
        { &whole, 0, 2, false, ET_EIO, 2, 1, 0 },
        { &whole, 0, -1, true, ET_EINTERRUPTED, 0, 1, 0 },
        { &bare, 2, -1, false, ET_OK, 2, 0, 0 },
        { &whole, -1, -1, false, ET_OK, 5, 1, 1 },
        { &whole, -2, -1, false, ET_ECONFIG, 0, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        counting c = { .evaluator = { .class = cases[i].class }, .fails_at = cases[i].fails_at };
        assert_int_equal(et_evaluate(&c.evaluator, 7, cases[i].limit,
                                     cases[i].stops ? stops_at_once : NULL, NULL,
                                     et_value_dict(&arena), NULL),
                         cases[i].status);
        assert_int_equal(c.steps, cases[i].steps);
        assert_int_equal(c.ended, cases[i].ended);
        assert_int_equal(c.ended_with_logs, cases[i].ended_with_logs);
        et_arena_release(&arena);
    }
}

/* -1 is Model Garden's word for all there are. */
static void test_controller__validation_steps(void **state)
{
    static const struct {
        int64_t steps;
        int taken;
    } cases[] = { { -1, 5 }, { 0, 5 }, { 3, 3 } };
    static const et_evaluator_class whole = {
        .name = "whole", .begin = count_begin, .step = count_step, .end = count_end
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        toy t = { .trainer.class = &trainer_class };
        counting e = { .evaluator = { .class = &whole }, .fails_at = -1 };
        et_controller *controller;
        char directory[64];
        snprintf(directory, sizeof directory, "%s", in(state, "validation_steps"));
        snprintf(directory + strlen(directory), 4, "%zu", i);
        et_controller_options options = { .trainer = &t.trainer,
                                          .evaluator = &e.evaluator,
                                          .run.model_dir = directory,
                                          .train_steps = 1,
                                          .validation_interval = 1,
                                          .validation_steps = cases[i].steps };
        assert_ok(et_controller_open(&controller, &options, error));
        assert_ok(et_controller_train(controller, error));
        assert_ok(et_controller_close(controller, error));
        assert_int_equal(e.steps, cases[i].taken);
    }
}

static void train(void *controller)
{
    et_controller_train(controller, NULL);
}

/* Invariants are checked when a call begins. */
static void test_controller__asserts(void **state)
{
#ifdef NDEBUG
    test_skip("assertions are off");
#endif
    toy t = { .trainer.class = &trainer_class };
    et_controller *c;
    et_controller_options options = { .trainer = &t.trainer,
                                      .run.model_dir = in(state, "asserts"),
                                      .train_steps = 1 };
    assert_ok(et_controller_open(&c, &options, error));
    et_loop_position *position = &c->loop.position;
    const int next = position->next;
    position->next = -1;
    assert_asserts(train, c, "position->next >= 0 && position->next <= loop->count");
    position->next = 0;
    assert_asserts(train, c, "position->next == loop->count || position->at_boundary");
    position->next = next;
    c->own[ET_OWN_SAVE].controller = NULL;
    assert_asserts(train, c, "c->own[i].controller == c");
    c->own[ET_OWN_SAVE].controller = c;
    assert_ok(et_controller_train(c, error));
    assert_ok(et_controller_close(c, error));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_controller__order),
        cmocka_unit_test(test_controller__without_a_directory),
        cmocka_unit_test(test_controller__gathers),
        cmocka_unit_test(test_controller__rate),
        cmocka_unit_test(test_controller__interrupted),
        cmocka_unit_test(test_controller__failed),
        cmocka_unit_test(test_controller__ended),
        cmocka_unit_test(test_controller__patience),
        cmocka_unit_test(test_controller__improving),
        cmocka_unit_test(test_controller__target),
        cmocka_unit_test(test_controller__unknown_next),
        cmocka_unit_test(test_controller__finished),
        cmocka_unit_test(test_controller__another_length),
        cmocka_unit_test(test_controller__length_after_divergence),
        cmocka_unit_test(test_controller__evaluates_last),
        cmocka_unit_test(test_controller__refused_options),
        cmocka_unit_test(test_controller__evaluate),
        cmocka_unit_test(test_controller__validation_steps),
        cmocka_unit_test(test_controller__asserts),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
