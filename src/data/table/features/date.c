/* Dates in texts: a part of ISO 8601, as in tables, and seconds since 1970. Times are not
 * converted: an hour is the hour that is written.
 *
 *   date = YYYY-MM-DD [ ( T | blank ) hh:mm [ :ss [ .digits ] ] [ Z | ( + | - ) hh [:] mm ] ]
 *
 * Days are counted in 400-year cycles (Gregorian calendar, also before its time). */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "data/table/features/transforms.h"

#define PART_COUNT    6
#define DAY           86400.0
#define SECONDS_LEAST (-62167219200.0) /* 0000-01-01 */
#define SECONDS_END   253402300800.0   /* 10000-01-01 */

const char *const et_date_parts[] = { "year", "month", "day", "weekday", "hour", "minute", NULL };

/* In the order of parts; month, day and weekday from 0. */
typedef struct date {
    int part[PART_COUNT];
} date;

enum { YEAR, MONTH, DAY_OF_MONTH, WEEKDAY, HOUR, MINUTE };

/* How many there are in a cycle; the year has none. */
static const int cycle[PART_COUNT] = { 0, 12, 31, 7, 24, 60 };

/* ---- calendar ---- */

static bool is_leap(int year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int days_of(int year, int month)
{
    static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
    return days[month] + (month == 1 && is_leap(year));
}

/* Days from 1970-01-01 to the first of a year. */
static int64_t days_before(int year)
{
    int64_t y = year - 1; /* whole years since year 1, and -1 of year 0 */
    int64_t leaps = year > 0 ? y / 4 - y / 100 + y / 400 : -1;
    return y * 365 + leaps - 719162;
}

/* 0 is Monday; 1970-01-01 was a Thursday. */
static int weekday_of(int64_t days)
{
    return (int)(((days + 3) % 7 + 7) % 7);
}

static void date_of_days(date *out, int64_t days)
{
    int year = 1970 + (int)(days / 365);
    while (days_before(year) > days)
        year--;
    while (days_before(year + 1) <= days)
        year++;
    int64_t left = days - days_before(year);
    int month = 0;
    for (; left >= days_of(year, month); month++)
        left -= days_of(year, month);
    out->part[YEAR] = year;
    out->part[MONTH] = month;
    out->part[DAY_OF_MONTH] = (int)left;
    out->part[WEEKDAY] = weekday_of(days);
}

static bool date_of_seconds(date *out, double seconds)
{
    if (!(seconds >= SECONDS_LEAST && seconds < SECONDS_END))
        return false;
    double days = floor(seconds / DAY);
    int minute = (int)(floor(seconds - days * DAY) / 60);
    date_of_days(out, (int64_t)days);
    out->part[HOUR] = minute / 60;
    out->part[MINUTE] = minute % 60;
    return true;
}

/* ---- text ---- */

typedef struct scan {
    const char *at, *end;
} scan;

static bool take(scan *s, char c)
{
    bool there = s->at < s->end && *s->at == c;
    s->at += there;
    return there;
}

/* Exactly so many digits, at most `most` as a number. */
static bool digits(scan *s, int count, int most, int *out)
{
    *out = 0;
    for (int i = 0; i < count; i++, s->at++) {
        if (s->at == s->end || *s->at < '0' || *s->at > '9')
            return false;
        *out = *out * 10 + (*s->at - '0');
    }
    return *out <= most;
}

static bool read_zone(scan *s)
{
    int part;
    if (s->at == s->end || take(s, 'Z'))
        return true;
    if (!take(s, '+') && !take(s, '-'))
        return false;
    if (!digits(s, 2, 23, &part))
        return false;
    take(s, ':');
    return digits(s, 2, 59, &part);
}

static bool read_time(scan *s, date *out)
{
    int second;
    if (s->at == s->end)
        return true;
    if (!take(s, 'T') && !take(s, ' '))
        return false;
    if (!digits(s, 2, 23, &out->part[HOUR]) || !take(s, ':') ||
        !digits(s, 2, 59, &out->part[MINUTE]))
        return false;
    if (take(s, ':')) {
        if (!digits(s, 2, 60, &second))
            return false;
        if (take(s, '.')) {
            const char *first = s->at;
            while (s->at < s->end && *s->at >= '0' && *s->at <= '9')
                s->at++;
            if (s->at == first)
                return false;
        }
    }
    return read_zone(s);
}

static bool date_of_text(date *out, const char *text, size_t length)
{
    scan s = { text, text + length };
    int year, month, day;
    *out = (date){ { 0 } };
    if (!digits(&s, 4, 9999, &year) || !take(&s, '-') || !digits(&s, 2, 12, &month) ||
        !take(&s, '-') || !digits(&s, 2, 31, &day))
        return false;
    if (!month || !day || day > days_of(year, month - 1) || !read_time(&s, out) || s.at != s.end)
        return false;
    int64_t days = days_before(year) + day - 1;
    for (int m = 0; m < month - 1; m++)
        days += days_of(year, m);
    out->part[YEAR] = year;
    out->part[MONTH] = month - 1;
    out->part[DAY_OF_MONTH] = day - 1;
    out->part[WEEKDAY] = weekday_of(days);
    return true;
}

bool et_date_is(const char *text, size_t length)
{
    date unused;
    return date_of_text(&unused, text, length);
}

/* ---- the transform ---- */

void et_date_fit(et_fitted *fitted, const et_fitting *with)
{
    const et_feature_spec *spec = with->spec;
    for (int k = 0; k < PART_COUNT; k++) {
        bool chosen = !spec->part_count;
        for (int i = 0; i < spec->part_count; i++)
            chosen |= !strcmp(spec->parts[i], et_date_parts[k]);
        fitted->parts |= (unsigned)chosen << k;
        fitted->width += !chosen ? 0 : cycle[k] ? 3 : 1;
    }
    const char **names = et_arena_array(with->arena, (size_t)fitted->width, sizeof *names);
    fitted->column = names;
    for (int k = 0; names && k < PART_COUNT; k++) {
        if (!(fitted->parts >> k & 1))
            continue;
        *names++ = et_arena_printf(with->arena, "%s: %s", with->name, et_date_parts[k]);
        if (!cycle[k])
            continue;
        *names++ = et_arena_printf(with->arena, "%s: sine of %s", with->name, et_date_parts[k]);
        *names++ = et_arena_printf(with->arena, "%s: cosine of %s", with->name, et_date_parts[k]);
    }
}

int et_date_apply(const et_fitted *f, const et_reading *value, void *to, et_error *error)
{
    static const double turn = 6.283185307179586;
    date when;
    float *out = to;
    if (value->missing) {
        memset(to, 0, (size_t)f->width * sizeof *out);
        return ET_OK;
    }
    if (value->numeric && !date_of_seconds(&when, value->number))
        return et_fail(error, ET_EDATA,
                       "%g is not a time in seconds since 1970 (years 0 to 9999): correct it",
                       value->number);
    if (!value->numeric && !date_of_text(&when, value->text, value->length))
        return et_fail(error, ET_EDATA,
                       "\"%.*s\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00",
                       (int)(value->length < 40 ? value->length : 40), value->text);
    for (int k = 0; k < PART_COUNT; k++) {
        if (!(f->parts >> k & 1))
            continue;
        if (!cycle[k]) {
            *out++ = (float)((when.part[k] - 1970) / 100.0);
            continue;
        }
        double position = (double)when.part[k] / cycle[k];
        *out++ = (float)position;
        *out++ = (float)sin(turn * position);
        *out++ = (float)cos(turn * position);
    }
    et_assert_equal(out - (float *)to, f->width);
    return ET_OK;
}
