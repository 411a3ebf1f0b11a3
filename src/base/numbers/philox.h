/* Counted random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of (seed, step, site,
 * element): nothing to store, same numbers for any number of threads.
 *
 * Counter words: element low, element high, step low, site ^ (step high); key: seed. */
#ifndef ETUDE_BASE_NUMBERS_PHILOX_H
#define ETUDE_BASE_NUMBERS_PHILOX_H

#include <stdint.h>

typedef struct et_philox_block {
    uint32_t word[4];
} et_philox_block;

/* The bare generator: ten rounds on a counter with a key. */
et_philox_block et_philox(const uint32_t counter[4], const uint32_t key[2]);

/* Selects random numbers: constant for one use in one step. */
typedef struct et_random {
    uint64_t seed;
    uint64_t step;
    uint32_t site; /* names the use: a hash of a node's or parameter's name */
} et_random;

/* Four words for elements 4i..4i+3 of that use, i = index. */
et_philox_block et_random_block(et_random random, uint64_t index);

/* A float in [0, 1) with 24 bits, element of that use. */
float et_random_uniform(et_random random, uint64_t element);

/* A normal number (by inversion, within 6.34 of 0), element of that use. */
float et_random_normal(et_random random, uint64_t element);

/* An integer in [0, bound), bound > 0, without bias to speak of (64-bit multiply-shift). */
uint64_t et_random_below(et_random random, uint64_t element, uint64_t bound);

/* order[0..count) becomes a permutation of 0..count-1 (Fisher-Yates). */
void et_random_permutation(et_random random, uint32_t *order, uint32_t count);

#define ET_RANDOM_ORDER_ROUNDS 8

/* A permutation of 0..count-1, count at most 2^32 - 1, whose members are computed one at a time:
 * cost and memory do not grow with count. */
typedef struct et_random_order {
    uint32_t count;
    int low, high; /* bits of the two halves of a number */
    uint32_t key[ET_RANDOM_ORDER_ROUNDS];
} et_random_order;

et_random_order et_random_order_of(et_random random, uint32_t count);

/* Member i, i < count. */
uint32_t et_random_order_at(const et_random_order *order, uint32_t i);

/* A site from a name: 32-bit FNV-1a. */
uint32_t et_random_site(const char *name);

#endif
