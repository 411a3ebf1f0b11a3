/* Calls that take an et_error, in tests: `assert_ok(et_x_open(&x, error))`. Include after
 * cmocka.h. */
#ifndef ETUDE_TESTS_CALLS_H
#define ETUDE_TESTS_CALLS_H

#include <string.h>

#include <etude/error.h>

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
        const char *assert_part = (part);                                                          \
        assert_int_equal(call, expected);                                                          \
        if (strstr(assert_error.text, assert_part) == NULL)                                        \
            fail_msg("\"%s\" is not in \"%s\"", assert_part, assert_error.text);                   \
    } while (0)

#endif
