/* A trainable: a list of tasks, one (its task trainer) or several (a multitask), for commands, and
 * facts about the tasks for people.
 *
 *     et_trainable_open(&trainable, task, device, params, &options, &error);
 *     controller.trainer = et_trainable_trainer(trainable);
 *     et_trainable_close(trainable);
 *
 * Borrows task, device and params, which must be empty. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_TRAINABLE_H
#define ETUDE_SYSTEMS_MODELGARDEN_TRAINABLE_H

#include "base/arena.h"
#include "systems/modelgarden/task_trainer.h"

/* The validation values to show while a run trains: few, each once. Tasks name them
 * (<etude/task.h>, main_metrics); the metric that chooses the best checkpoint comes first. */
#define ET_MAIN_METRICS_MAX 4

typedef struct et_main_metrics {
    int count;
    const char *name[ET_MAIN_METRICS_MAX]; /* "validation_loss", "news/validation_loss"; borrowed */
} et_main_metrics;

/* Does nothing if name or its double (train/task/metric_name.h) is in the list, where "a|b" equals
 * "a/b", or if the list is full. */
void et_main_metrics_add(et_main_metrics *metrics, const char *name);

/* The validation value that chooses the best checkpoint of a task, from the first validation set.
 * The name begins with prefix, as below. NULL: the task names none. */
int et_main_metrics_best(const char **name, const et_task_trainer *trainer, const char *prefix,
                         et_arena *arena, et_error *error);

/* Adds the metrics of one task, with names that begin with prefix, "prices/" or "". With several
 * sets of validation data: one metric per set; only_first: only the first set's. None without
 * validation data. Names live in arena or are the task's. */
int et_main_metrics_of_task(et_main_metrics *metrics, const et_task_trainer *trainer,
                            const char *prefix, bool only_first, et_arena *arena, et_error *error);

typedef struct et_trainable et_trainable;

int et_trainable_open(et_trainable **out, et_task *task, et_device *device, et_params *params,
                      const et_task_trainer_options *options, et_error *error);
void et_trainable_close(et_trainable *trainable); /* NULL allowed */

/* Finds the validation value that chooses the best checkpoint. asked: a name from the settings, or
 * ET_BEST_AUTO; NULL: no best is wanted. *best NULL: no best. Names live in arena or are the
 * task's. */
int et_trainable_best_metric(const et_trainable *trainable, const char *asked, const char **best,
                             et_arena *arena, et_error *error);

/* The validation metrics to show: best first (unless NULL), then the main metrics. *most: how many
 * to show if the line has room: 2 for one task, all for several tasks or sets. */
int et_trainable_shown_metrics(const et_trainable *trainable, const char *best,
                               et_main_metrics *shown, int *most, et_arena *arena, et_error *error);

et_trainer *et_trainable_trainer(et_trainable *trainable);
et_evaluator *et_trainable_evaluator(et_trainable *trainable); /* NULL: no data for it */

/* The task trainer of a run with a single task. ET_ECONFIG: there are several tasks. */
int et_trainable_single(et_trainable *trainable, et_task_trainer **out, et_error *error);

/* The layout of the training data, or without training data of the validation data. Several tasks:
 * the layout of the first task. */
const et_layout *et_trainable_layout(const et_trainable *trainable);
/* The number of batches in an epoch; for several tasks: et_multitask_batches. 0: unknown. */
int et_trainable_batches(const et_trainable *trainable, int64_t *count, et_error *error);

/* Facts about memory and work of a training, for people. */
typedef struct et_trainable_facts {
    size_t parameter_bytes; /* values, gradients, slots, ... */
    size_t sum_bytes;       /* sums of gradients over batches */
    et_plan_memory memory;  /* of the passes of training, together */
    et_recompute recompute; /* the highest level of a pass */
    int calls;              /* for loss and gradients */
} et_trainable_facts;

et_trainable_facts et_trainable_facts_of(const et_trainable *trainable);

#endif
