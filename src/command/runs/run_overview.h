/* The first lines about a run: kind, progress, quality, data, and checkpoints. */
#ifndef ETUDE_COMMAND_RUNS_RUN_OVERVIEW_H
#define ETUDE_COMMAND_RUNS_RUN_OVERVIEW_H

#include <etude/command.h>

#include "command/runs/history.h"
#include "formats/safetensors/manifest.h"

typedef struct et_run_overview {
    const et_program *program;
    const et_history *history;
    const et_manifest *checkpoints; /* of the run's folder */
    int64_t parameters;             /* 0: not known */
} et_run_overview;

void et_run_overview_print(const et_run_overview *overview);
void et_run_overview_describe(const et_run_overview *overview, et_value *dict);

#endif
