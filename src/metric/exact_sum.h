/* Sums of doubles without rounding: for any order and grouping of the terms the value has the same
 * bits, so threads, ranks and windows may be merged in any tree.
 *
 *     et_exact_sum sum = { 0 };
 *     et_exact_sum_add(&sum, 1e300);
 *     et_exact_sum_add(&sum, 1);
 *     et_exact_sum_add(&sum, -1e300);
 *     et_exact_sum_value(&sum) == 1
 *
 * Method: a fixed-point number that covers the range of a double. Its digits of 32 bits are stored
 * in 64 bits, so carries can be added later (Neal 2015, "Fast exact summation using small and large
 * superaccumulators", arXiv:1505.05571). While a sum fits into a double without rounding, it is a
 * double next to the digits; counts and sums of float32 rarely need more. Infinities and NaN are
 * kept separately: a NaN, or infinities of both signs, make NaN. The value has no pointers: copy,
 * send and compare it as bytes after et_exact_sum_settle. */
#ifndef ETUDE_METRIC_EXACT_SUM_H
#define ETUDE_METRIC_EXACT_SUM_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/error.h>

#include <etude/value.h>

#define ET_EXACT_DIGITS 67 /* of 32 bits: 2098 of a double, and carries */

/* Zeros: nothing was added. */
typedef struct et_exact_sum {
    int64_t digit[ET_EXACT_DIGITS]; /* [i] counts 2^(32 i - 1074) */
    double head;                    /* added to the digits' sum */
    uint32_t waiting;               /* additions since carries were moved */
    uint32_t special;               /* bits: +infinity, -infinity, NaN */
} et_exact_sum;

/* Adds a value that the head cannot hold exactly. */
void et_exact_sum_add_digits(et_exact_sum *sum, double value);

/* If the head takes a value exactly, the added part is the head's growth, and the remainder is the
 * head without it. If the head is rounded, the smaller of the two comes back changed: the larger
 * one is subtracted exactly (Dekker 1971, "A floating-point technique for extending the available
 * precision"). Infinities come back as NaN. */
static inline bool et_exact_sum_takes(et_exact_sum *sum, double value)
{
    double head = sum->head + value;
    bool exact = head - sum->head == value && head - value == sum->head;
    if (exact)
        sum->head = head;
    return exact;
}

static inline void et_exact_sum_add(et_exact_sum *sum, double value)
{
    if (!et_exact_sum_takes(sum, value))
        et_exact_sum_add_digits(sum, value);
}

void et_exact_sum_merge(et_exact_sum *sum, const et_exact_sum *other);

/* Moves carries: equal sums have equal bytes then. */
void et_exact_sum_settle(et_exact_sum *sum);

/* Whether bytes from elsewhere are a settled sum that can be merged: of finite size. */
bool et_exact_sum_is_settled(const et_exact_sum *sum);

/* Rounded once, to nearest even; an infinity beyond the range. 0 when empty. */
double et_exact_sum_value(const et_exact_sum *sum);

/* The rest of the sum beyond its value: value + rest is the sum, except for the rest's rounding. */
double et_exact_sum_rest(const et_exact_sum *sum);

/* Adds w t^2, with the square as an exact sum of two doubles. */
void et_exact_sum_add_square(et_exact_sum *sum, double w, double t);

/* S(w t^2) - S(w t)^2 / S(w) = S(w (t - mean)^2): a small difference of large numbers if values are
 * far from 0. So it is computed from values with their rests. With weights of 1 it loses nothing
 * that a double could show. */
double et_exact_sum_deviation(const et_exact_sum *weight, const et_exact_sum *total,
                              const et_exact_sum *squared);

/* As a number, or as the few numbers with this exact sum. Reading replaces sum. The arena of dict
 * keeps a lack of memory. */
void et_exact_sum_save(const et_exact_sum *sum, et_value *dict, const char *key);
int et_exact_sum_restore(et_exact_sum *sum, const et_value *dict, const char *key, et_error *error);

#endif
