/* Models of tables: from the columns of a batch to outputs; the settings' type chooses the
 * model. */
#ifndef ETUDE_TASKS_TABULAR_MODELS_H
#define ETUDE_TASKS_TABULAR_MODELS_H

#include "tasks/tabular/networks/tabular_inputs.h"

/* Adds the model of the settings, which is no pack, for the graph's batches, which have the
 * encoder's fields: [rows, members * outputs] float32, logits or standardised values. A poison node
 * if the model is impossible. */
et_node *et_tabular_model_build(et_scope *scope, const et_tabular_model *model,
                                const et_encoder *encoder, int64_t outputs);

/* Changes the initial values of a store to those that a model begins with. */
int et_tabular_model_begin(et_params *params, const et_tabular_model *model,
                           const et_encoder *encoder, et_error *error);

/* Fits the parts of a model that come from the training rows before the first step (bins of its
 * columns), in a store with its initial values. */
int et_tabular_model_fit(et_params *params, const et_tabular_model *model,
                         const et_encoder *encoder, et_samples *samples, et_error *error);

/* layers.c: x W + b, W uniform within 1 / sqrt(inputs), b zeros. */
et_node *et_tabular_dense(et_scope *scope, et_node *x, int64_t units);

/* ft_transformer.c */
et_node *et_tabular_ft_transformer_build(et_scope *scope, const et_tabular_ft_transformer *model,
                                         const et_tabular_inputs *inputs, int64_t outputs);

/* realmlp.c */
et_node *et_tabular_realmlp_build(et_scope *scope, const et_tabular_realmlp *model,
                                  const et_tabular_inputs *inputs, int64_t outputs);

/* tabm.c: [rows, members * outputs]. repeat: x [rows, columns], count times side by side. */
et_node *et_tabular_tabm_build(et_scope *scope, const et_tabular_tabm *model,
                               const et_tabular_inputs *inputs, int64_t outputs);
int et_tabular_tabm_begin(et_params *params, const et_tabular_tabm *model,
                          const et_encoder *encoder, const et_strings *ignored, et_error *error);
et_node *et_tabular_repeat(et_node *x, int64_t count);

#endif
