/* A reducer for private updates (<etude/privacy.h>): clips gradients and passes them to the tree,
 * which adds them.
 *
 *   per example   g = divisor / shards (sum of g_i min(1, C / |g_i|) + C noise N(0, 1))
 *   of an update  g = divisor (m min(1, C / |m|) + C noise N(0, 1)),   m = sum of g_i / divisor
 *
 * The optimizer divides by the divisor. Noise is a function of (seed, step, place); padding stays
 * zero. */
#ifndef ETUDE_TRAIN_STEP_PRIVATE_H
#define ETUDE_TRAIN_STEP_PRIVATE_H

#include <etude/privacy.h>

#include "train/step/reducer.h"

int et_privacy_check(const et_privacy_options *options, et_error *error);

/* *reducer, a tree of the pass, becomes a private one that owns it; after a failure it is closed
 * and NULL. Options are copied, and were checked. */
int et_private_open(et_reducer **reducer, const et_pass *pass, const et_privacy_options *options,
                    et_error *error);

#endif
