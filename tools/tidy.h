/* Seen by clang-tidy alone: tells its path analysis that a failure is never status 0, so that it
 * does not follow the road on which a function failed and its caller went on. */
#include "base/alloc.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"
#include <etude/error.h>

#define et_fail(error, status, ...)       (et_fail(error, status, __VA_ARGS__), status)
#define et_fail_while(error, status, ...) (et_fail_while(error, status, __VA_ARGS__), status)
#define et_fail_errno(error, ...)         (et_fail_errno(error, __VA_ARGS__), ET_EIO)
#define et_alloc_failed(...)              (et_alloc_failed(__VA_ARGS__), ET_ENOMEM)

/* Ranks that agree: nobody goes on who has failed. ET_TIDY_COMM, ET_TIDY_TOGETHER: where these are
 * defined. */
#ifndef ET_TIDY_COMM
static inline int tidy_agree(et_comm *comm, int status, unsigned *flags, et_error *error)
{
    int agreed = et_comm_agree(comm, status, flags, error);
    return status ? status : agreed;
}

#define et_comm_agree tidy_agree

#ifndef ET_TIDY_TOGETHER
static inline int tidy_collect(et_comm *comm, int status, const void *mine, size_t size, void **all,
                               size_t *sizes, et_error *error)
{
    int agreed = et_together_collect(comm, status, mine, size, all, sizes, error);
    return status ? status : agreed;
}

#define et_together_collect tidy_collect
#endif
#endif
