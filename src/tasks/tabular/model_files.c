/* A trained model's directory, read: what rows are encoded by, the graph, the weights.
 *
 *   schema.yaml, metadata.json, features.yaml     the encoder
 *   params.yaml                                   a run of the command, or an export of one
 *   builder.yaml                                  a job of a builder (model_trainer.h), or its
 * model checkpoints/, best/ or model.safetensors      the weights */
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "data/dataset.h"
#include "tasks/tabular/builder_files.h"
#include "tasks/tabular/graph.h"
#include "tasks/tabular/model_builder.h"
#include "tasks/tabular/predictor_private.h"
#include "train/checkpoint.h"

/* ---- the encoder -------------------------------------------------------------------------------
 */

static const char *path_of(et_table_model *model, const char *name)
{
    return et_arena_printf(&model->arena, "%s/%s", model->directory, name);
}

static int read_encoder(et_table_model *model, et_error *error)
{
    const char *schema = path_of(model, ET_TABLE_SCHEMA);
    const char *metadata = path_of(model, ET_TABLE_METADATA);
    const char *features = path_of(model, ET_TABLE_FEATURES);
    if (!schema || !metadata || !features)
        return et_alloc_failed(error, strlen(model->directory), "a path");
    int status = et_schema_load(&model->schema, schema, error);
    if (!status)
        status = et_metadata_load(&model->metadata, metadata, error);
    if (!status)
        status = et_feature_set_load(&model->features, features, error);
    if (!status)
        status =
            et_encoder_new(&model->encoder, model->schema, model->metadata, model->features, error);
    return status ? et_fail_while(error, status, "%s", model->directory) : ET_OK;
}

/* ---- which model -------------------------------------------------------------------------------
 */

static int open_builder(et_table_model *model, const et_predictor_options *options, et_error *error)
{
    const et_data_set_options parts = { .schema = model->schema,
                                        .metadata = model->metadata,
                                        .features = model->features };
    et_model_builder_class whole;
    int status =
        et_builder_read(&model->kind, &model->arguments, model->directory, options->builder, error);
    if (!status)
        status = et_data_set_bare(&model->dataset, &parts, error);
    if (!status)
        status = et_model_builder_class_resolve(&whole, model->kind, error);
    model->builder = status ? NULL : et_alloc_zero(1, whole.size);
    if (!status && !model->builder)
        status = et_alloc_failed(error, whole.size, "a builder");
    if (!status)
        status = et_model_builder_init(model->builder, model->kind, model->arguments,
                                       model->dataset, error);
    return status ? status
                  : et_builder_prediction(model->builder, &model->params, &model->build,
                                          &model->payload, error);
}

static int open_run(et_table_model *model, et_error *error)
{
    int status = et_tabular_graph_open(&model->graph, &model->experiment, model->directory,
                                       model->encoder, &model->arena, error);
    if (!status)
        status = et_params_new(&model->params, error);
    model->build = et_tabular_graph_build;
    model->payload = model->graph;
    return status;
}

/* A directory that is neither is told of by what a person most likely meant. */
static int check_directory(const char *directory, bool *job, et_error *error)
{
    char *builder = et_path_join(directory, ET_TABLE_BUILDER);
    char *params = et_path_join(directory, ET_EXPERIMENT_FILE);
    int status = builder && params ? ET_OK : et_alloc_failed(error, strlen(directory), "a path");
    *job = !status && et_file_exists(builder);
    if (!status && !*job && !et_file_exists(params))
        status = et_fail(error, ET_ENOTFOUND,
                         et_file_exists(directory)
                             ? "%s: no trained model of tables: neither " ET_EXPERIMENT_FILE
                               " nor " ET_TABLE_BUILDER " is in it"
                             : "%s: no such directory",
                         directory);
    et_free(builder);
    et_free(params);
    return status;
}

int et_table_model_open(et_table_model **out, const char *directory,
                        const et_predictor_options *options, et_error *error)
{
    bool job;
    *out = NULL;
    int status = check_directory(directory, &job, error);
    et_table_model *model = status ? NULL : et_alloc_zero(1, sizeof *model);
    if (!model)
        return status ? status : et_alloc_failed(error, sizeof *model, "a model");
    model->live_weights = options->live_weights;
    model->directory = et_strdup(directory);
    if (!model->directory)
        status = et_alloc_failed(error, strlen(directory), "a path");
    if (!status && !job)
        status = et_tabular_graph_check(&model->experiment, directory, &model->arena, error);
    if (!status)
        status = read_encoder(model, error);
    if (!status)
        status = job ? open_builder(model, options, error) : open_run(model, error);
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
        et_data_set_close(model->dataset);
        et_arguments_free(model->arguments);
    } else
        et_params_free(model->params);
    et_encoder_free(model->encoder);
    et_feature_set_free(model->features);
    et_metadata_free(model->metadata);
    et_schema_free(model->schema);
    et_free(model->checkpoint);
    et_free(model->directory);
    et_arena_release(&model->arena);
    et_free(model);
}

/* ---- weights -----------------------------------------------------------------------------------
 */

/* Whether what lies beside the weights is theirs. */
static int check_belongs(et_table_model *model, const et_checkpoint_facts *facts, et_error *error)
{
    const et_identity identity = { model->checkpoint, facts->identity };
    model->step = facts->step;
    return model->kind ? et_builder_check_identity(&identity, model->encoder, error)
                       : et_tabular_graph_check_identity(&model->experiment, model->directory,
                                                         &identity, error);
}

/* The best one; ET_ENOTFOUND without a warning: none is kept. Any other trouble with it is a
 * warning, since the newest is there as well. */
static int load_best(et_table_model *model)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .arena = &model->arena };
    int status = et_checkpoint_load_best(&model->checkpoint, model->params, model->directory,
                                         !model->live_weights, &facts, &reason);
    if (status == ET_ENOTFOUND && !model->checkpoint)
        return status;
    if (!status)
        status = check_belongs(model, &facts, &reason);
    if (status)
        et_log(ET_LOG_WARNING, "%s; taking the newest checkpoint, not the best", reason.text);
    return status;
}

/* Of an export. *there: whether it has such weights. */
static int load_export(et_table_model *model, bool *there, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &model->arena };
    et_free(model->checkpoint);
    model->checkpoint = et_path_join(model->directory, ET_TABLE_WEIGHTS);
    if (!model->checkpoint)
        return et_alloc_failed(error, strlen(model->directory), "a path");
    *there = et_file_exists(model->checkpoint);
    int status =
        *there ? et_checkpoint_load_weights(model->params, model->checkpoint, false, &facts, error)
               : ET_OK;
    return *there && !status ? check_belongs(model, &facts, error) : status;
}

static int load_newest(et_table_model *model, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    et_checkpoint_facts facts = { .arena = &model->arena };
    et_free(model->checkpoint);
    model->checkpoint = NULL;
    int status = et_checkpoint_load_newest(&model->checkpoint, model->params, model->directory,
                                           !model->live_weights, &facts, &reason);
    if (status == ET_ENOTFOUND)
        return et_fail(error, status,
                       "%s: no checkpoint yet; train there first, or wait until the run saves",
                       model->directory);
    return status ? et_fail(error, status, "%s", reason.text) : check_belongs(model, &facts, error);
}

static int load_named(et_table_model *model, const char *name, et_error *error)
{
    et_checkpoint_facts facts = { .arena = &model->arena };
    int status = et_checkpoint_named(&model->checkpoint, model->directory, name, error);
    if (!status)
        status = et_checkpoint_load_weights(model->params, model->checkpoint, !model->live_weights,
                                            &facts, error);
    return status ? status : check_belongs(model, &facts, error);
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

int et_table_model_load(et_table_model *model, const et_predictor_options *options, et_error *error)
{
    bool exported = false;
    int status = ET_OK;
    if (options->checkpoint)
        status = load_named(model, options->checkpoint, error);
    else {
        status = load_export(model, &exported, error);
        if (!exported && !status) {
            et_free(model->checkpoint);
            model->checkpoint = NULL;
            if (load_best(model))
                status = load_newest(model, error);
        }
    }
    return status ? status : init_locally(model, error);
}
