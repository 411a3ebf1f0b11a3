/* A date has three components with separators: each is a number or the name of a month. A time may
 * follow. The number of digits, the separators and the order decide which component is the year,
 * the month and the day.
 *
 *   date    = [ weekday [ "," ] ] component separator component separator component [ when ]
 *           | yyyymmddThhmmss [ zone ]
 *           | weekday month day time [ zone ] year          as ctime() writes it
 *           | yyyy [ "-" ] Www [ [ "-" ] d [ when ] ]       ISO 8601: d is 1 on Monday
 *           | yyyy ( "-" | "/" ) mm | mm ( "-" | "/" ) yyyy | month yyyy | yyyy month
 *           | yyyy Qn | Qn yyyy | nQ yyyy                   quarters; Hn: half years
 *   when    = ( T | blank | ", " | " at " | ":" after the name of a month ) time [ zone ]
 *   time    = h[h]:mm [ :ss [ .digits | ,digits ] ] [ AM | PM ] | h[h] ( AM | PM ) | Thh
 *   zone    = Z | name | [ UTC ] +hh[[:]mm] [ (name) | [name] ]
 *
 * A week, month, quarter or half year is its first day.
 *
 * Days are counted in 400-year cycles (Gregorian calendar, also before its time). */
#include "data/table/schema/date_text.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/text/unicode.h"

/* As POSIX's %y. */
#define CENTURY_FROM 69
/* Years of dates without a day: 4711-08 is rather a code. */
#define PERIOD_FROM 1000
#define PERIOD_END  3000

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
    double left = seconds - days * ET_DATE_DAY;
    int minute = (int)(left / 60);
    *out = (et_date){ .hour = minute / 60, .minute = minute % 60, .second = left - minute * 60.0 };
    set_days(out, (int64_t)days);
    return true;
}

static int64_t days_since(const et_date *date)
{
    int64_t days = days_before(date->year) + date->day;
    for (int m = 0; m < date->month; m++)
        days += days_of(date->year, m);
    return days;
}

double et_date_seconds(const et_date *date)
{
    return (double)days_since(date) * ET_DATE_DAY +
           (double)((date->hour * 60 + date->minute - date->offset) * 60) + date->second;
}

const char *const et_date_order_names[] = { "any", "month-first", "day-first", "time-of-day",
                                            NULL };

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
    for (; count < most && s->at < s->end && et_ascii_is_digit(*s->at); count++)
        *out = *out * 10 + (*s->at++ - '0');
    return count >= least ? count : 0;
}

/* The whole word that comes next, without taking it. */
static size_t word_at(const scan *s)
{
    size_t length = 0;
    while (s->at + length < s->end && et_ascii_is_letter(s->at[length]))
        length++;
    return length;
}

/* Index of the next word in names, which must have at least the first three letters of a name; -1:
 * none. */
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

/* Names of zones: RFC 5322, and names of the tz database that mean one offset in practice. */
static const struct {
    const char *name;
    int offset; /* hours */
} zones[] = {
    { "Z", 0 },     { "UT", 0 },    { "UTC", 0 },   { "GMT", 0 },   { "EST", -5 }, { "EDT", -4 },
    { "CST", -6 },  { "CDT", -5 },  { "MST", -7 },  { "MDT", -6 },  { "PST", -8 }, { "PDT", -7 },
    { "WET", 0 },   { "BST", 1 },   { "WEST", 1 },  { "CET", 1 },   { "CEST", 2 }, { "EET", 2 },
    { "EEST", 3 },  { "MSK", 3 },   { "HKT", 8 },   { "SGT", 8 },   { "JST", 9 },  { "KST", 9 },
    { "AEST", 10 }, { "AEDT", 11 }, { "NZST", 12 }, { "NZDT", 13 },
};

#define UTC_NAMES 4 /* the first ones, in any case */

/* An unknown name of 3 to 5 capitals is also a zone, identified by its letters. */
static bool take_zone_name(scan *s, et_date *out)
{
    const size_t length = word_at(s);
    for (size_t i = 0; i < sizeof zones / sizeof *zones; i++)
        if (length == strlen(zones[i].name) &&
            !(i < UTC_NAMES ? strncasecmp : strncmp)(s->at, zones[i].name, length)) {
            out->zone = ET_DATE_OFFSET;
            out->offset = zones[i].offset * 60;
            s->at += length;
            return true;
        }
    if (length < 3 || length > 5)
        return false;
    out->zone = 0;
    for (size_t i = 0; i < length; i++) {
        if (s->at[i] > 'Z')
            return false;
        out->zone = out->zone * 27 + (s->at[i] - 'A' + 1);
    }
    s->at += length;
    return true;
}

/* Skips the words for an offset: " (Central European Summer Time)", "[Europe/Berlin]", " UTC". */
static void skip_remark(scan *s)
{
    const char *from = s->at;
    const bool blank = take(s, ' ');
    et_date again;
    if (blank && take_zone_name(s, &again))
        return;
    const char end = take(s, '(') ? ')' : !blank && take(s, '[') ? ']' : 0;
    while (end && s->at < s->end && *s->at != end)
        s->at++;
    if (!end || !take(s, end))
        s->at = from;
}

/* least: digits of the hours. */
static bool read_offset(scan *s, et_date *out, int least)
{
    int hours, minutes = 0;
    const bool west = take(s, '-');
    if ((!west && !take(s, '+')) || !digits(s, least, 2, &hours) || hours > 23)
        return false;
    const bool colon = take(s, ':');
    if (digits(s, 2, 2, &minutes) ? minutes > 59 : colon)
        return false;
    out->zone = ET_DATE_OFFSET;
    out->offset = (hours * 60 + minutes) * (west ? -1 : 1);
    return true;
}

static bool comes_offset(const scan *s)
{
    return s->at < s->end && (*s->at == '+' || *s->at == '-');
}

static bool read_zone(scan *s, et_date *out)
{
    const char *from = s->at;
    take(s, ' ');
    const bool name = take_zone_name(s, out);
    if (!name && !comes_offset(s)) {
        s->at = from;
        return true;
    }
    const bool utc = name && out->zone == ET_DATE_OFFSET && !out->offset;
    if ((!name || (utc && comes_offset(s))) && !read_offset(s, out, utc ? 1 : 2))
        return false;
    skip_remark(s);
    return true;
}

/* 60: a leap second. */
static bool read_second(scan *s, et_date *out)
{
    int second;
    if (!digits(s, 2, 2, &second) || second > 60)
        return false;
    out->second = second;
    /* Nanoseconds; further digits are ignored. Python's logs write a comma before the fraction. */
    int digit, count = 0, nanoseconds = 0;
    if (!take(s, '.') && !take(s, ','))
        return true;
    for (; digits(s, 1, 1, &digit); count++)
        nanoseconds = count < 9 ? nanoseconds * 10 + digit : nanoseconds;
    const bool any = count > 0;
    for (; count < 9; count++)
        nanoseconds *= 10;
    out->second += nanoseconds / 1e9;
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

/* A blank, or a no-break space as browsers write it (U+00A0, U+202F). */
static void skip_blank(scan *s)
{
    static const char *const blanks[] = { " ", "\xc2\xa0", "\xe2\x80\xaf" };
    for (size_t i = 0; i < sizeof blanks / sizeof *blanks; i++) {
        const size_t length = strlen(blanks[i]);
        if ((size_t)(s->end - s->at) >= length && !memcmp(s->at, blanks[i], length)) {
            s->at += length;
            return;
        }
    }
}

/* After the minutes: 12:30 AM is half past midnight. */
static bool read_half(scan *s, et_date *out, bool *there)
{
    const char *from = s->at;
    skip_blank(s);
    bool morning = take_half(s, 'A'), evening = !morning && take_half(s, 'P');
    *there = morning || evening;
    if (!*there) {
        s->at = from;
        return true;
    }
    if (out->hour < 1 || out->hour > 12)
        return false;
    out->hour = out->hour % 12 + (evening ? 12 : 0);
    return true;
}

/* bare: two digits alone are an hour. */
static bool read_time(scan *s, et_date *out, bool bare)
{
    const int count = digits(s, 1, 2, &out->hour);
    const bool minutes = take(s, ':');
    bool half;
    if (!count || out->hour > 23 ||
        (minutes && (!digits(s, 2, 2, &out->minute) || out->minute > 59)) ||
        (minutes && take(s, ':') && !read_second(s, out)) || !read_half(s, out, &half))
        return false;
    return (minutes || half || (bare && count == 2)) && read_zone(s, out);
}

static bool read_when(scan *s, et_date *out, bool colon)
{
    if (s->at == s->end)
        return true;
    if (colon && take(s, ':'))
        return read_time(s, out, false);
    if (take(s, 'T') || take(s, 't'))
        return read_time(s, out, true);
    take(s, ',');
    return take(s, ' ') && (!take_word(s, "at") || take(s, ' ')) && read_time(s, out, false);
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

/* A point, a comma and a blank may come together: "31. May, 2024", "31. 5. 2024". colon: as cameras
 * write it, 2024:05:31. */
static char read_separator(scan *s, bool colon)
{
    if (take(s, '-'))
        return '-';
    if (take(s, '/'))
        return '/';
    if (colon && take(s, ':'))
        return ':';
    bool point = take(s, '.'), comma = take(s, ','), blank = take(s, ' ');
    return point && !comma ? '.' : blank || comma ? ' ' : 0;
}

/* 4 digits, or 2 at the end. */
static bool read_year(const component *c, bool last, int *year)
{
    if (c->digits != 4 && !(last && c->digits == 2))
        return false;
    *year = c->digits == 4 ? c->value : c->value + (c->value < CENTURY_FROM ? 2000 : 1900);
    return true;
}

/* Finds the components that are the year, the month and the day. */
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

/* named: whether the month has a name. */
static bool read_components(scan *s, et_date *out, et_date_order order, bool *named)
{
    component c[3];
    int at[3];
    if (!read_component(s, &c[0]))
        return false;
    const bool colon = c[0].digits == 4;
    const char first = read_separator(s, colon);
    if (!first || !read_component(s, &c[1]))
        return false;
    const char second = read_separator(s, colon);
    if (!second || !read_component(s, &c[2]))
        return false;
    *named = !c[0].digits || !c[1].digits;
    if (!*named && (first != second || first == ' '))
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
    if (!digits(s, 4, 4, &out->year) || !digits(s, 2, 2, &out->month) ||
        !digits(s, 2, 2, &out->day) || !take(s, 'T') || !digits(s, 2, 2, &out->hour) ||
        out->hour > 23 || !digits(s, 2, 2, &out->minute) || out->minute > 59)
        return false;
    out->month--;
    out->day--;
    const bool seconds = s->at < s->end && et_ascii_is_digit(*s->at);
    return (!seconds || read_second(s, out)) && read_zone(s, out);
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
    if (!digits(s, 1, 2, &out->day) || !take(s, ' ') || !read_time(s, out, false) || !take(s, ' '))
        return false;
    out->day--;
    return digits(s, 4, 4, &out->year) == 4;
}

/* Q3, H2: a quarter, a half year. number: 0, or the number before the letter. */
static bool read_part_of_year(scan *s, et_date *out, int number)
{
    const bool quarter = take(s, 'Q') || take(s, 'q');
    if ((!quarter && !take(s, 'H') && !take(s, 'h')) || (!number && !digits(s, 1, 1, &number)))
        return false;
    out->month = (number - 1) * (quarter ? 3 : 6);
    return number >= 1 && number <= (quarter ? 4 : 2);
}

/* 2024-W10-7, 2024-Q3, 2024 May, 2024-05. */
static bool read_year_first(scan *s, et_date *out)
{
    const char separator = read_separator(s, false), *from = s->at;
    if ((!separator || separator == '-') && take(s, 'W')) {
        /* After the year: W10-7, W10, W107. Week 1 has January 4. */
        int week, day = 1;
        const int year = out->year;
        if (!digits(s, 2, 2, &week) || week < 1)
            return false;
        const bool sign = take(s, '-'), has_day = digits(s, 1, 1, &day);
        if (has_day ? day < 1 || day > 7 : sign)
            return false;
        day = has_day ? day : 1;
        const int64_t fourth = days_before(year) + 3;
        const int64_t monday = fourth - weekday_of(fourth) + (int64_t)(week - 1) * 7;
        set_days(out, monday + 3);
        if (out->year != year) /* a year of 52 weeks has no week 53 */
            return false;
        set_days(out, monday + day - 1);
        return !has_day || read_when(s, out, false);
    }
    if (read_part_of_year(s, out, 0))
        return true;
    s->at = from;
    out->month = separator ? take_name(s, months) : -1;
    if (out->month >= 0 || (separator != '-' && separator != '/'))
        return out->month >= 0;
    const bool two = digits(s, 2, 2, &out->month);
    out->month--;
    return two;
}

/* Q3 2024, 3Q2024, May 2024, 05/2024. number: the number at the begin; 0: the text begins with a
 * letter. */
static bool read_year_last(scan *s, et_date *out, int number)
{
    bool named = !number && (out->month = take_name(s, months)) >= 0;
    named = named || read_part_of_year(s, out, number);
    out->month = named ? out->month : number - 1;
    const char separator = read_separator(s, false);
    return (named || separator == '-' || separator == '/') && digits(s, 4, 4, &out->year);
}

/* A week, a month, a quarter or half a year. */
static bool read_period(scan *s, et_date *out)
{
    int number;
    const int count = digits(s, 1, 4, &number);
    out->year = number;
    return (count == 4 ? read_year_first(s, out) : read_year_last(s, out, number)) &&
           out->year >= PERIOD_FROM && out->year < PERIOD_END;
}

static bool read_date(scan *s, et_date *out, et_date_order order)
{
    bool named;
    if (take_name(s, weekdays) >= 0) {
        take(s, ',');
        if (!take(s, ' '))
            return false;
    }
    return read_components(s, out, order, &named) && read_when(s, out, named);
}

bool et_date_read(et_date *out, const char *text, size_t length, et_date_order order)
{
    scan s = { text, text + length };
    *out = (et_date){ .year = 1970 };
    bool sound = order == ET_DATE_TIME ? read_time(&s, out, false) : read_date(&s, out, order);
    for (int form = 0; order != ET_DATE_TIME && form < 3 && !(sound && s.at == s.end); form++) {
        s = (scan){ text, text + length };
        *out = (et_date){ 0 };
        sound = form == 0   ? read_compact(&s, out)
                : form == 1 ? read_ctime(&s, out)
                            : read_period(&s, out);
    }
    if (!sound || s.at != s.end || !is_day(out))
        return false;
    out->weekday = weekday_of(days_since(out));
    return true;
}

/* Few texts are dates; the first character excludes most others. */
unsigned et_date_orders(const char *text, size_t length)
{
    et_date month_first, day_first, time;
    if (length < 3 || !(et_ascii_is_letter(*text) || et_ascii_is_digit(*text)))
        return 0;
    bool a = et_date_read(&month_first, text, length, ET_DATE_MONTH_FIRST);
    bool b = et_date_read(&day_first, text, length, ET_DATE_DAY_FIRST);
    bool same = a && b && month_first.month == day_first.month && month_first.day == day_first.day;
    bool only = !a && !b && et_date_read(&time, text, length, ET_DATE_TIME);
    return (unsigned)a << ET_DATE_MONTH_FIRST | (unsigned)b << ET_DATE_DAY_FIRST |
           (unsigned)same << ET_DATE_ANY | (unsigned)only << ET_DATE_TIME;
}
