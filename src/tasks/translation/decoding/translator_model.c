/* Reads settings, vocabulary and weights of a run, an export or one file, for a translator. Cheap
 * parts come first: a wrong precision or a missing vocabulary is reported before weights are
 * read. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
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
 * of such an export stay as they are. Other weights are only read by the decoder's products, which
 * round them in the same way, and by the aligner, whose products are float32. */
static int round_weights(et_translator *t, et_error *error)
{
    int status = ET_OK;
    et_params_begin_change(t->params);
    for (int i = 0; i < et_params_count(t->params) && !status; i++) {
        const char *name = et_params_name(t->params, i);
        if (!t->decoding.alignments && !et_stored_weight_by_rows(name))
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
    et_assert(stored);
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
    et_assert(!t->params && artifact);
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
    return status || !t->int8 || rounded ? status : round_weights(t, error);
}

/* Members of an ensemble are translators. Each stays as it is and is only read: its weights,
 * settings and vocabularies. The translator that is opened with them has the decoder, which runs
 * all models (search.c) and averages their probabilities (choice.c). */

int et_translator_check_members(const et_translator_options *o, et_error *error)
{
    if (o->other_count < 0 || o->other_count >= ET_DECODER_MODELS_MAX)
        return et_fail(error, ET_ECONFIG, "an ensemble with %d other models: give 0 to %d",
                       o->other_count, ET_DECODER_MODELS_MAX - 1);
    if (o->other_count && o->shares)
        return et_fail(error, ET_ECONFIG,
                       "a translator that shares weights has the others of that translator: set no "
                       "others");
    if (o->weights && !o->other_count)
        return et_fail(error, ET_ECONFIG, "weights are for an ensemble: set others, too");
    for (int i = 0; i < o->other_count; i++)
        if (!o->others || !o->others[i])
            return et_fail(error, ET_ECONFIG, "other model %d of the ensemble is NULL", i + 1);
    for (int i = 0; o->weights && i <= o->other_count; i++)
        if (!(o->weights[i] > 0 && o->weights[i] <= 1e6))
            return et_fail(error, ET_ECONFIG,
                           "weight %d of the ensemble is %g: give a number above 0, up to 1e6",
                           i + 1, o->weights[i]);
    return ET_OK;
}

/* The names of models are the paths of their weights. */
static int check_other(const et_translator *t, const et_translator *other, et_error *error)
{
    int status = ET_OK;
    if (other->other_count)
        return et_fail(error, ET_ECONFIG,
                       "%s belongs to an ensemble itself: name the models one by one",
                       other->checkpoint);
    status = et_vocabularies_check_equal(t->sides.target, other->sides.target, error);
    return status ? et_fail_while(error, status,
                                  "%s and %s need the same target vocabulary for an ensemble",
                                  t->checkpoint, other->checkpoint)
                  : ET_OK;
}

int et_translator_join_members(et_translator *t, et_error *error)
{
    et_assert(t->sides.target);
    const et_translator *from = t->options.shares;
    t->other_count = from ? from->other_count : t->options.other_count;
    const size_t count = (size_t)t->other_count;
    if (from) {
        t->others = from->others;
        t->weights = from->weights;
        t->models = from->models;
        t->own_sources = from->own_sources;
    }
    if (from || !count)
        return ET_OK;
    const et_translator **others = et_arena_array(&t->arena, count, sizeof *others);
    et_decoder_model *models = et_arena_array(&t->arena, count, sizeof *models);
    et_transformer *transformers = et_arena_array(&t->arena, count, sizeof *transformers);
    double *weights = et_arena_array(&t->arena, count + 1, sizeof *weights);
    if (!others || !models || !transformers || !weights)
        return et_alloc_failed(error, count * sizeof *transformers, "an ensemble");
    int status = ET_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = check_other(t, t->options.others[i], error);
    if (status)
        return status;
    for (int i = 0; i < t->other_count; i++) {
        const et_translator *other = others[i] = t->options.others[i];
        const et_sides *a = &t->sides, *b = &other->sides;
        transformers[i] = et_translator_transformer(other);
        models[i] = (et_decoder_model){ other->params, &transformers[i], other->act, other->int8 };
        t->own_sources = t->own_sources || a->punctuation[false] != b->punctuation[false] ||
                         et_vocabulary_checksum(a->source) != et_vocabulary_checksum(b->source);
    }
    const double *given = t->options.weights;
    double sum = 0;
    for (int i = 0; i <= t->other_count; i++)
        sum += given ? given[i] : 1;
    for (int i = 0; i <= t->other_count; i++)
        weights[i] = (given ? given[i] : 1) / sum;
    t->others = others;
    t->models = models;
    t->weights = weights;
    return ET_OK;
}

int et_translator_join_suppressed(et_translator *t, et_error *error)
{
    et_assert(t->choice.never_count >= 0);
    size_t count = (size_t)t->choice.never_count;
    for (int i = 0; i < t->other_count; i++)
        count += (size_t)t->others[i]->choice.never_count;
    if (!t->other_count || !count)
        return ET_OK;
    int32_t *ids = et_arena_array(&t->arena, count, sizeof *ids), *end = ids;
    if (!ids)
        return et_alloc_failed(error, count * sizeof *ids, "a list of tokens");
    for (int i = -1; i < t->other_count; i++) {
        const et_choice_options *of = i < 0 ? &t->choice : &t->others[i]->choice;
        if (of->never_count)
            memcpy(end, of->never, (size_t)of->never_count * sizeof *ids);
        end += of->never_count;
    }
    t->choice.never = ids;
    t->choice.never_count = (int)count;
    return ET_OK;
}
