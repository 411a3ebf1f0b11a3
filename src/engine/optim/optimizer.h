/* Optimizers: rules that turn a flat gradient into a change of a group of parameters. An optimizer
 * is a class (rules.def: sgd, adam, lamb, ...) with options. Its slots are named arrays, divided by
 * parameter, so a checkpoint saves them without knowing them. One update is one threaded pass over
 * slices: scale and clip, moments, weight, bfloat16 shadow, average.
 *
 * Several optimizers may share a store, each with its own group (a GAN's two). Expressions in the
 * options choose the parameters that decay.
 *
 * The first comment of each rule's file has its formula. */
#ifndef ETUDE_ENGINE_OPTIM_OPTIMIZER_H
#define ETUDE_ENGINE_OPTIM_OPTIMIZER_H

#include <stdint.h>

#include <etude/group.h>
#include <etude/optimizer.h>

#include "base/threads/trace.h"
#include "engine/comm/comm.h"
#include "engine/kernel/kernels.h"
#include "engine/optim/options.h"

/* An array that an optimizer keeps, or this rank's part of it: "m", "v", "momentum"; "average",
 * which lies as the store's values do. */
typedef struct et_slot {
    const char *name;
    float *data; /* [size], owned by the optimizer */
    int64_t size;
} et_slot;

/* What it is for one parameter: what a checkpoint saves. */
typedef struct et_slot_part {
    const char *slot;
    int param;   /* in the store */
    float *data; /* borrowed from the slot: where this rank's elements begin */
    et_shape shape;
    /* [ranks + 1], borrowed: rank r keeps elements cut[r] to cut[r + 1] - 1 of it; NULL: every rank
     * keeps all */
    const int64_t *cut;
} et_slot_part;

/* Options are copied, of the group what is needed; NULL: all that is trained. params must be
 * materialized and outlives the optimizer. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_group *group,
                     const et_kernels *kernels, const et_optimization_options *options,
                     et_error *error);

/* Of one that is shared out (et_optimizer_share_out) every update is one of all ranks, with the
 * same gradients, after they have agreed that there is one. The ranks; NULL: it is not. */
et_comm *et_optimizer_ranks(const et_optimizer *optimizer);

/* Somebody refers to its slots from now on: they stay where they are. */
void et_optimizer_hold(et_optimizer *optimizer);

/* From the next update on weights and slots of the group alone change, which is borrowed until the
 * next call; averages follow all. The group is of the same store, or of a view of it. NULL: of
 * all. No part of the state. */
void et_optimizer_limit(et_optimizer *optimizer, const et_group *group);

/* The i-th parameter that an update changes, by its index in the store; -1: there are not so many.
 */
int et_optimizer_param(const et_optimizer *optimizer, int i);

/* Behind an update, once what is no weight (moving means) has followed it: the average follows
 * those too, where ema.trainable_weights_only is false. */
void et_optimizer_average_variables(et_optimizer *optimizer);

/* Whether all weights of the updates so far have come. ET_EIO: a rank was lost, and weights are no
 * longer those of any step. */
int et_optimizer_settled(const et_optimizer *optimizer, et_error *error);

/* The rate that was set in place of the schedule's; NaN: none. */
double et_optimizer_rate_override(const et_optimizer *optimizer);

/* Applies gradients (flat, as the store's; those or an accumulation) times gradient_scale (1 /
 * tokens of the whole batch). They are used up: clipping and rules may write them. Advances
 * iterations by one if finite. Waits for readers of the store (et_params_begin_change) before the
 * first change. */
et_update et_optimizer_apply(et_optimizer *optimizer, float *gradients, double gradient_scale);

/* The same where the gradients are part of a larger gradient, the norm of which, times
 * gradient_scale, is norm: what clips by the norm of all clips by that. NaN: they are all. */
et_update et_optimizer_apply_part(et_optimizer *optimizer, float *gradients, double gradient_scale,
                                  double norm);
/* Whether rule and clips look at elements alone, so that a tensor may be cut; whether parts of a
 * gradient come to the same as the whole (not if the norm of all bounds what another clip left). */
bool et_optimizer_by_elements(const et_optimizer *optimizer);
bool et_optimizer_by_parts(const et_optimizer *optimizer);

/* What one update has to move: gradients twice, since the norm is known first; weights and slots
 * in and out; the shadow out. */
et_cost et_optimizer_cost(const et_optimizer *optimizer);

/* How many updates had been done when the rule's slots began (0 unless they began anew): the bias
 * correction counts from there. */
int64_t et_optimizer_slots_from(const et_optimizer *optimizer);
/* Updates done, and how many of them before the slots began; whoever restores slots says it. */
void et_optimizer_set_progress(et_optimizer *optimizer, int64_t iterations, int64_t slots_from);

/* The rule's slots begin anew, from zero, after the updates done so far. */
void et_optimizer_restart(et_optimizer *optimizer);

et_params *et_optimizer_params(const et_optimizer *optimizer);

/* Slots, the average included. Borrowed. */
int et_optimizer_slots(const et_optimizer *optimizer, const et_slot **slots);

/* The slots, cut by parameter: slot by slot, parameters by place. Borrowed. */
int et_optimizer_parts(const et_optimizer *optimizer, const et_slot_part **parts);

/* Bytes of all slots. */
size_t et_optimizer_bytes(const et_optimizer *optimizer);

/* Has the store show averaged weights, for an evaluation, until they are hidden; variables and what
 * is in no group of it as they are. False: there is no average. */
bool et_optimizer_show_average(et_optimizer *optimizer);
void et_optimizer_hide_average(et_optimizer *optimizer);

/* The averaged weights, as the store's values lie; NULL without `ema`. Only the group's. */
float *et_optimizer_average(et_optimizer *optimizer);

#endif
