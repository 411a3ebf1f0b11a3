#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "tasks/translation/documents/document_private.h"
#include "tasks/translation/documents/spans.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* Whether the mark at text[at] is one of a key. */
static bool is_key(const char *text, size_t at)
{
    const char before = at ? text[at - 1] : 0, next = text[at + 1];
    size_t word = at;
    uint32_t code;
    et_span span;
    while (word && (is_word(text[word - 1]) || text[word - 1] == '_'))
        word--;
    if (!is_word(next) || (text[at] == '&' && et_entity_read(text + at, strlen(text + at), &code)))
        return false;
    for (size_t from = 0; et_span_find(text, strlen(text), from, &span);
         from = span.start + span.length)
        if (at >= span.start && at < span.start + span.length)
            return false;
    if (is_word(before)) /* E_xit, not max_size or R&D */
        return is_upper(text[word]) && !is_upper(next) && !(next >= '0' && next <= '9');
    return text[at] == '&' || is_upper(next) || strchr(text, ' ');
}

bool et_accelerator_find(const char *text, et_accelerator *accelerator, size_t *at)
{
    et_assert(text && accelerator && at);
    if (strchr(text, '\n') || (strchr(text, '&') && strchr(text, '_')))
        return false;
    for (const char *mark = "&_"; *mark; mark++) {
        const char *found = strchr(text, *mark);
        if (!found || strchr(found + 1, *mark) || !is_key(text, (size_t)(found - text)))
            continue;
        *accelerator = (et_accelerator){ *mark, found[1] };
        *at = (size_t)(found - text);
        return true;
    }
    return false;
}

/* The first position of text for the mark. key: 0: any letter or digit. inner: within a word, too.
 * text.length: none. */
static size_t position_for(const et_strbuf *text, char key, bool inner)
{
    const char *at = et_strbuf_text(text);
    et_span span = { .start = 0 };
    bool more = et_span_find(at, text->length, 0, &span), tag = false;
    for (size_t i = 0; i < text->length; i++) {
        while (more && i >= span.start + span.length)
            more = et_span_find(at, text->length, span.start + span.length, &span);
        tag = at[i] == '<' || (tag && at[i - 1] != '>');
        if (tag || (more && span.kind != ET_SPAN_NUMBER && i >= span.start))
            continue;
        if (at[i] == '\\') {
            i++;
            continue;
        }
        const bool begins = !i || !(is_word(at[i - 1]) || (at[i - 1] & 0x80));
        if (is_word(at[i]) && (begins || inner) &&
            (!key || tolower((unsigned char)at[i]) == tolower((unsigned char)key)))
            return i;
    }
    return text->length;
}

void et_accelerator_insert(et_strbuf *text, et_accelerator a)
{
    et_assert(a.mark);
    et_strbuf out = ET_STRBUF_INIT;
    size_t at = position_for(text, a.key, false);
    if (at == text->length)
        at = position_for(text, a.key, true);
    if (at == text->length)
        at = position_for(text, 0, false);
    if (at < text->length) {
        et_strbuf_append_bytes(&out, text->data, at);
        et_strbuf_append_char(&out, a.mark);
        et_strbuf_append_bytes(&out, text->data + at, text->length - at);
    } else {
        while (at && strchr(".: ", text->data[at - 1]))
            at--;
        et_strbuf_append_bytes(&out, et_strbuf_text(text), at);
        et_strbuf_printf(&out, "(%c%c)", a.mark, toupper((unsigned char)a.key));
        et_strbuf_append_bytes(&out, et_strbuf_text(text) + at, text->length - at);
    }
    et_strbuf_reset(text);
    et_strbuf_append_bytes(text, et_strbuf_text(&out), out.length);
    text->failed |= out.failed;
    et_strbuf_release(&out);
}
