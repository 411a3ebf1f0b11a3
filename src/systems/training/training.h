/* Training runs of the command: the modes that train. */
#ifndef ETUDE_SYSTEMS_TRAINING_TRAINING_H
#define ETUDE_SYSTEMS_TRAINING_TRAINING_H

#include "command/training/train_args.h"

/* Trains a new or an existing run in args->model_dir, and prints messages to standard error.
 * ET_EINTERRUPTED: stopped on request, and saved. Signals are handled once the run is open. */
int et_training_run(const et_call *call, const et_train_args *args, et_error *error);

/* Sends SIGALRM to the process at args->ends, or at once if this time has passed. Ends with the
 * next training run of the process. */
void et_training_limit_time(const et_train_args *args);

/* Trains with the ranks of comm, which the caller owns. All ranks agree on a failure. */
struct et_comm;
int et_training_run_on(const et_call *call, const et_train_args *args, struct et_comm *comm,
                       et_error *error);

/* The same as the master of a cluster. */
struct et_roles;
int et_training_run_as(const et_call *call, const et_train_args *args,
                       const struct et_roles *master, et_error *error);

/* --mode continuous_train_and_eval: fine-tunes a model from each new checkpoint of another run, to
 * measure the value of pre-training. The other run is in the directory of task.init_checkpoint.
 * Files:
 *
 *   MODEL_DIR/params.yaml         settings of all fine-tuned runs
 *   MODEL_DIR/finetune-2000/      a run that begins with the other run's step 2,000: train_and_eval
 *   MODEL_DIR/metrics-2000.json   values of its last validation
 *   MODEL_DIR/eval/               the same by step, "<name of MODEL_DIR>_<task>/<value>", for
 *                                 programs and TensorBoard (evaluation_log.h)
 *
 * It starts with the oldest checkpoint and ends after the checkpoint of --pretrain-steps, or of the
 * train_steps in the other run's settings. After a kill it resumes within a run. Unlike Model
 * Garden's, it deletes nothing in MODEL_DIR except the checkpoints of finished finetune-N, without
 * their best; logs stay. Waiting ends after trainer.continuous_eval_timeout, with ET_ENOTFOUND if
 * the last step is known. */
int et_finetune(const et_call *call, const et_train_args *args, et_error *error);

#endif
