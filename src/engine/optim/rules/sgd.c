/* Keras's SGD: a = momentum * a - rate * g; w += a, or Nesterov's look ahead, w += momentum * a -
 * rate * g with the new a. The legacy `decay` divides the rate by 1 + decay * iterations; the newer
 * class, sgd_experimental, has no decay and is otherwise the same. */
#include "base/assert.h"
#include "engine/optim/rules/rule.h"

/* Without momentum there is no slot: the kernel accepts a NULL accumulator. */
static int slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "momentum";
    return options->sgd.momentum > 0 ? 1 : 0;
}

static void update_with(const et_kernels *kernels, double rate, double momentum, bool nesterov,
                        const et_rule_step *step, const et_rule_chunk *chunk)
{
    et_assert(momentum == 0 || chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    kernels->sgd(&update, &(et_momentum){ chunk->slot[0], (float)rate, (float)momentum, nesterov });
}

/* decay comes on top of the schedule, counted in updates done before this one. */
static void update(const et_kernels *kernels, const et_optimizer_options *options,
                   const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_sgd_options *o = &options->sgd;
    double rate = chunk->rate / (1 + o->decay * (double)step->iterations);
    update_with(kernels, rate, o->momentum, o->nesterov, step, chunk);
}

static int newer_slots(const et_optimizer_options *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "momentum";
    return options->sgd_experimental.momentum > 0 ? 1 : 0;
}

static void newer_update(const et_kernels *kernels, const et_optimizer_options *options,
                         const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_sgd_experimental_options *o = &options->sgd_experimental;
    update_with(kernels, chunk->rate, o->momentum, o->nesterov, step, chunk);
}

const et_rule_class et_rule_sgd = { .name = "sgd", .slots = slots, .update = update };
const et_rule_class et_rule_sgd_experimental = { .name = "sgd_experimental",
                                                 .slots = newer_slots,
                                                 .update = newer_update };
