/* The tabular task, for its own files: tabular_task.c (the class), files.c (schema, metadata and
 * features), tabular_setup.c (rows and the split), mix.c (several tables by weight), fit.c (values
 * from the training rows), losses.c, rare.c, tabular_validate.c. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_TASK_PRIVATE_H
#define ETUDE_TASKS_TABULAR_TABULAR_TASK_PRIVATE_H

#include <etude/class_scores.h>

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "data/table/table.h"
#include "engine/exec/device.h"
#include "tasks/tabular/networks/pack_ensemble.h"
#include "tasks/tabular/table_texts.h"
#include "tasks/tabular/tabular_task.h"

/* Variables of a model's target. */
#define ET_TABULAR_TARGET_SCOPE "target"
#define ET_TABULAR_MEAN         "mean"
#define ET_TABULAR_DEVIATION    "deviation"
#define ET_TABULAR_CLASS_WEIGHT "weight"

/* The output of a pack's validation: predictions of its members (pack/pack_ensemble.h). */
#define ET_TABULAR_MEMBERS "members"

/* The results of a validation, row by row; room for the largest set. */
typedef struct et_tabular_seen {
    int set;             /* number of the validation data that are on */
    int64_t rows, width; /* of them; of an output */
    int64_t targets;     /* of a row: the width, but for classes and quantiles */
    float *output;       /* [rows, width], of classes */
    int32_t *class;      /* [rows], of classes */
    double *value;       /* [rows, width], of others: those predicted */
    double *written;     /* [rows, targets], of others: those of the file */
    double *weight;      /* [rows]: 1 where the row has been seen */
    int64_t members;     /* numbers of a row of a pack's members; 0: no pack */
    float *member;       /* [rows, members]: ET_TABULAR_MEMBERS */
} et_tabular_seen;

/* Lines about plainly bad results (targets/verdict.c). */
typedef struct et_tabular_verdict {
    et_strbuf best, last; /* of the best validation so far, of the last one; owned */
    double value; /* of the class's best_metric, of the best validation; negative of a loss */
    bool judged;  /* there was a validation */
} et_tabular_verdict;

struct et_tabular_task;

/* How rows are scored by a program that wants more than the scores. */
typedef struct et_tabular_scoring {
    double threshold;    /* of et_class_predictions; 0: none */
    const double *costs; /* the same; borrowed. NULL: none */
    /* Gets the rows of each set once they are scored, also of a set without a name; NULL: nobody
     * does. The rows are complete on every rank. */
    int (*scored)(void *payload, const struct et_tabular_task *task, et_error *error);
    void *payload;
} et_tabular_scoring;

/* One of the texts that say what the table is (table_texts.h). */
typedef struct et_tabular_file {
    char *path;        /* in the run's directory */
    uint64_t checksum; /* of its bytes */
    bool made;         /* now: the run had none */
} et_tabular_file;

/* For each part of a mix: its first file, an index of paths; the row after its last one. */
typedef struct et_tabular_ranges {
    size_t file[ET_TABULAR_MIX_MAX];
    int64_t end[ET_TABULAR_MIX_MAX];
} et_tabular_ranges;

typedef struct et_tabular_task {
    et_task task;
    et_tabular_options options;
    et_task_context context;
    et_arena arena;
    const char **missing; /* of rows, ended by NULL; owned. NULL: the usual */
    et_strings paths, other_paths[ET_TABULAR_SETS_MAX]; /* files of training and validation; in
                                                           arena */
    char delimiter;                                     /* of the training files; 0: not known */
    et_csv_known known;                                 /* by it, of the rows of other files */
    et_tabular_ranges mix;
    et_tabular_file file[ET_TABLE_TEXTS];
    et_table_texts texts; /* owned, as all below */
    et_encoder *encoder;
    et_tabular_target target;
    et_samples *table, *other[ET_TABULAR_SETS_MAX]; /* rows of the training files, of the validation
                                                       files; or NULL */
    et_samples *training;                           /* those of them that are learnt from */
    et_samples *validation[ET_TABULAR_SETS_MAX];    /* [validations] that are scored */
    int validations;                                /* 0: none; above 1: those of sets */
    uint32_t *validated; /* [validation[0]->count]: their rows of table; NULL: of other files */
    et_tabular_seen seen;
    et_tabular_scoring scoring;
    et_tabular_verdict verdict;
    bool has_rates; /* an optimizer has the rates of a pack's members */
    et_pack_part part;
    struct et_tabular_other *others; /* a list */
} et_tabular_task;

/* Data that were opened by other settings than the task's; closed with it, as sources borrow them.
 */
typedef struct et_tabular_other {
    struct et_tabular_other *next;
    et_arena arena; /* of the settings */
    et_tabular_data data;
    et_samples *rows; /* NULL: the task's own */
} et_tabular_other;

/* In order: tabular_setup.c, files.c, tabular_setup.c; and closing each, in any state. */
int et_tabular_find_files(et_tabular_task *task, et_error *error);
int et_tabular_open_files(et_tabular_task *task, et_error *error);
int et_tabular_open_rows(et_tabular_task *task, et_error *error);
void et_tabular_close_rows(et_tabular_task *task);
void et_tabular_close_files(et_tabular_task *task);

/* mix.c, in this order: the files of all parts become task->paths; the parts' ranges in their table
 * are found; the training data become a mix of the rows that are learned (folds.h; NULL: all). */
int et_tabular_find_mix(et_tabular_task *task, et_error *error);
void et_tabular_find_ranges(et_tabular_task *task, const et_samples *table);
int et_tabular_mix(et_tabular_task *task, const unsigned char *side, et_error *error);

/* tabular_setup.c: batches of the opened rows. Validation: *out NULL: no set has this number. */
int et_tabular_batches(et_tabular_task *task, bool training, int number, et_source **out,
                       et_error *error);

/* tabular_setup.c: method build_inputs. */
int et_tabular_build_inputs(et_task *self, const et_data_config *params,
                            const et_input_context *part, et_source **out, et_error *error);
void et_tabular_close_others(et_tabular_task *task);

/* fit.c: before the first step of a new run. A variable of the target, by one of the names above;
 * NULL: the model has none. */
int et_tabular_fit(et_tabular_task *task, et_params *params, et_error *error);
float *et_tabular_variable(et_params *params, const char *name);

/* rare.c: warns of classes that no row is learned or scored of. */
int et_tabular_tell_rare(const et_tabular_task *task, et_error *error);

/* targets/verdict.c. judge: appends lines about scored rows. judge_best: after each validation.
 * verdict_of: method verdict. */
int et_tabular_judge(et_strbuf *out, const et_tabular_task *task, const et_tabular_seen *seen,
                     et_error *error);
int et_tabular_judge_best(et_tabular_task *task, const et_value *logs, et_error *error);
const char *et_tabular_verdict_of(et_task *self, bool best);
/* folds/copies.c: warns of validation rows that are training rows as well. part: [rows of
 * task->table], of folds (folds.h); NULL: training and validation are open. In an evaluation of
 * other files, reads the training files by options if they have at most 256 MiB. */
int et_tabular_tell_copies(const et_tabular_task *task, const unsigned char *part,
                           const et_table_samples_options *options, et_error *error);

/* The unit of a number of an output: that of its target. */
et_target_unit et_tabular_unit(const et_tabular_task *task, int64_t column);

/* targets/target_scores.c */
/* The positive one of two classes, for precision, recall and f1: 0 or 1. label: [classes]. */
int et_tabular_positive(const char *const *label, int classes);
/* That of the target of a task. */
int et_tabular_asked_for(const et_tabular_task *task);
/* Scored rows of classes; arrays are seen's. */
et_class_predictions et_tabular_predictions_of(const et_tabular_task *task,
                                               const et_tabular_seen *seen);

/* tabular_validate.c */
int et_tabular_open_seen(et_tabular_task *task, et_error *error);
void et_tabular_close_seen(et_tabular_seen *seen);
bool et_tabular_kept(et_task *self, int number, et_kept_rows *rows);
int et_tabular_process_metrics(et_task *self, const et_task_step *now, et_error *error);
int et_tabular_validate(et_task *self, int64_t step, et_value *logs, et_error *error);
/* After an evaluation of a pack: seen gets predictions of each row by an ensemble that other rows
 * choose (et_pack_cross_fit). Other models: no change. */
int et_tabular_cross_fit(et_tabular_task *task, et_error *error);
int et_tabular_validation_outputs(et_task *self, const et_task_step *now, et_value *logs,
                                  et_error *error);
int et_tabular_aggregate(et_task *self, et_value *state, const et_value *step_outputs,
                         et_error *error);
int et_tabular_reduce(et_task *self, const et_value *aggregated_logs, int64_t step,
                      et_value *results, et_error *error);

#endif
