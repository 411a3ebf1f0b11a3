/* A translator: settings from the run's params.yaml, its vocabulary, the weights of one checkpoint,
 * and a decoder.
 *
 *   line -> tokens + EOS -> decoder (beam search, many at once) -> tokens -> line
 *
 * There is no optimizer, no gradient, no corpus: memory has only the weights (and their bfloat16
 * copies) and the decoder.
 *
 * Lines without a token (empty, only spaces) are not decoded and give an empty line, because a
 * model would invent a text. All lines are checked for UTF-8 before the first is translated, so
 * errors come early.
 *
 * Invariants:
 *
 *   (1) a line's result depends only on the line, the weights and the options: not on other
 *       lines, batches or threads;
 *   (2) the caller owns each result; on failure there are none;
 *   (3) after open the model directory is not read again, so a run that trains there has no
 *       effect. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/hypotheses.h>
#include <etude/log.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "base/threads/thread.h"
#include "data/text/punctuation.h"
#include "data/text/vocabulary/vocabulary.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/alignment.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/settings/translation_options.h"

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

et_device *et_translator_device(et_translator *t)
{
    return t->device;
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
                 ? et_alloc_failed(error, "a line")
                 : et_sides_encode(sides, false, et_strbuf_text(&text), text.length, tokens, error);
    et_strbuf_release(&text);
    return status;
}

/* As in training, where each side ends in EOS. NULL: no memory. */
static const int32_t *ended_ids(const et_tokens *tokens, int32_t eos, et_arena *arena)
{
    int32_t *ids = et_arena_array(arena, tokens->count + 1, sizeof *ids);
    if (ids && tokens->count)
        memcpy(ids, tokens->ids, tokens->count * sizeof *ids);
    if (ids)
        ids[tokens->count] = eos;
    return ids;
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
    /* The memory of a sentence in the decoder grows with its length, so a book in one line would
     * use up all memory. et_translator_translate has already cut such lines (long_lines.c). */
    if (count > ET_TRANSLATION_SOURCE_MAX - 1)
        return et_fail(error, ET_EDATA, "line %zu has %zu tokens, more than %d: split the line",
                       number, count, ET_TRANSLATION_SOURCE_MAX - 1);
    const int32_t *ids = ended_ids(tokens, et_vocabulary_eos(sides->source), arena);
    if (!ids)
        return et_alloc_failed(error, "a sentence");
    *source = (et_decoder_source){ .ids = ids, .length = (int64_t)count + 1 };
    return ET_OK;
}

/* length 1 is only EOS: a line without a token, which translator_decode skips. */
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
        others = et_arena_array(arena, count, sizeof *others);
        status = others ? ET_OK : et_alloc_failed(error, "a sentence");
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
static int translator_check_line(const char *line, size_t number, et_error *error)
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
        status = translator_check_line(lines[i], et_translator_line_number(t, i), error);
    return status;
}

/* pieces: checked lines, whole or cut. The memory of tokens is reused from line to line. */
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

static int translator_encode(et_translator *t, const char *const *lines, size_t count,
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

static bool has_terms(const et_decoder_sentence *sentence)
{
    return sentence->length > 1 && sentence->phrases;
}

/* Rows, or words without terms. */
static bool is_plain(const et_decoder_sentence *sentence)
{
    return sentence->rows || (sentence->length > 1 && !sentence->phrases);
}

static int decode_wanted(et_translator *t, et_decoder *decoder, et_decoder_sentence *sentences,
                         size_t count, et_decoder_wants_fn *wants, et_arena *arena, et_error *error)
{
    return et_decoder_run_wanted(decoder, t->options.comm, sentences, (int64_t)count, wants, arena,
                                 t->progress ? tell_progress : NULL, t, error);
}

/* Fewest hypotheses of a line with terms: a smaller beam has no room for likely words in addition
 * to terms. */
#define BEAM_LEAST 8

/* Decodes the sentences that have a word; other sentences get no results. */
static int translator_decode(et_translator *t, et_decoder_sentence *sentences, size_t count,
                             et_arena *arena, et_error *error)
{
    size_t plain = 0, terms = 0;
    et_assert(sentences || count == 0);
    for (size_t i = 0; i < count; i++) {
        plain += is_plain(&sentences[i]);
        terms += has_terms(&sentences[i]);
    }
    int status = ET_OK;
    t->done_lines = count - plain - terms;
    if (plain || !terms)
        status = decode_wanted(t, t->decoder, sentences, count, is_plain, arena, error);
    t->done_lines += plain;
    if (!status && terms && !t->terms_decoder) {
        et_decoder_options options = et_translator_decoder_options(t);
        const int most = et_vocabulary_size(t->sides.target) / 2;
        options.beam.phrases = true;
        if (options.beam.size < BEAM_LEAST)
            options.beam.size = most < BEAM_LEAST ? most : BEAM_LEAST;
        status = et_translator_make_decoder(&t->terms_decoder, t, &options, error);
    }
    if (!status && terms)
        status = decode_wanted(t, t->terms_decoder, sentences, count, has_terms, arena, error);
    return status || !terms ? status : et_translator_check_terms(t, sentences, count, error);
}

/* Once. ET_ECONFIG: an ensemble, or options that need text. */
static int make_embedded_decoder(et_translator *t, et_error *error)
{
    const char *what = t->other_count           ? "an ensemble, whose models embed differently"
                       : t->decoding.alignments ? "alignments, which need words"
                       : t->decoding.terms      ? "terms, which need words"
                                                : NULL;
    if (what)
        return et_fail(error, ET_ECONFIG,
                       "embedded sources: the translator has %s; open one without", what);
    if (t->embedded_decoder)
        return ET_OK;
    const et_decoder_options options = et_translator_decoder_options(t);
    et_transformer model = et_translator_transformer(t);
    model.embedded = true;
    return et_decoder_new(&t->embedded_decoder, t->params, t->device, &model, &options, error);
}

/* Decodes the embedded sentences that have a row; other sentences get no results. */
static int translator_decode_embedded(et_translator *t, et_decoder_sentence *sentences,
                                      size_t count, et_arena *arena, et_error *error)
{
    et_assert(arena && (sentences || !count));
    int status = make_embedded_decoder(t, error);
    t->lines = count;
    t->done_lines = 0;
    for (size_t i = 0; i < count; i++)
        t->done_lines += !sentences[i].rows;
    return status ? status
                  : decode_wanted(t, t->embedded_decoder, sentences, count, is_plain, arena, error);
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
            return status ? status : et_alloc_failed(error, "a translation");
    }
    return ET_OK;
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
        return et_alloc_failed(error, "sentences");
    et_track_begin(track, &encode_activity, -1);
    int status = encode_pieces(t, cut, sentences, arena, error);
    et_track_end(track);
    if (!status)
        status = translator_decode(t, sentences, cut->count, arena, error);
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
    if (!status && !(status = check_lines(t, lines, count, error)))
        status = et_long_lines_cut(&cut, t, lines, count, &arena, error);
    if (!status && cut.count > count) {
        status = ET_ALLOC_ZERO(pieces, cut.count, "lines", error);
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

/* ---- several results ---- */

/* Several results of a line or of an embedded source, and scores of given targets. All results of a
 * call are in one arena: sentences, the decoder's results, texts.
 *
 * A target is scored by the decoder's usual steps, which take the given token instead of a chosen
 * one. Targets are scored in groups, like sentences that are translated. */

/* Results of line i are items[begin[i]] to items[begin[i + 1]]. */
struct et_hypotheses {
    et_arena arena;
    size_t lines;
    size_t *begin; /* [lines + 1] */
    et_hypothesis *items;
};

static int fill_item(et_hypotheses *h, et_hypothesis *item, const et_decoder_result *result,
                     const et_vocabulary *vocabulary, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_vocabulary_decode(vocabulary, result->ids, (size_t)result->count, &text, error);
    *item = (et_hypothesis){ .text = et_strbuf_keep(&text, &h->arena),
                             .ids = result->ids,
                             .id_count = result->count,
                             .tokens = result->length,
                             .score = (double)result->score,
                             .log_probability = (double)result->log_p };
    return status || item->text ? status : et_alloc_failed(error, "a translation");
}

static int fill_items(et_hypotheses *h, const et_decoder_sentence *sentences,
                      const et_vocabulary *vocabulary, et_error *error)
{
    static const et_decoder_result none = { 0 };
    /* A line that was not decoded gets one empty result. */
    h->begin[0] = 0;
    for (size_t i = 0; i < h->lines; i++)
        h->begin[i + 1] = h->begin[i] + (sentences[i].count ? (size_t)sentences[i].count : 1);
    h->items = et_arena_array(&h->arena, h->begin[h->lines], sizeof *h->items);
    int status = h->items ? ET_OK : et_alloc_failed(error, "results");
    for (size_t i = 0; i < h->lines && !status; i++)
        for (size_t at = h->begin[i]; at < h->begin[i + 1] && !status; at++)
            status = fill_item(h, &h->items[at],
                               sentences[i].count ? &sentences[i].results[at - h->begin[i]] : &none,
                               vocabulary, error);
    return status;
}

static int align(et_translator *t, et_hypotheses *h, const et_decoder_sentence *sentences,
                 et_error *error)
{
    const size_t most = h->begin[h->lines];
    et_align_pair *pairs = et_arena_array(&h->arena, most, sizeof *pairs), *next = pairs;
    const et_transformer model = et_translator_transformer(t);
    const int layer = t->decoding.alignments;
    int status = t->aligner
                     ? ET_OK
                     : et_aligner_new(&t->aligner, t->params, t->device, &model, t->sides,
                                      (layer < 0 ? model.decoder.num_layers : layer) - 1, error);
    if (!status && !pairs)
        status = et_alloc_failed(error, "alignments");
    /* A line that was not decoded has no words. */
    int64_t listed = 0;
    for (size_t i = 0; i < h->lines && !status; i++)
        for (size_t at = h->begin[i]; at < h->begin[i + 1] && sentences[i].count; at++)
            pairs[listed++] = (et_align_pair){ .source = sentences[i].source,
                                               .length = sentences[i].length,
                                               .target = h->items[at].ids,
                                               .count = h->items[at].id_count };
    if (!status)
        status =
            et_aligner_run_on_ranks(t->aligner, t->options.comm, pairs, listed, &h->arena, error);
    for (size_t i = 0; i < h->lines && !status; i++)
        for (size_t at = h->begin[i]; at < h->begin[i + 1] && sentences[i].count; at++, next++) {
            h->items[at].alignment = next->found.items;
            h->items[at].alignment_count = next->found.count;
            h->items[at].source_words = next->found.source_words;
        }
    return status;
}

/* Begins every call: allocates its results and the sentences. */
static int begin(et_hypotheses **out, et_decoder_sentence **sentences, size_t lines,
                 et_error *error)
{
    int status = et_thread_check_stack(error);
    et_hypotheses *h = status ? NULL : et_alloc_zero(1, sizeof *h);
    *out = NULL;
    if (status)
        return status;
    if (h) {
        h->lines = lines;
        h->begin = et_arena_array(&h->arena, lines + 1, sizeof *h->begin);
        *sentences = et_arena_array(&h->arena, lines, sizeof **sentences);
    }
    if (!h || !h->begin || !*sentences) {
        et_hypotheses_free(h);
        return et_alloc_failed(error, "sentences");
    }
    *out = h;
    return ET_OK;
}

static int begin_lines(et_hypotheses **out, et_decoder_sentence **sentences, et_translator *t,
                       const char *const *lines, size_t count, et_error *error)
{
    *out = NULL;
    if (count && !lines)
        return et_fail(error, ET_EDATA, "%zu lines to translate, but the array is NULL", count);
    int status = begin(out, sentences, count, error);
    t->lines = count;
    return status ? status : translator_encode(t, lines, count, *sentences, &(*out)->arena, error);
}

static int end(et_hypotheses **out, int status)
{
    if (status) {
        et_hypotheses_free(*out);
        *out = NULL;
    }
    return status;
}

int et_translator_search(et_translator *t, const char *const *lines, size_t count,
                         et_hypotheses **out, et_error *error)
{
    et_decoder_sentence *sentences = NULL;
    int status = begin_lines(out, &sentences, t, lines, count, error);
    if (!status && !(status = translator_decode(t, sentences, count, &(*out)->arena, error)))
        status = fill_items(*out, sentences, t->sides.target, error);
    if (!status && t->decoding.alignments)
        status = align(t, *out, sentences, error);
    return end(out, status);
}

/* ---- scoring ---- */

static int encode_target(const et_translator *t, const char *target, size_t number,
                         et_decoder_sentence *sentence, et_tokens *tokens, et_arena *arena,
                         et_error *error)
{
    int status = translator_check_line(target, number, error);
    if (!status)
        status = et_sides_encode(&t->sides, true, target, strlen(target), tokens, error);
    if (!status && tokens->count > ET_TRANSLATION_SOURCE_MAX - 1)
        status = et_fail(error, ET_EDATA, "line %zu: %zu tokens, more than %d", number,
                         tokens->count, ET_TRANSLATION_SOURCE_MAX - 1);
    if (status)
        return et_fail_while(error, status, "targets");
    sentence->forced = ended_ids(tokens, et_vocabulary_eos(t->sides.target), arena);
    sentence->forced_length = (int)tokens->count + 1;
    return sentence->forced ? ET_OK : et_alloc_failed(error, "a target");
}

/* *longest: of all targets. */
static int encode_targets(const et_translator *t, const char *const *targets, size_t count,
                          et_decoder_sentence *sentences, int *longest, et_arena *arena,
                          et_error *error)
{
    et_tokens tokens = ET_TOKENS_INIT;
    int status = ET_OK;
    *longest = 1;
    if (count && !targets)
        return et_fail(error, ET_EDATA, "%zu lines to score, but the array of targets is NULL",
                       count);
    for (size_t i = 0; i < count && !status; i++) {
        status = encode_target(t, targets[i], et_translator_line_number(t, i), &sentences[i],
                               &tokens, arena, error);
        if (!status && sentences[i].forced_length > *longest)
            *longest = sentences[i].forced_length;
    }
    et_tokens_release(&tokens);
    return status;
}

typedef struct scoring {
    const et_translator *translator;
    size_t count;
} scoring;

static bool tell_forced(void *payload, int64_t done)
{
    const scoring *s = payload;
    return s->translator->progress(s->translator->payload, (size_t)done, s->count);
}

/* Uses its own decoder, because its caches are as long as this call's targets. Lines without a word
 * are scored like all others. */
static int force(et_translator *t, et_decoder_sentence *sentences, size_t count, int longest,
                 et_arena *arena, et_error *error)
{
    et_decoder *decoder;
    scoring s = { t, count };
    et_decoder_options options = et_translator_decoder_options(t);
    options.beam = (et_beam_options){ .size = 1,
                                      .alpha = options.beam.alpha,
                                      .eos = options.beam.eos,
                                      .by_length = options.beam.by_length };
    options.lexicon = NULL;
    options.choice = (et_sampling_options){ .weights = options.choice.weights,
                                            .model_count = options.choice.model_count };
    options.forced = true;
    options.max_length = longest;
    int status = et_translator_make_decoder(&decoder, t, &options, error);
    if (status)
        return status;
    status = et_decoder_run_on_ranks(decoder, t->options.comm, sentences, (int64_t)count, arena,
                                     t->progress ? tell_forced : NULL, &s, error);
    et_decoder_free(decoder);
    return status;
}

int et_translator_score(et_translator *t, const char *const *lines, const char *const *targets,
                        size_t count, et_hypotheses **out, et_error *error)
{
    et_decoder_sentence *sentences = NULL;
    int longest = 1;
    int status = begin_lines(out, &sentences, t, lines, count, error);
    if (!status &&
        !(status = encode_targets(t, targets, count, sentences, &longest, &(*out)->arena, error)) &&
        !(status = force(t, sentences, count, longest, &(*out)->arena, error)))
        status = fill_items(*out, sentences, t->sides.target, error);
    if (!status && t->decoding.alignments)
        status = align(t, *out, sentences, error);
    /* The text as given, not as the vocabulary spells it. */
    for (size_t i = 0; i < count && !status; i++) {
        (*out)->items[i].text = et_arena_strdup(&(*out)->arena, targets[i]);
        if (!(*out)->items[i].text)
            status = et_alloc_failed(error, "a target");
    }
    return end(out, status);
}

/* ---- embedded sources ---- */

static int check_rows(const et_embedded *source, size_t number, int64_t width, et_error *error)
{
    if (source->count && source->width != width)
        return et_fail(error, ET_EDATA,
                       "source %zu: rows of %lld numbers, but the model's embedding has %lld",
                       number, (long long)source->width, (long long)width);
    if (source->count < 0 || source->count > ET_TRANSLATION_SOURCE_MAX ||
        (source->count && !source->rows))
        return et_fail(error, ET_EDATA, "source %zu: %lld rows%s; give at most %d", number,
                       (long long)source->count, source->rows ? "" : ", which are NULL",
                       ET_TRANSLATION_SOURCE_MAX);
    for (int64_t i = 0; i < source->count * width; i++)
        if ((!source->mask || source->mask[i / width]) && !isfinite(source->rows[i]))
            return et_fail(error, ET_EDATA, "source %zu, row %lld: %g is not finite", number,
                           (long long)(i / width), (double)source->rows[i]);
    return ET_OK;
}

/* Takes the rows that the mask keeps, with their positions. Without a mask, the rows are
 * borrowed. */
static int make_sentence(const et_embedded *source, et_decoder_sentence *sentence, et_arena *arena,
                         et_error *error)
{
    const size_t width = (size_t)source->width;
    sentence->rows = source->count ? source->rows : NULL;
    sentence->length = source->count;
    if (!source->mask || !source->count)
        return ET_OK;
    float *rows = et_arena_array(arena, (size_t)source->count * width, sizeof *rows);
    int32_t *positions = et_arena_array(arena, source->count, sizeof *positions);
    if (!rows || !positions)
        return et_alloc_failed(error, "a source");
    int64_t kept = 0;
    for (int64_t i = 0; i < source->count; i++)
        if (source->mask[i]) {
            memcpy(rows + (size_t)kept * width, source->rows + (size_t)i * width,
                   width * sizeof *rows);
            positions[kept++] = (int32_t)i;
        }
    sentence->rows = kept ? rows : NULL;
    sentence->positions = positions;
    sentence->length = kept;
    sentence->extent = kept ? positions[kept - 1] + 1 : 0;
    return ET_OK;
}

int et_translator_search_embedded(et_translator *t, const et_embedded *sources, size_t count,
                                  et_hypotheses **out, et_error *error)
{
    const int64_t width = et_translator_transformer(t).width;
    et_decoder_sentence *sentences = NULL;
    *out = NULL;
    if (count && !sources)
        return et_fail(error, ET_EDATA, "%zu sources to translate, but the array is NULL", count);
    int status = begin(out, &sentences, count, error);
    for (size_t i = 0; i < count && !status; i++) {
        sentences[i] = (et_decoder_sentence){ .number = t->first_line + i };
        status = check_rows(&sources[i], et_translator_line_number(t, i), width, error);
        if (!status)
            status = make_sentence(&sources[i], &sentences[i], &(*out)->arena, error);
    }
    if (!status)
        status = translator_decode_embedded(t, sentences, count, &(*out)->arena, error);
    if (!status)
        status = fill_items(*out, sentences, t->sides.target, error);
    return end(out, status);
}

static int look_up(const et_translator *t, const et_decoder_sentence *sentence, et_embedded *out,
                   et_error *error)
{
    const et_transformer model = et_translator_transformer(t);
    const float *table = et_params_values_of(
        t->params, et_params_find_printf(t->params, "%s/table", model.source.scope));
    const float scale = model.plain_embeddings ? 1 : sqrtf((float)model.width);
    const int64_t count = sentence->length > 1 ? sentence->length : 0;
    float *rows;
    if (ET_ALLOC(rows, (size_t)(count * model.width), "rows", error))
        return ET_ENOMEM;
    for (int64_t i = 0; i < count * model.width; i++)
        rows[i] = table[sentence->source[i / model.width] * model.width + i % model.width] * scale;
    *out = (et_embedded){ .rows = rows, .count = count, .width = model.width };
    return ET_OK;
}

int et_translator_embed(et_translator *t, const char *line, et_embedded *out, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_decoder_sentence sentence;
    *out = (et_embedded){ 0 };
    int status = translator_encode(t, &line, 1, &sentence, &arena, error);
    if (!status)
        status = look_up(t, &sentence, out, error);
    et_arena_release(&arena);
    return status;
}

void et_embedded_release(et_embedded *embedded)
{
    et_free((float *)embedded->rows);
    *embedded = (et_embedded){ 0 };
}

/* ---- results ---- */

int et_hypotheses_count(const et_hypotheses *h, size_t line)
{
    return line < h->lines ? (int)(h->begin[line + 1] - h->begin[line]) : 0;
}

const et_hypothesis *et_hypotheses_at(const et_hypotheses *h, size_t line, int rank)
{
    bool there = rank >= 0 && rank < et_hypotheses_count(h, line);
    return there ? &h->items[h->begin[line] + (size_t)rank] : NULL;
}

void et_hypotheses_free(et_hypotheses *h)
{
    if (!h)
        return;
    et_arena_release(&h->arena);
    et_free(h);
}
