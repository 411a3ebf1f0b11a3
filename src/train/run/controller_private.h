/* The controller, for its own files: controller.c (the loop), controller_progress.c (its part of
 * the state), actions.c (its own actions), outer_loop.c (calls). */
#ifndef ETUDE_TRAIN_RUN_CONTROLLER_PRIVATE_H
#define ETUDE_TRAIN_RUN_CONTROLLER_PRIVATE_H

#include <etude/outer_loop.h>

#include "base/arena.h"
#include "base/assert.h"
#include "train/run/controller.h"
#include "train/run/recovery.h"

/* An action of the controller's own: every so many steps, and at the end. */
typedef struct et_own_action {
    et_action action;
    et_controller *controller;
    int64_t every; /* 0: at the end only */
    bool present;  /* false: never acts */
} et_own_action;

enum { ET_OWN_LOG, ET_OWN_VALIDATE, ET_OWN_SAVE, ET_OWN_ACTIONS };

/* When an action of the list acts. */
enum { ET_ACTS_WHEN_DUE, ET_ACTS_AFTER_LOOP, ET_ACTS_AFTER_EVALUATION };

typedef struct et_listed_action {
    et_action *action;
    int acts; /* ET_ACTS_* */
} et_listed_action;

/* What the loop is to do. */
typedef struct et_controller_goal {
    int64_t target;        /* step at which it ends */
    int64_t eval_interval; /* 0: at the end only */
    int64_t eval_steps;    /* of an evaluation; 0 and -1: all there are */
    bool evaluates, saves; /* saves: also where it ends */
} et_controller_goal;

/* Rates and recent values, for people and logs. */
typedef struct et_meter {
    double window_start;                /* monotonic time of the last log */
    int64_t window_steps, window_units; /* since then */
    et_recent rate, loss;               /* units a second; the loss, which is in the state */
    double step_start;                  /* monotonic time of the end of the last step */
    double step_seconds;                /* that it took */
} et_meter;

struct et_controller {
    et_controller_options options;
    double target;               /* what options.target points to */
    et_outer_loop_options outer; /* by_call: a copy */
    bool by_call;                /* options.outer_loop was given */
    et_trainer nobody;           /* counts steps where there is no trainer */
    et_trainer *trainer;
    char *model_dir; /* NULL: there is none */
    et_state *state;
    et_run *run;
    et_track *track; /* what steps and actions are told to; borrowed */
    et_own_action own[ET_OWN_ACTIONS];
    et_listed_action *actions; /* [count]: in the order in which they act */
    int count;
    int next;               /* of this step's; count: all that were due have acted */
    bool finished;          /* nothing was left to do when it was opened */
    int stopper;            /* which action has ended the run at this step; count: none */
    int64_t stopped_target; /* by_call: of the call that it has ended */
    bool stop_restored;     /* and that call may be the next one: it was of another process */
    et_controller_goal goal;
    int64_t loop_began; /* by_call: the step at which the inner loop began */
    bool at_boundary;   /* an inner loop has ended and the next has not begun */
    bool restored;      /* without a trainer: weights are those of a checkpoint */
    et_meter meter;
    et_arena arena;              /* of logs, until the next evaluation */
    const et_value *values;      /* of the evaluation at this step; NULL: none */
    const et_value *last;        /* of the last one of this call; NULL: none */
    bool improving;              /* the last one was better than all before it */
    double evaluation_rate;      /* steps a second of the last one; NaN: all were asked for */
    et_arena loop_arena;         /* of what inner loops give, until the next log */
    const et_value *loop_values; /* of the inner loop that ended here; NULL: none */
    et_recovery recovery;
    et_error miscounted; /* a trainer did not advance as told: what the count is of is not known,
                            and nothing is trained or saved until a restore. Status 0: none did */
};

/* What holds where a call begins. */
static inline void et_controller_sane(const et_controller *c)
{
    et_assert(c->trainer && c->state && c->run && c->track && c->actions);
    et_assert(c->count >= ET_OWN_ACTIONS && c->next >= 0 && c->next <= c->count);
    et_assert(c->stopper >= 0 && c->stopper <= c->count);
    et_assert(c->next == c->count || c->at_boundary);
    et_assert(c->by_call || c->trainer != &c->nobody);
    et_assert(!c->by_call || !c->finished);
    et_assert(c->trainer->step >= 0 && c->loop_began >= 0);
    et_assert(c->meter.window_steps >= 0);
    for (int i = 0; i < ET_OWN_ACTIONS; i++)
        et_assert(c->own[i].controller == c && c->own[i].every >= 0);
    for (int i = 0; i < c->count; i++)
        et_assert(c->actions[i].acts >= ET_ACTS_WHEN_DUE &&
                  c->actions[i].acts <= ET_ACTS_AFTER_EVALUATION);
}

/* controller.c: lets the loop run. */
int et_controller_run(et_controller *controller, const et_controller_goal *goal, et_error *error);
/* What a trainer's wrong count failed with, until a restore. */
int et_controller_check_count(const et_controller *controller, et_error *error);
/* by_call: a loop that begins after step. ET_ECONFIG: the function says less than 1. */
int et_controller_loop_steps(const et_controller *controller, int64_t step, int64_t *steps,
                             et_error *error);
/* The newest checkpoint, else initial values; *step -1: there was none. */
int et_controller_start(et_controller *controller, int64_t *step, et_error *error);

/* Whether as many evaluations as options.patience says were not the best, or the best is as good as
 * options.target. */
bool et_controller_has_enough(const et_controller *controller);

/* controller_progress.c: where in the run a controller is, for the state; of an et_controller. */
extern const et_part_class et_controller_progress;

/* actions.c */
void et_controller_make_own(et_controller *controller);

/* Evaluates limit steps, 0 and -1: all there are; notes the best, logs: values become the
 * controller's. ET_EINTERRUPTED: nothing of it was done. */
int et_controller_evaluate_now(et_controller *controller, int64_t limit, et_error *error);

/* A line for people, by_call only. */
void et_controller_tell(const et_controller *controller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void et_meter_start_window(et_meter *meter);
/* What `steps` steps were like, as the trainer says now. */
void et_meter_add(et_meter *meter, const et_trainer_view *view, int64_t steps);

#endif
