/* Training runs of the command: the modes that train. */
#ifndef ETUDE_COMMAND_TRAINING_TRAINING_H
#define ETUDE_COMMAND_TRAINING_TRAINING_H

#include "command/training/train_args.h"

/* Trains a new or an existing run in args->model_dir, and prints messages to standard error.
 * ET_EINTERRUPTED: stopped on request, and saved. Signals are handled once the run is open. */
int et_training_run(const et_call *call, const et_train_args *args, et_error *error);

/* Sends SIGALRM to the process at args->ends, or at once if this time has passed. Ends with the
 * next training run of the process. */
void et_training_limit_time(const et_train_args *args);

/* Trains with the ranks of comm, which the caller owns. All ranks agree on a failure. */
struct et_comm;
int et_training_run_on(const et_call *call, const et_train_args *args, struct et_comm *comm,
                       et_error *error);

/* The same as the master of a cluster. */
struct et_roles;
int et_training_run_as(const et_call *call, const et_train_args *args,
                       const struct et_roles *master, et_error *error);

#endif
