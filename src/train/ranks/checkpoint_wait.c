#include "train/ranks/checkpoint_wait.h"

#include "engine/comm/comm.h"
#include "train/ranks/broadcast.h"

int et_checkpoint_wait_next(et_comm *comm, char **path, int64_t *step, const char *model_dir,
                            int64_t after, bool transient, et_error *error)
{
    *path = NULL;
    int status = et_comm_rank(comm)
                     ? ET_OK
                     : et_checkpoint_next(path, step, model_dir, after, transient, error);
    status = et_text_broadcast(path, comm, status, error);
    return status ? status : et_comm_broadcast(comm, 0, step, sizeof *step, error);
}

int et_checkpoint_wait_loaded(et_comm *comm, int status, bool *found)
{
    *found = !status;
    if (status != ET_ENOTFOUND)
        return status;
    et_comm_resume(comm);
    return ET_OK;
}
