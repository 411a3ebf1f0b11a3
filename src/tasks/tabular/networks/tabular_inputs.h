/* Inputs of models: the encoder's number fields as one matrix, its id fields as another, and its
 * texts; or all as one row of numbers. */
#ifndef ETUDE_TASKS_TABULAR_TABULAR_INPUTS_H
#define ETUDE_TASKS_TABULAR_TABULAR_INPUTS_H

#include <etude/layers.h>

#include "data/table/features/encoder.h"
#include "tasks/tabular/tabular_options.h"

typedef struct et_tabular_inputs {
    int64_t rows;     /* of a batch */
    et_node *numbers; /* [rows, number_count] act; NULL: none */
    et_node *exact;   /* the same in float32 */
    int64_t number_count;
    et_node *ids; /* int32 [rows, id_count]; NULL: none */
    int id_count;
    et_column *columns;        /* [id_count] those of the ids, without widths; owned */
    bool values;               /* the target is numbers, not a class */
    float drawn;               /* initial values of texts are within it; 0: zeros */
    int text_count;            /* free texts, see tabular_words.h */
    const et_encoder *encoder; /* borrowed */
    et_scope *model;           /* the scope of the whole model */
    et_scope *learned;         /* where vectors of texts are: the model, or a part of it */
} et_tabular_inputs;

/* The inputs of a model from the graph's batches, without targets, other fields, and features whose
 * names are ignored. A poison node for impossible ones. */
void et_tabular_inputs_open(et_tabular_inputs *inputs, et_scope *scope, const et_encoder *encoder,
                            const et_strings *ignored);
void et_tabular_inputs_release(et_tabular_inputs *inputs);

/* All columns side by side, [rows, width] act: numbers, their encodings, ids one-hot or
 * embedded, texts. */
et_node *et_tabular_flatten(et_scope *scope, const et_tabular_inputs *inputs,
                            const et_tabular_columns *columns);

/* Factors on et_tabular_flatten's rows, side by side for `count` members: gives each member one
 * factor for all numbers that a column became, the first of them. */
int et_tabular_join_factors(float *factors, int64_t size, int64_t count,
                            const et_tabular_columns *columns, const et_encoder *encoder,
                            const et_strings *ignored, et_error *error);

/* Fits the variables that et_tabular_flatten has declared in a scope to the training rows. Does
 * nothing if it has none. */
int et_tabular_fit_columns(et_params *params, const char *scope, const et_tabular_columns *columns,
                           const et_encoder *encoder, const et_strings *ignored,
                           et_samples *samples, et_error *error);

#endif
