/* The common part of every update of a pass by an optimizer. */
#ifndef ETUDE_TRAIN_STEP_UPDATE_H
#define ETUDE_TRAIN_STEP_UPDATE_H

#include <etude/optimizer.h>
#include <etude/pass.h>

/* A mean over `divisor` rows by their sum. Of no row, as in a batch without a label, it is 0, and
 * so is its gradient: as Keras divides. */
static inline double et_mean_of(double sum, double divisor)
{
    return divisor > 0 ? sum / divisor : 0;
}

/* ET_EUSAGE: the pass is of another store of parameters, or leaves no gradient, or none of what the
 * optimizer changes. */
int et_update_check(const et_optimizer *optimizer, const et_pass *pass, et_error *error);

#endif
