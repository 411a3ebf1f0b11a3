/* Numbers in text with a decimal point, for any locale of the program. */
#ifndef ETUDE_BASE_NUMBERS_DECIMAL_H
#define ETUDE_BASE_NUMBERS_DECIMAL_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As strtod in the C locale; end may be NULL. */
double et_decimal_read(const char *text, char **end);

/* The same without blanks, hexadecimal digits, "inf" and "nan": then *end is text. */
double et_decimal_read_typed(const char *text, char **end);

/* As snprintf of "%.*g", or with fixed of "%.*f"; the length. */
int et_decimal_print(char *text, size_t size, int digits, int fixed, double value);

/* Reads the decimal number at the beginning of text [length], [-] digits [. digits] [e exponent],
 * as the nearest double, ties to even. Returns the bytes read; 0: no number, and *value does not
 * change. A number beyond a double becomes infinity, or 0, with its sign. */
size_t et_decimal_parse(double *value, const char *text, size_t length);

#define ET_DECIMAL_SIZE 40

/* Prints a finite number with the fewest digits that strtod reads back, N, and the point or the
 * exponent that "%.Ng" has. */
void et_decimal_shortest(char text[ET_DECIMAL_SIZE], double value);

#ifdef __cplusplus
}
#endif

#endif
