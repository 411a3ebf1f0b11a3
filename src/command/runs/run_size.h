/* The size of a run's model, without reading its weights. */
#ifndef ETUDE_COMMAND_RUNS_RUN_SIZE_H
#define ETUDE_COMMAND_RUNS_RUN_SIZE_H

#include "command/runs/history.h"

/* Numbers in the model: as its last session has it, or else the head of the newest checkpoint that
 * is there; 0: not known. */
int64_t et_run_parameters(const et_history *history);

#endif
