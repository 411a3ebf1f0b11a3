/* Experiments: a name for a whole set of settings. One explicit table; a run begins with one
 * of them, YAML files and single settings change it.
 *
 *     et_experiment experiment;
 *     et_experiment_begin(&experiment, "translation/tiny", &error);
 *     et_experiment_read_file(&experiment, "mine.yaml", &arena, &error);
 *     et_experiment_set(&experiment, "trainer.train_steps=2000", &arena, &error);
 *     et_experiment_check(&experiment, &error);
 *
 * Strings and lists of the settings live in the arena they were read into. */
#ifndef ETUDE_TASKS_EXPERIMENT_H
#define ETUDE_TASKS_EXPERIMENT_H

#include "tasks/translation/options.h"
#include "train/identity.h"
#include "train/options.h"

/* All settings of a run: what params.yaml holds. */
typedef struct et_experiment {
    const char *name;            /* of the table's row */
    et_translation_options task; /* what is learnt, from what */
    et_trainer_options trainer;  /* how */
    et_runtime_options runtime;  /* on what */
} et_experiment;

extern const et_fields et_experiment_fields;

/* A row of the table. */
typedef struct et_experiment_kind {
    const char *name;
    const char *help;                             /* a line for `etude list` */
    void (*configure)(et_experiment *experiment); /* on top of the fields' defaults */
} et_experiment_kind;

/* All experiments; *count of them. */
const et_experiment_kind *et_experiment_kinds(size_t *count);

/* Fills in an experiment's settings. ET_ECONFIG: no such name; names the nearest. */
int et_experiment_begin(et_experiment *experiment, const char *name, et_error *error);

/* The experiment that a settings file names, NULL if it names none; lives in arena. */
int et_experiment_named_in(const char **name, const char *path, et_arena *arena, et_error *error);

/* Puts a YAML file's settings on top. ET_ECONFIG: it names another experiment. */
int et_experiment_read_file(et_experiment *experiment, const char *path, et_arena *arena,
                            et_error *error);

/* Puts one "a.b.c=value" on top, or several with commas between (a comma separates only where a
 * dotted name and = come after it; within [], {} and quotes it never does), or "{a: {b: ...}}". */
int et_experiment_set(et_experiment *experiment, const char *assignment, et_arena *arena,
                      et_error *error);

/* What tables cannot check, for all parts. */
int et_experiment_check(const et_experiment *experiment, et_error *error);

/* The whole of it as YAML: experiment, task, trainer, runtime. */
int et_experiment_write(const et_experiment *experiment, const char *path, et_error *error);

/* Reads what write wrote: the settings of a run. */
int et_experiment_open_run(et_experiment *experiment, const char *model_dir, et_arena *arena,
                           et_error *error);

/* What a checkpoint keeps of a run to know it by (train/identity.h): the settings that may not
 * change, and the checksums of vocabulary and encoded text. *out lives in arena. */
int et_experiment_identity(et_value **out, const et_experiment *experiment, uint64_t vocabulary,
                           uint64_t text, et_arena *arena, et_error *error);

/* Whether a run's settings may go on under these: the model, its data's filter, vocabulary,
 * optimizer, seed and precision must be the same (the text itself is compared by its content, when
 * a position in it is restored). identity: of the newest checkpoint, which is believed before
 * kept; NULL: none. ET_ECONFIG names the first that differs, with both values and the cure.
 * accept: what a person may want to change in mid-run (optimizer, learning rate, dropout, label
 * smoothing) is a warning only. */
int et_experiment_check_same(const et_experiment *kept, const et_experiment *now,
                             const et_identity *identity, const char *model_dir, bool accept,
                             et_error *error);

/* Whether the settings beside a checkpoint describe its model. ET_ECONFIG as above. One without an
 * identity fits all; so it does for the next. */
int et_experiment_check_model(const et_experiment *experiment, const et_identity *identity,
                              const char *model_dir, et_error *error);

/* Whether a vocabulary of this checksum, which is path, is the checkpoint's. */
int et_experiment_check_vocabulary(uint64_t vocabulary, const et_identity *identity,
                                   const char *path, et_error *error);

#define ET_EXPERIMENT_FILE "params.yaml"

#endif
