/* A run whose loss is not finite returns to its newest checkpoint and continues with other data.
 * The number of attempts survives a kill, and a kill does not change the run. */
#include "train/run/inner_loop.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/outer_loop.h>

#include "base/values/json.h"
#include "engine/tensor/params.h"
#include "formats/files.h"
#include "train/checkpoint/run_names.h"
#include "train/toy_run.h"

enum { SAMPLES = 32, ROWS = 4, STEPS = 20, EVERY = 5 };

static float x[SAMPLES * 2], y[SAMPLES];

/* Which batches, counted over the run by the samples they hold, are bad. */
typedef struct toy {
    et_task task;
    int64_t bad_sample; /* a batch that has it first is bad; -1: none */
    int64_t bad_epoch;  /* of the data; -1: in each */
    float bad;          /* the value in it */
    int taken;          /* batches */
    int stop_after;     /* the run is asked to stop after so many batches; 0: never */
    int64_t seen[256];  /* first sample of each batch + 100 epoch */
    uint64_t drawn;
} toy;

static volatile sig_atomic_t stop;

static void build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 4));
    h = et_dropout(et_in(s, "hidden"), h, 0.25f);
    et_node *d = et_sub(et_dense(et_in(s, "out"), h, 1), et_batch_input(s, "y"));
    et_loss(s, "loss", et_mul(d, d), 1);
}

static int spoil(void *payload, et_batch *batch, et_error *error)
{
    toy *t = payload;
    (void)error;
    if (t->taken < 256)
        t->seen[t->taken] = batch->sample[0] + 100 * batch->epoch;
    t->taken++;
    if (batch->sample[0] == t->bad_sample && (t->bad_epoch < 0 || batch->epoch == t->bad_epoch))
        ((float *)batch->data[1])[1] = t->bad;
    if (t->taken == t->stop_after)
        stop = 1;
    return ET_OK;
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "y", ET_F32, y, et_shape_1(1) } };
    et_source *source;
    et_samples *samples;
    et_batches_options options = { .repeat = true, .capacity = { ROWS } };
    for (int i = 0; i < SAMPLES; i++) {
        x[2 * i] = (float)(i % 7) / 7;
        x[2 * i + 1] = (float)(i % 5) / 5;
        y[i] = x[2 * i] - x[2 * i + 1];
    }
    if (!training)
        return ET_OK;
    int status = et_arrays_open(&samples, arrays, 2, SAMPLES, error);
    if (!status)
        status = et_batches_open(&source, samples, &options, error);
    return status ? status : et_map_open(out, source, spoil, self, error);
}

static const et_task_class class = { .name = "toy", .build = build, .data = data };

typedef struct settings {
    int64_t bad_sample, bad_epoch;
    float bad;
    int64_t trials, begin, every;
    double bound;
    int steps;
    bool dynamic;
} settings;

/* Adam with an average, four batches of eight samples an epoch... one process. */
static int process(toy *t, const settings *o, const char *directory, int stop_after,
                   et_error *error)
{
    toy_run r;
    et_optimizer_setup optimizer = { .settings = "ema: {enabled: true, average_decay: 0.5}" };
    *t = (toy){ .bad_sample = o->bad_sample,
                .bad_epoch = o->bad_epoch,
                .bad = o->bad,
                .stop_after = stop_after };
    stop = 0;
    toy_run_init(&r, &class);
    t->task.class = &class;
    r.trainer_options.optimizer = &optimizer;
    r.trainer_options.batches = 1;
    r.trainer_options.seed = 7;
    r.trainer_options.loss_upper_bound = o->bound;
    r.trainer_options.recovery_begin_steps = o->begin;
    r.trainer_options.loss_scale = o->dynamic ? ET_LOSS_SCALE_DYNAMIC : 0;
    r.options.recovery_max_trials = o->trials;
    r.options.train_steps = o->steps ? o->steps : STEPS;
    r.options.summary_interval = 2;
    r.options.checkpoint_interval = o->every;
    r.options.run.stop = &stop;
    int status = toy_run_start_trainer_of(&r, &t->task, error);
    if (!status)
        status = toy_run_control(&r, directory, error);
    if (!status)
        status = et_controller_train(r.controller, error);
    int closed = toy_run_close(&r);
    return status ? status : closed;
}

static int64_t number_in(const char *directory, const char *key)
{
    size_t length;
    int64_t number = -1;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict;
    char *text = get_file(below(directory, ET_RUN_RECOVERY), &length);
    assert_ok(et_json_parse(&dict, &arena, text, length, "recovery", error));
    assert_ok(et_value_read_int(dict, key, &number, error));
    free(text);
    et_arena_release(&arena);
    return number;
}

/* Lines of metrics.jsonl, each step once and in order. */
static void assert_logs(const char *directory, int steps)
{
    size_t length;
    char *text = get_file(below(directory, "metrics.jsonl"), &length), *at = text;
    for (int step = 2; step <= steps; step += 2) {
        int found = 0;
        if (sscanf(at, "{\"step\":%d", &found) != 1 || found != step)
            fail_msg("step %d is %d in\n%s", step, found, text);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
    free(text);
}

static const settings once = {
    .bad_sample = 20, .bad_epoch = 1, .bad = NAN, .trials = 2, .every = EVERY
};

/* Step 14 (sample 20 of the second epoch) is bad. From step 10 on the run uses the data after it.
 */
static void test_recovery__goes_back(void **state)
{
    static const struct {
        const char *name;
        float bad;
        double bound;
    } cases[] = { { "nan", NAN, 0 }, { "infinite", INFINITY, 0 }, { "large", 1000, 100 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *directory = in(state, cases[i].name);
        settings o = once;
        toy t;
        et_error after = ET_ERROR_INIT;
        o.bad = cases[i].bad;
        o.bound = cases[i].bound;
        assert_int_equal(process(&t, &o, directory, 0, &after), ET_OK);
        assert_int_equal(after.status, ET_OK); /* what programs ask that make many calls */
        assert_string_equal(after.text, "");
        assert_int_equal(t.taken, 14 + 10);
        assert_int_equal(t.seen[13], 120);
        assert_int_equal(t.seen[14], 124); /* step 11 again, with the following data */
        assert_int_equal(number_in(directory, "trials"), 1);
        assert_int_equal(number_in(directory, "step"), 10);
        assert_int_equal(number_in(directory, "failed"), 14);
        assert_logs(directory, STEPS);
    }
}

/* Bad in step 3, before there is a checkpoint: the run starts from the initial values, not from the
 * current ones. */
static void test_recovery__without_a_checkpoint(void **state)
{
    settings o = once;
    toy t;
    o.bad_sample = 8;
    o.bad_epoch = 0;
    const char *directory = in(state, "early");
    assert_ok(process(&t, &o, directory, 0, error));
    assert_int_equal(t.taken, 3 + STEPS);
    assert_int_equal(number_in(directory, "step"), 0);
    assert_logs(directory, STEPS);
}

/* A batch that is bad in each epoch: without steps in between all trials fail; with a checkpoint
 * past the failed step the count of trials starts again. */
static void test_recovery__trials(void **state)
{
    settings o = once;
    toy t;
    o.bad_epoch = -1;
    o.every = 0;
    assert_fails(process(&t, &o, in(state, "row"), 0, error), ET_EDIVERGED,
                 ". This happened 3 times in a row; the limit is 2 (recovery_max_trials)");
    assert_int_equal(number_in(in(state, "row"), "trials"), 2);
    assert_fails(process(&t, &o, in(state, "row"), 0, error), ET_EDIVERGED, "3 times");
    o.every = 2;
    o.steps = 40;
    assert_ok(process(&t, &o, in(state, "anew"), 0, error));
    assert_true(number_in(in(state, "anew"), "all") > 3);
    assert_int_equal(number_in(in(state, "anew"), "trials"), 1);
    assert_logs(in(state, "anew"), 40);
    o.trials = 0;
    assert_fails(process(&t, &o, in(state, "none"), 0, error), ET_EDIVERGED, "step 6");
    assert_int_not_equal(access(below(in(state, "none"), ET_RUN_RECOVERY), F_OK), 0);
}

/* Killed (asked to stop) at any batch, before and after it went back: the same bytes, the same
 * logs. */
static void test_recovery__resumes(void **state)
{
    for (int dynamic = 0; dynamic < 2; dynamic++) {
        settings o = once;
        size_t n, m;
        toy t;
        char expected[700];
        snprintf(expected, sizeof expected, "%s-%d", in(state, "whole"), dynamic);
        o.bound = 100;
        o.bad = 1000;
        o.dynamic = dynamic;
        assert_ok(process(&t, &o, expected, 0, error));
        assert_int_equal(t.taken, 24);
        char *want = get_file(below(expected, "checkpoints/ckpt-20.safetensors"), &n);
        for (int at = 1; at < 24; at += 3) {
            char directory[700];
            snprintf(directory, sizeof directory, "%s-%d-%d", in(state, "broken"), dynamic, at);
            int status = process(&t, &o, directory, at, NULL);
            if (at != 14) /* then the run goes back first, and is asked to stop after that */
                assert_int_equal(status, ET_EINTERRUPTED);
            assert_ok(process(&t, &o, directory, 0, error));
            char *have = get_file(below(directory, "checkpoints/ckpt-20.safetensors"), &m);
            assert_int_equal(n, m);
            if (memcmp(want, have, n))
                fail_msg("stopped after batch %d: other bytes", at);
            free(have);
            assert_logs(directory, STEPS);
        }
        free(want);
    }
}

/* Killed between the file and the restore: the result is as if both had been done. */
static void test_recovery__killed_between(void **state)
{
    settings o = once;
    toy t;
    size_t n, m;
    assert_ok(process(&t, &o, in(state, "a"), 0, error));
    o.steps = 12;
    assert_ok(process(&t, &o, in(state, "b"), 0, error)); /* as killed in step 13 */
    char *file = get_file(below(in(state, "a"), ET_RUN_RECOVERY), &n);
    put_file(below(in(state, "b"), ET_RUN_RECOVERY), file, n);
    assert_int_equal(remove(below(in(state, "b"), "checkpoints/ckpt-12.safetensors")), 0);
    o.steps = 0;
    assert_ok(process(&t, &o, in(state, "b"), 0, error));
    char *want = get_file(below(in(state, "a"), "checkpoints/ckpt-20.safetensors"), &n);
    char *have = get_file(below(in(state, "b"), "checkpoints/ckpt-20.safetensors"), &m);
    assert_true(n == m && !memcmp(want, have, n));
    free(file);
    free(want);
    free(have);
}

/* The bound counts from a step on; a loss that is no number always. */
static void test_recovery__begins(void **state)
{
    settings o = once;
    toy t;
    o.trials = 0;
    o.bound = 100;
    o.bad = 1000;
    o.begin = 15;
    assert_ok(process(&t, &o, in(state, "late"), 0, error));
    o.begin = 14;
    assert_fails(process(&t, &o, in(state, "in time"), 0, error), ET_EDIVERGED,
                 "step 14: the loss is");
    o.begin = 15;
    o.bad = NAN;
    assert_fails(process(&t, &o, in(state, "no number"), 0, error), ET_EDIVERGED, "step 14");
}

static void test_recovery__damaged_file(void **state)
{
#define HEAD "{\"trials\":1,\"all\":1,\"step\":5,\"failed\":6"
    static const char *const texts[] = {
        "{",
        "{}",
        "{\"trials\":0,\"all\":1,\"step\":1,\"failed\":2}",
        "{\"trials\":1,\"all\":1,\"step\":5,\"failed\":5}",
        "[1]",
        HEAD "}",
        HEAD ",\"memory\":5}",
        HEAD ",\"memory\":{}}",
        HEAD ",\"memory\":{\"data\":5}}",
        HEAD ",\"memory\":{\"data\":{}}}",
        HEAD ",\"memory\":{\"data\":{\"epoch\":\"x\"}}}",
        HEAD ",\"memory\":{\"data\":{\"epoch\":-1,\"next\":0}}}",
        "{\"trials\":1,\"all\":9223372036854775807,\"step\":5,\"failed\":6,\"memory\":{}}",
    };
    settings o = once;
    toy t;
    o.steps = EVERY;
    assert_ok(process(&t, &o, in(state, "damaged"), 0, error));
    o.steps = STEPS;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_file(below(in(state, "damaged"), ET_RUN_RECOVERY), texts[i], strlen(texts[i]));
        et_error said = ET_ERROR_INIT;
        int status = process(&t, &o, in(state, "damaged"), 0, &said);
        if ((status != ET_EFORMAT && status != ET_EDATA) || !strstr(said.text, ET_RUN_RECOVERY))
            fail_msg("%s: status %d: %s", texts[i], status, said.text);
    }
}

static int diverged;

static int diverges_once(et_trainer *trainer, et_error *error)
{
    return trainer->step + 1 == 7 && !diverged++ ? et_fail(error, ET_EDIVERGED, "step 7: no number")
                                                 : ET_OK;
}

/* An older checkpoint was restored by hand: a run goes back, never to a later one. */
static void test_recovery__restored_by_hand(void **state)
{
    static const et_trainer_class plain = { .name = "plain", .step = diverges_once };
    const char *directory = in(state, "hand");
    char file[700];
    et_outer_loop_options outer = { 0 };
    et_trainer trainer = { .class = &plain };
    et_controller *controller;
    int64_t step;
    et_controller_options options = { .trainer = &trainer,
                                      .run.model_dir = directory,
                                      .outer_loop = &outer,
                                      .steps_per_loop = 5,
                                      .checkpoint_interval = 5,
                                      .recovery_max_trials = 2 };
    snprintf(file, sizeof file, "%s/checkpoints/ckpt-5.safetensors", directory);
    diverged = 1;
    assert_ok(et_controller_open(&controller, &options, error));
    assert_ok(et_controller_train_to(controller, 10, false, error));
    assert_ok(et_controller_restore(controller, file, &step, error));
    diverged = 0;
    assert_ok(et_controller_train_to(controller, 8, false, error));
    assert_int_equal(trainer.step, 8);
    assert_int_equal(number_in(directory, "step"), 5);
    assert_int_equal(number_in(directory, "failed"), 7);
    assert_ok(et_controller_close(controller, error));
    trainer = (et_trainer){ .class = &plain };
    assert_ok(et_controller_open(&controller, &options, error));
    assert_int_equal(trainer.step, 8);
    assert_ok(et_controller_close(controller, error));
}

/* A step whose loss is above the bound is found before its update: in a program that drives the
 * trainer itself, nothing changes. */
static void test_recovery__large_loss_changes_nothing(void **state)
{
    (void)state;
    toy t = { .task = { .class = &class }, .bad_sample = 20, .bad_epoch = -1, .bad = 1000 };
    toy_run r;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    toy_run_init(&r, &class);
    r.trainer_options.batches = 1;
    r.trainer_options.loss_upper_bound = 100;
    assert_ok(toy_run_start_trainer_of(&r, &t.task, error));
    assert_ok(et_task_trainer_initialize(r.trainer, error));
    const size_t bytes = et_params_trained_size(r.params) * sizeof(float);
    float *before = malloc(bytes);
    assert_non_null(before);
    et_error wrong = ET_ERROR_INIT;
    int status = ET_OK, steps = 0;
    double sum = 0, loss;
    for (; !status && steps < 64; steps += !status) {
        memcpy(before, et_params_values(r.params), bytes);
        status = et_task_trainer_train(r.trainer, 1, logs, &wrong);
        if (!status) {
            assert_ok(et_value_read_float(logs, "training_loss", &loss, error));
            sum += loss;
        }
    }
    assert_int_equal(status, ET_EDIVERGED);
    assert_non_null(strstr(wrong.text, "more than loss_upper_bound 100"));
    assert_true(steps > 0 && sum > 0);
    assert_memory_equal(before, et_params_values(r.params), bytes);
    assert_int_equal(et_task_trainer_trainer(r.trainer)->step, steps);
    assert_ok(et_task_trainer_train_loop_end(r.trainer, logs, error));
    assert_ok(et_value_read_float(logs, "training_loss", &loss, error));
    assert_false(loss > 100);
    free(before);
    et_arena_release(&arena);
    assert_int_equal(toy_run_close(&r), ET_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recovery__large_loss_changes_nothing),
        cmocka_unit_test(test_recovery__goes_back),
        cmocka_unit_test(test_recovery__without_a_checkpoint),
        cmocka_unit_test(test_recovery__trials),
        cmocka_unit_test(test_recovery__resumes),
        cmocka_unit_test(test_recovery__killed_between),
        cmocka_unit_test(test_recovery__begins),
        cmocka_unit_test(test_recovery__damaged_file),
        cmocka_unit_test(test_recovery__restored_by_hand),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
