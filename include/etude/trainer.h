/* Trainers and evaluators: what a driver calls. A trainer is a class with a step; what a step is,
 * it says itself: one network and one optimizer (et_task_trainer_open, task.h) or several. A driver
 * (controller.h) calls step until something is due, then logs, evaluates, saves; a trainer never
 * knows its driver. These are Orbit's AbstractTrainer and AbstractEvaluator; with hooks and data
 * sets, standard.h.
 *
 *     typedef struct gan { et_trainer trainer; ... } gan;          the first member
 *     static int gan_step(et_trainer *self, et_error *error) { gan *g = (gan *)self; ... }
 *     static const et_trainer_class gan_class = { .name = "gan", .step = gan_step };
 *     gan g = { .trainer = { &gan_class } };
 *
 *     if (et_trainer_train(&g.trainer, 100, logs, &error)) ...               without a driver
 *     if (et_evaluate(evaluator, g.trainer.step, -1, NULL, NULL, logs, &error)) ...
 *
 * Everything that resumes is attached to the state tree once (attach); after that a killed run
 * that is started again does what an unbroken one would have done. Methods that may fail give a
 * status; all but step are optional. One thread. */
#ifndef ETUDE_TRAINER_H
#define ETUDE_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/comm.h>
#include <etude/error.h>
#include <etude/state.h>
#include <etude/value.h>

typedef struct et_module et_module;
typedef struct et_trainer et_trainer;

/* What people and rates see of the last step. */
typedef struct et_trainer_view {
    double loss, learning_rate; /* NaN: there is none */
    int64_t units;              /* consumed by the step, or by all steps of a call of train */
    const char *unit;           /* "token"; NULL: steps are counted */
    int64_t epoch;              /* from 1; 0: unknown */
} et_trainer_view;

typedef struct et_trainer_class {
    const char *name;
    /* Hangs what resumes on the tree; before a restore. */
    int (*attach)(et_trainer *self, et_state *state, et_error *error);
    /* A new run begins: initial values. Not where a checkpoint was restored. */
    int (*start)(et_trainer *self, et_error *error);
    /* A window of steps begins, after the last log. Not where a restored one resumes. */
    int (*loop_begin)(et_trainer *self, et_error *error);
    /* One step, of one update or several. self->step is the number of steps done; the driver
     * counts, and a step that changes it is an error. ET_EINTERRUPTED: nothing was done. */
    int (*step)(et_trainer *self, et_error *error);
    /* The window ends: fills logs with what its steps were like. */
    int (*loop_end)(et_trainer *self, et_value *logs, et_error *error);
    void (*view)(const et_trainer *self, et_trainer_view *view);
    /* A step has failed with ET_EDIVERGED, and the run goes back to its last checkpoint: keeps what
     * retry has to know of where it was. */
    int (*diverged)(et_trainer *self, et_value *memory, et_error *error);
    /* The state is that checkpoint's. What is tried now must differ, or it ends in the same way:
     * trial counts from 1. Also where a run resumes that was killed later; memory NULL: it has
     * saved a checkpoint since. */
    int (*retry)(et_trainer *self, int64_t trial, const et_value *memory, et_error *error);
    /* An inner loop of the trainer's own, in place of loop_begin, step and loop_end: num_steps
     * steps, by which it advances self->step, no more and no less. Fills logs, nested as it likes.
     * Requests to stop or save are served before and after it. */
    int (*train)(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error);
    /* What other processes hold of the state comes here, weights above all: before an action acts,
     * an evaluation, a log and a save among them. NULL: all is here. */
    int (*gather)(et_trainer *self, et_error *error);
} et_trainer_class;

struct et_trainer {
    const et_trainer_class *ET_CLASS;
    int64_t step;             /* the global step: steps done */
    int64_t summary_interval; /* the driver's; 0: none. See et_trainer_records */
    et_module *module;        /* its name and variables, <etude/module.h>; borrowed. NULL: none */
};

/* The inner loop: loop_begin, num_steps steps, loop_end, or the trainer's own; adds to logs what it
 * was like (NULL: nobody looks). For programs without a driver. ET_EFAIL: the step did not advance
 * by num_steps. ET_ECONFIG: num_steps is negative. */
ET_API int et_trainer_train(et_trainer *trainer, int64_t num_steps, et_value *logs,
                            et_error *error);

/* In a step: whether summaries that it writes itself are wanted of it: of those that end at a
 * multiple of summary_interval, the steps I, 2 I, ... (Orbit asks before the count: it wants the
 * first step, I + 1, ...). What train or loop_end gives is always written. */
ET_API bool et_trainer_records(const et_trainer *trainer);

typedef struct et_evaluator et_evaluator;

typedef struct et_evaluator_class {
    const char *name; /* summary directory of its logs, such as "validation" */
    int (*begin)(et_evaluator *self, int64_t step, et_error *error);
    /* One batch. *more becomes false where none was left; of a class that counts, with the last. */
    int (*step)(et_evaluator *self, bool *more, et_error *error);
    /* The last step is done: fills logs. ET_EINTERRUPTED: it is to be done again. */
    int (*end)(et_evaluator *self, et_value *logs, et_error *error);
    /* Hangs what resumes on the tree, where there is a trainer too; before a restore. */
    int (*attach)(et_evaluator *self, et_state *state, et_error *error);
} et_evaluator_class;

struct et_evaluator {
    const et_evaluator_class *ET_CLASS;
    int64_t limit, done; /* steps: asked for, 0: all there are; done so far. et_evaluate counts */
    bool counts; /* set in begin by a class that evaluates one set after another, and has the limit
                    for each of them: then it counts, and its step says when all is done */
    et_module *module; /* as a trainer's */
    et_comm *comm; /* ranks that all call it, each of which evaluates its share, and has the values
                      of all data in the end; borrowed. NULL: of several ranks rank 0 evaluates */
    uint64_t data; /* fingerprint of what it evaluates, of which a best is; 0: not known */
};

/* begin, steps until there are no more or limit of them are done (0 and -1: no limit), end. Data
 * that end before the limit are told in a warning. stops (NULL: never) is asked between steps:
 * ET_EINTERRUPTED. ET_ECONFIG: a limit below -1. */
ET_API int et_evaluate(et_evaluator *evaluator, int64_t step, int64_t limit,
                       bool (*stops)(void *payload), void *payload, et_value *logs,
                       et_error *error);

#endif
