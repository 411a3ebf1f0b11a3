/* Layouts and batches that do not belong together, made by hand or by a mistake: refused before
 * anything is written, in release builds too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <etude/data.h>

enum { COUNT = 6 };

static float x[COUNT][3];
static int32_t labels[COUNT];

static et_source *source_of(const et_array *array, int fields, int64_t capacity)
{
    et_samples *samples = NULL;
    et_source *source = NULL;
    et_batches_options options = { .capacity = { capacity }, .repeat = true };
    assert_int_equal(et_arrays_open(&samples, array, fields, COUNT, NULL), ET_OK);
    assert_int_equal(et_batches_open(&source, samples, &options, NULL), ET_OK);
    return source;
}

static void test_layouts__other_batches(void **state)
{
    (void)state;
    const et_array both[] = { { "x", ET_F32, x, et_shape_1(3) },
                              { "labels", ET_I32, labels, et_shape_scalar() } };
    const et_array narrow[] = { { "x", ET_F32, x, et_shape_1(1) }, both[1] };
    const et_array turned[] = { both[1], both[0] };
    struct {
        et_source *source;
        bool fits;
    } made[] = {
        { source_of(both, 2, 4), true },    { source_of(both, 2, 2), false },
        { source_of(both, 1, 4), false },   { source_of(narrow, 2, 4), false },
        { source_of(turned, 2, 4), false },
    };
    et_source *source = source_of(both, 2, 4);
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) {
        et_error error = ET_ERROR_INIT;
        et_batch *batch = NULL;
        assert_int_equal(et_batch_new(&batch, &made[i].source->layout, &error), ET_OK);
        assert_int_equal(et_source_next(source, batch, &error), made[i].fits ? ET_OK : ET_EUSAGE);
        if (!made[i].fits)
            assert_non_null(strstr(error.text, "et_batch_new"));
        et_batch_free(batch);
        et_source_close(made[i].source);
    }
    et_source_close(source);
}

static void test_layouts__arrays(void **state)
{
    (void)state;
    const et_array twice[] = { { "x", ET_F32, x, et_shape_1(3) },
                               { "x", ET_I32, labels, et_shape_scalar() } };
    const et_array unnamed[] = { { "", ET_F32, x, et_shape_1(3) } };
    et_samples *samples = NULL;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_arrays_open(&samples, twice, 2, COUNT, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "array x: another array has this name"));
    assert_int_equal(et_arrays_open(&samples, unnamed, 1, COUNT, &error), ET_ECONFIG);
}

static void test_layouts__by_hand(void **state)
{
    (void)state;
    const et_layout_field right = { .name = "x", .dtype = ET_F32, .item = { .rank = 0 } };
    et_layout_field fields[] = { right, right, right, right, right };
    fields[0].item.rank = 60;
    fields[1].kind = 1 << 20;
    fields[2].dtype = (et_dtype)99;
    fields[3].name = NULL;
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const et_layout layout = {
            .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { 3 }, .field = &fields[i]
        };
        et_batch *batch = NULL;
        assert_int_equal(et_batch_new(&batch, &layout, NULL), i < 4 ? ET_ECONFIG : ET_OK);
        assert_int_equal(batch != NULL, i == 4);
        et_batch_free(batch);
    }
    for (int64_t capacity = -5; capacity < 1; capacity++) {
        const et_layout layout = {
            .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { capacity }, .field = &right
        };
        et_batch *batch = NULL;
        assert_int_equal(et_batch_new(&batch, &layout, NULL), ET_ECONFIG);
        assert_int_equal(et_layout_shape(&layout, et_layout_find(&layout, "nope")).rank, 0);
    }
}

/* No size of it overflows. */
static void test_layouts__huge(void **state)
{
    (void)state;
    const int64_t wide = (int64_t)1 << 40;
    const et_layout_field plain = { .name = "x", .dtype = ET_F32 };
    const et_layout_field offsets = { .name = "x", .dtype = ET_I32, .empty = ET_EMPTY_OFFSETS };
    const et_layout_field rows = { .name = "x", .dtype = ET_F32, .item = { 1, { wide } } };
    const struct {
        et_layout_field field;
        int64_t capacity;
    } cases[] = {
        { plain, (int64_t)1 << 62 }, { plain, INT64_MAX }, { offsets, INT64_MAX },
        { plain, (int64_t)1 << 31 }, { rows, INT32_MAX },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const et_layout layout = { .kinds = 2,
                                   .fields = 1,
                                   .kind = { "row", "token" },
                                   .capacity = { cases[i].capacity, 1 },
                                   .field = &cases[i].field };
        et_batch *batch = NULL;
        assert_int_equal(et_batch_new(&batch, &layout, NULL), ET_ECONFIG);
        assert_null(batch);
    }
    et_layout_field many[300];
    for (int i = 0; i < 300; i++)
        many[i] = rows;
    const et_layout layout = { .kinds = 1,
                               .fields = 300,
                               .kind = { "row" },
                               .capacity = { (int64_t)1 << 14 },
                               .field = many };
    et_batch *batch = NULL;
    assert_int_equal(et_batch_new(&batch, &layout, NULL), ET_ECONFIG);
}

/* A pool of more samples than there are is one of all. */
static void test_layouts__pool(void **state)
{
    (void)state;
    const et_array array = { "x", ET_F32, x, et_shape_1(3) };
    const int64_t pools[] = { COUNT, COUNT + 1, INT64_MAX };
    for (int i = 0; i < 3; i++) {
        const et_batches_options options = { .shuffle = true, .pool = pools[i], .capacity = { 4 } };
        et_samples *samples = NULL;
        et_source *source = NULL;
        et_batch *batch = NULL;
        assert_int_equal(et_arrays_open(&samples, &array, 1, COUNT, NULL), ET_OK);
        assert_int_equal(et_batches_open(&source, samples, &options, NULL), ET_OK);
        assert_int_equal(et_batch_new(&batch, &source->layout, NULL), ET_OK);
        for (int64_t left = COUNT; left >= 0; left -= 4) {
            assert_int_equal(et_source_next(source, batch, NULL), ET_OK);
            assert_int_equal(batch->filled[0], left < 4 ? left : 4);
        }
        et_batch_free(batch);
        et_source_close(source);
    }
}

/* The number of filled items that a program gives may not exceed the capacity. */
static void test_layouts__filled(void **state)
{
    (void)state;
    const et_layout_field field = { .name = "x", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { 3 }, .field = &field
    };
    const int64_t said[] = { 1000000000, -7, 2 }, held[] = { 3, 0, 2 };
    et_batch *batch = NULL;
    assert_int_equal(et_batch_new(&batch, &layout, NULL), ET_OK);
    for (int i = 0; i < 3; i++) {
        batch->filled[0] = said[i];
        et_batch_finish(batch);
        assert_int_equal(batch->filled[0], held[i]);
    }
    et_batch_free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layouts__other_batches), cmocka_unit_test(test_layouts__arrays),
        cmocka_unit_test(test_layouts__by_hand),       cmocka_unit_test(test_layouts__huge),
        cmocka_unit_test(test_layouts__pool),          cmocka_unit_test(test_layouts__filled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
