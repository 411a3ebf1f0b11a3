/* One step: batches in, one update out. What varies (accumulation, precision, the optimizer's
 * rule) is an object chosen when the run is set up; the step itself asks nothing.
 *
 * The loss is a sum over tokens; the update divides by the tokens of all batches of the step,
 * so accumulation gives what one large batch would. */
#ifndef ETUDE_TRAIN_STEP_H
#define ETUDE_TRAIN_STEP_H

#include "optim/optimizer.h"
#include "train/accumulate.h"
#include "metric/metrics.h"
#include "train/task.h"

#define ET_STEP_METRICS 4

typedef struct et_step {
    et_task *task; /* borrowed, as plan and optimizer */
    et_plan *plan;
    et_accumulator accumulator;
    et_optimizer *optimizer;
    et_metrics *metrics; /* both by et_step_define_metrics */
    int metric[ET_STEP_METRICS];
    et_cost update_cost; /* of an update, for who watches */
    uint64_t seed;       /* of dropout */
    int64_t count;       /* steps done: the global step */
    int64_t tokens;      /* target tokens of the last step */
    double loss;         /* mean over the tokens of the last step */
    et_update update;    /* what the last step changed */
} et_step;

/* Defines what the step adds to: training_loss, training_nll, training_accuracy (per token) and
 * gradient_norm (per step). metrics is borrowed. */
int et_step_define_metrics(et_step *step, et_metrics *metrics, et_error *error);

/* Does one. ET_EDIVERGED: the loss or gradient is not finite; nothing was changed, and the
 * message names step, first bad tensor and the batch's lines. */
int et_step_run(et_step *step, et_error *error);

#endif
