/* Batches of pairs, as the settings say: packed, as many pairs as fit the token budget; or grouped
 * as in Model Garden's loader, by bucket of length or (static_batch) in order. All are without
 * Model Garden's padding. */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_BATCHING_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_BATCHING_H

#include <etude/data.h>

#include "tasks/translation/settings/translation_options.h"

/* ET_ECONFIG: a budget that holds no pair, or two kinds of batching at once. name: of the setting,
 * below task; training: else validation, whose static batches are counted in pairs. */
int et_translation_check_batching(const char *name, const et_translation_data *data, bool training,
                                  et_error *error);

/* Owns samples, also on failure. order: options of packed batches; all batches use its seed,
 * shuffle and repeat. */
int et_translation_batches(et_source **out, et_samples *samples, const et_translation_data *data,
                           const et_batches_options *order, bool training, et_error *error);

#endif
