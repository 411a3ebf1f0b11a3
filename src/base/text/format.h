/* Numbers for people: aligned, rounded, in the C locale. Each function returns its text by value,
 * so you can use it in a call of printf:
 *
 *     printf("%s/%s\n", et_format_count(step).text, et_format_count(steps).text);
 */
#ifndef ETUDE_BASE_TEXT_FORMAT_H
#define ETUDE_BASE_TEXT_FORMAT_H

#include <stdint.h>

typedef struct et_format {
    char text[40]; /* terminated */
} et_format;

/* "1,840", "-12". */
et_format et_format_count(int64_t count);

/* The same with a noun whose plural ends in s: "1 line", "1,840 lines". */
et_format et_format_many(int64_t count, const char *noun);

/* Three digits and a suffix: "34.1k", "812", "1.2M", "7.5G". NaN: "-". */
et_format et_format_rate(double per_second);

/* "0:07", "2:04", "1:02:04", "3d 04:10"; seconds rounded. Not finite: "-:--". */
et_format et_format_duration(double seconds);

/* A measured value with four significant digits: "3.127", "0.0041", "5e-05", "12,345". */
et_format et_format_value(double value);

/* The same with three decimals, unless it is large: 6.300, 0.012. */
et_format et_format_decimals(double value);

/* With `places` digits after the point: 35.12. */
et_format et_format_fixed(double value, int digits);

/* "812 B", "47 kB", "1.2 GB": decimal units. */
et_format et_format_bytes(uint64_t bytes);

#endif
