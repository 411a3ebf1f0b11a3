/* Orbit's example of one task: a classifier of three kinds of flowers, trained by a StandardTrainer
 * and evaluated by a StandardEvaluator under one controller. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_ORBIT_SINGLE_TASK_H
#define ETUDE_TESTS_REFERENCES_ORBIT_SINGLE_TASK_H

#include <math.h>

#include <etude/etude.h>

#include "formats/files.h"

enum { KINDS = 3, EACH = 50, ROWS = KINDS * EACH, COLUMNS = 4, BATCH = 32 };

/* Means and deviations of sepal length and width, petal length and width of Fisher's irises (1936),
 * from which the flowers are drawn. */
static const float mean[KINDS][COLUMNS] = { { 5.01f, 3.43f, 1.46f, 0.25f },
                                            { 5.94f, 2.77f, 4.26f, 1.33f },
                                            { 6.59f, 2.97f, 5.55f, 2.03f } };
static const float deviation[KINDS][COLUMNS] = { { 0.35f, 0.38f, 0.17f, 0.11f },
                                                 { 0.52f, 0.31f, 0.47f, 0.20f },
                                                 { 0.64f, 0.32f, 0.55f, 0.27f } };
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

static inline void grow_flowers(void)
{
    uint64_t number = 7;
    for (int i = 0; i < ROWS; i++)
        for (int c = 0; c < COLUMNS; c++) {
            double sum = -6; /* twelve uniform numbers make nearly a normal one */
            for (int k = 0; k < 12; k++) {
                number = number * 6364136223846793005u + 1442695040888963407u;
                sum += (double)(number >> 11) * 0x1p-53;
            }
            label[i] = i % KINDS;
            features[i][c] = mean[label[i]][c] + deviation[label[i]][c] * (float)sum;
        }
}

static inline void build(et_scope *scope, void *unused)
{
    (void)unused;
    const et_dense_options relu = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_dense_with(et_in(scope, "one"), et_batch_input(scope, "features"), 10, &relu);
    h = et_dense_with(et_in(scope, "two"), h, 10, &relu);
    et_node *logits = et_dense(et_in(scope, "logits"), h, KINDS);
    et_loss(scope, "loss", et_softmax_loss(logits, et_batch_input(scope, "label"), 0), 1);
}

static inline int run(int which, et_cursor *cursor, et_error *error)
{
    const et_batch *batch;
    int status = et_cursor_next(cursor, NULL, &batch, error);
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

static inline int train_step(et_standard_trainer *self, et_cursor *cursor, et_error *error)
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

static inline int eval_step(et_standard_evaluator *self, et_cursor *cursor, void **outputs,
                            et_error *error)
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
    et_batches_options options = { .shuffle = !which, .repeat = !which, .capacity = { BATCH } };
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
    grow_flowers();
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
