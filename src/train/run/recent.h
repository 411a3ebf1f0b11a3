/* A mean of what came lately, for people: values fade by 2 in a hundred with each new one,
 *
 *     mean = (x[n] + 0.98 x[n-1] + 0.98^2 x[n-2] + ...) / (1 + 0.98 + 0.98^2 + ...)
 *
 * over the values there are, so that it is a mean from the first one on: 100 values are 0.87 of
 * it. A value of two numbers; zero: nothing was added. */
#ifndef ETUDE_TRAIN_RUN_RECENT_H
#define ETUDE_TRAIN_RUN_RECENT_H

#include <math.h>

typedef struct et_recent {
    double sum, weight; /* the two sums of the formula */
} et_recent;

static inline void et_recent_add(et_recent *recent, double value)
{
    recent->sum = 0.98 * recent->sum + value;
    recent->weight = 0.98 * recent->weight + 1;
}

/* NaN: nothing was added. */
static inline double et_recent_mean(et_recent recent)
{
    return recent.weight > 0 ? recent.sum / recent.weight : (double)NAN;
}

#endif
