/* The class of the task, working on batches of pairs.
 *
 *   data     training: shuffled, in buckets, without end, read ahead; validation: one pass
 *   model    transformer over source and target: "decoded", and the "table" of tokens
 *   losses   vocabulary loss over the labels
 *   outputs  of a validation step: beam search (outputs.c); reduce: its scores
 *            (translation_validate.c) */
#include "tasks/translation/translation_task.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/stages.h"
#include "formats/events/log_names.h"
#include "tasks/translation/overlap.h"
#include "tasks/translation/translation_task_private.h"

/* The et_task is the first member; only files that include translation_task_private.h see more. */
static et_translation_task *downcast(et_task *self)
{
    return (et_translation_task *)(void *)self;
}

static const et_translation_task *downcast_const(const et_task *self)
{
    return (const et_translation_task *)(const void *)self;
}

/* Of all data that are open: a table of positions costs little. */
static int64_t longest(const et_translation_task *task, bool training)
{
    const et_translation_options *o = &task->options;
    int64_t most = training ? o->train_data.max_seq_length : o->validation_data.max_seq_length;
    for (const et_other_inputs *other = task->others; other; other = other->next)
        most = other->data.max_seq_length > most ? other->data.max_seq_length : most;
    return most;
}

static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    (void)aux_losses; /* there are none */
    et_translation_build_model(downcast(self), scope, longest(downcast(self), training), outputs);
}

static void build_losses(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)aux_losses;
    et_translation_build_losses(downcast(self), scope, labels, outputs);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    return et_translation_build_inputs(self, &(et_data_config){ .training = training }, NULL, out,
                                       error);
}

static int validation_set(et_task *self, int number, const char **name, et_source **out,
                          et_error *error)
{
    et_translation_task *task = downcast(self);
    const et_scored *scored = &task->validation.scored[number];
    *out = NULL;
    if (number >= task->validation.count || !scored->name)
        return ET_OK;
    *name = scored->name;
    return et_translation_validation(task, scored, &task->options.validation_data, NULL, out,
                                     error);
}

/* Metrics of a program compare the labels of the batch with the likeliest tokens (model.c). */
static int process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    const et_batch *batch = now->inputs;
    const char *name = et_pair_fields[ET_PAIR_TARGET_LABELS].name;
    const int field = batch && !now->labels ? et_layout_find(batch->layout, name) : -1;
    et_task_step own = *now;
    et_tensor labels;
    if (field >= 0) {
        labels = (et_tensor){ batch->data[field], batch->layout->field[field].dtype,
                              et_layout_shape(batch->layout, field) };
        own.labels = &labels;
    }
    return et_task_defaults.process_metrics(self, &own, error);
}

/* Results of pairs are in logs, which ranks share. */
static bool kept(et_task *self, int number, et_kept_rows *rows)
{
    (void)self, (void)number, (void)rows;
    return false;
}

static void clear_start(const et_translation_task *task, et_params *params)
{
    int64_t row;
    const int table = et_translation_start_row(task, params, &row);
    const int64_t width = et_params_shape(params, table).size[1];
    et_params_begin_change(params);
    memset(et_params_values(params) + et_params_offset(params, table) + row * width, 0,
           (size_t)width * sizeof(float));
    et_params_changed(params, true);
}

static int initialize(et_task *self, et_params *params, et_error *error)
{
    et_translation_task *task = downcast(self);
    et_import *from = NULL;
    int status = ET_OK;
    if (!self->init_checkpoint || !et_import_is_folder(self->init_checkpoint))
        status = et_task_defaults.initialize(self, params, error);
    else
        status = et_translation_foreign(task, self->init_checkpoint, &from, error);
    if (!status && from)
        status = et_import_initialize(from, params, self->init_pattern, error);
    if (!status && task->options.model.zero_start)
        clear_start(task, params);
    return status;
}

static const char *const main_metrics[] = { ET_TRANSLATION_BLEU, ET_LOGGED_VALIDATION_LOSS, NULL };

static const et_task_class translation_class = {
    .name = "translation",
    .data = data,
    .build_inputs = et_translation_build_inputs,
    .build_model = build_model,
    .build_losses = build_losses,
    .initialize = initialize,
    .process_metrics = process_metrics,
    .inference_step = et_translation_inference_step,
    .validation_outputs = et_translation_validation_outputs,
    .aggregate_logs = et_translation_aggregate,
    .reduce_aggregated_logs = et_translation_reduce,
    .best_metric = ET_TRANSLATION_BLEU,
    .verdict = et_translation_verdict,
    .main_metrics = main_metrics,
    .validation_set = validation_set,
    .kept = kept,
};

/* ---- opening and closing ---- */

/* The task owns everything it opens but sources, which its trainer closes before. */

/* Of a new run: one that resumes has these warnings in its log. */
static int tell_overlap(et_translation_task *task, et_error *error)
{
    const et_task_context *context = &task->context;
    const et_overlap_texts texts = { .train_data = &task->options.train_data,
                                     .training = &task->training,
                                     .tested = task->validation.input.texts,
                                     .tested_count = task->validation.count,
                                     .stop = context->stop };
    return context->reader || et_comm_rank(context->comm) ||
                   (context->identity && context->identity->values)
               ? ET_OK
               : et_translation_tell_overlap(&texts, error);
}

/* Each stage needs the earlier ones. After a failure, close closes the opened parts. */
static int (*const stages[])(et_translation_task *, et_error *) = {
    et_translation_open_files,
    et_translation_open_vocabularies,
    et_translation_open_training,
    et_translation_open_validation,
    tell_overlap,
};

int et_translation_task_open(et_task **out, const et_translation_options *options,
                             const et_task_context *context, et_error *error)
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
    ET_STAGES_RUN(status, stages, task, error);
    if (status) {
        et_translation_task_close(&task->task);
        return status;
    }
    /* The model's memory comes next: the peak is not to be the sum of both. */
    bool made = false;
    for (size_t i = 0; i < task->training.count; i++)
        made |= !task->training.texts[i].encoded->from_cache;
    for (int i = 0; i < task->vocabularies.count; i++)
        made |= task->vocabulary_seconds[i] > 0;
    if (made)
        et_alloc_trim();
    task->task.class = &translation_class;
    task->task.logging_dir = context->model_dir;
    task->task.task_config = &task->options;
    task->task.init_checkpoint = options->init_checkpoint;
    task->task.init_pattern = options->init_pattern;
    *out = &task->task;
    return ET_OK;
}

/* In reverse. */
void et_translation_task_close(et_task *task)
{
    if (!task)
        return;
    et_translation_task *self = downcast(task);
    et_translation_close_validation(self);
    et_translation_close_inputs(self);
    et_translation_input_close(&self->training);
    et_vocabularies_close(&self->vocabularies);
    for (int i = 0; i < ET_SIDES; i++)
        et_free(self->vocabulary_paths[i]);
    et_free(self->suppressed);
    et_import_close(self->foreign);
    et_free(self);
}

et_translation_facts et_translation_task_facts(const et_task *task)
{
    const et_translation_task *self = downcast_const(task);
    return (et_translation_facts){ &self->training, self->validation.scored[0].encoded,
                                   &self->vocabularies };
}
