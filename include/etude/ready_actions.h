/* Ready-made actions: conditional and periodic actions, values in files, a new best metric, and
 * exports (only rank 0 writes them). Condition and action are separate objects, as in Orbit:
 *
 *     et_new_best_options best = { .metric = "accuracy", .filename = "runs/a/best_accuracy.json" };
 *     if (et_new_best_open(&new_best, &best, &error) ||
 *         et_exports_open(&exports, "runs/a/export", 5, NULL, &error)) ...
 *     et_export_action_init(&save_it, "export", exports, params, NULL);
 *     if (et_export_now(&save_it, step, &path, &error)) ...        without a run
 *     et_conditional_init(&when_best, "export_best", et_new_best_holds, new_best,
 *                         (et_action *[]){ &save_it.action }, 1);
 *     if (et_periodic_init(&every, "at_10", 10, (et_action *[]){ &save_it.action }, 1, &error)) ...
 *     et_checkpoint_export_init(&follow, "follow", exports, "runs/a", NULL);    of each checkpoint
 *
 *     if (et_persisted_value_open(&kept, logs, "runs/a/logs.json", false, &error) ||
 *         et_persisted_value_write(kept, logs, &error)) ...
 *     seen = et_persisted_value_read(kept);
 *     et_persisted_value_close(kept);
 *     if (et_new_best_commit(new_best, logs, &is_new, &error) ||
 *         et_exports_next_name(exports, &name, &error) || et_exports_clean_up(exports, &error)) ...
 *
 * when_best.action is an evaluation action (outer_loop.h), or one of the program's actions. To save
 * and stop on a signal, use run.stop; to save and continue, run.save (run.h).
 *
 * Structs of a known size are the caller's, need no release and must not be moved. Names are names
 * of actions in a run, as in action.h. Use from one thread. */
#ifndef ETUDE_READY_ACTIONS_H
#define ETUDE_READY_ACTIONS_H

#include <etude/action.h>
#include <etude/optimizer.h>
#include <etude/params.h>

/* ---- conditions ---- */

typedef int et_condition_fn(void *payload, const et_action_context *now, bool *holds,
                            et_error *error);

typedef struct et_conditional {
    et_action action;
    et_action_class kind; /* a class with this action's name */
    et_condition_fn *condition;
    void *payload;
    et_action *const *actions; /* [count]; borrowed */
    int count;
    int64_t interval; /* steps; 0: not periodic */
} et_conditional;

/* An action that calls other actions, in order, if a condition holds. The action is due when one of
 * the other actions is due. Only the first of the other actions may return ET_EINTERRUPTED. */
ET_API void et_conditional_init(et_conditional *self, const char *name, et_condition_fn *condition,
                                void *payload, et_action *const *actions, int count);

/* An action that calls other actions at each multiple of interval (Orbit's PeriodicAction). At
 * other steps it does nothing: steps_per_loop should divide interval. ET_ECONFIG: interval < 1. */
ET_API int et_periodic_init(et_conditional *self, const char *name, int64_t interval,
                            et_action *const *actions, int count, et_error *error);

/* ---- a value in a file ---- */

/* A scalar, list or dict that later processes find again (Orbit's JSONPersistedValue). */
typedef struct et_persisted_value et_persisted_value;

/* Reads the value from a JSON file. If the file is missing, empty or null, the value becomes
 * initial_value, and the function writes the file and makes its directories. filename NULL: in
 * memory only. read_only: the file is never written. ET_EFORMAT: the file is not JSON. */
ET_API int et_persisted_value_open(et_persisted_value **out, const et_value *initial_value,
                                   const char *filename, bool read_only, et_error *error);
ET_API void et_persisted_value_close(et_persisted_value *self); /* NULL allowed */
/* The value; borrowed until the next write. */
ET_API const et_value *et_persisted_value_read(const et_persisted_value *self);
/* Replaces the file atomically. On failure the old value stays. ET_EDATA: the value has NaN or
 * infinity. */
ET_API int et_persisted_value_write(et_persisted_value *self, const et_value *value,
                                    et_error *error);

/* ---- a new best ---- */

typedef struct et_new_best et_new_best;

typedef struct et_new_best_options {
    const char *metric; /* a value of the logs, "accuracy"; nested: "sets|one|accuracy", or with
                           dots or slashes if no value has such a name */
    /* Instead of metric: computes the value. */
    int (*value)(void *payload, const et_value *logs, double *out, et_error *error);
    void *payload;
    bool lower_is_better;
    const char *filename; /* JSON file that keeps the best for later processes; made with its
                             directories and replaced atomically. NULL: not kept */
    bool read_only;       /* read the file, but never write it */
} et_new_best_options;

/* Before the first value the best is the worst finite number, or the one in the file. */
ET_API int et_new_best_open(et_new_best **out, const et_new_best_options *options, et_error *error);
ET_API void et_new_best_close(et_new_best *self); /* NULL allowed */

/* Whether logs have a value better than the best; NaN never is. commit also makes the value the
 * best, durably. Call test, export, then commit: after a kill in between, an export is made twice,
 * but never lost. ET_ECONFIG: logs have no such number. */
ET_API int et_new_best_test(const et_new_best *self, const et_value *logs, bool *is_new,
                            et_error *error);
ET_API int et_new_best_commit(et_new_best *self, const et_value *logs, bool *is_new,
                              et_error *error);

ET_API int et_new_best_metric(const et_new_best *self, const et_value *logs, double *out,
                              et_error *error);
ET_API double et_new_best_value(const et_new_best *self);
/* A condition that commits, as in Orbit, before the actions: a best model whose export fails or
 * stops is not exported again. new_best: the et_new_best. Only rank 0 writes the file. */
ET_API int et_new_best_holds(void *new_best, const et_action_context *now, bool *holds,
                             et_error *error);

/* ---- exports ---- */

/* Numbered exports BASE-0, BASE-1, ... Any entry with such a name is an export: its number is not
 * used again, and it is removed when there are too many. The actions below make directories, and
 * never change entries that they did not make. An export of another process with the same number
 * and other weights is moved to a folder "earlier-N" in the same directory. */
typedef struct et_exports et_exports;

typedef struct et_exports_options {
    int64_t (*next_id)(void *payload); /* number of the next export; NULL: the largest + 1 */
    void *payload;
    bool timestamped;         /* numbers are seconds since 1970, but larger than those there are */
    const char *subdirectory; /* folder in BASE-N that contains the export; only this folder is
                                 removed when there are too many. NULL: none. ET_ECONFIG: "", or a
                                 path outside BASE-N */
} et_exports_options;

/* base_name: paths have it without "//", "." and ".." (which stays after a symbolic link).
 * max_to_keep: keep the exports with the largest numbers; negative: all. Texts are copied; options
 * may be NULL. ET_ECONFIG: max_to_keep is 0. */
ET_API int et_exports_open(et_exports **out, const char *base_name, int64_t max_to_keep,
                           const et_exports_options *options, et_error *error);
ET_API void et_exports_close(et_exports *self); /* NULL allowed */

/* Path of the next export, "BASE-3/sub": another in each call. Borrowed until the next call. */
ET_API int et_exports_next_name(et_exports *self, const char **name, et_error *error);
/* Adds the paths of all exports to list, by number. */
ET_API int et_exports_managed(const et_exports *self, et_value *list, et_error *error);
/* Removes exports beyond max_to_keep. */
ET_API int et_exports_clean_up(et_exports *self, et_error *error);

/* Exports the weights of the store and settings under the next name: weights.safetensors, for
 * et_checkpoint_load_weights, and settings.json. The export becomes visible when it is complete. */
typedef struct et_export_action {
    et_action action;
    et_action_class kind;
    et_exports *exports;
    const et_params *params;
    const et_value *settings;              /* a dict; NULL: not written */
    et_optimizer *optimizer;               /* export its average; NULL: the weights of the store */
    const struct et_export_module *module; /* (model_export.h) exported as model.onnx; NULL: none */
} et_export_action;

ET_API void et_export_action_init(et_export_action *self, const char *name, et_exports *exports,
                                  const et_params *params, const et_value *settings);

/* Exports now. *path is borrowed until the next export. */
ET_API int et_export_now(et_export_action *self, int64_t step, const char **path, et_error *error);

/* The same for the average that an optimizer keeps of these params, as in Model Garden's
 * EMACheckpointing. There it is an evaluation action with base name
 * "MODEL_DIR/ema_checkpoints/average_weights", max_to_keep 1 and the next_id below. The store's
 * weights do not change by a bit. ET_EUSAGE: the optimizer keeps no average. */
ET_API int et_average_export_init(et_export_action *self, const char *name, et_exports *exports,
                                  et_optimizer *optimizer, et_params *params,
                                  const et_value *settings, et_error *error);

/* et_exports_options.next_id as the number of an optimizer's updates; payload: the et_optimizer. */
ET_API int64_t et_exports_by_iterations(void *optimizer);

/* ---- exports of checkpoints ---- */

/* Updates exports to match the checkpoints that a run keeps. A checkpoint without export gets
 * BASE-STEP from its file, with its average if it has one. An export whose checkpoint is gone is
 * removed. max_to_keep and next_id are ignored. Any process may call this function, unlike Model
 * Garden's SavedModelCheckpointManager. Checkpoints of an interruption are not exported. */
ET_API int et_exports_follow(et_exports *self, const char *model_dir, const et_value *settings,
                             et_error *error);

/* The same as an action. model_dir and settings are borrowed. */
typedef struct et_checkpoint_export {
    et_action action;
    et_action_class kind;
    et_exports *exports;
    const char *model_dir;
    const et_value *settings;
} et_checkpoint_export;

ET_API void et_checkpoint_export_init(et_checkpoint_export *self, const char *name,
                                      et_exports *exports, const char *model_dir,
                                      const et_value *settings);

/* Waits for an export with a number above `after`. *id: the lowest such number, so no export is
 * skipped; -1: none within `seconds`. *path (NULL allowed): its path, borrowed until the next call
 * of this function or of next_name; NULL: none. Another process may write the exports. */
ET_API int et_exports_wait(et_exports *self, int64_t after, double seconds, int64_t *id,
                           const char **path, et_error *error);

#endif
