/* A master, workers and parameter servers, each a process of this program. */
#include "command/training/training.h"

#include <signal.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "command/command.h"
#include "command/ranks.h"
#include "command/training/processes/local_cluster.h"
#include "engine/comm/comm.h"
#include "engine/exec/device.h"
#include "roles/cluster.h"
#include "roles/job_server.h"

#define PATIENCE 60.0

/* Refuses settings that are only for ranks, or only for one process. */
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

/* Options of the cluster's tasks by the settings of a run. */
static int settle_options(et_cluster_options *options, const et_roles *roles,
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
        status = et_alloc_failed(error, "settings");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

/* Objects that a worker or a server opens; closed in reverse. */
typedef struct parts {
    et_arena arena;
    et_experiment experiment;
    et_device *device;
    et_params *params;
    et_task *task;
    et_task_trainer *trainer;
} parts;

/* Uses the settings that the master has written, not the command line of this process. */
static int open_parts(parts *p, const et_call *call, const et_train_args *args,
                      const et_roles *roles, et_error *error)
{
    et_experiment *e = &p->experiment;
    et_optimization_options *optimization = &e->trainer.optimizer_config;
    int status = et_experiment_open_run(e, call->program, args->model_dir, &p->arena, error);
    if (status || (status = et_optimization_end_with_run(optimization, e->trainer.train_steps,
                                                         &p->arena, error)))
        return status;
    const et_cluster_options cluster = options_of(roles, &e->runtime);
    optimization->learning_rate.run.gradients = et_cluster_gradients(&cluster);
    bool bfloat16 = et_experiment_resolve_precision(e);
    status = et_device_open(&p->device, error);
    if (!status)
        status = et_params_new(&p->params, error);
    et_task_context context = { .model_dir = args->model_dir,
                                .params = p->params,
                                .device = p->device,
                                .seed = (uint64_t)e->runtime.seed,
                                .bfloat16 = bfloat16,
                                .prefetch = (int)e->runtime.prefetch,
                                .stop = &et_stop_requested,
                                .reader = true };
    if (!status)
        status = e->kind->open(&p->task, e->task, &context, error);
    et_task_trainer_options options = {
        .optimization = optimization,
        .seed = (uint64_t)e->runtime.seed,
        .bfloat16 = bfloat16,
        .recompute = e->runtime.recompute,
        .batches = (int)e->trainer.gradient_accumulation,
        .stop = &et_stop_requested,
        .use = ET_TRAIN_ONLY,
    };
    return status
               ? status
               : et_task_trainer_open(&p->trainer, p->task, p->device, p->params, &options, error);
}

static void note_file(void *self, const char *path)
{
    if (path)
        et_strbuf_printf(self, " %s", path);
}

/* Compares the kinds of two experiments and the files that they read. */
static int check_files(const et_experiment *kept, const et_experiment *now, et_error *error)
{
    et_strbuf were = ET_STRBUF_INIT, are = ET_STRBUF_INIT;
    if (kept->kind != now->kind)
        return et_fail(error, ET_ECONFIG, "the run is of %s, the command of %s", kept->name,
                       now->name);
    if (!kept->kind->reads)
        return ET_OK;
    kept->kind->reads(kept->task, note_file, &were);
    kept->kind->reads(now->task, note_file, &are);
    int status = ET_OK;
    if (strcmp(et_strbuf_text(&were), et_strbuf_text(&are)) != 0)
        status = et_fail(error, ET_ECONFIG, "the run reads%s, but the command names%s",
                         et_strbuf_text(&were), et_strbuf_text(&are));
    et_strbuf_release(&were);
    et_strbuf_release(&are);
    return status;
}

/* The command line of this process may name other settings than the master's. */
static void warn_of_unused(const et_call *call, const et_train_args *args,
                           et_train_settings *settings, const et_experiment *used,
                           const et_job_task *task)
{
    const et_experiment *own = &settings->experiment;
    et_error why = ET_ERROR_INIT;
    if (et_train_configure(settings, args, call->program, &why) ||
        et_experiment_check_same(used, own, NULL, args->model_dir, false, &why) ||
        check_files(used, own, &why))
        et_log(ET_LOG_WARNING,
               "%s %lld uses the settings of its master, not those of this command: %s", task->type,
               (long long)task->index, why.text);
}

/* A worker or a server ends with the master. Only the master handles Ctrl-C. */
static int serve_or_work(const et_call *call, const et_train_args *args,
                         et_train_settings *settings, const et_roles *roles, et_error *error)
{
    parts p = { .arena = ET_ARENA_INIT };
    const et_job_task *task = et_job_config_task(roles->config);
    et_cluster_options options = { .config = roles->config,
                                   .keys = &roles->keys,
                                   .patience = PATIENCE,
                                   .stop = &et_stop_requested };
    signal(SIGINT, SIG_IGN);
    int status = et_cluster_wait(&options, error);
    if (!status && !(status = open_parts(&p, call, args, roles, error)) &&
        !(status = settle_options(&options, roles, &p.experiment, error))) {
        warn_of_unused(call, args, settings, &p.experiment, task);
        status = task->role == ET_JOB_WORKER ? et_cluster_work(p.trainer, &options, error)
                                             : et_cluster_serve(p.trainer, &options, error);
    }
    et_task_trainer_close(p.trainer);
    if (p.task)
        p.experiment.kind->close(p.task);
    et_params_free(p.params);
    et_device_close(p.device);
    et_arena_release(&p.arena);
    return status ? et_fail_while(error, status, "%s %lld", task->type, (long long)task->index)
                  : ET_OK;
}

/* The master's trainer. */
typedef struct master {
    et_training_cluster cluster;
    const et_roles *roles;
    et_cluster_options options;
} master;

/* Batches of an update for each of one process. */
static int64_t master_batches(const et_training_cluster *self, const et_experiment *experiment)
{
    const master *m = (const master *)(const void *)self;
    const et_cluster_options options = options_of(m->roles, &experiment->runtime);
    return et_cluster_gradients(&options);
}

static int open_master(et_training_cluster *self, et_trainer **out, et_task_trainer *single,
                       const et_experiment *experiment, int64_t steps, et_progress *progress,
                       et_error *error)
{
    master *m = (master *)(void *)self;
    int status = settle_options(&m->options, m->roles, experiment, error);
    m->options.listener = progress;
    m->options.tell = et_show_line;
    return status ? status : et_cluster_trainer_open(out, single, &m->options, steps, error);
}

/* The training of a command line. cluster: the cluster of its master; NULL: none. */
static int train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                 et_training_cluster *cluster, et_error *error)
{
    et_train_job job = et_train_job_of(call, args);
    job.training.experiment = &settings->experiment;
    job.training.arena = settings->arena;
    job.training.initial = &settings->initial;
    job.training.cluster = cluster;
    signal(SIGPIPE, SIG_IGN); /* warnings that nobody reads never stop the work */
    /* Settings first: a misspelt one is reported before any file is made. */
    const int status = et_train_configure(settings, args, call->program, error);
    return status ? et_ranks_leave(NULL, call->program, status, error) : et_train_run(&job, error);
}

static int be_task(const et_call *call, const et_train_args *args, et_train_settings *settings,
                   et_roles *roles, et_error *error)
{
    master m = { .cluster = { master_batches, open_master, et_cluster_trainer_close },
                 .roles = roles };
    return et_job_config_master(roles->config) ? train(call, args, settings, &m.cluster, error)
                                               : serve_or_work(call, args, settings, roles, error);
}

/* --distributed. */
typedef struct local {
    const et_call *call;
    const et_train_args *args;
    et_train_settings *settings;
} local;

static int be_local(void *self, et_roles *task, et_error *error)
{
    const local *l = self;
    if (task->threads)
        et_device_use_threads(task->threads);
    return be_task(l->call, l->args, l->settings, task, error);
}

int et_roles_train(const et_call *call, const et_train_args *args, et_train_settings *settings,
                   et_error *error)
{
    et_assert(args->mode != ET_MODE_EVAL && args->mode != ET_MODE_CONTINUOUS_EVAL);
    et_roles roles = { 0 };
    int status = et_job_config_environment(&roles.config, error);
    if (status)
        return status;
    const bool cluster = et_job_config_distributed(roles.config);
    const bool by_roles = cluster || args->distributed;
    const et_job_task *task = et_job_config_task(roles.config);
    local self = { call, args, settings };
    const et_local_cluster setup = {
        .workers = args->workers, .servers = args->servers, .self = &self, .be = be_local
    };
    if (by_roles && (et_comm_by_launch() || et_comm_by_mpi()))
        status = et_fail(error, ET_EUSAGE,
                         "this process is both a rank (launch, mpirun) and a task of a cluster "
                         "(%s); use one of the two",
                         args->distributed ? "--distributed" : ET_JOB_CONFIG_VARIABLE);
    else if (cluster && args->distributed)
        status = et_fail(error, ET_EUSAGE,
                         "--distributed starts a cluster, but " ET_JOB_CONFIG_VARIABLE
                         " names one as well; remove one of them");
    else if (!cluster && !et_job_config_master(roles.config))
        status = et_fail(error, ET_EUSAGE,
                         "task %s %lld has no cluster, and a single node is always the master; "
                         "remove \"task\" from " ET_JOB_CONFIG_VARIABLE,
                         task->type, (long long)task->index);
    else if (!cluster && args->keys)
        status =
            et_fail(error, ET_EUSAGE, "--keys: only with a cluster in " ET_JOB_CONFIG_VARIABLE);
    else if (by_roles && args->dry_run)
        status =
            et_fail(error, ET_EUSAGE, "--dry-run: only for one process; try without the cluster");
    else if (args->distributed)
        status = et_local_cluster_run(&setup, error);
    else if (!cluster)
        status = train(call, args, settings, NULL, error);
    else if (!(status = et_job_keys_read(&roles.keys, roles.config, args->keys, "--keys", error)))
        status = be_task(call, args, settings, &roles, error);
    et_job_config_free(roles.config);
    return status;
}
