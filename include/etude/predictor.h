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
 * A row's prediction is the same in any call, beside any other rows and for any number of threads.
 * A predictor is used by one thread at a time; a thread more opens one more, which shares the
 * weights of the first and is closed before it. Threads that use one, and OpenMP's, have stacks of
 * 256 KB or more: else ET_EUSAGE.
 *
 * fork(): a child may use a predictor that its parent opened. The thread that called fork()
 * computes on one thread in the child, with the same bits. Call fork() while no thread is in a call
 * of the library. */
#ifndef ETUDE_PREDICTOR_H
#define ETUDE_PREDICTOR_H

#include <etude/feature_set.h>

typedef struct et_predictor et_predictor;
typedef struct et_predictions et_predictions;
struct et_model_builder_class;

typedef struct et_predictor_options {
    const char *checkpoint;     /* a file; NULL: the best one, or else the newest */
    bool live_weights;          /* not the averaged ones, where there are any */
    int64_t batch_size;         /* rows that are computed together, up to 1,048,576; 0: 256 */
    const et_predictor *shares; /* whose model and weights are used; NULL: its own */
    const struct et_model_builder_class
        *builder; /* of the program that trained the model, which has the graph; NULL: a model of
                     the library's own */
} et_predictor_options;

/* model_dir: a run of `etude train`, an export (a directory or one file), or the directory `model`
 * of a job (model_trainer.h); NULL of one that shares, whose options may differ in batch_size
 * alone. options NULL: the defaults. ET_ENOTFOUND: there is no checkpoint yet. ET_ECONFIG: it is a
 * model of another task, or of a builder that was not given. */
ET_API int et_predictor_open(et_predictor **out, const char *model_dir,
                             const et_predictor_options *options, et_error *error);
/* The same of the bytes of an export that is one file, which are borrowed for the call alone. */
ET_API int et_predictor_open_memory(et_predictor **out, const void *bytes, size_t length,
                                    const et_predictor_options *options, et_error *error);
ET_API void et_predictor_close(et_predictor *predictor); /* NULL allowed */

/* What of a row is predicted. Borrowed from the predictions; all NULL and 0 of a row that failed.
 */
typedef struct et_prediction {
    const char *label;          /* the likeliest one; NULL: numbers are predicted */
    int label_place;            /* among the labels; -1 */
    const char *key;            /* the row's key feature; NULL: the model has none */
    const float *const *output; /* [et_predictor_outputs]: values of each, rounded to float32 */
    const char *failure;        /* names line, column and value; NULL: there is none */
} et_prediction;

/* Rows of CSV, each a text without its line end, values in the schema's order with the targets or
 * without them, each row by itself. ET_EDATA names the first one that cannot be predicted; of a
 * lenient predictor its prediction has the failure. On failure there are no predictions. */
ET_API int et_predictor_predict(et_predictor *predictor, const char *const *rows, size_t count,
                                et_predictions **out, et_error *error);

/* A cell of a row, by the name of its column. text NULL: missing. */
typedef struct et_named_cell {
    const char *column, *text;
} et_named_cell;

/* Rows of so many cells each, in any order, one row behind another; columns that are not named are
 * missing, targets need no cell. ET_ECONFIG: no such column, the nearest is named. */
ET_API int et_predictor_predict_cells(et_predictor *predictor, const et_named_cell *cells,
                                      size_t cells_a_row, size_t count, et_predictions **out,
                                      et_error *error);

/* From now on a bad row does not end a call: its prediction has the failure. */
ET_API void et_predictor_set_lenient(et_predictor *predictor, bool lenient);

ET_API size_t et_predictions_count(const et_predictions *predictions);
ET_API et_prediction et_predictions_at(const et_predictions *predictions, size_t row);
/* Values of an output [et_predictor_output_width] as doubles: a float32 cannot hold a prediction
 * such as 1,000,000,007,762.1. Borrowed from the predictions. NULL: the row failed, or there is no
 * such row or output. */
ET_API const double *et_predictions_values(const et_predictions *predictions, size_t row,
                                           int output);
ET_API void et_predictions_free(et_predictions *predictions); /* NULL allowed */

/* What is predicted: outputs by name ("scores": probabilities of the labels; "values"), sorted. */
ET_API int et_predictor_outputs(const et_predictor *predictor);
ET_API const char *et_predictor_output_name(const et_predictor *predictor, int output);
ET_API int64_t et_predictor_output_width(const et_predictor *predictor, int output);
ET_API int et_predictor_labels(const et_predictor *predictor); /* 0: numbers are predicted */
ET_API const char *et_predictor_label(const et_predictor *predictor, int place);

ET_API const et_schema *et_predictor_schema(const et_predictor *predictor);
/* The checkpoint in use and its step. Borrowed. */
ET_API const char *et_predictor_checkpoint(const et_predictor *predictor);
ET_API int64_t et_predictor_step(const et_predictor *predictor);

/* Writes what predicting needs, and no more: schema, metadata, features, settings and the weights
 * in use, to a directory, made if it is not there, or, where path ends in ".safetensors", to one
 * file. et_predictor_open opens either. ET_ECONFIG: a run or other files are there.
 * et_predictor_export_as (model_export.h): narrower weights, formats of other programs. */
ET_API int et_predictor_export(const et_predictor *predictor, const char *path, et_error *error);

#endif
