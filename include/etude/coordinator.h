/* Asynchronous training in a program that drives a task's trainer itself: by the roles of a cluster
 * (job_config.h). The master orders updates, parameter servers hold parameters and make updates,
 * workers compute gradients, each of its own batches of one order of the data. All run the same
 * program, which opens the same task trainer everywhere; then
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
 * A step of the master is an update that the servers have made; its trainer for a controller
 * (et_task_trainer_trainer) is that one from init_async on. join gives it weights and slots of the
 * last update; loops and saves do so by themselves. Of workers and servers join is the work: it
 * returns when the master's trainer is closed. On a single node init_async and join do nothing.
 *
 * One thread. */
#ifndef ETUDE_COORDINATOR_H
#define ETUDE_COORDINATOR_H

#include <etude/job_config.h>
#include <etude/task_trainer.h>

typedef struct et_async_options {
    int64_t max_staleness; /* updates at most between the weights that a gradient was computed from
                              and its own; 0: as many as two gradients of each worker make; -1:
                              none */
    double staleness_wait; /* a worker whose next gradient would be stale waits for the update under
                              way, at most so many times as long as its last batch took; 0: once;
                              -1: never */
    bool no_weight_prediction; /* a gradient is of the weights that servers have, not of what they
                                  are expected to be in its update */
    bool synchronous;          /* an update is the sum of the gradients of all workers */
    int64_t gradients_per_update; /* added up, whoever computed them; 0: as many as workers */
    double peer_timeout;          /* seconds of silence after which others are lost; 0: 60 */
    int64_t steps;                /* the last one that is made; 0: not known */
} et_async_options;

/* Before init_async. server: borrowed until the trainer is closed; NULL: a single node. options:
 * copied; NULL: as of zero. ET_ECONFIG: what the trainer has is not for roles
 * (doc/reference/scale.md). */
ET_API int et_task_trainer_use_server(et_task_trainer *trainer, const et_job_server *server,
                                      const et_async_options *options, et_error *error);

/* Master: connects to the servers with its first step. Others: waits for the master. Once. */
ET_API int et_task_trainer_init_async(et_task_trainer *trainer, et_error *error);

/* The master's, which is what schedules steps; the trainer's own. ET_EUSAGE: before init_async, on
 * a single node, in another role. */
ET_API int et_task_trainer_coordinator_for_async(et_task_trainer *trainer, et_coordinator **out,
                                                 et_error *error);

/* ET_EIO: others are lost; ET_EINTERRUPTED: asked to stop. */
ET_API int et_task_trainer_join(et_task_trainer *trainer, et_error *error);

ET_API int et_coordinator_servers(const et_coordinator *coordinator); /* of the cluster */
ET_API int et_coordinator_workers(const et_coordinator *coordinator); /* that are there now */

#endif
