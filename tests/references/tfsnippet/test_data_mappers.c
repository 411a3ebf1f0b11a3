/* TFSnippet, tests/dataflows/test_data_mappers.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* Of 13 numbers, three wide. */
static et_samples *open_windows(const int32_t *data)
{
    const et_array array = { "x", ET_I32, data, et_shape_scalar() };
    et_samples *windows;
    assert_ok(et_windows_open(&windows, &array, 13, 3, error));
    return windows;
}

/* The array is not copied. */
static void test_data_mappers__props(void **state)
{
    (void)state;
    int32_t *data = arange(0), changed[] = { 70, 1, 2 };
    et_samples *windows = open_windows(data);
    assert_true(et_shape_equal(windows->layout.field[0].item, et_shape_1(3)));
    et_source *source = open_flow(windows, (et_batches_options){ .capacity = { 1 } });
    et_batch *batch = batch_of(source);
    data[0] = 70;
    take(source, batch, 1);
    assert_field(batch, 0, changed, 3);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_data_mappers__transform(void **state)
{
    (void)state;
    static const uint32_t which[] = { 0, 5, 3 };
    static const int32_t expected[] = { 0, 1, 2, 5, 6, 7, 3, 4, 5 };
    et_samples *windows = open_windows(arange(0));
    assert_ok(et_subset_open(&windows, windows, which, 3, error));
    et_source *source = open_flow(windows, (et_batches_options){ .capacity = { 3 } });
    et_batch *batch = batch_of(source);
    take(source, batch, 3);
    assert_field(batch, 0, expected, 9);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_data_mappers__as_flow(void **state)
{
    (void)state;
    et_source *source =
        open_flow(open_windows(arange(0)), (et_batches_options){ .capacity = { 4 } });
    et_batch *batch = batch_of(source);
    for (int b = 0; b < 3; b++) {
        const int rows = b < 2 ? 4 : 3;
        take(source, batch, rows);
        for (int i = 0; i < rows; i++)
            assert_memory_equal((const int32_t *)batch->data[0] + 3 * i, arange(4 * b + i),
                                3 * sizeof(int32_t));
    }
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_data_mappers__props),
        cmocka_unit_test(test_data_mappers__transform),
        cmocka_unit_test(test_data_mappers__as_flow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
