/* What the tests of optim/ share. Include after cmocka.h. */
#ifndef ETUDE_TESTS_OPTIM_OPTIM_H
#define ETUDE_TESTS_OPTIM_OPTIM_H

#include <string.h>

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

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        et_error assert_error = ET_ERROR_INIT, *error = &assert_error;                             \
        if (call)                                                                                  \
            fail_msg("%s: %s", #call, assert_error.text);                                          \
    } while (0)

/* The call gives this status, and an error whose text holds part. */
#define assert_fails(call, expected, part)                                                         \
    do {                                                                                           \
        et_error assert_error = ET_ERROR_INIT, *error = &assert_error;                             \
        assert_int_equal(call, expected);                                                          \
        if (strstr(assert_error.text, part) == NULL)                                               \
            fail_msg("\"%s\" is not in \"%s\"", part, assert_error.text);                          \
    } while (0)

#endif
