#include "engine/comm/together.h"

#include "base/alloc.h"
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
    const size_t ranks = (size_t)et_comm_size(comm);
    *all = et_alloc(ranks, size);
    if (!status && !*all)
        status = et_alloc_failed(error, ranks * size, "what ranks have");
    status = et_comm_agree(comm, status, NULL, error);
    if (!status)
        status = et_comm_gather(comm, mine, size, *all, error);
    if (status) {
        et_free(*all);
        *all = NULL;
    }
    return status;
}
