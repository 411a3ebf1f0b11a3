/* LibreTranslate's API, so that its clients can ask a server of Etude. A request of POST /translate
 * that has no "lines" is one of these:
 *
 *     {"q": "A dog. It runs.", "source": "en", "target": "de"}   {"translatedText": "..."}
 *     {"q": ["A dog.", "A cat."], ...}                           {"translatedText": ["...", "..."]}
 *     "source": "auto"         the model's; adds "detectedLanguage" with confidence 0
 *     "format": "html"         keeps markup; further formats: xml, po, srt, md
 * (documents/document.h) "alternatives": 2        adds up to so many further translations of each
 * text; none of markup
 *
 * If two models translate one after the other, the answer has "through": "en".
 *
 * Or it is a form with these names. Unknown names are ignored, as LibreTranslate does. The target
 * chooses the tag of a multilingual model; a line's own tag holds for all its sentences. Further
 * paths are GET /languages, GET /frontend/settings and POST /detect. Texts are cut into lines, and
 * lines into sentences, if ICU is there. Source: libretranslate/app.py. */
#ifndef ETUDE_COMMAND_TRANSLATION_LIBRETRANSLATE_H
#define ETUDE_COMMAND_TRANSLATION_LIBRETRANSLATE_H

#include <etude/hypotheses.h>
#include <etude/service.h>

#include "command/translation/libre_languages.h"

/* A request; owned by the caller until et_libre_close. */
typedef struct et_libre et_libre;

/* Whether a request is one of this API. */
bool et_libre_is(const et_service_request *request);
/* Reads a request. models: borrowed until close. ET_EDATA: as LibreTranslate says, or what is
 * wrong.
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
/* Writes the answer. ET_ENOMEM. */
int et_libre_print(const et_libre *r, et_service_request *request, et_error *error);

/* The answers of the other paths. */
int et_libre_print_languages(const et_libre_models *models, et_service_request *request,
                             et_error *error);
/* keyed: clients need a token. */
int et_libre_print_settings(const et_libre_models *models, bool keyed, et_service_request *request,
                            et_error *error);
int et_libre_detect(const et_libre_models *models, et_service_request *request, et_error *error);

#endif
