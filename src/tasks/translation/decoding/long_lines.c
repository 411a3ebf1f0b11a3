#include "tasks/translation/decoding/translator_private.h"

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "data/text/punctuation.h"
#include "data/text/vocabulary/vocabulary.h"
#include "tasks/translation/settings/translation_options.h"

/* Tokens of a source without its end. */
#define TOKENS_MAX ((size_t)ET_TRANSLATION_SOURCE_MAX - 1)

/* A text with fewer bytes cannot have too many tokens. Normalization turns the 3 bytes of U+FDFA
 * into 15 letters of 2 bytes and 3 spaces of 3 bytes, and each of these bytes may be a token. */
#define BYTES_SAFE (ET_TRANSLATION_SOURCE_MAX / 16)

typedef struct piece {
    const char *text;
    size_t line;
    bool blank;
} piece;

typedef struct cutter {
    const et_translator *t;
    et_tokens tokens;
    et_strbuf text;
    piece *pieces; /* [count], owned */
    size_t count, room;
    et_arena *arena;
    const char *tag; /* of the line, [tag_length], for all of its pieces */
    size_t tag_length;
} cutter;

/* Whether a line may have too many tokens, without encoding: usual lines are not encoded twice. */
static bool may_be_long(const char *line, size_t length)
{
    if (length >= TOKENS_MAX || length < BYTES_SAFE)
        return length >= TOKENS_MAX;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] >= 0xe1)
            return true;
    return false;
}

static void write_piece(cutter *c, const char *text, size_t length, bool first)
{
    et_strbuf_reset(&c->text);
    if (!first && c->tag) {
        et_strbuf_append_bytes(&c->text, c->tag, c->tag_length);
        et_strbuf_append_char(&c->text, ' ');
    }
    et_strbuf_append_bytes(&c->text, text, length);
}

/* The most tokens that a model of the translator reads of a piece. A tag of the options is a token,
 * with a blank after it. */
static int count_tokens(cutter *c, const char *text, size_t length, bool first, size_t *most,
                        et_error *error)
{
    const et_translator *t = c->t;
    write_piece(c, text, length, first);
    int status = c->text.failed ? et_alloc_failed(error, "a line")
                                : et_sides_encode(&t->sides, false, c->text.data, c->text.length,
                                                  &c->tokens, error);
    *most = status ? 0 : c->tokens.count;
    for (int i = 0; i < t->other_count && t->own_sources && !status; i++) {
        status = et_sides_encode(&t->others[i]->sides, false, c->text.data, c->text.length,
                                 &c->tokens, error);
        *most = !status && c->tokens.count > *most ? c->tokens.count : *most;
    }
    *most += t->options.tag && !c->tag ? 2 : 0;
    return status;
}

static int add(cutter *c, const char *text, size_t line, bool blank, et_error *error)
{
    if (!text || !ET_VECTOR_APPEND(c->pieces, c->count, c->room, (piece){ text, line, blank }))
        return et_alloc_failed(error, "lines");
    return ET_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Whether a sentence ends before text[at]. */
static bool ends_sentence(const char *text, size_t at)
{
    static const char *const ideographic[] = { "\xe3\x80\x82" /* 。 */, "\xef\xbc\x81" /* ！ */,
                                               "\xef\xbc\x9f" /* ？ */ };
    for (size_t i = 0; i < sizeof ideographic / sizeof *ideographic; i++)
        if (at >= 3 && !memcmp(text + at - 3, ideographic[i], 3))
            return true;
    if (!is_blank(text[at]))
        return false;
    while (at && strchr("\"')]", text[at - 1]))
        at--;
    return at && strchr(".!?", text[at - 1]);
}

/* Where to cut a text to at most [length] bytes: after its last sentence if this is in the second
 * half, else at a blank, else between two characters. */
static size_t find_cut(const char *text, size_t length)
{
    size_t at = length;
    for (; at > length / 2; at--)
        if (ends_sentence(text, at))
            return at;
    for (at = length; at; at--)
        if (is_blank(text[at]))
            return at;
    for (at = length; at > 1 && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
        continue;
    return at;
}

/* The tag at the start of a line. */
static void find_tag(cutter *c, const char *line)
{
    char word[64];
    const size_t length = strcspn(line, " \t");
    c->tag = NULL;
    if (!length || length >= sizeof word)
        return;
    memcpy(word, line, length);
    word[length] = 0;
    if (et_language_tag_is(word)) {
        c->tag = line;
        c->tag_length = length;
    }
}

/* Bytes at the start of text that are a piece. */
static int find_piece(cutter *c, const char *text, size_t left, bool first, size_t *length,
                      et_error *error)
{
    /* A piece is about as long as the previous one. */
    size_t most = *length && 2 * *length < left ? 2 * *length : left, tokens = 0;
    int status = count_tokens(c, text, most, first, &tokens, error);
    bool fits = tokens <= TOKENS_MAX;
    while (!status && !fits && most > 1) {
        const size_t share = (size_t)((double)most / (double)tokens * TOKENS_MAX * 0.98);
        most = share && share < most ? share : most - 1;
        while (most > 1 && ((unsigned char)text[most] & 0xc0) == 0x80)
            most--;
        status = count_tokens(c, text, most, first, &tokens, error);
        fits = tokens <= TOKENS_MAX;
    }
    *length = most == left ? left : find_cut(text, most);
    return status;
}

static int cut_line(cutter *c, const char *line, size_t number, et_error *error)
{
    size_t left = strlen(line), length = 0;
    int status = ET_OK;
    bool first = true, blank = false;
    while (!status && left) {
        status = find_piece(c, line, left, first, &length, error);
        if (status)
            break;
        et_assert(length && length <= left);
        write_piece(c, line, length, first);
        const char *text = c->text.failed || (first && length == left)
                               ? line
                               : et_arena_strdup(c->arena, et_strbuf_text(&c->text));
        status = add(c, text, number, blank, error);
        line += length;
        left -= length;
        blank = false;
        for (; left && is_blank(*line); line++, left--)
            blank = true;
        first = false;
    }
    return status;
}

static int finish(const cutter *c, et_long_lines *out, et_error *error)
{
    const char **pieces = et_arena_array(c->arena, c->count, sizeof *pieces);
    size_t *line = et_arena_array(c->arena, c->count, sizeof *line);
    bool *blank = et_arena_array(c->arena, c->count, sizeof *blank);
    if (!pieces || !line || !blank)
        return et_alloc_failed(error, "lines");
    for (size_t i = 0; i < c->count; i++) {
        pieces[i] = c->pieces[i].text;
        line[i] = c->pieces[i].line;
        blank[i] = c->pieces[i].blank;
    }
    *out = (et_long_lines){ pieces, c->count, line, blank };
    return ET_OK;
}

int et_long_lines_cut(et_long_lines *out, const et_translator *t, const char *const *lines,
                      size_t count, et_arena *arena, et_error *error)
{
    et_assert(arena && (lines || !count));
    cutter c = { .t = t, .tokens = ET_TOKENS_INIT, .text = ET_STRBUF_INIT, .arena = arena };
    bool any = false;
    int status = ET_OK;
    *out = (et_long_lines){ .pieces = lines, .count = count };
    for (size_t i = 0; i < count && !any; i++)
        any = may_be_long(lines[i], strlen(lines[i]));
    for (size_t i = 0; i < count && any && !status; i++) {
        const size_t before = c.count;
        size_t tokens = 0;
        find_tag(&c, lines[i]);
        if (may_be_long(lines[i], strlen(lines[i])))
            status = count_tokens(&c, lines[i], strlen(lines[i]), true, &tokens, error);
        if (!status)
            status = tokens > TOKENS_MAX ? cut_line(&c, lines[i], i, error)
                                         : add(&c, lines[i], i, false, error);
        if (!status && tokens > TOKENS_MAX)
            et_log(ET_LOG_WARNING, "line %zu: %s, more than %s; translated in %zu pieces",
                   et_translator_line_number(t, i), et_format_many((int64_t)tokens, "token").text,
                   et_format_count((int64_t)TOKENS_MAX).text, c.count - before);
    }
    if (!status && c.count > count)
        status = finish(&c, out, error);
    et_free(c.pieces);
    et_strbuf_release(&c.text);
    et_tokens_release(&c.tokens);
    return status;
}

int et_long_lines_join(const et_long_lines *cut, char **pieces, char **results, size_t lines,
                       et_error *error)
{
    et_assert(cut->count >= lines);
    et_strbuf text = ET_STRBUF_INIT;
    bool failed = false;
    for (size_t line = 0, i = 0; line < lines; line++) {
        const size_t first = i++;
        while (i < cut->count && cut->line[i] == line)
            i++;
        results[line] = pieces[first];
        pieces[first] = NULL;
        if (i == first + 1)
            continue;
        et_strbuf_append(&text, results[line]);
        for (size_t k = first + 1; k < i; k++) {
            et_strbuf_append(&text, cut->blank[k] ? " " : "");
            et_strbuf_append(&text, pieces[k]);
            et_free(pieces[k]);
            pieces[k] = NULL;
        }
        et_free(results[line]);
        failed |= text.failed;
        results[line] = et_strbuf_detach(&text);
        failed |= !results[line];
    }
    et_strbuf_release(&text);
    return failed ? et_alloc_failed(error, "a translation") : ET_OK;
}
