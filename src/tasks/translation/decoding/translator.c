/* A translator: settings from the run's params.yaml, its vocabulary, the weights of one checkpoint,
 * and a decoder.
 *
 *   line -> tokens + EOS -> decoder (beam search, many at once) -> tokens -> line
 *
 * There is no optimizer, no gradient, no corpus: memory has only the weights (and their bfloat16
 * copies) and the decoder.
 *
 * Lines without a token (empty, only spaces) are not decoded and give an empty line, because a
 * model would invent one. All lines are checked for UTF-8 before the first is translated, so errors
 * come early.
 *
 * Invariants:
 *
 *   (1) a line's result depends only on the line, the weights and the options: not on other
 *       lines, batches or threads;
 *   (2) the caller owns each result; on failure there are none;
 *   (3) after open nothing in the model directory is read again, so a run that continues there
 *       changes nothing here. */
#include <etude/translator.h>

#include <math.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/unicode.h"
#include "base/threads/thread.h"
#include "data/text/punctuation.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/tensor/params.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/decoding/long_lines.h"
#include "tasks/translation/decoding/translator_device.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/settings/translation_kind.h"
#include "train/checkpoint/checkpoint.h"

/* Checks of the options of decoding. */

/* Comparisons are such that a NaN fails them. */
static int translator_check_decoding(const et_decoding_options *o, et_error *error)
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
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return et_fail(error, ET_ECONFIG, "temperature %g: give a number up to 1000 (0 means 1)",
                       o->temperature);
    if (!(o->noise >= 0 && o->noise <= 1000))
        return et_fail(error, ET_ECONFIG, "noise %g: give a number from 0 to 1000", o->noise);
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

static const et_translation_options *settings_of(const et_translator *t)
{
    return t->experiment.task;
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
        return et_alloc_failed(error, given * sizeof *found, "a list of tokens");
    int status = ET_OK;
    for (size_t i = 0; i < given && !status; i++)
        status = et_vocabularies_find_token(t->sides.target, option, tokens[i], &found[i], error);
    *ids = found;
    *count = (int)given;
    return status;
}

static int find_suppressed(et_translator *t, et_error *error)
{
    const et_strings *tokens = &settings_of(t)->model.suppressed_tokens;
    int32_t *ids = et_arena_array(&t->arena, tokens->count + 1, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, tokens->count * sizeof *ids, "a list of tokens");
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
    t->tags = count ? et_arena_strdup(&t->arena, et_strbuf_text(&list)) : NULL;
    const bool failed = et_language_tags_read(&t->language_tags, source, &t->arena) ||
                        list.failed || (count && !t->tags) || (t->options.tag && !tag);
    t->options.tag = tag;
    et_strbuf_release(&list);
    if (failed)
        return et_alloc_failed(error, 0, "a list of languages");
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

/* What of decoding is the vocabulary's. */
static int resolve_decoding(et_translator *t, et_error *error)
{
    const et_decoding_options *o = &t->decoding;
    t->choice = (et_choice_options){ .sampling = o->sampling,
                                     .top_k = o->top_k,
                                     .top_p = o->top_p,
                                     .temperature = o->temperature,
                                     .noise = o->noise,
                                     .seed = o->seed,
                                     .weights = t->weights,
                                     .model_count = 1 + t->other_count };
    int status = find_tags(t, error);
    if (!status)
        status = find_tokens(t, "ends", o->ends, &t->ends, &t->end_count, error);
    if (!status)
        status = find_suppressed(t, error);
    if (!status)
        status = et_translator_join_suppressed(t, error);
    return status
               ? status
               : find_tokens(t, "first", o->first, &t->choice.first, &t->choice.first_count, error);
}

/* Options that are not given come from the run. Each step examines twice the beam's size in tokens,
 * so the beam is at most half the vocabulary. */
static int make_decoder(et_translator *t, et_error *error)
{
    int status = et_translator_join_members(t, error);
    if (!status)
        status = resolve_decoding(t, error);
    if (status)
        return status;
    et_decoder_options options = et_translator_decoder_options(t);
    const int beam = options.beam.size;
    const int64_t layers = settings_of(t)->model.decoder.num_layers;
    if (t->decoding.alignments > layers)
        return et_fail(error, ET_ECONFIG,
                       "alignments of layer %d: the decoder has only %lld layers",
                       t->decoding.alignments, (long long)layers);
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
    int status = t->checkpoint ? ET_OK : et_alloc_failed(error, 0, "a path");
    if (!status && t->options.precision)
        status = et_translator_resolve_precision(t, t->options.precision, error);
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

/* The limits of the run's settings also apply to a caller's options. The comparisons are such that
 * NaN fails. precision is checked when the model is opened. */
static int check_options(bool model, const et_translator_options *o, et_error *error)
{
    if (!model && !o->shares)
        return et_fail(error, ET_ECONFIG, "the directory of the run is NULL: name one");
    if (o->shares && (model || o->checkpoint || o->live_weights))
        return et_fail(
            error, ET_ECONFIG,
            "a translator that shares weights must not set directory, checkpoint or live_weights");
    if (o->beam_size < 0 || o->beam_size > ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_ECONFIG, "beam size %d: give 1 to %d, or 0 for that of the run",
                       o->beam_size, ET_BEAM_SIZE_MAX);
    if (!(o->alpha >= 0 && o->alpha <= ET_TRANSLATION_ALPHA_MAX))
        return et_fail(error, ET_ECONFIG,
                       "alpha %g: give a number up to %g, or 0 for that of the run; to switch it "
                       "off set no_length_penalty",
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
    int status = et_translator_check_members(o, error);
    if (!status && o->decoding)
        status = translator_check_decoding(o->decoding, error);
    return status;
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
    et_translator *t = et_alloc_zero(1, sizeof *t);
    if (!t)
        return et_alloc_failed(error, sizeof *t, "a translator");
    t->options = options ? *options : defaults;
    t->device = device;
    t->borrows_device = device != NULL;
    t->live_weights = t->options.live_weights;
    if (t->options.decoding)
        t->decoding = *t->options.decoding;
    t->first_line = 1;
    status = artifact ? et_translator_open_model(t, artifact, error)
                      : open_shared(t, t->options.shares, error);
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

/* The decoder reads parameters and device, so it goes before them. */
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

void et_translator_set_progress(et_translator *t, et_translator_progress_fn *fn, void *payload)
{
    t->progress = fn;
    t->payload = payload;
}

void et_translator_set_first_line(et_translator *t, size_t number)
{
    t->first_line = number;
}

void et_translator_set_line_numbers(et_translator *t, const size_t *numbers)
{
    t->numbers = numbers;
}

/* Borrowed until close. */
const char *et_translator_checkpoint(const et_translator *t)
{
    return t->checkpoint;
}

int64_t et_translator_step(const et_translator *t)
{
    return t->step;
}

/* ---- translating ---- */

/* All memory of one call is in its arena, except the results, which the caller owns. */

static bool has_language(const et_vocabulary *source, const et_tokens *tokens)
{
    for (size_t i = 0; i < tokens->count && i < 2; i++) /* a blank may be a token */
        if (et_language_tag_is(et_vocabulary_token(source, tokens->ids[i])))
            return true;
    return false;
}

/* The tokens of a line, with the tag in front unless the line begins with a language tag. A line
 * without tokens stays as it is. */
static int encode_tagged(const et_sides *sides, const char *tag, const char *line,
                         et_tokens *tokens, et_error *error)
{
    int status = et_sides_encode(sides, false, line, strlen(line), tokens, error);
    if (status || !tag || !tokens->count || has_language(sides->source, tokens))
        return status;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "%s %s", tag, line);
    status = text.failed
                 ? et_alloc_failed(error, strlen(line), "a line")
                 : et_sides_encode(sides, false, et_strbuf_text(&text), text.length, tokens, error);
    et_strbuf_release(&text);
    return status;
}

/* A line's tokens and EOS as one model reads them, in arena. number: of the line, for messages. */
static int encode(const et_sides *sides, const char *tag, const char *line, size_t number,
                  et_decoder_source *source, et_tokens *tokens, et_arena *arena, et_error *error)
{
    et_assert(line);
    /* line is valid UTF-8 by now, of any length. */
    int status = encode_tagged(sides, tag, line, tokens, error);
    if (status)
        return et_fail_while(error, status, "line %zu", number);
    const size_t count = tokens->count;
    /* A sentence's part of the decoder's memory grows with its length: a book in one line would use
     * up all memory. et_translator_translate has cut such lines (long_lines.h). */
    if (count > ET_TRANSLATION_SOURCE_MAX - 1)
        return et_fail(error, ET_EDATA, "line %zu has %zu tokens, more than %d: split the line",
                       number, count, ET_TRANSLATION_SOURCE_MAX - 1);
    int32_t *ids = et_arena_array(arena, count + 1, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, (count + 1) * sizeof *ids, "a sentence");
    if (count)
        memcpy(ids, tokens->ids, count * sizeof *ids);
    /* As in training: sources end in EOS. */
    ids[count] = et_vocabulary_eos(sides->source);
    *source = (et_decoder_source){ .ids = ids, .length = (int64_t)count + 1 };
    return ET_OK;
}

/* length 1 is only EOS: a line without a token, which et_translator_decode skips. */
static int encode_line(et_translator *t, const char *line, size_t number,
                       et_decoder_sentence *sentence, et_tokens *tokens, et_arena *arena,
                       et_error *error)
{
    const int count = t->own_sources ? t->other_count : 0;
    et_decoder_source source = { .length = 0 }, *others = NULL;
    const char *tag = t->options.tag;
    int status = encode(&t->sides, tag, line, number, &source, tokens, arena, error);
    /* Once of all lines: the model would choose a language itself. */
    if (!status && t->tags && tokens->count && !has_language(t->sides.source, tokens) &&
        !atomic_exchange(&t->warned, true))
        et_log(ET_LOG_WARNING,
               "line %zu has no tag for the target language; begin each line with one of the "
               "model's tags, or use --tag: %s",
               number, t->tags);
    if (!status && count) {
        others = et_arena_array(arena, (size_t)count, sizeof *others);
        status = others ? ET_OK : et_alloc_failed(error, 0, "a sentence");
    }
    for (int i = 0; i < count && !status; i++)
        status = encode(&t->others[i]->sides, tag, line, number, &others[i], tokens, arena, error);
    if (!status)
        *sentence = (et_decoder_sentence){ .source = source.ids,
                                           .length = source.length,
                                           .others = others,
                                           .other_count = count,
                                           .number = number };
    return status;
}

/* The vocabulary would take any bytes and make unknowns of them. */
int et_translator_check_line(const char *line, size_t number, et_error *error)
{
    size_t valid;
    if (!line)
        return et_fail(error, ET_EDATA, "line %zu: the text is NULL; an empty line is \"\"",
                       number);
    if (et_utf8_valid(line, strlen(line), &valid))
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "line %zu, byte %zu: not UTF-8; convert the text, for example with iconv",
                   number, valid + 1);
}

static int check_lines(const et_translator *t, const char *const *lines, size_t count,
                       et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = et_translator_check_line(lines[i], et_translator_line_number(t, i), error);
    return status;
}

/* pieces: checked lines, whole or cut. tokens is memory that is used again from line to line. */
static int encode_pieces(et_translator *t, const et_long_lines *cut, et_decoder_sentence *sentences,
                         et_arena *arena, et_error *error)
{
    et_tokens tokens = ET_TOKENS_INIT;
    int status = ET_OK;
    for (size_t i = 0; i < cut->count && !status; i++) {
        const size_t line = cut->line ? cut->line[i] : i;
        status = encode_line(t, cut->pieces[i], et_translator_line_number(t, line), &sentences[i],
                             &tokens, arena, error);
        sentences[i].number = t->first_line + line;
        if (!status && t->glossary)
            status = et_translator_find_terms(t, cut->pieces[i], &sentences[i], arena, error);
        if (!status && t->ended)
            sentences[i].ended = t->ended[line];
    }
    et_tokens_release(&tokens);
    return status;
}

int et_translator_encode(et_translator *t, const char *const *lines, size_t count,
                         et_decoder_sentence *sentences, et_arena *arena, et_error *error)
{
    et_assert(arena && (lines || !count));
    const et_long_lines whole = { .pieces = lines, .count = count };
    int status = check_lines(t, lines, count, error);
    return status ? status : encode_pieces(t, &whole, sentences, arena, error);
}

/* The decoder counts sentences that it decodes; lines without a token are done before. */
static bool tell_progress(void *payload, int64_t done)
{
    const et_translator *t = payload;
    return t->progress(t->payload, t->done_lines + (size_t)done, t->lines);
}

static bool is_for(const et_decoder_sentence *sentence, bool terms)
{
    return sentence->rows || (sentence->length > 1 && (sentence->phrases != NULL) == terms);
}

/* Sentences without a word are not decoded. Those with words, and with or without terms, are moved
 * together for their decoder and put back from the end, each to its position. */
static int decode_some(et_translator *t, et_decoder *decoder, et_decoder_sentence *sentences,
                       size_t count, bool terms, et_arena *arena, et_error *error)
{
    et_decoder_sentence *some = et_arena_array(arena, count, sizeof *some);
    if (!some)
        return et_alloc_failed(error, count * sizeof *some, "sentences");
    int64_t words = 0;
    for (size_t i = 0; i < count; i++)
        if (is_for(&sentences[i], terms))
            some[words++] = sentences[i];
    const size_t decoded = (size_t)words;
    int status = et_decoder_run_on_ranks(decoder, t->options.comm, some, words, arena,
                                         t->progress ? tell_progress : NULL, t, error);
    /* From the end: words counts down to the position of each. */
    for (size_t i = count; i-- > 0 && !status;)
        if (is_for(&sentences[i], terms))
            sentences[i] = some[--words];
    t->done_lines += decoded;
    return status;
}

int et_translator_decode(et_translator *t, et_decoder_sentence *sentences, size_t count,
                         et_arena *arena, et_error *error)
{
    bool plain = false, terms = false;
    et_assert(sentences || count == 0);
    t->done_lines = 0;
    for (size_t i = 0; i < count; i++) {
        plain |= is_for(&sentences[i], false);
        terms |= is_for(&sentences[i], true);
        t->done_lines += sentences[i].length <= 1;
    }
    int status = ET_OK;
    if (plain || !terms)
        status = decode_some(t, t->decoder, sentences, count, false, arena, error);
    if (!status && terms)
        status = et_translator_make_terms_decoder(t, error);
    if (!status && terms)
        status = decode_some(t, t->terms_decoder, sentences, count, true, arena, error);
    return status || !terms ? status : et_translator_check_terms(t, sentences, count, error);
}

int et_translator_decode_embedded(et_translator *t, et_decoder_sentence *sentences, size_t count,
                                  et_arena *arena, et_error *error)
{
    et_assert(arena && (sentences || !count));
    int status = et_translator_make_embedded_decoder(t, error);
    t->lines = count;
    t->done_lines = 0;
    for (size_t i = 0; i < count; i++)
        t->done_lines += !sentences[i].rows;
    return status ? status
                  : decode_some(t, t->embedded_decoder, sentences, count, false, arena, error);
}

/* results: each is a separate text, owned by the caller. */
static int detokenize(const et_translator *t, const et_decoder_sentence *sentences, size_t count,
                      char **results, et_error *error)
{
    for (size_t i = 0; i < count; i++) {
        /* detach gives the text to the caller; release frees the rest. */
        et_strbuf text = ET_STRBUF_INIT;
        et_decoder_result best = { 0 };
        if (sentences[i].count)
            best = sentences[i].results[0];
        int status =
            et_vocabulary_decode(t->sides.target, best.ids, (size_t)best.count, &text, error);
        results[i] = status ? NULL : et_strbuf_detach(&text);
        et_strbuf_release(&text);
        if (!results[i])
            return status ? status : et_alloc_failed(error, 0, "a translation");
    }
    return ET_OK;
}

/* See translator_device.h: for commands. */
et_device *et_translator_device(et_translator *t)
{
    return t->device;
}

int et_translator_open_beside(et_translator **out, const et_translator_options *options,
                              et_error *error)
{
    *out = NULL;
    et_assert(options->shares);
    return open_translator(out, NULL, options->shares->device, options, error);
}

/* Spans of a profile: the translator's work other than decoding. */
static const et_activity encode_activity = { .name = "text to tokens", .kind = "text" };
static const et_activity detokenize_activity = { .name = "tokens to text", .kind = "text" };

static int translate_pieces(et_translator *t, const et_long_lines *cut, char **results,
                            et_arena *arena, et_error *error)
{
    et_decoder_sentence *sentences = et_arena_array(arena, cut->count, sizeof *sentences);
    et_track *track = et_device_track(t->device);
    t->lines = cut->count;
    if (!sentences)
        return et_alloc_failed(error, cut->count * sizeof *sentences, "sentences");
    et_track_begin(track, &encode_activity, -1);
    int status = encode_pieces(t, cut, sentences, arena, error);
    et_track_end(track);
    if (!status)
        status = et_translator_decode(t, sentences, cut->count, arena, error);
    et_track_begin(track, &detokenize_activity, -1);
    if (!status)
        status = detokenize(t, sentences, cut->count, results, error);
    et_track_end(track);
    return status;
}

/* results is written even on failure: all NULL then. */
int et_translator_translate(et_translator *t, const char *const *lines, size_t count,
                            char **results, et_error *error)
{
    if (count && (!lines || !results))
        return et_fail(error, ET_EDATA, "%zu lines to translate, but the array of %s is NULL",
                       count, lines ? "results" : "them");
    et_arena arena = ET_ARENA_INIT;
    et_long_lines cut = { .pieces = lines, .count = count };
    char **pieces = results;
    if (count)
        memset(results, 0, count * sizeof *results);
    int status = et_thread_check_stack(error);
    if (!status)
        status = check_lines(t, lines, count, error);
    if (!status)
        status = et_long_lines_cut(&cut, t, lines, count, &arena, error);
    if (!status && cut.count > count) {
        pieces = et_alloc_zero(cut.count, sizeof *pieces);
        status = pieces ? ET_OK : et_alloc_failed(error, cut.count * sizeof *pieces, "lines");
    }
    if (!status)
        status = translate_pieces(t, &cut, pieces, &arena, error);
    if (!status && pieces != results)
        status = et_long_lines_join(&cut, pieces, results, count, error);
    if (pieces != results) {
        et_translator_free_results(pieces, cut.count);
        et_free(pieces);
    }
    if (status)
        et_translator_free_results(results, count);
    et_arena_release(&arena);
    return status;
}

/* NULL afterwards, so that freeing twice does no harm. */
void et_translator_free_results(char **results, size_t count)
{
    for (size_t i = 0; results && i < count; i++) {
        et_free(results[i]);
        results[i] = NULL;
    }
}
