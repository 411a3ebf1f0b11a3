#include "command/runs/axis.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers/decimal.h"

#define LARGEST 1e306

/* Fewer ticks say little; an axis that has room for so many has them. */
enum { TICKS_WANTED = 4 };

/* ---- steps ---- */

/* The smallest of 1, 2, 5 times a power of ten that is at least `least`. */
static double nice_step(double least)
{
    et_assert(least > 0);
    double power = pow(10, floor(log10(least)));
    double part = least / power;
    double times = part <= 1.0000001 ? 1 : part <= 2.0000001 ? 2 : part <= 5.0000001 ? 5 : 10;
    return times * power;
}

static double nice_time(double least)
{
    et_assert(least > 0);
    static const double steps[] = { 1,   2,   5,    10,   15,   30,    60,    120,  300,
                                    600, 900, 1800, 3600, 7200, 10800, 21600, 43200 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        if (steps[i] >= least)
            return steps[i];
    return 86400 * nice_step(least / 86400);
}

static void add_tick(et_axis *a, double value)
{
    et_assert(a->count >= 0);
    if (a->count < ET_AXIS_TICKS_MAX)
        a->ticks[a->count++] = value;
}

/* Counted, not added up, so that errors do not add up either. */
static void set_steps(et_axis *a, int most)
{
    const double least = fmax((a->high - a->low) / most, DBL_MIN); /* of the least numbers: not 0 */
    a->count = 0;
    a->step = a->time && least >= 0.5 ? nice_time(least) : nice_step(least);
    double first = ceil(a->low / a->step - 1e-9);
    for (int i = 0; i < ET_AXIS_TICKS_MAX && (first + i) * a->step <= a->high + 1e-9 * a->step; i++)
        add_tick(a, (first + i) * a->step);
}

static void add_steps(et_axis *a, int most)
{
    set_steps(a, most);
    for (int more = most + 1; a->count < TICKS_WANTED && more <= 3 * most && most >= TICKS_WANTED;
         more++)
        set_steps(a, more);
}

/* Adds ticks at two and five times each decade if the decades alone are few. */
static void add_parts_of_decades(et_axis *a, int lowest, int highest)
{
    static const double parts[] = { 1, 2, 5 };
    a->count = 0;
    for (int power = lowest - 1; power <= highest; power++)
        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            double value = parts[i] * pow(10, power);
            if (value >= a->low * (1 - 1e-9) && value <= a->high * (1 + 1e-9))
                add_tick(a, value);
        }
}

/* Adds a tick at every decade, or every n-th. With fewer than two decades, adds the ticks of a
 * linear axis. */
static void add_decades(et_axis *a, int most)
{
    double first = ceil(log10(a->low) - 1e-9), last = floor(log10(a->high) + 1e-9);
    if (last - first < 1) {
        add_steps(a, most);
        return;
    }
    int lowest = (int)first, highest = (int)last;
    int every = (highest - lowest + most) / most;
    for (int power = lowest; power <= highest; power += every)
        add_tick(a, pow(10, power));
    if (a->count < TICKS_WANTED && every == 1 && most >= TICKS_WANTED)
        add_parts_of_decades(a, lowest, highest);
}

/* ---- the axis ---- */

et_axis et_axis_make(double low, double high, bool log, bool time, int most_ticks)
{
    et_assert(isfinite(low) && isfinite(high) && low <= high && (!log || low > 0));
    /* Larger values are clamped, so that differences and ticks do not overflow. */
    low = fmax(fmin(low, LARGEST), -LARGEST);
    high = fmax(fmin(high, LARGEST), -LARGEST);
    et_axis a = { .low = low, .high = high, .log = log, .time = time };
    most_ticks = most_ticks < 2                    ? 2
                 : most_ticks >= ET_AXIS_TICKS_MAX ? ET_AXIS_TICKS_MAX - 1
                                                   : most_ticks;
    /* Also if the values are so near to each other that no number is between them. */
    double room = 1e-12 * fmax(fabs(low), fabs(high));
    if (log && high / low < 1.0000001) {
        a.low = fmax(low / 2, DBL_TRUE_MIN);
        a.high = high * 2;
    } else if (high - low <= room) {
        a.low = low - (low ? fmax(fabs(low) / 10, DBL_MIN) : 1);
        a.high = high + (high ? fmax(fabs(high) / 10, DBL_MIN) : 1);
    }
    if (log)
        add_decades(&a, most_ticks);
    else
        add_steps(&a, most_ticks);
    return a;
}

double et_axis_position(const et_axis *a, double value)
{
    et_assert(a->low < a->high && (!a->log || a->low > 0));
    double position =
        a->log
            ? (value > 0 ? (log(value) - log(a->low)) / (log(a->high) - log(a->low)) : (double)NAN)
            : (value - a->low) / (a->high - a->low);
    return position >= -1e-9 && position <= 1 + 1e-9 ? fmin(1, fmax(0, position)) : (double)NAN;
}

/* Whether et_format_rate prints multiples of step up to most exactly: it prints three digits. */
static bool suits_suffix(double step, double most)
{
    const double unit = most < 99.95e6 ? 1e5 : most < 999.5e6 ? 1e6 : most < 99.95e9 ? 1e8 : 1e9;
    return most >= 1e6 && step >= unit;
}

/* A duration of a day or more has no seconds; they are added if the step is below a minute. */
static et_format label_time(double value, double step)
{
    et_format label = et_format_duration(value);
    const size_t length = strlen(label.text);
    if (value >= 86400 && step < 60)
        snprintf(label.text + length, sizeof label.text - length, ":%02d", (int)fmod(value, 60));
    return label;
}

et_format et_axis_label(const et_axis *a, int tick)
{
    et_format label = { "" };
    et_assert(tick >= 0 && tick < a->count);
    double value = a->ticks[tick];
    /* et_format_duration prints the same text for all times below 0 and above 1e12. */
    if (a->time && a->step >= 1 && a->low >= 0 && a->high <= 1e12)
        return label_time(value, a->step);
    if (!a->step) {
        et_decimal_print(label.text, sizeof label.text, 6, false, value);
        return label;
    }
    /* The digits depend on the step, so no two labels are equal. The format depends on the largest
     * value, so all labels have the same format. */
    const double most = fmax(fabs(a->low), fabs(a->high));
    const int decimals = (int)-floor(log10(a->step) + 1e-9);
    if (fabs(value) < a->step * 1e-6)
        return (et_format){ "0" };
    if (decimals <= 0 && most < 1e12)
        return suits_suffix(a->step, most) ? et_format_rate(value)
                                           : et_format_count((int64_t)llround(value));
    const int digits = (int)floor(log10(most) + 1e-9) + 1 + decimals;
    if (decimals > 5 || most >= 1e12)
        et_decimal_print(label.text, sizeof label.text,
                         digits < 6    ? 6
                         : digits > 17 ? 17
                                       : digits,
                         false, value);
    else
        et_decimal_print(label.text, sizeof label.text, decimals, true, value);
    return label;
}

int et_axis_label_length(const et_axis *a)
{
    int most = 0;
    for (int i = 0; i < a->count; i++) {
        const int length = (int)strlen(et_axis_label(a, i).text);
        most = length > most ? length : most;
    }
    return most;
}

/* ---- a chart's ---- */

static void widen(double *low, double *high, double value)
{
    *low = value < *low ? value : *low;
    *high = value > *high ? value : *high;
}

int et_chart_axes(et_axis *x, et_axis *y, const et_chart *chart, int x_ticks, int y_ticks,
                  et_error *error)
{
    double left = INFINITY, right = -INFINITY, low = INFINITY, high = -INFINITY;
    bool whole = !chart->time;
    for (size_t i = 0; i < chart->count; i++) {
        const et_chart_curve *c = &chart->curves[i];
        for (size_t k = 0; k < c->count; k++)
            if (isfinite(c->x[k]) && isfinite(c->y[k]) && (!chart->log || c->y[k] > 0)) {
                whole = whole && c->x[k] == nearbyint(c->x[k]);
                widen(&left, &right, c->x[k]);
                widen(&low, &high, c->y[k]);
            }
    }
    if (left > right)
        return et_fail(error, ET_EDATA,
                       chart->log ? "nothing to draw: no value is a number above 0; draw it "
                                    "without a logarithmic axis"
                                  : "nothing to draw: no value is a number");
    /* Ticks lie on whole numbers if all values are whole numbers, such as steps. */
    *x = et_axis_make(left, right, false, chart->time,
                      whole && right - left >= 1 && right - left < x_ticks ? (int)(right - left)
                                                                           : x_ticks);
    *y = et_axis_make(low, high, chart->log, false, y_ticks);
    return ET_OK;
}
