/* Batches by bucket: bounds as Model Garden's loader has them, which samples go together, and
 * positions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/flows.h>

#include "data/batches/source.h"
#include "data/pairs_fixture.h"

/* ---- bounds ---- */

static void test_bucketed__bounds(void **state)
{
    (void)state;
    static const int64_t published[] = { 8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22,
                                         24, 26, 28, 30, 33, 36, 39, 42, 46, 50, 55, 60, 65 };
    static const int64_t small[] = { 4, 8, 16, 25 };
    et_bucket buckets[ET_BUCKETS_MAX];
    assert_int_equal(et_buckets_of(buckets, 24, 1000, 4, 2), 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(buckets[i].longest + 1, small[i]);
    assert_int_equal(et_buckets_scaled(buckets, 64, 24576), 27);
    for (int i = 0; i < 27; i++) {
        assert_int_equal(buckets[i].longest + 1, published[i]);
        assert_int_equal(buckets[i].rows, 24576 / published[i]);
    }
    assert_int_equal(buckets[0].rows, 3072);
    assert_int_equal(buckets[1].rows, 2730);
    assert_int_equal(buckets[26].rows, 378);
    assert_in_range(et_buckets_scaled(buckets, 65535, 1 << 20), 50, ET_BUCKETS_MAX);
    assert_int_equal(et_buckets_scaled(buckets, 8, 100), 1); /* no bound below the longest */
    assert_int_equal(buckets[0].longest, 8);
    assert_int_equal(buckets[0].rows, 100 / 9);
    assert_int_equal(et_buckets_scaled(buckets, 9, 100), 2);
    assert_int_equal(et_buckets_scaled(buckets, 5, 100), 1);
    assert_int_equal(buckets[0].longest, 5);
    assert_int_equal(et_buckets_of(buckets, 65535, 100, 1, 1), -1);
}

/* ---- batches ---- */

static et_source *open_bucketed(const et_encoded *encoded, const et_bucketed_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_samples *samples;
    et_source *source;
    assert_int_equal(et_truncated_pairs_open(&samples, encoded, 0, &error), ET_OK);
    if (et_bucketed_open(&source, samples, options, &error))
        fail_msg("%s", error.text);
    return source;
}

static int64_t length_of(const et_encoded *encoded, uint32_t pair)
{
    int64_t source = et_encoded_source_length(encoded, pair);
    int64_t target = et_encoded_target_length(encoded, pair);
    return source > target ? source : target;
}

static int bucket_of(const et_bucket *buckets, int64_t length)
{
    int at = 0;
    while (length > buckets[at].longest)
        at++;
    return at;
}

static void next(et_source *source, et_batch *batch)
{
    et_error error = ET_ERROR_INIT;
    if (et_source_next(source, batch, &error))
        fail_msg("%s", error.text);
}

/* Each sample once a pass; a batch has samples of one bucket, in the pass's order, as many as it
 * takes but for the last of each bucket, which come at the end, the shortest first. */
static void test_bucketed__passes(void **state)
{
    (void)state;
    enum { PAIRS = 1000 };
    et_encoded encoded = make_encoded(PAIRS);
    et_bucket buckets[ET_BUCKETS_MAX];
    int count = et_buckets_scaled(buckets, 64, 700);
    for (int shuffle = 0; shuffle < 2; shuffle++) {
        et_error error = ET_ERROR_INIT;
        et_batch *batch;
        et_bucketed_options options = { 5, shuffle, true, buckets, count };
        et_source *source = open_bucketed(&encoded, &options);
        assert_int_equal(et_batch_new(&batch, &source->layout, &error), ET_OK);
        uint32_t first[2] = { 0 };
        for (int epoch = 0; epoch < 2; epoch++) {
            int seen[PAIRS] = { 0 }, last = -1, whole = 0;
            uint32_t before[ET_BUCKETS_MAX] = { 0 };
            for (int64_t pairs = 0; pairs < PAIRS; pairs += batch->filled[0]) {
                next(source, batch);
                assert_int_equal(batch->epoch, epoch);
                int bucket = bucket_of(buckets, length_of(&encoded, batch->sample[0]));
                if (!pairs)
                    first[epoch] = batch->sample[0];
                for (int64_t i = 0; i < batch->filled[0]; i++) {
                    uint32_t pair = batch->sample[i];
                    assert_int_equal(bucket_of(buckets, length_of(&encoded, pair)), bucket);
                    assert_true(shuffle || pair + 1 > before[bucket]);
                    before[bucket] = pair + 1;
                    seen[pair]++;
                }
                if (last < 0 && batch->filled[0] == buckets[bucket].rows) {
                    whole++;
                    continue;
                }
                assert_true(bucket > last && batch->filled[0] <= buckets[bucket].rows);
                last = bucket;
            }
            assert_true(whole > 5);
            for (int i = 0; i < PAIRS; i++)
                assert_int_equal(seen[i], 1);
        }
        assert_true(shuffle == (first[0] != first[1]));
        et_batch_free(batch);
        et_source_close(source);
    }
    release_encoded(&encoded);
}

/* One bucket: batches of equal size in the pass's order, and one of the rest. A pass that is not
 * repeated ends, and stays at its end. */
static void test_bucketed__one_bucket(void **state)
{
    (void)state;
    enum { PAIRS = 100 };
    static const et_bucket one = { 64, 32 };
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    et_encoded encoded = make_encoded(PAIRS);
    et_source *source =
        open_bucketed(&encoded, &(et_bucketed_options){ .buckets = &one, .count = 1 });
    assert_int_equal(source->layout.capacity[0], 32);
    assert_int_equal(source->layout.capacity[ET_PAIR_TARGET], 32 * 64);
    assert_int_equal(et_batch_new(&batch, &source->layout, &error), ET_OK);
    for (int64_t at = 0; at < PAIRS; at += 32) {
        next(source, batch);
        assert_int_equal(batch->filled[0], PAIRS - at < 32 ? PAIRS - at : 32);
        for (int64_t i = 0; i < batch->filled[0]; i++)
            assert_int_equal(batch->sample[i], at + i);
    }
    for (int i = 0; i < 2; i++) {
        next(source, batch);
        assert_int_equal(batch->filled[0], 0);
    }
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

/* Three short pairs and a budget of 100 tokens of up to 35: batches of two. */
static void test_bucketed__published_static(void **state)
{
    (void)state;
    static const et_bucket one = { 35, 100 / 35 };
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    et_encoded encoded = make_encoded(3);
    et_source *source =
        open_bucketed(&encoded, &(et_bucketed_options){ .buckets = &one, .count = 1 });
    assert_int_equal(et_batch_new(&batch, &source->layout, &error), ET_OK);
    next(source, batch);
    assert_int_equal(batch->filled[0], 2);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

/* From every position, also across passes, the batches that followed it come again. */
static void test_bucketed__resumes(void **state)
{
    (void)state;
    enum { PAIRS = 300, BATCHES = 60 };
    static uint32_t samples[BATCHES];
    static int64_t filled[BATCHES];
    et_position positions[BATCHES] = { { 0 } };
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    et_bucket buckets[ET_BUCKETS_MAX];
    et_encoded encoded = make_encoded(PAIRS);
    et_bucketed_options options = { 5, true, true, buckets, et_buckets_scaled(buckets, 64, 400) };
    et_source *source = open_bucketed(&encoded, &options);
    assert_int_equal(et_batch_new(&batch, &source->layout, &error), ET_OK);
    for (int i = 0; i < BATCHES; i++) {
        et_source_position(source, &positions[i]);
        next(source, batch);
        samples[i] = batch->sample[0];
        filled[i] = batch->filled[0];
    }
    assert_true(batch->epoch >= 1);
    for (int i = BATCHES; i-- > 0;) {
        assert_int_equal(et_source_seek(source, &positions[i], &error), ET_OK);
        for (int k = i; k < BATCHES && k < i + 3; k++) {
            next(source, batch);
            assert_int_equal(batch->sample[0], samples[k]);
            assert_int_equal(batch->filled[0], filled[k]);
        }
    }
    int64_t pass;
    assert_int_equal(et_source_batches(source, &pass, &error), ET_OK);
    assert_true(pass > 2 && pass < BATCHES);
    for (int i = 0; i < 2; i++) { /* from batch 3 the next pass, and back */
        assert_int_equal(
            i ? et_source_rewind(source, &error) : et_source_begin(source, "test", &error), ET_OK);
        next(source, batch);
        assert_int_equal(batch->epoch, !i);
        assert_int_equal(batch->sample[0], samples[i ? 0 : pass]);
    }
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

/* A position with other buckets, another seed, or outside a pass is refused, and the source
 * continues as before. */
static void test_bucketed__refuses_positions(void **state)
{
    (void)state;
    static const et_bucket one = { 64, 32 }, other = { 64, 31 };
    et_error error = ET_ERROR_INIT;
    et_batch *batch;
    et_encoded encoded = make_encoded(100);
    et_bucketed_options options = { 5, true, true, &one, 1 };
    et_source *source = open_bucketed(&encoded, &options);
    assert_int_equal(et_batch_new(&batch, &source->layout, &error), ET_OK);
    et_position position = { 0 };
    for (int i = 0; i < 3; i++) {
        et_bucketed_options of = options;
        position.count = 0;
        if (i == 0)
            of.seed = 6;
        else if (i == 1)
            of.buckets = &other;
        else
            of.shuffle = false;
        et_source *another = open_bucketed(&encoded, &of);
        et_source_position(another, &position);
        et_source_close(another);
        assert_int_equal(et_source_seek(source, &position, &error), ET_EDATA);
        assert_non_null(strstr(error.text, "for other data"));
    }
    position.count = 0;
    et_source_position(source, &position);
    for (int i = 0; i < position.count; i++)
        if (!strcmp(position.name[i], "batch"))
            position.value[i] = 4;
    assert_int_equal(et_source_seek(source, &position, &error), ET_EDATA);
    assert_non_null(strstr(error.text, "(epoch 0, batch 4) is not in the data"));
    next(source, batch);
    assert_int_equal(batch->epoch, 0);
    assert_int_equal(batch->filled[0], 32);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

static void test_bucketed__refuses(void **state)
{
    (void)state;
    static const struct {
        et_bucket bucket;
        const char *words;
    } cases[] = {
        { { 64, 0 }, "the token budget of a batch is too small for samples of up to 64 tokens" },
        { { 9, 5 }, "tokens: batches allow at most 9" },
        { { INT32_MAX, 2 },
          "a batch of 2 samples of up to 2147483647 tokens: both must be at least 1" },
    };
    et_encoded encoded = make_encoded(100);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_error error = ET_ERROR_INIT;
        et_samples *samples;
        et_source *source;
        et_bucketed_options options = { .buckets = &cases[i].bucket, .count = 1 };
        assert_int_equal(et_truncated_pairs_open(&samples, &encoded, 0, &error), ET_OK);
        assert_int_equal(et_bucketed_open(&source, samples, &options, &error), ET_ECONFIG);
        if (!strstr(error.text, cases[i].words))
            fail_msg("case %zu: %s", i, error.text);
        et_samples_close(samples);
    }
    release_encoded(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucketed__bounds),
        cmocka_unit_test(test_bucketed__passes),
        cmocka_unit_test(test_bucketed__one_bucket),
        cmocka_unit_test(test_bucketed__published_static),
        cmocka_unit_test(test_bucketed__resumes),
        cmocka_unit_test(test_bucketed__refuses_positions),
        cmocka_unit_test(test_bucketed__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
