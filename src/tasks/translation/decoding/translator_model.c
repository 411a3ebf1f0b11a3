/* Opens a translator: options, then settings, vocabulary and weights of a run, an export or one
 * file, then an ensemble and the decoder. Cheap parts come first: a wrong precision or a missing
 * vocabulary is reported before weights are read. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/threads/thread.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/interchange/tensor_map.h"
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
            status = et_stored_weight_round(et_params_values_of(t->params, i), name,
                                            et_params_shape(t->params, i), error);
    }
    et_params_changed(t->params, true);
    return status;
}

/* On a CPU without bfloat16 products, bfloat16 becomes float32, which is faster there and gives the
 * same results except for rounding. The settings never have auto, because a run writes the
 * precision that it chose. stored: the type of a file's weights. */
static int resolve_precision(et_translator *t, const char *stored, et_error *error)
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
                      : et_alloc_failed(error, "a path");
    return status ? status
                  : et_lexicon_open(&t->lexicon, bytes, length, et_vocabulary_size(t->sides.source),
                                    et_vocabulary_size(t->sides.target), path, error);
}

static int open_model(et_translator *t, const et_artifact *artifact, et_error *error)
{
    et_assert(!t->params && artifact);
    int status;
    if ((status = et_experiment_open_own(&t->experiment, &et_translation_program, artifact,
                                         &t->arena, error)) ||
        (status = resolve_precision(t, et_artifact_precision(artifact), error)) ||
        (status = open_vocabularies(t, artifact, error)) ||
        (status = et_device_open(&t->device, error)))
        return status;
    const et_transformer model = et_translator_transformer(t);
    if ((status = et_transformer_declare(&t->params, &model, error)) ||
        (t->act == ET_BF16 && (status = et_params_materialize(t->params, true, error))) ||
        (status = load_weights(t, artifact, error)))
        return status;
    if (et_artifact_has(artifact, ET_UNUSED_TENSORS))
        status = et_artifact_read(artifact, ET_UNUSED_TENSORS, ET_UNUSED_BYTES_MAX, &t->unused,
                                  &t->unused_length, error);
    if (!status)
        status = open_lexicon(t, artifact, error);
    const bool rounded = !strcmp(et_artifact_precision(artifact), "int8");
    return status || !t->int8 || rounded ? status : round_weights(t, error);
}

/* Members of an ensemble are translators, whose weights, settings and vocabularies are only read.
 * The translator that is opened with them has the decoder. It runs all models (search.c) and
 * averages their probabilities (sampling.c). */

static int check_members(const et_translator_options *o, et_error *error)
{
    if (o->other_count < 0 || o->other_count >= ET_DECODER_MODELS_MAX)
        return et_fail(error, ET_ECONFIG, "an ensemble with %d other models: give 0 to %d",
                       o->other_count, ET_DECODER_MODELS_MAX - 1);
    if (o->other_count && o->shares)
        return et_fail(error, ET_ECONFIG,
                       "shares and others are both set: a translator that shares weights also uses "
                       "the others of the shared translator; leave others out");
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

static int join_members(et_translator *t, et_error *error)
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
        return et_alloc_failed(error, "an ensemble");
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

static int join_suppressed(et_translator *t, et_error *error)
{
    et_assert(t->choice.never_count >= 0);
    size_t count = (size_t)t->choice.never_count;
    for (int i = 0; i < t->other_count; i++)
        count += (size_t)t->others[i]->choice.never_count;
    if (!t->other_count || !count)
        return ET_OK;
    int32_t *ids = et_arena_array(&t->arena, count, sizeof *ids), *end = ids;
    if (!ids)
        return et_alloc_failed(error, "a list of tokens");
    for (int i = -1; i < t->other_count; i++) {
        const et_sampling_options *of = i < 0 ? &t->choice : &t->others[i]->choice;
        if (of->never_count)
            memcpy(end, of->never, of->never_count * sizeof *ids);
        end += of->never_count;
    }
    t->choice.never = ids;
    t->choice.never_count = (int)count;
    return ET_OK;
}

/* ---- opening ---- */

/* The comparisons are written so that NaN fails them. */
static int check_decoding(const et_decoding_options *o, et_error *error)
{
    const bool filters = o->top_k || o->top_p > 0 || o->temperature > 0;
    if (o->results < 0 || o->results > ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_ECONFIG, "%d results per line: give 1 to %d (0 means 1)",
                       o->results, ET_BEAM_SIZE_MAX);
    if (o->top_k < 0)
        return et_fail(error, ET_ECONFIG, "top_k %lld: give at least 1, or 0 for all tokens",
                       (long long)o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return et_fail(error, ET_ECONFIG, "top_p %.15g: give a number up to 1, or 0 for all tokens",
                       o->top_p);
    if (!(o->temperature >= 0 && o->temperature <= ET_SAMPLING_MAX))
        return et_fail(error, ET_ECONFIG, "temperature %g: give a number up to %g (0 means 1)",
                       o->temperature, ET_SAMPLING_MAX);
    if (!(o->noise >= 0 && o->noise <= ET_SAMPLING_MAX))
        return et_fail(error, ET_ECONFIG, "noise %g: give a number from 0 to %g", o->noise,
                       ET_SAMPLING_MAX);
    if (o->alignments < -1)
        return et_fail(error, ET_ECONFIG,
                       "alignments %d: give a layer from 1, -1 for the last layer, or 0 for none",
                       o->alignments);
    if (o->terms && o->sampling)
        return et_fail(error, ET_ECONFIG,
                       "terms and sampling: only a search can keep terms; leave out sampling");
    if (filters && !o->sampling)
        return et_fail(error, ET_ECONFIG,
                       "top_k, top_p and temperature need sampling: set it as well");
    return ET_OK;
}

/* Finds the ids of tokens, in the translator's arena; *ids is NULL if no tokens are given. */
static int find_tokens(et_translator *t, const char *option, const char *const *tokens,
                       const int32_t **ids, int *count, et_error *error)
{
    size_t given = 0;
    while (tokens && tokens[given])
        given++;
    int32_t *found = tokens ? et_arena_array(&t->arena, given, sizeof *found) : NULL;
    if (tokens && !given)
        return et_fail(error, ET_ECONFIG, "%s: the list is empty; use NULL", option);
    if (tokens && !found)
        return et_alloc_failed(error, "a list of tokens");
    int status = ET_OK;
    for (size_t i = 0; i < given && !status; i++)
        status = et_vocabularies_find_token(t->sides.target, option, tokens[i], &found[i], error);
    *ids = found;
    *count = (int)given;
    return status;
}

static int find_suppressed(et_translator *t, et_error *error)
{
    const et_strings *tokens =
        &((const et_translation_options *)t->experiment.task)->model.suppressed_tokens;
    int32_t *ids = et_arena_array(&t->arena, tokens->count, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, "a list of tokens");
    t->choice.never = ids;
    t->choice.never_count = (int)tokens->count;
    return et_vocabularies_find_suppressed(t->sides.target, tokens, ids, error);
}

/* Finds the language tags of the source vocabulary, and checks the tag of the options. */
static int find_tags(et_translator *t, et_error *error)
{
    const char *tag = t->options.tag ? et_arena_strdup(&t->arena, t->options.tag) : NULL;
    const et_vocabulary *source = t->sides.source;
    et_strbuf list = ET_STRBUF_INIT;
    int32_t found = -1;
    const int32_t count = et_language_tags_list(source, &list);
    t->tags = count ? et_strbuf_keep(&list, &t->arena) : NULL;
    const bool failed = et_language_tags_read(&t->language_tags, source, &t->arena) ||
                        (count && !t->tags) || (t->options.tag && !tag);
    t->options.tag = tag;
    if (failed)
        return et_alloc_failed(error, "a list of languages");
    if (tag && t->decoding.alignments)
        return et_fail(error, ET_ECONFIG,
                       "tag \"%.100s\" cannot be combined with alignments; write the tag in front "
                       "of each line",
                       tag);
    if (!tag || !et_vocabularies_find_token(source, "tag", tag, &found, NULL))
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "tag \"%.100s\" is not a token of the source vocabulary%s%s",
                   tag, t->tags ? "; it has " : ", which has no language tags",
                   t->tags ? t->tags : "");
}

/* Resolves the tokens of decoding options by the vocabulary. */
static int resolve_decoding(et_translator *t, et_error *error)
{
    const et_decoding_options *o = &t->decoding;
    t->choice = (et_sampling_options){ .sampling = o->sampling,
                                       .top_k = o->top_k,
                                       .top_p = o->top_p,
                                       .temperature = o->temperature,
                                       .noise = o->noise,
                                       .seed = o->seed,
                                       .weights = t->weights,
                                       .model_count = 1 + t->other_count };
    int status;
    if ((status = find_tags(t, error)) ||
        (status = find_tokens(t, "ends", o->ends, &t->ends, &t->end_count, error)) ||
        (status = find_suppressed(t, error)) || (status = join_suppressed(t, error)))
        return status;
    return find_tokens(t, "first", o->first, &t->choice.first, &t->choice.first_count, error);
}

/* Options that are not given come from the run. Each step examines twice the beam's size in tokens,
 * so the beam is at most half the vocabulary. */
static int make_decoder(et_translator *t, et_error *error)
{
    int status;
    if ((status = join_members(t, error)) || (status = resolve_decoding(t, error)))
        return status;
    et_decoder_options options = et_translator_decoder_options(t);
    const int beam = options.beam.size;
    const int layers = et_translator_transformer(t).decoder.num_layers;
    if (t->decoding.alignments > layers)
        return et_fail(error, ET_ECONFIG, "alignments of layer %d: the decoder has only %d layers",
                       t->decoding.alignments, layers);
    if (!t->decoding.sampling && 2 * beam > et_vocabulary_size(t->sides.target))
        return et_fail(error, ET_ECONFIG, "beam size %d: give at most half the vocabulary, %d",
                       beam, et_vocabulary_size(t->sides.target) / 2);
    if (options.beam.results > beam)
        return et_fail(error, ET_ECONFIG,
                       "%d results per line: more than the beam size, %d; raise the beam size",
                       options.beam.results, beam);
    status = et_translator_make_decoder(&t->decoder, t, &options, error);
    return status ? status : et_translator_open_terms(t, error);
}

/* Borrows settings, vocabulary and weights of another translator, which are only read from then on.
 * The decoder is this translator's own, and so is the device, for its thread. */
static int open_shared(et_translator *t, const et_translator *from, et_error *error)
{
    t->experiment = from->experiment;
    t->sides = from->sides;
    t->vocabularies = from->vocabularies;
    t->params = from->params;
    t->unused = from->unused;
    t->unused_length = from->unused_length;
    t->lexicon = from->lexicon;
    t->step = from->step;
    t->identity = from->identity;
    t->live_weights = from->live_weights;
    t->checkpoint = et_strdup(from->checkpoint);
    t->act = from->act;
    t->int8 = from->int8;
    int status = t->checkpoint ? ET_OK : et_alloc_failed(error, "a path");
    if (!status && t->options.precision)
        status = resolve_precision(t, t->options.precision, error);
    if (!status && t->act == ET_BF16 && !et_params_shadow(t->params))
        status = et_fail(error, ET_ECONFIG,
                         "precision bfloat16: the translator that shares its weights has another "
                         "precision; open it with bfloat16, too");
    if (!status && t->int8 != from->int8)
        status = et_fail(error, ET_ECONFIG,
                         "precision int8: all translators that share weights must use it, or none");
    if (!status && !t->device)
        status = et_device_open(&t->device, error);
    return status ? status : make_decoder(t, error);
}

/* The limits of the run's settings also apply to a caller's options. The comparisons are written so
 * that NaN fails them. precision is checked when the model is opened. */
static int check_options(bool model, const et_translator_options *o, et_error *error)
{
    if (!model && !o->shares)
        return et_fail(error, ET_ECONFIG, "the directory of the run is NULL: name one");
    if (o->shares && (model || o->checkpoint || o->live_weights))
        return et_fail(
            error, ET_ECONFIG,
            "a translator that shares weights must not set directory, checkpoint or live_weights");
    if (o->beam_size < 0 || o->beam_size > ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_ECONFIG,
                       "beam size %d: give 1 to %d, or 0 for the run's beam size", o->beam_size,
                       ET_BEAM_SIZE_MAX);
    if (!(o->alpha >= 0 && o->alpha <= ET_TRANSLATION_ALPHA_MAX))
        return et_fail(error, ET_ECONFIG,
                       "alpha %g: give a number up to %g, or 0 for the run's alpha; for no length "
                       "penalty, set no_length_penalty",
                       o->alpha, ET_TRANSLATION_ALPHA_MAX);
    if (o->shortlist && o->no_shortlist)
        return et_fail(error, ET_ECONFIG, "shortlist and no_shortlist: set only one of them");
    if (o->alpha > 0 && o->no_length_penalty)
        return et_fail(error, ET_ECONFIG, "alpha %g and no_length_penalty: set only one of them",
                       o->alpha);
    if (o->max_length < 0 || o->max_length > ET_TRANSLATION_LENGTH_MAX)
        return et_fail(error, ET_ECONFIG,
                       "max length %lld: give 1 to %d, or 0 for the rule of the run",
                       (long long)o->max_length, ET_TRANSLATION_LENGTH_MAX);
    if (o->sentences < 0 || o->sentences > ET_TRANSLATOR_SENTENCES_MAX)
        return et_fail(error, ET_ECONFIG,
                       "sentences: %d decoded together; give 1 to %d, or 0 for 32", o->sentences,
                       ET_TRANSLATOR_SENTENCES_MAX);
    int status;
    if ((status = check_members(o, error)))
        return status;
    return o->decoding ? check_decoding(o->decoding, error) : ET_OK;
}

/* close accepts a translator in any state of opening. artifact: NULL if it shares another's.
 * device: NULL to make one. */
static int open_translator(et_translator **out, const et_artifact *artifact, et_device *device,
                           const et_translator_options *options, et_error *error)
{
    static const et_translator_options defaults = { 0 };
    int status = et_thread_check_stack(error);
    if (!status)
        status = check_options(artifact != NULL, options ? options : &defaults, error);
    if (status)
        return status;
    et_translator *t;
    if (ET_ALLOC_ZERO(t, 1, "a translator", error))
        return ET_ENOMEM;
    t->options = options ? *options : defaults;
    t->device = device;
    t->borrows_device = device != NULL;
    t->live_weights = t->options.live_weights;
    if (t->options.decoding)
        t->decoding = *t->options.decoding;
    t->first_line = 1;
    status = artifact ? open_model(t, artifact, error) : open_shared(t, t->options.shares, error);
    if (artifact && !status)
        status = make_decoder(t, error);
    if (status)
        et_translator_close(t);
    else
        *out = t;
    return status;
}

int et_translator_open(et_translator **out, const char *model_dir,
                       const et_translator_options *options, et_error *error)
{
    et_artifact artifact = { .name = NULL };
    *out = NULL;
    int status = model_dir ? et_import_open_artifact(&artifact, model_dir, error) : ET_OK;
    if (!status)
        status = open_translator(out, model_dir ? &artifact : NULL, NULL, options, error);
    et_artifact_close(&artifact);
    return status;
}

int et_translator_open_memory(et_translator **out, const void *bytes, size_t length,
                              const et_translator_options *options, et_error *error)
{
    et_artifact artifact;
    *out = NULL;
    int status = et_artifact_open_memory(&artifact, bytes, length, error);
    if (!status)
        status = open_translator(out, &artifact, NULL, options, error);
    et_artifact_close(&artifact);
    return status;
}

int et_translator_open_beside(et_translator **out, const et_translator_options *options,
                              et_error *error)
{
    *out = NULL;
    et_assert(options->shares);
    return open_translator(out, NULL, options->shares->device, options, error);
}

/* Frees the decoder first, because it reads parameters and device. */
void et_translator_close(et_translator *t)
{
    if (!t)
        return;
    et_aligner_free(t->aligner);
    et_decoder_free(t->decoder);
    et_decoder_free(t->embedded_decoder);
    et_translator_close_terms(t);
    if (!t->borrows_device)
        et_device_close(t->device);
    if (!t->options.shares) {
        et_params_free(t->params);
        et_free(t->unused);
        et_lexicon_close(t->lexicon);
    }
    et_vocabularies_close(&t->own);
    et_free(t->checkpoint);
    et_arena_release(&t->arena);
    et_free(t);
}
