/* What the files of a controller share: controller.c (options, opening), actions.c (its own
 * actions), outer_loop.c (calls). */
#ifndef ETUDE_SYSTEMS_ORBIT_CONTROLLER_PRIVATE_H
#define ETUDE_SYSTEMS_ORBIT_CONTROLLER_PRIVATE_H

#include <etude/outer_loop.h>

#include "base/arena.h"
#include "base/assert.h"
#include "systems/orbit/controller.h"

/* An action of the controller's own. */
typedef struct et_own_action {
    et_action action;
    et_controller *controller;
    int64_t every; /* steps; 0: never due */
} et_own_action;

enum { ET_OWN_LOG, ET_OWN_VALIDATE, ET_OWN_SAVE, ET_OWN_ACTIONS };

struct et_controller {
    et_controller_options options;
    double target;               /* what options.target points to */
    et_outer_loop_options outer; /* a copy; zero without options.outer_loop */
    et_trainer nobody;           /* counts steps where there is no trainer */
    char *model_dir;             /* NULL: there is none */
    et_state *state;
    et_run *run;
    et_inner_loop loop;
    et_own_action own[ET_OWN_ACTIONS];
    int own_row[ET_OWN_ACTIONS]; /* of loop.actions */
    int64_t eval_steps;          /* of an evaluation that is due; 0 and -1: all there are */
    double evaluation_rate;      /* steps a second of the last one; NaN: all were asked for */
    bool improving;              /* the last one was better than all before it */
    bool finished;               /* nothing was left to do when it was opened */
    bool restored;               /* without a trainer: weights are those of a checkpoint */
};

static inline bool et_controller_is_called(const et_controller *c)
{
    return c->options.outer_loop != NULL;
}

static inline bool et_controller_trains(const et_controller *c)
{
    return c->loop.trainer != &c->nobody;
}

/* What holds where a call begins. */
static inline void et_controller_sane(const et_controller *c)
{
    et_inner_loop_sane(&c->loop);
    et_assert(c->state && c->run == c->loop.run);
    et_assert(et_controller_is_called(c) ? !c->finished : et_controller_trains(c));
    for (int i = 0; i < ET_OWN_ACTIONS; i++)
        et_assert(c->own[i].controller == c && c->own[i].every >= 0);
}

/* Whether as many evaluations as options.patience says were not the best, or the best is as good as
 * options.target. */
bool et_controller_has_enough(const et_controller *controller);

/* actions.c */
void et_controller_make_own(et_controller *controller);

/* Evaluates limit steps, 0 and -1: all there are; notes the best, logs: values become the loop's.
 * ET_EINTERRUPTED: nothing of it was done. */
int et_controller_evaluate_now(et_controller *controller, int64_t limit, et_error *error);

/* A line for people, with an outer_loop only. */
void et_controller_tell(const et_controller *controller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
