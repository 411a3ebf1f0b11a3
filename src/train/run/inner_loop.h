/* The inner loop: the steps of a trainer, and the actions between steps.
 *
 *   until goal.target, or until an action says stop:
 *   - steps: the run serves requests to stop or save; then the trainer makes a step, which is
 *     counted and shown. A trainer with its own inner loop makes all steps at once
 *   - actions: those of the list, in order. A row of the list says when its action acts
 *
 * A loop of steps ends at the target, after a number of steps (et_loop_length), or at a step for
 * which a row with ends_loop is due. A driver makes list, length and goal. The controller is a
 * driver for training up to train_steps (<etude/controller.h>) and for single calls
 * (<etude/outer_loop.h>).
 *
 * The part "progress" of the state has the name of the next action. So a run that was interrupted
 * between or within actions resumes with the right action. The driver opens and restores the run,
 * and says what the actions do. The loop knows no evaluator: an action that evaluates writes its
 * values to `evaluation`, and the actions after it read them there.
 *
 * The loop of <etude/loop.h> is not a driver, because there the program's own calls are the
 * boundaries. Both loops use the run, which serves requests between steps. */
#ifndef ETUDE_TRAIN_RUN_INNER_LOOP_H
#define ETUDE_TRAIN_RUN_INNER_LOOP_H

#include <etude/action.h>
#include <etude/trainer.h>

#include "base/arena.h"
#include "base/threads/trace.h"
#include "train/run/run.h"

/* Recovery of a run whose loss diverged: the run goes back to its newest checkpoint and continues
 * differently, as with Model Garden's RecoveryCondition and RecoveryAction. Differences: the
 * trainer judges every step, not the mean of a loop. The data go back with the weights. A run
 * without a checkpoint goes back to its initial values, which are saved as step 0. A file keeps the
 * number of trials. The count starts again when the run has passed the failed step.
 *
 *   diverged -> wait for the save in progress -> recovery.json -> restore -> retry
 *
 * A run that is killed after the file was written resumes with the same trial. */

typedef struct et_recovery {
    int64_t max_trials;     /* in a row; at most 0: the run ends by the first failure */
    int64_t trials, all;    /* trials in this row; trials ever, which retry gets as trial */
    int64_t step, failed;   /* step of the last recovery's checkpoint, and the step that failed */
    et_arena arena;         /* of memory; the owner releases it */
    const et_value *memory; /* the trainer's data from `diverged`; NULL: none yet */
} et_recovery;

/* Call when the run is at `step` (-1: a new run, which is saved as a checkpoint) and its logs are
 * open. Reads earlier trials and lets the trainer continue with them. */
int et_recovery_open(et_recovery *recovery, et_run *run, et_trainer *trainer, int64_t step,
                     et_error *error);

/* The name of a step in a trace of the device. */
#define ET_RUN_STEP_SPAN "step"

/* Texts for people about an interrupted run. */
#define ET_RUN_RESUMES "The same command resumes from there."
#define ET_RUN_NOT_BEGUN                                                                           \
    "interrupted before the first step: nothing to save. The same command starts again."

/* Values for actions. */
typedef struct et_logged {
    et_arena arena;
    const et_value *values; /* of this step; NULL: none */
} et_logged;

/* When an action acts, at the end of a loop of steps. One bit is enough to act. */
enum {
    ET_ACTS_WHEN_DUE = 1, /* a step since the begin of the loop was due */
    ET_ACTS_EACH_LOOP = 2,
    ET_ACTS_WHEN_EVALUATED = 4, /* this step was evaluated */
    ET_ACTS_AT_END = 8,         /* at the target */
};

typedef struct et_listed_action {
    et_action *action;
    unsigned acts;               /* ET_ACTS_*; 0: never */
    const et_action *asked;      /* the action with `due`; NULL: due in each loop */
    et_logged *sees;             /* the values that it gets */
    bool needs;                  /* acts only if `sees` has values */
    bool ends_loop;              /* a loop ends at the step that is due */
    const et_activity *activity; /* for traces; static, because a trace outlives the loop */
} et_listed_action;

/* The number of steps of a loop that begins after `step`. */
typedef struct et_loop_length {
    int64_t (*steps)(void *payload, int64_t step); /* NULL: the constant */
    void *payload;
    int64_t constant; /* 0: no limit */
} et_loop_length;

typedef struct et_goal {
    int64_t target; /* the last step */
    bool call;      /* a stop ends only this call; false: the run, for good */
    bool saves;     /* saves at the end, unless an action has saved this step */
} et_goal;

/* The place of a loop: with the trainer's step, the part "progress" of the state. */
typedef struct et_loop_position {
    int64_t began;          /* step before the first step of the loop */
    bool at_boundary;       /* the loop of steps has ended, the next has not begun */
    int next;               /* next action of this step; count: no action is left */
    int stopper;            /* action that ended the run at this step; count: none */
    int64_t stopped_target; /* target of the call that it ended; -1: it ended the run */
    bool stop_restored;     /* another process made the stopped call, so the next call may be the
                               same one */
} et_loop_position;

/* Rates and recent values, for people and logs. */
typedef struct et_meter {
    double window_start;                /* monotonic time of the last log */
    int64_t window_steps, window_units; /* since then */
    et_recent rate, loss;               /* units a second; the loss, which is in the state */
    double step_start;                  /* monotonic time of the end of the last step */
    double step_seconds;                /* that it took */
} et_meter;

typedef struct et_inner_loop {
    et_trainer *trainer; /* borrowed, as run and track */
    et_run *run;
    et_track *track;
    et_sink *summaries; /* borrowed: gets the logs of training instead of the run's sink; NULL: the
                           run's sink */
    et_loop_length length;
    et_listed_action *actions; /* [count]: in the order in which they act; owned */
    int count;
    et_goal goal;
    int64_t first; /* the trainer's step when a new run begins; the driver sets it once */
    int64_t step;  /* the trainer's step as the loop left it: the program may set another */
    int64_t planned, target; /* the driver replaced a target of `planned` steps by `target`, which
                                the state keeps; 0: it did not */
    et_loop_position position;
    et_logged evaluation; /* of this step */
    et_logged steps;      /* of the loop of steps that ended at this step */
    double learning_rate; /* of the last step, as its epoch; NaN, 0: unknown */
    int64_t epoch;
    const et_value *last; /* last evaluation since the goal was set; NULL: none */
    et_meter meter;
    et_recovery recovery;
    et_error miscounted; /* error if the trainer counted its steps wrong: no training and no save
                            until a restore. Status 0: correct so far */
} et_inner_loop;

/* Allocates rows for a number of actions. Before: all members are zero except trainer, first, track
 * and length. After: the driver sets run when the run is open. */
int et_inner_loop_init(et_inner_loop *loop, size_t actions, et_error *error);
void et_inner_loop_release(et_inner_loop *loop);

/* Appends a row. */
void et_inner_loop_list(et_inner_loop *loop, et_listed_action one);

/* Asserts the relations of the members at the begin of a call. */
void et_inner_loop_sane(const et_inner_loop *loop);

/* Restores the newest checkpoint, or sets initial values at step `first`. *step -1: no checkpoint.
 * ET_ECONFIG: `first` differs between ranks. */
int et_inner_loop_start(et_inner_loop *loop, int64_t *step, et_error *error);

/* Trains up to the goal. After an error the run resumes from the newest checkpoint.
 * ET_EINTERRUPTED: asked to stop; saved. */
int et_inner_loop_run(et_inner_loop *loop, const et_goal *goal, et_error *error);

/* Waits for the saves of a run that has nothing left to do. All ranks return the same status.
 * status: the result of this rank's earlier work. */
int et_inner_loop_finish(et_inner_loop *loop, int status, et_error *error);

/* Number of steps of a loop that begins after `step`; ET_ECONFIG: the function gives less than 1.
 */
int et_inner_loop_steps(const et_inner_loop *loop, int64_t step, int64_t *steps, et_error *error);

/* The error of a wrong count, until a restore. */
int et_inner_loop_check_count(const et_inner_loop *loop, et_error *error);

/* Name of an action; "" after the last. */
const char *et_inner_loop_name(const et_inner_loop *loop, int action);

/* The trainer's view of its last step; without a view method all values are unknown. */
et_trainer_view et_inner_loop_view(const et_inner_loop *loop);

void et_meter_start_window(et_meter *meter);

/* progress.c: the part of the state; its object is an et_inner_loop. */
extern const et_part_class et_progress_part;

#endif
