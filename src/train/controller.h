<<<<<<< HEAD
/* What <etude/controller.h> leaves to the command: names and texts that it shows. */
=======
/* A controller: the loop around a trainer's steps.
 *
 *   until train_steps:
 *   steps up to the next boundary: one at which an action is due, the end, or steps_per_loop on
 *   actions, in this order: log, evaluate, the program's own, save
 *
 * What actions change is in the state before it is saved, so a run that is killed and started again
 * does what an unbroken one would have done. Which action of a step comes next is in the state too:
 * a run that is interrupted between two, or in an evaluation, goes on with the right one.
 *
 *     et_controller_options options = { .trainer = &gan.trainer,
 *                                       .run = { .model_dir = "runs/gan" },
 *                                       .train_steps = 20000, .steps_per_loop = 500 };
 *     et_controller_open(&controller, &options, &error);       restores, or starts anew
 *     et_controller_train(controller, &error);                 ET_EINTERRUPTED: asked to stop
 *     et_controller_close(controller, &error);
 *
 * It owns a state tree and a run, and borrows all else. */
>>>>>>> w-p1
#ifndef ETUDE_TRAIN_CONTROLLER_H
#define ETUDE_TRAIN_CONTROLLER_H

#include <etude/controller.h>

#include "train/run.h"

<<<<<<< HEAD
=======
typedef struct et_controller et_controller;

typedef struct et_controller_options {
    et_trainer *trainer;
    et_evaluator *evaluator;   /* NULL: none */
    et_action *const *actions; /* [action_count]: the program's own; borrowed */
    int action_count;
    et_run_options run;       /* its state is the controller's: leave it NULL */
    int64_t train_steps;      /* in all, an absolute target */
    int64_t steps_per_loop;   /* at least 1 */
    int64_t summary_interval; /* steps between logs; 0: at the end only */
    int64_t validation_interval;
    int64_t checkpoint_interval;
} et_controller_options;

/* Attaches, restores the newest checkpoint or starts anew. */
int et_controller_open(et_controller **out, const et_controller_options *options, et_error *error);

/* At train_steps or past it when it was opened: nothing is left to do, and nothing is written. */
bool et_controller_finished(const et_controller *controller);

/* Trains up to train_steps. Asked to stop, it saves the step it is at and returns ET_EINTERRUPTED;
 * an evaluation that was cut short is done when the run goes on. */
int et_controller_train(et_controller *controller, et_error *error);

/* Waits for the last save. NULL allowed. */
int et_controller_close(et_controller *controller, et_error *error);

>>>>>>> w-p1
/* What a step's span is called in a trace of the device. */
#define ET_CONTROLLER_STEP_SPAN "step"

/* What people read when a run is interrupted. */
#define ET_CONTROLLER_GOES_ON "The same command goes on from there."
#define ET_CONTROLLER_NOT_BEGUN                                                                    \
    "interrupted before the first step: nothing to save. "                                         \
    "The same command starts again."

#endif
