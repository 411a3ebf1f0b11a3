/* The trainers of one task and of several, for their own files: task_trainer.c (opening, training),
 * task_evaluator.c, task_trainer_members.c (functions for programs without a driver), multitask.c.
 */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_TASK_TRAINER_PRIVATE_H
#define ETUDE_SYSTEMS_MODELGARDEN_TASK_TRAINER_PRIVATE_H

#include <etude/task_trainer.h>

#include "base/arena.h"
#include "base/assert.h"
#include "engine/optim/options.h"
#include "systems/modelgarden/multitask.h"
#include "systems/modelgarden/task_trainer.h"
#include "train/ranks/eval_shard.h"
#include "train/task/task_private.h"

typedef struct et_validation_set {
    const char *name; /* the task's */
    et_source *source;
} et_validation_set;

typedef struct et_validation {
    et_source *source; /* of the current set; NULL: no data */
    et_validation_set set[ET_VALIDATION_SETS_MAX];
    int sets;          /* 0: they have no names */
    int at;            /* which set is evaluated */
    int64_t steps;     /* of this set, so far */
    bool took_own;     /* this evaluation has taken batches of source */
    bool begun;        /* an evaluation, which has not ended: the weights are its own */
    et_value *results; /* of the sets before it, in arena */
    et_batch *batch;   /* NULL: nothing was evaluated yet */
    et_pass *pass;
    et_metrics *metrics;   /* the model's measures */
    et_metrics *own;       /* of build_metrics */
    et_metrics *loss;      /* the loss that a task's own validation step logs */
    int *index;            /* [measures] */
    bool reported;         /* a validation step gave a loss */
    bool stateless;        /* outputs of steps are dropped */
    int64_t step;          /* the step that is validated */
    bool taken;            /* the batch of the next eval_step was read */
    et_arena step_arena;   /* until the next batch */
    et_value *extra;       /* values that bypass the model; NULL: not allowed */
    et_eval_shard shard;   /* assigns the batches of a set to ranks */
    et_metrics *joined[3]; /* of the set: metrics, own and loss */
    et_arena arena;        /* until the next evaluation */
    et_value *state;
    et_task_internals internals;
    et_task_step now;
} et_validation;

/* Functions that `given` may replace. A replacement may call the replaced function. */
typedef enum et_given_hook {
    ET_GIVEN_TRAIN_LOOP_BEGIN,
    ET_GIVEN_TRAIN_LOOP_END,
    ET_GIVEN_EVAL_BEGIN,
    ET_GIVEN_EVAL_REDUCE,
    ET_GIVEN_EVAL_END,
    ET_GIVEN_NEXT_TRAIN_INPUTS,
    ET_GIVEN_NEXT_EVAL_INPUTS,
    ET_GIVEN_HOOKS,
} et_given_hook;

/* Metrics of the steps of a loop. */
typedef struct et_task_metrics {
    et_metrics *window;        /* the model's measures */
    et_metrics *own, *pending; /* of build_metrics: of the window; of the step under way */
    bool has_own;              /* build_metrics has defined some */
} et_task_metrics;

struct et_task_trainer {
    et_trainer trainer;
    et_trainer *driver; /* makes the training steps: the trainer, or a cluster's master */
    et_evaluator evaluator;
    struct {
        et_coordinator *coordinator; /* owned; NULL: there is no cluster */
        void (*close)(et_coordinator *coordinator);
    } cluster;
    et_task *task; /* borrowed, as device and params */
    et_device *device;
    et_params *params;
    et_task_trainer_options options;      /* given, dp_config: NULL */
    et_optimization_options optimization; /* in steps, if options have epochs */
    struct {
        bool wanted;
        et_privacy_options options;
    } privacy;
    et_task_trainer_given given;
    et_source *source; /* NULL: no training data, so no pass and no step */
    et_pass *pass;
    int64_t derived_size; /* elements that the pass derives by */
    et_optimizer *optimizer;
    bool shares;                /* the optimizer is another trainer's */
    et_overflow_scale overflow; /* of any class */
    et_task_metrics metrics;
    et_arena arena;
    et_value *logs; /* logs of the task's own train_step; NULL: the task uses the default step */
    et_step step;
    bool stepped;                  /* a step was made, or its rate was restored */
    bool in_loop;                  /* of steps, which has begun and not ended */
    bool in_given[ET_GIVEN_HOOKS]; /* the given function is running: a call means the default
                                      function */
    bool keeps;                    /* a start keeps the weights in the store */
    int64_t kept_step;             /* and counts from this step */
    et_task_internals internals;
    et_task_step now;
    et_validation validation;
};

/* Invariants at the beginning of a method. */
static inline void et_validation_sane(const et_validation *v)
{
    et_assert(v->sets >= 0 && v->sets <= ET_VALIDATION_SETS_MAX);
    et_assert(v->at >= 0 && v->at < (v->sets ? v->sets : 1));
    et_assert(!v->begun || (v->source && v->batch && v->pass));
    et_assert(v->begun || (!v->taken && !v->took_own && !v->results));
    et_assert(v->steps >= 0);
}

/* Invariants of the whole trainer. */
static inline void et_task_trainer_sane(const et_task_trainer *t)
{
    et_assert(t->task && t->device && t->params && t->driver);
    et_assert(!t->cluster.coordinator || t->cluster.close);
    et_assert(!t->source == !t->pass);
    et_assert(t->metrics.window && t->metrics.own && t->metrics.pending);
    et_assert(!t->stepped || t->source);
    et_assert(!t->shares || t->optimizer);
    et_validation_sane(&t->validation);
}

extern const et_evaluator_class et_task_evaluator_class;

/* et_task_trainer_open in two parts, for trainers that share a store: begin makes passes, which
 * declare parameters; then come memory, plans and steps. optimizer NULL: makes its own. */
int et_task_trainer_begin(et_task_trainer **out, et_task *task, et_device *device,
                          et_params *params, const et_task_trainer_options *options,
                          et_error *error);
int et_task_trainer_finish(et_task_trainer *trainer, et_optimizer *optimizer, et_error *error);
/* Call between the two if a pass is not only over this trainer's data: batches of a pass, 0:
 * unknown. A decay in epochs becomes one in steps. */
int et_task_trainer_count_epochs(et_task_trainer *trainer, int64_t batches, et_error *error);

/* Attaches the trainer's state except parameters and optimizer. name: prefix of each part's name;
 * NULL: none. data: also attaches the position in the training data. */
int et_task_trainer_attach(et_task_trainer *trainer, et_state *state, const char *name, bool data,
                           et_error *error);

/* A default step without its update: gather returns the results of its batches; after the caller's
 * update, finish updates moving means and metrics. */
int et_task_trainer_gather(et_task_trainer *trainer, et_reduced *sum, et_error *error);
int et_task_trainer_finish_step(et_task_trainer *trainer, const et_update *update, et_error *error);

/* Begins a loop of steps if none has begun. */
int et_task_trainer_begin_loop(et_task_trainer *trainer, et_error *error);

/* Resets the metrics of loops. */
void et_task_trainer_reset(et_task_trainer *trainer);

/* Learning rate of the last step; before the first step, of the next. */
double et_task_trainer_learning_rate(const et_task_trainer *trainer);

/* The default train_loop_end, but metrics are kept. */
int et_task_trainer_fill_logs(et_task_trainer *trainer, et_value *logs, et_error *error);

/* ET_EUSAGE: an evaluation is under way, and the weights are its own. */
int et_task_trainer_check_idle(const et_task_trainer *trainer, et_error *error);

/* Checks the loss of the last step. ET_EDIVERGED: the loss is not finite, or above the bound. */
int et_task_trainer_judge(const et_task_trainer *trainer, et_error *error);

/* Opens source and pass of the validation, if the task has validation data. */
int et_validation_open(et_task_trainer *trainer, et_error *error);
void et_validation_release(et_validation *validation);
/* Whether ranks may share the evaluation. */
bool et_validation_is_sharded(const et_task_trainer *trainer);
/* Closes the sources; call last. */
void et_validation_close_source(et_validation *validation);

/* ---- several tasks: multitask.c, and trainable.c, which drives one task or several ---- */

typedef struct et_multitask_member {
    et_task_trainer *trainer;
    et_params *params; /* the store as the task sees it; borrowed */
    et_group *group;   /* interleaved: the parameters that its steps change; owned. NULL: all */
    double weight, size;
    int64_t eval_steps, steps;
    double loss;   /* joint: of the last step */
    int64_t epoch; /* of its data, from 1; 0: the task has had no step, or the epoch is unknown */
} et_multitask_member;

/* A count of each task, as a part of the state. */
typedef struct et_multitask_counts {
    et_multitask *of;
    size_t member; /* offset of the count in et_multitask_member */
} et_multitask_counts;

struct et_multitask {
    et_trainer trainer;
    et_evaluator evaluator;
    et_task_trainer_options options;
    int order;
    double alpha;
    int64_t steps_per_epoch, total_steps;
    double (*share)(void *payload, int part, int64_t step);
    void *payload;     /* of share */
    et_params *params; /* borrowed */
    et_task *whole;    /* the task made of all tasks; borrowed. NULL: none */
    et_multitask_counts steps, epochs;
    et_multitask_member *parts; /* [count]; trainers are owned */
    int count;
    int last;            /* interleaved: which task had the last step */
    float *gradient;     /* joint: [trained size] */
    et_metrics *metrics; /* joint: total_loss */
    et_update update;    /* joint: result of the last step */
    double loss;         /* joint: total, of the last step */
    int evaluated;       /* index of the task that is evaluated; count: no evaluation */
    int64_t at;          /* the step that is evaluated */
    int64_t eval_done;   /* batches of earlier tasks in this evaluation */
    et_arena arena;      /* of results, until the next evaluation */
    et_value *results;
};

static inline const char *et_multitask_name(const et_multitask *m, int i)
{
    return et_task_name(m->parts[i].trainer->task);
}

static inline et_optimizer *et_multitask_optimizer(const et_multitask *m)
{
    return m->parts[0].trainer->optimizer;
}

#endif
