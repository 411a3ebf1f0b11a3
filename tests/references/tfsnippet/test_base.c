/* TFSnippet, tests/dataflows/test_base.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

typedef struct counted {
    int begun;
    bool given; /* the batch of the pass */
} counted;

static int begin_pass(void *payload, int64_t epoch, et_error *error)
{
    counted *self = payload;
    (void)epoch, (void)error;
    self->begun++;
    self->given = false;
    return ET_OK;
}

static int next_batch(void *payload, et_batch *batch, et_error *error)
{
    counted *self = payload;
    (void)error;
    ((int32_t *)batch->data[0])[0] = 123;
    batch->filled[0] = !self->given;
    self->given = true;
    return ET_OK;
}

static void test_base__iter(void **state)
{
    (void)state;
    const et_layout_field field = { .name = "x", .dtype = ET_I32 };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { 1 }, .field = &field
    };
    counted flow = { .begun = 0 };
    const et_factory factory = { .payload = &flow, .begin = begin_pass, .next = next_batch };
    const int32_t expected = 123;
    et_source *source;
    assert_ok(et_factory_open(&source, &layout, &factory, false, error));
    et_batch *batch = batch_of(source);
    assert_int_equal(flow.begun, 0);
    assert_ok(et_source_begin(source, "the outer iteration", error));
    assert_next(source, batch, 0, &expected, 1);
    assert_int_equal(flow.begun, 1);
    assert_fails(et_source_begin(source, "the inner iteration", error), ET_EUSAGE,
                 "because a pass of the outer iteration is open");
    take(source, batch, 0);
    et_source_end(source);
    assert_int_equal(flow.begun, 1);
    assert_ok(et_source_begin(source, "another iteration", error));
    et_source_end(source);
    et_batch_free(batch);
    et_source_close(source);
}

static void check_arrays(int64_t count, int second)
{
    const int begins[] = { 0, second };
    et_source *source =
        open_flow(open_ranges(begins, 2, count), (et_batches_options){ .capacity = { 6 } });
    et_samples *arrays;
    assert_ok(et_cache_open(&arrays, source, error));
    assert_int_equal(arrays->count, count);
    assert_memory_equal(et_samples_array(arrays, "a").data, arange(0),
                        (size_t)count * sizeof(int32_t));
    assert_memory_equal(et_samples_array(arrays, "b").data, arange(second),
                        (size_t)count * sizeof(int32_t));
    et_source *flow = open_flow(arrays, (et_batches_options){ .capacity = { 6 } });
    et_batch *batch = batch_of(flow);
    assert_next(flow, batch, 1, arange(second), count < 6 ? (int)count : 6);
    et_batch_free(batch);
    et_source_close(flow);
    et_source_close(source);
}

/* Here: arrays without rows are refused when they are opened, so the empty flow here leaves out
 * its only batch. */
static void test_base__get_arrays(void **state)
{
    (void)state;
    const et_array array = { "a", ET_I32, arange(0), et_shape_scalar() };
    et_samples *samples;
    assert_fails(et_arrays_open(&samples, &array, 1, 0, error), ET_ECONFIG,
                 "1 arrays of 0 samples: give at least one array and 1 to");
    const int begin = 0;
    et_source *empty = open_flow(open_ranges(&begin, 1, 4),
                                 (et_batches_options){ .drop_remainder = true, .capacity = { 5 } });
    assert_fails(et_cache_open(&samples, empty, error), ET_EDATA, "has no samples");
    et_source_close(empty);
    check_arrays(5, 5);
    check_arrays(10, 10);
}

/* The next batch is that of `arange(from)`, and the batch has it until the next call. */
static void assert_next_batch(et_source *source, et_batch *batch, int from, int rows)
{
    assert_ok(et_source_next_batch(source, batch, error));
    assert_int_equal(batch->filled[0], rows);
    assert_memory_equal(batch->data[0], arange(from), (size_t)rows * sizeof(int32_t));
}

static void test_base__implicit_iterator(void **state)
{
    (void)state;
    et_source *source = range_flow(0, 3, 2);
    et_batch *batch = batch_of(source);
    assert_int_equal(batch->filled[0], 0);
    assert_next_batch(source, batch, 0, 2);
    assert_next_batch(source, batch, 2, 1);
    assert_ok(et_source_next_batch(source, batch, error));
    assert_int_equal(batch->filled[0], 0);
    assert_next_batch(source, batch, 0, 2);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_base__iter),
        cmocka_unit_test(test_base__get_arrays),
        cmocka_unit_test(test_base__implicit_iterator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
