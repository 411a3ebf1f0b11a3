/* What the command has for ranks (<etude/comm.h>): who they are, and whether they are alike. */
#ifndef ETUDE_COMMAND_TRAINING_RANKS_H
#define ETUDE_COMMAND_TRAINING_RANKS_H

#include "comm/comm.h"
#include "exec/device.h"
#include "train/options.h"

/* By the environment. ET_ECONFIG: more ranks than runtime.data_shards. */
int et_ranks_open(et_comm **out, const et_runtime_options *options, et_error *error);

/* Whether all ranks have the same settings, data and kernels, without which bits would differ.
 * ET_ECONFIG names the first that has not. */
int et_ranks_compare(et_comm *comm, const et_value *identity, const et_device *device,
                     et_error *error);

/* ET_EUSAGE where several ranks were started for what one process does. */
int et_ranks_refuse(const char *mode, et_error *error);

#endif
