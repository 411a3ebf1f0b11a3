/* A task trainer: its choices at set-up, its logs, and resuming. */
#include "systems/modelgarden/task_trainer.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/log.h>

#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/files.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "systems/orbit/controller.h"
#include "train/toy_run.h"

enum { NARROW = 4, WIDE = 256 };

static int rows; /* of the toy's batch */

/* A feed-forward layer, and a loss. Its hidden values are most of the backward pass's memory. */
static void build_wide(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    et_dense_options wide = { .activation = ET_ACTIVATION_RELU, .recomputable = true };
    et_node *h = et_dense(et_in(scope, "first"), et_batch_input(scope, "x"), NARROW);
    for (int i = 0; i < 3; i++) {
        et_scope *block = et_at(scope, "block", i);
        et_node *inner = et_dense_with(et_in(block, "in"), h, WIDE, &wide);
        h = et_add(h, et_dense(et_in(block, "out"), inner, NARROW));
    }
    et_init init = et_init_glorot_uniform(8, NARROW);
    et_node *table = et_param(scope, "table", et_shape_2(8, NARROW), init);
    et_loss(scope, "loss", et_vocabulary_loss(h, table, et_batch_input(scope, "labels"), 0.1f), 1);
}

static int wide_data(et_task *self, bool training, et_source **out, et_error *error)
{
    static const float x[2 * NARROW];
    static const int32_t labels[2];
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(NARROW) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    return training ? toy_source(out, arrays, 2, 2, rows, true, error) : ET_OK;
}

static const et_task_class wide_class = { .name = "wide", .build = build_wide, .data = wide_data };

typedef struct facts {
    et_recompute recompute;
    et_plan_memory memory;
} facts;

static facts facts_with(int recompute)
{
    toy_run r;
    toy_run_init(&r, &wide_class);
    r.trainer_options.recompute = recompute;
    r.trainer_options.batches = 1;
    assert_ok(toy_run_start_trainer(&r, error));
    const et_pass *pass = et_task_trainer_pass(r.trainer);
    facts found = { et_pass_recompute(pass), et_pass_plan_memory(pass) };
    toy_run_close(&r);
    return found;
}

/* Chosen by the memory of the batch's values, with the same result as an explicit setting. Large
 * batches are only planned: nothing touches their memory. */
static void test_task_trainer__recomputes_layers_of_large_batches(void **state)
{
    (void)state;
    static const struct {
        int rows;
        et_recompute chosen;
    } cases[] = { { 64, ET_RECOMPUTE_CHEAP }, { 1 << 19, ET_RECOMPUTE_LAYERS } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rows = cases[i].rows;
        facts automatic = facts_with(ET_RECOMPUTE_AUTO);
        facts asked = facts_with((int)cases[i].chosen);
        assert_int_equal(automatic.recompute, cases[i].chosen);
        assert_int_equal(asked.recompute, cases[i].chosen);
        assert_int_equal(automatic.memory.activations, asked.memory.activations);
    }
    facts cheap = facts_with(ET_RECOMPUTE_CHEAP);
    facts marked = facts_with(ET_RECOMPUTE_MARKED);
    assert_true(cheap.memory.activations > (size_t)1 << 30);
    assert_true(marked.memory.activations < cheap.memory.activations);
}

/* ---- a task with everything on that has something to lose ---- */

enum { SAMPLES = 44, FEATURES = 6, CLASSES = 3, ROWS = 4, STEPS = 16 };

static float x[SAMPLES * FEATURES], y[SAMPLES];
static int32_t labels[SAMPLES];

static void fill(void)
{
    for (int i = 0; i < SAMPLES * FEATURES; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < SAMPLES; i++) {
        y[i] = (float)(i * 13 % 17) / 9 - 1;
        labels[i] = i * 5 % CLASSES;
    }
}

/* Drawn weights and dropout, two losses, a measure, a variable that follows batches. */
typedef struct two_losses {
    et_task task;
    bool no_training, no_validation;
    bool unlabelled; /* no row counts for the first loss */
    int fails_at;    /* batch of training, from 1; 0: never */
    int infinite_at; /* batch of training whose loss is infinite; 0: none */
    int batches;     /* of training, taken so far */
    int validated;   /* batches of validation, taken so far */
    int validation_fails_at;
    bool refuses;        /* validate fails */
    double sums[128];    /* of y, of each of them */
    const double *score; /* [step]: what validate says; NULL: nothing */
    bool extra;          /* a part of its own is attached */
} two_losses;

static void build_two(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_node *target = et_batch_input(s, "y");
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 8));
    h = et_dropout(et_in(s, "hidden"), h, 0.2f);
    et_node *d = et_sub(et_dense(et_in(s, "value"), h, 1), target);
    et_node *logits = et_dense(et_in(s, "logits"), h, CLASSES);
    et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "labels"), 0), 1);
    et_loss(s, "square", et_mul(d, d), 0.5f);
    et_measure(s, "target", et_sum(target), et_sum(et_batch_input(s, "mask")));
    et_moving_mean(s, et_variable(s, "seen", et_shape_scalar(), (et_init){ ET_INIT_ZEROS, 0 }),
                   et_sum(target), 0.9f);
}

static int see_batch(void *payload, et_batch *batch, et_error *error)
{
    two_losses *t = payload;
    const float *target = batch->data[1];
    t->sums[t->batches] = 0;
    for (int i = 0; i < ROWS; i++)
        t->sums[t->batches] += target[i];
    if (t->batches + 1 == t->infinite_at)
        *(float *)batch->data[1] = INFINITY;
    return ++t->batches == t->fails_at ? et_fail(error, ET_EIO, "the disk is gone") : ET_OK;
}

static int see_validation(void *payload, et_batch *batch, et_error *error)
{
    two_losses *t = payload;
    (void)batch;
    return ++t->validated == t->validation_fails_at ? et_fail(error, ET_EIO, "the host is gone")
                                                    : ET_OK;
}

static int two_data(et_task *self, bool training, et_source **out, et_error *error)
{
    two_losses *t = (two_losses *)(void *)self;
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(FEATURES) },
                                { "y", ET_F32, y, et_shape_1(1) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    if (training ? t->no_training : t->no_validation)
        return ET_OK;
    et_source *source;
    fill();
    for (int i = 0; i < SAMPLES && t->unlabelled; i++)
        labels[i] = -1;
    int status = toy_source(&source, arrays, 3, SAMPLES, ROWS, training, error);
    *out = NULL;
    return status ? status
                  : et_map_open(out, source, training ? see_batch : see_validation, t, error);
}

static int two_validate(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    const two_losses *t = (const two_losses *)(void *)self;
    double loss;
    if (t->refuses)
        return et_fail(error, ET_EIO, "the judge is gone");
    int status = et_value_read_float(logs, "validation_loss", &loss, error);
    if (!status && t->score)
        et_value_set_float(logs, "score", t->score[step]);
    return status;
}

static int save_extra(const void *self, et_value *dict, et_error *error)
{
    (void)self, (void)error;
    return !et_value_set_int(dict, "seven", 7);
}

static int restore_extra(void *self, const et_value *dict, et_error *error)
{
    int64_t seven;
    int status = et_value_read_int(dict, "seven", &seven, error);
    ((two_losses *)self)->extra = seven == 7;
    return status;
}

static const et_part_class extra_part = { "extra", save_extra, restore_extra };

static int two_attach(et_task *self, et_state *state, et_error *error)
{
    return et_state_add(state, "extra", &extra_part, self, error);
}

static const et_task_class two_class = { .name = "two losses",
                                         .build = build_two,
                                         .data = two_data,
                                         .attach = two_attach,
                                         .validate = two_validate };

typedef struct two_run {
    two_losses task;
    toy_run r;
    et_optimizer_setup optimizer;
} two_run;

static void two_init(two_run *t)
{
    *t = (two_run){ .optimizer = { .rule = "sgd",
                                   .learning_rate = 0.05,
                                   .settings =
                                       "{optimizer: {sgd: {momentum: 0.9}}, ema: {enabled: true,"
                                       " average_decay: 0.8}}" } };
    toy_run_init(&t->r, &two_class);
    t->r.trainer_options.optimizer = &t->optimizer;
    t->r.trainer_options.seed = 11;
    t->r.options.train_steps = STEPS;
    t->r.options.summary_interval = 8;
    t->r.options.validation_interval = 8;
    t->r.options.checkpoint_interval = 5;
}

/* As a process: opens, trains, closes. The task is the one in t. */
static int two_process(two_run *t, const char *directory, et_error *error)
{
    toy_run *r = &t->r;
    t->task.task = r->task;
    int status = toy_run_start_trainer_of(r, &t->task.task, error);
    if (!status)
        status = toy_run_control(r, directory, error);
    if (!status)
        status = et_controller_train(r->controller, error);
    int closed = toy_run_close(r);
    return status ? status : closed;
}

/* metrics.jsonl without times; free it. */
static char *logged(const char *directory)
{
    size_t length;
    char *text = get_file(below(directory, "metrics.jsonl"), &length), *to = text, *from = text;
    for (char *at; (at = strstr(from, ",\"time\":")) != NULL;) {
        memmove(to, from, (size_t)(at - from));
        to += at - from;
        from = strchr(at, '}') + 1;
    }
    memmove(to, from, strlen(from) + 1);
    return text;
}

static void assert_same_file(const char *a, const char *b)
{
    size_t n, m;
    char *left = get_file(a, &n), *right = get_file(b, &m);
    if (n != m || memcmp(left, right, n))
        fail_msg("%s and %s differ", a, b);
    free(left);
    free(right);
}

static void keep_first(void *payload, et_log_level level, const char *text)
{
    char *told = payload;
    if (level == ET_LOG_WARNING && !*told)
        snprintf(told, 200, "%s", text);
}

/* The loss is finite if a row counts, and otherwise reported as meaningless. */
static void test_task_trainer__validates_nothing(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    for (int unlabelled = 0; unlabelled < 2; unlabelled++) {
        two_run t;
        double loss;
        two_init(&t);
        t.task.task = t.r.task;
        t.task.unlabelled = unlabelled;
        char told[200] = "";
        et_log_set(keep_first, told);
        assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
        assert_ok(et_task_trainer_initialize(t.r.trainer, error));
        et_value *logs = et_value_dict(&arena);
        assert_ok(et_task_trainer_evaluate(t.r.trainer, -1, logs, error));
        assert_ok(et_value_read_float(logs, "validation_loss", &loss, error));
        assert_int_equal(!isfinite(loss), unlabelled);
        assert_int_equal(strstr(told, "no row of its validation counts") != NULL, unlabelled);
        et_log_set(NULL, NULL);
        assert_int_equal(toy_run_close(&t.r), ET_OK);
    }
    et_arena_release(&arena);
}

/* The keys of every log, in order. */
static void test_task_trainer__names(void **state)
{
    static const char *const keys[] = {
        "training_loss",     "training_nll",   "training_accuracy",   "training_square",
        "training_target",   "gradient_norm",  "learning_rate",       "epoch",
        "validation_loss",   "validation_nll", "validation_accuracy", "validation_square",
        "validation_target",
    };
    two_run t;
    two_init(&t);
    assert_ok(two_process(&t, in(state, "names"), error));
    char *text = logged(in(state, "names"));
    const char *at = text;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", keys[i]);
        at = strstr(at, key);
        if (!at)
            fail_msg("no %s, in order, in %s", keys[i], text);
    }
    free(text);
}

/* The values of a window: means over all rows of its batches. The measure of the data is known
 * without a model. */
static void test_task_trainer__values(void **state)
{
    two_run t;
    two_init(&t);
    const char *directory = in(state, "values");
    assert_ok(two_process(&t, directory, error));
    char *text = logged(directory);
    for (int window = 0; window < 2; window++) {
        double expected = 0, found;
        for (int i = 0; i < 16; i++)
            expected += t.task.sums[16 * window + i];
        const char *at = text;
        for (int k = 0; k <= window; k++)
            at = strstr(at + 1, "\"training_target\":");
        assert_non_null(at);
        assert_int_equal(sscanf(at, "\"training_target\":%lf", &found), 1);
        assert_float_equal(found, expected / (16 * ROWS), 1e-6);
    }
    double all = 0, found;
    for (int i = 0; i < SAMPLES; i++)
        all += y[i];
    assert_int_equal(
        sscanf(strstr(text, "\"validation_target\":"), "\"validation_target\":%lf", &found), 1);
    assert_float_equal(found, all / SAMPLES, 1e-6);
    free(text);
}

/* The variable is not trained, follows the mean of an update's batches, and resumes. */
static void test_task_trainer__moving_mean(void **state)
{
    two_run t;
    two_init(&t);
    t.task.task = t.r.task;
    t.r.options.checkpoint_interval = 0;
    assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
    assert_ok(toy_run_control(&t.r, in(state, "mean"), error));
    assert_ok(et_controller_train(t.r.controller, error));
    double mean = 0;
    for (int i = 0; i < STEPS; i++)
        mean = 0.9 * mean + 0.1 * (t.task.sums[2 * i] + t.task.sums[2 * i + 1]) / 2;
    int index = et_params_find(t.r.params, "seen");
    assert_false(et_params_is_trained(t.r.params, index));
    float found = et_params_values(t.r.params)[et_params_offset(t.r.params, index)];
    assert_float_equal(found, mean, 1e-5);
    assert_true(fabs(mean) > 1e-3);
    assert_int_equal(toy_run_close(&t.r), 0);

    two_init(&t);
    t.task.task = t.r.task;
    assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
    assert_ok(toy_run_control(&t.r, in(state, "mean"), error));
    assert_true(et_controller_finished(t.r.controller));
    assert_true(t.task.extra);
    index = et_params_find(t.r.params, "seen");
    assert_true(et_params_values(t.r.params)[et_params_offset(t.r.params, index)] == found);
    toy_run_close(&t.r);
}

/* Interrupted at any step, with a batch taken and the window's sums incomplete: the same command
 * gives the same bytes, weights, slots, averages, metrics, data and logs. */
static void test_task_trainer__resumes(void **state)
{
    two_run whole;
    two_init(&whole);
    char expected[700];
    snprintf(expected, sizeof expected, "%s", in(state, "whole"));
    assert_ok(two_process(&whole, expected, error));
    char *logs = logged(expected);
    for (int at = 2; at <= 2 * STEPS; at += 5) {
        two_run t;
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%d", in(state, "broken"), at);
        two_init(&t);
        t.task.fails_at = at;
        assert_fails(two_process(&t, directory, error), ET_EIO, "the disk is gone");
        two_init(&t);
        assert_ok(two_process(&t, directory, error));
        assert_int_equal(t.task.extra, at > 10);
        assert_same_file(below(directory, "checkpoints/ckpt-16.safetensors"),
                         below(expected, "checkpoints/ckpt-16.safetensors"));
        char *found = logged(directory);
        assert_string_equal(found, logs);
        free(found);
    }
    free(logs);
}

/* Validation uses averaged weights if there are any, and restores the weights. */
static void test_task_trainer__validates_averages(void **state)
{
    (void)state;
    double loss[2];
    for (int average = 0; average < 2; average++) {
        et_arena arena = ET_ARENA_INIT;
        two_run t;
        two_init(&t);
        t.task.task = t.r.task;
        if (!average)
            t.optimizer.settings = "{optimizer: {sgd: {momentum: 0.9}}}";
        assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
        et_trainer *trainer = et_task_trainer_trainer(t.r.trainer);
        assert_ok(trainer->class->start(trainer, error));
        for (; trainer->step < STEPS; trainer->step++)
            assert_ok(trainer->class->step(trainer, error));
        size_t bytes = (size_t)et_params_flat_size(t.r.params) * sizeof(float);
        float *before = malloc(bytes);
        assert_non_null(before);
        memcpy(before, et_params_values(t.r.params), bytes);
        et_value *logs = et_value_dict(&arena);
        et_evaluator *evaluator = et_task_trainer_evaluator(t.r.trainer);
        for (int i = 0; i < 2; i++) { /* the second pass over the data gives the values of the first
                                       */
            double found;
            assert_ok(et_evaluate(evaluator, STEPS, 0, NULL, NULL, logs, error));
            assert_ok(et_value_read_float(logs, "validation_loss", &found, error));
            assert_true(i == 0 || found == loss[average]);
            loss[average] = found;
        }
        assert_memory_equal(before, et_params_values(t.r.params), bytes);
        free(before);
        toy_run_close(&t.r);
        et_arena_release(&arena);
    }
    assert_true(loss[0] != loss[1]);
}

/* ---- sets of validation data ---- */

enum { SETS = 2, PART = 20 }; /* samples of the first; the second has all */

static const char *set_names[SETS + 1];
static int set_in_use;
static int64_t rows_of_second = ROWS; /* of its batches */

static int two_set(et_task *self, int number, const char **name, et_source **out, et_error *error)
{
    const int64_t count = number ? SAMPLES : PART;
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(FEATURES) },
                                { "y", ET_F32, y, et_shape_1(1) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    et_source *source;
    *out = NULL;
    *name = set_names[number];
    if (!*name)
        return ET_OK;
    fill();
    int status =
        toy_source(&source, arrays, 3, count, number ? rows_of_second : ROWS, false, error);
    return status ? status : et_map_open(out, source, see_validation, self, error);
}

static void use_set(et_task *self, int number)
{
    (void)self;
    set_in_use = number;
}

static int validate_set(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    return et_value_set_float(logs, "place", set_in_use) ? two_validate(self, step, logs, error)
                                                         : ET_ENOMEM;
}

static const et_task_class sets_class = { .name = "sets",
                                          .build = build_two,
                                          .data = two_data,
                                          .attach = two_attach,
                                          .validate = validate_set,
                                          .validation_set = two_set,
                                          .use_validation_set = use_set };

static double value_at(const et_value *logs, const char *path)
{
    const et_value *found = et_value_path(logs, path);
    if (!found || found->kind != ET_VALUE_FLOAT)
        fail_msg("no %s", path);
    return found->real;
}

/* A task of the class, evaluated untrained. */
static void evaluate_with(const et_task_class *class, int64_t limit, et_value *logs, int *batches)
{
    two_run t;
    two_init(&t);
    t.r.task.class = class;
    t.task.task = t.r.task;
    assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
    et_trainer *trainer = et_task_trainer_trainer(t.r.trainer);
    assert_ok(trainer->class->start(trainer, error));
    for (int i = 0; i < 2; i++) /* the second is as the first */
        assert_ok(
            et_evaluate(et_task_trainer_evaluator(t.r.trainer), 0, limit, NULL, NULL, logs, error));
    *batches = t.task.validated;
    assert_int_equal(et_task_trainer_evaluator(t.r.trainer)->done, *batches / 2);
    toy_run_close(&t.r);
}

/* Each set gives the values that it gives alone; a limit applies to each. */
static void test_task_trainer__sets(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_value *sets = et_value_dict(&arena), *alone = et_value_dict(&arena);
    int batches;
    set_names[0] = "part";
    set_names[1] = "all";
    evaluate_with(&sets_class, 0, sets, &batches);
    evaluate_with(&two_class, 0, alone, &batches);
    assert_true(value_at(sets, "all.validation_loss") == value_at(alone, "validation_loss"));
    assert_true(value_at(sets, "all.validation_square") == value_at(alone, "validation_square"));
    assert_true(value_at(sets, "part.validation_loss") != value_at(alone, "validation_loss"));
    assert_true(value_at(sets, "part.place") == 0 && value_at(sets, "all.place") == 1);
    assert_null(et_value_get(sets, "validation_loss"));
    alone = et_value_dict(&arena);
    sets = et_value_dict(&arena);
    evaluate_with(&sets_class, 2, sets, &batches);
    assert_int_equal(batches, 2 * SETS * 2);
    evaluate_with(&two_class, 2, alone, &batches);
    assert_true(value_at(sets, "all.validation_loss") == value_at(alone, "validation_loss"));
    assert_true(value_at(sets, "part.validation_loss") == value_at(alone, "validation_loss"));
    char told[200] = "";
    et_log_set(keep_first, told);
    evaluate_with(&sets_class, 1000, sets = et_value_dict(&arena), &batches);
    et_log_set(NULL, NULL);
    assert_non_null(strstr(told, "validation of part: the data ended after "));
    et_arena_release(&arena);
}

/* Reported when the trainer is opened, not at the first evaluation. */
static void test_task_trainer__sets_of_other_capacity(void **state)
{
    two_run t;
    (void)state;
    set_names[0] = "part";
    set_names[1] = "all";
    rows_of_second = ROWS + 1;
    two_init(&t);
    t.r.task.class = &sets_class;
    t.task.task = t.r.task;
    assert_fails(toy_run_start_trainer_of(&t.r, &t.task.task, error), ET_ECONFIG,
                 "validation set all of sets: its batches have the capacity");
    rows_of_second = ROWS;
    toy_run_close(&t.r);
}

/* An evaluation in parts would only measure the first set, without a warning in its values, so it
 * is refused; a caller's own source is measured. */
static void test_task_trainer__sets_by_parts(void **state)
{
    (void)state;
    for (int own = 0; own < 2; own++) {
        two_run t;
        et_arena arena = ET_ARENA_INIT;
        et_source *source = NULL;
        const char *name;
        bool more = true;
        set_names[0] = "part";
        set_names[1] = "all";
        two_init(&t);
        t.r.task.class = &sets_class;
        t.task.task = t.r.task;
        assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
        et_task_trainer *trainer = t.r.trainer;
        assert_ok(et_task_trainer_initialize(trainer, error));
        if (own)
            assert_ok(two_set(&t.task.task, 0, &name, &source, error));
        assert_ok(et_task_trainer_eval_begin(trainer, error));
        while (more)
            assert_ok(et_task_trainer_eval_step(trainer, source, NULL, &more, error));
        et_value *logs = et_value_dict(&arena);
        if (own)
            assert_ok(et_task_trainer_eval_end(trainer, NULL, logs, error));
        else
            assert_fails(
                et_task_trainer_eval_end(trainer, NULL, logs, error), ET_EUSAGE,
                "has 2 sets of validation data, but step by step only the first is evaluated: call "
                "et_task_trainer_evaluate, or give eval_step the source of each set");
        assert_ok(et_task_trainer_train(trainer, 1, NULL, error)); /* it has ended */
        et_source_close(source);
        et_arena_release(&arena);
        toy_run_close(&t.r);
    }
}

/* The best by a set's metric; an interruption in the second set changes nothing. */
static void test_task_trainer__best_of_set(void **state)
{
    char directory[600];
    et_error error = ET_ERROR_INIT;
    snprintf(directory, sizeof directory, "%s", in(state, "sets"));
    set_names[0] = "part";
    set_names[1] = "all";
    two_run t;
    two_init(&t);
    t.r.task.class = &sets_class;
    t.r.options.run.best_metric = "all/validation_loss";
    if (two_process(&t, directory, &error))
        fail_msg("%s", error.text);
    char *log = logged(directory);
    assert_non_null(strstr(log, "\"best_all/validation_loss\":"));
    assert_non_null(strstr(log, "\"part\":{\"validation_loss\":"));
    free(log);
    two_init(&t);
    t.r.task.class = &sets_class;
    t.r.options.train_steps = 2 * STEPS;
    t.r.options.run.best_metric = "all/no_such";
    assert_int_equal(two_process(&t, directory, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "validation has no value all/no_such"));
    set_names[1] = "a/b";
    two_init(&t);
    t.r.task.class = &sets_class;
    assert_int_equal(two_process(&t, directory, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "each with a name without / or |"));
    set_names[1] = "all";
}

/* Where validation breaks off, with averages shown: the weights are those from before, to the bit,
 * and so is the next update. */
static void test_task_trainer__broken_validation(void **state)
{
    (void)state;
    float *expected = NULL;
    for (int broken = 0; broken < 3; broken++) {
        et_arena arena = ET_ARENA_INIT;
        two_run t;
        two_init(&t);
        t.task.task = t.r.task;
        assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
        et_trainer *trainer = et_task_trainer_trainer(t.r.trainer);
        et_evaluator *evaluator = et_task_trainer_evaluator(t.r.trainer);
        assert_ok(trainer->class->start(trainer, error));
        for (; trainer->step < 4; trainer->step++)
            assert_ok(trainer->class->step(trainer, error));
        size_t bytes = (size_t)et_params_flat_size(t.r.params) * sizeof(float);
        float *before = malloc(bytes), *own = et_params_values(t.r.params);
        assert_non_null(before);
        memcpy(before, own, bytes);
        t.task.validation_fails_at = broken == 1 ? 3 : 0;
        t.task.refuses = broken == 2;
        if (broken)
            assert_fails(et_evaluate(evaluator, 4, 0, NULL, NULL, et_value_dict(&arena), error),
                         ET_EIO, "is gone");
        assert_ptr_equal(et_params_values(t.r.params), own);
        assert_memory_equal(before, own, bytes);
        assert_ok(trainer->class->step(trainer, error));
        if (expected)
            assert_memory_equal(expected, own, bytes);
        else
            expected = memcpy(before, own, bytes);
        if (before != expected)
            free(before);
        toy_run_close(&t.r);
        et_arena_release(&arena);
    }
    free(expected);
}

static void test_task_trainer__without_data(void **state)
{
    two_run t;
    two_init(&t);
    t.task.no_validation = true;
    assert_ok(two_process(&t, in(state, "trained only"), error));
    char *text = logged(in(state, "trained only"));
    assert_non_null(strstr(text, "training_loss"));
    assert_null(strstr(text, "validation"));
    free(text);
    two_init(&t);
    t.task.no_training = true;
    assert_fails(two_process(&t, in(state, "nothing"), error), ET_ECONFIG,
                 "two losses has no training data");
}

/* By the metric, higher or lower; NaN is never better; the best survives a restart. */
static void test_task_trainer__best(void **state)
{
    static const double up[STEPS + 1] = { [4] = 1, [8] = 5, [12] = NAN, [16] = 5 };
    static const double down[STEPS + 1] = { [4] = NAN, [8] = 3, [12] = 9, [16] = 2 };
    static const struct {
        const double *score;
        int comparison;
        int best[4]; /* best_step in each log; 0: none is known */
    } cases[] = { { up, ET_COMPARE_HIGHER, { 4, 8, 8, 8 } },
                  { up, ET_COMPARE_LOWER, { 4, 4, 4, 4 } },
                  { down, ET_COMPARE_HIGHER, { 0, 8, 12, 12 } },
                  { down, ET_COMPARE_LOWER, { 0, 8, 8, 16 } } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char directory[700];
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "best"), c);
        for (int steps = 4; steps <= STEPS; steps += 4) { /* a process for each */
            two_run t;
            two_init(&t);
            t.task.score = cases[c].score;
            t.r.options.train_steps = steps;
            t.r.options.validation_interval = 4;
            t.r.options.run.best_metric = "score";
            t.r.options.run.best_comparison = cases[c].comparison;
            assert_ok(two_process(&t, directory, error));
        }
        char *text = logged(directory);
        const char *at = text;
        for (int i = 0; i < 4; i++) {
            int best = 0;
            at = strstr(at + 1, "\"score\":");
            assert_non_null(at);
            const char *end = strchr(at, '\n'), *found = strstr(at, "\"best_step\":");
            if (found && found < end)
                assert_int_equal(sscanf(found, "\"best_step\":%d", &best), 1);
            if (best != cases[c].best[i])
                fail_msg("case %zu, log %d: best is %d\n%s", c, i, best, text);
        }
        free(text);
    }
    two_run t;
    two_init(&t);
    t.r.options.run.best_metric = "score";
    assert_fails(two_process(&t, in(state, "no score"), error), ET_ECONFIG,
                 "validation has no value score");
}

/* Dynamic loss scaling leaves out the first update after one batch: it has a rate nevertheless. */
static void test_task_trainer__view(void **state)
{
    (void)state;
    for (int leaves_out = 0; leaves_out < 2; leaves_out++) {
        two_run t;
        two_init(&t);
        t.task.task = t.r.task;
        t.task.infinite_at = leaves_out;
        t.r.trainer_options.loss_scale = leaves_out ? ET_LOSS_SCALE_DYNAMIC : 0;
        assert_ok(toy_run_start_trainer_of(&t.r, &t.task.task, error));
        et_trainer *trainer = et_task_trainer_trainer(t.r.trainer);
        assert_ok(trainer->class->start(trainer, error));
        for (; trainer->step < 6; trainer->step++) {
            et_trainer_view view;
            assert_ok(trainer->class->step(trainer, error));
            trainer->class->view(trainer, &view);
            const int64_t taken = 2 * (trainer->step + 1) - leaves_out;
            assert_true(taken == 1 ? isnan(view.loss) : view.loss > 0 && view.loss < 10);
            assert_float_equal(view.learning_rate, 0.05, 1e-9);
            assert_int_equal(view.units, taken == 1 ? ROWS : 2 * ROWS);
            assert_string_equal(view.unit, "sample");
            assert_int_equal(view.epoch, 1 + (taken - 1) / (SAMPLES / ROWS));
        }
        toy_run_close(&t.r);
    }
}

static void test_task_trainer__refused(void **state)
{
    (void)state;
    static const et_task_class no_build = { .name = "n", .data = two_data };
    static const et_task_class no_data = { .name = "n", .build = build_two };
    et_task_trainer *trainer;
    et_device *device;
    et_params *params;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    et_task unbuilt = { .class = &no_build }, empty = { .class = &no_data };
    two_losses task = { .task = { .class = &two_class } };
    et_task_trainer_options options = { .batches = -3 };
    assert_fails(et_task_trainer_open(&trainer, &task.task, device, params, &options, error),
                 ET_ECONFIG, "-3 batches");
    assert_fails(et_task_trainer_open(&trainer, NULL, device, params, NULL, error), ET_EUSAGE,
                 "needs a task");
    assert_fails(et_task_trainer_open(&trainer, &unbuilt, device, params, NULL, error), ET_EUSAGE,
                 "needs a task");
    assert_fails(et_task_trainer_open(&trainer, &empty, device, params, NULL, error), ET_EUSAGE,
                 "needs a task");
    assert_null(trainer);
    et_optimizer_setup setup = { .rule = "none such" };
    options = (et_task_trainer_options){ .optimizer = &setup };
    assert_fails(et_task_trainer_open(&trainer, &task.task, device, params, &options, error),
                 ET_ECONFIG, "none such");
    et_params_free(params);
    et_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_task_trainer__recomputes_layers_of_large_batches),
        cmocka_unit_test(test_task_trainer__validates_nothing),
        cmocka_unit_test(test_task_trainer__names),
        cmocka_unit_test(test_task_trainer__values),
        cmocka_unit_test(test_task_trainer__moving_mean),
        cmocka_unit_test(test_task_trainer__resumes),
        cmocka_unit_test(test_task_trainer__validates_averages),
        cmocka_unit_test(test_task_trainer__sets),
        cmocka_unit_test(test_task_trainer__sets_of_other_capacity),
        cmocka_unit_test(test_task_trainer__sets_by_parts),
        cmocka_unit_test(test_task_trainer__best_of_set),
        cmocka_unit_test(test_task_trainer__broken_validation),
        cmocka_unit_test(test_task_trainer__without_data),
        cmocka_unit_test(test_task_trainer__best),
        cmocka_unit_test(test_task_trainer__view),
        cmocka_unit_test(test_task_trainer__refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
