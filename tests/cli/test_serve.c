/* `etude serve` over plain sockets: the words of `etude translate`, for many at a time; bad
 * requests are refused one by one and the next good one is answered; what was accepted is answered,
 * also after SIGTERM; a full queue, a deadline, a token. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bad_case.h"
#include "base/arena.h"
#include "base/json.h"
#include "web_client.h"

enum { LINES = 60, ASKERS = 12, TURNS = 12 };

static char *source[LINES], *target[LINES]; /* and what `translate` makes of it */

/* A line of a text; moves on. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    assert_non_null(end);
    *end = 0;
    *at = end + 1;
    return line;
}

static int set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    bad_train("m", 30);
    char *in = bad_read("a.en", NULL);
    bad_end end = bad_start("translate m", "a.en", NULL);
    assert_int_equal(end.code, 0);
    char *from = in, *to = end.out;
    for (int i = 0; i < LINES; i++) {
        source[i] = next_line(&from);
        target[i] = next_line(&to);
    }
    free(end.err);
    return 0;
}

/* {"lines": [...]} of some lines, from first on, around the end; options stand before it. */
static char *request_of(int first, int count, const char *options)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_printf(&out, "{%s\"lines\": [", options);
    for (int i = 0; i < count; i++) {
        et_strbuf_append(&out, i ? ", " : "");
        et_json_print_string(&out, source[(first + i) % LINES]);
    }
    et_strbuf_append(&out, "]}");
    return et_strbuf_detach(&out);
}

static const et_value *parse(et_arena *arena, const char *text)
{
    et_value *value;
    et_error error = ET_ERROR_INIT;
    if (et_json_parse(&value, arena, text, strlen(text), "the answer", &error))
        fail_msg("%s in: %s", error.text, text);
    return value;
}

/* Whether an answer has the command's words. */
static bool is_right(const char *answer, int first, int count)
{
    et_arena arena = ET_ARENA_INIT;
    bool right = web_status(answer) == 200;
    const et_value *list =
        right ? et_value_get(parse(&arena, web_body(answer)), "translations") : NULL;
    right = list && list->count == (size_t)count;
    const et_value *text = right ? list->first : NULL;
    for (int i = 0; i < count && right; i++, text = text->next)
        right = !strcmp(text->string, target[(first + i) % LINES]);
    et_arena_release(&arena);
    return right;
}

static void assert_right(int port, int first, int count)
{
    char *body = request_of(first, count, ""), *answer = web_post(port, "/translate", body);
    if (!is_right(answer, first, count))
        fail_msg("%s\n%s", body, answer);
    free(body);
    free(answer);
}

static void test_serve__words_of_the_command(void **state)
{
    (void)state;
    web_server s = web_start("serve m", 0);
    assert_non_null(strstr(s.url, "/translate\n"));
    assert_right(s.port, 0, LINES);
    assert_right(s.port, 17, 1);
    assert_right(s.port, 0, 0);
    char *answer = web_post(s.port, "/translate", "{\"lines\": [\"\", \"  \"]}");
    assert_string_equal(web_body(answer), "{\"translations\": [\"\", \"\"]}\n");
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* `--n-best 3 --scores` of the command in the same order. */
static void test_serve__several_of_each_line(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf made = ET_STRBUF_INIT;
    int number = 0;
    (void)state;
    bad_end end = bad_start("translate m --beam-size 4 --n-best 3 --scores", "a.en", NULL);
    assert_int_equal(end.code, 0);
    web_server s = web_start("serve m", 0);
    char *body = request_of(0, LINES, "\"beam_size\": 4, \"n_best\": 3, ");
    char *answer = web_post(s.port, "/translate", body);
    assert_int_equal(web_status(answer), 200);
    const et_value *lines = et_value_get(parse(&arena, web_body(answer)), "hypotheses");
    for (const et_value *line = lines->first; line; line = line->next, number++)
        for (const et_value *h = line->first; h; h = h->next)
            et_strbuf_printf(&made, "%d ||| %s ||| logp=%.4f score=%.4f\n", number,
                             et_value_get(h, "text")->string,
                             et_value_get(h, "log_probability")->real,
                             et_value_get(h, "score")->real);
    assert_string_equal(et_strbuf_text(&made), end.out);
    assert_int_equal(web_stop(&s, SIGINT), 0);
    et_strbuf_release(&made);
    et_arena_release(&arena);
    bad_release(&end);
    free(body);
    free(answer);
}

/* ---- bad requests ------------------------------------------------------------------------------
 */

#define START "POST /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
#define JSON  "Content-Type: application/json\r\n"
#define GOOD  "Content-Length: 16\r\n\r\n{\"lines\": [\"a\"]}"

/* What is sent as it stands; the status, and words of the error. A row without words is refused by
 * the HTTP library, which has an answer of its own; status 0: it closes the connection. */
static const struct {
    const char *name, *text;
    int status;
    const char *words;
} bad[] = {
    { "no such path", "GET /translat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404,
      "no such path" },
    { "a path above",
      "GET /../m/params.yaml HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404,
      "no such path" },
    { "another method", "PUT /translate HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      405, "POST alone" },
    { "GET of what is posted",
      "GET /translate HTTP/1.1\r\nHost: localhost\r\nConnection: "
      "close\r\n\r\n",
      405, "POST alone" },
    { "POST of what is got",
      "POST /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
      405, "GET, HEAD" },
    { "a method that is none",
      "BREW /translate HTTP/1.1\r\nHost: localhost\r\nConnection: "
      "close\r\n\r\n",
      405, "POST alone" },
    { "no host", "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400, "Host" },
    { "two hosts",
      "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: a\r\nConnection: close\r\n\r\n", 400,
      "Host" },
    { "another host", "GET /health HTTP/1.1\r\nHost: evil.org\r\nConnection: close\r\n\r\n", 403,
      "header Host" },
    { "a host that looks like ours",
      "GET /health HTTP/1.1\r\nHost: localhost.evil.org:80\r\nConnection: close\r\n\r\n", 403,
      "header Host" },
    { "a page from elsewhere", START JSON "Origin: http://evil.org\r\n" GOOD, 403, "Origin" },
    { "a page from nowhere", START JSON "Origin: null\r\n" GOOD, 403, "Origin" },
    { "no type", START GOOD, 415, "Content-Type is missing" },
    { "a form", START "Content-Type: application/x-www-form-urlencoded\r\n" GOOD, 415,
      "application/json" },
    { "plain text", START "Content-Type: text/plain\r\n" GOOD, 415, "application/json" },
    { "another character set", START "Content-Type: application/json; charset=latin1\r\n" GOOD, 415,
      "UTF-8" },
    { "compressed", START JSON "Content-Encoding: gzip\r\n" GOOD, 415, "Content-Encoding" },
    { "no body", START JSON "Content-Length: 0\r\n\r\n", 400, "no body" },
    { "two lengths", START JSON "Content-Length: 16\r\n" GOOD, 400, "twice" },
    { "a length and pieces",
      START JSON "Content-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{\"lines\": "
                 "[\"a\"]}\r\n0\r\n\r\n",
      400, "twice" },
    { "a body of a GET", "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" GOOD,
      400, "POST alone" },
    { "a length that is none", START JSON "Content-Length: many\r\n\r\n", 400, NULL },
    { "a negative length", START JSON "Content-Length: -1\r\n\r\n", 400, NULL },
    { "a length beyond all", START JSON "Content-Length: 99999999999999999999999\r\n\r\n", 413,
      NULL },
    { "too long", START JSON "Content-Length: 1000000000\r\n\r\n", 413, "at most" },
    { "no HTTP", "hello\r\n\r\n", 0, NULL },
    { "another HTTP", "GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 505, NULL },
};

static const struct {
    const char *body, *words;
} bad_json[] = {
    { "{", "body:1:1: not JSON" },
    { "[]", "an object is expected" },
    { "\"lines\"", "an object is expected" },
    { "nothing", "the body" },
    { "{}", "lines: a list of texts is expected, found nothing" },
    { "{\"lines\": \"a\"}", "lines: a list of texts is expected, found text" },
    { "{\"lines\": null}", "lines: a list of texts is expected, found null" },
    { "{\"lines\": {}}", "found an object" },
    { "{\"lines\": [1]}", "line 1 is an integer" },
    { "{\"lines\": [\"a\", null]}", "line 2 is null" },
    { "{\"lines\": [\"a\", [\"b\"]]}", "line 2 is a list" },
    { "{\"lines\": [\"a\\nb\"]}", "line 1 has a line end" },
    { "{\"lines\": [\"a\\u0000b\"]}", "the body" },
    { "{\"lines\": [\"\\ud800\"]}", "the body" },
    { "{\"lines\": [\"\xff\"]}", "the body" },
    { "{\"lines\": [\"a\"], \"lines\": [\"b\"]}", "lines" },
    { "{\"line\": [\"a\"]}", "Nearest: lines" },
    { "{\"lines\": [\"a\"], \"beam\": 4}", "there are: lines, beam_size, n_best" },
    { "{\"lines\": [\"a\"], \"beam_size\": 0}", "from 1 to" },
    { "{\"lines\": [\"a\"], \"beam_size\": 65}", "from 1 to" },
    { "{\"lines\": [\"a\"], \"beam_size\": 4.0}", "whole number" },
    { "{\"lines\": [\"a\"], \"beam_size\": \"4\"}", "whole number" },
    { "{\"lines\": [\"a\"], \"beam_size\": 1e99}", "beam_size" },
    { "{\"lines\": [\"a\"], \"beam_size\": 2, \"n_best\": 3}", "more than the beam size" },
    { "{\"lines\": [\"a\"], \"n_best\": -1}", "from 1 to" },
    { "{\"lines\": [\"a\"]} x", "the body" },
};

/* Refused with this status and an error in JSON that says these words. */
static void assert_refused(const char *name, const char *answer, int status, const char *words)
{
    et_arena arena = ET_ARENA_INIT;
    if (web_status(answer) != status)
        fail_msg("%s: wanted %d: %s", name, status, answer);
    if (words) {
        if (!web_has(answer, "Content-Type", "application/json"))
            fail_msg("%s: no JSON: %s", name, answer);
        const et_value *text = et_value_get(parse(&arena, web_body(answer)), "error");
        if (!text || text->kind != ET_VALUE_STRING || !strstr(text->string, words))
            fail_msg("%s: wanted \"%s\": %s", name, words, answer);
    }
    et_arena_release(&arena);
}

static void test_serve__bad_requests(void **state)
{
    (void)state;
    web_server s = web_start("serve m", 0);
    for (size_t i = 0; i < COUNT(bad); i++) {
        int fd = web_connect(s.port);
        web_send(fd, bad[i].text, strlen(bad[i].text));
        char *answer = web_read(fd);
        assert_refused(bad[i].name, answer, bad[i].status, bad[i].words);
        free(answer);
        assert_right(s.port, (int)i, 2);
    }
    for (size_t i = 0; i < COUNT(bad_json); i++) {
        char *answer = web_post(s.port, "/translate", bad_json[i].body);
        assert_refused(bad_json[i].body, answer, 400, bad_json[i].words);
        free(answer);
    }
    assert_right(s.port, 0, LINES);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* count times a text, around it before and after; free it. */
static char *repeat(const char *before, const char *text, size_t count, const char *after)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, before);
    for (size_t i = 0; i < count; i++)
        et_strbuf_append(&out, text);
    et_strbuf_append(&out, after);
    return et_strbuf_detach(&out);
}

/* What is bad by its size. */
static void test_serve__too_much(void **state)
{
    (void)state;
    web_server s = web_start("serve m --batch 100 --queue 100", 0);
    const struct {
        char *headers, *body;
        int status;
        const char *words;
    } rows[] = {
        { strdup(""), repeat("{\"lines\": [\"a\"", ", \"b\"", 100, "]}"), 413, "at most 100" },
        { strdup(""), repeat("{\"lines\": [\"", "word ", 1100, "\"]}"), 400, "tokens; at most" },
        { strdup(""), repeat("{\"lines\": [\"", "0123456789", 120000, "\"]}"), 413, "1048576" },
        { strdup(""), repeat("", "[", 100000, ""), 400, "the body" },
        { repeat("X-Long: ", "a", 20000, "\r\n"), strdup("{}"), 431, "16 KB" },
        { repeat("", "X-Many: a header of fifty characters and some more\r\n", 400, ""),
          strdup("{}"), 431, "16 KB" },
        { repeat("X-Endless: ", "a", 200000, "\r\n"), strdup("{}"), 431, NULL },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char name[32], *headers = repeat(rows[i].headers, JSON, 1, "");
        char *answer = web_ask(s.port, "/translate", headers, rows[i].body);
        snprintf(name, sizeof name, "row %zu", i);
        assert_refused(name, answer, rows[i].status, rows[i].words);
        free(answer);
        free(headers);
        free(rows[i].headers);
        free(rows[i].body);
        assert_right(s.port, (int)i, 3);
    }
    char *path = repeat("/", "a", 5000, ""), *answer = web_ask(s.port, path, "", NULL);
    assert_refused("a path", answer, 414, "path");
    free(answer);
    free(path);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* Connections that say nothing, or half of it, and go away again. */
static void test_serve__half_requests(void **state)
{
    static const char *const halves[] = { "", "P", "POST /translate HTTP/1.1\r\nHo",
                                          START JSON "Content-Length: 100\r\n\r\n{\"lines\"" };
    (void)state;
    web_server s = web_start("serve m", 0);
    int open[COUNT(halves)];
    for (size_t i = 0; i < COUNT(halves); i++) {
        open[i] = web_connect(s.port);
        web_send(open[i], halves[i], strlen(halves[i]));
    }
    assert_right(s.port, 0, 5);
    for (size_t i = 0; i < COUNT(halves); i++)
        close(open[i]);
    /* One that asks and does not wait for the answer. */
    char *body = request_of(0, LINES, "\"beam_size\": 8, "), *text = NULL;
    assert_true(asprintf(&text, START JSON "Content-Length: %zu\r\n\r\n%s", strlen(body), body) >
                0);
    int fd = web_connect(s.port);
    web_send(fd, text, strlen(text));
    close(fd);
    assert_right(s.port, 0, 5);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    free(body);
    free(text);
}

/* Whether the other side has closed, or does within so many seconds. */
static bool closes(int fd, int seconds)
{
    char bytes[256];
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    return poll(&wanted, 1, 1000 * seconds) == 1 && read(fd, bytes, sizeof bytes) <= 0;
}

static void assert_answers_at_once(int port, const char *path)
{
    const time_t before = time(NULL);
    char *answer = web_ask(port, path, "", NULL);
    assert_int_equal(web_status(answer), 200);
    assert_true(time(NULL) - before < 5);
    free(answer);
}

/* More of them than a server has room for: the oldest go. A request that is whole stays. */
static void assert_half_requests_go(int port, const char *half, int room, const char *path)
{
    enum { MOST = 400 };
    int fds[MOST];
    const int count = room + 40;
    assert_true(count <= MOST);
    for (int i = 0; i < count; i++) {
        fds[i] = web_connect(port);
        assert_true(fds[i] >= 0);
        web_send(fds[i], half, strlen(half));
    }
    assert_answers_at_once(port, path);
    for (int i = 0; i < 30; i++)
        assert_true(closes(fds[i], 5));
    assert_false(closes(fds[count - 1], 0));
    for (int i = 0; i < count; i++)
        close(fds[i]);
}

static void test_serve__half_requests_make_room(void **state)
{
    (void)state;
    web_server s = web_start("serve m", 0);
    assert_half_requests_go(s.port, "P", 256, "/health");
    assert_half_requests_go(s.port, START JSON "Content-Length: 100\r\n\r\n{\"lines\"", 256,
                            "/health");
    assert_right(s.port, 0, 5);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    s = web_start("watch m", 0);
    assert_half_requests_go(s.port, "P", 64, "/");
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* Headers have ten seconds. */
static void test_serve__slow_headers(void **state)
{
    (void)state;
    web_server s = web_start("serve m", 0);
    int fd = web_connect(s.port);
    web_send(fd, "POST /tr", 8);
    assert_false(closes(fd, 5));
    assert_true(closes(fd, 15));
    close(fd);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* Refused, and what stands behind is no request: the connection is closed. */
static void test_serve__what_follows_a_refusal(void **state)
{
#define KEPT "POST /translate HTTP/1.1\r\nHost: localhost\r\n" JSON
#define NEXT "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    static const char chunk[] = "10\r\n{\"lines\": [\"a\"]}\r\n0\r\n\r\n";
    static const struct {
        const char *text;
        size_t length; /* where there is a 0 in it */
    } rows[] = {
        { KEPT "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0 },
        { KEPT "Transfer-Encoding: chunked\r\nContent-Length: 500\r\n\r\n0\r\n\r\n", 0 },
        { KEPT "Content-Length: 16\r\nContent-Length: 0\r\n\r\n{\"lines\": [\"a\"]}", 0 },
        { KEPT "Content-Length: 16\r\n" GOOD, 0 },
        { KEPT "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n", 0 },
        { KEPT "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 0 },
        { KEPT "Transfer-Encoding: identity\r\n" GOOD, 0 },
        { KEPT "Content-Length : 16\r\n" GOOD, 0 },
        { KEPT "Content-Length: +16\r\n\r\n{\"lines\": [\"a\"]}", 0 },
        { "POST /translate HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n" JSON
          "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          0 },
        { "GET /%00health HTTP/1.1\r\nHost: localhost\r\n\r\n", 0 },
#define ZERO "GET /\0health HTTP/1.1\r\nHost: localhost\r\n\r\n"
        { ZERO, sizeof ZERO - 1 },
    };
    (void)state;
    web_server s = web_start("serve m", 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        int fd = web_connect(s.port);
        const size_t length = rows[i].length ? rows[i].length : strlen(rows[i].text);
        char text[1024];
        memcpy(text, rows[i].text, length);
        memcpy(text + length, NEXT, sizeof NEXT);
        web_send(fd, text, length + sizeof NEXT - 1);
        char *answer = web_read(fd);
        if (web_status(answer) != 400 || strstr(answer, "HTTP/1.1 200"))
            fail_msg("row %zu: %s", i, answer);
        free(answer);
    }
    /* A body that comes in pieces, as it should. */
    int fd = web_connect(s.port);
    web_send(fd, START JSON "Transfer-Encoding: chunked\r\n\r\n",
             strlen(START JSON "Transfer-Encoding: chunked\r\n\r\n"));
    web_send(fd, chunk, sizeof chunk - 1);
    char *answer = web_read(fd);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* ---- many at a time ----------------------------------------------------------------------------
 */

typedef struct asker {
    pthread_t thread;
    int port, number, right, busy, other;
    const char *options;
} asker;

static void *ask_often(void *payload)
{
    asker *a = payload;
    for (int turn = 0; turn < TURNS; turn++) {
        int first = (a->number * 7 + turn * 11) % LINES, count = 1 + (a->number + turn) % 9;
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

static void test_serve__many_at_once(void **state)
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

static void test_serve__full_queue(void **state)
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

/* ---- time --------------------------------------------------------------------------------------
 */

static void test_serve__deadline(void **state)
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
    bad_assert_says("deadline", said, "1 too late");
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

/* Some are at work, some wait, when the signal comes; a connection that is idle does not hold it.
 */
static void test_serve__stop_answers_what_was_accepted(void **state)
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

/* What is not whole by then is not waited for, and was not accepted. */
static void test_serve__stop_with_half_requests(void **state)
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
        const time_t before = time(NULL);
        assert_int_equal(web_stop(&s, SIGTERM), 0);
        assert_true(time(NULL) - before < 4);
        for (size_t i = 0; i < COUNT(halves); i++)
            close(fds[i]);
        char *said = bad_read("web.err", NULL);
        assert_null(strstr(said, "cut off"));
        free(said);
    }
}

/* The same port again, and nothing of the first is left. */
static void test_serve__killed_and_started_again(void **state)
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
    assert_right(port, 0, LINES);
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

/* Good and bad requests for so many seconds (ET_TEST_SECONDS, for a longer look), the server killed
 * and started again between: each good one is answered right, each bad one refused, and memory does
 * not grow. */
static void test_serve__load(void **state)
{
    const char *wanted = getenv("ET_TEST_SECONDS");
    const int rounds = wanted ? atoi(wanted) : 2;
    int port = 0, asked = 0;
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
            for (size_t i = 0; i < COUNT(bad_json); i++) {
                char *answer = web_post(port, "/translate", bad_json[i].body);
                assert_refused(bad_json[i].body, answer, 400, bad_json[i].words);
                free(answer);
            }
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
    print_message("%d rounds of %d good and %zu bad requests\n", asked, ASKERS * TURNS,
                  COUNT(bad_json));
}

/* ---- who may ask -------------------------------------------------------------------------------
 */

static void test_serve__token(void **state)
{
    static const char *const wrong[] = { "", "Authorization: Bearer 0123456789abcdeF\r\n",
                                         "Authorization: Bearer 0123456789abcde\r\n",
                                         "Authorization: Basic 0123456789abcdef\r\n" };
    (void)state;
    bad_write_text("token", "0123456789abcdef\n");
    web_server s = web_start("serve m --listen 0.0.0.0 --token-file token", 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char *answer = web_ask(s.port, "/metrics", wrong[i], NULL);
        assert_refused(wrong[i], answer, 401, "token");
        assert_true(web_has(answer, "WWW-Authenticate", "Bearer"));
        free(answer);
        /* Whoever has none does not learn what paths there are. */
        answer = web_ask(s.port, "/none", wrong[i], NULL);
        assert_int_equal(web_status(answer), 401);
        free(answer);
    }
    char *answer = web_ask(s.port, "/", "Authorization: Bearer 0123456789abcdef\r\n", NULL);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    answer = web_ask(s.port, "/health", "", NULL);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    remove("token");
}

static void test_serve__made_token(void **state)
{
    char header[128];
    (void)state;
    web_server s = web_start("serve m --listen 0.0.0.0", 0);
    char *said = bad_read("web.err", NULL);
    const char *token = strstr(said, "token        ");
    assert_non_null(token);
    snprintf(header, sizeof header, "Authorization: Bearer %.64s\r\n", token + 13);
    char *answer = web_ask(s.port, "/", header, NULL);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    answer = web_ask(s.port, "/", "", NULL);
    assert_int_equal(web_status(answer), 401);
    free(answer);
    free(said);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve__what_it_says_of_itself(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    (void)state;
    web_server s = web_start("serve m --host models.example.org", 0);
    char *answer = web_ask(s.port, "/", "", NULL);
    const et_value *facts = parse(&arena, web_body(answer));
    assert_int_equal(et_value_get(facts, "step")->integer, 30);
    assert_non_null(et_value_get(facts, "beam_size"));
    assert_int_equal(et_value_get(facts, "paths")->count, 4);
    free(answer);
    static const char named[] =
        "HEAD /health HTTP/1.1\r\nHost: models.example.org\r\nConnection: close\r\n\r\n";
    int fd = web_connect(s.port);
    web_send(fd, named, sizeof named - 1);
    answer = web_read(fd);
    assert_int_equal(web_status(answer), 200);
    assert_string_equal(web_body(answer), "");
    free(answer);
    et_arena_release(&arena);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* ---- the command line --------------------------------------------------------------------------
 */

static void test_serve__bad_usage(void **state)
{
    static const bad_case cases[] = {
        { "serve", .code = 2, .words = { "--model-dir is missing" } },
        { "serve none --port 0", .code = 3, .words = { "none" } },
        { "serve m --port 65536", .code = 2, .words = { "--port", "65535" } },
        { "serve m --listen example.org", .code = 2, .words = { "--listen", "numbers" } },
        { "serve m --batch 0", .code = 2, .words = { "--batch" } },
        { "serve m --batch 10 --queue 9", .code = 2, .words = { "--queue 9", "--batch 10" } },
        { "serve m --deadline soon", .code = 2, .words = { "deadline" } },
        { "serve m --precision int7", .code = 2, .words = { "int7" } },
        { "serve m --port 0 --token-file none", .code = 3, .words = { "none" } },
        { "serve m --port 0 --token-file a.en", .code = 3, .words = { "a.en:1", "token" } },
        { "serve m --port 0 --checkpoint none", .code = 3, .words = { "none" } },
        { "serve m --prot 0", .code = 2, .words = { "--port" } },
    };
    (void)state;
    bad_run(cases, COUNT(cases));
    bad_end end = bad_start("serve m --port 0", "empty", "/dev/full");
    assert_int_equal(end.code, 4);
    bad_assert_says("a full disk", end.err, "standard output");
    bad_release(&end);
    web_server s = web_start("serve m", 0);
    char line[64];
    snprintf(line, sizeof line, "serve m --port %d", s.port);
    end = bad_start(line, "empty", NULL);
    assert_int_equal(end.code, 1);
    bad_assert_says(line, end.err, "is taken");
    bad_release(&end);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* An argument: of which cases, "*load". */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve__words_of_the_command),
        cmocka_unit_test(test_serve__several_of_each_line),
        cmocka_unit_test(test_serve__bad_requests),
        cmocka_unit_test(test_serve__too_much),
        cmocka_unit_test(test_serve__half_requests),
        cmocka_unit_test(test_serve__half_requests_make_room),
        cmocka_unit_test(test_serve__slow_headers),
        cmocka_unit_test(test_serve__what_follows_a_refusal),
        cmocka_unit_test(test_serve__many_at_once),
        cmocka_unit_test(test_serve__full_queue),
        cmocka_unit_test(test_serve__deadline),
        cmocka_unit_test(test_serve__stop_answers_what_was_accepted),
        cmocka_unit_test(test_serve__stop_with_half_requests),
        cmocka_unit_test(test_serve__killed_and_started_again),
        cmocka_unit_test(test_serve__load),
        cmocka_unit_test(test_serve__token),
        cmocka_unit_test(test_serve__made_token),
        cmocka_unit_test(test_serve__what_it_says_of_itself),
        cmocka_unit_test(test_serve__bad_usage),
    };
    signal(SIGPIPE, SIG_IGN);
    cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
