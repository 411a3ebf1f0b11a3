/* The model of training and of validation, with its inputs.
 *
 *   loss = sum over labels of the label-smoothed cross-entropy of softmax(h table^T)
 *
 * with h [target tokens, width] the decoder's output and table [vocabulary, width], as usual, the
 * embedding of the target: inputs and outputs share one table (Press and Wolf 2017, "Using the
 * output embedding to improve language models").
 *
 * With r_drop, training computes h twice, with two samples of dropout, and the loss is
 * et_r_drop_loss; with sampled_vocabulary it is et_sampled_loss; with output_bias, the bias is
 * added to logits. */
#include <stdio.h>

#include "base/assert.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/nn/pair_names.h"
#include "engine/tensor/params.h"
#include "tasks/translation/translation_task_private.h"
#include "train/task/task_private.h"

/* h for the graph's batches, by the scope's draw of dropout. */
static et_node *decoded(et_scope *scope, const et_transformer *model)
{
    const int64_t *capacity = et_scope_layout(scope)->capacity;
    et_assert(capacity[ET_PAIR_SOURCE] > 0 && capacity[ET_PAIR_TARGET] > 0);
    return et_transformer_train(scope, model, capacity[ET_PAIR_SOURCE], capacity[ET_PAIR_TARGET],
                                capacity[ET_PAIR_SEGMENTS]);
}

int et_translation_start_row(const et_translation_task *task, const et_params *params, int64_t *row)
{
    char name[80];
    const et_transformer model =
        et_translation_transformer(&task->options, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), 2);
    snprintf(name, sizeof name, "%s/table", model.target.scope);
    *row = et_vocabulary_start(task->sides.target);
    const int index = et_params_find(params, name);
    et_assert(index >= 0);
    return index;
}

/* Names what a program's metrics compare with labels: "outputs", the likeliest token after each
 * token of the targets, and "decoded", h. Only for a task whose build_metrics defines some, because
 * the product with the table is as large as that of the loss. */
static void name_outputs(et_scope *scope, const et_nodes *outputs)
{
    et_node *h = et_nodes_get(outputs, "decoded"), *table = et_nodes_get(outputs, "table");
    et_node *bias = et_nodes_get(outputs, "bias"), *token;
    et_output(scope, "decoded", h);
    if (bias) {
        const et_matmul_options logits = { .transpose_b = true, .f32 = true };
        token = et_matmul(h, table, bias, &logits);
    } else
        et_vocabulary_best(h, table, 1, &token);
    et_output(scope, "outputs", token);
}

/* For training and validation: the same model, other shapes. max_positions: the longest
 * sentence, in tokens, which is how many rows the table of positions needs. */
void et_translation_build_model(et_translation_task *task, et_scope *scope, int64_t max_positions,
                                et_nodes *outputs)
{
    et_transformer model =
        et_translation_transformer(&task->options, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), max_positions);
    model.embedded = et_layout_find(et_scope_layout(scope), ET_PAIR_NAME_SOURCE_EMBEDDED) >= 0;
    et_nodes_put(outputs, "decoded", decoded(scope, &model));
    if (et_scope_training(scope) && task->options.model.r_drop > 0)
        et_nodes_put(outputs, "decoded_again", decoded(et_in_draw(scope, "second"), &model));
    et_nodes_put(outputs, "table", et_transformer_table(scope, &model));
    if (model.output_bias)
        et_nodes_put(outputs, "bias", et_transformer_output_bias(scope, &model));
    if (et_task_defines_metrics(&task->task, scope))
        name_outputs(scope, outputs);
    if (task->options.model.zero_start) {
        int64_t row;
        const int table = et_translation_start_row(task, task->context.params, &row);
        et_params_hold_zeros(task->context.params, table, row);
    }
}

int64_t et_translation_sampled(const et_translation_task *task)
{
    const int64_t words = et_vocabulary_size(task->sides.target);
    const int64_t sampled = task->options.model.sampled_vocabulary;
    return sampled && sampled < words ? sampled : words;
}

/* The labels of a program's own model: those with that name, or the only ones. */
static et_node *labels_of(et_scope *scope, const et_nodes *labels)
{
    const char *name = et_pair_fields[ET_PAIR_TARGET_LABELS].name;
    if (!labels)
        return et_batch_input(scope, name);
    return labels->count == 1 ? labels->node[0] : et_nodes_need(scope, labels, name);
}

/* Labels of -1 (the rest of a batch) count in no sum. */
void et_translation_build_losses(const et_translation_task *task, et_scope *scope,
                                 const et_nodes *own, const et_nodes *outputs)
{
    const et_translation_model *model = &task->options.model;
    const float smoothing = (float)model->label_smoothing;
    et_node *labels = labels_of(scope, own), *logits = et_nodes_get(outputs, "logits");
    if (logits) {
        et_loss(scope, "loss", et_softmax_loss(logits, labels, smoothing), 1);
        return;
    }
    et_node *h = et_nodes_need(scope, outputs, "decoded");
    et_node *again = et_nodes_get(outputs, "decoded_again");
    et_node *table = et_nodes_need(scope, outputs, "table");
    et_node *bias = et_nodes_get(outputs, "bias"), *loss;
    if (bias)
        loss = et_vocabulary_loss_offset(h, table, bias, labels, smoothing);
    else if (again)
        loss = et_r_drop_loss(h, again, table, labels, smoothing, (float)model->r_drop);
    else
        loss = et_sampled_loss(scope, h, table, labels, smoothing, et_translation_sampled(task));
    et_loss(scope, "loss", loss, 1);
}
