/* The common part of every update of a pass by an optimizer. */
#ifndef ETUDE_TRAIN_STEP_UPDATE_H
#define ETUDE_TRAIN_STEP_UPDATE_H

#include <etude/optimizer.h>
#include <etude/pass.h>

#include "train/step/reducer.h"

/* A mean over `divisor` rows from their sum. Without rows, as in a batch without labels, the mean
 * and its gradient are 0, as in Keras. */
static inline double et_mean_of(double sum, double divisor)
{
    return divisor > 0 ? sum / divisor : 0;
}

/* ET_EUSAGE: the pass has another store of parameters, or gives no gradient, or none for the
 * optimizer's parameters. */
int et_update_check(const et_optimizer *optimizer, const et_pass *pass, et_error *error);

/* Applies the mean gradient of a sum that was multiplied by `scale`. All ranks of a sharded
 * optimizer call it. update->finite false: nothing changed. */
int et_update_apply(et_optimizer *optimizer, const et_reduced *sum, double scale, et_update *update,
                    et_error *error);

/* ET_EDIVERGED, for an update that was not finite. The text names the first such value of the pass;
 * NULL: the norm of the gradient. */
int et_update_diverged(et_pass *pass, et_error *error);

/* After a finite update: updates moving means of the pass (means NULL: from its last batch), then
 * averages. */
void et_update_finish(et_optimizer *optimizer, et_pass *pass, const float *means);

#endif
