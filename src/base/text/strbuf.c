/* Grows by half, so n appended bytes are copied O(n) times in all: a text of a megabyte needs 27
 * allocations.
 *
 * Invariants:
 *
 *   (1) data is NULL, or has a 0 at length, with length < capacity;
 *   (2) after a failure nothing changes until reset or release: data is a prefix of the appended
 *       text, and `failed` says that it is incomplete. */
#include "base/text/strbuf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/plain.h"

/* Room for `more` bytes and the final 0; false: none, or an earlier failure. 32 bytes at least, so
 * that growing by half grows. */
static bool reserve(et_strbuf *buffer, size_t more)
{
    if (buffer->failed)
        return false;
    size_t need;
    if (__builtin_add_overflow(buffer->length, more, &need) ||
        __builtin_add_overflow(need, 1, &need)) {
        buffer->failed = true;
        return false;
    }
    if (need <= buffer->capacity)
        return true;
    /* Allocates once, growing in steps of a half. */
    size_t capacity = buffer->capacity < 32 ? 32 : buffer->capacity;
    while (capacity < need)
        capacity += capacity / 2;
    char *data = et_realloc(buffer->data, capacity, 1);
    if (!data) {
        buffer->failed = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

/* memcpy must not get NULL, even for no bytes. */
void et_strbuf_append_bytes(et_strbuf *buffer, const void *bytes, size_t length)
{
    if (!reserve(buffer, length))
        return;
    et_assert(bytes || length == 0);
    if (length)
        memcpy(buffer->data + buffer->length, bytes, length);
    buffer->length += length;
    et_assert(buffer->length < buffer->capacity);
    buffer->data[buffer->length] = 0;
}

void et_strbuf_append(et_strbuf *buffer, const char *text)
{
    et_strbuf_append_bytes(buffer, text, strlen(text));
}

void et_strbuf_append_char(et_strbuf *buffer, char c)
{
    et_strbuf_append_bytes(buffer, &c, 1);
}

void et_strbuf_append_blanks(et_strbuf *buffer, int count)
{
    static const char blanks[] = "                ";
    for (int width; count > 0; count -= width) {
        width = count < (int)sizeof blanks ? count : (int)sizeof blanks - 1;
        et_strbuf_append_bytes(buffer, blanks, width);
    }
}

/* Formats into a local buffer and copies, because most pieces are short; a longer piece is
 * formatted again in place. The first call uses up the arguments, so the second has a copy. */
void et_strbuf_vprintf(et_strbuf *buffer, const char *format, va_list arguments)
{
    char aside[256];
    va_list again;
    va_copy(again, arguments);
    int length = et_plain_vprint(aside, sizeof aside, format, arguments);
    /* A broken multibyte text under %ls and the like. */
    if (length < 0)
        buffer->failed = true;
    else if ((size_t)length < sizeof aside)
        et_strbuf_append_bytes(buffer, aside, length);
    else if (reserve(buffer, (size_t)length)) {
        et_plain_vprint(buffer->data + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
}

void et_strbuf_printf(et_strbuf *buffer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    et_strbuf_vprintf(buffer, format, arguments);
    va_end(arguments);
}

/* Whole numbers below 10^15 are printed in full, others with the fewest digits that strtod reads
 * back exactly. "%g" drops the point of 1e+20, which YAML 1.1 would then read as text, so the point
 * is restored before the exponent: 1.0e+20. No locale is used.
 *   0.1 -> 0.1    4 -> 4.0    1e-8 -> 1.0e-08    2/3 -> 0.6666666666666666 */
void et_strbuf_append_double(et_strbuf *buffer, double value)
{
    et_assert(isfinite(value));
    char text[ET_DECIMAL_SIZE];
    if (fabs(value) < 1e15 && value == trunc(value)) {
        et_decimal_print(text, sizeof text, 1, 1, value);
        et_strbuf_append(buffer, text);
        return;
    }
    et_decimal_shortest(text, value);
    /* "1e-08": the digits before the exponent, or all. */
    size_t mantissa = strcspn(text, "e");
    et_strbuf_append_bytes(buffer, text, mantissa);
    if (!memchr(text, '.', mantissa))
        et_strbuf_append(buffer, ".0");
    et_strbuf_append(buffer, text + mantissa);
}

bool et_text_ends(const char *text, const char *end)
{
    const size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && !strcmp(text + length - wanted, end);
}

bool et_is_listed(const char *list, const char *word, size_t length)
{
    et_assert(list && (word || !length));
    for (const char *at = list, *end; *at; at = end + (*end == ' ')) {
        end = at + strcspn(at, " ");
        if ((size_t)(end - at) == length && !strncasecmp(at, word, length))
            return true;
    }
    return false;
}

/* A comma before every third digit from the right. */
void et_count_text(char text[ET_COUNT_TEXT_MAX], int64_t count)
{
    /* The magnitude in unsigned arithmetic: -INT64_MIN does not fit. */
    char plain[24];
    const uint64_t magnitude = count < 0 ? 0 - (uint64_t)count : (uint64_t)count;
    const int digits = snprintf(plain, sizeof plain, "%llu", (unsigned long long)magnitude);
    int at = 0;
    if (count < 0)
        text[at++] = '-';
    for (int i = 0; i < digits; i++) {
        if (i > 0 && (digits - i) % 3 == 0)
            text[at++] = ',';
        text[at++] = plain[i];
    }
    text[at] = '\0';
}

/* Never NULL: an empty text may be printed. */
const char *et_strbuf_text(const et_strbuf *buffer)
{
    return buffer->data ? buffer->data : "";
}

/* A new text may be begun after a failure, in the memory that there is. */
void et_strbuf_reset(et_strbuf *buffer)
{
    buffer->length = 0;
    /* Data is a whole prefix and is dropped; the memory is good. */
    buffer->failed = false;
    if (buffer->data)
        buffer->data[0] = 0;
}

void et_strbuf_truncate(et_strbuf *buffer, size_t length)
{
    et_assert(buffer->failed || length <= buffer->length);
    if (buffer->failed || !buffer->data)
        return;
    buffer->length = length;
    buffer->data[length] = 0;
}

/* An empty buffer has no memory to hand over, so one byte is made: NULL means failure only. */
char *et_strbuf_detach(et_strbuf *buffer)
{
    char *text = buffer->failed ? NULL : buffer->data;
    if (!buffer->failed && !text)
        text = et_strdup("");
    if (buffer->failed)
        et_free(buffer->data);
    *buffer = (et_strbuf)ET_STRBUF_INIT;
    return text;
}

char *et_strbuf_keep(et_strbuf *buffer, et_arena *arena)
{
    arena->failed |= buffer->failed;
    char *text =
        buffer->failed ? NULL : et_arena_strndup(arena, et_strbuf_text(buffer), buffer->length);
    et_strbuf_release(buffer);
    return text;
}

void et_strbuf_release(et_strbuf *buffer)
{
    et_free(buffer->data);
    *buffer = (et_strbuf)ET_STRBUF_INIT;
}

static void append_plain(void *out, const char *bytes, size_t length)
{
    et_strbuf_append_bytes(out, bytes, length);
}

void et_plain_append(et_strbuf *out, const char *text)
{
    et_plain_walk(text, strlen(text), false, append_plain, out);
}

void et_plain_append_lines(et_strbuf *out, const char *text, size_t length)
{
    et_plain_walk(text, length, true, append_plain, out);
}

void et_markup_append(et_strbuf *out, const char *text)
{
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text);
    for (const char *c = et_strbuf_text(&plain); *c; c++) {
        const char *name = *c == '&'   ? "&amp;"
                           : *c == '<' ? "&lt;"
                           : *c == '>' ? "&gt;"
                           : *c == '"' ? "&quot;"
                                       : NULL;
        if (name)
            et_strbuf_append(out, name);
        else
            et_strbuf_append_char(out, *c);
    }
    out->failed |= plain.failed;
    et_strbuf_release(&plain);
}

void et_shell_append(et_strbuf *out, const char *word)
{
    const bool plain = *word && !strpbrk(word, " \t\r\n\"'\\$`*?[]{}()<>|&;#~!");
    et_strbuf_append(out, plain ? "" : "'");
    for (const char *c = word; *c; c++) {
        if (*c == '\'')
            et_strbuf_append(out, "'\\'");
        et_strbuf_append_char(out, *c);
    }
    et_strbuf_append(out, plain ? "" : "'");
}

et_shell_word et_shell_quote(const char *word)
{
    et_strbuf quoted = ET_STRBUF_INIT;
    et_shell_word out;
    et_shell_append(&quoted, word);
    snprintf(out.text, sizeof out.text, "%s", quoted.failed ? word : et_strbuf_text(&quoted));
    et_strbuf_release(&quoted);
    return out;
}

/* Bytes of a message for problems; the other bytes are for the text around them. */
#define PROBLEMS_ROOM (ET_ERROR_TEXT_MAX - 224)

/* The first problem is always shown, cut if necessary. */
void et_problems_add(et_problems *self, const char *format, ...)
{
    size_t before = self->text.length;
    va_list arguments;
    self->count++;
    et_strbuf_printf(&self->text, "%s(%d) ", before ? "; " : "", self->count);
    va_start(arguments, format);
    et_strbuf_vprintf(&self->text, format, arguments);
    va_end(arguments);
    if (before && (self->text.length > PROBLEMS_ROOM || self->shown < self->count - 1))
        et_strbuf_truncate(&self->text, before);
    else
        self->shown++;
}

int et_problems_report(et_problems *self, int status, const char *what, et_error *error)
{
    const char *text = et_strbuf_text(&self->text);
    if (!self->count)
        status = ET_OK;
    else if (self->text.failed)
        status = et_alloc_failed(error, "a message");
    else if (self->count == 1)
        status = et_fail(error, status, "%s: %s", what, text + 4);
    else if (self->shown == self->count)
        status = et_fail(error, status, "%s, in %d places: %s", what, self->count, text);
    else
        status = et_fail(error, status, "%s, in %d places: %s; and %d more", what, self->count,
                         text, self->count - self->shown);
    et_strbuf_release(&self->text);
    return status;
}
