/* A predictor: from rows to outputs.
 *
 *   cells --encoder--> a batch of fixed size --pass--> outputs by name
 *
 * All batches have the same size, filled or not. A product of another shape could add in another
 * order, so a row's prediction would depend on the number of rows.
 *
 * Invariants: (1) the model is only read; predictors that share it have their own device, pass and
 * batch; (2) a row that could not be encoded is computed as an empty row, and its result is not
 * shown. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/threads/thread.h"
#include "data/table/rows/rows.h"
#include "engine/exec/pass.h"
#include "engine/tensor/params.h"
#include "tasks/tabular/builders/builders.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/networks/networks.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/tabular_kind.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

/* An et_build_fn, whose payload is the model. */
static void build_run(et_scope *scope, void *payload)
{
    const et_table_model *model = payload;
    et_tabular_build_outputs(scope, model->experiment.task, model->encoder, &model->target,
                             model->chosen);
}

/* For a pack: reads the members of the ensemble from the weights that will be loaded
 * (et_artifact_weights). Call before the graph is built. ET_EDATA: no ensemble was chosen yet.
 * ET_ENOTFOUND: no weights yet, as of packs on folds that are not all trained. */
static int choose_members(et_table_model *model, const et_artifact *artifact,
                          const char *checkpoint, et_error *error)
{
    const et_tabular_options *options = model->experiment.task;
    const int64_t count = et_pack_count(&options->model.pack);
    et_artifact_weights from = { .artifact = artifact,
                                 .named = checkpoint,
                                 .live_weights = model->live_weights,
                                 .facts = { .arena = &model->arena } };
    if (options->model.type != ET_TABULAR_PACK || options->ensemble.count)
        return ET_OK;
    int index, status = et_params_new(&from.params, error);
    if (status)
        return status;
    /* Loads only the shares: the rest of the graph depends on them. */
    if (!(status = et_params_declare_variable(from.params, ET_PACK_ENSEMBLE "/" ET_PACK_SHARE,
                                              et_shape_1(count), (et_init){ ET_INIT_ZEROS, 0 },
                                              &index, error)) &&
        !(status = et_params_materialize(from.params, false, error)) &&
        !(status = et_artifact_load(&from, error))) {
        const float *share = et_params_values_of(from.params, index);
        bool some = false;
        model->chosen = et_arena_array(&model->arena, count, sizeof *model->chosen);
        for (int64_t i = 0; model->chosen && i < count; i++)
            some |= (model->chosen[i] = share[i] > 0);
        if (!model->chosen)
            status = et_alloc_failed(error, "a model");
        else if (!some)
            status = et_fail(error, ET_EDATA,
                             "%s has no ensemble yet: validation chooses one, and this checkpoint "
                             "is from before the first; continue the run with `etude train`",
                             from.checkpoint);
    }
    et_free(from.checkpoint);
    et_params_free(from.params);
    return status;
}

/* Reads the directory of a trained model: the encoder's texts, the graph, the weights.
 *
 *   schema.yaml, metadata.json, features.yaml   the encoder
 *   params.yaml                                 a run of the command, or an export of one
 *   builder.yaml                                a job of a builder (model_trainer.h), or its model
 *   checkpoints/, best/ or model.safetensors    the weights */

/* ---- the encoder ---- */

/* Reads a text and keeps it for exports. Messages begin with *path. */
static int read_text(et_table_model *model, const et_artifact *artifact, int which,
                     const char *name, const char **path, et_error *error)
{
    char *bytes;
    *path = et_artifact_path(artifact, name, &model->arena);
    if (!*path)
        return et_alloc_failed(error, "a path");
    model->text[which].name = name;
    int status = et_artifact_read(artifact, name, ET_TABLE_BYTES_MAX, &bytes,
                                  &model->text[which].length, error);
    model->text[which].bytes = bytes;
    return status;
}

static int read_encoder(et_table_model *model, const et_artifact *artifact, et_error *error)
{
    et_table_files *texts = &model->texts;
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES && !status; i++) {
        const et_artifact_file *text = &model->text[i];
        const char *path;
        status = read_text(model, artifact, i, et_table_file_names[i], &path, error);
        if (!status)
            status = et_table_file_parse(texts, i, text->bytes, text->length, path, error);
    }
    if (!status)
        status =
            et_encoder_new(&model->encoder, texts->schema, texts->metadata, texts->features, error);
    return status ? et_fail_while(error, status, "%s", model->directory) : ET_OK;
}

/* ---- which model ---- */

static int open_builder(et_table_model *model, const et_artifact *artifact,
                        const et_predictor_options *options, et_error *error)
{
    const et_artifact_file *text = &model->text[ET_TABLE_FILE_MODEL];
    const char *path;
    const et_table_set_options parts = { .schema = model->texts.schema,
                                         .metadata = model->texts.metadata,
                                         .features = model->texts.features };
    et_model_builder_class whole;
    et_graph_interface *graph;
    int status;
    if ((status = read_text(model, artifact, ET_TABLE_FILE_MODEL, ET_RUN_BUILDER, &path, error)) ||
        (status = et_builder_parse(&model->kind, &model->arguments, text->bytes, text->length, path,
                                   options->builder, error)) ||
        (status = et_table_set_open(&model->dataset, NULL, 0, &parts, error)) ||
        (status = et_model_builder_class_resolve(&whole, model->kind, error)))
        return status;
    model->builder = et_alloc_zero(1, whole.size);
    if (!model->builder)
        return et_alloc_failed(error, "a builder");
    if ((status = et_model_builder_init(model->builder, model->kind, model->arguments,
                                        model->dataset, error)) ||
        (status = et_model_builder_build_prediction_graph(model->builder, NULL, &graph, error)))
        return status;
    model->params = et_model_builder_params(model->builder);
    model->build = graph->build;
    model->payload = graph;
    return ET_OK;
}

static int open_run(et_table_model *model, const et_artifact *artifact,
                    const et_predictor_options *how, et_error *error)
{
    const et_tabular_options *options = model->experiment.task;
    const et_strings *missing = &options->missing;
    const char *path;
    int status;
    if ((status = read_text(model, artifact, ET_TABLE_FILE_MODEL, ET_RUN_SETTINGS, &path, error)))
        return status;
    status = et_tabular_target_of(&model->target, options, model->encoder, error);
    if (status)
        return et_fail_while(error, status, "%s", model->directory);
    /* As short as they are read back. */
    const size_t count = (size_t)model->target.quantiles;
    const char **names = et_arena_array(&model->arena, count, sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        names[i] = et_arena_printf(&model->arena, "%.15g", model->target.level[i]);
    model->levels = (et_strings){ names, names ? count : 0 };
    if (model->arena.failed)
        return et_alloc_failed(error, "names of levels");
    if ((status = choose_members(model, artifact, how->checkpoint, error)) ||
        (status = et_params_new(&model->params, error)))
        return status;
    if (missing->count) {
        model->missing = et_csv_missing_with(missing->items, missing->count);
        if (!model->missing)
            return et_alloc_failed(error, "task.missing");
    }
    model->csv = et_tabular_table_options(options, model->missing).csv;
    if (strchr(ET_CSV_DELIMITERS, model->csv.delimiter))
        model->csv.delimiter = 0;
    model->build = build_run;
    model->payload = model;
    return ET_OK;
}

static void close_model(et_table_model *model)
{
    if (!model)
        return;
    if (model->kind) {
        if (model->builder)
            et_model_builder_release(model->builder);
        et_free(model->builder);
        et_table_set_close(model->dataset);
        et_arguments_free(model->arguments);
    } else
        et_params_free(model->params);
    et_free(model->missing);
    et_encoder_free(model->encoder);
    et_table_files_release(&model->texts);
    for (int i = 0; i < ET_TABLE_MODEL_FILES; i++)
        et_free((char *)model->text[i].bytes);
    et_free(model->checkpoint);
    et_arena_release(&model->arena);
    et_free(model);
}

static int open_model(et_table_model **out, const et_artifact *artifact,
                      const et_predictor_options *options, et_error *error)
{
    et_assert(artifact && options);
    const bool job = et_artifact_has(artifact, ET_RUN_BUILDER);
    int status = ET_OK;
    *out = NULL;
    if (!job && !et_artifact_has(artifact, ET_RUN_SETTINGS)) {
        /* The message assumes the likeliest intention. */
        status = et_artifact_check_folder(artifact, error);
        return status ? status
                      : et_fail(error, ET_ENOTFOUND,
                                et_file_exists(artifact->name)
                                    ? "%s: not a trained model of tables: it has "
                                      "neither " ET_RUN_SETTINGS " nor " ET_RUN_BUILDER
                                    : "%s: no such directory; name a run or an export of a model "
                                      "of tables",
                                artifact->name);
    }
    et_table_model *model;
    if (ET_ALLOC_ZERO(model, 1, "a model", error))
        return ET_ENOMEM;
    model->live_weights = options->live_weights;
    model->directory = et_arena_strdup(&model->arena, artifact->name);
    if ((!model->directory && (status = et_alloc_failed(error, "a path"))) ||
        (!job && (status = et_experiment_open_own(&model->experiment, &et_tabular_program, artifact,
                                                  &model->arena, error))) ||
        (status = read_encoder(model, artifact, error)) ||
        (status = (job ? open_builder : open_run)(model, artifact, options, error)))
        close_model(model);
    else
        *out = model;
    return status;
}

/* ---- weights ---- */

/* Checks that the files next to the weights belong to them. */
static int check_belongs(void *payload, const et_artifact_weights *load, et_error *error)
{
    const et_table_model *model = payload;
    const et_identity identity = { load->checkpoint, load->facts.identity };
    if (model->kind)
        return et_builder_check_identity(&identity, model->encoder, error);
    int status = et_experiment_check_model(&model->experiment, &identity,
                                           et_artifact_run(load->artifact), error);
    return status ? status : et_tabular_belongs_in(load->artifact, &identity, error);
}

/* Targets of a builder, and of weights without a unit, are as in the files. */
static int read_units(et_table_model *model, et_error *error)
{
    const et_encoded_field *field = model->target.field; /* NULL: of a builder */
    bool found;
    if (!field || field->kind != ET_ENCODED_VALUES)
        return ET_OK;
    model->units = et_arena_array(&model->arena, field->width, sizeof *model->units);
    if (!model->units)
        return et_alloc_failed(error, "a model");
    int status = et_target_unit_read(model->units, field->width, &found, model->identity, error);
    model->unit_count = !status && found ? field->width : 0;
    return status ? et_fail_while(error, status, "%s", model->checkpoint) : ET_OK;
}

/* Loads the weights from the same place. The parameters are declared already. */
static int load_model(et_table_model *model, const et_artifact *artifact,
                      const et_predictor_options *options, et_error *error)
{
    et_assert(model->params && model->encoder);
    et_artifact_weights load = { .artifact = artifact,
                                 .params = model->params,
                                 .named = options->checkpoint,
                                 .live_weights = model->live_weights,
                                 .facts = { .arena = &model->arena },
                                 .check = check_belongs,
                                 .payload = model };
    int status = et_artifact_load(&load, error);
    model->checkpoint = load.checkpoint;
    model->step = load.facts.step;
    model->identity = load.facts.identity;
    model->known = et_columns_known(et_encoder_row_layout(model->encoder),
                                    et_tabular_delimiter_of(model->identity));
    model->csv.known = &model->known;
    if (!status)
        status = read_units(model, error);
    if (status)
        return status;
    /* The builder's local init runs after a restore. */
    et_builder_init init;
    if (!model->kind)
        return ET_OK;
    et_model_builder_build_init(model->builder, &init);
    return init.local_init ? init.local_init(model->builder, model->params, error) : ET_OK;
}

/* ---- opening ---- */

static int make_layout(et_predictor *p, et_error *error)
{
    const et_encoder *encoder = p->model->encoder;
    const int fields = et_encoder_fields(encoder);
    et_arena *arena = &p->arena;
    p->layout = et_encoder_input_layout(encoder, p->batch_size, arena);
    p->index = et_arena_array(arena, fields, sizeof *p->index);
    p->to = et_arena_array(arena, fields, sizeof *p->to);
    p->size = et_arena_array(arena, fields, sizeof *p->size);
    if (arena->failed)
        return et_alloc_failed(error, "a predictor");
    for (int i = 0, next = 0; i < fields; i++) {
        const et_layout_field *field = &et_encoder_layout(encoder)->field[i];
        p->index[i] = et_encoder_field(encoder, i)->kind < ET_ENCODED_CLASS ? next++ : -1;
        p->size[i] = (size_t)et_shape_count(field->item) * et_dtype_size(field->dtype);
    }
    return p->layout->fields
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "%s: all features are targets: nothing to predict from",
                         p->model->directory);
}

ET_SORT_BY(by_name, et_table_output, strcmp(a->name, b->name), 0)

/* The outputs of the graph, by name. */
static int find_outputs(et_predictor *p, et_error *error)
{
    const char *name;
    for (int i = 0; (name = et_pass_output_name(p->pass, i)) != NULL; i++) {
        et_tensor values = et_pass_output(p->pass, name);
        int64_t rows = values.shape.rank ? values.shape.size[0] : 0;
        if (values.dtype != ET_F32 || rows < 1 || rows != p->batch_size ||
            p->outputs == ET_NODES_MAX)
            return et_fail(
                error, ET_ECONFIG,
                "%s: output %s is not a float32 value per row, or there are more than %d outputs",
                p->model->directory, name, ET_NODES_MAX);
        p->output[p->outputs++] =
            (et_table_output){ .name = name, .width = et_shape_count(values.shape) / rows };
    }
    if (!p->outputs)
        return et_fail(error, ET_ECONFIG, "%s: the model has no output", p->model->directory);
    qsort(p->output, p->outputs, sizeof *p->output, by_name);
    return ET_OK;
}

/* The output of the target has the name of its kind, and a number for each class, target or level;
 * these are their names. */
static void find_target(et_predictor *p)
{
    const et_encoder *encoder = p->model->encoder;
    const int target = et_encoder_target(encoder);
    const et_encoded_field *field = target < 0 ? NULL : et_encoder_field(encoder, target);
    const et_strings *levels = &p->model->levels;
    p->field = field;
    p->target = -1;
    if (!field)
        return;
    const et_target_kind *kind = et_target_kind_of(field, levels->count > 0);
    const int64_t width = kind == &et_target_classes     ? field->classes
                          : kind == &et_target_quantiles ? (int64_t)levels->count
                                                         : field->width;
    int at = 0;
    while (at < p->outputs &&
           (strcmp(p->output[at].name, kind->output) != 0 || p->output[at].width != width))
        at++;
    if (at == p->outputs)
        return;
    p->kind = kind;
    p->target = at;
    p->output[at].value = kind == &et_target_classes     ? field->label
                          : kind == &et_target_quantiles ? levels->items
                                                         : field->column;
    if (kind == &et_target_labels)
        p->output[at].choice = field->label;
    if (kind == &et_target_classes) {
        p->classes = field->classes;
        p->labels = field->label;
    }
}

/* The graph declares the parameters; a first predictor then loads their weights. */
static int open_pass(et_predictor *p, const et_artifact *artifact,
                     const et_predictor_options *options, et_error *error)
{
    et_table_model *model = p->model;
    const et_pass_options pass = { .name = "prediction" };
    int status;
    if ((status = make_layout(p, error)) || (status = et_device_open(&p->device, error)) ||
        (status = et_pass_open(&p->pass, p->device, model->params, p->layout, model->build,
                               model->payload, &pass, error)) ||
        (!p->shares && (status = et_params_materialize(model->params, false, error))) ||
        (!p->shares && (status = load_model(model, artifact, options, error))) ||
        (status = et_pass_prepare(p->pass, p->layout, error)) ||
        (status = et_batch_new(&p->batch, p->layout, error)) || (status = find_outputs(p, error)))
        return status;
    find_target(p);
    p->facts = (et_table_facts){ .output = p->output,
                                 .outputs = p->outputs,
                                 .label = p->labels,
                                 .labels = p->classes,
                                 .schema = p->model->texts.schema,
                                 .checkpoint = p->model->checkpoint,
                                 .step = p->model->step };
    return ET_OK;
}

/* artifact: NULL of one that shares. */
static int open_predictor(et_predictor **out, const et_artifact *artifact,
                          const et_predictor_options *options, et_error *error)
{
    static const et_predictor_options defaults = { 0 };
    const et_predictor_options *o = options ? options : &defaults;
    int status = et_thread_check_stack(error);
    if (status)
        return status;
    if (!artifact && !o->shares)
        return et_fail(error, ET_ECONFIG, "the directory of the model is NULL: name one");
    if (o->shares && (artifact || o->checkpoint || o->live_weights || o->builder))
        return et_fail(error, ET_ECONFIG,
                       "a predictor that shares weights must not set directory, checkpoint, "
                       "live_weights or builder");
    if (o->batch_size < 0 || o->batch_size > ET_PREDICTOR_BATCH_MAX)
        return et_fail(error, ET_ECONFIG, "batch_size %lld: give 1 to %d rows, or 0 for %d",
                       (long long)o->batch_size, ET_PREDICTOR_BATCH_MAX, ET_PREDICTOR_BATCH);
    et_predictor *p;
    if (ET_ALLOC_ZERO(p, 1, "a predictor", error))
        return ET_ENOMEM;
    p->shares = o->shares != NULL;
    p->batch_size = o->batch_size ? o->batch_size : ET_PREDICTOR_BATCH;
    if (p->shares)
        p->model = o->shares->model;
    else
        status = open_model(&p->model, artifact, o, error);
    if (!status)
        status = open_pass(p, artifact, o, error);
    if (status)
        et_predictor_close(p);
    else
        *out = p;
    return status;
}

int et_predictor_open(et_predictor **out, const char *model_dir,
                      const et_predictor_options *options, et_error *error)
{
    et_artifact artifact = { .name = NULL };
    *out = NULL;
    int status = model_dir ? et_artifact_open(&artifact, model_dir, error) : ET_OK;
    if (!status)
        status = open_predictor(out, model_dir ? &artifact : NULL, options, error);
    et_artifact_close(&artifact);
    return status;
}

int et_predictor_open_memory(et_predictor **out, const void *bytes, size_t length,
                             const et_predictor_options *options, et_error *error)
{
    et_artifact artifact;
    *out = NULL;
    int status = et_artifact_open_memory(&artifact, bytes, length, error);
    if (!status)
        status = open_predictor(out, &artifact, options, error);
    et_artifact_close(&artifact);
    return status;
}

void et_predictor_close(et_predictor *p)
{
    if (!p)
        return;
    et_batch_free(p->batch);
    et_pass_close(p->pass);
    et_device_close(p->device);
    et_arena_release(&p->arena);
    if (!p->shares)
        close_model(p->model);
    et_free(p);
}

int et_predictors_open(et_predictors *all, const char *model_dir,
                       const et_predictor_options *options, int threads, et_error *error)
{
    const int usual = omp_get_max_threads();
    int status = ET_OK;
    *all = (et_predictors){ .count = 0 };
    omp_set_num_threads(1);
    for (; all->count < threads && all->count < ET_PREDICTORS_MAX && !status;
         all->count += !status) {
        const et_predictor_options shares = { .batch_size = options ? options->batch_size : 0,
                                              .shares = all->each[0] };
        status = et_predictor_open(&all->each[all->count], all->count ? NULL : model_dir,
                                   all->count ? &shares : options, error);
    }
    omp_set_num_threads(usual);
    return status;
}

void et_predictors_close(et_predictors *all)
{
    while (all->count)
        et_predictor_close(all->each[--all->count]);
}

/* ---- rows ---- */

et_hint et_predictor_hint(const et_predictor *p, const char *name, bool read)
{
    const et_encoder *encoder = p->model->encoder;
    const et_schema *schema = et_encoder_schema(encoder);
    const char *names[257];
    int count = 0;
    for (int i = 0; i < et_schema_count(schema) && count < 256; i++)
        if (!read || et_encoder_reads(encoder, i, false))
            names[count++] = et_schema_at(schema, i)->name;
    names[count] = NULL;
    return et_nearest_hint(name, names, "");
}

const et_cell *et_predictor_key(const et_predictor *p, const et_cell *cells)
{
    const char *name;
    const int field = et_encoder_key(p->model->encoder, 0, &name);
    return field < 0 ? NULL : &cells[et_encoder_cell(p->model->encoder, field)];
}

int et_predictor_put(et_predictor *p, int64_t at, const et_cell *cells, const char *where,
                     et_error *error)
{
    et_assert(at >= 0 && at < p->batch_size);
    const et_encoder *encoder = p->model->encoder;
    for (int i = 0, count = et_encoder_fields(encoder); i < count; i++)
        p->to[i] =
            p->index[i] < 0 ? NULL : (char *)p->batch->data[p->index[i]] + (size_t)at * p->size[i];
    return et_encoder_row(encoder, cells, p->to, where, error);
}

int et_predictor_run(et_predictor *p, int64_t count, et_error *error)
{
    et_assert(count >= 0 && count <= p->batch_size);
    p->batch->filled[0] = count;
    et_batch_finish(p->batch);
    int status = et_pass_run(p->pass, p->batch, 0, 0, error);
    for (int i = 0; i < p->outputs && !status; i++)
        p->values[i] = et_pass_output(p->pass, p->output[i].name).data;
    return status;
}

const float *et_predictor_values(const et_predictor *p, int output, int64_t at)
{
    et_assert(output >= 0 && output < p->outputs && at >= 0 && at < p->batch_size);
    return p->values[output] + at * p->output[output].width;
}

const et_target_unit *et_predictor_unit(const et_predictor *p, int output, int64_t i)
{
    et_assert(output < p->outputs && i >= 0);
    return p->model->unit_count && output >= 0 && output == p->target
               ? &p->model->units[p->kind->single ? 0 : i]
               : NULL;
}

double et_predictor_value(const et_predictor *p, int output, int64_t at, int64_t i)
{
    const double value = (double)et_predictor_values(p, output, at)[i];
    const et_target_unit *unit = et_predictor_unit(p, output, i);
    return unit ? unit->offset + unit->scale * value : value;
}

int et_predictor_check(const et_predictor *p, int64_t at, const char *where, et_error *error)
{
    /* A builder's values may be anything. */
    const int output = p->kind == &et_target_values && !p->model->unit_count ? -1 : p->target;
    for (int64_t i = 0; output >= 0 && i < p->output[output].width; i++)
        if (!isfinite(et_predictor_value(p, output, at, i)))
            return et_fail(error, ET_EDATA,
                           "%s%sthe model's %s for this row are not numbers: a value in the row is "
                           "too far from the training data; correct it",
                           where ? where : "", where ? ": " : "", p->output[output].name);
    return ET_OK;
}

/* ---- facts ---- */

void et_predictor_set_lenient(et_predictor *p, bool lenient)
{
    p->lenient = lenient;
}

const et_table_facts *et_predictor_facts(const et_predictor *p)
{
    return &p->facts;
}
