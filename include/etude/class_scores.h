/* Scores of predictions as a whole: what is not a mean of anything that rows have, or wants all of
 * them at once, beside what is. Each equals scikit-learn's on the same predictions.
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
 * Below w is a row's weight, t its class, p its probabilities, y the first class whose probability
 * is the largest; "scikit-learn" is its name of the function with sample_weight. A score that has
 * no value (the AUC where there is one class only) is NaN. All arrays are borrowed until the call
 * returns; any number of threads may call. */
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
    const int32_t *target;    /* [count], below classes; negative: the row does not count */
    const double *weight;     /* [count], finite and not negative; NULL: 1 each */
    int64_t bins;             /* of calibration_error; 0: 15 */
    bool first;               /* of two classes: what is asked for is class 0, not class 1 */
} et_class_predictions;

/* Precision, recall and f1 are those of class 1 where there are two classes (or 0: first), else
 * means over the classes that are a row's t or y (macro); one without any of what it divides by is
 * 0. */
typedef struct et_class_scores {
    double accuracy;          /* sum w [y = t] / sum w */
    double balanced_accuracy; /* mean of recall over the classes that are a row's t */
    double precision;         /* tp / (tp + fp) */
    double recall;            /* tp / (tp + fn) */
    double f1;                /* 2 tp / (2 tp + fp + fn) */
    double auc; /* the share of pairs (class 1, class 0) that p_1 ranks right, a tie counting one
                   half; of several classes the mean over one against the rest, of those classes
                   that have both: roc_auc_score(multi_class="ovr") */
    double log_loss; /* mean of -ln p_t, p_t brought into [2^-52, 1 - 2^-52] */
    double brier;    /* two classes: mean of (p_1 - [t = 1])^2; several: of the sum of such squares
                        over classes: brier_score_loss */
    double calibration_error; /* sum over bins of |mean of [y = t] - mean of p_y| times the bin's
                                 share of weight; bin b of B has rows with b < B p_y <= b + 1
                                 (expected calibration error, Guo et al. 2017) */
} et_class_scores;

/* confusion: [classes, classes], weight of rows of class t taken for class y, row t; NULL: not
 * wanted. ET_ECONFIG: an option; ET_EDATA: a probability, target or weight that is none, by its
 * row, or no row that counts. */
ET_API int et_class_scores_compute(et_class_scores *scores, double *confusion,
                                   const et_class_predictions *predictions, et_error *error);

/* Their names, ended by NULL. */
ET_DATA const char *const et_class_score_names[];

/* ---- values ---- */

typedef struct et_value_predictions {
    int64_t count, targets; /* rows; numbers of each, 0: 1 */
    const float *value;     /* [count, targets] */
    const float *target;    /* the same; a row with a NaN does not count */
    const double *weight;   /* as above */
    /* The same two arrays as doubles, for numbers that a float32 cannot tell apart. Give both in
     * place of value and target. */
    const double *wide_value, *wide_target;
} et_value_predictions;

/* With d = value - target; of several targets the mean over them. */
typedef struct et_value_scores {
    double rmse; /* sqrt(sum w d^2 / sum w): root_mean_squared_error */
    double mae;  /* sum w |d| / sum w */
    double r2;   /* 1 - sum w d^2 / sum w (t - mean t)^2: r2_score. Of targets that are all alike
                    1 where d is 0 throughout, else 0 */
    double mse;
} et_value_scores;

/* ET_EDATA: a value, target or weight that is none, by its row, or no row that counts. */
ET_API int et_value_scores_compute(et_value_scores *scores, const et_value_predictions *predictions,
                                   et_error *error);
ET_DATA const char *const et_value_score_names[];

#endif
