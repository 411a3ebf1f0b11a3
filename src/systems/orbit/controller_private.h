/* Controllers, for their own files: controller.c (options, own actions, opening), outer_loop.c
 * (calls). */
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

/* Whether all evaluations of a training gave the same numbers. */
typedef struct et_unchanged {
    uint64_t first;          /* checksum of the numbers of the first one */
    int64_t count, from, to; /* evaluations; steps of the first and the last one */
    bool changed;
} et_unchanged;

struct et_controller {
    et_controller_options options;
    double target;               /* options.target points here */
    et_outer_loop_options outer; /* a copy; zero without options.outer_loop */
    et_trainer nobody;           /* counts steps if there is no trainer */
    char *model_dir;             /* NULL: none */
    et_state *state;
    et_run *run;
    et_inner_loop loop;
    et_own_action own[ET_OWN_ACTIONS];
    int own_row[ET_OWN_ACTIONS]; /* index in loop.actions */
    int64_t eval_steps;          /* of an evaluation that is due; 0 and -1: all data */
    double evaluation_rate;      /* steps per second of the last one; NaN: it used all data */
    double evaluation_seconds;   /* of the last evaluation; 0: none yet */
    int64_t evaluated;           /* step of the last evaluation; -1: none yet */
    bool improving;              /* the last evaluation was better than all before */
    et_unchanged unchanged;
    bool finished; /* when it was opened, the run had nothing left to do */
    bool restored; /* without a trainer: weights are from a checkpoint */
};

static inline bool et_controller_is_called(const et_controller *c)
{
    return c->options.outer_loop != NULL;
}

static inline bool et_controller_trains(const et_controller *c)
{
    return c->loop.trainer != &c->nobody;
}

/* Asserts the relations of the members at the begin of a call. */
static inline void et_controller_sane(const et_controller *c)
{
    et_inner_loop_sane(&c->loop);
    et_assert(c->state && c->run == c->loop.run);
    et_assert(et_controller_is_called(c) ? !c->finished : et_controller_trains(c));
    for (int i = 0; i < ET_OWN_ACTIONS; i++)
        et_assert(c->own[i].controller == c && c->own[i].every >= 0);
}

/* Evaluates limit steps (0 and -1: all data), notes the best, logs, and puts values into the loop.
 * ET_EINTERRUPTED: nothing was done. */
int et_controller_evaluate_now(et_controller *controller, int64_t limit, et_error *error);

/* A line for people; without outer_loop: nothing. */
void et_controller_tell(const et_controller *controller, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
