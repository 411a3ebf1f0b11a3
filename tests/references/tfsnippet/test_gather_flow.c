/* TFSnippet, tests/dataflows/test_gather_flow.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* 0, 1, ... of so many rows and 10, ... 16, and the first batch of both. */
static et_source *gather(int64_t rows, et_batch **batch)
{
    const et_batches_options four = { .capacity = { 4 } };
    const et_array array = { "b", ET_I32, arange(10), et_shape_scalar() };
    et_source *parts[] = { range_flow(0, rows, 4), NULL }, *source;
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, &array, 1, 7, error));
    parts[1] = open_flow(samples, four);
    assert_ok(et_gather_sources_open(&source, parts, 2, error));
    *batch = batch_of(source);
    assert_next(source, *batch, 0, arange(0), 4);
    assert_field(*batch, et_layout_find(&source->layout, "b"), arange(10), 4);
    return source;
}

/* Differs: a batch has one number of rows, so a flow that ends inside a batch of another is an
 * error instead of arrays of 4 and 3 rows. Flows of equal lengths give all batches. */
static void test_gather_flow__flow(void **state)
{
    (void)state;
    et_batch *batch;
    et_source *source = gather(10, &batch);
    assert_fails(et_source_next(source, batch, error), ET_EDATA,
                 "a has a batch of 4 samples where b has one of 3");
    et_batch_free(batch);
    et_source_close(source);
    source = gather(7, &batch);
    assert_next(source, batch, 0, arange(4), 3);
    assert_field(batch, et_layout_find(&source->layout, "b"), arange(14), 3);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_gather_flow__errors(void **state)
{
    (void)state;
    et_source *none[] = { NULL }, *source;
    et_samples *nothing[] = { NULL }, *samples;
    assert_fails(et_gather_sources_open(&source, none, 0, error), ET_ECONFIG, "0 parts to gather");
    assert_fails(et_gather_sources_open(&source, none, 1, error), ET_EUSAGE,
                 "part 0 to gather is NULL");
    assert_fails(et_gather_open(&samples, nothing, 1, error), ET_EUSAGE,
                 "part 0 to gather is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather_flow__flow),
        cmocka_unit_test(test_gather_flow__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
