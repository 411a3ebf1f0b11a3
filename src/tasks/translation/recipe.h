/* The recipe of translation/auto: how large a vocabulary and how much dropout so many pairs of
 * lines bear, how fast to learn in so many updates. What it chooses was found on corpora of 3,000
 * to 100,000 pairs in 5 to 30 minutes of one processor core (bench/recipe, bench/results). */
#ifndef ETUDE_TASKS_TRANSLATION_RECIPE_H
#define ETUDE_TASKS_TRANSLATION_RECIPE_H

#include "systems/modelgarden/recipe.h"

#define ET_TRANSLATION_AUTO "translation/auto"

extern const et_recipe et_translation_recipe;

#endif
