/* The predictor of rows, beyond <etude/predictor.h>. All predictions of tables are made here: those
 * of `predict`, `serve`, `explain`, model objects and programs.
 *
 *   cells of a row --et_predictor_put--> a place of the batch      a bad row has no result
 *   the batch      --et_predictor_run--> outputs by place          also of a pack: its ensemble
 *   a place        --et_predictor_check, et_predictor_values--> a result
 *
 * Users have a loop of these three calls, and decide where rows come from, what a bad row means and
 * how a result looks:
 * - row_filter (prediction_lines.h): rows of a file or stream to lines, on several threads;
 * - predictions: rows of a program to objects;
 * - the service of `serve`: rows of several requests at once to answers;
 * - explain: its rows with changed cells to scores. */
#ifndef ETUDE_TASKS_TABULAR_PREDICT_PREDICT_H
#define ETUDE_TASKS_TABULAR_PREDICT_PREDICT_H

#include <etude/model_builder.h>
#include <etude/predictor.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "data/table/features/encoder.h"
#include "data/table/rows/csv.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/artifact/artifact.h"

/* ---- directories and predictors ---- */

#define ET_PREDICTOR_BATCH     256
#define ET_PREDICTOR_BATCH_MAX 1048576

/* The contents of a directory: read once, then shared by predictors, which only read them. */
typedef struct et_table_model {
    et_arena arena;
    const char *directory; /* or the file; in arena */
    et_artifact_file
        text[ET_TABLE_MODEL_FILES]; /* as they were read; bytes are owned, as the next */
    et_table_files texts;
    et_encoder *encoder;
    char *checkpoint;
    int64_t step;
    const et_value *identity; /* of the checkpoint; NULL: it has none; in arena */
    bool live_weights;
    et_target_unit *units; /* [unit_count], of values in their own units; in arena */
    int64_t unit_count;    /* 0: values are as the graph gives them */
    bool bfloat16;         /* as it was trained */
    et_params *params;     /* a builder's own: borrowed */
    /* Adds the nodes of prediction, over batches of the encoder's fields but targets. */
    et_build_fn *build;
    void *payload;
    /* of a run of the command */
    et_experiment experiment; /* kind NULL: a builder's */
    et_tabular_target target;
    et_strings levels; /* names of quantiles, "0.1"; none: no quantiles; in arena */
    bool *chosen;      /* [members] of a pack that are in its ensemble; in arena. NULL: no pack */
    const char **missing; /* ended by NULL; owned. NULL: the usual */
    et_csv_options csv;   /* reads rows as in training: missing, comment, and a delimiter that
                             would not be found */
    et_csv_known known;   /* of csv: the delimiter that training found */
    /* of a job */
    const et_model_builder_class *kind;
    et_arguments *arguments;
    et_table_set *dataset;
    et_model_builder *builder; /* of its class's size */
} et_table_model;

struct et_predictor {
    et_table_model *model;
    bool shares; /* the model is another's */
    bool lenient;
    int64_t batch_size;
    et_arena arena;    /* of the arrays */
    et_layout *layout; /* of batches */
    int *index;        /* [fields of the encoder]: in the layout; -1: a target */
    et_device *device;
    et_pass *pass;
    et_batch *batch;
    void **to;    /* [fields of the encoder]: destination of the next row */
    size_t *size; /* [the same]: bytes of an item */
    et_table_output output[ET_NODES_MAX];
    const float *values[ET_NODES_MAX]; /* of output i [batch_size, width]; of the last run */
    int outputs;
    const et_encoded_field *field; /* the target; NULL: none */
    const et_target_kind *kind;    /* of the target; NULL: the target has no output */
    int target;                    /* index of the target's output; -1: none */
    int classes;                   /* 0: the target is of another kind */
    const char *const *labels;     /* [classes]; the encoder's */
    et_table_facts facts;
};

/* Predictors of one model, one for each thread. They share the weights of the first. */
#define ET_PREDICTORS_MAX 64

typedef struct et_predictors {
    int count;
    et_predictor *each[ET_PREDICTORS_MAX];
} et_predictors;

/* Opens at most `threads` predictors. model_dir, options: as et_predictor_open. Close even after a
 * failure. */
int et_predictors_open(et_predictors *all, const char *model_dir,
                       const et_predictor_options *options, int threads, et_error *error);
void et_predictors_close(et_predictors *all);

/* Puts a row at place `at`, below batch_size; cells as for et_encoder_row. Run computes all rows;
 * outputs are valid until the next run. */
int et_predictor_put(et_predictor *predictor, int64_t at, const et_cell *cells, const char *where,
                     et_error *error);
int et_predictor_run(et_predictor *predictor, int64_t count, et_error *error);
const float *et_predictor_values(const et_predictor *predictor, int output, int64_t at);
/* The unit of number i of an output; NULL: the number has no other unit than in the graph. */
const et_target_unit *et_predictor_unit(const et_predictor *predictor, int output, int64_t i);
/* Value i of an output, in the unit of the target in the file. */
double et_predictor_value(const et_predictor *predictor, int output, int64_t at, int64_t i);
/* Checks the outputs of row `at` of the last run. ET_EDATA: an output is not finite, because inputs
 * far from the training data overflow inside the model. where: NULL, or a prefix. */
int et_predictor_check(const et_predictor *predictor, int64_t at, const char *where,
                       et_error *error);
/* A hint at a column of the model with a similar name. read: only columns that the model reads. */
et_hint et_predictor_hint(const et_predictor *predictor, const char *name, bool read);
/* The cell of the model's key; NULL: the model has no key. */
const et_cell *et_predictor_key(const et_predictor *predictor, const et_cell *cells);

#endif
