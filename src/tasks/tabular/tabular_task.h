/* The struct of the tabular task, for its rooms: its settings, files, rows and target, the results
 * of a validation. setup/ opens it. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_TASK_H
#define ETUDE_TASKS_TABULAR_TABULAR_TASK_H

#include <etude/experiment.h>
#include <etude/group.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "data/table/features/encoder.h"
#include "data/table/table.h"
#include "engine/exec/device.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/tabular_options.h"

/* The output of a trained model (et_output), float32. Classes: probabilities [rows, classes].
 * Several targets of two classes: the probability of yes, [rows, targets]. Numbers: values [rows,
 * targets] in the encoder's unit of the target (et_encoder_unit). Quantiles: the same, [rows,
 * levels], ascending. */
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

/* The target of the model and its loss. */
typedef struct et_tabular_target {
    const struct et_target_kind *kind; /* target/target.h */
    const et_encoded_field *field;     /* the encoder's */
    int64_t width;                     /* numbers of the output for a row */
    int64_t logits; /* numbers of a model for a row: the width, but 1 of a binary loss of classes */
    int64_t targets; /* numbers of a row of the data: the width, but 1 of classes and quantiles */
    int classes;     /* 0: labels or numbers */
    int labels;      /* targets of two classes each; 0: classes or numbers */
    int64_t values;  /* numbers; 0: classes or labels */
    int quantiles;   /* quantiles of the number; 0: its mean, or as the loss defines */
    int middle;      /* of quantiles: the level next to 1/2, the first of equals */
    double level[ET_TABULAR_QUANTILES_MAX]; /* [quantiles], ascending */
    const char *weight;                     /* the field of the rows' weights; NULL: all are 1 */
} et_tabular_target;

/* The results of a validation, row by row; room for the largest set. */
typedef struct et_validation_rows {
    int set;             /* number of the validation data that are on */
    int64_t rows, width; /* of them; of an output */
    int64_t targets;     /* of a row: equals width, except for classes and quantiles */
    float *output;       /* [rows, width], of classes */
    int32_t *class;      /* [rows], of classes */
    double *value;       /* [rows, width], of other targets: predicted values */
    double *written;     /* [rows, targets], of other targets: values in the file */
    double *weight;      /* [rows]: 0: the row has no result yet */
    int64_t members;     /* numbers of a row of a pack's members; 0: no pack */
    float *member;       /* [rows, members]: ET_TABULAR_MEMBERS */
} et_validation_rows;

/* Lines about plainly bad results (target/target.h). */
typedef struct et_tabular_verdict {
    et_strbuf best, last; /* of the best validation so far, of the last one; owned */
    double value; /* of the class's best_metric, of the best validation; negative of a loss */
    bool judged;  /* a validation has set the members above */
} et_tabular_verdict;

/* The members of a pack that are trained: all, until one is done. */
typedef struct et_pack_part {
    bool *which;     /* [members], owned, as group; NULL: all */
    et_group *group; /* their parameters; NULL: of all */
} et_pack_part;

struct et_tabular_task;

/* How rows are scored by a program that wants more than the scores. */
typedef struct et_tabular_scoring {
    double threshold;    /* of et_class_predictions; 0: not set */
    const double *costs; /* of et_class_predictions; borrowed. NULL: not set */
    /* Gets the rows of each set once they are scored, also of a set without a name; NULL: nobody
     * does. The rows are complete on every rank. */
    int (*scored)(void *payload, const struct et_tabular_task *task, et_error *error);
    void *payload;
} et_tabular_scoring;

/* A file that describes the table (table_files.h). */
typedef struct et_tabular_file {
    char *path;        /* in the run's directory; in arena */
    uint64_t checksum; /* of its bytes */
    bool made;         /* this start made the file, because the run had none */
} et_tabular_file;

/* For each part of a mix: its first file, an index of paths; the row after its last one. */
typedef struct et_tabular_ranges {
    size_t file[ET_TABULAR_MIX_MAX];
    int64_t end[ET_TABULAR_MIX_MAX];
} et_tabular_ranges;

typedef struct et_tabular_task {
    et_task task;
    et_task_class class; /* of task, with the metrics of the kind of target */
    et_tabular_options options;
    et_task_context context;
    et_arena arena;
    const char **missing; /* texts of missing values, ended by NULL; owned. NULL: the usual */
    et_strings paths;     /* files of training; in arena, as the next */
    et_strings validation_paths[ET_TABULAR_SETS_MAX];
    char delimiter;     /* of the training files; 0: not known */
    et_csv_known known; /* by the delimiter, for the validation files */
    et_tabular_ranges mix;
    et_tabular_file file[ET_TABLE_FILES];
    et_table_files texts; /* owned, as all below */
    et_encoder *encoder;
    et_tabular_target target;
    bool warned;       /* reading rows gave a warning */
    et_samples *table; /* rows of the training files; NULL: not read */
    et_samples *validation_tables[ET_TABULAR_SETS_MAX]; /* rows of the validation files; or NULL */
    et_samples *training;                               /* the rows of table that are learned */
    et_samples *validation[ET_TABULAR_SETS_MAX];        /* [validations] that are scored */
    int validations;                                    /* 0: no validation; above 1: one for each
                                                           set */
    uint32_t
        *validated; /* [validation[0]->count]: their rows of table; NULL: of validation files */
    et_validation_rows results;
    et_tabular_scoring scoring;
    et_tabular_verdict verdict;
    bool has_rates; /* an optimizer has the rates of a pack's members */
    et_pack_part part;
    struct et_tabular_input_table *input_tables; /* a list */
} et_tabular_task;

/* Of a task that et_tabular_task_open gave. */
static inline et_tabular_task *et_tabular_task_of(const et_task *task)
{
    return (et_tabular_task *)(void *)task;
}

/* Data that a program opened by its own settings. The task closes them, as sources borrow them. */
typedef struct et_tabular_input_table {
    struct et_tabular_input_table *next;
    et_arena arena; /* of the settings */
    et_tabular_data data;
    et_samples *rows; /* NULL: the task's own */
} et_tabular_input_table;

#endif
