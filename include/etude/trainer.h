/* Trainers and evaluators, for drivers. A trainer is a class whose method `step` makes one step, of
 * one network and optimizer (et_task_trainer_open, task.h) or of several. A driver (controller.h)
 * calls step until an action is due, then logs, evaluates, saves. A trainer never knows its driver.
 * These are Orbit's AbstractTrainer and AbstractEvaluator; standard.h has them with hooks and data
 * sets.
 *
 *     typedef struct gan { et_trainer trainer; ... } gan;          the first member
 *     static int gan_step(et_trainer *self, et_error *error) { gan *g = (gan *)self; ... }
 *     static const et_trainer_class gan_class = { .name = "gan", .step = gan_step };
 *     gan g = { .trainer = { &gan_class } };
 *
 *     if (et_trainer_records(self) &&
 *         et_trainer_write_summary(self, histogram, &error)) ...                 in a step
 *     if (et_trainer_train(&g.trainer, 100, logs, &error)) ...               without a driver
 *     if (et_evaluate(evaluator, g.trainer.step, -1, NULL, NULL, logs, &error)) ...
 *
 * Attach all state that resumes to the state tree (attach). A killed run that is restarted then
 * repeats exactly the work of an uninterrupted run. Methods that may fail return a status; all
 * except step are optional. Use from one thread. */
#ifndef ETUDE_TRAINER_H
#define ETUDE_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/comm.h>
#include <etude/error.h>
#include <etude/state.h>
#include <etude/summary_message.h>
#include <etude/value.h>

typedef struct et_module et_module;
typedef struct et_trainer et_trainer;

/* Facts about the last step, for people and rates. */
typedef struct et_trainer_view {
    double loss, learning_rate; /* NaN: none */
    int64_t units;              /* consumed by the step, or by all steps of a call of train */
    const char *unit;           /* "token"; NULL: count steps */
    int64_t epoch;              /* from 1; 0: unknown */
} et_trainer_view;

typedef struct et_trainer_class {
    const char *name;
    /* Attaches state that resumes; called before a restore. */
    int (*attach)(et_trainer *self, et_state *state, et_error *error);
    /* A new run begins: sets initial values. Not called if a checkpoint was restored. */
    int (*start)(et_trainer *self, et_error *error);
    /* A window of steps begins, after the last log. Not called if a restored window resumes. */
    int (*loop_begin)(et_trainer *self, et_error *error);
    /* One step, of one or several updates. self->step is the number of steps done; the driver
     * counts, and changing it in a step is an error. ET_EINTERRUPTED: nothing was done. */
    int (*step)(et_trainer *self, et_error *error);
    /* The window ends: fills logs with the results of its steps. */
    int (*loop_end)(et_trainer *self, et_value *logs, et_error *error);
    void (*view)(const et_trainer *self, et_trainer_view *view);
    /* A step has failed with ET_EDIVERGED, and the run goes back to its last checkpoint: stores
     * data for retry in memory. */
    int (*diverged)(et_trainer *self, et_value *memory, et_error *error);
    /* Called after the state was restored from the checkpoint. The trainer must change something,
     * or the failure repeats; trial counts from 1. Also called when a run that was killed after a
     * retry resumes. memory NULL: the run has saved a checkpoint since then. */
    int (*retry)(et_trainer *self, int64_t trial, const et_value *memory, et_error *error);
    /* An own inner loop, instead of loop_begin, step and loop_end: makes num_steps steps, adds
     * exactly num_steps to self->step, and fills logs, which may be nested. Requests to stop or
     * save are handled before and after it. */
    int (*train)(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error);
    /* Collects state, above all weights, that other processes have; called before an action, an
     * evaluation, a log or a save. NULL: all state is in this process. */
    int (*gather)(et_trainer *self, et_error *error);
} et_trainer_class;

struct et_trainer {
    const et_trainer_class *ET_CLASS;
    int64_t step; /* the global step: number of steps done. A program may set it before it opens a
                     controller, whose new run then begins there, and between two calls. A
                     checkpoint replaces it */
    int64_t summary_interval;     /* of the driver; 0: none. See et_trainer_records */
    struct et_inner_loop *driver; /* internal */
    et_module *module;            /* has its name and variables, <etude/module.h>; borrowed. NULL:
                                     none */
};

/* The inner loop, for programs without a driver: loop_begin, num_steps steps, loop_end, or the
 * trainer's own loop. Adds results to logs (NULL: not wanted). ET_EFAIL: the step did not advance
 * by num_steps. ET_ECONFIG: num_steps is negative. */
ET_API int et_trainer_train(et_trainer *trainer, int64_t num_steps, et_value *logs,
                            et_error *error);

/* Inside a step: whether the step should write its own summaries. True for steps that end at a
 * multiple of summary_interval: I, 2 I, ... (Orbit asks before counting, so it writes at the first
 * step, I + 1, ...) Results of train or loop_end are always written. */
ET_API bool et_trainer_records(const et_trainer *trainer);

/* Inside a step: writes summaries at the end of this step, into the event files of the driver's
 * training logs (outer_loop.summaries, or DIR/train), as tf.summary.histogram in a train function
 * does. Without a driver or event files nothing is written. ET_EUSAGE: outer_loop.summaries writes
 * no event files. */
ET_API int et_trainer_write_summary(const et_trainer *trainer, const et_summary *summary,
                                    et_error *error);

typedef struct et_evaluator et_evaluator;

typedef struct et_evaluator_class {
    const char *name; /* summary directory of its logs, such as "validation" */
    int (*begin)(et_evaluator *self, int64_t step, et_error *error);
    /* One batch. *more becomes false if no batch was left; if the class counts, with the last
     * batch. */
    int (*step)(et_evaluator *self, bool *more, et_error *error);
    /* The last step is done: fills logs. ET_EINTERRUPTED: call again later. */
    int (*end)(et_evaluator *self, et_value *logs, et_error *error);
    /* Attaches state that resumes, if there is a trainer too; called before a restore. */
    int (*attach)(et_evaluator *self, et_state *state, et_error *error);
} et_evaluator_class;

struct et_evaluator {
    const et_evaluator_class *ET_CLASS;
    int64_t limit, done; /* limit: most steps, 0: all data; done: steps so far. et_evaluate
                            counts */
    bool counts; /* set in begin by a class that evaluates several sets, with the limit for each
                    set. Then the class counts, and its step says when all sets are done */
    et_module *module; /* as a trainer's */
    et_comm *comm; /* ranks that all call the evaluator; each evaluates some batches and gets the
                      results of all data. Borrowed. NULL: rank 0 evaluates for all ranks */
    uint64_t data; /* fingerprint of the evaluated data, for comparing best values; 0: unknown */
};

/* Runs an evaluation: begin, steps until the data end or limit steps are done (0 or -1: no limit),
 * end. If the data end before the limit, a warning says so. stops (NULL: never) is called between
 * steps; true gives ET_EINTERRUPTED. ET_ECONFIG: a limit below -1. */
ET_API int et_evaluate(et_evaluator *evaluator, int64_t step, int64_t limit,
                       bool (*stops)(void *payload), void *payload, et_value *logs,
                       et_error *error);

#endif
