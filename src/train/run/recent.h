/* A mean of recent values, for people: with each new value, older values lose 2 % of their weight,
 *
 *     mean = (x[n] + 0.98 x[n-1] + 0.98^2 x[n-2] + ...) / (1 + 0.98 + 0.98^2 + ...)
 *
 * over the values so far, so it is a mean from the first value on; the last 100 values have 0.87 of
 * the weight. A plain value of two numbers; zero: no values yet. */
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
