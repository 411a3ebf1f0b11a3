/* Controllers, for the command, beyond <etude/controller.h>. */
#ifndef ETUDE_SYSTEMS_ORBIT_CONTROLLER_H
#define ETUDE_SYSTEMS_ORBIT_CONTROLLER_H

#include <etude/controller.h>

#include "train/run/inner_loop.h"

/* The best evaluation so far: its step, -1 if there is none, and its value. */
int64_t et_controller_best(const et_controller *controller, double *value);

/* Whether the last evaluation of this process was better than all before it, of which there was at
 * least one: by its metric, or as good and with a lower loss (run.best_tie). */
bool et_controller_improving(const et_controller *controller);

/* At train_steps or past it when it was opened: nothing is left to do, and nothing is written. Of
 * one that is driven call by call: never. */
bool et_controller_finished(const et_controller *controller);

/* The steps of the run: train_steps, or what et_controller_set_length made of it, now or before a
 * restart with the same train_steps. The caller makes schedules follow. */
int64_t et_controller_length(const et_controller *controller);
void et_controller_set_length(et_controller *controller, int64_t steps);

/* Seconds of the last evaluation of this process; 0: there was none. */
double et_controller_evaluation_seconds(const et_controller *controller);

/* After an interruption: evaluates the step that was saved, if it has not been evaluated, and saves
 * it again with the result. */
int et_controller_evaluate_last(et_controller *controller, et_error *error);

/* Evaluations without a new best, or one that has reached the target, have ended it, now or before.
 */
bool et_controller_stopped_early(const et_controller *controller);

#endif
