/* Texts that a reader of bytes must refuse, and the expected messages. */
#ifndef ETUDE_TESTS_BASE_HOSTILE_H
#define ETUDE_TESTS_BASE_HOSTILE_H

#include <string.h>

#include "base/main.h"
#include <etude/value.h>

#define TEXT(literal) literal, sizeof literal - 1

typedef struct hostile {
    const char *text;
    size_t length;        /* a NUL may be among the bytes */
    const char *expected; /* a part of the message */
} hostile;

/* error is where parse leaves its message. */
static inline void assert_refused(const hostile *rows, size_t count,
                                  int (*parse)(et_value **out, const char *text, size_t length),
                                  const et_error *error)
{
    for (size_t i = 0; i < count; i++) {
        et_value *value = NULL;
        assert_int_equal(parse(&value, rows[i].text, rows[i].length), ET_EFORMAT);
        assert_null(value);
        assert_contains(error->text, rows[i].expected);
    }
}

#endif
