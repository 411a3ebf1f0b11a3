/* RMSProp (Hinton 2012, lecture 6e; centered: Graves 2013) as in Keras's legacy class, which has
 * epsilon in another place with momentum:
 *   s = rho s + (1 - rho) g^2,  d = s, or centered s - c^2 with c = rho c + (1 - rho) g
 *   without momentum  w -= rate g / (sqrt(d) + epsilon)
 *   with momentum     a = momentum a + rate g / sqrt(d + epsilon),  w -= a */
#include "base/assert.h"
#include "engine/optim/rules/rule.h"

/* The index of each slot; -1: none. */
typedef struct offsets {
    int mean, momentum, count;
} offsets;

static offsets offsets_of(const et_rmsprop_options *o)
{
    offsets p = { -1, -1, 1 };
    if (o->centered)
        p.mean = p.count++;
    if (o->momentum > 0)
        p.momentum = p.count++;
    return p;
}

static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    const offsets p = offsets_of(options);
    slot[0].name = "rms";
    if (p.mean >= 0)
        slot[p.mean].name = "mg";
    if (p.momentum >= 0)
        slot[p.momentum].name = "descent";
    return p.count;
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_rmsprop_options *o = options;
    const offsets p = offsets_of(o);
    et_assert(chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    const et_mean_squares squares = {
        .squares = chunk->slot[0],
        .mean = p.mean >= 0 ? chunk->slot[p.mean] : NULL,
        .accumulator = p.momentum >= 0 ? chunk->slot[p.momentum] : NULL,
        .rate = (float)chunk->rate,
        .rho = (float)o->rho,
        .momentum = (float)o->momentum,
        .epsilon = (float)o->epsilon,
    };
    step->kernels->rmsprop(&update, &squares);
}

const et_optimizer_rule et_rule_rmsprop = { ET_RULE(rmsprop), .cut = ET_RULE_ELEMENTS,
                                            .slots = slots, .update = update };
