/* --mode continuous_train_and_eval: fine-tunes a model from each checkpoint of another run, as they
 * come, to see what pre-training is worth. Of a run in task.init_checkpoint's directory:
 *
 *   MODEL_DIR/params.yaml         settings of all
 *   MODEL_DIR/finetune-2000/      a run of its own from that run's step 2,000: train_and_eval
 *   MODEL_DIR/metrics-2000.json   values of its last validation
 *   MODEL_DIR/eval/               the same by step, for programs and TensorBoard (readings.h):
 *                                 "<name of MODEL_DIR>_<task>/<value>"
 *
 * The oldest checkpoint that is there comes first; it ends after that of --pretrain-steps, else of
 * the train_steps that the run's own settings say. Killed and started again it goes on in the
 * middle of a run. Unlike Model Garden's: nothing in MODEL_DIR is deleted but the checkpoints,
 * except the best, of a finetune-N that is done; its logs stay; a wait ends after
 * trainer.continuous_eval_timeout with ET_ENOTFOUND where the last step is known. */
#ifndef ETUDE_COMMAND_TRAINING_FINETUNING_H
#define ETUDE_COMMAND_TRAINING_FINETUNING_H

#include "command/training/train_args.h"

int et_finetune(const et_call *call, const et_train_args *args, et_error *error);

#endif
