/* Values of settings to try: ranges and choices, sampled from a seed.
 *
 *   lr=1e-4..1e-2:log          a real number, its logarithm evenly distributed
 *   layers=1..4                a whole number, as both bounds are whole; layers=1..4:real is not
 *   width=64,128,256           one of them
 *
 *     et_search_parse(&space, "lr=1e-4..1e-2:log", &arena, &error);
 *     const char *value = et_search_sample(&space, seed, 3, &arena);           "0.00123"
 *
 * A value depends only on the seed, the trial and the name. */
#ifndef ETUDE_COMMAND_TRAINING_TUNE_SEARCH_H
#define ETUDE_COMMAND_TRAINING_TUNE_SEARCH_H

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

/* NULL: no memory. */
const char *et_search_sample(const et_search_space *space, uint64_t seed, int trial,
                             et_arena *arena);

#endif
