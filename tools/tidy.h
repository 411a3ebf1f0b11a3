/* Seen by clang-tidy alone: tells its path analysis that a failure is never status 0, so that it
 * does not follow the road on which a function failed and its caller went on. */
#include "base/alloc.h"
#include <etude/error.h>

#define et_fail(error, status, ...)       (et_fail(error, status, __VA_ARGS__), status)
#define et_fail_while(error, status, ...) (et_fail_while(error, status, __VA_ARGS__), status)
#define et_fail_errno(error, ...)         (et_fail_errno(error, __VA_ARGS__), ET_EIO)
#define et_alloc_failed(...)              (et_alloc_failed(__VA_ARGS__), ET_ENOMEM)
