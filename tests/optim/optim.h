/* What the tests of optim/ share. Include after cmocka.h. */
#ifndef ETUDE_TESTS_OPTIM_OPTIM_H
#define ETUDE_TESTS_OPTIM_OPTIM_H

#include "calls.h"
#include "optim/options.h"

static inline et_optimization_options default_options(void)
{
    et_optimization_options options;
    et_fields_defaults(&et_optimization_fields, &options);
    return options;
}

#define LIST(...)                                                                                  \
    (et_strings)                                                                                   \
    {                                                                                              \
        (const char *const[]){ __VA_ARGS__ },                                                      \
            sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(const char *)                    \
    }

#endif
