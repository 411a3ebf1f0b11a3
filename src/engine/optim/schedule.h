/* Learning rates as pure functions of the step (formulas: Model Garden's). A schedule is a value
 * made from options: it borrows nothing and is copied by assignment. Warm-up replaces the first
 * steps of the schedule and does not delay it. Step 0 is the first update.
 *
 *     et_schedule schedule;
 *     if (et_schedule_init(&schedule, &options->learning_rate, &options->warmup, &error)) ...
 *     double rate = et_schedule_rate(&schedule, step);
 *
 * To add one: see README.md. Thread-safe. */
#ifndef ETUDE_ENGINE_OPTIM_SCHEDULE_H
#define ETUDE_ENGINE_OPTIM_SCHEDULE_H

#include "engine/optim/options.h"

#define ET_SCHEDULE_VALUES_MAX 64 /* values of a schedule in steps */

typedef struct et_schedule et_schedule;

/* For nesting into optimizer_config. */
extern const et_fields et_rate_fields, et_warmup_fields;

struct et_schedule {
    const struct et_schedule_class *class;
    et_rate_options options; /* its lists are not used after init */
    et_warmup_options warmup;
    int64_t offset; /* subtracted from steps; 0: none */
    int pieces;     /* stepwise, step_cosine_with_offset: number of values */
    double boundaries[ET_SCHEDULE_VALUES_MAX], values[ET_SCHEDULE_VALUES_MAX];
};

/* A number of a list: "0.1", or, with *epochs, "2ep". False: not a finite number of at least 0. */
bool et_schedule_read(const char *text, double *number, bool *epochs);

/* Lengths in epochs are accepted, for a check of settings; no rate is requested from such a
 * schedule. ET_ECONFIG: a required setting is missing or two do not fit together. */
int et_schedule_init(et_schedule *schedule, const et_rate_options *options,
                     const et_warmup_options *warmup, et_error *error);

/* Steps of the warm-up, linear, polynomial or inverse_sqrt's own; 0: no warm-up. */
int64_t et_schedule_warmup(const et_schedule *schedule);

/* The learning rate of update number step, from 0. */
double et_schedule_rate(const et_schedule *schedule, int64_t step);

#endif
