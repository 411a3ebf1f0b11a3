/* Adam's update of a chunk, for all rules that use it, also for some parameters only. Private to
 * this folder. */
#ifndef ETUDE_ENGINE_OPTIM_RULES_ADAM_H
#define ETUDE_ENGINE_OPTIM_RULES_ADAM_H

#include "engine/optim/rules/rule.h"

typedef struct et_adam_numbers {
    double beta_1, beta_2, epsilon;
    double rate;  /* of the chunk, without the bias correction */
    double decay; /* fraction that a weight loses; 0: none */
} et_adam_numbers;

/* m and v are of the chunk; largest: of v so far; NULL: not amsgrad. */
void et_adam_update(const et_adam_numbers *numbers, const et_rule_step *step,
                    const et_rule_chunk *chunk, float *m, float *v, float *largest);

#endif
