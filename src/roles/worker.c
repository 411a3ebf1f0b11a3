#include "roles/worker.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "engine/tensor/params.h"
#include "metric/metric.h"
#include "roles/cluster_private.h"

/* `left` counts the servers that have not answered yet. It is above 0 only while weights are pulled
 * or a gradient is pushed. */
static void sane(const et_worker *w)
{
    const bool talks = w->phase == ET_WORKER_PULLS || w->phase == ET_WORKER_PUSHES;
    et_assert(w->phase <= ET_WORKER_ENDED);
    et_assert(w->left >= 0 && w->left <= w->setup.servers);
    et_assert(w->phase == ET_WORKER_ENDED || (w->left > 0) == talks);
    et_assert(w->phase == ET_WORKER_ENDED || w->phase == ET_WORKER_JOINS || w->session);
    et_assert(w->phase != ET_WORKER_COMPUTES || w->ticket > 0);
    et_assert(w->phase == ET_WORKER_ENDED || !*w->lost);
    et_assert(w->ticket >= 0 && w->sequence >= w->setup.nonce);
}

int et_worker_open(et_worker *worker, const et_worker_setup *setup, et_error *error)
{
    size_t servers = (size_t)setup->servers;
    et_assert(setup->servers >= 1 &&
              setup->report_size >= setup->position_size + 2 * sizeof(double));
    *worker = (et_worker){ .setup = *setup, .sequence = setup->nonce };
    worker->server = et_arena_array(&worker->arena, servers, sizeof *worker->server);
    worker->report = et_arena_alloc(&worker->arena, setup->report_size);
    int64_t *floats = et_arena_array(&worker->arena, servers, sizeof *floats);
    worker->setup.floats = floats;
    if (worker->arena.failed)
        return et_alloc_failed(error, "a worker");
    memcpy(floats, setup->floats, servers * sizeof *floats);
    return ET_OK;
}

void et_worker_release(et_worker *worker)
{
    et_arena_release(&worker->arena);
    *worker = (et_worker){ 0 };
}

static et_message message_of(et_worker *w, et_message_kind kind)
{
    return (et_message){ .kind = kind,
                         .from = 1 + w->setup.servers + w->setup.index,
                         .run = w->run,
                         .session = w->session,
                         .sequence = ++w->sequence };
}

static void end(et_worker *w, const char *why)
{
    w->phase = ET_WORKER_ENDED;
    snprintf(w->lost, sizeof w->lost, "%s", why);
}

void et_worker_start(et_worker *worker, double now)
{
    et_message hello = message_of(worker, ET_MESSAGE_HELLO);
    hello.number = (int64_t)worker->setup.nonce;
    hello.extra = (int64_t)worker->setup.fingerprint;
    worker->phase = ET_WORKER_JOINS;
    et_asking_begin(&worker->master, worker->setup.link, now, ET_TASK_MASTER, &hello);
}

/* ticket 0: no ticket was done yet. */
static void ask(et_worker *w, double now, int64_t ticket)
{
    et_message message = message_of(w, ET_MESSAGE_ASK);
    message.number = ticket;
    message.value[0] = w->squares;
    message.bytes = w->report;
    message.size = w->setup.report_size;
    w->phase = ET_WORKER_ASKS;
    et_asking_begin(&w->master, w->setup.link, now, ET_TASK_MASTER, &message);
}

static void welcome(et_worker *w, double now, const et_message *message)
{
    const size_t position = w->setup.position_size;
    if (message->size != position + w->setup.greeting_size || !message->session || !message->run)
        return;
    if (!et_asking_takes(&w->master, message))
        return;
    w->run = message->run;
    w->session = message->session;
    w->setup.welcomed(w->setup.self, message->bytes, (const char *)message->bytes + position);
    ask(w, now, 0);
}

static void go(et_worker *w, double now, const et_message *message)
{
    if (message->number <= w->ticket || !et_asking_takes(&w->master, message))
        return;
    w->ticket = message->number;
    w->version = message->extra;
    w->before = message->value[0];
    w->left = w->setup.servers;
    w->phase = ET_WORKER_PULLS;
    for (int i = 0; i < w->setup.servers; i++) {
        et_message pull = message_of(w, ET_MESSAGE_PULL);
        pull.number = w->version;
        pull.value[0] = w->before;
        et_asking_begin(&w->server[i], w->setup.link, now, 1 + i, &pull);
    }
}

static void take_values(et_worker *w, const et_message *message)
{
    int server = message->from - 1;
    if (message->size != w->setup.floats[server] * sizeof(float) || message->number < w->version ||
        !et_asking_takes(&w->server[server], message))
        return;
    w->setup.pulled(w->setup.self, server, message->bytes);
    if (--w->left == 0)
        w->phase = ET_WORKER_COMPUTES;
}

static void take_staged(et_worker *w, double now, const et_message *message)
{
    int server = message->from - 1;
    if (message->number != w->ticket || !et_asking_takes(&w->server[server], message))
        return;
    w->squares += message->value[0];
    if (--w->left == 0)
        ask(w, now, w->ticket);
}

static void take_refusal(et_worker *w, const et_message *message)
{
    char why[ET_MESSAGE_TEXT + 1] = "";
    et_asking *asking =
        message->from == ET_TASK_MASTER ? &w->master : &w->server[message->from - 1];
    if (message->size > ET_MESSAGE_TEXT || !et_asking_takes(asking, message))
        return;
    memcpy(why, message->bytes, message->size);
    end(w, why);
}

static void stop(et_worker *w, const et_message *message)
{
    et_message bye = message_of(w, ET_MESSAGE_BYE);
    bye.number = (int64_t)w->setup.nonce;
    if (message->extra != (int64_t)w->setup.nonce)
        return;
    et_link_send(w->setup.link, ET_TASK_MASTER, &bye);
    end(w, "");
}

static void receive_master(et_worker *w, double now, const et_message *message)
{
    switch (message->kind) {
    case ET_MESSAGE_WELCOME:
        if (w->phase == ET_WORKER_JOINS)
            welcome(w, now, message);
        break;
    case ET_MESSAGE_GO:
        if (w->phase == ET_WORKER_ASKS)
            go(w, now, message);
        break;
    case ET_MESSAGE_STOP:
        stop(w, message);
        break;
    case ET_MESSAGE_REFUSED:
        take_refusal(w, message);
        break;
    default:
        break;
    }
}

void et_worker_receive(et_worker *w, double now, const et_message *message)
{
    sane(w);
    const bool before = message->kind == ET_MESSAGE_WELCOME || message->kind == ET_MESSAGE_STOP ||
                        message->kind == ET_MESSAGE_REFUSED;
    const bool ours = message->run == w->run && message->session == w->session;
    if (w->phase == ET_WORKER_ENDED || !(before || ours))
        return;
    if (message->from == ET_TASK_MASTER)
        receive_master(w, now, message);
    else if (message->from > w->setup.servers)
        return;
    else if (message->kind == ET_MESSAGE_VALUES && w->phase == ET_WORKER_PULLS)
        take_values(w, message);
    else if (message->kind == ET_MESSAGE_STAGED && w->phase == ET_WORKER_PUSHES)
        take_staged(w, now, message);
    else if (message->kind == ET_MESSAGE_REFUSED)
        take_refusal(w, message);
}

static void ask_again(et_worker *w, et_asking *asking, double now)
{
    char why[120];
    et_asking_tick(asking, w->setup.link, now);
    if (!asking->waiting || now - asking->begun < w->setup.patience)
        return;
    if (asking->to == ET_TASK_MASTER)
        snprintf(why, sizeof why, "the master has not answered for %.0f seconds",
                 w->setup.patience);
    else
        snprintf(why, sizeof why, "server %d has not answered for %.0f seconds", asking->to - 1,
                 w->setup.patience);
    end(w, why);
}

/* A master that validates, or waits for other tasks, may take long. So the worker repeats its
 * question without limit, and the transport decides whether the master lives. */
void et_worker_tick(et_worker *w, double now)
{
    sane(w);
    if (w->phase == ET_WORKER_JOINS)
        ask_again(w, &w->master, now);
    else if (w->phase == ET_WORKER_ASKS)
        et_asking_tick(&w->master, w->setup.link, now);
    bool talks = w->phase == ET_WORKER_PULLS || w->phase == ET_WORKER_PUSHES;
    for (int i = 0; talks && i < w->setup.servers; i++)
        ask_again(w, &w->server[i], now);
}

void et_worker_computed(et_worker *w, double now, const float *const *gradients, const void *report)
{
    sane(w);
    et_assert(w->phase == ET_WORKER_COMPUTES);
    memcpy(w->report, report, w->setup.report_size);
    w->left = w->setup.servers;
    w->squares = 0;
    w->phase = ET_WORKER_PUSHES;
    for (int i = 0; i < w->setup.servers; i++) {
        et_message push = message_of(w, ET_MESSAGE_PUSH);
        push.number = w->ticket;
        push.bytes = gradients[i];
        push.size = w->setup.floats[i] * sizeof(float);
        et_asking_begin(&w->server[i], w->setup.link, now, 1 + i, &push);
    }
}

/* ---- the task ---- */

/* A worker: copies the servers' weights into the task trainer's store, and sends gradients and sums
 * of a step to the servers. A step allocates nothing. */

typedef struct worker {
    et_task_trainer *trainer; /* borrowed */
    const et_cluster_options *options;
    int index;
    et_cluster_plan plan;
    et_worker worker;
    et_wire *wire;
    et_arena arena;
    float **gradient;      /* [servers], in arena */
    unsigned char *report; /* in arena */
    et_step_hooks hooks;   /* of the trainer's step, which the worker's replace */
    int64_t skip;          /* batches of others before the next of ours */
    int pulled;            /* servers whose are */
    double since;          /* the last gradient, or the first weights; 0: neither */
    int status;            /* of a failure in a callback, which cannot return one */
    et_error error;
} worker;

static void pulled(void *self, int server, const void *weights)
{
    worker *w = self;
    et_params *params = w->trainer->params;
    if (!w->pulled)
        et_params_begin_change(params);
    et_placement_scatter(&w->plan.placement, params, server, weights, et_params_values(params));
    if (++w->pulled < w->plan.servers)
        return;
    w->pulled = 0;
    et_params_changed(params, true);
}

/* A new worker skips the data of earlier workers; a resumed worker has its own position. */
static void welcomed(void *self, const void *bytes, const void *variables)
{
    worker *w = self;
    et_params *params = w->trainer->params;
    et_cluster_position position;
    memcpy(&position, bytes, sizeof position);
    if (position.count < 0 || position.count > ET_POSITION_MAX)
        position.count = 0;
    w->status = et_cluster_seek(w->trainer->source, &position, &w->error);
    memcpy(et_params_values(params) + et_params_trained_size(params), variables,
           w->plan.variables_size);
    w->skip = position.own ? w->plan.workers - 1 : w->index;
}

/* In place of et_source_next. */
static int next_batch(void *self, et_source *source, et_batch *batch, et_error *error)
{
    worker *w = self;
    int status = ET_OK;
    for (int64_t i = 0; !status && i <= w->skip; i++)
        status = w->hooks.next ? w->hooks.next(w->hooks.self, source, batch, error)
                               : et_source_next(source, batch, error);
    w->skip = w->plan.workers - 1;
    return status;
}

static int seen_batch(void *self, et_step *step, et_error *error)
{
    const worker *w = self;
    return w->hooks.seen(w->hooks.self, step, error);
}

/* sum NULL: not finite. A batch without rows weighs next to nothing. */
static void write_report(worker *w, const et_reduced *sum)
{
    const et_step *step = &w->trainer->step;
    et_cluster_facts facts = { sum ? fmax(sum->divisor, ET_CLUSTER_DIVISOR_MIN) : 0,
                               sum ? sum->loss : NAN, (double)step->units,
                               (double)(step->batch->epoch + 1) };
    et_cluster_position position = et_cluster_position_of(w->trainer->source, true);
    unsigned char *at = w->report;
    memset(at, 0, w->plan.report_size);
    memcpy(at, &facts, sizeof facts);
    at += sizeof facts;
    for (int i = 0; i < w->plan.measures; i++, at += 2 * sizeof(double)) {
        double both[2] = { sum ? sum->measured[i].total : 0, sum ? sum->measured[i].weight : 0 };
        memcpy(at, both, sizeof both);
    }
    for (int64_t i = 0; i < w->plan.means; i++, at += sizeof(double)) {
        double mean = sum ? (double)sum->means[i] : 0;
        memcpy(at, &mean, sizeof mean);
    }
    if (sum)
        et_metrics_copy_settled(w->trainer->metrics.pending, at);
    memcpy(at + w->plan.metrics_size, &position, sizeof position);
}

static bool is_finite(const worker *w)
{
    for (int s = 0; s < w->plan.servers; s++) {
        float sum = 0; /* 0 times a value: NaN if the value is NaN or infinite */
        for (int64_t i = 0; i < w->plan.placement.floats[s]; i++)
            sum += 0 * w->gradient[s][i];
        if (sum != 0)
            return false;
    }
    return true;
}

static int compute(worker *w, et_error *error)
{
    et_task_trainer *t = w->trainer;
    et_reduced sum;
    w->since = w->since > 0 ? w->since : et_clock_monotonic();
    t->trainer.step = w->worker.ticket - 1;
    int status = et_task_trainer_gather(t, &sum, error);
    bool finite = !status;
    if (status && status != ET_EDIVERGED)
        return status;
    if (finite)
        et_params_clear_held(t->params, sum.gradient);
    for (int s = 0; finite && s < w->plan.servers; s++)
        et_placement_gather(&w->plan.placement, t->params, s, sum.gradient, w->gradient[s]);
    finite = finite && is_finite(w);
    write_report(w, finite ? &sum : NULL);
    et_worker_computed(&w->worker, et_clock_monotonic(), (const float *const *)w->gradient,
                       w->report);
    const double now = et_clock_monotonic();
    if (w->options->computed)
        w->options->computed(w->options->listener, w->trainer->step.units, now - w->since);
    w->since = now;
    return ET_OK;
}

static int open_worker(worker *w, et_error *error)
{
    w->index = (int)et_job_config_task(w->options->config)->index;
    int status;
    if ((status = et_cluster_plan_make(&w->plan, w->trainer, w->options, error)) ||
        (status = et_cluster_connect(&w->wire, w->options, &w->plan, error)))
        return status;
    w->report = et_arena_alloc(&w->arena, w->plan.report_size);
    w->gradient = et_arena_array(&w->arena, w->plan.servers, sizeof *w->gradient);
    for (int s = 0; w->gradient && s < w->plan.servers; s++)
        w->gradient[s] = et_arena_array(&w->arena, w->plan.placement.floats[s], sizeof(float));
    if (w->arena.failed)
        return et_alloc_failed(error, "a worker");
    et_worker_setup setup = { .link = et_wire_link(w->wire),
                              .servers = w->plan.servers,
                              .index = w->index,
                              .floats = w->plan.placement.floats,
                              .report_size = w->plan.report_size,
                              .position_size = sizeof(et_cluster_position),
                              .greeting_size = w->plan.variables_size,
                              .nonce = (uint64_t)(et_clock_wall() * 1e9),
                              .fingerprint = w->plan.fingerprint,
                              .patience = w->options->patience,
                              .self = w,
                              .pulled = pulled,
                              .welcomed = welcomed };
    w->trainer->step.parts.hooks =
        (et_step_hooks){ .self = w, .next = next_batch, .seen = w->hooks.seen ? seen_batch : NULL };
    return et_worker_open(&w->worker, &setup, error);
}

static int work(worker *w, et_error *error)
{
    et_worker_start(&w->worker, et_clock_monotonic());
    while (w->worker.phase != ET_WORKER_ENDED) {
        et_message message;
        bool got;
        int status = et_wire_receive(w->wire, 0.2, &message, &got, error);
        if (!status && got)
            et_worker_receive(&w->worker, et_clock_monotonic(), &message);
        et_worker_tick(&w->worker, et_clock_monotonic());
        if (!status && w->worker.phase == ET_WORKER_COMPUTES)
            status = compute(w, error);
        if (!status && w->status)
            status = et_fail(error, w->status, "%s", w->error.text);
        if (!status && et_wire_alone(w->wire, 0) > w->options->patience)
            status = et_fail(error, ET_EIO, "the master has not answered for %.0f seconds",
                             w->options->patience);
        if (status)
            return status;
    }
    return w->worker.lost[0] ? et_fail(error, ET_EIO, "%s", w->worker.lost) : ET_OK;
}

int et_cluster_work(et_task_trainer *trainer, const et_cluster_options *options, et_error *error)
{
    worker w = { .trainer = trainer,
                 .options = options,
                 .hooks = trainer->step.parts.hooks,
                 .error = ET_ERROR_INIT };
    int status = open_worker(&w, error);
    if (!status)
        status = work(&w, error);
    trainer->step.parts.hooks = w.hooks;
    et_worker_release(&w.worker);
    et_wire_close(w.wire);
    et_arena_release(&w.arena);
    et_cluster_plan_release(&w.plan);
    return status;
}
