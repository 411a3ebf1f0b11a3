/* The translation task: from parallel text to a trained Transformer.
 *
 * Opening reads the data for training: the vocabularies (given, kept in the run, or trained on the
 * training text and kept), the encoded corpus (from its cache if text and vocabulary are the same),
 * and the validation lines. The options define the model. Validation gives the scores of beam
 * search in addition to the loss. */
#ifndef ETUDE_TASKS_TRANSLATION_TRANSLATION_TASK_H
#define ETUDE_TASKS_TRANSLATION_TRANSLATION_TASK_H

#include <etude/experiment.h>

#include "data/text/encoded.h"
#include "tasks/translation/settings/vocabularies.h"

/* Folders of a run that this task keeps, in addition to its vocabularies' files. */
#define ET_TRANSLATION_CACHE  "cache"
#define ET_TRANSLATION_OUTPUT "translations"

/* Options and context are copied; everything they point to must outlive the task. */
int et_translation_task_open(et_task **out, const et_translation_options *options,
                             const et_task_context *context, et_error *error);
void et_translation_task_close(et_task *task); /* NULL allowed */

/* Methods of the kind (translation_kind.h). */
int et_translation_identify(const et_task *task, et_value *identity, et_error *error);
int et_translation_belongs(const void *options, const char *model_dir, const et_identity *identity,
                           et_error *error);

#endif
