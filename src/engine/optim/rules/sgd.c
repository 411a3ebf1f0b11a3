/* Keras's SGD: a = momentum * a - rate * g; w += a, or Nesterov's look ahead, w += momentum * a -
 * rate * g with the new a. The legacy `decay` divides the rate by 1 + decay * iterations; the newer
 * class, sgd_experimental, has no decay and is otherwise the same. */
#include "base/assert.h"
#include "engine/optim/rules/rule.h"

/* Without momentum there is no slot: the kernel accepts a NULL accumulator. */
static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "momentum";
    return ((const et_sgd_options *)options)->momentum > 0 ? 1 : 0;
}

static void update_at(const et_sgd_options *o, double rate, const et_rule_step *step,
                      const et_rule_chunk *chunk)
{
    et_assert(o->momentum == 0 || chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    step->kernels->sgd(
        &update, &(et_momentum){ chunk->slot[0], (float)rate, (float)o->momentum, o->nesterov });
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_sgd_options *o = options;
    update_at(o, et_rule_decayed_rate(step, chunk, o->decay), step, chunk);
}

static void newer_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    update_at(options, chunk->rate, step, chunk);
}

const et_optimizer_rule et_rule_sgd = { ET_RULE(sgd), .cut = ET_RULE_ELEMENTS, .slots = slots,
                                        .update = update };
const et_optimizer_rule et_rule_sgd_experimental = { ET_RULE(sgd_experimental),
                                                     .cut = ET_RULE_ELEMENTS, .slots = slots,
                                                     .update = newer_update };
