/* The whole protocol of master, workers and servers by simulation: a virtual clock, and a transport
 * that drops, delays (and so reorders), repeats and damages messages, kills and restarts workers,
 * and stops them for a while; all from a seed, which a failure prints. A gradient consists of whole
 * numbers that depend on its ticket, so sums are exact, and the final weights show whether each
 * update was done once, completely, and equally on all servers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roles/chance.h"
#include "roles/master.h"
#include "roles/worker.h"

enum {
    SERVERS_MAX = 3,
    WORKERS_MAX = 4,
    FLOATS = 5,
    EVENTS_MAX = 4096,
    STEPS_MAX = 40,
    GRADIENTS_MAX = 6
};

#define REPORT_SIZE (2 * sizeof(double) + sizeof(int64_t))

typedef struct event {
    double at;
    int to;
    unsigned char *data;
    size_t size;
} event;

typedef struct node {
    et_link link;
    struct world *world;
} node;

typedef struct server {
    et_param_server param_server;
    float weights[FLOATS], slots[FLOATS];
    struct world *world;
    int index;
} server;

typedef struct worker {
    et_worker worker;
    bool alive, huge;
    double seconds; /* of a gradient; 0: drawn */
    double wakes;   /* when its gradient is computed; when it is started again */
    float got[SERVERS_MAX];
    int64_t position;
    uint64_t starts;
    struct world *world;
    int index;
} worker;

typedef struct world {
    uint64_t seed, random;
    double now;
    node node;
    int servers, workers, events, updates, faults, parts;
    bool synchronous, clean;
    double drop, damage, repeat, slow;
    event event[EVENTS_MAX];
    server server[SERVERS_MAX];
    worker worker[WORKERS_MAX];
    et_master master;
    float state[SERVERS_MAX][2 * FLOATS], expected[SERVERS_MAX][FLOATS];
    int64_t used[STEPS_MAX * GRADIENTS_MAX]; /* tickets */
    int used_count, states;
    int64_t staleness, gradients, most, late;
    double waits;
} world;

static uint64_t draw(world *w)
{
    return chance_draw(&w->random);
}

static double uniform(world *w)
{
    return chance_uniform(&w->random);
}

#define CHECK(w, condition)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %llu, %.3f s: %s", (unsigned long long)(w)->seed, (w)->now,             \
                     #condition);                                                                  \
    } while (0)

/* ---- transport ---- */

static void post(world *w, int to, const et_message *message)
{
    unsigned char *data = malloc(ET_MESSAGE_HEADER + message->size);
    CHECK(w, data && w->events < EVENTS_MAX);
    et_message_write(message, data);
    if (message->size)
        memcpy(data + ET_MESSAGE_HEADER, message->bytes, message->size);
    size_t size = ET_MESSAGE_HEADER + message->size;
    if (!w->clean && uniform(w) < w->damage) {
        w->faults++;
        if (uniform(w) < 0.3)
            size = (size_t)(uniform(w) * (double)size);
        else
            data[(size_t)(uniform(w) * (double)size)] ^= (unsigned char)(1u << (draw(w) & 7));
    }
    double delay = 0.001 + (uniform(w) < w->slow && !w->clean ? 3 * uniform(w) : 0.01 * uniform(w));
    w->event[w->events++] = (event){ w->now + delay, to, data, size };
}

static void send_message(et_link *self, int to, const et_message *message)
{
    world *w = ((node *)(void *)self)->world;
    if (!w->clean && uniform(w) < w->drop) {
        w->faults++;
        return;
    }
    post(w, to, message);
    if (!w->clean && uniform(w) < w->repeat) {
        w->faults++;
        post(w, to, message);
    }
}

static const et_link_class simulated = { "simulated", send_message, NULL };

/* ---- the trained values ---- */

static float gradient_of(int64_t ticket, int of, int i)
{
    return (float)((ticket * 7 + of * 3 + i) % 11 - 5);
}

static void weigh(void *self, float *weights)
{
    memcpy(weights, ((server *)self)->weights, sizeof((server *)self)->weights);
}

static void read_state(void *self, float *state)
{
    server *s = self;
    memcpy(state, s->weights, sizeof s->weights);
    memcpy(state + FLOATS, s->slots, sizeof s->slots);
}

static void write_state(void *self, const float *state, int64_t iterations, int64_t slots_from)
{
    server *s = self;
    CHECK(s->world, iterations == 3 && slots_from == 1);
    memcpy(s->weights, state, sizeof s->weights);
    memcpy(s->slots, state + FLOATS, sizeof s->slots);
}

static void update(void *self, float *gradient, double scale, double norm)
{
    server *s = self;
    CHECK(s->world, norm >= 0 && scale > 0 && scale <= 1);
    for (int i = 0; i < FLOATS; i++) {
        s->weights[i] += gradient[i];
        s->slots[i] += 1;
    }
}

static void pulled(void *self, int from, const void *weights)
{
    memcpy(&((worker *)self)->got[from], weights, sizeof(float));
}

static void welcomed(void *self, const void *position, const void *greeting)
{
    CHECK(((worker *)self)->world, !memcmp(greeting, "hello", 5));
    memcpy(&((worker *)self)->position, position, sizeof(int64_t));
}

static const float *state_of(void *self, int index)
{
    return ((world *)self)->state[index];
}

static void greet(void *self, unsigned char *greeting)
{
    (void)self;
    memcpy(greeting, "hello", 5);
}

static double divisor_of(void *self, const unsigned char *report)
{
    double both[2];
    (void)self;
    memcpy(both, report, sizeof both);
    return both[0];
}

static void updated(void *self, const et_master_report *reports, int count, double norm)
{
    world *w = self;
    w->updates++;
    CHECK(w, norm >= 0 && count >= 1 && (w->synchronous || count == w->gradients));
    for (int k = 0; k < count; k++) {
        double both[2];
        memcpy(both, reports[k].bytes, sizeof both);
        int64_t ticket = (int64_t)both[1];
        for (int i = 0; i < w->used_count; i++)
            CHECK(w, w->used[i] != ticket);
        w->used[w->used_count++] = ticket;
        w->most = reports[k].staleness > w->most ? reports[k].staleness : w->most;
        w->late += reports[k].staleness > 0;
        CHECK(w, reports[k].staleness >= 0 &&
                     reports[k].staleness <= (w->synchronous ? 0 : w->staleness));
        for (int s = 0; s < w->servers; s++)
            for (int i = 0; i < FLOATS; i++)
                w->expected[s][i] += gradient_of(ticket, s, i);
    }
}

static void state_read(void *self, int from, const void *state)
{
    world *w = self;
    memcpy(w->state[from], state, sizeof w->state[from]);
    w->states++;
}

/* ---- the world ---- */

static void start_worker(world *w, int i)
{
    static const int64_t floats[SERVERS_MAX] = { FLOATS, FLOATS, FLOATS };
    et_worker_setup setup = { .link = &w->node.link,
                              .servers = w->servers,
                              .index = i,
                              .floats = floats,
                              .report_size = REPORT_SIZE,
                              .position_size = sizeof(int64_t),
                              .greeting_size = 5,
                              .nonce = ++w->worker[i].starts * 1000000,
                              .fingerprint = 77,
                              .patience = 500,
                              .self = &w->worker[i],
                              .pulled = pulled,
                              .welcomed = welcomed };
    w->worker[i].alive = true;
    w->worker[i].wakes = 0;
    w->worker[i].position = -1;
    assert_int_equal(et_worker_open(&w->worker[i].worker, &setup, NULL), 0);
    et_worker_start(&w->worker[i].worker, w->now);
}

static void kill_worker(world *w, int i)
{
    et_worker_release(&w->worker[i].worker);
    w->worker[i].alive = false;
    w->worker[i].wakes = w->now + 20 * uniform(w);
    w->faults++;
    w->parts += w->master.update.added > 0;
}

static void compute(world *w, int i)
{
    worker *o = &w->worker[i];
    float values[SERVERS_MAX][FLOATS];
    const float *gradients[SERVERS_MAX];
    for (int s = 0; s < w->servers; s++) {
        gradients[s] = values[s];
        for (int k = 0; k < FLOATS; k++)
            values[s][k] = o->huge ? 3e38f : gradient_of(o->worker.ticket, s, k);
    }
    unsigned char report[REPORT_SIZE];
    double both[2] = { 1 + i, (double)o->worker.ticket };
    o->position++;
    memcpy(report, both, sizeof both);
    memcpy(report + sizeof both, &o->position, sizeof o->position);
    et_worker_computed(&o->worker, w->now, gradients, report);
    memset(report, 0, sizeof report);
    /* Gradients are borrowed until they are staged: they must still be there for a repeated
     * question. */
    for (int s = 0; s < w->servers; s++) {
        float *kept = malloc(sizeof values[s]);
        memcpy(kept, values[s], sizeof values[s]);
        o->worker.server[s].message.bytes = kept;
    }
}

/* What compute has kept. */
static void drop_kept(world *w, int i)
{
    for (int s = 0; s < w->servers; s++)
        if (w->worker[i].worker.server[s].message.kind == ET_MESSAGE_PUSH) {
            free((void *)w->worker[i].worker.server[s].message.bytes);
            w->worker[i].worker.server[s].message.kind = 0;
        }
}

static void step_worker(world *w, int i)
{
    worker *o = &w->worker[i];
    if (!o->alive) {
        if (o->wakes >= 0 && w->now >= o->wakes)
            start_worker(w, i);
        return;
    }
    if (o->worker.phase == ET_WORKER_ENDED)
        return;
    if (!w->clean && uniform(w) < 0.00005) {
        drop_kept(w, i);
        kill_worker(w, i);
        return;
    }
    if (o->worker.phase != ET_WORKER_COMPUTES) {
        if (o->worker.phase == ET_WORKER_ASKS)
            drop_kept(w, i);
        et_worker_tick(&o->worker, w->now);
        o->wakes = 0;
    } else if (!o->wakes && o->seconds > 0)
        o->wakes = w->now + o->seconds;
    else if (!o->wakes)
        o->wakes = w->now + 0.02 + 0.2 * uniform(w) + (uniform(w) < 0.02 && !w->clean ? 90 : 0);
    else if (w->now >= o->wakes)
        compute(w, i);
}

static void deliver(world *w, const event *e)
{
    et_message message;
    bool sound = et_message_read(&message, e->data, e->size);
    int index = e->to - 1;
    if (sound && e->to == ET_TASK_MASTER)
        et_master_receive(&w->master, w->now, &message);
    else if (sound && index < w->servers)
        et_param_server_receive(&w->server[index].param_server, &message);
    else if (sound && w->worker[index - w->servers].alive &&
             w->worker[index - w->servers].worker.phase != ET_WORKER_COMPUTES)
        et_worker_receive(&w->worker[index - w->servers].worker, w->now, &message);
    free(e->data);
}

static void deliver_due(world *w)
{
    for (;;) {
        int first = -1;
        for (int i = 0; i < w->events; i++)
            if (w->event[i].at <= w->now && (first < 0 || w->event[i].at < w->event[first].at))
                first = i;
        if (first < 0)
            return;
        event e = w->event[first];
        w->event[first] = w->event[--w->events];
        deliver(w, &e);
    }
}

static void advance(world *w)
{
    w->now += 0.01;
    deliver_due(w);
    et_master_tick(&w->master, w->now);
    CHECK(w, w->master.phase != ET_MASTER_FAILED);
    for (int i = 0; i < w->workers; i++)
        step_worker(w, i);
}

static void draw_world(world *w, uint64_t seed, bool clean)
{
    *w = (world){ .seed = seed, .random = seed * 2654435761u, .clean = clean };
    w->node = (node){ { &simulated }, w };
    w->servers = 1 + (int)(draw(w) % SERVERS_MAX);
    w->workers = 1 + (int)(draw(w) % WORKERS_MAX);
    w->synchronous = draw(w) % 4 == 0;
    w->staleness = (int64_t)(draw(w) % 5);
    w->gradients = draw(w) % 2 ? 1 : 1 + (int64_t)(draw(w) % GRADIENTS_MAX);
    w->waits = (double)(draw(w) % 3);
    w->drop = 0.2 * uniform(w);
    w->damage = 0.1 * uniform(w);
    w->repeat = 0.3 * uniform(w);
    w->slow = 0.2 * uniform(w);
}

static void build_world(world *w)
{
    static const int64_t state[SERVERS_MAX] = { 2 * FLOATS, 2 * FLOATS, 2 * FLOATS };
    for (int s = 0; s < w->servers; s++) {
        for (int i = 0; i < 2 * FLOATS; i++)
            w->state[s][i] = (float)(draw(w) % 100);
        memcpy(w->expected[s], w->state[s], sizeof w->expected[s]);
        w->server[s].world = w;
        w->server[s].index = s;
        et_param_server_store store = { &w->server[s], FLOATS,      2 * FLOATS, weigh,
                                        read_state,    write_state, update,     false };
        assert_int_equal(et_param_server_open(&w->server[s].param_server, &w->node.link, s,
                                              w->servers, w->workers, 77, &store, NULL),
                         0);
    }
    et_master_setup setup = { .link = &w->node.link,
                              .servers = w->servers,
                              .workers = w->workers,
                              .state = state,
                              .report_size = REPORT_SIZE,
                              .position_size = sizeof(int64_t),
                              .greeting_size = 5,
                              .run = w->seed + 1,
                              .fingerprint = 77,
                              .patience = 500,
                              .lease = 30,
                              .max_staleness = w->staleness,
                              .gradients = w->gradients,
                              .waits = w->waits,
                              .synchronous = w->synchronous,
                              .version = 3,
                              .slots_from = 1,
                              .steps = STEPS_MAX + 3,
                              .self = w,
                              .state_of = state_of,
                              .greet = greet,
                              .divisor = divisor_of,
                              .updated = updated,
                              .state_read = state_read };
    assert_int_equal(et_master_open(&w->master, &setup, NULL), 0);
    et_master_start(&w->master, w->now);
    for (int i = 0; i < w->workers; i++) {
        w->worker[i] = (worker){ .world = w, .index = i };
        w->worker[i].wakes = w->clean || i == 0 ? 0 : 10 * uniform(w);
    }
}

static void open_world(world *w, uint64_t seed, bool clean)
{
    draw_world(w, seed, clean);
    build_world(w);
}

static void close_world(world *w)
{
    for (int i = 0; i < w->workers; i++)
        if (w->worker[i].alive) {
            drop_kept(w, i);
            et_worker_release(&w->worker[i].worker);
        }
    for (int s = 0; s < w->servers; s++)
        et_param_server_release(&w->server[s].param_server);
    et_master_release(&w->master);
    while (w->events)
        free(w->event[--w->events].data);
}

/* Half of the steps, a state, the other half, a state, the end. */
static void run_world(world *w)
{
    double limit = w->clean ? 300 : 20000;
    for (int part = 1; part <= 2; part++) {
        w->master.target = 3 + part * STEPS_MAX / 2;
        while (w->master.version < w->master.target && w->now < limit)
            advance(w);
        CHECK(w, w->master.version == w->master.target);
        w->states = 0;
        et_master_read(&w->master);
        while (w->master.wants_state && w->now < limit)
            advance(w);
        CHECK(w, w->states == w->servers);
        for (int s = 0; s < w->servers; s++)
            CHECK(w, !memcmp(w->state[s], w->expected[s], sizeof w->expected[s]));
    }
    et_master_end(&w->master);
    while (w->now < limit) {
        bool over = w->master.phase == ET_MASTER_ENDED;
        for (int i = 0; i < w->workers; i++)
            over =
                over && (w->worker[i].alive ? w->worker[i].worker.phase == ET_WORKER_ENDED : false);
        if (over)
            break;
        advance(w);
    }
    CHECK(w, w->master.phase == ET_MASTER_ENDED && w->updates == STEPS_MAX);
    for (int s = 0; s < w->servers; s++) {
        CHECK(w, w->server[s].param_server.ended &&
                     w->server[s].param_server.version == STEPS_MAX + 3);
        CHECK(w, !memcmp(w->server[s].weights, w->expected[s], sizeof w->expected[s]));
    }
    for (int i = 0; i < w->workers; i++) {
        CHECK(w, w->worker[i].worker.phase == ET_WORKER_ENDED);
        if (w->worker[i].worker.lost[0])
            print_error("worker %d: %s\n", i, w->worker[i].worker.lost);
        CHECK(w, !w->worker[i].worker.lost[0]);
    }
}

static void test_simulation__clean(void **state)
{
    static world w;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        open_world(&w, seed, true);
        run_world(&w);
        close_world(&w);
    }
}

static void test_simulation__faults(void **state)
{
    static world w;
    (void)state;
    int faults = 0, restarts = 0, late = 0, parts = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        open_world(&w, seed, false);
        run_world(&w);
        faults += w.faults;
        for (int i = 0; i < w.workers; i++)
            restarts += (int)w.worker[i].starts - 1;
        late += w.most > 0;
        parts += w.parts;
        close_world(&w);
    }
    print_message("%d faults, %d workers started again, %d while an update had part of its "
                  "gradients; %d schedules with stale gradients\n",
                  faults, restarts, parts, late);
    assert_true(faults > 5000 && restarts > 50 && parts > 20 && late > 20);
}

/* A worker leaves with its ticket and does not come back: the others wait as long as finished
 * tickets suggest, and not the longest time that a ticket may take. */
static void test_simulation__gone(void **state)
{
    (void)state;
    static world w;
    draw_world(&w, 1, true);
    w.workers = 3, w.synchronous = false, w.staleness = 1, w.gradients = 1;
    build_world(&w);
    w.master.setup.patience = 5;
    w.master.setup.lease = 10000;
    w.master.target = 3 + 10;
    while (w.master.version < w.master.target && w.now < 100)
        advance(&w);
    w.master.target = 3 + STEPS_MAX;
    while (w.worker[1].worker.phase != ET_WORKER_COMPUTES && w.now < 100)
        advance(&w);
    CHECK(&w, w.worker[1].worker.phase == ET_WORKER_COMPUTES);
    drop_kept(&w, 1);
    kill_worker(&w, 1);
    w.worker[1].wakes = -1;
    double gone = w.now;
    while (w.master.version < w.master.target && w.now < gone + 100)
        advance(&w);
    CHECK(&w, w.master.version == w.master.target && w.now - gone < 30);
    close_world(&w);
}

/* Until so many gradients of an update are added, with no question to servers under way. */
static void advance_until_added(world *w, int64_t count)
{
    double limit = w->now + 60;
    while ((w->master.update.added != count || w->master.left) && w->now < limit)
        advance(w);
    CHECK(w, w->master.update.added == count);
}

/* A worker leaves after its gradient was added and before the update is done. The gradient counts
 * once, and a state that is read meanwhile does not contain it. The remaining workers, and one that
 * joins late, give the other gradients. */
static void test_simulation__adding(void **state)
{
    (void)state;
    static world w;
    draw_world(&w, 5, true);
    w.servers = 2, w.workers = 2, w.synchronous = false, w.staleness = 1, w.gradients = 5;
    build_world(&w);
    w.worker[1].wakes = 1e9;
    w.master.target = 3 + 2;
    while (w.master.version < 4 && w.now < 60)
        advance(&w);
    advance_until_added(&w, 2);
    CHECK(&w, w.master.version == 4);
    et_master_read(&w.master);
    while (w.master.wants_state && w.now < 60)
        advance(&w);
    CHECK(&w, w.states == w.servers && w.master.version == 4 && w.master.update.added >= 2);
    for (int s = 0; s < w.servers; s++)
        CHECK(&w, !memcmp(w.state[s], w.expected[s], sizeof w.expected[s]));
    advance_until_added(&w, 3);
    drop_kept(&w, 0);
    kill_worker(&w, 0);
    w.worker[0].wakes = -1;
    w.worker[1].wakes = w.now;
    while (w.master.version < 5 && w.now < 120)
        advance(&w);
    CHECK(&w, w.master.version == 5 && w.updates == 2 && w.used_count == 10);
    CHECK(&w, w.master.update.reports[2].worker == 0 && w.master.update.reports[3].worker == 1);
    for (int s = 0; s < w.servers; s++)
        CHECK(&w, !memcmp(w.server[s].weights, w.expected[s], sizeof w.expected[s]));
    close_world(&w);
}

/* Two equally fast workers, two gradients an update: neither waits, and a gradient is at most one
 * update late. */
static void test_simulation__staleness(void **state)
{
    (void)state;
    static world w;
    draw_world(&w, 7, true);
    w.workers = 2, w.synchronous = false, w.staleness = 1, w.gradients = 2, w.waits = 0;
    build_world(&w);
    run_world(&w);
    CHECK(&w, w.used_count == 2 * STEPS_MAX && w.most == 1);
    close_world(&w);
}

/* Seconds that two workers, with these times for a gradient, need for all updates of two gradients.
 */
static double train_two(world *w, double first, double second, double waits)
{
    draw_world(w, 11, true);
    w->workers = 2, w->synchronous = false, w->staleness = 20, w->gradients = 2, w->waits = waits;
    build_world(w);
    w->worker[0].seconds = first;
    w->worker[1].seconds = second;
    w->master.target = 3 + STEPS_MAX;
    while (w->master.version < w->master.target && w->now < 300)
        advance(w);
    CHECK(w, w->master.version == w->master.target);
    return w->now;
}

/* Workers of about equal speed keep in step by waiting, and no gradient is late. A slow worker does
 * not delay the other, which waits no longer than its own batches take. */
static void test_simulation__waits(void **state)
{
    (void)state;
    static world w;
    train_two(&w, 0.4, 0.6, 0);
    CHECK(&w, w.late >= STEPS_MAX / 2);
    close_world(&w);
    train_two(&w, 0.4, 0.6, 1);
    CHECK(&w, w.late == 0);
    close_world(&w);
    double none = train_two(&w, 0.4, 8, 0);
    close_world(&w);
    double once = train_two(&w, 0.4, 8, 1);
    CHECK(&w, once < 2.2 * none && once < STEPS_MAX * 8 / 4 && w.late > 0);
    close_world(&w);
}

/* Gradients that are finite, but whose sum is not: refused, nothing changes. */
static void test_simulation__infinite(void **state)
{
    (void)state;
    static world w;
    draw_world(&w, 9, true);
    w.servers = 1, w.workers = 1, w.synchronous = false, w.gradients = 2;
    build_world(&w);
    w.master.target = 3 + 1;
    advance_until_added(&w, 1);
    for (int i = 0; i < FLOATS; i++)
        w.server[0].param_server.sum[i] = 3e38f;
    w.worker[0].huge = true;
    while (w.master.phase == ET_MASTER_WORKS && w.now < 60) {
        w.now += 0.01;
        deliver_due(&w);
        et_master_tick(&w.master, w.now);
        step_worker(&w, 0);
    }
    CHECK(&w, w.master.phase == ET_MASTER_FAILED && strstr(w.master.failure, "not finite"));
    CHECK(&w, w.updates == 0 && !memcmp(w.server[0].weights, w.expected[0], sizeof w.expected[0]));
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_simulation__clean),     cmocka_unit_test(test_simulation__faults),
        cmocka_unit_test(test_simulation__gone),      cmocka_unit_test(test_simulation__adding),
        cmocka_unit_test(test_simulation__staleness), cmocka_unit_test(test_simulation__waits),
        cmocka_unit_test(test_simulation__infinite),
    };
    return cmocka_run_group_tests_name("simulation", tests, NULL, NULL);
}
