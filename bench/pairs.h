/* Generated sentence pairs, always the same, with lengths like those of a corpus of picture
 * captions (Multi30k with 10,000 tokens: 14.5 tokens on average, EOS counted). Tokens are drawn so
 * that few are frequent, as in text. */
#ifndef ETUDE_BENCH_PAIRS_H
#define ETUDE_BENCH_PAIRS_H

#include "data/text/encoded.h"

/* As if encoded from files, but without files. length: tokens of every sentence, EOS counted; 0:
 * drawn as above. Free it with bench_pairs_free only. */
et_encoded *bench_pairs_new(int64_t pairs, int32_t vocabulary, int64_t length);
void bench_pairs_free(et_encoded *encoded);

#endif
