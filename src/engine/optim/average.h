/* The moving average that an optimizer keeps of weights, and of variables on request
 * (et_ema_options): one array with the layout of the store's values, so that the store can point to
 * it. The rules' kernels update the average of weights in the pass that changes them; this module
 * does the rest. Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_AVERAGE_H
#define ETUDE_ENGINE_OPTIM_AVERAGE_H

#include "engine/optim/options.h"
#include "engine/optim/slot_layout.h"

typedef struct et_optim_average {
    et_ema_options options;
    float *data;      /* [size of the store], borrowed from a slot; NULL: no average */
    et_range *ranges; /* [range_count], owned, ascending: elements with an average; variables last
                       */
    int *variables;   /* [variable_count], owned: in the store, ascending by place */
    int range_count, variable_count;
} et_optim_average;

/* Finds the averaged parameters; does nothing if ema is not enabled. */
int et_optim_average_init(et_optim_average *average, const et_ema_options *options,
                          const et_optim_layout *layout, const et_params *params, et_error *error);
void et_optim_average_release(et_optim_average *average);

/* The decay of the update that makes iterations `step`; 0: the average becomes a copy. */
float et_optim_average_decay(const et_optim_average *average, int64_t step);

/* It becomes a copy of values. */
void et_optim_average_start(const et_optim_average *average, const float *values);

/* Moves the variables' average towards values. */
void et_optim_average_follow(const et_optim_average *average, const float *values, float decay);

/* Copies values to elements without an average. size: of the store. */
void et_optim_average_fill(const et_optim_average *average, const float *values, int64_t size);

#endif
