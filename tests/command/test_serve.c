/* `etude serve` over plain sockets: the translations of `etude translate`, access control, its own
 * messages, refused command lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bad_case.h"
#include "base/text/strbuf.h"
#include "served.h"
#include "web_client.h"

static void test_serve__words_of_the_command(void **state)
{
    (void)state;
    web_server s = web_start("serve m", 0);
    assert_non_null(strstr(s.url, "/translate\n"));
    assert_right(s.port, 0, SERVED_LINES);
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
    char *body = request_of(0, SERVED_LINES, "\"beam_size\": 4, \"n_best\": 3, ");
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

/* Ways to name the expected content type. */
static void test_serve__types(void **state)
{
    static const char *const headers[] = {
        "Content-Type: application/json; charset=UTF8\r\n",
        "Content-Type: application/json; charset=\"utf-8\"\r\n",
        "Content-Type: Application/JSON;charset=Utf-8\r\nContent-Encoding: identity\r\n",
    };
    (void)state;
    web_server s = web_start("serve m", 0);
    char *body = request_of(3, 2, "");
    for (size_t i = 0; i < COUNT(headers); i++) {
        char *answer = web_ask(s.port, "/translate", headers[i], body);
        if (!is_right(answer, 3, 2))
            fail_msg("%s%s", headers[i], answer);
        free(answer);
    }
    free(body);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve__token(void **state)
{
    static const char *const wrong[] = { "", "Authorization: Bearer 0123456789abcdeF\r\n",
                                         "Authorization: Bearer 0123456789abcde\r\n",
                                         "Authorization: Basic 0123456789abcdef\r\n" };
    (void)state;
    bad_write_text("token", "0123456789abcdef\n");
    bad_end end = bad_start("serve m --port 0 --token-file token", NULL, NULL);
    assert_int_equal(end.code, 3);
    bad_assert_says("a token for all", end.err, "other users can read this file (mode");
    bad_release(&end);
    chmod("token", 0600);
    web_server s = web_start("serve m --listen 0.0.0.0 --token-file token", 0);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        char *answer = web_ask(s.port, "/metrics", wrong[i], NULL);
        assert_refused(wrong[i], answer, 401, "token");
        assert_true(web_has(answer, "WWW-Authenticate", "Bearer"));
        free(answer);
        /* A client without a token does not learn which paths exist. */
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
    assert_int_equal(et_value_get(facts, "paths")->count, 9);
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

static void test_serve__bad_usage(void **state)
{
    static const bad_case cases[] = {
        { "serve", .code = 2, .words = { "--model-dir is missing" } },
        { "serve none --port 0", .code = 3, .words = { "none" } },
        { "serve m --port 65536", .code = 2,
          .words = { "--port: 65536 is out of range; allowed: 0 to 65,535" } },
        { "serve m --listen example.org", .code = 2, .words = { "--listen", "not a numeric" } },
        { "serve m --host https://example.org", .code = 2,
          .words = { "--host https://example.org", "such as example.org" } },
        { "serve m --batch 0", .code = 2, .words = { "--batch" } },
        { "serve m --batch 10 --queue 9", .code = 2, .words = { "--queue 9", "--batch 10" } },
        { "serve m --deadline soon", .code = 2, .words = { "deadline" } },
        { "serve m --precision int7", .code = 2, .words = { "int7" } },
        { "serve m --port 0 --token-file none", .code = 3, .words = { "none" } },
        { "serve m --port 0 --token-file a.en", .code = 3,
          .words = { "a.en: other users can read this file (mode", "chmod 600" } },
        { "serve m --port 0 --checkpoint none", .code = 3, .words = { "none" } },
        { "serve m --port 0 --tag '>>fra<<'", .code = 3,
          .words = { "--tag", "no token \">>fra<<\"" } },
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
    bad_assert_says(line, end.err, "is in use");
    bad_release(&end);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve__words_of_the_command),
        cmocka_unit_test(test_serve__several_of_each_line),
        cmocka_unit_test(test_serve__types),
        cmocka_unit_test(test_serve__token),
        cmocka_unit_test(test_serve__made_token),
        cmocka_unit_test(test_serve__what_it_says_of_itself),
        cmocka_unit_test(test_serve__bad_usage),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, served_set_up, bad_tear_down);
}
