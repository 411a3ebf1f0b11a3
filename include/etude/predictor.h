/* Using a trained model of tables: open, predict, close. No training code runs.
 *
 *     et_predictor *p;
 *     et_predictions *found;
 *     const char *rows[] = { "5.1,3.5,1.4,0.2", "6.2,2.8,4.8,1.8" };
 *     if (et_predictor_open(&p, "runs/iris", NULL, &error)) ...
 *     if (et_predictor_predict(p, rows, 2, &found, &error)) ...
 *     for (size_t i = 0; i < 2; i++)
 *         puts(et_predictions_at(found, i).label);
 *     et_predictions_free(found);
 *     et_predictor_close(p);
 *
 * The prediction of a row does not depend on the call, on the other rows or on the number of
 * threads. Use a predictor from one thread at a time. For more threads, open more predictors with
 * `.shares = first`: they share the weights, and are closed before the first. The stacks of calling
 * threads and of OpenMP's threads must have at least 256 KB, else ET_EUSAGE.
 *
 * fork(): a child may use its parent's predictor. In the child, the thread that called fork()
 * computes with one thread, with the same bits. Call fork() while no thread is in a call of the
 * library. */
#ifndef ETUDE_PREDICTOR_H
#define ETUDE_PREDICTOR_H

#include <etude/feature_set.h>

typedef struct et_predictor et_predictor;
typedef struct et_predictions et_predictions;
struct et_model_builder_class;

typedef struct et_predictor_options {
    const char *checkpoint;     /* a file; NULL: the best, or the newest if there is no best */
    bool live_weights;          /* use the trained weights even if there are averaged weights */
    int64_t batch_size;         /* rows that are computed together, up to 1,048,576; 0: 256 */
    const et_predictor *shares; /* use the model and weights of this predictor; NULL: load them */
    const struct et_model_builder_class
        *builder; /* class of the builder that built the model, from the program that trained it;
                     NULL: the model is one of the library's */
} et_predictor_options;

/* model_dir: a run of `etude train`, an export (a directory or one file), or the directory `model`
 * of a job (model_trainer.h). With `shares` it must be NULL, and only batch_size may differ.
 * options NULL: the defaults. ET_ENOTFOUND: no checkpoint yet. ET_ECONFIG: the model is of another
 * kind of task, or needs a builder that was not given. */
ET_API int et_predictor_open(et_predictor **out, const char *model_dir,
                             const et_predictor_options *options, et_error *error);
/* The same from the bytes of an export in one file; borrowed only during the call. */
ET_API int et_predictor_open_memory(et_predictor **out, const void *bytes, size_t length,
                                    const et_predictor_options *options, et_error *error);
ET_API void et_predictor_close(et_predictor *predictor); /* NULL allowed */

/* The prediction of a row. Borrowed from the predictions; all NULL and 0 for a row that failed. */
typedef struct et_prediction {
    const char *label;          /* the most likely label; NULL: the model predicts numbers, or has
                                   several targets */
    int label_index;            /* position among the labels; -1: none */
    const char *key;            /* value of the row's key feature; NULL: the model has no key */
    const float *const *output; /* [outputs]: values of each output, rounded to
                                   float32 */
    const char *failure;        /* line, column, value and reason; NULL: no failure */
} et_prediction;

/* Predicts rows of CSV. Each row is a text without line end, with values in the schema's order,
 * with or without the targets. ET_EDATA: the error names the first row that cannot be predicted; a
 * lenient predictor puts the failure into the row's prediction instead. ET_EUSAGE: predictor is
 * NULL. On failure *out is NULL. */
ET_API int et_predictor_predict(et_predictor *predictor, const char *const *rows, size_t count,
                                et_predictions **out, et_error *error);

/* A cell of a row, with the name of its column. text NULL: missing. */
typedef struct et_named_cell {
    const char *column, *text;
} et_named_cell;

/* Predicts rows of cells_a_row cells each, in any order, one row after another. Columns without a
 * cell are missing; targets need no cell. ET_ECONFIG: no such column; the error suggests the
 * nearest. */
ET_API int et_predictor_predict_cells(et_predictor *predictor, const et_named_cell *cells,
                                      size_t cells_a_row, size_t count, et_predictions **out,
                                      et_error *error);

/* lenient: from now on a bad row does not fail the call; its prediction has the failure. */
ET_API void et_predictor_set_lenient(et_predictor *predictor, bool lenient);

ET_API size_t et_predictions_count(const et_predictions *predictions);
ET_API et_prediction et_predictions_at(const et_predictions *predictions, size_t row);
/* Values of an output [width] as doubles: float32 cannot represent a prediction
 * such as 1,000,000,007,762.1. Borrowed from the predictions. NULL: the row failed, or no such row
 * or output. */
ET_API const double *et_predictions_values(const et_predictions *predictions, size_t row,
                                           int output);
ET_API void et_predictions_free(et_predictions *predictions); /* NULL allowed */

typedef struct et_table_output {
    const char *name; /* "scores": probabilities of the labels, or of several targets with two
                         classes each; "values": numbers; "quantiles" */
    int64_t width;    /* values for each row */
    const char *const *value;  /* [width]: the label, the target or the level ("0.1") of each value;
                                  NULL: values have no names */
    const char *const *choice; /* [2 width]: of several targets with two classes each the labels of
                                  no and yes; a value above 1/2 is yes. NULL: of other outputs */
} et_table_output;

typedef struct et_table_facts {
    const et_table_output *output; /* [outputs], sorted by name */
    int outputs;
    const char *const *label; /* [labels] */
    int labels;               /* 0: the model predicts numbers, or has several targets */
    const et_schema *schema;
    const char *checkpoint; /* path of the checkpoint in use */
    int64_t step;           /* of this checkpoint */
} et_table_facts;

/* Facts about the model, borrowed from the predictor. */
ET_API const et_table_facts *et_predictor_facts(const et_predictor *predictor);

/* Writes all that prediction needs, and nothing else: schema, metadata, features, settings and the
 * weights in use. The target is a directory, which is made if missing, or one file if path ends in
 * ".safetensors". et_predictor_open opens both. ET_ECONFIG: the directory has a run or other files.
 * options (model_export.h): narrower weights, other formats; NULL: the defaults. */
struct et_export_options;
ET_API int et_predictor_export(const et_predictor *predictor, const char *path,
                               const struct et_export_options *options, et_error *error);

#endif
