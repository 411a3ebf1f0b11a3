/* Training by the roles of a cluster, from the command line: which process this is, by TF_CONFIG,
 * or one of those that --distributed starts on this machine.
 *
 *     et_train_args_parse(&args, call, &error);
 *     return et_roles_train(call, &args, &error);
 *
 * --distributed makes a process for each task, with keys that nobody else has and sockets of the
 * loopback that the system has chosen; the process that was called waits, hands signals to the
 * master, starts a worker again that was killed, and gives the master's exit code. No process is
 * left when it ends. */
#ifndef ETUDE_COMMAND_TRAINING_ROLES_H
#define ETUDE_COMMAND_TRAINING_ROLES_H

#include "command/training/train_args.h"
#include "train/cluster.h"

/* What a master's training needs to know. */
typedef struct et_roles {
    et_job_config *config;
    et_keys keys;
    int listen; /* 0: none */
} et_roles;

#define ET_ROLES_MAX 64 /* workers, and servers, that --distributed starts */

int et_roles_train(const et_call *call, const et_train_args *args, et_error *error);

/* Options of the cluster's tasks by the settings of a run. */
int et_roles_options(et_cluster_options *options, const et_roles *roles,
                     const et_experiment *experiment, et_error *error);

/* roles_local.c: --distributed. */
int et_roles_local(const et_call *call, const et_train_args *args, et_error *error);
/* This process as a task of the cluster. */
int et_roles_task(const et_call *call, const et_train_args *args, et_roles *roles, et_error *error);

#endif
