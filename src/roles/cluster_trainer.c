/* The master as a trainer: a step waits until the servers have made one more update. The end of
 * this file has the coordinator, the master's interface for programs.
 *
 * The part "data" of the state has the position of the source after the last update; it is set
 * before a save. This part is the first in the tree, so the values of the servers arrive before
 * other parts are saved. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/coordinator.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/flag.h"
#include "engine/tensor/params.h"
#include "metric/metric.h"
#include "roles/cluster.h"
#include "roles/cluster_private.h"
#include "roles/job_server.h"
#include "roles/master.h"
#include "systems/modelgarden/task_trainer_private.h"
#include "train/run/options.h"
#include "train/step/update.h"

#define FIRST   10.0 /* seconds until a message names missing tasks */
#define GONE    15.0 /* seconds without a connection to a server: a few handshakes */
#define GOODBYE 5.0  /* seconds that workers are given to say it */
#define LEASE   10   /* times patience: for one batch */

/* Staleness of the gradients of a loop's updates. The state does not contain it. */
typedef struct staleness {
    int64_t gradients, sum, most;
} staleness;

typedef struct cluster_trainer {
    et_trainer trainer;
    et_task_trainer *inner; /* borrowed */
    const et_cluster_options *options;
    et_cluster_plan plan;
    et_master master;
    et_wire *wire;
    bool started, fresh; /* fresh: the store is the servers' */
    int byes;            /* workers that have left */
    int64_t steps;
    et_arena arena;
    float *state;                 /* of all servers, at the start of the run; in arena */
    et_measured *measured;        /* [measures], in arena */
    float *means;                 /* [means], in arena */
    et_cluster_position position; /* of the last update */
    bool placed;
    staleness staleness;
    double moved; /* when it began, or the last update came */
    double quiet; /* the later of moved and the last warning that no worker is active */
} cluster_trainer;

/* ---- callbacks of the master ---- */

/* Each request has its own buffer, because a repeated request needs the same answer. */
static const float *state_of(void *self, int server)
{
    cluster_trainer *c = self;
    float *state = c->state;
    for (int s = 0; s < server; s++)
        state += c->plan.state[s];
    et_cluster_gather_state(&c->plan, c->inner->params, et_params_values(c->inner->params),
                            c->inner->optimizer, server, state);
    return state;
}

/* Variables come after all trained parameters. */
static void greet(void *self, unsigned char *greeting)
{
    const cluster_trainer *c = self;
    et_params *params = c->inner->params;
    memcpy(greeting, et_params_values(params) + et_params_trained_size(params),
           c->plan.variables_size);
}

/* 0 also if the report's metrics are impossible. */
static double divisor_of(void *self, const unsigned char *report)
{
    const cluster_trainer *c = self;
    return et_metrics_is_settled(c->inner->metrics.own, report + c->plan.metrics_at)
               ? et_cluster_divisor(report)
               : 0;
}

static void add_report(cluster_trainer *c, const unsigned char *report, int count)
{
    et_step *step = &c->inner->step;
    et_cluster_facts facts;
    memcpy(&facts, report, sizeof facts);
    report += sizeof facts;
    step->sum.loss += facts.loss;
    step->sum.divisor += facts.divisor;
    step->units += (int64_t)facts.units;
    step->batch->epoch = (int64_t)facts.epoch - 1;
    for (int i = 0; i < c->plan.measures; i++, report += 2 * sizeof(double)) {
        double both[2];
        memcpy(both, report, sizeof both);
        c->measured[i].total += both[0];
        c->measured[i].weight += both[1];
    }
    for (int64_t i = 0; i < c->plan.means; i++, report += sizeof(double)) {
        double mean;
        memcpy(&mean, report, sizeof mean);
        c->means[i] += (float)(mean / count);
    }
    et_metrics_merge_bytes(c->inner->metrics.own, report);
    memcpy(&c->position, report + c->plan.metrics_size, sizeof c->position);
    c->placed = true;
}

/* Does the work of et_step_run after the optimizer's update. The optimizer itself only counts. */
static void updated(void *self, const et_master_report *reports, int count, double norm)
{
    cluster_trainer *c = self;
    et_task_trainer *t = c->inner;
    et_step *step = &t->step;
    step->units = 0;
    step->sum =
        (et_reduced){ .measures = c->plan.measures, .measured = c->measured, .means = c->means };
    for (int i = 0; i < c->plan.measures; i++)
        c->measured[i] = (et_measured){ .name = et_pass_measured(t->pass, i).name };
    memset(c->means, 0, c->plan.means * sizeof *c->means);
    for (int k = 0; k < count; k++) {
        add_report(c, reports[k].bytes, count);
        const int64_t stale = reports[k].staleness;
        c->staleness.gradients++;
        c->staleness.sum += stale;
        c->staleness.most = stale > c->staleness.most ? stale : c->staleness.most;
    }
    step->update = (et_update){ norm, et_optimizer_learning_rate(t->optimizer), true };
    et_optimizer_set_progress(t->optimizer, et_optimizer_iterations(t->optimizer) + 1,
                              et_optimizer_slots_from(t->optimizer));
    et_update_finish(t->optimizer, t->pass, step->sum.means);
    et_step_updated(step);
    et_step_add_measures(step);
    et_step_add_norm(step);
    t->stepped = true;
    c->fresh = false;
    c->moved = c->quiet = et_clock_monotonic();
}

static void state_read(void *self, int server, const void *state)
{
    cluster_trainer *c = self;
    et_params_begin_change(c->inner->params);
    et_cluster_scatter_state(&c->plan, c->inner->params, et_params_values(c->inner->params),
                             c->inner->optimizer, server, state);
}

/* ---- talking ---- */

static void tell(cluster_trainer *c, const char *line)
{
    if (c->options->tell)
        c->options->tell(c->options->listener, line);
}

/* A worker that came may have gone without a message, or need long for a batch. */
static void tell_if_nobody_works(cluster_trainer *c)
{
    const int present = et_master_present(&c->master);
    const double now = et_clock_monotonic(), patience = c->options->patience;
    if (now < c->quiet + (present ? et_master_usual(&c->master) : fmin(patience, FIRST)))
        return;
    char line[120] = "waiting      for workers: none has started";
    if (present)
        snprintf(line, sizeof line, "waiting      for workers: no gradient for %.0f seconds",
                 now - c->moved);
    c->quiet = now;
    tell(c, line);
}

/* Finds a server whose connection has been lost for longer than a network failure lasts. */
static int lost_server(const cluster_trainer *c)
{
    for (int s = 0; c->master.phase != ET_MASTER_OPENS && s < c->plan.servers; s++)
        if (et_wire_alone(c->wire, 1 + s) >
            (c->options->patience < GONE ? c->options->patience : GONE))
            return s;
    return -1;
}

static int talk(cluster_trainer *c, double seconds, et_error *error)
{
    et_message message;
    bool got;
    int status = et_wire_receive(c->wire, seconds, &message, &got, error);
    if (status)
        return status;
    if (got) {
        c->byes += message.kind == ET_MESSAGE_BYE;
        et_master_receive(&c->master, et_clock_monotonic(), &message);
    }
    et_master_tick(&c->master, et_clock_monotonic());
    int lost = c->master.phase == ET_MASTER_ENDED ? -1 : lost_server(c);
    if (lost >= 0)
        return et_fail(
            error, ET_EIO,
            "step %lld: server %d is lost; the same command resumes from the last checkpoint",
            (long long)c->trainer.step + 1, lost);
    if (c->master.phase == ET_MASTER_FAILED)
        return et_fail(error, c->master.status, "step %lld: %s", (long long)c->trainer.step + 1,
                       c->master.failure);
    return ET_OK;
}

static int begin(cluster_trainer *c, et_error *error)
{
    const et_cluster_options *o = c->options;
    et_task_trainer *t = c->inner;
    int64_t iterations = et_optimizer_iterations(t->optimizer);
    int64_t workers = c->plan.workers, gradients = et_cluster_gradients(o);
    et_master_setup setup = {
        .link = et_wire_link(c->wire),
        .servers = c->plan.servers,
        .workers = c->plan.workers,
        .state = c->plan.state,
        .report_size = c->plan.report_size,
        .position_size = sizeof(et_cluster_position),
        .run = (uint64_t)(et_clock_wall() * 1e9) | 1,
        .fingerprint = c->plan.fingerprint,
        .patience = o->patience,
        .lease = LEASE * o->patience,
        .gradients = gradients,
        .waits = o->waits,
        .max_staleness =
            o->max_staleness < 0 ? (2 * workers + gradients - 1) / gradients : o->max_staleness,
        .synchronous = o->synchronous,
        .version = iterations,
        .slots_from = et_optimizer_slots_from(t->optimizer),
        .steps = iterations + c->steps - c->trainer.step,
        .self = c,
        .state_of = state_of,
        .greeting_size = c->plan.variables_size,
        .greet = greet,
        .divisor = divisor_of,
        .updated = updated,
        .state_read = state_read,
    };
    int status = et_master_open(&c->master, &setup, error);
    et_cluster_position position = et_cluster_position_of(t->source, false);
    for (int i = 0; !status && i < c->plan.workers; i++)
        memcpy(et_master_position_of(&c->master, i), &position, sizeof position);
    c->started = !status;
    c->moved = c->quiet = et_clock_monotonic();
    if (!status)
        et_master_start(&c->master, et_clock_monotonic());
    return status;
}

/* Weights, slots and the place in the data as of the last update. */
static int fetch(cluster_trainer *c, et_error *error)
{
    int status = ET_OK;
    if (!c->started || c->fresh)
        return ET_OK;
    et_params_begin_change(c->inner->params);
    et_master_read(&c->master);
    while (!status && c->master.wants_state)
        status = talk(c, 0.2, error);
    if (!status && c->placed)
        status = et_cluster_seek(c->inner->source, &c->position, error);
    et_params_changed(c->inner->params, true);
    c->fresh = !status;
    return status;
}

/* ---- the trainer ---- */

static cluster_trainer *self_of(const et_trainer *trainer)
{
    return (cluster_trainer *)(uintptr_t)trainer;
}

static int save_data(const void *self, et_value *dict, et_error *error)
{
    cluster_trainer *c = (cluster_trainer *)(uintptr_t)self;
    int status = fetch(c, error);
    return status ? status : et_source_part.save(c->inner->source, dict, error);
}

static int restore_data(void *self, const et_value *dict, et_error *error)
{
    return et_source_part.restore(((cluster_trainer *)self)->inner->source, dict, error);
}

static const et_part_class data_part = { "data", save_data, restore_data };

static int attach(et_trainer *trainer, et_state *state, et_error *error)
{
    cluster_trainer *c = self_of(trainer);
    et_task_trainer *t = c->inner;
    int status;
    if ((status = et_state_add(state, "data", &data_part, c, error)) ||
        (status = et_state_add_params(state, t->params, error)) ||
        (status = et_state_add_optimizer(state, "optimizer", t->optimizer, error)))
        return status;
    return et_task_trainer_attach(t, state, NULL, false, error);
}

static int start(et_trainer *trainer, et_error *error)
{
    et_trainer *inner = &self_of(trainer)->inner->trainer;
    return inner->class->start(inner, error);
}

static int loop_begin(et_trainer *trainer, et_error *error)
{
    cluster_trainer *c = self_of(trainer);
    et_trainer *inner = &c->inner->trainer;
    c->staleness = (staleness){ 0 };
    return inner->class->loop_begin(inner, error);
}

static void sane(const cluster_trainer *c)
{
    et_assert(c->inner && c->inner->source && c->options);
    et_assert(c->plan.servers >= 1 && c->plan.workers >= 1);
    et_assert(!c->started || c->wire);
    et_assert(c->staleness.gradients >= 0 && c->staleness.most >= 0);
    et_assert(c->staleness.most <= c->staleness.sum);
}

/* After a stop request, the update under way is finished first: half an update is not a state. */
static int step(et_trainer *trainer, et_error *error)
{
    cluster_trainer *c = self_of(trainer);
    sane(c);
    int status = c->started ? ET_OK : begin(c, error);
    if (!status)
        status = et_task_trainer_begin_loop(c->inner, error);
    if (status)
        return status;
    c->inner->trainer.step = c->inner->step.count = trainer->step;
    int64_t before = c->master.version;
    c->master.target = before + 1;
    while (!status && c->master.version == before) {
        bool in_flight = c->master.asked == ET_MESSAGE_APPLY;
        if (et_flag_is_set(c->options->stop) && !in_flight) {
            c->master.target = before;
            return et_fail(error, ET_EINTERRUPTED, "asked to stop in step %lld",
                           (long long)trainer->step + 1);
        }
        status = talk(c, 0.2, error);
        tell_if_nobody_works(c);
    }
    if (!status)
        status = et_task_trainer_judge(c->inner, error);
    c->inner->trainer.step = trainer->step + 1;
    return status;
}

static int loop_end(et_trainer *trainer, et_value *logs, et_error *error)
{
    cluster_trainer *c = self_of(trainer);
    et_trainer *inner = &c->inner->trainer;
    int status = fetch(c, error);
    if (!status)
        status = inner->class->loop_end(inner, logs, error);
    const staleness *s = &c->staleness;
    if (status || !s->gradients)
        return status;
    et_value_set_float(logs, "staleness/mean", (double)s->sum / (double)s->gradients);
    et_value_set_float(logs, "staleness/max", (double)s->most);
    return et_value_failed(logs) ? et_alloc_failed(error, "a log") : ET_OK;
}

static void view(const et_trainer *trainer, et_trainer_view *out)
{
    const et_trainer *inner = &self_of(trainer)->inner->trainer;
    inner->class->view(inner, out);
}

static int fetch_state(et_trainer *trainer, et_error *error)
{
    return fetch(self_of(trainer), error);
}

static const et_trainer_class cluster_class = {
    .name = "cluster",
    .attach = attach,
    .start = start,
    .loop_begin = loop_begin,
    .step = step,
    .loop_end = loop_end,
    .view = view,
    .gather = fetch_state,
};

int et_cluster_trainer_open(et_trainer **out, et_task_trainer *trainer,
                            const et_cluster_options *options, int64_t steps, et_error *error)
{
    *out = NULL;
    cluster_trainer *c;
    if (ET_ALLOC_ZERO(c, 1, "a master", error))
        return ET_ENOMEM;
    c->trainer.class = &cluster_class;
    c->inner = trainer;
    c->options = options;
    c->steps = steps;
    int status = et_cluster_plan_make(&c->plan, trainer, options, error);
    if (!status) {
        int64_t all = 0;
        for (int s = 0; s < c->plan.servers; s++)
            all += c->plan.state[s];
        c->state = et_arena_array(&c->arena, all, sizeof *c->state);
        c->measured = et_arena_array(&c->arena, c->plan.measures, sizeof *c->measured);
        c->means = et_arena_array(&c->arena, c->plan.means, sizeof *c->means);
        if (c->arena.failed)
            status = et_alloc_failed(error, "a master");
    }
    if (!status)
        status = et_cluster_connect(&c->wire, options, &c->plan, error);
    if (status)
        et_cluster_trainer_close(&c->trainer);
    else
        *out = &c->trainer;
    return status;
}

static bool has_all_servers(const cluster_trainer *c)
{
    bool all = true;
    for (int s = 0; s < c->plan.servers; s++)
        all = all && et_wire_alone(c->wire, 1 + s) == 0;
    return all;
}

/* A worker that has not joined may still come and ask. */
static bool awaits_workers(const cluster_trainer *c, bool late)
{
    return late ? c->byes < c->plan.workers && !et_flag_is_set(c->options->stop)
                : et_master_present(&c->master) > 0;
}

static void say_goodbye(cluster_trainer *c, bool late)
{
    double until = et_clock_monotonic() + c->options->patience;
    et_error error = ET_ERROR_INIT;
    et_master_end(&c->master);
    while (c->master.phase != ET_MASTER_ENDED && et_clock_monotonic() < until)
        if (talk(c, 0.1, &error))
            return;
    until = et_clock_monotonic() + (late ? FIRST : GOODBYE);
    while (awaits_workers(c, late) && et_clock_monotonic() < until)
        if (talk(c, 0.1, &error))
            return;
}

void et_cluster_trainer_close(et_trainer *trainer)
{
    if (!trainer)
        return;
    cluster_trainer *c = self_of(trainer);
    const bool late = c->wire && !c->started;
    if (late) {
        /* A master that has only evaluated: other tasks may not have started yet. */
        const double until = et_clock_monotonic() + FIRST;
        et_error error = ET_ERROR_INIT;
        et_message message;
        bool got;
        int status = ET_OK;
        while (!status && !has_all_servers(c) && et_clock_monotonic() < until &&
               !et_flag_is_set(c->options->stop))
            status = et_wire_receive(c->wire, 0.05, &message, &got, &error);
        if (!status && has_all_servers(c))
            begin(c, &error);
    }
    if (c->started && c->master.phase != ET_MASTER_FAILED)
        say_goodbye(c, late);
    et_master_release(&c->master);
    et_wire_close(c->wire);
    et_arena_release(&c->arena);
    et_cluster_plan_release(&c->plan);
    et_free(c);
}

/* ---- a task trainer in a cluster (<etude/coordinator.h>) ---- */

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

static void log_line(void *listener, const char *line)
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
                                 .tell = log_line };
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
    if (o->gradients_per_update < 0 || o->gradients_per_update > ET_CLUSTER_GRADIENTS_MAX)
        return et_fail(error, ET_EUSAGE,
                       "et_async_options: gradients_per_update %lld: give 1 to %d, or 0 for the "
                       "number of workers",
                       (long long)o->gradients_per_update, ET_CLUSTER_GRADIENTS_MAX);
    if (o->staleness_wait != -1 && !(o->staleness_wait >= 0 && o->staleness_wait <= 1e6))
        return et_fail(
            error, ET_EUSAGE,
            "et_async_options: staleness_wait %g: give 0 to 1000000 batch times, or -1 for none",
            o->staleness_wait);
    if (o->max_staleness < -1 || !(o->peer_timeout >= 0) || o->steps < 0)
        return et_fail(error, ET_EUSAGE,
                       "et_async_options: max_staleness %lld, peer_timeout %g, steps %lld: none "
                       "may be negative, except max_staleness -1",
                       (long long)o->max_staleness, o->peer_timeout, (long long)o->steps);
    if (t->cluster.coordinator)
        return et_fail(error, ET_EUSAGE, "the trainer already has a server");
    if (!server)
        return ET_OK;
    et_cluster_options options = options_of(t, server, o);
    const int status = et_cluster_check(t, &options, error);
    et_coordinator *c = status ? NULL : et_alloc_zero(1, sizeof *c);
    if (!c)
        return status ? status : et_alloc_failed(error, "a coordinator");
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
    return c->master ? fetch_state(c->master, error)
                     : join[et_job_config_task(c->server->config)->role](t, &c->options, error);
}

int et_coordinator_servers(const et_coordinator *coordinator)
{
    const et_job_cluster *cluster = et_job_config_cluster(coordinator->server->config);
    return (int)cluster->addresses[ET_JOB_PARAM_SERVER].count;
}

int et_coordinator_workers(const et_coordinator *coordinator)
{
    const cluster_trainer *c = self_of(coordinator->master);
    return c->started ? et_master_present(&c->master) : 0;
}
