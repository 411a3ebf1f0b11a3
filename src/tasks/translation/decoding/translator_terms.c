/* Terms of a glossary: what they are for a line, and whether its translation has them. Lines with
 * terms have a decoder of their own, whose beam has room for hypotheses with and without them.
 * Other lines are decoded as without a glossary, with the same bits. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "data/text/punctuation.h"
#include "tasks/translation/decoding/glossary.h"
#include "tasks/translation/decoding/search.h"
#include "tasks/translation/decoding/translator_private.h"

/* Hypotheses of a line with terms, at least: a smaller beam has no room for likely words beside
 * those of the terms. */
#define BEAM_LEAST 8

/* The first member is what the sentence has. */
typedef struct line_terms {
    et_phrases phrases;
    const char *line;                     /* borrowed through the call */
    const et_term *terms[ET_PHRASES_MAX]; /* [count] */
    et_phrase items[ET_PHRASES_MAX];      /* [phrases.count] of the terms that can be met */
    int count;
} line_terms;

/* ---- opening ---- */

int et_translator_open_terms(et_translator *t, et_error *error)
{
    const char *path = t->decoding.terms;
    const et_translator *from = t->options.shares;
    t->decoding.terms = NULL; /* the caller's memory */
    if (!path)
        return ET_OK;
    t->borrows_glossary = from && from->glossary && !strcmp(et_glossary_path(from->glossary), path);
    int status = ET_OK;
    if (t->borrows_glossary)
        t->glossary = from->glossary;
    else
        status = et_glossary_open(&t->glossary, path, error);
    if (!status)
        status = et_vocabulary_load(t->sides.target, error);
    if (status)
        return status;
    const size_t count = (size_t)et_vocabulary_size(t->sides.target);
    bool *continues = et_arena_array(&t->arena, count, sizeof *continues);
    if (!continues)
        return et_alloc_failed(error, count, "tokens");
    for (size_t i = 0; i < count; i++)
        continues[i] = et_glossary_continues(et_vocabulary_token(t->sides.target, (int32_t)i));
    t->continues = continues;
    return ET_OK;
}

void et_translator_close_terms(et_translator *t)
{
    et_decoder_free(t->terms_decoder);
    if (!t->borrows_glossary)
        et_glossary_close(t->glossary);
}

/* ---- before decoding ---- */

/* The vocabulary can write them, and the search may. */
static bool are_possible(const et_translator *t, const et_tokens *tokens)
{
    const int32_t unk = et_vocabulary_unk(t->sides.target);
    for (size_t i = 0; i < tokens->count; i++) {
        if (tokens->ids[i] == unk)
            return false;
        for (int k = 0; k < t->choice.never_count; k++)
            if (tokens->ids[i] == t->choice.never[k])
                return false;
    }
    return tokens->count > 0;
}

static bool ends_in_word(const char *text)
{
    size_t at = strlen(text);
    do
        at--;
    while (at && ((unsigned char)text[at] & 0xc0) == 0x80);
    return et_glossary_continues(text + at);
}

/* *left: tokens that the translation has room for. A term that cannot be met is no phrase; the
 * translation is checked for it afterwards. */
static int add_phrase(const et_translator *t, line_terms *own, const et_term *term, int64_t *left,
                      et_tokens *tokens, et_arena *arena, et_error *error)
{
    int status =
        et_sides_encode(&t->sides, true, term->target, strlen(term->target), tokens, error);
    const int64_t count = (int64_t)tokens->count;
    if (status || !are_possible(t, tokens) || count > *left)
        return status;
    int32_t *ids = et_arena_array(arena, tokens->count, sizeof *ids);
    if (!ids)
        return et_alloc_failed(error, tokens->count * sizeof *ids, "a term");
    memcpy(ids, tokens->ids, tokens->count * sizeof *ids);
    own->items[own->phrases.count++] =
        (et_phrase){ .ids = ids, .count = (int)count, .ends_in_word = ends_in_word(term->target) };
    *left -= count;
    return ET_OK;
}

static int add_phrases(const et_translator *t, line_terms *own, const et_decoder_sentence *sentence,
                       et_arena *arena, et_error *error)
{
    const et_decoder_options options = et_translator_decoder_options(t);
    int64_t left = et_search_target(&options, sentence) - 1; /* and the end */
    et_tokens tokens = ET_TOKENS_INIT;
    int status = ET_OK;
    own->phrases.continues = t->continues;
    own->phrases.items = own->items;
    for (int i = 0; i < own->count && !status; i++)
        status = add_phrase(t, own, own->terms[i], &left, &tokens, arena, error);
    et_tokens_release(&tokens);
    return status;
}

int et_translator_find_terms(const et_translator *t, const char *line,
                             et_decoder_sentence *sentence, et_arena *arena, et_error *error)
{
    et_assert(t->glossary && line && sentence);
    const et_term *found[ET_PHRASES_MAX];
    size_t count;
    int status =
        et_glossary_find(t->glossary, line, strlen(line), found, ET_PHRASES_MAX, &count, error);
    if (status || !count)
        return status;
    if (count > ET_PHRASES_MAX) {
        et_log(ET_LOG_WARNING, "line %llu: %zu terms of %s; only the first %d are kept",
               (unsigned long long)sentence->number, count, et_glossary_path(t->glossary),
               ET_PHRASES_MAX);
        count = ET_PHRASES_MAX;
    }
    line_terms *own = et_arena_array(arena, 1, sizeof *own);
    if (!own)
        return et_alloc_failed(error, sizeof *own, "terms");
    memcpy(own->terms, found, count * sizeof *found);
    own->line = line;
    own->count = (int)count;
    sentence->phrases = &own->phrases;
    return add_phrases(t, own, sentence, arena, error);
}

/* ---- decoding ---- */

int et_translator_make_terms_decoder(et_translator *t, et_error *error)
{
    et_decoder_options options = et_translator_decoder_options(t);
    const int most = et_vocabulary_size(t->sides.target) / 2;
    options.beam.phrases = true;
    if (options.beam.size < BEAM_LEAST)
        options.beam.size = most < BEAM_LEAST ? most : BEAM_LEAST;
    return t->terms_decoder ? ET_OK
                            : et_translator_make_decoder(&t->terms_decoder, t, &options, error);
}

static int check_line(const et_translator *t, const et_decoder_sentence *sentence, et_strbuf *text,
                      et_error *error)
{
    const line_terms *own = (const line_terms *)(const void *)sentence->phrases;
    et_assert(own->phrases.count <= own->count && own->count <= ET_PHRASES_MAX);
    const et_decoder_result *best = &sentence->results[0];
    et_strbuf_reset(text);
    int status = et_vocabulary_decode(t->sides.target, best->ids, (size_t)best->count, text, error);
    if (!status && text->failed)
        status = et_alloc_failed(error, text->length, "a translation");
    for (int i = 0; i < own->count && !status; i++) {
        bool is;
        status = et_glossary_is_in(own->terms[i]->target, et_strbuf_text(text), &is, error);
        if (!status && !is) {
            /* With the begin of the line, since a text is cut into sentences before they are
             * counted. */
            const et_term *term = own->terms[i];
            const size_t shown = et_utf8_fitting(own->line, 40);
            et_log(ET_LOG_WARNING,
                   "line %llu, \"%.*s%s\": the translation does not have \"%s\" (%s:%lld): the "
                   "vocabulary cannot write it, or the translation would be too long",
                   (unsigned long long)sentence->number, (int)shown, own->line,
                   own->line[shown] ? "..." : "", term->target, et_glossary_path(t->glossary),
                   (long long)term->line);
        }
    }
    return status;
}

int et_translator_check_terms(const et_translator *t, const et_decoder_sentence *sentences,
                              size_t count, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    int status = ET_OK;
    for (size_t i = 0; i < count && !status; i++)
        if (sentences[i].phrases && sentences[i].count)
            status = check_line(t, &sentences[i], &text, error);
    et_strbuf_release(&text);
    return status;
}
