/* Messages of a cluster (src/roles/wire/wire.h) compared with plain ZeroMQ: PUSH to PULL over TCP
 * on this machine with as many bytes, encrypted by CURVE as in Etude, and not encrypted. They run
 * in turn.
 *
 *     bench_framing [MB] [MESSAGES]
 *
 * The receiver requests each message after the last one, so no message waits or is dropped. The
 * time is that of MESSAGES messages one way and empty ones back. The ratio is the fraction of
 * CURVE's rate, because ZeroMQ has the cost of encryption too. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/threads/thread.h"
#include "bench.h"
#include "roles/wire/wire.h"

#define ROUNDS 7
#define WAIT   60.0 /* seconds for a message */

typedef struct framing {
    size_t size;
    int messages;
    char *bytes;
    et_keys keys[ET_JOB_ROLES];
} framing;

static _Noreturn void refuse(const char *what)
{
    fprintf(stderr, "bench_framing: %s\n", what);
    exit(1);
}

/* ---- ours: a worker pushes to a server, which answers ---- */

typedef struct ours {
    const framing *f;
    et_wire *server;
} ours;

static void *serve(void *payload)
{
    const ours *o = payload;
    et_error error = ET_ERROR_INIT;
    for (int i = 0; i <= o->f->messages; i++) {
        et_message got;
        bool there;
        bench_check(et_wire_receive(o->server, WAIT, &got, &there, &error), &error);
        if (!there || (i && got.size != o->f->size))
            refuse("a message is missing");
        et_link_answer(et_wire_link(o->server), &got,
                       (et_message){ .kind = ET_MESSAGE_STAGED, .from = 1 });
    }
    return NULL;
}

static int listen_somewhere(char *address, size_t size)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, length) || listen(fd, 100) ||
        getsockname(fd, (struct sockaddr *)&at, &length))
        refuse("no socket to listen at");
    snprintf(address, size, "127.0.0.1:%d", ntohs(at.sin_port));
    return fd;
}

/* One message and its answer; a message that is dropped while nobody is connected is sent again. */
static void push(et_wire *worker, uint64_t sequence, const void *bytes, size_t size)
{
    et_error error = ET_ERROR_INIT;
    et_message message = {
        .kind = ET_MESSAGE_PUSH, .from = 2, .sequence = sequence, .bytes = bytes, .size = size
    };
    et_message got;
    et_asking asking;
    bool there;
    double begun = et_clock_monotonic();
    et_asking_begin(&asking, et_wire_link(worker), begun, 1, &message);
    do {
        double now = et_clock_monotonic();
        if (now - begun > WAIT)
            refuse("no answer");
        et_asking_tick(&asking, et_wire_link(worker), now);
        bench_check(et_wire_receive(worker, 0.1, &got, &there, &error), &error);
    } while (!there || !et_asking_takes(&asking, &got));
}

static double time_ours(const framing *f)
{
    et_error error = ET_ERROR_INIT;
    char address[64];
    const char *connect[] = { NULL, address };
    pthread_t thread;
    et_wire *worker;
    ours o = { .f = f };
    et_wire_setup server = { .keys = &f->keys[ET_JOB_PARAM_SERVER],
                             .role = ET_JOB_PARAM_SERVER,
                             .servers = 1,
                             .bind = address,
                             .bind_fd = listen_somewhere(address, sizeof address),
                             .largest = f->size,
                             .asked = f->size };
    et_wire_setup client = { .keys = &f->keys[ET_JOB_WORKER],
                             .role = ET_JOB_WORKER,
                             .servers = 1,
                             .connect = connect,
                             .largest = f->size };
    bench_check(et_wire_open(&o.server, &server, &error), &error);
    bench_check(et_wire_open(&worker, &client, &error), &error);
    bench_check(et_thread_start(&thread, serve, &o, &error), &error);
    push(worker, 1, NULL, 0);
    double since = 0;
    bench_lap(&since);
    for (int i = 0; i < f->messages; i++)
        push(worker, (uint64_t)i + 2, f->bytes, f->size);
    double seconds = bench_lap(&since);
    et_thread_join(thread);
    et_wire_close(worker);
    et_wire_close(o.server);
    return seconds;
}

/* ---- plain ---- */

typedef struct plain {
    const framing *f;
    void *pull, *back;
} plain;

static void *pull_all(void *payload)
{
    const plain *p = payload;
    for (int i = 0; i <= p->f->messages; i++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, p->pull, 0) < 0 || (i && zmq_msg_size(&message) != p->f->size))
            refuse("a message is missing");
        zmq_msg_close(&message);
        zmq_send(p->back, "", 0, 0);
    }
    return NULL;
}

/* A listening socket, and its address for the other. */
static void *bound(void *context, int type, const et_keys *keys, char *endpoint, size_t size)
{
    const int one = 1;
    void *socket = zmq_socket(context, type);
    if (keys && (zmq_setsockopt(socket, ZMQ_CURVE_SERVER, &one, sizeof one) ||
                 zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, ET_KEY_TEXT + 1)))
        refuse("CURVE");
    if (zmq_bind(socket, "tcp://127.0.0.1:*") ||
        zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &size))
        refuse("no socket to listen at");
    return socket;
}

static void *connected(void *context, int type, const et_keys *keys, const char *endpoint)
{
    void *socket = zmq_socket(context, type);
    const char *server = keys ? keys->public[ET_JOB_PARAM_SERVER] : NULL;
    if (keys && (zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, ET_KEY_TEXT + 1) ||
                 zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, keys->public[ET_JOB_WORKER],
                                ET_KEY_TEXT + 1) ||
                 zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, keys->secret, ET_KEY_TEXT + 1)))
        refuse("CURVE");
    if (zmq_connect(socket, endpoint))
        refuse(endpoint);
    return socket;
}

static double time_plain(const framing *f, bool curve)
{
    et_error error = ET_ERROR_INIT;
    const et_keys *server = curve ? &f->keys[ET_JOB_PARAM_SERVER] : NULL;
    const et_keys *worker = curve ? &f->keys[ET_JOB_WORKER] : NULL;
    char there[128], back[128];
    void *context = zmq_ctx_new();
    plain p = { .f = f };
    pthread_t thread;
    p.pull = bound(context, ZMQ_PULL, server, there, sizeof there);
    p.back = bound(context, ZMQ_PUSH, server, back, sizeof back);
    void *push_socket = connected(context, ZMQ_PUSH, worker, there);
    void *answers = connected(context, ZMQ_PULL, worker, back);
    double since = 0, seconds = 0;
    bench_check(et_thread_start(&thread, pull_all, &p, &error), &error);
    for (int i = 0; i <= f->messages; i++) {
        char none;
        if (i == 1)
            bench_lap(&since);
        if (zmq_send(push_socket, f->bytes, i ? f->size : 0, 0) < 0 ||
            zmq_recv(answers, &none, 1, 0) < 0)
            refuse("plain ZeroMQ");
    }
    seconds = bench_lap(&since);
    et_thread_join(thread);
    void *const sockets[] = { p.pull, p.back, push_socket, answers };
    for (int i = 0; i < 4; i++)
        zmq_close(sockets[i]);
    zmq_ctx_term(context);
    return seconds;
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    double megabytes = argc > 1 ? atof(argv[1]) : 8;
    double times[3][ROUNDS], ratio[ROUNDS];
    framing f = { .size = (size_t)(megabytes * 1e6), .messages = argc > 2 ? atoi(argv[2]) : 20 };
    f.bytes = calloc(1, f.size + 1);
    if (!f.size || f.messages < 1 || !f.bytes)
        refuse("give megabytes and how many messages");
    bench_check(et_keys_make(f.keys, &error), &error);
    for (int i = 0; i < ROUNDS; i++) {
        times[0][i] = time_ours(&f);
        times[1][i] = time_plain(&f, true);
        times[2][i] = time_plain(&f, false);
        ratio[i] = times[1][i] / times[0][i];
    }
    double share = bench_median(ratio, ROUNDS), bytes = (double)f.size * f.messages;
    printf("| ZeroMQ, %g MB | %.0f MB/s | %.0f MB/s (without CURVE %.0f) | %.2f |\n", megabytes,
           1e-6 * bytes / bench_median(times[0], ROUNDS),
           1e-6 * bytes / bench_median(times[1], ROUNDS),
           1e-6 * bytes / bench_median(times[2], ROUNDS), share);
    bench_figure(share, "ratio", NAN, "scale.framing");
    free(f.bytes);
    return 0;
}
