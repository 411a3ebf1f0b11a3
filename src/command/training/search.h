/* Values of settings to try: ranges and choices, drawn from a seed without repetition.
 *
 *   lr=1e-4..1e-2:log          a real number, its logarithm evenly distributed
 *   layers=1..4                a whole number, as both bounds are whole; layers=1..4:real is not
 *   width=64,128,256           one of them
 *
 *     const char *values[9];
 *     int trials = 9;
 *     et_search_parse(&space, "lr=1e-4..1e-2:log", &arena, &error);
 *     et_search_draw(values, &trials, &space, 1, seed, &arena, &error);       "0.00123", ...
 *
 * The values of a trial depend only on the seed, the spaces and the values of the trials before. */
#ifndef ETUDE_COMMAND_TRAINING_SEARCH_H
#define ETUDE_COMMAND_TRAINING_SEARCH_H

#include <etude/fields.h>

#include "base/arena.h"

typedef struct et_search_space {
    const char *name;   /* an option without --, or the path of a setting */
    et_strings choices; /* count 0: a range */
    double low, high;
    bool log, whole;
} et_search_space;

/* Texts are in arena. ET_EUSAGE: the text has another form, or bounds that make no range. */
int et_search_parse(et_search_space *space, const char *text, et_arena *arena, et_error *error);

/* Values of *trials trials: space i of trial t has values[t * count + i], in arena. No two trials
 * have the same values. If there are fewer combinations, *trials becomes their number. */
int et_search_draw(const char **values, int *trials, const et_search_space *spaces, int count,
                   uint64_t seed, et_arena *arena, et_error *error);

#endif
