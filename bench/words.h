/* Generated text: invented words, few of which are frequent, as in real text. */
#ifndef ETUDE_BENCH_WORDS_H
#define ETUDE_BENCH_WORDS_H

#include <stdint.h>
#include <stdio.h>

#include "base/numbers/philox.h"

/* Writes word number 1 to BENCH_WORDS of two to four syllables; numbers follow Zipf's law if draw
 * is uniform in [0, 1). vowels: five of them; other ones give another language. */
#define BENCH_WORDS 6000
void bench_write_word(FILE *file, const char *vowels, double draw);

/* A file of lines of 5 to 18 words. Equal sites give equal draws: the two sides of a corpus have
 * each its own. Line i of every site has the same number of words. Exits if it cannot be
 * written. */
void bench_write_text(const char *path, const char *vowels, uint32_t site, uint64_t lines);

#endif
