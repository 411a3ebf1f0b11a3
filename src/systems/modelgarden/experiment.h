/* Experiments: named sets of settings. They are in the tables of a program's kinds of task
 * (<etude/experiment.h>). A run begins with an experiment; YAML files and single settings change
 * it.
 *
 *     et_experiment experiment;
 *     et_experiment_begin(&experiment, program, "rings/small", &arena, &error);
 *     et_experiment_read_file(&experiment, "mine.yaml", &arena, &error);
 *     et_experiment_set(&experiment, "trainer.train_steps=2000", &arena, &error);
 *     et_experiment_check(&experiment, &error);
 *     experiment.locked = true;
 *
 * The task's settings, strings and lists live in the arena: a copy of the struct shares them. */
#ifndef ETUDE_SYSTEMS_MODELGARDEN_EXPERIMENT_H
#define ETUDE_SYSTEMS_MODELGARDEN_EXPERIMENT_H

#include <etude/command.h>
#include <etude/controller.h>
#include <etude/task_trainer.h>

#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/identity.h"
#include "train/run/options.h"

/* All settings of a run, as in params.yaml. */
typedef struct et_experiment {
    const et_program *program;
    const et_task_kind *kind;   /* of the program's */
    const char *name;           /* of the kind's row */
    void *task;                 /* [kind->size] options of the task */
    et_trainer_options trainer; /* how */
    et_runtime_options runtime; /* on what */
    const et_fields *table;     /* of all settings: task, trainer, runtime */
    bool finetunes;             /* the kind's recipe of fine-tuning applies (recipe.h) */
    bool locked;                /* reading or setting more is ET_ECONFIG */
    const char *unknown_rule;   /* update rule of the program that made the run, unknown to this
                                   program; NULL: none */
    const char *source;         /* of et_experiment_set's texts, for messages (et_settings) */
    et_fields_given given;      /* the settings that people have put on top */
} et_experiment;

/* Checks that the program's kinds are complete, and that the names of kinds and experiments are
 * unambiguous. ET_EUSAGE. */
int et_program_check(const et_program *program, et_error *error);

/* File number i, from 0, of the files that a kind keeps in its runs; the name is in buffer or the
 * kind's own. The entry after the last has no name.
 *
 *     for (int i = 0; (file = et_kind_file(kind, i, buffer)).name; i++)
 */
et_run_file et_kind_file(const et_task_kind *kind, int i, char buffer[ET_RUN_FILE_NAME]);

/* Finds an experiment by its name, or by the part after the last "/" if that part is unique.
 * *number: index of its kind. NULL: no such experiment. */
const et_experiment_row *et_experiment_find(const et_program *program, const char *name,
                                            int *number);

/* Fills in an experiment's settings. ET_ECONFIG: no such name; the error suggests the nearest. */
int et_experiment_begin(et_experiment *experiment, const et_program *program, const char *name,
                        et_arena *arena, et_error *error);

/* Reads the name of the experiment from a settings file, into arena. NULL: the file names none. */
int et_experiment_named_in(const char **name, const et_program *program, const char *path,
                           et_arena *arena, et_error *error);

/* Puts a YAML file's settings on top. ET_ECONFIG: it names another experiment. */
int et_experiment_read_file(et_experiment *experiment, const char *path, et_arena *arena,
                            et_error *error);

/* Applies a text: assignments, a tree, or the name of a file (<etude/settings.h>). */
int et_experiment_set(et_experiment *experiment, const char *text, et_arena *arena,
                      et_error *error);

/* Sets one setting. name: the source of value, for messages. */
int et_experiment_assign(et_experiment *experiment, const char *name, const char *path,
                         const et_value *value, et_arena *arena, et_error *error);

/* The same for values that are words on the command line (et_field_read). */
int et_experiment_assign_typed(et_experiment *experiment, const char *name, const char *path,
                               const et_value *value, et_arena *arena, et_error *error);

/* Sets the batch size of training: batch, or the size in like's settings if like is not NULL; for
 * `train --memory`. ET_EUSAGE: the kind does not define which setting that is. */
int et_experiment_set_batch(et_experiment *experiment, const et_experiment *like, int64_t batch,
                            et_arena *arena, et_error *error);

/* Call after all settings are applied: replaces shorthand settings, such as the peak of a
 * schedule. */
int et_experiment_complete(et_experiment *experiment, et_error *error);

/* Checks that tables cannot make: settings without effect first, then the kind's restrictions. */
int et_experiment_check(const et_experiment *experiment, et_error *error);

/* Settings that are not given get the values of the existing run. */
int et_experiment_adopt(et_experiment *experiment, const et_experiment *kept, et_arena *arena,
                        et_error *error);

/* Replaces auto by bfloat16 if the CPU has products of bfloat16, else by float32. The run's
 * settings keep the result, so the run resumes with the same type on another machine. Returns
 * whether the type is bfloat16. */
bool et_experiment_resolve_precision(et_experiment *experiment);

/* Sets the members of context that settings have, with the precision resolved. */
void et_experiment_set_context(et_experiment *experiment, et_task_context *context);

/* The options of a trainer (except ranks and stopping). plan: the experiment's trainer settings,
 * whose schedules end with the run; out borrows it. */
int et_experiment_trainer_options(const et_experiment *experiment, const et_trainer_options *plan,
                                  et_task_trainer_options *out, et_error *error);

/* Sets the members of options that settings have: steps, intervals, checkpoints. plan: in steps.
 * options->run.best_metric is set already. */
void et_experiment_control(const et_trainer_options *plan, et_controller_options *options);

/* Writes all settings as YAML: experiment, task, trainer, runtime. */
int et_experiment_write(const et_experiment *experiment, const char *path, et_error *error);

/* The same as a tree in arena, which shares texts with the experiment; NULL: no memory. */
et_value *et_experiment_tree(const et_experiment *experiment, et_arena *arena);

/* Appends the same to a text. */
int et_experiment_print(const et_experiment *experiment, et_strbuf *text, et_error *error);

/* Reads the settings of a run or an export, as write has written them, and their experiment. */
int et_experiment_open_artifact(et_experiment *experiment, const et_program *program,
                                const et_artifact *artifact, et_arena *arena, et_error *error);
/* The same for a program of one kind, which reports a run of another kind as such. */
int et_experiment_open_own(et_experiment *experiment, const et_program *program,
                           const et_artifact *artifact, et_arena *arena, et_error *error);

/* As et_experiment_open_artifact; model_dir may be a file. */
int et_experiment_open_run(et_experiment *experiment, const et_program *program,
                           const char *model_dir, et_arena *arena, et_error *error);

/* Fails with ET_ENOTFOUND and the message for a run whose directory does not exist. */
int et_experiment_no_directory(const et_program *program, const char *name, et_error *error);

/* The kind that reads a model of another program (et_foreign_class); NULL: path is none. */
const et_task_kind *et_experiment_find_foreign(const et_program *program, const char *path);

/* Opens a run, an export or a model of another program, to use it; et_experiment_open_artifact
 * reads its settings. */
int et_experiment_open_model(et_artifact *artifact, const et_program *program, const char *path,
                             et_error *error);

/* The kind of such a model; fails as et_experiment_open_run. */
int et_experiment_find_kind(const et_task_kind **out, const et_program *program, const char *path,
                            et_error *error);

/* Reads settings from a text that write has written. path: for messages. */
int et_experiment_open_text(et_experiment *experiment, const et_program *program, const char *text,
                            const char *path, et_arena *arena, et_error *error);

/* A checkpoint's identity (train/checkpoint/identity.h), in arena: the settings that may not
 * change, and the values that own, usually the kind's method, adds for task. own NULL: only the
 * settings. */
int et_experiment_identify(et_value **out, const et_experiment *experiment,
                           int (*own)(const et_task *task, et_value *identity, et_error *error),
                           const et_task *task, et_arena *arena, et_error *error);

/* Checks that a run may resume with these settings: only settings that the tables allow to change
 * (fields.h) may differ. identity: of the newest checkpoint; its values have priority over kept;
 * NULL: none. ET_ECONFIG: the error names the first difference, with both values and the cure.
 * accept: settings that a person may change during a run (ET_CHANGE_ASK) give only a warning. */
int et_experiment_check_same(const et_experiment *kept, const et_experiment *now,
                             const et_identity *identity, const char *model_dir, bool accept,
                             et_error *error);

/* Checks that the settings next to a checkpoint describe its model. ET_ECONFIG as above. A
 * checkpoint without identity fits all settings. */
int et_experiment_check_model(const et_experiment *experiment, const et_identity *identity,
                              const char *model_dir, et_error *error);

#endif
