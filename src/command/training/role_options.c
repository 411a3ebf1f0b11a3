/* Settings for the tasks of a cluster. */
#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "command/command.h"
#include "command/training/roles.h"

/* What is for ranks alone, or for one process. */
static int check_settings(const et_experiment *experiment, et_error *error)
{
    const et_runtime_options *runtime = &experiment->runtime;
    if (runtime->sharded_optimizer)
        return et_fail(error, ET_ECONFIG,
                       "runtime.sharded_optimizer: only for ranks (launch, mpirun); parameter "
                       "servers always split the slots: leave it false");
    if (runtime->data_shards > 1)
        return et_fail(error, ET_ECONFIG,
                       "runtime.data_shards: %lld: only for ranks (launch, mpirun); with workers "
                       "and parameter servers leave it at 1",
                       (long long)runtime->data_shards);
    return ET_OK;
}

/* What they say by themselves. */
static et_cluster_options options_of(const et_roles *roles, const et_runtime_options *runtime)
{
    return (et_cluster_options){ .config = roles->config,
                                 .keys = &roles->keys,
                                 .listen = roles->listen,
                                 .gradients = runtime->gradients_per_update,
                                 .max_staleness = runtime->max_staleness,
                                 .synchronous = runtime->synchronous,
                                 .waits = runtime->staleness_wait,
                                 .predicts = runtime->weight_prediction,
                                 .patience = runtime->peer_timeout,
                                 .stop = &et_stop_requested };
}

int64_t et_roles_batches(const et_roles *roles, const et_experiment *experiment)
{
    const et_cluster_options options = options_of(roles, &experiment->runtime);
    return et_cluster_gradients(&options);
}

int et_roles_options(et_cluster_options *options, const et_roles *roles,
                     const et_experiment *experiment, et_error *error)
{
    et_assert(options && roles && experiment->kind);
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *identity;
    int status = check_settings(experiment, error);
    if (!status)
        status = et_experiment_identify(&identity, experiment, NULL, NULL, &arena, error);
    if (!status)
        et_json_print(&text, identity, 0);
    *options = options_of(roles, &experiment->runtime);
    options->fingerprint = et_checksum(et_strbuf_text(&text), text.length);
    if (!status && text.failed)
        status = et_alloc_failed(error, 0, "settings");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}
