/* What the files of a controller share: controller.c (the loop), actions.c (its own actions). */
#ifndef ETUDE_TRAIN_CONTROLLER_PRIVATE_H
#define ETUDE_TRAIN_CONTROLLER_PRIVATE_H

#include "base/arena.h"
#include "train/controller.h"
#include "train/recovery.h"

/* An action of the controller's own: every so many steps, and at the end. */
typedef struct et_own_action {
    et_action action;
    et_controller *controller;
    int64_t every; /* 0: at the end only */
    bool present;  /* false: never acts */
} et_own_action;

enum { ET_OWN_LOG, ET_OWN_VALIDATE, ET_OWN_SAVE, ET_OWN_ACTIONS };

/* Rates and recent values, for people and logs. */
typedef struct et_meter {
    double window_start;                /* monotonic time of the last log */
    int64_t window_steps, window_units; /* since then */
    et_recent rate, loss;               /* units a second; the loss, which is in the state */
    double step_start;                  /* monotonic time of the end of the last step */
} et_meter;

struct et_controller {
    et_controller_options options;
    et_state *state;
    et_run *run;
    et_own_action own[ET_OWN_ACTIONS];
    et_action **actions; /* [count]: in the order in which they act */
    int count;
    int next;      /* of this step's; count: all that were due have acted */
    bool finished; /* nothing was left to do when it was opened */
    int stopper;   /* which action has ended the run at this step; count: none */
    et_meter meter;
    et_arena arena;         /* of logs, until the next evaluation */
    const et_value *values; /* of the evaluation at this step; NULL: none */
    et_recovery recovery;
};

/* actions.c */
void et_controller_make_own(et_controller *controller);

void et_meter_start_window(et_meter *meter);
void et_meter_add(et_meter *meter, const et_trainer_view *view);

#endif
