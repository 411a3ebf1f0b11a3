#include "data/table/rows/look.h"

#include <stdbool.h>
#include <string.h>

#include "data/table/rows/date_text.h"
#include "data/table/rows/number.h"

static bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* A date, or what is meant as one, such as 31.13.2024: three runs of digits of 1, 2 or 4 with the
 * same of - . / between. */
static bool is_date(const char *text, size_t length)
{
    if (et_date_orders(text, length))
        return true;
    size_t year = 0;
    char between = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = et_number_digits_at(text, length);
        if (digits != 1 && digits != 2 && digits != 4)
            return false;
        year += digits == 4;
        text += digits;
        length -= digits;
        if (part == 2)
            break;
        if (!length || (*text != '-' && *text != '.' && *text != '/') ||
            (between && *text != between))
            return false;
        between = *text++;
        length--;
    }
    return year <= 1 && (!length || *text == 'T' || *text == ' ');
}

/* 1,5 or 1.234,56: one comma with digits around, and points only before it. */
static bool has_decimal_comma(const char *text, size_t length)
{
    const char *comma = memchr(text, ',', length);
    if (!comma)
        return false;
    const char *end = text + length;
    size_t behind = et_number_digits_at(comma + 1, (size_t)(end - comma) - 1);
    bool digits = false;
    for (const char *at = text + (*text == '-' || *text == '+'); at < comma; at++) {
        if (!is_digit(*at) && *at != '.')
            return false;
        digits |= is_digit(*at);
    }
    return digits && behind && comma + 1 + behind == end;
}

/* Separators of thousands besides a comma. A single point may be a decimal point. */
static const struct {
    const char *bytes, *name;
} separators[] = {
    { " ", "blanks" },
    { "'", "apostrophes" },
    { "_", "underscores" },
    { ".", "points" },
    { "\u00a0", "no-break spaces (U+00A0)" },
    { "\u202f", "narrow no-break spaces (U+202F)" },
    { "\u2009", "thin spaces (U+2009)" },
    { "\u2007", "figure spaces (U+2007)" },
    { "\u2019", "apostrophes (U+2019)" },
};

static bool begins(const char *at, const char *end, const char *with, size_t length)
{
    return (size_t)(end - at) >= length && !memcmp(at, with, length);
}

/* 94,671 or 1,234,567.8: groups of three digits after the first, and a decimal part that begins
 * with one of decimals. 0,671 has a decimal comma. 94,671 may have a decimal comma as well, which
 * only other values of the column show; so a point must occur twice. */
static bool has_groups(const char *text, size_t length, const char *separator, const char *decimals)
{
    const char *at = text + (length && (*text == '-' || *text == '+')), *end = text + length;
    size_t digits = et_number_digits_at(at, (size_t)(end - at)), wide = strlen(separator);
    int groups = 0;
    if (!digits || digits > 3 || *at == '0')
        return false;
    at += digits;
    for (; begins(at, end, separator, wide); at += wide + 3, groups++)
        if (et_number_digits_at(at + wide, (size_t)(end - at) - wide) < 3)
            return false;
    if (groups < 1 + (*separator == '.'))
        return false;
    return at == end ||
           (strchr(decimals, *at) &&
            et_number_digits_at(at + 1, (size_t)(end - at) - 1) == (size_t)(end - at) - 1);
}

/* 12,34,567: groups of two digits, and one of three. */
static bool has_lakhs(const char *text, size_t length)
{
    const char *at = text + (length && *text == '-'), *end = text + length;
    size_t digits = et_number_digits_at(at, (size_t)(end - at));
    int groups = 0;
    at += digits;
    if (!digits || digits > 2)
        return false;
    for (; begins(at, end, ",", 1) && et_number_digits_at(at + 1, (size_t)(end - at) - 1) == 2;
         at += 3)
        groups++;
    return groups && begins(at, end, ",", 1) &&
           et_number_digits_at(at + 1, (size_t)(end - at) - 1) == 3 &&
           (at + 4 == end || at[4] == '.');
}

static bool has_thousands(const char *text, size_t length)
{
    return has_groups(text, length, ",", ".") || has_lakhs(text, length);
}

/* The name of the separator of thousands; NULL: there is none. */
static const char *separator_of(const char *text, size_t length)
{
    for (size_t i = 0; i < sizeof separators / sizeof *separators; i++)
        if (has_groups(text, length, separators[i].bytes, *separators[i].bytes == '.' ? "," : ".,"))
            return separators[i].name;
    return NULL;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool reads_as_number(const char *text, size_t length)
{
    double number;
    return et_number_is(et_number_parse(&number, text, length)) || has_thousands(text, length) ||
           separator_of(text, length) || has_decimal_comma(text, length);
}

static size_t characters(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += ((unsigned char)text[i] & 0xc0) != 0x80;
    return count;
}

/* A number with a sign before it or a short word after it: 12%, $1,500, 30 kg; C85 is a name. */
static bool has_unit(const char *text, size_t length)
{
    const size_t sign = length && (*text == '-' || *text == '+');
    size_t begin = sign, end = length;
    while (begin < end && !is_digit(text[begin]) && text[begin] != '-' && text[begin] != '.' &&
           !is_letter(text[begin]))
        begin++;
    begin = begin > sign ? begin : 0;
    while (end > begin && !is_digit(text[end - 1]))
        end--;
    return (begin > 0) != (end < length) &&
           characters(text, begin) + characters(text + end, length - end) <= 4 &&
           reads_as_number(text + begin, end - begin);
}

/* The length of another sign in place of a minus; 0: none. */
static size_t other_minus(const char *text, size_t length)
{
    static const char *const signs[] = { "\u2212", "\u2012", "\u2013" };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (begins(text, text + length, signs[i], strlen(signs[i])))
            return strlen(signs[i]);
    return 0;
}

et_look et_look_at(const char *text, size_t length, const char **separator)
{
    const size_t minus = other_minus(text, length);
    double number;
    *separator = NULL;
    if (minus && et_number_is(et_number_parse(&number, text + minus, length - minus)))
        return ET_LOOK_MINUS;
    text += minus;
    length -= minus;
    if (is_date(text, length))
        return ET_LOOK_DATE;
    if (has_thousands(text, length))
        return ET_LOOK_COMMAS;
    if ((*separator = separator_of(text, length)))
        return ET_LOOK_SEPARATED;
    if (has_decimal_comma(text, length))
        return ET_LOOK_DECIMAL;
    return has_unit(text, length) ? ET_LOOK_UNIT : ET_LOOK_NONE;
}
