/* A kind of task with one weight, for the settings that a run is opened with. Include after
 * cmocka.h and variables.h. */
#ifndef ETUDE_TESTS_REFERENCES_OPTIMIZATION_KIND_H
#define ETUDE_TESTS_REFERENCES_OPTIMIZATION_KIND_H

#include "formats/files.h"

typedef struct kind_options {
    int64_t rows;
} kind_options;

static const et_field kind_rows[] = { ET_FIELD_INT(kind_options, rows, 4, 1, 9, "rows"),
                                      ET_FIELD_END };
static const et_fields kind_fields = { "task", kind_rows };

static inline void kind_build(et_task *self, et_scope *s, bool training)
{
    (void)self, (void)training;
    et_loss(s, "loss", et_dense(et_in(s, "weight"), et_batch_input(s, "x"), 1), 1);
}

static inline int kind_data(et_task *self, bool training, et_source **out, et_error *error)
{
    static const float x[4];
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(1) } };
    const et_batches_options options = { .repeat = training, .capacity = { 4 } };
    et_samples *samples;
    (void)self;
    int status = et_arrays_open(&samples, arrays, 1, 4, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

static const et_task_class kind_class = { .name = "one", .build = kind_build, .data = kind_data };

static inline int kind_open(et_task **out, const void *options, const et_task_context *context,
                            et_error *error)
{
    static et_task task = { .ET_CLASS = &kind_class };
    (void)options, (void)context, (void)error;
    *out = &task;
    return ET_OK;
}

static inline void kind_close(et_task *task)
{
    (void)task;
}

static const et_experiment_row kind_experiments[] = {
    { "one/one", "one weight", "trainer.train_steps=10" }, { NULL, NULL, NULL }
};
static const et_task_kind kind = { .name = "one",
                                   .fields = &kind_fields,
                                   .size = sizeof(kind_options),
                                   .experiments = kind_experiments,
                                   .open = kind_open,
                                   .close = kind_close };

/* Opens a run with these settings. */
static inline int open_kind(const char *run, const char *settings, et_error *error)
{
    et_task_context context = { .model_dir = run };
    et_task *task = NULL;
    int status = et_device_open(&context.device, error);
    if (!status)
        status = et_params_new(&context.params, error);
    if (!status)
        status = et_task_open(&task, &kind, NULL, settings, &context, error);
    et_task_close(task);
    et_params_free(context.params);
    et_device_close(context.device);
    return status;
}

#endif
