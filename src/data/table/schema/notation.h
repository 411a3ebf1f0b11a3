/* Numbers as people and spreadsheets write them: with separators of thousands, a decimal comma, a
 * unit, a minus in parentheses. A column has one notation and at most one unit.
 *
 *     1,234.50   12,34,567   1 234.5   1'234   $1,234   -$5   EUR 12   12 %   85 m2   (1,234)
 *     1.234,50   1 234,5   12,5 kg   −7,25 €                                           with a comma
 *
 * Groups have three digits, the first one to three; Indian groups of two before the last are read
 * too. Separators of groups: point or comma (not the decimal one), blanks (also U+00A0, U+202F,
 * U+2009, U+2007), apostrophes (also U+2019) and underscores; a number has one kind. The unit is
 * before or after the number, or absent, and does not change the value: 12 % is 12. A number in
 * parentheses is negative; U+2212, U+2012 and U+2013 are minus signs. Pure functions. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_NOTATION_H
#define ETUDE_DATA_TABLE_SCHEMA_NOTATION_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/schema.h>

/* ---- plain numbers ---- */

/* Numbers in text, as in tables: exact (the nearest double, ties to even), independent of the
 * locale, and only decimal numbers:
 *
 *   number   = [ + | - ] ( digits [ . [ digits ] ] | . digits ) [ ( e | E ) [ + | - ] digits ]
 *
 * No blanks, no "nan", "inf", 0x1p3, 1_000 or 1,5. Text with anything after the number is not a
 * number. Pure functions. */

typedef enum et_number {
    ET_NUMBER_NONE,    /* not a number; *out is not changed */
    ET_NUMBER_LARGE,   /* a number that is too large for a double, such as 1e999; *out is not
                          changed */
    ET_NUMBER_REAL,    /* also a number that is too small for a double, which gives 0 with its
                          sign */
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

/* ---- notations ---- */

/* The form of a column's numbers; unit NULL: no unit. */
typedef struct et_number_format {
    et_notation notation;
    const char *unit;
} et_number_format;

static inline et_number_format et_number_format_of(const et_schema_field *field)
{
    return (et_number_format){ field->notation, field->unit };
}

/* Most bytes of a number in a notation other than plain, without separators. */
#define ET_NOTATION_BYTES 320

/* Rewrites a number in the form that et_number_parse reads: the text itself, or a text in out.
 * NULL: not such a number. */
const char *et_notation_plain(const et_number_format *format, char out[ET_NOTATION_BYTES],
                              const char *text, size_t *length);
/* As et_number_parse. */
et_number et_notation_parse(double *out, const et_number_format *format, const char *text,
                            size_t length);

/* Bytes of the longest unit that is found. */
#define ET_UNIT_BYTES 31

/* A text that may be a number in a notation. */
typedef struct et_noted {
    unsigned notations; /* bits 1 << ET_NOTATION_POINT, 1 << ET_NOTATION_COMMA; 0: no number */
    bool differs;       /* both, and the numbers differ: 1,234 */
    size_t unit_at, unit_length; /* the unit's position in the text; length 0: no unit */
} et_noted;

/* Units are signs ($, %), words after a number, codes of currencies before it (EUR 12): A11 and
 * Room 12 are names. */
et_noted et_notation_find(const char *text, size_t length);

/* "point" and "comma" in files; NULL: plain, or no notation. */
const char *et_notation_name(et_notation notation);
/* A number as a column writes it: "1.234,50 kg". */
#define ET_NOTATION_EXAMPLE(format)                                                                \
    (format).notation == ET_NOTATION_COMMA ? "1.234,50" : "1,234.50", (format).unit ? " " : "",    \
        (format).unit ? (format).unit : ""

#endif
