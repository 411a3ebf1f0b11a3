/* One pass handles each special position and adds the text between two of them. Tags have a largest
 * length, and after the first element or comment without an end, no other end is searched for. So
 * the time is linear. */

#include <string.h>

#include "base/assert.h"
#include "base/text/unicode.h"
#include "tasks/translation/documents/document_private.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
#define NAMES   LETTERS DIGITS "_:.-"
#define SPACE   " \t\r\n\f"

/* Bytes of the longest tag. */
#define TAG_MAX 8192
/* Characters of the longest name that is compared. */
#define NAME_MAX_LENGTH 16

typedef struct reader {
    et_document *d;
    const et_marking *marking;
    const char *at, *end;
    size_t line;
    bool quoted;   /* within quotes of Android's resources, in which white space stays */
    bool unclosed; /* an element whose content stays, or a comment, without an end was found */
} reader;

/* A character as its document means it: &lt; is <. Other characters are their first byte. */
static char read_char(const reader *r, const char *at, size_t *bytes)
{
    uint32_t code = 0;
    *bytes = at < r->end;
    if (r->marking->references && at < r->end && *at == '&') {
        const size_t count = et_entity_read(at, (size_t)(r->end - at), &code);
        *bytes = count && code && code < 0x80 ? count : 1;
        return *bytes > 1 ? (char)code : '&';
    }
    return at < r->end ? *at : 0;
}

static bool is_among(char c, const char *set)
{
    return c && strchr(set, c);
}

static bool begins(const reader *r, const char *at, const char *text, const char **after)
{
    for (size_t bytes; *text; text++, at += bytes)
        if (read_char(r, at, &bytes) != *text)
            return false;
    *after = at;
    return true;
}

/* The position after `text`; NULL: not found. */
static const char *find_after(reader *r, const char *at, const char *text)
{
    const char *after;
    for (size_t bytes; at < r->end && !r->unclosed; at += bytes) {
        if (begins(r, at, text, &after))
            return after;
        read_char(r, at, &bytes);
    }
    r->unclosed = true;
    return NULL;
}

typedef struct tag {
    char name[NAME_MAX_LENGTH + 1]; /* in small letters, without / */
    bool closes, empty;
    const char *after;
} tag;

/* Elements that may have attributes without values. Words in <file name> are no such attributes. */
static const char bare[] =
    "a audio button details dialog div form hr iframe img input ol option script "
    "select td textarea th track video";

/* Reads a tag at `at`. Its values may have > in quotes. false: not a tag. */
static bool read_tag(const reader *r, const char *at, tag *t)
{
    size_t bytes, length = 0;
    const char *const limit = at + TAG_MAX;
    char quote = 0, before = 0;
    bool values = false, words = false;
    *t = (tag){ .after = NULL };
    if (!begins(r, at, "<", &at))
        return false;
    char c = read_char(r, at, &bytes);
    t->closes = c == '/';
    if (t->closes)
        c = read_char(r, at += bytes, &bytes);
    const bool numbered = is_among(c, DIGITS); /* <0>link</0> of message catalogues */
    if (!is_among(c, LETTERS "_" DIGITS))
        return false;
    for (; is_among(c, NAMES); c = read_char(r, at += bytes, &bytes)) {
        if (numbered && !is_among(c, DIGITS))
            return false;
        if (length < NAME_MAX_LENGTH)
            t->name[length] = (char)(et_ascii_is_upper(c) ? c + 32 : c);
        length++;
    }
    if (length > NAME_MAX_LENGTH)
        t->name[0] = 0;
    if (!is_among(c, SPACE "/>"))
        return false;
    for (; at < r->end && at < limit; c = read_char(r, at += bytes, &bytes)) {
        values |= c == '=';
        words |= !is_among(c, SPACE "/>");
        if (quote) {
            quote = c == quote ? 0 : quote;
        } else if (is_among(c, "\"'") && before == '=') {
            quote = c;
        } else if (c == '<') {
            return false;
        } else if (c == '>') {
            t->after = at + bytes;
            t->empty = before == '/';
            return values || !words || et_is_listed(bare, t->name, strlen(t->name));
        }
        before = is_among(c, SPACE) ? before : c;
    }
    return false;
}

/* Elements that end a segment, and those whose content stays. */
static const char blocks[] =
    "p br hr div h1 h2 h3 h4 h5 h6 ul ol li dl dt dd table thead tbody tfoot tr td th caption "
    "blockquote section article aside header footer main nav figure figcaption form fieldset html "
    "head body title";
static const char opaque[] = "code kbd samp var pre script style math svg textarea tt";

/* The position after the end tag of an element whose content stays; without an end tag, after the
 * start tag. */
static const char *end_of_element(reader *r, const tag *start)
{
    tag t;
    for (const char *at = start->after; at < r->end && !r->unclosed;) {
        size_t bytes;
        if (read_char(r, at, &bytes) == '<' && read_tag(r, at, &t) && t.closes &&
            !strcmp(t.name, start->name))
            return t.after;
        at += bytes;
    }
    r->unclosed = true;
    return start->after;
}

/* The end of quoted markup that begins at `at`; NULL: no markup begins there. */
static const char *end_of_markup(reader *r, const char *at, bool *block)
{
    tag t;
    const char *after;
    uint32_t code;
    *block = false;
    if (begins(r, at, "<!--", &after))
        return find_after(r, after, "-->");
    if (begins(r, at, "<!", &after) || begins(r, at, "<?", &after))
        return find_after(r, after, ">");
    if (read_tag(r, at, &t)) {
        const bool content = !t.closes && !t.empty && et_is_listed(opaque, t.name, strlen(t.name));
        *block = et_is_listed(blocks, t.name, strlen(t.name));
        return content ? end_of_element(r, &t) : t.after;
    }
    /* A reference of the quoted page: &nbsp; itself, or &amp;nbsp; as a reference. */
    size_t bytes;
    if (read_char(r, at, &bytes) != '&' || (r->marking->references && bytes < 2))
        return NULL;
    const char *name = at + bytes, *end = name + 34 < r->end ? name + 34 : r->end;
    char quoted[40] = "&";
    if (end > name)
        memcpy(quoted + 1, name, (size_t)(end - name));
    const size_t count = et_entity_read(quoted, (size_t)(end - name) + 1, &code);
    return count ? name + count - 1 : NULL;
}

/* ---- additions ---- */

static void add_text(reader *r, const char *to)
{
    if (to == r->at)
        return;
    if (r->marking->references)
        et_document_add_decoded(r->d, r->at, (size_t)(to - r->at), r->line);
    else
        et_document_add(r->d, r->at, (size_t)(to - r->at), r->line);
    for (; r->at < to; r->at++)
        r->line += *r->at == '\n' && r->d->format != ET_DOCUMENT_PO;
}

/* Bytes that stay, within the segment or after its end. */
static void add_kept(reader *r, const char *to, bool ends)
{
    et_strbuf bytes = ET_STRBUF_INIT;
    const char *from = r->at;
    if (r->d->escape == ET_ESCAPE_PO)
        et_document_encode(r->d, r->d->escape, from, (size_t)(to - from), &bytes);
    else
        et_strbuf_append_bytes(&bytes, from, (size_t)(to - from));
    r->d->failed |= bytes.failed;
    if (ends)
        et_document_keep(r->d, et_strbuf_text(&bytes), bytes.length);
    else
        et_document_add_tag(r->d, et_strbuf_text(&bytes), bytes.length, r->line);
    et_strbuf_release(&bytes);
    for (; r->at < to; r->at++)
        r->line += *r->at == '\n' && r->d->format != ET_DOCUMENT_PO;
}

/* The code of \u00A9; 0: another escape. */
static uint32_t unicode_escape(const char *at, const char *end)
{
    uint32_t code = 0;
    if (end - at < 6 || at[1] != 'u')
        return 0;
    for (int i = 2; i < 6; i++) {
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *found = at[i] ? strchr(digits, at[i]) : NULL;
        if (!found)
            return 0;
        code = code * 16 + (uint32_t)((found - digits) % 16);
    }
    return code;
}

/* An escaped letter is translated and written again in the same way; an escaped line end ends the
 * segment. */
static void add_backslash(reader *r)
{
    size_t bytes;
    const char next = read_char(r, r->at + 1, &bytes);
    const uint32_t code = unicode_escape(r->at, r->end);
    if (is_among(next, "'\"\\")) {
        et_document_add_written(r->d, &next, 1, r->at, 1 + bytes, r->line);
        r->at += 1 + bytes;
    } else if (et_unicode_is_letter(code) && r->d->escape != ET_ESCAPE_RESOURCE_CDATA) {
        et_document_add_entity(r->d, code, r->at, 6, r->line);
        r->at += 6;
    } else if (is_among(next, "nt")) {
        add_kept(r, r->at + 1 + bytes, true);
    } else {
        const bool whole = (unsigned char)next < 0x80 && !(next == '&' && bytes == 1);
        add_kept(r, r->at + (code ? 6 : whole ? 1 + bytes : 1), false);
    }
}

/* Bytes of a control character, or of a sequence of a terminal such as ESC [1;31m. */
static size_t control_size(const reader *r, const char *at)
{
    size_t count = 2;
    if (*at != '\033' || r->end - at < 3 || at[1] != '[')
        return 1;
    while (at + count < r->end && is_among(at[count], DIGITS ";?"))
        count++;
    return at + count < r->end && is_among(at[count], LETTERS) ? count + 1 : 1;
}

static const char *end_of_spaces(const reader *r)
{
    const char *at = r->at;
    while (at < r->end && is_among(*at, SPACE "\v"))
        at++;
    return at - r->at == 1 && *r->at == ' ' ? r->at : at;
}

/* Bytes after % that may be part of its directive. */
#define DIRECTIVE_MAX 100

/* Whether < or & is part of %<name>s or %-5<name>s. */
static bool is_in_directive(const char *text, const char *at, const char *end)
{
    const char *percent = at;
    et_span span;
    while (percent > text && at - percent < 8 && is_among(percent[-1], DIGITS "-+#."))
        percent--;
    if (percent == text || *--percent != '%')
        return false;
    end = end - percent > DIRECTIVE_MAX ? percent + DIRECTIVE_MAX : end;
    return et_span_find(text, (size_t)(end - text), (size_t)(percent - text), &span) &&
           text + span.start == percent && at < percent + span.length;
}

void et_document_add_marked(et_document *d, const char *text, size_t length,
                            const et_marking *marking)
{
    et_assert(marking && (text || !length));
    reader r = { d, marking, text, text + length, marking->line, false, false };
    const char *message = text; /* end of the last ICU message, in which white space is text */
    for (const char *at = text; at<r.end; at = at> r.at ? at : r.at) {
        const char c = *at;
        size_t bytes;
        if (is_among(c, "<&") && !is_in_directive(text, at, r.end)) {
            bool block;
            const char *after = end_of_markup(&r, at, &block);
            if (after) {
                add_text(&r, at);
                add_kept(&r, after, block);
                continue;
            }
        }
        const bool control = (unsigned char)c < ' ' && !is_among(c, SPACE "\v");
        const bool escape = marking->backslashes && (c == '\\' || c == '"');
        if (c == '{' && at >= message)
            message = at + et_document_message_size(at, (size_t)(r.end - at));
        const bool space =
            at >= message && (marking->spaces || r.quoted) && is_among(c, SPACE "\v");
        r.quoted ^= marking->backslashes && read_char(&r, at, &bytes) == '"';
        if (control || escape || space)
            add_text(&r, at);
        if (escape && c == '\\')
            add_backslash(&r);
        else if (control || escape)
            add_kept(&r, at + control_size(&r, at), false);
        else if (space && end_of_spaces(&r) > r.at)
            add_kept(&r, end_of_spaces(&r), true);
        else
            at++;
    }
    add_text(&r, r.end);
}
