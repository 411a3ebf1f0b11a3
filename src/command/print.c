#include "command/print.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/plain.h"

/* Bytes that need no memory: two paths, and what is said of them. */
#define ROOM 10000

static void put(void *to, const char *bytes, size_t length)
{
    fwrite(bytes, 1, length, to);
}

void et_print_text(FILE *to, const char *text)
{
    et_plain_walk(text, strlen(text), true, put, to);
}

void et_print(FILE *to, const char *format, ...)
{
    char text[ROOM], *longer = NULL;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    if (length >= ROOM && (longer = et_alloc((size_t)length + 1, 1)) != NULL)
        vsnprintf(longer, (size_t)length + 1, format, again);
    et_print_text(to, longer ? longer : text);
    if (length >= ROOM && !longer)
        fputs("... (cut: no memory)\n", to);
    et_free(longer);
    va_end(again);
    va_end(arguments);
}

void et_print_results(FILE *to, const char *bytes, size_t length)
{
    if (isatty(fileno(to)))
        et_plain_walk(bytes, length, true, put, to);
    else
        fwrite(bytes, 1, length, to);
}

int et_write_results(const char *bytes, size_t length, et_error *error)
{
    if (!isatty(STDOUT_FILENO))
        return et_fd_write(STDOUT_FILENO, bytes, length, "standard output", error);
    et_print_results(stdout, bytes, length);
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}
