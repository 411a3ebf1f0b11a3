/* Controllers, for the command, beyond <etude/controller.h>. */
#ifndef ETUDE_SYSTEMS_ORBIT_CONTROLLER_H
#define ETUDE_SYSTEMS_ORBIT_CONTROLLER_H

#include <etude/controller.h>

#include "train/run/inner_loop.h"

/* Facts about a run. */
typedef struct et_controller_facts {
    int64_t best_step;         /* of the best evaluation so far; -1: there is none */
    double best;               /* its value */
    bool improving;            /* the last evaluation of this process was better than all before it
                                  by its metric, or equal with a lower loss (run.best_tie). false
                                  also for the first evaluation */
    bool stopped_early;        /* evaluations without a new best, or one that reached the target,
                                  have ended the run, now or before */
    double evaluation_seconds; /* duration of this process's last evaluation; 0: none yet */
    int64_t length;            /* the steps of the run: train_steps, or the value of
                                  et_controller_set_length. A restart with the same train_steps
                                  keeps this value */
    const et_value *steps;     /* for actions: values of the loop of steps that ended at this step,
                                  which another process may have logged; NULL: none */
} et_controller_facts;

et_controller_facts et_controller_facts_of(const et_controller *controller);

/* Whether the controller had nothing to do when it was opened, because the run had already reached
 * train_steps. Then nothing is written. Always false if the program calls the outer loop. */
bool et_controller_finished(const et_controller *controller);

/* Sets the steps of the run; the caller adapts schedules. */
void et_controller_set_length(et_controller *controller, int64_t steps);

/* After an interruption: evaluates the saved step, unless it was evaluated already, and saves the
 * step again with the result. */
int et_controller_evaluate_last(et_controller *controller, et_error *error);

#endif
