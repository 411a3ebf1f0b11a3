/* The trainer of several tasks, for multitask.c (trainer, evaluator, opening) and learner.c, which
 * drives one task or several. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_PRIVATE_H
#define ETUDE_SYSTEMS_MODELGARDEN_MULTITASK_PRIVATE_H

#include "base/arena.h"
#include "systems/modelgarden/multitask.h"
#include "systems/modelgarden/task_trainer_private.h"

typedef struct et_multitask_member {
    et_task_trainer *trainer;
    et_params *params; /* the store as the task sees it; borrowed */
    et_group *group;   /* interleaved: the parameters that its steps change; owned. NULL: all */
    double weight, size;
    int64_t eval_steps, steps;
    double loss;   /* joint: of the last step */
    int64_t epoch; /* of its data, from 1; 0: it has had no step, or that is not known */
} et_multitask_member;

struct et_multitask {
    et_trainer trainer;
    et_evaluator evaluator;
    et_task_trainer_options options;
    int order;
    double alpha;
    int64_t steps_per_epoch, total_steps;
    double (*share)(void *payload, int part, int64_t step);
    void *payload;              /* of share */
    et_params *params;          /* borrowed */
    et_task *whole;             /* that they make; borrowed. NULL: none */
    et_multitask_member *parts; /* [count]; trainers are owned */
    int count;
    int last;            /* interleaved: which task had the last step */
    float *gradient;     /* joint: [trained size] */
    et_metrics *metrics; /* joint: total_loss */
    et_update update;    /* joint: result of the last step */
    double loss;         /* joint: total, of the last step */
    int evaluated;       /* the task that is evaluated; count: none */
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
