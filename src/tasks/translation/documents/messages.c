/* The grammar of ICU's MessageFormat (unicode-org.github.io/icu/userguide/format_parse/messages).
 * ICU's own parser of it has only a C++ interface and gives no positions in UTF-8. An apostrophe
 * quotes only syntax: '{ up to the next apostrophe. */
#include "tasks/translation/documents/messages.h"

#include <string.h>

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

bool et_message_may_begin(const char *text, size_t length)
{
    return memchr(text, '{', length) &&
           (memmem(text, length, "plural", 6) || memmem(text, length, "select", 6) ||
            memmem(text, length, "choice", 6));
}

size_t et_message_quoted(const char *text, size_t length)
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

/* After the brace that closes the one at text[at]; 0: none does. */
static size_t after_brace(const char *text, size_t end, size_t at)
{
    size_t depth = 0;
    while (at < end) {
        const size_t quoted = text[at] == '\'' ? et_message_quoted(text + at, end - at) : 0;
        if (!quoted && text[at] == '{')
            depth++;
        else if (!quoted && text[at] == '}' && !--depth)
            return at + 1;
        at += quoted ? quoted : 1;
    }
    return 0;
}

/* The end of the text of a branch of a choice, at | or the brace that closes the choice; end: it
 * is missing. */
static size_t choice_end(const char *text, size_t end, size_t at)
{
    while (at < end && text[at] != '|' && text[at] != '}') {
        const size_t quoted = et_message_quoted(text + at, end - at);
        const size_t next = text[at] == '{' ? after_brace(text, end, at) : at + 1;
        if (!quoted && !next)
            return end;
        at = quoted ? at + quoted : next;
    }
    return at;
}

bool et_message_branch(const char *text, size_t end, size_t *at, size_t *from, size_t *to)
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
    static const struct {
        const char *word;
        bool counts;
    } kinds[] = {
        { "plural", true }, { "selectordinal", true }, { "select", false }, { "choice", false }
    };
    size_t at = start + 1 + run(text, length, start + 1, SPACE);
    const size_t name = run(text, length, at, NAMES);
    at += name;
    at += run(text, length, at, SPACE);
    if (!name || at >= length || text[at] != ',')
        return false;
    at += 1 + run(text, length, at + 1, SPACE);
    const size_t word = run(text, length, at, NAMES);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i].word) != word || memcmp(kinds[i].word, text + at, word) != 0)
            continue;
        at += word;
        at += run(text, length, at, SPACE);
        if (at >= length || text[at] != ',')
            return false;
        at += 1 + run(text, length, at + 1, SPACE);
        if (length - at > 7 && !memcmp(text + at, "offset:", 7))
            at += 7 + run(text, length, at + 7, SPACE "0123456789");
        *m = (et_message){ .start = start, .first = at, .counts = kinds[i].counts };
        return true;
    }
    return false;
}

/* A message whose braces do not match ends the search: so do those of the messages after it. */
bool et_message_find(const char *text, size_t length, size_t from, et_message *m)
{
    for (const char *brace;
         from < length && (brace = memchr(text + from, '{', length - from)) != NULL;) {
        size_t at, first, last;
        from = (size_t)(brace - text);
        if (read_head(text, length, from, m)) {
            at = m->first;
            while (et_message_branch(text, length, &at, &first, &last))
                continue;
            at += run(text, length, at, SPACE);
            if (at < length && text[at] == '}' && at > m->first) {
                m->end = at + 1;
                return true;
            }
            if (!after_brace(text, length, from))
                return false;
        }
        from++;
    }
    return false;
}
