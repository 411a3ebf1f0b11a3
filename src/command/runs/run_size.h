/* The size of a run's model, without reading its weights. */
#ifndef ETUDE_COMMAND_RUNS_RUN_SIZE_H
#define ETUDE_COMMAND_RUNS_RUN_SIZE_H

#include "command/runs/history.h"

/* Parameters of the model, from the last session, or else from the head of the newest existing
 * checkpoint; 0: unknown. */
int64_t et_run_parameters(const et_history *history);

#endif
