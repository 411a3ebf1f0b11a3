#include "engine/comm/together.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/comm/comm.h"

int et_together_run(et_comm *comm, et_together_fn *work, void *self, et_error *error)
{
    return et_comm_agree(comm, work(self, error), NULL, error);
}

int et_together_in_turn(et_comm *comm, et_together_fn *work, void *self, et_error *error)
{
    const bool first = et_comm_rank(comm) == 0;
    int status = et_comm_agree(comm, first ? work(self, error) : ET_OK, NULL, error);
    return status || first ? status : work(self, error);
}

int et_together_any(et_comm *comm, int status, bool *yes, et_error *error)
{
    unsigned flags = *yes;
    status = et_comm_agree(comm, status, &flags, error);
    *yes = flags;
    return status;
}

int et_together_decide(et_comm *comm, int status, bool *yes, et_error *error)
{
    *yes = *yes && et_comm_rank(comm) == 0;
    return et_together_any(comm, status, yes, error);
}

int et_together_give(et_comm *comm, int status, void *bytes, size_t size, et_error *error)
{
    status = et_comm_agree(comm, status, NULL, error);
    return status ? status : et_comm_broadcast(comm, 0, bytes, size, error);
}

int et_together_table(et_comm *comm, int status, const void *mine, size_t size, void **all,
                      et_error *error)
{
    const size_t ranks = et_comm_size(comm);
    *all = et_alloc(ranks, size);
    if (!status && !*all)
        status = et_alloc_failed(error, "what ranks have");
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_gather(comm, mine, size, *all, error);
    if (status) {
        et_free(*all);
        *all = NULL;
    }
    return status;
}

/* Most bytes from all ranks together. */
#define COLLECTED_MOST ((size_t)1 << 40)

int et_together_collect(et_comm *comm, int status, const void *mine, size_t size, void **all,
                        size_t *sizes, et_error *error)
{
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    size_t sum = 0, at = 0;
    *all = NULL;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_gather(comm, &size, sizeof size, sizes, error);
    if (status)
        return status;
    for (int i = 0; !status && i < ranks; sum += sizes[i++])
        if (sizes[i] > COLLECTED_MOST - sum)
            status =
                et_fail(error, ET_EFAIL, "rank %d sends %zu bytes, which is too much", i, sizes[i]);
    unsigned char *bytes = status || !sum ? NULL : et_alloc(sum, 1);
    if (!status && sum && !bytes)
        status = et_alloc_failed(error, "what ranks have");
    status = et_comm_agree(comm, status, NULL, error);
    for (int i = 0; !status && i < ranks; at += sizes[i++]) {
        et_assert(bytes || !sizes[i]);
        if (i == rank && sizes[i])
            memcpy(bytes + at, mine, sizes[i]);
        if (sizes[i])
            status = et_comm_broadcast(comm, i, bytes + at, sizes[i], error);
    }
    if (status)
        et_free(bytes);
    else
        *all = bytes;
    return status;
}

int et_together_hand_out(et_comm *comm, int status, void **bytes, size_t *size, et_error *error)
{
    const bool other = et_comm_rank(comm) != 0;
    unsigned char *copy = NULL;
    if (other)
        *bytes = NULL;
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_broadcast(comm, 0, size, sizeof *size, error);
    if (!status && *size > COLLECTED_MOST)
        status = et_fail(error, ET_EFAIL, "rank 0 sends %zu bytes, which is too much", *size);
    if (!status && other && *size && !(copy = et_alloc(*size + 1, 1)))
        status = et_alloc_failed(error, "what rank 0 has");
    status = et_comm_agree(comm, status, NULL, error);
    if (!status && *size)
        status = et_comm_broadcast(comm, 0, other ? copy : *bytes, *size, error);
    if (status || !other) {
        et_free(copy);
        return status;
    }
    if (copy)
        copy[*size] = 0;
    *bytes = copy;
    return ET_OK;
}
