/* The recipe of translation/auto: sizes of model and vocabulary and the dropout for a number of
 * pairs of lines, and the learning rate for a number of updates. Its rates are those of
 * configs/multi30k-fast.yaml. bench/recipe compares it with similar settings, and
 * bench/results/recipe.jsonl has the measurements. */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_RECIPE_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_RECIPE_H

#include "systems/modelgarden/recipe.h"

#define ET_TRANSLATION_AUTO "translation/auto"
#define ET_TRANSLATION_BASE "translation/base"

extern const et_recipe et_translation_recipe;

/* For a run that begins with a trained model: Adam with a small rate that falls linearly, a short
 * warm-up, the average of the weights from the first step, and early stopping if there is a
 * validation. Model, label smoothing and dropout stay those of the model. */
extern const et_recipe et_translation_finetuning;

#endif
