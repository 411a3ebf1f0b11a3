/* Tasks: what is learnt, from what. A task gives the model and its losses as a graph, and sources
 * of batches; everything else (passes, optimizer, steps, metrics, evaluation) is the task
 * trainer's.
 *
 *     typedef struct digits { et_task task; ... } digits;
 *     static void digits_build(et_task *t, et_scope *s, bool training) { ... }
 *     static int digits_data(et_task *t, bool training, et_source **out, et_error *error) { ... }
 *     static const et_task_class digits_class = {
 *         .name = "digits", .build = digits_build, .data = digits_data,
 *     };
 *
 * Order of calls: data (training, then validation), build once per graph, attach; validate between
 * steps, with the averaged weights in the store if there are any. One thread. */
#ifndef ETUDE_TASK_H
#define ETUDE_TASK_H

#include <signal.h>

#include <etude/optimizer.h>
#include <etude/pass.h>
#include <etude/trainer.h>

typedef struct et_task et_task;

typedef struct et_task_class {
    const char *name;
    /* Adds the model, its losses and measures (pass.h). Also for validation, with training false:
     * measures are logged as "training_<name>" and "validation_<name>". */
    void (*build)(et_task *self, et_scope *scope, bool training);
    /* Opens batches, which the trainer closes. Of training they never end; of validation one pass.
     * *out NULL: there is no such data. */
    int (*data)(et_task *self, bool training, et_source **out, et_error *error);
    /* Hangs what more resumes on the tree. Optional. */
    int (*attach)(et_task *self, et_state *state, et_error *error);
    /* What is measured beside the losses of the validation data, which logs holds already: adds to
     * logs. ET_EINTERRUPTED: asked to stop, nothing was done. Optional. */
    int (*validate)(et_task *self, int64_t step, et_value *logs, et_error *error);
    /* Which value of validation says what checkpoint is best (higher is better), where the settings
     * do not. NULL: none does. */
    const char *best_metric;
} et_task_class;

struct et_task {
    const et_task_class *ET_CLASS;
};

typedef struct et_task_trainer_options {
    const et_optimizer_setup *optimizer;                /* NULL: the default optimizer */
    const struct et_optimization_options *optimization; /* in its place: the command's settings */
    uint64_t seed;                     /* of initial values, dropout and sampling */
    bool bfloat16;                     /* type of activations */
    int recompute;                     /* an et_recompute */
    int batches;                       /* of one update; 0: 1 */
    const volatile sig_atomic_t *stop; /* not 0: an update of several batches is left */
    ET_RESERVED(8);
} et_task_trainer_options;

/* A trainer and an evaluator over a task: opens its data, its passes, an optimizer over all that is
 * trained; draws initial values when a run starts. Borrows device and params, which is empty, and
 * the task. */
typedef struct et_task_trainer et_task_trainer;

ET_API int et_task_trainer_open(et_task_trainer **out, et_task *task, et_device *device,
                                et_params *params, const et_task_trainer_options *options,
                                et_error *error);
ET_API void et_task_trainer_close(et_task_trainer *trainer); /* NULL allowed */

ET_API et_trainer *et_task_trainer_trainer(et_task_trainer *trainer);
ET_API et_evaluator *et_task_trainer_evaluator(et_task_trainer *trainer); /* NULL: no data for it */

/* Bytes: values, gradients, slots; what the plans of training need. */
ET_API size_t et_task_trainer_memory(const et_task_trainer *trainer);

#endif
