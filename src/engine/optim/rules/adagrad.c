/* Adagrad (Duchi, Hazan and Singer 2011) as in Keras. s begins with initial_accumulator_value:
 *   s += g^2,  w -= rate g / (sqrt(s) + epsilon) */
#include "base/assert.h"
#include "engine/optim/rules/rule.h"

static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "accumulator";
    slot[0].initial = (float)((const et_adagrad_options *)options)->initial_accumulator_value;
    return 1;
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adagrad_options *o = options;
    et_assert(chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    const et_square_sums squares = { chunk->slot[0], (float)chunk->rate, (float)o->epsilon };
    step->kernels->adagrad(&update, &squares);
}

const et_optimizer_rule et_rule_adagrad = { ET_RULE(adagrad), .cut = ET_RULE_ELEMENTS,
                                            .slots = slots, .update = update };
