/* `etude serve` if memory is short while it reads or computes a request: one malloc of any of its
 * threads fails, including libraries', or all from one on. The answer is complete, or 503, or
 * missing if there is no memory even for that; the next request is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bad_case.h"
#include "served.h"
#include "web_client.h"

#define CSV "Content-Type: text/csv\r\n"

/* Calls up to which each is let fail. */
#define EACH 80

static atomic_long *calls; /* until one fails; shared with the server */

static int set_up(void **state)
{
    if (served_set_up(state))
        return -1;
    int fd = open("told", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(ftruncate(fd, sizeof *calls), 0);
    calls = mmap(NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_true(calls != MAP_FAILED);
    close(fd);
    bad_write_text("empty", "");
    return 0;
}

static web_server start(const char *line)
{
    setenv("MALLOC_TOLD", "told", 1);
    setenv("LD_PRELOAD", ET_TEST_PRELOADED, 1);
    setenv("OMP_NUM_THREADS", "1", 1);
    web_server s = web_start(line, 0);
    unsetenv("LD_PRELOAD");
    return s;
}

/* If the server ends for lack of memory, its log ends too. */
static void assert_whole(const char *answer, const char *whole, long n, const char *what)
{
    if (web_status(answer) == web_status(whole) && !strcmp(web_body(answer), web_body(whole)))
        return;
    char *log = bad_read("web.err", NULL);
    fail_msg("%s malloc %ld: %s\n%s", what, n, answer, log);
}

typedef struct asked {
    const char *path, *headers, *body;
    char *answer; /* with memory; owned */
} asked;

typedef struct counts {
    int refused, silent; /* with status 503, and without an answer */
} counts;

static char *ask(const web_server *s, const asked *what)
{
    return web_ask(s->port, what->path, what->headers, what->body);
}

/* Answers have all headers, or do not come. */
static void assert_headers(const char *answer, long n)
{
    static const char *const headers[][2] = {
        { "Cache-Control", "no-store" },
        { "X-Content-Type-Options", "nosniff" },
        { "X-Frame-Options", "DENY" },
        { "Referrer-Policy", "no-referrer" },
        { "Content-Security-Policy", "default-src 'none'" },
    };
    for (size_t i = 0; i < COUNT(headers); i++)
        if (!web_has(answer, headers[i][0], headers[i][1]))
            fail_msg("without malloc %ld no %s: %s", n, headers[i][0], answer);
}

/* n: as malloc_fails_share has it. Whether a malloc failed. */
static bool ask_without(const web_server *s, const asked *what, long n, counts *found)
{
    atomic_store(calls, n);
    char *answer = ask(s, what);
    const long left = atomic_exchange(calls, 0);
    const bool failed = left == 0 || left == -1;
    if (failed && web_status(answer) == 503) {
        assert_refused("without memory", answer, 503, "memory");
        found->refused++;
    } else if (failed && !*answer) {
        found->silent++;
    } else {
        assert_whole(answer, what->answer, n, "without");
    }
    if (*answer)
        assert_headers(answer, n);
    free(answer);
    return failed;
}

/* By turns of the requests; sign -1: all that follow fail, too. */
static void let_fail(const web_server *s, const asked *what, size_t count, long step, int sign)
{
    counts found = { 0 };
    size_t i = 0;
    long n = 1;
    for (; ask_without(s, &what[i], sign * n, &found); i = (i + 1) % count) {
        char *next = ask(s, &what[i]);
        assert_whole(next, what[i].answer, n, "after");
        free(next);
        n += n < EACH ? 1 : step;
    }
    printf("%s %.20s: of the mallocs up to %ld 503 %d, none %d\n", what->path, what->body, sign * n,
           found.refused, found.silent);
    assert_true(found.refused > 10 || sign < 0);
    assert_true(found.silent < found.refused || sign < 0);
}

static void assert_memory(const web_server *s, asked *what, size_t count, long step)
{
    for (size_t i = 0; i < count; i++) {
        what[i].answer = ask(s, &what[i]);
        assert_true(web_status(what[i].answer) > 0);
    }
    let_fail(s, what, count, step, 1);
    let_fail(s, what, count, step, -1);
    for (size_t i = 0; i < count; i++)
        free(what[i].answer);
}

static void test_serve_memory__predict(void **state)
{
    (void)state;
    FILE *file = fopen("t.csv", "w");
    fprintf(file, "a,b,c,y\n");
    for (int i = 0; i < 120; i++)
        fprintf(file, "%d,%.2f,%s,%s\n", i % 7, i / 9.0, i % 3 ? "left" : "right",
                i % 2 ? "yes" : "no");
    assert_int_equal(fclose(file), 0);
    bad_end end = bad_start(
        "train t --experiment tabular/mlp_small --data t.csv --target y --steps 5", "empty", NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    web_server s = start("serve t");
    asked json = { "/predict", JSON,
                   "{\"unknown\": true, \"rows\": [{\"a\": 1, \"c\": \"up\"}, {\"b\": 0.5}]}",
                   NULL };
    asked csv = { "/predict", CSV, "b,c,a\n1,left,2\n3,up,4\n", NULL };
    assert_memory(&s, &json, 1, 5);
    asked bad = { "/predict", JSON, "{\"rows\": [{\"d\": 1}]}", NULL };
    assert_memory(&s, &csv, 1, 5);
    assert_memory(&s, &bad, 1, 5);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve_memory__translate(void **state)
{
    (void)state;
    web_server s = start("serve m");
    char *body = request_of(0, 5, "");
    asked usual = { "/translate", JSON, body, NULL };
    assert_memory(&s, &usual, 1, 13);
    free(body);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* One decoder more than are kept: each request opens one. */
static void test_serve_memory__decoders(void **state)
{
    (void)state;
    web_server s = start("serve m");
    asked what[4];
    for (size_t i = 0; i < COUNT(what); i++) {
        char options[64];
        snprintf(options, sizeof options, "\"beam_size\": %zu, \"n_best\": 2, ", i + 2);
        what[i] = (asked){ "/translate", JSON, request_of((int)i, 2, options), NULL };
    }
    assert_memory(&s, what, COUNT(what), 3);
    for (size_t i = 0; i < COUNT(what); i++)
        free((void *)what[i].body);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve_memory__predict),
        cmocka_unit_test(test_serve_memory__translate),
        cmocka_unit_test(test_serve_memory__decoders),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
