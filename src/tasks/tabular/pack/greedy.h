/* Greedy choice of an ensemble (Caruana, Niculescu-Mizil, Crew and Ksikes 2004, "Ensemble Selection
 * from Libraries of Models"): candidates are added one by one, each time the one with which the
 * mean prediction has the lowest loss, and one may be added several times. The beginning of this
 * sequence with the lowest loss of all is the ensemble.
 *
 *   classes   prediction: the probability of a row's label; loss: -log of it
 *   values    prediction: a value; loss: the squared difference from the target
 *
 * The result depends on no order but that of the candidates: the first of equals is chosen. */
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

/* share: [candidates], of each how often it was chosen over all choices: their sum is 1. *loss: of
 * the ensemble. There is at least one candidate and one item. */
int et_greedy_choose(const et_greedy *greedy, float *share, double *loss, et_error *error);

#endif
