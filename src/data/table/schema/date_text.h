/* Reads dates and times of day from texts. The only reader of dates in Etude.
 *
 *     2024-05-31   2024/5/31   31.5.2024   5/31/2024   31/05/24   31 May 2024   May 31, 2024
 *     Fri, 31 May 2024 14:30:00 GMT   2024-05-31T14:30:00.5+02:00   5/31/2024 2:30 PM
 *     Fri May 31 14:30:00 EST 2024    20240531T143000Z              May 31st, 2024 at 2:30 p.m.
 *     2024-W22-5   2024-05   05/2024   May 2024   2024-Q2   2Q 2024   H1 2024   (the first day)
 *     14:30   14:30:59   2:30 PM   2 PM                                         (times of day)
 *
 * Month and weekday names are English, in any case. In a date of numbers, a year of four digits may
 * come first. With points the day comes first; with - or / the order decides which number is the
 * month. Years of two digits are 1969 to 2068. Times are not converted between zones: the hour is
 * the written hour, and the zone is a separate field. Pure functions. */
#ifndef ETUDE_DATA_TABLE_SCHEMA_DATE_TEXT_H
#define ETUDE_DATA_TABLE_SCHEMA_DATE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/metadata.h>

/* month, day and weekday count from 0; weekday 0 is Monday. */
typedef struct et_date {
    int year, month, day, weekday, hour, minute;
    double second; /* in [0, 61), to nanoseconds */
    int offset;    /* minutes of the written time from UTC, east positive */
    int zone;      /* 0: the text has no zone. ET_DATE_OFFSET: an offset. Another number: a zone
                      name of unknown offset; equal names have equal numbers */
} et_date;
#define ET_DATE_OFFSET 1

/* False: not a date, or a day that does not exist. order ANY: month first. order TIME: the text is
 * a time of day; the date is then 1970-01-01. */
bool et_date_read(et_date *out, const char *text, size_t length, et_date_order order);
/* The orders in which a text is a date: bits 1 << ET_DATE_MONTH_FIRST, 1 << ET_DATE_DAY_FIRST, and
 * also 1 << ET_DATE_ANY if both orders give the same date; or 1 << ET_DATE_TIME. 0: not a date. */
unsigned et_date_orders(const char *text, size_t length);
/* By order, ended by NULL: "any", then "month-first", "day-first" and "time-of-day" as in files. */
extern const char *const et_date_order_names[];
/* Seconds since 1970 of 0000-01-01, and of 10000-01-01. */
#define ET_DATE_SECONDS_LEAST (-62167219200.0)
#define ET_DATE_SECONDS_END   253402300800.0
#define ET_DATE_DAY           86400.0 /* seconds */
/* seconds since 1970; false: before the year 0 or after 9999. */
bool et_date_of_seconds(et_date *out, double seconds);
/* Seconds from 1970-01-01T00:00:00 UTC; for a zone other than ET_DATE_OFFSET, from this time in the
 * zone. A later date never has fewer seconds. */
double et_date_seconds(const et_date *date);

#endif
