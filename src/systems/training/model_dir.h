/* The directory of a run while a command trains in it. Opening makes the directory if needed, locks
 * it before anything is written, and deletes leftovers of a killed run. If a start fails in a
 * directory that had no run before, closing removes what the start has made.
 *
 *     et_model_dir dir = ET_MODEL_DIR_INIT;
 *     et_model_dir_open(&dir, kind, "runs/a", &error);       ET_EBUSY: another process trains there
 *     ...                                              set-up, training
 *     et_model_dir_close(&dir, set_up_failed);
 */
#ifndef ETUDE_SYSTEMS_TRAINING_MODEL_DIR_H
#define ETUDE_SYSTEMS_TRAINING_MODEL_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/experiment.h>

typedef struct et_model_dir {
    const et_task_kind *kind; /* kind of the run; its files are removed and swept as well */
    const char *path;         /* borrowed */
    int lock;                 /* -1: not held */
    bool fresh;               /* the directory was missing, or had no run */
    size_t there;             /* length of the part of path that existed before */
    char *made;               /* owned; paths that a start makes, to be removed without memory */
    const int64_t *step;      /* of the run, borrowed; NULL: set-up is not done */
    int64_t first;            /* see et_model_dir_set_up */
} et_model_dir;

#define ET_MODEL_DIR_INIT                                                                          \
    {                                                                                              \
        .lock = -1                                                                                 \
    }

/* Whether a directory has a run, and whether this has a checkpoint by now. path NULL: no. */
bool et_model_dir_has_run(const char *path);
bool et_model_dir_has_weights(const char *path);

/* path must outlive dir. After a failure nothing is left to close. */
int et_model_dir_open(et_model_dir *dir, const et_task_kind *kind, const char *path,
                      et_error *error);

/* Call before the first step. *step counts the steps, until the directory is closed. first: the
 * step of the first log, validation or save. */
void et_model_dir_set_up(et_model_dir *dir, const int64_t *step, int64_t first);

/* Whether a run that fails at this step has hardly begun: the directory was fresh and has no
 * checkpoint, and nothing was logged before this step. */
bool et_model_dir_begins(const et_model_dir *dir, int64_t step);

/* For an exit that cannot wait: removes everything that a starting run has made. Allocates nothing;
 * any thread may call it. */
void et_model_dir_abandon(void);

/* Releases the lock. take_back: removes everything that a start made in a fresh directory. A
 * directory that was not opened is allowed. */
void et_model_dir_close(et_model_dir *dir, bool take_back);

#endif
