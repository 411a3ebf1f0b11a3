/* The modes that evaluate checkpoints of a run, which another process may be training. */
#ifndef ETUDE_COMMAND_TRAINING_FOLLOWING_H
#define ETUDE_COMMAND_TRAINING_FOLLOWING_H

#include "command/training/train_args.h"

/* --mode eval: the newest checkpoint, once. --mode continuous_eval: each checkpoint of the run,
 * from the oldest existing one to that of train_steps; ET_ENOTFOUND: none came for
 * trainer.continuous_eval_timeout. Values go to standard output; continuous_eval also stores them
 * in MODEL_DIR/validation, and so measures each checkpoint once. */
int et_follow_run(const et_call *call, const et_train_args *args, et_error *error);

#endif
