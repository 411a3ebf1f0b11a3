/* Checkpoints. Weights alone, of a file or of a run's newest or best:
 *
 *     char *path;
 *     if (et_checkpoint_load_newest(&path, params, "runs/digits", true, NULL, &error)) ...
 *     et_checkpoint_free_path(path);
 *     if (et_checkpoint_load_best(&path, params, "runs/digits", true, NULL, &error)) ...
 *     et_checkpoint_free_path(path);
 *
 * And whole states, in a directory, for a program that owns its loop (a run, <etude/run.h>, has
 * this, logs and more):
 *
 *     et_checkpoints_open(&checkpoints, "runs/digits", state, NULL, &error);
 *     et_checkpoints_restore(checkpoints, &step, &error);        step -1: nothing there yet
 *     et_checkpoints_save(checkpoints, step, &error);            returns at once
 *     et_checkpoints_wait_read(checkpoints);                     before other arrays change
 *     et_checkpoints_wait(checkpoints, &error);                  until it is on the disk
 *     et_checkpoints_close(checkpoints, &error);                 waits
 *
 * A save prints the small values of the state; a thread of its own then writes the arrays from
 * where they are, and waits for the disk. Training goes on meanwhile, up to where it would change
 * an array that is not written yet. A file's bytes depend on the state only. A checkpoint is
 * deleted only after a newer one is durable; at any instant of a kill the newest or the one before
 * it loads. One manager per directory at a time (a lock); calls from one thread. */
#ifndef ETUDE_CHECKPOINT_H
#define ETUDE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/params.h>
#include <etude/state.h>
#include <etude/value.h>

/* ---- files; reading needs no lock and changes nothing in the directory ---- */

/* What is known of a file whose weights were loaded. */
typedef struct et_checkpoint_facts {
    et_arena *arena; /* the caller's, for identity; NULL: not asked for */
    int64_t step;
    const et_value *identity; /* what its run said of itself, known even where its weights do not
                                 fit; NULL: nothing */
} et_checkpoint_facts;

/* Loads weights only, into a materialized store, after checking them. prefer_average: takes
 * "average/<name>" where the file has averages. facts: filled in; NULL allowed. Tensors that the
 * model does not know are passed over; a missing one or another shape is ET_ECONFIG. */
ET_API int et_checkpoint_load_weights(et_params *params, const char *path, bool prefer_average,
                                      et_checkpoint_facts *facts, et_error *error);

/* The same from the newest sound one of a run, or the best, which a run may be replacing
 * meanwhile: what is gone when it is opened is looked up again. *path (et_checkpoint_free_path) is
 * set as soon as it is known, also on failure; else NULL. */
ET_API int et_checkpoint_load_newest(char **path, et_params *params, const char *model_dir,
                                     bool prefer_average, et_checkpoint_facts *facts,
                                     et_error *error);
ET_API int et_checkpoint_load_best(char **path, et_params *params, const char *model_dir,
                                   bool prefer_average, et_checkpoint_facts *facts,
                                   et_error *error);

/* The weights that another run begins with, for fine-tuning: of a file, of a run's newest
 * checkpoint ("runs/a") or of its best ("runs/a/best"); averages where the file has them. Every
 * parameter and variable is there with its shape, or, with a pattern (an expression searched in
 * names, NULL: none), every one that has such a name; the others stay as they are. ET_ECONFIG: one
 * is not, or no name is found. Slots and steps are not read: they begin anew. */
ET_API int et_checkpoint_initialize(et_params *params, const char *from, const char *pattern,
                                    et_error *error);

/* Paths that such functions give; NULL allowed. */
ET_API void et_checkpoint_free_path(char *path);

/* ---- a directory ---- */

typedef struct et_checkpoints et_checkpoints;

typedef struct et_checkpoint_options {
    int64_t max_to_keep;       /* the newest N; 0: 5; negative: all */
    double keep_every_n_hours; /* beside the newest N: of those that fall out one each so many hours
                                  stays for good, unless a run goes back before it. Hours count from
                                  when a run first had this, also while it rests; 0: none */
    bool other_optimizer; /* a restore takes the file of another optimizer: weights must fit, slots
                             that it lacks are left as they are, those that it has beyond ours are
                             dropped, with a warning */
    const struct et_inside *inside; /* the library's own; NULL */
} et_checkpoint_options;

/* Makes the directories, takes the lock (ET_EBUSY: another process trains there) and clears what a
 * killed run left. All is attached to state already; state and its arrays outlive the manager.
 * options NULL: the defaults. */
ET_API int et_checkpoints_open(et_checkpoints **out, const char *model_dir, et_state *state,
                               const et_checkpoint_options *options, et_error *error);

/* Waits for the save in progress and frees; returns that save's error. NULL allowed. */
ET_API int et_checkpoints_close(et_checkpoints *checkpoints, et_error *error);

/* Starts saving the state as it is now; et_checkpoints_wait_read comes before its arrays change,
 * and et_params_begin_change of the state's store calls it. Waits first for a save in progress; if
 * that failed, returns its error and saves nothing (call again to try). A step saved already is
 * saved again. Checkpoints of earlier processes that were not restored, or come after the one that
 * was, are moved to checkpoints/earlier-N by the first save, with a warning; so is such a best one.
 */
ET_API int et_checkpoints_save(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* Waits until the arrays of the state may change: a save in progress has read them, or failed.
 * NULL allowed. */
ET_API void et_checkpoints_wait_read(et_checkpoints *checkpoints);

/* Waits until the last save is durable; returns its error, once. */
ET_API int et_checkpoints_wait(et_checkpoints *checkpoints, et_error *error);

/* Restores the newest sound checkpoint; *step becomes its step, or -1 if there is none. A
 * damaged or missing newest is named in a warning and the one before it taken; if none of
 * several is sound: ET_EFORMAT. ET_ECONFIG: it belongs to another model (the first difference
 * is named, and nothing was changed). */
ET_API int et_checkpoints_restore(et_checkpoints *checkpoints, int64_t *step, et_error *error);

#endif
