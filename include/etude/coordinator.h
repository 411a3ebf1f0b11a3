/* Asynchronous training with the roles of a cluster (job_config.h), for a program that drives a
 * task's trainer itself. The master orders updates. Parameter servers hold parameters and make
 * updates. Workers compute gradients; each worker has its own batches of one common data order. All
 * processes run the same program and open the same task trainer. Then:
 *
 *     if (et_job_config_create_server(&server, config, &error)) ...       NULL: a single node
 *     if (et_task_trainer_use_server(trainer, server, NULL, &error)) ...
 *     if (et_task_trainer_init_async(trainer, &error)) ...
 *     if (!et_task_trainer_coordinator_for_async(trainer, &coordinator, &error))
 *         printf("%d servers, %d workers\n", et_coordinator_servers(coordinator),
 *                et_coordinator_workers(coordinator));
 *     if (et_job_config_master(config))
 *         status = et_task_trainer_train(trainer, 1000, logs, &error);
 *     if (!status)
 *         status = et_task_trainer_join(trainer, &error);
 *
 * A step of the master is one update by the servers. After init_async, et_task_trainer_trainer (the
 * trainer for a controller) makes such steps. On the master, join fetches the weights and slots of
 * the last update; loops and saves do so themselves. On workers and servers, join does the work and
 * returns when the master's trainer is closed. On a single node init_async and join do nothing.
 *
 * Use from one thread. */
#ifndef ETUDE_COORDINATOR_H
#define ETUDE_COORDINATOR_H

#include <etude/job_config.h>
#include <etude/task_trainer.h>

typedef struct et_async_options {
    int64_t max_staleness; /* most updates between the weights of a gradient and the update that
                              adds the gradient; 0: as many updates as two gradients of each
                              worker make; -1: no staleness */
    double staleness_wait; /* if a worker's next gradient would be stale, the worker first waits for
                              the current update, at most this many times the duration of its last
                              batch; 0: 1; -1: never */
    bool no_weight_prediction; /* compute gradients from the servers' current weights, not from the
                                  weights predicted for their update */
    bool synchronous;          /* an update is the sum of one gradient of every worker */
    int64_t gradients_per_update; /* gradients that an update adds, from any workers; 0: the number
                                     of workers */
    double peer_timeout;          /* seconds without a sign of life after which a process is lost;
                                     0: 60 */
    int64_t steps;                /* the last step of the training; 0: unknown */
} et_async_options;

/* Call before init_async. server: borrowed until the trainer is closed; NULL: a single node.
 * options: copied; NULL: all zero. ET_ECONFIG: the trainer has an option that roles do not support
 * (doc/reference/scale.md). */
ET_API int et_task_trainer_use_server(et_task_trainer *trainer, const et_job_server *server,
                                      const et_async_options *options, et_error *error);

/* Master: connects to the servers at its first step. Workers and servers: wait for the master. Call
 * once. */
ET_API int et_task_trainer_init_async(et_task_trainer *trainer, et_error *error);

/* The master's coordinator, which schedules steps. Owned by the trainer. ET_EUSAGE: before
 * init_async, on a single node, or in another role. */
ET_API int et_task_trainer_coordinator_for_async(et_task_trainer *trainer, et_coordinator **out,
                                                 et_error *error);

/* ET_EIO: another process is lost. ET_EINTERRUPTED: asked to stop. */
ET_API int et_task_trainer_join(et_task_trainer *trainer, et_error *error);

ET_API int et_coordinator_servers(const et_coordinator *coordinator); /* of the cluster */
ET_API int et_coordinator_workers(const et_coordinator *coordinator); /* connected now */

#endif
