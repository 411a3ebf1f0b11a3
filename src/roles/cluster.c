#include "roles/cluster.h"

#include <math.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/flag.h"
#include "engine/tensor/params.h"
#include "metric/metric.h"
#include "roles/cluster_private.h"
#include "roles/param_server.h"

#define COUNT_MAX  9007199254740992.0 /* 2^53: the largest exact count of a double */
#define SAID_AFTER 30.0               /* seconds without a master */

int64_t et_cluster_gradients(const et_cluster_options *options)
{
    const et_job_cluster *cluster = et_job_config_cluster(options->config);
    int64_t workers = (int64_t)cluster->addresses[ET_JOB_WORKER].count;
    return options->synchronous || !options->gradients ? workers : options->gradients;
}

int et_cluster_check(const et_task_trainer *t, const et_cluster_options *options, et_error *error)
{
    const et_job_cluster *cluster = et_job_config_cluster(options->config);
    const char *what = NULL;
    size_t masters = cluster ? cluster->addresses[ET_JOB_MASTER].count : 0;
    size_t servers = cluster ? cluster->addresses[ET_JOB_PARAM_SERVER].count : 0;
    size_t workers = cluster ? cluster->addresses[ET_JOB_WORKER].count : 0;
    if (masters != 1 || !servers || !workers || 1 + servers + workers > ET_TASKS_MAX)
        return et_fail(error, ET_ECONFIG,
                       "a cluster of %zu master, %zu ps, %zu worker: give one master, and at least "
                       "one ps and one worker",
                       masters, servers, workers);
    if (t->privacy.wanted)
        what = "dp_config";
    else if (t->options.loss_scale != 0)
        what = "runtime.loss_scale";
    else if (t->logs || t->task->class->process_compiled_metrics)
        what = "a task with its own train_step or process_compiled_metrics";
    else if (!et_optimizer_by_parts(t->optimizer) && servers > 1)
        what = "global_clipnorm after another clip";
    return what ? et_fail(
                      error, ET_ECONFIG,
                      "%s cannot be used with workers and parameter servers; train in one process",
                      what)
                : ET_OK;
}

/* ---- sizes ---- */

const et_slot_part *et_cluster_slot(const et_optimizer *optimizer, const char *slot, int param)
{
    const et_slot_part *parts;
    int count = et_optimizer_parts(optimizer, &parts);
    for (int i = 0; i < count; i++)
        if (parts[i].param == param && !strcmp(parts[i].slot, slot))
            return &parts[i];
    return NULL;
}

/* Calls fn for each slot of each piece of a server: its position in the whole optimizer. */
static void each_slot(const et_cluster_plan *plan, const et_params *params,
                      const et_optimizer *optimizer, int server,
                      void (*fn)(void *payload, float *data, int64_t floats), void *payload)
{
    const et_placement *p = &plan->placement;
    const et_slot *slots;
    int count = et_optimizer_slots(optimizer, &slots);
    for (int s = 0; s < count; s++)
        for (int i = p->first[server]; i < p->first[server + 1]; i++) {
            const et_placement_shard *shard = &p->shards[i];
            const et_slot_part *part = et_cluster_slot(optimizer, slots[s].name, shard->param);
            int64_t elements = et_shape_count(et_params_shape(params, shard->param));
            /* If the tensor is cut, its slot is cut in the same way. The slot of a whole tensor may
             * have another shape. */
            if (part)
                fn(payload, part->data + shard->begin,
                   shard->count == elements ? et_shape_count(part->shape) : shard->count);
        }
}

static void add_floats(void *payload, float *data, int64_t floats)
{
    (void)data;
    *(int64_t *)payload += floats;
}

static void copy_out(void *payload, float *data, int64_t floats)
{
    float **to = payload;
    memcpy(*to, data, floats * sizeof *data);
    *to += floats;
}

static void copy_in(void *payload, float *data, int64_t floats)
{
    const char **from = payload;
    memcpy(data, *from, floats * sizeof *data);
    *from += floats * sizeof *data;
}

void et_cluster_gather_state(const et_cluster_plan *plan, const et_params *params,
                             const float *values, const et_optimizer *optimizer, int server,
                             float *state)
{
    et_placement_gather(&plan->placement, params, server, values, state);
    state += plan->placement.floats[server];
    each_slot(plan, params, optimizer, server, copy_out, &state);
}

void et_cluster_scatter_state(const et_cluster_plan *plan, const et_params *params, float *values,
                              const et_optimizer *optimizer, int server, const void *state)
{
    const char *slots = (const char *)state + plan->placement.floats[server] * sizeof(float);
    et_placement_scatter(&plan->placement, params, server, state, values);
    each_slot(plan, params, optimizer, server, copy_in, &slots);
}

/* A master gets reports; a server its state, gradients of its weights and lists of them. */
static size_t most_asked(const et_cluster_plan *plan, const et_job_task *task)
{
    if (task->role != ET_JOB_PARAM_SERVER)
        return plan->report_size;
    size_t state = plan->state[task->index] * sizeof(float);
    size_t pushes = plan->workers * sizeof(et_param_server_push);
    return state > pushes ? state : pushes;
}

int et_cluster_plan_make(et_cluster_plan *plan, const et_task_trainer *t,
                         const et_cluster_options *options, et_error *error)
{
    int status = et_cluster_check(t, options, error);
    *plan = (et_cluster_plan){ .measures = et_pass_measures(t->pass) };
    if (status)
        return status;
    const et_job_cluster *cluster = et_job_config_cluster(options->config);
    plan->servers = (int)cluster->addresses[ET_JOB_PARAM_SERVER].count;
    plan->workers = (int)cluster->addresses[ET_JOB_WORKER].count;
    for (int i = 0; i < et_pass_tracks(t->pass); i++)
        plan->means += et_pass_tracked(t->pass, i).elements;
    plan->metrics_size = et_metrics_bytes(t->metrics.pending, &(void *){ NULL });
    plan->metrics_at = sizeof(et_cluster_facts) + (size_t)plan->measures * 2 * sizeof(double) +
                       plan->means * sizeof(double);
    plan->report_size = plan->metrics_at + plan->metrics_size + sizeof(et_cluster_position);
    status = et_placement_make(&plan->placement, t->params, plan->servers,
                               et_optimizer_by_elements(t->optimizer), error);
    plan->state = et_arena_array(&plan->placement.arena, plan->servers, sizeof *plan->state);
    if (!status && !plan->state)
        status = et_alloc_failed(error, "a cluster");
    plan->variables_size =
        (size_t)(et_params_flat_size(t->params) - et_params_trained_size(t->params)) *
        sizeof(float);
    plan->largest = plan->report_size + ET_MESSAGE_TEXT + plan->variables_size;
    for (int s = 0; !status && s < plan->servers; s++) {
        plan->state[s] = plan->placement.floats[s];
        each_slot(plan, t->params, t->optimizer, s, add_floats, &plan->state[s]);
        size_t bytes = plan->state[s] * sizeof(float);
        plan->largest = bytes > plan->largest ? bytes : plan->largest;
    }
    if (!status)
        plan->asked = most_asked(plan, et_job_config_task(options->config));
    if (!status)
        plan->fingerprint = et_placement_fingerprint(
            &plan->placement, t->params,
            options->fingerprint + (uint64_t)plan->workers + ((uint64_t)plan->report_size << 32));
    if (status)
        et_cluster_plan_release(plan);
    return status;
}

void et_cluster_plan_release(et_cluster_plan *plan)
{
    et_placement_release(&plan->placement);
    *plan = (et_cluster_plan){ 0 };
}

static bool is_count(double value)
{
    return value >= 0 && value <= COUNT_MAX;
}

double et_cluster_divisor(const unsigned char *report)
{
    et_cluster_facts facts;
    memcpy(&facts, report, sizeof facts);
    bool sound = facts.divisor >= ET_CLUSTER_DIVISOR_MIN && facts.divisor <= COUNT_MAX &&
                 isfinite(facts.loss) && is_count(facts.units) && is_count(facts.epoch);
    return sound ? facts.divisor : 0;
}

/* ---- connections ---- */

int et_cluster_connect(et_wire **out, const et_cluster_options *options,
                       const et_cluster_plan *plan, et_error *error)
{
    const et_job_cluster *cluster = et_job_config_cluster(options->config);
    const et_job_task *task = et_job_config_task(options->config);
    const et_strings *servers = &cluster->addresses[ET_JOB_PARAM_SERVER];
    bool worker = task->role == ET_JOB_WORKER;
    const char **connect;
    if (ET_ALLOC_ZERO(connect, servers->count + 1, "a connection", error))
        return ET_ENOMEM;
    if (task->role != ET_JOB_MASTER)
        connect[0] = cluster->addresses[ET_JOB_MASTER].items[0];
    for (size_t i = 0; task->role != ET_JOB_PARAM_SERVER && i < servers->count; i++)
        connect[1 + i] = servers->items[i];
    et_wire_setup setup = {
        .keys = options->keys,
        .role = task->role,
        .servers = (int)servers->count,
        .bind = worker ? NULL : cluster->addresses[task->role].items[task->index],
        .bind_fd = options->listen,
        .connect = connect,
        .senders = (int)(1 + servers->count + cluster->addresses[ET_JOB_WORKER].count),
        .largest = plan->largest,
        .asked = plan->asked,
    };
    int status = et_wire_open(out, &setup, error);
    et_free(connect);
    return status;
}

int et_cluster_wait(const et_cluster_options *options, et_error *error)
{
    const char *master = et_job_config_cluster(options->config)->addresses[ET_JOB_MASTER].items[0];
    et_wire_setup setup = { .keys = options->keys,
                            .role = et_job_config_task(options->config)->role,
                            .connect = &master };
    et_wire *wire;
    et_message message;
    bool got;
    int status = et_wire_open(&wire, &setup, error);
    double began = et_clock_monotonic(), most = 10 * options->patience;
    bool said = false;
    while (!status && et_wire_alone(wire, 0) > 0) {
        status = et_wire_receive(wire, 0.05, &message, &got, error);
        double waited = et_clock_monotonic() - began;
        if (!said && waited > SAID_AFTER)
            et_log(ET_LOG_WARNING,
                   "the master (%s) does not answer yet; waiting at most %.0f seconds", master,
                   most);
        said = said || waited > SAID_AFTER;
        if (!status && et_flag_is_set(options->stop))
            status = et_fail(error, ET_EINTERRUPTED, "interrupted while waiting for the master");
        else if (!status && waited > most)
            status = et_fail(error, ET_EIO, "the master (%s) did not start within %.0f seconds",
                             master, most);
    }
    et_wire_close(wire);
    return status;
}

/* ---- places in the data ---- */

et_cluster_position et_cluster_position_of(const et_source *source, bool own)
{
    et_position position = { 0 };
    et_source_position(source, &position);
    et_cluster_position at = { .own = own, .count = position.count };
    et_assert(position.count <= ET_POSITION_MAX);
    memcpy(at.value, position.value, position.count * sizeof *at.value);
    return at;
}

int et_cluster_seek(et_source *source, const et_cluster_position *at, et_error *error)
{
    et_position position = { 0 };
    et_source_position(source, &position);
    if (!at->count)
        return ET_OK;
    if (at->count != position.count)
        return et_fail(error, ET_EDATA, "a data position of %lld numbers, but there are %d",
                       (long long)at->count, position.count);
    memcpy(position.value, at->value, position.count * sizeof *at->value);
    return et_source_seek(source, &position, error);
}

/* ---- placement ---- */

/* Rows server * rows / servers to the next server's first. */
static et_placement_shard cut(et_placement_shard shard, int server, int servers)
{
    int64_t rows = shard.shape.size[0], width = shard.count / rows;
    int64_t begin = rows * server / servers, end = rows * (server + 1) / servers;
    shard.begin = begin * width;
    shard.count = (end - begin) * width;
    shard.shape.size[0] = end - begin;
    return shard;
}

/* The pieces of one server, or with pieces NULL their number. */
static int list(et_placement_shard *shards, const et_params *params, int server, int servers,
                bool cuts)
{
    int count = 0, turn = 0;
    for (int i = 0; i < et_params_count(params); i++) {
        if (!et_params_is_trained(params, i))
            continue;
        et_shape shape = et_params_shape(params, i);
        et_placement_shard shard = { i, 0, et_shape_count(shape), shape };
        bool shared = cuts && servers > 1 && shard.count >= ET_PLACEMENT_LARGE &&
                      shard.shape.rank > 0 && shard.shape.size[0] >= servers;
        bool mine = shared || turn % servers == server;
        turn++;
        if (mine && shards)
            shards[count] = shared ? cut(shard, server, servers) : shard;
        count += mine;
    }
    return count;
}

static int fill(et_placement *p, const et_params *params, bool cuts, et_error *error)
{
    for (int s = 0; s < p->servers; s++) {
        int count = list(p->shards + p->first[s], params, s, p->servers, cuts);
        if (!count)
            return et_fail(
                error, ET_ECONFIG,
                "%d parameter servers are too many for the parameters of this model; start fewer",
                p->servers);
        p->first[s + 1] = p->first[s] + count;
        for (int i = 0; i < count; i++)
            p->floats[s] += p->shards[p->first[s] + i].count;
    }
    return ET_OK;
}

int et_placement_make(et_placement *p, const et_params *params, int servers, bool cuts,
                      et_error *error)
{
    size_t all = (size_t)et_params_count(params) * (size_t)servers;
    *p = (et_placement){ .servers = servers };
    p->shards = et_arena_array(&p->arena, all, sizeof *p->shards);
    p->first = et_arena_array(&p->arena, (size_t)servers + 1, sizeof *p->first);
    p->floats = et_arena_array(&p->arena, servers, sizeof *p->floats);
    int status =
        p->arena.failed ? et_alloc_failed(error, "a placement") : fill(p, params, cuts, error);
    if (status)
        et_placement_release(p);
    return status;
}

void et_placement_release(et_placement *p)
{
    et_arena_release(&p->arena);
    *p = (et_placement){ 0 };
}

static uint64_t mix(uint64_t so_far, const void *bytes, size_t size)
{
    uint64_t both[2] = { so_far, et_checksum(bytes, size) };
    return et_checksum(both, sizeof both);
}

uint64_t et_placement_fingerprint(const et_placement *p, const et_params *params, uint64_t seed)
{
    uint64_t mixed = mix(seed, &p->servers, sizeof p->servers);
    for (int i = 0; i < p->first[p->servers]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        const char *name = et_params_name(params, shard->param);
        int64_t range[2] = { shard->begin, shard->count };
        mixed = mix(mixed, name, strlen(name));
        mixed = mix(mixed, range, sizeof range);
        mixed = mix(mixed, shard->shape.size, shard->shape.rank * sizeof *shard->shape.size);
    }
    return mixed;
}

void et_placement_gather(const et_placement *p, const et_params *params, int server,
                         const float *flat, float *values)
{
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        memcpy(values, flat + et_params_offset(params, shard->param) + shard->begin,
               shard->count * sizeof *values);
        values += shard->count;
    }
}

void et_placement_scatter(const et_placement *p, const et_params *params, int server,
                          const void *values, float *flat)
{
    const char *from = values;
    for (int i = p->first[server]; i < p->first[server + 1]; i++) {
        const et_placement_shard *shard = &p->shards[i];
        size_t bytes = shard->count * sizeof *flat;
        memcpy(flat + et_params_offset(params, shard->param) + shard->begin, from, bytes);
        from += bytes;
    }
}
