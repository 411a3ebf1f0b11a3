/* The parts of the row of tables, et_tabular_kind (<etude/tabular.h>). */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_KIND_H
#define ETUDE_TASKS_TABULAR_TABULAR_KIND_H

#include <etude/tabular.h>

#include <etude/command.h>

/* The experiment that trains several others. */
#define ET_TABULAR_AUTO "tabular/auto"

/* Its experiments, ended by a row without a name. */
extern const et_experiment_row et_tabular_experiments[];

/* For code that reads settings and does not train. */
extern const et_program et_tabular_program;

#endif
