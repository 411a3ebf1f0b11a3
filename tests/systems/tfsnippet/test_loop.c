/* A loop: counters, leaving it early, progress. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

static void test_loop__limits_are_set_in_it(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    int steps = 0;
    while (et_loop_next_epoch(l.loop)) {
        if (et_loop_epoch(l.loop) == 1)
            assert_int_equal(et_loop_set_max_epoch(l.loop, 20), 0);
        while (et_loop_next_step(l.loop, source))
            if (++steps == 6)
                assert_int_equal(et_loop_set_max_step(l.loop, 7), 0);
    }
    assert_int_equal(steps, 7);
    assert_int_equal(et_loop_epoch(l.loop), 2);
    assert_int_equal(et_loop_max_epoch(l.loop), 20);
    assert_int_equal(et_loop_max_step(l.loop), 7);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* After a pass that was left the next epoch has a whole one. */
static void test_loop__break_leaves_it_usable(void **state)
{
    (void)state;
    for (int repeat = 0; repeat < 2; repeat++) {
        looped l;
        looped_init(&l);
        l.options.max_epoch = 3;
        et_source *source = rows_source(4, repeat, false);
        char rows[64] = "";
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop)) {
            while (et_loop_next_step(l.loop, source)) {
                size_t used = strlen(rows);
                snprintf(rows + used, sizeof rows - used, "%g", row_of(l.loop));
                if (et_loop_step(l.loop) == 3)
                    break;
            }
            size_t used = strlen(rows);
            snprintf(rows + used, sizeof rows - used, "|");
            if (et_loop_epoch(l.loop) == 2)
                break;
        }
        assert_int_equal(et_loop_leave(l.loop), 0);
        assert_false(et_loop_within_epoch(l.loop));
        while (et_loop_next_epoch(l.loop))
            while (et_loop_next_step(l.loop, source)) {
                size_t used = strlen(rows);
                snprintf(rows + used, sizeof rows - used, "%g", row_of(l.loop));
            }
        assert_string_equal(rows, "012|0123|0123");
        assert_int_equal(et_loop_epoch(l.loop), 3);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

/* After a break out of steps, the following values belong to the epoch. */
static void test_loop__break_out_of_steps(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.no_eta = true;
    et_source *source = rows_source(4, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            et_loop_collect(l.loop, "x", row_of(l.loop));
            if (et_loop_step(l.loop) == 2) {
                assert_int_equal(et_loop_leave_steps(l.loop), 0);
                break;
            }
        }
        assert_int_equal(et_loop_leave_steps(l.loop), 0); /* no loop of steps is open */
        assert_true(et_loop_within_epoch(l.loop) && !et_loop_within_step(l.loop));
        assert_null(et_loop_step_data(l.loop));
        et_loop_collect(l.loop, "y", 7);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    hide_times(l.printed);
    assert_string_equal(
        l.printed,
        "[Epoch 1/2, Step 2] epoch time: T; step time: T; x: 0.5 (±0.5); y: 7\n"
        "[Epoch 2/2, Step 6] epoch time: T; step time: T (±T); x: 1.5 (±1.11803); y: 7\n");
    et_source_close(source);
    looped_free(&l);
}

/* An estimate by the epochs so far is too low where those were left. */
static void test_loop__progress_is_at_most_all(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    et_source *source = rows_source(6, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            if (et_loop_epoch(l.loop) == 1)
                break;
            et_loop_print_logs(l.loop);
        }
        assert_true(et_loop_progress(l.loop) <= 1 && !(et_loop_eta(l.loop) < 0));
    }
    looped_end(&l);
    assert_null(strstr(l.printed, "ago"));
    assert_non_null(strstr(l.printed, "[Epoch 2/2, Step 6, ETA 0s]"));
    et_source_close(source);
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop__limits_are_set_in_it),
        cmocka_unit_test(test_loop__break_leaves_it_usable),
        cmocka_unit_test(test_loop__break_out_of_steps),
        cmocka_unit_test(test_loop__progress_is_at_most_all),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
