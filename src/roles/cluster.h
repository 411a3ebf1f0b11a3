/* Training by the roles of a cluster (TensorFX's): a master, parameter servers, workers. Each
 * process opens one task trainer of the same task with the same settings. Then
 *
 *   a worker   is source, pass, push: et_cluster_work
 *   a server   is the task's optimizer for a slice of the parameters: et_cluster_serve
 *   the master is a trainer for a controller, in place of the task trainer's own: one of its
 *              steps is an update that the servers have made. When its controller acts (logs,
 *              validates, saves), its own store and optimizer have the weights and slots of that
 *              step from all servers. So checkpoints and results are those of one process.
 *
 *     et_cluster_wait(&options, &error);                      workers, servers: the master is ready
 *     if (et_cluster_trainer_open(&trainer, tasks, &options, steps, &error)) ...
 *
 * src/roles/wire has the messages. With n workers, each worker takes every n-th batch of one order
 * of the data. The state has the position of the data after the last update. A run may resume with
 * other numbers of workers and servers, or in one process. */
#ifndef ETUDE_ROLES_CLUSTER_H
#define ETUDE_ROLES_CLUSTER_H

#include <signal.h>

#include <etude/job_config.h>
#include <etude/params.h>
#include <etude/task_trainer.h>
#include <etude/trainer.h>

#include "base/arena.h"
#include "roles/wire/keys.h"

typedef struct et_cluster_options {
    const et_job_config *config; /* all tasks of the cluster, and this task; borrowed */
    const et_keys *keys;         /* of its role; borrowed */
    int listen;            /* a socket that already listens at this task's address, borrowed; 0:
                              none */
    int64_t gradients;     /* number of gradients of an update; 0: the number of workers */
    int64_t max_staleness; /* in updates; -1: as many updates as two gradients of each worker
                              make */
    bool synchronous;      /* an update has one gradient of each worker */
    double waits;          /* times its last batch, most that a worker waits for fresh weights */
    bool predicts;         /* gradients use the weights predicted for their update */
    double patience;       /* seconds of silence after which others are lost */
    uint64_t fingerprint;  /* of the settings, which must be equal for all tasks */
    const volatile sig_atomic_t *stop; /* NULL: never */
    void *listener; /* tell(listener, line) gets lines for people; NULL: they are dropped */
    void (*tell)(void *listener, const char *line);
    /* For a worker, after each of its gradients: the units, and the seconds since the previous
     * gradient, with waiting for weights. NULL: not wanted. */
    void (*computed)(void *listener, int64_t units, double seconds);
} et_cluster_options;

/* Gradients of an update, by the options; if synchronous, the most. */
int64_t et_cluster_gradients(const et_cluster_options *options);

/* Checks that other processes support the task trainer's options. ET_ECONFIG: one is not
 * supported. */
int et_cluster_check(const et_task_trainer *trainer, const et_cluster_options *options,
                     et_error *error);

/* Waits until the master listens. The master listens as soon as its task is open. After half a
 * minute, logs a warning. ET_EIO: the master does not listen within ten times options->patience. */
int et_cluster_wait(const et_cluster_options *options, et_error *error);

/* Work until the master ends the training. ET_EIO: the master is lost, or did not start. */
int et_cluster_work(et_task_trainer *trainer, const et_cluster_options *options, et_error *error);
int et_cluster_serve(et_task_trainer *trainer, const et_cluster_options *options, et_error *error);

/* trainer is borrowed; steps: the run's last. */
int et_cluster_trainer_open(et_trainer **out, et_task_trainer *trainer,
                            const et_cluster_options *options, int64_t steps, et_error *error);
/* Tells servers and workers that the work is done. */
void et_cluster_trainer_close(et_trainer *trainer); /* NULL allowed */

/* The placement of parameters on servers. Trained parameters are assigned to servers in turn, in
 * order of declaration (TensorFX's device setter). If the optimizer works element by element, a
 * large tensor is cut along its first dimension, one piece per server. Every task computes the same
 * placement for the same model.
 *
 * Messages contain a server's values, gradients or slots as its pieces one after another, in this
 * order, without padding. */

#define ET_PLACEMENT_LARGE ((int64_t)1 << 18) /* elements: larger or equal tensors are cut */

typedef struct et_placement_shard {
    int param;            /* in the store */
    int64_t begin, count; /* elements of the tensor */
    et_shape shape;
} et_placement_shard;

typedef struct et_placement {
    int servers;
    et_placement_shard *shards; /* by server */
    int *first;                 /* [servers + 1]: of the pieces */
    int64_t *floats;            /* [servers]: elements */
    et_arena arena;             /* of the arrays */
} et_placement;

/* ET_ECONFIG: a server would have no parameter. */
int et_placement_make(et_placement *placement, const et_params *params, int servers, bool cuts,
                      et_error *error);
void et_placement_release(et_placement *placement);

/* A hash of names, shapes, pieces and seed. Tasks that fit together have the same hash. */
uint64_t et_placement_fingerprint(const et_placement *placement, const et_params *params,
                                  uint64_t seed);

/* Between a server's values and a flat array of the store (its values or gradients). */
void et_placement_gather(const et_placement *placement, const et_params *params, int server,
                         const float *flat, float *values);
/* values: need not be aligned. */
void et_placement_scatter(const et_placement *placement, const et_params *params, int server,
                          const void *values, float *flat);

#endif
