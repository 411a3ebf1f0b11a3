/* Checkpoints of a run: the functions that runs need beyond <etude/checkpoint.h>.
 * MODEL_DIR/checkpoints/ has the last checkpoints; its checkpoint.json is the commit point.
 * MODEL_DIR/best/ has the best checkpoint and info.json. A checkpoint has all tensors, and the
 * state tree as JSON in its metadata. Leftover temporary files never block a run. */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <etude/checkpoint.h>

#include "base/threads/trace.h"
#include "train/checkpoint/state.h"

#define ET_CHECKPOINT_STEP "best_ckpt_global_step" /* key in best/info.json */

/* Keys of the file's metadata: the state tree as JSON, and the step in digits. */
#define ET_CHECKPOINT_KEY_STATE "state"
#define ET_CHECKPOINT_KEY_STEP  "step"

/* What the command hands to a run and to checkpoints (inside, in their options). */
typedef struct et_inside {
    int *lock;       /* the caller's (et_checkpoints_lock), held until after close; NULL: one of the
                        manager's own */
    et_track *track; /* of the caller; the thread that writes gets one beside it. NULL: nobody
                        watches */
    bool waits;      /* a save returns when it is durable, or has failed; which of both is told by
                        what is called next, as ever */
    double (*clock)(void); /* seconds since 1970; NULL: of the machine */
    bool asks; /* other ranks give their parts of the state while a save is asked for (parts.h) */
} et_inside;

/* For a program that writes more into model_dir than checkpoints, and before they are opened:
 * makes the directories and takes the lock (ET_EBUSY: another process trains there). Drop it
 * with et_lock_drop. */
int et_checkpoints_lock(int *lock, const char *model_dir, et_error *error);

/* Whether the lock is still held: its file may have been removed. Every save asks first. A missing
 * one is made and taken anew; ET_EBUSY: another process trains there, or has. */
int et_checkpoints_check_lock(et_checkpoints *checkpoints, et_error *error);

/* Restores the whole state from one file, as et_checkpoint_restore_file: what the directory has
 * after it is not this run's own work, nor is anything where the file is no checkpoint of it, and
 * the next save sets that aside. */
int et_checkpoints_restore_at(et_checkpoints *checkpoints, const char *path, int64_t *step,
                              et_error *error);

/* A run begins, or goes on, and writes its logs from here: where it resumes nothing a manifest that
 * names none says so on the disk until the first save, or until the directory is closed. */
int et_checkpoints_begin(et_checkpoints *checkpoints, et_error *error);
/* When it began, by et_file_clock; 0: not known. What was written last before that is no work of
 * the run's. *here: it was this process that began it. */
double et_checkpoints_begun(const et_checkpoints *checkpoints, bool *here);

/* Whether the newest checkpoint of the directory is what was restored last. */
bool et_checkpoints_resumed(const et_checkpoints *checkpoints);

/* Closes the file of a restore, which stays open where ranks have the state in parts and are given
 * theirs from it (et_state_tensor.whole). */
void et_checkpoints_end_restore(et_checkpoints *checkpoints);

/* Saves the state of a run that stops here: not one of the max_to_keep, and gone with the next
 * save. So what is kept in the end does not depend on where a run was interrupted. */
int et_checkpoints_save_transient(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* Which best step the next save of a best one replaces, as the run knows it: its file goes, beside
 * that of the step which info.json names. A kill may have come between. */
void et_checkpoints_replace_best(et_checkpoints *checkpoints, int64_t step);

/* Before a run at a step goes back: the newest is again one of those to keep, where there is one,
 * so that what it goes back to does not depend on where it was interrupted; and none is of a later
 * step, as where an older one was restored by hand. ET_EDIVERGED: the only one is. */
int et_checkpoints_drop_newer(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* Whether et_checkpoints_wait has anything to say; and whether it would say it without waiting. */
bool et_checkpoints_saving(const et_checkpoints *checkpoints);
bool et_checkpoints_ended(et_checkpoints *checkpoints);

/* Whether best/ has the step as the best one, as far as memory lets it be seen. */
bool et_checkpoints_has_best(const et_checkpoints *checkpoints, int64_t step);

/* Whether the disk, and the limit on the size of a file, have room for one more checkpoint now, so
 * that a run which could never save does not begin: ET_ENOSPACE. A save checks the disk again. */
int et_checkpoints_check_room(const et_checkpoints *checkpoints, et_error *error);

/* Which weights of a file are loaded. */
typedef struct et_weights_choice {
    bool averages;      /* "average/<name>" where the file has it */
    const char *prefix; /* of one model among several: "<prefix><name>" where the file has it, else
                           "<name>", which they share; NULL: there is one model */
} et_weights_choice;

/* et_checkpoint_load_weights and et_checkpoint_load by such a choice. */
int et_checkpoint_take_weights(et_params *params, const char *path, et_weights_choice choice,
                               et_checkpoint_facts *facts, et_error *error);
int et_checkpoint_take_newest(char **path, et_params *params, const char *model_dir,
                              et_weights_choice choice, et_checkpoint_facts *facts,
                              et_error *error);
int et_checkpoint_take_best(char **path, et_params *params, const char *model_dir,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error);

/* Those of the checkpoint that people call so (et_checkpoint_named), also while the run saves and
 * removes the file that had that name a moment ago. */
int et_checkpoint_take_named(char **path, et_params *params, const char *model_dir,
                             const char *name, et_weights_choice choice, et_checkpoint_facts *facts,
                             et_error *error);

/* The path of the newest sound checkpoint of a run; free with et_free. ET_ENOTFOUND: there is
 * none. A damaged one is named in a warning and passed over. */
int et_checkpoint_newest(char **path, const char *model_dir, et_error *error);

/* The path of the file that et_checkpoint_initialize takes; free with et_free. */
int et_checkpoint_find_weights(char **path, const char *from, et_error *error);

/* The oldest checkpoint after a step that a run keeps by now: its step, and its path (et_free),
 * NULL if there is none, or no run yet. transient: also where a run was interrupted, which goes
 * when it goes on. It may be gone when it is opened. */
int et_checkpoint_next(char **path, int64_t *step, const char *model_dir, int64_t after,
                       bool transient, et_error *error);

/* Where a run keeps the checkpoint of a step; free with et_free. NULL: no memory. */
char *et_checkpoint_path(const char *model_dir, int64_t step);

/* The path of the best checkpoint, by info.json; free with et_free. */
int et_checkpoint_best(char **path, const char *model_dir, et_error *error);

#define ET_CHECKPOINT_NEWEST "newest"

/* What people call a checkpoint: "best", "newest", a step, else a path or the name of a file of the
 * run; its path, free with et_free. What lies here under one of the first three names is ./best. A
 * path that is there is itself; so is one that is not and no name of the run's.
 * ET_ENOTFOUND: the run has no best one, none of that step. */
int et_checkpoint_named(char **path, const char *model_dir, const char *name, et_error *error);

/* info.json as a dict in arena. ET_ENOTFOUND: there is none. */
int et_checkpoint_best_info(et_value **info, const char *model_dir, et_arena *arena,
                            et_error *error);

/* Writes the mean of the weights of count files (by name, in double) as a file with weights only
 * and the identity of the first. All must have the same names and shapes, and be of one
 * model where they say so. Averages are taken where all have them, unless live_weights;
 * *averages says which (NULL allowed). ET_ECONFIG: some have averages and some have not. */
int et_checkpoint_average(const char *const *paths, size_t count, bool live_weights,
                          const char *out_path, bool *averages, et_error *error);

/* The step of the newest checkpoint saved or restored, -1 if none. */
int64_t et_checkpoints_newest_step(const et_checkpoints *checkpoints);

/* The same into best/, with info.json: metrics (a dict, copied) and the step. */
int et_checkpoints_save_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error);

#endif
