/* The tabular task: from a table to a trained model of its target.
 *
 * Opening finds schema, metadata and features (named by the settings, the run's own, or inferred
 * from the training data), stores them in the run, reads the rows, and splits off the held-out
 * rows. Validation gives the scores of <etude/class_scores.h> in addition to the loss. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_TASK_H
#define ETUDE_TASKS_TABULAR_TABULAR_TASK_H

#include <etude/experiment.h>

#include "data/table/features/encoder.h"
#include "data/table/table.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/tabular_options.h"
#include "train/checkpoint/artifact/artifact.h"

/* The output of a trained model (et_output): for classes probabilities, float32 [rows, classes];
 * for several targets of two classes that of yes, float32 [rows, targets]; for numbers values in
 * the encoder's unit of the target (et_encoder_unit), float32 [rows, targets]; for quantiles the
 * same, float32 [rows, levels], none below the one before. */
#define ET_TABULAR_SCORES    "scores"
#define ET_TABULAR_VALUES    "values"
#define ET_TABULAR_QUANTILES "quantiles"

/* Values of validation: the scores of <etude/class_scores.h> with a prefix. For classes also the
 * log loss, as scikit-learn has it: lower is better. */
#define ET_TABULAR_LOG_LOSS ET_LOGGED_OF_VALIDATION "log_loss"

/* Scores of quantiles: the pinball loss (mean over levels), and d2_pinball_score of scikit-learn: 1
 * - loss / loss of a constant prediction, the quantiles of the targets. */
#define ET_TABULAR_PINBALL ET_LOGGED_OF_VALIDATION "pinball_loss"
#define ET_TABULAR_D2      ET_LOGGED_OF_VALIDATION "d2_pinball"

/* What the model and its loss are about, beside the settings. */
typedef struct et_tabular_target {
    const char *field; /* of the encoder's layout; borrowed */
    int classes;       /* 0: labels or numbers */
    int labels;        /* targets of two classes each; 0: classes or numbers */
    int64_t values;    /* numbers; 0: classes or labels */
    int quantiles;     /* of the number; 0: its mean, or what the loss makes of it */
    double level[ET_TABULAR_QUANTILES_MAX]; /* [quantiles], ascending */
    const char *weight;                     /* the field of the rows' weights; NULL: all are 1 */
} et_tabular_target;

/* ET_ECONFIG: the features have no target, or more than one feature of that type, or not the
 * weight; the loss of the settings is for the other kind. */
int et_tabular_target_of(et_tabular_target *target, const et_tabular_options *options,
                         const et_encoder *encoder, et_error *error);

/* Numbers of the output for a row, and its name. */
int64_t et_tabular_output_width(const et_tabular_target *target);
const char *et_tabular_output_name(const et_tabular_target *target);

/* Adds the model to a scope, for batches of the encoder's layout (targets are not read), and its
 * outputs with the names above. Returns the node for et_tabular_build_loss. which: [members] of a
 * pack that the graph has: in training those that are not done, in prediction those of the
 * ensemble; NULL: all. */
et_node *et_tabular_build_outputs(et_scope *scope, const et_tabular_options *options,
                                  const et_encoder *encoder, const et_tabular_target *target,
                                  const bool *which);

/* The same output of a graph of training, of its z, for metrics of a program. */
void et_tabular_name_output(et_scope *scope, const et_tabular_options *options,
                            const et_tabular_target *target, et_node *z);
void et_tabular_build_loss(et_scope *scope, const et_tabular_options *options,
                           const et_tabular_target *target, et_node *labels, et_node *outputs);

/* How files are read, by the settings; without paths. */
et_table_samples_options et_tabular_table_options(const et_tabular_options *options,
                                                  const char *const *missing);

/* The delimiter of a model's training files, by the identity of its checkpoint, which may be NULL;
 * 0: it is not known. */
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

#endif
