/* The target of a table. The unit of a number in a model (et_target_unit) comes from the metadata,
 * and a checkpoint's identity stores it for users of the weights. Checkpoints without a unit have
 * targets as in the files. For numbers, targets of two classes each, and quantiles, validation
 * scores are means over targets; a separate group has the scores of each target or level. */
#ifndef ETUDE_TASKS_TABULAR_TARGET_TARGET_H
#define ETUDE_TASKS_TABULAR_TARGET_TARGET_H

#include <etude/class_scores.h>

#include "tasks/tabular/tabular_task.h"

/* ---- the target of a task ---- */

/* ET_ECONFIG: the features have no target, several features of type target, or no feature for the
 * weight. Also if the settings have a loss for another kind of target. */
int et_tabular_target_of(et_tabular_target *target, const et_tabular_options *options,
                         const et_encoder *encoder, et_error *error);

/* The unit of an output column: the unit of its target. */
et_target_unit et_tabular_unit(const et_tabular_task *task, int64_t column);

/* The identity's key; a list of an offset and a scale for each target. */
#define ET_TARGET_UNIT "target_unit"

/* Reads the units of `targets` targets. *found false: identity (NULL allowed) has no units, so each
 * unit is 0 and 1. ET_EFORMAT: the numbers are malformed, or their count is wrong. */
int et_target_unit_read(et_target_unit *units, int64_t targets, bool *found,
                        const et_value *identity, et_error *error);

/* ---- scores ---- */

/* The positive one of two classes, for precision, recall and f1: 0 or 1. label: [classes]. */
int et_tabular_positive(const char *const *label, int classes);
/* Scored rows of classes; arrays are borrowed from rows. */
et_class_predictions et_tabular_predictions_of(const et_tabular_task *task,
                                               const et_validation_rows *rows);

typedef struct et_scored_targets {
    const char *const *column; /* [targets]: their names */
    const double *level;       /* [width], of quantiles */
    int64_t bins;              /* of calibration; 0: the default of et_class_predictions */
    int64_t first;             /* as in et_class_predictions, of classes, as the next */
    double threshold;
    const double *costs;
    bool plain; /* only scores of all targets together. Scores without a meaning, such as r2 of
                   equal targets, stay numbers instead of NaN */
} et_scored_targets;

/* Borrowed from the task. */
et_scored_targets et_scored_targets_of(const et_tabular_task *task);

/* Functions and constants of a kind of target. */
typedef struct et_target_kind {
    const char *output;           /* the name of the output: ET_TABULAR_SCORES, ... */
    const char *mean;             /* "mean score": the title of a chart of means */
    bool labelled;                /* the output is probabilities, and each row has a label */
    bool single;                  /* a row has one target, even if the output has several numbers */
    const char *noun;             /* "has classes", as in "the target x has classes" */
    const char *losses;           /* choices of task.loss, for a message */
    const char *const *scores[3]; /* lists of names of scores; each list ends with NULL */
    const char *shown[3];         /* scores that a series of trainings shows, ended by NULL */
    const char *main_metrics[3];  /* of the task's class, ended by NULL, as the next */
    const char *best_metric;
    /* Scores the rows of a validation, into logs. ET_EDATA: a prediction or weight is invalid. */
    int (*score)(const et_scored_targets *of, const et_validation_rows *rows, et_value *logs,
                 et_error *error);
} et_target_kind;

/* Labels are several targets of two classes each: their scores are the means of the scores of
 * classes. Values are numbers. Quantiles have their own scores and, if the median is a level, its
 * scores of values. */
extern const et_target_kind et_target_classes, et_target_labels, et_target_values,
    et_target_quantiles;

/* The kind of a target of an encoder. quantiles: levels of numbers are predicted. */
const et_target_kind *et_target_kind_of(const et_encoded_field *field, bool quantiles);

/* Whether training weighs some classes more than others, so that it distorts probabilities. */
bool et_tabular_weighs_classes(const et_tabular_task *task);

/* ---- verdicts ---- */

/* judge: appends lines about scored rows. judge_best: after each validation.
 * verdict_of: method verdict. */
int et_tabular_judge(et_strbuf *out, const et_tabular_task *task, const et_validation_rows *rows,
                     et_error *error);
int et_tabular_judge_best(et_tabular_task *task, const et_value *logs, et_error *error);
const char *et_tabular_verdict_of(et_task *self, bool best);

/* The pinball loss of a level, of a target above (negative: below) the quantile. */
static inline double et_pinball(double level, double above)
{
    return above > 0 ? level * above : (level - 1) * above;
}

#endif
