/* Readers of texts in memory. */
#include "fuzz/fuzz.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <etude/score.h>

#include "base/alloc.h"
#include "base/fields/settings.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "command/options/options.h"
#include "command/tabular/decision.h"
#include "command/web/form.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"
#include "data/text/punctuation.h"
#include "formats/torch/pickle.h"
#include "tasks/translation/documents/document.h"

/* ---- values ---- */

typedef int parse_fn(et_value **out, et_arena *arena, const char *text, size_t length,
                     const char *name, et_error *error);

typedef void print_fn(et_strbuf *out, const et_value *value);

static void print_json(et_strbuf *out, const et_value *value)
{
    et_json_print(out, value, 0);
}

/* What is printed gives the same tree when it is read again. */
static void read_again(parse_fn *parse, print_fn *print, const et_value *value, et_arena *arena)
{
    et_strbuf text = ET_STRBUF_INIT, first = ET_STRBUF_INIT, again = ET_STRBUF_INIT;
    et_value *other;
    et_error failure = ET_ERROR_INIT;
    print(&text, value);
    if (parse(&other, arena, et_strbuf_text(&text), text.length, "b", &failure))
        fail_msg("%s is printed, but not read: %s", et_strbuf_text(&text), failure.text);
    print_json(&first, value);
    print_json(&again, other);
    assert_string_equal(et_strbuf_text(&first), et_strbuf_text(&again));
    et_strbuf_release(&text);
    et_strbuf_release(&first);
    et_strbuf_release(&again);
}

/* Block style is for dicts. */
static int read_value(parse_fn *parse, print_fn *print, const char *bytes, size_t length,
                      et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *value;
    int status = parse(&value, &arena, bytes, length, "a", error);
    if (!status && (print == print_json || value->kind == ET_VALUE_DICT))
        read_again(parse, print, value, &arena);
    et_arena_release(&arena);
    return status;
}

static int read_json(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    (void)self;
    return read_value(et_json_parse, print_json, bytes, length, error);
}

static int read_yaml(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    (void)self;
    return read_value(et_yaml_parse, et_yaml_print, bytes, length, error);
}

/* Settings without a table: what was set is written, and read again. */
static int read_settings(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    (void)self;
    et_arena arena = ET_ARENA_INIT;
    et_settings settings = { .extra = et_value_dict(&arena), .arena = &arena };
    char *text = et_strndup(bytes, length);
    int status = et_settings_override(&settings, text, error);
    if (!status)
        read_again(et_yaml_parse, et_yaml_print, settings.extra, &arena);
    settings.strict = true;
    if (!status)
        status = et_settings_override(&settings, text, error);
    et_free(text);
    et_arena_release(&arena);
    return status;
}

static int read_pickle(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_pickle tensors = { bytes, length, 0, "a.bin" }, texts = tensors, order = tensors;
    et_pickle_tensor *tensor;
    const char **text;
    size_t count;
    bool little;
    (void)self;
    (void)et_pickle_read_texts(&texts, &text, &count, &arena, error);
    (void)et_pickle_read_order(&order, &little, error);
    int status = et_pickle_read_tensors(&tensors, &tensor, &count, &arena, error);
    et_arena_release(&arena);
    return status;
}

/* As parts and as pairs. */
static int read_form(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    static const char *const boundaries[] = { "x", "----WebKitFormBoundary7MA4", NULL };
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    (void)self;
    for (int i = 0; i < 3; i++) {
        et_value *form;
        char *text = et_alloc(length + 1, 1);
        if (length)
            memcpy(text, bytes, length);
        text[length] = 0;
        status = et_form_read(&form, &arena, boundaries[i], text, length, error);
        et_free(text);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- texts to translate ---- */

/* round 0: lines stay; 1: markup of a model that has gone wrong. */
static char *translated(const char *line, int round)
{
    return et_strdup(round ? "<b> {x} %s ``` &amp; ]]> --> \"" : line);
}

/* A translation is of the same format. */
static void read_translation(const et_document_options *options, const et_strbuf *text)
{
    et_document *d;
    et_error error = ET_ERROR_INIT;
    if (et_document_open(&d, et_strbuf_text(text), text->length, options, &error))
        fail_msg("the translation is refused, %s: %s", error.text, et_strbuf_text(text));
    et_document_close(d);
}

static int read_document(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    static const char *const tag = ">>fra<<";
    const et_strings tags = { &tag, 1 };
    const et_document_options options = { .format = self->format, .tags = &tags, .name = "a" };
    et_document *d;
    int status = et_document_open(&d, bytes, length, &options, error);
    for (int round = 0; round < 2 && !status; round++) {
        const char *const *lines;
        size_t count;
        et_strbuf out = ET_STRBUF_INIT;
        while (!status && (lines = et_document_lines(d, &count)) != NULL) {
            char **results = et_alloc_zero(count, sizeof *results);
            for (size_t i = 0; i < count; i++)
                results[i] = translated(lines[i], round);
            status = et_document_take(d, results, error);
            for (size_t i = 0; i < count; i++)
                et_free(results[i]);
            et_free(results);
        }
        et_document_print(d, &out);
        if (!status)
            read_translation(&options, &out);
        et_strbuf_release(&out);
        et_document_restart(d);
    }
    if (!status)
        et_document_close(d);
    return status;
}

/* Normalized text is UTF-8 again. */
static int read_punctuation(const fuzz_target *self, const char *bytes, size_t length,
                            et_error *error)
{
    static const char *const languages[] = { "en", "de", "cs", "fi" };
    (void)self, (void)error;
    if (memchr(bytes, 0, length) || !et_utf8_valid(bytes, length, NULL))
        return ET_OK;
    for (int i = 0; i < 4; i++) {
        et_strbuf out = ET_STRBUF_INIT;
        et_punctuation_normalize(et_punctuation_of(languages[i]), bytes, length, &out);
        assert_true(et_utf8_valid(et_strbuf_text(&out), out.length, NULL));
        et_strbuf_release(&out);
    }
    return ET_OK;
}

/* A hypothesis and, after the first line end, its reference. */
static int read_scores(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    const et_bleu_options bleu = ET_BLEU_OPTIONS_INIT, garden = ET_BLEU_OPTIONS_MODEL_GARDEN;
    const et_chrf_options chrf = ET_CHRF_OPTIONS_INIT;
    const et_ter_options ter = ET_TER_OPTIONS_INIT;
    char *pair = et_strndup(bytes, length), *reference = strchr(pair, '\n');
    et_score *score[4];
    int status = ET_OK;
    (void)self;
    if (reference)
        *reference++ = 0;
    assert_int_equal(et_bleu_new(&score[0], &bleu, error), ET_OK);
    assert_int_equal(et_bleu_new(&score[1], &garden, error), ET_OK);
    assert_int_equal(et_chrf_new(&score[2], &chrf, error), ET_OK);
    assert_int_equal(et_ter_new(&score[3], &ter, error), ET_OK);
    for (int i = 0; i < 4; i++) {
        et_score_result result;
        int added = et_score_add(score[i], pair, reference ? reference : "", error);
        status = added ? added : status;
        if (!added && !et_score_value(score[i], &result, error))
            assert_true(result.score >= 0);
        et_score_free(score[i]);
    }
    et_free(pair);
    return status;
}

/* ---- cells and options ---- */

static int read_cell(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    static const et_number_format formats[] = { { ET_NOTATION_POINT, NULL },
                                                { ET_NOTATION_COMMA, NULL },
                                                { ET_NOTATION_POINT, "kg" } };
    double number;
    et_date date;
    (void)self, (void)error;
    const et_noted noted = et_notation_find(bytes, length);
    assert_true(noted.unit_at + noted.unit_length <= length);
    (void)et_number_parse(&number, bytes, length);
    for (size_t i = 0; i < 3; i++)
        if (et_number_is(et_notation_parse(&number, &formats[i], bytes, length)))
            assert_true(isfinite(number));
    for (int order = ET_DATE_ANY; order <= ET_DATE_TIME; order++)
        if (et_date_read(&date, bytes, length, (et_date_order)order))
            assert_true(date.month >= 0 && date.month < 12 && date.day >= 0 && date.day < 31 &&
                        date.second >= 0 && date.second < 61 &&
                        fabs(et_date_seconds(&date)) < 2 * ET_DATE_SECONDS_END);
    (void)et_date_orders(bytes, length);
    return ET_OK;
}

static int read_options(const fuzz_target *self, const char *bytes, size_t length, et_error *error)
{
    static const char *const labels[] = { "a", "b:c", "no, yes" };
    const et_decision_classes classes = { "kind", labels, 3, false };
    char *text = et_strndup(bytes, length);
    const et_decision_args args = { .costs = { (const char *const[]){ text }, 1 } };
    et_decision decision;
    double seconds;
    uint64_t size;
    (void)self;
    (void)et_amount_time(&seconds, "time", text, error);
    (void)et_amount_bytes(&size, "memory", text, error);
    int status = et_decision_open(&decision, &args, &classes, error);
    et_decision_release(&decision);
    et_free(text);
    return status;
}

#define MARKUP                                                                                     \
    "< > >>fra<< </ /> <b> </b> & &amp; &#x ; \" ' = <!-- --> <![CDATA[ ]]> <? ?> { } %s %1$d"

const fuzz_target fuzz_texts[] = {
    { .name = "json",
      .read = read_json,
      .samples = { "{\"a\": [1, -2.5e3, true, null], \"b\\u00e9\": {\"c\": \"\\ud83d\\ude00\"}}",
                   "[0.1, 1e308, 9223372036854775807, \"\\\\\"]" },
      .words = "{ } [ ] , : \" \\u \\ud83d -0 1e400 null NaN" },
    { .name = "yaml",
      .read = read_yaml,
      .samples = { "a: 1\nb: [x, 'y', \"z\\n\"]\nc:\n  d: |\n    text\n  e: ~\n",
                   "- a\n- {b: 1e3, c: .5, d: 0x1F}\n- >-\n  folded\n  text\n",
                   "a: {b: '12', \"c d\": \"no\"}\n'1': [\"\", '-.5', 'x: y']\n" },
      .words = ": - | > & * ! # [ ] { } ' \" ? --- ... %YAML <<: !!int 0o7 .nan" },
    { .name = "settings",
      .read = read_settings,
      .samples = { "a=1, b.c=[x, y], l=[{x: 1}, {x: 2}], l[1].x=3, d[1]=2, d[0]=1",
                   "{a: 1, b.c: 2, b: {d: 3}, l: [{x: 1}]}", "a: 1\nl[0]: {x: 2}\n" },
      .words = "a= b.c= l[0].x= d[0]= , . = [ ] { } : ' \" [[1]] {a.b: 1} ~" },
    { .name = "pickle",
      .read = read_pickle,
      .samples = { "}(X\1\0\0\0aK\1u.", "(lp0\nVa\np1\naVb\np2\na.", "\x80\2}q\1X\1\0\0\0aNs." },
      .words = "} ( ) ] . q h c R t u s e a l d Q N K M J X b \x80 \x85 \x86 \x87 \x8a" },
    { .name = "form",
      .read = read_form,
      .samples = { "--x\r\nContent-Disposition: form-data; name=\"q\"\r\n\r\na\r\n--x\r\n"
                   "Content-Type: text/plain\r\nContent-Disposition: form-data; name=b; "
                   "filename=\"c\"\r\n\r\n\r\n--x--\r\n",
                   "q=a+b%20c&source=en&%74=%C3%A9&=&d" },
      .words = "--x --x-- \r\n \r\n--x name= \" ; & = % %00 + binary "
               "Content-Transfer-Encoding: Content-Disposition:" },
    { .name = "lines",
      .read = read_document,
      .samples = { ">>fra<< a dog {name} %1$d\n\nhttps://example.org/x a@b.org 7\n",
                   "see {n, plural, one {# {g, select, other {a}}} other {'{b}' %s}} now %{c}\n" },
      .words = MARKUP " {n, plural, one {# other {a}} {n,select,a{b}} '{ '' %% %( %< > ) @a :b",
      .format = ET_DOCUMENT_TEXT },
    { .name = "html",
      .read = read_document,
      .samples = { "<!doctype html><p class='a' title=\"one\">go <b>on</b> &amp; <br/><!-- c "
                   "--></p>",
                   "<script>if (a < b) x()</script><pre>a  b</pre><ul><li>c<li>d</ul>" },
      .words = MARKUP
      " <script> </script> <p> title=\" alt=' <table> <td> <template> <svg> <title> </title> <!x",
      .format = ET_DOCUMENT_HTML },
    { .name = "xml",
      .read = read_document,
      .samples = { "<?xml version='1.0'?><a b=\"c\"><d>one <i>two</i></d><![CDATA[x]]></a>",
                   "<resources><string>a\\'s &lt;b&gt;c&lt;/b> \\n \\u00e9 \"d  "
                   "e\"</string></resources>",
                   "<!DOCTYPE a [<!ENTITY b 'c'>]><a xml:space='preserve'>d  "
                   "&b;<e/>&amp;nbsp;</a>" },
      .words =
          MARKUP " &lt; &gt; &lt;br/> xml:space='preserve' \\' \\u00a9 <!DOCTYPE <!ENTITY ]> &b;",
      .format = ET_DOCUMENT_XML },
    { .name = "po",
      .read = read_document,
      .samples = { "#, fuzzy\nmsgctxt \"m\"\nmsgid \"a %s\\n\"\n\"b\"\nmsgstr \"\"\n\n"
                   "msgid \"c\"\nmsgid_plural \"d\"\nmsgstr[0] \"\"\nmsgstr[1] \"\"\n",
                   "msgid \"\"\nmsgstr \"Content-Type: text/plain; charset=UTF-8\\n\"\n"
                   "\"Plural-Forms: nplurals=2; plural=(n != 1);\\n\"\n\n#, c-format\n"
                   "msgid \"one\"\nmsgid_plural \"%d  <b>two</b>\"\nmsgstr[0] \"\"\n" },
      .words = "nplurals= plural= ? : && || ( n % charset= #, c-format\n %d <b> domain msgid "
               "msgstr msgid_plural msgctxt msgstr[0] msgstr[9] \" \\n \\ \\x #~ #,",
      .format = ET_DOCUMENT_PO },
    { .name = "srt",
      .read = read_document,
      .samples = { "1\n00:00:01,000 --> 00:00:02,500\n<i>one two</i> three\nfour\n2\n"
                   "00:00:03,000 --> 00:00:04,500\n- five\n",
                   "WEBVTT\n\nNOTE a\n\n00:01.000 --> 00:02.000 align:start\n<v Bob>one\n" },
      .words = "--> 00:00:01,000 <i> </i> WEBVTT NOTE STYLE {\\an8} : ,",
      .format = ET_DOCUMENT_SRT },
    { .name = "md",
      .read = read_document,
      .samples = { "---\na: b\n---\n# a\n\n- [b](c) *d* `e`\n> "
                   "f\n\n|a|\n|---|\n|b|\n\n```\nx\n```\n",
                   "![a](b \"c\") <http://d> [e][f] **g __h__ i** \\*\n\n[f]: <g> 'h'\n\n1. j\n",
                   ":::a b\n!!! c \"d\"\n    e\n\nf\n: g $h$ {{< i >}}\n\n[^1]: j\n{% k %}\n" },
      .words =
          MARKUP " * ** _ ` ``` ~~~ [ ] ( ) ![ ]( > - | # \\ 1. $ $$ [^1] [^1]: ::: !!! === : [ ]"
                 " {{< >}} {{% %}} {% %} {# #} {: [[ ]] \\begin{a} \\end{a} [!NOTE] <A import",
      .format = ET_DOCUMENT_MD },
    { .name = "punctuation",
      .read = read_punctuation,
      .samples = { "\xe2\x80\x9e"
                   "A\xe2\x80\x9c \xc2\xab\xc2\xa0"
                   "b\xc2\xa0\xc2\xbb ( c ) . '' d\xe2\x80\x99"
                   "e 5\xc2\xa0"
                   "000 \"f\".,\" \xe2\x80\xa6" },
      .words = "\xc2\xa0 \xe2\x80\x99 \xe2\x80\x9e \xc2\xab \xc2\xbb \" ' . , ( ) % : ; 5 \r" },
    { .name = "scores",
      .read = read_scores,
      .samples = { "The cat sat on the mat .\nOn the mat , the cat sat .",
                   "\xe7\x8c\xab a-b 1,000.5 &quot; &amp;lt;\n\xe7\x8c\xab  1.000,5 a \xc4\xb0 b" },
      .words = "the cat &quot; &lt; . , - \xe7\x8c\xab \xc4\xb0 \xc2\xa0 1 $ <skipped>" },
    { .name = "cells",
      .read = read_cell,
      .samples = { "(1,234.50 kg)",
                   "\xe2\x88\x92"
                   "1.234,5\xc2\xa0\xe2\x82\xac",
                   "Fri, 31 May 2024 14:30:00 GMT", "2024-W22-5T14:30:00.5+02:00" },
      .words = ", . ' _ ( ) - + e 1e400 % $ EUR kg \xc2\xa0 \xe2\x82\xac : / May T Z W Q 2024 31 "
               "PM [Europe/Berlin]" },
    { .name = "options",
      .read = read_options,
      .samples = { "a:b:c=5", "\"no, yes:a=1\",a:\"no, yes\"=2", "2-01:30:00", "4.5GiB" },
      .words = ": = , \" - a b:c 1e400 nan inf h GiB 00" },
    { .name = NULL },
};
