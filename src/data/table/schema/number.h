/* Numbers in text, as in tables: exact (the nearest double, ties to even), independent of the
 * locale, and only decimal numbers:
 *
 *   number   = [ + | - ] ( digits [ . [ digits ] ] | . digits ) [ ( e | E ) [ + | - ] digits ]
 *
 * No blanks, no "nan", "inf", 0x1p3, 1_000 or 1,5. Text with anything after the number is not a
 * number. Pure functions. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_NUMBER_H
#define ETUDE_DATA_TABLE_SCHEMA_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum et_number {
    ET_NUMBER_NONE,    /* not a number; *out is not changed */
    ET_NUMBER_LARGE,   /* a number beyond a double, such as 1e999; *out is not changed */
    ET_NUMBER_REAL,    /* a value too small for a double is 0 with its sign */
    ET_NUMBER_INTEGER, /* a real with only digits, with or without a sign */
} et_number;

/* Reads all of text [length], and no byte beyond it. */
et_number et_number_parse(double *out, const char *text, size_t length);

/* How many digits a text [length] begins with. */
static inline size_t et_number_digits_at(const char *text, size_t length)
{
    size_t count = 0;
    while (count < length && (unsigned char)(text[count] - '0') < 10)
        count++;
    return count;
}

/* For most callers: text is a number, and finite. */
static inline bool et_number_is(et_number kind)
{
    return kind >= ET_NUMBER_REAL;
}

#endif
