/* The common part of scores of classes and of numbers. */
#ifndef ETUDE_METRIC_CLASS_SCORES_H
#define ETUDE_METRIC_CLASS_SCORES_H

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

#endif
