#include "roles/worker.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* `left` counts the servers that owe an answer; it is above 0 exactly while values are pulled or a
 * gradient is pushed. */
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
    worker->server = et_alloc_zero(servers, sizeof *worker->server);
    worker->report = et_alloc_zero(1, setup->report_size);
    int64_t *floats = et_alloc(servers, sizeof *floats);
    worker->setup.floats = floats;
    if (!worker->server || !worker->report || !floats)
        return et_alloc_failed(error, servers * sizeof *floats, "a worker");
    memcpy(floats, setup->floats, servers * sizeof *floats);
    return ET_OK;
}

void et_worker_release(et_worker *worker)
{
    et_free(worker->server);
    et_free(worker->report);
    et_free((int64_t *)worker->setup.floats);
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

/* ticket 0: nothing was done yet. */
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
    if (message->size != (size_t)w->setup.floats[server] * sizeof(float) ||
        message->number < w->version || !et_asking_takes(&w->server[server], message))
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

/* A master that validates, or a gate that waits for others, may take long: its answer is requested
 * again without limit. The transport decides whether it lives. */
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
        push.size = (size_t)w->setup.floats[i] * sizeof(float);
        et_asking_begin(&w->server[i], w->setup.link, now, 1 + i, &push);
    }
}
