#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>

#include "base/arena.h"
#include "data/pairs_fixture.h"

static const pair_shape shape = { 600, 640, 64 };

#define ORDER(seed_, shuffle_, bucket_, repeat_, pool_)                                            \
    {                                                                                              \
        .seed = seed_, .shuffle = shuffle_, .bucket = bucket_, .repeat = repeat_, .pool = pool_    \
    }

/* ---- one batch ---- */

static void check_segment(const et_encoded *encoded, const et_batch *batch, int i)
{
    int32_t ids[256];
    int64_t pair = batch->sample[i];
    int32_t source = ints(batch, ET_PAIR_SOURCE_OFFSETS)[i],
            target = ints(batch, ET_PAIR_TARGET_OFFSETS)[i];
    int64_t source_length = et_encoded_source_length(encoded, pair);
    int64_t target_length = et_encoded_target_length(encoded, pair);
    assert_int_equal(ints(batch, ET_PAIR_SOURCE_OFFSETS)[i + 1] - source, source_length);
    assert_int_equal(ints(batch, ET_PAIR_TARGET_OFFSETS)[i + 1] - target, target_length);
    et_encoded_ids(encoded, pair, false, ids);
    assert_memory_equal(ints(batch, ET_PAIR_SOURCE_IDS) + source, ids, (size_t)source_length * 4);
    et_encoded_ids(encoded, pair, true, ids);
    assert_memory_equal(ints(batch, ET_PAIR_TARGET_LABELS) + target, ids,
                        (size_t)target_length * 4);
    assert_int_equal(ints(batch, ET_PAIR_TARGET_IDS)[target], encoded->start);
    assert_memory_equal(ints(batch, ET_PAIR_TARGET_IDS) + target + 1, ids,
                        (size_t)(target_length - 1) * 4);
    for (int64_t k = 0; k < source_length; k++)
        assert_int_equal(ints(batch, ET_PAIR_SOURCE_POSITIONS)[source + k], k);
    for (int64_t k = 0; k < target_length; k++)
        assert_int_equal(ints(batch, ET_PAIR_TARGET_POSITIONS)[target + k], k);
}

/* Segments hold their pairs; unused segments are empty. */
static void check_batch(const et_encoded *encoded, const et_batch *batch, const pair_shape *of)
{
    assert_true(batch->filled[ET_PAIR_SEGMENTS] <= of->max_segments);
    assert_true(batch->filled[ET_PAIR_SOURCE] <= of->source_budget);
    assert_true(batch->filled[ET_PAIR_TARGET] <= of->target_budget);
    for (int i = 0; i < batch->filled[ET_PAIR_SEGMENTS]; i++)
        check_segment(encoded, batch, i);
    for (int64_t i = batch->filled[ET_PAIR_SEGMENTS]; i <= of->max_segments; i++) {
        assert_int_equal(ints(batch, ET_PAIR_SOURCE_OFFSETS)[i], batch->filled[ET_PAIR_SOURCE]);
        assert_int_equal(ints(batch, ET_PAIR_TARGET_OFFSETS)[i], batch->filled[ET_PAIR_TARGET]);
    }
    for (int64_t i = batch->filled[ET_PAIR_SOURCE]; i < of->source_budget; i++)
        assert_int_equal(ints(batch, ET_PAIR_SOURCE_IDS)[i], -1);
    for (int64_t i = batch->filled[ET_PAIR_TARGET]; i < of->target_budget; i++) {
        assert_int_equal(ints(batch, ET_PAIR_TARGET_IDS)[i], -1);
        assert_int_equal(ints(batch, ET_PAIR_TARGET_LABELS)[i], -1);
    }
}

/* ---- epochs ---- */

/* Every pair once per epoch, for these options and shape, over two epochs (or one). */
static void check_epochs(const pair_shape *of, const et_batches_options *options)
{
    et_encoded encoded = make_encoded(1000);
    et_source *source = open_source(&encoded, of, options);
    et_batch *batch;
    int *seen = calloc(1000, sizeof *seen);
    open_batch(&batch, of);
    for (int epoch = 0; epoch < (options->repeat ? 2 : 1); epoch++)
        for (int pairs = 0; pairs < 1000; pairs += batch->filled[ET_PAIR_SEGMENTS]) {
            next_batch(source, batch);
            assert_int_equal(batch->epoch, epoch);
            assert_true(batch->filled[ET_PAIR_SEGMENTS] > 0);
            check_batch(&encoded, batch, of);
            for (int i = 0; i < batch->filled[ET_PAIR_SEGMENTS]; i++)
                assert_int_equal(seen[batch->sample[i]]++, epoch);
        }
    for (int again = 0; !options->repeat && again < 2; again++) {
        next_batch(source, batch);
        assert_int_equal(batch->filled[ET_PAIR_SEGMENTS], 0);
        check_batch(&encoded, batch, of);
    }
    free(seen);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

static void test_batches__every_pair_once(void **state)
{
    (void)state;
    const pair_shape shapes[] = {
        { 600, 640, 64 }, { 48, 48, 1 }, { 48, 48, 9 }, { 100000, 100000, 1000 }, { 100000, 48, 7 }
    };
    const et_batches_options options[] = {
        ORDER(1, true, true, true, 0),   ORDER(1, true, true, true, 300),
        ORDER(1, true, true, true, 1),   ORDER(1, true, false, true, 77),
        ORDER(1, false, true, false, 0), ORDER(1, false, false, false, 999),
        ORDER(1, true, true, false, 0),
    };
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
            check_epochs(&shapes[s], &options[i]);
}

/* The number of batches is that of the first pass, from any position, through decorators too;
 * counting does not change the next batch. */
static void test_batches__counted(void **state)
{
    (void)state;
    const et_batches_options options[] = { ORDER(1, true, true, true, 0),
                                           ORDER(1, true, true, true, 300),
                                           ORDER(1, false, false, true, 77) };
    et_encoded encoded = make_encoded(1000);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        et_source *source = open_source(&encoded, &shape, &options[i]);
        et_batch *batch;
        int64_t counted = 0, again = 0, seen = 0;
        open_batch(&batch, &shape);
        assert_int_equal(et_prefetch_open(&source, source, 2, NULL), ET_OK);
        for (next_batch(source, batch); batch->epoch == 0; next_batch(source, batch), seen++)
            if (seen == 3)
                assert_int_equal(et_source_batches(source, &counted, NULL), ET_OK);
        assert_int_equal(et_source_batches(source, &again, NULL), ET_OK);
        assert_int_equal(counted, seen);
        assert_int_equal(again, seen);
        et_batch_free(batch);
        et_source_close(source);
    }
    release_encoded(&encoded);
}

/* Without shuffle and buckets, the corpus's order. */
static void test_batches__plain_order(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(500);
    et_batches_options options = ORDER(0, false, false, false, 0);
    et_source *source = open_source(&encoded, &shape, &options);
    et_batch *batch;
    uint32_t expected = 0;
    open_batch(&batch, &shape);
    for (next_batch(source, batch); batch->filled[ET_PAIR_SEGMENTS]; next_batch(source, batch))
        for (int i = 0; i < batch->filled[ET_PAIR_SEGMENTS]; i++)
            assert_int_equal(batch->sample[i], expected++);
    assert_int_equal(expected, 500);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

/* Digests of the first count batches. */
static void run(uint64_t *digests, int count, const et_encoded *encoded, uint64_t seed)
{
    et_batches_options options = ENDLESS;
    options.seed = seed;
    et_source *source = open_source(encoded, &shape, &options);
    et_batch *batch;
    open_batch(&batch, &shape);
    for (int i = 0; i < count; i++) {
        next_batch(source, batch);
        digests[i] = batch_digest(batch);
    }
    et_batch_free(batch);
    et_source_close(source);
}

static void test_batches__seed(void **state)
{
    (void)state;
    enum { COUNT = 80 };
    et_encoded encoded = make_encoded(1000);
    uint64_t first[COUNT], again[COUNT], other[COUNT];
    int equal = 0;
    run(first, COUNT, &encoded, 5);
    run(again, COUNT, &encoded, 5);
    run(other, COUNT, &encoded, 6);
    assert_memory_equal(first, again, sizeof first);
    for (int i = 0; i < COUNT; i++) {
        equal += first[i] == other[i];
        for (int k = 0; k < i; k++)
            equal += first[i] == first[k]; /* the second epoch is another order */
    }
    assert_int_equal(equal, 0);
    release_encoded(&encoded);
}

/* A saved position means the same batches in any later build: the first of seed 5, as first
 * computed. */
static void test_batches__sequence_is_kept(void **state)
{
    (void)state;
    const uint64_t expected[] = { 0xb4d3cd5d79249a66, 0x2fa46983e60e842d, 0x5d78a027a627baa6 };
    uint64_t digests[3];
    et_encoded encoded = make_encoded(1000);
    run(digests, 3, &encoded, 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(digests[i], expected[i]);
    release_encoded(&encoded);
}

/* A caption corpus at the size it has: the fuller side is at least 97 % full over an epoch. */
static void test_batches__fullness(void **state)
{
    (void)state;
    const pair_shape shapes[] = { { 4096, 4096, 1024 }, { 1024, 1024, 256 } };
    et_encoded encoded = make_encoded(29000);
    for (size_t s = 0; s < 2; s++) {
        et_batches_options options = ENDLESS;
        et_source *source = open_source(&encoded, &shapes[s], &options);
        et_batch *batch;
        double full = 0;
        int batches = 0, short_ones = 0;
        open_batch(&batch, &shapes[s]);
        for (next_batch(source, batch); batch->epoch == 0; next_batch(source, batch)) {
            int64_t most = batch->filled[ET_PAIR_SOURCE] > batch->filled[ET_PAIR_TARGET]
                               ? batch->filled[ET_PAIR_SOURCE]
                               : batch->filled[ET_PAIR_TARGET];
            double part = (double)most / (double)shapes[s].source_budget;
            full += part;
            short_ones += part < 0.9; /* the last cut of each of at most three pools */
            batches++;
        }
        print_message("budget %lld: %d batches, fuller side %.2f %% full\n",
                      (long long)shapes[s].source_budget, batches, 100 * full / batches);
        assert_true(full / batches >= 0.97);
        assert_true(short_ones <= 3);
        et_batch_free(batch);
        et_source_close(source);
    }
    release_encoded(&encoded);
}

/* With buckets, lengths within a batch are near each other. */
static void test_batches__buckets(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(20000);
    et_batches_options options = ENDLESS;
    et_source *source = open_source(&encoded, &shape, &options);
    et_batch *batch;
    double spread = 0;
    open_batch(&batch, &shape);
    for (int step = 0; step < 200; step++) {
        int64_t low = INT64_MAX, high = 0;
        next_batch(source, batch);
        for (int i = 0; i < batch->filled[ET_PAIR_SEGMENTS]; i++) {
            int64_t length =
                ints(batch, ET_PAIR_SOURCE_OFFSETS)[i + 1] - ints(batch, ET_PAIR_SOURCE_OFFSETS)[i];
            low = length < low ? length : low;
            high = length > high ? length : high;
        }
        spread += (double)(high - low) / 200;
    }
    assert_true(spread < 6);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

/* ---- positions ---- */

/* At every batch of two epochs: a restore continues with the batches that followed the save. */
static void check_restore(const et_batches_options *options)
{
    enum { MOST = 400 };
    static et_position positions[MOST];
    static uint64_t digests[MOST];
    et_encoded encoded = make_encoded(700);
    et_source *source = open_source(&encoded, &shape, options);
    et_source *fresh = open_source(&encoded, &shape, options);
    et_batch *batch;
    int count = 0;
    open_batch(&batch, &shape);
    do {
        assert_true(count < MOST);
        et_source_position(source, &positions[count]);
        next_batch(source, batch);
        digests[count++] = batch_digest(batch);
    } while (batch->epoch < 2 && batch->filled[ET_PAIR_SEGMENTS]);
    for (int i = count - 1; i >= 0; i--) {
        et_position back;
        assert_int_equal(et_source_seek(fresh, &positions[i], NULL), ET_OK);
        et_source_position(fresh, &back);
        assert_same_position(&back, &positions[i]);
        for (int k = i; k < count && k < i + 3; k++) {
            next_batch(fresh, batch);
            assert_int_equal(batch_digest(batch), digests[k]);
        }
    }
    et_batch_free(batch);
    et_source_close(fresh);
    et_source_close(source);
    release_encoded(&encoded);
}

static void test_batches__restore(void **state)
{
    (void)state;
    const et_batches_options options[] = {
        ORDER(9, true, true, true, 0),
        ORDER(9, true, true, true, 100),
        ORDER(9, true, false, true, 100),
        ORDER(9, false, true, false, 0),
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        check_restore(&options[i]);
}

static void test_batches__foreign_position(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(700);
    et_batches_options options = ENDLESS;
    et_source *source = open_source(&encoded, &shape, &options);
    et_position good, after;
    et_source_position(source, &good);
    et_position bad[] = { good, good, good, good, good, good };
    bad[0].value[3]++;
    bad[1].value[0] = -1;
    bad[2].value[1] = 1;
    bad[3].value[1] = INT64_MIN;
    bad[4].value[2] = 100000;
    bad[5].value[2] = -1;
    for (size_t i = 0; i < 6; i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_source_seek(source, &bad[i], &error), ET_EDATA);
        assert_contains(error.text, i ? "is not in the data" : "is for other data");
        et_source_position(source, &after);
        assert_same_position(&after, &good);
    }
    et_source_close(source);
    release_encoded(&encoded);
}

/* Every option that changes the sequence changes the fingerprint. */
static void test_batches__fingerprint(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(700);
    const struct {
        uint64_t key;
        pair_shape shape;
        et_batches_options options;
    } cases[] = {
        { 1, { 600, 640, 64 }, ORDER(9, true, true, true, 0) },
        { 2, { 600, 640, 64 }, ORDER(9, true, true, true, 0) },
        { 1, { 601, 640, 64 }, ORDER(9, true, true, true, 0) },
        { 1, { 600, 641, 64 }, ORDER(9, true, true, true, 0) },
        { 1, { 600, 640, 65 }, ORDER(9, true, true, true, 0) },
        { 1, { 600, 640, 64 }, ORDER(8, true, true, true, 0) },
        { 1, { 600, 640, 64 }, ORDER(9, false, true, true, 0) },
        { 1, { 600, 640, 64 }, ORDER(9, true, false, true, 0) },
        { 1, { 600, 640, 64 }, ORDER(9, true, true, false, 0) },
        { 1, { 600, 640, 64 }, ORDER(9, true, true, true, 100) },
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    int64_t prints[COUNT];
    for (int i = 0; i < COUNT; i++) {
        et_position position;
        encoded.key = cases[i].key;
        et_source *source = open_source(&encoded, &cases[i].shape, &cases[i].options);
        et_source_position(source, &position);
        prints[i] = position_at(&position, "fingerprint");
        assert_int_equal(et_source_content(source), cases[i].key); /* the key of the data */
        et_source_close(source);
    }
    for (int i = 0; i < COUNT; i++)
        for (int k = 0; k < i; k++)
            assert_true(prints[i] != prints[k]);
    release_encoded(&encoded);
}

static void test_batches__position_as_values(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    et_encoded encoded = make_encoded(700);
    et_batches_options options = ENDLESS;
    et_source *source = open_source(&encoded, &shape, &options);
    et_source *fresh = open_source(&encoded, &shape, &options);
    et_position before, after;
    et_batch *batch;
    et_error error = ET_ERROR_INIT;
    open_batch(&batch, &shape);
    for (int i = 0; i < 41; i++)
        next_batch(source, batch);
    assert_int_equal(et_source_part.save(source, dict, &error), ET_OK);
    assert_int_equal(et_source_part.restore(fresh, dict, &error), ET_OK);
    et_source_position(source, &before);
    et_source_position(fresh, &after);
    assert_same_position(&before, &after);
    assert_int_equal(et_source_part.restore(fresh, et_value_dict(&arena), &error), ET_EDATA);
    assert_contains(error.text, "fingerprint");
    et_batch_free(batch);
    et_source_close(source);
    et_source_close(fresh);
    release_encoded(&encoded);
    et_arena_release(&arena);
}

/* ---- sides that end early ---- */

/* A longer sentence is cut and ends in EOS; other sentences do not change, and neither do samples
 * without long sentences. Lengths are in characters. */
static void test_batches__cut(void **state)
{
    const char *en = write_text(*state, "c.en", "a\nabcdef\n\nab\n");
    const char *de = write_text(*state, "c.de", "b\nb\na\nabcdefgh\n");
    static const int64_t lengths[4][2] = { { 3, 3 }, { 4, 3 }, { 1, 3 }, { 4, 4 } };
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    et_encoded_options all = { .keep_all = true };
    et_vocabulary *vocabulary = train_vocabulary(&paths, ET_VOCABULARY_BPE, 12);
    et_encoded *encoded;
    et_samples *cut, *whole, *any;
    et_batch *batch;
    int32_t ids[32];
    assert_int_equal(et_encoded_open(&encoded, &paths,
                                     (et_sides){ .source = vocabulary, .target = vocabulary }, &all,
                                     NULL, NULL),
                     ET_OK);
    assert_int_equal(et_pairs_truncated(encoded, 4), 2);
    assert_int_equal(et_pairs_truncated(encoded, 0), 0);
    assert_int_equal(et_truncated_pairs_open(&cut, encoded, 4, NULL), ET_OK);
    assert_int_equal(et_truncated_pairs_open(&whole, encoded, 64, NULL), ET_OK);
    assert_int_equal(et_truncated_pairs_open(&any, encoded, 0, NULL), ET_OK);
    assert_true(whole->fingerprint == any->fingerprint && cut->fingerprint != any->fingerprint);
    assert_int_equal(cut->total[ET_PAIR_SOURCE], 12);
    assert_int_equal(cut->total[ET_PAIR_TARGET], 13);
    assert_int_equal(cut->largest[ET_PAIR_SOURCE], 4);
    assert_int_equal(cut->largest[ET_PAIR_TARGET], 4);
    et_batches_options options = { .capacity = { 4, 64, 64 } };
    et_source *source;
    assert_int_equal(et_batches_open(&source, cut, &options, NULL), ET_OK);
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_int_equal(batch->filled[0], 4);
    for (int i = 0; i < 4; i++)
        for (int side = 0; side < 2; side++) {
            const int32_t *offsets =
                ints(batch, side ? ET_PAIR_TARGET_OFFSETS : ET_PAIR_SOURCE_OFFSETS);
            const int32_t *got =
                ints(batch, side ? ET_PAIR_TARGET_LABELS : ET_PAIR_SOURCE_IDS) + offsets[i];
            const int64_t pair = batch->sample[i], length = lengths[pair][side];
            assert_int_equal(offsets[i + 1] - offsets[i], length);
            et_encoded_ids(encoded, pair, side, ids);
            assert_memory_equal(got, ids, (size_t)(length - 1) * sizeof *ids);
            assert_int_equal(got[length - 1], encoded->eos[side]);
        }
    et_batch_free(batch);
    et_source_close(source);
    et_samples_close(whole);
    et_samples_close(any);
    et_encoded_close(encoded);
    et_vocabulary_close(vocabulary);
}

/* ---- a budget below one sentence ---- */

static void test_batches__budget_too_small(void **state)
{
    const char *en = write_text(*state, "b.en", "a b\nx\nd\n");
    const char *de = write_text(*state, "b.de", "a b\n\na a a a a a a a\n");
    const struct {
        pair_shape shape;
        const char *message;
    } cases[] = {
        { { 3, 100, 10 },
          "b.en:1: 5 source tokens do not fit task.train_data.global_batch_size = 3: raise this "
          "limit, or lower max_seq_length" },
        { { 100, 16, 10 }, "b.de:3: 17 target tokens do not fit" },
    };
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    et_encoded_options any = { .max_seq_length = 0 };
    et_batches_options options = ENDLESS;
    options.setting = "task.train_data.global_batch_size";
    options.cure = "lower max_seq_length";
    et_vocabulary *vocabulary = train_vocabulary(&paths, ET_VOCABULARY_BPE, 8);
    et_encoded *encoded;
    et_source *source;
    assert_int_equal(et_encoded_open(&encoded, &paths,
                                     (et_sides){ .source = vocabulary, .target = vocabulary }, &any,
                                     NULL, NULL),
                     ET_OK);
    for (size_t i = 0; i < 2; i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(try_source(&source, encoded, &cases[i].shape, &options, &error),
                         ET_ECONFIG);
        assert_contains(error.text, cases[i].message);
    }
    et_encoded_close(encoded);
    et_vocabulary_close(vocabulary);
}

/* No step allocates. */
static void test_batches__allocates_nothing(void **state)
{
    (void)state;
    et_encoded encoded = make_encoded(700);
    et_batches_options options = ENDLESS;
    et_source *source = open_source(&encoded, &shape, &options);
    et_batch *batch;
    open_batch(&batch, &shape);
    size_t before = et_alloc_count();
    for (int i = 0; i < 100; i++)
        next_batch(source, batch);
    assert_int_equal(et_alloc_count(), before);
    et_batch_free(batch);
    et_source_close(source);
    release_encoded(&encoded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batches__every_pair_once),
        cmocka_unit_test(test_batches__counted),
        cmocka_unit_test(test_batches__plain_order),
        cmocka_unit_test(test_batches__seed),
        cmocka_unit_test(test_batches__sequence_is_kept),
        cmocka_unit_test(test_batches__fullness),
        cmocka_unit_test(test_batches__buckets),
        cmocka_unit_test(test_batches__restore),
        cmocka_unit_test(test_batches__foreign_position),
        cmocka_unit_test(test_batches__fingerprint),
        cmocka_unit_test(test_batches__position_as_values),
        cmocka_unit_test(test_batches__cut),
        cmocka_unit_test(test_batches__budget_too_small),
        cmocka_unit_test(test_batches__allocates_nothing),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
