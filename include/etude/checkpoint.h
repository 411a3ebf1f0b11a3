/* Checkpoints: weights or whole states in files. A program loads weights alone from a file, or from
 * the newest or best checkpoint of a run:
 *
 *     char *path;
 *     if (et_checkpoint_load(&path, params, "runs/digits", "best", true, NULL, &error)) ...
 *     et_checkpoint_free_path(path);
 *
 * A program that owns its loop saves whole states in a directory (a controller and a loop
 * do so too, and write logs and more):
 *
 *     et_checkpoints_open(&checkpoints, "runs/digits", state, NULL, &error);
 *     et_checkpoints_restore(checkpoints, &step, &error);        step -1: no checkpoint yet
 *     et_checkpoints_restore_named(checkpoints, "200", &step, &error);    or an older one
 *     et_checkpoints_save(checkpoints, step, &error);            returns at once
 *     et_checkpoints_wait_read(checkpoints);                     before other arrays change
 *     et_checkpoints_wait(checkpoints, &error);                  until the file is durable
 *     et_checkpoints_close(checkpoints, &error);                 waits
 *
 * A save prints the small values of the state. Then a thread writes the arrays directly from the
 * program's memory and waits for the disk. Training continues meanwhile, until a step has to change
 * an array that is not written yet. The bytes of a file depend only on the state. A checkpoint is
 * deleted only after a newer one is durable: after a kill at any time, the newest checkpoint or the
 * previous one loads. One manager uses a directory at a time (a lock). Call from one thread. */
#ifndef ETUDE_CHECKPOINT_H
#define ETUDE_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/params.h>
#include <etude/state.h>
#include <etude/value.h>

/* ---- files: reading takes no lock and changes nothing in the directory ---- */

/* Facts about a file whose weights were loaded. */
typedef struct et_checkpoint_facts {
    et_arena *arena; /* the caller's arena for identity; NULL: identity is not read */
    int64_t step;
    const et_value *identity; /* the run's description of itself; also set if the weights do not
                                 fit. NULL: none */
} et_checkpoint_facts;

/* Checks a file, then loads its weights, and nothing else, into a materialized store.
 * prefer_average: load "average/<name>" if the file has averages. facts: filled in; NULL allowed.
 * Ignores tensors that the model does not have. ET_ECONFIG: a tensor of the model is missing or has
 * another shape. */
ET_API int et_checkpoint_load_weights(et_params *params, const char *path, bool prefer_average,
                                      et_checkpoint_facts *facts, et_error *error);

/* The same for a checkpoint of a run. name: "newest" (the newest sound checkpoint; NULL: the same),
 * "best", a step, the name of a file, or a path. The run may be training: if a file disappears
 * before it is opened, the name is looked up again. *path (et_checkpoint_free_path) is set as soon
 * as it is known, also on failure; otherwise NULL. */
ET_API int et_checkpoint_load(char **path, et_params *params, const char *model_dir,
                              const char *name, bool prefer_average, et_checkpoint_facts *facts,
                              et_error *error);

/* The path of the newest undamaged checkpoint of a run; free with et_checkpoint_free_path. Skips
 * damaged checkpoints with a warning. ET_ENOTFOUND: no checkpoint. */
ET_API int et_checkpoint_newest(char **path, const char *model_dir, et_error *error);

/* Initializes weights from another run, for fine-tuning: from a file, from a run's newest
 * checkpoint ("runs/a") or from its best ("runs/a/best"). Averages are used if the file has them.
 * pattern: a regular expression. Parameters and variables whose names contain a match are loaded;
 * the others keep their values. NULL: all are loaded, and a warning is logged if the file has more
 * weights. ET_ECONFIG: the file lacks a weight or has it with another shape, or no name matches.
 * Slots and steps are not loaded: they start from zero. */
ET_API int et_checkpoint_initialize(et_params *params, const char *from, const char *pattern,
                                    et_error *error);

/* Frees a path from the functions above; NULL allowed. */
ET_API void et_checkpoint_free_path(char *path);

/* ---- a directory ---- */

typedef struct et_checkpoints et_checkpoints;

typedef struct et_checkpoint_options {
    int64_t max_to_keep;       /* the newest N; 0: 5; negative: all */
    double keep_every_n_hours; /* in addition to the newest N, one checkpoint for every so many
                                  hours is kept forever, unless a run goes back to a step before it.
                                  Hours count from the first use of this option, including time
                                  between processes. 0: none */
    bool other_optimizer;  /* restore accepts the file of another optimizer. Weights must fit. Slots
                              that the file lacks keep their values; other slots of the file are
                              dropped with a warning */
    const char *best_link; /* another name of best/ in model_dir: a symbolic link, made with the
                              first best checkpoint; borrowed. NULL: none */
    bool partial; /* restore accepts a file with fewer or more tensors and parts, and warns of each
                     by name. Those that the file lacks keep their values; others of the file are
                     ignored. Another shape is an error, as always */
    const struct et_internals *internals; /* internal; NULL */
} et_checkpoint_options;

/* Makes the directories, takes the lock and deletes leftovers of a killed run. Attach all parts to
 * state before this call; state and its arrays must outlive the manager. options NULL: the
 * defaults. ET_EBUSY: another process trains in this directory. ET_ECONFIG: best_link is no plain
 * name, or another file has it. */
ET_API int et_checkpoints_open(et_checkpoints **out, const char *model_dir, et_state *state,
                               const et_checkpoint_options *options, et_error *error);

/* Waits for the save in progress, frees the manager and returns the error of this save. NULL
 * allowed. */
ET_API int et_checkpoints_close(et_checkpoints *checkpoints, et_error *error);

/* Starts to save the current state. Before its arrays change, call et_checkpoints_wait_read;
 * et_params_begin_change of the state's store does so. The call waits first for a save in progress.
 * If that save failed, the call returns its error and saves nothing; call again to try again.
 * Saving the same step twice writes it twice. The first save moves checkpoints of earlier
 * processes, and the best one, to checkpoints/earlier-N, with a warning, if they are newer than the
 * restored checkpoint or none was restored. */
ET_API int et_checkpoints_save(et_checkpoints *checkpoints, int64_t step, et_error *error);

/* Waits until a save in progress has read all arrays or has failed. Then arrays may change. NULL
 * allowed. */
ET_API void et_checkpoints_wait_read(et_checkpoints *checkpoints);

/* Waits until the last save is durable; returns its error, once. */
ET_API int et_checkpoints_wait(et_checkpoints *checkpoints, et_error *error);

/* Restores the newest undamaged checkpoint. *step becomes its step, or -1 if there are no
 * checkpoints. If the newest is damaged or missing, a warning names it and the previous one is
 * tried. ET_EFORMAT: all are damaged. ET_ECONFIG: the checkpoint is of another model; the error
 * names the first difference, and nothing has changed. */
ET_API int et_checkpoints_restore(et_checkpoints *checkpoints, int64_t *step, et_error *error);

/* Restores one checkpoint by its name, as et_checkpoint_load: "newest", "best", a step, the name of
 * a file, or a path. The next save moves later checkpoints aside, with a warning. ET_ENOTFOUND: no
 * such checkpoint. ET_ECONFIG, ET_EFORMAT: as above; no other checkpoint is tried. */
ET_API int et_checkpoints_restore_named(et_checkpoints *checkpoints, const char *name,
                                        int64_t *step, et_error *error);

#endif
