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

/* Evaluations without a new best, or one that has reached the target, have ended it, now or before.
 */
bool et_controller_stopped_early(const et_controller *controller);

#endif
