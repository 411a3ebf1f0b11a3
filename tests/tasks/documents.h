/* Documents that are translated by functions of a test. Include after cmocka.h and skip.h. */
#ifndef ETUDE_TESTS_TASKS_DOCUMENTS_H
#define ETUDE_TESTS_TASKS_DOCUMENTS_H

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "data/text/sentences.h"
#include "tasks/translation/documents/document.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

typedef char *translate_fn(const char *line);

static inline char *copy(const char *text)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append_bytes(&out, text, strlen(text));
    return et_strbuf_detach(&out);
}

static inline char *capitals(const char *line)
{
    char *text = copy(line);
    for (char *c = text; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return text;
}

static const et_strings language_tags = { (const char *const[]){ ">>fra<<", ">>deu<<" }, 2 };
static const char *usual_tag; /* NULL: none */
static et_document_counts counts;
static int rounds;

/* The translated document, to be freed; NULL: it was refused, with error. */
static inline char *translate(int format, et_sentences *sentences, const char *text, size_t length,
                              translate_fn *translator, et_error *error)
{
    const et_document_options options = { .format = format,
                                          .sentences = sentences,
                                          .tags = &language_tags,
                                          .tag = usual_tag,
                                          .name = "a.txt" };
    et_document *d;
    const char *const *lines;
    size_t count;
    et_strbuf out = ET_STRBUF_INIT;
    *error = (et_error)ET_ERROR_INIT;
    if (et_document_open(&d, text, length, &options, error))
        return NULL;
    for (rounds = 0; (lines = et_document_lines(d, &count)) != NULL; rounds++) {
        char **results = et_alloc_zero(count, sizeof *results);
        for (size_t i = 0; i < count; i++)
            results[i] = translator(lines[i]);
        assert_int_equal(et_document_take(d, results, error), ET_OK);
        for (size_t i = 0; i < count; i++)
            et_free(results[i]);
        et_free(results);
    }
    counts = et_document_count(d);
    et_document_print(d, &out);
    et_document_close(d);
    et_strbuf_append(&out, "");
    return et_strbuf_detach(&out);
}

typedef struct row {
    int format;
    const char *text, *expected;
} row;

static inline void assert_rows(const row *rows, size_t count, et_sentences *sentences,
                               translate_fn *fn)
{
    et_error error;
    for (size_t i = 0; i < count; i++) {
        char *out =
            translate(rows[i].format, sentences, rows[i].text, strlen(rows[i].text), fn, &error);
        if (!out || strcmp(out, rows[i].expected) != 0)
            fail_msg("%s\nbecame\n%s\nnot\n%s", rows[i].text, out ? out : error.text,
                     rows[i].expected);
        et_free(out);
    }
}

#endif
