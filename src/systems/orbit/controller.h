/* Controllers, for the command, beyond <etude/controller.h>. */
#ifndef ETUDE_SYSTEMS_ORBIT_CONTROLLER_H
#define ETUDE_SYSTEMS_ORBIT_CONTROLLER_H

#include <etude/controller.h>

#include "train/run/inner_loop.h"

/* Facts about a run. */
typedef struct et_controller_facts {
    int64_t best_step;         /* of the best evaluation so far; -1: there is none */
    double best;               /* its value */
    bool improving;            /* the last evaluation of this process was better than all before it,
                                  and there was one: by its metric, or equal and with a lower loss
                                  (run.best_tie) */
    bool stopped_early;        /* evaluations without a new best, or one that reached the target,
                                  have ended the run, now or before */
    double evaluation_seconds; /* of the last evaluation of this process; 0: there was none */
    int64_t length;            /* the steps of the run: train_steps, or the value of
                                  et_controller_set_length, now or before a restart with the same
                                  train_steps */
} et_controller_facts;

et_controller_facts et_controller_facts_of(const et_controller *controller);

/* Whether the controller was at train_steps or past it when it was opened: nothing is left to do,
 * and nothing is written. Never if the program drives it call by call. */
bool et_controller_finished(const et_controller *controller);

/* Sets the steps of the run; the caller adapts schedules. */
void et_controller_set_length(et_controller *controller, int64_t steps);

/* After an interruption: evaluates the step that was saved, if it has not been evaluated, and saves
 * it again with the result. */
int et_controller_evaluate_last(et_controller *controller, et_error *error);

#endif
