/* The service of translations for `etude serve`:
 *
 *   POST /translate {"lines": ["A dog runs.", ...], "beam_size": 4, "n_best": 2}
 *   {"translations": ["Ein Hund rennt.", ...]}
 *   {"hypotheses": [[{"text": "...", "score": -0.92, "log_probability": -1.83}, ...], ...]}
 *
 *     static const et_task_kind lines = { .name = "lines", .service = &et_translation_service };
 *
 * The last form is the answer with n_best. Weights are loaded once. A decoder has a fixed beam size
 * and n_best, so requests with unusual values get their own decoder, with its own packed weights
 * and scratch; a few such decoders are kept. */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATION_SERVICE_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATION_SERVICE_H

#include <etude/service.h>

extern const et_service_class et_translation_service;

#endif
