/* A text is peeled from both ends: blanks, a sign, parentheses, the unit, each once and in any
 * order. The rest is digits with separators, which are removed. */
#include "data/table/schema/notation.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/inline.h"
#include "base/numbers/decimal.h"
#include "base/text/unicode.h"
#include "data/table/schema/number_short.h"

const char *et_notation_name(et_notation notation)
{
    static const char *const names[] = { NULL, "point", "comma" };
    return (unsigned)notation <= ET_NOTATION_COMMA ? names[notation] : NULL;
}

/* A text with an end. */
typedef struct span {
    const char *at, *end;
} span;

static size_t begins(span s, const char *with)
{
    const size_t length = strlen(with);
    return (size_t)(s.end - s.at) >= length && !memcmp(s.at, with, length) ? length : 0;
}

static size_t ends(span s, const char *with)
{
    const size_t length = strlen(with);
    return begins((span){ s.end - s.at >= (ptrdiff_t)length ? s.end - length : s.end, s.end },
                  with);
}

/* Bytes of the first of words at the begin of a text; 0: none. */
static size_t begins_any(span s, const char *const *words)
{
    size_t length = 0;
    while (*words && !(length = begins(s, *words)))
        words++;
    return length;
}

static const char *const blanks[] = { " ", "\t", "\u00a0", "\u202f", "\u2009", "\u2007", NULL };
static const char *const separators[] = { ",",      ".",      " ",      "'",      "_", "\u00a0",
                                          "\u202f", "\u2009", "\u2007", "\u2019", NULL };
static const char *const minuses[] = { "-", "\u2212", "\u2012", "\u2013", NULL };

static size_t digits_at(span s)
{
    return et_number_digits_at(s.at, (size_t)(s.end - s.at));
}

/* ---- digits ---- */

typedef struct writer {
    char *out; /* [ET_NOTATION_BYTES] */
    size_t length;
    bool failed; /* no room */
} writer;

static void put(writer *w, const char *bytes, size_t count)
{
    if (count > ET_NOTATION_BYTES - w->length) {
        w->failed = true;
        return;
    }
    memcpy(w->out + w->length, bytes, count);
    w->length += count;
}

/* Takes the groups after the first, which has so many digits. *groups: how many. False: a group has
 * the wrong number of digits. */
static bool take_groups(span *s, size_t first, char decimal, writer *w, int *groups)
{
    const span separator = *s;
    const size_t wide = s->at < s->end && *s->at != decimal ? begins_any(*s, separators) : 0;
    bool lakhs = false;
    *groups = 0;
    if (!wide)
        return true;
    while ((size_t)(s->end - s->at) > wide && !memcmp(s->at, separator.at, wide)) {
        s->at += wide;
        const size_t digits = digits_at(*s);
        const bool two = digits == 2 && *separator.at == ',' && (lakhs || !*groups);
        if (digits != 3 && !two)
            return false;
        if (digits == 3 && lakhs && s->at + 3 < s->end && s->at[3] == ',')
            return false;
        put(w, s->at, digits);
        s->at += digits;
        lakhs = two;
        ++*groups;
    }
    return *groups && !lakhs && first <= 3;
}

/* Bytes of the exponent at the begin of a text; 0: none. */
static size_t exponent_at(span s)
{
    const char *from = s.at;
    if (s.at == s.end || (*s.at != 'e' && *s.at != 'E'))
        return 0;
    s.at++;
    s.at += s.at < s.end && (*s.at == '-' || *s.at == '+');
    const size_t digits = digits_at(s);
    return digits ? (size_t)(s.at - from) + digits : 0;
}

/* All of s is a number without sign. */
static bool take_digits(span s, et_notation notation, writer *w)
{
    const char decimal = notation == ET_NOTATION_COMMA ? ',' : '.';
    const size_t first = digits_at(s);
    const bool zero = first && *s.at == '0';
    size_t behind = 0;
    int groups;
    put(w, s.at, first);
    s.at += first;
    if (!take_groups(&s, first, decimal, w, &groups) || (groups && (!first || zero)))
        return false;
    if (s.at < s.end && *s.at == decimal) {
        s.at++;
        behind = digits_at(s);
        put(w, ".", 1);
        put(w, s.at, behind);
        s.at += behind;
    }
    const size_t exponent = groups ? 0 : exponent_at(s);
    put(w, s.at, exponent);
    return first + behind && s.at + exponent == s.end && !w->failed;
}

/* ---- the text around numbers ---- */

typedef struct around {
    char sign; /* 0: none */
    bool open, unit;
} around;

static bool peel_front(span *s, around *a, const char *unit)
{
    size_t wide = begins_any(*s, blanks);
    if (!wide && !a->sign && (wide = begins_any(*s, minuses)))
        a->sign = '-';
    else if (!wide && !a->sign && (wide = begins(*s, "+")))
        a->sign = '+';
    else if (!wide && !a->open && (wide = begins(*s, "(")))
        a->open = true;
    else if (!wide && unit && !a->unit && (wide = begins(*s, unit)))
        a->unit = true;
    s->at += wide;
    return wide;
}

static bool peel_back(span *s, around *a, bool *closed, const char *unit)
{
    size_t wide = 0;
    for (int i = 0; blanks[i] && !wide; i++)
        wide = ends(*s, blanks[i]);
    if (!wide && a->open && !*closed && (wide = ends(*s, ")")))
        *closed = true;
    else if (!wide && unit && !a->unit && (wide = ends(*s, unit)))
        a->unit = true;
    s->end -= wide;
    return wide;
}

static bool write_number(writer *w, const et_number_format *format, span s)
{
    around a = { 0 };
    bool closed = false;
    while (peel_front(&s, &a, format->unit))
        ;
    while (peel_back(&s, &a, &closed, format->unit))
        ;
    if (a.open != closed || (a.open && a.sign))
        return false;
    if (a.open || a.sign)
        put(w, a.open ? "-" : &a.sign, 1);
    return take_digits(s, format->notation, w);
}

const char *et_notation_plain(const et_number_format *format, char out[ET_NOTATION_BYTES],
                              const char *text, size_t *length)
{
    if (format->notation == ET_NOTATION_PLAIN)
        return text;
    writer w = { out, 0, false };
    const bool sound = write_number(&w, format, (span){ text, text + *length });
    *length = w.length;
    return sound ? out : NULL;
}

et_number et_notation_parse(double *out, const et_number_format *format, const char *text,
                            size_t length)
{
    char plain[ET_NOTATION_BYTES];
    if (format->notation != ET_NOTATION_COMMA) {
        const et_number kind = et_number_parse(out, text, length);
        if (kind || !format->notation)
            return kind;
    }
    text = et_notation_plain(format, plain, text, &length);
    return text ? et_number_parse(out, text, length) : ET_NUMBER_NONE;
}

/* ---- finding a unit ---- */

/* Currencies before a number. A longer text comes before a shorter one with which it begins. */
static const char *const currencies[] = {
    "US$", "AU$", "CA$", "HK$", "NZ$", "NT$", "A$",  "C$",  "R$",  "S$",  "$",   "AED", "ARS",
    "AUD", "BGN", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK", "EGP", "EUR", "GBP",
    "HKD", "HUF", "IDR", "ILS", "INR", "JPY", "KES", "KRW", "MAD", "MXN", "MYR", "NGN", "NOK",
    "NZD", "PEN", "PHP", "PKR", "PLN", "RON", "RSD", "RUB", "SAR", "SEK", "SGD", "THB", "TRY",
    "TWD", "UAH", "USD", "VND", "ZAR", "Fr.", "Kr.", "kr.", "kr",  "Rs.", "Rs",  "Rp",  NULL,
};

/* Signs of currencies that are not ASCII: of U+00A0 to U+00BF, and U+20A0 to U+20CF. */
static size_t currency_sign(span s)
{
    const unsigned char *at = (const unsigned char *)s.at;
    const size_t there = (size_t)(s.end - s.at);
    if (there >= 2 && at[0] == 0xc2 && at[1] >= 0xa2 && at[1] <= 0xa5)
        return 2;
    const bool block = there >= 3 && at[0] == 0xe2 && (at[1] == 0x82 || at[1] == 0x83);
    return block && (at[1] == 0x83 ? at[2] <= 0x8f : at[2] >= 0xa0) ? 3 : 0;
}

/* The bytes of the digits and separators that a text begins with. */
static size_t number_at(span s)
{
    const char *from = s.at;
    for (size_t wide = 1; s.at < s.end && wide;) {
        wide = et_ascii_is_digit(*s.at) ? 1 : begins_any(s, separators);
        if (!wide ||
            !(et_ascii_is_digit(*s.at) || (s.at + wide < s.end && et_ascii_is_digit(s.at[wide]))))
            break;
        s.at += wide;
    }
    return (size_t)(s.at - from);
}

/* Characters of a unit. */
#define UNIT_CHARACTERS 12

/* Whether s is a unit in the form that follows a number: m2, km/h, %, °C, but not -5, /12 or ½. */
static bool is_unit(span s)
{
    static const char *const figures[] = { "\u00b2", "\u00b3", "\u00bc", "\u00bd", "\u00be", NULL };
    const size_t length = (size_t)(s.end - s.at);
    size_t characters = 0;
    if (!length || length > ET_UNIT_BYTES ||
        !(et_ascii_is_letter(*s.at) || *s.at == '%' || *s.at == '$' ||
          (unsigned char)*s.at >= 0xc2) ||
        begins_any(s, minuses) || begins_any(s, separators) || begins_any(s, figures))
        return false;
    for (const char *at = s.at; at < s.end; at++) {
        const unsigned char c = (unsigned char)*at;
        characters += (c & 0xc0) != 0x80;
        const char next = at + 1 < s.end ? at[1] : ' ';
        if (et_ascii_is_digit(*at)
                ? (!et_ascii_is_letter(at[-1]) && at[-1] != '^') || et_ascii_is_letter(next)
                : c < 0x80 && !et_ascii_is_letter(*at) && !strchr("%$/.^ ", c))
            return false;
    }
    return characters <= UNIT_CHARACTERS;
}

/* Finds the unit of a text whose rest is a number; at NULL: no unit. */
static span find_unit(span s)
{
    around a = { 0 };
    bool closed = false;
    while (peel_front(&s, &a, NULL))
        ;
    const size_t sign = currency_sign(s);
    const size_t length = sign ? sign : begins_any(s, currencies);
    if (length && s.at + length < s.end && !et_ascii_is_letter(s.at[length]))
        return (span){ s.at, s.at + length };
    while (peel_back(&s, &a, &closed, NULL))
        ;
    s.at += number_at(s);
    s.at += exponent_at(s);
    s.at += begins_any(s, blanks);
    return is_unit(s) ? s : (span){ NULL, NULL };
}

/* Most texts of a table are words. */
static bool may_be_number(const char *text, size_t length)
{
    for (size_t i = 0; i < length && i < 16; i++)
        if (et_ascii_is_digit(text[i]))
            return true;
    return false;
}

et_noted et_notation_find(const char *text, size_t length)
{
    char unit[ET_UNIT_BYTES + 1] = "";
    double number[ET_NOTATION_COMMA + 1];
    et_noted noted = { 0 };
    if (!may_be_number(text, length))
        return noted;
    const span found = find_unit((span){ text, text + length });
    if (found.at) {
        noted.unit_at = (size_t)(found.at - text);
        noted.unit_length = (size_t)(found.end - found.at);
        et_assert(noted.unit_length <= ET_UNIT_BYTES);
        memcpy(unit, found.at, noted.unit_length);
        unit[noted.unit_length] = 0;
    }
    for (et_notation n = ET_NOTATION_POINT; n <= ET_NOTATION_COMMA; n++) {
        const et_number_format format = { n, found.at ? unit : NULL };
        if (et_number_is(et_notation_parse(&number[n], &format, text, length)))
            noted.notations |= 1u << n;
    }
    noted.differs = noted.notations == (1u << ET_NOTATION_POINT | 1u << ET_NOTATION_COMMA) &&
                    number[ET_NOTATION_POINT] != number[ET_NOTATION_COMMA];
    return noted;
}

/* ---- plain numbers ---- */

/* Numbers in texts. Most numbers are parsed by number_short.h, all others by et_decimal_parse,
 * which uses the C++ library. The short way remains because it reads most tables faster: a number
 * with six decimals takes 8 ns compared with 20 ns of the library, a number with two digits 7 ns
 * compared with 13 ns (EPYC, GCC 12's library; bench_csv, row floats). */

const double et_number_tens[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

ET_NOINLINE static et_number parse_any(double *out, const char *text, size_t length)
{
    const size_t plus = length && *text == '+', sign = plus || (length && *text == '-');
    double value;
    if (plus && length > 1 && text[1] == '-')
        return ET_NUMBER_NONE;
    const size_t read = et_decimal_parse(&value, text + plus, length - plus);
    if (!read || plus + read < length)
        return ET_NUMBER_NONE;
    if (isinf(value))
        return ET_NUMBER_LARGE;
    *out = value;
    return sign + et_number_digits_at(text + sign, length - sign) == length ? ET_NUMBER_INTEGER
                                                                            : ET_NUMBER_REAL;
}

et_number et_number_parse(double *out, const char *text, size_t length)
{
    bool integer;
    if (length && et_number_short(out, &integer, text, length))
        return integer ? ET_NUMBER_INTEGER : ET_NUMBER_REAL;
    return parse_any(out, text, length);
}
