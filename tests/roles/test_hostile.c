/* Frames from outside the cluster, and changed frames of the cluster, against a parameter server, a
 * master and a worker. No frame makes a task read or write memory that is not its own (each frame
 * has a block of its own size, under the sanitizers), and none does what only the master may do.
 *
 * ETUDE_FUZZ_SECONDS=N continues for so long with other seeds; a failure prints its seed. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "metric/metric.h"
#include "roles/chance.h"
#include "roles/cluster_private.h"
#include "roles/master.h"
#include "roles/worker.h"

enum { SERVERS = 2, WORKERS = 3, FLOATS = 5, FRAMES = 20000, KEPT = 64, LARGEST = 600 };
#define REPORT (2 * sizeof(double) + sizeof(int64_t))

typedef struct frame {
    unsigned char *data;
    size_t size;
} frame;

/* The attacked task, and the messages that it has sent: they are sent back to it, changed. */
typedef struct bench {
    et_link link;
    uint64_t seed, random;
    frame kept[KEPT];
    int count;
    float weights[FLOATS];
    int updates, opened, updated;
} bench;

static uint64_t draw(bench *b)
{
    return chance_draw(&b->random);
}

#define CHECK(b, condition)                                                                        \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %llu: %s", (unsigned long long)(b)->seed, #condition);                  \
    } while (0)

static void keep(et_link *self, int to, const et_message *message)
{
    bench *b = (bench *)(void *)self;
    frame *f = &b->kept[b->count++ % KEPT];
    CHECK(b, to >= 0 && to < ET_TASKS_MAX && message->size <= LARGEST);
    free(f->data);
    f->size = ET_MESSAGE_HEADER + message->size;
    f->data = malloc(f->size);
    et_message_write(message, f->data);
    if (message->size)
        memcpy(f->data + ET_MESSAGE_HEADER, message->bytes, message->size);
}

static const et_link_class kept_class = { "kept", keep, NULL };

static void bench_open(bench *b, uint64_t seed)
{
    *b = (bench){ .link = { &kept_class }, .seed = seed, .random = seed * 2654435761u };
}

static void bench_close(bench *b)
{
    for (int i = 0; i < KEPT; i++)
        free(b->kept[i].data);
}

/* ---- frames ---- */

static int64_t a_number(bench *b)
{
    static const int64_t some[] = { 0, 1, 2, 3, 4, 7, 77, -1, INT64_MAX, INT64_MIN, 1LL << 53 };
    uint64_t what = draw(b);
    return what % 12 == 11 ? (int64_t)draw(b) : some[what % 11];
}

static double a_value(bench *b)
{
    static const double some[] = { 0, 1, -1, 0.5, NAN, INFINITY, -INFINITY, 1e300, 5e-324 };
    return some[draw(b) % 9];
}

/* Sizes with a meaning, and sizes next to them. */
static size_t a_size(bench *b)
{
    static const size_t some[] = { 0,
                                   1,
                                   4 * FLOATS,
                                   8 * FLOATS,
                                   REPORT,
                                   13,
                                   5,
                                   LARGEST,
                                   sizeof(et_param_server_push),
                                   2 * sizeof(et_param_server_push) };
    return some[draw(b) % 10] + (draw(b) % 8 == 0);
}

static void fill(bench *b, unsigned char *bytes, size_t size)
{
    for (size_t at = 0; at + 8 <= size; at += 8) {
        int64_t number = a_number(b);
        double value = a_value(b);
        memcpy(bytes + at, draw(b) % 2 ? (void *)&number : (void *)&value, 8);
    }
    for (size_t at = size / 8 * 8; at < size; at++)
        bytes[at] = (unsigned char)draw(b);
}

static frame invent(bench *b)
{
    size_t size = a_size(b);
    frame f = { malloc(ET_MESSAGE_HEADER + size), ET_MESSAGE_HEADER + size };
    fill(b, f.data + ET_MESSAGE_HEADER, size);
    et_message m = { .kind = (et_message_kind)(1 + draw(b) % (ET_MESSAGE_KINDS - 1)),
                     .from = (int)(draw(b) % (SERVERS + WORKERS + 3)),
                     .run = draw(b) % 8 ? 7 : (uint64_t)a_number(b),
                     .session = draw(b) % 4,
                     .sequence = (uint64_t)a_number(b),
                     .number = a_number(b),
                     .extra = draw(b) % 3 ? a_number(b) : 77,
                     .value = { a_value(b), a_value(b) },
                     .bytes = f.data + ET_MESSAGE_HEADER,
                     .size = size };
    et_message_write(&m, f.data);
    return f;
}

/* A message that it sent, from another sender, or with another number; its checksum is valid again.
 */
static frame alter(bench *b)
{
    const frame *old = &b->kept[draw(b) % KEPT];
    if (!old->data)
        return invent(b);
    frame f = { malloc(old->size), old->size };
    memcpy(f.data, old->data, old->size);
    et_message m;
    CHECK(b, et_message_read(&m, f.data, f.size));
    m.from = (int)(draw(b) % (SERVERS + WORKERS + 2));
    m.sequence += draw(b) % 4 ? 0 : draw(b) % 3 - 1;
    if (draw(b) % 3 == 0)
        m.number = a_number(b);
    if (draw(b) % 2)
        m.kind = (et_message_kind)(1 + draw(b) % (ET_MESSAGE_KINDS - 1));
    et_message_write(&m, f.data);
    return f;
}

/* Bits of it, or its end, without another checksum. */
static frame damage(bench *b)
{
    frame f = draw(b) % 2 ? alter(b) : invent(b);
    if (draw(b) % 2)
        f.size = draw(b) % (f.size + 1);
    for (uint64_t i = 0; f.size && i <= draw(b) % 4; i++)
        f.data[draw(b) % f.size] ^= (unsigned char)(1u << draw(b) % 8);
    unsigned char *exact = malloc(f.size + 1);
    memcpy(exact, f.data, f.size);
    free(f.data);
    return (frame){ realloc(exact, f.size ? f.size : 1), f.size };
}

/* Reads one of the frames; false: it is not a message. free(*block) in any case. */
static bool next(bench *b, unsigned char **block, et_message *m)
{
    uint64_t what = draw(b) % 8;
    frame f = what == 0 ? damage(b) : what < 4 ? alter(b) : invent(b);
    *block = f.data;
    return et_message_read(m, f.data, f.size);
}

/* ---- a parameter server ---- */

static void weigh(void *self, float *weights)
{
    memcpy(weights, ((bench *)self)->weights, sizeof((bench *)self)->weights);
}

static void read_state(void *self, float *out)
{
    weigh(self, out);
    memset(out + FLOATS, 0, FLOATS * sizeof *out);
}

static void write_state(void *self, const float *in, int64_t iterations, int64_t from)
{
    CHECK((bench *)self, iterations >= 0 && from >= 0 && from <= iterations);
    memset(((bench *)self)->weights, 0, sizeof((bench *)self)->weights);
    (void)in;
    ((bench *)self)->opened++;
}

static void update(void *self, float *gradient, double scale, double norm)
{
    bench *b = self;
    (void)scale, (void)norm;
    for (int i = 0; i < FLOATS; i++) {
        b->weights[i] += gradient[i];
        CHECK(b, isfinite(gradient[i])); /* no NaN is added, whatever its report says */
    }
    b->updates++;
}

static long updates; /* that all parameter servers have made */

/* As the master asks. */
static void order(et_param_server *param_server, et_message m)
{
    m.run = 7;
    m.sequence = param_server->sequence + 1;
    et_param_server_receive(param_server, &m);
}

static void open_run(et_param_server *param_server)
{
    static const float state[2 * FLOATS];
    order(
        param_server,
        (et_message){ .kind = ET_MESSAGE_OPEN, .extra = 77, .bytes = state, .size = sizeof state });
    for (int i = 0; i < WORKERS; i++)
        order(param_server, (et_message){ .kind = ET_MESSAGE_ADMIT, .number = i, .extra = 1 + i });
}

/* A worker with the key pushes any values, and the master, to which it reports valid ones, orders
 * an update. */
static void push_and_apply(bench *b, et_param_server *param_server)
{
    int worker = (int)(draw(b) % WORKERS);
    et_param_server_worker *w = &param_server->worker[worker];
    float gradient[FLOATS];
    for (int i = 0; i < FLOATS; i++)
        gradient[i] = draw(b) % 8 ? 1 : (float)a_value(b);
    et_message push = { .kind = ET_MESSAGE_PUSH,
                        .from = 1 + SERVERS + worker,
                        .run = 7,
                        .session = w->session,
                        .number = w->ticket + (w->ticket < INT64_MAX),
                        .bytes = gradient,
                        .size = sizeof gradient };
    et_param_server_receive(param_server, &push);
    et_param_server_push part = { worker, w->session, w->ticket };
    order(param_server, (et_message){ .kind = ET_MESSAGE_APPLY,
                                      .number = param_server->version + 1,
                                      .value = { 1, 1 },
                                      .bytes = &part,
                                      .size = sizeof part });
}

static void attack_server(uint64_t seed)
{
    bench b;
    et_param_server param_server;
    bench_open(&b, seed);
    et_param_server_store store = { &b,         FLOATS,      2 * FLOATS, weigh,
                                    read_state, write_state, update,     false };
    assert_int_equal(
        et_param_server_open(&param_server, &b.link, 0, SERVERS, WORKERS, 77, &store, NULL), 0);
    open_run(&param_server);
    for (int i = 0; i < FRAMES; i++) {
        unsigned char *block;
        et_message m;
        if (i % 16 == 0)
            push_and_apply(&b, &param_server);
        int64_t version = param_server.version;
        int before = b.updates, opened = b.opened;
        bool sound = next(&b, &block, &m);
        /* Only the master has this key: it may send anything, but not skip ahead in the sequence.
         */
        if (sound && (m.from != ET_TASK_MASTER || m.sequence <= param_server.sequence + 3)) {
            et_param_server_receive(&param_server, &m);
            if (m.from != ET_TASK_MASTER)
                CHECK(&b,
                      param_server.version == version && b.updates == before && b.opened == opened);
            CHECK(&b, param_server.version - version == (b.updates - before) ||
                          m.kind == ET_MESSAGE_OPEN);
            CHECK(&b, b.opened <= 1);
        }
        free(block);
    }
    CHECK(&b, b.opened == 1);
    updates += b.updates;
    et_param_server_release(&param_server);
    bench_close(&b);
}

/* ---- a master ---- */

static const float *state_of(void *self, int server)
{
    static const float state[2 * FLOATS];
    (void)self, (void)server;
    return state;
}

static void greet(void *self, unsigned char *greeting)
{
    (void)self;
    memcpy(greeting, "hello", 5);
}

static double divisor_of(void *self, const unsigned char *report)
{
    double divisor;
    (void)self;
    memcpy(&divisor, report, sizeof divisor);
    return divisor;
}

static void updated(void *self, const et_master_report *reports, int count, double norm)
{
    bench *b = self;
    CHECK(b, count >= 1 && count <= WORKERS && !isnan(norm));
    for (int i = 0; i < count; i++)
        CHECK(b, reports[i].worker >= 0 && reports[i].worker < WORKERS &&
                     divisor_of(NULL, reports[i].bytes) > 0);
    b->updated++;
}

static void state_read(void *self, int server, const void *state)
{
    float copy[2 * FLOATS];
    CHECK((bench *)self, server >= 0 && server < SERVERS);
    memcpy(copy, state, sizeof copy);
}

static void attack_master(uint64_t seed)
{
    static const int64_t state[SERVERS] = { 2 * FLOATS, 2 * FLOATS };
    bench b;
    et_master master;
    bench_open(&b, seed);
    et_master_setup setup = { .link = &b.link,
                              .servers = SERVERS,
                              .workers = WORKERS,
                              .state = state,
                              .report_size = REPORT,
                              .position_size = 8,
                              .greeting_size = 5,
                              .run = 7,
                              .fingerprint = 77,
                              .patience = 1e9,
                              .lease = 50,
                              .max_staleness = (int64_t)(seed % 3),
                              .gradients = 1 + (int64_t)(seed % 5 == 0) * 2,
                              .synchronous = seed % 4 == 0,
                              .steps = 1 << 20,
                              .self = &b,
                              .state_of = state_of,
                              .greet = greet,
                              .divisor = divisor_of,
                              .updated = updated,
                              .state_read = state_read };
    assert_int_equal(et_master_open(&master, &setup, NULL), 0);
    double now = 0;
    et_master_start(&master, now);
    for (int i = 0; i < FRAMES && master.phase != ET_MASTER_FAILED; i++, now += 0.5) {
        unsigned char *block;
        et_message m;
        const et_master_phase phase = master.phase;
        master.target = master.version + 1;
        if (next(&b, &block, &m) && m.kind != ET_MESSAGE_REFUSED)
            et_master_receive(&master, now, &m);
        if (master.status == ET_EDIVERGED) { /* for a report that may not be used: so that the test
                                              * continues */
            master.phase = phase;
            master.status = ET_OK;
        }
        free(block);
        if (draw(&b) % 50 == 0)
            et_master_read(&master);
        et_master_tick(&master, now);
        CHECK(&b, et_master_present(&master) <= WORKERS);
        CHECK(&b, master.version == b.updated);
    }
    et_master_release(&master);
    bench_close(&b);
}

/* ---- a worker ---- */

static void pulled(void *self, int server, const void *weights)
{
    float copy[FLOATS];
    CHECK((bench *)self, server >= 0 && server < SERVERS);
    memcpy(copy, weights, sizeof copy);
}

static void welcomed(void *self, const void *position, const void *greeting)
{
    char copy[13];
    (void)self;
    memcpy(copy, position, 8);
    memcpy(copy + 8, greeting, 5);
}

static void attack_worker(uint64_t seed)
{
    static const int64_t floats[SERVERS] = { FLOATS, FLOATS };
    static const float gradient[FLOATS];
    static const float *const gradients[SERVERS] = { gradient, gradient };
    static const unsigned char report[REPORT];
    bench b;
    et_worker worker;
    bench_open(&b, seed);
    et_worker_setup setup = { .link = &b.link,
                              .servers = SERVERS,
                              .index = 1,
                              .floats = floats,
                              .report_size = REPORT,
                              .position_size = 8,
                              .greeting_size = 5,
                              .nonce = 1,
                              .fingerprint = 77,
                              .patience = 1e9,
                              .self = &b,
                              .pulled = pulled,
                              .welcomed = welcomed };
    assert_int_equal(et_worker_open(&worker, &setup, NULL), 0);
    double now = 0;
    et_worker_start(&worker, now);
    for (int i = 0; i < FRAMES; i++, now += 0.5) {
        unsigned char *block;
        et_message m;
        bool sound = next(&b, &block, &m);
        bool ends = sound && (m.kind == ET_MESSAGE_REFUSED || m.kind == ET_MESSAGE_STOP);
        if (sound && !(ends && i < FRAMES - 100))
            et_worker_receive(&worker, now, &m);
        free(block);
        if (worker.phase == ET_WORKER_COMPUTES)
            et_worker_computed(&worker, now, gradients, report);
        et_worker_tick(&worker, now);
        CHECK(&b, worker.left >= 0 && worker.left <= SERVERS);
    }
    et_worker_release(&worker);
    bench_close(&b);
}

/* ---- tests ---- */

static void for_seeds(void (*attack)(uint64_t seed))
{
    const char *seconds = getenv("ETUDE_FUZZ_SECONDS");
    double until = et_clock_monotonic() + (seconds ? atof(seconds) : 0);
    for (uint64_t seed = 1; seed <= 10 || et_clock_monotonic() < until; seed++)
        attack(seed);
}

static void test_hostile__param_server(void **state)
{
    (void)state;
    for_seeds(attack_server);
    assert_true(updates > 1000); /* most were accepted from senders with the right to them */
}

static void test_hostile__master(void **state)
{
    (void)state;
    for_seeds(attack_master);
}

static void test_hostile__worker(void **state)
{
    (void)state;
    for_seeds(attack_worker);
}

/* A report has numbers that nobody has checked. */
static void test_hostile__report(void **state)
{
    (void)state;
    static const et_cluster_facts good = { 32, 12.5, 32, 1 };
    static const double bad[] = { NAN, INFINITY, -INFINITY, -1, 1e300 };
    et_cluster_position position = { .own = 1, .count = 4 };
    unsigned char report[sizeof good + sizeof position];
    memcpy(report, &good, sizeof good);
    memcpy(report + sizeof good, &position, sizeof position);
    assert_true(et_cluster_divisor(report) == 32);
    for (size_t field = 0; field < 4; field++)
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            double facts[4];
            bool loss = field == 1;
            if (loss && isfinite(bad[i]))
                continue;
            memcpy(facts, &good, sizeof facts);
            facts[field] = bad[i];
            memcpy(report, facts, sizeof facts);
            assert_true(et_cluster_divisor(report) == 0);
        }
}

/* States of metrics are bytes that the master adds up. */
static void test_hostile__metrics(void **state)
{
    (void)state;
    static const et_confusion three = ET_CONFUSION(3);
    et_metrics *metrics;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_metrics_new(&metrics, &error), ET_OK);
    assert_int_equal(et_metrics_define(metrics, "mean", &et_metric_mean, &error), ET_OK);
    assert_int_equal(et_metrics_define(metrics, "three", &three.metric, &error), ET_OK);
    et_metrics_add(metrics, "mean", -1e300, 1);
    et_metrics_add(metrics, "mean", 0.1, 1);
    et_metrics_add_sample_at(metrics, 1, &(et_sample){ 1, 2, 1 });
    void *bytes;
    const size_t words = et_metrics_bytes(metrics, &bytes) / sizeof(int64_t);
    int64_t copy[512];
    assert_true(words <= 512);
    et_metrics_copy_settled(metrics, copy);
    assert_true(et_metrics_is_settled(metrics, copy));
    for (size_t i = 0; i < words; i++) {
        const int64_t before = copy[i];
        copy[i] = INT64_MIN + 1;
        assert_false(et_metrics_is_settled(metrics, copy));
        copy[i] = before;
    }
    et_metrics_merge_bytes(metrics, copy);
    assert_true(et_metrics_value(metrics, "mean") == -5e299);
    et_metrics_free(metrics);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile__param_server), cmocka_unit_test(test_hostile__master),
        cmocka_unit_test(test_hostile__worker),       cmocka_unit_test(test_hostile__report),
        cmocka_unit_test(test_hostile__metrics),
    };
    return cmocka_run_group_tests_name("hostile", tests, NULL, NULL);
}
