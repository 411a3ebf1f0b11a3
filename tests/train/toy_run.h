/* A run of a task that gives no batches unless a test has some: set up, looked at, closed. Include
 * after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_TOY_RUN_H
#define ETUDE_TESTS_TRAIN_TOY_RUN_H

#include "train/run.h"

typedef et_node *toy_build_fn(et_task *self, et_scope *scope);

/* Members are zero or owned; release in any case. */
typedef struct toy_run {
    et_task_class class;
    et_task task;
    et_trainer_options trainer;
    et_device *device;
    et_params *params;
    et_run *run;
} toy_run;

static inline int toy_run_attach(et_task *self, et_state *state, et_error *error)
{
    (void)self, (void)state, (void)error;
    return ET_OK;
}

/* Adam at a constant rate, two batches an update. r keeps its address. What is in it may be
 * changed before toy_run_start. */
static inline void toy_run_init(toy_run *r, toy_build_fn *build)
{
    *r = (toy_run){ .class = { .name = "toy", .build_loss = build, .attach = toy_run_attach } };
    r->task.class = &r->class;
    et_fields_defaults(&et_trainer_fields, &r->trainer);
    r->trainer.optimizer_config.optimizer.type = ET_OPTIMIZER_ADAM;
    r->trainer.optimizer_config.learning_rate.type = ET_RATE_CONSTANT;
    r->trainer.gradient_accumulation = 2;
}

static inline int toy_run_start(toy_run *r, const char *directory, int recompute, et_error *error)
{
    int status = et_device_open(&r->device, error);
    if (!status)
        status = et_params_new(&r->params, error);
    et_run_options options = { .model_dir = directory,
                               .trainer = &r->trainer,
                               .act = ET_F32,
                               .recompute = recompute,
                               .device = r->device,
                               .params = r->params };
    return status ? status : et_run_open(&r->run, &r->task, &options, error);
}

static inline int toy_run_open(toy_run *r, toy_build_fn *build, const char *directory,
                               int recompute, et_error *error)
{
    toy_run_init(r, build);
    return toy_run_start(r, directory, recompute, error);
}

static inline void toy_run_close(toy_run *r)
{
    et_run_close(r->run, NULL);
    et_params_free(r->params);
    et_device_close(r->device);
}

#endif
