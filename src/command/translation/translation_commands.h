/* The commands for translation, for the table of commands of their kind of task. */
#ifndef ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H
#define ETUDE_COMMAND_TRANSLATION_TRANSLATION_COMMANDS_H

#include <etude/service.h>

#include "command/command.h"

ET_COMMAND_NAMED(evaluate_translation);
ET_COMMAND_NAMED(translate);
ET_COMMAND_NAMED(compare_translation);
ET_COMMAND_NAMED(score);
ET_COMMAND_NAMED(import);
ET_COMMAND_NAMED(augment);

/* Writes a picture of the decoder's attention for a line and its best translation. The model is a
 * run or an export. The SVG file is written completely or not at all. ET_EDATA: no word was
 * translated. */
int et_attention_plot(const char *run, const char *line, const char *path, et_error *error);

/* ---- service ---- */

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
extern const et_service_class et_translation_service;

#endif
