/* A task trainer in a cluster: <etude/coordinator.h>, with the parts of roles/cluster.h. */
#include <etude/coordinator.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "roles/cluster.h"
#include "roles/job_server.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/run/options.h"

#define PATIENCE 60.0
#define FOREVER  ((int64_t)1 << 60) /* steps, if their number is unknown */

struct et_coordinator {
    et_task_trainer *trainer; /* which owns this */
    const et_job_server *server;
    et_cluster_options options;
    int64_t steps;
    et_trainer *master; /* owned; NULL: another role, or not begun */
    bool begun;
};

static void tell(void *listener, const char *line)
{
    (void)listener;
    et_log(ET_LOG_INFO, "%s", line);
}

static et_cluster_options options_of(const et_task_trainer *t, const et_job_server *server,
                                     const et_async_options *o)
{
    /* All facts except shapes and names. */
    const uint64_t facts[] = { t->options.seed, (uint64_t)t->options.batches, t->options.bfloat16 };
    return (et_cluster_options){ .config = server->config,
                                 .gradients = o->gradients_per_update,
                                 .predicts = !o->no_weight_prediction,
                                 .waits = o->staleness_wait > 0   ? o->staleness_wait
                                          : o->staleness_wait < 0 ? 0
                                                                  : ET_CLUSTER_WAITS,
                                 .keys = &server->keys,
                                 .listen = server->listen,
                                 .max_staleness = o->max_staleness > 0   ? o->max_staleness
                                                  : o->max_staleness < 0 ? 0
                                                                         : -1,
                                 .synchronous = o->synchronous,
                                 .patience = o->peer_timeout > 0 ? o->peer_timeout : PATIENCE,
                                 .fingerprint = et_checksum(facts, sizeof facts),
                                 .stop = t->options.stop,
                                 .tell = tell };
}

static void close_coordinator(et_coordinator *coordinator)
{
    et_cluster_trainer_close(coordinator->master);
    et_free(coordinator);
}

int et_task_trainer_use_server(et_task_trainer *t, const et_job_server *server,
                               const et_async_options *given, et_error *error)
{
    static const et_async_options usual = { .max_staleness = 0 };
    const et_async_options *o = given ? given : &usual;
    int status = ET_OK;
    if (o->gradients_per_update < 0 || o->gradients_per_update > ET_CLUSTER_GRADIENTS_MAX)
        status = et_fail(error, ET_EUSAGE,
                         "et_async_options: gradients_per_update %lld: give 1 to %d, or 0 for the "
                         "number of workers",
                         (long long)o->gradients_per_update, ET_CLUSTER_GRADIENTS_MAX);
    if (!status && o->staleness_wait != -1 && !(o->staleness_wait >= 0 && o->staleness_wait <= 1e6))
        status = et_fail(
            error, ET_EUSAGE,
            "et_async_options: staleness_wait %g: give 0 to 1000000 batch times, or -1 for none",
            o->staleness_wait);
    if (!status && (o->max_staleness < -1 || !(o->peer_timeout >= 0) || o->steps < 0))
        status = et_fail(error, ET_EUSAGE,
                         "et_async_options: max_staleness %lld, peer_timeout %g, steps %lld: none "
                         "may be negative, except max_staleness -1",
                         (long long)o->max_staleness, o->peer_timeout, (long long)o->steps);
    if (!status && t->cluster.coordinator)
        status = et_fail(error, ET_EUSAGE, "the trainer already has a server");
    if (status || !server)
        return status;
    et_cluster_options options = options_of(t, server, o);
    status = et_cluster_check(t, &options, error);
    et_coordinator *c = status ? NULL : et_alloc_zero(1, sizeof *c);
    if (status || !c)
        return status ? status : et_alloc_failed(error, sizeof *c, "a coordinator");
    *c = (et_coordinator){
        .trainer = t, .server = server, .options = options, .steps = o->steps ? o->steps : FOREVER
    };
    t->cluster.coordinator = c;
    t->cluster.close = close_coordinator;
    return ET_OK;
}

int et_task_trainer_init_async(et_task_trainer *t, et_error *error)
{
    et_coordinator *c = t->cluster.coordinator;
    int status = ET_OK;
    if (!c || c->begun)
        return ET_OK;
    if (!et_job_config_master(c->server->config))
        status = et_cluster_wait(&c->options, error);
    else
        status = et_cluster_trainer_open(&c->master, t, &c->options, c->steps, error);
    c->begun = !status;
    if (c->master) {
        c->master->step = t->trainer.step;
        t->driver = c->master;
    }
    return status;
}

int et_task_trainer_coordinator_for_async(et_task_trainer *t, et_coordinator **out, et_error *error)
{
    const et_coordinator *c = t->cluster.coordinator;
    *out = c && c->master ? t->cluster.coordinator : NULL;
    if (*out)
        return ET_OK;
    if (!c)
        return et_fail(error, ET_EUSAGE,
                       "there is no coordinator: training in one process is not asynchronous; give "
                       "a cluster with et_task_trainer_use_server");
    return c->begun ? et_fail(error, ET_EUSAGE, "%s: only the master has a coordinator",
                              et_job_config_device(c->server->config))
                    : et_fail(error, ET_EUSAGE,
                              "there is no coordinator yet: call et_task_trainer_init_async first");
}

int et_task_trainer_join(et_task_trainer *t, et_error *error)
{
    et_coordinator *c = t->cluster.coordinator;
    static int (*const join[ET_JOB_ROLES])(et_task_trainer *, const et_cluster_options *,
                                           et_error *) = {
        [ET_JOB_PARAM_SERVER] = et_cluster_serve,
        [ET_JOB_WORKER] = et_cluster_work,
    };
    if (!c)
        return ET_OK;
    if (!c->begun)
        return et_fail(error, ET_EUSAGE, "join: call et_task_trainer_init_async first");
    return c->master ? et_cluster_trainer_fetch(c->master, error)
                     : join[et_job_config_task(c->server->config)->role](t, &c->options, error);
}

int et_coordinator_servers(const et_coordinator *coordinator)
{
    const et_job_cluster *cluster = et_job_config_cluster(coordinator->server->config);
    return (int)cluster->addresses[ET_JOB_PARAM_SERVER].count;
}

int et_coordinator_workers(const et_coordinator *coordinator)
{
    return et_cluster_trainer_workers(coordinator->master);
}
