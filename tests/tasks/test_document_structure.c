/* The readers of CommonMark and of HTML find the same structure in a document and in its
 * translation: blocks and spans of Markdown, the tree of a page without its texts. The translators
 * here write capitals, or markup that the source does not have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "skip.h"
#include "tasks/translation/documents/document.h"
#include "tasks/translation/documents/document_private.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static uint32_t random_state = 1;

static uint32_t draw(uint32_t below)
{
    random_state = random_state * 1664525 + 1013904223;
    return (random_state >> 8) % below;
}

typedef void translate_fn(et_strbuf *out, const char *line);

static void capitals(et_strbuf *out, const char *line)
{
    for (; *line; line++)
        et_strbuf_append_char(out, (char)toupper((unsigned char)*line));
}

/* What a model may write that has seen too much markup. */
static void marks(et_strbuf *out, const char *line)
{
    static const char *const words[] = { "1. ", "# ", "- ",  "* ",   "> ",   "`",  "**", "_",
                                         "[a]", "](", "<b>", "</p>", "\\",   "|",  "~~", "===",
                                         "---", "+ ", ": ",  "!",    "&lt;", "\"", "'",  "$" };
    et_strbuf_append(out, draw(2) ? words[draw(COUNT(words))] : "");
    for (; *line; line++) {
        et_strbuf_append_char(out, (char)toupper((unsigned char)*line));
        if (!draw(12))
            et_strbuf_append(out, words[draw(COUNT(words))]);
    }
}

/* Of a language without blanks, so that emphasis is beside letters. */
static void without_blanks(et_strbuf *out, const char *line)
{
    for (; *line; line++)
        if (*line != ' ')
            et_strbuf_append_char(out, *line);
}

static translate_fn *const translators[] = { capitals, marks, without_blanks };

/* To be released. false: refused. */
static bool translate(int format, const char *text, size_t length, translate_fn *fn, et_strbuf *out,
                      et_error *error)
{
    const et_document_options options = { .format = format, .name = "a" };
    const char *const *lines;
    et_document *d;
    size_t count;
    *error = (et_error)ET_ERROR_INIT;
    if (et_document_open(&d, text, length, &options, error))
        return false;
    while ((lines = et_document_lines(d, &count)) != NULL) {
        char **results = et_alloc_zero(count, sizeof *results);
        for (size_t i = 0; i < count; i++) {
            et_strbuf result = ET_STRBUF_INIT;
            fn(&result, lines[i]);
            et_strbuf_append(&result, "");
            results[i] = et_strbuf_detach(&result);
        }
        assert_int_equal(et_document_take(d, results, error), ET_OK);
        for (size_t i = 0; i < count; i++)
            et_free(results[i]);
        et_free(results);
    }
    et_document_print(d, out);
    et_document_close(d);
    return true;
}

static void need(int format)
{
    et_error error;
    et_strbuf out = ET_STRBUF_INIT;
    if (!translate(format, "a", 1, capitals, &out, &error))
        test_skip(error.text);
    et_strbuf_release(&out);
}

typedef bool structure_fn(const char *text, size_t length, et_strbuf *out);

static void assert_same(int format, structure_fn *structure, const char *text, size_t length,
                        translate_fn *fn)
{
    et_error error;
    et_strbuf out = ET_STRBUF_INIT, before = ET_STRBUF_INIT, after = ET_STRBUF_INIT;
    if (!translate(format, text, length, fn, &out, &error)) {
        assert_int_equal(error.status, ET_EDATA);
        return;
    }
    assert_true(structure(text, length, &before) &&
                structure(et_strbuf_text(&out), out.length, &after));
    if (before.length != after.length ||
        memcmp(et_strbuf_text(&before), et_strbuf_text(&after), before.length) != 0)
        fail_msg("%.*s\nbecame\n%s\nwith the structure\n%.*s\nnot\n%.*s", (int)length, text,
                 et_strbuf_text(&out), (int)after.length, et_strbuf_text(&after),
                 (int)before.length, et_strbuf_text(&before));
    et_strbuf_release(&out);
    et_strbuf_release(&before);
    et_strbuf_release(&after);
}

static const char *const md[] = {
    "# One *two*\n\nthree **four** five `six` [seven](eight 'nine') ![ten](a.png)\n",
    "- one\n- two\n\n  three\n\n      code\n- [ ] four\n  1. five\n     more\n",
    "> one *two\n> three* four\n>\n> - five\nsix\n",
    "| a | b *c* |\n|---|:-:|\n| d \\| e | `f|g` |\n\none\n===\n\ntwo\n---\n",
    "one  \n*two*\\\nthree **four**five\n\n***\n\n[a]: b 'c'\n\n[a] [a][] [d][a] ![a]\n",
    "<details>\n<summary>One</summary>\n\nTwo *three*\n\n</details>\n\na <b>c</b> &amp; d &lt;\n",
    "~~one~~ ***two*** __three__ _four_ 2 * 3 a_b_c \\*no\\* <http://a.b/c>\n",
    "```c\nint a;\n```\n\n    code\n\n~~~\nb\n~~~\nend\n",
    "1. one\n\n   > two\n   > three\n\n   ```\n   four\n   ```\n2. five\n",
    "Note: [*one* two][a], [three\nfour][a].\n\n[a]: <b> \"c\"\n",
};

static const char *const html[] = {
    ("<!doctype html><html><head><title>One &amp; two</title><meta name=description content=three>"
     "</head><body><p class=a>four <b>five</b> "
     "six<p>seven<ul><li>eight<li>nine</ul></body></html>"),
    "<table>one<tr><td>two<td>three</table><p>four</b> <i>five <b>six</i> seven</b>",
    "<p>a < b & c &copy; d<!-- e --> <code>f < g</code> <img alt='h' src=i> <br> j</p>",
    "<script>if (a < b) c = '<p>d</p>';</script><style>a > b {}</style><p>e</p>",
    "<select><option label=a>b<optgroup label='c d'></select><textarea placeholder=e>f</textarea>",
    "<svg><title>a</title><text>b</text></svg><p>c</p><!DOCTYPE a \"b > c\"><p>d</p><![if a]>e",
    "<p>one</p></div>two</body>three<template><p>four</p></template><noscript>five</noscript>",
};

static void assert_all(int format, structure_fn *structure, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < COUNT(translators); k++)
            for (int n = 0; n < 20; n++)
                assert_same(format, structure, texts[i], strlen(texts[i]), translators[k]);
}

/* Samples with bytes exchanged. */
static void assert_damaged(int format, structure_fn *structure, const char *const *texts,
                           size_t count, const char *bytes)
{
    for (int i = 0; i < 3000; i++) {
        char text[512];
        const char *sample = texts[draw((uint32_t)count)];
        snprintf(text, sizeof text, "%s", sample);
        const size_t length = strlen(text);
        for (uint32_t n = draw(4) + 1; n; n--)
            text[draw((uint32_t)length)] = bytes[draw((uint32_t)strlen(bytes))];
        assert_same(format, structure, text, length, translators[draw(COUNT(translators))]);
    }
}

static void test_document_structure__md(void **state)
{
    (void)state;
    need(ET_DOCUMENT_MD);
    assert_all(ET_DOCUMENT_MD, et_md_structure, md, COUNT(md));
    assert_damaged(ET_DOCUMENT_MD, et_md_structure, md, COUNT(md), "*_`[]()<>~|\\ \n-#1.a");
}

static void test_document_structure__html(void **state)
{
    (void)state;
    need(ET_DOCUMENT_HTML);
    assert_all(ET_DOCUMENT_HTML, et_html_structure, html, COUNT(html));
    assert_damaged(ET_DOCUMENT_HTML, et_html_structure, html, COUNT(html), "<>/&;='\"!- \nab");
}

/* Etude's own documents. */
static void test_document_structure__files(void **state)
{
    static const char *const files[] = { "README.md", "CHANGES.md", "doc/install.md",
                                         "doc/reference/command.md" };
    (void)state;
    need(ET_DOCUMENT_MD);
    for (size_t i = 0; i < COUNT(files); i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", ET_TEST_SOURCE, files[i]);
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        char *text = et_alloc((size_t)1 << 20, 1);
        const size_t length = fread(text, 1, (size_t)1 << 20, file);
        fclose(file);
        for (size_t k = 0; k < COUNT(translators); k++)
            assert_same(ET_DOCUMENT_MD, et_md_structure, text, length, translators[k]);
        et_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_document_structure__md),
        cmocka_unit_test(test_document_structure__html),
        cmocka_unit_test(test_document_structure__files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
