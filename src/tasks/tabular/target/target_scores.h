/* Scores of validation for numbers, for targets of two classes each, and for quantiles: their means
 * over targets, and in a group of its own those of each target or level. */
#ifndef ETUDE_TASKS_TABULAR_TARGETS_TARGET_SCORES_H
#define ETUDE_TASKS_TABULAR_TARGETS_TARGET_SCORES_H

#include "tasks/tabular/tabular_task_private.h"

/* Names beside those of <etude/class_scores.h>, ended by NULL. Of labels: micro_f1, the F1 of all
 * labels together; exact_match, the share of rows with all labels right. Of quantiles: the pinball
 * loss, its mean over levels, and d2_pinball (ET_TABULAR_D2); of two levels or more also the share
 * of targets between the outermost two, ends included, and the mean distance of these. */
extern const char *const et_tabular_label_score_names[];
extern const char *const et_tabular_quantile_score_names[];

typedef struct et_scored_targets {
    const char *const *column; /* [targets]: their names */
    const double *level;       /* [width], of quantiles */
    int64_t bins; /* of calibration, of labels; 0: as many as et_class_predictions has */
} et_scored_targets;

/* Borrowed from the task. */
et_scored_targets et_scored_targets_of(const et_tabular_task *task);

/* Scores of several targets. numbers: the scores of values. labels: the means of the scores of
 * classes. quantiles: their own scores and, if the median is a level, its scores of values.
 * ET_EDATA: a prediction or weight is invalid. */
int et_tabular_score_numbers(const et_scored_targets *of, const et_tabular_seen *seen,
                             et_value *logs, et_error *error);
int et_tabular_score_labels(const et_scored_targets *of, const et_tabular_seen *seen,
                            et_value *logs, et_error *error);
int et_tabular_score_quantiles(const et_scored_targets *of, const et_tabular_seen *seen,
                               et_value *logs, et_error *error);

#endif
