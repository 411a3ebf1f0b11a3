/* TFSnippet, tests/dataflows/test_seq_flow.py. Its int64 numbers are int32 here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

static const int32_t odd[] = { 1, 3, 5, 7 };

/* 1, 3, 5, 7 */
static et_samples *open_odd(void)
{
    et_samples *samples;
    assert_ok(et_sequence_open(&samples, "i", 1, 9, 2, error));
    return samples;
}

static void test_seq_flow__seq(void **state)
{
    (void)state;
    et_samples *samples = open_odd();
    assert_int_equal(samples->layout.fields, 1 + 1); /* and the mask */
    assert_int_equal(samples->count, 4);
    assert_true(et_shape_equal(samples->layout.field[0].item, et_shape_scalar()));
    et_source *source = open_flow(samples, (et_batches_options){ .capacity = { 3 } });
    assert_int_equal(source->layout.capacity[0], 3);
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, odd, 3);
    assert_next(source, batch, 0, odd + 3, 1);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_seq_flow__property(void **state)
{
    (void)state;
    et_source *source = open_flow(
        open_odd(),
        (et_batches_options){ .shuffle = true, .drop_remainder = true, .capacity = { 3 } });
    assert_int_equal(source->layout.capacity[0], 3);
    et_batch *batch = batch_of(source);
    take(source, batch, 3);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
    et_samples *samples;
    assert_ok(et_sequence_open(&samples, "i", 1, 9, 1, error));
    source = open_flow(samples, (et_batches_options){ .capacity = { 3 } });
    batch = batch_of(source);
    assert_next(source, batch, 0, arange(1), 3);
    assert_next(source, batch, 0, arange(4), 3);
    assert_next(source, batch, 0, arange(7), 2);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_seq_flow__errors(void **state)
{
    (void)state;
    et_source *source;
    et_samples *samples = open_odd();
    assert_fails(
        et_batches_open(&source, samples, &(et_batches_options){ .shuffle = false }, error),
        ET_ECONFIG, "has no usual batch size");
    et_samples_close(samples);
}

static void test_seq_flow__iterator(void **state)
{
    (void)state;
    et_source *source = open_flow(open_odd(), (et_batches_options){ .capacity = { 3 } });
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, odd, 3);
    assert_next(source, batch, 0, odd + 3, 1);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);

    source =
        open_flow(open_odd(), (et_batches_options){ .drop_remainder = true, .capacity = { 3 } });
    batch = batch_of(source);
    assert_next(source, batch, 0, odd, 3);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);

    source = open_flow(open_odd(), (et_batches_options){ .shuffle = true, .capacity = { 3 } });
    assert_shuffled(source, 1, 2, 4, 2);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seq_flow__seq),
        cmocka_unit_test(test_seq_flow__property),
        cmocka_unit_test(test_seq_flow__errors),
        cmocka_unit_test(test_seq_flow__iterator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
