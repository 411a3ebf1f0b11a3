/* Checks that ranks which work together agree on everything that results depend on. */
#ifndef ETUDE_TRAIN_RANKS_COMPARE_H
#define ETUDE_TRAIN_RANKS_COMPARE_H

#include <etude/comm.h>
#include <etude/value.h>

#include "engine/exec/device.h"

/* Checks that all ranks have the same settings, data and kernels; otherwise bits would differ.
 * ET_ECONFIG: the error names the first rank that differs. identity NULL: only kernels. status: the
 * result of this rank's earlier work; after a failure, other arguments are ignored. */
int et_ranks_compare(et_comm *comm, int status, const et_value *identity, const et_device *device,
                     et_error *error);

/* Returns status, the result of loading. ET_EBUSY: a rank has loaded another checkpoint than rank
 * 0, because the run in model_dir saved meanwhile. path NULL: none was loaded. */
int et_ranks_compare_loaded(et_comm *comm, int status, const char *model_dir, const char *path,
                            int64_t step, et_error *error);

#endif
