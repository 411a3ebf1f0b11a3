#include "words.h"

#include <math.h>

/* The letters of a word are a function of its number. */
void bench_write_word(FILE *file, const char *vowels, double draw)
{
    static const char consonants[] = "bdfgklmnprstvz";
    uint32_t word = (uint32_t)exp(draw * log(BENCH_WORDS));
    et_philox_block letters = et_random_block((et_random){ 1, 0, 9 }, word);
    for (int i = 0; i < 2 + (int)(word % 3); i++) {
        uint32_t bits = letters.word[i];
        fputc(consonants[bits % (sizeof consonants - 1)], file);
        fputc(vowels[(bits >> 8) % 5], file);
    }
}
