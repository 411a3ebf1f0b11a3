/* Numbers as people read them. The locale is ignored, because a log that a program reads must not
 * depend on it. Rounding comes before the choice of a unit or form, so three digits never become
 * four: 999.5 is "1.0k", not "1000". */
#include "base/text/format.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers/decimal.h"
#include "base/text/strbuf.h"

/* 1234567 -> "1,234,567". */
et_format et_format_count(int64_t count)
{
    et_format out = { .text = "" };
    static_assert(sizeof out.text >= ET_COUNT_TEXT_MAX, "a count fits");
    et_count_text(out.text, count);
    return out;
}

et_format et_format_many(int64_t count, const char *noun)
{
    et_format out = { .text = "" };
    et_assert(strlen(noun) + 2 <= sizeof out.text - ET_COUNT_TEXT_MAX);
    snprintf(out.text, sizeof out.text, "%s %s%s", et_format_count(count).text, noun,
             count == 1 ? "" : "s");
    return out;
}

/* Three digits of value with the first suffix that keeps it under 1,000. 812 -> "812", 34149 ->
 * "34.1k", 1200000 -> "1.2M", 0.5 -> "0.50". The limits are those at which printf would round up
 * to another digit: 99.95 with one place is "100.0". */
static et_format scaled(double value, const char *const *suffixes, int count)
{
    et_format out = { .text = "" };
    et_assert(count > 0);
    int i = 0;
    while (i + 1 < count && fabs(value) >= 999.5) {
        value /= 1000;
        i++;
    }
    /* Below the first suffix a number may be a count, so it has no digits after the point
     * unless it is small. */
    const int digits = fabs(value) >= 99.95 || (i == 0 && value == rint(value)) ? 0
                       : fabs(value) >= 9.995 || i > 0                          ? 1
                                                                                : 2;
    snprintf(out.text, sizeof out.text, "%s%s", et_format_fixed(value, digits).text, suffixes[i]);
    return out;
}

/* "-" if the rate is unknown or larger than the suffixes reach. */
et_format et_format_rate(double per_second)
{
    static const char *const suffixes[] = { "", "k", "M", "G", "T" };
    if (!isfinite(per_second) || fabs(per_second) > 1e17)
        return (et_format){ "-" };
    return scaled(per_second, suffixes, 5);
}

/* Powers of 1000, as disks are sold and df -H counts. */
et_format et_format_bytes(uint64_t bytes)
{
    static const char *const suffixes[] = { " B", " kB", " MB", " GB", " TB", " PB", " EB" };
    return scaled((double)bytes, suffixes, 7);
}

/* 7 -> "0:07", 3724 -> "1:02:04", 274200 -> "3d 04:10". Below zero is 0: an estimate that has
 * run out. */
et_format et_format_duration(double seconds)
{
    et_format out = { "-:--" };
    if (!isfinite(seconds) || fabs(seconds) > 1e12)
        return out;
    const long long total = seconds < 0 ? 0 : llrint(seconds);
    const long long days = total / 86400, hours = total / 3600 % 24, minutes = total / 60 % 60;
    if (days > 0)
        snprintf(out.text, sizeof out.text, "%lldd %02lld:%02lld", days, hours, minutes);
    else if (hours > 0)
        snprintf(out.text, sizeof out.text, "%lld:%02lld:%02lld", hours, minutes, total % 60);
    else
        snprintf(out.text, sizeof out.text, "%lld:%02lld", minutes, total % 60);
    return out;
}

/* Large numbers are read by their commas, small ones by four digits; %g takes an exponent below
 * 0.0001. */
et_format et_format_value(double value)
{
    et_format out = { .text = "" };
    if (fabs(value) >= 9999.5 && fabs(value) < 1e15)
        return et_format_count(llrint(value));
    /* Four digits, as a curve shows, except for whole and large numbers. */
    et_decimal_print(out.text, sizeof out.text, 4, 0, value);
    return out;
}

/* For a number that is not finite, %.3f prints its name. */
et_format et_format_decimals(double value)
{
    return fabs(value) >= 9999.5 ? et_format_value(value) : et_format_fixed(value, 3);
}

et_format et_format_fixed(double value, int digits)
{
    et_format out = { .text = "" };
    et_decimal_print(out.text, sizeof out.text, digits, 1, value);
    return out;
}
