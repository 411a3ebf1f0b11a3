/* Measures how fast text becomes batches.
 *
 *     bench_data [SOURCE TARGET [VOCABULARY_SIZE]]
 *
 * Without files, the text is generated. For each kind of vocabulary, the program prints the time of
 * each stage from text to packed batches, without and with the cache, and the median rate of the
 * iterator over several epochs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench.h"
#include "data/text/encoded.h"
#include "data/text/pairs.h"
#include "words.h"

#define EPOCHS 11
#define PAIRS  29000 /* of made text: as Multi30k */

static const char *const made[] = { "bench_data.source", "bench_data.target" };

static et_vocabulary *make_vocabulary(const et_corpus_paths *paths, int kind, int size)
{
    et_error error = ET_ERROR_INIT;
    et_vocabulary_options options = { .kind = kind, .size = size, .character_coverage = 1 };
    et_corpus *corpus;
    et_vocabulary *vocabulary;
    char *bytes;
    size_t length;
    double since = et_clock_monotonic();
    bench_check(et_corpus_open(&corpus, paths, &error), &error);
    bench_check(et_vocabulary_train(&bytes, &length, &options, et_corpus_next_line, corpus, &error),
                &error);
    et_corpus_close(corpus);
    double trained = bench_lap(&since);
    bench_check(et_vocabulary_parse(&vocabulary, bytes, length, "trained", &error), &error);
    printf("%-8s vocabulary of %d: trained in %.2f s, loaded in %.1f ms\n",
           et_vocabulary_kind(vocabulary), size, trained, 1e3 * bench_lap(&since));
    et_free(bytes);
    return vocabulary;
}

/* Epochs through a source; the median time of one. kind: of the vocabulary. */
static void time_epochs(et_source *source, const char *what, const char *kind)
{
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    double seconds[EPOCHS], since, tokens = 0, pairs = 0, fuller = 0;
    int batches = 0;
    bench_check(et_batch_new(&batch, &source->layout, &error), &error);
    since = et_clock_monotonic();
    bench_check(et_source_next(source, batch, &error), &error);
    double first = bench_lap(&since);
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        for (; batch->epoch == epoch; batches++) {
            const int64_t *filled = batch->filled, *capacity = source->layout.capacity;
            double full_source = (double)filled[ET_PAIR_SOURCE] / (double)capacity[ET_PAIR_SOURCE];
            double full_target = (double)filled[ET_PAIR_TARGET] / (double)capacity[ET_PAIR_TARGET];
            fuller += full_source > full_target ? full_source : full_target;
            tokens += (double)(filled[ET_PAIR_SOURCE] + filled[ET_PAIR_TARGET]) / EPOCHS;
            pairs += (double)filled[ET_PAIR_SEGMENTS] / EPOCHS;
            bench_check(et_source_next(source, batch, &error), &error);
        }
        seconds[epoch] = bench_lap(&since);
    }
    double median = bench_median(seconds, EPOCHS);
    printf("%-8s first batch %.2f ms; epoch %.2f ms: %.2f M pairs/s, %.0f M tokens/s; fuller "
           "side %.2f %%\n",
           what, 1e3 * first, 1e3 * median, 1e-6 * pairs / median, 1e-6 * tokens / median,
           100 * fuller / batches);
    bench_figure(tokens / median, "tokens/s", NAN, "data.%s.%s.subwords_s", kind, what);
    et_batch_free(batch);
    et_source_close(source);
}

static void time_iterators(const et_encoded *encoded, const char *kind)
{
    et_error error = ET_ERROR_INIT;
    const et_batches_options options = {
        .shuffle = true, .bucket = true, .repeat = true, .capacity = { 1024, 4096, 4096 }
    };
    et_source *source;
    bench_check(et_pair_batches_open(&source, encoded, &options, &error), &error);
    time_epochs(source, "batches", kind);
    bench_check(et_pair_batches_open(&source, encoded, &options, &error), &error);
    bench_check(et_prefetch_open(&source, source, 4, &error), &error);
    time_epochs(source, "prefetch", kind);
}

/* Reads text and writes the cache the first time, finds the cache the second. */
static void time_encoding(const et_corpus_paths *paths, const et_vocabulary *vocabulary)
{
    static const char cache[] = "bench_data.cache";
    const char *kind = et_vocabulary_kind(vocabulary);
    et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
    et_error error = ET_ERROR_INIT;
    remove(cache);
    for (int time = 0; time < 2; time++) {
        et_encoded *encoded;
        double since = et_clock_monotonic();
        bench_check(et_encoded_open(&encoded, paths,
                                    (et_sides){ .source = vocabulary, .target = vocabulary },
                                    &options, cache, &error),
                    &error);
        double seconds = bench_lap(&since);
        double tokens = (double)(encoded->sizes.source_tokens + encoded->sizes.target_tokens);
        printf("%-8s %lld pairs, %.0f tokens in %.1f ms (%.2f M tokens/s)\n",
               encoded->from_cache ? "cached" : "encoded", (long long)encoded->pairs, tokens,
               1e3 * seconds, 1e-6 * tokens / seconds);
        if (encoded->from_cache)
            time_iterators(encoded, kind);
        else
            bench_figure(tokens / seconds, "tokens/s", NAN, "data.%s.encoding.subwords_s", kind);
        et_encoded_close(encoded);
    }
    remove(cache);
}

int main(int argc, char **argv)
{
    if (argc == 2 || argc > 4) {
        fprintf(stderr, "usage: bench_data [SOURCE TARGET [VOCABULARY_SIZE]]\n");
        return 2;
    }
    const char *source = argc > 2 ? argv[1] : made[0], *target = argc > 2 ? argv[2] : made[1];
    int size = argc > 3 ? atoi(argv[3]) : 8000;
    et_corpus_paths paths = { .source = { &source, 1 }, .target = { &target, 1 } };
    bench_print_machine();
    if (argc == 1) {
        bench_write_text(made[0], "aeiou", 1, PAIRS);
        bench_write_text(made[1], "aouyi", 2, PAIRS);
    }
    for (int kind = 0; kind < 2; kind++) {
        et_vocabulary *vocabulary = make_vocabulary(&paths, kind, size);
        time_encoding(&paths, vocabulary);
        et_vocabulary_close(vocabulary);
    }
    for (int i = 0; i < 2 && argc == 1; i++)
        remove(made[i]);
    return 0;
}
