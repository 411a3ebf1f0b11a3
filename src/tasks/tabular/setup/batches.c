/* Batches of the opened rows, for training and validation, and of a program's own settings. */
#include <string.h>

#include <etude/settings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/batches/source.h"
#include "data/text/paths.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"

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
    int status = training && data->batch_size
                     ? et_task_context_batch(&task->context, data->batch_size, options.setting,
                                             &share, error)
                     : ET_OK;
    if (!status && options.capacity[0] % replicas)
        status = et_fail(error, ET_ECONFIG,
                         "%s: %lld rows cannot be split into %lld equal parts, one per replica",
                         options.setting, (long long)options.capacity[0], (long long)replicas);
    options.capacity[0] /= replicas;
    if (!status)
        status = et_tabular_borrow(&own, rows, error);
    if (status)
        return status;
    if (pipelines > 1)
        status = et_shard_open(&own, own, part->input_pipeline, pipelines, error);
    if (!status && training && et_tabular_own_batches(&task->options)) {
        /* A row for each member instead of each row; the orders are drawn already. */
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

static int read_ahead(const et_tabular_task *task, et_source **out, et_error *error)
{
    et_track *track = et_device_track(task->context.device);
    int status = ET_OK;
    if (task->context.device->tracing->trace)
        status = et_traced_source_open(out, *out, et_track_beside(track, "prefetch"), error);
    if (!status)
        status = et_prefetch_open(out, *out, task->context.prefetch, error);
    if (status) {
        et_source_close(*out);
        *out = NULL;
    }
    return status;
}

int et_tabular_batches(et_tabular_task *task, bool training, int number, et_source **out,
                       et_error *error)
{
    et_assert(out && number >= 0 && (!training || task->training));
    const et_tabular_options *o = &task->options;
    *out = NULL;
    if (!training && number >= task->validations)
        return ET_OK;
    et_samples *rows = training ? task->training : task->validation[number];
    /* Batches of all sets that are validated have the same layout: that of the largest one. */
    int64_t count = training ? rows->count : 0;
    for (int i = 0; !training && i < task->validations; i++)
        count = task->validation[i]->count > count ? task->validation[i]->count : count;
    int status = open_batches(task, training ? &o->train_data : &o->validation_data, training, rows,
                              count, NULL, out, error);
    return status || !training || !task->context.prefetch ? status : read_ahead(task, out, error);
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
    if (!status && (data->mix.count || data->sets.count))
        status =
            et_fail(error, ET_ECONFIG, "inputs need one table: name its files, not mix or sets");
    if (!status && !data->input_path.count && data->limit != own->limit)
        status = et_fail(error, ET_ECONFIG,
                         "limit: for the task's own rows, set limit in the task; here also name a "
                         "table (input_path)");
    if (status || !data->input_path.count)
        return status;
    status = et_paths_match(&paths, &data->input_path, name, &other->arena, error);
    return status ? status : et_tabular_open_table(task, &other->rows, &paths, data->limit, error);
}

void et_tabular_close_input_tables(et_tabular_task *task)
{
    while (task->input_tables) {
        et_tabular_input_table *other = task->input_tables;
        task->input_tables = other->next;
        et_samples_close(other->rows);
        et_arena_release(&other->arena);
        et_free(other);
    }
}

int et_tabular_build_inputs(et_task *self, const et_data_config *params,
                            const et_input_context *part, et_source **out, et_error *error)
{
    et_assert(self && params && out);
    et_tabular_task *task = (et_tabular_task *)(void *)self;
    const bool training = params->training;
    const et_tabular_data *data =
        training ? &task->options.train_data : &task->options.validation_data;
    et_samples *rows = training ? task->training : task->validation[0];
    int status = ET_OK;
    *out = NULL;
    if (params->settings) {
        et_tabular_input_table *other = et_alloc_zero(1, sizeof *other);
        if (!other)
            return et_alloc_failed(error, sizeof *other, "inputs");
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
    return status || !training || !task->context.prefetch ? status : read_ahead(task, out, error);
}
