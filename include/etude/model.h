/* A model: one object that trains, evaluates, predicts, saves and loads a network of your own. A
 * function builds the network. Training, evaluation and prediction all call this function.
 *
 *     #include <stdio.h>
 *
 *     #include <etude/model.h>
 *
 *     static void build(et_scope *s, void *payload)
 *     {
 *         et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 32));
 *         h = et_dense(et_in(s, "logits"), h, 2);
 *         et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "y"), 0), 1);
 *         et_output(s, "scores", et_softmax(h));
 *         (void)payload;
 *     }
 *
 *     int main(void)
 *     {
 *         static float x[1000][2], scores[1000][2];
 *         static int y[1000];
 *         for (int i = 0; i < 1000; i++) {
 *             x[i][0] = (float)(i % 40) / 20 - 1;
 *             x[i][1] = (float)(i / 40) / 12 - 1;
 *             y[i] = x[i][0] * x[i][0] + x[i][1] * x[i][1] < 0.5f;
 *         }
 *         et_error error = ET_ERROR_INIT;
 *         et_model *model = NULL;
 *         et_model_options options = { .x = et_shape_1(2), .y_type = ET_I32 };
 *         if (et_model_open(&model, build, NULL, &options, &error) ||
 *             et_model_fit_arrays(model, x, y, 1000, &(et_fit){ .epochs = 50 }, &error) ||
 *             et_model_save(model, "disc.safetensors", &error) ||
 *             et_model_predict(model, x, 1000, scores, &error))
 *             fprintf(stderr, "%s\n", error.text);
 *         else
 *             printf("inside: %.2f, outside: %.2f\n", scores[500][1], scores[0][1]);
 *         et_model_close(model);
 *         return error.status != 0;
 *     }
 *
 * A regression needs no other options: y is one float for each sample, and the loss by rows of
 * <etude/ops_loss.h> takes it as it is.
 *
 *     static void build_regression(et_scope *s, void *payload)
 *     {
 *         et_node *h = et_relu(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 32));
 *         et_node *value = et_dense(et_in(s, "value"), h, 1);
 *         et_loss(s, "loss", et_squared_error(value, et_batch_input(s, "y")), 1);
 *         et_output(s, "value", value);
 *         (void)payload;
 *     }
 *
 * The function reads the fields of a batch by name, adds at least one loss (et_loss) and names what
 * the model predicts (et_output; the first one is the prediction). et_scope_training(s) says which
 * graph is built. Labels are int32 (ET_I32); a prediction has no labels, so rows have the label -1.
 *
 * The model owns device, parameters, passes, trainer and optimizer; getters give each of them.
 * A model for a table: <etude/table.h>. One thread. */
#ifndef ETUDE_MODEL_H
#define ETUDE_MODEL_H

#include <signal.h>
#include <stdio.h>

#include <etude/controller.h>
#include <etude/layers.h>
#include <etude/optimizer.h>
#include <etude/task_trainer.h>

typedef struct et_model et_model;

/* The fields of arrays. */
#define ET_MODEL_X "x"
#define ET_MODEL_Y "y"

typedef struct et_model_options {
    et_shape x, y;           /* of one sample of the fields "x" and "y"; {0}: a scalar, such
                                as a label or the target of a regression */
    et_dtype x_type, y_type; /* ET_F32 (the default), ET_I32 */
    const et_layout *layout; /* replaces these four: fields of any names; copied. NULL: the four */
    et_optimizer_setup optimizer; /* copied. {0}: Adam with a learning rate of 0.001 */
    uint64_t seed;                /* of initial values, the order of samples, and dropout */
    bool bfloat16;                /* activations in bfloat16; weights are float32 */
} et_model_options;

/* The values of an epoch: a dict of numbers, "training_loss", "validation_accuracy"; borrowed until
 * the function returns. *stop = true ends the training. */
typedef int et_fit_fn(void *payload, int64_t epoch, const et_value *logs, bool *stop,
                      et_error *error);

enum { ET_FIT_QUIET, ET_FIT_BAR, ET_FIT_LINES };

/* Options of a training: its length, data and outputs. */
typedef struct et_fit {
    int64_t epochs, steps;  /* passes over the data, or updates; give one. Neither: 1 epoch. With
                               run_dir they count from the start of the run, so the same call
                               resumes; without, from this call */
    int64_t batch_size;     /* of arrays and tables, in samples; 0: 32, of a table by its rows.
                               Batches of a source have the source's size */
    double validation_part; /* of arrays: the last part of the samples, 0 to 1, is not trained on */
    et_source *validation;  /* batches of one pass, of the training batches' size; borrowed. NULL:
                               none, or a table's held-out rows */
    int64_t patience;       /* stop after this many validations without a better value; 0: never */
    const char *monitor;    /* the value to monitor; of a loss, an error or a perplexity, by its
                               name, lower is better. NULL: "validation_loss", or for a table the
                               metric of its kind of target */
    const char *run_dir;    /* checkpoints and metrics go there, and training resumes from there.
                               NULL: nothing is written */
    bool last_weights;   /* at the end, keep the weights of the last step; otherwise the model gets
                            those of the best validation, if there was one */
    et_fit_fn *callback; /* after each epoch; NULL: none */
    void *payload;
    int verbose; /* on standard error: ET_FIT_QUIET (0), ET_FIT_BAR (1: a bar, and the table of
                    `etude train` with a row for each epoch), ET_FIT_LINES (2: the table) */
    const volatile sig_atomic_t *stop; /* not 0: save, and return ET_EINTERRUPTED; NULL: never */
} et_fit;

/* Builds the network and draws initial values. payload is passed to build, also later. options
 * NULL: zeros. ET_EGRAPH: the network does not fit together, or has no loss or no output.
 * ET_ECONFIG: an option is wrong. */
ET_API int et_model_open(et_model **out, et_build_fn *build, void *payload,
                         const et_model_options *options, et_error *error);
ET_API void et_model_close(et_model *model); /* NULL allowed */

/* Trains on samples in memory: x [count, shape of x], y [count, shape of y], of the types of the
 * options; borrowed. fit NULL: zeros. Training again continues with the model's weights, and with
 * the state of the optimizer if these are the weights of the last step. ET_ECONFIG: a member of fit
 * is wrong. ET_EDIVERGED: the loss is not finite. ET_EINTERRUPTED: stopped. */
ET_API int et_model_fit_arrays(et_model *model, const void *x, const void *y, int64_t count,
                               const et_fit *fit, et_error *error);

/* The same on batches of a source with the model's fields; borrowed. Without run_dir's checkpoint a
 * pass begins at the source's beginning. A source that repeats (et_batches_options.repeat) has a
 * new order in each pass; another begins again at its end. */
ET_API int et_model_fit(et_model *model, et_source *source, const et_fit *fit, et_error *error);

/* Adds "validation_loss" and the other values to logs, a dict. y as in et_model_fit_arrays.
 * et_model_evaluate_source: a source of one pass; NULL: a table's held-out rows. */
ET_API int et_model_evaluate(et_model *model, const void *x, const void *y, int64_t count,
                             et_value *logs, et_error *error);
ET_API int et_model_evaluate_source(et_model *model, et_source *source, et_value *logs,
                                    et_error *error);

/* Writes the prediction of count samples to out, float [count, et_model_width]. A sample's
 * prediction does not depend on the other samples. ET_EUSAGE: a model for a table, or without x. */
ET_API int et_model_predict(et_model *model, const void *x, int64_t count, void *out,
                            et_error *error);
ET_API int64_t et_model_width(const et_model *model); /* numbers per sample */

/* Writes the weights (averages, if the optimizer keeps them) to a file "NAME.safetensors", or a
 * directory. A file is replaced as a whole. `etude predict` reads saved models of tables. */
ET_API int et_model_save(const et_model *model, const char *path, et_error *error);
/* Reads weights from a file, an export, or a run (its best checkpoint, else its newest).
 * ET_ECONFIG: names or shapes differ from this model. */
ET_API int et_model_load(et_model *model, const char *path, et_error *error);

/* From the next training on, parameters whose names match pattern do not change; they need no
 * memory for gradients nor for the optimizer. `*` matches any text: "encoder*". NULL: all are
 * trained again. The optimizer starts anew. ET_ECONFIG: the pattern matches nothing, or leaves
 * nothing to train. */
ET_API int et_freeze(et_model *model, const char *pattern, et_error *error);

/* Prints a table of layers, output shapes and parameters, then totals and memory. */
ET_API int et_model_summary(const et_model *model, FILE *to, et_error *error);

/* Parts, borrowed. The trainer and the optimizer exist after the first training or evaluation, the
 * controller during training: NULL before. */
ET_API et_params *et_model_params(const et_model *model);
ET_API et_device *et_model_device(const et_model *model);
ET_API et_pass *et_model_pass(const et_model *model); /* of prediction */
ET_API et_optimizer *et_model_optimizer(const et_model *model);
ET_API et_task_trainer *et_model_task_trainer(const et_model *model);
ET_API et_controller *et_model_controller(const et_model *model);

#endif
