/* Texts are cut into words, and words become numbers by a map: a term is a list of numbers. Terms
 * are sorted by their first word, then longest first. So terms that may begin at a word are
 * neighbours, and the first match is the longest. */
#include "tasks/translation/decoding/glossary.h"

#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "data/text/punctuation.h"
#include "data/text/text.h"
#include "tasks/translation/decoding/search.h"
#include "tasks/translation/decoding/translator_private.h"

#define UNKNOWN (-1) /* the number of a word that no term has */

typedef struct entry {
    et_term term;
    int64_t *words; /* [count] */
    size_t count;
    bool exact; /* the case of letters must be equal */
} entry;

struct et_glossary {
    et_arena arena; /* of terms and words */
    const char *path;
    et_map words;   /* a word, as written or in lower case, to its number */
    entry *entries; /* [count], sorted */
    size_t count, room;
    size_t *first, *last; /* [words] entries that begin with a word: first to before last */
};

/* ---- words ---- */

typedef struct word {
    const char *text; /* terminated, as `lower`; in the arena of the cutting */
    const char *lower;
} word;

typedef struct cutting {
    et_arena arena;
    et_codes codes, lower; /* of one word */
    word *words;           /* [count] */
    size_t count, room;
} cutting;

static void release_cutting(cutting *c)
{
    et_codes_release(&c->codes);
    et_codes_release(&c->lower);
    et_free(c->words);
    et_arena_release(&c->arena);
}

static bool is_in_word(uint32_t code)
{
    return code > 0x20 && code != 0x7f && !et_unicode_is_space(code) &&
           !et_unicode_is_punctuation(code) && !et_unicode_is_symbol(code);
}

/* Scripts without spaces between words. */
static bool is_alone(uint32_t code)
{
    static const uint32_t ranges[][2] = {
        { 0x0e00, 0x0eff }, { 0x1000, 0x109f }, { 0x1780, 0x17ff },   { 0x3040, 0x30ff },
        { 0x3400, 0x9fff }, { 0xf900, 0xfaff }, { 0x20000, 0x3ffff },
    };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

/* Whether the text of a token, or of a word's begin, would continue a word that ends before it. */
static bool glossary_continues(const char *text)
{
    et_assert(text);
    uint32_t code;
    if (!*text)
        return false;
    et_utf8_decode(text, strlen(text), &code);
    return is_in_word(code) && !is_alone(code);
}

/* Bytes of the word at the beginning of text: letters with their combining characters, or one other
 * character. */
static size_t word_length(const char *text, size_t length)
{
    uint32_t code;
    size_t at = et_utf8_decode(text, length, &code);
    if (!is_in_word(code) || is_alone(code))
        return at;
    while (at < length) {
        const size_t more = et_utf8_decode(text + at, length - at, &code);
        if (!is_in_word(code) || is_alone(code))
            break;
        at += more;
    }
    return at;
}

static int add_word(cutting *c, const char *text, size_t length, et_error *error)
{
    if (!ET_VECTOR_GROW(c->words, c->room, c->count + 1))
        return et_alloc_failed(error, "words");
    word *added = &c->words[c->count];
    added->text = et_arena_strndup(&c->arena, text, length);
    if (!added->text)
        return et_alloc_failed(error, "a word");
    c->count++;
    int status;
    if ((status = et_codes_decode(&c->codes, text, length, error)) ||
        (status = et_codes_lower(&c->lower, &c->codes, error)))
        return status;
    char *bytes = et_arena_alloc(&c->arena, 4 * c->lower.count + 1), *end = bytes;
    if (!bytes)
        return et_alloc_failed(error, "a word");
    for (size_t i = 0; i < c->lower.count; i++)
        end += et_utf8_encode(end, c->lower.items[i]);
    added->lower = bytes;
    return ET_OK;
}

/* Appends the words of a text. */
static int cut(cutting *c, const char *text, size_t length, et_error *error)
{
    int status = ET_OK;
    for (size_t at = 0; at < length && !status;) {
        uint32_t code;
        const size_t space = et_utf8_decode(text + at, length - at, &code);
        if (et_unicode_is_space(code) || code <= 0x20) {
            at += space;
            continue;
        }
        const size_t size = word_length(text + at, length - at);
        status = add_word(c, text + at, size, error);
        at += size;
    }
    return status;
}

/* ---- reading ---- */

static int64_t number_of(const et_glossary *g, const char *text)
{
    int64_t number = UNKNOWN;
    return et_map_get(&g->words, text, &number) ? number : UNKNOWN;
}

static int give_number(et_glossary *g, const char *text, int64_t *number, et_error *error)
{
    *number = number_of(g, text);
    if (*number != UNKNOWN)
        return ET_OK;
    const char *key = et_arena_strdup(&g->arena, text);
    *number = (int64_t)g->words.count;
    return key && et_map_put(&g->words, key, *number) ? ET_OK : et_alloc_failed(error, "a word");
}

/* Copies the words of a term's source into the glossary. */
static int take_words(et_glossary *g, entry *e, const cutting *c, et_error *error)
{
    int status = ET_OK;
    e->count = c->count;
    e->words = et_arena_array(&g->arena, c->count, sizeof *e->words);
    if (!e->words)
        return et_alloc_failed(error, "a term");
    for (size_t i = 0; i < c->count; i++)
        e->exact |= strcmp(c->words[i].text, c->words[i].lower) != 0;
    for (size_t i = 0; i < c->count && !status; i++)
        status =
            give_number(g, e->exact ? c->words[i].text : c->words[i].lower, &e->words[i], error);
    return status;
}

static int add_entry(et_glossary *g, const et_term *term, et_error *error)
{
    cutting c = { .arena = ET_ARENA_INIT };
    if (!ET_VECTOR_GROW(g->entries, g->room, g->count + 1))
        return et_alloc_failed(error, "terms");
    entry *e = &g->entries[g->count++];
    *e = (entry){ .term = *term };
    int status = cut(&c, term->source, strlen(term->source), error);
    if (!status && !c.count)
        status = et_fail(error, ET_EDATA, "%s:%lld: the source term has no word", g->path,
                         (long long)term->line);
    if (!status)
        status = take_words(g, e, &c, error);
    release_cutting(&c);
    return status;
}

static bool is_space_at(const char *text, size_t length)
{
    uint32_t code;
    et_utf8_decode(text, length, &code);
    return et_unicode_is_space(code);
}

/* Copies a text without outer white space into the glossary's arena. */
static int take_term(et_glossary *g, const et_text_line *line, const char *what, const char *text,
                     size_t length, const char **out, et_error *error)
{
    while (length && is_space_at(text, length)) {
        uint32_t code;
        const size_t size = et_utf8_decode(text, length, &code);
        text += size;
        length -= size;
    }
    for (size_t at; length; length = at) {
        at = length - 1;
        while (at && ((unsigned char)text[at] & 0xc0) == 0x80)
            at--;
        if (!is_space_at(text + at, length - at))
            break;
    }
    if (!length)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: the %s term is empty: write source term, TAB, target term",
                       line->path, (long long)line->number, what);
    if (length > ET_GLOSSARY_TERM_MAX)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: the %s term has %zu bytes; at most %d are allowed", line->path,
                       (long long)line->number, what, length, ET_GLOSSARY_TERM_MAX);
    *out = et_arena_strndup(&g->arena, text, length);
    return *out ? ET_OK : et_alloc_failed(error, "a term");
}

static int add_line(et_glossary *g, const et_text_line *line, et_error *error)
{
    et_term term = { .line = line->number };
    const char *end = line->text + line->length;
    const char *tab = memchr(line->text, '\t', line->length);
    if (!tab || memchr(tab + 1, '\t', (size_t)(end - tab - 1)))
        return et_fail(error, ET_EDATA, "%s:%lld: %s TAB: write source term, TAB, target term",
                       line->path, (long long)line->number, tab ? "more than one" : "no");
    int status;
    if ((status = take_term(g, line, "source", line->text, (size_t)(tab - line->text), &term.source,
                            error)) ||
        (status =
             take_term(g, line, "target", tab + 1, (size_t)(end - tab - 1), &term.target, error)))
        return status;
    return add_entry(g, &term, error);
}

/* Order: by first word; then longer terms first; then terms with exact case first; then by words
 * and lines. */
static int compare(const void *left, const void *right)
{
    const entry *a = left, *b = right;
    if (a->words[0] != b->words[0])
        return a->words[0] < b->words[0] ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    if (a->exact != b->exact)
        return a->exact ? -1 : 1;
    for (size_t i = 1; i < a->count; i++)
        if (a->words[i] != b->words[i])
            return a->words[i] < b->words[i] ? -1 : 1;
    return a->term.line < b->term.line ? -1 : a->term.line > b->term.line;
}

static int check_doubles(const et_glossary *g, et_error *error)
{
    for (size_t i = 1; i < g->count; i++) {
        const entry *a = &g->entries[i - 1], *b = &g->entries[i];
        const bool same = a->count == b->count && a->exact == b->exact &&
                          !memcmp(a->words, b->words, a->count * sizeof *a->words);
        if (same && strcmp(a->term.target, b->term.target))
            return et_fail(error, ET_EDATA,
                           "%s:%lld: line %lld has another target for \"%s\": \"%s\" and \"%s\"; "
                           "keep one",
                           g->path, (long long)b->term.line, (long long)a->term.line,
                           b->term.source, a->term.target, b->term.target);
    }
    return ET_OK;
}

static int index_entries(et_glossary *g, et_error *error)
{
    qsort(g->entries, g->count, sizeof *g->entries, compare);
    int status = check_doubles(g, error);
    if (status)
        return status;
    g->first = et_arena_array(&g->arena, 2 * g->words.count, sizeof *g->first);
    if (!g->first)
        return et_alloc_failed(error, "terms");
    g->last = g->first + g->words.count;
    for (size_t i = g->count; i-- > 0;) {
        const int64_t number = g->entries[i].words[0];
        g->first[number] = i;
        if (!g->last[number])
            g->last[number] = i + 1;
    }
    return ET_OK;
}

static bool is_blank(const et_text_line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if (line->text[i] != ' ')
            return false;
    return true;
}

static int read_file(et_glossary *g, et_error *error)
{
    const et_strings paths = { &g->path, 1 };
    et_text *text;
    et_text_line line;
    int status = et_text_open(&text, &paths, error);
    if (status)
        return status;
    while (!status && !(status = et_text_next(text, &line, error)) && line.text)
        if (!is_blank(&line))
            status = add_line(g, &line, error);
    et_text_close(text);
    if (!status && !g->count)
        status =
            et_fail(error, ET_EDATA, "%s: no terms: write source term, TAB, target term", g->path);
    return status;
}

int et_glossary_open(et_glossary **out, const char *path, et_error *error)
{
    et_assert(out && path);
    et_glossary *g = et_alloc_zero(1, sizeof *g);
    *out = g;
    if (!g)
        return et_alloc_failed(error, "a glossary");
    g->path = et_arena_strdup(&g->arena, path);
    int status = g->path ? read_file(g, error) : et_alloc_failed(error, "a path");
    if (!status)
        status = index_entries(g, error);
    if (status) {
        et_glossary_close(g);
        *out = NULL;
    }
    return status;
}

void et_glossary_close(et_glossary *g)
{
    if (!g)
        return;
    et_map_release(&g->words);
    et_free(g->entries);
    et_arena_release(&g->arena);
    et_free(g);
}

const char *et_glossary_path(const et_glossary *g)
{
    return g->path;
}

/* ---- searching ---- */

static bool fits(const et_glossary *g, const entry *e, const word *words, size_t count)
{
    if (e->count > count)
        return false;
    for (size_t i = 0; i < e->count; i++)
        if (number_of(g, e->exact ? words[i].text : words[i].lower) != e->words[i])
            return false;
    return true;
}

/* The longest of the terms that begin with a word of this number and fit. */
static const entry *longest_of(const et_glossary *g, int64_t number, const word *words,
                               size_t count)
{
    if (number == UNKNOWN)
        return NULL;
    for (size_t i = g->first[number]; i < g->last[number]; i++)
        if (fits(g, &g->entries[i], words, count))
            return &g->entries[i];
    return NULL;
}

static void add_found(const et_term *term, const et_term **found, size_t most, size_t *count)
{
    const size_t known = *count < most ? *count : most;
    for (size_t i = 0; i < known; i++)
        if (!strcmp(found[i]->target, term->target))
            return;
    if (*count < most)
        found[*count] = term;
    ++*count;
}

int et_glossary_find(const et_glossary *g, const char *text, size_t length, const et_term **found,
                     size_t most, size_t *count, et_error *error)
{
    cutting c = { .arena = ET_ARENA_INIT };
    et_assert(g->count > 0 && g->first);
    int status = cut(&c, text, length, error);
    *count = 0;
    for (size_t at = 0; at < c.count && !status;) {
        const word *words = c.words + at;
        const entry *e = longest_of(g, number_of(g, words->text), words, c.count - at);
        const entry *lower = longest_of(g, number_of(g, words->lower), words, c.count - at);
        if (!e || (lower && lower->count > e->count))
            e = lower;
        if (e)
            add_found(&e->term, found, most, count);
        at += e ? e->count : 1;
    }
    release_cutting(&c);
    return status;
}

int et_glossary_is_in(const char *target, const char *text, bool *is, et_error *error)
{
    et_assert(target && text && is);
    cutting c = { .arena = ET_ARENA_INIT };
    int status = cut(&c, target, strlen(target), error);
    const size_t wanted = c.count;
    if (!status)
        status = cut(&c, text, strlen(text), error);
    *is = false;
    for (size_t at = wanted; !status && at + wanted <= c.count && !*is; at++) {
        size_t same = 0;
        while (same < wanted && !strcmp(c.words[same].text, c.words[at + same].text))
            same++;
        *is = same == wanted;
    }
    release_cutting(&c);
    return status;
}

/* ---- terms of a translator ---- */

/* Terms of a glossary in a line, and the check that its translation has them. Lines with terms have
 * a separate decoder, whose beam has room for hypotheses with and without terms. Other lines are
 * decoded as without a glossary, with the same bits. */

/* The first member belongs to the sentence. */
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
        return et_alloc_failed(error, "tokens");
    for (size_t i = 0; i < count; i++)
        continues[i] = glossary_continues(et_vocabulary_token(t->sides.target, (int32_t)i));
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
    return glossary_continues(text + at);
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
        return et_alloc_failed(error, "a term");
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
        return et_alloc_failed(error, "terms");
    memcpy(own->terms, found, count * sizeof *found);
    own->line = line;
    own->count = (int)count;
    sentence->phrases = &own->phrases;
    return add_phrases(t, own, sentence, arena, error);
}

/* ---- decoding ---- */

static int check_line(const et_translator *t, const et_decoder_sentence *sentence, et_strbuf *text,
                      et_error *error)
{
    const line_terms *own = (const line_terms *)(const void *)sentence->phrases;
    et_assert(own->phrases.count <= own->count && own->count <= ET_PHRASES_MAX);
    const et_decoder_result *best = &sentence->results[0];
    et_strbuf_reset(text);
    int status = et_vocabulary_decode(t->sides.target, best->ids, (size_t)best->count, text, error);
    if (!status && text->failed)
        status = et_alloc_failed(error, "a translation");
    for (int i = 0; i < own->count && !status; i++) {
        bool is;
        status = et_glossary_is_in(own->terms[i]->target, et_strbuf_text(text), &is, error);
        if (!status && !is) {
            /* Shows the begin of the line, because a text is cut into sentences before they are
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
