/* Permutation importance of the columns that a model reads, for explain and report: measured,
 * summarized, the largest first.
 *
 *     et_importances all;
 *     if (et_importances_measure(&all, explain, 5, 0, &error)) ...
 *     et_importances_head(&grid);
 *     for (size_t i = 0; i < all.count; i++)
 *         et_importances_row(&all.items[i], &grid);
 *     et_importances_release(&all); */
#ifndef ETUDE_COMMAND_TABULAR_IMPORTANCE_H
#define ETUDE_COMMAND_TABULAR_IMPORTANCE_H

#include "formats/grid.h"
#include "tasks/tabular/predict/explain.h"

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

/* most: columns to measure, the schema's first; 0: all. Release after a failure, too. */
int et_importances_measure(et_importances *out, et_explain *explain, int repeats, size_t most,
                           et_error *error);
void et_importances_release(et_importances *all);

/* Three cells of a table: column, importance, spread. */
void et_importances_head(et_grid *grid);
void et_importances_row(const et_importance *one, et_grid *grid);

#endif
