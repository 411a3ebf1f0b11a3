#include "served.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bad_case.h"
#include "base/clock.h"
#include "base/values/json.h"
#include "web_client.h"

static char *source[SERVED_LINES], *target[SERVED_LINES];

/* A line of a text; moves on. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');
    assert_non_null(end);
    *end = 0;
    *at = end + 1;
    return line;
}

int served_set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    bad_train("m", 30);
    char *in = bad_read("a.en", NULL);
    bad_end end = bad_start("translate m", "a.en", NULL);
    assert_int_equal(end.code, 0);
    char *from = in, *to = end.out;
    for (int i = 0; i < SERVED_LINES; i++) {
        source[i] = next_line(&from);
        target[i] = next_line(&to);
    }
    free(end.err);
    return 0;
}

const char *served_source(int line)
{
    return source[line];
}

const char *served_target(int line)
{
    return target[line];
}

char *request_of(int first, int count, const char *options)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_printf(&out, "{%s\"lines\": [", options);
    for (int i = 0; i < count; i++) {
        et_strbuf_append(&out, i ? ", " : "");
        et_json_print_string(&out, source[(first + i) % SERVED_LINES]);
    }
    et_strbuf_append(&out, "]}");
    return et_strbuf_detach(&out);
}

const et_value *parse(et_arena *arena, const char *text)
{
    et_value *value;
    et_error error = ET_ERROR_INIT;
    if (et_json_parse(&value, arena, text, strlen(text), "the answer", &error))
        fail_msg("%s in: %s", error.text, text);
    return value;
}

bool is_right(const char *answer, int first, int count)
{
    et_arena arena = ET_ARENA_INIT;
    bool right = web_status(answer) == 200;
    const et_value *list =
        right ? et_value_get(parse(&arena, web_body(answer)), "translations") : NULL;
    right = list && list->count == (size_t)count;
    const et_value *text = right ? list->first : NULL;
    for (int i = 0; i < count && right; i++, text = text->next)
        right = !strcmp(text->string, target[(first + i) % SERVED_LINES]);
    et_arena_release(&arena);
    return right;
}

void assert_right(int port, int first, int count)
{
    char *body = request_of(first, count, ""), *answer = web_post(port, "/translate", body);
    if (!is_right(answer, first, count))
        fail_msg("%s\n%s", body, answer);
    free(body);
    free(answer);
}

static const struct {
    const char *body, *words;
} bad_json[] = {
    { "{", "body:1:1: not JSON" },
    { "[]", "expected an object" },
    { "\"lines\"", "expected an object" },
    { "nothing", "the body" },
    { "{}", "lines: expected a list of texts, found nothing" },
    { "{\"lines\": \"a\"}", "lines: expected a list of texts, found text" },
    { "{\"lines\": null}", "lines: expected a list of texts, found null" },
    { "{\"lines\": {}}", "found an object" },
    { "{\"lines\": [1]}", "line 1 is an integer" },
    { "{\"lines\": [\"a\", null]}", "line 2 is null" },
    { "{\"lines\": [\"a\", [\"b\"]]}", "line 2 is a list" },
    { "{\"lines\": [\"a\\nb\"]}", "line 1 contains a line end" },
    { "{\"lines\": [\"a\\u0000b\"]}", "the body" },
    { "{\"lines\": [\"\\ud800\"]}", "the body" },
    { "{\"lines\": [\"\xff\"]}", "the body" },
    { "{\"lines\": [\"a\"], \"lines\": [\"b\"]}", "lines" },
    { "{\"line\": [\"a\"]}", "Nearest: lines" },
    { "{\"lines\": [\"a\"], \"beam\": 4}", "known keys: lines, beam_size, n_best" },
    { "{\"lines\": [\"a\"], \"beam_size\": 0}", "from 1 to" },
    { "{\"lines\": [\"a\"], \"beam_size\": 65}", "from 1 to" },
    { "{\"lines\": [\"a\"], \"beam_size\": 4.0}", "whole number" },
    { "{\"lines\": [\"a\"], \"beam_size\": \"4\"}", "whole number" },
    { "{\"lines\": [\"a\"], \"beam_size\": 1e99}", "beam_size" },
    { "{\"lines\": [\"a\"], \"beam_size\": 2, \"n_best\": 3}", "more than the beam size" },
    { "{\"lines\": [\"a\"], \"n_best\": -1}", "from 1 to" },
    { "{\"lines\": [\"a\"]} x", "the body" },
};

void assert_refused(const char *name, const char *answer, int status, const char *words)
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

size_t assert_bad_json(int port)
{
    for (size_t i = 0; i < COUNT(bad_json); i++) {
        char *answer = web_post(port, "/translate", bad_json[i].body);
        assert_refused(bad_json[i].body, answer, 400, bad_json[i].words);
        free(answer);
    }
    return COUNT(bad_json);
}

void assert_answers_at_once(int port, const char *path)
{
    const double before = et_clock_monotonic();
    char *answer = web_ask(port, path, "", NULL);
    assert_int_equal(web_status(answer), 200);
    assert_true(et_clock_monotonic() - before < SERVED_PATIENCE);
    free(answer);
}

char *repeat(const char *before, const char *text, size_t count, const char *after)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, before);
    for (size_t i = 0; i < count; i++)
        et_strbuf_append(&out, text);
    et_strbuf_append(&out, after);
    return et_strbuf_detach(&out);
}
