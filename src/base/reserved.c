/* A program that sets a field which this library does not know would not get what it asks for. */
#include "base/reserved.h"

#include <etude/version.h>

int et_reserved_check(const uint64_t *reserved, size_t count, const char *name, et_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (reserved[i])
            return et_fail(error, ET_EUSAGE,
                           "%s: something is set that etude %s does not know; begin with { 0 }, or "
                           "use the library that the program was compiled for",
                           name, et_version());
    return ET_OK;
}

int et_options_missing(const char *name, et_error *error)
{
    return et_fail(error, ET_EUSAGE, "%s: NULL; give one, which may begin with { 0 }", name);
}
