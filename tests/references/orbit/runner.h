/* The trainer and evaluator of Orbit's controller_test.py: a dense layer from 3 zeros to 4 ones,
 * trained by RMSprop on 100 batches of 10 rows. Include after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_ORBIT_RUNNER_H
#define ETUDE_TESTS_REFERENCES_ORBIT_RUNNER_H

#include <dirent.h>

#include <etude/orbit.h>
#include <etude/records.h>
#include <etude/summary.h>

#include "formats/files.h"
#include "train/kept.h"

enum { BATCH = 10, ROWS = 100 * BATCH };

typedef struct runner {
    et_standard_trainer trainer;
    et_standard_evaluator evaluator;
    et_device *device;
    et_params *params;
    et_optimizer *optimizer;
    et_source *source[4]; /* to train and to evaluate, and two that replace them */
    et_source_tree data[4];
    et_pass *pass[2];
    et_metrics *metrics; /* "train_loss", "eval_loss" */
    int steps;           /* of training */
    et_standard_trainer_options loop;
    et_outer_loop_options outer;
    et_controller_options options;
    et_controller *controller;
} runner;

static inline runner *of_trainer(et_standard_trainer *self)
{
    return (runner *)(void *)((char *)self - offsetof(runner, trainer));
}

static inline runner *of_evaluator(et_standard_evaluator *self)
{
    return (runner *)(void *)((char *)self - offsetof(runner, evaluator));
}

static inline void build(et_scope *s, void *unused)
{
    (void)unused;
    et_node *outputs = et_dense(et_in(s, "dense"), et_batch_input(s, "inputs"), 4);
    et_loss(s, "loss", et_squared_error(outputs, et_batch_input(s, "targets")), 0.25f);
}

/* Runs the next batch; *loss: its mean. */
static inline int run_batch(runner *r, int which, et_source_tree_cursor *cursor, double *loss,
                            et_error *error)
{
    const et_batch *batch;
    int status = et_source_tree_cursor_next(cursor, NULL, &batch, error);
    if (!status)
        status = et_pass_run(r->pass[which], batch, 0, 0, error);
    *loss = status ? 0 : et_pass_loss(r->pass[which]) / et_pass_divisor(r->pass[which]);
    return status;
}

static inline int attach(et_standard_trainer *self, et_state *state, et_error *error)
{
    runner *r = of_trainer(self);
    int status = et_state_add_params(state, r->params, error);
    return status ? status : et_state_add_optimizer(state, "optimizer", r->optimizer, error);
}

static inline int train_step(et_standard_trainer *self, et_source_tree_cursor *cursor,
                             et_error *error)
{
    runner *r = of_trainer(self);
    double loss;
    int status = run_batch(r, 0, cursor, &loss, error);
    if (status)
        return status;
    r->steps++;
    et_metrics_add(r->metrics, "train_loss", loss, 1);
    return et_optimizer_update(r->optimizer, r->pass[0], NULL, error);
}

static inline int train_loop_end(et_standard_trainer *self, et_value *logs, et_error *error)
{
    (void)error;
    et_value_set_float(logs, "loss", et_metrics_value(of_trainer(self)->metrics, "train_loss"));
    return ET_OK;
}

static const et_standard_trainer_class trains = { .name = "TestRunner",
                                                  .attach = attach,
                                                  .train_step = train_step,
                                                  .train_loop_end = train_loop_end };

static inline int eval_begin(et_standard_evaluator *self, void **state, et_error *error)
{
    (void)state, (void)error;
    et_metrics_reset(of_evaluator(self)->metrics);
    return ET_OK;
}

static inline int eval_step(et_standard_evaluator *self, et_source_tree_cursor *cursor,
                            void **outputs, et_error *error)
{
    (void)outputs;
    runner *r = of_evaluator(self);
    double loss;
    int status = run_batch(r, 1, cursor, &loss, error);
    if (!status)
        et_metrics_add(r->metrics, "eval_loss", loss, 1);
    return status;
}

static inline int eval_end(et_standard_evaluator *self, void *state, et_value *logs,
                           et_error *error)
{
    (void)state, (void)error;
    et_value_set_float(logs, "eval_loss",
                       et_metrics_value(of_evaluator(self)->metrics, "eval_loss"));
    return ET_OK;
}

static const et_standard_evaluator_class evaluates = {
    .name = "eval", .eval_begin = eval_begin, .eval_step = eval_step, .eval_end = eval_end
};

static inline et_source *new_source(void)
{
    static float inputs[ROWS][3], targets[ROWS][4];
    const et_array arrays[] = { { "inputs", ET_F32, inputs, et_shape_1(3) },
                                { "targets", ET_F32, targets, et_shape_1(4) } };
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < ROWS * 4; i++)
        targets[i / 4][i % 4] = 1;
    assert_ok(et_arrays_open(&samples, arrays, 2, ROWS, error));
    assert_ok(
        et_batches_open(&source, samples, &(et_batches_options){ .capacity = { BATCH } }, error));
    return source;
}

/* All but the controller. The options of *r are the caller's. */
static inline void prepare_as(runner *r, const et_standard_trainer_class *trainer,
                              const et_standard_evaluator_class *evaluator)
{
    const et_optimizer_setup rmsprop = { .rule = "rmsprop", .learning_rate = 0.1 };
    assert_ok(et_device_open(&r->device, error));
    assert_ok(et_params_new(&r->params, error));
    assert_ok(et_metrics_new(&r->metrics, error));
    assert_ok(et_metrics_define(r->metrics, "train_loss", &et_metric_mean, error));
    assert_ok(et_metrics_define(r->metrics, "eval_loss", &et_metric_mean, error));
    for (int i = 0; i < 4; i++)
        r->data[i].source = r->source[i] = new_source();
    for (int i = 0; i < 2; i++)
        assert_ok(et_pass_open(&r->pass[i], r->device, r->params, &r->source[i]->layout, build,
                               NULL, &(et_pass_options){ .training = !i }, error));
    assert_ok(et_params_materialize(r->params, false, error));
    et_init_draw(r->params, 1);
    assert_ok(et_optimizer_open(&r->optimizer, r->device, r->params, NULL, &rmsprop, error));
    assert_ok(et_standard_trainer_init(&r->trainer, trainer, &r->data[0], &r->loop, error));
    assert_ok(et_standard_evaluator_init(&r->evaluator, evaluator, &r->data[1], NULL, error));
    r->options.outer_loop = &r->outer;
    r->options.run.max_to_keep = -1;
}

static inline void prepare(runner *r)
{
    prepare_as(r, &trains, &evaluates);
    r->options.trainer = &r->trainer.trainer;
    r->options.evaluator = &r->evaluator.evaluator;
}

static inline void finish(runner *r)
{
    assert_ok(et_controller_close(r->controller, error));
    et_standard_trainer_release(&r->trainer);
    et_standard_evaluator_release(&r->evaluator);
    et_optimizer_free(r->optimizer);
    et_metrics_free(r->metrics);
    for (int i = 0; i < 2; i++)
        et_pass_close(r->pass[i]);
    for (int i = 0; i < 4; i++)
        et_source_close(r->source[i]);
    et_params_free(r->params);
    et_device_close(r->device);
}

typedef void event_fn(void *payload, const void *bytes, size_t length);

/* Calls function for the events in the event files of a directory. */
static inline void each_event(const char *directory, event_fn *function, void *payload)
{
    DIR *files = opendir(directory);
    for (struct dirent *file; files && (file = readdir(files)) != NULL;) {
        et_record_reader *reader;
        const void *bytes;
        size_t length;
        char path[1200];
        if (strncmp(file->d_name, "events", 6))
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, file->d_name);
        assert_ok(et_record_reader_open(&reader, path, error));
        for (;;) {
            assert_ok(et_record_read(reader, &bytes, &length, error));
            if (!bytes)
                break;
            function(payload, bytes, length);
        }
        et_record_reader_close(reader);
    }
    if (files)
        closedir(files);
}

typedef struct matches {
    const char *text;
    int count;
} matches;

static inline void match(void *payload, const void *bytes, size_t length)
{
    matches *found = payload;
    found->count += memmem(bytes, length, found->text, strlen(found->text)) != NULL;
}

/* Number of events with this text in the event files of a directory. */
static inline int events(const char *directory, const char *text)
{
    matches found = { .text = text };
    each_event(directory, match, &found);
    return found.count;
}

#endif
