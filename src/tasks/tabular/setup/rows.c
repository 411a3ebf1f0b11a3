/* Opens the rows: encoded and numbered training rows; validation rows, from other files or held
 * out; batches of both. */
#include <math.h>
#include <string.h>

#include <etude/log.h>
#include <etude/settings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "data/batches/source.h"
#include "data/table/analysis/column_use.h"
#include "data/table/rows/rows.h"
#include "data/table/table.h"
#include "data/text/paths.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/identity.h"

/* ---- rows ---- */

/* Of a setting that was checked. */
static char character(const char *text)
{
    char c = 0;
    (void)et_csv_character(&c, text);
    return c;
}

et_table_samples_options et_tabular_table_options(const et_tabular_options *options,
                                                  const char *const *missing)
{
    static const et_header headers[] = { [ET_TABULAR_HEADER_AUTO] = ET_HEADER_FOUND,
                                         [ET_TABULAR_HEADER_TRUE] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_FALSE] = ET_HEADER_ABSENT,
                                         [ET_TABULAR_HEADER_YES] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_NO] = ET_HEADER_ABSENT };
    return (et_table_samples_options){ .csv = { .delimiter = character(options->delimiter),
                                                .comment = character(options->comment),
                                                .missing = missing },
                                       .header = headers[options->header] };
}

static int open_table(et_tabular_task *task, et_samples **out, const et_strings *paths,
                      int64_t limit, et_error *error)
{
    et_table_samples_options options = et_tabular_table_options(&task->options, task->missing);
    et_samples *all;
    options.paths = *paths;
    if (paths != &task->paths) {
        options.csv.known = &task->known;
        options.metadata = task->texts.metadata;
    }
    int status = et_table_samples_open(&all, task->encoder, &options, error);
    if (!status && paths == &task->paths)
        et_tabular_find_ranges(task, all);
    if (status || !limit || limit >= all->count) {
        *out = status ? NULL : all;
        return status;
    }
    status = et_take_open(out, all, limit, error);
    if (status)
        et_samples_close(all);
    return status;
}

/* The delimiter of the first training file; errors in its rows are reported by the reader of all
 * rows. */
static int read_delimiter(et_tabular_task *task, et_error *error)
{
    const et_csv_options options = et_tabular_table_options(&task->options, task->missing).csv;
    et_csv_row row;
    et_csv *csv;
    if (et_path_is_jsonl(task->paths.items[0]))
        return ET_OK;
    int status = et_csv_open(&csv, task->paths.items[0], &options, error);
    if (status)
        return status;
    (void)et_csv_next(csv, &row, NULL);
    task->delimiter = et_csv_delimiter(csv);
    et_csv_close(csv);
    return ET_OK;
}

/* Whether the training rows are needed. An evaluation on other rows does not need them. */
static bool is_trained(const et_tabular_task *task)
{
    return !task->context.evaluates || !et_tabular_has_other(&task->options);
}

static int find_training(et_tabular_task *task, et_error *error)
{
    if (task->options.train_data.mix.count)
        return et_tabular_find_mix(task, error);
    return et_paths_match(&task->paths, &task->options.train_data.input_path,
                          "task.train_data.input_path", &task->arena, error);
}

int et_tabular_find_files(et_tabular_task *task, et_error *error)
{
    int status = is_trained(task) ? find_training(task, error) : ET_OK;
    const et_tabular_data *data = &task->options.validation_data;
    if (!status && data->input_path.count)
        status = et_paths_match(&task->other_paths[0], &data->input_path,
                                "task.validation_data.input_path", &task->arena, error);
    for (size_t i = 0; i < data->sets.count && !status; i++)
        status = et_paths_match(&task->other_paths[i],
                                &((const et_tabular_set *)data->sets.items)[i].input_path,
                                "task.validation_data.sets", &task->arena, error);
    return status;
}

/* ---- the split ---- */

typedef struct reading {
    int field;
    int32_t *class; /* [rows] */
} reading;

static void read_classes(void *payload, const et_batch *batch, int64_t first)
{
    const reading *r = payload;
    memcpy(r->class + first, batch->data[r->field], (size_t)batch->filled[0] * sizeof *r->class);
}

/* The rows of the table on one side. */
static int open_part(et_samples **out, et_samples *table, const unsigned char *side,
                     et_tabular_side wanted, uint32_t *which, et_error *error)
{
    int64_t count = 0;
    for (int64_t i = 0; i < table->count; i++)
        if (side[i] == wanted)
            which[count++] = (uint32_t)i;
    return et_tabular_choose(out, table, which, count, error);
}

/* Opens the training rows: all rows (side NULL), or the rows of the table that are learned. which:
 * room for the numbers of rows. */
static int open_training(et_tabular_task *task, const unsigned char *side, uint32_t *which,
                         et_error *error)
{
    et_samples *rows = task->table ? task->table : task->other[0];
    if (task->table && task->options.train_data.mix.count)
        return et_tabular_mix(task, side, error);
    return side ? open_part(&task->training, rows, side, ET_TABULAR_LEARNED, which, error)
                : et_tabular_borrow(&task->training, rows, error);
}

static int list_validated(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    const size_t count = (size_t)task->validation[0]->count;
    task->validated = et_alloc(count + 1, sizeof *task->validated);
    if (!task->validated)
        return et_alloc_failed(error, count * sizeof *task->validated, "validated rows");
    for (int64_t row = 0, at = 0; row < task->table->count; row++)
        if (side[row] == ET_TABULAR_VALIDATED)
            task->validated[at++] = (uint32_t)row;
    return ET_OK;
}

/* Rows of one time or group are on one side, so the share may be far from the one that is set. */
static void tell_share(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    const int64_t held = task->validation[0]->count, rows = task->table->count;
    if (task->context.evaluates || (double)held <= 2 * o->held_out * (double)rows ||
        2 * held <= rows)
        return;
    const bool times = et_tabular_is_named(o->time);
    et_log(ET_LOG_WARNING,
           "%s of %s rows are held out, and the model learns only the others: all rows with the "
           "same %s are on one side; name another column with %s, or validation rows with --valid",
           et_format_count(held).text, et_format_count(rows).text, times ? o->time : o->groups,
           times ? "--time" : "--group");
}

static int split(et_tabular_task *task, unsigned char *side, uint32_t *which, int32_t *class,
                 const et_row_keys *keys, et_error *error)
{
    et_samples *table = task->table;
    const et_tabular_options *o = &task->options;
    const et_tabular_splitting how = { .rows = table->count,
                                       .class = class,
                                       .group = keys->group,
                                       .time = keys->time,
                                       .folds = o->n_splits,
                                       .share = o->held_out,
                                       .seed = task->context.seed };
    int status = ET_OK;
    if (class) {
        reading r = { et_layout_find(&table->layout, task->target.field), class };
        status = et_tabular_read(table, table->count, read_classes, &r, error);
    }
    if (!status)
        status = et_tabular_parts(side, &how, error);
    if (!status && o->n_splits)
        status = et_tabular_tell_copies(task, side, NULL, error);
    for (int64_t i = 0; !status && i < table->count; i++)
        side[i] = (unsigned char)et_tabular_side_of(&how, side[i], o->fold < 0 ? 0 : o->fold);
    const bool each = o->n_splits && o->fold < 0; /* in turn: only whether they can be made */
    if (!status)
        status = open_training(task, each ? NULL : side, which, error);
    if (each && !task->context.evaluates)
        return status;
    if (each)
        memset(side, ET_TABULAR_VALIDATED, (size_t)table->count);
    if (!status)
        status = open_part(&task->validation[0], table, side, ET_TABULAR_VALIDATED, which, error);
    task->validations = !status;
    if (!status && !o->n_splits)
        tell_share(task);
    return status ? status : list_validated(task, side, error);
}

/* Reads the groups or times of all rows of the files; a table with a limit has the first rows. */
static int read_keys(const et_tabular_task *task, et_row_keys *keys, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool times = et_tabular_is_named(o->time);
    const et_table_samples_options table = et_tabular_table_options(o, task->missing);
    const et_rows_options how = { .csv = table.csv, .header = table.header };
    if (!times && !et_tabular_is_named(o->groups))
        return ET_OK;
    const char *column = times ? o->time : o->groups;
    const et_date_order given = et_column_date_order(task->texts.features, column);
    const et_date_order order =
        given ? given : et_metadata_find(task->texts.metadata, column)->order;
    if (times && order == ET_DATE_TIME && !task->context.evaluates)
        et_log(ET_LOG_WARNING,
               "column %s has times of day without a date: --time orders rows of all days by their "
               "time of day",
               column);
    int status = et_row_keys_read(keys, column, times, order, task->encoder, task->texts.metadata,
                                  &task->paths, &how, error);
    et_assert(status || keys->count >= task->table->count);
    return status;
}

static int hold_out(et_tabular_task *task, et_error *error)
{
    const size_t rows = (size_t)task->table->count;
    const bool classes = task->target.classes;
    if (rows < 2)
        return et_fail(
            error, ET_EDATA,
            "only %zu row: too few to hold out any; name validation_data, or set task.held_out: 0",
            rows);
    et_row_keys keys = { 0 };
    unsigned char *side = et_alloc(rows, sizeof *side);
    uint32_t *which = et_alloc(rows, sizeof *which);
    int32_t *class = classes ? et_alloc(rows, sizeof *class) : NULL;
    int status = side && which && (class || !classes)
                     ? read_keys(task, &keys, error)
                     : et_alloc_failed(error, rows * sizeof *which, "rows that are held out");
    if (!status)
        status = split(task, side, which, class, &keys, error);
    et_row_keys_release(&keys);
    et_free(side);
    et_free(which);
    et_free(class);
    return status;
}

bool et_tabular_has_out_of_fold(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return o->n_splits && o->fold < 0 && !et_tabular_has_other(o) &&
           et_file_exists_in(task->context.model_dir, ET_SERIES_FOLDS);
}

/* Refuses validation files together with folds in training, and an evaluation of folds that has no
 * rows to score. */
static int check_folds(const et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool group = et_tabular_is_named(o->groups), time = et_tabular_is_named(o->time);
    const char *setting = o->n_splits ? "n_splits" : group ? "groups" : time ? "time" : NULL;
    if (setting && task->other_paths[0].count && !task->context.evaluates)
        return et_fail(error, ET_ECONFIG,
                       "task.%s splits the training rows, but validation_data names files; leave "
                       "one of them out",
                       setting);
    if (o->n_splits && o->fold < 0 && !task->other_paths[0].count && task->context.evaluates &&
        !et_tabular_has_out_of_fold(task))
        return et_fail(error, ET_ECONFIG,
                       "the model was trained on folds, so some of its models learned each row; "
                       "name a file to evaluate");
    return ET_OK;
}

/* Whether rows of the training files are validated, here or fold by fold. */
static bool splits(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return !task->other[0] && (o->n_splits || o->held_out > 0);
}

/* ---- opening ---- */

/* Checks by checksum that the rows are those of the newest checkpoint. */
static int check_same_rows(const et_tabular_task *task, et_error *error)
{
    const et_identity *identity = task->context.identity;
    const char *digits;
    uint64_t was, is = task->training->fingerprint;
    if (!is_trained(task) || !identity || !identity->values ||
        et_value_read_string(identity->values, ET_IDENTITY_DATA, &digits, NULL) ||
        !et_checksum_parse(&was, digits) || was == is)
        return ET_OK;
    const char *run = task->context.model_dir, *file = task->paths.items[0];
    if (task->options.ensemble.count)
        return et_fail(error, ET_EDATA,
                       "%s was trained on other rows than %s (checksum %s, was %s); train another "
                       "run on these",
                       run, file, et_checksum_print(is).digits, digits);
    return et_fail(
        error, ET_EDATA,
        "%s was trained on other rows than %s, or with other held-out rows (checksum %s, was %s). "
        "Train another run from its weights, for example: etude train %s-2 --init %s --data %s",
        run, file, et_checksum_print(is).digits, digits, run, run, file);
}

char et_tabular_delimiter_of(const et_value *identity)
{
    const et_value *text = et_value_get(identity, ET_IDENTITY_DELIMITER);
    const bool one = text && text->kind == ET_VALUE_STRING && text->string[0] && !text->string[1];
    return one && et_csv_may_delimit(text->string[0]) ? text->string[0] : 0;
}

/* Without the training files, the delimiter comes from the newest checkpoint. */
static int find_delimiter(et_tabular_task *task, et_error *error)
{
    const et_identity *identity = task->context.identity;
    int status = is_trained(task) ? read_delimiter(task, error) : ET_OK;
    if (!is_trained(task) && identity)
        task->delimiter = et_tabular_delimiter_of(identity->values);
    task->known = et_columns_known(et_encoder_row_layout(task->encoder), task->delimiter);
    return status;
}

/* ---- weights ---- */

typedef struct weights {
    int field;
    double sum;
} weights;

static void add_weights(void *payload, const et_batch *batch, int64_t first)
{
    weights *w = payload;
    const float *weight = batch->data[w->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        w->sum += (double)weight[i];
}

static int check_weights_of(const et_tabular_task *task, et_samples *rows, const char *what,
                            et_error *error)
{
    weights w = { et_layout_find(&rows->layout, task->target.weight), 0 };
    int status = et_tabular_read(rows, rows->count, add_weights, &w, error);
    return status || w.sum > 0
               ? status
               : et_fail(error, ET_EDATA,
                         "all weights of the %s rows are 0: give some of them a weight above 0",
                         what);
}

/* Checks that some row has a weight above 0; otherwise there is no loss and no score. */
static int check_weights(const et_tabular_task *task, et_error *error)
{
    int status = ET_OK;
    if (task->target.weight && task->training)
        status = check_weights_of(task, task->training, "training", error);
    for (int i = 0; task->target.weight && i < task->validations && !status; i++)
        status = check_weights_of(task, task->validation[i], "validation", error);
    return status;
}

int et_tabular_open_rows(et_tabular_task *task, et_error *error)
{
    int status = check_folds(task, error);
    if (!status)
        status = find_delimiter(task, error);
    if (!status && is_trained(task))
        status =
            open_table(task, &task->table, &task->paths, task->options.train_data.limit, error);
    for (int i = 0; i < ET_TABULAR_SETS_MAX && !status && task->other_paths[i].count; i++) {
        status = open_table(task, &task->other[i], &task->other_paths[i],
                            task->options.validation_data.limit, error);
        if (!status)
            status = et_tabular_borrow(&task->validation[i], task->other[i], error);
        task->validations += !status;
    }
    if (!status)
        status = splits(task) ? hold_out(task, error) : open_training(task, NULL, NULL, error);
    if (!status)
        status = check_same_rows(task, error);
    if (!status)
        status = check_weights(task, error);
    const et_table_samples_options how = et_tabular_table_options(&task->options, task->missing);
    if (!status && (!task->options.n_splits || task->other[0]))
        status = et_tabular_tell_copies(task, NULL, &how, error);
    return status ? status : et_tabular_tell_rare(task, error);
}

void et_tabular_close_rows(et_tabular_task *task)
{
    et_free(task->validated);
    et_samples_close(task->training);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->validation[i]);
    et_samples_close(task->table);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->other[i]);
}

/* ---- batches ---- */

static bool has_batch_norm(const et_tabular_model *model)
{
    return (model->type == ET_TABULAR_MLP && model->mlp.norm == ET_TABULAR_NORM_BATCH) ||
           (model->type == ET_TABULAR_RESNET && model->resnet.norm == ET_TABULAR_NORM_BATCH);
}

/* Rows of a batch. An epoch of a small table would have only a step or two, and validations are
 * counted in epochs. So the batch is a multiple of 8 rows for which an epoch has about 50 steps. */
#define BATCH            256
#define BATCH_LEAST      8
#define BATCH_VALIDATION 1024
#define STEPS_OF_A_PASS  50

static int64_t batch_size(const et_tabular_task *task, const et_tabular_data *data, bool training,
                          int64_t rows)
{
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

/* The largest number of rows that are scored together. Batches of all sets have the same layout. */
static int64_t most_scored(const et_tabular_task *task)
{
    int64_t most = 0;
    for (int i = 0; i < task->validations; i++)
        most = task->validation[i]->count > most ? task->validation[i]->count : most;
    return most;
}

/* A row for each member instead of each row. */
static int order_for_members(const et_tabular_task *task, et_samples **own,
                             et_batches_options *options, et_error *error)
{
    const int64_t members = task->options.model.tabm.members;
    int status = et_tabular_order_for_members(own, *own, members, options->seed, error);
    options->capacity[0] *= members;
    options->pool = options->capacity[0];
    options->shuffle = false; /* the orders are drawn already */
    return status;
}

/* rows are borrowed. count: the number of rows that determines the batch size. */
static int open_batches(const et_tabular_task *task, const et_tabular_data *data, bool training,
                        et_samples *rows, int64_t count, const et_input_context *part,
                        et_source **out, et_error *error)
{
    const int64_t replicas = part && part->replicas_in_sync ? part->replicas_in_sync : 1;
    const int64_t pipelines = part ? part->input_pipelines : 1;
    et_samples *own;
    et_batches_options options = {
        .seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed,
        .shuffle = training,
        .repeat = training,
        /* Batch norm cannot estimate its statistics from a last batch of a few rows. */
        .drop_remainder = training && has_batch_norm(&task->options.model),
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
    if (!status && training && et_tabular_own_batches(&task->options))
        status = order_for_members(task, &own, &options, error);
    if (!status)
        status = et_batches_open(out, own, &options, error);
    if (status)
        et_samples_close(own);
    return status;
}

/* Numbers the rows as in the whole data if only a part is read. */
static int number_rows(const et_input_context *part, et_source **out, et_error *error)
{
    if (!part || part->input_pipelines <= 1)
        return ET_OK;
    int status = et_numbered_open(out, *out, (uint32_t)part->input_pipeline,
                                  (uint32_t)part->input_pipelines, error);
    if (status) {
        et_source_close(*out);
        *out = NULL;
    }
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
    const et_tabular_options *o = &task->options;
    *out = NULL;
    if (!training && number >= task->validations)
        return ET_OK;
    et_samples *rows = training ? task->training : task->validation[number];
    int status = open_batches(task, training ? &o->train_data : &o->validation_data, training, rows,
                              training ? rows->count : most_scored(task), NULL, out, error);
    return status || !training || !task->context.prefetch ? status : read_ahead(task, out, error);
}

/* ---- data by a program's settings ---- */

/* Settings that name files replace all of the task's. */
static int read_settings(et_tabular_other *other, const et_tabular_data *own, const char *text,
                         et_error *error)
{
    et_settings settings = { .table = &et_tabular_data_fields,
                             .options = &other->data,
                             .arena = &other->arena };
    other->data = *own;
    other->data.input_path = (et_strings){ NULL, 0 };
    other->data.mix = other->data.sets = (et_structs){ NULL, 0 };
    int status = et_settings_override(&settings, text, error);
    if (!status && (other->data.mix.count || other->data.sets.count))
        status =
            et_fail(error, ET_ECONFIG, "inputs need one table: name its files, not mix or sets");
    return status;
}

static int open_other(et_tabular_task *task, const et_data_config *params, et_tabular_other *other,
                      et_error *error)
{
    const char *name =
        params->training ? "task.train_data.input_path" : "task.validation_data.input_path";
    const et_tabular_options *o = &task->options;
    const et_tabular_data *own = params->training ? &o->train_data : &o->validation_data;
    et_strings paths;
    int status = read_settings(other, own, params->settings, error);
    if (!status && !other->data.input_path.count && other->data.limit != own->limit)
        status = et_fail(error, ET_ECONFIG,
                         "limit: for the task's own rows, set limit in the task; here also name a "
                         "table (input_path)");
    if (status || !other->data.input_path.count)
        return status;
    status = et_paths_match(&paths, &other->data.input_path, name, &other->arena, error);
    return status ? status : open_table(task, &other->rows, &paths, other->data.limit, error);
}

void et_tabular_close_others(et_tabular_task *task)
{
    while (task->others) {
        et_tabular_other *other = task->others;
        task->others = other->next;
        et_samples_close(other->rows);
        et_arena_release(&other->arena);
        et_free(other);
    }
}

int et_tabular_build_inputs(et_task *self, const et_data_config *params,
                            const et_input_context *part, et_source **out, et_error *error)
{
    et_tabular_task *task = (et_tabular_task *)(void *)self;
    const bool training = params->training;
    const et_tabular_data *data =
        training ? &task->options.train_data : &task->options.validation_data;
    et_samples *rows = training ? task->training : task->validation[0];
    int status = ET_OK;
    *out = NULL;
    if (params->settings) {
        et_tabular_other *other = et_alloc_zero(1, sizeof *other);
        if (!other)
            return et_alloc_failed(error, sizeof *other, "inputs");
        other->next = task->others;
        task->others = other;
        status = open_other(task, params, other, error);
        data = &other->data;
        rows = other->rows ? other->rows : rows;
    }
    if (status || !rows)
        return status;
    status = open_batches(task, data, training, rows, rows->count, part, out, error);
    if (!status)
        status = number_rows(part, out, error);
    return status || !training || !task->context.prefetch ? status : read_ahead(task, out, error);
}
