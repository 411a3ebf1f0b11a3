/* Actions that are ready: under a condition, when a metric is a new best, exports (which rank 0
 * writes alone). When and what are apart, as in Orbit:
 *
 *     et_new_best_options best = { .metric = "accuracy", .filename = "runs/a/best_accuracy.json" };
 *     if (et_new_best_open(&new_best, &best, &error) ||
 *         et_exports_open(&exports, "runs/a/export", 5, NULL, &error)) ...
 *     et_export_action_init(&save_it, "export", exports, params, NULL);
 *     et_conditional_init(&when_best, "export_best", et_new_best_holds, new_best,
 *                         (et_action *[]){ &save_it.action }, 1);
 *     et_checkpoint_export_init(&follow, "follow", exports, "runs/a", NULL);    of each checkpoint
 *
 *     if (et_new_best_commit(new_best, logs, &is_new, &error) ||
 *         et_exports_next_name(exports, &name, &error) || et_exports_clean_up(exports, &error)) ...
 *
 * when_best.action is an evaluation action (outer_loop.h), or one of the program's own. To save
 * when a process is told to go there is run.stop, to save and go on run.save (run.h).
 *
 * Objects of a known size are the caller's and need no release; they stay where they are. Names are
 * those of actions in a run. One thread. */
#ifndef ETUDE_READY_ACTIONS_H
#define ETUDE_READY_ACTIONS_H

#include <etude/action.h>
#include <etude/optimizer.h>
#include <etude/params.h>

/* ---- conditions ---- */

typedef int et_condition_fn(void *payload, const et_moment *now, bool *holds, et_error *error);

typedef struct et_conditional {
    et_action action;
    et_action_class kind; /* with the name that this one has */
    et_condition_fn *condition;
    void *payload;
    et_action *const *actions; /* [count]; borrowed */
    int count;
} et_conditional;

/* Where the condition holds all actions act, in order; of several, only the first may be
 * interrupted. It is due where one of them is. */
ET_API void et_conditional_init(et_conditional *self, const char *name, et_condition_fn *condition,
                                void *payload, et_action *const *actions, int count);

/* ---- a new best ---- */

typedef struct et_new_best et_new_best;

typedef struct et_new_best_options {
    const char *metric; /* a value of logs, "accuracy"; nested: "sets|one|accuracy", or
                           with dots or slashes, where no value has that name */
    /* In place of it: the value itself. */
    int (*value)(void *payload, const et_value *logs, double *out, et_error *error);
    void *payload;
    bool lower_is_better;
    const char *filename; /* keeps the best, in JSON, from process to process; made with its
                             directories, replaced as a whole. NULL: it is forgotten */
    bool read_only;       /* the file is read and never written */
} et_new_best_options;

/* Before the first value the best is the worst finite number, or what the file says. */
ET_API int et_new_best_open(et_new_best **out, const et_new_best_options *options, et_error *error);
ET_API void et_new_best_close(et_new_best *self); /* NULL allowed */

/* Whether logs have a value that is better than the best, NaN never is; commit: it is the best from
 * then on, and durable. First test, then export, then commit: a kill in between costs an export
 * twice, and never one. ET_ECONFIG: logs have no such number. */
ET_API int et_new_best_test(const et_new_best *self, const et_value *logs, bool *is_new,
                            et_error *error);
ET_API int et_new_best_commit(et_new_best *self, const et_value *logs, bool *is_new,
                              et_error *error);

ET_API int et_new_best_metric(const et_new_best *self, const et_value *logs, double *out,
                              et_error *error);
ET_API double et_new_best_value(const et_new_best *self);

/* commit as a condition, as in Orbit: before the actions act, so that a best whose export fails or
 * is cut short is not exported again. Payload is the et_new_best; on other ranks than 0 no file is
 * written. */
ET_API int et_new_best_holds(void *new_best, const et_moment *now, bool *holds, et_error *error);

/* ---- exports ---- */

/* Names of exports: BASE-1, BASE-2, ... (Orbit's begin with BASE-0.) An entry of such a name is an
 * export, whatever it is: its number is not given out again, and it goes when it is one too many.
 * The actions below make directories, and leave alone what is no export of theirs. An export of
 * another process that has the same number and other weights is moved to "earlier-N" beside it. */
typedef struct et_exports et_exports;

typedef struct et_exports_options {
    int64_t (*next_id)(void *payload); /* NULL: one more than the largest there is */
    void *payload;
    const char *subdirectory; /* of BASE-N, in which exports lie, and which alone goes when one is
                                 too many; NULL: none. ET_ECONFIG: "", one that leads outside */
} et_exports_options;

/* max_to_keep: the newest by number; negative: all. ET_ECONFIG: 0, which would keep none. Texts are
 * copied, options may be NULL. */
ET_API int et_exports_open(et_exports **out, const char *base_name, int64_t max_to_keep,
                           const et_exports_options *options, et_error *error);
ET_API void et_exports_close(et_exports *self); /* NULL allowed */

/* Where the next one goes, "BASE-3/sub"; another name each time. Borrowed until the next call. */
ET_API int et_exports_next_name(et_exports *self, const char **name, et_error *error);

/* Adds the paths of all to list, by number. */
ET_API int et_exports_managed(const et_exports *self, et_value *list, et_error *error);

/* Removes those that are too many. */
ET_API int et_exports_clean_up(et_exports *self, et_error *error);

/* Weights as they are in the store, and settings, in the next name: weights.safetensors, which
 * et_checkpoint_load_weights reads, and settings.json. Visible when it is whole. */
typedef struct et_export_action {
    et_action action;
    et_action_class kind;
    et_exports *exports;
    const et_params *params;
    const et_value *settings; /* a dict; NULL: none are written */
    et_optimizer *optimizer;  /* its average is what is written; NULL: what the store shows */
} et_export_action;

ET_API void et_export_action_init(et_export_action *self, const char *name, et_exports *exports,
                                  const et_params *params, const et_value *settings);

/* The same of the average that an optimizer of these params keeps, as Model Garden's
 * EMACheckpointing: an evaluation action, with "MODEL_DIR/ema_checkpoints/average_weights" as base
 * name, of which 1 is kept, and next_id below. Weights are shown, not swapped: none changes by a
 * bit. ET_EUSAGE: it keeps none. */
ET_API int et_average_export_init(et_export_action *self, const char *name, et_exports *exports,
                                  et_optimizer *optimizer, et_params *params,
                                  const et_value *settings, et_error *error);

/* et_exports_options.next_id by an optimizer's updates; payload is the et_optimizer. */
ET_API int64_t et_exports_by_iterations(void *optimizer);

/* ---- exports of checkpoints ---- */

/* Makes exports agree with the checkpoints that a run keeps by now: of each that has none BASE-STEP
 * is made from its file, with its average where it has one, and an export whose checkpoint was
 * swept goes; max_to_keep and next_id do not count. As Model Garden's SavedModelCheckpointManager,
 * but that any process may do it. Checkpoints of an interruption have none. settings: as above. */
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

/* Waits for an export whose number is above `after`: *id is the lowest such, so none is passed
 * over, or -1 if none came within that many seconds. *path, of it, is borrowed until the next call
 * of this or of next_name; NULL: none, or not asked for. The exports may be another process's. */
ET_API int et_exports_wait(et_exports *self, int64_t after, double seconds, int64_t *id,
                           const char **path, et_error *error);

#endif
