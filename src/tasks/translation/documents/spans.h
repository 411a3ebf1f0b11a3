/* Parts of a text that a translation must not change: placeholders of programs, URLs, e-mail
 * addresses and numbers. */
#ifndef ETUDE_TASKS_TRANSLATION_DOCUMENTS_SPANS_H
#define ETUDE_TASKS_TRANSLATION_DOCUMENTS_SPANS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct et_span {
    size_t start, length;                                    /* bytes */
    enum { ET_SPAN_TEXT, ET_SPAN_NUMBER, ET_SPAN_TAG } kind; /* tags also keep their order */
    size_t tag;   /* number of a tag that has text of its own, from 1; 0: none */
    bool ordered; /* a directive without a number or name, such as %s: keeps its order */
} et_span;

typedef struct et_spans {
    et_span *items; /* [count], by position; owned */
    size_t count, capacity;
} et_spans;

/* false: no memory. */
bool et_spans_add(et_spans *spans, et_span span);
void et_spans_release(et_spans *spans);

/* Finds the first span of text at from or later. false: none. */
bool et_span_find(const char *text, size_t length, size_t from, et_span *span);

/* Whether text has a letter, in whatever script. */
bool et_text_has_letter(const char *text, size_t length);

#endif
