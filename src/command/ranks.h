/* Ranks (<etude/comm.h>) in the command: opening them, and checking that all have the same
 * settings. */
#ifndef ETUDE_COMMAND_RANKS_H
#define ETUDE_COMMAND_RANKS_H

#include <etude/comm.h>
#include <etude/command.h>

#include "engine/exec/device.h"
#include "train/run/options.h"

/* By the environment. ET_ECONFIG: more ranks than runtime.data_shards. */
int et_ranks_open(et_comm **out, const et_runtime_options *options, et_error *error);

/* The same for work other than training: any number of ranks. Rank 0 prints the library's log,
 * once. peer_timeout 0: the default. */
int et_ranks_join(et_comm **out, double peer_timeout, et_error *error);

/* Checks that all ranks have the same settings, data and kernels; otherwise bits would differ.
 * ET_ECONFIG: the error names the first rank that differs. identity NULL: only kernels. status: of
 * what this rank did before; if it failed, the rest is ignored. */
int et_ranks_compare(et_comm *comm, int status, const et_value *identity, const et_device *device,
                     et_error *error);

/* status (of loading), or ET_EBUSY: a rank has loaded another checkpoint than rank 0, since the run
 * in model_dir is at work and saved meanwhile. path NULL: none was loaded. */
int et_ranks_compare_loaded(et_comm *comm, int status, const char *model_dir, const char *path,
                            int64_t step, et_error *error);

/* Whether ranks share a command, or it says itself that it is the work of one process. */
bool et_ranks_may_run(const et_program *program, const char *command);

/* For lines that all ranks would print: whether this rank prints them, by the environment. */
bool et_ranks_are_first(void);

/* ET_EUSAGE if several ranks were started for work of one process; advice: the cure. */
int et_ranks_refuse(const et_call *call, const char *advice, et_error *error);

/* Ends the work of all ranks and closes comm. One rank prints the error before any rank ends; all
 * ranks return the same status. comm NULL: this rank failed before it had one; a comm is opened, so
 * that the other ranks learn of the failure. Without ranks, does nothing. */
int et_ranks_leave(et_comm *comm, const et_program *program, int status, et_error *error);

#endif
