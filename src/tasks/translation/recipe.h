/* The recipe of translation/auto: how large a model and a vocabulary and how much dropout so many
 * pairs of lines bear, how fast to learn in so many updates. Its rates are those of
 * configs/multi30k-fast.yaml; bench/recipe compares it with settings around its own, and
 * bench/results/recipe.jsonl has what was measured. */
#ifndef ETUDE_TASKS_TRANSLATION_RECIPE_H
#define ETUDE_TASKS_TRANSLATION_RECIPE_H

#include "systems/modelgarden/recipe.h"

#define ET_TRANSLATION_AUTO "translation/auto"

extern const et_recipe et_translation_recipe;

#endif
