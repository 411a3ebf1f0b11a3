/* TFSnippet, tests/dataflows/test_mapper_flow.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* A field that is the sum of two. */
static int add(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    const int32_t *a = from->data[0], *b = from->data[1];
    int32_t *sum = to->data[et_layout_find(to->layout, "sum")];
    (void)payload, (void)error;
    for (int64_t i = 0; i < from->filled[0]; i++)
        sum[i] = a[i] + b[i];
    return ET_OK;
}

static void test_mapper_flow__map_to_tuple(void **state)
{
    (void)state;
    static const int begins[] = { 0, 5 };
    static const int32_t sums[] = { 5, 7, 9, 11, 13 };
    static const char *const names[] = { "sum" };
    const et_layout_field sum = { .name = "sum", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    et_source *source =
        open_flow(open_ranges(begins, 2, 5), (et_batches_options){ .capacity = { 4 } });
    assert_ok(et_convert_open(&source, source, &sum, 1, add, NULL, error));
    assert_ok(et_select_open(&source, source, names, 1, error));
    assert_int_equal(source->layout.fields, 1 + 1); /* and the mask */
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, sums, 4);
    assert_next(source, batch, 0, sums + 4, 1);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

static int add_in_place(void *payload, et_batch *batch, et_error *error)
{
    int32_t *a = batch->data[0];
    const int32_t *b = batch->data[1];
    (void)payload, (void)error;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        a[i] += b[i];
    return ET_OK;
}

static void test_mapper_flow__map_to_list(void **state)
{
    (void)state;
    static const int begins[] = { 0, 5 };
    static const int32_t sums[] = { 5, 7, 9, 11, 13 };
    static const char *const names[] = { "a" };
    et_source *source =
        open_flow(open_ranges(begins, 2, 5), (et_batches_options){ .capacity = { 4 } });
    assert_ok(et_map_open(&source, source, add_in_place, NULL, error));
    assert_ok(et_select_open(&source, source, names, 1, error));
    et_batch *batch = batch_of(source);
    assert_next(source, batch, 0, sums, 4);
    assert_next(source, batch, 0, sums + 4, 1);
    take(source, batch, 0);
    et_batch_free(batch);
    et_source_close(source);
}

static int add_one(void *payload, et_batch *batch, et_error *error)
{
    (void)payload, (void)error;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        ((int32_t *)batch->data[0])[i]++;
    return ET_OK;
}

static int multiply(void *payload, et_batch *batch, et_error *error)
{
    (void)payload, (void)error;
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        ((int32_t *)batch->data[1])[i] *= 2;
        ((int32_t *)batch->data[3])[i] *= 3;
    }
    return ET_OK;
}

static void check_mapped(et_map_fn *map, const int32_t first[4][4], const int32_t last[4])
{
    static const int begins[] = { 0, 5, 10, 15 };
    et_source *source =
        open_flow(open_ranges(begins, 4, 5), (et_batches_options){ .capacity = { 4 } });
    assert_ok(et_map_open(&source, source, map, NULL, error));
    et_batch *batch = batch_of(source);
    take(source, batch, 4);
    for (int f = 0; f < 4; f++)
        assert_field(batch, f, first[f], 4);
    take(source, batch, 1);
    for (int f = 0; f < 4; f++)
        assert_field(batch, f, &last[f], 1);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_mapper_flow__map_array_indices(void **state)
{
    (void)state;
    static const int32_t one[4][4] = {
        { 1, 2, 3, 4 }, { 5, 6, 7, 8 }, { 10, 11, 12, 13 }, { 15, 16, 17, 18 }
    };
    static const int32_t two[4][4] = {
        { 0, 1, 2, 3 }, { 10, 12, 14, 16 }, { 10, 11, 12, 13 }, { 45, 48, 51, 54 }
    };
    check_mapped(add_one, one, (const int32_t[]){ 5, 9, 14, 19 });
    check_mapped(multiply, two, (const int32_t[]){ 4, 18, 14, 57 });
}

static void test_mapper_flow__select(void **state)
{
    (void)state;
    static const int begins[] = { 0, 5, 10 };
    static const char *const names[] = { "a", "c", "a" };
    et_source *source =
        open_flow(open_ranges(begins, 3, 5), (et_batches_options){ .capacity = { 5 } });
    assert_ok(et_select_open(&source, source, names, 3, error));
    et_batch *batch = batch_of(source);
    for (int pass = 0; pass < 2; pass++) {
        assert_next(source, batch, 0, arange(0), 5);
        assert_field(batch, 1, arange(10), 5);
        assert_field(batch, 2, arange(0), 5);
        take(source, batch, 0);
        assert_ok(et_source_rewind(source, error));
    }
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapper_flow__map_to_tuple),
        cmocka_unit_test(test_mapper_flow__map_to_list),
        cmocka_unit_test(test_mapper_flow__map_array_indices),
        cmocka_unit_test(test_mapper_flow__select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
