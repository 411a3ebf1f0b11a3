/* Members of a loop by their values: the remaining time, and the contents of its event file. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#include "base/clock.h"
#include "formats/event_lines.h"

/* ---- get_eta ---- */

/* Between two looks at the clock it is (now - began) / (progress - at_begin) (1 - progress). */
typedef struct watched {
    double before, after; /* the loop began between */
    double at_begin;      /* its progress then */
} watched;

static void begin_watched(looped *l, watched *w)
{
    looped_open(l);
    w->before = et_clock_monotonic();
    assert_ok(et_loop_begin(l->loop, error));
    w->after = et_clock_monotonic();
    w->at_begin = et_loop_progress(l->loop);
}

static void assert_eta(const looped *l, const watched *w, double progress)
{
    assert_true(fabs(et_loop_progress(l->loop) - progress) < 1e-12);
    const double left = (1 - progress) / (progress - w->at_begin);
    const double least = (et_clock_monotonic() - w->after) * left;
    const double eta = et_loop_eta(l->loop);
    const double most = (et_clock_monotonic() - w->before) * left;
    if (!(eta >= least * (1 - 1e-9) && eta <= most * (1 + 1e-9)))
        fail_msg("at %g: %g, not from %g to %g", progress, eta, least, most);
}

/* Steps of 2 ms: of 10, then of the second half of a resumed loop. */
static void test_loop_members__eta(void **state)
{
    watched w;
    looped l;
    for (int part = 0; part < 2; part++) {
        looped_init(&l);
        l.options.max_step = 10;
        l.options.checkpoint_dir = in(state, "eta");
        begin_watched(&l, &w);
        assert_true(fabs(w.at_begin - 0.5 * part) < 1e-12);
        assert_true(isnan(et_loop_eta(l.loop))); /* no estimate is possible */
        assert_true(et_loop_next_epoch(l.loop));
        while (et_loop_next_step(l.loop, NULL)) {
            const int64_t step = et_loop_step(l.loop);
            if (step == 1 + 5 * part)
                assert_true(isnan(et_loop_eta(l.loop)));
            else
                assert_eta(&l, &w, (double)(step - 1) / 10);
            usleep(2000);
            if (step == 5 && !part)
                break;
        }
        if (!part) {
            et_loop_leave_steps(l.loop);
            et_loop_leave(l.loop);
            assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
        } else {
            assert_eta(&l, &w, 1);
            assert_true(fabs(et_loop_eta(l.loop)) < 1e-9);
        }
        looped_end(&l);
        looped_free(&l);
    }
}

/* The ETA of a line: here three times the rounded time of the first epoch. */
static void test_loop_members__eta_of_lines(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 4;
    looped_open(&l);
    const double before = et_clock_monotonic();
    assert_ok(et_loop_begin(l.loop, error));
    assert_true(et_loop_next_epoch(l.loop));
    usleep(400000);
    et_loop_print_logs(l.loop);
    const double took = et_clock_monotonic() - before;
    const char *tag = "[Epoch 1/4, Step 0, ETA ", *eta = strstr(l.printed, tag);
    assert_non_null(eta);
    const double said = strtod(eta + strlen(tag), NULL);
    assert_true(said >= 3 * 0.4 - 0.1 && said <= 3 * took + 0.1);
    et_loop_leave(l.loop);
    looped_end(&l);
    looped_free(&l);
}

/* ---- summary_dir ---- */

/* Every log's means at its step, with the prefix; skipped metrics are missing. */
static void test_loop_members__summary_dir(void **state)
{
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.summary_dir = in(state, "summaries");
    l.options.summary_skip_pattern = ".*_time|skipped";
    et_source *source = rows_source(3, true, false);
    looped_begin(&l);
    assert_non_null(et_loop_summary_writer(l.loop));
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source)) {
            et_loop_collect(l.loop, "loss", (double)et_loop_step(l.loop));
            et_loop_collect(l.loop, "skipped", 1);
        }
        et_loop_collect(l.loop, "accuracy", 0.5);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    et_source_close(source);
    assert_string_equal(event_lines(in(state, "summaries")),
                        "1 metrics/loss 1\n2 metrics/loss 2\n3 metrics/loss 3\n"
                        "3 metrics/accuracy 0.5\n"
                        "4 metrics/loss 4\n5 metrics/loss 5\n6 metrics/loss 6\n"
                        "6 metrics/accuracy 0.5\n");
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_members__eta),
        cmocka_unit_test(test_loop_members__eta_of_lines),
        cmocka_unit_test(test_loop_members__summary_dir),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
