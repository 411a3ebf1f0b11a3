/* Translates texts that are more than lines (documents/document.h) for `translate --split` and
 * `translate --format`. */
#ifndef ETUDE_COMMAND_TRANSLATION_TEXTS_H
#define ETUDE_COMMAND_TRANSLATION_TEXTS_H

#include <etude/translator.h>

#include "base/text/strbuf.h"
#include "command/translation/lines.h"
#include "tasks/translation/documents/document.h"

typedef struct et_texts {
    int format;                     /* an et_document_format */
    struct et_sentences *sentences; /* owned; NULL: segments are not cut into sentences */
    const char *name;               /* of the input, for messages */
    size_t translated;              /* lines that the translator got so far: numbers of samples */
    size_t lines;                   /* of the input so far */
    et_document_counts counts;
} et_texts;

/* split: cut into sentences, by the rules of language (NULL: of all). ET_ECONFIG, ET_ENOTFOUND: no
 * ICU. */
int et_texts_open(et_texts *texts, int format, bool split, const char *language, et_error *error);
void et_texts_close(et_texts *texts);

/* Appends the translation of lines to out. Format LINES: they have no ends and get LF; any number
 * at a time. Others: they have their ends, and are the whole text. */
int et_texts_translate(et_texts *texts, et_translator *translator, const et_lines *lines,
                       et_strbuf *out, et_error *error);

/* Prints to standard error what was translated in parts, and where texts were not translated. */
void et_texts_tell(const et_texts *texts);

#endif
