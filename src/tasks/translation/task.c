/* The class of the task: what train/task.h asks for, in terms of batches of pairs.
 *
 *   build_loss   transformer over source and target -> vocabulary loss over the labels
 *   next         the next packed batch into task->batch, to whose arrays the plan is bound
 *   attach       part "data": the position in the data, four numbers
 *
 * The arrays of the batch stay where they are for the life of the task, so they are bound once
 * for a plan and only filled anew for each step. */
#include "tasks/translation/task.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "data/source.h"
#include "tasks/translation/task_private.h"

/* The et_task is the first member; only what includes task_private.h knows what is around it. */
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

static et_node *build_loss(et_task *self, et_scope *scope)
{
    et_translation_task *task = downcast(self);
    /* Every training batch has this layout: one graph, one plan. */
    return et_translation_loss(task, scope, &task->source->layout,
                               task->options.train_data.max_seq_length);
}

/* A batch without segments would be the end of the data, which training's source has not. */
static int next(et_task *self, et_plan *plan, et_error *error)
{
    et_translation_task *task = downcast(self);
    /* Once for a plan: the arrays stay, only their contents change. */
    if (task->bound != plan) {
        et_plan_bind_batch(plan, task->batch);
        task->bound = plan;
    }
    return et_source_next(task->source, task->batch, error);
}

static void mark(et_task *self)
{
    et_translation_task *task = downcast(self);
    et_pair_source_save(task->source, &task->marked);
}

static int rewind_to_mark(et_task *self, et_error *error)
{
    et_translation_task *task = downcast(self);
    return et_pair_source_restore(task->source, &task->marked, error);
}

/* Of the batch in hand, counted from 1; the source counts from 0. */
static int64_t epoch(const et_task *self)
{
    return downcast_const(self)->batch->epoch + 1;
}

static void describe_batch(const et_task *self, et_strbuf *out)
{
    char text[1024];
    const et_translation_task *task = downcast_const(self);
    et_source_describe(task->source, task->batch, text, sizeof text);
    et_strbuf_append(out, text);
}

static int attach(et_task *self, et_state *state, et_error *error)
{
    return et_state_add(state, "data", &et_source_part, downcast(self)->source, error);
}

/* Two classes, with and without validation: the run asks the class whether there is any. */
static const et_task_class training_class = {
    .name = "translation",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .mark = mark,
    .rewind = rewind_to_mark,
    .epoch = epoch,
    .describe_batch = describe_batch,
};

static const et_task_class validated_class = {
    .name = "translation",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .mark = mark,
    .rewind = rewind_to_mark,
    .epoch = epoch,
    .describe_batch = describe_batch,
    .validate = et_translation_validate,
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
    et_source_close(self->source);
    et_batch_free(self->batch);
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
