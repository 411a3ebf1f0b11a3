/* What a server of LibreTranslate's API knows about the languages of its models: each has one
 * source and one or more targets. A multilingual model has a tag for each target, such as >>fra<<.
 * A pair that no model has goes through English, if one model translates the source to English and
 * another one English to the target.
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

/* The languages of all models of a server. */
typedef struct et_libre_models {
    et_libre_languages *items; /* [count], owned */
    size_t count;
    et_strbuf listing; /* the answer of /languages */
} et_libre_models;

/* The languages are open; makes the listing, and logs which languages are reached through English.
 * Languages are known for each model, or there is one model. ET_ENOMEM. */
int et_libre_models_list(et_libre_models *all, et_error *error);
void et_libre_models_close(et_libre_models *all); /* one of zeros, too */

/* The way from a source to a target: one model, or two models with English between them. */
typedef struct et_libre_route {
    size_t models[2]; /* [count] indices of et_libre_models.items */
    const et_libre_target *targets[2];
    int count;
} et_libre_route;

/* The route of a request's languages. *automatic: the source is "auto", which stands for the source
 * if all models have the same. ET_ECONFIG: the languages are not known. ET_EDATA: no model has this
 * pair, or "auto" has several meanings. */
int et_libre_models_find(const et_libre_models *all, const char *source, const char *target,
                         et_libre_route *route, bool *automatic, et_error *error);
/* The source of all models. Errors as et_libre_models_find. */
int et_libre_models_source(const et_libre_models *all, const char **code, et_error *error);

/* How answers write a code. Static, or code itself. */
const char *et_libre_code_shown(const char *code);

/* {"code": "en", "name": "English"}. */
void et_libre_language_print(const char *code, et_strbuf *out);

#endif
