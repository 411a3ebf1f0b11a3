/* The parts of the row of translation, et_translation_kind (<etude/translator.h>). */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_KIND_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_KIND_H

#include <etude/translator.h>

#include <etude/command.h>

#include "systems/modelgarden/recipe.h"

/* Its experiments, ended by a row without a name. */
extern const et_experiment_row et_translation_experiments[];

/* For programs that read settings and do not train: links no training code. */
extern const et_program et_translation_program;

/* The recipe of translation/auto. It chooses the sizes of model and vocabulary and the dropout by
 * the number of pairs of lines, and the learning rate by the number of updates. Its rates come from
 * configs/multi30k-fast.yaml. bench/recipe compares it with similar settings, and
 * bench/results/recipe.jsonl has the measurements. */

#define ET_TRANSLATION_AUTO "translation/auto"
#define ET_TRANSLATION_BASE "translation/base"

extern const et_recipe et_translation_recipe;

/* For a run that begins with a trained model: Adam with a small rate that falls linearly, a short
 * warm-up, the average of the weights from the first step, and early stopping if there is a
 * validation. The model, its label smoothing and its dropout stay as they are. */
extern const et_recipe et_translation_finetuning;

#endif
