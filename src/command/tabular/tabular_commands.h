/* The commands for tables and their service, for the row of their kind of task. Also the
 * permutation importance of input columns, which two commands share:
 *
 *     et_importances all;
 *     if (et_importances_measure(&all, explain, 5, 0, &error)) ...
 *     et_importances_head(&grid);
 *     for (size_t i = 0; i < all.count; i++)
 *         et_importances_row(&all.items[i], &grid);
 *     et_importances_release(&all); */
#ifndef ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H
#define ETUDE_COMMAND_TABULAR_TABULAR_COMMANDS_H

#include <etude/service.h>

#include "command/command.h"
#include "data/table/analysis/column_use.h"
#include "formats/grid.h"
#include "tasks/tabular/predict/explain.h"

ET_COMMAND_NAMED(data);
ET_COMMAND_NAMED(explain);
ET_COMMAND_NAMED(evaluate_table);
ET_COMMAND_NAMED(predict);
ET_COMMAND_NAMED(report);
ET_COMMAND_NAMED(scaffold);

/* tfx train, tfx predict, tfx scaffold: TensorFX's flags and defaults. */
extern const et_command et_tfx_commands[];
ET_COMMAND_NAMED(tfx_predict);

struct et_tabular_task;

/* How the features of a task use the columns of its table, for the start of a run and its report.
 * uses: [fields of the schema]. Returns whether the features ignore a column that looks like an
 * ID. */
bool et_tabular_find_uses(const struct et_tabular_task *task, et_column_use *uses);

/* ---- importance ---- */

/* Measured, summarized, the largest first. */
typedef struct et_importance {
    const char *column; /* of the model's schema */
    double mean, deviation;
    double *worse; /* [repeats], as et_explain_importance gives them */
} et_importance;

typedef struct et_importances {
    et_importance *items; /* [count]; owned */
    double *worse;        /* of all items; owned */
    size_t count, left;   /* left: columns beyond `most` that were not measured */
} et_importances;

/* most: number of columns to measure, from the schema's first; 0: all. Release even after a
 * failure. */
int et_importances_measure(et_importances *out, et_explain *explain, int repeats, size_t most,
                           et_error *error);
void et_importances_release(et_importances *all);

/* Three cells of a table: column, importance, spread. */
void et_importances_head(et_grid *grid);
void et_importances_row(const et_importance *one, et_grid *grid);

/* ---- service ---- */

/* The service of predictions for `etude serve`, with the texts of `etude predict`:
 *
 *   POST /predict {"rows": [{"age": 39, "job": "clerk"}, ...]}
 *   {"predictions": [{"label": "no", "scores": {"no": 0.98123, "yes": 0.01877}}, ...]}
 *
 *     static const et_task_kind rows = { .name = "rows", .service = &et_tabular_service };
 *
 * Rows of a request may also be CSV (text/csv), with or without a header. An answer may be CSV or
 * JSON lines (Accept: text/csv, application/x-ndjson). A missing value has no key, or null; the
 * target may be given. With "unknown": true in the request, the answer also lists columns with
 * values that the model has never seen (data/table/features/unknown_values.h): "unknown":
 * [{"column": "job", "values": 2, "row": 1, "value": "clrk"}]. "row" is the first such row, "value"
 * its value, null if missing. In JSON lines, the last line has this list. */
extern const et_service_class et_tabular_service;

/* ---- scaffold ---- */

/* The files that `scaffold` writes, from command/tabular/scaffold/; @NAME@ in them is the project's
 * name. CMake makes the array from the files. */
typedef struct et_scaffold_file {
    const char *model; /* which project has it, "custom"; NULL: all */
    const char *name;  /* name below the project's directory */
    const char *text;  /* terminated */
} et_scaffold_file;

/* Largest number of files of a project. */
#define ET_SCAFFOLD_FILES_MAX 8

extern const et_scaffold_file et_scaffold_files[]; /* ended by a row without a name */

#endif
