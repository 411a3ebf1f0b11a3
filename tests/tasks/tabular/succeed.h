/* Runs of the command that succeed, and what they print. Include after bad_case.h. */
#ifndef ETUDE_TESTS_TASKS_TABULAR_SUCCEED_H
#define ETUDE_TESTS_TASKS_TABULAR_SUCCEED_H

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline bad_end succeed(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline bad_end succeed(const char *format, ...)
{
    char line[2000];
    va_list words;
    va_start(words, format);
    vsnprintf(line, sizeof line, format, words);
    va_end(words);
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: %s", line, end.err);
    return end;
}

/* "name   value" on a line of its own. */
static inline double value_of(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (!strncmp(at, name, length) && at[length] == ' ')
            return strtod(at + length, NULL);
    }
    fail_msg("%s is not in %s", name, text);
    return NAN;
}

#endif
