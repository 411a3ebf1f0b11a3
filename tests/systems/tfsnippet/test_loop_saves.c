/* Checkpoints of a loop: when it saves, how it resumes, early stopping and its two snapshots. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "systems/tfsnippet/looped.h"

#include <etude/log.h>

#include "train/checkpoint/checkpoint.h"
#include "train/train.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_saved(const char *directory, int step)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/ckpt-%d.safetensors", step);
    return file_is_there(below(directory, name));
}

/* ---- when ---- */

static void test_loop_saves__by_epochs_and_when_asked(void **state)
{
    static const struct {
        int64_t freq, keep;
        int asked_in_step, asked_in_epoch; /* step; epoch: after its steps; negative: before epoch
                                            * -n */
        int saved[6];                      /* steps, 4 rows an epoch; ends with 0 */
    } cases[] = {
        { 2, 0, 0, 0, { 8, 16 } },       { 1, 2, 0, 0, { 12, 16 } },   { 0, 0, 3, 0, { 3 } },
        { 0, 0, 0, 3, { 12 } },          { 2, 0, 4, 4, { 4, 8, 16 } }, { 0, 0, 0, -3, { 8, 12 } },
        { 0, 0, 10, -3, { 8, 10, 12 } },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char name[16];
        snprintf(name, sizeof name, "when%zu", i);
        const char *directory = in(state, name);
        et_source *source = rows_source(4, true, false);
        looped l;
        looped_init(&l);
        l.options.max_epoch = 4;
        l.options.checkpoint_dir = directory;
        l.options.checkpoint_epoch_freq = cases[i].freq;
        l.options.checkpoint_max_to_keep = cases[i].keep;
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop)) {
            if (et_loop_epoch(l.loop) == -cases[i].asked_in_epoch)
                et_loop_make_checkpoint(l.loop);
            while (et_loop_next_step(l.loop, source))
                if (et_loop_step(l.loop) == cases[i].asked_in_step)
                    et_loop_make_checkpoint(l.loop);
            if (et_loop_epoch(l.loop) == cases[i].asked_in_epoch)
                et_loop_make_checkpoint(l.loop);
        }
        looped_end(&l);
        for (int step = 1, k = 0; step <= 17; step++) {
            bool wanted = cases[i].saved[k] == step;
            assert_int_equal(is_saved(directory, step), wanted);
            k += wanted;
        }
        et_source_close(source);
        looped_free(&l);
    }
}

/* Outside of epochs at once; also a save that was requested in an epoch that was left. */
static void test_loop_saves__outside_and_left(void **state)
{
    const char *directory = in(state, "outside");
    looped l;
    looped_init(&l);
    l.options.max_step = 3;
    l.options.checkpoint_dir = directory;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, NULL))
            if (et_loop_step(l.loop) == 2) {
                et_loop_make_checkpoint(l.loop);
                goto out;
            }
out:
    assert_int_equal(et_loop_leave(l.loop), 0);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, NULL))
            continue;
    assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    looped_end(&l);
    assert_true(is_saved(directory, 2) && is_saved(directory, 3));
    looped_free(&l);
}

/* A step that was left counts as a step: a stop after it saves it, and the next start begins there.
 */
static void test_loop_saves__left_and_stopped(void **state)
{
    for (int start = 0; start < 2; start++) {
        volatile sig_atomic_t stop = 0;
        et_error told = ET_ERROR_INIT;
        looped l;
        looped_init(&l);
        l.options.max_step = 9;
        l.options.checkpoint_dir = in(state, "left");
        l.options.stop = &stop;
        looped_begin(&l);
        assert_int_equal(et_loop_step(l.loop), 5 * start);
        while (!start && et_loop_next_epoch(l.loop)) {
            assert_true(et_loop_next_step(l.loop, NULL));
            assert_int_equal(et_loop_leave(l.loop), 0);
            stop = et_loop_step(l.loop) == 5;
        }
        assert_int_equal(et_loop_end(l.loop, &told), start ? ET_OK : ET_EINTERRUPTED);
        looped_free(&l);
    }
}

/* One epoch of two steps, of which the first has the best value, plus the given changes. */
static void train_two(const char *directory, const char *from, bool stopping, double weight,
                      double best)
{
    looped l;
    looped_init(&l);
    l.options.max_step = 2;
    l.options.checkpoint_dir = directory;
    l.options.restore_checkpoint = from;
    l.options.early_stopping = stopping;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, NULL)) {
            set_weights(l.params, weight + (double)et_loop_step(l.loop));
            et_loop_collect(l.loop, "valid_loss", best + (double)et_loop_step(l.loop));
            et_loop_make_checkpoint(l.loop);
        }
    looped_end(&l);
    assert_true(weight_of(l.params, "a") == weight + (stopping ? 1 : 2));
    looped_free(&l);
}

/* The best of a run that began anew was not kept: the existing file belongs to the former run. */
static void test_loop_saves__best_of_a_former_run(void **state)
{
    const char *directory = in(state, "another");
    train_two(directory, NULL, true, 100, 7);
    train_two(directory, ET_LOOP_RESTORE_NONE, false, 200, 5);
    looped l;
    looped_init(&l);
    l.options.max_step = 2;
    l.options.checkpoint_dir = directory;
    l.options.early_stopping = true;
    looped_begin(&l);
    looped_end(&l);
    assert_true(weight_of(l.params, "a") == 202);
    looped_free(&l);
}

/* ---- a training whose bytes only depend on its steps, interrupted or not ---- */

typedef struct counter {
    int64_t events; /* AFTER_STEP and BEFORE_EPOCH */
} counter;

static int save_counter(const void *self, et_value *dict, et_error *error)
{
    const counter *c = self;
    (void)error;
    return !et_value_set_int(dict, "events", c->events);
}

static int restore_counter(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "events", &((counter *)self)->events, error);
}

static const et_part_class counter_class = { "counter", save_counter, restore_counter };

static int count(void *payload, const char *event, const void *what, et_error *error)
{
    (void)event, (void)what, (void)error;
    ((counter *)payload)->events++;
    return ET_OK;
}

/* How many values were printed, so that lost ones show. */
static int count_printed(void *payload, const char *event, const void *what, et_error *error)
{
    const et_loop_event *e = what;
    (void)event, (void)error;
    for (int i = 0; i < e->count; i++)
        ((counter *)payload)->events += et_statistics_counter(e->stats[i].statistics);
    return ET_OK;
}

enum { TRAIN_EPOCHS = 4, TRAIN_ROWS = 5 };

/* Steps over one source, then over another; metrics that are printed every other epoch. */
static void train(const char *directory, const char *logs, int64_t stop_after, bool two,
                  bool repeat)
{
    counter c = { 0 };
    et_source *source = rows_source(TRAIN_ROWS, repeat, true);
    et_source *other = rows_source(3, true, true);
    looped l;
    looped_init(&l);
    l.options.max_epoch = TRAIN_EPOCHS;
    l.options.checkpoint_dir = directory;
    l.options.checkpoint_epoch_freq = 1;
    l.options.summary_dir = logs;
    l.options.summary_commit_freqs = &(et_loop_frequency){ "loss", 3 };
    l.options.summary_commit_freq_count = 1;
    l.options.early_stopping = true;
    looped_open(&l);
    assert_ok(et_loop_add_object(l.loop, "counter", &counter_class, &c, error));
    if (two)
        assert_ok(et_loop_add_source(l.loop, "other", other, error));
    et_event_hub *events = et_loop_events(l.loop);
    assert_ok(et_event_hub_on(events, ET_EVENT_AFTER_STEP, count, &c, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_BEFORE_EPOCH, count, &c, error));
    assert_ok(et_event_hub_on(events, ET_EVENT_METRIC_STATS_PRINTED, count_printed, &c, error));
    assert_ok(et_loop_begin(l.loop, error));
    while (et_loop_next_epoch(l.loop)) {
        for (int k = 0; k <= two; k++)
            while (et_loop_next_step(l.loop, k ? other : source)) {
                double before = weight_of(l.params, "a");
                set_weights(l.params, before * 0.9 + row_of(l.loop));
                et_loop_collect(l.loop, "loss", before);
                if (et_loop_step(l.loop) % 4 == 0)
                    et_loop_print_logs(l.loop);
                if (et_loop_step(l.loop) % 3 == 0)
                    et_loop_make_checkpoint(l.loop);
                if (et_loop_step(l.loop) == stop_after)
                    goto killed;
            }
        et_loop_collect(l.loop, "valid_loss", fabs(weight_of(l.params, "a") - 8));
        if (et_loop_epoch(l.loop) % 2 == 0)
            et_loop_print_logs(l.loop);
    }
    assert_ok(et_loop_end(l.loop, error));
killed:
    looped_free(&l);
    et_source_close(source);
    et_source_close(other);
}

static void assert_same_files(const char *a, const char *b)
{
    size_t a_length, b_length;
    char *a_bytes = get_file(a, &a_length), *b_bytes = get_file(b, &b_length);
    assert_int_equal(a_length, b_length);
    assert_memory_equal(a_bytes, b_bytes, a_length);
    free(a_bytes);
    free(b_bytes);
}

/* Left at many steps and resumed: the last checkpoints, the best and the summaries' length are
 * those of an uninterrupted run, to the byte. */
static void test_loop_saves__goes_on_exactly(void **state)
{
    for (int kind = 0; kind < 3; kind++) {
        bool two = kind == 1, repeat = kind != 2;
        int steps = TRAIN_EPOCHS * (TRAIN_ROWS + (two ? 3 : 0));
        char whole[64], parts[64], last[64], name[32];
        snprintf(name, sizeof name, "whole%d", kind);
        snprintf(whole, sizeof whole, "%s", in(state, name));
        train(whole, whole, 0, two, repeat);
        snprintf(last, sizeof last, "checkpoints/ckpt-%d.safetensors", steps);
        assert_true(file_is_there(below(whole, last)));
        for (int stop = 1 + kind; stop < steps; stop += 3) {
            snprintf(name, sizeof name, "parts%d-%d", kind, stop);
            snprintf(parts, sizeof parts, "%s", in(state, name));
            train(parts, parts, stop, two, repeat);
            assert_false(file_is_there(below(parts, last)));
            train(parts, parts, 0, two, repeat);
            assert_same_files(below(whole, last), below(parts, last));
            assert_same_files(below(whole, "best/info.json"), below(parts, "best/info.json"));
        }
    }
}

/* ---- early stopping ---- */

static void test_loop_saves__early_stopping(void **state)
{
    static const double values[] = { 3, 1, NAN, 2, 1 };
    for (int kind = 0; kind < 4; kind++) {
        bool saved = kind & 1, some = kind & 2;
        char name[16];
        snprintf(name, sizeof name, "early%d", kind);
        looped l;
        et_group *group = NULL;
        looped_init(&l);
        if (some)
            assert_ok(et_group_new(&group, l.params, "b", error));
        l.options.group = group;
        l.options.checkpoint_dir = saved ? in(state, name) : NULL;
        l.options.max_epoch = 5;
        l.options.early_stopping = true;
        looped_open(&l);
        et_group_free(group); /* copied */
        assert_ok(et_loop_begin(l.loop, error));
        assert_int_equal(et_group_count(et_loop_param_vars(l.loop)), some ? 1 : 2);
        while (et_loop_next_epoch(l.loop)) {
            set_weights(l.params, (double)et_loop_epoch(l.loop));
            et_loop_collect(l.loop, "valid_loss", values[et_loop_epoch(l.loop) - 1]);
        }
        assert_true(et_loop_best_valid_metric(l.loop) == 1);
        looped_end(&l);
        assert_true(weight_of(l.params, "b") == 2);
        assert_true(weight_of(l.params, "a") == (some ? 5 : 2));
        assert_non_null(strstr(l.printed, saved ? "Restore early-stopping parameters: from "
                                                  "checkpoint "
                                                : "parameters: of step 0"));
        looped_free(&l);
    }
}

/* The first value is the best so far, whatever it is, and a file says of none that is not finite
 * which it was. */
static void test_loop_saves__best_is_infinite(void **state)
{
    for (int saved = 0; saved < 2; saved++) {
        looped l;
        looped_init(&l);
        l.options.checkpoint_dir = saved ? in(state, "infinite") : NULL;
        l.options.max_epoch = 3;
        l.options.early_stopping = true;
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop)) {
            set_weights(l.params, (double)et_loop_epoch(l.loop));
            et_loop_collect(l.loop, "valid_loss", et_loop_epoch(l.loop) == 3 ? NAN : INFINITY);
        }
        looped_end(&l);
        assert_true(weight_of(l.params, "a") == 1);
        looped_free(&l);
    }
}

/* A danger that the reference's documents describe: after a finished run with early stopping, a
 * longer one continues from the last step with the last step's parameters, and the best of both is
 * the best. */
static void test_loop_saves__best_and_last_are_two(void **state)
{
    static const double values[] = { 3, 1, 2, 4, 0.5, 7 };
    const char *directory = in(state, "two");
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.checkpoint_epoch_freq = 1;
    l.options.early_stopping = true;
    for (int part = 0; part < 3; part++) {
        const int64_t epochs[] = { 3, 4, 6 };
        const double kept[] = { 2, 2, 5 };
        et_source *source = rows_source(1, true, false);
        l.options.max_epoch = epochs[part];
        looped_begin(&l);
        if (part)
            assert_true(weight_of(l.params, "a") == (double)epochs[part - 1]);
        assert_int_equal(et_loop_epoch(l.loop), part ? epochs[part - 1] : 0);
        while (et_loop_next_epoch(l.loop)) {
            while (et_loop_next_step(l.loop, source))
                continue;
            set_weights(l.params, (double)et_loop_epoch(l.loop));
            et_loop_collect(l.loop, "valid_loss", values[et_loop_epoch(l.loop) - 1]);
        }
        looped_end(&l);
        et_source_close(source);
        assert_true(weight_of(l.params, "a") == kept[part]);
        set_weights(l.params, -1);
    }
    looped_free(&l);
}

/* ---- which checkpoint ---- */

static void leave_at(const char *directory, int64_t epochs)
{
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.checkpoint_epoch_freq = 1;
    l.options.max_epoch = epochs;
    et_source *source = rows_source(2, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop)) {
        while (et_loop_next_step(l.loop, source))
            continue;
        set_weights(l.params, (double)et_loop_epoch(l.loop));
    }
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* From a file of another run, whose best step is not here: the parameters do not change. */
static void test_loop_saves__best_of_another_run(void **state)
{
    for (int directory = 0; directory < 2; directory++) {
        looped l;
        const et_path path = et_checkpoint_path(in(state, directory ? "another" : "one"), 6);
        for (int second = 0; second < 2; second++) {
            looped_init(&l);
            l.options.max_step = second ? 8 : 6;
            l.options.early_stopping = true;
            l.options.checkpoint_dir = second ? NULL : in(state, directory ? "another" : "one");
            l.options.restore_checkpoint = second ? path.text : ET_LOOP_RESTORE_NONE;
            if (second && directory)
                l.options.checkpoint_dir = in(state, "elsewhere");
            looped_begin(&l);
            while (et_loop_next_epoch(l.loop))
                while (et_loop_next_step(l.loop, NULL)) {
                    set_weights(l.params, (double)et_loop_step(l.loop));
                    et_loop_collect(l.loop, "valid_loss", fabs(4 - (double)et_loop_step(l.loop)));
                    if (et_loop_step(l.loop) == 6)
                        et_loop_make_checkpoint(l.loop);
                }
            assert_int_equal(et_loop_best_valid_metric(l.loop), 0);
            looped_end(&l);
            assert_true(weight_of(l.params, "a") == (second ? 8 : 4));
            looped_free(&l);
        }
    }
}

static void test_loop_saves__newest_named_or_none(void **state)
{
    const char *directory = in(state, "which");
    char named[700];
    snprintf(named, sizeof named, "%s/checkpoints/ckpt-4.safetensors", directory);
    leave_at(directory, 3);
    const struct {
        const char *restore, *directory;
        double weight;
        int64_t epoch;
        const char *printed;
    } cases[] = {
        { NULL, directory, 3, 3, "Resume training: epoch 3, step 6, from checkpoint " },
        { named, directory, 2, 2, "Resume training: epoch 2, step 4, from checkpoint " },
        { named, NULL, 2, 2, "Resume training: epoch 2, step 4, from checkpoint " },
        { ET_LOOP_RESTORE_NONE, directory, 0, 0, "" },
        { NULL, NULL, 0, 0, "" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        looped l;
        looped_init(&l);
        l.options.checkpoint_dir = cases[i].directory;
        l.options.restore_checkpoint = cases[i].restore;
        l.options.early_stopping = true; /* also with a named one */
        looped_begin(&l);
        assert_int_equal(et_loop_epoch(l.loop), cases[i].epoch);
        assert_true(weight_of(l.params, "a") == cases[i].weight);
        assert_int_equal(strncmp(l.printed, cases[i].printed, strlen(cases[i].printed)), 0);
        assert_int_equal(*l.printed != 0, *cases[i].printed != 0);
        if (*l.printed)
            assert_non_null(strstr(l.printed, cases[i].epoch == 3 ? "ckpt-6" : "ckpt-4"));
        looped_end(&l);
        looped_free(&l);
    }
    looped l;
    looped_init(&l);
    l.options.restore_checkpoint = "nowhere.safetensors";
    looped_open(&l);
    assert_fails(et_loop_begin(l.loop, error), ET_ENOTFOUND, "nowhere.safetensors");
    looped_free(&l);
}

/* A resumed loop with a later end: a smaller part of it is done than before. */
static void test_loop_saves__later_limit(void **state)
{
    const char *directory = in(state, "later");
    leave_at(directory, 3);
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.max_epoch = 4;
    et_source *source = rows_source(2, true, false);
    looped_begin(&l);
    assert_int_equal(et_loop_set_max_epoch(l.loop, 12), 0);
    assert_true(isnan(et_loop_eta(l.loop))); /* nothing was done yet */
    assert_true(et_loop_next_epoch(l.loop));
    while (et_loop_next_step(l.loop, source))
        continue;
    assert_true(fabs(et_loop_progress(l.loop) - 4. / 12) < 1e-9);
    assert_true(et_loop_eta(l.loop) > 0);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* A loop that is started with an earlier end does nothing. */
static void test_loop_saves__earlier_limit(void **state)
{
    const char *directory = in(state, "earlier");
    for (int part = 0; part < 3; part++) {
        const int64_t max_epoch[] = { 3, 2, 3 };
        et_source *source = rows_source(2, true, false);
        int epochs = 0;
        looped l;
        looped_init(&l);
        l.options.checkpoint_dir = directory;
        l.options.max_epoch = max_epoch[part];
        looped_begin(&l);
        while (et_loop_next_epoch(l.loop)) {
            epochs++;
            while (et_loop_next_step(l.loop, source))
                if (et_loop_step(l.loop) == 5 && part == 0) {
                    et_loop_make_checkpoint(l.loop);
                    goto out;
                }
        }
    out:
        looped_end(&l);
        assert_int_equal(epochs, part == 0 ? 3 : part == 1 ? 0 : 1);
        et_source_close(source);
        looped_free(&l);
    }
}

/* The data, or the way to make batches from it, has changed: the message names the source. */
static void test_loop_saves__other_data(void **state)
{
    const char *directory = in(state, "data");
    leave_at(directory, 1);
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.max_epoch = 2;
    et_source *source = rows_source(3, true, false);
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    assert_false(et_loop_next_step(l.loop, source));
    assert_fails(et_loop_end(l.loop, error), ET_EDATA, "source of steps: the saved position");
    et_source_close(source);
    looped_free(&l);
}

/* A run that went back drops newer checkpoints: the next start does not find them. */
static void test_loop_saves__going_back(void **state)
{
    const char *directory = in(state, "back");
    char named[700];
    snprintf(named, sizeof named, "%s/checkpoints/ckpt-2.safetensors", directory);
    leave_at(directory, 4);
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.restore_checkpoint = named;
    l.options.max_epoch = 2;
    l.options.checkpoint_epoch_freq = 1;
    et_source *source = rows_source(2, true, false);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, source))
            continue;
    looped_end(&l);
    assert_true(is_saved(directory, 2) && is_saved(directory, 4));
    assert_false(is_saved(directory, 6) || is_saved(directory, 8));
    et_source_close(source);
    looped_free(&l);
}

/* ---- objects ---- */

static void warn(void *payload, et_log_level level, const char *text)
{
    char *warned = payload;
    if (level == ET_LOG_WARNING)
        snprintf(warned + strlen(warned), 1024 - strlen(warned), "%s\n", text);
}

/* An object that the checkpoint lacks is refused by default; a partial restore keeps it. */
static void test_loop_saves__objects_come_and_go(void **state)
{
    const char *directory = in(state, "objects");
    static const struct {
        const char *names[3];
        int64_t restored[3];
        const char *warned;
    } cases[] = {
        { { "x", "y" }, { 0, 0 }, "" },
        { { "y", "x" }, { 11, 10 }, "" },
        { { "x", "y", "z" }, { 11, 10, 0 }, "the checkpoint has no object named z" },
        { { "z" }, { 12 }, "the checkpoint has an object named x" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char warned[1024] = "";
        counter counters[3] = { { 0 }, { 0 }, { 0 } };
        looped l;
        looped_init(&l);
        l.options.checkpoint_dir = directory;
        for (int partial = i != 2; partial < 2; partial++) {
            l.options.restore_partial = partial;
            looped_open(&l);
            for (int k = 0; k < 3 && cases[i].names[k]; k++)
                assert_ok(et_loop_add_object(l.loop, cases[i].names[k], &counter_class,
                                             &counters[k], error));
            if (!partial) {
                assert_fails(et_loop_begin(l.loop, error), ET_ECONFIG,
                             "object z is not in the checkpoint; set restore_partial");
                et_loop_close(l.loop);
            }
        }
        et_log_set(warn, warned);
        assert_ok(et_loop_begin(l.loop, error));
        et_log_set(NULL, NULL);
        assert_int_equal(*warned != 0, *cases[i].warned != 0);
        assert_non_null(strstr(warned, cases[i].warned));
        for (int k = 0; k < 3; k++) {
            assert_int_equal(counters[k].events, cases[i].restored[k]);
            counters[k].events = 10 + k;
        }
        et_loop_make_checkpoint(l.loop);
        looped_end(&l);
        looped_free(&l);
    }
}

/* A checkpoint of a and b, or of b and c; a loop that has a and b. */
static void save_names(const char *directory, const char *const *names)
{
    const et_init ones = { ET_INIT_ONES, 0 };
    int index;
    looped l;
    looped_init(&l);
    et_params_free(l.params);
    assert_ok(et_params_new(&l.params, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_params_declare(l.params, names[i], et_shape_1(4), ones, &index, error));
    assert_ok(et_params_materialize(l.params, false, error));
    set_weights(l.params, 7);
    l.options.checkpoint_dir = directory;
    looped_begin(&l);
    assert_int_equal(et_loop_make_checkpoint(l.loop), 0);
    looped_end(&l);
    looped_free(&l);
}

/* Each missing and each additional variable is named; another shape is refused in any case. With
 * and without a directory. */
static void test_loop_saves__variables_come_and_go(void **state)
{
    static const char *const names[] = { "b", "c" }, *const shaped[] = { "a", "b" };
    char directory[512], path[600];
    snprintf(directory, sizeof directory, "%s", in(state, "partial"));
    save_names(directory, names);
    for (int kind = 0; kind < 3; kind++) {
        char warned[1024] = "";
        looped l;
        looped_init(&l);
        set_weights(l.params, 1);
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-0.safetensors", directory);
        l.options.checkpoint_dir = kind == 2 ? NULL : directory;
        l.options.restore_checkpoint = kind ? path : NULL;
        looped_open(&l);
        assert_fails(et_loop_begin(l.loop, error), ET_ECONFIG, "it has no a");
        et_loop_close(l.loop);
        assert_true(weight_of(l.params, "b") == 1);
        l.options.restore_partial = true;
        looped_open(&l);
        et_log_set(warn, warned);
        assert_ok(et_loop_begin(l.loop, error));
        et_log_set(NULL, NULL);
        assert_non_null(strstr(warned, "has no a: its values are unchanged"));
        assert_non_null(strstr(warned, "c is ignored: this model does not have it"));
        assert_true(weight_of(l.params, "a") == 1 && weight_of(l.params, "b") == 7);
        looped_end(&l);
        looped_free(&l);
    }
    snprintf(directory, sizeof directory, "%s", in(state, "shaped"));
    save_names(directory, shaped);
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.restore_partial = true;
    looped_open(&l);
    assert_fails(et_loop_begin(l.loop, error), ET_ECONFIG, "a is float32 [4] in the file");
    looped_free(&l);
}

/* ---- what fails while it begins ---- */

static void test_loop_saves__one_process(void **state)
{
    const char *directory = in(state, "one");
    looped l, other;
    looped_init(&l);
    looped_init(&other);
    l.options.checkpoint_dir = other.options.checkpoint_dir = directory;
    looped_begin(&l);
    looped_open(&other);
    assert_fails(et_loop_begin(other.loop, error), ET_EBUSY, directory);
    assert_false(et_loop_next_epoch(other.loop));
    looped_free(&other);
    looped_end(&l);
    looped_free(&l);
}

/* A second save before the next step loses no position. */
static void test_loop_saves__saved_before_a_step(void **state)
{
    const char *directory = in(state, "again");
    for (int part = 0; part < 3; part++) {
        et_source *source = rows_source(4, true, false);
        looped l;
        looped_init(&l);
        l.options.checkpoint_dir = directory;
        l.options.max_epoch = 1;
        looped_begin(&l);
        if (part == 1)
            et_loop_make_checkpoint(l.loop);
        for (bool left = part == 1; !left && et_loop_next_epoch(l.loop);) {
            while (!left && et_loop_next_step(l.loop, source)) {
                assert_true(row_of(l.loop) == (double)et_loop_step(l.loop) - 1);
                left = part == 0 && et_loop_step(l.loop) == 2;
                if (left)
                    et_loop_make_checkpoint(l.loop);
            }
        }
        assert_int_equal(et_loop_step(l.loop), part < 2 ? 2 : 4);
        looped_end(&l);
        et_source_close(source);
        looped_free(&l);
    }
}

/* Asked to stop, it saves its current step, and resumes after it. */
static void test_loop_saves__stopped_is_saved(void **state)
{
    const char *directory = in(state, "stopped");
    volatile sig_atomic_t stop = 0;
    et_source *source = rows_source(4, true, false);
    looped l;
    looped_init(&l);
    l.options.checkpoint_dir = directory;
    l.options.max_epoch = 2;
    l.options.stop = &stop;
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, source))
            stop = et_loop_step(l.loop) == 3;
    assert_fails(et_loop_end(l.loop, error), ET_EINTERRUPTED, "step 3");
    et_loop_close(l.loop);
    assert_true(is_saved(directory, 3));
    et_source_close(source);
    source = rows_source(4, true, false);
    stop = 0;
    looped_begin(&l);
    double rows = 0;
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, source))
            rows = rows * 10 + row_of(l.loop);
    assert_true(rows == 30123);
    looped_end(&l);
    et_source_close(source);
    looped_free(&l);
}

/* A separate program, which exits after the call: in a step, in an epoch, or outside. */
static void save_and_exit(const char *directory, int where)
{
    looped l;
    looped_init(&l);
    l.options.max_step = 4;
    l.options.checkpoint_dir = directory;
    looped_begin(&l);
    if (where < 2) {
        assert_true(et_loop_next_epoch(l.loop));
        assert_true(et_loop_next_step(l.loop, NULL));
    }
    if (where == 1)
        et_loop_leave_steps(l.loop);
    set_weights(l.params, 7);
    _exit(et_loop_make_checkpoint(l.loop));
}

static void resume_and_look(const char *directory, int where)
{
    counter c = { 0 };
    looped l;
    looped_init(&l);
    l.options.max_step = 4;
    l.options.checkpoint_dir = directory;
    looped_open(&l);
    assert_ok(et_event_hub_on(et_loop_events(l.loop), ET_EVENT_AFTER_STEP, count, &c, error));
    assert_ok(et_loop_begin(l.loop, error));
    assert_true(weight_of(l.params, "a") == 7);
    assert_true(et_loop_next_epoch(l.loop));
    assert_false(et_loop_within_step(l.loop));
    assert_true(et_loop_next_step(l.loop, NULL));
    assert_int_equal(et_loop_step(l.loop), where < 2 ? 2 : 1);
    assert_int_equal(et_loop_epoch(l.loop), 1);
    assert_int_equal(c.events, where == 0);
    looped_end(&l);
    looped_free(&l);
}

/* Outside of its epoch no step resumes, and later calls only return this failure. */
static void step_outside(const char *directory)
{
    looped l;
    looped_init(&l);
    l.options.max_step = 4;
    l.options.checkpoint_dir = directory;
    looped_begin(&l);
    assert_false(et_loop_next_step(l.loop, NULL));
    assert_false(et_loop_within_step(l.loop));
    assert_int_equal(et_loop_leave(l.loop), ET_EUSAGE);
    assert_fails(et_loop_end(l.loop, error), ET_EUSAGE, "within active epoch loop");
    looped_free(&l);
}

/* If the program is killed right after the call, there is a checkpoint; a step that was open ends
 * when the loop resumes. Children come first: a process that has threads is not forked. */
static void test_loop_saves__saved_when_it_returns(void **state)
{
    char directories[3][512];
    for (int where = 0; where < 3; where++) {
        int left;
        char name[16];
        snprintf(name, sizeof name, "now%d", where);
        snprintf(directories[where], sizeof directories[where], "%s", in(state, name));
        pid_t child = fork();
        if (!child)
            save_and_exit(directories[where], where);
        assert_int_equal(waitpid(child, &left, 0), child);
        assert_int_equal(left, 0);
        assert_true(is_saved(directories[where], where < 2));
    }
    step_outside(directories[0]);
    for (int where = 0; where < 3; where++)
        resume_and_look(directories[where], where);
}

/* Without a log function a loop prints the library's warnings among its lines. */
static void test_loop_saves__early_stopping_that_never_could(void **state)
{
    looped l;
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "never_could"));
    looped_init(&l);
    l.options.max_step = 2;
    l.options.checkpoint_dir = directory;
    l.options.early_stopping = true;
    et_log_set(NULL, NULL);
    looped_begin(&l);
    while (et_loop_next_epoch(l.loop))
        while (et_loop_next_step(l.loop, NULL))
            et_loop_collect(l.loop, "x", 1);
    looped_end(&l);
    assert_non_null(strstr(l.printed, "warning: early stopping was never triggered"));
    assert_true(file_is_there(below(directory, "train.log")));
    looped_free(&l);
}

/* The call reports a failed save. */
static void test_loop_saves__cannot_be_saved(void **state)
{
    char directory[512];
    snprintf(directory, sizeof directory, "%s", in(state, "cannot"));
    looped l;
    looped_init(&l);
    l.options.max_step = 4;
    l.options.checkpoint_dir = directory;
    looped_begin(&l);
    assert_true(et_loop_next_epoch(l.loop));
    assert_true(et_loop_next_step(l.loop, NULL));
    assert_int_equal(unlink(below(directory, "checkpoints/checkpoint.json")), 0);
    assert_int_equal(mkdir(below(directory, "checkpoints/checkpoint.json"), 0777), 0);
    assert_int_not_equal(et_loop_make_checkpoint(l.loop), 0);
    assert_false(et_loop_next_step(l.loop, NULL));
    et_error failure = ET_ERROR_INIT;
    assert_int_not_equal(et_loop_end(l.loop, &failure), 0);
    assert_non_null(strstr(failure.text, "checkpoint.json"));
    looped_free(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loop_saves__saved_when_it_returns),
        cmocka_unit_test(test_loop_saves__cannot_be_saved),
        cmocka_unit_test(test_loop_saves__early_stopping_that_never_could),
        cmocka_unit_test(test_loop_saves__by_epochs_and_when_asked),
        cmocka_unit_test(test_loop_saves__outside_and_left),
        cmocka_unit_test(test_loop_saves__left_and_stopped),
        cmocka_unit_test(test_loop_saves__best_of_a_former_run),
        cmocka_unit_test(test_loop_saves__goes_on_exactly),
        cmocka_unit_test(test_loop_saves__early_stopping),
        cmocka_unit_test(test_loop_saves__best_is_infinite),
        cmocka_unit_test(test_loop_saves__best_and_last_are_two),
        cmocka_unit_test(test_loop_saves__best_of_another_run),
        cmocka_unit_test(test_loop_saves__newest_named_or_none),
        cmocka_unit_test(test_loop_saves__later_limit),
        cmocka_unit_test(test_loop_saves__earlier_limit),
        cmocka_unit_test(test_loop_saves__other_data),
        cmocka_unit_test(test_loop_saves__going_back),
        cmocka_unit_test(test_loop_saves__objects_come_and_go),
        cmocka_unit_test(test_loop_saves__variables_come_and_go),
        cmocka_unit_test(test_loop_saves__one_process),
        cmocka_unit_test(test_loop_saves__saved_before_a_step),
        cmocka_unit_test(test_loop_saves__stopped_is_saved),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
