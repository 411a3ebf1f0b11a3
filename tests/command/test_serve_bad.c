/* Bad requests to `etude serve`: refused one by one, and the next good one is answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bad_case.h"
#include "served.h"
#include "web_client.h"

/* The sent text; the status, and words of the error. A row without words is refused by the HTTP
 * library, with its own answer; status 0: it closes the connection. */
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
      405, "supports only" },
    { "GET of what is posted",
      "GET /translate HTTP/1.1\r\nHost: localhost\r\nConnection: "
      "close\r\n\r\n",
      405, "supports only" },
    { "POST of what is got",
      "POST /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
      405, "GET, HEAD" },
    { "a method that is none",
      "BREW /translate HTTP/1.1\r\nHost: localhost\r\nConnection: "
      "close\r\n\r\n",
      405, "supports only" },
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
    { "a page of an address", START JSON "Origin: http://203.0.113.5\r\n" GOOD, 403, "Origin" },
    { "a page of another port", START JSON "Origin: http://localhost:1\r\n" GOOD, 403, "Origin" },
    { "a page from nowhere", START JSON "Origin: null\r\n" GOOD, 403, "Origin" },
    { "no type", START GOOD, 415, "Content-Type is missing" },
    { "no form", START "Content-Type: application/x-www-form-urlencoded\r\n" GOOD, 400,
      "missing q" },
    { "a form without its parts",
      START "Content-Type: multipart/form-data\r\nContent-Length: 3\r\n\r\na=b", 400,
      "one boundary" },
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
      400, "only POST may have a body" },
    { "a length that is none", START JSON "Content-Length: many\r\n\r\n", 400, NULL },
    { "a negative length", START JSON "Content-Length: -1\r\n\r\n", 400, NULL },
    { "a length beyond all", START JSON "Content-Length: 99999999999999999999999\r\n\r\n", 413,
      NULL },
    { "too long", START JSON "Content-Length: 1000000000\r\n\r\n", 413, "more than" },
    { "no HTTP", "hello\r\n\r\n", 0, NULL },
    { "another HTTP", "GET /health HTTP/9.9\r\nHost: localhost\r\n\r\n", 505, NULL },
};

static void test_serve_bad__bad_requests(void **state)
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
    assert_bad_json(s.port);
    assert_right(s.port, 0, SERVED_LINES);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* Requests of the wrong size. */
static void test_serve_bad__too_much(void **state)
{
    (void)state;
    web_server s = web_start("serve m --batch 100 --queue 100", 0);
    const struct {
        char *headers, *body;
        int status;
        const char *words;
    } rows[] = {
        { strdup(""), repeat("{\"lines\": [\"a\"", ", \"b\"", 100, "]}"), 413, "more than 100" },
        { strdup(""), repeat("{\"lines\": [\"", "word ", 1100, "\"], \"n_best\": 1}"), 400,
          "tokens, more than" },
        { strdup(""), repeat("{\"lines\": [\"", "0123456789", 90000, "\"]}"), 400,
          "line 1 has 900000 bytes, more than 32768: split the line" },
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
static void test_serve_bad__half_requests(void **state)
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
    /* A client that asks and does not wait for the answer. */
    char *body = request_of(0, SERVED_LINES, "\"beam_size\": 8, "), *text = NULL;
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

/* Whether the other side closes within so many seconds. */
static bool closes(int fd, int seconds)
{
    char bytes[256];
    struct pollfd wanted = { .fd = fd, .events = POLLIN };
    return poll(&wanted, 1, 1000 * seconds) == 1 && read(fd, bytes, sizeof bytes) <= 0;
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

static void test_serve_bad__half_requests_make_room(void **state)
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
static void test_serve_bad__slow_headers(void **state)
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

/* Refused, and the following bytes are not a request: the connection is closed. */
static void test_serve_bad__what_follows_a_refusal(void **state)
{
#define KEPT "POST /translate HTTP/1.1\r\nHost: localhost\r\n" JSON
#define NEXT "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    static const char chunk[] = "10\r\n{\"lines\": [\"a\"]}\r\n0\r\n\r\n";
    static const struct {
        const char *text;
        size_t length; /* for a text with a 0 in it */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve_bad__bad_requests),
        cmocka_unit_test(test_serve_bad__too_much),
        cmocka_unit_test(test_serve_bad__half_requests),
        cmocka_unit_test(test_serve_bad__half_requests_make_room),
        cmocka_unit_test(test_serve_bad__slow_headers),
        cmocka_unit_test(test_serve_bad__what_follows_a_refusal),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, served_set_up, bad_tear_down);
}
