/* Scores of complete predictions, for classes and for numbers. Some of them are means over rows,
 * others need all rows at once (AUC). Each equals scikit-learn's score of the same predictions.
 *
 *     et_class_predictions p = { .count = rows, .classes = 2, .probability = scores,
 *                                .target = labels };
 *     et_class_scores s;
 *     if (et_class_scores_compute(&s, NULL, &p, &error)) ...
 *     printf("%.4f\n", s.auc);
 *
 *     et_value_predictions v = { .count = rows, .value = values, .target = targets };
 *     et_value_scores numbers;
 *     if (et_value_scores_compute(&numbers, &v, &error)) ...
 *     printf("%.4f\n", numbers.rmse);
 *
 * In the formulas below, w is a row's weight, t its class, p its probabilities, and y its
 * prediction: the first class with the largest probability, or by threshold or costs. A name such
 * as roc_auc_score is scikit-learn's function, called with sample_weight. A score without a value
 * (AUC with one class) is NaN. Arrays are borrowed during the call. Any number of threads may call.
 */
#ifndef ETUDE_CLASS_SCORES_H
#define ETUDE_CLASS_SCORES_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/value.h>

/* ---- classes ---- */

typedef struct et_class_predictions {
    int64_t count, classes;   /* rows; at least 2 classes */
    const float *probability; /* [count, classes], each in [0, 1] */
    const int32_t *target;    /* [count], below classes; negative: the row is ignored */
    const double *weight;     /* [count], finite and not negative; NULL: 1 each */
    int64_t bins;             /* of calibration_error; 0: 15 */
    bool first;               /* with two classes: the positive class is class 0, not class 1 */
    double threshold;    /* with two classes: y is the positive class if its probability is at least
                            this, in (0, 1]; 0: y is the class with the larger one */
    const double *costs; /* [classes, classes], finite and not negative: of prediction y (column)
                            for class t (row). y is the first class with the least expected cost;
                            NULL: y is as above */
} et_class_predictions;

/* With two classes, precision, recall and f1 are those of class 1 (class 0 if `first`). With more,
 * they are means over the classes that are t or y of a row (macro). A score whose divisor is 0 is
 * 0. */
typedef struct et_class_scores {
    double accuracy;          /* sum w [y = t] / sum w */
    double balanced_accuracy; /* mean of recall over the classes that are t of a row */
    double precision;         /* tp / (tp + fp) */
    double recall;            /* tp / (tp + fn) */
    double f1;                /* 2 tp / (2 tp + fp + fn) */
    double auc; /* fraction of pairs (class 1, class 0) that p_1 ranks correctly; a tie counts 1/2.
                   With more classes: the mean over one class against the rest, for classes that
                   have both: roc_auc_score(multi_class="ovr") */
    double log_loss; /* mean of -ln p_t, p_t clipped to [2^-52, 1 - 2^-52] */
    double brier;    /* two classes: mean of (p_1 - [t = 1])^2; more: mean of the sum of these
                        squares over classes: brier_score_loss */
    double calibration_error; /* sum over bins of |mean of [m = t] - mean of p_m| times the bin's
                                 fraction of the weight (expected calibration error). Two classes:
                                 m is the positive class. More: m is the class with the largest
                                 probability (Guo et al. 2017). Bin b of B has rows with
                                 b < B p_m <= b + 1 */
} et_class_scores;

/* confusion: [classes, classes], row t, column y: the weight of rows of class t with prediction y;
 * NULL: not wanted. ET_ECONFIG: an option. ET_EDATA: a probability, target or weight is invalid
 * (the error names the row), or all rows are ignored. */
ET_API int et_class_scores_compute(et_class_scores *scores, double *confusion,
                                   const et_class_predictions *predictions, et_error *error);

/* Names of the scores, ended by NULL. */
ET_DATA const char *const et_class_score_names[];

/* ---- numbers ---- */

typedef struct et_value_predictions {
    int64_t count, targets; /* count: rows; targets: numbers of each row, 0: 1 */
    const float *value;     /* [count, targets] */
    const float *target;    /* [count, targets]; a row with a NaN is ignored */
    const double *weight;   /* as above */
    /* The same two arrays as doubles, for numbers that float32 cannot distinguish. Give both
     * instead of value and target. */
    const double *wide_value, *wide_target;
} et_value_predictions;

/* d = value - target. With several targets: the means over targets. */
typedef struct et_value_scores {
    double rmse; /* sqrt(sum w d^2 / sum w): root_mean_squared_error */
    double mae;  /* sum w |d| / sum w */
    double r2;   /* 1 - sum w d^2 / sum w (t - mean t)^2: r2_score. If all targets are equal: 1 if
                    every d is 0, else 0 */
    double mse;
} et_value_scores;

/* ET_EDATA: a value, target or weight is invalid (the error names the row), or all rows are
 * ignored. */
ET_API int et_value_scores_compute(et_value_scores *scores, const et_value_predictions *predictions,
                                   et_error *error);
ET_DATA const char *const et_value_score_names[];

#endif
