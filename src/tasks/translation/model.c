/* The model of training and of validation, and what it reads.
 *
 *   loss = sum over labels of the label-smoothed cross-entropy of softmax(h table^T)
 * with h [target tokens, width] the decoder's output and table [vocabulary, width] the embedding
 * of both sides: inputs and outputs share one table (Press and Wolf 2017, "Using the output
 * embedding to improve language models"). */
#include "base/assert.h"
#include "tasks/translation/task_private.h"

/* For training and validation: the same model, other shapes. max_positions: the longest
 * sentence, in tokens, which is how many rows the table of positions needs. */
et_node *et_translation_loss(const et_translation_task *task, et_scope *scope,
                             const et_pair_shape *shape, int64_t max_positions)
{
    et_assert(shape->source_budget > 0 && shape->target_budget > 0);
    et_transformer model = et_translation_transformer(
        &task->options, et_vocabulary_size(task->vocabulary), max_positions);
    et_node *h = et_transformer_train(scope, &model, shape->source_budget, shape->target_budget,
                                      shape->max_segments);
    /* Labels of -1 (the rest of a batch) count in no sum. */
    et_node *labels = et_input(scope, "target_labels", ET_I32, et_shape_1(shape->target_budget));
    return et_vocabulary_loss(h, et_transformer_table(scope, &model), labels,
                              (float)task->options.model.label_smoothing);
}

/* Every input of et_translation_loss by its name. One that a plan does not read is passed over
 * (et_plan_bind). */
void et_translation_bind(et_plan *plan, const et_pair_batch *batch)
{
    et_plan_bind(plan, "source_ids", batch->source_ids);
    et_plan_bind(plan, "source_positions", batch->source_positions);
    et_plan_bind(plan, "source_offsets", batch->source_offsets);
    et_plan_bind(plan, "target_ids", batch->target_ids);
    et_plan_bind(plan, "target_positions", batch->target_positions);
    et_plan_bind(plan, "target_offsets", batch->target_offsets);
    et_plan_bind(plan, "target_labels", batch->target_labels);
}
