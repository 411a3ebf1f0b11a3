/* The scored rows of an evaluation of a table, which `evaluate` and `report` show for classes, and
 * `report` also for numbers.
 *
 *     static int opened(void *scores, et_evaluation *evaluation, et_error *error)
 *     {
 *         et_table_scores_attach(scores, evaluation, 0, NULL);
 *         return 0;
 *     }
 *
 * Then each validation adds a member to set, or with keeps_numbers one to numbers for each
 * target. */
#ifndef ETUDE_COMMAND_TABULAR_TABLE_SCORES_H
#define ETUDE_COMMAND_TABULAR_TABLE_SCORES_H

#include "base/arena.h"
#include "command/runs/chart.h"
#include "command/training/evaluate.h"
#include "formats/grid.h"
#include "metric/class_scores.h"
#include "tasks/tabular/tabular_task.h"

/* Tables of scored rows of classes: confusion matrix, a line for each class. */
typedef struct et_class_tables {
    const char *name;          /* of the set; NULL: no name; borrowed */
    const char *const *labels; /* [classes], borrowed */
    et_class_predictions of;   /* its arrays are copies in the arena of the scores */
    double *confusion;         /* [classes, classes], there too */
    et_class_line *lines;      /* [classes], there too */
    double cost;               /* mean cost of a row; NaN: no costs are given */
} et_class_tables;

/* For people, as TEXT or HTML; large matrices and many classes are shortened, and a line says so.
 */
int et_class_tables_append(const et_class_tables *tables, et_grid_form form, et_strbuf *out,
                           et_error *error);

typedef struct et_class_chart {
    et_chart chart;
    et_chart_curve *curves; /* owned, with points */
    et_arena arena;         /* of names */
    size_t capacity;
} et_class_chart;

/* The curves of sets [count]: ROC, or else calibration. ET_EDATA: no curve. Release even after a
 * failure. */
int et_class_chart_open(et_class_chart *chart, bool roc, const et_class_tables *sets, size_t count,
                        et_error *error);
void et_class_chart_release(et_class_chart *chart);

/* Rows of a target that is a number. If there are more than ET_NUMBER_ROWS_MAX, evenly spread
 * ones. */
typedef struct et_number_rows {
    const char *set;           /* NULL: no name; borrowed, as target */
    const char *target;        /* its column */
    bool median;               /* predicted are medians, of quantiles */
    double *truth, *predicted; /* [count], in the arena; in the unit of the column */
    size_t count, all;         /* all: rows that were scored */
} et_number_rows;

#define ET_NUMBER_ROWS_MAX 2000

typedef struct et_table_scores {
    bool keeps_numbers; /* set by the caller before attach */
    et_arena arena;
    et_number_rows *numbers; /* [number_count], owned */
    size_t number_count, number_capacity;
    et_class_tables set[ET_TABULAR_SETS_MAX]; /* [sets] */
    size_t sets;                              /* 0: no scores yet, or the target is numbers */
} et_table_scores;

/* threshold, costs: of et_class_predictions; costs are borrowed. Does nothing for a target of
 * numbers. */
void et_table_scores_attach(et_table_scores *scores, const et_evaluation *evaluation,
                            double threshold, const double *costs);
/* et_evaluation_run; of a run of folds without files to evaluate: the scores of its rows, each by
 * the models that did not learn it. */
int et_table_scores_run(et_evaluation *evaluation, et_value *logs, et_error *error);
void et_table_scores_release(et_table_scores *scores);

#endif
