/* From a format's text and inline markup to segments. A format adds them to one run; at its end
 *
 *   run --spans--> cut into sentences --trim--> white space and markup at the ends stay,
 *                                               the rest is a segment of one line
 *
 * Without memory nothing more is added, and the document fails at its end. */
#include <stdio.h>

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "data/text/sentences.h"
#include "data/text/vocabulary/vocabulary.h"
#include "tasks/translation/documents/document_private.h"

/* Messages of ICU with branches, as programs write them for plurals and genders:
 *
 *     {count, plural, one {# file} other {# files}}
 *
 * The syntax is for programs; the texts of the branches are for people. */

/* Messages inside of branches, at most; deeper ones are text. */
#define ET_MESSAGES_MAX 8

typedef struct et_message {
    size_t start, end; /* of the whole, with its braces */
    size_t first;      /* where its branches begin */
    bool counts;       /* plural or selectordinal: # is the number */
    bool choice;       /* # or < is before the text of a branch, no brace around it */
    bool broken;       /* ICU refuses it; end: after its last brace, or of the text */
} et_message;

/* The grammar of ICU's MessageFormat (unicode-org.github.io/icu/userguide/format_parse/messages).
 * ICU's own parser of it has only a C++ interface and gives no positions in UTF-8. An apostrophe
 * quotes only syntax: '{ up to the next apostrophe. The case of the words does not matter. */

#define NAMES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
#define SPACE " \t\r\n"

/* Bytes at text[at] that are among `among`. */
static size_t run(const char *text, size_t end, size_t at, const char *among)
{
    const size_t from = at;
    while (at < end && text[at] && strchr(among, text[at]))
        at++;
    return at - from;
}

/* Bytes of quoted syntax, such as '{', at the beginning of text; 0: none. */
static size_t message_quoted(const char *text, size_t length)
{
    if (length < 2 || *text != '\'' || !text[1] || !strchr("{}#|", text[1]))
        return 0;
    for (size_t at = 1; at < length; at++)
        if (text[at] == '\'' && at + 1 < length && text[at + 1] == '\'')
            at++;
        else if (text[at] == '\'')
            return at + 1;
    return 0;
}

/* The position after the brace that closes the brace at text[at]; 0: unclosed. */
static size_t after_brace(const char *text, size_t end, size_t at)
{
    size_t depth = 0;
    while (at < end) {
        const size_t quoted = text[at] == '\'' ? message_quoted(text + at, end - at) : 0;
        if (!quoted && text[at] == '{')
            depth++;
        else if (!quoted && text[at] == '}' && !--depth)
            return at + 1;
        at += quoted ? quoted : 1;
    }
    return 0;
}

/* The end of the text of a choice's branch: | or the brace that closes the choice. Returns end if
 * both are missing. */
static size_t choice_end(const char *text, size_t end, size_t at)
{
    while (at < end && text[at] != '|' && text[at] != '}') {
        const size_t quoted = message_quoted(text + at, end - at);
        const size_t next = text[at] == '{' ? after_brace(text, end, at) : at + 1;
        if (!quoted && !next)
            return end;
        at = quoted ? at + quoted : next;
    }
    return at;
}

/* Finds the text of the next branch, [from, to). *at: message.first at first. false: no branch is
 * left. end: the end of the message. */
static bool message_branch(const char *text, size_t end, size_t *at, size_t *from, size_t *to)
{
    size_t next = *at + run(text, end, *at, SPACE "|");
    const size_t name = run(text, end, next, NAMES "=");
    next += name;
    next += run(text, end, next, SPACE);
    if (name && next < end && (text[next] == '#' || text[next] == '<')) { /* of a choice */
        *from = next + 1;
        *to = choice_end(text, end, next + 1);
        *at = *to;
        return *to < end;
    }
    const size_t after = name && next < end && text[next] == '{' ? after_brace(text, end, next) : 0;
    if (!after)
        return false;
    *from = next + 1;
    *to = after - 1;
    *at = after;
    return true;
}

/* Whether a message begins with the brace at text[start]. Its end is not known yet. */
static bool read_head(const char *text, size_t length, size_t start, et_message *m)
{
    size_t at = start + 1 + run(text, length, start + 1, SPACE);
    const size_t name = run(text, length, at, NAMES);
    at += name;
    at += run(text, length, at, SPACE);
    if (!name || at >= length || text[at] != ',')
        return false;
    at += 1 + run(text, length, at + 1, SPACE);
    const size_t word = run(text, length, at, NAMES);
    if (!et_is_listed("plural selectordinal select choice", text + at, word))
        return false;
    *m = (et_message){ .start = start,
                       .counts = et_is_listed("plural selectordinal", text + at, word),
                       .choice = et_is_listed("choice", text + at, word) };
    at += word;
    at += run(text, length, at, SPACE);
    if (at >= length || text[at] != ',')
        return false;
    at += 1 + run(text, length, at + 1, SPACE);
    if (length - at > 7 && !memcmp(text + at, "offset:", 7))
        at += 7 + run(text, length, at + 7, SPACE "0123456789");
    m->first = at;
    return true;
}

/* Whether the brace at text[start] begins a message. */
static bool message_read(const char *text, size_t length, size_t start, et_message *m)
{
    size_t first, last;
    if (!read_head(text, length, start, m))
        return false;
    size_t at = m->first;
    while (message_branch(text, length, &at, &first, &last))
        m->broken |= (text[first - 1] != '{') != m->choice;
    at += run(text, length, at, SPACE);
    m->broken |= at == length || text[at] != '}' || at == m->first;
    m->end = m->broken ? after_brace(text, length, start) : at + 1;
    m->end = m->end ? m->end : length;
    return true;
}

static bool message_find(const char *text, size_t length, size_t from, et_message *m)
{
    for (const char *brace;
         from < length && (brace = memchr(text + from, '{', length - from)) != NULL;) {
        from = (size_t)(brace - text);
        if (message_read(text, length, from, m))
            return true;
        from++;
    }
    return false;
}

size_t et_document_message_size(const char *text, size_t length)
{
    et_message m;
    return message_read(text, length, 0, &m) ? m.end : 0;
}

/* The run and all of its spans: tags, and the spans that spans.c finds between them. */
typedef struct whole {
    const char *text;
    size_t length;
    et_spans spans;
} whole;

static void add_item(et_document *d, et_item item)
{
    et_items *list = d->in_tag ? &d->tag_items : &d->items;
    if (!ET_VECTOR_APPEND(list->at, list->count, list->capacity, item))
        d->failed = true;
}

/* Makes an item of the bytes of kept from `from` on. */
static void add_kept(et_document *d, size_t from)
{
    et_item *last = d->items.count && !d->in_tag ? &d->items.at[d->items.count - 1] : NULL;
    if (d->kept.length == from)
        return;
    if (last && last->segment == ET_NO_SEGMENT && last->from + last->length == from)
        last->length += d->kept.length - from;
    else
        add_item(d, (et_item){ from, d->kept.length - from, ET_NO_SEGMENT });
}

void et_document_keep(et_document *d, const char *bytes, size_t length)
{
    et_assert(bytes || !length);
    et_document_end(d);
    const size_t from = d->kept.length;
    et_strbuf_append_bytes(&d->kept, bytes, length);
    add_kept(d, from);
}

size_t et_document_line(et_document *d, size_t position)
{
    for (; d->line_known > position; d->line_known--)
        d->line_at -= d->text[d->line_known - 1] == '\n';
    for (; d->line_known < position; d->line_known++)
        d->line_at += d->text[d->line_known] == '\n';
    return d->line_at + d->first_line;
}

void et_document_keep_words(et_document *d, const char *text, size_t length, size_t line)
{
    et_document_keep(d, text, length);
    if (et_text_has_letter(text, length))
        et_document_count_kept(d, line);
}

void et_run_release(et_run *run)
{
    et_spans_release(&run->tags);
    et_strbuf_release(&run->text);
    et_free(run->sources);
    *run = (et_run){ .text = ET_STRBUF_INIT };
}

void et_document_add_written(et_document *d, const char *text, size_t length, const char *bytes,
                             size_t count, size_t line)
{
    et_assert((text || !length) && (bytes || !count));
    et_run *r = &d->run;
    et_source *last = r->source_count ? &r->sources[r->source_count - 1] : NULL;
    const et_source source = { r->text.length, length, bytes, count };
    if (!r->text.length)
        r->line = line;
    et_strbuf_append_bytes(&r->text, text, length);
    if (!length || bytes < d->text || bytes >= d->text + d->length)
        return;
    if (text == bytes && last && last->length == last->count &&
        last->bytes + last->count == bytes && last->start + last->length == source.start) {
        last->count += count;
        last->length += length;
        return;
    }
    d->failed |= !ET_VECTOR_APPEND(r->sources, r->source_count, r->source_capacity, source);
}

void et_document_add(et_document *d, const char *text, size_t length, size_t line)
{
    et_document_add_written(d, text, length, text, length, line);
}

static void add_numbered_tag(et_document *d, const char *bytes, size_t length, size_t line,
                             size_t tag)
{
    const size_t start = d->run.text.length;
    et_document_add(d, bytes, length, line);
    d->failed |= !et_spans_add(&d->run.tags, (et_span){ start, length, ET_SPAN_TAG, tag, false });
}

void et_document_add_tag(et_document *d, const char *bytes, size_t length, size_t line)
{
    et_assert(bytes || !length);
    add_numbered_tag(d, bytes, length, line, 0);
}

static void exchange_runs(et_document *d)
{
    const et_run run = d->run;
    d->run = d->outer;
    d->outer = run;
}

void et_document_begin_tag(et_document *d)
{
    et_assert(!d->in_tag);
    if (ET_VECTOR_GROW(d->tags, d->tag_capacity, d->tag_count + 1))
        d->tags[d->tag_count] = (et_tag){ d->tag_items.count, 0 };
    else
        d->failed = true;
    exchange_runs(d);
    d->in_tag = true;
}

void et_document_end_tag(et_document *d, const char *bytes, size_t length, size_t line)
{
    et_assert(d->in_tag);
    et_document_end(d);
    exchange_runs(d);
    d->in_tag = false;
    if (d->failed)
        return;
    et_tag *tag = &d->tags[d->tag_count++];
    tag->count = d->tag_items.count - tag->first;
    add_numbered_tag(d, bytes, length, line, d->tag_count);
}

/* A document with more kinds of entities than ET_ENTITIES_MAX keeps the others as markup. */
void et_document_add_entity(et_document *d, uint32_t code, const char *written, size_t length,
                            size_t line)
{
    et_assert(written && length);
    char bytes[5] = "";
    size_t i = 0;
    const size_t count = et_utf8_encode(bytes, code);
    const bool plain = code < 0x80 && (code == ' ' || et_ascii_is_letter((char)code) ||
                                       et_ascii_is_digit((char)code));
    while (i < d->entity_count && strcmp(d->entities[i].bytes, bytes) != 0)
        i++;
    if (!plain && i == ET_ENTITIES_MAX) {
        et_document_add_tag(d, written, length, line);
        return;
    }
    if (!plain && i == d->entity_count) {
        if (!d->entities)
            d->entities = et_arena_array(&d->arena, ET_ENTITIES_MAX, sizeof *d->entities);
        const char *copy = et_arena_strndup(&d->arena, written, length);
        if (!d->entities || !copy) {
            d->failed = true;
            return;
        }
        memcpy(d->entities[i].bytes, bytes, sizeof bytes);
        d->entities[i].only = !memmem(d->text, d->length, bytes, count);
        d->entities[i].written = copy;
        d->entity_count++;
    }
    d->run.entities |= plain ? 0 : 1ull << i;
    et_document_add_written(d, bytes, count, written, length, line);
}

void et_document_add_decoded(et_document *d, const char *text, size_t length, size_t line)
{
    et_assert(text || !length);
    const bool value = d->escape == ET_ESCAPE_SINGLE || d->escape == ET_ESCAPE_DOUBLE;
    /* There &quot; keeps white space, and \" is a quotation mark. */
    const bool resource = d->escape == ET_ESCAPE_RESOURCE;
    const bool plain_text = d->escape == ET_ESCAPE_NONE || d->escape >= ET_ESCAPE_MD;
    while (length) {
        const char *mark = memchr(text, '&', length);
        const size_t plain = mark ? (size_t)(mark - text) : length;
        uint32_t code = 0;
        et_document_add(d, text, plain, line);
        text += plain;
        length -= plain;
        if (!mark)
            break;
        size_t bytes = et_entity_read(mark, length, &code);
        if (!bytes && (value || d->escape == ET_ESCAPE_MARKUP))
            bytes = et_entity_read_open(mark, length, value);
        if (plain_text && bytes && code < 0x80) /* escapes write no entities */
            et_document_add_tag(d, mark, bytes, line);
        else if (!bytes || code == '&' || code == '<')
            et_document_add_written(d, code == '<' ? "<" : "&", 1, mark, bytes ? bytes : 1, line);
        else if ((code == '"' && value) || (code == '\'' && (value || resource)))
            et_document_add_written(d, code == '"' ? "\"" : "'", 1, mark, bytes, line);
        else if (!code || (resource && (code == '"' || code == '\\')) ||
                 (code >= 0x80 && et_unicode_is_symbol(code)))
            et_document_add_tag(d, mark, bytes, line);
        else
            et_document_add_entity(d, code, mark, bytes, line);
        text += bytes ? bytes : 1;
        length -= bytes ? bytes : 1;
    }
}

/* ---- the end of a run ---- */

static bool find_spans(whole *w, const et_document *d)
{
    const bool finds = d->format != ET_DOCUMENT_LINES;
    const et_spans *tags = &d->run.tags;
    size_t at = 0; /* after a tag */
    et_span found;
    bool good = true;
    for (size_t i = 0; i <= tags->count && good; i++) {
        const size_t end = i < tags->count ? tags->items[i].start : w->length;
        size_t from = 0;
        while (finds && good && et_span_find(w->text + at, end - at, from, &found)) {
            from = found.start + found.length;
            found.start += at;
            good = et_spans_add(&w->spans, found);
        }
        if (i == tags->count)
            break;
        good = good && et_spans_add(&w->spans, tags->items[i]);
        at = end + tags->items[i].length;
    }
    return good;
}

/* The first span that ends after position. */
static size_t span_after(const whole *w, size_t position)
{
    size_t low = 0, high = w->spans.count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (w->spans.items[middle].start + w->spans.items[middle].length > position)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Bytes of white space at text[at]; 0: none. */
static size_t space_at(const char *text, size_t at, size_t end)
{
    uint32_t code;
    const size_t size = et_utf8_decode(text + at, end - at, &code);
    return et_unicode_is_space(code) ? size : 0;
}

/* Bytes of white space before text[at]; 0: none. */
static size_t space_before(const char *text, size_t from, size_t at)
{
    size_t start = at - 1;
    while (start > from && ((unsigned char)text[start] & 0xc0) == 0x80)
        start--;
    return space_at(text, start, at) == at - start ? at - start : 0;
}

/* Narrows [from, to) by white space and tags at its ends. */
static void trim(const whole *w, size_t *from, size_t *to)
{
    for (size_t s = span_after(w, *from), step = 1; *from < *to && step; *from += step) {
        const et_span *span = s < w->spans.count ? &w->spans.items[s] : NULL;
        const bool here = span && span->start == *from;
        step =
            here ? (span->kind == ET_SPAN_TAG ? span->length : 0) : space_at(w->text, *from, *to);
        s += here;
    }
    for (size_t step = 1; *from < *to && step; *to -= step) {
        const size_t s = span_after(w, *to - 1);
        const et_span *span = s < w->spans.count ? &w->spans.items[s] : NULL;
        const bool here = span && span->start < *to;
        step = here ? (span->kind == ET_SPAN_TAG ? span->length : 0)
                    : space_before(w->text, *from, *to);
    }
}

/* Appends [from, to) of a run as the document writes it: its own bytes, where it has some. */
static void append_source(et_document *d, const whole *w, size_t from, size_t to, et_strbuf *out)
{
    const et_source *sources = d->run.sources;
    size_t low = 0, high = d->run.source_count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (sources[middle].start + sources[middle].length > from)
            high = middle;
        else
            low = middle + 1;
    }
    for (size_t end; from < to; from = end) {
        const et_source *s = low < d->run.source_count ? &sources[low] : NULL;
        const size_t next = s ? s->start + s->length : to;
        const bool here = s && s->start <= from;
        end = here ? next : s ? s->start : to;
        end = end < to ? end : to;
        low += here;
        if (here && s->length == s->count)
            et_strbuf_append_bytes(out, s->bytes + (from - s->start), end - from);
        else if (here && s->start == from && end == next)
            et_strbuf_append_bytes(out, s->bytes, s->count);
        else
            et_document_encode(d, d->escape, w->text + from, end - from, out);
    }
}

/* Bytes that stay: text as the document writes it, tags as they are. */
static void keep_range(et_document *d, const whole *w, size_t from, size_t to)
{
    size_t kept = d->kept.length;
    et_assert(from <= to && to <= w->length);
    for (size_t s = span_after(w, from); from < to; s++) {
        const et_span *span = s < w->spans.count ? &w->spans.items[s] : NULL;
        const size_t end = span && span->start < to ? span->start : to;
        append_source(d, w, from, end, &d->kept);
        from = end < to ? end + span->length : to;
        if (end < to && span->tag) {
            const et_tag *items = &d->tags[span->tag - 1];
            add_kept(d, kept);
            for (size_t i = 0; i < items->count; i++)
                add_item(d, d->tag_items.at[items->first + i]);
            kept = d->kept.length;
        } else if (end < to && span->kind == ET_SPAN_TAG)
            et_strbuf_append_bytes(&d->kept, w->text + end, span->length);
        else if (end < to)
            append_source(d, w, end, from, &d->kept);
    }
    add_kept(d, kept);
}

static bool has_letter(const whole *w, size_t from, size_t to)
{
    for (size_t s = span_after(w, from); from < to; s++) {
        const et_span *span = s < w->spans.count ? &w->spans.items[s] : NULL;
        const size_t end = span && span->start < to ? span->start : to;
        if (et_text_has_letter(w->text + from, end - from))
            return true;
        from = end < to ? end + span->length : to;
    }
    return false;
}

/* Text with each run of white space as one space. Returns the number of line ends in it. */
static int append_line(et_strbuf *out, const char *text, size_t length)
{
    int breaks = 0;
    for (size_t i = 0; i < length; i++) {
        breaks += text[i] == '\n';
        if (!is_blank(text[i]))
            et_strbuf_append_char(out, text[i]);
        else if (!i || !is_blank(text[i - 1]))
            et_strbuf_append_char(out, ' ');
    }
    return breaks;
}

static bool fill_segment(et_document *d, et_segment *s, const whole *w, size_t from, size_t to)
{
    et_strbuf line = ET_STRBUF_INIT;
    bool good = true;
    int breaks = 0;
    for (size_t i = span_after(w, from); from < to && good; i++) {
        const et_span *span = i < w->spans.count ? &w->spans.items[i] : NULL;
        const size_t end = span && span->start < to ? span->start : to;
        breaks += append_line(&line, w->text + from, end - from);
        if (end < to) {
            et_span moved = *span;
            moved.start = line.length;
            good = et_spans_add(&s->spans, moved);
            et_strbuf_append_bytes(&line, w->text + end, span->length);
        }
        from = end < to ? end + span->length : to;
    }
    s->length = line.length;
    s->breaks = d->format == ET_DOCUMENT_SRT ? breaks : 0;
    s->text = et_strbuf_keep(&line, &d->arena);
    return good && s->text;
}

bool et_document_has_words(et_document *d, const char *text, size_t length)
{
    const et_run run = d->run;
    d->run = (et_run){ .text = ET_STRBUF_INIT };
    et_document_add_decoded(d, text, length, 0);
    whole w = { .text = et_strbuf_text(&d->run.text), .length = d->run.text.length };
    const bool good = !d->failed && !d->run.text.failed && find_spans(&w, d);
    const bool found = good && has_letter(&w, 0, w.length);
    d->failed |= !good;
    et_spans_release(&w.spans);
    et_run_release(&d->run);
    d->run = run;
    return found;
}

static char *copy_range(et_document *d, const whole *w, size_t from, size_t to)
{
    char *copy = et_arena_strndup(&d->arena, w->text + from, to - from);
    d->failed |= !copy;
    return copy;
}

/* The text of a sentence, of which [from, to) is the segment. */
static void add_segment(et_document *d, const whole *w, const size_t sentence[2], size_t from,
                        size_t to)
{
    if (!ET_VECTOR_GROW(d->segments, d->capacity, d->count + 1)) {
        d->failed = true;
        return;
    }
    et_segment *s = &d->segments[d->count++];
    *s = (et_segment){ .line = d->run.line,
                       .escape = d->escape,
                       .accelerator = d->accelerator,
                       .entities = d->run.entities,
                       .message = d->messages || d->run.message };
    d->accelerator.mark = 0;
    d->failed |= !fill_segment(d, s, w, from, to);
    s->tag = d->language_tag;
    s->source = s->tag && s->text ? et_arena_printf(&d->arena, "%s %s", s->tag, s->text) : s->text;
    d->failed |= !s->source;
    if (d->escape >= ET_ESCAPE_MD) {
        s->before = copy_range(d, w, sentence[0], from);
        s->after = copy_range(d, w, to, sentence[1]);
    }
    add_item(d, (et_item){ .segment = d->count - 1 });
}

static void add_sentence(et_document *d, const whole *w, size_t from, size_t to)
{
    size_t first = from, last = to;
    trim(w, &first, &last);
    keep_range(d, w, from, first);
    if (has_letter(w, first, last))
        add_segment(d, w, (const size_t[]){ from, to }, first, last);
    else
        keep_range(d, w, first, last);
    keep_range(d, w, last, to);
}

/* Moves *from past the language tag at the beginning of a segment, because a translation has no
 * tag. */
static void take_language_tag(et_document *d, const whole *w, size_t *from)
{
    size_t at = 0;
    d->language_tag = d->usual_tag;
    while (at < w->length && is_blank(w->text[at]))
        at++;
    const size_t size = d->language_tags
                            ? et_language_tag_begins(d->language_tags, w->text + at, w->length - at)
                            : 0;
    if (!size)
        return;
    d->language_tag = et_arena_strndup(&d->arena, w->text + at, size);
    d->failed |= !d->language_tag;
    keep_range(d, w, 0, at);
    for (at += size; at < w->length && is_blank(w->text[at]);)
        at++;
    *from = at;
}

/* ---- ICU messages ---- */

/* Adds [from, to) of a run to the document's run. branch: the text is a branch of a message with
 * plurals, in which # is the number. Quoted syntax, such as '{', stays. */
static void add_again(et_document *d, const et_run *run, size_t from, size_t to,
                      const et_message *branch)
{
    size_t tag = 0;
    int depth = 0;
    d->run.entities = run->entities;
    while (tag < run->tags.count && run->tags.items[tag].start < from)
        tag++;
    for (size_t at = from, length; at < to; at += length) {
        const char *text = et_strbuf_text(&run->text) + at;
        const et_span *span = tag < run->tags.count ? &run->tags.items[tag] : NULL;
        const bool is_tag = span && span->start == at;
        const bool plain = is_tag || (!branch && !strchr("{}", text[1]));
        const size_t quoted = plain ? 0 : message_quoted(text, to - at);
        tag += is_tag;
        length = is_tag ? span->length : quoted ? quoted : 1;
        depth += !is_tag && !quoted ? (*text == '{') - (*text == '}') : 0;
        if (is_tag)
            add_numbered_tag(d, text, length, run->line, span->tag);
        else if (quoted || (branch && d->plural && *text == '#' && !depth))
            et_document_add_tag(d, text, length, run->line);
        else
            et_document_add(d, text, length, run->line);
    }
}

/* The syntax of a message stays, and so do tags in it. */
static void keep_syntax(et_document *d, const et_run *run, size_t from, size_t to)
{
    et_strbuf encoded = ET_STRBUF_INIT;
    const char *text = et_strbuf_text(&run->text);
    for (size_t tag = 0; tag < run->tags.count && run->tags.items[tag].start < to; tag++) {
        const et_span *span = &run->tags.items[tag];
        if (span->start < from)
            continue;
        et_document_encode(d, d->escape, text + from, span->start - from, &encoded);
        et_strbuf_append_bytes(&encoded, text + span->start, span->length);
        from = span->start + span->length;
    }
    et_document_encode(d, d->escape, text + from, to - from, &encoded);
    d->failed |= encoded.failed;
    et_document_keep(d, et_strbuf_text(&encoded), encoded.length);
    et_strbuf_release(&encoded);
}

static void add_message(et_document *d, const et_run *run, const char *masked, const et_message *m)
{
    size_t at = m->first, kept = m->start, from, to;
    const bool inner = d->in_tag, plural = d->plural;
    d->plural |= m->counts;
    if (inner)
        et_document_end(d);
    else
        et_document_begin_tag(d);
    if (m->broken)
        et_document_count_kept(d, run->line);
    while (!m->broken && message_branch(masked, m->end, &at, &from, &to)) {
        keep_syntax(d, run, kept, from);
        add_again(d, run, from, to, m);
        et_document_end(d);
        kept = to;
    }
    keep_syntax(d, run, kept, m->end);
    if (!inner)
        et_document_end_tag(d, et_strbuf_text(&run->text) + m->start, m->end - m->start, run->line);
    d->plural = plural;
}

/* Replaces messages of the run by markup that has text of its own. Within such markup a message
 * ends the segment. */
static void split_messages(et_document *d)
{
    et_strbuf masked = ET_STRBUF_INIT;
    et_message m = { .end = 0 };
    if (d->format == ET_DOCUMENT_LINES || d->messages == ET_MESSAGES_MAX ||
        !memchr(et_strbuf_text(&d->run.text), '{', d->run.text.length))
        return;
    et_strbuf_append_bytes(&masked, et_strbuf_text(&d->run.text), d->run.text.length);
    for (size_t i = 0; i < d->run.tags.count && !masked.failed; i++)
        memset(masked.data + d->run.tags.items[i].start, ')', d->run.tags.items[i].length);
    d->failed |= masked.failed;
    if (!d->failed && message_find(masked.data, masked.length, 0, &m)) {
        et_run run = d->run;
        size_t at = 0;
        d->run = (et_run){ .text = ET_STRBUF_INIT, .message = true };
        d->messages++;
        do {
            add_again(d, &run, at, m.start, NULL);
            add_message(d, &run, masked.data, &m);
            at = m.end;
        } while (message_find(masked.data, masked.length, at, &m));
        add_again(d, &run, at, run.text.length, NULL);
        d->messages--;
        et_run_release(&run);
    }
    et_strbuf_release(&masked);
}

void et_document_end(et_document *d)
{
    et_strbuf masked = ET_STRBUF_INIT;
    if (d->run.text.length && !d->run.text.failed)
        split_messages(d);
    whole w = { .text = et_strbuf_text(&d->run.text), .length = d->run.text.length };
    size_t from = 0, end = 0;
    if (!w.length && !d->run.text.failed)
        return;
    d->failed |= d->run.text.failed || !find_spans(&w, d);
    if (!d->failed)
        take_language_tag(d, &w, &from);
    if (!d->failed && d->sentences) {
        /* Tags count as closing brackets, because letters of a name after a full stop would
         * continue the sentence; line ends are white space. */
        et_strbuf_append_bytes(&masked, w.text, w.length);
        for (size_t i = 0; i < w.length && !masked.failed; i++)
            if (is_blank(masked.data[i]))
                masked.data[i] = ' ';
        for (size_t i = 0; i < d->run.tags.count && !masked.failed; i++)
            memset(masked.data + d->run.tags.items[i].start, ')', d->run.tags.items[i].length);
        d->failed = masked.failed || !et_sentences_begin(d->sentences, masked.data, masked.length);
    }
    while (!d->failed && d->sentences && et_sentences_next(d->sentences, &end)) {
        const size_t s = span_after(&w, end);
        const bool inside = s < w.spans.count && w.spans.items[s].start < end;
        if (end <= from || end >= w.length || inside)
            continue;
        add_sentence(d, &w, from, end);
        from = end;
    }
    if (!d->failed)
        add_sentence(d, &w, from, w.length);
    et_spans_release(&w.spans);
    et_strbuf_release(&masked);
    et_strbuf_reset(&d->run.text);
    d->run.tags.count = d->run.source_count = d->run.entities = d->run.message = 0;
}
