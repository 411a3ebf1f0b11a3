/* Tables and charts of scored rows of classes: confusion matrix, a line for each class, ROC and
 * calibration curves.
 *
 *     et_class_tables_open(&tables, &predictions, labels, NULL, &error);
 *     et_class_tables_append(&tables, ET_GRID_TEXT, &out, &error);
 *     et_class_tables_add(&tables, results, &error);        in a dict, for --json
 *     et_class_tables_release(&tables);
 *
 * A chart has the curves of several sets: et_class_chart_open, .chart, et_class_chart_release. */
#ifndef ETUDE_COMMAND_TABULAR_CLASS_TABLES_H
#define ETUDE_COMMAND_TABULAR_CLASS_TABLES_H

#include "command/runs/chart.h"
#include "formats/grid.h"
#include "metric/class_report.h"

typedef struct et_class_tables {
    const char *name;          /* of the set; NULL: it has none; borrowed */
    const char *const *labels; /* [classes], borrowed */
    et_class_predictions of;   /* its arrays are copies; owned */
    double *confusion;         /* [classes, classes]; owned */
    et_class_line *lines;      /* [classes]; owned */
    double cost;               /* mean cost of a row; NaN: no costs are given */
} et_class_tables;

/* predictions are copied but for costs, which are borrowed. ET_EDATA: as
 * et_class_scores_compute. Release after a failure, too. */
int et_class_tables_open(et_class_tables *tables, const et_class_predictions *predictions,
                         const char *const *labels, const char *name, et_error *error);
void et_class_tables_release(et_class_tables *tables);

/* For people, as TEXT or HTML; large matrices and many classes are shortened, and a line says so.
 */
int et_class_tables_append(const et_class_tables *tables, et_grid_form form, et_strbuf *out,
                           et_error *error);
/* "labels", "confusion" (lists by label), "classes" (by label), "calibration", "cost". */
int et_class_tables_add(const et_class_tables *tables, et_value *to, et_error *error);

typedef struct et_class_chart {
    et_chart chart;
    et_chart_curve *curves; /* owned, with names and points */
    size_t capacity;
} et_class_chart;

/* The curves of sets [count]: ROC, or else calibration. ET_EDATA: there is no curve. Release after
 * a failure, too. */
int et_class_chart_open(et_class_chart *chart, bool roc, const et_class_tables *sets, size_t count,
                        et_error *error);
void et_class_chart_release(et_class_chart *chart);

#endif
