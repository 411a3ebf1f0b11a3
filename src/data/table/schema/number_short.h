/* The fast parser for most numbers: up to 16 bytes of digits and a point after the sign. It reads
 * eight digits at a time, the first one lowest (Lemire: Number parsing at a gigabyte per second,
 * 2021, after Mula), and removes the point. Exact: integers up to 2^53 and powers of ten up to
 * 10^22 are doubles, so their quotient is rounded once (Clinger: How to read floating point numbers
 * accurately, PLDI 1990). */
#ifndef ETUDE_DATA_TABLE_SCHEMA_NUMBER_SHORT_H
#define ETUDE_DATA_TABLE_SCHEMA_NUMBER_SHORT_H

#include <float.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

_Static_assert(FLT_EVAL_METHOD == 0, "a quotient of doubles is rounded once");

#define ET_NUMBER_ZEROS 0x3030303030303030u

/* 10^0 to 10^22, which doubles are exactly. */
extern const double et_number_tens[23];

static inline uint64_t et_number_load(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* One to seven bytes as the last of eight, with the digit 0 before them. */
static inline uint64_t et_number_load_few(const char *at, size_t length)
{
    const unsigned char *bytes = (const unsigned char *)at;
    const unsigned free = 64 - 8 * (unsigned)length;
    uint64_t word;
    if (length >= 4) {
        uint64_t first = bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
                         (uint64_t)bytes[3] << 24;
        bytes += length - 4;
        uint64_t last = bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
                        (uint64_t)bytes[3] << 24;
        word = last << 32 | first << free;
    } else
        word = (uint64_t)bytes[0] << free |
               (uint64_t)bytes[length / 2] << (free + 8 * (length / 2)) |
               (uint64_t)bytes[length - 1] << 56;
    return word | (ET_NUMBER_ZEROS & (((uint64_t)1 << free) - 1));
}

static inline bool et_number_digits(uint64_t word)
{
    return !(((word + 0x4646464646464646u) | (word - ET_NUMBER_ZEROS)) & 0x8080808080808080u);
}

/* The value of eight digits. */
static inline uint64_t et_number_value(uint64_t word)
{
    const uint64_t mask = 0x000000ff000000ffu;
    word -= ET_NUMBER_ZEROS;
    word = word * 10 + (word >> 8);
    return ((word & mask) * 0x000f424000000064u + ((word >> 16) & mask) * 0x0000271000000001u) >>
           32;
}

/* The position, in bits, of the first byte that is not a digit and may be a point; 64: none. Digits
 * have the tested bit; a point does not. */
static inline int et_number_odd(uint64_t word)
{
    uint64_t odd = ~word & 0x1010101010101010u;
    return odd ? __builtin_ctzll(odd) & ~7 : 64;
}

/* Removes the point at a position: the bytes before it move up, and one byte moves in. False: the
 * byte is not a point. */
static inline bool et_number_take_point(uint64_t *word, int position, uint64_t before)
{
    const uint64_t from = ~(uint64_t)0 << position;
    bool point = (*word >> position & 0xff) == '.';
    *word = (*word & from << 8) | (*word & ~from) << 8 | before;
    return point;
}

/* Nine to sixteen bytes. *behind: the number of digits after the point. */
static inline bool et_number_two_words(uint64_t *w, int *behind, bool *point, const char *at,
                                       size_t count)
{
    uint64_t high = et_number_load(at + count - 8);
    uint64_t low = count == 16 ? et_number_load(at) : et_number_load_few(at, count - 8);
    int in_low = et_number_odd(low), in_high = et_number_odd(high);
    bool sound = true;
    *point = in_low < 64 || in_high < 64;
    *behind = 0;
    if (in_low < 64) {
        *behind = 15 - in_low / 8;
        sound = et_number_take_point(&low, in_low, '0');
    } else if (in_high < 64) {
        *behind = 7 - in_high / 8;
        sound = et_number_take_point(&high, in_high, low >> 56);
        low = low << 8 | '0';
    }
    *w = et_number_value(low) * 100000000 + et_number_value(high);
    return sound && et_number_digits(low) && et_number_digits(high) && *w <= (uint64_t)1 << 53;
}

/* False: use another way; the outputs are undefined. *integer: only digits. */
static inline bool et_number_short(double *out, bool *integer, const char *text, size_t length)
{
    /* Signs are often random: no branch depends on them. */
    static const double signs[2] = { 1, -1 };
    const char first = *text;
    const bool negative = first == '-';
    const char *at = text + (negative | (first == '+'));
    const size_t count = length - (size_t)(at - text);
    uint64_t w;
    int behind = 0;
    bool point;
    if (count - 1 >= 16) /* or none */
        return false;
    if (count > 8) {
        if (!et_number_two_words(&w, &behind, &point, at, count))
            return false;
    } else {
        uint64_t word = count == 8 ? et_number_load(at) : et_number_load_few(at, count);
        int position = et_number_odd(word);
        point = position < 64;
        if (point && (!et_number_take_point(&word, position, '0') || count == 1))
            return false;
        behind = point ? 7 - position / 8 : 0;
        if (!et_number_digits(word))
            return false;
        w = et_number_value(word);
    }
    *integer = !point;
    *out = (double)w / et_number_tens[behind] * signs[negative];
    return true;
}

#endif
