/* A controller: the loop around a trainer's steps.
 *
 *  until train_steps:
 *    steps up to the next boundary: where an action is due, the end, or steps_per_loop on
 *    actions, in this order: log, evaluate, the program's own, save
 *
 * What actions change is in the state before it is saved, so a run that is killed and started again
 * does what an unbroken one would have done. Which action of a step comes next is in the state too:
 * a run that is interrupted between two, or in an evaluation, resumes with the right one.
 *
 *     et_controller_options options = { .trainer = &gan.trainer,
 *                                       .run.model_dir = "runs/gan",
 *                                       .train_steps = 20000 };
 *     et_controller_open(&controller, &options, &error);       restores, or starts anew
 *     et_controller_train(controller, &error);                 ET_EINTERRUPTED: stopped, saved
 *     et_controller_close(controller, &error);
 *
 * It owns a state tree and a run, and borrows all else. A program that trains, evaluates and saves
 * by calls of its own: outer_loop.h. */
#ifndef ETUDE_CONTROLLER_H
#define ETUDE_CONTROLLER_H

#include <etude/action.h>
#include <etude/run.h>
#include <etude/trainer.h>

typedef struct et_controller et_controller;

typedef struct et_controller_options {
    et_trainer *trainer;
    et_evaluator *evaluator;   /* NULL: none */
    et_action *const *actions; /* [action_count]: the program's own; borrowed */
    int action_count;
    /* Its state is the controller's: leave it NULL. model_dir: needed without an outer_loop. */
    et_run_options run;
    int64_t train_steps;    /* in all, an absolute target */
    int64_t steps_per_loop; /* 0: up to what is due next */
    /* Driven call by call, not by train_steps and validation_interval: <etude/outer_loop.h>. NULL:
     * by et_controller_train. Copied. */
    const struct et_outer_loop_options *outer_loop;
    int64_t summary_interval;    /* steps between logs; 0: at the end only */
    int64_t validation_interval; /* steps between evaluations; 0: none */
    int64_t validation_steps;    /* of an evaluation; 0 and -1: all there are */
    /* Evaluations in a row without a new best (run.best_metric) after which the run ends, for good
     * unless it is opened with another patience. 0: none. */
    int64_t patience;
    const double *target; /* a best value at which the run ends as well; copied. NULL: none */
    int64_t checkpoint_interval; /* steps between saves; 0: at the end only */
    /* How often in a row a run whose step fails with ET_EDIVERGED goes back to its last checkpoint,
     * or to where it began, and on in another way (et_trainer_class.retry); a checkpoint past the
     * step that failed begins a new row. The count is in model_dir/recovery.json, which no restore
     * takes back. 0 and below: the run ends. */
    int64_t recovery_max_trials;
} et_controller_options;

/* Attaches, restores the newest checkpoint or starts anew. */
ET_API int et_controller_open(et_controller **out, const et_controller_options *options,
                              et_error *error);

/* Trains up to train_steps. Asked to stop, it saves the step it is at and returns ET_EINTERRUPTED;
 * an evaluation that was cut short is done when the run resumes. */
ET_API int et_controller_train(et_controller *controller, et_error *error);

/* Waits for the last save. NULL allowed. */
ET_API int et_controller_close(et_controller *controller, et_error *error);

#endif
