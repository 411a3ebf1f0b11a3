/* Checks translations of segments, and mends those that have lost a span. A translation is searched
 * for spans as the source was; a tag of the source is found where its bytes come next. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "tasks/translation/documents/document_private.h"

/* A segment with more spans is translated in parts, which needs less time than a search for all. */
#define SPANS_MAX 256

/* ---- line ends ---- */

/* Replaces spaces of text by line ends, so that lines are about equally long. */
static void wrap(const et_document *d, const et_segment *s, et_strbuf *text)
{
    et_strbuf out = ET_STRBUF_INIT;
    const size_t length = text->length;
    size_t from = 0;
    for (int line = 1; line <= s->breaks; line++) {
        const size_t wanted = length * (size_t)line / (size_t)(s->breaks + 1);
        size_t best = 0, distance = length;
        bool tag = false;
        for (size_t i = from; i < length; i++) {
            const size_t off = i < wanted ? wanted - i : i - wanted;
            if (i > wanted && off >= distance)
                break;
            tag = text->data[i] == '<' || (tag && text->data[i] != '>');
            if (text->data[i] == ' ' && !tag && i > from && off < distance) {
                best = i;
                distance = off;
            }
        }
        if (!best)
            break;
        et_strbuf_append_bytes(&out, text->data + from, best - from);
        et_strbuf_append(&out, d->line_end);
        from = best + 1;
    }
    if (from) {
        et_strbuf_append_bytes(&out, text->data + from, length - from);
        et_strbuf_reset(text);
        et_strbuf_append_bytes(text, et_strbuf_text(&out), out.length);
        text->failed |= out.failed;
    }
    et_strbuf_release(&out);
}

/* ---- checks ---- */

/* Marks a span of the segment, which is not marked, as found. false: there is none, or an ordered
 * one must come before. */
static bool mark(const et_segment *s, bool *marked, const et_span *found, const char *text)
{
    for (size_t i = 0; i < s->spans.count; i++) {
        const et_span *span = &s->spans.items[i];
        if (marked[i] || span->kind == ET_SPAN_TAG)
            continue;
        if (span->length == found->length && !memcmp(s->text + span->start, text, found->length))
            return marked[i] = true;
        if (span->ordered && found->ordered)
            return false;
    }
    return false;
}

/* The next tag at i or later; NULL: none. */
static const et_span *next_tag(const et_segment *s, size_t i)
{
    while (i < s->spans.count && s->spans.items[i].kind != ET_SPAN_TAG)
        i++;
    return i < s->spans.count ? &s->spans.items[i] : NULL;
}

/* The next span of a translation, at from or later. tag: of the source, that must be next; NULL:
 * none is left. */
static bool find(const et_segment *s, const et_span *tag, const char *result, size_t length,
                 size_t from, et_span *found)
{
    const char *next =
        tag ? memmem(result + from, length - from, s->text + tag->start, tag->length) : NULL;
    const size_t end = next ? (size_t)(next - result) : length;
    if (et_span_find(result, end, from, found))
        return true;
    if (!next)
        return false;
    *found = (et_span){ end, tag->length, ET_SPAN_TAG, 0, false };
    return true;
}

static bool is_md(const et_segment *s)
{
    return s->escape == ET_ESCAPE_MD || s->escape == ET_ESCAPE_MD_CELL;
}

/* What may be markup in a segment. */
static const char *special_of(const et_document *d, const et_segment *s)
{
    switch (s->escape) {
    case ET_ESCAPE_MD:
    case ET_ESCAPE_MD_CELL:
        return "\\`*[]<>~";
    case ET_ESCAPE_PO:
        return "<>%{}";
    case ET_ESCAPE_NONE:
        return d->format == ET_DOCUMENT_SRT ? "<>" : "";
    default:
        return "<>";
    }
}

/* The structure of a text at the place of the segment. */
static bool structure_of(const et_segment *s, const char *text, size_t length, et_strbuf *out)
{
    const bool cell = s->escape == ET_ESCAPE_MD_CELL;
    et_strbuf whole = ET_STRBUF_INIT;
    et_strbuf_append(&whole, cell ? "|x|" : "");
    et_strbuf_append(&whole, s->before);
    et_strbuf_append_bytes(&whole, text, length);
    et_strbuf_append(&whole, s->after);
    et_strbuf_append(&whole, cell ? "|\n|---|---|---|\n" : "");
    const bool good = !whole.failed && et_md_structure(et_strbuf_text(&whole), whole.length, out);
    et_strbuf_release(&whole);
    return good;
}

/* Whether Markdown's reader finds the same structure in a translation as in the source. */
static bool is_alike(const et_segment *s, const et_strbuf *out)
{
    et_strbuf before = ET_STRBUF_INIT, after = ET_STRBUF_INIT;
    const bool good = structure_of(s, s->text, s->length, &before) && !out->failed &&
                      structure_of(s, et_strbuf_text(out), out->length, &after) &&
                      before.length == after.length &&
                      !memcmp(et_strbuf_text(&before), et_strbuf_text(&after), before.length);
    et_strbuf_release(&before);
    et_strbuf_release(&after);
    return good;
}

/* Whether c is in the source's text between its spans. */
static bool is_in_source(const et_segment *s, char c)
{
    size_t at = 0;
    for (size_t i = 0; i <= s->spans.count; i++) {
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        if (memchr(s->text + at, c, (span ? span->start : s->length) - at))
            return true;
        at = span ? span->start + span->length : at;
    }
    return false;
}

/* Whether text has markup that the source's text has not. Markdown's is checked as a whole. */
static bool is_spoiled(const et_document *d, const et_segment *s, const char *text, size_t length)
{
    const char *special = special_of(d, s);
    for (size_t i = 0; i < length && !is_md(s); i++)
        if (strchr(special, text[i]) && !is_in_source(s, text[i]))
            return true;
    return false;
}

/* Whether a tag could be mistaken for text. */
static bool is_ambiguous(const et_document *d, const et_segment *s)
{
    if (!next_tag(s, 0))
        return false;
    for (const char *c = special_of(d, s); *c; c++)
        if (is_in_source(s, *c))
            return true;
    return false;
}

/* Whether every span was found: tag is the next of those in order. */
static bool is_complete(const et_segment *s, const et_span *tag, const bool *marked)
{
    for (size_t i = 0; i < s->spans.count; i++)
        if (!marked[i] && s->spans.items[i].kind != ET_SPAN_TAG)
            return false;
    return !tag;
}

/* Whether a translation has lost all words between two tags that follow each other. */
static bool is_emptied(const et_segment *s, const et_span *first, const et_span *second,
                       const char *text, size_t length)
{
    const size_t from = first->start + first->length;
    return first + 1 == second && et_text_has_letter(s->text + from, second->start - from) &&
           !et_text_has_letter(text, length);
}

/* Writes the bytes of a translation up to a span. false: there is markup among them. */
static bool write_up_to(const et_document *d, const et_segment *s, et_escape escape,
                        const char *text, size_t length, et_strbuf *out)
{
    et_document_encode(d, escape, text, length, out);
    return !is_spoiled(d, s, text, length);
}

/* A number more is no fault: "three" may become 3. */
static bool check(const et_document *d, const et_segment *s, et_escape escape, const char *result,
                  bool *marked, et_strbuf *out)
{
    const size_t length = strlen(result);
    const et_span *tag = next_tag(s, 0), *before = NULL; /* before: if the last span was a tag */
    et_span found;
    size_t at = 0;
    for (; find(s, tag, result, length, at, &found); at = found.start + found.length) {
        const char *text = result + found.start;
        const size_t gap = found.start - at;
        if (found.kind == ET_SPAN_TAG) {
            if (before && is_emptied(s, before, tag, result + at, gap))
                return false;
            before = tag;
            tag = next_tag(s, (size_t)(tag - s->spans.items) + 1);
        } else {
            if (!mark(s, marked, &found, text) && found.kind != ET_SPAN_NUMBER)
                return false;
            before = NULL;
        }
        if (!write_up_to(d, s, escape, result + at, gap, out))
            return false;
        et_document_encode_span(d, s->escape, &found, text, out);
    }
    return write_up_to(d, s, escape, result + at, length - at, out) && is_complete(s, tag, marked);
}

bool et_segment_accept(et_document *d, const et_segment *s, const char *result, et_strbuf *out)
{
    et_assert(s->text && result && out);
    bool *marked = et_alloc_zero(s->spans.count + 1, sizeof *marked);
    d->failed |= !marked;
    et_strbuf_reset(out);
    bool good = marked && *result && s->spans.count <= SPANS_MAX && !is_ambiguous(d, s) &&
                check(d, s, s->escape, result, marked, out);
    if (good && is_md(s) && !is_alike(s, out)) {
        et_strbuf_reset(out);
        memset(marked, 0, s->spans.count * sizeof *marked);
        good = check(d, s, ET_ESCAPE_MD_MARKS, result, marked, out) && is_alike(s, out);
    }
    et_free(marked);
    if (good)
        wrap(d, s, out);
    return good;
}

/* ---- parts ---- */

static const char *copy_line(et_document *d, const char *text, size_t length)
{
    char *copy = et_arena_alloc(&d->arena, length + 1);
    if (copy)
        memcpy(copy, text, length);
    d->failed |= !copy;
    return copy;
}

/* White space, punctuation and symbols at the ends of a part stay. */
static void trim(const char *text, size_t *from, size_t *to)
{
    size_t last = *from, size;
    bool begun = false;
    for (size_t i = *from; i < *to; i += size) {
        uint32_t code;
        size = et_utf8_decode(text + i, *to - i, &code);
        if (et_unicode_is_space(code) || et_unicode_is_punctuation(code) ||
            et_unicode_is_symbol(code))
            continue;
        *from = begun ? *from : i;
        begun = true;
        last = i + size;
    }
    *to = begun ? last : *from;
}

/* With the segment's language tag. */
static const char *copy_part(et_document *d, const et_segment *s, size_t at, size_t length)
{
    if (!s->tag)
        return copy_line(d, s->text + at, length);
    const char *line = et_arena_printf(&d->arena, "%s %.*s", s->tag, (int)length, s->text + at);
    d->failed |= !line;
    return line;
}

void et_segment_cut(et_document *d, et_segment *s)
{
    et_assert(!s->parts);
    s->parts = et_arena_array(&d->arena, s->spans.count + 1, sizeof *s->parts);
    d->failed |= !s->parts;
    for (size_t i = 0, at = 0; i <= s->spans.count && !d->failed; i++) {
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        size_t end = span ? span->start : s->length;
        et_part *part = &s->parts[i];
        trim(s->text, &at, &end);
        *part = (et_part){ .start = at, .length = end - at };
        if (et_text_has_letter(s->text + at, end - at))
            part->line = copy_part(d, s, at, end - at);
        at = span ? span->start + span->length : at;
    }
}

/* Removes the end of sentence that a model adds to a part. The punctuation of the source follows
 * the part. */
static size_t without_end(const char *text, size_t length)
{
    static const char *const ends[] = { ".", "!", "?", "\xe3\x80\x82" /* 。 */ };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t count = strlen(ends[i]);
        if (length > count && !memcmp(text + length - count, ends[i], count)) {
            length -= count;
            break;
        }
    }
    while (length && text[length - 1] == ' ')
        length--;
    return length;
}

void et_segment_take_part(et_document *d, const et_segment *s, et_part *part, const char *result)
{
    et_assert(part && result);
    const size_t length = without_end(result, strlen(result));
    et_span found = { 0, 0, ET_SPAN_NUMBER, 0, false };
    for (size_t at = 0; et_span_find(result, length, at, &found); at = found.start + found.length)
        if (found.kind != ET_SPAN_NUMBER)
            break;
    if (!length || found.kind != ET_SPAN_NUMBER || is_spoiled(d, s, result, length))
        et_document_count_kept(d, s->line);
    else
        part->result = copy_line(d, result, length);
}

static void join(const et_document *d, const et_segment *s, et_escape escape, et_strbuf *out)
{
    size_t at = 0;
    et_strbuf_reset(out);
    for (size_t i = 0; i <= s->spans.count; i++) {
        const et_part *part = s->parts ? &s->parts[i] : NULL;
        const et_span *span = i < s->spans.count ? &s->spans.items[i] : NULL;
        const size_t end = span ? span->start : s->length;
        if (part && part->result) {
            et_document_encode(d, s->escape, s->text + at, part->start - at, out);
            et_document_encode(d, escape, part->result, strlen(part->result), out);
            at = part->start + part->length;
        }
        et_document_encode(d, s->escape, s->text + at, end - at, out);
        if (span)
            et_document_encode_span(d, s->escape, span, s->text + span->start, out);
        at = span ? span->start + span->length : end;
    }
}

void et_segment_source(const et_document *d, const et_segment *s, et_strbuf *out)
{
    et_assert(out);
    et_segment whole = *s;
    whole.parts = NULL;
    join(d, &whole, s->escape, out);
    wrap(d, s, out);
}

void et_segment_join(et_document *d, const et_segment *s, et_strbuf *out)
{
    et_assert(s->parts && out);
    join(d, s, s->escape, out);
    if (is_md(s) && !is_alike(s, out)) {
        join(d, s, ET_ESCAPE_MD_MARKS, out);
        if (!is_alike(s, out)) {
            et_document_count_kept(d, s->line);
            et_segment_source(d, s, out);
            return;
        }
    }
    wrap(d, s, out);
}
