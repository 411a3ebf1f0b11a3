#include "words.h"

#include <math.h>
#include <stdlib.h>

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

void bench_write_text(const char *path, const char *vowels, uint32_t site, uint64_t lines)
{
    FILE *file = fopen(path, "w");
    uint64_t place = 0;
    for (uint64_t line = 0; file && line < lines; line++) {
        uint64_t words = 5 + et_random_below((et_random){ 1, 1, 1 }, line, 14);
        for (uint64_t i = 0; i < words; i++) {
            if (i)
                fputc(' ', file);
            bench_write_word(file, vowels, et_random_uniform((et_random){ 1, 2, site }, place++));
        }
        fputc('\n', file);
    }
    if (!file || fclose(file)) {
        perror(path);
        exit(1);
    }
}
