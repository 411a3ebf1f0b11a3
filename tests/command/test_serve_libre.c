/* `etude serve` answers LibreTranslate's API: texts, lists and forms; languages; errors; tokens as
 * api_key; pages of other sites that were named. */
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
#include "base/values/json.h"
#include "served.h"
#include "web_client.h"

#define FORM  "Content-Type: application/x-www-form-urlencoded\r\n"
#define PARTS "Content-Type: multipart/form-data; boundary=xyz\r\n"
#define PAIR  "\"source\": \"en\", \"target\": \"de\""
#define TOKEN "abcdefghijklmnopqrst"

/* The member of the answer to a JSON request, which must be a list or a text. */
static const et_value *ask(et_arena *arena, int port, const char *body, const char *key)
{
    char *answer = web_post(port, "/translate", body);
    if (web_status(answer) != 200)
        fail_msg("%s: %s", body, answer);
    const et_value *value = et_value_get(parse(arena, web_body(answer)), key);
    assert_non_null(value);
    free(answer);
    return value;
}

/* A line that has no translation stays. */
static const char *text_of(int line)
{
    return *served_target(line) ? served_target(line) : served_source(line);
}

static void test_serve_libre__texts(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    char body[1024], expected[1024];
    int line = 0;
    (void)state;
    while (!*served_target(line))
        line++;
    web_server s = web_start("serve m --languages en,de", 0);
    snprintf(body, sizeof body, "{\"q\": \"%s\", " PAIR "}", served_source(0));
    assert_string_equal(ask(&arena, s.port, body, "translatedText")->string, text_of(0));
    snprintf(body, sizeof body,
             "{\"q\": [\"%s\", \"%s\"], " PAIR
             ", \"format\": \"text\", \"api_key\": \"\", \"id\": 7}",
             served_source(1), served_source(2));
    const et_value *list = ask(&arena, s.port, body, "translatedText");
    assert_int_equal(list->count, 2);
    assert_string_equal(list->first->string, text_of(1));
    assert_string_equal(list->last->string, text_of(2));
    /* Lines and white space. */
    snprintf(body, sizeof body, "{\"q\": \"  %s \\n\\n%s\", " PAIR "}", served_source(3),
             served_source(4));
    snprintf(expected, sizeof expected, "  %s \n\n%s", text_of(3), text_of(4));
    assert_string_equal(ask(&arena, s.port, body, "translatedText")->string, expected);
    snprintf(body, sizeof body, "{\"q\": \"<p>%s</p>\", " PAIR ", \"format\": \"html\"}",
             served_source(line));
    snprintf(expected, sizeof expected, "<p>%s</p>", served_target(line));
    assert_string_equal(ask(&arena, s.port, body, "translatedText")->string, expected);
    /* What a program needs stays. */
    snprintf(body, sizeof body, "{\"q\": \"%s %%1$s {name} https://example.org/a\", " PAIR "}",
             served_source(line));
    const char *kept = ask(&arena, s.port, body, "translatedText")->string;
    assert_non_null(strstr(kept, " %1$s {name} https://example.org/a"));
    /* Nothing to translate. */
    assert_string_equal(
        ask(&arena, s.port, "{\"q\": \"12 + 3\", " PAIR "}", "translatedText")->string, "12 + 3");
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    et_arena_release(&arena);
}

static void test_serve_libre__auto(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    (void)state;
    web_server s = web_start("serve m --languages en,de", 0);
    const et_value *one =
        ask(&arena, s.port, "{\"q\": \"1\", \"source\": \"auto\", \"target\": \"de\"}",
            "detectedLanguage");
    assert_string_equal(et_value_get(one, "language")->string, "en");
    const et_value *two =
        ask(&arena, s.port, "{\"q\": [\"1\", \"2\"], \"source\": \"auto\", \"target\": \"de\"}",
            "detectedLanguage");
    assert_int_equal(two->count, 2);
    char *answer = web_ask(s.port, "/detect", FORM, "q=a");
    assert_string_equal(web_body(answer), "[{\"confidence\": 0.0, \"language\": \"en\"}]\n");
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    et_arena_release(&arena);
}

/* The hypotheses of --n-best. */
static void test_serve_libre__alternatives(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    char body[1024];
    int line = 0;
    (void)state;
    while (!*served_target(line))
        line++;
    web_server s = web_start("serve m --languages en,de", 0);
    snprintf(body, sizeof body, "{\"lines\": [\"%s\"], \"n_best\": 3}", served_source(line));
    const et_value *found = ask(&arena, s.port, body, "hypotheses")->first->first;
    const char *best = et_value_get(found, "text")->string;
    snprintf(body, sizeof body, "{\"q\": \"%s\", " PAIR ", \"alternatives\": 2}",
             served_source(line));
    assert_string_equal(ask(&arena, s.port, body, "translatedText")->string, best);
    const et_value *other = ask(&arena, s.port, body, "alternatives")->first;
    while ((found = found->next) != NULL) {
        const char *text = et_value_get(found, "text")->string;
        if (!*text || !strcmp(text, best))
            continue;
        assert_non_null(other);
        assert_string_equal(other->string, text);
        other = other->next;
    }
    assert_null(other);
    /* One that has lost a placeholder is left out; the best is translated in parts. */
    snprintf(body, sizeof body, "{\"q\": \"%s {name}\", " PAIR ", \"alternatives\": 2}",
             served_source(line));
    for (other = ask(&arena, s.port, body, "alternatives")->first; other; other = other->next)
        assert_non_null(strstr(other->string, "{name}"));
    assert_non_null(strstr(ask(&arena, s.port, body, "translatedText")->string, "{name}"));
    /* Of HTML there are none, as LibreTranslate answers. */
    assert_int_equal(ask(&arena, s.port,
                         "{\"q\": \"<p>1</p>\", " PAIR ", \"format\": \"html\", "
                         "\"alternatives\": 2}",
                         "alternatives")
                         ->count,
                     0);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    et_arena_release(&arena);
}

static void test_serve_libre__forms(void **state)
{
    char body[1024], expected[1024];
    (void)state;
    web_server s = web_start("serve m --languages en,de", 0);
    snprintf(body, sizeof body, "q=%s%%0D%%0A%s&source=EN&target=De&format=&alternatives=0&beam=3",
             served_source(0), served_source(1));
    for (char *c = strchr(body, '='); *c && *c != '&'; c++)
        *c = *c == ' ' ? '+' : *c;
    snprintf(expected, sizeof expected, "{\"translatedText\": \"%s\\n%s\"}\n", text_of(0),
             text_of(1));
    char *answer = web_ask(s.port, "/translate", FORM, body);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    snprintf(body, sizeof body,
             "--xyz\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\n%s\r\n"
             "--xyz\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\nen\r\n"
             "--xyz\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\nde\r\n--xyz--\r\n",
             served_source(2));
    snprintf(expected, sizeof expected, "{\"translatedText\": \"%s\"}\n", text_of(2));
    answer = web_ask(s.port, "/translate", PARTS, body);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    /* A boundary may have one letter. */
    for (char *c = body; (c = strstr(c, "--xyz")) != NULL;)
        memmove(c + 3, c + 5, strlen(c + 5) + 1);
    answer = web_ask(s.port, "/translate", "Content-Type: multipart/form-data; boundary=\"x\"\r\n",
                     body);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve_libre__refused(void **state)
{
    static const struct {
        const char *type, *body, *words;
    } bad[] = {
        { FORM, "source=en&target=de", "Invalid request: missing q parameter" },
        { FORM, "{\"lines\": [\"a\"]}", "JSON needs the header Content-Type: application/json" },
        { FORM, "q=&source=en&target=de", "Invalid request: missing q parameter" },
        { FORM, "q=a&target=de", "Invalid request: missing source parameter" },
        { FORM, "q=a&source=en", "Invalid request: missing target parameter" },
        { FORM, "q=a&source=en&target=zz", "zz is not supported" },
        { FORM, "q=a&source=de&target=de", "de is not supported" },
        { FORM, "q=a&source=en&target=de&format=docx", "docx format is not supported" },
        { FORM, "q=a&source=en&target=de&alternatives=x",
          "alternatives parameter is not a number" },
        { FORM, "q=a&source=en&target=de&alternatives=99", "alternatives" },
        { FORM, "q=a&q=b&source=en&target=de", "q twice" },
        { FORM, "q=a%00b&source=en&target=de", "byte 0" },
        { FORM, "q=%FF&source=en&target=de", "not UTF-8" },
        { JSON, "{\"q\": [], " PAIR "}", "Invalid request: missing q parameter" },
        { JSON, "{\"q\": 3, " PAIR "}", "expected a text" },
        { JSON, "{\"q\": [\"a\", 3], " PAIR "}", "text 2 is an integer" },
        { JSON, "{\"q\": \"a\", \"source\": [\"en\"], \"target\": \"de\"}", "source is a list" },
        { PARTS, "--abc\r\n", "no line is --xyz" },
        { PARTS, "--xyz--\r\n", "missing q" },
    };
    (void)state;
    web_server s = web_start("serve m --languages en,de", 0);
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *answer = web_ask(s.port, "/translate", bad[i].type, bad[i].body);
        assert_refused(bad[i].body, answer, 400, bad[i].words);
        free(answer);
    }
    /* Many fields, and long names. */
    char *many = repeat("q=a", "&b=c", 20000, "");
    char *answer = web_ask(s.port, "/translate", FORM, many);
    assert_refused("many", answer, 400, "b twice");
    free(answer);
    free(many);
    many = repeat("", "a", 10000, "=b");
    answer = web_ask(s.port, "/translate", FORM, many);
    assert_int_equal(web_status(answer), 400);
    free(answer);
    free(many);
    assert_right(s.port, 0, 3);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    s = web_start("serve m", 0);
    answer = web_ask(s.port, "/translate", FORM, "q=a&source=en&target=de");
    assert_refused("no languages", answer, 400, "--languages en,de");
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

static void test_serve_libre__languages(void **state)
{
    static const char expected[] =
        "[{\"code\": \"en\", \"name\": \"English\", \"targets\": [\"de\"]}, "
        "{\"code\": \"de\", \"name\": \"German\", \"targets\": []}]\n";
    static const char settings[] =
        "{\"apiKeys\": false, \"charLimit\": -1, \"filesTranslation\": false, "
        "\"frontendTimeout\": 500, \"keyRequired\": false, \"language\": {\"source\": {\"code\": "
        "\"en\", \"name\": \"English\"}, \"target\": {\"code\": \"de\", \"name\": \"German\"}}, "
        "\"suggestions\": false, \"supportedFilesFormat\": []}\n";
    static const char *const bad[] = { "en", "en,", ",de", "en,de,fr", "english,de", "en de" };
    char line[64];
    (void)state;
    web_server s = web_start("serve m --languages en,de", 0);
    char *answer = web_ask(s.port, "/languages", "", NULL);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    answer = web_ask(s.port, "/frontend/settings", "", NULL);
    assert_string_equal(web_body(answer), settings);
    free(answer);
    answer = web_ask(s.port, "/languages", FORM, "api_key=a");
    assert_string_equal(web_body(answer), expected);
    free(answer);
    /* GET with a body, as a client sends its key. */
    static const char keyed[] = "GET /languages HTTP/1.1\r\nHost: localhost\r\n"
                                "Connection: close\r\nContent-Length: 9\r\n\r\napi_key=a";
    int fd = web_connect(s.port);
    web_send(fd, keyed, sizeof keyed - 1);
    answer = web_read(fd);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    /* Languages of the model's settings. */
    bad_end trained = bad_start("train named --init m --data a.en a.de --steps 1 "
                                "--normalize-punctuation en de",
                                NULL, NULL);
    assert_int_equal(trained.code, 0);
    bad_release(&trained);
    s = web_start("serve named", 0);
    answer = web_ask(s.port, "/languages", "", NULL);
    assert_string_equal(web_body(answer), expected);
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    for (size_t i = 0; i < COUNT(bad); i++) {
        snprintf(line, sizeof line, "serve m --languages '%s'", bad[i]);
        bad_end end = bad_start(line, NULL, NULL);
        assert_int_equal(end.code, 2);
        bad_release(&end);
    }
}

/* Two models with English between them: the translation is translated. A request of `lines` names
 * the languages. */
static void test_serve_libre__through_english(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    char body[1024];
    int line = 0;
    (void)state;
    while (!*served_target(line))
        line++;
    /* Both models are m, so a translation of a line is translated as m translates it. */
    web_server s = web_start("serve m m --languages de,en --languages en,fr", 0);
    snprintf(body, sizeof body, "{\"lines\": [\"%s\"], \"source\": \"en\", \"target\": \"fr\"}",
             served_source(line));
    const char *once = ask(&arena, s.port, body, "translations")->first->string;
    assert_string_equal(once, served_target(line));
    snprintf(body, sizeof body, "{\"lines\": [\"%s\"], \"source\": \"en\", \"target\": \"fr\"}",
             once);
    const char *twice = ask(&arena, s.port, body, "translations")->first->string;
    snprintf(body, sizeof body, "{\"lines\": [\"%s\"], \"source\": \"de\", \"target\": \"fr\"}",
             served_source(line));
    assert_string_equal(ask(&arena, s.port, body, "translations")->first->string, twice);
    snprintf(body, sizeof body,
             "{\"lines\": [\"%s\"], \"source\": \"de\", \"target\": \"fr\", \"beam_size\": 4, "
             "\"n_best\": 2}",
             served_source(line));
    assert_int_equal(ask(&arena, s.port, body, "hypotheses")->first->count, 2);
    /* Texts; the answer says what is between. A second translation that is empty leaves the line.
     */
    snprintf(body, sizeof body, "{\"q\": [\"%s\", \"12\"], \"source\": \"de\", \"target\": \"fr\"}",
             served_source(line));
    const et_value *list = ask(&arena, s.port, body, "translatedText");
    assert_string_equal(list->first->string, *twice ? twice : once);
    assert_string_equal(list->last->string, "12");
    assert_string_equal(ask(&arena, s.port, body, "through")->string, "en");
    snprintf(body, sizeof body,
             "{\"q\": \"<p>%s</p>\", \"source\": \"de\", \"target\": \"fr\", \"format\": \"html\"}",
             served_source(line));
    const char *html = ask(&arena, s.port, body, "translatedText")->string;
    assert_int_equal(strncmp(html, "<p>", 3), 0);
    assert_non_null(strstr(html, *twice ? twice : once));
    snprintf(body, sizeof body,
             "{\"q\": \"%s\", \"source\": \"de\", \"target\": \"fr\", \"alternatives\": 2}",
             served_source(line));
    (void)ask(&arena, s.port, body, "alternatives");
    static const char *const bad[][2] = {
        { "{\"lines\": [\"a\"]}", "GET /languages lists them" },
        { "{\"lines\": [\"a\"], \"source\": \"fr\", \"target\": \"de\"}", "fr is not supported" },
        { "{\"lines\": [\"a\"], \"source\": \"de\"}", "GET /languages lists them" },
        { "{\"q\": \"a\", \"source\": \"auto\", \"target\": \"fr\"}", "name the source" },
        { "{\"q\": \"a\", \"source\": \"de\", \"target\": \"fr\", \"format\": \"po\"}",
          "translate to English first" },
    };
    for (size_t i = 0; i < COUNT(bad); i++) {
        char *answer = web_ask(s.port, "/translate", JSON, bad[i][0]);
        assert_refused(bad[i][0], answer, 400, bad[i][1]);
        free(answer);
    }
    char *answer = web_ask(s.port, "/languages", "", NULL);
    assert_non_null(strstr(answer, "\"targets\": [\"en\", \"fr\"]"));
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    et_arena_release(&arena);
    static const char *const lines[][2] = {
        { "serve m m --languages de,en --languages en,fr --terms terms", "--terms: the runs" },
        { "serve m m --languages de,en --languages en,fr --ensemble-weights 1,2",
          "--ensemble-weights: the runs" },
        { "serve m m m --languages de,en --languages en,fr", "2 times for 3 runs" },
        { "serve m --languages de,en --languages en,fr", "2 times for 1 run;" },
    };
    bad_write_text("terms", "a\tb\n");
    for (size_t i = 0; i < COUNT(lines); i++) {
        bad_end end = bad_start(lines[i][0], NULL, NULL);
        assert_int_equal(end.code, 2);
        if (!strstr(end.err, lines[i][1]))
            fail_msg("%s: %s", lines[i][0], end.err);
        bad_release(&end);
    }
}

static void test_serve_libre__key(void **state)
{
    static const char right[] = "q=1&source=en&target=de&api_key=" TOKEN;
    static const struct {
        const char *headers, *body;
        int status;
    } rows[] = {
        { FORM, right, 200 },
        { FORM, "q=1&source=en&target=de", 401 },
        { FORM, "q=1&source=en&target=de&api_key=", 401 },
        { FORM, "q=1&source=en&target=de&api_key=" TOKEN "x", 401 },
        { FORM "Authorization: Bearer " TOKEN "\r\n", "q=1&source=en&target=de", 200 },
        { FORM "Authorization: Bearer x\r\n", right, 401 },
        { JSON, "{\"lines\": [\"\"]}", 401 },
    };
    (void)state;
    bad_write_text("token", TOKEN "\n");
    assert_int_equal(chmod("token", 0600), 0);
    web_server s = web_start("serve m --languages en,de --token-file token", 0);
    for (size_t i = 0; i < COUNT(rows); i++) {
        char *answer = web_ask(s.port, "/translate", rows[i].headers, rows[i].body);
        if (web_status(answer) != rows[i].status)
            fail_msg("%s: %s", rows[i].body, answer);
        free(answer);
    }
    char *answer = web_ask(s.port, "/detect", FORM, "q=a");
    assert_int_equal(web_status(answer), 401);
    free(answer);
    answer = web_ask(s.port, "/languages", "", NULL);
    assert_int_equal(web_status(answer), 200);
    free(answer);
    answer = web_ask(s.port, "/frontend/settings", "", NULL);
    assert_non_null(strstr(answer, "\"keyRequired\": true"));
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
}

/* One request as it is, with Host. */
static char *send_request(int port, const char *line, const char *headers)
{
    char text[512];
    snprintf(text, sizeof text, "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s\r\n",
             line, headers);
    int fd = web_connect(port);
    web_send(fd, text, strlen(text));
    return web_read(fd);
}

static void test_serve_libre__other_sites(void **state)
{
    static const char origin[] = "Origin: https://a.example\r\n";
    static const char asks[] =
        "Origin: https://a.example\r\nAccess-Control-Request-Method: POST\r\n";
    (void)state;
    web_server s = web_start("serve m --languages en,de --cors https://a.example", 0);
    char *answer = send_request(s.port, "OPTIONS /translate", asks);
    assert_int_equal(web_status(answer), 204);
    assert_true(web_has(answer, "Access-Control-Allow-Origin", "https://a.example"));
    assert_true(web_has(answer, "Access-Control-Allow-Headers", "Authorization, Content-Type"));
    free(answer);
    answer = send_request(s.port, "GET /languages", origin);
    assert_int_equal(web_status(answer), 200);
    assert_true(web_has(answer, "Access-Control-Allow-Origin", "https://a.example"));
    free(answer);
    answer = send_request(s.port, "GET /nothing", origin);
    assert_int_equal(web_status(answer), 404);
    assert_true(web_has(answer, "Access-Control-Allow-Origin", "https://a.example"));
    free(answer);
    answer = send_request(s.port, "GET /languages", "Origin: https://b.example\r\n");
    assert_int_equal(web_status(answer), 403);
    assert_null(strstr(answer, "Access-Control-Allow"));
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    s = web_start("serve m", 0);
    answer = send_request(s.port, "OPTIONS /translate", asks);
    assert_int_equal(web_status(answer), 403);
    assert_null(strstr(answer, "Access-Control-Allow"));
    free(answer);
    assert_int_equal(web_stop(&s, SIGTERM), 0);
    bad_end end = bad_start("serve m --cors a.example", NULL, NULL);
    assert_int_equal(end.code, 2);
    assert_non_null(strstr(end.err, "--cors a.example"));
    bad_release(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serve_libre__texts),
        cmocka_unit_test(test_serve_libre__auto),
        cmocka_unit_test(test_serve_libre__alternatives),
        cmocka_unit_test(test_serve_libre__forms),
        cmocka_unit_test(test_serve_libre__refused),
        cmocka_unit_test(test_serve_libre__languages),
        cmocka_unit_test(test_serve_libre__through_english),
        cmocka_unit_test(test_serve_libre__key),
        cmocka_unit_test(test_serve_libre__other_sites),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, served_set_up, bad_tear_down);
}
