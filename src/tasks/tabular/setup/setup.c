/* The class of the task, working on batches of rows.
 *
 *   data     training: shuffled, without end, read ahead; validation: one pass, in order
 *   model    by the settings, over the encoder's columns
 *   losses   of classes or of values
 *   validate scores over all rows
 *
 * Validation scores, in addition to the loss: the model's outputs for all rows are scored together.
 * A validation of some batches scores their rows. The trainer's own evaluation keeps rows batch by
 * batch, and validate scores them. In a program's own evaluation, logs have the rows, aggregate
 * collects them in a state, and reduce scores the state: the same scores, of rows in the same
 * order.
 *
 *   logs, state   unique_ids  rows' numbers in the data
 *                 labels      a class; a value, or a list of those of several targets
 *                 outputs     lists: probabilities of classes, or values
 *                 weights     of the rows, if the task has a column of them */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/settings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/stages.h"
#include "base/values/value.h"
#include "data/batches/source.h"
#include "data/text/paths.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"
#include "train/task/task_private.h"

#define LABELS  "labels"
#define OUTPUTS "outputs"
#define WEIGHTS "weights"

/* Lists of a state. */
static const char *const list_names[] = { ET_LOGGED_IDS, LABELS, OUTPUTS, WEIGHTS };
#define LISTS_MOST 4

static int list_count(const et_tabular_task *task)
{
    return task->target.weight ? LISTS_MOST : LISTS_MOST - 1;
}

/* Room for s->rows, in arena. */
static int open_rows(et_validation_rows *s, const et_tabular_task *task, et_arena *arena,
                     et_error *error)
{
    if (!s->rows)
        return ET_OK;
    s->width = task->target.width;
    s->targets = task->target.targets;
    size_t rows = (size_t)s->rows, cells = rows * (size_t)s->width;
    s->weight = et_arena_array(arena, rows, sizeof *s->weight);
    if (task->target.classes) {
        s->output = et_arena_array(arena, cells, sizeof *s->output);
        s->class = et_arena_array(arena, rows, sizeof *s->class);
    } else {
        s->value = et_arena_array(arena, cells, sizeof *s->value);
        s->written = et_arena_array(arena, rows * (size_t)s->targets, sizeof *s->written);
    }
    const et_tabular_model *model = &task->options.model;
    s->members =
        et_tabular_is_pack(&task->options) && !(task->context.evaluates && task->part.which)
            ? 2 * et_pack_count(&model->pack) * task->target.logits
            : 0;
    if (s->members)
        s->member = et_arena_array(arena, rows * (size_t)s->members, sizeof *s->member);
    return arena->failed ? et_alloc_failed(error, "validation") : ET_OK;
}

static int open_results(et_tabular_task *task, et_error *error)
{
    et_validation_rows *s = &task->results;
    for (int i = 0; i < task->validations; i++)
        s->rows = task->validation[i]->count > s->rows ? task->validation[i]->count : s->rows;
    return open_rows(s, task, &task->arena, error);
}

static bool kept(et_task *self, int number, et_kept_rows *rows)
{
    const et_validation_rows *s = &et_tabular_task_of(self)->results;
    const size_t width = (size_t)s->width;
    const et_kept_rows all[] = {
        { s->weight, s->rows, sizeof *s->weight },
        s->class ? (et_kept_rows){ s->output, s->rows, width * sizeof *s->output }
                 : (et_kept_rows){ s->value, s->rows, width * sizeof *s->value },
        s->class ? (et_kept_rows){ s->class, s->rows, sizeof *s->class }
                 : (et_kept_rows){ s->written, s->rows, s->targets * sizeof *s->written },
        { s->member, s->rows, s->members * sizeof *s->member },
    };
    if (number >= (s->members ? 4 : 3))
        return false;
    *rows = all[number];
    return true;
}

/* Values of a batch as doubles, in the unit of the file. If the encoder is not exact, they come
 * from float32. */
typedef struct batch_values {
    const et_tabular_task *task;
    const float *output; /* [rows, width] */
    const float *value;  /* [rows, targets] */
    const void *written; /* NULL: the encoder is not exact */
    int64_t width, targets;
} batch_values;

static batch_values values_of(const et_tabular_task *task, const et_batch *batch,
                              const float *output)
{
    const int exact = et_encoder_written(task->encoder);
    return (batch_values){
        .task = task,
        .output = output,
        .value = batch->data[et_layout_find(batch->layout, task->target.field->name)],
        .written = exact < 0 ? NULL
                             : batch->data[et_layout_find(
                                   batch->layout, et_encoder_field(task->encoder, exact)->name)],
        .width = task->target.width,
        .targets = task->target.targets,
    };
}

static double predicted_at(const batch_values *v, int64_t at)
{
    et_assert(v->width > 0);
    const et_target_unit unit = et_tabular_unit(v->task, at % v->width);
    return unit.offset + unit.scale * (double)v->output[at];
}

static double written_at(const batch_values *v, int64_t at)
{
    return v->written ? et_encoded_written(v->written, at) : (double)v->value[at];
}

/* Weights of the rows of a batch; NULL: all 1. */
static const float *weights_of(const et_tabular_task *task, const et_batch *batch)
{
    return task->target.weight ? batch->data[et_layout_find(batch->layout, task->target.weight)]
                               : NULL;
}

static et_tensor outputs_of(const et_tabular_task *task, const et_pass *model)
{
    return et_pass_output(model, task->target.kind->output);
}

/* Scores the labels and outputs of the program, or else of the batch. Values have the encoder's
 * unit. */
static int compare(et_task *self, const et_task_step *now, et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    et_task_step own = *now;
    et_tensor labels, outputs;
    if (!now->labels && now->inputs) {
        const int field = et_layout_find(now->inputs->layout, task->target.field->name);
        labels = (et_tensor){ now->inputs->data[field], now->inputs->layout->field[field].dtype,
                              et_shape_1(now->inputs->filled[0]) };
        own.labels = &labels;
    }
    if (!now->outputs && now->model) {
        outputs = outputs_of(task, now->model);
        if (!now->labels && now->inputs && outputs.shape.rank)
            outputs.shape.size[0] = now->inputs->filled[0];
        own.outputs = &outputs;
    }
    return et_task_defaults.process_metrics(self, &own, error);
}

static int process_metrics(et_task *self, const et_task_step *now, et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    const int status = compare(self, now, error);
    if (status || !now->internals || now->optimizer)
        return status;
    const et_batch *batch = now->inputs;
    const et_tensor output = outputs_of(task, now->model);
    const float *weight = weights_of(task, batch), *member = NULL;
    et_validation_rows *s = &task->results;
    const size_t members = (size_t)s->members;
    et_assert(output.data && output.dtype == ET_F32 && output.shape.size[1] == s->width);
    if (members)
        member = et_pass_output(now->model, ET_TABULAR_MEMBERS).data;
    const batch_values v = values_of(task, batch, output.data);
    const int32_t *class = s->class ? (const void *)v.value : NULL;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        const int64_t row = batch->sample[i], width = s->width;
        et_assert(row < s->rows);
        s->weight[row] = weight ? (double)weight[i] : 1;
        if (member)
            memcpy(s->member + (size_t)row * members, member + (size_t)i * members,
                   members * sizeof *member);
        if (class) {
            s->class[row] = class[i];
            memcpy(s->output + row * width, v.output + i * width, width * sizeof *v.output);
            continue;
        }
        for (int64_t k = 0; k < width; k++)
            s->value[row * width + k] = predicted_at(&v, i * width + k);
        for (int64_t k = 0; k < s->targets; k++)
            s->written[row * s->targets + k] = written_at(&v, i * s->targets + k);
    }
    return ET_OK;
}

/* ---- logs ---- */

static int validation_outputs(et_task *self, const et_task_step *now, et_value *logs,
                              et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const et_batch *batch = now->inputs;
    const et_tensor output = outputs_of(task, now->model);
    et_assert(output.data && output.dtype == ET_F32);
    const batch_values v = values_of(task, batch, output.data);
    const int32_t *class = task->target.classes ? (const void *)v.value : NULL;
    et_value *ids = et_value_set_list(logs, ET_LOGGED_IDS);
    et_value *labels = et_value_set_list(logs, LABELS), *outputs = et_value_set_list(logs, OUTPUTS);
    const float *weight = weights_of(task, batch);
    et_value *weights = weight ? et_value_set_list(logs, WEIGHTS) : NULL;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        et_value_add_int(ids, batch->sample[i]);
        if (weight)
            et_value_add_float(weights, (double)weight[i]);
        et_value *own = !class && v.targets > 1 ? et_value_add_list(labels) : labels;
        et_value *to = et_value_add_list(outputs);
        if (class)
            et_value_add_int(labels, class[i]);
        for (int64_t k = 0; !class && k < v.targets; k++)
            et_value_add_float(own, written_at(&v, i * v.targets + k));
        for (int64_t k = i * v.width; k < (i + 1) * v.width; k++)
            et_value_add_float(to, class ? (double)v.output[k] : predicted_at(&v, k));
    }
    return et_value_failed(logs) ? et_alloc_failed(error, "a step's logs") : ET_OK;
}

/* Finds the lists of rows. A list that the task does not have is NULL. */
static int find_lists(const et_tabular_task *task, const et_value *from, const char *what,
                      const et_value *lists[LISTS_MOST], et_error *error)
{
    lists[LISTS_MOST - 1] = NULL;
    for (int i = 0; i < list_count(task); i++) {
        lists[i] = et_value_get(from, list_names[i]);
        if (!lists[i] || lists[i]->kind != ET_VALUE_LIST || lists[i]->count != lists[0]->count)
            return et_fail(error, ET_EFORMAT,
                           "%s: %s must be a list of as many items as %s; give what %s", what,
                           list_names[i], ET_LOGGED_IDS, "validation_step logs");
    }
    return ET_OK;
}

/* A number, or a list of them. */
static void add_copy(et_value *list, const et_value *one)
{
    if (one->kind == ET_VALUE_INT)
        et_value_add_int(list, one->integer);
    else if (one->kind != ET_VALUE_LIST)
        et_value_add_float(list, one->kind == ET_VALUE_FLOAT ? one->real : NAN);
    else
        for (et_value *to = (list = et_value_add_list(list), one->first); to; to = to->next)
            et_value_add_float(list, et_value_is_number(to) ? et_value_number(to) : NAN);
}

static int aggregate(et_task *self, et_value *state, const et_value *step_outputs, et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const et_value *lists[LISTS_MOST];
    int status = find_lists(task, step_outputs, "logs of a validation step", lists, error);
    for (int i = 0; !status && i < list_count(task); i++) {
        et_value *to = et_value_get(state, list_names[i]);
        to = to ? to : et_value_set_list(state, list_names[i]);
        for (const et_value *one = lists[i]->first; one; one = one->next)
            add_copy(to, one);
    }
    return status || !et_value_failed(state) ? status
                                             : et_alloc_failed(error, "the state of a validation");
}

static int score(const et_tabular_task *task, const et_validation_rows *rows, et_value *logs,
                 et_error *error)
{
    const et_scored_targets of = et_scored_targets_of(task);
    return task->target.kind->score(&of, rows, logs, error);
}

/* ---- a pack ---- */

/* As the loss has them: of rows in the unit of the file. */
static double *standardised(const et_tabular_task *task, const float *mean, const float *deviation)
{
    const et_validation_rows *s = &task->results;
    double *to = et_alloc((size_t)(s->rows * s->width), sizeof *to);
    for (int64_t i = 0; to && i < s->rows * s->width; i++) {
        const int64_t k = i % s->width;
        const et_target_unit unit = et_encoder_unit(task->encoder, k);
        to[i] =
            ((s->written[i] - unit.offset) / unit.scale - (double)mean[k]) / (double)deviation[k];
    }
    return to;
}

/* Replaces the outputs of the previous ensemble by those of the new one. */
static void put_ensemble(et_validation_rows *s, const et_tabular_task *task,
                         const et_pack_rows *rows, const float *mean, const float *deviation)
{
    for (int64_t i = 0; i < s->rows * rows->width; i++) {
        const int64_t k = i % rows->width;
        if (s->value) {
            const et_target_unit unit = et_encoder_unit(task->encoder, k);
            s->value[i] =
                unit.offset + unit.scale * (double)(rows->mean[i] * deviation[k] + mean[k]);
        } else if (rows->width == s->width) {
            s->output[i] = rows->mean[i];
        } else {
            s->output[2 * i] = 1 - rows->mean[i];
            s->output[2 * i + 1] = rows->mean[i];
        }
    }
}

/* logs NULL: an evaluation without training. Then each row's ensemble is chosen on other rows. */
static int follow_pack(et_tabular_task *task, et_value *logs, et_error *error)
{
    et_validation_rows *s = &task->results;
    et_params *params = task->context.params;
    const float *mean = et_tabular_variable(params, ET_TABULAR_MEAN);
    const float *deviation = et_tabular_variable(params, ET_TABULAR_DEVIATION);
    et_pack_rows rows = { .count = s->rows,
                          .width = task->target.logits,
                          .weight = s->weight,
                          .class = s->class,
                          .members = s->member };
    double *target = s->value ? standardised(task, mean, deviation) : NULL;
    rows.target = target;
    rows.mean = et_alloc((size_t)(rows.count * rows.width), sizeof *rows.mean);
    const et_tabular_pack *pack = &task->options.model.pack;
    int status = !rows.mean || (s->value && !target) ? et_alloc_failed(error, "validation")
                 : logs ? et_pack_follow(params, pack, &rows, logs, error)
                        : et_pack_cross_fit(params, pack, &rows, error);
    if (!status)
        put_ensemble(s, task, &rows, mean, deviation);
    et_free(target);
    et_free(rows.mean);
    return status;
}

int et_tabular_cross_fit(et_tabular_task *task, et_error *error)
{
    return task->results.members ? follow_pack(task, NULL, error) : ET_OK;
}

/* In training, the first validation set chooses the ensemble of a pack. */
int et_tabular_validate(et_task *self, int64_t step, et_value *logs, et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    const bool follows = task->results.members && !task->context.evaluates && !task->results.set;
    (void)step;
    int status;
    if ((follows && (status = follow_pack(task, logs, error))) ||
        (status = score(task, &task->results, logs, error)) ||
        (status = et_tabular_judge_best(task, logs, error)))
        return status;
    return task->scoring.scored ? task->scoring.scored(task->scoring.payload, task, error) : ET_OK;
}

/* ---- a state ---- */

/* A row of a state. */
typedef struct state_row {
    int64_t number, at;
    const et_value *label, *output, *weight; /* weight NULL: 1 */
} state_row;

ET_SORT_BY(by_number, state_row, ET_UP(number), ET_UP(at))

/* Sorts the rows. If a row occurs several times in the state, the last one counts. */
static int64_t sort_rows(state_row *rows, const et_value *const lists[LISTS_MOST])
{
    const et_value *id = lists[0]->first, *label = lists[1]->first, *output = lists[2]->first;
    const et_value *weight = lists[3] ? lists[3]->first : NULL;
    int64_t all = 0, count = 0;
    for (; id; id = id->next, label = label->next, output = output->next, all++) {
        rows[all] =
            (state_row){ id->kind == ET_VALUE_INT ? id->integer : -1, all, label, output, weight };
        weight = weight ? weight->next : NULL;
    }
    qsort(rows, all, sizeof *rows, by_number);
    for (int64_t i = 0; i < all; i++)
        if (i + 1 == all || rows[i + 1].number != rows[i].number)
            rows[count++] = rows[i];
    return count;
}

/* Whether a value is a list of `count` numbers; with count 1 also a single number. */
static bool has_numbers(const et_value *from, int64_t count)
{
    if (from->kind != ET_VALUE_LIST)
        return count == 1 && et_value_is_number(from);
    for (const et_value *one = from->first; one; one = one->next)
        if (!et_value_is_number(one))
            return false;
    return (int64_t)from->count == count;
}

/* A row whose label is not a class, such as a row without a label, counts in no score. */
static bool read_row(et_validation_rows *s, int64_t i, const state_row *row)
{
    const et_value *label = row->label, *output = row->output;
    s->weight[i] = !row->weight                      ? 1
                   : et_value_is_number(row->weight) ? et_value_number(row->weight)
                                                     : -1;
    if (row->number < 0 || !(s->weight[i] >= 0) || output->kind != ET_VALUE_LIST ||
        !has_numbers(output, s->width))
        return false;
    output = output->first;
    if (s->class) {
        const bool class =
            label->kind == ET_VALUE_INT && label->integer >= -1 && label->integer < s->width;
        s->class[i] = class ? (int32_t)label->integer : -1;
        for (int64_t k = 0; k < s->width; k++, output = output->next)
            s->output[i * s->width + k] = (float)et_value_number(output);
        return class;
    }
    if (!has_numbers(label, s->targets))
        return false;
    et_assert(s->value);
    label = label->kind == ET_VALUE_LIST ? label->first : label;
    for (int64_t k = 0; k < s->width; k++, output = output->next)
        s->value[i * s->width + k] = et_value_number(output);
    for (int64_t k = 0; k < s->targets; k++, label = label->next)
        s->written[i * s->targets + k] = et_value_number(label);
    return true;
}

static int reduce(et_task *self, const et_value *aggregated_logs, int64_t step, et_value *results,
                  et_error *error)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const et_value *lists[LISTS_MOST];
    et_validation_rows s = { .rows = 0 };
    (void)step;
    int status = find_lists(task, aggregated_logs, "the state of a validation", lists, error);
    if (status)
        return status;
    et_arena arena = ET_ARENA_INIT;
    state_row *rows = et_arena_array(&arena, lists[0]->count, sizeof *rows);
    s.rows = rows ? sort_rows(rows, lists) : 0;
    status = rows ? open_rows(&s, task, &arena, error) : et_alloc_failed(error, "validation");
    for (int64_t i = 0; i < s.rows && !status; i++)
        if (!read_row(&s, i, &rows[i]))
            status = et_fail(error, ET_EDATA,
                             "row %lld of a validation's state: a label of the target, %lld "
                             "outputs and a weight, if the task has weights, are expected",
                             (long long)rows[i].number, (long long)s.width);
    if (!status)
        status = score(task, &s, results, error);
    et_arena_release(&arena);
    return status;
}

/* ---- batches ---- */

/* Rows of a batch. An epoch of a small table would have only a step or two, and validations are
 * counted in epochs. So the batch is a multiple of 8 rows for which an epoch has about 50 steps. */
#define BATCH            256
#define BATCH_LEAST      8
#define BATCH_VALIDATION 1024
#define STEPS_OF_A_PASS  50

static int64_t batch_size(const et_tabular_task *task, const et_tabular_data *data, bool training,
                          int64_t rows)
{
    et_assert(rows >= 0);
    int64_t size = data->batch_size, shards = training ? task->context.data_shards : 1;
    if (!size && !training)
        size = BATCH_VALIDATION;
    if (!size) {
        size = (rows / STEPS_OF_A_PASS + BATCH_LEAST - 1) / BATCH_LEAST * BATCH_LEAST;
        size = size < BATCH_LEAST ? BATCH_LEAST : size > BATCH ? BATCH : size;
    }
    size = size < rows ? size : rows;
    return shards > 1 ? (size + shards - 1) / shards : size;
}

/* rows are borrowed. count: the number of rows that determines the batch size. */
static int open_batches(const et_tabular_task *task, const et_tabular_data *data, bool training,
                        et_samples *rows, int64_t count, const et_input_context *part,
                        et_source **out, et_error *error)
{
    et_assert(data && rows && count >= 0 && out);
    const et_tabular_model *model = &task->options.model;
    const int64_t replicas = part && part->replicas_in_sync ? part->replicas_in_sync : 1;
    const int64_t pipelines = part ? part->input_pipelines : 1;
    const bool norm =
        (model->type == ET_TABULAR_MLP && model->mlp.norm == ET_TABULAR_NORM_BATCH) ||
        (model->type == ET_TABULAR_RESNET && model->resnet.norm == ET_TABULAR_NORM_BATCH);
    et_samples *own;
    et_batches_options options = {
        .seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed,
        .shuffle = training,
        .repeat = training,
        /* Batch norm cannot estimate its statistics from a last batch of a few rows. */
        .drop_remainder = training && norm,
        .capacity = { batch_size(task, data, training, count) },
        .setting = training ? "task.train_data.batch_size" : "task.validation_data.batch_size",
    };
    int64_t share;
    int status;
    if (training && data->batch_size &&
        (status = et_task_context_batch(&task->context, data->batch_size, options.setting, &share,
                                        error)))
        return status;
    if (options.capacity[0] % replicas)
        return et_fail(error, ET_ECONFIG,
                       "%s: %lld rows cannot be split into %lld equal parts, one per replica",
                       options.setting, (long long)options.capacity[0], (long long)replicas);
    options.capacity[0] /= replicas;
    if ((status = et_tabular_borrow(&own, rows, error)))
        return status;
    if (pipelines > 1)
        status = et_shard_open(&own, own, part->input_pipeline, pipelines, error);
    if (!status && training && et_tabular_own_batches(&task->options)) {
        /* Each row becomes one row per member. The orders are drawn already, so batches do not
         * shuffle. */
        const int64_t members = model->tabm.members;
        status = et_tabular_order_for_members(&own, own, members, options.seed, error);
        options.pool = options.capacity[0] *= members;
        options.shuffle = false;
    }
    if (!status)
        status = et_batches_open(out, own, &options, error);
    if (status)
        et_samples_close(own);
    return status;
}

static int batches(et_tabular_task *task, bool training, int number, et_source **out,
                   et_error *error)
{
    et_assert(out && number >= 0 && (!training || task->training));
    const et_tabular_options *o = &task->options;
    *out = NULL;
    if (!training && number >= task->validations)
        return ET_OK;
    et_samples *rows = training ? task->training : task->validation[number];
    /* All validation sets have batches of the same layout, that of the largest set. */
    int64_t count = training ? rows->count : 0;
    for (int i = 0; !training && i < task->validations; i++)
        count = task->validation[i]->count > count ? task->validation[i]->count : count;
    int status = open_batches(task, training ? &o->train_data : &o->validation_data, training, rows,
                              count, NULL, out, error);
    return status || !training
               ? status
               : et_task_read_ahead(out, &task->context, task->context.prefetch, error);
}

/* ---- data by a program's settings ---- */

static int open_other(et_tabular_task *task, const et_data_config *params,
                      et_tabular_input_table *other, et_error *error)
{
    const char *name =
        params->training ? "task.train_data.input_path" : "task.validation_data.input_path";
    const et_tabular_options *o = &task->options;
    const et_tabular_data *own = params->training ? &o->train_data : &o->validation_data;
    et_tabular_data *data = &other->data;
    et_settings settings = { .table = &et_tabular_data_fields,
                             .options = data,
                             .arena = &other->arena };
    et_strings paths;
    /* Settings that name files replace all of the task's. */
    *data = *own;
    data->input_path = (et_strings){ NULL, 0 };
    data->mix = data->sets = (et_structs){ NULL, 0 };
    int status = et_settings_override(&settings, params->settings, error);
    if (status)
        return status;
    if (data->mix.count || data->sets.count)
        return et_fail(error, ET_ECONFIG, "inputs need one table: name its files, not mix or sets");
    if (!data->input_path.count && data->limit != own->limit)
        return et_fail(error, ET_ECONFIG,
                       "limit: for the task's own rows, set limit in the task; here also name a "
                       "table (input_path)");
    if (!data->input_path.count)
        return ET_OK;
    status = et_paths_match(&paths, &data->input_path, name, &other->arena, error);
    return status ? status : et_tabular_open_table(task, &other->rows, &paths, data->limit, error);
}

static int build_inputs(et_task *self, const et_data_config *params, const et_input_context *part,
                        et_source **out, et_error *error)
{
    et_assert(self && params && out);
    et_tabular_task *task = et_tabular_task_of(self);
    const bool training = params->training;
    const et_tabular_data *data =
        training ? &task->options.train_data : &task->options.validation_data;
    et_samples *rows = training ? task->training : task->validation[0];
    int status = ET_OK;
    *out = NULL;
    if (params->settings) {
        et_tabular_input_table *other;
        if (ET_ALLOC_ZERO(other, 1, "inputs", error))
            return ET_ENOMEM;
        other->next = task->input_tables;
        task->input_tables = other;
        status = open_other(task, params, other, error);
        data = &other->data;
        rows = other->rows ? other->rows : rows;
    }
    if (status || !rows)
        return status;
    status = open_batches(task, data, training, rows, rows->count, part, out, error);
    /* Numbers the rows as in the whole data if only a part is read. */
    if (!status && part && part->input_pipelines > 1) {
        status = et_numbered_open(out, *out, (uint32_t)part->input_pipeline,
                                  (uint32_t)part->input_pipelines, error);
        if (status) {
            et_source_close(*out);
            *out = NULL;
        }
    }
    return status || !training
               ? status
               : et_task_read_ahead(out, &task->context, task->context.prefetch, error);
}

/* ---- methods ---- */

static void build_model(et_task *self, et_scope *scope, bool training, et_nodes *outputs,
                        et_nodes *aux_losses)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const bool *which = training || task->context.evaluates ? task->part.which : NULL;
    (void)aux_losses;
    et_node *z =
        et_tabular_build_outputs(scope, &task->options, task->encoder, &task->target, which);
    et_nodes_put(outputs, "outputs", z);
    if (et_scope_training(scope) && et_task_defines_metrics(self, scope))
        et_tabular_name_output(scope, &task->target, z);
}

static void build_losses(et_task *self, et_scope *scope, const et_nodes *labels,
                         const et_nodes *outputs, const et_nodes *aux_losses)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const char *field = task->target.field->name;
    (void)aux_losses;
    /* A program's own labels: of the target's name, or the only ones. */
    et_node *own = !labels              ? et_batch_input(scope, field)
                   : labels->count == 1 ? labels->node[0]
                                        : et_nodes_need(scope, labels, field);
    et_tabular_build_loss(scope, &task->options, &task->target, own,
                          et_nodes_need(scope, outputs, "outputs"));
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    return batches(et_tabular_task_of(self), training, 0, out, error);
}

static int validation_set(et_task *self, int number, const char **name, et_source **out,
                          et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    const et_structs *sets = &task->options.validation_data.sets;
    *out = NULL;
    if ((size_t)number >= sets->count)
        return ET_OK;
    *name = ((const et_tabular_set *)sets->items)[number].name;
    return batches(task, false, number, out, error);
}

static void use_validation_set(et_task *self, int number)
{
    et_tabular_task *task = et_tabular_task_of(self);
    task->results.rows = task->validation[number]->count;
    task->results.set = number;
}

/* Members of a pack that are done leave its graph. */
static int remake(et_task *self, bool *again, const et_group **updates, et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    if (!et_tabular_is_pack(&task->options))
        return ET_OK;
    int status = et_pack_part_follow(&task->part, task->context.params, &task->options.model.pack,
                                     again, error);
    *updates = task->part.group;
    return status;
}

/* A pack's members have their own rates and decay. */
static int create_optimizer(et_task *self, const et_optimizer_request *request, et_optimizer **out,
                            et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    et_optimizer_request own = *request;
    et_optimization_options optimization;
    if (!et_tabular_is_pack(&task->options) || task->context.evaluates)
        return et_task_defaults.create_optimizer(self, request, out, error);
    if (!request->optimization ||
        et_params_find(request->params, ET_PACK_ENSEMBLE "/" ET_PACK_SHARE) < 0)
        return et_pack_refuse(error);
    own.optimization = &optimization;
    task->has_rates = true;
    int status = et_pack_optimization(&optimization, request->optimization,
                                      &task->options.model.pack, &task->arena, error);
    return status ? status : et_task_defaults.create_optimizer(self, &own, out, error);
}

/* First the library's own part: weights of another run come with its means. */
static int initialize(et_task *self, et_params *params, et_error *error)
{
    et_tabular_task *task = et_tabular_task_of(self);
    int status = et_task_defaults.initialize(self, params, error);
    if (status == ET_ECONFIG && et_tabular_is_pack(&task->options))
        return et_fail_while(error, status,
                             "a pack begins with the weights of a run, because an export has only "
                             "the networks of its ensemble");
    if (status == ET_ECONFIG && error &&
        strstr(error->text, "has no " ET_TABULAR_TARGET_SCOPE "/" ET_TABULAR_CLASS_WEIGHT))
        return et_fail_while(
            error, status,
            "task.class_weights needs initial weights of a run with class weights; "
            "leave task.class_weights out");
    return status ? status : et_tabular_init_from_rows(task, params, error);
}

static const et_task_class methods = {
    .name = "tabular",
    .data = data,
    .build_inputs = build_inputs,
    .build_model = build_model,
    .build_losses = build_losses,
    .initialize = initialize,
    .process_metrics = process_metrics,
    .validate = et_tabular_validate,
    .validation_outputs = validation_outputs,
    .aggregate_logs = aggregate,
    .reduce_aggregated_logs = reduce,
    .validation_set = validation_set,
    .use_validation_set = use_validation_set,
    .kept = kept,
    .create_optimizer = create_optimizer,
    .remake = remake,
    .verdict = et_tabular_verdict_of,
};

/* ---- opening and closing ---- */

static int open_missing(et_tabular_task *task, et_error *error)
{
    const et_strings *more = &task->options.missing;
    if (!more->count)
        return ET_OK;
    task->missing = et_csv_missing_with(more->items, more->count);
    return task->missing ? ET_OK : et_alloc_failed(error, "task.missing");
}

/* An export of a pack has only the members of its ensemble, so an evaluation has no others. */
static int open_exported(et_tabular_task *task, et_error *error)
{
    const char *directory = task->context.model_dir;
    const int64_t count = et_pack_count(&task->options.model.pack);
    et_safetensors *file = NULL;
    if (!task->context.evaluates || !et_tabular_is_pack(&task->options) ||
        et_file_exists_in(directory, ET_CHECKPOINT_FOLDER) ||
        !et_file_exists_in(directory, ET_ARTIFACT_WEIGHTS))
        return ET_OK;
    int status = et_safetensors_open(&file, et_path_of(directory, ET_ARTIFACT_WEIGHTS).text, error);
    const et_safetensors_tensor *share =
        status ? NULL : et_safetensors_find(file, ET_PACK_ENSEMBLE "/" ET_PACK_SHARE);
    if (share && share->bytes == (uint64_t)count * sizeof(float) &&
        !(status = ET_ALLOC_ZERO(task->part.which, count, "an ensemble", error)))
        for (int64_t i = 0; i < count; i++)
            task->part.which[i] = ((const float *)share->data)[i] > 0;
    et_safetensors_close(file);
    return status;
}

/* Each stage needs the stages before it. */
static int (*const stages[])(et_tabular_task *, et_error *) = {
    open_missing,          open_exported,        et_tabular_find_files,
    et_tabular_open_files, et_tabular_open_rows, open_results,
};

int et_tabular_task_open(et_task **out, const et_tabular_options *options,
                         const et_task_context *context, et_error *error)
{
    et_assert(options && context && context->params && context->device);
    *out = NULL;
    int status;
    if ((status = et_tabular_check(options, error)))
        return status;
    if (et_tabular_is_pack(options) && !context->evaluates && !context->validation_interval)
        return et_fail(error, ET_ECONFIG,
                       "validation chooses the ensemble of a pack (task.model.type: pack), but "
                       "this process does not validate; set trainer.validation_interval=1ep, and "
                       "train without workers and parameter servers");
    et_tabular_task *task;
    if (ET_ALLOC_ZERO(task, 1, "a task", error))
        return ET_ENOMEM;
    /* Copies of the structs; lists and texts in them are the caller's and outlive the task. */
    task->options = *options;
    task->context = *context;
    ET_STAGES_RUN(status, stages, task, error);
    if (status) {
        et_tabular_task_close(&task->task);
        return status;
    }
    /* RealMLP smooths its labels, and is trained past its best log loss. */
    const et_target_kind *kind = task->target.kind;
    const bool smoothed = kind->labelled && options->model.type == ET_TABULAR_REALMLP &&
                          et_tabular_label_smoothing(options) > 0;
    task->class = methods;
    task->class.main_metrics = kind->main_metrics;
    task->class.best_metric = smoothed ? kind->main_metrics[0] : kind->best_metric;
    task->task.class = &task->class;
    task->task.logging_dir = context->model_dir;
    task->task.task_config = &task->options;
    task->task.init_checkpoint = options->init_checkpoint;
    task->task.init_pattern = options->init_pattern;
    *out = &task->task;
    return ET_OK;
}

void et_tabular_task_close(et_task *task)
{
    if (!task)
        return;
    et_tabular_task *self = et_tabular_task_of(task);
    et_pack_part_release(&self->part);
    while (self->input_tables) {
        et_tabular_input_table *other = self->input_tables;
        self->input_tables = other->next;
        et_samples_close(other->rows);
        et_arena_release(&other->arena);
        et_free(other);
    }
    et_tabular_close_rows(self);
    et_tabular_close_files(self);
    et_strbuf_release(&self->verdict.best);
    et_strbuf_release(&self->verdict.last);
    et_free(self->missing);
    et_arena_release(&self->arena);
    et_free(self);
}
