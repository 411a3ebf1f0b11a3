/* How the features of a task use the columns of its table, for the start of a run and its report.
 */
#ifndef ETUDE_COMMAND_TABULAR_COLUMN_USES_H
#define ETUDE_COMMAND_TABULAR_COLUMN_USES_H

#include "data/table/analysis/column_use.h"

struct et_tabular_task;

/* uses: [fields of the schema]. Returns whether the features ignore a column that looks like an
 * ID. */
bool et_tabular_find_uses(const struct et_tabular_task *task, et_column_use *uses);

#endif
