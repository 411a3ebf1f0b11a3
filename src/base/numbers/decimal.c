#include "base/numbers/decimal.h"

#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* glibc has a static object for the C locale: this allocates nothing, and freeing it does nothing.
 */
double et_decimal_read(const char *text, char **end)
{
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = c ? strtod_l(text, end, c) : strtod(text, end);
    if (c)
        freelocale(c);
    return value;
}

double et_decimal_read_typed(const char *text, char **end)
{
    const char *first = text + (*text == '-' || *text == '+');
    const bool digit = *first >= '0' && *first <= '9';
    if ((digit || *first == '.') && first[digit] != 'x' && first[digit] != 'X')
        return et_decimal_read(text, end);
    *end = (char *)(uintptr_t)text;
    return 0;
}

/* A locale's point may be longer than one byte. */
int et_decimal_print(char *text, size_t size, int digits, int fixed, double value)
{
    int length = snprintf(text, size, fixed ? "%.*f" : "%.*g", digits, value);
    const char *point = localeconv()->decimal_point;
    size_t wide = strlen(point);
    char *at = strcmp(point, ".") != 0 ? strstr(text, point) : NULL;
    if (!at)
        return length;
    *at = '.';
    memmove(at + 1, at + wide, strlen(at + wide) + 1);
    return length - (int)wide + 1;
}
