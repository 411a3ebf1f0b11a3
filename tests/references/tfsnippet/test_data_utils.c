/* TFSnippet, tests/utils/test_data_utils.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* The slices of count rows: the number of rows in each. */
static void check_slices(int64_t count, int64_t size, bool whole, const int *rows)
{
    const int begin = 0;
    et_source *source =
        open_flow(open_ranges(&begin, 1, count),
                  (et_batches_options){ .drop_remainder = whole, .capacity = { size } });
    et_batch *batch = batch_of(source);
    for (int first = 0; *rows; first += *rows++)
        assert_next(source, batch, 0, arange(first), *rows);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

/* Differs: arrays without rows are an error, because a source without a batch is one as well. */
static void test_data_utils__minibatch_slices_iterator(void **state)
{
    (void)state;
    const et_array array = { "a", ET_I32, arange(0), et_shape_scalar() };
    et_samples *samples;
    assert_fails(et_arrays_open(&samples, &array, 1, 0, error), ET_ECONFIG,
                 "1 arrays of 0 samples");
    check_slices(9, 10, false, (const int[]){ 9, 0 });
    check_slices(10, 10, false, (const int[]){ 10, 0 });
    check_slices(10, 9, false, (const int[]){ 9, 1, 0 });
    check_slices(10, 9, true, (const int[]){ 9, 0 });
}

/* ---- splitting ---- */

static const et_array ten = { "a", ET_I32, numbers, { 0 } };

static void check_part(et_samples *part, int begin, int count)
{
    if (!count) {
        assert_null(part);
        return;
    }
    assert_int_equal(part->count, count);
    et_source *source = open_flow(part, (et_batches_options){ .capacity = { count } });
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, arange(begin), count);
    et_batch_free(batch);
    et_source_close(source);
}

/* 0 .. 9 in order: the second part has so many of the last. */
static void check_split(et_split_options options, int second)
{
    et_samples *left, *right;
    arange(0);
    options.no_shuffle = true;
    assert_ok(et_split_open(&left, &right, &ten, 1, 10, &options, error));
    check_part(left, 0, 10 - second);
    check_part(right, 10 - second, second);
}

/* Here: arrays of a split have one count, so unequal ones fail only when they are gathered. */
static void test_data_utils__error_inputs(void **state)
{
    (void)state;
    static const double portions[] = { -0.1, 1.1 };
    const int begin = 0;
    const et_split_options nothing = { .portion = 0 };
    et_samples *left, *right;
    assert_fails(et_split_open(&left, &right, &ten, 0, 10, &nothing, error), ET_ECONFIG,
                 "needs a portion or a size");
    assert_fails(et_split_open(&left, &right, &ten, 1, 1, &nothing, error), ET_ECONFIG,
                 "needs a portion or a size");
    for (int i = 0; i < 2; i++) {
        const et_split_options options = { .portion = portions[i] };
        assert_fails(et_split_open(&left, &right, &ten, 1, 10, &options, error), ET_ECONFIG,
                     "give a portion from 0 to 1");
    }
    et_samples *parts[] = { open_ranges(&begin, 1, 10), open_ranges(&begin, 1, 11) };
    assert_fails(et_gather_open(&left, parts, 2, error), ET_ECONFIG, "equal numbers of samples");
    et_samples_close(parts[0]);
    et_samples_close(parts[1]);
}

static void test_data_utils__empty_inputs(void **state)
{
    (void)state;
    const et_split_options options[] = { { .portion = 0.2 }, { .size = 10 } };
    for (int i = 0; i < 2; i++) {
        et_samples unused, *left = &unused, *right = &unused;
        assert_ok(et_split_open(&left, &right, NULL, 0, 0, &options[i], error));
        assert_null(left);
        assert_null(right);
    }
}

/* Here: an option of 0 is one that is not given in C, so -1 is the size of an empty second part,
 * and 0 alone is refused. */
static void test_data_utils__split_by_size(void **state)
{
    (void)state;
    et_samples *left, *right;
    check_split((et_split_options){ .size = -1 }, 0);
    assert_fails(et_split_open(&left, &right, &ten, 1, 10, &(et_split_options){ .size = 0 }, error),
                 ET_ECONFIG, "a size of -1 gives none");
    check_split((et_split_options){ .size = 1 }, 1);
    check_split((et_split_options){ .size = 9 }, 9);
    check_split((et_split_options){ .size = 10 }, 10);
    check_split((et_split_options){ .size = 11 }, 10);
}

static void test_data_utils__shuffling_with_multiple_arrays(void **state)
{
    (void)state;
    const et_array arrays[] = { { "a", ET_I32, arange(0), et_shape_scalar() },
                                { "b", ET_I32, arange(10), et_shape_scalar() } };
    const et_split_options options = { .size = 1 };
    et_samples *part[2];
    int seen[10] = { 0 };
    assert_ok(et_split_open(&part[0], &part[1], arrays, 2, 10, &options, error));
    for (int i = 0; i < 2; i++) {
        const int rows = i ? 1 : 9;
        assert_int_equal(part[i]->count, rows);
        et_source *source = open_flow(part[i], (et_batches_options){ .capacity = { 9 } });
        et_batch *batch = batch_of(source);
        take(source, batch, rows);
        for (int k = 0; k < rows; k++) {
            const int32_t a = ((const int32_t *)batch->data[0])[k];
            assert_in_range(a, 0, 9);
            assert_int_equal(((const int32_t *)batch->data[1])[k], a + 10);
            assert_int_equal(seen[a]++, 0);
        }
        et_batch_free(batch);
        et_source_close(source);
    }
}

static void test_data_utils__split_multi_dimensional_data(void **state)
{
    (void)state;
    const et_array array = { "a", ET_I32, arange(0), et_shape_2(2, 2) };
    const et_split_options options = { .size = 3, .no_shuffle = true };
    et_samples *part[2];
    assert_ok(et_split_open(&part[0], &part[1], &array, 1, 6, &options, error));
    for (int i = 0; i < 2; i++) {
        et_source *source = open_flow(part[i], (et_batches_options){ .capacity = { 3 } });
        et_batch *batch = batch_of(source);
        assert_true(et_shape_equal(et_layout_shape(&source->layout, 0), et_shape_3(3, 2, 2)));
        take(source, batch, 3);
        assert_field(batch, 0, arange(12 * i), 12);
        et_batch_free(batch);
        et_source_close(source);
    }
}

static void test_data_utils__split_by_portion(void **state)
{
    (void)state;
    check_split((et_split_options){ .portion = 0.1 }, 1);
    check_split((et_split_options){ .portion = 0.9 }, 9);
}

/* Of one array: the same call. */
static void test_data_utils__split_numpy_array(void **state)
{
    (void)state;
    check_split((et_split_options){ .portion = 0.1 }, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_utils__minibatch_slices_iterator),
        cmocka_unit_test(test_data_utils__error_inputs),
        cmocka_unit_test(test_data_utils__empty_inputs),
        cmocka_unit_test(test_data_utils__split_by_size),
        cmocka_unit_test(test_data_utils__shuffling_with_multiple_arrays),
        cmocka_unit_test(test_data_utils__split_multi_dimensional_data),
        cmocka_unit_test(test_data_utils__split_by_portion),
        cmocka_unit_test(test_data_utils__split_numpy_array),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
