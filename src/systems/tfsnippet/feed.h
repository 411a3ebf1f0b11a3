/* Feeds whose targets have been looked up: et_fed_value of <etude/annealing.h>. */
#ifndef ETUDE_SYSTEMS_TFSNIPPET_FEED_H
#define ETUDE_SYSTEMS_TFSNIPPET_FEED_H

#include <etude/annealing.h>

typedef struct et_feeder {
    et_params *params;   /* borrowed */
    et_fed_value *feeds; /* [count], owned */
    int *index;          /* [count]: in the store; -1: an optimizer's rate */
    double *before;      /* [count]: what was there when et_feeder_keep was called */
    int count;
} et_feeder;

/* ET_ECONFIG: a variable that there is not, or is of several elements. */
int et_feeder_init(et_feeder *feeder, et_params *params, const et_fed_value *feeds, int count,
                   et_error *error);
void et_feeder_release(et_feeder *feeder);

/* annealing.c: the place in the store of a variable with one element that is not trained. */
int et_variable_find(int *index, const et_params *params, const char *name, et_error *error);

/* Asks for each value and puts it where it goes. ET_ECONFIG: it is no learning rate. */
int et_feeder_apply(et_feeder *feeder, et_error *error);

/* What is there now; puts it back, the last feed first. */
void et_feeder_keep(et_feeder *feeder);
void et_feeder_put_back(et_feeder *feeder);

/* The value now: the constant, or what the function gives. */
double et_dynamic_get(const et_dynamic *dynamic);

#endif
