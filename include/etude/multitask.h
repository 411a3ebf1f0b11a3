/* Several tasks trained together with shared parameters (Model Garden's MultiTask with its joint
 * and interleaving trainers and its evaluator). Tasks share the parameters that have equal names in
 * the store.
 *
 *     et_multitask_part parts[] = { { .task = &digits.task, .weight = 1 },
 *                                   { .task = &letters.task, .weight = 0.5 } };
 *     et_multitask_options options = { .order = ET_MULTITASK_JOINT };
 *     if (et_multitask_open(&multitask, parts, 2, device, params, &options, &error)) ...
 *     controller.trainer = et_multitask_trainer(multitask);
 *     controller.evaluator = et_multitask_evaluator(multitask);
 *     ... train, then: ...
 *     printf("%d steps, now with probability %.2f\n", (int)et_multitask_steps(multitask, 0),
 *            et_multitask_probability(multitask, 0, step));
 *     et_multitask_close(multitask);
 *
 * Joint: each step takes one batch of every task (or trainer.batches batches) and makes one update
 * with the gradient of total_loss, the sum of weight times a task's mean loss. Interleaved: each
 * step trains one task, drawn by (seed, step); parameters that this task does not use do not
 * change. Logs have a dict for each task by its name, so a best metric is "digits|validation_loss".
 * Logs of training also have the learning_rate of the last update. The number of steps of each task
 * is saved and resumes.
 *
 * Borrows tasks, device and params. params must be empty. With trainer.use ET_EVALUATE_ONLY, params
 * may also belong to a trainer of the same parameters, for example of the same controller; then no
 * optimizer may have an average. Use from one thread. */
#ifndef ETUDE_MULTITASK_H
#define ETUDE_MULTITASK_H

#include <etude/task_trainer.h>

typedef struct et_multitask_part {
    et_task *task;      /* its name differs from those of the other tasks */
    double weight;      /* joint: weight of its loss; 0: 1 */
    int64_t eval_steps; /* batches of its evaluation; 0: the evaluator's limit, or all */
    double size;        /* proportional, annealing: size of its data, > 0, in any unit */
} et_multitask_part;

enum {
    ET_MULTITASK_JOINT,
    ET_MULTITASK_UNIFORM,
    ET_MULTITASK_PROPORTIONAL, /* with probability proportional to size^alpha */
    ET_MULTITASK_ANNEALING,    /* the same, with alpha = 1 - 0.8 (e - 1) / (E - 1) in epoch e, from
                                  0, and E = total_steps / steps_per_epoch; at least 0.2, and 1 if
                                  E is at most 1 */
    ET_MULTITASK_OWN,          /* with probability proportional to share */
};

typedef struct et_multitask_options {
    /* Optimizer, seed, types, batches, bound and use. `given` must be NULL; joint training allows
     * neither loss_scale nor dp_config. NULL: the defaults. */
    const et_task_trainer_options *trainer;
    int order;               /* ET_MULTITASK_* */
    double alpha;            /* proportional; 0: 1 */
    int64_t steps_per_epoch; /* annealing: both > 0 */
    int64_t total_steps;
    /* ET_MULTITASK_OWN: a task's share at a step, from 0 to 1e100. If all shares of a step are 0,
     * the step fails with ET_ECONFIG. The result must depend only on the arguments, because a
     * resumed run asks again. */
    double (*share)(void *payload, int part, int64_t step);
    void *payload;
} et_multitask_options;

typedef struct et_multitask et_multitask;

ET_API int et_multitask_open(et_multitask **out, const et_multitask_part *parts, int count,
                             et_device *device, et_params *params,
                             const et_multitask_options *options, et_error *error);
ET_API void et_multitask_close(et_multitask *multitask); /* NULL allowed */

ET_API et_trainer *et_multitask_trainer(et_multitask *multitask);
ET_API et_evaluator *et_multitask_evaluator(et_multitask *multitask); /* NULL: no task has data */

/* Both functions return 0 for a part that does not exist. steps: steps of a task so far; in joint
 * training, all steps. */
ET_API int64_t et_multitask_steps(const et_multitask *multitask, int part);
/* The probability of a task at a step; 1 in joint training. */
ET_API double et_multitask_probability(const et_multitask *multitask, int part, int64_t step);

#endif
