/* --mode continuous_train_and_eval: fine-tunes a model from each new checkpoint of another run, to
 * measure the value of pre-training. The other run is in the directory of task.init_checkpoint.
 * Files:
 *
 *   MODEL_DIR/params.yaml         settings of all fine-tuned runs
 *   MODEL_DIR/finetune-2000/      a run that begins with the other run's step 2,000: train_and_eval
 *   MODEL_DIR/metrics-2000.json   values of its last validation
 *   MODEL_DIR/eval/               the same by step, for programs and TensorBoard
 * (evaluation_log.h):
 *                                 "<name of MODEL_DIR>_<task>/<value>"
 *
 * It starts with the oldest checkpoint and ends after the checkpoint of --pretrain-steps, or of the
 * train_steps in the other run's settings. After a kill it resumes within a run. Unlike Model
 * Garden's, it deletes nothing in MODEL_DIR except the checkpoints of finished finetune-N, without
 * their best; logs stay. Waiting ends after trainer.continuous_eval_timeout, with ET_ENOTFOUND if
 * the last step is known. */
#ifndef ETUDE_COMMAND_TRAINING_FINETUNING_H
#define ETUDE_COMMAND_TRAINING_FINETUNING_H

#include "command/training/train_args.h"

int et_finetune(const et_call *call, const et_train_args *args, et_error *error);

#endif
