/* An attacker with a worker's key sends endless frames of a message, which ZeroMQ keeps until it is
 * complete: the process's memory stays bounded, the honest worker continues, and the log names the
 * key once. The attacker speaks ZMTP and CURVE (RFC 23 and 26) by libsodium, because ZeroMQ on its
 * side would also keep the message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include <sodium.h>
#include <zmq.h>

#include <etude/log.h>

#include "roles/network.h"
#include "roles/wire_pair.h"
#include "sanitized.h"

#define LARGEST   300000
#define ATTACK    6.0        /* seconds */
#define LATE      60         /* so many more, on a slow machine, until two were cut */
#define SENT_MOST 1500000000 /* bytes: a test that fails is not to fill the machine */
/* A sanitizer fences each small frame in: twice its memory and more. */
#define GROWN (SANITIZED ? 250000000 : 120000000)
#define SEAL  crypto_box_MACBYTES

enum { FRAME = 32768, TEXT = 400 };

/* What freed memory AddressSanitizer keeps would pass for a leak. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8";
}

/* ---- CURVE, a client's side ---- */

typedef struct client {
    int fd;
    uint64_t nonce;
    unsigned char public[32], secret[32]; /* of this connection */
    unsigned char theirs[32], shared[32];
} client;

typedef struct attacker {
    pthread_t thread;
    const pair *pair;
    size_t frame; /* bytes of each */
    _Atomic int64_t sent;
    _Atomic int cut; /* connections that were closed in the middle */
    _Atomic bool over;
} attacker;

static bool put(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;
    ssize_t sent = 1;
    for (; size && sent > 0; at += sent, size -= (size_t)sent)
        sent = send(fd, at, size, MSG_NOSIGNAL);
    return !size;
}

static bool take(int fd, void *bytes, size_t size)
{
    return recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size;
}

/* A nonce of 24 bytes: a text, then what counts. */
static const unsigned char *nonce_of(unsigned char *nonce, const char *text, const void *rest)
{
    size_t length = strlen(text);
    memcpy(nonce, text, length);
    memcpy(nonce + length, rest, 24 - length);
    return nonce;
}

/* The next short nonce, into `at` as well. */
static const unsigned char *next_nonce(client *c, const char *text, unsigned char *nonce,
                                       unsigned char *at)
{
    c->nonce++;
    for (int i = 0; i < 8; i++)
        at[i] = (unsigned char)(c->nonce >> 8 * (7 - i));
    return nonce_of(nonce, text, at);
}

static bool greet(const client *c)
{
    const unsigned char greeting[64] = { 0xff, 0, 0, 0,   0,   0,   0,   0,  1,
                                         0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E' };
    unsigned char theirs[64];
    return put(c->fd, greeting, sizeof greeting) && take(c->fd, theirs, sizeof theirs);
}

static bool say_hello(client *c, const unsigned char *server)
{
    unsigned char hello[202] = { 4, 200, 5, 'H', 'E', 'L', 'L', 'O', 1, 0 }, zeros[64] = { 0 };
    unsigned char nonce[24];
    memcpy(hello + 82, c->public, 32);
    return !crypto_box_easy(hello + 122, zeros, sizeof zeros,
                            next_nonce(c, "CurveZMQHELLO---", nonce, hello + 114), server,
                            c->secret) &&
           put(c->fd, hello, sizeof hello);
}

/* Their key of this connection and the cookie. */
static bool hear_welcome(client *c, const unsigned char *server, unsigned char *cookie)
{
    unsigned char welcome[170], plain[128], nonce[24];
    if (!take(c->fd, welcome, sizeof welcome) || memcmp(welcome + 2, "\7WELCOME", 8) ||
        crypto_box_open_easy(plain, welcome + 26, 144, nonce_of(nonce, "WELCOME-", welcome + 10),
                             server, c->secret))
        return false;
    memcpy(c->theirs, plain, 32);
    memcpy(cookie, plain + 32, 96);
    return true;
}

static bool initiate(client *c, const pair *p, const unsigned char *server,
                     const unsigned char *cookie)
{
    static const unsigned char metadata[] = "\13Socket-Type\0\0\0\6DEALER\10Identity\0\0\0";
    unsigned char out[9 + 9 + 96 + 8 + SEAL + 128 + sizeof metadata] = { 6 };
    unsigned char plain[128 + sizeof metadata], vouch[64], nonce[24], public[32], secret[32];
    const uint64_t size = sizeof out - 9;
    const et_keys *keys = &p->keys[ET_JOB_WORKER];
    zmq_z85_decode(public, keys->public[ET_JOB_WORKER]);
    zmq_z85_decode(secret, keys->secret);
    memcpy(vouch, c->public, 32);
    memcpy(vouch + 32, server, 32);
    memcpy(plain, public, 32);
    randombytes_buf(plain + 32, 16);
    if (crypto_box_easy(plain + 48, vouch, sizeof vouch, nonce_of(nonce, "VOUCH---", plain + 32),
                        c->theirs, secret))
        return false;
    memcpy(plain + 128, metadata, sizeof metadata);
    for (int i = 0; i < 8; i++)
        out[1 + i] = (unsigned char)(size >> 8 * (7 - i));
    memcpy(out + 9, "\10INITIATE", 9);
    memcpy(out + 18, cookie, 96);
    return !crypto_box_easy(out + 122, plain, sizeof plain,
                            next_nonce(c, "CurveZMQINITIATE", nonce, out + 114), c->theirs,
                            c->secret) &&
           put(c->fd, out, sizeof out);
}

static bool get_in(client *c, const pair *p)
{
    unsigned char server[32], cookie[96], ready[2];
    const struct timeval limit = { .tv_sec = 2 };
    *c = (client){ .fd = reach(p->port, 0) };
    setsockopt(c->fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    crypto_box_keypair(c->public, c->secret);
    zmq_z85_decode(server, p->keys[ET_JOB_WORKER].public[ET_JOB_PARAM_SERVER]);
    return c->fd >= 0 && greet(c) && say_hello(c, server) && hear_welcome(c, server, cookie) &&
           initiate(c, p, server, cookie) && take(c->fd, ready, sizeof ready) &&
           !crypto_box_beforenm(c->shared, c->theirs, c->secret);
}

/* A frame that others follow, at `out`; its bytes there. */
static size_t write_more(client *c, size_t size, unsigned char *out)
{
    static const unsigned char plain[1 + FRAME] = { 1 };
    unsigned char nonce[24];
    uint64_t length = 16 + SEAL + 1 + size;
    size_t head = length > 255 ? 9 : 2;
    out[0] = length > 255 ? 2 : 0;
    for (size_t i = 1; i < head; i++)
        out[i] = (unsigned char)(length >> 8 * (head - 1 - i));
    memcpy(out + head, "\7MESSAGE", 8);
    int failed = crypto_box_easy_afternm(out + head + 16, plain, 1 + size,
                                         next_nonce(c, "CurveZMQMESSAGEC", nonce, out + head + 8),
                                         c->shared);
    return failed ? 0 : head + length;
}

/* As many as go at once. */
static bool say_more(client *c, size_t size)
{
    static unsigned char out[4 * FRAME];
    size_t used = 0;
    while (used + size + 100 <= sizeof out)
        used += write_more(c, size, out + used);
    return put(c->fd, out, used);
}

static void *attack(void *payload)
{
    attacker *a = payload;
    while (!a->over && a->sent < SENT_MOST) {
        client c;
        bool in = get_in(&c, a->pair), goes = in;
        while (goes && !a->over && a->sent < SENT_MOST) {
            goes = say_more(&c, a->frame);
            a->sent += 4 * FRAME;
        }
        a->cut += in && !goes;
        if (c.fd >= 0)
            close(c.fd);
    }
    return NULL;
}

/* ---- the test ---- */

typedef struct book {
    int named, counted;
    char text[TEXT];
} book;

static void keep_text(void *payload, et_log_level level, const char *text)
{
    book *b = payload;
    (void)level;
    if (strstr(text, "Etude closed the connection")) {
        b->named++;
        snprintf(b->text, sizeof b->text, "%s", text);
    }
    b->counted +=
        strstr(text, "closed: the key is right, but the tasks of this cluster need fewer") != NULL;
}

static int64_t resident(void)
{
    long long size = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lld %lld", &size, &pages), 2);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* The answers that an honest worker got meanwhile. */
static int talk_for(pair *p, double seconds, int64_t *most)
{
    double until = et_clock_monotonic() + seconds;
    static char bytes[LARGEST];
    int answered = 0;
    while (et_clock_monotonic() < until) {
        et_message got;
        int64_t now = resident();
        *most = now > *most ? now : *most;
        say(p->worker, 2, 1, bytes, sizeof bytes);
        if (!wait_for(p->server, p->worker, 5, &got))
            continue;
        assert_int_equal(got.size, sizeof bytes);
        et_link_answer(et_wire_link(p->server), &got,
                       (et_message){ .kind = ET_MESSAGE_STAGED, .from = 1 });
        answered += wait_for(p->worker, p->server, 5, &got);
    }
    return answered;
}

static void attack_with(size_t frame)
{
    static pair p;
    book b = { .named = 0 };
    attacker a = { .pair = &p, .frame = frame };
    int64_t before = 0, most = 0;
    assert_true(sodium_init() >= 0);
    open_server(&p, LARGEST);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    assert_true(is_connected(&p));
    et_log_set(keep_text, &b);
    assert_true(talk_for(&p, 1, &before) > 0);
    assert_int_equal(pthread_create(&a.thread, NULL, attack, &a), 0);
    int answered = talk_for(&p, ATTACK, &most);
    for (int i = 0; a.cut < 2 && i < LATE; i++)
        answered += talk_for(&p, 1, &most);
    a.over = true;
    pthread_join(a.thread, NULL);
    print_message(
        "frames of %zu bytes: %.0f MB sent, %d connections cut, %.1f MB more than before, "
        "%d answers meanwhile\n%s\n",
        frame, (double)a.sent * 1e-6, a.cut, (double)(most - before) * 1e-6, answered, b.text);
    assert_true(et_wire_alone(p.worker, 1) == 0);
    close_pair(&p);
    et_log_set(NULL, NULL);
    assert_true(a.cut >= 2);
    assert_true(answered > 0);
    assert_true(most - before < GROWN);
    assert_int_equal(b.named, 1);
    assert_int_equal(b.counted, 1);
    assert_non_null(strstr(b.text, "role worker"));
}

static void test_wire__endless(void **state)
{
    (void)state;
    attack_with(FRAME);
}

static void test_wire__endless_small(void **state)
{
    (void)state;
    attack_with(10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__endless),
        cmocka_unit_test(test_wire__endless_small),
    };
    return cmocka_run_group_tests_name("wire_endless", tests, NULL, NULL);
}
