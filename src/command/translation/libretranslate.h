/* LibreTranslate's API, so that its clients can ask a server of Etude. A request of POST /translate
 * without "lines" has one of these forms:
 *
 *     {"q": "A dog. It runs.", "source": "en", "target": "de"}   {"translatedText": "..."}
 *     {"q": ["A dog.", "A cat."], ...}                           {"translatedText": ["...", "..."]}
 *     "source": "auto"         the model's; adds "detectedLanguage" with confidence 0
 *     "format": "html"         keeps markup; others: xml, po, srt, md (documents/document.h)
 *     "alternatives": 2        adds at most 2 further translations of each text, without markup
 *
 * If two models translate one after the other, the answer has "through": "en".
 *
 * Or it is a form with these names. Unknown names are ignored, as LibreTranslate does. The target
 * chooses the tag of a multilingual model; a line's own tag holds for all its sentences. Further
 * paths are GET /languages, GET /frontend/settings and POST /detect. Texts are cut into lines and,
 * with ICU, lines into sentences. Source: libretranslate/app.py. */
#ifndef ETUDE_COMMAND_TRANSLATION_LIBRETRANSLATE_H
#define ETUDE_COMMAND_TRANSLATION_LIBRETRANSLATE_H

#include <etude/fields.h>
#include <etude/hypotheses.h>
#include <etude/service.h>

#include "base/text/strbuf.h"
#include "data/text/sentences.h"

/* ---- languages ---- */

/* The languages of the models that a server of LibreTranslate's API has. Each model has one source
 * and one or more targets. A multilingual model has a tag for each target, such as >>fra<<. If no
 * model has a pair, the text is translated through English: one model translates the source to
 * English, another model English to the target.
 *
 * Codes are those of LibreTranslate's models, in lower case: zh (asked for as zh-Hans as well), zt
 * (zh-Hant), pb (pt-BR); answers have the longer names. Source: libretranslate/language.py. */

typedef struct et_libre_target {
    char code[ET_LANGUAGE_MAX];
    const char *tag; /* in front of each line; NULL: no tag. Borrowed */
} et_libre_target;

typedef struct et_libre_languages {
    char source[ET_LANGUAGE_MAX]; /* "": not known */
    et_libre_target *targets;     /* [count], owned */
    size_t count;
    const char *tag;         /* for lines of requests without a language; NULL: no tag */
    const et_strings *known; /* the model's language tags; borrowed */
    et_sentences *sentences; /* of the source; NULL: texts are cut into lines alone */
} et_libre_languages;

/* given: "en,de". For a model with tags also "en" or "en,mul", which mean all targets. NULL: not
 * known. tags: the targets, each as >>fra<< or fr=TAG; empty: all of `known`, the language tags of
 * the model. ET_EUSAGE: not codes, or a target without a tag. Without ICU, a warning names the
 * missing feature. */
int et_libre_languages_open(et_libre_languages *l, const char *given, const et_strings *tags,
                            const et_strings *known, et_error *error);
void et_libre_languages_close(et_libre_languages *l);

/* The languages of all models of a server. */
typedef struct et_libre_models {
    et_libre_languages *items; /* [count], owned */
    size_t count;
    et_strbuf listing; /* the answer of /languages */
} et_libre_models;

/* Call when all languages are open. Makes the listing, and logs which languages are reached through
 * English. With several models, the languages of each must be known. ET_ENOMEM. */
int et_libre_models_list(et_libre_models *all, et_error *error);
void et_libre_models_close(et_libre_models *all); /* all zeros allowed */

/* The way from a source to a target: one model, or two models with English between them. */
typedef struct et_libre_route {
    size_t models[2]; /* [count] indices of et_libre_models.items */
    const et_libre_target *targets[2];
    int count;
} et_libre_route;

/* The route of a request's languages. *automatic: the source is "auto", that is the source of all
 * models, if it is the same. ET_ECONFIG: the languages are not known. ET_EDATA: no model has this
 * pair, or "auto" is ambiguous. */
int et_libre_models_find(const et_libre_models *all, const char *source, const char *target,
                         et_libre_route *route, bool *automatic, et_error *error);

/* How answers write a code. Static, or code itself. */
const char *et_libre_code_shown(const char *code);

/* ---- requests ---- */

/* A request; owned by the caller until et_libre_close. */
typedef struct et_libre et_libre;

/* Whether a request is one of this API. */
bool et_libre_is(const et_service_request *request);
/* Reads a request. models: borrowed until close. ET_EDATA: the request is wrong; the error has
 * LibreTranslate's text, or names the fault.
 */
int et_libre_open(et_libre **out, const et_libre_models *models, const et_service_request *request,
                  et_error *error);
void et_libre_close(et_libre *r); /* NULL allowed */
int et_libre_alternatives(const et_libre *r);
const et_libre_route *et_libre_route_of(const et_libre *r);

/* Number of lines to translate now; 0: all are. */
size_t et_libre_count(et_libre *r);
void et_libre_lines(et_libre *r, const char **out);
/* Takes their translations: results[0 ...], or hypotheses of the lines first, first + 1, ... */
int et_libre_take(et_libre *r, char *const *results, const et_hypotheses *found, size_t first,
                  et_error *error);
/* All lines are translated by the first model of a route: the translations are cut into the lines
 * of the second model. */
int et_libre_advance(et_libre *r, et_error *error);
/* Writes the answer, or sets the request's status to ET_ENOMEM. */
void et_libre_print(const et_libre *r, et_service_request *request);

/* Write the answers for the other paths. */
int et_libre_print_languages(const et_libre_models *models, et_service_request *request,
                             et_error *error);
/* keyed: clients need a token. */
int et_libre_print_settings(const et_libre_models *models, bool keyed, et_service_request *request,
                            et_error *error);
int et_libre_detect(const et_libre_models *models, et_service_request *request, et_error *error);

#endif
