/* The outer loop call by call: what Orbit's own tests expect of its Controller, and that a run that
 * is interrupted, fails or is killed ends as an unbroken one. What happens is written as words:
 *
 *     L4     an inner loop ended after step 4     t4   the train action
 *     V5     an evaluation                        e5   the evaluation action */
#include <etude/outer_loop.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <sys/wait.h>

#include <etude/optimizer.h>
#include <etude/standard.h>

#include "base/arena.h"
#include "io/files.h"
#include "train/logged.h"

static char words[2048];

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    va_list arguments;
    size_t length = strlen(words);
    va_start(arguments, format);
    vsnprintf(words + length, sizeof words - length, format, arguments);
    va_end(arguments);
}

/* ---- a trainer with an evaluator, by hooks ----------------------------------------------------
 */

enum { NUMBERS = 12, BATCH = 2, VALIDATION = 5 };

typedef struct play play;

typedef struct acting {
    et_action action;
    play *play;
    int64_t stops_at; /* asks to end the run at this step; 0: never */
} acting;

/* What one process has. A weight walks with the numbers that are read. */
struct play {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    et_params *params;
    et_source *training, *validation;
    et_dataset training_data, validation_data;
    acting train_action, eval_action;
    et_outer_loop_options outer;
    et_controller_options options;
    et_controller *controller;
    volatile sig_atomic_t stop;
    bool nested, silent; /* what the evaluator says: in groups; nothing */
    int64_t loop_sum, stop_after;
    int steps_read, countdown, breaks;
    bool keep;    /* the evaluator's place in its data */
    int pause_us; /* of a step */
    char told[4096];
};

static int32_t numbers[NUMBERS];

static play *of_trainer(et_standard_trainer *self)
{
    return (play *)(void *)((char *)self - offsetof(play, trainer));
}

static play *of_evaluator(et_standard_evaluator *self)
{
    return (play *)(void *)((char *)self - offsetof(play, evaluator));
}

static int broken(play *p, et_error *error)
{
    if (!p->countdown || --p->countdown)
        return ET_OK;
    return p->breaks == ET_EINTERRUPTED ? ET_EINTERRUPTED : et_fail(error, p->breaks, "broken");
}

static int save_play(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    return !et_value_set_int(dict, "loop_sum", ((const play *)self)->loop_sum);
}

static int restore_play(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "loop_sum", &((play *)self)->loop_sum, error);
}

static const et_part_class play_part = { "play", save_play, restore_play };

static int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    play *p = of_trainer(self);
    int status = et_state_add_params(state, p->params, error);
    return status ? status : et_state_add(state, "play", &play_part, p, error);
}

static int begin_loop(et_standard_trainer *self, et_error *error)
{
    (void)error;
    of_trainer(self)->loop_sum = 0;
    return ET_OK;
}

static int step(et_standard_trainer *self, et_feed *feed, et_error *error)
{
    play *p = of_trainer(self);
    const et_batch *batch;
    int status = et_feed_next(feed, NULL, &batch, error);
    if (status)
        return status;
    const int32_t *read = batch->data[0];
    usleep((useconds_t)p->pause_us);
    et_params_begin_change(p->params);
    for (int i = 0; i < BATCH; i++) {
        et_params_values(p->params)[i] = et_params_values(p->params)[i] * 0.75f + (float)read[i];
        p->loop_sum += read[i];
    }
    et_params_changed(p->params, true);
    p->stop = self->trainer.step + 1 == p->stop_after;
    return ET_OK;
}

static int end_loop(et_standard_trainer *self, et_value *logs, et_error *error)
{
    play *p = of_trainer(self);
    int status = broken(p, error);
    if (status)
        return status;
    say("L%d ", (int)self->trainer.step);
    et_value_set_int(logs, "sum", p->loop_sum);
    et_value_set_float(et_value_set_dict(logs, "weight"), "first", et_params_values(p->params)[0]);
    return ET_OK;
}

static const et_standard_trainer_class trainer_class = { .name = "Play",
                                                         .attach = attach,
                                                         .train_loop_begin = begin_loop,
                                                         .train_step = step,
                                                         .train_loop_end = end_loop };

static int begin_evaluation(et_standard_evaluator *self, void **state, et_error *error)
{
    (void)error, (void)state;
    of_evaluator(self)->steps_read = 0;
    return ET_OK;
}

static int evaluate_step(et_standard_evaluator *self, et_feed *feed, void **outputs,
                         et_error *error)
{
    const et_batch *batch;
    (void)outputs;
    int status = et_feed_next(feed, NULL, &batch, error);
    of_evaluator(self)->steps_read += !status;
    return status;
}

static int end_evaluation(et_standard_evaluator *self, void *state, et_value *logs, et_error *error)
{
    play *p = of_evaluator(self);
    int status = logs ? broken(p, error) : ET_OK;
    (void)state;
    if (status || !logs)
        return status;
    say("V%d ", p->controller ? (int)et_controller_step(p->controller) : 0);
    if (p->silent)
        return ET_OK;
    et_value *to = p->nested ? et_value_set_dict(et_value_set_dict(logs, "sets"), "one") : logs;
    et_value_set_int(to, "steps", p->steps_read);
    et_value_set_float(to, "first", et_params_values(p->params)[0]);
    et_value_set_float(to, "unknown", NAN);
    return ET_OK;
}

static const et_standard_evaluator_class evaluator_class = { .name = "validation",
                                                             .eval_begin = begin_evaluation,
                                                             .eval_step = evaluate_step,
                                                             .eval_end = end_evaluation };

/* It sees the values of what it acts on. */
static int act(et_action *self, const et_moment *now, et_error *error)
{
    acting *a = (acting *)self;
    int status = broken(a->play, error);
    if (status)
        return status;
    bool train = self == &a->play->train_action.action;
    assert_non_null(now->logs);
    if (!a->play->silent && !a->play->nested)
        assert_non_null(et_value_get(now->logs, train ? "sum" : "steps"));
    assert_null(et_value_get(now->logs, "time"));
    say("%s%d ", self->class->name, (int)now->step);
    *now->stop = *now->stop || now->step == a->stops_at;
    return ET_OK;
}

static const et_action_class class_t = { .name = "t", .act = act };
static const et_action_class class_e = { .name = "e", .act = act };

static void tell(void *self, const char *text)
{
    play *p = self;
    size_t length = strlen(p->told);
    snprintf(p->told + length, sizeof p->told - length, "%s\n", text);
}

static et_source *open_numbers(int count, bool training)
{
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = i + 1;
    et_array arrays[] = { { "n", ET_I32, numbers, et_shape_scalar() } };
    et_batches_options options = {
        .seed = 3, .shuffle = training, .repeat = training, .capacity = { training ? BATCH : 1 }
    };
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

/* All but the controller. */
static void prepare(play *p, const char *directory)
{
    static et_action *train_actions[1], *eval_actions[1];
    et_init zeros = { ET_INIT_ZEROS, 0 };
    et_standard_evaluator_options evaluator = { .keep_iterator = p->keep };
    int index;
    assert_ok(et_params_new(&p->params, error));
    assert_ok(et_params_declare(p->params, "w", et_shape_1(BATCH), zeros, &index, error));
    assert_ok(et_params_materialize(p->params, false, error));
    p->training = open_numbers(NUMBERS, true);
    p->validation = open_numbers(VALIDATION, false);
    p->training_data = (et_dataset){ .source = p->training };
    p->validation_data = (et_dataset){ .source = p->validation };
    assert_ok(
        et_standard_trainer_init(&p->trainer, &trainer_class, &p->training_data, NULL, error));
    assert_ok(et_standard_evaluator_init(&p->evaluator, &evaluator_class, &p->validation_data,
                                         &evaluator, error));
    p->train_action.action.class = &class_t;
    p->eval_action.action.class = &class_e;
    p->train_action.play = p->eval_action.play = p;
    train_actions[0] = &p->train_action.action;
    eval_actions[0] = &p->eval_action.action;
    p->outer.train_actions = train_actions;
    p->outer.eval_actions = eval_actions;
    p->outer.train_action_count = p->outer.eval_action_count = 1;
    p->options.outer_loop = &p->outer;
    p->options.trainer = &p->trainer.trainer;
    p->options.evaluator = &p->evaluator.evaluator;
    p->options.run.model_dir = directory;
    p->options.run.max_to_keep = -1; /* all */
    p->options.run.stop = &p->stop;
    p->options.run.observer.self = p;
    p->options.run.observer.tell = tell;
}

static void finish(play *p)
{
    assert_ok(et_controller_close(p->controller, error));
    et_standard_trainer_release(&p->trainer);
    et_standard_evaluator_release(&p->evaluator);
    et_source_close(p->training);
    et_source_close(p->validation);
    et_params_free(p->params);
}

static void begin(play *p, const char *directory)
{
    prepare(p, directory);
    assert_ok(et_controller_open(&p->controller, &p->options, error));
}

/* "5 10 ", what there is in a directory of checkpoints. */
static const char *checkpoints(const char *directory)
{
    static char text[200];
    text[0] = 0;
    for (int step = 0; step <= 60; step++) {
        char path[800];
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", directory, step);
        if (file_is_there(path))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", step);
    }
    return text;
}

/* ---- what happens -----------------------------------------------------------------------------
 */

static int64_t odd_loops(void *payload, int64_t at)
{
    (void)payload;
    return at < 4 ? 2 : 3;
}

/* Orbit's figures among them: {5, 10} and two evaluations; four checkpoints; five train actions and
 * two evaluation actions. Evaluated steps are saved. */
static void test_outer_loop__order(void **state)
{
    static const struct {
        int64_t steps, per_loop, eval, save;
        const char *words, *saved;
    } cases[] = {
        { 10, 10, 5, 5, "L5 t5 V5 e5 L10 t10 V10 e10 ", "5 10 " },
        { 20, 5, 0, 5, "L5 t5 L10 t10 L15 t15 L20 t20 V20 e20 ", "5 10 15 20 " },
        { 10, 2, 6, 0, "L2 t2 L4 t4 L6 t6 V6 e6 L8 t8 L10 t10 V10 e10 ", "6 10 " },
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
        assert_null(et_value_get(logs, "time")); /* of all data there is no rate */
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

/* Nothing said: only the rate is there, and only of a number of steps. Nested values are kept as
 * they are. */
static void test_outer_loop__values(void **state)
{
    const char *directory = in(state, "values");
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena), *time;
    double rate;
    play p = { .silent = true, .options = { .steps_per_loop = 2 } };
    begin(&p, directory);
    assert_ok(et_controller_evaluate(p.controller, 5, logs, error));
    assert_int_equal(logs->count, 1);
    time = et_value_get(logs, "time");
    assert_int_equal(time->count, 1);
    assert_ok(et_value_read_float(time, "steps_per_second", &rate, error));
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

/* ---- summaries that are handed in --------------------------------------------------------------
 */

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

/* An evaluation's own sink is never passed over; without one it goes where the trainer's go. */
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

/* Once every summary_interval steps, at the steps where logs of planned runs stand. */
static int step_and_record(et_trainer *self, et_error *error)
{
    (void)error;
    if (et_trainer_records(self))
        say("r%d ", (int)self->step + 1);
    return ET_OK;
}

/* An inner loop of its own; nothing is kept without a directory. */
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
                 "whole was told to advance from step 6 to 8 and is at 9");
    assert_ok(et_controller_close(c, error));
}

/* ---- interrupted, failed, killed ---------------------------------------------------------------
 */

enum { TO = 14, EVERY = 5 };

/* in(), for as long as the caller has it. */
static const char *place(char text[700], void **state, const char *name)
{
    snprintf(text, 700, "%s", in(state, name));
    return text;
}

/* A process of a program: opens, trains and evaluates, closes. */
static int process(play *p, const char *directory, et_error *error)
{
    p->options.steps_per_loop = 3;
    p->options.checkpoint_interval = 4;
    p->keep = true;
    prepare(p, directory);
    int status = et_controller_open(&p->controller, &p->options, error);
    if (!status)
        status = et_controller_train_and_evaluate(p->controller, TO, 2, EVERY, NULL, error);
    finish(p);
    return status;
}

static void assert_same_run(const char *one, const char *other)
{
    assert_string_equal(logged(one), logged(other));
    char saved[200], path[2][800];
    snprintf(saved, sizeof saved, "%s", checkpoints(one));
    assert_string_equal(checkpoints(other), saved);
    for (char *step = strtok(saved, " "); step; step = strtok(NULL, " ")) {
        size_t length[2];
        char *bytes[2];
        for (int i = 0; i < 2; i++) {
            snprintf(path[i], sizeof path[i], "%s/checkpoints/ckpt-%s.safetensors", i ? other : one,
                     step);
            bytes[i] = get_file(path[i], &length[i]);
        }
        assert_int_equal(length[0], length[1]);
        assert_memory_equal(bytes[0], bytes[1], length[0]);
        free(bytes[0]);
        free(bytes[1]);
    }
}

#define ALL_WORDS "L3 t3 L5 t5 V5 e5 L8 t8 L10 t10 V10 e10 L13 t13 L14 t14 V14 e14 "

/* Asked to stop after each step, or interrupted in each hook and action: no word is said twice, and
 * none is missing. */
static void test_outer_loop__interrupted(void **state)
{
    char text[700];
    const char *whole = place(text, state, "interrupted-whole");
    play unbroken = { .countdown = 0 };
    words[0] = 0;
    assert_ok(process(&unbroken, whole, error));
    assert_string_equal(words, ALL_WORDS);
    assert_string_equal(checkpoints(whole), "5 8 10 13 14 ");
    for (int n = 1; n <= 18 + TO; n++) {
        char directory[700];
        int status = ET_EINTERRUPTED, processes = 0;
        snprintf(directory, sizeof directory, "%s-%d", in(state, "interrupted"), n);
        words[0] = 0;
        for (; status == ET_EINTERRUPTED; processes++) {
            play p = { .breaks = ET_EINTERRUPTED };
            if (!processes && n <= 18)
                p.countdown = n;
            else if (!processes)
                p.stop_after = n - 18;
            status = process(&p, directory, NULL);
        }
        assert_int_equal(status, ET_OK);

        assert_int_equal(processes, 2);
        if (strcmp(words, ALL_WORDS) != 0)
            fail_msg("broken at %d: %s", n, words);
        assert_same_run(directory, whole);
    }
}

/* A failure leaves the last checkpoint, from which all is done again. */
static void test_outer_loop__failed(void **state)
{
    char text[700];
    const char *whole = place(text, state, "failed-whole");
    play unbroken = { .countdown = 0 };
    assert_ok(process(&unbroken, whole, error));
    for (int n = 1; n <= 18; n++) {
        char directory[700];
        play p = { .breaks = ET_EIO, .countdown = n }, again = { .countdown = 0 };
        snprintf(directory, sizeof directory, "%s-%d", in(state, "failed"), n);
        assert_int_equal(process(&p, directory, NULL), ET_EIO);
        assert_ok(process(&again, directory, error));
        assert_same_run(directory, whole);
    }
}

/* What a program does that was started by start(). */
static int child_main(const char *what, const char *directory)
{
    play p = { .pause_us = 2000 };
    if (!strcmp(what, "process"))
        return process(&p, directory, NULL);
    p.options.steps_per_loop = p.options.checkpoint_interval = 2;
    begin(&p, directory);
    int status = et_controller_train_to(p.controller, 30, false, NULL);
    finish(&p);
    return status;
}

/* This program again: a child that was forked alone has no threads of OpenMP. */
static pid_t start(const char *what, const char *directory)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        execl("/proc/self/exe", "test_outer_loop", what, directory, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* Killed where it happens to be, again and again. */
static void test_outer_loop__killed(void **state)
{
    char text[700];
    const char *whole = place(text, state, "killed-whole"), *directory = in(state, "killed");
    play unbroken = { .countdown = 0 };
    assert_ok(process(&unbroken, whole, error));
    unsigned pause = 12345;
    int ended = 0, kills = 0;
    for (int i = 0; !ended; i++) {
        pid_t child = start("process", directory);
        pause = pause * 1103515245u + 12345u;
        if (i < 20) {
            usleep(i ? pause / 65536 % 40000 : 0); /* the first one always lands */
            kill(child, SIGKILL);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        ended = WIFEXITED(status);
        kills += !ended;
        if (ended)
            assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_true(kills > 0);
    assert_same_run(directory, whole);
}

/* An action ends the run: what was not due acts as at an end, and the run stays so. */
static void test_outer_loop__ended(void **state)
{
    for (int by_eval = 0; by_eval < 2; by_eval++) {
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d", in(state, "ended"), by_eval);
        words[0] = 0;
        for (int i = 0; i < 2; i++) {
            play p = { .countdown = 0 };
            p.train_action.stops_at = by_eval ? 0 : 8;
            p.eval_action.stops_at = by_eval ? 5 : 0;
            assert_ok(process(&p, directory, error));
            assert_string_equal(words,
                                by_eval ? "L3 t3 L5 t5 V5 e5 " : "L3 t3 L5 t5 V5 e5 L8 t8 V8 e8 ");
        }
        assert_string_equal(checkpoints(directory), by_eval ? "5 " : "5 8 ");
    }
}

/* ---- checkpoints -------------------------------------------------------------------------------
 */

static void test_outer_loop__restore(void **state)
{
    const char *directory = in(state, "restore");
    play p = { .options = { .steps_per_loop = 3, .checkpoint_interval = 3 } };
    char path[800];
    int64_t step;
    float at_3, at_6;
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 3, false, error));
    at_3 = et_params_values(p.params)[0];
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    at_6 = et_params_values(p.params)[0];
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-3.safetensors", directory);
    assert_ok(et_controller_restore(p.controller, path, &step, error));
    assert_int_equal(step, 3);
    assert_int_equal(et_controller_step(p.controller), 3);
    assert_true(et_params_values(p.params)[0] == at_3);
    assert_ok(et_controller_train_to(p.controller, 6, false, error)); /* the same data again */
    assert_true(et_params_values(p.params)[0] == at_6);
    assert_ok(et_controller_restore(p.controller, NULL, &step, error));
    assert_int_equal(step, 6);
    snprintf(path, sizeof path, "%s/checkpoints/ckpt-4.safetensors", directory);
    assert_int_equal(et_controller_restore(p.controller, path, &step, NULL), ET_ENOTFOUND);
    finish(&p);

    play q = { .options = { .steps_per_loop = 3 } }; /* as in the constructor */
    begin(&q, directory);
    assert_int_equal(et_controller_step(q.controller), 6);
    assert_non_null(strstr(q.told, "restored from checkpoint: "));
    finish(&q);
    play r = { .options = { .steps_per_loop = 3 } };
    begin(&r, in(state, "nothing to restore"));
    assert_ok(et_controller_train_to(r.controller, 2, true, error));
    assert_ok(et_controller_restore(r.controller, NULL, &step, error));
    assert_int_equal(step, -1);
    assert_int_equal(et_controller_step(r.controller), 0);
    finish(&r);
}

/* ---- evaluation beside training ----------------------------------------------------------------
 */

static void watch_only(play *p, const char *directory)
{
    prepare(p, directory);
    p->options.trainer = NULL;
    p->outer.weights = p->params;
    p->outer.train_action_count = 0;
    assert_ok(et_controller_open(&p->controller, &p->options, error));
}

static bool done_at(void *last, int64_t step)
{
    say("?%d ", (int)step);
    return step >= *(int64_t *)last;
}

static void test_outer_loop__evaluate_only(void **state)
{
    const char *directory = in(state, "evaluate only");
    play p = { .options = { .steps_per_loop = 3, .checkpoint_interval = 3 } }, q = { .stop = 0 };
    play r = { .stop = 0 };
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    watch_only(&q, directory); /* takes no lock */
    words[0] = 0;
    assert_ok(et_controller_evaluate(q.controller, -1, NULL, error));
    assert_string_equal(words, "V6 e6 ");
    assert_true(et_params_values(q.params)[0] == et_params_values(p.params)[0]);
    watch_only(&r, in(state, "no such run"));
    assert_fails(et_controller_evaluate(r.controller, -1, NULL, error), ET_ENOTFOUND,
                 "no checkpoint there");
    assert_fails(et_controller_train_to(r.controller, 3, false, error), ET_EUSAGE,
                 "`trainer` is not set. Pass `trainer` to et_controller_open before calling "
                 "et_controller_train_to");
    finish(&p);
    finish(&q);
    finish(&r);
}

/* Every checkpoint that is there, in order; then as long as it is told to wait. */
static void test_outer_loop__continuously(void **state)
{
    const char *directory = in(state, "continuously");
    play p = { .options = { .steps_per_loop = 2, .checkpoint_interval = 2 } };
    begin(&p, directory);
    assert_ok(et_controller_train_to(p.controller, 6, false, error));
    finish(&p);
    static const struct {
        int64_t train_steps, last; /* last 0: no predicate */
        double timeout;
        const char *words;
    } cases[] = {
        { 0, 0, 0, "V2 e2 V4 e4 V6 e6 " },           { 4, 0, -1, "V2 e2 V4 e4 " },
        { 0, 6, -1, "V2 e2 ?2 V4 e4 ?4 V6 e6 ?6 " }, { 0, 4, 30, "V2 e2 ?2 V4 e4 ?4 " },
        { 6, 60, -1, "V2 e2 ?2 V4 e4 ?4 V6 e6 " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        play q = { .options = { .train_steps = cases[i].train_steps } };
        int64_t last = cases[i].last, steps;
        et_arena arena = ET_ARENA_INIT;
        et_value *logs = et_value_dict(&arena);
        watch_only(&q, directory);
        words[0] = 0;
        assert_ok(et_controller_evaluate_continuously(q.controller, -1, cases[i].timeout,
                                                      last ? done_at : NULL, &last, logs, error));
        assert_string_equal(words, cases[i].words);
        assert_ok(et_value_read_int(logs, "steps", &steps, error));
        finish(&q);
        et_arena_release(&arena);
    }
    /* The predicate is asked at each timeout; an action ends it, too; a request stops it. */
    play q = { .eval_action.stops_at = 4 }, r = { .stop = 0 };
    watch_only(&q, directory);
    words[0] = 0;
    assert_ok(et_controller_evaluate_continuously(q.controller, 1, -1, NULL, NULL, NULL, error));
    assert_string_equal(words, "V2 e2 V4 e4 ");
    finish(&q);
    watch_only(&r, in(state, "nothing yet"));
    words[0] = 0;
    int64_t last = -1;
    assert_ok(
        et_controller_evaluate_continuously(r.controller, 1, 0.01, done_at, &last, NULL, error));
    assert_string_equal(words, "?-1 ");
    r.stop = 1;
    assert_fails(et_controller_evaluate_continuously(r.controller, 1, -1, NULL, NULL, NULL, error),
                 ET_EINTERRUPTED, "interrupted");
    finish(&r);
}

/* While another process trains and deletes: what it still has is evaluated, in order, and the last
 * one is. */
static void test_outer_loop__beside_training(void **state)
{
    const char *directory = in(state, "beside");
    pid_t child = start("train", directory);
    play q = { .options = { .train_steps = 30 } };
    watch_only(&q, directory);
    words[0] = 0;
    assert_ok(et_controller_evaluate_continuously(q.controller, 2, -1, NULL, NULL, NULL, error));
    char expected[1000] = "";
    for (int step = 2; step <= 30; step += 2)
        snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "V%d e%d ", step,
                 step);
    assert_string_equal(words, expected);
    finish(&q);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- what is refused ----------------------------------------------------------------------------
 */

static void test_outer_loop__refused_options(void **state)
{
    static const et_trainer_class nothing = { .name = "nothing" };
    static const et_trainer_class whole = { .name = "whole", .train = train_by_itself };
    et_trainer empty = { .class = &nothing }, own = { .class = &whole };
    play p = { .stop = 0 };
    prepare(&p, NULL);
    et_trainer *t = &p.trainer.trainer;
    et_outer_loop_options none = { 0 }, negative = { .eval_action_count = -1 },
                          newer = { .reserved = { 1 } };
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
          "calls say when" },
        { { .outer_loop = &negative, .trainer = t, .steps_per_loop = 4 }, ET_ECONFIG, "negative" },
        { { .outer_loop = &newer, .trainer = t, .steps_per_loop = 4 },
          ET_EUSAGE,
          "et_outer_loop_options" },
        { { .outer_loop = &none, .trainer = &empty, .steps_per_loop = 4 },
          ET_EUSAGE,
          "a step or a train" },
        { { .trainer = &own, .steps_per_loop = 4, .run.model_dir = in(state, "own") },
          ET_EUSAGE,
          "needs outer_loop" },
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
    int64_t step;
    begin(&p, NULL);
    et_controller *c = p.controller;
    for (int steps = -2; steps <= 0; steps += 2) {
        assert_fails(et_controller_evaluate(c, steps, NULL, error), ET_ECONFIG, "above 0, or -1");
        assert_fails(et_controller_train_and_evaluate(c, 5, steps, 0, NULL, error), ET_ECONFIG,
                     "above 0, or -1");
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
                 "steps_per_loop gives 0 after step 0; at least 1");
    assert_fails(et_controller_evaluate(c, 1, NULL, error), ET_EUSAGE, "`evaluator` is not set");
    assert_fails(et_controller_train_and_evaluate(c, 4, 1, 0, NULL, error), ET_EUSAGE,
                 "`evaluator` is not set");
    assert_fails(et_controller_evaluate_continuously(c, 1, 0, NULL, NULL, NULL, error), ET_EUSAGE,
                 "`evaluator` is not set");
    finish(&q);

    prepare(&r, in(state, "refused calls"));
    r.options.trainer = NULL;
    assert_ok(et_controller_open(&r.controller, &r.options, error));
    assert_fails(et_controller_evaluate_continuously(r.controller, 1, 0, NULL, NULL, NULL, error),
                 ET_EUSAGE, "`outer_loop.weights` is not set");
    assert_fails(et_controller_save(r.controller, error), ET_EUSAGE, "`trainer` is not set");
    finish(&r);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return child_main(argv[1], argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outer_loop__order),
        cmocka_unit_test(test_outer_loop__calls),
        cmocka_unit_test(test_outer_loop__lines),
        cmocka_unit_test(test_outer_loop__values),
        cmocka_unit_test(test_outer_loop__summaries),
        cmocka_unit_test(test_outer_loop__trainers),
        cmocka_unit_test(test_outer_loop__interrupted),
        cmocka_unit_test(test_outer_loop__failed),
        cmocka_unit_test(test_outer_loop__killed),
        cmocka_unit_test(test_outer_loop__ended),
        cmocka_unit_test(test_outer_loop__restore),
        cmocka_unit_test(test_outer_loop__evaluate_only),
        cmocka_unit_test(test_outer_loop__continuously),
        cmocka_unit_test(test_outer_loop__beside_training),
        cmocka_unit_test(test_outer_loop__refused_options),
        cmocka_unit_test(test_outer_loop__refused_calls),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
