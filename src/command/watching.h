/* Modes that measure checkpoints of a run which another process may be training. */
#ifndef ETUDE_COMMAND_WATCHING_H
#define ETUDE_COMMAND_WATCHING_H

#include <etude/trainer.h>

#include "command/train_args.h"

/* --mode eval: the newest checkpoint, once. --mode continuous_eval: each checkpoint of the run, the
 * oldest that is there first, until that of train_steps; ET_ENOTFOUND: none came for
 * trainer.continuous_eval_timeout. Values go to standard output. */
int et_watch_run(const et_call *call, const et_train_args *args, et_error *error);

/* An evaluator of a part of the data. */
typedef struct et_limited {
    et_evaluator evaluator;   /* the first member */
    et_evaluator_class shape; /* its class: the inner one's name */
    et_evaluator *inner;      /* borrowed */
    int64_t limit, done;      /* batches */
} et_limited;

/* inner itself where limit is -1: all of it; else limited, which outlives its use. */
et_evaluator *et_limit_evaluator(et_limited *limited, et_evaluator *inner, int64_t limit);

#endif
