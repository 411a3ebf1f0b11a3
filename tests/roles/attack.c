/* Makes bad connections to tasks of a cluster on this machine, a given number per second:
 *
 *     attack SECONDS RATE KEYS PORT...       ports of the loopback; KEYS: folder of `etude keys`
 *     ETUDE_ATTACK_STRANGERS=1 attack ...    without the last kind below
 *
 * There are six kinds, in turn: bytes that are not ZeroMQ; a greeting and nothing more; a greeting,
 * sent byte by byte; a HELLO encrypted with a wrong key; a client that knows the server's key but
 * has no key of the cluster; and a client with a worker's key that sends messages that no worker
 * sends: noise, headers with wrong sizes and checksums, requests of other runs, false identities,
 * messages that never end, have several frames or are too large. At the end, or at SIGTERM, the
 * program prints the number of connections of each kind, and how many were still open. It has one
 * thread and keeps a connection for at most six seconds.
 *
 * ZeroMQ 4.3.4 ends the process (session_base.cpp, clean_pipes; libzmq's issue 3442) if a
 * connection breaks in the middle of a message of several frames while its socket is being closed.
 * Among hundreds of connections this happens whenever a task of the cluster ends. So a child
 * process attacks, and the parent starts another child if ZeroMQ ends it; the last line says how
 * often. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <zmq.h>

#include "roles/chance.h"
#include "roles/network.h"
#include "roles/wire/keys.h"
#include "roles/wire/message.h"

enum { NOISE, SILENT, SLOW, SEALED, STRANGER, MEMBER, KINDS };
enum { HELD = 16384, PORTS = 16, AGAIN = 100 };

#define HOLD    6.0 /* seconds for a connection that the other side does not close */
#define CLIENT  0.5 /* the same for one by ZeroMQ */
#define SIGNERS 0x5bd1e995u

typedef struct held {
    int kind, fd;
    void *socket; /* STRANGER, MEMBER */
    double begun, said;
    int sent; /* bytes of the greeting */
} held;

/* What outlives a child. */
typedef struct tally {
    long made[KINDS], failed, turn;
    int open;
    uint64_t state;
} tally;

static const char *const kind_names[KINDS] = { "noise",  "silent",   "slow",
                                               "sealed", "stranger", "member" };
static const unsigned char greeting[64] = { 0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                            0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E' };
static held open_now[HELD];
static int count;
static int port[PORTS], ports, kinds = KINDS;
static tally *all; /* in memory of parent and child */
static void *context;
static et_keys keys;

static uint64_t draw(void)
{
    return chance_draw(&all->state);
}

static void fill(unsigned char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)draw();
}

/* ---- by ZeroMQ ---- */

static void say(void *socket, const void *bytes, size_t size, int more)
{
    zmq_send(socket, bytes, size, ZMQ_DONTWAIT | more);
}

/* Sends what no worker sends; ZeroMQ keeps it until the connection is made. */
static void say_what_no_worker_says(void *socket)
{
    static unsigned char bytes[3 * ET_CHUNK], body[3000];
    et_chunking cutting;
    et_message message = { .kind = (et_message_kind)(1 + draw() % (ET_MESSAGE_KINDS - 1)),
                           .from = (int)(draw() % 6),
                           .run = draw(),
                           .session = draw(),
                           .sequence = draw(),
                           .number = (int64_t)draw(),
                           .extra = (int64_t)draw(),
                           .bytes = body,
                           .size = draw() % sizeof body };
    fill(bytes, sizeof bytes);
    fill(body, sizeof body);
    say(socket, bytes, draw() % 200, 0);
    et_chunking_begin(&cutting, &message, draw());
    size_t size = et_chunking_next(&cutting);
    et_chunking_write(&cutting, bytes);
    say(socket, bytes, size, 0); /* well-formed, of another run */
    bytes[draw() % (ET_CHUNK_HEAD + ET_MESSAGE_HEADER)] ^= (unsigned char)(1u << draw() % 8);
    say(socket, bytes, size, 0);
    const uint64_t begun[3] = { draw(), 0, size + draw() % 3000 };
    memcpy(bytes, begun, sizeof begun);
    say(socket, bytes, size, 0);
    if (draw() % 2) /* a message without an end that fits anybody's */
        for (int i = 0; i < 64; i++)
            say(socket, bytes, ET_CHUNK, i < 63 ? ZMQ_SNDMORE : 0);
    else /* a frame that nobody may send */
        say(socket, bytes, sizeof bytes, 0);
}

static void *client(int kind, int to)
{
    char public[ET_KEY_TEXT + 1], secret[ET_KEY_TEXT + 1], endpoint[64];
    const int none = 0, never = -1;
    /* The master's port is the first. */
    const char *theirs = keys.public[to ? ET_JOB_PARAM_SERVER : ET_JOB_MASTER];
    if (zmq_curve_keypair(public, secret))
        return NULL;
    if (kind == MEMBER) {
        memcpy(public, keys.public[ET_JOB_WORKER], sizeof public);
        memcpy(secret, keys.secret, sizeof secret);
    }
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port[to]);
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (!socket)
        return NULL;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, sizeof public);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, sizeof secret);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, theirs, ET_KEY_TEXT + 1);
    zmq_connect(socket, endpoint);
    if (kind == MEMBER)
        say_what_no_worker_says(socket);
    else
        say(socket, "hello", 5, 0);
    return socket;
}

/* ---- by bytes ---- */

static bool put(int fd, const void *bytes, size_t size)
{
    ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent > 0 || (sent < 0 && (errno == EAGAIN || errno == ENOTCONN));
}

/* A command of 200 bytes in place of a long frame: no key opens it. */
static bool put_hello(int fd)
{
    unsigned char hello[202] = { 4, 200, 5, 'H', 'E', 'L', 'L', 'O', 1, 0 };
    fill(hello + 82, sizeof hello - 82);
    return put(fd, hello, sizeof hello);
}

/* Sends what is due; false: the connection is done. */
static bool goes_on(held *h, double at)
{
    char answer[512];
    ssize_t got;
    while ((got = recv(h->fd, answer, sizeof answer, MSG_DONTWAIT)) > 0) {
    }
    if (got == 0 || (errno != EAGAIN && errno != ENOTCONN) || at - h->begun > HOLD)
        return false;
    if (h->kind == NOISE && !h->sent) {
        unsigned char noise[300];
        fill(noise, sizeof noise);
        h->sent = 1;
        return put(h->fd, noise, sizeof noise);
    }
    if (h->kind == SLOW && h->sent < 60 && at - h->said >= 0.2) {
        h->said = at;
        return put(h->fd, greeting + h->sent++, 1);
    }
    if ((h->kind == SILENT || h->kind == SEALED) && !h->sent) {
        h->sent = 1;
        return put(h->fd, greeting, sizeof greeting);
    }
    if (h->kind == SEALED && h->sent == 1 && at - h->begun > 0.05) {
        h->sent = 2;
        return put_hello(h->fd);
    }
    return true;
}

/* ---- all ---- */

static void begin(double at)
{
    held h = { .kind = (int)(all->turn % kinds), .fd = -1, .begun = at, .said = at };
    int to = (int)(all->turn / kinds % ports);
    all->turn++;
    if (count == HELD) {
        all->failed++;
        return;
    }
    if (h.kind == STRANGER || h.kind == MEMBER)
        h.socket = client(h.kind, to);
    else
        h.fd = reach(port[to], SOCK_NONBLOCK);
    if (h.socket || h.fd >= 0) {
        all->made[h.kind]++;
        open_now[count++] = h;
    } else {
        all->failed++;
    }
}

static void go_on(double at)
{
    for (int i = 0; i < count;) {
        held *h = &open_now[i];
        bool on = h->socket ? at - h->begun < CLIENT : goes_on(h, at);
        if (on) {
            i++;
            continue;
        }
        if (h->socket)
            zmq_close(h->socket);
        else
            close(h->fd);
        open_now[i] = open_now[--count];
    }
}

/* A child's work, from whenever it is there until `seconds` after start. */
static void attack(double start, double seconds, double rate)
{
    double at = now();
    long begun = (long)((at - start) * rate);
    while (!stop && at - start < seconds) {
        /* A late attacker makes up for at most a tenth of a second. */
        long due = (long)((at - start) * rate);
        begun = due - begun > (long)(rate / 10) ? due - (long)(rate / 10) : begun;
        for (; begun < due; begun++)
            begin(at);
        go_on(at);
        all->open = count;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
        at = now();
    }
}

static _Noreturn void be_child(double start, double seconds, double rate)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
    context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, 8192);
    attack(start, seconds, rate);
    _exit(0); /* closes all of them */
}

/* How a child ended; it is told to end if we are. */
static int end_of(pid_t child)
{
    int status;
    while (!waitpid(child, &status, WNOHANG)) {
        if (stop)
            kill(child, SIGTERM);
        nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
    }
    return status;
}

/* How often a child had to be replaced; -1: one ended as none does. */
static int attack_by_children(double start, double seconds, double rate)
{
    for (int again = 0; again < AGAIN; again++) {
        pid_t child = fork();
        if (!child)
            be_child(start, seconds, rate);
        int status = child < 0 ? 0 : end_of(child);
        bool aborted = child > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
        if (child < 0 || (!aborted && status))
            return -1;
        if (!aborted || stop || now() - start >= seconds)
            return again;
    }
    return -1;
}

static void say_how_many(int again, double seconds)
{
    long sum = 0;
    for (int i = 0; i < KINDS; i++) {
        printf("%s %ld ", kind_names[i], all->made[i]);
        sum += all->made[i];
    }
    printf("failed %ld open %d replaced %d made %ld in %.1f seconds, %.0f a second\n", all->failed,
           all->open, again, sum, seconds, (double)sum / seconds);
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    struct rlimit limit;
    if (argc < 5)
        return 2;
    if (et_keys_read(&keys, argv[3], ET_JOB_WORKER, &error)) {
        fprintf(stderr, "attack: %s\n", error.text);
        return 1;
    }
    for (int i = 4; i < argc && ports < PORTS; i++)
        port[ports++] = atoi(argv[i]);
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 1;
    all->state = SIGNERS;
    kinds = getenv("ETUDE_ATTACK_STRANGERS") ? MEMBER : KINDS;
    stop_at_sigterm();
    double start = now();
    int again = attack_by_children(start, atof(argv[1]), atof(argv[2]));
    say_how_many(again, now() - start);
    return again < 0;
}
