/* What a server of LibreTranslate's API knows about the languages of its model: one source and one
 * or more targets. A multilingual model has a tag for each target, such as >>fra<<.
 *
 * Codes are those of LibreTranslate's models, in lower case: zh (asked for as zh-Hans as well), zt
 * (zh-Hant), pb (pt-BR); answers have the longer names. Source: libretranslate/language.py. */
#ifndef ETUDE_COMMAND_TRANSLATION_LIBRE_LANGUAGES_H
#define ETUDE_COMMAND_TRANSLATION_LIBRE_LANGUAGES_H

#include <etude/fields.h>

#include "base/text/strbuf.h"
#include "data/text/sentences.h"

typedef struct et_libre_target {
    char code[ET_LANGUAGE_MAX];
    const char *tag; /* in front of each line; NULL: none is needed. Borrowed */
} et_libre_target;

typedef struct et_libre_languages {
    char source[ET_LANGUAGE_MAX]; /* "": not known */
    et_libre_target *targets;     /* [count], owned */
    size_t count;
    const char *tag;         /* of lines whose request names no language; NULL: none */
    const et_strings *known; /* the model's language tags; borrowed */
    et_sentences *sentences; /* of the source; NULL: texts are cut into lines alone */
} et_libre_languages;

/* given: "en,de"; of a model with tags also "en" or "en,mul" for all targets; NULL: not known.
 * tags: the targets, each as >>fra<< or fr=TAG; none: all of `known`, the language tags of the
 * model. ET_EUSAGE: not codes, or a target without a tag. Without ICU a warning says what is lost.
 */
int et_libre_languages_open(et_libre_languages *l, const char *given, const et_strings *tags,
                            const et_strings *known, et_error *error);
void et_libre_languages_close(et_libre_languages *l);

/* ET_ECONFIG: the languages of the model are not known. */
int et_libre_languages_check(const et_libre_languages *l, et_error *error);

/* The languages of a request. *target: borrowed. *automatic: the source is "auto". ET_EDATA: a
 * language that the model has not. */
int et_libre_languages_find(const et_libre_languages *l, const char *source, const char *target,
                            const et_libre_target **found, bool *automatic, et_error *error);

/* How answers write a code. Static, or code itself. */
const char *et_libre_code_shown(const char *code);

/* The answer of /languages. */
void et_libre_languages_print(const et_libre_languages *l, et_strbuf *out);
/* {"code": "en", "name": "English"}. */
void et_libre_language_print(const char *code, et_strbuf *out);

#endif
