/* Orbit's example of one task: a classifier of three kinds of flowers, trained by a StandardTrainer
 * and evaluated by a StandardEvaluator under one controller. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_ORBIT_SINGLE_TASK_H
#define ETUDE_TESTS_REFERENCES_ORBIT_SINGLE_TASK_H

#include <math.h>

#include <etude/etude.h>

#include "formats/files.h"

enum { KINDS = 3, ROWS = 150, COLUMNS = 4, BATCH = 32 };

/* Fisher's irises (1936) as the UCI repository has them, in the order of tensorflow_datasets:
 * sepal length and width, petal length and width in mm, kind. */
static const uint8_t iris[ROWS][COLUMNS + 1] = {
    { 51, 34, 15, 2, 0 },  { 77, 30, 61, 23, 2 }, { 57, 28, 45, 13, 1 }, { 68, 32, 59, 23, 2 },
    { 52, 34, 14, 2, 0 },  { 56, 29, 36, 13, 1 }, { 55, 26, 44, 12, 1 }, { 55, 24, 37, 10, 1 },
    { 46, 34, 14, 3, 0 },  { 77, 28, 67, 20, 2 }, { 70, 32, 47, 14, 1 }, { 46, 32, 14, 2, 0 },
    { 65, 30, 52, 20, 2 }, { 55, 42, 14, 2, 0 },  { 54, 39, 13, 4, 0 },  { 50, 35, 13, 3, 0 },
    { 51, 38, 15, 3, 0 },  { 48, 30, 14, 1, 0 },  { 65, 30, 58, 22, 2 }, { 76, 30, 66, 21, 2 },
    { 67, 33, 57, 21, 2 }, { 79, 38, 64, 20, 2 }, { 67, 30, 52, 23, 2 }, { 58, 40, 12, 2, 0 },
    { 63, 25, 50, 19, 2 }, { 50, 30, 16, 2, 0 },  { 69, 31, 51, 23, 2 }, { 61, 30, 46, 14, 1 },
    { 58, 27, 41, 10, 1 }, { 52, 27, 39, 14, 1 }, { 67, 30, 50, 17, 1 }, { 57, 26, 35, 10, 1 },
    { 58, 28, 51, 24, 2 }, { 65, 32, 51, 20, 2 }, { 57, 38, 17, 3, 0 },  { 54, 39, 17, 4, 0 },
    { 52, 35, 15, 2, 0 },  { 49, 31, 15, 1, 0 },  { 56, 27, 42, 13, 1 }, { 50, 34, 16, 4, 0 },
    { 53, 37, 15, 2, 0 },  { 66, 29, 46, 13, 1 }, { 55, 35, 13, 2, 0 },  { 67, 31, 44, 14, 1 },
    { 43, 30, 11, 1, 0 },  { 64, 31, 55, 18, 2 }, { 50, 32, 12, 2, 0 },  { 57, 44, 15, 4, 0 },
    { 60, 22, 40, 10, 1 }, { 61, 26, 56, 14, 2 }, { 63, 23, 44, 13, 1 }, { 52, 41, 15, 1, 0 },
    { 50, 33, 14, 2, 0 },  { 68, 28, 48, 14, 1 }, { 54, 34, 15, 4, 0 },  { 61, 28, 47, 12, 1 },
    { 56, 30, 41, 13, 1 }, { 64, 29, 43, 13, 1 }, { 64, 28, 56, 21, 2 }, { 51, 37, 15, 4, 0 },
    { 48, 30, 14, 3, 0 },  { 60, 29, 45, 15, 1 }, { 60, 30, 48, 18, 2 }, { 50, 36, 14, 2, 0 },
    { 47, 32, 16, 2, 0 },  { 54, 30, 45, 15, 1 }, { 69, 32, 57, 23, 2 }, { 58, 27, 51, 19, 2 },
    { 61, 28, 40, 13, 1 }, { 61, 30, 49, 18, 2 }, { 58, 27, 51, 19, 2 }, { 63, 27, 49, 18, 2 },
    { 54, 37, 15, 2, 0 },  { 71, 30, 59, 21, 2 }, { 65, 28, 46, 15, 1 }, { 46, 36, 10, 2, 0 },
    { 51, 35, 14, 3, 0 },  { 56, 25, 39, 11, 1 }, { 56, 28, 49, 20, 2 }, { 67, 31, 47, 15, 1 },
    { 57, 30, 42, 12, 1 }, { 73, 29, 63, 18, 2 }, { 45, 23, 13, 3, 0 },  { 58, 27, 39, 12, 1 },
    { 63, 29, 56, 18, 2 }, { 51, 35, 14, 2, 0 },  { 49, 25, 45, 17, 2 }, { 69, 31, 49, 15, 1 },
    { 60, 22, 50, 15, 2 }, { 51, 25, 30, 11, 1 }, { 72, 30, 58, 16, 2 }, { 62, 29, 43, 13, 1 },
    { 44, 29, 14, 2, 0 },  { 57, 28, 41, 13, 1 }, { 57, 25, 50, 20, 2 }, { 56, 30, 45, 15, 1 },
    { 51, 33, 17, 5, 0 },  { 55, 23, 40, 13, 1 }, { 63, 33, 47, 16, 1 }, { 63, 28, 51, 15, 2 },
    { 63, 34, 56, 24, 2 }, { 65, 30, 55, 18, 2 }, { 46, 31, 15, 2, 0 },  { 77, 38, 67, 22, 2 },
    { 50, 20, 35, 10, 1 }, { 72, 36, 61, 25, 2 }, { 64, 32, 45, 15, 1 }, { 49, 30, 14, 2, 0 },
    { 59, 30, 42, 15, 1 }, { 48, 31, 16, 2, 0 },  { 63, 33, 60, 25, 2 }, { 64, 28, 56, 22, 2 },
    { 48, 34, 19, 2, 0 },  { 67, 25, 58, 18, 2 }, { 51, 38, 19, 4, 0 },  { 57, 29, 42, 13, 1 },
    { 64, 27, 53, 19, 2 }, { 54, 34, 17, 2, 0 },  { 68, 30, 55, 21, 2 }, { 63, 25, 49, 15, 1 },
    { 44, 32, 13, 2, 0 },  { 49, 31, 15, 1, 0 },  { 77, 26, 69, 23, 2 }, { 50, 34, 15, 2, 0 },
    { 60, 27, 51, 16, 1 }, { 67, 33, 57, 25, 2 }, { 50, 35, 16, 6, 0 },  { 64, 32, 53, 23, 2 },
    { 74, 28, 61, 19, 2 }, { 69, 31, 54, 21, 2 }, { 59, 32, 48, 18, 1 }, { 55, 25, 40, 13, 1 },
    { 62, 22, 45, 15, 1 }, { 44, 30, 13, 2, 0 },  { 50, 23, 33, 10, 1 }, { 66, 30, 44, 14, 1 },
    { 61, 29, 47, 14, 1 }, { 62, 28, 48, 18, 2 }, { 48, 34, 16, 2, 0 },  { 59, 30, 51, 18, 2 },
    { 60, 34, 45, 16, 1 }, { 72, 32, 60, 18, 2 }, { 58, 26, 40, 12, 1 }, { 47, 32, 13, 2, 0 },
    { 62, 34, 54, 23, 2 }, { 51, 38, 16, 2, 0 },  { 49, 24, 33, 10, 1 }, { 67, 31, 56, 24, 2 },
    { 55, 24, 38, 11, 1 }, { 49, 31, 15, 1, 0 }
};
static float features[ROWS][COLUMNS];
static int32_t label[ROWS];

typedef struct single {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    et_device *device;
    et_params *params;
    et_optimizer *optimizer;
    et_source_tree data[2]; /* to train, to evaluate */
    et_pass *pass[2];
    et_metrics *metrics[2];
    double first_loss, loss; /* of the first inner loop, of the last */
} single;

static single s;

static inline void build(et_scope *scope, void *unused)
{
    (void)unused;
    const et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_dense_with(et_in(scope, "one"), et_batch_input(scope, "features"), 10, &relu);
    h = et_dense_with(et_in(scope, "two"), h, 10, &relu);
    et_node *logits = et_dense(et_in(scope, "logits"), h, KINDS);
    et_loss(scope, "loss", et_softmax_loss(logits, et_batch_input(scope, "label"), 0), 1);
}

static inline int run(int which, et_source_tree_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(s.pass[which], batch, 0, 0, error);
    for (int i = 0; !status && i < et_pass_measures(s.pass[which]); i++) {
        et_measured m = et_pass_measured(s.pass[which], i);
        et_metrics_add(s.metrics[which], m.name, m.total / m.weight, m.weight);
    }
    return status;
}

static inline int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    (void)self;
    int status = et_state_add_params(state, s.params, error);
    return status ? status : et_state_add_optimizer(state, "optimizer", s.optimizer, error);
}

static inline int train_loop_begin(et_standard_trainer *self, et_error *error)
{
    (void)self, (void)error;
    et_metrics_reset(s.metrics[0]);
    return ET_OK;
}

static inline int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor,
                             et_error *error)
{
    (void)self;
    int status = run(0, cursor, error);
    return status ? status : et_optimizer_update(s.optimizer, s.pass[0], NULL, error);
}

static inline int train_loop_end(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)self;
    s.loss = et_metrics_value(s.metrics[0], "loss");
    if (isnan(s.first_loss))
        s.first_loss = s.loss;
    return et_metrics_results(s.metrics[0], logs, error);
}

static inline int eval_begin(et_standard_evaluator *self, void **state, et_error *error)
{
    (void)self, (void)state, (void)error;
    et_metrics_reset(s.metrics[1]);
    return ET_OK;
}

static inline int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor,
                            void **outputs, et_error *error)
{
    (void)self, (void)outputs;
    return run(1, cursor, error);
}

static inline int eval_end(et_standard_evaluator *self, void *state, et_value *logs,
                           et_error *error)
{
    (void)self, (void)state;
    return logs ? et_metrics_results(s.metrics[1], logs, error) : ET_OK;
}

static inline int open_half(int which, et_error *error)
{
    static const char *const measured[] = { "loss", "nll", "accuracy" };
    const et_array arrays[] = { { "features", ET_F32, features, et_shape_1(COLUMNS) },
                                { "label", ET_I32, label, et_shape_scalar() } };
    et_batches_options options = { .repeat = !which, .capacity = { BATCH } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, ROWS, error);
    if (!status)
        status = et_batches_open(&s.data[which].source, samples, &options, error);
    if (!status)
        status = et_pass_open(&s.pass[which], s.device, s.params, &s.data[which].source->layout,
                              build, NULL, &(et_pass_options){ .training = !which }, error);
    if (!status)
        status = et_metrics_new(&s.metrics[which], error);
    for (int i = 0; !status && i < 3; i++)
        status = et_metrics_define(s.metrics[which], measured[i], &et_metric_mean, error);
    return status;
}

static inline int open_all(et_error *error)
{
    static const et_standard_trainer_class trains = { .name = "SingleTaskTrainer",
                                                      .attach = attach,
                                                      .train_loop_begin = train_loop_begin,
                                                      .train_step = train_step,
                                                      .train_loop_end = train_loop_end };
    static const et_standard_evaluator_class judges = {
        .name = "validation", .eval_begin = eval_begin, .eval_step = eval_step, .eval_end = eval_end
    };
    et_optimizer_setup sgd = { .rule = "sgd", .learning_rate = 0.01 };
    s = (single){ .first_loss = NAN };
    for (int i = 0; i < ROWS; i++) {
        for (int c = 0; c < COLUMNS; c++)
            features[i][c] = (float)iris[i][c] / 10;
        label[i] = iris[i][COLUMNS];
    }
    int status = et_device_open(&s.device, error);
    if (!status)
        status = et_params_new(&s.params, error);
    for (int i = 0; !status && i < 2; i++)
        status = open_half(i, error);
    if (!status)
        status = et_params_materialize(s.params, false, error);
    if (!status)
        status = et_optimizer_open(&s.optimizer, s.device, s.params, NULL, &sgd, error);
    if (!status)
        et_init_draw(s.params, 1);
    if (!status)
        status = et_standard_trainer_init(&s.trainer, &trains, &s.data[0], NULL, error);
    return status ? status
                  : et_standard_evaluator_init(&s.evaluator, &judges, &s.data[1], NULL, error);
}

static inline void close_all(void)
{
    et_standard_trainer_release(&s.trainer);
    et_standard_evaluator_release(&s.evaluator);
    et_optimizer_free(s.optimizer);
    for (int i = 0; i < 2; i++) {
        et_metrics_free(s.metrics[i]);
        et_pass_close(s.pass[i]);
        et_source_close(s.data[i].source);
    }
    et_params_free(s.params);
    et_device_close(s.device);
}

/* Without a directory. */
static inline void open_run(et_controller **controller)
{
    const et_outer_loop_options by_call = { 0 };
    const et_controller_options options = { .trainer = &s.trainer.trainer,
                                            .evaluator = &s.evaluator.evaluator,
                                            .steps_per_loop = 100,
                                            .outer_loop = &by_call };
    assert_ok(open_all(error));
    assert_ok(et_controller_open(controller, &options, error));
}

#endif
