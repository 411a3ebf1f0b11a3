/* Checkpoints of a run: policy over io's safetensors and manifest. A save prints the small values
 * of the state tree; a thread of its own then writes the arrays from where they are, and waits
 * for the disk. Training goes on meanwhile, up to where it would change an array that is not
 * written yet: a batch, forward and backward only read. A checkpoint holds all tensors, and in its
 * metadata the tree as JSON; its bytes depend on the state only. MODEL_DIR/checkpoints/ has the
 * last ones, the commit point is its checkpoint.json; MODEL_DIR/best/ has the best one and
 * info.json.
 *
 *     et_checkpoints_open(&checkpoints, "RUN", state, &options, &error);
 *     et_checkpoints_restore(checkpoints, &step, &error);        step -1: nothing there yet
 *     et_checkpoints_save(checkpoints, step, &error);            returns at once
 *     et_checkpoints_wait_read(checkpoints);     before arrays change; a store asks for it itself
 *     et_checkpoints_close(checkpoints, &error);                 waits
 *
 * Invariants: (1) a checkpoint is deleted only after a newer one is durable and named; (2) at
 * any instant of a kill the newest or the one before it loads; (3) left-over temporary files
 * never block. One manager per directory at a time (a lock); calls from one thread. */
#ifndef ETUDE_TRAIN_CHECKPOINT_H
#define ETUDE_TRAIN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/params.h>

#include "base/trace.h"
#include <etude/value.h>
#include "train/state.h"

#define ET_CHECKPOINT_FOLDER "checkpoints"
#define ET_CHECKPOINT_LOCK   "lock" /* in the folder */
#define ET_CHECKPOINT_BEST   "best"
#define ET_CHECKPOINT_INFO   "info.json"
#define ET_CHECKPOINT_STEP   "best_ckpt_global_step" /* key in info.json */

/* Keys of the file's metadata: the state tree as JSON, and the step in digits. */
#define ET_CHECKPOINT_KEY_STATE "state"
#define ET_CHECKPOINT_KEY_STEP  "step"

typedef struct et_checkpoint_options {
    int64_t max_to_keep;  /* the newest N; at least 1 */
    int *lock;            /* the caller's (et_checkpoints_lock), held until after close; NULL: one
                             of the manager's own */
    bool other_optimizer; /* a restore takes the file of another optimizer: weights must fit, slots
                             that it lacks are left as they are (et_state_start_slots), those
                             that it has beyond ours are dropped, with a warning */
    et_track *track;      /* of the caller; the thread that writes gets one beside it. NULL: nobody
                             watches */
} et_checkpoint_options;

#define ET_CHECKPOINT_OPTIONS_INIT                                                                 \
    {                                                                                              \
        .max_to_keep = 5                                                                           \
    }

typedef struct et_checkpoints et_checkpoints;

/* For a program that writes more into model_dir than checkpoints, and before they are opened:
 * makes the directories and takes the lock (ET_EBUSY: another process trains there). Drop it
 * with et_lock_drop. */
int et_checkpoints_lock(int *lock, const char *model_dir, et_error *error);

/* Makes the directories, takes the lock unless there is options.lock, and clears what a killed run
 * left. All is attached to state already; state and its arrays outlive the manager. */
int et_checkpoints_open(et_checkpoints **out, const char *model_dir, et_state *state,
                        const et_checkpoint_options *options, et_error *error);

/* Whether the lock is still held: its file may have been removed. Every save asks first. A missing
 * one is made and taken anew; ET_EBUSY: another process trains there, or has. */
int et_checkpoints_check_lock(et_checkpoints *checkpoints, et_error *error);

/* Waits for the save in progress and frees; returns that save's error. NULL allowed. */
int et_checkpoints_close(et_checkpoints *checkpoints, et_error *error);

/* Starts saving the state as it is now; et_checkpoints_wait_read comes before its arrays change,
 * and et_params_begin_change of the state's store calls it.
 * Waits first for a save in progress; if that failed, returns its error and saves nothing (call
 * again to try). A step saved already is saved again. */
int et_checkpoints_save(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* The same for a run that stops here: not one of the max_to_keep, and gone with the next save.
 * So what is kept in the end does not depend on where a run was interrupted. */
int et_checkpoints_save_passing(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* The same into best/, with info.json: metrics (a dict, copied) and the step. */
int et_checkpoints_save_best(et_checkpoints *checkpoints, int64_t step, const et_value *metrics,
                             et_error *error);

/* Waits until the arrays of the state may change: a save in progress has read them, or failed.
 * NULL allowed. */
void et_checkpoints_wait_read(et_checkpoints *checkpoints);

/* Whether et_checkpoints_wait has anything to say; and whether it would say it without waiting. */
bool et_checkpoints_saving(const et_checkpoints *checkpoints);
bool et_checkpoints_ended(et_checkpoints *checkpoints);

/* Waits until the last save is durable; returns its error, once. */
int et_checkpoints_wait(et_checkpoints *checkpoints, et_error *error);

/* Restores the newest sound checkpoint; *step becomes its step, or -1 if there is none. A
 * damaged or missing newest is named in a warning and the one before it taken; if none of
 * several is sound: ET_EFORMAT. ET_ECONFIG: it belongs to another model (the first difference
 * is named, and nothing was changed). */
int et_checkpoints_restore(et_checkpoints *checkpoints, int64_t *step, et_error *error);

/* Whether the disk, and the limit on the size of a file, have room for one more checkpoint now, so
 * that a run which could never save does not begin: ET_ENOSPACE. A save checks the disk again. */
int et_checkpoints_check_room(const et_checkpoints *checkpoints, et_error *error);

/* The step of the newest checkpoint saved or restored, -1 if none. */
int64_t et_checkpoints_newest_step(const et_checkpoints *checkpoints);

/* Files, without a manager. Reading needs no lock and changes nothing in the directory. */

/* Restores the whole state from one file, after checking all of it. */
int et_checkpoint_restore_file(et_state *state, const char *path, int64_t *step, et_error *error);

/* The path of the newest sound checkpoint of a run; free with et_free. ET_ENOTFOUND: there is
 * none. A damaged one is named in a warning and passed over. */
int et_checkpoint_newest(char **path, const char *model_dir, et_error *error);

/* The path of the best checkpoint, by info.json; free with et_free. */
int et_checkpoint_best(char **path, const char *model_dir, et_error *error);

/* info.json as a dict in arena. ET_ENOTFOUND: there is none. */
int et_checkpoint_best_info(et_value **info, const char *model_dir, et_arena *arena,
                            et_error *error);

/* What is known of a file whose weights were loaded. */
typedef struct et_checkpoint_facts {
    et_arena *arena; /* the caller's, for identity; NULL: not asked for */
    int64_t step;
    const et_value *identity; /* train/identity.h; NULL: the file has none */
} et_checkpoint_facts;

/* Loads weights only, into a materialized store, after checking them. prefer_average: takes
 * "average/<name>" where the file has averages. facts: filled in; NULL allowed. Tensors that the
 * model does not know are passed over; a missing one or another shape is ET_ECONFIG. */
int et_checkpoint_load_weights(et_params *params, const char *path, bool prefer_average,
                               et_checkpoint_facts *facts, et_error *error);

/* The same from the newest sound one of a run, or the best, which a run may be replacing
 * meanwhile: what is gone when it is opened is looked up again. *path (free with et_free) is set
 * as soon as it is known, also on failure; else NULL. */
int et_checkpoint_load_newest(char **path, et_params *params, const char *model_dir,
                              bool prefer_average, et_checkpoint_facts *facts, et_error *error);
int et_checkpoint_load_best(char **path, et_params *params, const char *model_dir,
                            bool prefer_average, et_checkpoint_facts *facts, et_error *error);

/* Writes the mean of the weights of count files (by name, in double) as a file with weights only
 * and the identity of the first. All must have the same names and shapes, and be of one
 * model where they say so. Averages are taken where all have them, unless live_weights;
 * *averages says which (NULL allowed). ET_ECONFIG: some have averages and some have not. */
int et_checkpoint_average(const char *const *paths, size_t count, bool live_weights,
                          const char *out_path, bool *averages, et_error *error);

#endif
