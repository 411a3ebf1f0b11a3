/* Training runs of the command: the modes that train. */
#ifndef ETUDE_COMMAND_TRAINING_TRAINING_H
#define ETUDE_COMMAND_TRAINING_TRAINING_H

#include "command/training/train_args.h"

/* Trains in args->model_dir as they say, begun or gone on with; what people read goes to standard
 * error. ET_EINTERRUPTED: asked to stop; saved. Signals are watched from when the run is open. */
int et_training_run(const et_call *call, const et_train_args *args, et_error *error);

/* From now on the process gets SIGALRM at args->ends, at once if that has passed; until a training
 * run of this process ends. */
void et_training_limit_time(const et_train_args *args);

/* The same by ranks that the caller has, and keeps: what has failed all have agreed on. */
struct et_comm;
int et_training_run_on(const et_call *call, const et_train_args *args, struct et_comm *comm,
                       et_error *error);

/* The same as the master of a cluster. */
struct et_roles;
int et_training_run_as(const et_call *call, const et_train_args *args,
                       const struct et_roles *master, et_error *error);

#endif
