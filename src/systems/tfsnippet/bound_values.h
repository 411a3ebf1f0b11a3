/* Bound values with resolved targets: et_bound_value of <etude/annealing.h>. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_BOUND_VALUES_H
#define ETUDE_SYSTEMS_TFSNIPPET_BOUND_VALUES_H

#include <etude/annealing.h>

typedef struct et_bound_values {
    et_params *params;      /* borrowed */
    et_bound_value *values; /* [count], owned */
    int *index;             /* [count]: in the store; -1: an optimizer's rate */
    double *before;         /* [count]: values before, from et_bound_values_keep */
    int count;
} et_bound_values;

/* ET_ECONFIG: a variable that there is not, or is of several elements. */
int et_bound_values_init(et_bound_values *bound, et_params *params, const et_bound_value *values,
                         int count, et_error *error);
void et_bound_values_release(et_bound_values *bound);

/* annealing.c: the place in the store of a variable with one element that is not trained. */
int et_variable_find(int *index, const et_params *params, const char *name, et_error *error);

/* Reads each value and sets its target. ET_ECONFIG: not a valid learning rate. */
int et_bound_values_apply(et_bound_values *bound, et_error *error);

/* keep: stores the current values of the targets. put_back: restores them, the last one first. */
void et_bound_values_keep(et_bound_values *bound);
void et_bound_values_put_back(et_bound_values *bound);

/* The current value: the constant, or the function's result. */
double et_dynamic_get(const et_dynamic *dynamic);

#endif
