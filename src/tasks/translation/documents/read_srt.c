/* Subtitles: SubRip and WebVTT. The lines after one with times, up to an empty line, are one
 * segment, whose translation gets as many lines. A line that begins with a dash begins a segment:
 * another person speaks. Everything else stays. */
#include <string.h>

#include "tasks/translation/documents/document_private.h"

/* Adds a line of text with its tags, <i> and {\an8}. */
static void add_line(et_document *d, const char *text, size_t length, size_t line)
{
    const char *end = text + length;
    while (text < end) {
        const char *next = text;
        while (next < end && *next != '<' && !(*next == '{' && next + 1 < end && next[1] == '\\'))
            next++;
        et_document_add(d, text, (size_t)(next - text), line);
        if (next == end)
            break;
        const char *stop = memchr(next, *next == '<' ? '>' : '}', (size_t)(end - next));
        if (!stop)
            stop = end - 1;
        et_document_add_tag(d, next, (size_t)(stop + 1 - next), line);
        text = stop + 1;
    }
}

static bool is_times(const char *text, size_t length)
{
    return length && *text >= '0' && *text <= '9' && memmem(text, length, "-->", 3);
}

int et_document_read_srt(et_document *d, et_error *error)
{
    const char *at = d->text, *end = d->text + d->length;
    bool inside = false, found = false;
    for (size_t line = 1; at < end; line++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const size_t whole = (size_t)((stop ? stop + 1 : end) - at);
        size_t length = whole - (stop != NULL);
        length -= length && at[length - 1] == '\r';
        const bool times = is_times(at, length);
        inside = inside && length && !times;
        if (!inside) {
            et_document_keep(d, at, whole);
        } else {
            if (*at == '-')
                et_document_end(d);
            add_line(d, at, length, line);
            et_document_add(d, at + length, whole - length, line);
        }
        inside |= times;
        found |= times;
        at += whole;
    }
    if (!found && d->length)
        return et_fail(error, ET_EDATA,
                       "%s: no subtitles; expected lines with times, such as 00:00:01,000 --> "
                       "00:00:02,500",
                       d->name);
    return ET_OK;
}
