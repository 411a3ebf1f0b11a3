/* Numbers in text with a point, whatever a program has set as its locale. */
#ifndef ETUDE_BASE_NUMBERS_DECIMAL_H
#define ETUDE_BASE_NUMBERS_DECIMAL_H

#include <stddef.h>

/* As strtod in the C locale; end may be NULL. */
double et_decimal_read(const char *text, char **end);

/* As snprintf of "%.*g", or with fixed of "%.*f"; the length. */
int et_decimal_print(char *text, size_t size, int digits, int fixed, double value);

#endif
