/* Optimizers: rules that turn a flat gradient into a change of a group of parameters. An optimizer
 * is a class (rules.def: sgd, adam, lamb, ...) with options. Its slots are named arrays, divided by
 * parameter, so a checkpoint saves them without knowing them. One update is one threaded pass over
 * slices: scale and clip, moments, weight, bfloat16 shadow, average.
 *
 * Several optimizers may share a store, each with its own group (a GAN's two). Expressions in the
 * options choose the parameters that decay.
 *
 * Each rule's formula is above its table (rules/). */
#ifndef ETUDE_ENGINE_OPTIM_OPTIMIZER_H
#define ETUDE_ENGINE_OPTIM_OPTIMIZER_H

#include <stdint.h>

#include <etude/group.h>
#include <etude/optimizer.h>

#include "base/threads/trace.h"
#include "engine/comm/comm.h"
#include "engine/kernel/kernels.h"
#include "engine/optim/options.h"

/* An array of an optimizer, or this rank's part of it: "m", "v", "momentum", or "average", which
 * has the layout of the store's values. */
typedef struct et_slot {
    const char *name;
    float *data; /* [size], owned by the optimizer */
    int64_t size;
} et_slot;

/* The part of a slot for one parameter, as a checkpoint saves it. */
typedef struct et_slot_part {
    const char *slot;
    int param;   /* in the store */
    float *data; /* borrowed from the slot: the beginning of this rank's elements */
    et_shape shape;
    /* [ranks + 1], borrowed: rank r keeps elements cut[r] to cut[r + 1] - 1 of the slot; NULL:
     * every rank keeps all */
    const int64_t *cut;
} et_slot_part;

/* Copies options and the needed parts of the group; NULL: all trained parameters. params must be
 * materialized and outlives the optimizer. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_group *group,
                     const et_kernels *kernels, const et_optimization_options *options,
                     et_error *error);

/* The ranks of a shared optimizer (et_optimizer_shard); NULL: not shared. All ranks do every update
 * of a shared optimizer, with the same gradients, after they have agreed on it. */
et_comm *et_optimizer_ranks(const et_optimizer *optimizer);

/* Keeps the addresses of the slots from now on, so that they can be referenced. */
void et_optimizer_hold(et_optimizer *optimizer);

/* Updates only weights and slots of the group, from the next update on; averages follow all
 * weights. The group is borrowed until the next call. The group belongs to the optimizer's store,
 * or to a view of this store. NULL: all. Not part of the state. */
void et_optimizer_limit(et_optimizer *optimizer, const et_group *group);

/* The index in the store of the i-th parameter that an update changes; -1: i is too large. */
int et_optimizer_param(const et_optimizer *optimizer, int i);

/* Call after an update, once other variables (moving means) have followed it: the average follows
 * those too, if ema.trainable_weights_only is false. */
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

/* The same for gradients that are part of a larger gradient. norm is its norm times gradient_scale,
 * for clips by the norm of all. NaN: the gradients are all. */
et_update et_optimizer_apply_part(et_optimizer *optimizer, float *gradients, double gradient_scale,
                                  double norm);
/* by_elements: rule and clips work on single elements, so a tensor may be cut. by_parts: an update
 * in parts equals an update of the whole; false if a clip by the norm of all is combined with
 * another clip.
 */
bool et_optimizer_by_elements(const et_optimizer *optimizer);
bool et_optimizer_by_parts(const et_optimizer *optimizer);

/* The data that one update moves: gradients twice, since the norm must be known first; weights and
 * slots in and out; the shadow out. */
et_cost et_optimizer_cost(const et_optimizer *optimizer);

/* Number of updates before the rule's slots began (0 unless they were reset): the bias correction
 * counts from there. */
int64_t et_optimizer_slots_from(const et_optimizer *optimizer);
/* Updates done, and their number before the slots began; call after restoring slots. */
void et_optimizer_set_progress(et_optimizer *optimizer, int64_t iterations, int64_t slots_from);

/* Resets the rule's slots to zero, after the updates done so far. */
void et_optimizer_restart(et_optimizer *optimizer);

/* et_rate_follow_length of the schedule in force. */
void et_optimizer_follow_length(et_optimizer *optimizer, int64_t was, int64_t now);

et_params *et_optimizer_params(const et_optimizer *optimizer);

/* Slots, the average included. Borrowed. */
int et_optimizer_slots(const et_optimizer *optimizer, const et_slot **slots);

/* The slots, cut by parameter: slot by slot, parameters by place. Borrowed. */
int et_optimizer_parts(const et_optimizer *optimizer, const et_slot_part **parts);

/* Bytes of all slots. */
size_t et_optimizer_bytes(const et_optimizer *optimizer);

/* Shows averaged weights in the store, for an evaluation, until they are hidden; variables and
 * parameters outside its group do not change. False: no average. */
bool et_optimizer_show_average(et_optimizer *optimizer);
void et_optimizer_hide_average(et_optimizer *optimizer);

/* The averaged weights, in the layout of the store's values; NULL without `ema`. Only the group's.
 */
float *et_optimizer_average(et_optimizer *optimizer);

#endif
