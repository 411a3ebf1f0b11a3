/* A small task under its trainer and a controller: set up, looked at, closed. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_TOY_RUN_H
#define ETUDE_TESTS_TRAIN_TOY_RUN_H

#include "systems/modelgarden/task_trainer.h"
#include "systems/orbit/controller.h"

/* Members are zero or owned, but for class, which is the test's; release in any case. */
typedef struct toy_run {
    et_task task;
    et_task_trainer_options trainer_options;
    et_controller_options options;
    et_device *device;
    et_params *params;
    et_task_trainer *trainer;
    et_controller *controller;
} toy_run;

/* Adam at a constant rate, two batches an update, one step. r must not move. Its members may be
 * changed before toy_run_start. */
static inline void toy_run_init(toy_run *r, const et_task_class *class)
{
    *r = (toy_run){ .task = { .class = class },
                    .trainer_options = { .batches = 2 },
                    .options = { .train_steps = 1, .steps_per_loop = 100 } };
    r->options.run.max_to_keep = 5;
}

/* For another task than the one in r. */
static inline int toy_run_start_trainer_of(toy_run *r, et_task *task, et_error *error)
{
    int status = et_device_open(&r->device, error);
    if (!status)
        status = et_params_new(&r->params, error);
    return status ? status
                  : et_task_trainer_open(&r->trainer, task, r->device, r->params,
                                         &r->trainer_options, error);
}

static inline int toy_run_start_trainer(toy_run *r, et_error *error)
{
    return toy_run_start_trainer_of(r, &r->task, error);
}

static inline int toy_run_control(toy_run *r, const char *directory, et_error *error)
{
    r->options.trainer = et_task_trainer_trainer(r->trainer);
    r->options.evaluator = et_task_trainer_evaluator(r->trainer);
    r->options.run.model_dir = directory;
    return et_controller_open(&r->controller, &r->options, error);
}

static inline int toy_run_start(toy_run *r, const char *directory, et_error *error)
{
    int status = toy_run_start_trainer(r, error);
    return status ? status : toy_run_control(r, directory, error);
}

/* The status of closing the controller, which waits for its last save. */
static inline int toy_run_close(toy_run *r)
{
    int status = et_controller_close(r->controller, NULL);
    et_task_trainer_close(r->trainer);
    et_params_free(r->params);
    et_device_close(r->device);
    r->controller = NULL;
    r->trainer = NULL;
    r->params = NULL;
    r->device = NULL;
    return status;
}

/* Arrays in memory as batches of `rows`, borrowed. Training's are shuffled and never end. */
static inline int toy_source(et_source **out, const et_array *arrays, int fields, int64_t count,
                             int64_t rows, bool training, et_error *error)
{
    et_samples *samples;
    et_batches_options options = {
        .seed = 5, .shuffle = training, .repeat = training, .capacity = { rows }
    };
    int status = et_arrays_open(&samples, arrays, fields, count, error);
    if (status)
        return status;
    status = et_batches_open(out, samples, &options, error);
    if (status)
        et_samples_close(samples);
    return status;
}

#endif
