/* The reference's mock tasks: `foo` and `bar`, each a dense layer of its own on a shared one, for
 * zeros. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_MULTITASK_TASKS_H
#define ETUDE_TESTS_REFERENCES_MULTITASK_TASKS_H

#include <etude/etude.h>

#include "calls.h"

typedef struct mock {
    et_task task;
    const char *feature; /* of its data */
    const char *layer;   /* of its model */
    const char *metric;
} mock;

static inline int mock_data(et_task *self, bool training, et_source **out, et_error *error)
{
    enum { ROWS = 12 };
    static const float x[ROWS][2];
    static const int32_t labels[ROWS];
    const et_array arrays[] = { { ((const mock *)self)->feature, ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    const et_batches_options two = { .repeat = training, .capacity = { 2 } };
    et_samples *samples;
    int status = et_arrays_open(&samples, arrays, 2, ROWS, error);
    return status ? status : et_batches_open(out, samples, &two, error);
}

static inline void mock_model(et_task *self, et_scope *s, bool training, et_nodes *outputs,
                              et_nodes *aux_losses)
{
    const mock *m = (const mock *)self;
    (void)training;
    et_node *x = et_batch_input(s, m->feature);
    et_node *y = et_dense(et_in(s, m->layer), et_dense(et_in(s, "shared"), x, 1), 1);
    et_nodes_put(outputs, "y", y);
    et_output(s, "outputs", y);
    et_nodes_put(aux_losses, "none", et_scale(et_sum(x), 0));
}

static inline void mock_losses(et_task *self, et_scope *s, const et_nodes *labels,
                               const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)self, (void)labels;
    et_node *target = et_scale(et_nodes_get(outputs, "y"), 0); /* all labels are 0 */
    et_loss(s, "loss", et_square(et_sub(et_nodes_get(outputs, "y"), target)), 1);
    et_penalty(s, "none", et_nodes_get(aux_losses, "none"), 1);
}

static inline int mock_metrics(et_task *self, bool training, et_metrics *metrics, et_error *error)
{
    (void)training;
    return et_metrics_define(metrics, ((const mock *)self)->metric, &et_metric_accuracy, error);
}

static const et_task_class mock_class = { .name = "mock",
                                          .data = mock_data,
                                          .build_model = mock_model,
                                          .build_losses = mock_losses,
                                          .build_metrics = mock_metrics };

static inline mock mock_foo(void)
{
    return (mock){ { .ET_CLASS = &mock_class, .name = "foo" }, "foo", "foo", "foo_acc" };
}

static inline mock mock_bar(void)
{
    return (mock){ { .ET_CLASS = &mock_class, .name = "bar" }, "bar", "bar", "bar_acc" };
}

typedef struct tasks {
    mock foo, bar;
    et_multitask_part parts[2];
    et_optimizer_setup optimizer;
    et_task_trainer_options trainer;
    et_multitask_options options;
    et_device *device;
    et_params *params;
    et_multitask *multitask;
    et_arena *arena;
    et_value *results;
} tasks;

/* t must not move. Its members may be changed before tasks_open. */
static inline void tasks_init(tasks *t, int order)
{
    *t = (tasks){ .foo = mock_foo(),
                  .bar = mock_bar(),
                  .parts = { { .task = &t->foo.task, .size = 1 },
                             { .task = &t->bar.task, .size = 1 } },
                  .optimizer = { .rule = "sgd", .learning_rate = 0.1 },
                  .options = { .order = order } };
    t->trainer.optimizer = &t->optimizer;
    t->options.trainer = &t->trainer;
}

static inline void tasks_open(tasks *t)
{
    assert_ok(et_device_open(&t->device, error));
    assert_ok(et_params_new(&t->params, error));
    assert_ok(
        et_multitask_open(&t->multitask, t->parts, 2, t->device, t->params, &t->options, error));
    et_init_draw(t->params, 1);
    t->arena = et_arena_new();
    t->results = et_value_dict(t->arena);
}

static inline void tasks_close(tasks *t)
{
    et_multitask_close(t->multitask);
    et_params_free(t->params);
    et_device_close(t->device);
    et_arena_free(t->arena);
}

static inline double number_at(const et_value *dict, const char *path)
{
    const et_value *value = et_value_path(dict, path);
    if (!value || value->kind != ET_VALUE_FLOAT)
        fail_msg("no number %s", path);
    return value->real;
}

/* Loss and accuracy of each task. */
static inline void check_results(const tasks *t)
{
    static const char *const paths[] = { "bar.training_loss", "bar.bar_acc", "foo.training_loss",
                                         "foo.foo_acc" };
    for (int i = 0; i < 4; i++)
        assert_true(isfinite(number_at(t->results, paths[i])));
}

#endif
