/* Training by the roles of a cluster from the command line. TF_CONFIG decides the role of this
 * process; --distributed starts all roles on this machine.
 *
 *     et_train_args_settle(args, call, &error);
 *     return et_roles_train(call, args, &error);
 */
#ifndef ETUDE_COMMAND_TRAINING_ROLES_H
#define ETUDE_COMMAND_TRAINING_ROLES_H

#include "command/training/processes/local_cluster.h"
#include "command/training/train_args.h"
#include "roles/cluster.h"

int et_roles_train(const et_call *call, const et_train_args *args, et_error *error);

/* ---- role_options.c ---- */

/* Batches of an update for each of one process. */
int64_t et_roles_batches(const et_roles *roles, const et_experiment *experiment);

/* Options of the cluster's tasks by the settings of a run. */
int et_roles_options(et_cluster_options *options, const et_roles *roles,
                     const et_experiment *experiment, et_error *error);

#endif
