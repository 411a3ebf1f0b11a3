/* Greedy choice of an ensemble (Caruana, Niculescu-Mizil, Crew and Ksikes 2004, "Ensemble Selection
 * from Libraries of Models"). Each step adds the candidate that gives the mean prediction the
 * lowest loss; a candidate may be added several times. The ensemble is the prefix of this sequence
 * with the lowest loss.
 *
 *   classes   prediction: the probability of a row's label; loss: -log of it
 *   values    prediction: a value; loss: the squared difference from the target
 *
 * If candidates are equally good, the first one is chosen. */
#ifndef ETUDE_TASKS_TABULAR_PACK_GREEDY_H
#define ETUDE_TASKS_TABULAR_PACK_GREEDY_H

#include <stdint.h>

#include <etude/error.h>

typedef struct et_greedy {
    const float *prediction; /* [candidates, items], finite */
    const double *target;    /* [items]; NULL: classes */
    int64_t candidates, items;
    int64_t most; /* additions */
} et_greedy;

/* The mean loss of predictions [items]; target as above. */
double et_greedy_loss(const float *prediction, const double *target, int64_t items);

/* share: [candidates], how often each was chosen, divided by the number of choices; the sum is 1.
 * *loss: of the ensemble. There must be at least one candidate and one item. */
int et_greedy_choose(const et_greedy *greedy, float *share, double *loss, et_error *error);

#endif
