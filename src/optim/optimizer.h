/* Optimizers: rules that turn a flat gradient into a change of flat parameters. An optimizer is
 * a class (sgd, adam, adamw) with options; its slots are flat arrays of the store's flat size,
 * named, so that a checkpoint saves them without knowing what they are. One update is one
 * threaded pass over slices: scale and clip, moments, weight, bfloat16 shadow, average.
 *
 * Formulas: Keras's legacy optimizers, in kernel/kernels.h. */
#ifndef ETUDE_OPTIM_OPTIMIZER_H
#define ETUDE_OPTIM_OPTIMIZER_H

#include <stdint.h>

#include <etude/error.h>
#include <etude/params.h>

#include "base/trace.h"
#include "kernel/kernels.h"
#include "optim/options.h"

typedef struct et_optimizer et_optimizer;

/* A flat array that a checkpoint saves: "m", "v", "momentum", "average". */
typedef struct et_slot {
    const char *name;
    float *data; /* [et_params_flat_size], owned by the optimizer */
} et_slot;

/* Options are copied. params must be materialized and outlive the optimizer. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_kernels *kernels,
                     const et_optimization_options *options, et_error *error);
void et_optimizer_free(et_optimizer *optimizer);

/* Weights have got their start values since new: the average begins from them. */
void et_optimizer_start(et_optimizer *optimizer);

/* What an update did. */
typedef struct et_update {
    double gradient_norm; /* global L2 norm of gradient * gradient_scale, before clipping */
    double learning_rate; /* the schedule's value used */
    bool finite;          /* false: the norm is not finite and nothing was changed */
} et_update;

/* Applies gradients (flat, of the store's size; the store's own or an accumulation) times
 * gradient_scale (1 / tokens of the whole batch). Advances iterations by one if finite. Calls
 * et_params_changed. */
et_update et_optimizer_apply(et_optimizer *optimizer, const float *gradients,
                             double gradient_scale);

/* What one update has to move: gradients twice, since the norm is known first; weights and slots
 * in and out; the shadow out. */
et_cost et_optimizer_cost(const et_optimizer *optimizer);

/* Updates done so far: what the schedule counts; and how many of them had been done when the
 * rule's slots began (0 unless they began anew): the bias correction counts from there. */
int64_t et_optimizer_iterations(const et_optimizer *optimizer);
int64_t et_optimizer_slots_from(const et_optimizer *optimizer);
void et_optimizer_set_iterations(et_optimizer *optimizer, int64_t iterations);
void et_optimizer_set_slots_from(et_optimizer *optimizer, int64_t iterations);

/* The rule's slots begin anew, from zero, after the updates done so far. */
void et_optimizer_restart(et_optimizer *optimizer);

/* The learning rate that the next update would use. */
double et_optimizer_learning_rate(const et_optimizer *optimizer);

/* Slots, the average included. Borrowed. */
int et_optimizer_slots(const et_optimizer *optimizer, const et_slot **slots);

/* The averaged weights, NULL without `ema`. For et_params_use during evaluation. */
float *et_optimizer_average(et_optimizer *optimizer);

#endif
