/* The rules that work on single elements or on norms of tensors: SGD, RMSProp, Adagrad, Adam, LAMB
 * and LARS. Each has its formula, the table of its settings and its class. Names and defaults are
 * Model Garden's. rules.def has the names of the tables and the values of `type`. */
#include <math.h>
#include <stddef.h>

#include "base/assert.h"
#include "engine/optim/rules/rule.h"

/* Keras's SGD: a = momentum * a - rate * g; w += a, or Nesterov's look ahead, w += momentum * a -
 * rate * g with the new a. The legacy `decay` divides the rate by 1 + decay * iterations; the newer
 * class, sgd_experimental, has no decay and is otherwise the same. */

/* Momentum 1 is allowed: a sum of all changes, without forgetting. */

static const et_field sgd_fields[] = { MOMENTUM(et_sgd, 0), NESTEROV(et_sgd, false),
                                       RATE_DECAY(et_sgd),  ET_RULE_CLIPS(et_sgd, 0),
                                       TENSORFLOW_NAME,     ET_FIELD_END };
ET_RULE_FIELDS(sgd);

static const et_field sgd_experimental_fields[] = {
    MOMENTUM(et_sgd, 0),      NESTEROV(et_sgd, false), JIT_COMPILE(et_sgd_experimental),
    ET_RULE_CLIPS(et_sgd, 0), TENSORFLOW_NAME,         ET_FIELD_END
};
ET_RULE_FIELDS(sgd_experimental);

/* Without momentum there is no slot: the kernel accepts a NULL accumulator. */
static int sgd_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "momentum";
    return ((const et_sgd *)options)->momentum > 0 ? 1 : 0;
}

static void sgd_update_at(const et_sgd *o, double rate, const et_rule_step *step,
                          const et_rule_chunk *chunk)
{
    et_assert(o->momentum == 0 || chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    step->kernels->sgd(
        &update, &(et_momentum){ chunk->slot[0], (float)rate, (float)o->momentum, o->nesterov });
}

static void sgd_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_sgd *o = options;
    sgd_update_at(o, et_rule_decayed_rate(step, chunk, o->decay), step, chunk);
}

static void sgd_newer_update(const void *options, const et_rule_step *step,
                             const et_rule_chunk *chunk)
{
    sgd_update_at(options, chunk->rate, step, chunk);
}

const et_optimizer_rule et_rule_sgd = { ET_RULE(sgd), .cut = ET_RULE_ELEMENTS, .slots = sgd_slots,
                                        .update = sgd_update };
const et_optimizer_rule et_rule_sgd_experimental = { ET_RULE(sgd_experimental),
                                                     .cut = ET_RULE_ELEMENTS, .slots = sgd_slots,
                                                     .update = sgd_newer_update };

/* RMSProp (Hinton 2012, lecture 6e; centered: Graves 2013) as in Keras's legacy class, which has
 * epsilon in another place with momentum:
 *   s = rho s + (1 - rho) g^2,  d = s, or centered s - c^2 with c = rho c + (1 - rho) g
 *   without momentum  w -= rate g / (sqrt(d) + epsilon)
 *   with momentum     a = momentum a + rate g / sqrt(d + epsilon),  w -= a */

static const et_field rmsprop_fields[] = {
    ET_FIELD_FLOAT(et_rmsprop, rho, 0.9, 0, 1, "fraction of the mean squares that is kept"),
    MOMENTUM(et_rmsprop, 0),
    EPSILON(et_rmsprop, epsilon, 1e-7,
            "added to the root of the mean squares; with momentum, to the mean squares"),
    ET_FIELD_BOOL(et_rmsprop, centered, false,
                  "subtract the square of the mean from the mean squares (centered)"),
    ET_RULE_CLIPS(et_rmsprop, 0),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
ET_RULE_FIELDS(rmsprop);

/* The index of each slot; -1: none. */
typedef struct offsets {
    int mean, momentum, count;
} offsets;

static offsets rmsprop_offsets_of(const et_rmsprop *o)
{
    offsets p = { -1, -1, 1 };
    if (o->centered)
        p.mean = p.count++;
    if (o->momentum > 0)
        p.momentum = p.count++;
    return p;
}

static int rmsprop_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    const offsets p = rmsprop_offsets_of(options);
    slot[0].name = "rms";
    if (p.mean >= 0)
        slot[p.mean].name = "mg";
    if (p.momentum >= 0)
        slot[p.momentum].name = "descent";
    return p.count;
}

static void rmsprop_update(const void *options, const et_rule_step *step,
                           const et_rule_chunk *chunk)
{
    const et_rmsprop *o = options;
    const offsets p = rmsprop_offsets_of(o);
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
                                            .slots = rmsprop_slots, .update = rmsprop_update };

/* Adagrad (Duchi, Hazan and Singer 2011) as in Keras. s begins with initial_accumulator_value:
 *   s += g^2,  w -= rate g / (sqrt(s) + epsilon) */

static const et_field adagrad_fields[] = {
    ET_FIELD_FLOAT(et_adagrad, initial_accumulator_value, 0.1, 0, HUGE_VAL,
                   "initial value of the sums of squares"),
    EPSILON(et_adagrad, epsilon, 1e-7, "added to the root of the sum"),
    ET_RULE_CLIPS(et_adagrad, 0), TENSORFLOW_NAME, ET_FIELD_END
};
ET_RULE_FIELDS(adagrad);

static int adagrad_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "accumulator";
    slot[0].initial = (float)((const et_adagrad *)options)->initial_accumulator_value;
    return 1;
}

static void adagrad_update(const void *options, const et_rule_step *step,
                           const et_rule_chunk *chunk)
{
    const et_adagrad *o = options;
    et_assert(chunk->slot[0]);
    const et_slice_update update = et_rule_update(step, chunk, 0);
    const et_square_sums squares = { chunk->slot[0], (float)chunk->rate, (float)o->epsilon };
    step->kernels->adagrad(&update, &squares);
}

const et_optimizer_rule et_rule_adagrad = { ET_RULE(adagrad), .cut = ET_RULE_ELEMENTS,
                                            .slots = adagrad_slots, .update = adagrad_update };

/* Adam (Kingma and Ba 2015) as in Keras's legacy class: epsilon is outside the bias correction,
 * which is part of the rate. AdamW is the same after w -= rate * weight_decay_rate * w. With t
 * updates counted from 1:
 *   m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
 *   w -= rate sqrt(1 - b2^t) / (1 - b1^t) m / (sqrt(v) + epsilon)
 * amsgrad (Reddi, Kale and Kumar 2018) has the largest v so far under the root. Keras's newer
 * classes, adam_experimental and adamw_experimental, compute the same; in the latter, all weights
 * decay. */

static const et_field adam_fields[] = { ADAM_MEMBERS(et_adam, 1e-7), AMSGRAD(et_adam),
                                        ET_RULE_CLIPS(et_adam, 0), TENSORFLOW_NAME, ET_FIELD_END };
ET_RULE_FIELDS(adam);

static const et_field adam_experimental_fields[] = {
    ADAM_MEMBERS(et_adam, 1e-7), AMSGRAD(et_adam), JIT_COMPILE(et_adam_experimental),
    ET_RULE_CLIPS(et_adam, 0),   TENSORFLOW_NAME,  ET_FIELD_END
};
ET_RULE_FIELDS(adam_experimental);

static const et_field adamw_fields[] = {
    ADAM_MEMBERS(et_adamw, 1e-7), AMSGRAD(et_adamw), ET_RULE_CLIPS(et_adamw, 0),
    ET_RULE_DECAY(et_adamw, weight_decay_rate),
    /* Empty lists: everything decays. */
    NAMES(et_adamw, include_in_weight_decay,
          "regular expressions of parameters with weight decay even if excluded"),
    NO_DECAY(et_adamw),
    ET_FIELD_FLOAT(et_adamw, gradient_clip_norm, 1, 0, HUGE_VAL,
                   "maximal global L2 norm of the gradient; 0: no limit", .nullable = true),
    TENSORFLOW_NAME, ET_FIELD_END
};
ET_RULE_FIELDS(adamw);

static const et_field adamw_experimental_fields[] = { ADAM_MEMBERS(et_adam, 1e-7),
                                                      AMSGRAD(et_adam),
                                                      JIT_COMPILE(et_adamw_experimental),
                                                      ET_RULE_CLIPS(et_adam, 1),
                                                      ET_RULE_DECAY(et_adamw_experimental,
                                                                    weight_decay),
                                                      TENSORFLOW_NAME,
                                                      ET_FIELD_END };
ET_RULE_FIELDS(adamw_experimental);

/* First and second moment; 8 bytes a weight, 12 with the largest of the second. */
static int adam_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = "m";
    slot[1].name = "v";
    slot[2].name = "vhat";
    return ((const et_adam *)options)->amsgrad ? 3 : 2;
}

/* The settings of every rule of Adam begin as et_adam. */
_Static_assert(offsetof(et_adamw, amsgrad) == offsetof(et_adam, amsgrad), "the same members");

/* t counts from 1; the correction is computed in double once for a chunk, then everything is
 * float32. */
void et_adam_update(const et_adam_numbers *numbers, const et_rule_step *step,
                    const et_rule_chunk *chunk, float *m, float *v, float *largest)
{
    et_assert(step->slot_updates >= 0);
    et_assert(m && v);
    double t = (double)step->slot_updates + 1;
    double beta_1 = numbers->beta_1, beta_2 = numbers->beta_2;
    double rate_t = numbers->rate * sqrt(1 - pow(beta_2, t)) / (1 - pow(beta_1, t));
    const et_slice_update update = et_rule_update(step, chunk, (float)numbers->decay);
    const et_adam_moments moments = { .m = m,
                                      .v = v,
                                      .rate_t = (float)rate_t,
                                      .beta_1 = (float)beta_1,
                                      .beta_2 = (float)beta_2,
                                      .epsilon = (float)numbers->epsilon };
    if (largest)
        step->kernels->amsgrad(&update, &moments, largest);
    else
        step->kernels->adam(&update, &moments);
}

/* Decay is decoupled from the gradient (Loshchilov and Hutter 2019, "Decoupled weight decay
 * regularization"), but not from the rate: the schedule scales it. */
static void adam_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adam *o = options;
    const et_adam_numbers numbers = { o->beta_1, o->beta_2, o->epsilon, chunk->rate,
                                      chunk->rate * chunk->decay };
    et_adam_update(&numbers, step, chunk, chunk->slot[0], chunk->slot[1], chunk->slot[2]);
}

#define ADAM(name_)                                                                                \
    const et_optimizer_rule et_rule_##name_ = { ET_RULE(name_), .cut = ET_RULE_ELEMENTS,           \
                                                .slots = adam_slots, .update = adam_update }
ADAM(adam);
ADAM(adam_experimental);
ADAM(adamw);
ADAM(adamw_experimental);

/* LAMB (You et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes")
 * as in Model Garden. With Adam's m and v of t updates, and norms of each tensor:
 *   u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + weight_decay_rate w
 *   w -= rate |w| / |u| u;  if a norm is 0, or the tensor is excluded: w -= rate u
 * u replaces the gradient in the previous pass, which adds up both norms. The legacy `decay` of
 * Keras divides the rate by 1 + decay * iterations. */

static const et_field lamb_fields[] = {
    ADAM_MEMBERS(et_lamb, 1e-6),
    ET_RULE_CLIPS(et_lamb, 0),
    ET_FIELD_FLOAT(et_lamb, weight_decay_rate, 0, 0, DECAY_MAX,
                   "weight decay, added to the direction before scaling; 0: none"),
    NO_DECAY(et_lamb),
    NO_ADAPTATION(et_lamb),
    RATE_DECAY(et_lamb),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
ET_RULE_FIELDS(lamb);

static int lamb_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[0].name = "m";
    slot[1].name = "v";
    return 2;
}

static void lamb_before(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                        double sums[ET_RULE_SUMS_MAX])
{
    const et_lamb *o = options;
    double t = (double)step->slot_updates + 1;
    et_assert(chunk->slot[0] && chunk->slot[1]);
    const et_adam_direction direction = {
        .gradient = chunk->gradient,
        .weight = chunk->weight,
        .m = chunk->slot[0],
        .v = chunk->slot[1],
        .gradient_scale = chunk->gradient_scale,
        .beta_1 = (float)o->beta_1,
        .beta_2 = (float)o->beta_2,
        .epsilon = (float)o->epsilon,
        .m_scale = (float)(1 / (1 - pow(o->beta_1, t))),
        .v_scale = (float)(1 / (1 - pow(o->beta_2, t))),
        .decay = (float)chunk->decay,
        .count = chunk->count,
    };
    step->kernels->adam_direction(&direction);
    et_rule_add_squares(step, chunk, sums);
}

static void lamb_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_lamb *o = options;
    double weight = sqrt(chunk->sums[0]), direction = sqrt(chunk->sums[1]);
    double ratio = weight > 0 && direction > 0 ? weight / direction : 1;
    et_rule_move(step, chunk, et_rule_decayed_rate(step, chunk, o->decay) * ratio, 0);
}

const et_optimizer_rule et_rule_lamb = {
    ET_RULE(lamb),       .cut = ET_RULE_TENSORS, .adapts = ET_NO_ADAPTATION, .writes = true,
    .slots = lamb_slots, .before = lamb_before,  .update = lamb_update
};

/* LARS (You, Gitman and Ginsburg 2017, "Large batch training of convolutional networks") as in
 * Model Garden. With g' = g + weight_decay_rate w and norms of each tensor:
 *
 *   classic  r = rate eeta |w| / |g'|,  v = momentum v + r g',  w -= v
 *            nesterov: w -= momentum v + r g'
 *   popular  v = momentum v + g',  u = v, nesterov: momentum v + g',  w -= rate eeta |w| / |u| u
 *
 * If a norm is 0, or the tensor is excluded, rate replaces the product with the norms. g', or u,
 * replaces the gradient in the previous pass, which adds up both norms. */

static const et_field lars_fields[] = {
    MOMENTUM(et_lars, 0.9),
    ET_FIELD_FLOAT(et_lars, eeta, 1e-3, 0, HUGE_VAL,
                   "step length, as a fraction of the tensor's norm"),
    ET_FIELD_FLOAT(et_lars, weight_decay_rate, 0, 0, DECAY_MAX,
                   "L2 weight decay: this times the weight is added to its gradient; 0: none"),
    NESTEROV(et_lars, false),
    ET_FIELD_BOOL(et_lars, classic_momentum, true, "apply the rate before momentum, not after it"),
    ET_RULE_CLIPS(et_lars, 0),
    NO_DECAY(et_lars),
    NO_ADAPTATION(et_lars),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
ET_RULE_FIELDS(lars);

/* Kept without momentum too: LARS has it as a rule. */
static int lars_slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    slot[0].name = ((const et_lars *)options)->classic_momentum ? "momentum" : "velocity";
    return 1;
}

static void lars_before(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                        double sums[ET_RULE_SUMS_MAX])
{
    const et_lars *o = options;
    float *g = chunk->gradient, *v = chunk->slot[0], momentum = (float)o->momentum;
    float weight = (float)chunk->decay;
    et_assert(v);
    step->kernels->blend(g, chunk->weight, chunk->gradient_scale, weight, chunk->count);
    if (!o->classic_momentum) {
        step->kernels->blend(v, g, momentum, 1, chunk->count);
        step->kernels->blend(g, v, o->nesterov ? 1 : 0, o->nesterov ? momentum : 1, chunk->count);
    }
    et_rule_add_squares(step, chunk, sums);
}

/* The kernel's accumulator is -v: both begin at 0, and the slot has v with the sign changed. */
static void lars_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_lars *o = options;
    double weight = sqrt(chunk->sums[0]), gradient = sqrt(chunk->sums[1]);
    double trust = weight > 0 && gradient > 0 ? o->eeta * weight / gradient : 1;
    double rate = chunk->rate * trust;
    if (!o->classic_momentum) {
        et_rule_move(step, chunk, rate, 0);
        return;
    }
    et_slice_update update = et_rule_update(step, chunk, 0);
    update.gradient_scale = 1;
    step->kernels->sgd(
        &update, &(et_momentum){ chunk->slot[0], (float)rate, (float)o->momentum, o->nesterov });
}

const et_optimizer_rule et_rule_lars = {
    ET_RULE(lars),       .cut = ET_RULE_TENSORS, .adapts = ET_NO_ADAPTATION, .writes = true,
    .slots = lars_slots, .before = lars_before,  .update = lars_update
};
