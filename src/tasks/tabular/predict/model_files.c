/* Reads the directory of a trained model: the encoder's texts, the graph, the weights.
 *
 *   schema.yaml, metadata.json, features.yaml   the encoder
 *   params.yaml                                 a run of the command, or an export of one
 *   builder.yaml                                a job of a builder (model_trainer.h), or its model
 *   checkpoints/, best/ or model.safetensors    the weights */
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "data/table/rows/rows.h"
#include "data/table/table_set.h"
#include "tasks/tabular/builders/builders.h"
#include "tasks/tabular/predict/predict.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/table_texts.h"
#include "tasks/tabular/tabular_task.h"
#include "tasks/tabular/target/target.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/run_names.h"

/* ---- the encoder ---- */

/* A text, kept as it is: an export has the same. Messages begin with *path. */
static int read_text(et_table_model *model, const et_artifact *artifact, int which,
                     const char *name, const char **path, et_error *error)
{
    char *bytes;
    *path = et_artifact_path(artifact, name, &model->arena);
    if (!*path)
        return et_alloc_failed(error, strlen(model->directory), "a path");
    model->text[which].name = name;
    int status = et_artifact_read(artifact, name, ET_TABLE_BYTES_MAX, &bytes,
                                  &model->text[which].length, error);
    model->text[which].bytes = bytes;
    return status;
}

static int read_encoder(et_table_model *model, const et_artifact *artifact, et_error *error)
{
    et_table_texts *texts = &model->texts;
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_TEXTS && !status; i++) {
        const et_artifact_text *text = &model->text[i];
        const char *path;
        status = read_text(model, artifact, i, et_table_text_names[i], &path, error);
        if (!status)
            status = et_table_text_parse(texts, i, text->bytes, text->length, path, error);
    }
    if (!status)
        status =
            et_encoder_new(&model->encoder, texts->schema, texts->metadata, texts->features, error);
    return status ? et_fail_while(error, status, "%s", model->directory) : ET_OK;
}

/* ---- which model ---- */

static int build_prediction(et_table_model *model, et_error *error)
{
    et_graph_interface *graph;
    int status = et_model_builder_build_prediction_graph(model->builder, NULL, &graph, error);
    if (status)
        return status;
    model->params = et_model_builder_params(model->builder);
    model->build = graph->build;
    model->payload = graph;
    return ET_OK;
}

static int open_builder(et_table_model *model, const et_artifact *artifact,
                        const et_predictor_options *options, et_error *error)
{
    const et_artifact_text *text = &model->text[ET_TABLE_TEXT_MODEL];
    const char *path;
    const et_table_set_options parts = { .schema = model->texts.schema,
                                         .metadata = model->texts.metadata,
                                         .features = model->texts.features };
    et_model_builder_class whole;
    int status = read_text(model, artifact, ET_TABLE_TEXT_MODEL, ET_RUN_BUILDER, &path, error);
    if (!status)
        status = et_builder_parse(&model->kind, &model->arguments, text->bytes, text->length, path,
                                  options->builder, error);
    if (!status)
        status = et_table_set_open(&model->dataset, NULL, 0, &parts, error);
    if (!status)
        status = et_model_builder_class_resolve(&whole, model->kind, error);
    model->builder = status ? NULL : et_alloc_zero(1, whole.size);
    if (!status && !model->builder)
        status = et_alloc_failed(error, whole.size, "a builder");
    if (!status)
        status = et_model_builder_init(model->builder, model->kind, model->arguments,
                                       model->dataset, error);
    return status ? status : build_prediction(model, error);
}

static int open_run(et_table_model *model, const et_artifact *artifact,
                    const et_predictor_options *how, et_error *error)
{
    const char *path;
    int status = read_text(model, artifact, ET_TABLE_TEXT_MODEL, ET_RUN_SETTINGS, &path, error);
    if (!status)
        status = et_tabular_graph_open(&model->graph, &model->experiment, model->directory,
                                       model->encoder, &model->arena, error);
    if (!status)
        status = et_tabular_graph_choose(model->graph, artifact, how->checkpoint,
                                         model->live_weights, &model->arena, error);
    if (!status)
        status = et_params_new(&model->params, error);
    const et_tabular_options *options = model->experiment.task;
    if (!status && options->missing.count) {
        model->missing = et_csv_missing_with(options->missing.items, options->missing.count);
        if (!model->missing)
            status = et_alloc_failed(error, options->missing.count, "task.missing");
    }
    if (!status)
        model->csv = et_tabular_table_options(options, model->missing).csv;
    if (strchr(ET_CSV_DELIMITERS, model->csv.delimiter))
        model->csv.delimiter = 0;
    model->build = et_tabular_graph_build;
    model->payload = model->graph;
    return status;
}

/* For a directory that is neither, the message assumes the likeliest intention. */
static int check_artifact(const et_artifact *artifact, bool *job, et_error *error)
{
    *job = et_artifact_has(artifact, ET_RUN_BUILDER);
    if (*job || et_artifact_has(artifact, ET_RUN_SETTINGS))
        return ET_OK;
    int status = et_artifact_check_folder(artifact, error);
    if (status)
        return status;
    return et_fail(error, ET_ENOTFOUND,
                   et_file_exists(artifact->name)
                       ? "%s: not a trained model of tables: it has neither " ET_RUN_SETTINGS
                         " nor " ET_RUN_BUILDER
                       : "%s: no such directory",
                   artifact->name);
}

int et_table_model_open(et_table_model **out, const et_artifact *artifact,
                        const et_predictor_options *options, et_error *error)
{
    bool job;
    *out = NULL;
    int status = check_artifact(artifact, &job, error);
    et_table_model *model = status ? NULL : et_alloc_zero(1, sizeof *model);
    if (!model)
        return status ? status : et_alloc_failed(error, sizeof *model, "a model");
    model->live_weights = options->live_weights;
    model->directory = et_strdup(artifact->name);
    if (!model->directory)
        status = et_alloc_failed(error, strlen(artifact->name), "a path");
    if (!status && !job)
        status = et_tabular_graph_check(&model->experiment, artifact, &model->arena, error);
    if (!status)
        status = read_encoder(model, artifact, error);
    if (!status)
        status = job ? open_builder(model, artifact, options, error)
                     : open_run(model, artifact, options, error);
    if (status)
        et_table_model_close(model);
    else
        *out = model;
    return status;
}

void et_table_model_close(et_table_model *model)
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
    et_table_texts_release(&model->texts);
    for (int i = 0; i < ET_TABLE_MODEL_TEXTS; i++)
        et_free((char *)model->text[i].bytes);
    et_free(model->checkpoint);
    et_free(model->directory);
    et_arena_release(&model->arena);
    et_free(model);
}

/* ---- weights ---- */

/* Checks that the files next to the weights belong to them. */
static int check_belongs(void *payload, const et_artifact_weights *load, et_error *error)
{
    const et_table_model *model = payload;
    const et_identity identity = { load->checkpoint, load->facts.identity };
    return model->kind ? et_builder_check_identity(&identity, model->encoder, error)
                       : et_tabular_graph_check_identity(&model->experiment, load->artifact,
                                                         &identity, error);
}

/* After a restore a builder has a word, as documented for local init. */
static int init_locally(et_table_model *model, et_error *error)
{
    et_builder_init init;
    if (!model->kind)
        return ET_OK;
    et_model_builder_build_init(model->builder, &init);
    return init.local_init ? init.local_init(model->builder, model->params, error) : ET_OK;
}

/* A builder's targets are as its data set has them; so are those of weights that say nothing. */
static int read_units(et_table_model *model, et_error *error)
{
    const int target = et_encoder_target(model->encoder);
    const et_encoded_field *field = target < 0 ? NULL : et_encoder_field(model->encoder, target);
    bool found;
    if (model->kind || !field || field->kind != ET_ENCODED_VALUES)
        return ET_OK;
    model->units = et_arena_array(&model->arena, (size_t)field->width, sizeof *model->units);
    if (!model->units)
        return et_alloc_failed(error, (size_t)field->width * sizeof *model->units, "a model");
    int status = et_target_unit_read(model->units, field->width, &found, model->identity, error);
    model->unit_count = !status && found ? field->width : 0;
    return status ? et_fail_while(error, status, "%s", model->checkpoint) : ET_OK;
}

int et_table_model_load(et_table_model *model, const et_artifact *artifact,
                        const et_predictor_options *options, et_error *error)
{
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
    return status ? status : init_locally(model, error);
}
