/* The validation values to show while a run trains: few, each once. Tasks name them
 * (<etude/task.h>, main_metrics); the metric that chooses the best checkpoint comes first. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_MAIN_METRICS_H
#define ETUDE_SYSTEMS_MODELGARDEN_MAIN_METRICS_H

#include "base/arena.h"
#include "systems/modelgarden/task_trainer.h"

#define ET_MAIN_METRICS_MAX 4

typedef struct et_main_metrics {
    int count;
    const char *name[ET_MAIN_METRICS_MAX]; /* "validation_loss", "news/validation_loss"; borrowed */
} et_main_metrics;

/* Does nothing if name or its double (train/checkpoint/metric_name.h) is in the list, where "a|b"
 * equals "a/b", or if the list is full. */
void et_main_metrics_add(et_main_metrics *metrics, const char *name);

/* The value of a task that chooses the best, of several sets of validation data the first's; NULL:
 * the task names none. It begins with prefix, as below. */
int et_main_metrics_best(const char **name, const et_task_trainer *trainer, const char *prefix,
                         et_arena *arena, et_error *error);

/* Adds those of one task, which begin with prefix: "prices/" or "". Of several sets of validation
 * data it is one of each, with only_first that of the first set. None without validation data.
 * Names live in arena or are the task's. */
int et_main_metrics_of_task(et_main_metrics *metrics, const et_task_trainer *trainer,
                            const char *prefix, bool only_first, et_arena *arena, et_error *error);

#endif
