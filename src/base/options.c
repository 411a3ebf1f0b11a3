#include "base/options.h"

int et_options_need(const void *options, const char *name, et_error *error)
{
    return options
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "%s: NULL; pass a struct, for example one initialized with { 0 }", name);
}
