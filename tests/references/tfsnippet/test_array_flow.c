/* TFSnippet, tests/dataflows/test_array_flow.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

static void test_array_flow__arrays(void **state)
{
    (void)state;
    int32_t *x = arange(0);
    const et_array arrays[] = { { "x", ET_I32, x, et_shape_scalar() },
                                { "y", ET_I32, x, et_shape_1(2) } };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, arrays, 2, 5, error));
    assert_ptr_equal(et_samples_array(samples, "x").data, x);
    assert_ptr_equal(et_samples_array(samples, "y").data, x);
    assert_int_equal(samples->layout.fields, 2 + 1); /* and the mask */
    assert_int_equal(samples->count, 5);
    assert_true(et_shape_equal(samples->layout.field[0].item, et_shape_scalar()));
    assert_true(et_shape_equal(samples->layout.field[1].item, et_shape_1(2)));
    et_source *source = open_flow(samples, (et_batches_options){ .capacity = { 4 } });
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 4); /* not shuffled */
    assert_next(source, batch, 0, arange(4), 1); /* not left out */
    et_batch_free(batch);
    et_source_close(source);
}

/* The only batch of the first flow is left out: there is none. */
static void test_array_flow__property(void **state)
{
    (void)state;
    const et_array arrays[] = { { "x", ET_I32, arange(0), et_shape_1(3) },
                                { "y", ET_I32, arange(0), et_shape_scalar() } };
    const et_batches_options options = { .shuffle = true,
                                         .drop_remainder = true,
                                         .capacity = { 5 } };
    et_samples *samples;
    et_source *source;
    assert_ok(et_arrays_open(&samples, arrays, 2, 4, error));
    assert_int_equal(samples->layout.fields, 2 + 1);
    assert_int_equal(samples->count, 4);
    assert_true(et_shape_equal(samples->layout.field[0].item, et_shape_1(3)));
    assert_true(et_shape_equal(samples->layout.field[1].item, et_shape_scalar()));
    source = open_flow(samples, options);
    assert_int_equal(source->layout.capacity[0], 5);
    et_batch *batch = batch_of(source);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
    source = range_flow(0, 12, 5);
    batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 5); /* by default neither shuffled ... */
    assert_next(source, batch, 0, arange(5), 5);
    assert_next(source, batch, 0, arange(10), 2); /* ... nor left out */
    et_batch_free(batch);
    et_source_close(source);
}

/* Here: the caller gives one number of rows for all arrays, so no array is a scalar, and unequal
 * arrays fail only when they are gathered. */
static void test_array_flow__errors(void **state)
{
    (void)state;
    const et_array array = { "x", ET_I32, arange(0), et_shape_scalar() };
    const et_array nothing = { "x", ET_I32, NULL, et_shape_scalar() };
    const int begin = 0;
    et_samples *samples;
    assert_fails(et_arrays_open(&samples, &array, 0, 3, error), ET_ECONFIG,
                 "give at least one array");
    assert_fails(et_arrays_open(&samples, &nothing, 1, 3, error), ET_ECONFIG, "give a name, data");
    assert_fails(et_arrays_open(&samples, &array, 1, 0, error), ET_ECONFIG,
                 "1 to 2^32 - 1 samples");
    et_samples *parts[] = { open_ranges(&begin, 1, 3), open_ranges(&begin, 1, 4) };
    assert_fails(et_gather_open(&samples, parts, 2, error), ET_ECONFIG,
                 "gathered parts need equal numbers of samples");
    et_samples_close(parts[0]);
    et_samples_close(parts[1]);
}

static void test_array_flow__iterator(void **state)
{
    (void)state;
    const int begin = 0;
    et_source *source = range_flow(0, 12, 5);
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 5);
    assert_next(source, batch, 0, arange(5), 5);
    assert_next(source, batch, 0, arange(10), 2);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);

    source = open_flow(open_ranges(&begin, 1, 12),
                       (et_batches_options){ .drop_remainder = true, .capacity = { 5 } });
    batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 5);
    assert_next(source, batch, 0, arange(5), 5);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);

    const et_array arrays[] = { { "x", ET_I32, arange(0), et_shape_scalar() },
                                { "y", ET_I32, arange(0), et_shape_1(2) } };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, arrays, 2, 6, error));
    source = open_flow(samples, (et_batches_options){ .capacity = { 5 } });
    batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 5);
    assert_field(batch, 1, arange(0), 10);
    assert_next(source, batch, 0, arange(5), 1);
    assert_field(batch, 1, arange(10), 2);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);

    source = open_flow(open_ranges(&begin, 1, 12),
                       (et_batches_options){ .shuffle = true, .capacity = { 5 } });
    assert_shuffled(source, 0, 1, 12, 3);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_array_flow__arrays),
        cmocka_unit_test(test_array_flow__property),
        cmocka_unit_test(test_array_flow__errors),
        cmocka_unit_test(test_array_flow__iterator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
