/* Bound values with resolved targets: et_bound_value of <etude/annealing.h>. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_BOUND_VALUES_H
#define ETUDE_SYSTEMS_TFSNIPPET_BOUND_VALUES_H

#include <etude/annealing.h>

typedef struct et_bound_values {
    et_params *params;      /* borrowed */
    et_bound_value *values; /* [count], owned */
    int *index;             /* [count]: in the store; -1: an optimizer's rate */
    double *before;         /* [count]: what was there when et_bound_values_keep was called */
    int count;
} et_bound_values;

/* ET_ECONFIG: a variable that there is not, or is of several elements. */
int et_bound_values_init(et_bound_values *bound, et_params *params, const et_bound_value *values,
                         int count, et_error *error);
void et_bound_values_release(et_bound_values *bound);

/* annealing.c: the place in the store of a variable with one element that is not trained. */
int et_variable_find(int *index, const et_params *params, const char *name, et_error *error);

/* Asks for each value and puts it where it goes. ET_ECONFIG: it is no learning rate. */
int et_bound_values_apply(et_bound_values *bound, et_error *error);

/* What is there now; puts it back, the last one first. */
void et_bound_values_keep(et_bound_values *bound);
void et_bound_values_put_back(et_bound_values *bound);

/* The value now: the constant, or what the function gives. */
double et_dynamic_get(const et_dynamic *dynamic);

#endif
