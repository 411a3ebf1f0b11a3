/* Measures how much a model's predictions depend on each column, on rows with targets.
 *
 * Permutation importance (Breiman, "Random forests", Machine Learning 45, 2001): the loss of score
 * if the values of a column are permuted among the rows. Partial dependence (Friedman, "Greedy
 * function approximation", Annals of Statistics 29, 2001): the mean prediction over all rows if a
 * column has the same value in every row.
 *
 *     et_explain_open(&e, "runs/a", NULL, &(et_explain_options){ .rows.path = "new.csv" }, &error);
 *     double worse[5];
 *     et_explain_importance(e, field, 5, worse, &error);
 *     et_explain_close(e);
 *
 * Predictions of a batch are computed by several threads, each with its own predictor. Results are
 * equal for any number of threads. Use an object from one thread at a time. */
#ifndef ETUDE_TASKS_TABULAR_PREDICT_EXPLAIN_H
#define ETUDE_TASKS_TABULAR_PREDICT_EXPLAIN_H

#include <etude/predictor.h>

#include "tasks/tabular/predict/prediction_lines.h"

typedef struct et_explain_options {
    et_row_reader_options rows; /* csv is the model's; lenient has no effect */
    et_strings paths;           /* files to read instead of rows.path; borrowed. None: rows.path */
    const uint32_t *only; /* [only_count]: numbers of rows of all files, from 0 and ascending, and
                             no others are used; borrowed. NULL: all rows */
    size_t only_count;
    int64_t most;       /* most rows to use, chosen by the seed; 0: all */
    const char *metric; /* NULL: log_loss for classes, of several targets
                   their mean; rmse for numbers; pinball_loss for quantiles */
    uint64_t seed;
    int threads; /* at least 1 */
} et_explain_options;

typedef struct et_explain et_explain;

typedef struct et_explain_facts {
    int64_t rows, found, unlabeled; /* used rows; rows of the file with a target; rows without a
                                       target */
    const char *metric;
    bool larger_is_better;
    double score; /* of the rows as they are */
} et_explain_facts;

/* model, options of the predictor: as et_predictor_open. ET_EDATA: no row has a target, a row or
 * the score is invalid. ET_ECONFIG: there is no such metric. */
int et_explain_open(et_explain **out, const char *model, const et_predictor_options *predictor,
                    const et_explain_options *options, et_error *error);
void et_explain_close(et_explain *explain); /* NULL allowed */

/* Borrowed until close. */
const et_explain_facts *et_explain_facts_of(const et_explain *explain);
const et_predictor *et_explain_predictor(const et_explain *explain);

/* Whether the model reads a field of its schema. */
bool et_explain_reads(const et_explain *explain, int field);

/* Permutation importance of a field. worse [repeats]: how much worse the score is with each
 * permutation of the field's values. */
int et_explain_importance(et_explain *explain, int field, int repeats, double *worse,
                          et_error *error);

/* Partial dependence on one column. Points are values of the rows. For numbers: all distinct
 * values, or quantiles if there are more. For texts: the most frequent ones. Among texts with equal
 * counts, texts at equal distances in the list. */
typedef struct et_explain_partial {
    int count, width;
    bool numbers;        /* the column has numbers, which are in number; else texts */
    const et_cell *text; /* [count], as the rows have them; of the explain */
    double *number;      /* [count]; owned */
    double *mean;        /* [count, width]: of scores or values; owned */
    et_cell *cells;      /* owned: text */
} et_explain_partial;

/* At most `most` points. ET_EUSAGE: the field has several values per row, or no value in any row.
 * Release even after a failure. */
int et_explain_partial_of(et_explain *explain, int field, int most, et_explain_partial *partial,
                          et_error *error);
void et_explain_partial_release(et_explain_partial *partial);

#endif
