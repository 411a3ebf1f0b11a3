/* Connections of others, over a loopback and with a clock of the test. Connections are closed if
 * one uses too much memory, if there are too many, if all together use too much memory, or if one
 * sends wrong data; also after days of heartbeats only. All others remain open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <etude/log.h>

#include "roles/wire/sessions.h"

enum { COUNT = 8, MOST = 10000, ALL = 30000, KEYED_MOST = 5 };
#define HANDSHAKE 4.0

typedef struct hall {
    et_sessions *sessions;
    int near[COUNT], far[COUNT]; /* near: the task's end */
    char said[10][400];
    int lines;
} hall;

static void keep_text(void *payload, et_log_level level, const char *text)
{
    hall *h = payload;
    (void)level;
    assert_true(h->lines < 10);
    snprintf(h->said[h->lines++], sizeof *h->said, "%s", text);
}

static void open_hall(hall *h)
{
    et_error error = ET_ERROR_INIT;
    et_sessions_setup setup = { .address = "here:1",
                                .most = MOST,
                                .all = ALL,
                                .keyed_most = KEYED_MOST,
                                .handshake = HANDSHAKE };
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *h = (hall){ .lines = 0 };
    assert_int_equal(et_sessions_open(&h->sessions, &setup, &error), 0);
    assert_return_code(bind(listener, (struct sockaddr *)&at, size), errno);
    assert_return_code(listen(listener, COUNT), errno);
    assert_return_code(getsockname(listener, (struct sockaddr *)&at, &size), errno);
    for (int i = 0; i < COUNT; i++) {
        h->far[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_return_code(connect(h->far[i], (struct sockaddr *)&at, size), errno);
        h->near[i] = accept(listener, NULL, NULL);
        assert_true(h->near[i] >= 0);
    }
    close(listener);
    et_log_set(keep_text, h);
}

static void close_hall(hall *h)
{
    et_sessions_close(h->sessions);
    et_log_set(NULL, NULL);
    for (int i = 0; i < COUNT; i++) {
        close(h->near[i]);
        close(h->far[i]);
    }
}

static void send_bytes(hall *h, int i, size_t size)
{
    static const char bytes[4 * MOST];
    assert_int_equal(send(h->far[i], bytes, size, MSG_NOSIGNAL), size);
}

/* So many bytes come and leave the kernel, as into a transport's memory. */
static void bring(hall *h, int i, size_t size)
{
    static char bytes[4 * MOST];
    send_bytes(h, i, size);
    assert_int_equal(recv(h->near[i], bytes, size, MSG_WAITALL), size);
}

static bool is_shut(const hall *h, int i)
{
    char byte;
    return recv(h->far[i], &byte, 1, MSG_DONTWAIT) == 0;
}

static void test_sessions__most(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    for (int i = 0; i < 4; i++)
        et_sessions_came(h.sessions, h.near[i], 1);
    et_sessions_showed(h.sessions, ET_JOB_WORKER, 1.1);
    bring(&h, 0, MOST);
    bring(&h, 1, MOST + 1);
    bring(&h, 2, MOST + 1);
    et_sessions_took(h.sessions, h.near[2], ET_JOB_MASTER, 1);
    send_bytes(&h, 3, 2 * MOST); /* waits in the kernel: not in any task's memory */
    et_sessions_look(h.sessions, 2);
    assert_true(!is_shut(&h, 0) && is_shut(&h, 1) && !is_shut(&h, 2) && !is_shut(&h, 3));
    assert_int_equal(h.lines, 1);
    assert_non_null(strstr(h.said[0], "here:1: 127.0.0.1:"));
    assert_non_null(strstr(h.said[0], "role worker,"));
    /* The same descriptor again: the earlier connection's bytes do not count for the new one. */
    et_sessions_left(h.sessions, h.near[2]);
    et_sessions_came(h.sessions, h.near[2], 3);
    et_sessions_took(h.sessions, h.near[2], ET_JOB_MASTER, MOST);
    bring(&h, 2, MOST);
    et_sessions_look(h.sessions, 4);
    assert_true(
        is_shut(&h, 2)); /* its socket has brought more than twice that, and MOST was taken */
    close_hall(&h);
    assert_non_null(strstr(h.said[h.lines - 1], "here:1: 2 connections were closed"));
}

/* One line for each key, however many connections use it. */
static void test_sessions__wrong(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    for (int i = 0; i < 4; i++) {
        et_sessions_came(h.sessions, h.near[i], 1);
        et_sessions_took(h.sessions, h.near[i], i == 2 ? ET_JOB_MASTER : ET_JOB_WORKER, 0);
        if (i < 3)
            et_sessions_refuse(h.sessions, h.near[i], "has lied");
    }
    et_sessions_look(h.sessions, 2);
    assert_true(is_shut(&h, 0) && is_shut(&h, 1) && is_shut(&h, 2) && !is_shut(&h, 3));
    assert_int_equal(h.lines, 2);
    assert_non_null(strstr(h.said[0], "role worker, has lied"));
    assert_non_null(strstr(h.said[1], "role master, has lied"));
    et_sessions_refuse(h.sessions, -1, "nobody");
    et_sessions_refuse(h.sessions, 1 << 30, "nobody");
    et_sessions_took(h.sessions, 1 << 30, ET_JOB_WORKER, 1);
    close_hall(&h);
    assert_non_null(strstr(h.said[2], "3 connections were closed"));
}

/* Four connections hold less than the limit for one and more than that for all: the youngest of the
 * large ones is shut. */
static void test_sessions__all(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    for (int i = 0; i < 5; i++)
        et_sessions_came(h.sessions, h.near[i], 1 + i);
    et_sessions_showed(h.sessions, ET_JOB_WORKER, 10);
    for (int i = 0; i < 4; i++)
        bring(&h, i, MOST - 1000);
    bring(&h, 4, 10); /* younger, small */
    et_sessions_look(h.sessions, 7);
    assert_true(!is_shut(&h, 0) && !is_shut(&h, 1) && !is_shut(&h, 2));
    assert_true(is_shut(&h, 3) && !is_shut(&h, 4));
    close_hall(&h);
}

/* More connections than places: connections in their handshake do not count, and the youngest of
 * the others are shut. */
static void test_sessions__places(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    for (int i = 0; i < COUNT; i++)
        et_sessions_came(h.sessions, h.near[i], 1 + i);
    et_sessions_look(h.sessions, 1 + (KEYED_MOST - 1) + HANDSHAKE);
    for (int i = 0; i < COUNT; i++)
        assert_false(is_shut(&h, i));
    et_sessions_left(h.sessions, h.near[1]);
    et_sessions_look(h.sessions, 1 + COUNT + HANDSHAKE);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(is_shut(&h, i), i > KEYED_MOST);
    close_hall(&h);
}

/* Bytes that no task takes, as heartbeats are: after days the line is made again, and nobody is
 * named for it. */
static void test_sessions__heartbeats(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    et_sessions_came(h.sessions, h.near[0], 1);
    et_sessions_showed(h.sessions, ET_JOB_WORKER, 10);
    bring(&h, 0, MOST);
    et_sessions_look(h.sessions, 90000);
    assert_false(is_shut(&h, 0));
    bring(&h, 0, 1);
    et_sessions_look(h.sessions, 90001);
    assert_true(is_shut(&h, 0));
    close_hall(&h);
    assert_int_equal(h.lines, 0);
}

/* No key was shown, so no connection can have one, and nothing that was sent was kept. */
static void test_sessions__strangers(void **state)
{
    (void)state;
    static hall h;
    open_hall(&h);
    et_sessions_showed(h.sessions, ET_JOB_WORKER, 1);
    et_sessions_came(h.sessions, h.near[0], 2);
    bring(&h, 0, MOST + 1);
    et_sessions_look(h.sessions, 3);
    assert_false(is_shut(&h, 0));
    et_sessions_showed(h.sessions, ET_JOB_WORKER, 3);
    et_sessions_look(h.sessions, 4);
    assert_true(is_shut(&h, 0));
    close_hall(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sessions__most),       cmocka_unit_test(test_sessions__wrong),
        cmocka_unit_test(test_sessions__all),        cmocka_unit_test(test_sessions__places),
        cmocka_unit_test(test_sessions__heartbeats), cmocka_unit_test(test_sessions__strangers),
    };
    return cmocka_run_group_tests_name("sessions", tests, NULL, NULL);
}
