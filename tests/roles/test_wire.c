/* The transport over ZeroMQ, two tasks in one process: messages and answers, admission, messages
 * that are too large, frames that are no message; and keys in files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dirent.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/log.h>

#include "roles/wire_pair.h"

#define LARGEST 300000 /* several pieces */

static void test_wire__both_ways(void **state)
{
    (void)state;
    static pair p;
    et_message got;
    static char bytes[LARGEST];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 2654435761u >> 13);
    open_server(&p, LARGEST);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    say(p.worker, 2, 1, bytes, sizeof bytes);
    assert_true(wait_for(p.server, p.worker, 30, &got));
    assert_int_equal(got.kind, ET_MESSAGE_PUSH);
    assert_int_equal(got.from, 2);
    assert_true(got.run == 7 && got.session == 8 && got.sequence == 9 && got.number == -10);
    assert_true(got.extra == 11 && got.value[0] == 0.5 && got.value[1] == -2);
    assert_int_equal(got.size, sizeof bytes);
    assert_memory_equal(got.bytes, bytes, sizeof bytes);
    say(p.server, 1, 2, "hello", 5);
    assert_true(wait_for(p.worker, p.server, 30, &got));
    assert_true(got.from == 1 && got.size == 5 && !memcmp(got.bytes, "hello", 5));
    assert_true(is_connected(&p));
    /* A task that claims to be the master does not have its key. */
    say(p.worker, 0, 1, bytes, 10);
    say(p.worker, 2, 1, bytes, 11);
    assert_true(wait_for(p.server, p.worker, 30, &got));
    assert_int_equal(got.size, 11);
    close_pair(&p);
}

/* An answer goes back to the asker, even if another connection claims the same number meanwhile. */
static void test_wire__answer(void **state)
{
    (void)state;
    static pair p;
    et_message got, question;
    open_server(&p, LARGEST);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    pair other = p;
    open_worker(&other, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    say(p.worker, 2, 1, "which", 5);
    assert_true(wait_for(p.server, p.worker, 30, &question));
    say(other.worker, 2, 1, "who", 3);
    assert_true(wait_for(p.server, other.worker, 30, &got));
    assert_int_equal(got.size, 3);
    et_link_answer(et_wire_link(p.server), &question,
                   (et_message){ .kind = ET_MESSAGE_STAGED, .from = 1 });
    assert_true(wait_for(p.worker, other.worker, 30, &got));
    assert_int_equal(got.kind, ET_MESSAGE_STAGED);
    assert_false(wait_for(other.worker, NULL, 0.2, &got));
    et_wire_close(other.worker);
    close_pair(&p);
}

static void test_wire__strangers(void **state)
{
    (void)state;
    static pair p;
    et_message got;
    et_keys other[ET_JOB_ROLES];
    et_error error = ET_ERROR_INIT;
    open_server(&p, LARGEST);
    assert_int_equal(et_keys_make(other, &error), 0);
    /* A key pair of its own, although it knows the server's public key. */
    memcpy(other[ET_JOB_WORKER].public[ET_JOB_PARAM_SERVER], p.keys[0].public[ET_JOB_PARAM_SERVER],
           ET_KEY_TEXT + 1);
    open_worker(&p, &other[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    say(p.worker, 2, 1, "hello", 5);
    assert_false(wait_for(p.server, p.worker, 1, &got));
    int status = ET_OK;
    double until = et_clock_monotonic() + 60;
    while (!status && et_clock_monotonic() < until) {
        bool any;
        status = et_wire_receive(p.worker, 0.05, &got, &any, &error);
        assert_false(any);
    }
    assert_int_equal(status, ET_EDENIED);
    assert_non_null(strstr(error.text, "key"));
    et_wire_close(p.worker);
    /* No ZeroMQ at all. */
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)p.port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    for (int i = 0; i < 50; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        char noise[300];
        memset(noise, i % 2 ? 0xff : 'G', sizeof noise);
        assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_return_code(send(fd, noise, sizeof noise, MSG_NOSIGNAL), 0);
        close(fd);
    }
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    say(p.worker, 2, 1, "hello", 5);
    assert_true(wait_for(p.server, p.worker, 30, &got));
    assert_int_equal(got.size, 5);
    close_pair(&p);
}

static void test_wire__too_large(void **state)
{
    (void)state;
    static pair p;
    et_message got;
    static char bytes[LARGEST * 4];
    open_server(&p, LARGEST);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, sizeof bytes);
    say(p.worker, 2, 1, bytes, sizeof bytes);
    assert_false(wait_for(p.server, p.worker, 1, &got));
    say(p.worker, 2, 1, bytes, 5); /* the connection lives */
    assert_true(wait_for(p.server, p.worker, 30, &got));
    assert_int_equal(got.size, 5);
    close_pair(&p);
}

static void be_noise(const pair *p)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)p->port),
                                   .sin_addr = { htonl(INADDR_LOOPBACK) } };
    struct timeval limit = { .tv_sec = 10 };
    char noise[300];
    ssize_t count;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    memset(noise, 'G', sizeof noise);
    assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_return_code(send(fd, noise, sizeof noise, MSG_NOSIGNAL), 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    do
        count = recv(fd, noise, sizeof noise, 0);
    while (count > 0);
    assert_true(count == 0 || errno == ECONNRESET); /* it was shown the door */
    close(fd);
}

static void keep_text(void *payload, et_log_level level, const char *text)
{
    (void)level;
    snprintf(payload, 300, "%s", text);
}

/* Three thousand strangers while the task is busy: a task with a key is still admitted, and at the
 * end the number of strangers is logged. */
static void test_wire__crowd(void **state)
{
    (void)state;
    static pair p;
    et_message got;
    static char said[300];
    open_server(&p, LARGEST);
    for (int i = 0; i < 3000; i++)
        be_noise(&p);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    assert_true(is_connected(&p));
    say(p.worker, 2, 1, "hello", 5);
    assert_true(wait_for(p.server, p.worker, 30, &got));
    assert_int_equal(got.size, 5);
    et_log_set(keep_text, said);
    close_pair(&p);
    et_log_set(NULL, NULL);
    assert_non_null(strstr(
        said, ": 3000 connections were refused: no key of this cluster, or damaged in transit"));
}

/* A connection breaks while more bytes wait in it than are taken at once, and the task is busy for
 * longer than two heartbeats. ZeroMQ's own assertion (!_io_error) must not be reached. The sent
 * messages still arrive, and others are admitted. */
static void test_wire__broken_full(void **state)
{
    (void)state;
    static pair p;
    et_message got;
    open_server(&p, LARGEST);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    assert_true(is_connected(&p));
    for (int i = 0; i < 100; i++) {
        say(p.worker, 2, 1, "hello", 5);
        et_clock_sleep(0.01);
    }
    et_wire_close(p.worker);
    et_clock_sleep(12);
    assert_true(wait_for(p.server, NULL, 30, &got));
    assert_int_equal(got.size, 5);
    open_worker(&p, &p.keys[ET_JOB_WORKER], ET_JOB_WORKER, LARGEST);
    say(p.worker, 2, 1, "welcome", 7);
    double until = et_clock_monotonic() + 60;
    while (got.size != 7 && et_clock_monotonic() < until)
        wait_for(p.server, p.worker, 1, &got);
    assert_int_equal(got.size, 7);
    close_pair(&p);
}

/* A connection that has shown no key announces a frame as long as the cluster's messages: it is
 * closed at once, not when the bytes have come. */
static void test_wire__length(void **state)
{
    (void)state;
    static pair p;
    unsigned char greeting[64] = {
        0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0x7f, 3, 0, 'C', 'U', 'R', 'V', 'E'
    };
    const unsigned char lengths[][9] = { { 6, 0, 0, 0, 0, 0, 3, 0, 0 }, /* 196,608 */
                                         { 6, 0, 0, 0, 1, 0, 0, 0, 0 }, /* 4 GiB */
                                         { 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } };
    open_server(&p, LARGEST);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_port = htons((uint16_t)p.port),
                                       .sin_addr = { htonl(INADDR_LOOPBACK) } };
        struct timeval limit = { .tv_sec = 5 };
        char answer[100];
        ssize_t count;
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        assert_return_code(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(send(fd, greeting, sizeof greeting, MSG_NOSIGNAL), sizeof greeting);
        assert_int_equal(send(fd, lengths[i], 9, MSG_NOSIGNAL), 9);
        do
            count = recv(fd, answer, sizeof answer, 0);
        while (count > 0);
        assert_true(count == 0 || errno == ECONNRESET); /* not: nothing for five seconds */
        close(fd);
    }
    close_pair(&p);
}

static void test_message__damaged(void **state)
{
    (void)state;
    unsigned char data[ET_MESSAGE_HEADER + 20];
    et_message message = {
        .kind = ET_MESSAGE_ASK, .from = 3, .run = 1, .bytes = "0123456789abcdefghij", .size = 20
    };
    et_message_write(&message, data);
    memcpy(data + ET_MESSAGE_HEADER, message.bytes, 20);
    assert_true(et_message_read(&message, data, sizeof data));
    for (size_t bit = 0; bit < 8 * sizeof data; bit++) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_false(et_message_read(&message, data, sizeof data));
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    for (size_t size = 0; size < sizeof data; size++)
        assert_false(et_message_read(&message, data, size));
}

static void test_keys__files(void **state)
{
    (void)state;
    et_keys keys[ET_JOB_ROLES], read;
    et_error error = ET_ERROR_INIT;
    char directory[] = "keys.XXXXXX", path[64];
    struct stat facts;
    assert_non_null(mkdtemp(directory));
    assert_int_equal(et_keys_make(keys, &error), 0);
    assert_int_equal(et_keys_write(keys, directory, &error), 0);
    for (int role = 0; role < ET_JOB_ROLES; role++) {
        snprintf(path, sizeof path, "%s/%s.key", directory, et_job_role_names[role]);
        assert_int_equal(stat(path, &facts), 0);
        assert_int_equal(facts.st_mode & 0777, 0600);
        assert_int_equal(et_keys_read(&read, directory, (et_job_role)role, &error), 0);
        assert_string_equal(read.secret, keys[role].secret);
        for (int i = 0; i < ET_JOB_ROLES; i++)
            assert_string_equal(read.public[i], keys[0].public[i]);
    }
    /* There already; readable by others; damaged; gone. */
    assert_int_equal(et_keys_write(keys, directory, &error), ET_EUSAGE);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(et_keys_read(&read, directory, ET_JOB_WORKER, &error), ET_EDENIED);
    assert_int_equal(chmod(path, 0600), 0);
    FILE *file = fopen(path, "w");
    fputs("worker 0123\n", file);
    fclose(file);
    assert_int_equal(et_keys_read(&read, directory, ET_JOB_WORKER, &error), ET_EFORMAT);
    unlink(path);
    assert_int_equal(et_keys_read(&read, directory, ET_JOB_WORKER, &error), ET_ENOTFOUND);
}

static int descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    int count = 0;
    while (readdir(all))
        count++;
    closedir(all);
    return count;
}

/* Of a connection that does not open no descriptor is left but the caller's own. */
static void test_wire__not_opened(void **state)
{
    (void)state;
    et_keys keys[ET_JOB_ROLES];
    et_error error = ET_ERROR_INIT;
    const char *connect[] = { "no port", NULL };
    char address[64];
    int port, fd = listen_somewhere(&port);
    et_wire *wire;
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    assert_int_equal(et_keys_make(keys, &error), 0);
    et_wire_setup setup = { .keys = &keys[ET_JOB_PARAM_SERVER],
                            .role = ET_JOB_PARAM_SERVER,
                            .servers = 1,
                            .bind = address,
                            .bind_fd = fd,
                            .connect = connect,
                            .senders = 2,
                            .largest = LARGEST,
                            .asked = LARGEST };
    int before = descriptors();
    for (int i = 0; i < 2; i++) {
        assert_int_not_equal(et_wire_open(&wire, &setup, &error), 0);
        assert_null(wire);
        assert_int_equal(descriptors(), before);
    }
    assert_return_code(close(fd), errno);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wire__both_ways),   cmocka_unit_test(test_wire__answer),
        cmocka_unit_test(test_wire__strangers),   cmocka_unit_test(test_wire__too_large),
        cmocka_unit_test(test_wire__length),      cmocka_unit_test(test_wire__crowd),
        cmocka_unit_test(test_wire__broken_full), cmocka_unit_test(test_message__damaged),
        cmocka_unit_test(test_keys__files),       cmocka_unit_test(test_wire__not_opened),
    };
    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
