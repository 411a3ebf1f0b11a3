/* Settings of the trainer and of the run around it: Model Garden's names and defaults where it
 * has them, ours beside them. */
#ifndef ETUDE_TRAIN_OPTIONS_H
#define ETUDE_TRAIN_OPTIONS_H

#include <etude/graph.h>

#include "base/fields.h"
#include "optim/options.h"
#include "train/run.h"

/* trainer */
typedef struct et_trainer_options {
    et_optimization_options optimizer_config;
    int64_t train_steps;           /* updates in all, an absolute target */
    int64_t steps_per_loop;        /* updates between looks at hooks */
    int64_t summary_interval;      /* updates between logs; 0: none */
    int64_t checkpoint_interval;   /* updates between saves; 0: at the end only */
    int64_t validation_interval;   /* updates between validations; 0: none */
    int64_t max_to_keep;           /* checkpoints kept, the newest; the best one is beside them */
    int on_failed_save;            /* ET_FAILED_SAVE_*: what a second failure in a row does */
    int64_t gradient_accumulation; /* batches of one update */
    const char *best_checkpoint_eval_metric;   /* NULL: keep no best; ET_BEST_AUTO: the task's */
    int best_checkpoint_metric_comp;           /* ET_COMPARE_*: which values are better */
    const char *best_checkpoint_export_subdir; /* of model_dir: "best", also where it is empty */
    double loss_upper_bound;      /* a step with a larger loss has diverged; from the step */
    int64_t recovery_begin_steps; /* this on */
    int64_t recovery_max_trials; /* in a row; 0: the run ends; -1: also, and no loss is too large */
} et_trainer_options;

#define ET_BEST_AUTO "auto"

/* runtime */
typedef struct et_runtime_options {
    int64_t seed;              /* of start values, order of data and dropout */
    int mixed_precision_dtype; /* ET_PRECISION_*: of activations; weights are float32 */
    int recompute;             /* an et_recompute, feed_forward being ET_RECOMPUTE_MARKED, or
                                  ET_RECOMPUTE_AUTO */
    int64_t prefetch;          /* batches read ahead; 0: none */
    const char *loss_scale;    /* "dynamic", or a number; NULL: none */
} et_runtime_options;

enum { ET_PRECISION_AUTO, ET_PRECISION_FLOAT32, ET_PRECISION_BFLOAT16 };

extern const et_fields et_trainer_fields;
extern const et_fields et_runtime_fields;

/* What the tables cannot check. */
int et_trainer_check(const et_trainer_options *options, et_error *error);

/* runtime.loss_scale as et_task_trainer_options has it; 0: none. */
int et_runtime_loss_scale(const et_runtime_options *options, double *scale, et_error *error);

#endif
