/* A date has three components with separators: each is a number or the name of a month. A time may
 * follow. The number of digits, the separators and the order decide which component is the year,
 * the month and the day.
 *
 *   date    = [ weekday [ "," ] ] component separator component separator component [ when ]
 *           | yyyymmddThhmmss [ zone ]
 *           | weekday month day time [ zone ] year          as ctime() writes it
 *   when    = ( T | blank | ", " | " at " ) time [ zone ]
 *   time    = h[h]:mm [ :ss [ .digits | ,digits ] ] [ AM | PM ]
 *   zone    = Z | name | +hh[[:]mm] [ (name) ]
 *
 * Days are counted in 400-year cycles (Gregorian calendar, also before its time). */
#include "data/table/rows/date_text.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"

/* As POSIX's %y. */
#define CENTURY_FROM 69

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

/* 1970-01-01 was a Thursday. */
static int weekday_of(int64_t days)
{
    return (int)(((days + 3) % 7 + 7) % 7);
}

static void set_days(et_date *out, int64_t days)
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
    out->year = year;
    out->month = month;
    out->day = (int)left;
    out->weekday = weekday_of(days);
}

bool et_date_of_seconds(et_date *out, double seconds)
{
    if (!(seconds >= ET_DATE_SECONDS_LEAST && seconds < ET_DATE_SECONDS_END))
        return false;
    double days = floor(seconds / ET_DATE_DAY);
    int minute = (int)(floor(seconds - days * ET_DATE_DAY) / 60);
    set_days(out, (int64_t)days);
    out->hour = minute / 60;
    out->minute = minute % 60;
    return true;
}

const char *et_date_order_name(et_date_order order)
{
    static const char *const names[] = { "any", "month-first", "day-first", "time-of-day" };
    et_assert(order >= ET_DATE_ANY && order <= ET_DATE_TIME);
    return names[order];
}

bool et_date_order_parse(et_date_order *out, const char *name)
{
    for (int i = ET_DATE_MONTH_FIRST; i <= ET_DATE_TIME; i++)
        if (!strcmp(name, et_date_order_name((et_date_order)i))) {
            *out = (et_date_order)i;
            return true;
        }
    return false;
}

/* ---- characters ---- */

typedef struct scan {
    const char *at, *end;
} scan;

static bool take(scan *s, char c)
{
    bool there = s->at < s->end && *s->at == c;
    s->at += there;
    return there;
}

/* From `least` to `most` digits; the rest of the digits stays. Returns how many. */
static int digits(scan *s, int least, int most, int *out)
{
    int count = 0;
    *out = 0;
    for (; count < most && s->at < s->end && *s->at >= '0' && *s->at <= '9'; count++)
        *out = *out * 10 + (*s->at++ - '0');
    return count >= least ? count : 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* The whole word that comes next, without taking it. */
static size_t word_at(const scan *s)
{
    size_t length = 0;
    while (s->at + length < s->end && is_letter(s->at[length]))
        length++;
    return length;
}

/* Index of the next word in names, by at least its first three letters; -1: none. */
static int take_name(scan *s, const char *const *names)
{
    size_t length = word_at(s);
    for (int i = 0; names[i] && length >= 3; i++)
        if (length <= strlen(names[i]) && !strncasecmp(s->at, names[i], length)) {
            s->at += length;
            return i;
        }
    return -1;
}

static bool take_word(scan *s, const char *word)
{
    size_t length = strlen(word);
    if (word_at(s) != length || strncasecmp(s->at, word, length) != 0)
        return false;
    s->at += length;
    return true;
}

/* ---- time ---- */

/* EST, CEST: any name is accepted, because times are not converted. */
static bool take_zone_name(scan *s)
{
    const size_t length = word_at(s);
    bool upper = length >= 3 && length <= 5;
    for (size_t i = 0; upper && i < length; i++)
        upper = s->at[i] <= 'Z';
    if (!upper && !take_word(s, "Z") && !take_word(s, "UTC") && !take_word(s, "GMT"))
        return false;
    s->at += upper ? length : 0;
    return true;
}

static bool read_offset(scan *s)
{
    int part;
    if (!digits(s, 2, 2, &part) || part > 23)
        return false;
    const bool colon = take(s, ':');
    const int minutes = digits(s, 2, 2, &part);
    if (minutes ? part > 59 : colon)
        return false;
    const char *from = s->at;
    if (take(s, ' ') && take(s, '(') && take_zone_name(s) && take(s, ')'))
        return true;
    s->at = from;
    return true;
}

static bool read_zone(scan *s)
{
    const char *from = s->at;
    take(s, ' ');
    if (take_zone_name(s))
        return true;
    if (take(s, '+') || take(s, '-'))
        return read_offset(s);
    s->at = from;
    return true;
}

/* Python's logs write a comma before the fraction. */
static bool read_seconds(scan *s)
{
    int second, fraction;
    if (!take(s, ':'))
        return true;
    if (!digits(s, 2, 2, &second) || second > 60)
        return false;
    if (!take(s, '.') && !take(s, ','))
        return true;
    bool any = digits(s, 1, 1, &fraction);
    while (digits(s, 1, 1, &fraction))
        ;
    return any;
}

/* AM, p.m. */
static bool take_half(scan *s, char letter)
{
    const char word[] = { letter, 'M', 0 };
    const char *from = s->at;
    if (take_word(s, word))
        return true;
    const bool there = s->end - from >= 4 && !strncasecmp(from, word, 1) && from[1] == '.' &&
                       !strncasecmp(from + 2, word + 1, 1) && from[3] == '.';
    s->at += there ? 4 : 0;
    return there;
}

/* After the minutes: 12:30 AM is half past midnight. */
static bool read_half(scan *s, et_date *out)
{
    const char *from = s->at;
    take(s, ' ');
    bool morning = take_half(s, 'A'), evening = !morning && take_half(s, 'P');
    if (!morning && !evening) {
        s->at = from;
        return true;
    }
    if (out->hour < 1 || out->hour > 12)
        return false;
    out->hour = out->hour % 12 + (evening ? 12 : 0);
    return true;
}

static bool read_time(scan *s, et_date *out)
{
    return digits(s, 1, 2, &out->hour) && out->hour <= 23 && take(s, ':') &&
           digits(s, 2, 2, &out->minute) && out->minute <= 59 && read_seconds(s) &&
           read_half(s, out) && read_zone(s);
}

static bool read_when(scan *s, et_date *out)
{
    if (s->at == s->end)
        return true;
    bool comma = take(s, ',');
    if (!take(s, ' ') && (comma || !take(s, 'T')))
        return false;
    return (!take_word(s, "at") || take(s, ' ')) && read_time(s, out);
}

/* ---- date ---- */

static const char *const months[] = { "January",  "February", "March",  "April",     "May",
                                      "June",     "July",     "August", "September", "October",
                                      "November", "December", NULL };
static const char *const weekdays[] = { "Monday", "Tuesday",  "Wednesday", "Thursday",
                                        "Friday", "Saturday", "Sunday",    NULL };

typedef struct component {
    int value;
    int digits; /* 0: the name of a month, value from 1 */
} component;

static bool is_short(const component *c)
{
    return c->digits == 1 || c->digits == 2;
}

/* 31, 31st, May. */
static bool read_component(scan *s, component *out)
{
    out->digits = digits(s, 1, 4, &out->value);
    if (is_short(out))
        (void)(take_word(s, "st") || take_word(s, "nd") || take_word(s, "rd") ||
               take_word(s, "th"));
    if (out->digits)
        return out->digits != 3;
    out->value = take_name(s, months) + 1;
    return out->value > 0;
}

/* A point, a comma and a blank may stand together: "31. May, 2024". */
static char read_separator(scan *s)
{
    if (take(s, '-'))
        return '-';
    if (take(s, '/'))
        return '/';
    const char *from = s->at;
    bool point = take(s, '.'), comma = take(s, ','), blank = take(s, ' ');
    if (point && s->at == from + 1)
        return '.';
    return blank || comma ? ' ' : 0;
}

/* 4 digits, or 2 at the end. */
static bool read_year(const component *c, bool last, int *year)
{
    if (c->digits != 4 && !(last && c->digits == 2))
        return false;
    *year = c->digits == 4 ? c->value : c->value + (c->value < CENTURY_FROM ? 2000 : 1900);
    return true;
}

/* Which component is the year, the month and the day. */
static bool arrange(const component c[3], char separator, et_date_order order, int at[3])
{
    const bool named[] = { !c[0].digits, !c[1].digits, !c[2].digits };
    if (c[0].digits == 4) {
        at[0] = 0;
        at[1] = 1;
        at[2] = 2;
        return !named[2] && is_short(&c[2]) && (named[1] || is_short(&c[1]));
    }
    const bool day_first =
        named[1] || (!named[0] && (separator == '.' || order == ET_DATE_DAY_FIRST));
    at[0] = 2;
    at[1] = day_first ? 1 : 0;
    at[2] = day_first ? 0 : 1;
    return !named[2] && is_short(&c[at[2]]) && (named[at[1]] || is_short(&c[at[1]]));
}

static bool is_day(const et_date *date)
{
    return date->month >= 0 && date->month < 12 && date->day >= 0 &&
           date->day < days_of(date->year, date->month);
}

static bool read_components(scan *s, et_date *out, et_date_order order)
{
    component c[3];
    int at[3];
    if (!read_component(s, &c[0]))
        return false;
    const char first = read_separator(s);
    if (!first || !read_component(s, &c[1]))
        return false;
    const char second = read_separator(s);
    if (!second || !read_component(s, &c[2]))
        return false;
    const bool named = !c[0].digits || !c[1].digits;
    if (!named && (first != second || first == ' '))
        return false;
    if (!arrange(c, first, order, at) || !read_year(&c[at[0]], at[0] == 2, &out->year))
        return false;
    out->month = c[at[1]].value - 1;
    out->day = c[at[2]].value - 1;
    return true;
}

/* 20240531T143000Z. Without the time it is a number. */
static bool read_compact(scan *s, et_date *out)
{
    int second;
    if (!digits(s, 4, 4, &out->year) || !digits(s, 2, 2, &out->month) ||
        !digits(s, 2, 2, &out->day) || !take(s, 'T') || !digits(s, 2, 2, &out->hour) ||
        out->hour > 23 || !digits(s, 2, 2, &out->minute) || out->minute > 59)
        return false;
    out->month--;
    out->day--;
    return (!digits(s, 2, 2, &second) || second <= 60) && read_zone(s);
}

/* Fri May 31 14:30:00 UTC 2024, and with two blanks before a day of one digit. */
static bool read_ctime(scan *s, et_date *out)
{
    if (take_name(s, weekdays) < 0 || !take(s, ' '))
        return false;
    out->month = take_name(s, months);
    if (out->month < 0 || !take(s, ' '))
        return false;
    take(s, ' ');
    if (!digits(s, 1, 2, &out->day) || !take(s, ' ') || !read_time(s, out) || !take(s, ' '))
        return false;
    out->day--;
    return digits(s, 4, 4, &out->year) == 4;
}

static bool read_date(scan *s, et_date *out, et_date_order order)
{
    if (take_name(s, weekdays) >= 0) {
        take(s, ',');
        if (!take(s, ' '))
            return false;
    }
    return read_components(s, out, order) && read_when(s, out);
}

static void set_weekday(et_date *date)
{
    int64_t days = days_before(date->year) + date->day;
    for (int m = 0; m < date->month; m++)
        days += days_of(date->year, m);
    date->weekday = weekday_of(days);
}

bool et_date_read(et_date *out, const char *text, size_t length, et_date_order order)
{
    scan s = { text, text + length };
    *out = (et_date){ .year = 1970 };
    bool sound = order == ET_DATE_TIME ? read_time(&s, out) : read_date(&s, out, order);
    for (int form = 0; order != ET_DATE_TIME && form < 2 && !(sound && s.at == s.end); form++) {
        s = (scan){ text, text + length };
        *out = (et_date){ 0 };
        sound = form ? read_ctime(&s, out) : read_compact(&s, out);
    }
    if (!sound || s.at != s.end || !is_day(out))
        return false;
    set_weekday(out);
    return true;
}

/* Few texts are dates, and most of those that are none are seen by their first character. */
unsigned et_date_orders(const char *text, size_t length)
{
    et_date month_first, day_first, time;
    if (length < 4 || !(is_letter(*text) || (*text >= '0' && *text <= '9')))
        return 0;
    bool a = et_date_read(&month_first, text, length, ET_DATE_MONTH_FIRST);
    bool b = et_date_read(&day_first, text, length, ET_DATE_DAY_FIRST);
    bool same = a && b && !memcmp(&month_first, &day_first, sizeof month_first);
    bool only = !a && !b && et_date_read(&time, text, length, ET_DATE_TIME);
    return (unsigned)a << ET_DATE_MONTH_FIRST | (unsigned)b << ET_DATE_DAY_FIRST |
           (unsigned)same << ET_DATE_ANY | (unsigned)only << ET_DATE_TIME;
}
