/* The tabular task: from a table to a trained model of its target.
 *
 * Opening finds schema, metadata and features (named by the settings, the run's own, or inferred
 * from the training data), stores them in the run, reads the rows, and splits off the held-out
 * rows. Validation gives the scores of <etude/class_scores.h> in addition to the loss. */
#ifndef ETUDE_TASKS_TABULAR_SETUP_SETUP_H
#define ETUDE_TASKS_TABULAR_SETUP_SETUP_H

#include "tasks/tabular/tabular_task.h"
#include "train/checkpoint/artifact/artifact.h"

/* How the settings ask files to be read; without paths. */
et_table_samples_options et_tabular_table_options(const et_tabular_options *options,
                                                  const char *const *missing);

/* The delimiter of a model's training files, from the identity of its checkpoint (NULL allowed); 0:
 * unknown. */
char et_tabular_delimiter_of(const et_value *identity);

/* Options and context are copied; everything they point to must outlive the task. */
int et_tabular_task_open(et_task **out, const et_tabular_options *options,
                         const et_task_context *context, et_error *error);
void et_tabular_task_close(et_task *task); /* NULL allowed */

/* Methods of the kind. */
int et_tabular_identify(const et_task *task, et_value *identity, et_error *error);
int et_tabular_belongs(const void *options, const char *model_dir, const et_identity *identity,
                       et_error *error);
/* The second, of an artifact (train/checkpoint/artifact/artifact.h). */
int et_tabular_belongs_in(const et_artifact *artifact, const et_identity *identity,
                          et_error *error);

/* Method validate: scores all rows of a validation, into logs. */
int et_tabular_validate(et_task *self, int64_t step, et_value *logs, et_error *error);
/* After an evaluation of a pack: its results get predictions of each row by an ensemble that other
 * rows choose (et_pack_cross_fit). Other models: no change. */
int et_tabular_cross_fit(et_tabular_task *task, et_error *error);

/* Whether an evaluation of the task uses RUN/out_of_fold.jsonl, because the run was trained on
 * folds and no file of rows is named. */
bool et_tabular_has_out_of_fold(const et_tabular_task *task);

#endif
