/* A glossary: terms of the source language, each with the words that a translation must have for
 * it. The file has a line for each: source term, TAB, target term.
 *
 * A term is found in a text as whole words, with any white space between them. A term without a
 * capital letter is found in any case, any other term only as it is written. If several terms begin
 * at a word, the term with most words is found, and the search continues after it. In scripts
 * without spaces between words (Han, Kana, Thai, Lao, Khmer, Burmese), each character counts as a
 * word.
 *
 *     et_glossary *glossary;
 *     const et_term *found[8];
 *     if (et_glossary_open(&glossary, "terms.tsv", &error)) ...
 *     status = et_glossary_find(glossary, text, strlen(text), found, 8, &count, &error);
 *     et_glossary_close(glossary);
 *
 * Read-only after open: any number of threads may search it. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_GLOSSARY_H
#define ETUDE_TASKS_TRANSLATION_DECODING_GLOSSARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* Bytes of one term at most. */
#define ET_GLOSSARY_TERM_MAX 1000

typedef struct et_glossary et_glossary;

typedef struct et_term {
    const char *source, *target; /* without white space around them */
    int64_t line;                /* in the file, from 1 */
} et_term;

/* ET_EDATA names the line. The line does not have exactly one TAB, a term is empty or too long, or
 * an earlier line has another target for the same source term. */
int et_glossary_open(et_glossary **out, const char *path, et_error *error);
void et_glossary_close(et_glossary *glossary); /* NULL allowed */

/* The terms of a text of UTF-8, in their order, each target once: the first `most` of them, and
 * *count of all. Borrowed from the glossary. */
int et_glossary_find(const et_glossary *glossary, const char *text, size_t length,
                     const et_term **found, size_t most, size_t *count, et_error *error);

/* Whether a text has the target of a term, as whole words and in the same case. */
int et_glossary_is_in(const char *target, const char *text, bool *is, et_error *error);

/* The path of the glossary's file, for messages. */
const char *et_glossary_path(const et_glossary *glossary);

#endif
