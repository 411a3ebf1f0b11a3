#include "command/options/options.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/numbers/decimal.h"

#define TIME_MAX 1e9 /* seconds */

/* Reads 1:30:00, 10:00 and 2-00:00:00. false: text has another form. */
static bool read_clock(double *seconds, const char *text)
{
    double days = 0, whole = 0, part = 0;
    bool has_days = false, more = true;
    int parts = 0;
    for (const char *at = text; more; at++) {
        char *end;
        if (*at < '0' || *at > '9')
            return false;
        part = (double)strtol(at, &end, 10);
        at = end;
        if (*at == '-' && !parts && !has_days) {
            has_days = true;
            days = part;
            continue;
        }
        if (parts > 0 && part >= 60)
            return false;
        whole = whole * 60 + part;
        parts++;
        more = *at == ':';
        if (*at && !more)
            return false;
    }
    *seconds = days * 86400 + whole;
    return parts == 3 || (parts == 2 && !has_days);
}

int et_amount_time(double *seconds, const char *name, const char *text, et_error *error)
{
    et_assert(seconds && name && text);
    static const struct {
        char unit;
        double seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 }, { 'd', 86400 } };
    char *end;
    bool right = strchr(text, ':') && read_clock(seconds, text);
    double number = et_decimal_read_typed(text, &end);
    for (size_t i = 0; !right && i < sizeof units / sizeof units[0]; i++)
        if (end != text && *end == units[i].unit && !end[1]) {
            *seconds = number * units[i].seconds;
            right = true;
        }
    if (right && *seconds > 0 && *seconds <= TIME_MAX)
        return ET_OK;
    return et_fail(error, ET_EUSAGE,
                   "--%s %s: not a time; write 1:30:00 (hours, minutes, seconds) or 90m", name,
                   text);
}

int et_amount_bytes(uint64_t *bytes, const char *name, const char *text, et_error *error)
{
    et_assert(bytes && name && text);
    static const char letters[] = "KMGT";
    char *end;
    double number = et_decimal_read_typed(text, &end);
    const char *letter = *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    const char *rest = letter ? end + 1 : end;
    const bool binary = !strcasecmp(rest, "iB");
    for (long i = letter ? letter - letters + 1 : 0; i > 0; i--)
        number *= binary ? 1024 : 1000;
    bool right = end != text && (letter || !*end) && (!*rest || binary || !strcasecmp(rest, "B"));
    if (right && number >= 1 && number <= 1e18) {
        *bytes = (uint64_t)number;
        return ET_OK;
    }
    return et_fail(error, ET_EUSAGE, "--%s %s: not a size; write 500M, 4G or 4GiB", name, text);
}
