/* Ranks (<etude/comm.h>) in the command: opening and leaving them. */
#ifndef ETUDE_COMMAND_RANKS_H
#define ETUDE_COMMAND_RANKS_H

#include <etude/comm.h>
#include <etude/command.h>

#include "train/run/options.h"

/* Opens the ranks that the environment describes. ET_ECONFIG: more ranks than
 * runtime.data_shards. */
int et_ranks_open(et_comm **out, const et_runtime_options *options, et_error *error);

/* Opens any number of ranks, for work other than training. Rank 0 prints the library's log, once.
 * peer_timeout 0: the default. */
int et_ranks_join(et_comm **out, double peer_timeout, et_error *error);

/* Whether ranks may start the command: it shares its work among them, or refuses them itself. */
bool et_ranks_may_run(const et_program *program, const char *command);

/* ET_EUSAGE if several ranks were started for work of one process; advice: the cure. */
int et_ranks_refuse(const et_call *call, const char *advice, et_error *error);

/* Ends the work of all ranks and closes comm. One rank prints the error before any rank ends; all
 * ranks return the same status. comm NULL: this rank failed before it opened a comm. Then the
 * function opens one, so that the other ranks learn of the failure. Without ranks, does nothing. */
int et_ranks_leave(et_comm *comm, const et_program *program, int status, et_error *error);

#endif
