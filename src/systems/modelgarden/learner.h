/* A learner: trainer and evaluator of a task for commands, and facts about both for people. For
 * most tasks it is the task trainer; several tasks together have their own
 * (et_task_class.open_learner).
 *
 *     et_learner_open(&learner, task, device, params, &options, &error);
 *     controller.trainer = et_learner_trainer(learner);
 *     et_learner_close(learner);
 *
 * Borrows task, device and params, which must be empty. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_LEARNER_H
#define ETUDE_SYSTEMS_MODELGARDEN_LEARNER_H

#include "base/arena.h"
#include "systems/modelgarden/main_metrics.h"
#include "systems/modelgarden/task_trainer.h"

typedef struct et_learner et_learner;

typedef struct et_learner_class {
    const char *name;
    et_trainer *(*trainer)(et_learner *self);
    et_evaluator *(*evaluator)(et_learner *self); /* NULL: no data for it */
    /* Of training, or without it of validation; of several tasks the first's. */
    const et_layout *(*layout)(const et_learner *self);
    /* That an epoch has; of several tasks: until each has been through its data once, on average.
     * 0: not known. */
    int (*batches)(et_learner *self, int64_t *count, et_error *error);
    /* Which value of validation is best by its tasks; lives in arena. *name NULL: none is. */
    int (*best_metric)(const et_learner *self, const char **name, et_arena *arena, et_error *error);
    /* Adds its main metrics; of several tasks or sets of data one of each. Names live in arena. */
    int (*main_metrics)(const et_learner *self, et_main_metrics *metrics, et_arena *arena,
                        et_error *error);
    const et_pass *(*pass)(const et_learner *self, int number); /* of training; NULL: no more */
    size_t (*parameter_bytes)(const et_learner *self);          /* values, gradients, slots, ... */
    /* As a task trainer, for what trains one task alone; ET_ECONFIG: it is of several. */
    int (*single)(et_learner *self, et_task_trainer **trainer, et_error *error);
    void (*close)(et_learner *self);
} et_learner_class;

struct et_learner {
    const et_learner_class *class;
};

/* What a task with a learner of its own is given for it. */
typedef struct et_learner_request {
    et_device *device;
    et_params *params;
    const et_task_trainer_options *options;
} et_learner_request;

int et_learner_open(et_learner **out, et_task *task, et_device *device, et_params *params,
                    const et_task_trainer_options *options, et_error *error);
void et_learner_close(et_learner *learner); /* NULL allowed */

/* asked: a name of settings, or ET_BEST_AUTO; NULL: none. *best: the value of validation that
 * chooses the best; NULL: none does. Names live in arena or are the task's. */
int et_learner_best_metric(const et_learner *learner, const char *asked, const char **best,
                           et_arena *arena, et_error *error);

/* What people see of a validation: what chooses the best, or NULL, comes first, then the main
 * metrics. *most: how many where there is room, 2 of one task; of several tasks or sets all. */
int et_learner_shown_metrics(const et_learner *learner, const char *best, et_main_metrics *shown,
                             int *most, et_arena *arena, et_error *error);

et_trainer *et_learner_trainer(et_learner *learner);
et_evaluator *et_learner_evaluator(et_learner *learner);

/* Of all its passes: what training needs; whether feed-forward layers are computed twice. */
et_plan_memory et_learner_plan_memory(const et_learner *learner);
bool et_learner_computes_twice(const et_learner *learner);
int et_learner_calls(const et_learner *learner); /* for loss and gradients */

#endif
