/* Held-out rows, and rows that are read once for several users. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "calls.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"

enum { ROWS = 1000 };

static int64_t count_held(const bool *held, const int32_t *class, int which, int64_t rows)
{
    int64_t count = 0;
    for (int64_t i = 0; i < rows; i++)
        count += held[i] && (!class || class[i] == which);
    return count;
}

/* Of each class its share, to a row; drawn, and again the same. */
static void test_samples__held_out_by_class(void **state)
{
    (void)state;
    static int32_t class[ROWS];
    static bool held[ROWS], again[ROWS], other[ROWS];
    int64_t of[3] = { 0, 0, 0 };
    for (int i = 0; i < ROWS; i++)
        of[class[i] = i < 30 ? 2 : i % 2]++;
    assert_ok(et_tabular_hold_out(held, class, ROWS, 0.15, 7, error));
    assert_ok(et_tabular_hold_out(again, class, ROWS, 0.15, 7, error));
    assert_ok(et_tabular_hold_out(other, class, ROWS, 0.15, 8, error));
    assert_memory_equal(held, again, sizeof held);
    assert_memory_not_equal(held, other, sizeof held);
    assert_int_equal(count_held(held, NULL, 0, ROWS), 150);
    for (int c = 0; c < 3; c++) {
        double share = 0.15 * (double)of[c];
        double count = (double)count_held(held, class, c, ROWS);
        assert_true(count > share - 1 && count < share + 1);
    }
    /* Not the first or the last ones, as where rows are sorted by something. */
    assert_in_range(count_held(held, NULL, 0, ROWS / 2), 50, 100);
}

/* At least one row is held out and one is not, of two or more. */
static void test_samples__held_out_at_the_ends(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, held;
        double share;
    } cases[] = { { 2, 1, 0.15 }, { 2, 1, 0.9 },  { 3, 1, 0.01 },
                  { 3, 2, 0.89 }, { 10, 2, 0.2 }, { 1, 0, 0.15 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool held[10];
        assert_ok(et_tabular_hold_out(held, NULL, cases[i].rows, cases[i].share, 3, error));
        assert_int_equal(count_held(held, NULL, 0, cases[i].rows), cases[i].held);
    }
}

/* Whatever the seed, a class with one row keeps it, and the number of rows is made up of others. */
static void test_samples__held_out_of_rare_classes(void **state)
{
    (void)state;
    static int32_t class[ROWS];
    static bool held[ROWS];
    for (uint64_t seed = 0; seed < 40; seed++)
        for (int rare = 0; rare < 3; rare++) {
            /* The first in order, in the middle, the last: of one row and of two. */
            for (int i = 0; i < ROWS; i++)
                class[i] = i < 500 ? 1 : 3;
            class[17] = 2 * rare;
            class[18] = class[19] = 5;
            assert_ok(et_tabular_hold_out(held, class, ROWS, 0.15, seed, error));
            assert_false(held[17]);
            assert_in_range(count_held(held, class, 5, ROWS), 0, 1);
            assert_int_equal(count_held(held, NULL, 0, ROWS), 150);
            assert_ok(et_tabular_hold_out(held, class, 20, 0.9, seed, error));
            assert_int_equal(count_held(held, NULL, 0, 20), 17);
            assert_false(held[17]);
        }
    /* None but single ones: what validation needs comes before. */
    for (int i = 0; i < 5; i++)
        class[i] = i;
    assert_ok(et_tabular_hold_out(held, class, 5, 0.5, 1, error));
    assert_int_equal(count_held(held, NULL, 0, 5), 1);
}

/* ---- reading ---- */

typedef struct seen {
    int64_t rows, batches;
    int32_t last;
} seen;

static void visit(void *payload, const et_batch *batch, int64_t first)
{
    seen *s = payload;
    assert_int_equal(first, s->rows);
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        int32_t number = ((const int32_t *)batch->data[0])[i];
        assert_true(number > s->last);
        s->last = number;
    }
    s->rows += batch->filled[0];
    s->batches++;
}

static et_samples *open_numbers(void)
{
    static int32_t number[ROWS];
    for (int i = 0; i < ROWS; i++)
        number[i] = i;
    const et_array array = { "n", ET_I32, number, et_shape_scalar() };
    et_samples *samples;
    assert_ok(et_arrays_open(&samples, &array, 1, ROWS, error));
    return samples;
}

static void test_samples__read(void **state)
{
    (void)state;
    et_samples *samples = open_numbers();
    seen all = { 0, 0, -1 }, some = { 0, 0, -1 };
    assert_ok(et_tabular_read(samples, ROWS, visit, &all, error));
    assert_int_equal(all.rows, ROWS);
    assert_int_equal(all.last, ROWS - 1);
    assert_int_equal(all.batches, 4);
    assert_ok(et_tabular_read(samples, 10, visit, &some, error));
    assert_int_equal(some.rows, 10);
    assert_int_equal(some.last, 900);
    et_samples_close(samples);
}

/* Closing what is borrowed leaves the samples, whose rows and place it has. */
static void test_samples__borrowed(void **state)
{
    (void)state;
    et_samples *samples = open_numbers(), *borrowed, *part;
    static const uint32_t which[] = { 4, 9, 16 };
    char text[100];
    assert_ok(et_tabular_borrow(&borrowed, samples, error));
    assert_int_equal(borrowed->count, ROWS);
    assert_true(borrowed->fingerprint == samples->fingerprint);
    borrowed->class->describe(borrowed, 5, 0, text, sizeof text);
    assert_string_equal(text, "row 5");
    assert_ok(et_subset_open(&part, borrowed, which, 3, error));
    seen three = { 0, 0, -1 };
    assert_ok(et_tabular_read(part, 3, visit, &three, error));
    assert_int_equal(three.last, 16);
    et_samples_close(part);
    seen all = { 0, 0, -1 };
    assert_ok(et_tabular_read(samples, ROWS, visit, &all, error));
    et_samples_close(samples);
}

/* In a pass, each member gets each row once. Orders differ between members and between passes. A
 * seek restores the order. */
static void test_samples__orders_of_members(void **state)
{
    (void)state;
    enum { MEMBERS = 3, FEW = 100, SHARE = 40 };
    static int32_t number[FEW], order[2 * MEMBERS][FEW];
    int filled[2 * MEMBERS] = { 0 };
    const et_batches_options options = { .capacity = { MEMBERS * SHARE }, .repeat = true };
    const et_array array = { "n", ET_I32, number, et_shape_scalar() };
    et_samples *samples;
    et_source *source;
    et_batch *batch;
    et_position position = { .count = 0 };
    for (int i = 0; i < FEW; i++)
        number[i] = i;
    assert_ok(et_arrays_open(&samples, &array, 1, FEW, error));
    assert_ok(et_tabular_order_for_members(&samples, samples, MEMBERS, 4, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    assert_ok(et_batch_new(&batch, &source->layout, error));
    for (int b = 0; b < 6; b++) {
        if (b == 4)
            et_source_position(source, &position);
        assert_ok(et_source_next(source, batch, error));
        assert_int_equal(batch->filled[0], MEMBERS * (b % 3 == 2 ? FEW - 2 * SHARE : SHARE));
        for (int i = 0; i < batch->filled[0]; i++) {
            const int of = b / 3 * MEMBERS + i % MEMBERS;
            order[of][filled[of]++] = ((const int32_t *)batch->data[0])[i];
        }
    }
    for (int i = 0; i < 2 * MEMBERS; i++) {
        bool taken[FEW] = { false };
        for (int k = 0; k < FEW; k++) {
            assert_false(taken[order[i][k]]);
            taken[order[i][k]] = true;
        }
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(order[i], order[k], sizeof order[i]);
    }
    assert_ok(et_source_seek(source, &position, error));
    assert_ok(et_source_next(source, batch, error));
    for (int i = 0; i < batch->filled[0]; i++)
        assert_int_equal(((const int32_t *)batch->data[0])[i],
                         order[MEMBERS + i % MEMBERS][SHARE + i / MEMBERS]);
    et_batch_free(batch);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples__held_out_by_class),
        cmocka_unit_test(test_samples__held_out_at_the_ends),
        cmocka_unit_test(test_samples__held_out_of_rare_classes),
        cmocka_unit_test(test_samples__read),
        cmocka_unit_test(test_samples__borrowed),
        cmocka_unit_test(test_samples__orders_of_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
