/* All tasks of a cluster on this machine: one process each, with fresh keys and loopback ports that
 * the system chooses. The calling process waits, passes signals to the master, restarts a worker
 * that was killed, and returns the master's exit code as a status. When it returns, no process is
 * left.
 *
 *     et_local_cluster setup = { .workers = 2, .self = payload, .be = be };
 *     return et_local_cluster_run(&setup, &error);                  in every process
 */
#ifndef ETUDE_COMMAND_TRAINING_PROCESSES_LOCAL_CLUSTER_H
#define ETUDE_COMMAND_TRAINING_PROCESSES_LOCAL_CLUSTER_H

#include "roles/wire/keys.h"

#define ET_ROLES_MAX 64 /* workers, and servers */

/* Arguments of a task of a cluster. */
typedef struct et_roles {
    et_job_config *config;
    et_keys keys;
    int listen;  /* a socket that listens at the task's address; 0: none */
    int threads; /* number of threads to use; 0: all */
} et_roles;

typedef struct et_local_cluster {
    int64_t workers, servers; /* 0: 1 */
    bool own_ports;           /* tasks listen at their addresses themselves: they get no socket */
    int *code; /* gets the exit code of the master, as a shell names it; NULL: not wanted */
    void *self;
    /* Called in a new process: does the work of its task until the end. */
    int (*be)(void *self, et_roles *task, et_error *error);
} et_local_cluster;

int et_local_cluster_run(const et_local_cluster *setup, et_error *error);

#endif
