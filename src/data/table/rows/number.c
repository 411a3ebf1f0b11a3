/* A number is w * 10^e: w the digits as an integer, e the written exponent less the digits behind
 * the point. Three ways from there to the nearest double, each exact:
 *
 *   (1) w <= 2^53, |e| <= 22: w and 10^|e| are doubles, so one product or quotient is rounded once
 *       (Clinger, How to read floating point numbers accurately, PLDI 1990);
 *   (2) w < 2^64, |e| <= 19: 10^|e| fits 64 bits; product or quotient in 128 bits, of the latter
 *       with whether there is a remainder, and rounded here. 17 digits, as other programs print
 *       doubles, come here;
 *   (3) the rest: strtod, of "digits e exponent": without a point no locale has a say in it. Of
 * more digits than a double's nearest can depend on the rest counts only as "not all zero". */
#include "data/table/rows/number.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/inline.h"
#include "data/table/rows/number_short.h"

_Static_assert(FLT_EVAL_METHOD == 0, "a product of doubles is rounded once");

__extension__ typedef unsigned __int128 wide;

/* No two doubles have a middle with more significant digits than 767. */
#define DIGITS_MAX 768

/* Digits that surely fit 64 bits. */
#define DIGITS_FAST 19

/* Past this the result is 0 or too large, whatever the digits: so far a sum of exponents does not
 * overflow. A text of more digits than that is longer than any row. */
#define EXPONENT_MAX 1000000000

const double et_number_tens[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                    1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                    1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };
static const uint64_t tens[] = { 1u,
                                 10u,
                                 100u,
                                 1000u,
                                 10000u,
                                 100000u,
                                 1000000u,
                                 10000000u,
                                 100000000u,
                                 1000000000u,
                                 10000000000u,
                                 100000000000u,
                                 1000000000000u,
                                 10000000000000u,
                                 100000000000000u,
                                 1000000000000000u,
                                 10000000000000000u,
                                 100000000000000000u,
                                 1000000000000000000u,
                                 10000000000000000000u };

/* What was written, once it is known to be a number: for way (3). */
typedef struct written {
    const char *digits; /* with the point among them */
    const char *end;    /* of them */
    int64_t exponent;   /* behind e */
    bool negative;
} written;

static inline bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

/* (mantissa, with 64 significant bits, and whether anything below it is not zero) * 2^exponent,
 * to the nearest double; far from the smallest and the largest. */
static double round_bits(uint64_t mantissa, bool rest, int exponent)
{
    et_assert(mantissa >> 63);
    uint64_t kept = mantissa >> 11, cut = mantissa & 0x7ff;
    if (cut > 0x400 || (cut == 0x400 && (rest || (kept & 1))))
        kept++;
    /* kept has the hidden bit: it adds 1 to the exponent's field, and a carry adds another. */
    uint64_t bits = ((uint64_t)(exponent + 11 + 52 + 1022) << 52) + kept;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* w * 10^exponent in 128 bits: w > 0, 0 <= exponent <= 19. */
static double multiply(uint64_t w, int exponent)
{
    wide product = (wide)w * tens[exponent];
    uint64_t high = (uint64_t)(product >> 64), low = (uint64_t)product;
    if (!high)
        return (double)low; /* the conversion rounds to nearest */
    int shift = __builtin_clzll(high);
    wide left = product << shift;
    return round_bits((uint64_t)(left >> 64), (uint64_t)left != 0, 64 - shift);
}

/* w / 10^exponent: w > 0, 1 <= exponent <= 19. The dividend has its highest bit set, the divisor
 * too, so the quotient has 64 or 65 bits; halving the dividend makes it 63 or 64. */
static double divide(uint64_t w, int exponent)
{
    int up = __builtin_clzll(w), down = __builtin_clzll(tens[exponent]);
    uint64_t divisor = tens[exponent] << down;
    wide dividend = (wide)(w << up) << 63;
    uint64_t quotient = (uint64_t)(dividend / divisor);
    bool rest = (uint64_t)dividend != quotient * divisor; /* the remainder has 64 bits */
    int power = down - up - 63;
    if (!(quotient >> 63)) {
        quotient <<= 1;
        power--;
    }
    return round_bits(quotient, rest, power);
}

/* Way (3), without the sign. Leading zeros are no digits; nor is the point, which moves the
 * exponent. */
static et_number parse_long(double *out, const written *number)
{
    char text[DIGITS_MAX + 32];
    size_t count = 0;
    int64_t exponent = number->exponent;
    bool behind = false, rest = false;
    for (const char *at = number->digits; at < number->end; at++) {
        if (*at == '.') {
            behind = true;
            continue;
        }
        if (count < DIGITS_MAX && (count || *at != '0'))
            text[count++] = *at;
        else {
            rest |= count && *at != '0';
            exponent += count ? 1 : 0;
        }
        exponent -= behind;
    }
    if (!count)
        text[count++] = '0';
    if (rest) {
        text[count++] = '1';
        exponent--;
    }
    if (exponent > EXPONENT_MAX || exponent < -EXPONENT_MAX)
        exponent = exponent < 0 ? -EXPONENT_MAX : EXPONENT_MAX;
    snprintf(text + count, sizeof text - count, "e%d", (int)exponent);
    double value = strtod(text, NULL);
    if (isinf(value))
        return ET_NUMBER_LARGE;
    *out = value;
    return ET_NUMBER_REAL;
}

/* What stands behind e, all of it. False: it is no exponent. Larger ones stay at EXPONENT_MAX. */
static bool parse_exponent(int64_t *out, const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t value = 0;
    at += at < end && (*at == '-' || *at == '+');
    if (at == end)
        return false;
    for (; at < end; at++) {
        if (!is_digit(*at))
            return false;
        value = value < EXPONENT_MAX ? value * 10 + (*at - '0') : EXPONENT_MAX;
    }
    *out = negative ? -value : value;
    return true;
}

/* Digits from *at on; returns how many. */
static inline size_t take_digits(uint64_t *w, const char **at, const char *end)
{
    const char *first = *at;
    for (; end - *at >= 8 && et_number_digits(et_number_load(*at)); *at += 8)
        *w = *w * 100000000 + et_number_value(et_number_load(*at));
    for (; *at < end && is_digit(**at); ++*at)
        *w = *w * 10 + (uint64_t)(**at - '0');
    return (size_t)(*at - first);
}

/* Any number: by one of the three ways. */
ET_APART et_number parse_any(double *out, const char *text, size_t length)
{
    const char *at = text, *end = text + length;
    written number = { .negative = length && *at == '-' };
    uint64_t w = 0;
    at += length && (*at == '-' || *at == '+');
    number.digits = at;
    size_t digits = take_digits(&w, &at, end), behind = 0;
    bool point = at < end && *at == '.';
    if (point) {
        at++;
        behind = take_digits(&w, &at, end);
    }
    number.end = at;
    bool whole = at == end && !point;
    if (!(digits + behind) || (at < end && ((*at != 'e' && *at != 'E') ||
                                            !parse_exponent(&number.exponent, at + 1, end))))
        return ET_NUMBER_NONE;
    int64_t exponent = number.exponent - (int64_t)behind;
    double value;
    et_number kind = ET_NUMBER_REAL;
    if (digits + behind > DIGITS_FAST) /* w has overflowed, or leads with zeros */
        kind = parse_long(&value, &number);
    else if (w <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22)
        value = exponent < 0 ? (double)w / et_number_tens[-exponent]
                             : (double)w * et_number_tens[exponent];
    else if (w && exponent >= -19 && exponent <= 19)
        value = exponent < 0 ? divide(w, (int)-exponent) : multiply(w, (int)exponent);
    else
        kind = parse_long(&value, &number);
    if (!et_number_is(kind))
        return kind;
    *out = number.negative ? -value : value;
    return whole ? ET_NUMBER_INTEGER : ET_NUMBER_REAL;
}

et_number et_number_parse(double *out, const char *text, size_t length)
{
    bool integer;
    if (length && et_number_short(out, &integer, text, length))
        return integer ? ET_NUMBER_INTEGER : ET_NUMBER_REAL;
    return parse_any(out, text, length);
}
