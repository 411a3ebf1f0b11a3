/* Sentences of a text, by ICU's breaks for a language (Unicode Standard Annex 29, with the
 * language's abbreviations where ICU knows them). ICU is loaded when the first is opened.
 *
 *     if (et_sentences_open(&s, "en", &error)) ...
 *     if (!et_sentences_begin(s, text, length)) ...              no memory
 *     for (size_t from = 0, end; et_sentences_next(s, &end); from = end)
 *         use(text + from, end - from);
 *     et_sentences_close(s);
 *
 * White space after a sentence belongs to it. One thread at a time. */
#ifndef ETUDE_DATA_TEXT_SENTENCES_H
#define ETUDE_DATA_TEXT_SENTENCES_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>

typedef struct et_sentences et_sentences;

/* language: a code such as "en" or "pt-BR"; NULL: the rules for all languages. ET_ECONFIG: built
 * without ICU. ET_ENOTFOUND: ICU's library is missing. ET_EUSAGE: not a language code. */
int et_sentences_open(et_sentences **out, const char *language, et_error *error);
void et_sentences_close(et_sentences *sentences); /* NULL allowed */

/* text: [length] bytes of valid UTF-8, borrowed until the next begin or close. false: no memory. */
bool et_sentences_begin(et_sentences *sentences, const char *text, size_t length);
/* Finds the end of the next sentence, in bytes from the start of the text. false: no sentence is
 * left. */
bool et_sentences_next(et_sentences *sentences, size_t *end);

/* Whether text is a code of a language as above: "en", "pt-BR", "zh-Hans". */
bool et_language_is_code(const char *text);

#define ET_LANGUAGE_MAX 36 /* bytes of a code in a pair, with its 0 */

/* Reads two codes, "en,de". false: text is something else; both are empty. */
bool et_language_read_pair(const char *text, char source[ET_LANGUAGE_MAX],
                           char target[ET_LANGUAGE_MAX]);

#endif
