/* LibreTranslate's API without a server: languages, requests, and what the translator gets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/values/json.h"
#include "command/translation/libretranslate.h"
#include "command/web/batcher.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char *const of_model[] = { ">>fra<<", ">>spa<<",      ">>pt_br<<", ">>zho_Hans<<",
                                        ">>cmn<<", ">>zho_Hant<<", ">>oci<<",   ">>sr_Latn<<" };

static et_libre_languages open_languages(const char *given, const char *tag, bool tagged)
{
    static const et_strings none = { NULL, 0 };
    static et_strings known, own;
    static const char *only;
    et_libre_languages l;
    et_error error = ET_ERROR_INIT;
    only = tag;
    own = (et_strings){ &only, tag ? 1 : 0 };
    known = tagged ? (et_strings){ of_model, COUNT(of_model) } : none;
    if (et_libre_languages_open(&l, given, &own, &known, &error))
        fail_msg("%s: %s", given, error.text);
    return l;
}

/* "en: fr >>fra<<, es >>spa<<; usual". */
static void check_targets(const char *given, const char *tag, bool tagged, const char *expected)
{
    et_libre_languages l = open_languages(given, tag, tagged);
    et_strbuf all = ET_STRBUF_INIT;
    et_strbuf_printf(&all, "%s:", l.source);
    for (size_t i = 0; i < l.count; i++)
        et_strbuf_printf(&all, "%s %s%s%s", i ? "," : "", l.targets[i].code,
                         l.targets[i].tag ? " " : "", l.targets[i].tag ? l.targets[i].tag : "");
    et_strbuf_printf(&all, ";%s%s", l.tag ? " " : "", l.tag ? l.tag : "");
    assert_string_equal(et_strbuf_text(&all), expected);
    et_strbuf_release(&all);
    et_libre_languages_close(&l);
}

static void test_libre__targets(void **state)
{
    (void)state;
    check_targets("en,de", NULL, false, "en: de;");
    check_targets("EN,zh-Hans", NULL, false, "en: zh;");
    check_targets("pt_BR,zh-Hant", NULL, false, "pb: zt;");
    check_targets(NULL, NULL, false, ":;");
    check_targets("en", NULL, true,
                  "en: fr >>fra<<, es >>spa<<, pb >>pt_br<<, zh >>zho_Hans<<, cmn >>cmn<<, "
                  "zt >>zho_Hant<<, oc >>oci<<, sr-latn >>sr_Latn<<;");
    check_targets("en,es", NULL, true, "en: es >>spa<<; >>spa<<");
    check_targets("en,pt-BR", NULL, true, "en: pb >>pt_br<<; >>pt_br<<");
    check_targets("en", ">>fra<<", true, "en: fr >>fra<<; >>fra<<");
    check_targets("en,mul", "es=>>fra<<", true, "en: es >>fra<<; >>fra<<");
    check_targets("en,nb", "<2no>", false, "en: nb <2no>; <2no>");
    check_targets(NULL, ">>fra<<", true, ": fr >>fra<<; >>fra<<");
}

static void test_libre__wrong_targets(void **state)
{
    static const et_strings none = { NULL, 0 }, known = { of_model, COUNT(of_model) };
    static const char *const unnamed[] = { "<2no>" }, *const same[] = { ">>fra<<", ">>fr<<" };
    static const struct {
        const char *given;
        et_strings tags;
        bool tagged;
        const char *words;
    } rows[] = {
        { "en", { NULL, 0 }, false, "such as en,de" },
        { "en,", { NULL, 0 }, true, "or of the source alone" },
        { "en,de",
          { NULL, 0 },
          true,
          "the model has no tag for de; it has tags for fr, es, pt-BR" },
        { "en", { unnamed, 1 }, false, "--tag fr=<2no>" },
        { "en", { same, 2 }, true, "another tag has the" },
    };
    et_libre_languages l;
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_libre_languages_open(&l, rows[i].given, &rows[i].tags,
                                                 rows[i].tagged ? &known : &none, &error),
                         ET_EUSAGE);
        if (!strstr(error.text, rows[i].words))
            fail_msg("%s: %s", rows[i].given, error.text);
        et_libre_languages_close(&l);
    }
}

/* The lines that a request gives, "a|b", or the words of its error. */
static void check_request(const et_libre_languages *l, const char *json, const char *expected)
{
    et_job job = { .class = NULL };
    et_libre *r;
    et_value *value;
    et_strbuf all = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    job.request.type = "application/json";
    assert_int_equal(et_json_parse(&value, &job.arena, json, strlen(json), "a", NULL), ET_OK);
    job.request.json = value;
    assert_true(et_libre_is(&job.request));
    int status = et_libre_open(&r, l, &job.request, &error);
    if (status) {
        assert_int_equal(status, ET_EDATA);
        if (!strstr(error.text, expected))
            fail_msg("%s: %s, wanted %s", json, error.text, expected);
    } else {
        const char *lines[8];
        assert_true(et_libre_count(r) <= COUNT(lines));
        et_libre_lines(r, lines);
        for (size_t i = 0; i < et_libre_count(r); i++)
            et_strbuf_printf(&all, "%s%s", i ? "|" : "", lines[i]);
        et_strbuf_printf(&all, " +%d", et_libre_alternatives(r));
        assert_string_equal(et_strbuf_text(&all), expected);
        et_libre_close(r);
    }
    et_strbuf_release(&all);
    et_arena_release(&job.arena);
}

static void test_libre__requests(void **state)
{
    static const char *const rows[][2] = {
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\"}", ">>fra<< a +0" },
        { "{\"q\": \"a\", \"source\": \"EN\", \"target\": \"ES\", \"id\": 7, \"lines2\": []}",
          ">>spa<< a +0" },
        { "{\"q\": [\"a\", \"b\\nc\"], \"source\": \"Auto\", \"target\": \"pt-BR\"}",
          ">>pt_br<< a|>>pt_br<< b|>>pt_br<< c +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"pb\"}", ">>pt_br<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"zh-Hans\"}", ">>zho_Hans<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"zh\"}", ">>zho_Hans<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"zh-hant\"}", ">>zho_Hant<< a +0" },
        { "{\"q\": \"a\", \"source\": \"eng\", \"target\": \"fra\"}", ">>fra<< a +0" },
        /* a text's own tag */
        { "{\"q\": \">>spa<< a\\nb\", \"source\": \"en\", \"target\": \"fr\"}",
          ">>spa<< a|>>fra<< b +0" },
        { "{\"q\": \"<p>a</p>\", \"source\": \"en\", \"target\": \"fr\", \"format\": \"html\", "
          "\"alternatives\": 3}",
          ">>fra<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": \"2\"}",
          ">>fra<< a +2" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": 2.9}",
          ">>fra<< a +2" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": -3}",
          ">>fra<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": null}",
          ">>fra<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": []}",
          ">>fra<< a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": true}",
          "alternatives parameter is not a number" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"alternatives\": 1e300}",
          "alternatives parameter must be <= " },
        { "{\"q\": \"a\", \"source\": \"de\", \"target\": \"fr\"}",
          "de is not supported; the model translates from en" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"it\"}",
          "it is not supported; the model translates to fr, es, pt-BR, zh-Hans, cmn" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": "
          "\"frfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfr\"}",
          "is not supported" },
        { "{\"source\": \"en\", \"target\": \"fr\"}", "Invalid request: missing q parameter" },
    };
    (void)state;
    et_libre_languages l = open_languages("en", NULL, true);
    for (size_t i = 0; i < COUNT(rows); i++)
        check_request(&l, rows[i][0], rows[i][1]);
    et_libre_languages_close(&l);
}

static void test_libre__languages(void **state)
{
    et_strbuf out = ET_STRBUF_INIT;
    (void)state;
    et_libre_languages l = open_languages("zh-Hans,pt-br", NULL, false);
    et_libre_languages_print(&l, &out);
    assert_string_equal(
        et_strbuf_text(&out),
        "[{\"code\": \"zh-Hans\", \"name\": \"Chinese\", \"targets\": [\"pt-BR\"]}, "
        "{\"code\": \"pt-BR\", \"name\": \"Portuguese (Brazil)\", \"targets\": []}]");
    et_libre_languages_close(&l);
    et_strbuf_reset(&out);
    l = open_languages("en", NULL, true);
    et_libre_languages_print(&l, &out);
    assert_non_null(strstr(et_strbuf_text(&out),
                           "\"targets\": [\"fr\", \"es\", \"pt-BR\", \"zh-Hans\", \"cmn\", "
                           "\"zh-Hant\", \"oc\", \"sr-latn\"]}"));
    assert_non_null(strstr(et_strbuf_text(&out), "{\"code\": \"oc\", \"name\": \"Occitan\""));
    et_libre_languages_close(&l);
    et_strbuf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libre__targets),
        cmocka_unit_test(test_libre__wrong_targets),
        cmocka_unit_test(test_libre__requests),
        cmocka_unit_test(test_libre__languages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
