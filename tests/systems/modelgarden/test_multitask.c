/* Several tasks over one store: which gradients make an update, to which task a step belongs, the
 * values of evaluation, and resuming. */
#include <etude/multitask.h>

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "formats/files.h"
#include "train/logged.h"
#include "train/toy_run.h"

enum { SAMPLES = 12, ROWS = 4, TASKS = 2 };

static float x[SAMPLES * 2], y[TASKS][SAMPLES];

typedef struct toy {
    et_task task;
    int number;
    bool no_validation;
    int fails_at; /* batch of validation, from 1; 0: never */
    int batches;  /* of validation */
    int stops_at; /* batch of training; 0: never */
    int taken;    /* of training */
} toy;

static volatile sig_atomic_t stop;

/* A shared body, and a head for each task; the second task uses dropout. */
static void build(et_task *self, et_scope *s, bool training)
{
    const toy *t = (const toy *)(const void *)self;
    (void)training;
    et_node *h = et_tanh(et_dense(et_in(s, "body"), et_batch_input(s, "x"), 4));
    if (t->number)
        h = et_dropout(et_in(s, "body"), h, 0.2f);
    et_node *d = et_sub(et_dense(et_at(s, "head", t->number), h, 1), et_batch_input(s, "y"));
    et_loss(s, "loss", et_mul(d, d), 1);
}

static int count(void *payload, et_batch *batch, et_error *error)
{
    toy *t = payload;
    (void)batch;
    return ++t->batches == t->fails_at ? et_fail(error, ET_EIO, "the disk is gone") : ET_OK;
}

static int stop_there(void *payload, et_batch *batch, et_error *error)
{
    toy *t = payload;
    (void)batch, (void)error;
    stop |= ++t->taken == t->stops_at;
    return ET_OK;
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    toy *t = (toy *)(void *)self;
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "y", ET_F32, y[t->number], et_shape_1(1) } };
    for (int i = 0; i < SAMPLES; i++) {
        x[2 * i] = (float)(i % 7) / 7;
        x[2 * i + 1] = (float)(i % 5) / 5;
        y[t->number][i] = t->number ? x[2 * i + 1] : x[2 * i] + 1;
    }
    if (!training && t->no_validation)
        return ET_OK;
    et_source *source;
    int status = toy_source(&source, arrays, 2, SAMPLES, ROWS, training, error);
    return status ? status : et_map_open(out, source, training ? stop_there : count, t, error);
}

static const et_task_class class = { .name = "toy", .build = build, .data = data };

typedef struct bench {
    toy tasks[TASKS];
    et_multitask_part parts[TASKS];
    et_task_trainer_options trainer;
    et_optimizer_setup optimizer;
    et_multitask_options options;
    et_device *device;
    et_params *params;
    et_multitask *multitask;
    et_trainer *t;
    et_arena arena;
} bench;

static void bench_init(bench *b, int order)
{
    *b = (bench){ .optimizer = { .rule = "sgd", .learning_rate = 0.1 },
                  .options = { .order = order, .steps_per_epoch = 10, .total_steps = 50 } };
    for (int i = 0; i < TASKS; i++) {
        b->tasks[i] = (toy){ .task = { .class = &class, .name = i ? "b" : "a" }, .number = i };
        b->parts[i] = (et_multitask_part){ .task = &b->tasks[i].task, .size = i ? 300 : 100 };
    }
    b->trainer.optimizer = &b->optimizer;
    b->trainer.seed = 3;
    b->options.trainer = &b->trainer;
}

static int bench_open(bench *b, et_error *error)
{
    int status = et_device_open(&b->device, error);
    if (!status)
        status = et_params_new(&b->params, error);
    if (!status)
        status = et_multitask_open(&b->multitask, b->parts, TASKS, b->device, b->params,
                                   &b->options, error);
    if (!status)
        b->t = et_multitask_trainer(b->multitask);
    return status;
}

static void bench_close(bench *b)
{
    et_multitask_close(b->multitask);
    et_params_free(b->params);
    et_device_close(b->device);
    et_arena_release(&b->arena);
}

static void run(bench *b, int64_t steps)
{
    assert_ok(b->t->class->start(b->t, error));
    assert_ok(b->t->class->loop_begin(b->t, error));
    for (; b->t->step < steps; b->t->step++)
        assert_ok(b->t->class->step(b->t, error));
}

static double at(const et_value *dict, const char *path)
{
    const et_value *value = et_value_path(dict, path);
    if (!value || value->kind != ET_VALUE_FLOAT)
        fail_msg("no %s", path);
    return value->real;
}

/* The loss is the sum of weighted mean losses; a weight scales the gradient of its task's head, and
 * of no other. */
static void test_multitask__joint(void **state)
{
    (void)state;
    float moved[2][TASKS];
    for (int heavy = 0; heavy < 2; heavy++) {
        bench b;
        bench_init(&b, ET_MULTITASK_JOINT);
        b.tasks[1].number = 1;
        b.parts[1].weight = heavy ? 4 : 0; /* 0 is 1 */
        assert_ok(bench_open(&b, error));
        assert_ok(b.t->class->start(b.t, error));
        float before[TASKS];
        int index[TASKS] = { et_params_find(b.params, "head_0/bias"),
                             et_params_find(b.params, "head_1/bias") };
        for (int i = 0; i < TASKS; i++)
            before[i] = et_params_values(b.params)[et_params_offset(b.params, index[i])];
        run(&b, 1);
        for (int i = 0; i < TASKS; i++)
            moved[heavy][i] =
                et_params_values(b.params)[et_params_offset(b.params, index[i])] - before[i];
        et_value *logs = et_value_dict(&b.arena);
        assert_ok(b.t->class->loop_end(b.t, logs, error));
        double weight = heavy ? 4 : 1;
        assert_float_equal(at(logs, "total_loss"),
                           at(logs, "a.training_loss") + weight * at(logs, "b.training_loss"),
                           1e-9);
        assert_true(at(logs, "a.gradient_norm") == at(logs, "b.gradient_norm"));
        assert_float_equal(at(logs, "a.learning_rate"), 0.1, 1e-9);
        assert_float_equal(at(logs, "learning_rate"), 0.1, 1e-9);
        assert_int_equal(et_multitask_steps(b.multitask, 0), 1);
        assert_int_equal(et_multitask_steps(b.multitask, 1), 1);
        assert_true(et_multitask_probability(b.multitask, 1, 7) == 1);
        et_trainer_view view;
        b.t->class->view(b.t, &view);
        assert_float_equal(view.loss, at(logs, "total_loss"), 1e-9);
        assert_int_equal(view.units, TASKS * ROWS);
        bench_close(&b);
    }
    assert_true(moved[0][0] == moved[1][0]);
    assert_float_equal(moved[1][1], 4 * moved[0][1], 1e-6);
}

/* Each task gets steps in proportion to its probability; the step number alone decides. */
static void test_multitask__interleaved(void **state)
{
    (void)state;
    static const struct {
        int order;
        double alpha, first, last, after; /* of the second task, at steps 0, 49 and 1000 */
    } cases[] = { { ET_MULTITASK_UNIFORM, 0, 0.5, 0.5, 0.5 },
                  { ET_MULTITASK_PROPORTIONAL, 0, 0.75, 0.75, 0.75 },
                  { ET_MULTITASK_PROPORTIONAL, 2, 0.9, 0.9, 0.9 },
                  /* 3^a / (1 + 3^a) with a of 1.2, 0.4 and 0.2 */
                  { ET_MULTITASK_ANNEALING, 0, 0.788898, 0.608127, 0.554709 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b;
        bench_init(&b, cases[i].order);
        b.options.alpha = cases[i].alpha;
        assert_ok(bench_open(&b, error));
        assert_float_equal(et_multitask_probability(b.multitask, 1, 0), cases[i].first, 1e-5);
        assert_float_equal(et_multitask_probability(b.multitask, 1, 49), cases[i].last, 1e-5);
        assert_float_equal(et_multitask_probability(b.multitask, 1, 1000), cases[i].after, 1e-5);
        double expected = 0;
        for (int step = 0; step < 400; step++)
            expected += et_multitask_probability(b.multitask, 1, step);
        run(&b, 400);
        double found = (double)et_multitask_steps(b.multitask, 1);
        assert_true(fabs(found - expected) < 40); /* four deviations */
        assert_int_equal(found + (double)et_multitask_steps(b.multitask, 0), 400);
        et_value *logs = et_value_dict(&b.arena);
        assert_ok(b.t->class->loop_end(b.t, logs, error));
        assert_true(at(logs, "a.training_loss") > 0 && at(logs, "b.training_loss") > 0);
        assert_null(et_value_get(logs, "total_loss"));
        assert_float_equal(at(logs, "learning_rate"), 0.1, 1e-9);
        bench_close(&b);
    }
}

/* A step of one task does not change the other's head by a bit, although momentum and decay would
 * with a zero gradient. It changes the shared part, and averages follow all. */
static void test_multitask__leaves_others(void **state)
{
    (void)state;
    static const char *const rules[] = { "adamw", "sgd", "lamb", "adafactor_keras", "muon" };
    static const char *const settings = "{ema: {enabled: true, average_decay: 0.9}}";
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        bench b;
        bench_init(&b, ET_MULTITASK_UNIFORM);
        b.optimizer = (et_optimizer_setup){ .rule = rules[r], .settings = settings };
        assert_ok(bench_open(&b, error));
        int head[TASKS] = { et_params_find(b.params, "head_0/weight"),
                            et_params_find(b.params, "head_1/weight") };
        int body = et_params_find(b.params, "body/weight"), both = 0;
        run(&b, 1);
        for (int64_t step = 1; step < 40; step++) {
            float before[TASKS][4], shared[8];
            int64_t had = et_multitask_steps(b.multitask, 0);
            const float *values = et_params_values(b.params);
            for (int i = 0; i < TASKS; i++)
                memcpy(before[i], values + et_params_offset(b.params, head[i]), sizeof before[i]);
            memcpy(shared, values + et_params_offset(b.params, body), sizeof shared);
            assert_ok(b.t->class->step(b.t, error));
            b.t->step++;
            int own = et_multitask_steps(b.multitask, 0) > had ? 0 : 1;
            for (int i = 0; i < TASKS; i++)
                assert_int_equal(memcmp(before[i], values + et_params_offset(b.params, head[i]),
                                        sizeof before[i]) == 0,
                                 i != own);
            assert_memory_not_equal(shared, values + et_params_offset(b.params, body),
                                    sizeof shared);
            both |= 1 << own;
        }
        assert_int_equal(both, 3);
        bench_close(&b);
    }
}

/* Only task 1 in even steps, otherwise both equally. */
static double every_other(void *payload, int part, int64_t step)
{
    ++*(int *)payload;
    return step % 2 ? 3 : part == 1 ? 1e-3 : 0;
}

static double none_or_bad(void *payload, int part, int64_t step)
{
    (void)part;
    return step < 2 ? 1 : *(double *)payload;
}

static void test_multitask__own_shares(void **state)
{
    (void)state;
    static double bad[] = { 0, -1, NAN, INFINITY };
    int asked = 0;
    bench b;
    bench_init(&b, ET_MULTITASK_OWN);
    assert_fails(bench_open(&b, error), ET_ECONFIG, "needs share");
    bench_close(&b);
    bench_init(&b, ET_MULTITASK_OWN);
    b.options.share = every_other;
    b.options.payload = &asked;
    assert_ok(bench_open(&b, error));
    assert_float_equal(et_multitask_probability(b.multitask, 1, 4), 1, 0);
    assert_float_equal(et_multitask_probability(b.multitask, 1, 5), 0.5, 0);
    run(&b, 40);
    const int64_t first = et_multitask_steps(b.multitask, 0);
    assert_true(first > 3 && first < 17);
    assert_int_equal(et_multitask_steps(b.multitask, 1), 40 - first);
    assert_true(asked > 0);
    bench_close(&b);
    for (int i = 0; i < 4; i++) {
        bench_init(&b, ET_MULTITASK_OWN);
        b.options.share = none_or_bad;
        b.options.payload = &bad[i];
        assert_ok(bench_open(&b, error));
        run(&b, 2);
        assert_fails(b.t->class->step(b.t, error), ET_ECONFIG,
                     "step 3: the shares of tasks must be from 0 to 1e100, and not all 0");
        bench_close(&b);
    }
}

static void test_multitask__evaluates(void **state)
{
    (void)state;
    for (int without = 0; without < 3; without++) { /* the task that has no data; 2: both have */
        bench b;
        bench_init(&b, ET_MULTITASK_JOINT);
        b.parts[1].eval_steps = 2;
        if (without < 2)
            b.tasks[without].no_validation = true;
        assert_ok(bench_open(&b, error));
        run(&b, 1);
        et_value *logs = et_value_dict(&b.arena);
        for (int i = 0; i < 2; i++)
            assert_ok(
                et_evaluate(et_multitask_evaluator(b.multitask), 1, 0, NULL, NULL, logs, error));
        for (int i = 0; i < TASKS; i++) {
            const char *name = i ? "b.validation_loss" : "a.validation_loss";
            assert_true((et_value_path(logs, name) != NULL) == (i != without));
        }
        assert_int_equal(b.tasks[0].batches, without == 0 ? 0 : 2 * SAMPLES / ROWS);
        assert_int_equal(b.tasks[1].batches, without == 1 ? 0 : 4);
        assert_int_equal(et_multitask_evaluator(b.multitask)->done,
                         (b.tasks[0].batches + b.tasks[1].batches) / 2);
        bench_close(&b);
    }
    bench b;
    bench_init(&b, ET_MULTITASK_JOINT);
    b.tasks[0].no_validation = b.tasks[1].no_validation = true;
    assert_ok(bench_open(&b, error));
    assert_null(et_multitask_evaluator(b.multitask));
    bench_close(&b);
}

/* The driver's limit applies to each task without its own. */
static void test_multitask__limit_of_each(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, ET_MULTITASK_JOINT);
    b.parts[1].eval_steps = 3;
    assert_ok(bench_open(&b, error));
    run(&b, 1);
    et_value *logs = et_value_dict(&b.arena);
    et_evaluator *evaluator = et_multitask_evaluator(b.multitask);
    assert_ok(et_evaluate(evaluator, 1, 1, NULL, NULL, logs, error));
    assert_int_equal(b.tasks[0].batches, 1);
    assert_int_equal(b.tasks[1].batches, 3);
    assert_int_equal(evaluator->done, 1 + 3);
    assert_non_null(et_value_path(logs, "b.validation_loss"));
    bench_close(&b);
}

/* Without plan for training, step or gradient: only values. */
static void test_multitask__evaluates_only(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, ET_MULTITASK_JOINT);
    b.trainer.use = ET_EVALUATE_ONLY;
    assert_ok(bench_open(&b, error));
    et_value *logs = et_value_dict(&b.arena);
    assert_ok(et_evaluate(et_multitask_evaluator(b.multitask), 1, 0, NULL, NULL, logs, error));
    assert_non_null(et_value_path(logs, "a.validation_loss"));
    assert_int_equal(b.tasks[0].taken, 0);
    assert_fails(b.t->class->step(b.t, error), ET_EUSAGE, "opened to evaluate only");
    bench_close(&b);
}

/* The weights come back when the second task fails. */
static void test_multitask__evaluation_fails(void **state)
{
    (void)state;
    bench b;
    bench_init(&b, ET_MULTITASK_JOINT);
    b.optimizer.settings = "ema: {enabled: true, average_decay: 0.5}";
    b.tasks[1].fails_at = 2;
    assert_ok(bench_open(&b, error));
    run(&b, 3);
    const float *shown = et_params_values(b.params);
    et_value *logs = et_value_dict(&b.arena);
    assert_fails(et_evaluate(et_multitask_evaluator(b.multitask), 1, 0, NULL, NULL, logs, error),
                 ET_EIO, "the disk is gone");
    assert_ptr_equal(et_params_values(b.params), shown);
    bench_close(&b);
}

/* One process; the file of its last step, or NULL if it was to stop: at batch stops_at of a task.
 */
static char *train(const char *directory, int order, int64_t batches, int task, int stops_at,
                   size_t *length)
{
    const et_schedule_exponential falling = { 0.1, .decay_rate = 0.9, .decay_steps = 1 };
    bench b;
    et_controller *controller;
    bench_init(&b, order);
    b.optimizer.learning_rate = 0;
    b.optimizer.exponential = &falling;
    b.trainer.batches = batches;
    b.tasks[task].stops_at = stops_at;
    stop = 0;
    assert_ok(bench_open(&b, error));
    et_controller_options options = { .trainer = b.t,
                                      .evaluator = et_multitask_evaluator(b.multitask),
                                      .run = { .model_dir = directory,
                                               .stop = &stop,
                                               .best_metric = "b|validation_loss",
                                               .best_comparison = ET_COMPARE_LOWER },
                                      .train_steps = 12,
                                      .summary_interval = 6,
                                      .validation_interval = 6 };
    assert_ok(et_controller_open(&controller, &options, error));
    int status = et_controller_train(controller, NULL);
    assert_int_equal(status, stops_at ? ET_EINTERRUPTED : ET_OK);
    assert_ok(et_controller_close(controller, error));
    bench_close(&b);
    char file[800];
    snprintf(file, sizeof file, "%s/checkpoints/ckpt-12.safetensors", directory);
    return stops_at ? NULL : get_file(file, length);
}

/* Broken off at several steps: the same bytes and logs; the best is one of a task's values. */
static void test_multitask__resumes(void **state)
{
    static const struct {
        int order;
        int64_t batches; /* of an update */
        int task, stops[3];
    } cases[] = {
        { ET_MULTITASK_JOINT, 1, 0, { 1, 2, 3 } },
        { ET_MULTITASK_UNIFORM, 1, 0, { 1, 2, 3 } },
        { ET_MULTITASK_UNIFORM, 1, 1, { 1, 3, 4 } },
        /* within an update, whose batches of the task before have been taken */
        { ET_MULTITASK_JOINT, 3, 1, { 1, 5, 9 } },
        { ET_MULTITASK_JOINT, 3, 0, { 2, 4, 6 } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        size_t n, m;
        char whole[700], directory[700];
        const int order = cases[c].order, task = cases[c].task;
        snprintf(whole, sizeof whole, "%s-%zu", in(state, "whole"), c);
        char *want = train(whole, order, cases[c].batches, task, 0, &n);
        assert_non_null(strstr(want + 8, "b/data"));
        for (int i = 0; i < 3; i++) {
            snprintf(directory, sizeof directory, "%s-%zu-%d", in(state, "broken"), c, i);
            train(directory, order, cases[c].batches, task, cases[c].stops[i], NULL);
            char *have = train(directory, order, cases[c].batches, task, 0, &m);
            assert_int_equal(n, m);
            assert_memory_equal(want, have, n);
            assert_string_equal(logged(directory), logged(whole));
            free(have);
        }
        free(want);
    }
}

static void test_multitask__refused(void **state)
{
    (void)state;
    static const et_privacy_options privacy = { .clipping_norm = 1 };
    static const struct {
        const char *name;
        double weight, size, alpha, loss_scale;
        int64_t eval_steps, total, use;
        int order;
        bool private;
        const char *text;
    } cases[] = {
        { "a", .text = "two tasks are called a" },
        { "b", .weight = -1, .text = "task b: weight -1" },
        { "b", .weight = NAN, .text = "weight" },
        { "b", .eval_steps = -1, .text = "eval_steps -1" },
        { "b", .order = ET_MULTITASK_PROPORTIONAL, .text = "task b: size 0" },
        { "b", .order = ET_MULTITASK_ANNEALING, .size = 1,
          .text = "annealing: steps_per_epoch 10" },
        { "b", .alpha = -1, .text = "alpha -1" },
        { "b", .order = 5, .text = "order 5" },
        { "b", .use = 7, .text = "use 7 of a task trainer" },
        { "b", .loss_scale = 2, .text = "neither loss_scale nor dp_config" },
        { "b", .private = true, .text = "neither loss_scale nor dp_config" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b;
        bench_init(&b, cases[i].order);
        b.tasks[1].task.name = cases[i].name;
        b.parts[1].weight = cases[i].weight;
        b.parts[1].eval_steps = cases[i].eval_steps;
        b.parts[1].size = cases[i].size;
        b.options.alpha = cases[i].alpha;
        b.options.total_steps = cases[i].total;
        b.trainer.use = cases[i].use;
        b.trainer.loss_scale = cases[i].loss_scale;
        b.trainer.dp_config = cases[i].private ? &privacy : NULL;
        assert_fails(bench_open(&b, error), ET_ECONFIG, cases[i].text);
        bench_close(&b);
    }
    bench b;
    bench_init(&b, ET_MULTITASK_UNIFORM);
    assert_ok(bench_open(&b, error));
    static const int outside[] = { -1, 2, INT_MAX, INT_MIN };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(et_multitask_steps(b.multitask, outside[i]), 0);
        assert_true(et_multitask_probability(b.multitask, outside[i], 0) == 0);
    }
    bench_close(&b);
    et_multitask *none;
    assert_fails(et_multitask_open(&none, NULL, 0, NULL, NULL, NULL, error), ET_EUSAGE,
                 "needs tasks");
    assert_null(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_multitask__joint),
        cmocka_unit_test(test_multitask__leaves_others),
        cmocka_unit_test(test_multitask__interleaved),
        cmocka_unit_test(test_multitask__own_shares),
        cmocka_unit_test(test_multitask__evaluates),
        cmocka_unit_test(test_multitask__limit_of_each),
        cmocka_unit_test(test_multitask__evaluates_only),
        cmocka_unit_test(test_multitask__evaluation_fails),
        cmocka_unit_test(test_multitask__resumes),
        cmocka_unit_test(test_multitask__refused),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
