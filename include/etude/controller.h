/* A controller: the loop around a trainer's steps.
 *
 *  until train_steps:
 *    steps up to the next boundary: an action is due, the end, or steps_per_loop
 *    actions, in this order: log, evaluate, the program's own, save
 *
 * The save comes last, so a checkpoint contains all changes that actions make. A run that is killed
 * and restarted therefore repeats exactly the work of an uninterrupted run. The state also has the
 * next action of the current step. A run that is interrupted between two actions, or during an
 * evaluation, resumes there.
 *
 *     et_controller_options options = { .trainer = &gan.trainer,
 *                                       .run.model_dir = "runs/gan",
 *                                       .train_steps = 20000 };
 *     et_controller_open(&controller, &options, &error);       restores a checkpoint, if any
 *     et_controller_train(controller, &error);                 ET_EINTERRUPTED: stopped and saved
 *     et_controller_close(controller, &error);
 *
 *     et_recovery_condition diverged = { .loss_upper_bound = 100 };
 *     et_recovery_condition_holds(&diverged, now, &holds, &error);         in an action
 *
 * The controller owns a state tree and a run, and borrows everything else. For a program that calls
 * training, evaluation and saving itself, see outer_loop.h. */
#ifndef ETUDE_CONTROLLER_H
#define ETUDE_CONTROLLER_H

#include <etude/action.h>
#include <etude/run.h>
#include <etude/trainer.h>

typedef struct et_controller et_controller;

typedef struct et_controller_options {
    et_trainer *trainer;
    et_evaluator *evaluator;   /* NULL: no evaluation */
    et_action *const *actions; /* [action_count]: the program's actions; borrowed */
    int action_count;
    /* run.state must be NULL: the controller has its own. run.model_dir NULL: nothing is saved. */
    et_run_options run;
    int64_t train_steps;    /* total number of steps, including those before a resume */
    int64_t steps_per_loop; /* most steps per inner loop; 0: up to the next due action */
    /* Options of the calls of <etude/outer_loop.h>, which replace train_steps and
     * validation_interval. NULL: et_controller_train drives the run. Copied. */
    const struct et_outer_loop_options *outer_loop;
    int64_t summary_interval;    /* steps between logs; 0: only at the end */
    int64_t validation_interval; /* steps between evaluations; 0: none */
    int64_t validation_steps;    /* steps of an evaluation; 0 or -1: all data */
    /* The run ends after this many consecutive evaluations without a new best value
     * (run.best_metric). It stays ended unless you open it with another patience. 0: no limit. */
    int64_t patience;
    const double *target; /* the run also ends when the best value reaches this value; copied. NULL:
                             none */
    int64_t checkpoint_interval; /* steps between saves; 0: only at the end */
    /* Number of consecutive recoveries. If a step fails with ET_EDIVERGED, the run goes back to its
     * last checkpoint (or its start) and continues differently (et_trainer_class.retry). A
     * checkpoint after the failed step starts a new count. model_dir/recovery.json has the count;
     * restoring does not change it. 0 or less: the run fails. */
    int64_t recovery_max_trials;
} et_controller_options;

/* Attaches the trainer and evaluator, then restores the newest checkpoint or starts a new run at
 * trainer->step, which is the same on all ranks (ET_ECONFIG). */
ET_API int et_controller_open(et_controller **out, const et_controller_options *options,
                              et_error *error);

/* Trains up to train_steps. If asked to stop, saves the current step and returns ET_EINTERRUPTED;
 * the resumed run repeats an interrupted evaluation. */
ET_API int et_controller_train(et_controller *controller, et_error *error);

/* Waits for the last save. NULL allowed. */
ET_API int et_controller_close(et_controller *controller, et_error *error);

/* Model Garden's RecoveryCondition, for et_conditional_init (ready_actions.h) and your own actions.
 * It holds after an inner loop that has diverged: training_loss is NaN, or, from step
 * recovery_begin_steps on, above loss_upper_bound. A controller itself judges every step instead,
 * see recovery_max_trials above. Payload: the struct. ET_EDIVERGED: the condition holds more than
 * recovery_max_trials times. ET_ECONFIG: logs have no training_loss. */
typedef struct et_recovery_condition {
    double loss_upper_bound;
    int64_t recovery_begin_steps;
    int64_t recovery_max_trials;
    int64_t recover_counter; /* how often the condition has held; no state contains it */
} et_recovery_condition;

ET_API int et_recovery_condition_holds(void *recovery_condition, const et_action_context *now,
                                       bool *holds, et_error *error);

#endif
