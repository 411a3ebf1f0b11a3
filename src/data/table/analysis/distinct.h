/* Estimates the number of distinct values in 2^bits bytes: HyperLogLog. The root mean square error
 * is 1.04 / sqrt(2^bits), 1.6 % at 12 bits, and much less if there are fewer values than registers.
 * The order of values does not matter. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_DISTINCT_H
#define ETUDE_DATA_TABLE_ANALYSIS_DISTINCT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ET_DISTINCT_BITS_MIN 6
#define ET_DISTINCT_BITS_MAX 16

typedef struct et_distinct {
    unsigned char *seen; /* [2^bits]; owned */
    int bits;
} et_distinct;

/* False: no memory. */
bool et_distinct_init(et_distinct *distinct, int bits);
void et_distinct_release(et_distinct *distinct);

/* Equal values have equal hashes; the hashes of different values are independent. */
void et_distinct_add(et_distinct *distinct, uint64_t hash);
/* Numbers are compared by value: 0 and -0 are equal. */
void et_distinct_add_numbers(et_distinct *distinct, const double *values, size_t count);

double et_distinct_estimate(const et_distinct *distinct);

#endif
