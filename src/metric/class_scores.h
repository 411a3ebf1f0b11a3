/* The common part of scores of classes and of numbers. */

/* Details that scores of classes leave out: numbers for each class, the ROC curve, the calibration
 * curve.
 *
 *     et_class_line lines[2];
 *     et_class_lines(lines, confusion, 2);              of et_class_scores_compute
 *     et_class_curve roc = { .count = 0 };
 *     et_roc_curve(&roc, &predictions, 1, &error);
 *     et_class_curve_release(&roc);
 *
 * Each number equals scikit-learn's of the same predictions: precision_recall_fscore_support,
 * roc_curve with drop_intermediate=False, calibration_curve with strategy="uniform". Predictions
 * must be sound: et_class_scores_compute checks them. */
#ifndef ETUDE_METRIC_CLASS_SCORES_H
#define ETUDE_METRIC_CLASS_SCORES_H

#include <stddef.h>

#include <etude/class_scores.h>

/* ET_EDATA: the weight of a row is invalid. weight NULL: all are 1. */
int et_scores_check_weight(const double *weight, int64_t row, et_error *error);

/* The prediction y of a row with probabilities p [classes], by threshold, costs or neither. */
int64_t et_class_choose(const et_class_predictions *given, const float *p);

/* The first of the largest of p [classes]. */
static inline int64_t et_class_most_likely(const float *p, int64_t classes)
{
    int64_t best = 0;
    for (int64_t c = 1; c < classes; c++)
        best = p[c] > p[best] ? c : best;
    return best;
}

/* Sets prefix and name of each value, as many as there are names. */
int et_scores_log(const char *const *names, const double *values, const char *prefix,
                  et_value *dict, et_error *error);

/* Sets "<prefix>accuracy", "<prefix>auc", ... in dict, in the order above. */
int et_class_scores_log(const et_class_scores *scores, const char *prefix, et_value *dict,
                        et_error *error);
int et_value_scores_log(const et_value_scores *scores, const char *prefix, et_value *dict,
                        et_error *error);

/* Default number of bins of a calibration curve. */
#define ET_CALIBRATION_BINS 15

/* Numbers of one class. A number with divisor 0 is 0. */
typedef struct et_class_line {
    double precision, recall, f1;
    double support; /* weight of the rows of the class */
} et_class_line;

/* lines [classes]; confusion [classes, classes]. */
void et_class_lines(et_class_line *lines, const double *confusion, int64_t classes);

typedef struct et_class_curve {
    double *x, *y, *weight; /* [count], owned; weight: of the rows of the point */
    size_t count;
} et_class_curve;

/* One class against the rest, a point for each distinct probability and (0, 0): x is the false
 * positive rate, y the true positive rate. Count 0: the rows have only one of both. */
int et_roc_curve(et_class_curve *curve, const et_class_predictions *predictions, int64_t class,
                 et_error *error);

/* The class whose probability is calibrated: the positive one of two classes; -1: in each row the
 * class with the largest probability. */
static inline int64_t et_calibrated_class(const et_class_predictions *predictions)
{
    return predictions->classes == 2 ? !predictions->first : -1;
}
/* A point for each bin with rows: x is the mean probability, y the fraction of rows that have the
 * class. class -1: in each row the class with the largest probability. */
int et_calibration_curve(et_class_curve *curve, const et_class_predictions *predictions,
                         int64_t class, et_error *error);

void et_class_curve_release(et_class_curve *curve);

#endif
