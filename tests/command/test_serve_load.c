/* `etude serve` with many clients: all are answered correctly, or refused if its queue is full or
 * their time is over. Accepted requests are answered, also after SIGTERM. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bad_case.h"
#include "base/clock.h"
#include "served.h"
#include "web_client.h"

enum { ASKERS = 12, TURNS = 12 };

typedef struct asker {
    pthread_t thread;
    int port, number, right, busy, other;
    const char *options;
} asker;

static void *ask_often(void *payload)
{
    asker *a = payload;
    for (int turn = 0; turn < TURNS; turn++) {
        int first = (a->number * 7 + turn * 11) % SERVED_LINES, count = 1 + (a->number + turn) % 9;
        char *body = request_of(first, count, a->options);
        char *answer = web_post(a->port, "/translate", body);
        bool busy = web_status(answer) == 503 && web_has(answer, "Retry-After", "1");
        a->right += is_right(answer, first, count);
        a->busy += busy;
        a->other += !busy && web_status(answer) != 200;
        free(answer);
        free(body);
    }
    return NULL;
}

/* All askers together: how many of their requests were answered right, and turned away. */
static asker ask_together(int port, const char *options)
{
    asker askers[ASKERS], sum = { .right = 0 };
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (asker){ .port = port, .number = i, .options = options };
        assert_int_equal(pthread_create(&askers[i].thread, NULL, ask_often, &askers[i]), 0);
    }
    for (int i = 0; i < ASKERS; i++) {
        pthread_join(askers[i].thread, NULL);
        sum.right += askers[i].right;
        sum.busy += askers[i].busy;
        sum.other += askers[i].other;
    }
    return sum;
}

static double value_of(const char *answer, const char *name)
{
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(web_body(answer), line);
    if (!found)
        fail_msg("no %s in %s", name, answer);
    return atof(found + strlen(line));
}

/* Value of a metric. */
static double metric(int port, const char *name)
{
    char *answer = web_ask(port, "/metrics", "", NULL);
    double value = value_of(answer, name);
    free(answer);
    return value;
}

/* Lines that were accepted, answered or not. */
static double accepted(int port)
{
    char *answer = web_ask(port, "/metrics", "", NULL);
    double value = value_of(answer, "etude_queue_items") + value_of(answer, "etude_batch_items") +
                   value_of(answer, "etude_items_total");
    free(answer);
    return value;
}

/* Until so many lines were accepted. */
static void wait_for(int port, double least)
{
    for (int i = 0; accepted(port) < least; i++) {
        if (i == 10000)
            fail_msg("not all requests are accepted");
        usleep(1000);
    }
}

static void test_serve_load__many_at_once(void **state)
{
    (void)state;
    web_server s = web_start("serve m --threads 2", 0);
    asker sum = ask_together(s.port, "");
    assert_int_equal(sum.right, ASKERS * TURNS);
    assert_int_equal((int)metric(s.port, "etude_requests_total{code=\"200\"}"), ASKERS * TURNS);
    assert_int_equal((int)metric(s.port, "etude_queue_items"), 0);
    /* Answered together, or there would be as many batches. */
    assert_true(metric(s.port, "etude_batches_total") < ASKERS * TURNS);
    assert_true(metric(s.port, "etude_items_total") > ASKERS * TURNS);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve_load__full_queue(void **state)
{
    (void)state;
    web_server s = web_start("serve m --threads 1 --batch 9 --queue 9", 0);
    asker sum = ask_together(s.port, "\"beam_size\": 8, ");
    assert_int_equal(sum.other, 0);
    assert_true(sum.busy > 0);
    assert_true(sum.busy < ASKERS * TURNS);
    assert_right(s.port, 0, 9);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve_load__deadline(void **state)
{
    (void)state;
    web_server s = web_start("serve m --threads 1 --deadline 0.005s", 0);
    char *body = repeat("{\"beam_size\": 8, \"lines\": [\"red dog runs\"",
                        ", \"blue cat house tree\"", 1000, "]}");
    char *answer = web_post(s.port, "/translate", body);
    assert_refused("a long request", answer, 504, "within the time");
    free(answer);
    free(body);
    answer = web_ask(s.port, "/health", "", NULL);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    char *said = bad_read("web.err", NULL);
    bad_assert_says("deadline", said, "1 timed out");
    free(said);
}

static void *ask_much(void *payload)
{
    char *body = repeat("{\"beam_size\": 8, \"lines\": [\"red dog runs\"",
                        ", \"blue cat house tree\"", 1000, "]}");
    char *answer = web_post(*(int *)payload, "/translate", body);
    free(body);
    return answer;
}

/* A request that takes minutes, of so many bytes; free it. */
static char *long_request(void)
{
    return repeat("{\"beam_size\": 8, \"lines\": [\"red dog runs\"",
                  ", \"blue cat house tree red dog runs\"", 20000, "]}");
}

/* Sends such a request, and returns its connection. */
static int send_long(int port, const char *version)
{
    char head[256], *body = long_request();
    int fd = web_connect(port);
    int length = snprintf(head, sizeof head,
                          "POST /translate HTTP/%s\r\nHost: localhost\r\n" JSON
                          "Content-Length: %zu\r\n\r\n",
                          version, strlen(body));
    web_send(fd, head, (size_t)length);
    web_send(fd, body, strlen(body));
    free(body);
    return fd;
}

/* Waits until a metric is so low; fails if that takes too long. */
static void wait_until(int port, const char *name, double most)
{
    const double before = et_clock_monotonic();
    while (metric(port, name) > most) {
        if (et_clock_monotonic() - before > SERVED_PATIENCE)
            fail_msg("%s is still %g", name, metric(port, name));
        usleep(20000);
    }
}

#define LONG "serve m --threads 1 --batch 30000 "

/* The server works for nobody, and for others at once. */
static void test_serve_load__deadline_ends_the_work(void **state)
{
    (void)state;
    web_server s = web_start(LONG "--deadline 1s", 0);
    char *body = long_request(), *answer = web_post(s.port, "/translate", body);
    assert_refused("a long request", answer, 504, "within the time");
    wait_until(s.port, "etude_batch_items", 0);
    assert_right(s.port, 0, 3);
    free(answer);
    /* A stop waits no longer than a deadline. */
    int fd = send_long(s.port, "1.1");
    wait_for(s.port, 20004);
    const double before = et_clock_monotonic();
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    assert_true(et_clock_monotonic() - before < SERVED_PATIENCE);
    answer = web_read(fd);
    assert_int_equal(web_status(answer), 504);
    free(answer);
    free(body);
}

static void test_serve_load__client_has_gone(void **state)
{
    (void)state;
    web_server s = web_start(LONG "--deadline 600s", 0);
    for (int waits = 0; waits < 2; waits++) { /* the second client's request is not computed yet */
        int first = send_long(s.port, "1.1"), second = waits ? send_long(s.port, "1.1") : -1;
        wait_for(s.port, 20001);
        if (waits)
            close(second);
        usleep(100000);
        close(first);
        wait_until(s.port, "etude_batch_items", 0);
        wait_until(s.port, "etude_queue_items", 0);
        wait_until(s.port, "etude_connections", 1); /* the connection of this request */
    }
    assert_right(s.port, 0, 3);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    char *said = bad_read("web.err", NULL);
    bad_assert_says("gone", said, "3 closed by the client");
    free(said);
}

/* A client that will send no more still reads. */
static void test_serve_load__client_is_half_closed(void **state)
{
    static const char *const versions[] = { "1.1", "1.0" };
    (void)state;
    web_server s = web_start("serve m --threads 1 --deadline 600s", 0);
    char *body = repeat("{\"beam_size\": 8, \"lines\": [\"red dog runs\"",
                        ", \"blue cat house tree red dog runs\"", 1000, "]}");
    for (size_t i = 0; i < COUNT(versions); i++) {
        char head[256];
        int length =
            snprintf(head, sizeof head,
                     "POST /translate HTTP/%s\r\nHost: localhost\r\nConnection: close\r\n" JSON
                     "Content-Length: %zu\r\n\r\n",
                     versions[i], strlen(body));
        int fd = web_connect(s.port);
        web_send(fd, head, (size_t)length);
        web_send(fd, body, strlen(body));
        shutdown(fd, SHUT_WR);
        char *answer = web_read(fd);
        assert_non_null(strstr(answer, " 200 OK\r\n"));
        assert_non_null(strstr(answer, "\"translations\": ["));
        free(answer);
    }
    free(body);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

typedef struct beside {
    int port;
    bool right;
} beside;

static void *ask_beside(void *payload)
{
    beside *b = payload;
    char *body = request_of(5, 7, ""), *answer = web_post(b->port, "/translate", body);
    b->right = is_right(answer, 5, 7);
    free(answer);
    free(body);
    return NULL;
}

/* Of two requests in one batch one ends: the other's answer is the same, and comes soon. */
static void test_serve_load__one_of_a_batch_ends(void **state)
{
    pthread_t thread;
    (void)state;
    web_server s = web_start(LONG "--deadline 600s", 0);
    beside b = { .port = s.port };
    char *usual = repeat("{\"lines\": [\"red dog runs\"", ", \"blue cat house tree\"", 25000, "]}");
    char head[256];
    int length =
        snprintf(head, sizeof head, START JSON "Content-Length: %zu\r\n\r\n", strlen(usual));
    int blocks = send_long(s.port, "1.1");
    wait_for(s.port, 20001);
    int fd = web_connect(s.port);
    web_send(fd, head, (size_t)length);
    web_send(fd, usual, strlen(usual));
    assert_int_equal(pthread_create(&thread, NULL, ask_beside, &b), 0);
    wait_for(s.port, 20001 + 25001 + 7);
    close(blocks);
    while (metric(s.port, "etude_batch_items") != 25001 + 7)
        usleep(1000);
    close(fd);
    const double before = et_clock_monotonic();
    pthread_join(thread, NULL);
    assert_true(b.right);
    assert_true(et_clock_monotonic() - before < SERVED_PATIENCE);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    free(usual);
}

/* Some are at work, some wait, when the signal comes; a connection that is idle does not hold it.
 */
static void test_serve_load__stop_answers_what_was_accepted(void **state)
{
    enum { MANY = 4 };
    pthread_t thread[MANY];
    (void)state;
    web_server s = web_start("serve m --threads 1 --deadline 600s", 0);
    int idle = web_connect(s.port);
    for (int i = 0; i < MANY; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_much, &s.port), 0);
    wait_for(s.port, 1001 * MANY);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    for (int i = 0; i < MANY; i++) {
        void *answer;
        pthread_join(thread[i], &answer);
        assert_int_equal(web_status(answer), 200);
        assert_true(web_has(answer, "Connection", "close"));
        free(answer);
    }
    close(idle);
    char *said = bad_read("web.err", NULL);
    bad_assert_says("stop", said, "stopping ");
    bad_assert_says("stop", said, "4 requests answered, 4,004 lines");
    free(said);
}

/* Requests that are not complete by then are not accepted, and the server does not wait for them.
 */
static void test_serve_load__stop_with_half_requests(void **state)
{
    static const char *const halves[] = { "POST /tr",
                                          START JSON "Content-Length: 100\r\n\r\n{\"lines\"" };
    static const char *const commands[] = { "serve m", "watch m" };
    (void)state;
    for (size_t c = 0; c < COUNT(commands); c++) {
        web_server s = web_start(commands[c], 0);
        int fds[COUNT(halves)];
        for (size_t i = 0; i < COUNT(halves); i++) {
            fds[i] = web_connect(s.port);
            web_send(fds[i], halves[i], strlen(halves[i]));
        }
        assert_answers_at_once(s.port, "/");
        const double before = et_clock_monotonic();
        assert_int_equal(web_stop(&s, SIGTERM), 0);
        assert_true(et_clock_monotonic() - before < SERVED_PATIENCE);
        for (size_t i = 0; i < COUNT(halves); i++)
            close(fds[i]);
        char *said = bad_read("web.err", NULL);
        assert_null(strstr(said, "closed"));
        free(said);
    }
}

/* The same port again, and nothing is left of the first server. */
static void test_serve_load__killed_and_started_again(void **state)
{
    pthread_t thread;
    void *answer;
    (void)state;
    web_server s = web_start("serve m", 0);
    int port = s.port;
    assert_right(port, 0, 10);
    assert_int_equal(pthread_create(&thread, NULL, ask_much, &port), 0);
    wait_for(port, 11);
    assert_int_equal(web_stop(&s, SIGKILL), -SIGKILL);
    pthread_join(thread, &answer);
    assert_int_equal(web_status(answer), 0);
    free(answer);
    s = web_start("serve m", port);
    assert_int_equal(s.port, port);
    assert_right(port, 0, SERVED_LINES);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* Kilobytes that a process has in memory. */
static long memory_of(pid_t pid)
{
    char path[64], line[256];
    long kilobytes = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kilobytes) == 1)
            break;
    fclose(file);
    return kilobytes;
}

/* Valid and invalid requests for so many seconds (ET_TEST_SECONDS, for a longer test), with the
 * server killed and restarted between: each valid one is answered correctly, each invalid one
 * refused, and memory does not grow. */
static void test_serve_load__load(void **state)
{
    const char *wanted = getenv("ET_TEST_SECONDS");
    const int rounds = wanted ? atoi(wanted) : 2;
    int port = 0, asked = 0;
    size_t bad = 0;
    (void)state;
    for (int part = 0; part < 2; part++) {
        web_server s = web_start("serve m --threads 2", port);
        port = s.port;
        long before = 0;
        for (time_t end = time(NULL) + rounds / 2; time(NULL) < end || !before;) {
            asker sum = ask_together(port, asked % 3 ? "" : "\"beam_size\": 3, ");
            if (asked % 3)
                assert_int_equal(sum.right, ASKERS * TURNS);
            assert_int_equal(sum.busy + sum.other, 0);
            bad = assert_bad_json(port);
            if (asked++ >= 2 && !before)
                before = memory_of(s.pid);
        }
        long after = memory_of(s.pid);
        if (after > before + 20000)
            fail_msg("%ld KB, and %ld KB later", before, after);
        if (part)
            assert_int_equal(web_stop(&s, SIGTERM), 0);
        else
            assert_int_equal(web_stop(&s, SIGKILL), -SIGKILL);
    }
    print_message("%d rounds of %d good and %zu bad requests\n", asked, ASKERS * TURNS, bad);
}

/* What AddressSanitizer keeps of freed memory in a server, 256 MB, would pass for growth. */
static void keep_little_that_is_freed(void)
{
    char options[256];
    const char *given = getenv("ASAN_OPTIONS");
    snprintf(options, sizeof options, "%s:quarantine_size_mb=8", given ? given : "");
    setenv("ASAN_OPTIONS", options, 1);
}

/* Argument: the cases to run, "*load". */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve_load__many_at_once),
        cmocka_unit_test(test_serve_load__full_queue),
        cmocka_unit_test(test_serve_load__deadline),
        cmocka_unit_test(test_serve_load__deadline_ends_the_work),
        cmocka_unit_test(test_serve_load__client_has_gone),
        cmocka_unit_test(test_serve_load__client_is_half_closed),
        cmocka_unit_test(test_serve_load__one_of_a_batch_ends),
        cmocka_unit_test(test_serve_load__stop_answers_what_was_accepted),
        cmocka_unit_test(test_serve_load__stop_with_half_requests),
        cmocka_unit_test(test_serve_load__killed_and_started_again),
        cmocka_unit_test(test_serve_load__load),
    };
    signal(SIGPIPE, SIG_IGN);
    keep_little_that_is_freed();
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, served_set_up, bad_tear_down);
}
