#include "pairs.h"

#include <math.h>

#include "base/alloc.h"
#include "base/numbers/philox.h"
#include "bench.h"

#define SEED 20260101

/* Symbols below this are no tokens: padding, begin, end, unknown. */
#define SYMBOLS 4

/* Pieces of a target: lengths of captions are about log-normal, a tenth above 20. */
static int64_t draw_length(uint64_t pair)
{
    et_random random = { SEED, 0, 1 };
    double tokens = exp(log(12.6) + 0.36 * et_random_normal(random, pair));
    return tokens < 3 ? 3 : tokens > 60 ? 60 : (int64_t)(tokens + 0.5);
}

/* The source is up to three tokens shorter or two longer than the target. */
static int64_t draw_source_length(uint64_t pair, int64_t target)
{
    et_random random = { SEED, 0, 2 };
    int64_t length = target - 3 + (int64_t)et_random_below(random, pair, 6);
    return length < 2 ? 2 : length;
}

/* Zipf's law: the token of rank r comes about as often as 1 / r says. */
static uint16_t draw_token(uint64_t place, int32_t vocabulary)
{
    et_random random = { SEED, 0, 3 };
    int32_t ranks = vocabulary - SYMBOLS;
    double rank = exp(et_random_uniform(random, place) * log((double)ranks));
    return (uint16_t)(SYMBOLS + (int32_t)rank - 1);
}

et_encoded *bench_pairs_new(int64_t pairs, int32_t vocabulary, int64_t length)
{
    et_error error = ET_ERROR_INIT;
    et_encoded *encoded = et_alloc_zero(1, sizeof *encoded);
    uint64_t *offsets = et_alloc_zero((size_t)(2 * pairs + 1), sizeof *offsets);
    uint32_t *lines = et_alloc_zero((size_t)pairs, sizeof *lines);
    if (!encoded || !offsets || !lines)
        bench_check(et_alloc_failed(&error, "sentence pairs"), &error);
    for (int64_t i = 0; i < pairs; i++) {
        int64_t target = length ? length - 1 : draw_length((uint64_t)i);
        int64_t source = length ? length - 1 : draw_source_length((uint64_t)i, target);
        offsets[2 * i + 1] = offsets[2 * i] + (uint64_t)source;
        offsets[2 * i + 2] = offsets[2 * i + 1] + (uint64_t)target;
        lines[i] = (uint32_t)i;
        encoded->sizes.source_tokens += source + 1;
        encoded->sizes.target_tokens += target + 1;
        if (source >= encoded->sizes.longest_source)
            encoded->sizes.longest_source = source + 1;
        if (target >= encoded->sizes.longest_target)
            encoded->sizes.longest_target = target + 1;
    }
    uint16_t *tokens = et_alloc((size_t)offsets[2 * pairs], sizeof *tokens);
    if (!tokens)
        bench_check(et_alloc_failed(&error, "sentence pairs"), &error);
    for (uint64_t i = 0; i < offsets[2 * pairs]; i++)
        tokens[i] = draw_token(i, vocabulary);
    encoded->pairs = pairs;
    encoded->offsets = offsets;
    encoded->tokens = tokens;
    encoded->width = 2;
    encoded->lines = lines;
    encoded->start = 0;
    encoded->eos[0] = encoded->eos[1] = 1;
    return encoded;
}

void bench_pairs_free(et_encoded *encoded)
{
    et_free((void *)(uintptr_t)encoded->offsets);
    et_free((void *)(uintptr_t)encoded->tokens);
    et_free((void *)(uintptr_t)encoded->lines);
    et_free(encoded);
}
