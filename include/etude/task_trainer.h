/* The trainer of a task: its data, its passes, an optimizer, steps and evaluation, each made once,
 * from the task's methods (task.h). It is a trainer and an evaluator for a controller; its own
 * functions are the members of Model Garden's Trainer, for a program that drives it itself:
 *
 *     et_task_trainer_options options = { .seed = 1, .batches = 4 };
 *     if (et_task_trainer_open(&trainer, &task, device, params, &options, &error)) ...
 *     if (et_task_trainer_initialize(trainer, &error)) ...
 *     if (et_task_trainer_train(trainer, 1000, logs, &error)) ...       training_loss, ...
 *     if (et_task_trainer_evaluate(trainer, -1, logs, &error)) ...      validation_loss, ...
 *     et_task_trainer_close(trainer);
 *
 * It borrows task, device and params, which is empty. Validation shows the averaged weights, where
 * there are any; those that are trained come back bit for bit however it ends. One thread. */
#ifndef ETUDE_TASK_TRAINER_H
#define ETUDE_TASK_TRAINER_H

#include <signal.h>

#include <etude/comm.h>
#include <etude/privacy.h>
#include <etude/task.h>

typedef struct et_task_trainer et_task_trainer;

/* Model Garden's train=True, evaluate=True. Where there is no training, no derivatives are made. */
enum { ET_TRAIN_AND_EVALUATE, ET_TRAIN_ONLY, ET_EVALUATE_ONLY };

#define ET_LOSS_SCALE_DYNAMIC (-1) /* from 2^15 on, twice as much after 2000 finite updates */

/* What is given from outside; members NULL: the task's own, or nothing. */
typedef struct et_task_trainer_given {
    /* In place of the task's data; the trainer closes them. */
    et_source *train_dataset, *validation_dataset;
    /* In place of et_source_next: fills batch from iterator. filled[0] 0: the end. */
    int (*next_train_inputs)(void *self, et_source *iterator, et_batch *batch, et_error *error);
    /* extra, a dict, goes past the model: its values are among those that aggregate_logs sees. Of a
     * name that the model logs too the model's counts, and a warning says so. */
    int (*next_eval_inputs)(void *self, et_source *iterator, et_batch *batch, et_value *extra,
                            et_error *error);
    /* At the end of each evaluation, with the averaged weights in the store; adds to logs, as
     * best_<metric>. A controller's run keeps a best checkpoint without it. */
    int (*checkpoint_exporter)(void *self, int64_t step, et_value *logs, et_error *error);
    void *self; /* of all functions here */
    /* In place of the trainer's own, in every way of training and evaluating. In one of these the
     * trainer's function of its name does what the trainer does without it, as super() would:
     *
     *   train_loop_begin  nothing: a place to reset what the program has added up
     *   train_loop_end    metrics to logs, and resets them; else they go on
     *   eval_begin        resets metrics and shows averaged weights; else neither happens
     *   eval_reduce       et_task_aggregate_logs; state is a dict, empty at first
     *   eval_end          fills logs; aggregated_logs NULL: there is no state
     *
     * A loop begins with its first step, or where it ends without one; a controller's ends with a
     * log. Behind eval_end the weights come back in any case. Of an evaluation that fails, or is
     * cut short, there is no eval_end. Where one of the last three is given rank 0 evaluates for
     * all. */
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
    const struct et_optimization_options *optimization; /* in its place: the command's settings */
    const et_privacy_options *dp_config; /* copied; NULL: none. Takes no loss_scale beside it */
    const et_task_trainer_given *given;  /* copied; NULL: nothing */
    int64_t use;                         /* ET_TRAIN_AND_EVALUATE, ... */
    uint64_t seed;                       /* of initial values, dropout and sampling */
    bool bfloat16;                       /* type of activations */
    /* Of gradients while they are made. 0: 1; dynamic: an update whose gradient is not finite is
     * left out and the factor halved, down to 1, and one after a hundred in a row fails; of a fixed
     * one such an update fails. */
    double loss_scale;
    int recompute;                /* an et_recompute */
    int batches;                  /* of one update; 0: 1 */
    double loss_upper_bound;      /* a step with a larger loss is ET_EDIVERGED; 0: there is none */
    int64_t recovery_begin_steps; /* from this step on; a loss that is no number always is */
    et_comm *comm; /* ranks among which the batches of an update and of an evaluation are shared
                      out; borrowed. NULL: this process alone. With it an update that is left out
                      takes all its batches */
    const volatile sig_atomic_t *stop; /* not 0: an update of several batches is left */
} et_task_trainer_options;

ET_API int et_task_trainer_open(et_task_trainer **out, et_task *task, et_device *device,
                                et_params *params, const et_task_trainer_options *options,
                                et_error *error);
ET_API void et_task_trainer_close(et_task_trainer *trainer); /* NULL allowed */

ET_API et_trainer *et_task_trainer_trainer(et_task_trainer *trainer);
ET_API et_evaluator *et_task_trainer_evaluator(et_task_trainer *trainer); /* NULL: no data for it */

/* ---- members of Model Garden's Trainer, beside both ---- */

/* iterator NULL: the trainer's own, which goes on where it was in training and begins anew in each
 * evaluation. Another one has batches of the same layout. */

/* Once, before the first step of a new run: draws initial values, then et_task_initialize, which
 * may load pretrained weights. Not where a checkpoint was restored; a driver knows. */
ET_API int et_task_trainer_initialize(et_task_trainer *trainer, et_error *error);

/* The inner loop: begin, num_steps calls of train_step, end, which fills logs (NULL, here and in
 * train_loop_end: nobody looks). ET_EUSAGE: num_steps is negative. */
ET_API int et_task_trainer_train(et_task_trainer *trainer, int64_t num_steps, et_value *logs,
                                 et_error *error);
/* Before data are looked for. Does nothing but call train_loop_begin of `given`: metrics are reset
 * where the loop before ended. */
ET_API int et_task_trainer_train_loop_begin(et_task_trainer *trainer, et_error *error);
/* The batch of the next step, which train_step takes itself where this was not called. */
ET_API int et_task_trainer_next_train_inputs(et_task_trainer *trainer, et_source *iterator,
                                             et_batch **inputs, et_error *error);
/* One update; the global step grows by one. ET_EUSAGE: between eval_begin and eval_end. */
ET_API int et_task_trainer_train_step(et_task_trainer *trainer, et_source *iterator,
                                      et_error *error);
/* Adds every metric, training_loss among them, and learning_rate, that of the last update, to logs;
 * then resets metrics. */
ET_API int et_task_trainer_train_loop_end(et_task_trainer *trainer, et_value *logs,
                                          et_error *error);

/* One evaluation: begin, num_steps batches, 0 too, or with -1 all; end. Where the data end before
 * num_steps a warning says so. */
ET_API int et_task_trainer_evaluate(et_task_trainer *trainer, int64_t num_steps, et_value *logs,
                                    et_error *error);
/* Resets metrics and state, and shows averaged weights. Those below are ET_EUSAGE before it, and
 * again behind eval_end. What goes on by them is each rank's own: it evaluates all. */
ET_API int et_task_trainer_eval_begin(et_task_trainer *trainer, et_error *error);
/* The batch of the next step, which eval_step takes itself where this was not called, and what goes
 * past the model to extra (NULL: nobody looks); *inputs NULL: the end. */
ET_API int et_task_trainer_next_eval_inputs(et_task_trainer *trainer, et_source *iterator,
                                            et_batch **inputs, et_value *extra, et_error *error);
/* One batch: next_eval_inputs, et_task_validation_step; what both log to step_outputs (NULL: nobody
 * looks). *more false: the data had ended. */
ET_API int et_task_trainer_eval_step(et_task_trainer *trainer, et_source *iterator,
                                     et_value *step_outputs, bool *more, et_error *error);
/* et_task_aggregate_logs: adds a step's outputs to the state, a dict, which eval_end is given. In
 * every kind of loop: no state is dropped. state NULL: the trainer's. */
ET_API int et_task_trainer_eval_reduce(et_task_trainer *trainer, et_value *state,
                                       const et_value *step_outputs, et_error *error);
/* Metrics, validation_loss if the task reported one, what follows from aggregated_logs (NULL: the
 * trainer's state) and what the exporter adds, to logs; the weights come back. logs NULL: it was
 * cut short, and only they do. */
ET_API int et_task_trainer_eval_end(et_task_trainer *trainer, const et_value *aggregated_logs,
                                    et_value *logs, et_error *error);

/* The loops without begin and end; the same functions every time. Of an evaluation with has_state
 * each step's outputs go through eval_reduce to the state that eval_end is given, as in
 * et_task_trainer_evaluate; without, outputs are dropped and there is no state: metrics alone
 * measure. */
typedef int et_loop_fn(et_task_trainer *trainer, et_source *iterator, int64_t num_steps,
                       et_error *error);
ET_API et_loop_fn *et_task_trainer_create_train_loop_fn(et_task_trainer *trainer);
ET_API et_loop_fn *et_task_trainer_create_eval_loop_fn(et_task_trainer *trainer, bool has_state);

/* A source as this process reads it: what open opens, called with payload and the context of one
 * pipeline. Ranks and workers all call it: they read one order of the data, of which each computes
 * its own batches, so nothing is cut twice. ET_EUSAGE: no function. *out is the caller's, to close.
 */
typedef int et_dataset_fn(void *payload, const et_input_context *context, et_source **out,
                          et_error *error);
ET_API int et_task_trainer_distribute_dataset(et_task_trainer *trainer, et_dataset_fn *open,
                                              void *payload, et_source **out, et_error *error);

/* The same of a data set that is open already, whose batches the trainer must be able to take:
 * ET_ECONFIG names a field that they lack or that is another. *out is dataset. ET_EUSAGE: none. */
ET_API int et_task_trainer_distribute_source(et_task_trainer *trainer, et_source *dataset,
                                             et_source **out, et_error *error);

/* init_async, coordinator_for_async, join: <etude/coordinator.h>. */
typedef struct et_coordinator et_coordinator;

#endif
