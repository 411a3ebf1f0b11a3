/* The class of the task: what train/task.h asks for, in terms of batches of pairs.
 *
 *   build_loss   transformer over source and target -> vocabulary loss over the labels
 *   next         the next packed batch into task->batch, to whose arrays the plan is bound
 *   attach       part "data": the position in the data, four numbers
 *
 * The arrays of the batch stay where they are for the life of the task, so they are bound once
 * for a plan and only filled anew for each step.
 *
 *   loss = sum over labels of the label-smoothed cross-entropy of softmax(h table^T)
 * with h [target tokens, width] the decoder's output and table [vocabulary, width] the embedding
 * of both sides: inputs and outputs share one table (Press and Wolf 2017, "Using the output
 * embedding to improve language models"). */
#include "tasks/translation/task.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "tasks/translation/task_parts.h"

/* The et_task is the first member; only what includes task_parts.h knows what is around it. */
static et_translation_task *downcast(et_task *self)
{
    return (et_translation_task *)(void *)self;
}

static const et_translation_task *downcast_const(const et_task *self)
{
    return (const et_translation_task *)(const void *)self;
}

/* ---- the class --------------------------------------------------------------------------
 *
 * What train/task.h asks for, in the order of its table. */

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

static et_node *build_loss(et_task *self, et_scope *scope)
{
    et_translation_task *task = downcast(self);
    /* The shape of every training batch: one graph, one plan. */
    et_pair_shape shape = et_translation_shape(&task->options.train_data);
    return et_translation_loss(task, scope, &shape, task->options.train_data.max_seq_length);
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

/* A batch without segments would be the end of the data, which training's source has not. */
static int next(et_task *self, et_plan *plan, et_error *error)
{
    et_translation_task *task = downcast(self);
    /* Once for a plan: the arrays stay, only their contents change. */
    if (task->bound != plan) {
        et_translation_bind(plan, &task->batch);
        task->bound = plan;
    }
    return et_pair_source_next(task->source, &task->batch, error);
}

/* Of the batch in hand, counted from 1; the source counts from 0. */
static int64_t epoch(const et_task *self)
{
    return downcast_const(self)->batch.epoch + 1;
}

/* Most places named in a message. */
#define DESCRIBED 8

/* "train.en:1840, train.en:77, ... and 52 more": source lines, by which the pairs are found. */
static void describe_batch(const et_task *self, et_strbuf *out)
{
    /* Pairs of a batch are of like length but from anywhere in the text, so each is named. */
    const et_translation_task *task = downcast_const(self);
    for (int i = 0; i < task->batch.segments && i < DESCRIBED; i++) {
        const char *path;
        int64_t line;
        et_encoded_place(task->encoded, task->batch.pair[i], false, &path, &line);
        et_strbuf_printf(out, "%s%s:%lld", i ? ", " : "", path, (long long)line);
    }
    if (task->batch.segments > DESCRIBED)
        et_strbuf_printf(out, " and %d more", task->batch.segments - DESCRIBED);
}

/* Where the next batch comes from; behind what is prefetched nothing is lost. */
static int save_position(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    const et_translation_task *task = self;
    et_pair_position position;
    et_pair_source_save(task->source, &position);
    et_pair_position_write(&position, dict);
    return ET_OK;
}

/* A position that was saved with other data is refused by its fingerprint. */
static int restore_position(void *self, const et_value *dict, et_error *error)
{
    et_translation_task *task = self;
    et_pair_position position;
    int status = et_pair_position_read(&position, dict, error);
    return status ? status : et_pair_source_restore(task->source, &position, error);
}

static const et_state_class position_state = { "data position", save_position, restore_position };

static int attach(et_task *self, et_state *state, et_error *error)
{
    return et_state_add(state, "data", &position_state, downcast(self), error);
}

/* Two classes, with and without validation: the run asks the class whether there is any. */
static const et_task_class training_class = {
    .name = "translation",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .epoch = epoch,
    .describe_batch = describe_batch,
};

static const et_task_class validated_class = {
    .name = "translation",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .epoch = epoch,
    .describe_batch = describe_batch,
    .validate = et_translation_validate,
    .best_metric = "sacrebleu_score",
};

/* ---- opening and closing ----------------------------------------------------------------
 *
 * The task owns everything it opens; the run only borrows it. */

/* In the order of what each needs. What was opened before a failure is closed by close. */
int et_translation_task_open(et_task **out, const et_translation_options *options,
                             const et_translation_context *context, et_error *error)
{
    et_assert(options && context && context->params && context->device);
    *out = NULL;
    int status = et_translation_check(options, error);
    if (status)
        return status;
    et_translation_task *task = et_alloc_zero(1, sizeof *task);
    if (!task)
        return et_alloc_failed(error, sizeof *task, "a task");
    /* Copies of the structs; lists and texts in them are the caller's and outlive the task. */
    task->options = *options;
    task->context = *context;
    task->paths =
        (et_corpus_paths){ options->train_data.source_path, options->train_data.target_path,
                           options->train_data.tsv_path };
    status = et_translation_open_vocabulary(task, error);
    if (!status)
        status = et_translation_open_training(task, error);
    if (!status)
        status = et_translation_open_validation(task, error);
    if (status) {
        et_translation_task_close(&task->task);
        return status;
    }
    /* The model's memory comes next: the peak is not to be the sum of both. */
    if (task->vocabulary_seconds > 0 || !task->encoded->from_cache)
        et_alloc_trim();
    task->task.class = task->validation.encoded ? &validated_class : &training_class;
    *out = &task->task;
    return ET_OK;
}

/* In reverse. The source's thread ends before the batch and the corpus that it reads go. */
void et_translation_task_close(et_task *task)
{
    if (!task)
        return;
    et_translation_task *self = downcast(task);
    et_translation_close_validation(self);
    et_pair_source_close(self->source);
    et_pair_batch_release(&self->batch);
    et_encoded_close(self->encoded);
    et_vocabulary_close(self->vocabulary);
    et_free(self->vocabulary_path);
    et_free(self);
}

et_translation_facts et_translation_task_facts(const et_task *task)
{
    const et_translation_task *self = downcast_const(task);
    return (et_translation_facts){ self->encoded, self->validation.encoded, self->vocabulary,
                                   self->vocabulary_seconds, self->vocabulary_path };
}
