/* The default format of printed metrics: times first, as durations, then the others by name, with
 * six digits. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "systems/tfsnippet/loop_private.h"

static int compare(void *payload, const char *a, const char *b)
{
    (void)payload;
    int times = et_logger_is_time(b) - et_logger_is_time(a);
    return times ? times : strcmp(a, b);
}

/* printf shows the sign of NaN, which says nothing. */
static double unsigned_nan(double value)
{
    return isnan(value) ? fabs(value) : value;
}

static void format(void *payload, const char *name, double value, char *text, size_t size)
{
    (void)payload;
    char duration[ET_DURATION_TEXT_MAX];
    if (!et_logger_is_time(name)) {
        snprintf(text, size, "%.6g", unsigned_nan(value));
        return;
    }
    et_humanize_duration(value, false, duration);
    snprintf(text, size, "%s", duration);
}

const et_metric_formatter et_metric_formatter_default = { NULL, compare, format };

static const struct {
    double seconds;
    const char *unit, *word;
} units[] = { { 86400, "d", " day" }, { 3600, "h", " hour" }, { 60, "m", " minute" } };

enum { UNITS = sizeof units / sizeof *units };

/* The remaining seconds after the minutes, as printed: with four digits, of which 59.9996 would
 * make 60. */
static double rounded(double seconds)
{
    char text[32];
    double rest = fmod(seconds, 60);
    snprintf(text, sizeof text, "%.4g", rest);
    return strtod(text, NULL) >= 60 ? seconds - rest + 60 : seconds;
}

static void append(char *text, const char *number, const char *unit, bool plural)
{
    size_t used = strlen(text);
    snprintf(text + used, ET_DURATION_TEXT_MAX - used, "%s%s%s%s", used ? " " : "", number, unit,
             plural ? "s" : "");
}

void et_humanize_duration(double seconds, bool words, char text[ET_DURATION_TEXT_MAX])
{
    char number[32];
    double left = rounded(fabs(seconds));
    *text = 0;
    if (!(left < 1e15)) {
        snprintf(text, ET_DURATION_TEXT_MAX, isnan(seconds) ? "%g" : "%gs", unsigned_nan(seconds));
        return;
    }
    for (int i = 0; i < UNITS; i++) {
        double count = floor(left / units[i].seconds);
        left = fmod(left, units[i].seconds);
        snprintf(number, sizeof number, "%.0f", count);
        if (count > 0)
            append(text, number, words ? units[i].word : units[i].unit, words && count > 1);
    }
    snprintf(number, sizeof number, "%.4g", left);
    if (left > 2.3e-16)
        append(text, number, words ? " second" : "s", words && left > 1);
    else if (!*text)
        append(text, "0", words ? " second" : "s", false);
    if (seconds < 0)
        append(text, "ago", "", false);
}
