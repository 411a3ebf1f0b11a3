/* Several models of one table as one model (task.ensemble): what trains them and chooses their
 * weights. */
#ifndef ETUDE_TASKS_TABULAR_ENSEMBLE_H
#define ETUDE_TASKS_TABULAR_ENSEMBLE_H

#include "systems/modelgarden/series.h"

/* For the kind's row. */
extern const et_series et_tabular_series;

#endif
