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
