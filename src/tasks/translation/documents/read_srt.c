/* Subtitles: SubRip and WebVTT. The lines after a line with times are one segment, whose
 * translation gets as many lines. The segment ends before an empty line and before the times of the
 * next subtitle. It also ends before a number on a line of its own, if times follow, even after
 * empty lines. A line that begins with a dash begins a segment: another person speaks. Everything
 * else stays: tags, times, names, references such as &amp;, and the blocks NOTE, STYLE and REGION
 * of WebVTT. */
#include <string.h>

#include "tasks/translation/documents/document_private.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"

typedef struct line {
    const char *text;     /* [length], without its end */
    size_t length, whole; /* whole: with its end */
} line;

/* The line at `at`; empty at the text's end. */
static line line_at(const et_document *d, const char *at)
{
    const size_t left = (size_t)(d->text + d->length - at);
    const char *stop = memchr(at, '\n', left);
    line l = { at, 0, stop ? (size_t)(stop + 1 - at) : left };
    l.length = l.whole - (stop != NULL);
    l.length -= l.length && at[l.length - 1] == '\r';
    return l;
}

static size_t skip(const line *l, size_t at, const char *among)
{
    while (at < l->length && l->text[at] && strchr(among, l->text[at]))
        at++;
    return at;
}

/* 00:00:01,000 --> 00:00:02,500; also with a sign, as written by programs that shift times; with
 * hours also with a damaged arrow, such as ->. */
static bool is_times(const line *l)
{
    const size_t from = skip(l, 0, " \t-"), digits = skip(l, from, DIGITS ":.,");
    const size_t arrow = skip(l, digits, " \t"), to = skip(l, arrow, "-> \t");
    const char *colon = memchr(l->text + from, ':', digits - from);
    if (!colon || to - arrow < 2 || l->text[arrow] != '-' || skip(l, to, DIGITS) == to)
        return false;
    return (to - arrow > 2 && !memcmp(l->text + arrow, "-->", 3)) ||
           (memchr(l->text + arrow, '>', to - arrow) &&
            memchr(colon + 1, ':', (size_t)(l->text + digits - colon - 1)));
}

static bool is_blank(const line *l)
{
    return skip(l, 0, " \t") == l->length;
}

/* The end of <i>, <v Bob>, <00:01.000>, {\an8}, {/b}, or of \N or \h of Aegisub, at `at`; NULL:
 * it is text. {b} is a placeholder. */
static const char *end_of_tag(const char *at, const char *end)
{
    const char next = at + 1 < end ? at[1] : 0;
    if (*at == '\\')
        return next == 'N' || next == 'h' ? at + 2 : NULL;
    if (!next || !strchr(*at == '<' ? LETTERS "/" DIGITS : "\\/", next))
        return NULL;
    const char *stop = memchr(at, *at == '<' ? '>' : '}', (size_t)(end - at));
    if (stop && strchr(DIGITS, next) && !memchr(at, ':', (size_t)(stop - at)))
        return NULL;
    return stop ? stop + 1 : NULL;
}

/* Adds a line of text with its tags. */
static void add_line(et_document *d, const line *l, size_t number)
{
    const char *text = l->text, *end = text + l->length;
    while (text < end) {
        const char *next = text, *after = NULL;
        while (next < end && !(strchr("<{\\", *next) && (after = end_of_tag(next, end)) != NULL))
            next++;
        et_document_add_decoded(d, text, (size_t)(next - text), number);
        if (after)
            et_document_add_tag(d, next, (size_t)(after - next), number);
        text = after ? after : next;
    }
}

/* Whether another person begins to speak: a dash, a note or >> after tags. */
static bool begins_speech(const line *l)
{
    static const char *const dashes[] = {
        "-", "\xe2\x80\x93", "\xe2\x80\x94", "\xe2\x80\x90", "\xe2\x99\xaa", "\xe2\x99\xab", ">>"
    };
    const char *at = l->text, *end = at + l->length, *after;
    while (at < end && strchr("<{ ", *at) && (after = *at == ' ' ? at + 1 : end_of_tag(at, end)))
        at = after;
    for (size_t i = 0; i < sizeof dashes / sizeof *dashes; i++)
        if ((size_t)(end - at) > strlen(dashes[i]) && !memcmp(at, dashes[i], strlen(dashes[i])))
            return true;
    return false;
}

int et_document_read_srt(et_document *d, et_error *error)
{
    const char *at = d->text, *end = d->text + d->length;
    const bool vtt = d->length >= 6 && !memcmp(d->text, "WEBVTT", 6);
    bool inside = false, found = false;
    if (vtt)
        d->escape = ET_ESCAPE_MARKUP;
    for (size_t number = 1; at < end; number++) {
        const line l = line_at(d, at);
        line next = line_at(d, at + l.whole);
        const bool times = is_times(&l);
        const size_t from = skip(&l, 0, " \t"), to = skip(&l, from, DIGITS);
        const bool number_line = to > from && skip(&l, to, " \t") == l.length;
        while (number_line && next.whole && is_blank(&next))
            next = line_at(d, next.text + next.whole);
        inside = inside && !times && !(number_line && is_times(&next));
        if (vtt)
            inside &= !is_blank(&l);
        if (!inside || is_blank(&l)) {
            et_document_keep(d, at, l.whole);
        } else {
            if (begins_speech(&l))
                et_document_end(d);
            add_line(d, &l, number);
            et_document_add(d, at + l.length, l.whole - l.length, number);
        }
        inside |= times;
        found |= times;
        at += l.whole;
    }
    if (!found && d->length && !vtt)
        return et_fail(error, ET_EDATA,
                       "%s: no subtitles; expected lines with times, such as 00:00:01,000 --> "
                       "00:00:02,500",
                       d->name);
    return ET_OK;
}
