/* Several results of a line or of an embedded source, and scores of given targets. All results of a
 * call are in one arena: sentences, the decoder's results, texts.
 *
 * A target is scored by the decoder's own steps, each with the given token instead of a chosen one,
 * with as many targets together as sentences and the same caches. */
#include <etude/hypotheses.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/threads/thread.h"
#include "data/text/punctuation.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/alignment.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/settings/translation_options.h"

/* Results of line i are items[begin[i]] to items[begin[i + 1]]. */
struct et_hypotheses {
    et_arena arena;
    size_t lines;
    size_t *begin; /* [lines + 1] */
    et_hypothesis *items;
};

static int fill_item(et_hypotheses *h, et_hypothesis *item, const et_decoder_result *result,
                     const et_vocabulary *vocabulary, et_strbuf *text, et_error *error)
{
    et_strbuf_reset(text);
    int status = et_vocabulary_decode(vocabulary, result->ids, (size_t)result->count, text, error);
    *item = (et_hypothesis){ .text = et_arena_strdup(&h->arena, et_strbuf_text(text)),
                             .ids = result->ids,
                             .id_count = result->count,
                             .tokens = result->length,
                             .score = (double)result->score,
                             .log_probability = (double)result->log_p };
    if (!status && (text->failed || !item->text))
        status = et_alloc_failed(error, text->length, "a translation");
    return status;
}

static int fill_items(et_hypotheses *h, const et_decoder_sentence *sentences,
                      const et_vocabulary *vocabulary, et_error *error)
{
    static const et_decoder_result none = { 0 };
    et_strbuf text = ET_STRBUF_INIT;
    /* A line that was not decoded has one result, and it is empty. */
    h->begin[0] = 0;
    for (size_t i = 0; i < h->lines; i++)
        h->begin[i + 1] = h->begin[i] + (sentences[i].count ? (size_t)sentences[i].count : 1);
    h->items = et_arena_array(&h->arena, h->begin[h->lines], sizeof *h->items);
    int status =
        h->items ? ET_OK : et_alloc_failed(error, h->begin[h->lines] * sizeof *h->items, "results");
    for (size_t i = 0; i < h->lines && !status; i++)
        for (size_t at = h->begin[i]; at < h->begin[i + 1] && !status; at++)
            status = fill_item(h, &h->items[at],
                               sentences[i].count ? &sentences[i].results[at - h->begin[i]] : &none,
                               vocabulary, &text, error);
    et_strbuf_release(&text);
    return status;
}

static int align(et_translator *t, et_hypotheses *h, const et_decoder_sentence *sentences,
                 et_error *error)
{
    const size_t most = h->begin[h->lines];
    et_align_pair *pairs = et_arena_array(&h->arena, most, sizeof *pairs), *next = pairs;
    int status = t->aligner ? ET_OK : et_translator_make_aligner(t, error);
    if (!status && !pairs)
        status = et_alloc_failed(error, most * sizeof *pairs, "alignments");
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
        return et_alloc_failed(error, lines * sizeof **sentences, "sentences");
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
    return status ? status
                  : et_translator_encode(t, lines, count, *sentences, &(*out)->arena, error);
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
    if (!status)
        status = et_translator_decode(t, sentences, count, &(*out)->arena, error);
    if (!status)
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
    int status = et_translator_check_line(target, number, error);
    if (!status)
        status = et_sides_encode(&t->sides, true, target, strlen(target), tokens, error);
    if (!status && tokens->count > ET_TRANSLATION_SOURCE_MAX - 1)
        status = et_fail(error, ET_EDATA, "line %zu: %zu tokens, more than %d", number,
                         tokens->count, ET_TRANSLATION_SOURCE_MAX - 1);
    if (status)
        return et_fail_while(error, status, "targets");
    int32_t *ids = et_arena_array(arena, tokens->count + 1, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, (tokens->count + 1) * sizeof *ids, "a target");
    if (tokens->count)
        memcpy(ids, tokens->ids, tokens->count * sizeof *ids);
    ids[tokens->count] = et_vocabulary_eos(t->sides.target);
    sentence->forced = ids;
    sentence->forced_length = (int)tokens->count + 1;
    return ET_OK;
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

static bool tell_progress(void *payload, int64_t done)
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
    options.choice = (et_choice_options){ .weights = options.choice.weights,
                                          .model_count = options.choice.model_count };
    options.forced = true;
    options.max_length = longest;
    int status = et_translator_make_decoder(&decoder, t, &options, error);
    if (status)
        return status;
    status = et_decoder_run_on_ranks(decoder, t->options.comm, sentences, (int64_t)count, arena,
                                     t->progress ? tell_progress : NULL, &s, error);
    et_decoder_free(decoder);
    return status;
}

int et_translator_score(et_translator *t, const char *const *lines, const char *const *targets,
                        size_t count, et_hypotheses **out, et_error *error)
{
    et_decoder_sentence *sentences = NULL;
    int longest = 1;
    int status = begin_lines(out, &sentences, t, lines, count, error);
    if (!status)
        status = encode_targets(t, targets, count, sentences, &longest, &(*out)->arena, error);
    if (!status)
        status = force(t, sentences, count, longest, &(*out)->arena, error);
    if (!status)
        status = fill_items(*out, sentences, t->sides.target, error);
    if (!status && t->decoding.alignments)
        status = align(t, *out, sentences, error);
    /* The text as it was given, not as the vocabulary writes it. */
    for (size_t i = 0; i < count && !status; i++) {
        (*out)->items[i].text = et_arena_strdup(&(*out)->arena, targets[i]);
        if (!(*out)->items[i].text)
            status = et_alloc_failed(error, strlen(targets[i]), "a target");
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

/* Rows that the mask leaves, with their positions. Without a mask they are borrowed. */
static int make_sentence(const et_embedded *source, et_decoder_sentence *sentence, et_arena *arena,
                         et_error *error)
{
    const size_t width = (size_t)source->width;
    sentence->rows = source->count ? source->rows : NULL;
    sentence->length = source->count;
    if (!source->mask || !source->count)
        return ET_OK;
    float *rows = et_arena_array(arena, (size_t)source->count * width, sizeof *rows);
    int32_t *positions = et_arena_array(arena, (size_t)source->count, sizeof *positions);
    if (!rows || !positions)
        return et_alloc_failed(error, (size_t)source->count * width * sizeof *rows, "a source");
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
        status = et_translator_decode_embedded(t, sentences, count, &(*out)->arena, error);
    if (!status)
        status = fill_items(*out, sentences, t->sides.target, error);
    return end(out, status);
}

static int look_up(const et_translator *t, const et_decoder_sentence *sentence, et_embedded *out,
                   et_error *error)
{
    const et_transformer model = et_translator_transformer(t);
    char name[80];
    snprintf(name, sizeof name, "%s/table", model.source.scope);
    const float *table =
        et_params_values(t->params) + et_params_offset(t->params, et_params_find(t->params, name));
    const float scale = model.plain_embeddings ? 1 : sqrtf((float)model.width);
    const int64_t count = sentence->length > 1 ? sentence->length : 0;
    float *rows = et_alloc((size_t)(count * model.width), sizeof *rows);
    if (!rows)
        return et_alloc_failed(error, (size_t)(count * model.width) * sizeof *rows, "rows");
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
    int status = et_translator_encode(t, &line, 1, &sentence, &arena, error);
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
