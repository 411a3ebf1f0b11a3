/* Prints a failed assertion on stderr at once: it is not an error to handle, and no part of the
 * program can be trusted to pass on a message. abort() leaves a core, and stops in a debugger at
 * the call. */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void et_assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}

_Noreturn void et_assert_failed_values(const char *file, int line, const char *condition,
                                       long long left, long long right)
{
    fprintf(stderr, "%s:%d: assertion failed: %s (%lld, %lld)\n", file, line, condition, left,
            right);
    abort();
}
