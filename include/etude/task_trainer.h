/* The trainer of a task: data, passes, optimizer, steps and evaluation, each made once from the
 * task's methods (task.h). A task trainer is a trainer and an evaluator for a controller. Its own
 * functions are the members of Model Garden's Trainer, for a program that drives it itself:
 *
 *     et_task_trainer_options options = { .seed = 1, .batches = 4 };
 *     if (et_task_trainer_open(&trainer, &task, device, params, &options, &error)) ...
 *     if (et_task_trainer_initialize(trainer, &error)) ...
 *     if (et_task_trainer_train(trainer, 1000, logs, &error)) ...       training_loss, ...
 *     if (et_task_trainer_evaluate(trainer, -1, logs, &error)) ...      validation_loss, ...
 *     et_task_trainer_close(trainer);
 *
 * Borrows task, device and params. params must be empty, or shared with a multitask that only
 * evaluates the same parameters (multitask.h). Validation uses averaged weights, if there are any;
 * afterwards the trained weights are restored bit for bit, also after an error. Use from one
 * thread. */
#ifndef ETUDE_TASK_TRAINER_H
#define ETUDE_TASK_TRAINER_H

#include <signal.h>

#include <etude/comm.h>
#include <etude/privacy.h>
#include <etude/task.h>

typedef struct et_task_trainer et_task_trainer;

/* Model Garden's train=True, evaluate=True. Without training no derivatives are made. */
enum { ET_TRAIN_AND_EVALUATE, ET_TRAIN_ONLY, ET_EVALUATE_ONLY };

#define ET_LOSS_SCALE_DYNAMIC (-1) /* starts at 2^15; doubles after 2000 finite updates */

/* Parts that the program gives. A member NULL: the part of the task, or none. */
typedef struct et_task_trainer_given {
    /* Replace the task's data; the trainer closes them. */
    et_source *train_dataset, *validation_dataset;
    /* Replaces et_source_next: fills batch from iterator. filled[0] 0: the end. */
    int (*next_train_inputs)(void *self, et_source *iterator, et_batch *batch, et_error *error);
    /* Values of the dict extra do not go through the model; aggregate_logs gets them. If the model
     * logs the same name, the model's value is used, with a warning. */
    int (*next_eval_inputs)(void *self, et_source *iterator, et_batch *batch, et_value *extra,
                            et_error *error);
    /* Called at the end of each evaluation, with the averaged weights in the store; adds to logs,
     * as best_<metric>. A controller's run keeps a best checkpoint without it. */
    int (*checkpoint_exporter)(void *self, int64_t step, et_value *logs, et_error *error);
    void *self; /* first argument of all functions here */
    /* Replace the trainer's functions in all ways of training and evaluating. Inside, the trainer's
     * function of the same name does the default work, like super():
     *
     *   train_loop_begin  nothing: reset the program's own sums here
     *   train_loop_end    puts metrics into logs and resets them
     *   eval_begin        resets metrics and puts averaged weights into the store
     *   eval_reduce       et_task_aggregate_logs; state is a dict, empty at first
     *   eval_end          fills logs; aggregated_logs NULL: there is no state
     *
     * A function that does not call it skips this work. The last three and both functions of
     * inputs may not begin, continue or end an evaluation by another call (ET_EUSAGE). A loop
     * begins with its first step, or at its end if it has no steps; a controller's loop ends with a
     * log. After eval_end the trained weights are always restored. An evaluation that fails or is
     * interrupted has no eval_end. If one of the last three is given, rank 0 evaluates for all. */
    int (*train_loop_begin)(void *self, et_task_trainer *trainer, et_error *error);
    int (*train_loop_end)(void *self, et_task_trainer *trainer, et_value *logs, et_error *error);
    int (*eval_begin)(void *self, et_task_trainer *trainer, et_error *error);
    int (*eval_reduce)(void *self, et_task_trainer *trainer, et_value *state,
                       const et_value *step_outputs, et_error *error);
    int (*eval_end)(void *self, et_task_trainer *trainer, const et_value *aggregated_logs,
                    et_value *logs, et_error *error);
} et_task_trainer_given;

typedef struct et_task_trainer_options {
    const et_optimizer_setup *optimizer;                /* NULL: the default optimizer */
    const struct et_optimization_options *optimization; /* the command's settings, instead of
                                                           optimizer */
    const et_group *group; /* with `optimization`: parameters to train; needed during open. NULL:
                              all */
    const et_privacy_options *dp_config; /* copied; NULL: none. Not together with loss_scale */
    const et_task_trainer_given *given;  /* copied; NULL: none */
    int64_t use;                         /* ET_TRAIN_AND_EVALUATE, ... */
    uint64_t seed;                       /* seed of initial values, dropout and sampling */
    bool bfloat16;                       /* activations are bfloat16 */
    /* Factor of gradients during the backward pass. 0: 1. Dynamic: an update with a gradient that
     * is not finite is skipped and halves the factor, down to 1; after a hundred skipped updates in
     * a row the next fails. Fixed: such an update fails. */
    double loss_scale;
    int recompute;                /* an et_recompute */
    int batches;                  /* batches of one update; 0: 1 */
    double loss_upper_bound;      /* a step with a larger loss fails with ET_EDIVERGED; 0: no
                                     limit */
    int64_t recovery_begin_steps; /* first step of this limit; a loss that is NaN always fails */
    et_comm *comm; /* ranks that divide the batches of updates and evaluations; borrowed. NULL: this
                      process alone. With ranks, a skipped update still consumes all its batches */
    const volatile sig_atomic_t *stop; /* not 0: an update of several batches is abandoned */
} et_task_trainer_options;

ET_API int et_task_trainer_open(et_task_trainer **out, et_task *task, et_device *device,
                                et_params *params, const et_task_trainer_options *options,
                                et_error *error);
ET_API void et_task_trainer_close(et_task_trainer *trainer); /* NULL allowed */

ET_API et_trainer *et_task_trainer_trainer(et_task_trainer *trainer);
ET_API et_evaluator *et_task_trainer_evaluator(et_task_trainer *trainer); /* NULL: no data for it */

/* ---- members of Model Garden's Trainer, besides both ---- */

/* iterator NULL: the trainer's own, which continues from loop to loop in training and starts again
 * in each evaluation. Another iterator must have batches of the same layout. */

/* Call once, before the first step of a new run, but not if a checkpoint was restored. Draws
 * initial values, then calls et_task_initialize, which may load pretrained weights. A driver does
 * all this itself. */
ET_API int et_task_trainer_initialize(et_task_trainer *trainer, et_error *error);

/* The inner loop: begin, num_steps calls of train_step, end. Fills logs (NULL, here and in
 * train_loop_end: not wanted). ET_EUSAGE: num_steps is negative. */
ET_API int et_task_trainer_train(et_task_trainer *trainer, int64_t num_steps, et_value *logs,
                                 et_error *error);
/* Call before data are read. Only calls train_loop_begin of `given`: the end of the last loop has
 * reset metrics. */
ET_API int et_task_trainer_train_loop_begin(et_task_trainer *trainer, et_error *error);
/* Reads the batch of the next step; if not called, train_step reads it. */
ET_API int et_task_trainer_next_train_inputs(et_task_trainer *trainer, et_source *iterator,
                                             et_batch **inputs, et_error *error);
/* One update; adds 1 to the global step. ET_EUSAGE: between eval_begin and eval_end. */
ET_API int et_task_trainer_train_step(et_task_trainer *trainer, et_source *iterator,
                                      et_error *error);
/* Adds every metric (also training_loss) and the learning_rate of the last update to logs, then
 * resets metrics. */
ET_API int et_task_trainer_train_loop_end(et_task_trainer *trainer, et_value *logs,
                                          et_error *error);

/* One evaluation: begin, num_steps batches (may be 0; -1: all of one pass, also of data that
 * repeat), end. If the data end before num_steps, a warning says so. */
ET_API int et_task_trainer_evaluate(et_task_trainer *trainer, int64_t num_steps, et_value *logs,
                                    et_error *error);
/* Resets metrics and state, and puts averaged weights into the store. The functions below are
 * ET_EUSAGE before it and after eval_end. They do not use other ranks: a rank that calls them
 * evaluates all batches. */
ET_API int et_task_trainer_eval_begin(et_task_trainer *trainer, et_error *error);
/* Reads the batch of the next step; without this call, eval_step reads the batch. extra (NULL: not
 * wanted): values that do not go through the model. *inputs NULL: no batch is left. */
ET_API int et_task_trainer_next_eval_inputs(et_task_trainer *trainer, et_source *iterator,
                                            et_batch **inputs, et_value *extra, et_error *error);
/* One batch: next_eval_inputs, et_task_validation_step. step_outputs (NULL: not wanted) gets the
 * values of both. *more false: no batch was left. */
ET_API int et_task_trainer_eval_step(et_task_trainer *trainer, et_source *iterator,
                                     et_value *step_outputs, bool *more, et_error *error);
/* et_task_aggregate_logs: adds a step's outputs to the state, a dict for eval_end. In every kind of
 * loop: no state is dropped. state NULL: the trainer's. */
ET_API int et_task_trainer_eval_reduce(et_task_trainer *trainer, et_value *state,
                                       const et_value *step_outputs, et_error *error);
/* Puts metrics, validation_loss (if the task logged a loss), the results of aggregated_logs (NULL:
 * the trainer's state) and the values of the exporter into logs; then restores the trained weights.
 * logs NULL: interrupted; only restores weights. */
ET_API int et_task_trainer_eval_end(et_task_trainer *trainer, const et_value *aggregated_logs,
                                    et_value *logs, et_error *error);

/* The loops without begin and end; every call returns the same functions. An evaluation loop with
 * has_state passes each step's outputs to eval_reduce and the state to eval_end, as
 * et_task_trainer_evaluate. Without has_state, outputs are dropped, there is no state, and only
 * metrics give results. */
typedef int et_loop_fn(et_task_trainer *trainer, et_source *iterator, int64_t num_steps,
                       et_error *error);
ET_API et_loop_fn *et_task_trainer_create_train_loop_fn(et_task_trainer *trainer);
ET_API et_loop_fn *et_task_trainer_create_eval_loop_fn(et_task_trainer *trainer, bool has_state);

/* Opens a source for this process by calling open with payload and the context of one pipeline. All
 * ranks and workers call it: they read one order of the data, and each computes its own batches, so
 * nothing is divided twice. The caller closes *out. ET_EUSAGE: open is NULL. */
ET_API int et_task_trainer_distribute_dataset(et_task_trainer *trainer,
                                              int (*open)(void *payload,
                                                          const et_input_context *context,
                                                          et_source **out, et_error *error),
                                              void *payload, et_source **out, et_error *error);

/* The same for an open source. ET_ECONFIG: a field of its batches is missing or differs from the
 * trainer's; the error names the field. *out is dataset. ET_EUSAGE: dataset is NULL. */
ET_API int et_task_trainer_distribute_source(et_task_trainer *trainer, et_source *dataset,
                                             et_source **out, et_error *error);

/* init_async, coordinator_for_async, join: <etude/coordinator.h>. */
typedef struct et_coordinator et_coordinator;

#endif
