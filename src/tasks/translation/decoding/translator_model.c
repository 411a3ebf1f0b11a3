/* Reads settings, vocabulary and weights of a run, an export or one file, for a translator. Cheap
 * parts come first: a wrong precision or a missing vocabulary is reported before weights are
 * read. */
#include <string.h>

#include "base/alloc.h"
#include "engine/graph/graph.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/unused_tensors.h"
#include "tasks/translation/settings/translation_kind.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint_file.h"

/* ---- weights ---- */

/* Checks that settings and vocabulary next to the weights belong to them. */
static int check_belongs(void *payload, const et_artifact_weights *load, et_error *error)
{
    et_translator *t = payload;
    et_identity identity = { load->checkpoint, load->facts.identity };
    int status = et_experiment_check_model(&t->experiment, &identity,
                                           et_artifact_run(load->artifact), error);
    return status ? status
                  : et_vocabularies_check_all(&t->own, &identity, load->artifact, &t->arena, error);
}

static int load_weights(et_translator *t, const et_artifact *artifact, et_error *error)
{
    et_artifact_weights load = { .artifact = artifact,
                                 .params = t->params,
                                 .mapped = t->act == ET_F32,
                                 .named = t->options.checkpoint,
                                 .live_weights = t->options.live_weights,
                                 .facts = { .arena = &t->arena },
                                 .check = check_belongs,
                                 .payload = t };
    int status = et_artifact_load(&load, error);
    t->checkpoint = load.checkpoint;
    t->step = load.facts.step;
    t->identity = load.facts.identity;
    return status;
}

/* ---- the rest ---- */

/* Opens the run's own copies of the vocabularies, which define the ids of its weights. */
static int open_vocabularies(et_translator *t, const et_artifact *artifact, et_error *error)
{
    const et_translation_options *options = t->experiment.task;
    et_vocabularies_init(&t->own, &options->vocabulary);
    int status = et_vocabularies_read(&t->own, artifact, &t->arena, error);
    if (!status)
        t->sides = et_vocabularies_sides(&t->own);
    if (!status)
        status = et_vocabularies_check_model(&t->own, &options->model, error);
    t->vocabularies = &t->own;
    return status;
}

/* 64 positions: the size of the graph below; the decoder has its own table. */
et_transformer et_translator_transformer(const et_translator *t)
{
    return et_translation_transformer(t->experiment.task, et_vocabulary_size(t->sides.source),
                                      et_vocabulary_size(t->sides.target), 64);
}

/* Declares the model's parameters: a graph of the smallest batch names them all. */
static int declare_params(et_translator *t, et_error *error)
{
    /* The graph is only built, never planned: building it declares the parameters. */
    et_graph *graph;
    et_transformer model = et_translator_transformer(t);
    int status = et_params_new(&t->params, error);
    if (!status)
        status = et_graph_new(&graph, t->params, NULL, error);
    if (status)
        return status;
    et_transformer_train(et_graph_scope(graph), &model, 64, 64, 1);
    et_transformer_table(et_graph_scope(graph), &model);
    et_transformer_output_bias(et_graph_scope(graph), &model);
    status = et_graph_finish(graph, error);
    et_graph_free(graph);
    if (!status && t->act == ET_BF16)
        status = et_params_materialize(t->params, true, error);
    return status;
}

/* Rounds tables for int8 as an export in int8 stores them, because their rows are looked up. Tables
 * of such an export stay as they are. Other weights are only read by products, which round them in
 * the same way. */
static int round_tables(et_translator *t, et_error *error)
{
    int status = ET_OK;
    et_params_begin_change(t->params);
    for (int i = 0; i < et_params_count(t->params) && !status; i++) {
        const char *name = et_params_name(t->params, i);
        if (!et_stored_weight_by_rows(name))
            continue;
        status = et_params_unlock(t->params, i, error);
        if (!status)
            status =
                et_stored_weight_round(et_params_values(t->params) + et_params_offset(t->params, i),
                                       name, et_params_shape(t->params, i), error);
    }
    et_params_changed(t->params, true);
    return status;
}

/* bfloat16 becomes float32 on a CPU without bfloat16 products: the results are the same except for
 * rounding, and it is faster there. The settings never have auto, because a run writes the
 * precision that it chose. stored: the type of a file's weights. */
int et_translator_resolve_precision(et_translator *t, const char *stored, et_error *error)
{
    const char *precision = t->options.precision;
    if (!precision && strcmp(stored, "float32") != 0)
        precision = stored;
    bool bf16 = t->experiment.runtime.mixed_precision_dtype == ET_PRECISION_BFLOAT16;
    int status = precision ? et_artifact_check_precision(precision, error) : ET_OK;
    if (precision)
        bf16 = !strcmp(precision, "bfloat16");
    t->int8 = precision && !strcmp(precision, "int8");
    t->act = bf16 && et_gemm_has_bf16() ? ET_BF16 : ET_F32;
    return status;
}

static int open_lexicon(et_translator *t, const et_artifact *artifact, et_error *error)
{
    char *bytes;
    size_t length;
    if (!et_artifact_has(artifact, ET_TRANSLATION_LEXICON))
        return ET_OK;
    const char *path = et_artifact_path(artifact, ET_TRANSLATION_LEXICON, &t->arena);
    int status = path ? et_artifact_read(artifact, ET_TRANSLATION_LEXICON, ET_LEXICON_BYTES_MAX,
                                         &bytes, &length, error)
                      : et_alloc_failed(error, 0, "a path");
    return status ? status
                  : et_lexicon_open(&t->lexicon, bytes, length, et_vocabulary_size(t->sides.source),
                                    et_vocabulary_size(t->sides.target), path, error);
}

int et_translator_open_model(et_translator *t, const et_artifact *artifact, et_error *error)
{
    int status = et_experiment_open_artifact(&t->experiment, &et_translation_program, artifact,
                                             &t->arena, error);
    if (!status)
        status = et_translator_resolve_precision(t, et_artifact_precision(artifact), error);
    if (!status)
        status = open_vocabularies(t, artifact, error);
    if (!status)
        status = et_device_open(&t->device, error);
    if (!status)
        status = declare_params(t, error);
    if (!status)
        status = load_weights(t, artifact, error);
    if (!status && et_artifact_has(artifact, ET_UNUSED_TENSORS))
        status = et_artifact_read(artifact, ET_UNUSED_TENSORS, ET_UNUSED_BYTES_MAX, &t->unused,
                                  &t->unused_length, error);
    if (!status)
        status = open_lexicon(t, artifact, error);
    const bool rounded = !strcmp(et_artifact_precision(artifact), "int8");
    return status || !t->int8 || rounded ? status : round_tables(t, error);
}
