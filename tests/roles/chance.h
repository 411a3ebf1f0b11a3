/* Pseudo-random numbers from a seed (splitmix64). */
#ifndef ETUDE_TESTS_CLUSTER_CHANCE_H
#define ETUDE_TESTS_CLUSTER_CHANCE_H

#include <stdint.h>

/* state: the seed at first. */
static inline uint64_t chance_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* From 0, below 1. */
static inline double chance_uniform(uint64_t *state)
{
    return (double)(chance_draw(state) >> 11) / 9007199254740992.0;
}

#endif
