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
        { "en", { unnamed, 1 }, false, "--tag 'fr=<2no>'" },
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
static void check_request(const et_libre_models *models, const char *json, const char *expected)
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
    int status = et_libre_open(&r, models, &job.request, &error);
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
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"format\": \"lines\"}",
          "lines format is not supported" },
        { "{\"q\": \"# a\", \"source\": \"en\", \"target\": \"fr\", \"name\": \"b.MD\"}",
          ">>fra<< a +0" },
        { "{\"q\": \"# a\", \"source\": \"en\", \"target\": \"fr\", \"name\": \"b.txt\"}",
          ">>fra<< # a +0" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"fr\", \"name\": \"b.docx\"}",
          "pandoc" },
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
          "de is not supported; the server translates from en" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": \"it\"}",
          "it is not supported; from en, the server translates to fr, es, pt-BR, zh-Hans, cmn" },
        { "{\"q\": \"a\", \"source\": \"en\", \"target\": "
          "\"frfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfrfr\"}",
          "is not supported" },
        { "{\"source\": \"en\", \"target\": \"fr\"}", "Invalid request: missing q parameter" },
    };
    (void)state;
    et_libre_languages l = open_languages("en", NULL, true);
    const et_libre_models models = { .items = &l, .count = 1 };
    for (size_t i = 0; i < COUNT(rows); i++)
        check_request(&models, rows[i][0], rows[i][1]);
    et_libre_languages_close(&l);
}

/* The listing of models of these pairs. */
static et_libre_models open_models(const char *const *pairs, size_t count, bool tagged)
{
    et_libre_models all = { .items = et_alloc(count, sizeof *all.items), .count = count };
    et_error error = ET_ERROR_INIT;
    assert_non_null(all.items);
    for (size_t i = 0; i < count; i++)
        all.items[i] = open_languages(pairs[i], NULL, tagged);
    assert_int_equal(et_libre_models_list(&all, &error), ET_OK);
    return all;
}

static void test_libre__languages(void **state)
{
    (void)state;
    et_libre_models all = open_models((const char *const[]){ "zh-Hans,pt-br" }, 1, false);
    assert_string_equal(
        et_strbuf_text(&all.listing),
        "[{\"code\": \"zh-Hans\", \"name\": \"Chinese\", \"targets\": [\"pt-BR\"]}, "
        "{\"code\": \"pt-BR\", \"name\": \"Portuguese (Brazil)\", \"targets\": []}]\n");
    et_libre_models_close(&all);
    all = open_models((const char *const[]){ "en" }, 1, true);
    assert_non_null(strstr(et_strbuf_text(&all.listing),
                           "\"targets\": [\"fr\", \"es\", \"pt-BR\", \"zh-Hans\", \"cmn\", "
                           "\"zh-Hant\", \"oc\", \"sr-latn\"]}"));
    assert_non_null(
        strstr(et_strbuf_text(&all.listing), "{\"code\": \"oc\", \"name\": \"Occitan\""));
    et_libre_models_close(&all);
}

/* "de > en > fr" or the words of the error, after which no list goes on. */
static void check_route(const et_libre_models *all, const char *source, const char *target,
                        const char *expected)
{
    et_libre_route route;
    bool automatic;
    et_error error = ET_ERROR_INIT;
    et_strbuf out = ET_STRBUF_INIT;
    int status = et_libre_models_find(all, source, target, &route, &automatic, &error);
    for (int leg = 0; leg < route.count && !status; leg++)
        et_strbuf_printf(&out, "%s%s > %s", leg ? "; " : "", all->items[route.models[leg]].source,
                         route.targets[leg]->code);
    const char *words = status ? strstr(error.text, expected) : NULL;
    if (words && words[strlen(expected)] != ',')
        et_strbuf_append(&out, expected);
    if (strcmp(et_strbuf_text(&out), expected) != 0)
        fail_msg("%s to %s: %s %s, wanted %s", source, target, et_strbuf_text(&out), error.text,
                 expected);
    et_strbuf_release(&out);
}

static void test_libre__routes(void **state)
{
    static const char *const pairs[] = { "de,en", "en,fr", "en,es", "pt,es", "ja,zh" };
    static const char *const rows[][3] = {
        { "de", "en", "de > en" },
        { "de", "fr", "de > en; en > fr" },
        { "de", "es", "de > en; en > es" },
        { "pt", "es", "pt > es" },
        { "EN", "FR", "en > fr" },
        { "pt", "fr", "fr is not supported; from pt, the server translates to es" },
        { "de", "de", "de is not supported; from de, the server translates to en, fr, es" },
        { "en", "en", "en is not supported" },
        { "ja", "fr", "fr is not supported; from ja, the server translates to zh-Hans" },
        { "fr", "en", "fr is not supported; the server translates from de, en, pt, ja" },
        { "auto", "fr", "the models translate from de, en, pt, ja: name the source" },
    };
    (void)state;
    et_libre_models all = open_models(pairs, COUNT(pairs), false);
    for (size_t i = 0; i < COUNT(rows); i++)
        check_route(&all, rows[i][0], rows[i][1], rows[i][2]);
    assert_non_null(
        strstr(et_strbuf_text(&all.listing),
               "[{\"code\": \"de\", \"name\": \"German\", \"targets\": [\"en\", \"fr\", "
               "\"es\"]}, {\"code\": \"en\", "));
    et_libre_models_close(&all);
    /* Sources are the same. */
    all = open_models((const char *const[]){ "en,fr", "en,es" }, 2, false);
    check_route(&all, "auto", "es", "en > es");
    et_libre_models_close(&all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_libre__targets),  cmocka_unit_test(test_libre__wrong_targets),
        cmocka_unit_test(test_libre__requests), cmocka_unit_test(test_libre__languages),
        cmocka_unit_test(test_libre__routes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
