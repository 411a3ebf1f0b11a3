/* What methods of a task (task.h) are given: which data to open, and what a step works on. A
 * program that drives a task's methods itself fills them in; the task trainer does it in its own
 * loops. One validation by hand, which gives what `etude evaluate` prints:
 *
 *     et_task_step now = { .inputs = batch, .model = pass };
 *     while (!et_source_next(source, batch, &error) && batch->filled[0])
 *         if (et_task_validation_step(task, &now, logs, &error) ||
 *             et_task_aggregate_logs(task, state, logs, &error)) ...
 *     if (et_task_reduce_aggregated_logs(task, state, step, results, &error)) ...
 *
 * All is borrowed. */
#ifndef ETUDE_TASK_STEP_H
#define ETUDE_TASK_STEP_H

#include <etude/metrics.h>
#include <etude/optimizer.h>
#include <etude/pass.h>

/* Model Garden's DataConfig. */
typedef struct et_data_config {
    const char *settings; /* as et_settings_override takes them, on top of the task's own for such
                             data (train_data or validation_data): "{input_path: new.csv}". NULL:
                             those data */
    bool training;        /* is_training: shuffled and without end; else one pass, in order */
} et_data_config;

/* Which part of the data a process reads: tf.distribute.InputContext. */
typedef struct et_input_context {
    int64_t input_pipelines, input_pipeline; /* how many there are, and which: 1 and 0 */
    int64_t replicas_in_sync; /* that share a global batch: a batch is one's part. 0: 1 */
} et_input_context;

/* What a step works on: Model Garden's inputs, model, optimizer and metrics. */
typedef struct et_task_step {
    et_batch *inputs;             /* features and labels, by the names of the layout's fields */
    et_pass *model;               /* of build, with or without derivatives */
    et_optimizer *optimizer;      /* NULL: validation */
    et_metrics *metrics;          /* those of build_metrics; NULL: none */
    et_metrics *compiled_metrics; /* those that follow the model's measures; NULL: none, or, in
                                     the trainer's own steps, the trainer's */
    const et_tensor *labels, *outputs; /* what metrics compare. NULL: the field "labels" of inputs,
                                          the output "outputs" of model */
    uint64_t seed, number;             /* of random numbers in this batch: et_pass_run */
    int64_t step;                      /* updates done before */
    struct et_task_inside *inside;     /* the library's own; NULL in a program's own steps */
} et_task_step;

#endif
