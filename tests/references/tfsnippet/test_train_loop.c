/* TFSnippet, tests/scaffold/test_train_loop.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/records.h>
#include <etude/summary_message.h>

#include "systems/tfsnippet/looped.h"
#include "systems/tfsnippet/paper.h"

static void set_both(et_params *params, double a, double b)
{
    const int which[] = { et_params_find(params, "a"), et_params_find(params, "b") };
    et_params_begin_change(params);
    for (int i = 0; i < 2; i++)
        *(et_params_values(params) + et_params_offset(params, which[i])) = (float)(i ? b : a);
    et_params_changed(params, true);
}

static void assert_both(et_params *params, double a, double b)
{
    assert_true(weight_of(params, "a") == a);
    assert_true(weight_of(params, "b") == b);
}

/* ---- counters ---- */

static void test_train_loop__counter_attributes(void **state)
{
    (void)state;
    paper p = { .sink = { &paper_class } };
    looped l;
    looped_init(&l);
    looped_begin(&l);
    assert_int_equal(et_loop_epoch(l.loop), 0);
    assert_int_equal(et_loop_step(l.loop), 0);
    assert_int_equal(et_loop_max_epoch(l.loop), 0);
    assert_int_equal(et_loop_max_step(l.loop), 0);
    assert_false(et_loop_within_epoch(l.loop));
    assert_false(et_loop_within_step(l.loop));
    looped_end(&l);
    l.options.max_epoch = 2;
    l.options.max_step = 10;
    l.options.summary_metric_prefix = "123/";
    l.options.summary_writer = &p.sink;
    looped_begin(&l);
    assert_int_equal(et_loop_max_epoch(l.loop), 2);
    assert_int_equal(et_loop_max_step(l.loop), 10);
    assert_int_equal(et_loop_set_max_epoch(l.loop, 20), 0);
    assert_int_equal(et_loop_set_max_step(l.loop, 100), 0);
    assert_int_equal(et_loop_max_epoch(l.loop), 20);
    assert_int_equal(et_loop_max_step(l.loop), 100);
    assert_true(et_loop_next_epoch(l.loop));
    assert_int_equal(et_loop_collect(l.loop, "x", 1), 0);
    assert_string_equal(p.text, "0 123/x 1\n");
    looped_end(&l);
    looped_free(&l);
}

static void test_train_loop__counters(void **state)
{
    (void)state;
    static const struct {
        int64_t max_epoch, max_step, rows; /* rows 0: no data */
        int64_t epochs, steps;
    } cases[] = { { 2, 0, 4, 2, 8 },
                  { 0, 10, 0, 1, 10 },
                  { 0, 10, 4, 3, 10 },
                  { 2, 10, 4, 2, 8 },
                  { 3, 10, 4, 3, 10 } };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        bool repeat = i % 2;
        const int64_t max_epoch = cases[i / 2].max_epoch, rows = cases[i / 2].rows;
        looped l;
        looped_init(&l);
        l.options.max_epoch = max_epoch;
        l.options.max_step = cases[i / 2].max_step;
        et_source *source = rows ? rows_source(rows, repeat, false) : NULL;
        looped_begin(&l);
        assert_int_equal(et_loop_epoch(l.loop), 0);
        assert_int_equal(et_loop_step(l.loop), 0);
        int64_t epochs = 0, steps = 0;
        while (et_loop_next_epoch(l.loop)) {
            int64_t row = 0;
            assert_int_equal(et_loop_epoch(l.loop), ++epochs);
            assert_true(et_loop_within_epoch(l.loop) && !et_loop_within_step(l.loop));
            while (et_loop_next_step(l.loop, source)) {
                assert_int_equal(et_loop_step(l.loop), ++steps);
                assert_true(et_loop_within_step(l.loop));
                if (source)
                    assert_true(row_of(l.loop) == (double)row++);
                else
                    assert_null(et_loop_step_data(l.loop));
            }
            assert_null(et_loop_step_data(l.loop));
            assert_false(et_loop_within_step(l.loop));
        }
        assert_false(et_loop_within_epoch(l.loop));
        assert_int_equal(epochs, cases[i / 2].epochs);
        assert_int_equal(steps, cases[i / 2].steps);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

static void near(double a, double b)
{
    assert_true(fabs(a - b) < 1e-12);
}

static void test_train_loop__get_progress(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    looped_begin(&l);
    assert_true(isnan(et_loop_progress(l.loop)) && isnan(et_loop_eta(l.loop)));
    looped_end(&l);
    l.options.max_epoch = 10;
    looped_begin(&l);
    near(et_loop_progress(l.loop), 0);
    while (et_loop_next_epoch(l.loop)) {
        near(et_loop_progress(l.loop), (double)(et_loop_epoch(l.loop) - 1) * 0.1);
        et_loop_print_logs(l.loop);
        near(et_loop_progress(l.loop), (double)et_loop_epoch(l.loop) * 0.1);
        assert_true(et_loop_eta(l.loop) >= 0);
    }
    near(et_loop_progress(l.loop), 1);
    near(et_loop_eta(l.loop), 0);
    looped_end(&l);
    et_source *source = rows_source(5, true, false);
    looped_begin(&l);
    near(et_loop_progress(l.loop), 0);
    while (et_loop_next_epoch(l.loop)) {
        bool first = et_loop_epoch(l.loop) == 1;
        double before = (double)(et_loop_epoch(l.loop) - 1) * 0.1;
        near(et_loop_progress(l.loop), before);
        for (int k = 0; et_loop_next_step(l.loop, source); k++) {
            near(et_loop_progress(l.loop), first ? 0 : before + k * 0.02);
            et_loop_print_logs(l.loop);
            near(et_loop_progress(l.loop), first ? 0 : before + (k + 1) * 0.02);
        }
        near(et_loop_progress(l.loop), first ? 0 : before + 0.1);
        et_loop_print_logs(l.loop);
        near(et_loop_progress(l.loop), before + 0.1);
    }
    near(et_loop_progress(l.loop), 1);
    looped_end(&l);
    et_source_close(source);
    l.options.max_epoch = 0;
    l.options.max_step = 100;
    source = rows_source(3, true, false);
    looped_begin(&l);
    near(et_loop_progress(l.loop), 0);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, source)) {
            near(et_loop_progress(l.loop), (double)(et_loop_step(l.loop) - 1) * 0.01);
            et_loop_print_logs(l.loop);
            near(et_loop_progress(l.loop), (double)et_loop_step(l.loop) * 0.01);
        }
    near(et_loop_progress(l.loop), 1);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* ---- logs ---- */

static void run_logs(looped *l, int64_t rows)
{
    et_source *source = rows_source(rows, true, false);
    looped_begin(l);
    while (et_loop_next_epoch(l->loop)) {
        while (et_loop_next_step(l->loop, source)) {
            et_loop_collect(l->loop, "x", row_of(l->loop));
            if (et_loop_step(l->loop) % 2 == 0)
                et_loop_print_logs(l->loop);
        }
        et_loop_collect(l->loop, "y", (double)et_loop_epoch(l->loop));
        et_loop_print_logs(l->loop);
    }
    looped_end(l);
    et_source_close(source);
}

static void test_train_loop__logs(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_step = 6;
    run_logs(&l, 4);
    hide_times(l.printed);
    assert_string_equal(l.printed, "[Epoch 1, Step 2/6, ETA T] step time: T (±T); x: 0.5 (±0.5)\n"
                                   "[Epoch 1, Step 4/6, ETA T] step time: T (±T); x: 2.5 (±0.5)\n"
                                   "[Epoch 1, Step 4/6, ETA T] epoch time: T; step time: T (±T); "
                                   "x: 1.5 (±1.11803); y: 1\n"
                                   "[Epoch 2, Step 6/6, ETA T] step time: T (±T); x: 0.5 (±0.5)\n"
                                   "[Epoch 2, Step 6/6, ETA T] epoch time: T; step time: T (±T); "
                                   "x: 0.5 (±0.5); y: 2\n");
    looped_free(&l);
}

static void test_train_loop__single_epoch_logs(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    run_logs(&l, 4);
    hide_times(l.printed);
    assert_string_equal(l.printed,
                        "[Step 2] step time: T (±T); x: 0.5 (±0.5)\n"
                        "[Step 4] step time: T (±T); x: 2.5 (±0.5)\n"
                        "[Step 4] epoch time: T; step time: T (±T); x: 1.5 (±1.11803); y: 1\n");
    looped_free(&l);
}

/* ---- the valid metric ---- */

/* Three steps of an epoch, each with a value and the best so far. */
static void run_valid(looped *l, const double *values, const double *best, const char *name,
                      bool smaller)
{
    et_source *source = rows_source(3, false, false);
    l->options.no_eta = true;
    looped_begin(l);
    assert_string_equal(et_loop_valid_metric_name(l->loop), name);
    assert_int_equal(et_loop_valid_metric_smaller_is_better(l->loop), smaller);
    assert_false(et_loop_use_early_stopping(l->loop));
    assert_true(et_loop_next_epoch(l->loop));
    for (int i = 0; et_loop_next_step(l->loop, source); i++) {
        et_loop_collect(l->loop, et_loop_valid_metric_name(l->loop), values[i]);
        assert_true(et_loop_best_valid_metric(l->loop) == best[i]);
        et_loop_print_logs(l->loop);
    }
    et_loop_print_logs(l->loop);
    et_loop_leave(l->loop);
    assert_true(et_loop_best_valid_metric(l->loop) == best[2]);
    looped_end(l);
    et_source_close(source);
    hide_times(l->printed);
}

static void test_train_loop__valid_metric_default_settings(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    run_valid(&l, (const double[]){ .8, .6, .7 }, (const double[]){ .8, .6, .6 }, "valid_loss",
              true);
    assert_string_equal(l.printed, "[Epoch 1, Step 1] step time: T; valid loss: 0.8 (*)\n"
                                   "[Epoch 1, Step 2] step time: T; valid loss: 0.6 (*)\n"
                                   "[Epoch 1, Step 3] step time: T; valid loss: 0.7\n"
                                   "[Epoch 1, Step 3] epoch time: T; step time: T (±T); "
                                   "valid loss: 0.7 (±0.0816497)\n");
    looped_free(&l);
}

static void test_train_loop__valid_metric_with_custom_settings(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.valid_metric_name = "y";
    l.options.valid_metric_better = ET_LOOP_BETTER_LARGER;
    run_valid(&l, (const double[]){ .7, .6, .8 }, (const double[]){ .7, .7, .8 }, "y", false);
    assert_string_equal(l.printed, "[Epoch 1, Step 1] step time: T; y: 0.7 (*)\n"
                                   "[Epoch 1, Step 2] step time: T; y: 0.6\n"
                                   "[Epoch 1, Step 3] step time: T; y: 0.8 (*)\n"
                                   "[Epoch 1, Step 3] epoch time: T; step time: T (±T); "
                                   "y: 0.7 (±0.0816497)\n");
    looped_free(&l);
}

static void expect_smaller_is_better(const char *name, bool smaller)
{
    looped l;
    looped_init(&l);
    l.options.valid_metric_name = name;
    looped_open(&l);
    assert_string_equal(et_loop_valid_metric_name(l.loop), name);
    assert_int_equal(et_loop_valid_metric_smaller_is_better(l.loop), smaller);
    looped_free(&l);
}

static void test_train_loop__valid_metric_with_valid_acc(void **state)
{
    (void)state;
    expect_smaller_is_better("valid_acc", false);
}

static void test_train_loop__valid_metric_with_y_as_name(void **state)
{
    (void)state;
    expect_smaller_is_better("y", true);
}

/* ---- descriptions, timers, collectors ---- */

/* Differs: the execution environment comes first; the reference's documentation lists it, but its
 * code does not print it. */
static void test_train_loop__training_summary(void **state)
{
    (void)state;
    static const char *const names[2][2] = { { "a", "b" }, { "aa", "bb" } };
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    static const char *const texts[] = { "Trainable Parameters (10 in total)\n"
                                         "----------------------------------\n"
                                         "a                        (2, 3)  6\n"
                                         "b                        (4,)    4\n\n",
                                         "Trainable Parameters (10 in total)\n"
                                         "----------------------------------\n"
                                         "aa                       (2, 3)  6\n"
                                         "bb                       (4,)    4\n\n" };
    for (int i = 0; i < 2; i++) {
        int index;
        looped l;
        looped_init(&l);
        if (i) {
            et_params_free(l.params);
            assert_ok(et_params_new(&l.params, error));
            assert_ok(et_params_declare(l.params, "aa", et_shape_2(2, 3), zeros, &index, error));
            assert_ok(et_params_declare(l.params, "bb", et_shape_1(4), zeros, &index, error));
            assert_ok(et_params_materialize(l.params, false, error));
        }
        looped_begin(&l);
        const et_group *vars = et_loop_param_vars(l.loop);
        assert_int_equal(et_group_count(vars), 2);
        for (int k = 0; k < 2; k++)
            assert_string_equal(et_params_name(l.params, et_group_param(vars, k)), names[i][k]);
        assert_int_equal(et_loop_print_training_summary(l.loop), 0);
        assert_ptr_equal(strstr(l.printed, "Execution Environment\n"), l.printed);
        const char *table = strstr(l.printed, "\n\n");
        assert_non_null(table);
        table += 2;
        assert_string_equal(table, texts[i]);
        looped_end(&l);
        looped_free(&l);
    }
}

static void test_train_loop__timeit(void **state)
{
    (void)state;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        assert_int_equal(et_loop_time_begin(l.loop, "x_timer"), 0);
        assert_int_equal(et_loop_time_end(l.loop, "x_timer"), 0);
        assert_int_equal(et_loop_time_begin(l.loop, "y_time"), 0);
        assert_int_equal(et_loop_time_end(l.loop, "y_time"), 0);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    hide_times(l.printed);
    assert_string_equal(l.printed, "[Step 0] epoch time: T; x timer: T; y time: T\n");
    looped_free(&l);
}

static void test_train_loop__metric_collector(void **state)
{
    (void)state;
    et_statistics *collector;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 1;
    l.options.no_eta = true;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        assert_int_equal(et_loop_collector_begin(l.loop, "x", &collector), 0);
        et_statistics_collect(collector, 2, 1);
        et_statistics_collect(collector, 3, 3);
        assert_int_equal(et_loop_collector_end(l.loop, "x"), 0);
        et_loop_print_logs(l.loop);
    }
    looped_end(&l);
    hide_times(l.printed);
    assert_string_equal(l.printed, "[Step 0] epoch time: T; x: 2.75\n");
    looped_free(&l);
}

static void collect_two_epochs(looped *l, et_source *source)
{
    static const double losses[] = { .7, .6, .8 };
    while (et_loop_next_epoch(l->loop)) {
        while (et_loop_next_step(l->loop, source))
            et_loop_collect(l->loop, "loss",
                            (double)et_loop_epoch(l->loop) + losses[(int)row_of(l->loop)]);
        et_loop_collect(l->loop, "valid_loss", (double)et_loop_epoch(l->loop));
    }
}

/* The next record is the event of this value at the step; 9 bytes are its time. */
static void assert_event(et_record_reader *reader, int64_t step, const char *tag, double value)
{
    et_summary *summary;
    const void *event, *expected;
    size_t length, size;
    assert_ok(et_summary_new(&summary, error));
    assert_ok(et_summary_add_scalar(summary, tag, value, error));
    expected = et_summary_bytes(summary, &size);
    assert_ok(et_record_read(reader, &event, &length, error));
    assert_int_equal(length, 9 + 4 + size);
    const unsigned char head[] = { 0x10, (unsigned char)step, 0x2a, (unsigned char)size };
    assert_memory_equal((const char *)event + 9, head, 4);
    assert_memory_equal((const char *)event + 13, expected, size);
    et_summary_free(summary);
}

/* The file: its version, the metrics of two epochs, and x at the end. */
static void assert_event_file(const char *path)
{
    static const double losses[] = { 1.7, 1.6, 1.8, 2.7, 2.6, 2.8 };
    et_record_reader *reader;
    const void *bytes;
    size_t length;
    assert_ok(et_record_reader_open(&reader, path, error));
    assert_ok(et_record_read(reader, &bytes, &length, error));
    for (int step = 1; step <= 6; step++) {
        assert_event(reader, step, "metrics/loss", losses[step - 1]);
        if (step % 3 == 0)
            assert_event(reader, step, "metrics/valid_loss", step / 3.);
    }
    assert_event(reader, 6, "x", 1.23);
    assert_ok(et_record_read(reader, &bytes, &length, error));
    assert_null(bytes);
    et_record_reader_close(reader);
}

static void test_train_loop__summary_writer(void **state)
{
    paper p = { .sink = { &paper_class } };
    et_summary *summary;
    et_source *source = rows_source(3, true, false);
    size_t length;
    looped l;
    looped_init(&l);
    l.options.max_epoch = 2;
    l.options.summary_dir = in(state, "summaries");
    looped_begin(&l);
    assert_non_null(et_loop_summary_writer(l.loop));
    collect_two_epochs(&l, source);
    assert_ok(et_summary_new(&summary, error));
    assert_ok(et_summary_add_scalar(summary, "x", 1.23, error));
    const void *bytes = et_summary_bytes(summary, &length);
    assert_int_equal(et_loop_add_summary_bytes(l.loop, bytes, length), 0);
    et_summary_free(summary);
    looped_end(&l);
    assert_event_file(in(state, "summaries/events.out.tfevents.0000000000.etude"));
    l.options.summary_writer = &p.sink;
    looped_begin(&l);
    assert_ptr_equal(et_loop_summary_writer(l.loop), &p.sink);
    collect_two_epochs(&l, source);
    looped_end(&l);
    assert_string_equal(p.text, "1 metrics/loss 1.7\n2 metrics/loss 1.6\n3 metrics/loss 1.8\n"
                                "3 metrics/valid_loss 1\n"
                                "4 metrics/loss 2.7\n5 metrics/loss 2.6\n6 metrics/loss 2.8\n"
                                "6 metrics/valid_loss 2\n");
    et_source_close(source);
    looped_free(&l);
}

/* ---- early stopping and checkpoints ---- */

static void stop_early(looped *l, const char *metric, double best, double a, double b)
{
    static const double values[] = { .7, .6, .8 };
    et_source *source = rows_source(3, false, false);
    set_both(l->params, 1, 2);
    l->options.max_epoch = 1;
    looped_begin(l);
    assert_true(et_loop_use_early_stopping(l->loop));
    while (et_loop_next_epoch(l->loop))
        for (int i = 0; et_loop_next_step(l->loop, source); i++) {
            const double step = (double)et_loop_step(l->loop);
            set_both(l->params, 10 + step, 20 + step);
            et_loop_collect(l->loop, metric, values[i]);
        }
    assert_true(et_loop_best_valid_metric(l->loop) == best);
    looped_end(l);
    assert_both(l->params, a, b);
    et_source_close(source);
}

static void test_train_loop__early_stopping(void **state)
{
    (void)state;
    et_group *group;
    looped l;
    looped_init(&l);
    assert_ok(et_group_new(&group, l.params, "a", error));
    l.options.group = group;
    l.options.early_stopping = true;
    set_both(l.params, 1, 2);
    looped_begin(&l);
    assert_true(et_loop_use_early_stopping(l.loop));
    set_both(l.params, 10, 20);
    looped_end(&l);
    assert_both(l.params, 10, 20);
    stop_early(&l, "valid_loss", .6, 12, 23);
    l.options.valid_metric_name = "y";
    l.options.valid_metric_better = ET_LOOP_BETTER_LARGER;
    stop_early(&l, "y", .8, 13, 23);
    et_group_free(group);
    looped_free(&l);
}

static int save_value(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    return !et_value_set_int(dict, "value", *(const int64_t *)self);
}

static int restore_value(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "value", self, error);
}

static const et_part_class value_class = { "value", save_value, restore_value };

/* A loop with the object o; it has begun at the epoch, with these values of o and the variable. */
static void begin_at(looped *l, int64_t *o, int64_t epoch, int64_t value, double variable)
{
    looped_open(l);
    assert_ok(et_loop_add_object(l->loop, "o", &value_class, o, error));
    assert_ok(et_loop_begin(l->loop, error));
    assert_int_equal(et_loop_epoch(l->loop), epoch);
    assert_int_equal(et_loop_step(l->loop), 2 * epoch);
    assert_int_equal(*o, value);
    assert_true(weight_of(l->params, "a") == variable);
}

static void test_train_loop__checkpoint(void **state)
{
    char directory[512], path[600];
    int64_t o = 123;
    looped l;
    snprintf(directory, sizeof directory, "%s", in(state, "checkpoint"));
    looped_init(&l);
    set_weights(l.params, 456);
    l.options.checkpoint_dir = directory;
    begin_at(&l, &o, 0, 123, 456);
    assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    looped_end(&l);
    o = 1234;
    set_weights(l.params, 4567);
    begin_at(&l, &o, 0, 123, 456);
    looped_end(&l);
    o = 1234;
    set_weights(l.params, 4567);
    et_source *source = rows_source(2, true, false);
    l.options.checkpoint_epoch_freq = 2;
    l.options.restore_checkpoint = ET_LOOP_RESTORE_NONE;
    l.options.max_epoch = 8;
    begin_at(&l, &o, 0, 1234, 4567);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source))
            continue;
        o = 9120 + et_loop_epoch(l.loop);
        set_weights(l.params, 9450 + (double)et_loop_epoch(l.loop));
    }
    looped_end(&l);
    et_source_close(source);
    l.options.restore_checkpoint = NULL;
    begin_at(&l, &o, 8, 9128, 9458);
    looped_end(&l);
    l.options.restore_checkpoint = path;
    for (int epoch = 2; epoch <= 8; epoch += 2) {
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", directory, 2 * epoch);
        begin_at(&l, &o, epoch, 9120 + epoch, 9450 + epoch);
        looped_end(&l);
    }
    looped_free(&l);
}

/* Differs: a loop that was saved in a step first continues the epoch of this step, which here has
 * no more steps; the reference begins the next epoch, and would lose the rest of the data. */
static void test_train_loop__checkpoint_and_early_stopping(void **state)
{
    static const double losses[] = { .7, .6, .8 };
    char directory[512];
    et_group *group;
    looped l;
    snprintf(directory, sizeof directory, "%s", in(state, "both"));
    looped_init(&l);
    assert_ok(et_group_new(&group, l.params, "a", error));
    l.options.group = group;
    l.options.checkpoint_dir = directory;
    l.options.early_stopping = true;
    set_both(l.params, 1, 2);
    looped_begin(&l);
    assert_true(et_loop_use_early_stopping(l.loop));
    set_both(l.params, 10, 20);
    assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    looped_end(&l);
    assert_both(l.params, 10, 20);

    et_source *source = rows_source(3, true, false);
    set_both(l.params, 1, 2);
    l.options.max_epoch = 2;
    looped_begin(&l);
    assert_true(isnan(et_loop_best_valid_metric(l.loop)));
    assert_both(l.params, 10, 20);
    assert_true(et_loop_next_epoch(l.loop));
    for (int i = 1; et_loop_next_step(l.loop, source); i++) {
        assert_int_equal(et_loop_step(l.loop), i);
        set_both(l.params, 10 + i, 20 + i);
        et_loop_collect(l.loop, "valid_loss", losses[i - 1]);
        assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    }
    et_loop_close(l.loop); /* interrupted: nothing is restored */
    assert_both(l.params, 13, 23);
    et_source_close(source);

    source = rows_source(3, true, false);
    looped_begin(&l);
    assert_true(et_loop_best_valid_metric(l.loop) == .6);
    assert_both(l.params, 13, 23);
    assert_true(et_loop_next_epoch(l.loop));
    assert_int_equal(et_loop_epoch(l.loop), 1);
    assert_false(et_loop_next_step(l.loop, source));
    while (et_loop_next_epoch(l.loop)) {
        assert_int_equal(et_loop_epoch(l.loop), 2);
        assert_true(et_loop_next_step(l.loop, source));
        assert_int_equal(et_loop_step(l.loop), 4);
        set_both(l.params, 14, 24);
        et_loop_collect(l.loop, "valid_loss", .9);
        et_loop_leave_steps(l.loop);
    }
    assert_true(et_loop_best_valid_metric(l.loop) == .6);
    looped_end(&l);
    assert_both(l.params, 12, 24);
    et_source_close(source);
    et_group_free(group);
    looped_free(&l);
}

/* ---- errors ---- */

enum place { BEGUN, EPOCH };

static int on_checkpoint(et_loop *loop)
{
    return et_loop_make_checkpoint(loop);
}

static int on_steps(et_loop *loop)
{
    return et_loop_next_step(loop, NULL);
}

static int on_timer(et_loop *loop)
{
    return et_loop_time_begin(loop, "timer");
}

static int on_collector(et_loop *loop)
{
    et_statistics *collector;
    return et_loop_collector_begin(loop, "metric", &collector);
}

static int on_collect(et_loop *loop)
{
    return et_loop_collect(loop, "loss", 1);
}

static int on_tag(et_loop *loop)
{
    return et_loop_println(loop, "", true);
}

static int on_logs(et_loop *loop)
{
    return et_loop_print_logs(loop);
}

static int on_no_metrics(et_loop *loop)
{
    return et_loop_collect_metrics(loop, NULL, 1);
}

static int nested_epochs(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return et_loop_next_epoch(((const et_loop_event *)what)->loop);
}

static int nested_steps(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)error;
    return et_loop_next_step(((const et_loop_event *)what)->loop, NULL);
}

static int in_epochs(et_loop *loop)
{
    assert_ok(et_event_hub_on(et_loop_events(loop), ET_EVENT_METRICS_COLLECTED, nested_epochs, NULL,
                              error));
    return on_collect(loop);
}

static int in_steps(et_loop *loop)
{
    assert_ok(et_event_hub_on(et_loop_events(loop), ET_EVENT_METRICS_COLLECTED, nested_steps, NULL,
                              error));
    return et_loop_next_step(loop, NULL) ? on_collect(loop) : 0;
}

/* Differs: a checkpoint_epoch_freq of 0 is the default, never; a named checkpoint works with early
 * stopping; names of objects cannot collide with the loop's own; outside of handlers a second loop
 * of epochs or steps cannot be told from one after a break. */
static void test_train_loop__errors(void **state)
{
    static const char *const context = "An epoch or a step loop is expected";
    static const struct {
        int (*call)(et_loop *loop);
        enum place place;
        int64_t max_step;
        const char *says;
    } cases[] = {
        { on_checkpoint, BEGUN, 0, "Checkpoint directory is not configured" },
        { in_epochs, EPOCH, 10, "Another epoch loop has been opened" },
        { on_steps, BEGUN, 10, "Step loop must be opened within active epoch loop" },
        { in_steps, EPOCH, 10, "Another step loop has been opened" },
        { on_timer, BEGUN, 0, NULL },
        { on_collector, BEGUN, 0, NULL },
        { on_collect, BEGUN, 0, NULL },
        { on_tag, BEGUN, 0, NULL },
        { on_logs, BEGUN, 0, NULL },
        { on_steps, EPOCH, 0, "steps without data would never end" },
        { on_no_metrics, EPOCH, 10, "but the array is NULL" },
    };
    char path[600];
    int64_t o = 0;
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = in(state, "errors");
    for (int named = 0; named < 2; named++) {
        l.options.early_stopping = named;
        l.options.restore_checkpoint = named ? path : NULL;
        looped_open(&l);
        assert_ok(et_loop_add_object(l.loop, "loop", &value_class, &o, error));
        assert_ok(et_loop_begin(l.loop, error));
        assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
        looped_end(&l);
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-0.safetensors", l.options.checkpoint_dir);
    }
    l.options.early_stopping = false;
    l.options.restore_checkpoint = NULL;
    l.options.checkpoint_epoch_freq = -1;
    assert_fails(et_loop_open(&l.loop, l.params, &l.options, error), ET_ECONFIG,
                 "`checkpoint_epoch_freq` must be a positive integer");
    l.options.checkpoint_dir = NULL;
    l.options.checkpoint_epoch_freq = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_error told = ET_ERROR_INIT;
        l.options.max_step = cases[i].max_step;
        looped_begin(&l);
        if (cases[i].place == EPOCH)
            assert_true(et_loop_next_epoch(l.loop));
        cases[i].call(l.loop);
        assert_int_not_equal(et_loop_end(l.loop, &told), 0);
        assert_non_null(strstr(told.text, cases[i].says ? cases[i].says : context));
        et_loop_close(l.loop);
        l.loop = NULL;
    }
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_loop__counter_attributes),
        cmocka_unit_test(test_train_loop__counters),
        cmocka_unit_test(test_train_loop__get_progress),
        cmocka_unit_test(test_train_loop__logs),
        cmocka_unit_test(test_train_loop__single_epoch_logs),
        cmocka_unit_test(test_train_loop__valid_metric_default_settings),
        cmocka_unit_test(test_train_loop__valid_metric_with_custom_settings),
        cmocka_unit_test(test_train_loop__valid_metric_with_valid_acc),
        cmocka_unit_test(test_train_loop__valid_metric_with_y_as_name),
        cmocka_unit_test(test_train_loop__training_summary),
        cmocka_unit_test(test_train_loop__timeit),
        cmocka_unit_test(test_train_loop__metric_collector),
        cmocka_unit_test(test_train_loop__summary_writer),
        cmocka_unit_test(test_train_loop__early_stopping),
        cmocka_unit_test(test_train_loop__checkpoint),
        cmocka_unit_test(test_train_loop__checkpoint_and_early_stopping),
        cmocka_unit_test(test_train_loop__errors),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
