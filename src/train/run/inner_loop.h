/* The inner loop: a trainer's steps, and the actions between them.
 *
 *   until goal.target, or until an action says stop:
 *   - steps: requests to stop or save are served, then one step is made, counted and shown. A
 *   trainer with an inner loop of its own makes all of them at once
 *   - actions of the list, in its order; each acts when its row says so
 *
 * A loop of steps ends at the target, after so many steps (et_loop_length), and where a row with
 * ends_loop is due. A driver is a list, a length and a goal. <etude/controller.h> has two: one
 * trains up to train_steps, the other does what calls say (<etude/outer_loop.h>).
 *
 * Which action comes next is in the state (the part "progress"), by name: a run that is interrupted
 * between two actions, or in one, resumes with the right one. The loop leaves to its driver what
 * the actions do, when a run is opened and restored, and lines for people about both. It does not
 * know evaluators: an action that evaluates puts its values into `evaluation`, where the actions
 * behind it see them.
 *
 * A loop that a program writes itself (<etude/loop.h>) has no list and no goal: its boundaries are
 * the program's own calls. It shares the run, which serves requests between steps. */
#ifndef ETUDE_TRAIN_RUN_INNER_LOOP_H
#define ETUDE_TRAIN_RUN_INNER_LOOP_H

#include <etude/action.h>
#include <etude/trainer.h>

#include "base/arena.h"
#include "base/threads/trace.h"
#include "train/run/recovery.h"
#include "train/run/run.h"

/* What a step's span is called in a trace of the device. */
#define ET_RUN_STEP_SPAN "step"

/* What people read when a run is interrupted. */
#define ET_RUN_RESUMES "The same command resumes from there."
#define ET_RUN_NOT_BEGUN                                                                           \
    "interrupted before the first step: nothing to save. The same command starts again."

/* Values that actions are given. */
typedef struct et_logged {
    et_arena arena;
    const et_value *values; /* at this step; NULL: none */
} et_logged;

/* When an action acts, at the boundaries of loops: one of these is enough. */
enum {
    ET_ACTS_WHEN_DUE = 1, /* it was due since the loop began */
    ET_ACTS_EACH_LOOP = 2,
    ET_ACTS_WHEN_EVALUATED = 4, /* there is an evaluation of this step */
    ET_ACTS_AT_END = 8,         /* the target is reached */
};

typedef struct et_listed_action {
    et_action *action;
    unsigned acts;               /* ET_ACTS_*; 0: never */
    const et_action *asked;      /* whose `due` is meant; NULL: it is due in each loop */
    et_logged *sees;             /* which values it is given */
    bool needs;                  /* it acts only where there are some */
    bool ends_loop;              /* a loop ends where it is due */
    const et_activity *activity; /* in a trace, which outlives the loop: static */
} et_listed_action;

/* How many steps a loop has that begins after `step`. */
typedef struct et_loop_length {
    int64_t (*steps)(void *payload, int64_t step); /* NULL: the constant */
    void *payload;
    int64_t constant; /* 0: no limit */
} et_loop_length;

typedef struct et_goal {
    int64_t target; /* the step at which it ends */
    bool call;      /* a stop ends this call alone; false: the run, for good */
    bool saves;     /* what is not saved by its actions is saved at its end */
} et_goal;

/* Where a loop is: with the trainer's step, the part "progress" of the state. */
typedef struct et_loop_position {
    int64_t began;          /* the step at which the loop of steps began */
    bool at_boundary;       /* that one has ended and the next has not begun */
    int next;               /* of this step's actions; count: all that were to act have acted */
    int stopper;            /* which action has ended the run at this step; count: none */
    int64_t stopped_target; /* of the call that it has ended; -1: it has ended the run */
    bool stop_restored;     /* that call may be the next one: it was of another process */
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
    et_loop_length length;
    et_listed_action *actions; /* [count]: in the order in which they act; owned */
    int count;
    et_goal goal;
    et_loop_position position;
    et_logged evaluation; /* of this step */
    et_logged steps;      /* what the loop that ended here was like, until the next log */
    const et_value *last; /* the last evaluation since the goal was set; NULL: none */
    et_meter meter;
    et_recovery recovery;
    et_error miscounted; /* a trainer did not advance as told: what the count is of is not known,
                            and nothing is trained or saved until a restore. Status 0: none did */
} et_inner_loop;

/* Room for so many actions in a loop that is zero but for trainer, track and length; its run comes
 * when it is open. */
int et_inner_loop_init(et_inner_loop *loop, size_t actions, et_error *error);
void et_inner_loop_release(et_inner_loop *loop);

/* Behind those that are listed. */
void et_inner_loop_list(et_inner_loop *loop, et_listed_action one);

/* What holds where a call begins. */
void et_inner_loop_sane(const et_inner_loop *loop);

/* The newest checkpoint, else initial values; *step -1: there was none. */
int et_inner_loop_start(et_inner_loop *loop, int64_t *step, et_error *error);

/* Trains up to the goal. An error leaves the newest checkpoint as the place to resume from.
 * ET_EINTERRUPTED: asked to stop; saved. */
int et_inner_loop_run(et_inner_loop *loop, const et_goal *goal, et_error *error);

/* How many steps a loop that begins after `step` has; ET_ECONFIG: the function says less than 1. */
int et_inner_loop_steps(const et_inner_loop *loop, int64_t step, int64_t *steps, et_error *error);

/* What a trainer's wrong count failed with, until a restore. */
int et_inner_loop_check_count(const et_inner_loop *loop, et_error *error);

/* "" behind the last. */
const char *et_inner_loop_name(const et_inner_loop *loop, int action);

/* The trainer's view of its last step; all unknown, where it has none. */
et_trainer_view et_inner_loop_view(const et_inner_loop *loop);

void et_meter_start_window(et_meter *meter);
/* What `steps` steps were like, as the trainer says now. */
void et_meter_add(et_meter *meter, const et_trainer_view *view, int64_t steps);

/* progress.c: the place, for the state; of an et_inner_loop. */
extern const et_part_class et_progress_part;

#endif
