#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "data/batches/source.h"

static int32_t numbers[3000];

static et_samples *open_numbers(int32_t first, int64_t count)
{
    for (int32_t i = 0; i < 3000; i++)
        numbers[i] = i;
    const et_array array = { "n", ET_I32, numbers + first, et_shape_scalar() };
    et_samples *samples = NULL;
    assert_int_equal(et_arrays_open(&samples, &array, 1, count, NULL), ET_OK);
    return samples;
}

static et_source *open_batches(et_samples *samples, const et_batches_options *options)
{
    et_source *source = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_batches_open(&source, samples, options, &error))
        fail_msg("%s", error.text);
    return source;
}

/* The numbers of one pass, in order, and how many there are. */
static int64_t read_pass(et_source *source, et_batch *batch, int32_t *out)
{
    int64_t count = 0, epoch = -1;
    for (;;) {
        et_position before;
        et_source_position(source, &before);
        assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
        if (!batch->filled[0])
            return count;
        if (epoch >= 0 && batch->epoch != epoch) {
            assert_int_equal(et_source_seek(source, &before, NULL), ET_OK);
            return count;
        }
        epoch = batch->epoch;
        memcpy(out + count, batch->data[0], (size_t)batch->filled[0] * sizeof *out);
        count += batch->filled[0];
    }
}

static void check_pass(et_samples *samples, const int32_t *expected, int64_t count)
{
    const et_batches_options options = { .capacity = { 7 } };
    static int32_t seen[3000];
    et_source *source = open_batches(samples, &options);
    et_batch *batch;
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    assert_int_equal(read_pass(source, batch, seen), count);
    assert_memory_equal(seen, expected, (size_t)count * sizeof *seen);
    et_batch_free(batch);
    et_source_close(source);
}

/* The last batch is short: its rest is empty, also in the mask. */
static void test_arrays__batches(void **state)
{
    (void)state;
    const et_batches_options options = { .capacity = { 4 } };
    et_source *source = open_batches(open_numbers(10, 6), &options);
    et_batch *batch;
    const int32_t full[] = { 10, 11, 12, 13 }, rest[] = { 14, 15, -1, -1 };
    const float mask[] = { 1, 1, 0, 0 };
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_memory_equal(batch->data[0], full, sizeof full);
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_memory_equal(batch->data[0], rest, sizeof rest);
    assert_memory_equal(batch->data[et_layout_find(&source->layout, "mask")], mask, sizeof mask);
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_int_equal(batch->filled[0], 0);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_choose__take_shard_subset(void **state)
{
    (void)state;
    et_samples *samples = NULL;
    const int32_t first[] = { 0, 1, 2 }, every[] = { 1, 5, 9 }, some[] = { 9, 2, 2, 7 };
    const uint32_t which[] = { 9, 2, 2, 7 };
    assert_int_equal(et_take_open(&samples, open_numbers(0, 10), 3, NULL), ET_OK);
    check_pass(samples, first, 3);
    assert_int_equal(et_shard_open(&samples, open_numbers(0, 10), 1, 4, NULL), ET_OK);
    check_pass(samples, every, 3);
    assert_int_equal(et_subset_open(&samples, open_numbers(0, 10), which, 4, NULL), ET_OK);
    check_pass(samples, some, 4);
}

/* Shards are all samples, none twice, also of a shard. */
static void test_choose__shards_are_all(void **state)
{
    (void)state;
    int seen[1000] = { 0 };
    const et_batches_options options = { .capacity = { 64 } };
    for (int64_t i = 0; i < 3; i++)
        for (int64_t k = 0; k < 2; k++) {
            et_samples *outer = NULL, *inner = NULL;
            static int32_t pass[1000];
            et_batch *batch;
            assert_int_equal(et_shard_open(&outer, open_numbers(0, 1000), i, 3, NULL), ET_OK);
            assert_int_equal(et_shard_open(&inner, outer, k, 2, NULL), ET_OK);
            et_source *source = open_batches(inner, &options);
            assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
            for (int64_t n = read_pass(source, batch, pass); n > 0; n--)
                seen[pass[n - 1]]++;
            et_batch_free(batch);
            et_source_close(source);
        }
    for (int i = 0; i < 1000; i++)
        assert_int_equal(seen[i], 1);
}

/* Shares by weight, evenly spread, each part's samples all before any comes again. */
static void test_mix__shares(void **state)
{
    (void)state;
    et_samples *parts[] = { open_numbers(0, 100), open_numbers(1000, 500) }, *mixed = NULL;
    const double weights[] = { 3, 1 };
    const et_batches_options options = { .repeat = true, .capacity = { 32 } };
    int32_t pass[600];
    int times[100] = { 0 };
    et_batch *batch;
    assert_int_equal(et_mix_open(&mixed, parts, weights, 2, 5, NULL), ET_OK);
    et_source *source = open_batches(mixed, &options);
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    for (int epoch = 0; epoch < 4; epoch++) {
        int first = 0;
        assert_int_equal(read_pass(source, batch, pass), 600);
        for (int i = 0; i < 600; i++) {
            first += pass[i] < 100;
            if (pass[i] < 100)
                times[pass[i]]++;
            assert_in_range(first + 2, (i + 1) * 3 / 4, (i + 1) * 3 / 4 + 4);
        }
        assert_int_equal(first, 450);
        for (int i = 0; i < 100; i++)
            assert_in_range(times[i], (epoch + 1) * 450 / 100, (epoch + 1) * 450 / 100 + 1);
    }
    et_batch_free(batch);
    et_source_close(source);
}

/* Passes differ, and a position inside any is found again. */
static void test_mix__positions(void **state)
{
    (void)state;
    enum { BATCHES = 40 };
    const double weights[] = { 1, 1 };
    const et_batches_options options = {
        .seed = 2, .shuffle = true, .repeat = true, .capacity = { 16 }
    };
    et_position positions[BATCHES];
    int32_t all[BATCHES][16];
    et_batch *batch;
    for (int again = 0; again < 2; again++) {
        et_samples *parts[] = { open_numbers(0, 50), open_numbers(1000, 90) }, *mixed = NULL;
        assert_int_equal(et_mix_open(&mixed, parts, weights, 2, 5, NULL), ET_OK);
        et_source *source = open_batches(mixed, &options);
        assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
        for (int i = 0; i < BATCHES; i++) {
            int at = again ? BATCHES - 1 - i : i;
            if (again)
                assert_int_equal(et_source_seek(source, &positions[at], NULL), ET_OK);
            else
                et_source_position(source, &positions[at]);
            assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
            if (again)
                assert_memory_equal(all[at], batch->data[0], sizeof all[at]);
            memcpy(all[at], batch->data[0], sizeof all[at]);
        }
        et_batch_free(batch);
        et_source_close(source);
    }
    assert_memory_not_equal(all[0], all[9], sizeof all[0]);
}

static void test_choose__mistakes(void **state)
{
    (void)state;
    et_samples *out, *ten = open_numbers(0, 10);
    et_samples *parts[] = { ten, ten };
    const uint32_t outside[] = { 3, 10 };
    const double bad[] = { 1, -1 }, large[] = { 1e300, 1 }, equal[] = { 1, 1 };
    et_error error = ET_ERROR_INIT;
    const et_batches_options none = { .capacity = { -1 } };
    const et_batches_options full = { .drop_remainder = true, .repeat = true, .capacity = { 11 } };
    et_source *source;
    assert_int_equal(et_take_open(&out, ten, 0, NULL), ET_ECONFIG);
    assert_int_equal(et_shard_open(&out, ten, 3, 3, NULL), ET_ECONFIG);
    assert_int_equal(et_shard_open(&out, ten, 10, 12, NULL), ET_ECONFIG);
    assert_int_equal(et_subset_open(&out, ten, outside, 2, NULL), ET_ECONFIG);
    assert_int_equal(et_subset_open(&out, ten, outside, 0, NULL), ET_EDATA);
    assert_int_equal(et_mix_open(&out, parts, bad, 2, 0, NULL), ET_ECONFIG);
    assert_int_equal(et_mix_open(&out, parts, large, 2, 0, &error), ET_ECONFIG);
    assert_non_null(
        strstr(error.text, "weight 1e+300 of part 0: give a positive number of at most 1e+"));
    assert_int_equal(et_mix_open(&out, parts, equal, 2, 0, NULL), ET_EUSAGE);
    assert_int_equal(et_batches_open(&source, ten, NULL, NULL), ET_OK);
    assert_int_equal(source->layout.capacity[0], 32);
    et_source_close(source); /* with the samples */
    ten = open_numbers(0, 10);
    assert_int_equal(et_batches_open(&source, ten, &none, NULL), ET_ECONFIG);
    assert_int_equal(et_batches_open(&source, ten, &full, NULL), ET_ECONFIG);
    et_samples_close(ten);
}

/* The last batch is dropped if it is not full, in every pass. */
static void test_batches__drop_remainder(void **state)
{
    (void)state;
    const et_batches_options options = {
        .repeat = true, .shuffle = true, .drop_remainder = true, .capacity = { 16 }
    };
    et_source *source = open_batches(open_numbers(0, 100), &options);
    et_batch *batch;
    int32_t pass[100];
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    for (int epoch = 0; epoch < 3; epoch++)
        assert_int_equal(read_pass(source, batch, pass), 96);
    et_batch_free(batch);
    et_source_close(source);
}

static int negate(void *payload, et_batch *batch, et_error *error)
{
    (void)error;
    int32_t *n = batch->data[0];
    for (int64_t i = 0; i < batch->filled[0]; i++)
        n[i] = -n[i] - *(int *)payload;
    return ET_OK;
}

static void test_map__changes_batches(void **state)
{
    (void)state;
    int offset = 1000;
    const et_batches_options options = { .capacity = { 4 } };
    et_source *source = open_batches(open_numbers(1, 4), &options);
    et_batch *batch;
    const int32_t expected[] = { -1001, -1002, -1003, -1004 };
    assert_int_equal(et_map_open(&source, source, negate, &offset, NULL), ET_OK);
    assert_int_equal(et_prefetch_open(&source, source, 2, NULL), ET_OK);
    assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_memory_equal(batch->data[0], expected, sizeof expected);
    char text[100];
    et_source_describe(source, batch, text, sizeof text);
    assert_string_equal(text, "row 0, row 1, row 2, row 3");
    assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
    assert_int_equal(batch->filled[0], 0);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arrays__batches),
        cmocka_unit_test(test_choose__take_shard_subset),
        cmocka_unit_test(test_choose__shards_are_all),
        cmocka_unit_test(test_mix__shares),
        cmocka_unit_test(test_mix__positions),
        cmocka_unit_test(test_choose__mistakes),
        cmocka_unit_test(test_batches__drop_remainder),
        cmocka_unit_test(test_map__changes_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
