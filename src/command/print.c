#include "command/print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/plain.h"
#include "base/text/strbuf.h"
#include "base/text/terminal.h"
#include "base/values/json.h"

/* Bytes of a buffer on the stack: two paths, and the text around them. */
#define ROOM 10000

static void put(void *to, const char *bytes, size_t length)
{
    fwrite(bytes, 1, length, to);
}

void et_print_text(FILE *to, const char *text)
{
    et_assert(to && text);
    et_plain_walk(text, strlen(text), true, put, to);
}

/* Without memory the line is printed unfolded. */
static void print_folded(FILE *to, const char *text)
{
    et_strbuf lines = ET_STRBUF_INIT;
    et_terminal_fold(&lines, text, et_terminal_width(fileno(to)) - 1);
    et_print_text(to, lines.failed ? text : et_strbuf_text(&lines));
    et_strbuf_release(&lines);
}

static void print_formatted(FILE *to, bool folded, const char *format, va_list arguments)
{
    char text[ROOM], *longer = NULL;
    va_list again;
    va_copy(again, arguments);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= ROOM && (longer = et_alloc((size_t)length + 1, 1)) != NULL)
        vsnprintf(longer, (size_t)length + 1, format, again);
    (folded ? print_folded : et_print_text)(to, longer ? longer : text);
    if (length >= ROOM && !longer)
        fputs("... (cut: no memory)\n", to);
    et_free(longer);
    va_end(again);
}

void et_print(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, false, format, arguments);
    va_end(arguments);
}

void et_print_lines(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, isatty(fileno(to)), format, arguments);
    va_end(arguments);
}

void et_print_text_lines(FILE *to, const char *text)
{
    et_assert(to && text);
    (isatty(fileno(to)) ? print_folded : et_print_text)(to, text);
}

void et_print_help(FILE *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_formatted(to, true, format, arguments);
    va_end(arguments);
}

void et_print_results(FILE *to, const char *bytes, size_t length)
{
    et_assert(to && (bytes || !length));
    if (isatty(fileno(to)))
        et_plain_walk(bytes, length, true, put, to);
    else
        fwrite(bytes, 1, length, to);
}

int et_print_json(const et_value *results, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (results && !et_value_failed(results)) {
        et_json_print(&text, results, 2);
        et_strbuf_append_char(&text, '\n');
    }
    bool whole = text.length && !text.failed;
    if (whole)
        et_print_results(stdout, text.data, text.length);
    et_strbuf_release(&text);
    if (!whole)
        return et_alloc_failed(error, 0, "results");
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}
