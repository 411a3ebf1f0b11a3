/* The lock of a run's checkpoints: the process that holds it may write there. */
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "engine/comm/comm.h"
#include "train/checkpoint/checkpoint_private.h"
#include "train/checkpoint/run_names.h"

/* Only one of the ranks that share a run takes it. */
static int fail_taken(et_error *error)
{
    if (!error || !(et_comm_by_launch() || et_comm_by_mpi()))
        return ET_EBUSY;
    const et_error taken = *error;
    return et_fail(error, ET_EBUSY,
                   "%s; if this is another rank of the same program, give its loop, trainer or "
                   "controller the comm (<etude/comm.h>)",
                   taken.text);
}

/* The lock is a file in the checkpoints' folder, so the folder is made first. It is the kernel's
 * lock on an open file, so a killed run leaves no lock. */
int et_checkpoints_lock(int *lock, const char *model_dir, et_error *error)
{
    *lock = -1;
    char *directory = et_path_join(model_dir, ET_CHECKPOINT_FOLDER);
    char *path = directory ? et_path_join(directory, ET_RUN_LOCK) : NULL;
    int status = path ? et_directory_make(directory, error)
                      : et_alloc_failed(error, strlen(model_dir), "a path");
    if (!status)
        status = et_lock_take(lock, path, error);
    et_free(directory);
    et_free(path);
    return status == ET_EBUSY ? fail_taken(error) : status;
}

/* With the folder, if that is gone too: the state in memory is still a run. */
int et_checkpoints_check_lock(et_checkpoints *checkpoints, et_error *error)
{
    int *lock = checkpoints->inside.lock ? checkpoints->inside.lock : &checkpoints->lock;
    pthread_mutex_lock(&checkpoints->mutex);
    int status = et_lock_check(lock, checkpoints->lock_path, error);
    if (status == ET_ENOTFOUND) {
        status = et_directory_make(checkpoints->directory, error);
        if (!status)
            status = et_lock_check(lock, checkpoints->lock_path, error);
    }
    pthread_mutex_unlock(&checkpoints->mutex);
    return status;
}
