#include "data/batches/source.h"

#include "data/flows_fixture.h"

static et_source *five(bool repeats)
{
    return batches_of(open_named("n", 5),
                      (et_batches_options){ .capacity = { 2 }, .repeat = repeats });
}

static int first_of(const et_batch_cursor *cursor)
{
    return ((const int32_t *)field_of(cursor->batch, "n"))[0];
}

/* The firsts of the batches of a pass, which is then over. */
static void assert_pass(et_batch_cursor *cursor, const int *firsts, int count)
{
    bool over;
    for (int i = 0; i < count; i++) {
        assert_ok(et_batch_cursor_next(cursor, &over, error));
        assert_false(over);
        assert_int_equal(first_of(cursor), firsts[i]);
    }
    assert_ok(et_batch_cursor_next(cursor, &over, error));
    assert_true(over);
}

/* Of a source that goes round: the first batch of the next pass waits, and is saved as not read. */
static void test_cursor__epochs(void **state)
{
    (void)state;
    static const int firsts[] = { 0, 2, 4 };
    et_source *source = five(true), *other = five(true);
    et_batch_cursor cursor, again;
    et_arena *arena = et_arena_new();
    et_value *saved = et_value_dict(arena);
    assert_ok(et_batch_cursor_open(&cursor, source, error));
    for (int pass = 0; pass < 3; pass++) {
        assert_pass(&cursor, firsts, 3);
        assert_true(cursor.waits && cursor.begun);
        assert_int_equal(cursor.pass, pass + 1);
    }
    assert_ok(et_batch_cursor_save(&cursor, saved, error));
    assert_ok(et_batch_cursor_open(&again, other, error));
    assert_ok(et_batch_cursor_restore(&again, saved, error));
    assert_pass(&again, firsts, 3);
    assert_pass(&cursor, firsts, 3);
    assert_ok(et_batch_cursor_rewind(&cursor, false, error));
    assert_pass(&cursor, firsts, 3);
    assert_int_equal(cursor.pass, 1);
    et_batch_cursor_release(&cursor);
    et_batch_cursor_release(&again);
    et_arena_free(arena);
    et_source_close(source);
    et_source_close(other);
}

/* A waiting batch is given back, once. */
static void test_cursor__gives_back(void **state)
{
    (void)state;
    static const int firsts[] = { 2, 4 };
    et_source *source = five(true);
    et_batch *batch = batch_of(source);
    et_batch_cursor cursor;
    next(source, batch);
    assert_ok(et_batch_cursor_open(&cursor, source, error));
    assert_pass(&cursor, firsts, 2);
    for (int i = 0; i < 2; i++)
        assert_ok(et_batch_cursor_give_back(&cursor, error));
    et_batch_cursor_release(&cursor);
    next(source, batch);
    assert_int_equal(((const int32_t *)field_of(batch, "n"))[0], 0);
    et_batch_free(batch);
    et_source_close(source);
}

/* A source that ends is set back to the beginning of its data. */
static void test_cursor__ends(void **state)
{
    (void)state;
    static const int firsts[] = { 0, 2, 4 };
    et_source *source = five(false);
    et_batch *batch = batch_of(source);
    et_batch_cursor cursor;
    next(source, batch);
    assert_ok(et_batch_cursor_open(&cursor, source, error));
    for (int i = 0; i < 2; i++) {
        assert_pass(&cursor, firsts + !i, 2 + i);
        assert_false(cursor.waits || cursor.begun);
        assert_pass(&cursor, NULL, 0);
        assert_ok(et_batch_cursor_rewind(&cursor, i, error));
    }
    et_batch_cursor_release(&cursor);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cursor__epochs),
        cmocka_unit_test(test_cursor__gives_back),
        cmocka_unit_test(test_cursor__ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
