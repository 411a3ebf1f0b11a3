/* Arguments of a task's methods (task.h): the data to open, and the objects of a step. The task
 * trainer fills them in its own loops; a program that calls a task's methods fills them itself. One
 * validation by hand, with the results that `etude evaluate` prints:
 *
 *     et_task_step now = { .inputs = batch, .model = pass };
 *     while (!et_source_next(source, batch, &error) && batch->filled[0])
 *         if (et_task_validation_step(task, &now, logs, &error) ||
 *             et_task_aggregate_logs(task, state, logs, &error)) ...
 *     if (et_task_reduce_aggregated_logs(task, state, step, results, &error)) ...
 *
 * Everything is borrowed. */
#ifndef ETUDE_TASK_STEP_H
#define ETUDE_TASK_STEP_H

#include <etude/metrics.h>
#include <etude/optimizer.h>
#include <etude/pass.h>

/* Model Garden's DataConfig. */
typedef struct et_data_config {
    const char *settings; /* in the form of et_settings_override, on top of the task's settings of
                             such data (train_data or validation_data): "{input_path: new.csv}".
                             NULL: only the task's settings */
    bool training;        /* is_training: shuffled, without end; otherwise one pass, in order */
} et_data_config;

/* The part of the data for one process (tf.distribute.InputContext). */
typedef struct et_input_context {
    int64_t input_pipelines, input_pipeline; /* number of pipelines, and this pipeline's number;
                                                alone: 1 and 0 */
    int64_t replicas_in_sync; /* replicas that divide a global batch; a batch is the part of one. 0:
                                 1 */
} et_input_context;

/* The objects of a step: Model Garden's inputs, model, optimizer and metrics. */
typedef struct et_task_step {
    et_batch *inputs;             /* features and labels, named as the layout's fields */
    et_pass *model;               /* pass of build, with or without derivatives */
    et_optimizer *optimizer;      /* NULL: validation */
    et_metrics *metrics;          /* defined by build_metrics; NULL: none */
    et_metrics *compiled_metrics; /* metrics that follow the model's measures; NULL: none, or, in
                                     the trainer's own steps, the trainer's */
    const et_tensor *labels, *outputs;   /* values that metrics compare. NULL: the field "labels" of
                                            inputs, the output "outputs" of model */
    uint64_t seed, number;               /* for the random numbers of this batch: et_pass_run */
    int64_t step;                        /* updates before this step */
    struct et_task_internals *internals; /* internal; NULL in a program's own steps */
} et_task_step;

#endif
