/* TFSnippet, tests/dataflows/test_gather_flow.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* Differs: a batch has one number of rows, so a flow that ends inside a batch of another is an
 * error instead of arrays of 4 and 3 rows. */
static void test_gather_flow__flow(void **state)
{
    (void)state;
    const int x = 0, y = 10;
    const et_batches_options four = { .capacity = { 4 } };
    const char *const name = "b";
    et_source *parts[] = { open_flow(open_ranges(&x, 1, 10), four), NULL }, *source;
    const et_array array = { name, ET_I32, arange(y), et_shape_scalar() };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, &array, 1, 7, error));
    parts[1] = open_flow(samples, four);
    assert_ok(et_gather_sources_open(&source, parts, 2, error));
    const int b = et_layout_find(&source->layout, name);
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, arange(0), 4);
    assert_field(batch, b, arange(10), 4);
    assert_fails(et_source_next(source, batch, error), ET_EDATA,
                 "a has a batch of 4 samples where b has one of 3");
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
