/* Checkpoints of a run: the functions that runs need beyond <etude/checkpoint.h>.
 * MODEL_DIR/checkpoints/ has the last checkpoints; its checkpoint.json is the commit point.
 * MODEL_DIR/best/ has the best checkpoint and info.json. A checkpoint has all tensors, and the
 * state tree as JSON in its metadata. Leftover temporary files never block a run. */
#ifndef ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_H
#define ETUDE_TRAIN_CHECKPOINT_CHECKPOINT_H

#include <etude/checkpoint.h>

#include "base/files/file.h"
#include "base/threads/trace.h"
#include "train/checkpoint/state.h"

#define ET_CHECKPOINT_STEP "best_ckpt_global_step" /* key in best/info.json */

/* Keys of the file's metadata: the state tree as JSON, and the step in digits. */
#define ET_CHECKPOINT_KEY_STATE "state"
#define ET_CHECKPOINT_KEY_STEP  "step"

/* Values that the command passes to a run and to checkpoints (internals, in their options). */
typedef struct et_internals {
    int *lock;       /* the caller's (et_checkpoints_lock), held until after close; NULL: one of the
                        manager's own */
    et_track *track; /* the caller's track; the writing thread gets another. NULL: no trace */
    bool waits;      /* a save returns when it is durable or has failed; the next call reports a
                        failure, as always */
    double (*clock)(void); /* seconds since 1970; NULL: of the machine */
    bool asks;             /* other ranks give their parts of the state while a save is asked for
                              (state.h) */
} et_internals;

/* For a program that also writes other files into model_dir: before it opens the checkpoints, makes
 * the directories and takes the lock (ET_EBUSY: another process trains there). Drop it with
 * et_lock_drop. */
int et_checkpoints_lock(int *lock, const char *model_dir, et_error *error);

/* Checks that the lock is still held, because its file may have been removed; every save does so
 * first. Makes and takes a missing lock again. ET_EBUSY: another process trains there, or has
 * trained there. */
int et_checkpoints_check_lock(et_checkpoints *checkpoints, et_error *error);

/* Restores the whole state from one file, as et_checkpoint_restore_file. Later checkpoints of the
 * directory (all, if the file is not in the directory) then do not belong to the run, and the next
 * save moves them aside. */
int et_checkpoints_restore_at(et_checkpoints *checkpoints, const char *path, int64_t *step,
                              et_error *error);

/* A run begins or resumes, and writes its logs from here on. If it resumes from no checkpoint, the
 * manifest on the disk names none until the first save, or until the directory is closed. */
int et_checkpoints_begin(et_checkpoints *checkpoints, et_error *error);
/* The time of the begin, by et_file_clock; 0: unknown. Files that were last written before are not
 * the run's work. *here: this process began the run. */
double et_checkpoints_begun(const et_checkpoints *checkpoints, bool *here);

/* Whether the newest checkpoint of the directory is the one that was restored last. */
bool et_checkpoints_resumed(const et_checkpoints *checkpoints);

/* Closes the file of a restore. The file stays open while ranks read their parts of the state from
 * it (et_state_tensor.whole). */
void et_checkpoints_end_restore(et_checkpoints *checkpoints);

/* Saves the state of a run that stops here: the checkpoint is not one of the max_to_keep, and is
 * deleted by the next save. So the checkpoints that finally remain do not depend on
 * interruptions. */
int et_checkpoints_save_transient(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* The best step that the run knows. The next save of a best checkpoint deletes the file of this
 * step, in addition to the file of the step in info.json: the two differ if the process was killed
 * between two writes. */
void et_checkpoints_replace_best(et_checkpoints *checkpoints, int64_t step);

/* Call before a run at a step goes back. The newest checkpoint then counts as one to keep, so that
 * the target does not depend on interruptions. Later checkpoints, which exist if an older one was
 * restored by hand, are dropped. ET_EDIVERGED: the only checkpoint is a later one. */
int et_checkpoints_drop_newer(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* saving: et_checkpoints_wait has a result to return. ended: it would return the result without
 * waiting. */
bool et_checkpoints_saving(const et_checkpoints *checkpoints);
bool et_checkpoints_ended(et_checkpoints *checkpoints);

/* Checks a name for et_checkpoint_options.best_link. ET_ECONFIG: the name is no plain name, or a
 * folder of a run has it. */
int et_checkpoint_check_link(const char *name, et_error *error);

/* Whether path is such a link. */
bool et_checkpoint_is_best_link(const char *path);

/* Whether the step is the best in best/. */
int et_checkpoints_has_best(const et_checkpoints *checkpoints, int64_t step, bool *has,
                            et_error *error);

/* Checks that the disk and the limit on file sizes have room for one more checkpoint, so that no
 * run starts that can never save. ET_ENOSPACE: no room. A save checks the disk again. */
int et_checkpoints_check_space(const et_checkpoints *checkpoints, et_error *error);

/* Selects the weights of a file to load. */
typedef struct et_weights_choice {
    bool averages;      /* use "average/<name>" if the file has it */
    const char *prefix; /* for one of several models: "<prefix><name>" if the file has it, else the
                           shared "<name>"; NULL: one model */
    bool mapped;        /* params only gives values: float32 weights stay where the file is mapped
                           (et_params_map); others are copied, as without this */
} et_weights_choice;

int et_checkpoint_take_file(et_params *params, const char *path, et_weights_choice choice,
                            et_checkpoint_facts *facts, et_error *error);
int et_checkpoint_take_newest(char **path, et_params *params, const char *model_dir,
                              et_weights_choice choice, et_checkpoint_facts *facts,
                              et_error *error);
int et_checkpoint_take_best(char **path, et_params *params, const char *model_dir,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error);

/* Loads the weights of a checkpoint by its name (et_checkpoint_named), also if the run saves
 * meanwhile and removes the file that had this name. */
int et_checkpoint_take_named(char **path, et_params *params, const char *model_dir,
                             const char *name, et_weights_choice choice, et_checkpoint_facts *facts,
                             et_error *error);

/* The path of the file that et_checkpoint_initialize takes; free with et_free. */
int et_checkpoint_find_weights(char **path, const char *given, et_error *error);

/* Finds a run's oldest existing checkpoint after a step: its step, and its path (et_free); NULL:
 * none, or no run yet. transient: also a checkpoint of an interruption, which is deleted when the
 * run resumes. The file may disappear before you open it. */
int et_checkpoint_next(char **path, int64_t *step, const char *model_dir, int64_t after,
                       bool transient, et_error *error);

/* The path of a run's checkpoint of a step. */
et_path et_checkpoint_path(const char *model_dir, int64_t step);

/* The path of the best checkpoint, by info.json; free with et_free. */
int et_checkpoint_best(char **path, const char *model_dir, et_error *error);

#define ET_CHECKPOINT_NEWEST "newest"

/* The path of a checkpoint that a user names: "best", "newest", a step, else a path or the name of
 * a file of the run; free with et_free. For a file in the current directory with one of the first
 * three names, use ./best. A path is used as it is if it exists, or if it is no name in the run.
 * ET_ENOTFOUND: the run has no best checkpoint, or no checkpoint of this step. */
int et_checkpoint_named(char **path, const char *model_dir, const char *name, et_error *error);

/* Reads info.json as a dict in arena. ET_ENOTFOUND: no such file. */
int et_checkpoint_best_info(et_value **info, const char *model_dir, et_arena *arena,
                            et_error *error);

/* Writes the mean of the weights of count files (by name, in double) as a file with only weights,
 * and the identity of the first. All files must have the same names and shapes, and the same model,
 * if they have identities. Averages are used if all files have them, unless live_weights; *averages
 * says whether they were (NULL allowed). ET_ECONFIG: only some files have averages. */
int et_checkpoint_average(const char *const *paths, size_t count, bool live_weights,
                          const char *out_path, bool *averages, et_error *error);

/* The step of the newest checkpoint saved or restored, -1 if none. */
int64_t et_checkpoints_newest_step(const et_checkpoints *checkpoints);

/* The same into best/, with info.json: metrics (a dict, copied) and the step. */
int et_checkpoints_save_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error);

/* Saves the best in two steps, for a small state without ranks. hold copies the state, replaces the
 * copy that is held, and writes nothing. save_held starts to write the held copy. */
#define ET_CHECKPOINT_HELD_MAX ((size_t)16 << 20) /* numbers of all tensors */
bool et_checkpoints_may_hold(const et_checkpoints *checkpoints);
int et_checkpoints_hold_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error);
int et_checkpoints_save_held(et_checkpoints *checkpoints, et_error *error);

#endif
