/* Parts of models: their inputs, free texts, the choice of a pack. */
#ifndef ETUDE_TASKS_TABULAR_NETWORKS_NETWORKS_PRIVATE_H
#define ETUDE_TASKS_TABULAR_NETWORKS_NETWORKS_PRIVATE_H

#include "engine/tensor/params.h"
#include "tasks/tabular/networks/networks.h"

/* ---- tabular_inputs.c ---- */

/* Inputs of models: the encoder's number fields as one matrix, its id fields as another, and its
 * texts; or all as one row of numbers. */

typedef struct et_tabular_inputs {
    int64_t rows;     /* of a batch */
    et_node *numbers; /* [rows, number_count] act; NULL: none */
    et_node *exact;   /* the same in float32 */
    int64_t number_count;
    et_node *ids; /* int32 [rows, id_count]; NULL: none */
    int id_count;
    et_column *columns;        /* [id_count] columns of ids, without widths; in an arena */
    bool values;               /* the target is numbers, not a class */
    float drawn;               /* bound of initial values of texts; 0: zeros */
    int text_count;            /* free texts, see et_tabular_text_vector */
    const et_encoder *encoder; /* borrowed */
    et_scope *model;           /* the scope of the whole model */
    et_scope *learned;         /* the scope with vectors of texts: the model or a part of it */
} et_tabular_inputs;

/* The inputs of a model from the graph's batches. Leaves out targets, fields that are no inputs,
 * and features whose names are ignored. Poison: the inputs are impossible. */
void et_tabular_inputs_open(et_tabular_inputs *inputs, et_scope *scope, const et_encoder *encoder,
                            const et_strings *ignored);

/* All columns side by side, [rows, width] act: numbers, their encodings, ids one-hot or
 * embedded, texts. */
et_node *et_tabular_flatten(et_scope *scope, const et_tabular_inputs *inputs,
                            const et_tabular_columns *columns);

/* Factors on the rows of et_tabular_flatten, side by side for `count` members. Gives each member
 * one factor for all numbers of a column: the first one. */
int et_tabular_join_factors(float *factors, int64_t size, int64_t count,
                            const et_tabular_columns *columns, const et_encoder *encoder,
                            const et_strings *ignored, et_error *error);

/* Sets the variables that et_tabular_flatten has declared in a scope, from the training rows. Does
 * nothing without such variables. */
int et_tabular_fit_columns(et_params *params, const char *scope, const et_tabular_columns *columns,
                           const et_encoder *encoder, const et_strings *ignored,
                           et_samples *samples, et_error *error);

/* ---- free texts ---- */

/* Free texts as inputs of models: each text is a vector. i runs over the ids of a text's words and
 * word pairs, repeated ones included:
 *
 *   v = 0.3 sum_i w_i t_i / sqrt(sum_i w_i^2),   w_i = (n_i / (n_i + 40))^2, 0 if n_i is below 2
 *
 * t_i is learned, and n_i is the number of training rows whose text has i. Adam moves the vectors
 * of rare and frequent words equally far, so w_i shrinks the vectors of rare words. With the
 * weights of TF-IDF, smoothed as in scikit-learn, and n rows,
 *
 *   w_i = 1 + log((1 + n) / (1 + n_i)), 0 if n_i is below 2
 *
 * The w_i are a variable, set before the first step. */

/* Text number k, [rows, width] act. model: the scope of the whole model, which has the w_i.
 * learned: the scope with the t_i: the model, or a part of it with its own t_i. begin: initial
 * values of the t_i. */
et_node *et_tabular_text_vector(et_scope *model, et_scope *learned, const et_encoder *encoder,
                                int k, int64_t width, et_init begin);

/* Sets the variables from the training rows. weights: ET_TABULAR_WORDS_FREQUENCY or TF_IDF.
 * ET_ECONFIG: TF_IDF without texts. */
int et_tabular_fit_text_weights(et_params *params, int weights, const et_encoder *encoder,
                                et_samples *samples, et_error *error);

/* ---- models.c ---- */

/* x [rows, columns], count times side by side. */
et_node *et_tabular_repeat(et_node *x, int64_t count);

/* ---- pack_ensemble.c ---- */

/* The greedy choice (et_greedy) of a pack.
 *
 *   classes   prediction: the probability of a row's label; loss: -log of it
 *   values    prediction: a value; loss: the squared difference from the target */

typedef struct et_pack_choice {
    const float *prediction; /* [candidates, items], finite */
    const double *target;    /* [items]; NULL: classes */
    int64_t items;
} et_pack_choice;

/* The mean loss of predictions [items]; target as above. */
double et_pack_loss(const float *prediction, const double *target, int64_t items);

/* choice is borrowed. */
et_greedy et_pack_greedy(const et_pack_choice *choice, int64_t candidates, int64_t rounds);

#endif
