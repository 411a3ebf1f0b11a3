/* Translations for `etude serve`:
 *
 *     POST /translate {"lines": ["A dog runs.", ...], "beam_size": 4, "n_best": 2}
 *     {"translations": ["Ein Hund rennt.", ...]}
 *     {"hypotheses": [[{"text": "...", "score": -0.92, "log_probability": -1.83}, ...], ...]}
 *
 * the latter with n_best. Weights are loaded once. Beam size and n_best are a decoder's, so
 * requests of others than the usual get one of their own, whose packed weights and scratch are
 * its own as well; a few are kept. */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATION_SERVICE_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATION_SERVICE_H

#include <etude/service.h>

extern const et_service_class et_translation_service;

#endif
