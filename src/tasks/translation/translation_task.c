/* The class of the task, working on batches of pairs.
 *
 *   data     training: shuffled, in buckets, without end, read ahead; validation: one pass
 *   model    transformer over source and target: "decoded", and the "table" of tokens
 *   losses   vocabulary loss over the labels
 *   outputs  of a validation step: beam search; reduce: its scores (translation_validate.c) */
#include "tasks/translation/translation_task.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/stages.h"
#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/nn/pair_names.h"
#include "engine/tensor/params.h"
#include "formats/events/log_names.h"
#include "tasks/translation/overlap.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/translation_task_private.h"
#include "train/checkpoint/identity.h"
#include "train/task/task_private.h"

/* The et_task is the first member; only files that include translation_task_private.h see more. */
static et_translation_task *downcast(et_task *self)
{
    return (et_translation_task *)(void *)self;
}

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

/* h for the graph's batches, by the scope's draw of dropout. */
static et_node *decoded(et_scope *scope, const et_transformer *model)
{
    const int64_t *capacity = et_scope_layout(scope)->capacity;
    et_assert(capacity[ET_PAIR_SOURCE] > 0 && capacity[ET_PAIR_TARGET] > 0);
    return et_transformer_train(scope, model, capacity[ET_PAIR_SOURCE], capacity[ET_PAIR_TARGET],
                                capacity[ET_PAIR_SEGMENTS]);
}

/* The parameter with the target's embeddings, and the row of the token that begins a
 * target. */
static int start_row(const et_translation_task *task, const et_params *params, int64_t *row)
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

/* For training and validation: the same model, other shapes. The table of positions has rows for
 * the longest sentence of all data that are open, because its rows cost little. */
static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    (void)aux_losses; /* there are none */
    et_translation_task *task = downcast(self);
    const et_translation_options *o = &task->options;
    int64_t max_positions =
        training ? o->train_data.max_seq_length : o->validation_data.max_seq_length;
    for (const et_other_inputs *other = task->others; other; other = other->next)
        if (other->data.max_seq_length > max_positions)
            max_positions = other->data.max_seq_length;
    et_transformer model =
        et_translation_transformer(o, et_vocabulary_size(task->sides.source),
                                   et_vocabulary_size(task->sides.target), max_positions);
    model.embedded = et_layout_find(et_scope_layout(scope), ET_PAIR_NAME_SOURCE_EMBEDDED) >= 0;
    et_nodes_put(outputs, "decoded", decoded(scope, &model));
    if (et_scope_training(scope) && o->model.r_drop > 0)
        et_nodes_put(outputs, "decoded_again", decoded(et_in_draw(scope, "second"), &model));
    et_nodes_put(outputs, "table", et_transformer_table(scope, &model));
    if (model.output_bias)
        et_nodes_put(outputs, "bias", et_transformer_output_bias(scope, &model));
    if (et_task_defines_metrics(&task->task, scope))
        name_outputs(scope, outputs);
    if (o->model.zero_start) {
        int64_t row;
        const int table = start_row(task, task->context.params, &row);
        et_params_hold_zeros(task->context.params, table, row);
    }
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
static void build_losses(et_task *self, et_scope *scope, const et_nodes *own,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)aux_losses;
    const et_translation_task *task = downcast(self);
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

/* Metrics of a program compare the labels of the batch with the likeliest tokens (name_outputs). */
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
    if (!status && task->options.model.zero_start) {
        int64_t row;
        const int table = start_row(task, params, &row);
        const int64_t width = et_params_shape(params, table).size[1];
        et_params_begin_change(params);
        memset(et_params_values(params) + et_params_offset(params, table) + row * width, 0,
               (size_t)width * sizeof(float));
        et_params_changed(params, true);
    }
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

/* The identity of a run's checkpoints, in addition to its settings: checksums of vocabularies and
 * of the encoded text. */
int et_translation_identify(const et_task *task, et_value *identity, et_error *error)
{
    const et_translation_task *self = (const et_translation_task *)(const void *)task;
    et_vocabularies_identify(&self->vocabularies, identity);
    return et_value_set_string(identity, ET_IDENTITY_DATA,
                               et_checksum_print(et_translation_input_key(&self->training)).digits)
               ? ET_OK
               : et_alloc_failed(error, 0, "settings");
}

int et_translation_belongs(const void *options, const char *model_dir, const et_identity *identity,
                           et_error *error)
{
    et_assert(options && model_dir);
    et_arena arena = ET_ARENA_INIT;
    et_vocabularies v;
    et_artifact artifact;
    et_vocabularies_init(&v, &((const et_translation_options *)options)->vocabulary);
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = et_vocabularies_check_files(&v, identity, &artifact, &arena, error);
    et_artifact_close(&artifact);
    et_arena_release(&arena);
    return status;
}
