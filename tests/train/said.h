/* Records events as words, one after another. */
#ifndef ETUDE_TESTS_TRAIN_SAID_H
#define ETUDE_TESTS_TRAIN_SAID_H

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char words[2048];

static inline void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static inline void say(const char *format, ...)
{
    va_list arguments;
    size_t length = strlen(words);
    va_start(arguments, format);
    vsnprintf(words + length, sizeof words - length, format, arguments);
    va_end(arguments);
}

#endif
