/* One source, several readers in turn: loops, evaluators, and a loop with an evaluator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/flows.h>
#include <etude/loop_evaluator.h>

#include "systems/tfsnippet/looped.h"

typedef struct text {
    char of[512];
} text;

static void append(text *t, const char *what)
{
    snprintf(t->of + strlen(t->of), sizeof t->of - strlen(t->of), "%s", what);
}

static void append_row(text *t, double row)
{
    char digit[8];
    snprintf(digit, sizeof digit, "%g", row);
    append(t, digit);
}

/* A loop over the source, to the end: "0123|0123|". */
static void run(et_source *source, int64_t max_epoch, int64_t max_step, text *rows)
{
    looped l;
    looped_init(&l);
    l.options.max_epoch = max_epoch;
    l.options.max_step = max_step;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source))
            append_row(rows, row_of(l.loop));
        append(rows, "|");
    }
    looped_end(&l);
    looped_free(&l);
}

/* max_step ends the first loop at any place: the next one has whole epochs. */
static void test_loop_passes__next_loop(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * 9; i++) {
        const bool repeat = i % 2, ahead = i / 2 % 2;
        const int64_t steps = i / 4 + 1;
        text rows = { "" };
        et_source *source = rows_source(4, repeat, false);
        if (ahead)
            assert_ok(et_prefetch_open(&source, source, 2, error));
        run(source, 0, steps, &rows);
        assert_int_equal(strlen(rows.of), steps + (steps + 3) / 4);
        rows.of[0] = 0;
        run(source, 3, 0, &rows);
        assert_string_equal(rows.of, "0123|0123|0123|");
        et_source_close(source);
    }
}

/* A batch that the first loop has read ahead is given back: the second one goes on with the passes
 * as a loop that is longer does. */
static void test_loop_passes__same_order(void **state)
{
    (void)state;
    for (int64_t epochs = 1; epochs < 4; epochs++) {
        text whole = { "" }, parts = { "" };
        et_source *source = rows_source(8, true, true), *other = rows_source(8, true, true);
        run(source, 4, 0, &whole);
        run(other, epochs, 0, &parts);
        run(other, 4 - epochs, 0, &parts);
        assert_string_equal(parts.of, whole.of);
        et_source_close(source);
        et_source_close(other);
    }
}

/* A loop within a pass of another, over the same source. */
static void test_loop_passes__two_loops_at_once(void **state)
{
    (void)state;
    looped outer, inner;
    et_source *source = rows_source(4, false, false);
    looped_init(&outer);
    looped_init(&inner);
    outer.options.max_epoch = inner.options.max_epoch = 1;
    looped_open(&outer);
    assert_ok(et_loop_add_source(outer.loop, "train", source, error));
    assert_ok(et_loop_begin(outer.loop, error));
    assert_true(et_loop_next_epoch(outer.loop) && et_loop_next_step(outer.loop, source));
    looped_begin(&inner);
    assert_true(et_loop_next_epoch(inner.loop));
    assert_false(et_loop_next_step(inner.loop, source));
    assert_fails(et_loop_end(inner.loop, error), ET_EUSAGE,
                 "a loop cannot begin a pass of this source, because a pass of a loop (source "
                 "train) is open");
    assert_true(et_loop_next_step(outer.loop, source) && row_of(outer.loop) == 1);
    looped_end(&outer);
    looped_free(&outer);
    looped_free(&inner);
    et_source_close(source);
}

/* A higher limit in the same epoch continues its pass. */
static void test_loop_passes__limit_in_the_epoch(void **state)
{
    (void)state;
    looped l;
    text rows = { "" };
    et_source *source = rows_source(4, false, false);
    looped_init(&l);
    l.options.max_step = 2;
    l.options.max_epoch = 2;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        for (int again = 0; again < 2; again++) {
            while (et_loop_next_step(l.loop, source))
                append_row(&rows, row_of(l.loop));
            assert_int_equal(et_loop_set_max_step(l.loop, 0), ET_OK);
            append(&rows, ",");
            if (et_loop_epoch(l.loop) == 2)
                break;
        }
        append(&rows, "|");
    }
    assert_string_equal(rows.of, "01,23,|0123,|");
    looped_end(&l);
    looped_free(&l);
    et_source_close(source);
}

/* ---- evaluators ---- */

static int rows_of_batch(void *payload, const et_batch *batch, double *values, et_error *e)
{
    (void)e;
    values[0] = ((const float *)batch->data[0])[0];
    append_row(payload, values[0]);
    return ET_OK;
}

static et_loop_evaluator *open_evaluator(et_loop *loop, et_source *source, text *rows)
{
    const et_loop_evaluator_options options = { .source = source,
                                                .run_batch = rows_of_batch,
                                                .payload = rows };
    et_loop_evaluator *evaluator;
    assert_ok(et_loop_evaluator_open(&evaluator, loop, &options, error));
    return evaluator;
}

/* Two of one source: the second is opened when the first has read all of it. */
static void test_loop_passes__two_evaluators(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    looped_begin(&l);
    et_source *source = rows_source(4, false, false);
    assert_true(et_loop_next_epoch(l.loop));
    text rows = { "" };
    et_loop_evaluator *one = open_evaluator(l.loop, source, &rows);
    assert_ok(et_loop_evaluator_run(one, NULL, 0, error));
    et_loop_evaluator *other = open_evaluator(l.loop, source, &rows);
    assert_ok(et_loop_evaluator_run(other, NULL, 0, error));
    assert_ok(et_loop_evaluator_run(one, NULL, 0, error));
    assert_string_equal(rows.of, "012301230123");
    assert_true(et_loop_evaluator_last(other, NULL) == 1.5);
    et_loop_evaluator_close(one);
    et_loop_evaluator_close(other);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* An evaluation of the training data in each epoch, or in none: the steps see the same rows. Within
 * the pass it is refused. */
static void read_with(bool evaluates, text *rows, text *evaluated)
{
    looped l;
    looped_init(&l);
    l.options.max_epoch = 3;
    looped_begin(&l);
    et_source *source = rows_source(8, true, true);
    et_loop_evaluator *evaluator = open_evaluator(l.loop, source, evaluated);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            append_row(rows, row_of(l.loop));
            if (evaluates && et_loop_step(l.loop) == 2)
                assert_fails(et_loop_evaluator_run(evaluator, NULL, 0, error), ET_EUSAGE,
                             "an evaluator cannot begin a pass of this source, because a pass of "
                             "a loop is open");
        }
        if (evaluates)
            assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
        append(rows, "|");
    }
    et_loop_evaluator_close(evaluator);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

static void test_loop_passes__evaluates_training_data(void **state)
{
    (void)state;
    text plain = { "" }, with = { "" }, evaluated = { "" };
    read_with(false, &plain, &evaluated);
    assert_string_equal(evaluated.of, "");
    read_with(true, &with, &evaluated);
    assert_string_equal(with.of, plain.of);
    assert_int_equal(strlen(evaluated.of), 24);
    assert_memory_equal(evaluated.of, evaluated.of + 8, 8);
    assert_memory_not_equal(plain.of, plain.of + 9, 8);
}

/* ---- resuming ---- */

/* A loop of checkpoints after each epoch, whose source an evaluator reads too, from epoch to epoch
 * in other processes, or all in one. left: the pass is left after so many steps; below 0: by a
 * break that the loop cannot see, so that the pass is open and nothing may evaluate. */
static void epochs(const char *directory, int64_t max_epoch, int left, text *rows)
{
    looped l;
    text evaluated = { "" };
    looped_init(&l);
    l.options.max_epoch = max_epoch;
    l.options.checkpoint_dir = directory;
    l.options.checkpoint_epoch_freq = 1;
    looped_open(&l);
    et_source *source = rows_source(4, true, true);
    assert_ok(et_loop_add_source(l.loop, "train", source, error));
    assert_ok(et_loop_begin(l.loop, error));
    et_loop_evaluator *evaluator = open_evaluator(l.loop, source, &evaluated);
    while (et_loop_next_epoch(l.loop)) {
        int steps = 0;
        while (et_loop_next_step(l.loop, source)) {
            append_row(rows, row_of(l.loop));
            if (++steps != abs(left))
                continue;
            if (left > 0)
                assert_int_equal(et_loop_leave_steps(l.loop), ET_OK);
            break;
        }
        if (left >= 0)
            assert_ok(et_loop_evaluator_run(evaluator, NULL, 0, error));
        append(rows, "|");
    }
    et_loop_evaluator_close(evaluator);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

static void test_loop_passes__resumes_between_them(void **state)
{
    for (int left = -4; left < 5; left++) {
        char whole[32], parts[32];
        text all = { "" }, in_parts = { "" };
        snprintf(whole, sizeof whole, "whole-%d", left);
        snprintf(parts, sizeof parts, "parts-%d", left);
        epochs(in(state, whole), 4, left, &all);
        for (int64_t epoch = 1; epoch <= 4; epoch++)
            epochs(in(state, parts), epoch, left, &in_parts);
        assert_string_equal(in_parts.of, all.of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_passes__next_loop),
        cmocka_unit_test(test_loop_passes__same_order),
        cmocka_unit_test(test_loop_passes__two_loops_at_once),
        cmocka_unit_test(test_loop_passes__limit_in_the_epoch),
        cmocka_unit_test(test_loop_passes__two_evaluators),
        cmocka_unit_test(test_loop_passes__evaluates_training_data),
        cmocka_unit_test(test_loop_passes__resumes_between_them),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
