/* A sum consists of digits and a head. A value is added to the head if that is exact, otherwise to
 * the digits.
 *
 * A double is m 2^(p - 1074) with 53 bits of m and p from 0 to 2045: its bits touch three digits,
 * to which they are added or from which they are subtracted. A digit then grows by less than 2^32
 * per addition, so 2^30 additions fit next to the rest of the carries; then carries are moved.
 *
 * Settled: the head is 0, all digits except the last are in 0 .. 2^32 - 1, the last has the sign.
 * Each sum has exactly one such form. */
#include "metric/exact_sum.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <etude/state.h>

#define LAST       (ET_EXACT_DIGITS - 1)
#define DIGIT_BITS 32
#define DIGIT_MASK 0xffffffff
#define LOWEST     (-1074) /* exponent of bit 0 */
#define WAITING    (UINT32_C(1) << 30)

enum { PLUS = 1, MINUS = 2, NOT_A_NUMBER = 4 };

static void add_digits(et_exact_sum *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t exponent = bits >> 52 & 0x7ff, mantissa = bits & ((UINT64_C(1) << 52) - 1);
    /* Subnormal numbers have no hidden bit, and the place of the smallest normal ones. */
    mantissa |= (uint64_t)(exponent != 0) << 52;
    uint64_t position = exponent ? exponent - 1 : 0;
    uint64_t shift = position % DIGIT_BITS;
    int64_t *digit = &sum->digit[position / DIGIT_BITS];
    int64_t low = (int64_t)(mantissa << shift & DIGIT_MASK);
    uint64_t above = mantissa >> (DIGIT_BITS - shift); /* of the first digit's bits */
    int64_t middle = (int64_t)(above & DIGIT_MASK), high = (int64_t)(above >> DIGIT_BITS);
    int64_t sign = bits >> 63 ? -1 : 1;
    digit[0] += sign * low;
    digit[1] += sign * middle;
    digit[2] += sign * high;
    sum->waiting++;
}

void et_exact_sum_add_digits(et_exact_sum *sum, double value)
{
    if (!isfinite(value)) {
        sum->special |= isnan(value) ? NOT_A_NUMBER : value > 0 ? PLUS : MINUS;
        return;
    }
    add_digits(sum, value);
    if (sum->waiting == WAITING)
        et_exact_sum_settle(sum);
}

/* Floored: >> of a negative number takes the carry that leaves a digit of 0 or more. */
void et_exact_sum_settle(et_exact_sum *sum)
{
    add_digits(sum, sum->head);
    sum->head = 0;
    for (int i = 0; i < LAST; i++) {
        sum->digit[i + 1] += sum->digit[i] >> DIGIT_BITS;
        sum->digit[i] &= DIGIT_MASK;
    }
    sum->waiting = 0;
}

bool et_exact_sum_is_settled(const et_exact_sum *sum)
{
    const int64_t last = sum->digit[LAST];
    bool settled = sum->head == 0 && !sum->waiting &&
                   sum->special <= (PLUS | MINUS | NOT_A_NUMBER) && last <= DIGIT_MASK &&
                   last >= -(int64_t)DIGIT_MASK;
    for (int i = 0; settled && i < LAST; i++)
        settled = sum->digit[i] >= 0 && sum->digit[i] <= DIGIT_MASK;
    return settled;
}

void et_exact_sum_merge(et_exact_sum *sum, const et_exact_sum *other)
{
    et_exact_sum settled = *other;
    et_exact_sum_settle(&settled);
    for (int i = 0; i < ET_EXACT_DIGITS; i++)
        sum->digit[i] += settled.digit[i];
    sum->special |= settled.special;
    if (++sum->waiting == WAITING)
        et_exact_sum_settle(sum);
}

/* 64 bits from bit `from` on, of settled digits that are not negative. */
static uint64_t window(const et_exact_sum *sum, int from)
{
    uint64_t bits = 0;
    int first = from / DIGIT_BITS, shift = from % DIGIT_BITS;
    for (int i = 0; i < 3 && first + i < ET_EXACT_DIGITS; i++) {
        uint64_t digit = (uint64_t)sum->digit[first + i];
        int position = DIGIT_BITS * i - shift;
        bits |= position < 0 ? digit >> -position : position < 64 ? digit << position : 0;
    }
    return bits;
}

static bool any_below(const et_exact_sum *sum, int bit)
{
    for (int i = 0; i < bit / DIGIT_BITS; i++)
        if (sum->digit[i])
            return true;
    uint64_t mask = (UINT64_C(1) << bit % DIGIT_BITS) - 1;
    return ((uint64_t)sum->digit[bit / DIGIT_BITS] & mask) != 0;
}

/* Rounds settled digits, which are not negative: takes the 53 bits from the highest one on, and
 * rounds by the bits below. */
static double round_digits(const et_exact_sum *sum)
{
    int top = LAST;
    while (top > 0 && !sum->digit[top])
        top--;
    if (!sum->digit[top])
        return 0;
    int highest = DIGIT_BITS * top;
    for (uint64_t digit = (uint64_t)sum->digit[top]; digit >>= 1;)
        highest++;
    int from = highest > 63 ? highest - 63 : 0;
    int drop = highest - from > 52 ? highest - from - 52 : 0;
    uint64_t bits = window(sum, from), mantissa = bits >> drop;
    if (drop) {
        uint64_t rest = bits & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
        bool tie = rest == half && !any_below(sum, from);
        mantissa += rest > half || (rest == half && !tie) || (tie && (mantissa & 1));
    }
    return ldexp((double)mantissa, from + drop + LOWEST);
}

double et_exact_sum_value(const et_exact_sum *sum)
{
    if (sum->special)
        return sum->special == PLUS ? INFINITY : sum->special == MINUS ? -INFINITY : NAN;
    et_exact_sum settled = *sum;
    et_exact_sum_settle(&settled);
    bool negative = settled.digit[LAST] < 0;
    for (int i = 0; negative && i < ET_EXACT_DIGITS; i++)
        settled.digit[i] = -settled.digit[i];
    if (negative)
        et_exact_sum_settle(&settled);
    double value = round_digits(&settled);
    return negative ? -value : value;
}

double et_exact_sum_rest(const et_exact_sum *sum)
{
    et_exact_sum rest = *sum;
    double value = et_exact_sum_value(sum);
    if (!isfinite(value))
        return 0;
    et_exact_sum_add(&rest, -value);
    return et_exact_sum_value(&rest);
}

void et_exact_sum_add_square(et_exact_sum *sum, double w, double t)
{
    double square = t * t;
    et_exact_sum_add(sum, w * square);
    et_exact_sum_add(sum, w * fma(t, t, -square));
}

/* s2 - s1^2 / weight, with s1 and s2 as pairs: q = s1 / weight rounded, r its remainder; then s1^2
 * / weight = q s1 + q r + r^2 / weight, of which the last term is too small to count. */
double et_exact_sum_deviation(const et_exact_sum *weight, const et_exact_sum *total,
                              const et_exact_sum *squared)
{
    double w = et_exact_sum_value(weight);
    double s1 = et_exact_sum_value(total), s1_rest = et_exact_sum_rest(total);
    double s2 = et_exact_sum_value(squared), s2_rest = et_exact_sum_rest(squared);
    double q = s1 / w, r = fma(-q, w, s1) + 2 * s1_rest;
    double product = q * s1, product_rest = fma(q, s1, -product);
    return (s2 - product) + (s2_rest - product_rest - q * r);
}

/* A sum beyond the range of a double, which nobody can read any more, is kept as an infinity. Other
 * sums that a double cannot hold are numbers of decreasing size, each the rounded value of the
 * rest. */
void et_exact_sum_save(const et_exact_sum *sum, et_value *dict, const char *key)
{
    double value = et_exact_sum_value(sum);
    et_exact_sum rest = *sum;
    if (!isfinite(value) || et_exact_sum_rest(sum) == 0) {
        et_part_set_real(dict, key, value);
        return;
    }
    et_value *list = et_value_set_list(dict, key);
    while (value != 0) {
        et_value_add_float(list, value);
        et_exact_sum_add(&rest, -value);
        value = et_exact_sum_value(&rest);
    }
}

int et_exact_sum_restore(et_exact_sum *sum, const et_value *dict, const char *key, et_error *error)
{
    const et_value *value = et_value_get(dict, key);
    *sum = (et_exact_sum){ 0 };
    if (value && value->kind == ET_VALUE_LIST) {
        for (const et_value *item = value->first; item; item = item->next) {
            bool whole = item->kind == ET_VALUE_INT;
            if (!whole && (item->kind != ET_VALUE_FLOAT || !isfinite(item->real)))
                return et_fail(error, ET_EFORMAT, "%s: has a value that is not a number", key);
            et_exact_sum_add(sum, whole ? (double)item->integer : item->real);
        }
        return ET_OK;
    }
    double real;
    int status = et_part_read_real(dict, key, &real, error);
    if (!status)
        et_exact_sum_add(sum, real);
    return status;
}
