/* The master of a cluster. After each call:
 *
 *   (1) all servers answer the same question at a time: asked is its kind while `left` servers
 *       owe an answer, and NONE afterwards. So all servers have the same version, except during
 *       APPLY;
 *   (2) a ticket belongs to one session. Numbers of sessions and tickets only increase; results
 *       of an older one are refused or have no effect;
 *   (3) part[0 .. parts - 1] are the workers whose gradients ADD or APPLY lists, while the
 *       question is open; reports[0 .. added - 1] are the gradients that servers have added to
 *       update version + 1;
 *   (4) after FAILED nothing is sent and nothing is accepted. */
#include "roles/master.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "roles/param_server.h"

/* Batches differ in size and machines are shared. A ticket that takes this many times as long as
 * the slowest one so far counts as lost with its worker. */
#define SLOWER 10

static void sane_worker(const et_master *c, int index)
{
    const et_master_worker *w = &c->worker[index];
    et_assert(w->session <= c->session && w->ticket <= c->ticket);
    et_assert(w->version <= c->version);
    et_assert(w->standing != ET_STANDING_WORKS || w->ticket);
    et_assert(w->session || w->standing == ET_STANDING_AWAY);
    et_assert(w->took >= 0 && w->took <= c->slowest);
}

/* The invariants of this file's head, between calls. */
static void sane(const et_master *c)
{
    const et_master_setup *s = &c->setup;
    const bool updating = c->asked == ET_MESSAGE_ADD || c->asked == ET_MESSAGE_APPLY;
    et_assert((c->left > 0) == (c->asked != ET_MESSAGE_NONE));
    et_assert(c->left >= 0 && c->left <= s->servers);
    et_assert((c->asked == ET_MESSAGE_ADMIT) == (c->admitting >= 0));
    et_assert(c->admitting < s->workers);
    et_assert(c->adds.parts >= 0 && c->adds.parts <= s->workers);
    et_assert((c->adds.parts > 0) <= updating);
    et_assert(c->update.added >= 0 && c->update.added + c->adds.parts <= c->update.most);
    et_assert(c->version >= s->version && c->ticket >= s->version * s->gradients);
    et_assert(!c->status || c->phase == ET_MASTER_FAILED);
    for (int i = 0; i < s->workers; i++)
        sane_worker(c, i);
    for (int k = 0; k < c->adds.parts; k++)
        et_assert(c->adds.part[k] >= 0 && c->adds.part[k] < s->workers);
}

int et_master_open(et_master *master, const et_master_setup *setup, et_error *error)
{
    size_t servers = (size_t)setup->servers, workers = (size_t)setup->workers;
    et_assert(setup->run && setup->servers >= 1 && setup->workers >= 1);
    et_assert(setup->gradients >= 1);
    *master = (et_master){ .setup = *setup,
                           .version = setup->version,
                           .target = setup->version,
                           .ticket = setup->version * setup->gradients,
                           .update.most = setup->synchronous ? setup->workers : setup->gradients,
                           .admitting = -1 };
    const size_t most = (size_t)master->update.most;
    et_arena *arena = &master->arena;
    int64_t *state = et_arena_array(arena, servers, sizeof *state);
    master->setup.state = state;
    master->server = et_arena_array(arena, servers, sizeof *master->server);
    master->adds.push = et_arena_array(arena, workers, sizeof *master->adds.push);
    master->adds.part = et_arena_array(arena, workers, sizeof *master->adds.part);
    master->update.reports = et_arena_array(arena, most, sizeof *master->update.reports);
    master->update.kept = et_arena_array(arena, most, setup->report_size);
    master->worker = et_arena_array(arena, workers, sizeof *master->worker);
    master->greeting = et_arena_alloc(arena, setup->position_size + setup->greeting_size);
    for (int i = 0; master->worker && i < setup->workers; i++) {
        master->worker[i].report = et_arena_alloc(arena, setup->report_size);
        master->worker[i].at = et_arena_alloc(arena, setup->position_size);
    }
    if (arena->failed)
        return et_alloc_failed(error, "a master");
    memcpy(state, setup->state, servers * sizeof *state);
    return ET_OK;
}

void et_master_release(et_master *master)
{
    et_arena_release(&master->arena);
    *master = (et_master){ 0 };
}

static void fail(et_master *c, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void fail(et_master *c, int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(c->failure, sizeof c->failure, format, arguments);
    va_end(arguments);
    c->status = status;
    c->phase = ET_MASTER_FAILED;
}

/* ---- servers ---- */

static void ask_all(et_master *c, double now, et_message message)
{
    et_assert(!c->asked && !c->left);
    c->asked = message.kind;
    c->left = c->setup.servers;
    message.from = ET_TASK_MASTER;
    message.run = c->setup.run;
    message.sequence = ++c->sequence;
    for (int i = 0; i < c->setup.servers; i++) {
        if (message.kind == ET_MESSAGE_OPEN) {
            message.bytes = c->setup.state_of(c->setup.self, i);
            message.size = c->setup.state[i] * sizeof(float);
        }
        et_asking_begin(&c->server[i], c->setup.link, now, 1 + i, &message);
    }
}

static void ask_update(et_master *c, double now, et_message_kind kind)
{
    et_message message = { .kind = kind,
                           .number = c->version + 1,
                           .value = { 1 / c->update.divisor, c->update.norm },
                           .bytes = c->adds.push,
                           .size = c->adds.parts * sizeof *c->adds.push };
    if (kind == ET_MESSAGE_ADD)
        c->update.squares = 0;
    ask_all(c, now, message);
}

static void begin_apply(et_master *c, double now)
{
    c->update.norm = sqrt(c->update.squares) / c->update.divisor;
    ask_update(c, now, ET_MESSAGE_APPLY);
}

/* Servers have added the parts: their workers may continue, and the workers' reports are kept. */
static void take_parts(et_master *c)
{
    const size_t size = c->setup.report_size, position = c->setup.position_size;
    for (int k = 0; k < c->adds.parts; k++) {
        et_master_worker *w = &c->worker[c->adds.part[k]];
        unsigned char *kept = c->update.kept + (size_t)c->update.added * size;
        memcpy(kept, w->report, size);
        memcpy(w->at, w->report + size - position, position);
        c->update.reports[c->update.added++] =
            (et_master_report){ c->adds.part[k], c->version - w->version, kept };
        if (w->standing == ET_STANDING_DONE)
            w->standing = ET_STANDING_ASKS;
    }
    c->adds.parts = 0;
}

static bool is_whole(const et_master *c, int64_t gradients)
{
    return c->setup.synchronous || gradients == c->setup.gradients;
}

/* All servers have finished the request. */
static void all_done(et_master *c, double now)
{
    const et_message_kind asked = c->asked;
    c->asked = ET_MESSAGE_NONE;
    switch (asked) {
    case ET_MESSAGE_OPEN:
        c->phase = ET_MASTER_WORKS;
        break;
    case ET_MESSAGE_ADMIT:
        c->worker[c->admitting].admitted = true;
        c->admitting = -1;
        break;
    case ET_MESSAGE_READ:
        c->wants_state = false;
        break;
    case ET_MESSAGE_ADD:
        take_parts(c);
        if (is_whole(c, c->update.added))
            begin_apply(c, now);
        break;
    case ET_MESSAGE_APPLY:
        take_parts(c);
        c->version++;
        c->setup.updated(c->setup.self, c->update.reports, (int)c->update.added, c->update.norm);
        c->update.added = 0;
        c->update.divisor = 0;
        break;
    case ET_MESSAGE_END:
        c->phase = ET_MASTER_ENDED;
        break;
    default:
        break;
    }
}

static void receive_server(et_master *c, double now, const et_message *message)
{
    int server = message->from - 1;
    et_asking *asking = &c->server[server];
    bool state = message->kind == ET_MESSAGE_STATE;
    size_t size = state ? c->setup.state[server] * sizeof(float) : 0;
    if (message->run != c->setup.run)
        return;
    if (message->kind == ET_MESSAGE_REFUSED) {
        char why[ET_MESSAGE_TEXT + 1] = "";
        if (!et_asking_takes(asking, message) || message->size > ET_MESSAGE_TEXT)
            return;
        memcpy(why, message->bytes, message->size);
        fail(c, et_refusal_status(message), "server %d: %s", server, why);
        return;
    }
    if ((!state && message->kind != ET_MESSAGE_DONE) || message->size != size ||
        state != (asking->message.kind == ET_MESSAGE_READ) || !et_asking_takes(asking, message))
        return;
    if (state)
        c->setup.state_read(c->setup.self, server, message->bytes);
    if (c->asked == ET_MESSAGE_ADD)
        c->update.squares += message->value[0];
    if (--c->left == 0)
        all_done(c, now);
}

/* ---- workers ---- */

static void answer(et_master *c, et_master_worker *w, et_message message)
{
    message.from = ET_TASK_MASTER;
    message.run = c->setup.run;
    message.session = w->session;
    w->owed = false;
    w->answer = message;
    w->answer.sequence = w->question.sequence;
    et_link_answer(c->setup.link, &w->question, message);
}

static void stop_worker(et_master *c, const et_message *question, uint64_t nonce)
{
    et_message message = { .kind = ET_MESSAGE_STOP,
                           .from = ET_TASK_MASTER,
                           .run = c->setup.run,
                           .extra = (int64_t)nonce };
    et_link_answer(c->setup.link, question, message);
}

static void welcome(et_master *c, et_master_worker *w)
{
    memcpy(c->greeting, w->at, c->setup.position_size);
    if (c->setup.greeting_size)
        c->setup.greet(c->setup.self, c->greeting + c->setup.position_size);
    answer(c, w,
           (et_message){ .kind = ET_MESSAGE_WELCOME,
                         .bytes = c->greeting,
                         .size = c->setup.position_size + c->setup.greeting_size });
}

static const char taken[] = "a worker with the same number was started later";

static void greet(et_master *c, int index, const et_message *message)
{
    et_master_worker *w = &c->worker[index];
    uint64_t nonce = (uint64_t)message->number;
    if (message->extra != (int64_t)c->setup.fingerprint) {
        et_link_refuse(c->setup.link, message, ET_TASK_MASTER, ET_ECONFIG,
                       "model or settings of master and worker differ: start all tasks with the "
                       "same command");
        return;
    }
    if (!nonce || nonce < w->nonce) {
        et_link_refuse(c->setup.link, message, ET_TASK_MASTER, ET_EUSAGE, taken);
        return;
    }
    if (w->session && nonce == w->nonce) { /* a repeated JOIN: its WELCOME was lost */
        w->question.via = message->via;
        bool welcomed =
            w->answer.kind == ET_MESSAGE_WELCOME && w->answer.sequence == message->sequence;
        if (welcomed && w->admitted && w->standing == ET_STANDING_AWAY)
            welcome(c, w);
        return;
    }
    if (c->admitting == index) /* a repeated JOIN */
        return;
    w->nonce = nonce;
    w->session = ++c->session;
    w->admitted = false;
    w->took = 0;
    w->standing = ET_STANDING_AWAY;
    w->question = *message;
    w->question.bytes = NULL;
    w->answer.kind = 0;
    w->owed = true;
}

/* Ignores a ticket that was taken back, or that belonged to an earlier worker. */
static void take_report(et_master *c, double now, int index, const et_message *message)
{
    et_master_worker *w = &c->worker[index];
    bool counts = w->standing == ET_STANDING_WORKS && message->number == w->ticket && w->ticket;
    w->standing = ET_STANDING_ASKS;
    if (!counts)
        return;
    w->done = now;
    w->took = now - w->given;
    c->slowest = fmax(c->slowest, w->took);
    memcpy(w->report, message->bytes, c->setup.report_size);
    w->squares = message->value[0];
    double divisor = c->setup.divisor(c->setup.self, w->report);
    if (isfinite(w->squares) && w->squares >= 0 && divisor > 0 && isfinite(divisor))
        w->standing = ET_STANDING_DONE;
    else
        fail(c, ET_EDIVERGED, "worker %d: its gradient is not finite", index);
}

static void listen(et_master *c, double now, int index, const et_message *message)
{
    et_master_worker *w = &c->worker[index];
    if (message->run != c->setup.run || message->session > w->session || !message->session)
        return;
    if (message->session < w->session) {
        et_link_refuse(c->setup.link, message, ET_TASK_MASTER, ET_EUSAGE, taken);
        return;
    }
    if (w->standing == ET_STANDING_DONE && message->sequence > w->question.sequence)
        return;
    if (message->sequence < w->question.sequence || message->size != c->setup.report_size)
        return;
    if (message->sequence == w->question.sequence) {
        w->question.via = message->via;
        if (!w->owed && w->answer.kind)
            et_link_answer(c->setup.link, message, w->answer);
        return;
    }
    w->question = *message;
    w->question.bytes = NULL;
    w->owed = true;
    take_report(c, now, index, message);
}

static void receive_worker(et_master *c, double now, const et_message *message)
{
    int index = message->from - 1 - c->setup.servers;
    if (index >= c->setup.workers)
        return;
    et_master_worker *w = &c->worker[index];
    bool over = c->phase == ET_MASTER_ENDED;
    if (message->kind == ET_MESSAGE_BYE) {
        if (over && (uint64_t)message->number == w->nonce)
            w->standing = ET_STANDING_AWAY, w->session = 0;
    } else if (message->kind == ET_MESSAGE_HELLO) {
        if (over)
            stop_worker(c, message, (uint64_t)message->number);
        else
            greet(c, index, message);
    } else if (message->kind == ET_MESSAGE_ASK) {
        if (over && message->session == w->session)
            stop_worker(c, message, w->nonce);
        else if (!over)
            listen(c, now, index, message);
    }
}

void et_master_receive(et_master *master, double now, const et_message *message)
{
    sane(master);
    if (master->phase == ET_MASTER_FAILED || message->from == ET_TASK_MASTER)
        return;
    if (message->from <= master->setup.servers)
        receive_server(master, now, message);
    else
        receive_worker(master, now, message);
}

/* ---- choosing the next tickets and updates ---- */

/* Whether a worker's gradient is still expected, or has arrived and is not yet part of the servers'
 * question. */
static bool is_out(const et_master *c, int worker)
{
    et_standing standing = c->worker[worker].standing;
    for (int k = 0; k < c->adds.parts; k++)
        if (c->adds.part[k] == worker)
            return false;
    return standing == ET_STANDING_WORKS || standing == ET_STANDING_DONE;
}

/* The number of updates before the update of a gradient, if `before` other gradients come first. */
static int64_t updates_before(const et_master *c, int64_t before)
{
    return (c->update.added + c->adds.parts + before) / c->setup.gradients;
}

/* Whether all others that are out could still be in time if `worker` went first: they are parts of
 * updates in order of age. */
static bool may_go_first(const et_master *c, int worker)
{
    for (int i = 0; i < c->setup.workers; i++) {
        const et_master_worker *w = &c->worker[i];
        int64_t before = 1;
        if (i == worker || !is_out(c, i))
            continue;
        for (int k = 0; k < c->setup.workers; k++) {
            const et_master_worker *o = &c->worker[k];
            before += k != worker && k != i && is_out(c, k) &&
                      (o->version < w->version || (o->version == w->version && k < i));
        }
        if (c->version + updates_before(c, before) - w->version > c->setup.max_staleness)
            return false;
    }
    return true;
}

static void add_part(et_master *c, int worker)
{
    const et_master_worker *w = &c->worker[worker];
    c->adds.part[c->adds.parts] = worker;
    c->adds.push[c->adds.parts++] = (et_param_server_push){ worker, w->session, w->ticket };
    c->update.divisor += c->setup.divisor(c->setup.self, w->report);
    c->update.squares += w->squares;
}

/* Chooses the oldest finished ones that may go; synchronous: all, once no worker computes. */
static void choose_parts(et_master *c)
{
    int first = -1;
    c->update.squares = 0;
    for (int i = 0; i < c->setup.workers; i++) {
        const et_master_worker *w = &c->worker[i];
        if (c->setup.synchronous && w->standing == ET_STANDING_WORKS)
            return;
        if (!c->setup.synchronous && w->standing == ET_STANDING_DONE && may_go_first(c, i) &&
            (first < 0 || w->ticket < c->worker[first].ticket))
            first = i;
    }
    if (first >= 0)
        add_part(c, first);
    for (int i = 0; c->setup.synchronous && i < c->setup.workers; i++)
        if (c->worker[i].standing == ET_STANDING_DONE)
            add_part(c, i);
}

static void ask_next(et_master *c, double now)
{
    for (int i = 0; i < c->setup.workers && !c->ends; i++)
        if (c->worker[i].session && !c->worker[i].admitted) {
            c->admitting = i;
            ask_all(c, now,
                    (et_message){ .kind = ET_MESSAGE_ADMIT,
                                  .number = i,
                                  .extra = (int64_t)c->worker[i].session });
            return;
        }
    if (c->wants_state) {
        ask_all(c, now, (et_message){ .kind = ET_MESSAGE_READ });
    } else if (c->ends) {
        c->phase = ET_MASTER_ENDS;
        ask_all(c, now, (et_message){ .kind = ET_MESSAGE_END });
    } else if (c->version < c->target) {
        choose_parts(c);
        if (c->adds.parts == 1 && !c->update.added && is_whole(c, 1)) /* its norm is known */
            begin_apply(c, now);
        else if (c->adds.parts)
            ask_update(c, now, ET_MESSAGE_ADD);
    }
}

/* The number of updates before the update of a ticket that is given now. */
static int64_t updates_till_next(const et_master *c)
{
    int out = 0;
    for (int i = 0; i < c->setup.workers; i++)
        out += is_out(c, i);
    return c->setup.synchronous ? 0 : updates_before(c, out);
}

static bool may_start(const et_master *c)
{
    int64_t before = updates_till_next(c);
    if (c->ends || c->version + before >= c->setup.steps)
        return false;
    bool updating = c->asked == ET_MESSAGE_ADD || c->asked == ET_MESSAGE_APPLY;
    return c->setup.synchronous ? !updating : before <= c->setup.max_staleness;
}

/* Whether a worker must wait for the end of the current update, because its gradient would be too
 * late for it. If an update takes fewer gradients than there are workers, some workers are late in
 * any case. */
static bool waits(const et_master *c, const et_master_worker *w, double now)
{
    int64_t usual = (et_master_present(c) - 1) / c->setup.gradients;
    return updates_till_next(c) > usual && now < w->done + c->setup.waits * w->took;
}

static void give_tickets(et_master *c, double now)
{
    for (int i = 0; i < c->setup.workers; i++) {
        et_master_worker *w = &c->worker[i];
        if (!w->session || !w->admitted || !w->owed)
            continue;
        if (w->standing == ET_STANDING_AWAY) {
            welcome(c, w);
        } else if (w->standing == ET_STANDING_ASKS && may_start(c) && !waits(c, w, now)) {
            double before = (double)updates_till_next(c);
            w->ticket = ++c->ticket;
            w->version = c->version;
            w->given = now;
            w->standing = ET_STANDING_WORKS;
            answer(c, w,
                   (et_message){ .kind = ET_MESSAGE_GO,
                                 .number = w->ticket,
                                 .extra = w->version,
                                 .value = { before } });
        }
    }
}

double et_master_usual(const et_master *master)
{
    return fmax(master->setup.patience, SLOWER * master->slowest);
}

void et_master_start(et_master *master, double now)
{
    sane(master);
    master->phase = ET_MASTER_OPENS;
    ask_all(master, now,
            (et_message){ .kind = ET_MESSAGE_OPEN,
                          .number = master->version,
                          .extra = (int64_t)master->setup.fingerprint,
                          .value = { (double)master->setup.slots_from } });
}

void et_master_tick(et_master *master, double now)
{
    sane(master);
    /* Workers that wait for a server get only this message. */
    if (master->phase == ET_MASTER_ENDED && now >= master->reported + ET_ASKING_PAUSE) {
        master->reported = now;
        for (int i = 0; i < master->setup.workers; i++)
            if (master->worker[i].session)
                stop_worker(master, &master->worker[i].question, master->worker[i].nonce);
    }
    if (master->phase == ET_MASTER_FAILED || master->phase == ET_MASTER_ENDED)
        return;
    for (int i = 0; i < master->setup.servers; i++) {
        et_asking *asking = &master->server[i];
        et_asking_tick(asking, master->setup.link, now);
        if (asking->waiting && now - asking->begun > master->setup.patience)
            fail(master, ET_EIO, "server %d has not answered for %.0f seconds", i,
                 master->setup.patience);
    }
    if (master->phase != ET_MASTER_WORKS)
        return;
    /* The setting `lease`, or the usual time if that is shorter and known. */
    const double usual = et_master_usual(master), most = master->setup.lease;
    const double lease = master->slowest > 0 && usual < most ? usual : most;
    for (int i = 0; i < master->setup.workers; i++)
        if (master->worker[i].standing == ET_STANDING_WORKS &&
            now > master->worker[i].given + lease)
            master->worker[i].standing = ET_STANDING_AWAY;
    if (!master->left)
        ask_next(master, now);
    if (master->phase == ET_MASTER_WORKS)
        give_tickets(master, now);
}

void et_master_read(et_master *master)
{
    master->wants_state = true;
}

void et_master_end(et_master *master)
{
    master->ends = true;
}

int et_master_present(const et_master *master)
{
    int count = 0;
    for (int i = 0; i < master->setup.workers; i++)
        count += master->worker[i].session != 0;
    return count;
}
