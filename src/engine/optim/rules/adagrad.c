/* Adagrad (Duchi, Hazan and Singer 2011) as in Keras. s begins with initial_accumulator_value:
 *   s += g^2,  w -= rate g / (sqrt(s) + epsilon) */
#include "base/assert.h"
#include "engine/optim/rules/rule.h"

static int slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "accumulator";
    slot[0].initial = (float)options->adagrad.initial_accumulator_value;
    return 1;
}

static void update(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adagrad_options *o = &options->adagrad;
    et_assert(chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    const et_square_sums squares = { chunk->slot[0], (float)chunk->rate, (float)o->epsilon };
    kernels->adagrad(&update, &squares);
}

const et_rule_class et_rule_adagrad = { .name = "adagrad", .slots = slots, .update = update };
