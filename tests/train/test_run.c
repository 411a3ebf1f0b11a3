/* A run without a loop around it, as a program's own driver has it: directory, logs, requests. */
#include "train/run/run.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <cmocka.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/values/value.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/metric_name.h"
#include "train/train.h"

static atomic_int flushes; /* of metrics.jsonl */

int fsync(int fd)
{
    char link[64], name[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    flushes += strstr(name, "/metrics.jsonl") != NULL;
    return (int)syscall(SYS_fsync, fd);
}

static time_t seconds_later;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += clock == CLOCK_MONOTONIC ? seconds_later : 0;
    return status;
}

typedef struct driver {
    toy state;
    et_run *run;
    volatile sig_atomic_t stop, save;
    char told[256]; /* last line */
    et_showing shown;
} driver;

static void tell(void *self, const char *text)
{
    snprintf(((driver *)self)->told, sizeof((driver *)self)->told, "%s", text);
}

static void show(void *self, const et_showing *showing)
{
    ((driver *)self)->shown = *showing;
}

/* Up to the first step; the step that was restored, -1: none. judge: of a best. */
static int64_t begin_run(driver *d, const char *directory, const et_run_options *judge)
{
    int64_t step;
    *d = (driver){ .state = toy_new(0) };
    toy_attach(&d->state);
    et_run_options options = *judge;
    options.model_dir = directory;
    options.state = d->state.state;
    options.max_to_keep = 2;
    options.observer = (et_observer){ .self = d, .show = show, .tell = tell };
    options.stop = &d->stop;
    options.save = &d->save;
    assert_ok(et_run_open(&d->run, &options, error));
    assert_ok(et_run_restore(d->run, &step, error));
    assert_ok(et_run_begin(d->run, error));
    return step;
}

static int64_t begin_judged(driver *d, const char *directory, const char *best_metric,
                            int comparison)
{
    return begin_run(
        d, directory,
        &(et_run_options){ .best_metric = best_metric, .best_comparison = comparison });
}

static int64_t begin_with(driver *d, const char *directory, const char *best_metric)
{
    return begin_judged(d, directory, best_metric, ET_COMPARE_HIGHER);
}

static int64_t begin(driver *d, const char *directory)
{
    return begin_with(d, directory, "score");
}

static void end(driver *d)
{
    assert_ok(et_run_close(d->run, error));
    toy_free(&d->state);
}

static void log_step(driver *d, int64_t step)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    et_value_set_int(et_value_set_dict(logs, "train"), "seen", step);
    assert_ok(et_run_log(d->run, step, logs, error));
    et_arena_release(&arena);
}

static void do_step(driver *d, int64_t step)
{
    toy_set(&d->state, step);
    et_run_touch(d->run);
}

static bool is_saved(const char *directory, int step)
{
    char name[64];
    snprintf(name, sizeof name, "checkpoints/ckpt-%d.safetensors", step);
    return file_is_there(below(directory, name));
}

/* Logs after the last save are removed when that save is restored: they are logged again. */
static void test_run__logs_end_where_the_checkpoint_was(void **state)
{
    driver d;
    const char *directory = in(state, "logs");
    assert_int_equal(begin(&d, directory), -1);
    for (int step = 1; step <= 3; step++) {
        do_step(&d, step);
        log_step(&d, step);
        if (step == 2)
            assert_ok(et_run_save(d.run, step, false, error));
        assert_ok(et_run_finish_saves(d.run, step, error)); /* the toy waits for no reader */
    }
    end(&d);

    assert_int_equal(begin(&d, directory), 2);
    assert_true(toy_is(&d.state, 2));
    log_step(&d, 30);
    end(&d);
    size_t length;
    char *text = get_file(below(directory, "metrics.jsonl"), &length);
    static const char *const seen[] = { "\"seen\":1", "\"seen\":2", "\"seen\":30" };
    const char *at = text;
    for (size_t i = 0; i < 3; i++) {
        at = strstr(at, seen[i]);
        assert_non_null(at);
    }
    assert_null(strstr(text, "\"seen\":3}"));
    free(text);
}

/* A requested save is made once, as a transient checkpoint, and only of an unsaved step. */
static void test_run__requests(void **state)
{
    driver d;
    const char *directory = in(state, "requests");
    begin(&d, directory);
    do_step(&d, 4);
    assert_ok(et_run_between_steps(d.run, 4, error));
    assert_ok(et_run_finish_saves(d.run, 4, error));
    assert_false(is_saved(directory, 4));
    d.save = 1;
    assert_ok(et_run_between_steps(d.run, 4, error));
    assert_int_equal(d.save, 0);
    assert_string_equal(d.told, "saving       step 4, as asked");
    assert_ok(et_run_finish_saves(d.run, 4, error));
    assert_true(is_saved(directory, 4));
    assert_int_equal(remove(below(directory, "checkpoints/ckpt-4.safetensors")), 0);
    d.save = 1;
    assert_ok(et_run_between_steps(d.run, 4, error));
    assert_ok(et_run_finish_saves(d.run, 4, error));
    assert_int_equal(d.save, 0);
    assert_false(is_saved(directory, 4));
    assert_false(et_run_asked_to_stop(d.run));
    d.stop = 1;
    assert_true(et_run_asked_to_stop(d.run));
    assert_int_equal(et_run_between_steps(d.run, 4, NULL), ET_EINTERRUPTED);
    end(&d);
}

/* Without a log function the run prints the library's warnings itself. */
static void test_run__warnings_without_a_log_function(void **state)
{
    driver d;
    size_t length;
    const char *directory = in(state, "warned");
    et_log_set(NULL, NULL);
    begin_with(&d, directory, NULL);
    et_log(ET_LOG_INFO, "no warning");
    et_log(ET_LOG_WARNING, "the rate is %d\033[2J", 7);
    assert_string_equal(d.told, "");
    assert_ok(et_run_between_steps(d.run, 1, error));
    assert_string_equal(d.told, "warning: the rate is 7\\u001b[2J");
    et_log(ET_LOG_WARNING, "the last one");
    assert_ok(et_run_close(d.run, error));
    assert_string_equal(d.told, "warning: the last one");
    char *text = get_file(below(directory, "train.log"), &length);
    text = realloc(text, length + 1);
    text[length] = 0;
    const char *first = strstr(text, "  warning: the rate is 7\\u001b[2J\n");
    assert_non_null(first);
    assert_non_null(strstr(first, "  warning: the last one\n"));
    assert_null(strstr(text, "no warning"));
    free(text);
    toy_free(&d.state);
}

/* An observer is called for values that are shown; only one process may have the directory. */
static void test_run__observer_and_lock(void **state)
{
    driver d;
    const char *directory = in(state, "observer");
    begin(&d, directory);
    et_showing showing = { .step = 7, .steps = 9, .loss = 0.5, .unit = "row", .epoch = 2 };
    et_run_show(d.run, &showing);
    assert_memory_equal(&d.shown, &showing, sizeof showing);
    et_run_tell(d.run, "%d of %d", 7, 9);
    assert_string_equal(d.told, "7 of 9");
    assert_ok(et_run_check(d.run, error));
    et_run *other;
    toy t = toy_new(0);
    toy_attach(&t);
    et_run_options options = { .model_dir = directory, .state = t.state, .max_to_keep = 1 };
    assert_int_equal(et_run_open(&other, &options, NULL), ET_EBUSY);
    assert_null(other);
    toy_free(&t);
    end(&d);
}

/* The best so far is part of the state, NaN never one; equal values keep the earlier step. */
static void test_run__best(void **state)
{
    static const struct {
        double score;
        int best; /* 0: unknown */
    } cases[] = { { -2, 1 }, { NAN, 1 }, { -1, 3 }, { -1, 3 }, { -5, 3 }, { INFINITY, 6 } };
    const char *directory = in(state, "best");
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        driver d;
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        int64_t best;
        assert_int_equal(begin(&d, directory), i ? i : -1);
        do_step(&d, i + 1);
        et_value_set_float(values, "score", cases[i].score);
        assert_ok(et_run_note_best(d.run, i + 1, values, error));
        assert_ok(et_value_read_int(values, "best_step", &best, error));
        assert_int_equal(best, cases[i].best);
        double value;
        assert_ok(et_value_read_float(values, "best_score", &value, error));
        assert_true(value == cases[cases[i].best - 1].score);
        assert_true((et_value_get(values, ET_SINK_NOTE) != NULL) == (best == i + 1));
        assert_ok(et_run_save(d.run, i + 1, false, error));
        assert_ok(et_run_finish_saves(d.run, i + 1, error));
        end(&d);
        et_arena_release(&arena);
    }
}

/* A new best of a small state waits for the next checkpoint, or the end: the disk has the state
 * that was the best, not the later one, and nothing of a best that another has replaced. */
static void test_run__best_waits_for_a_checkpoint(void **state)
{
    driver d;
    const char *directory = in(state, "waits");
    begin(&d, directory);
    for (int step = 1; step <= 5; step++) {
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        et_value_set_float(values, "score", step == 5 ? 0.5 : step);
        do_step(&d, step);
        assert_ok(et_run_note_best(d.run, step, values, error));
        assert_false(file_is_there(below(directory, "best/info.json")) && step < 3);
        if (step == 2)
            assert_ok(et_run_save(d.run, step, false, error));
        et_arena_release(&arena);
    }
    assert_true(file_is_there(below(directory, "best/best-2.safetensors")));
    assert_false(file_is_there(below(directory, "best/best-1.safetensors")));
    assert_false(file_is_there(below(directory, "best/best-4.safetensors")));
    end(&d);
    assert_true(file_is_there(below(directory, "best/best-4.safetensors")));
    assert_false(file_is_there(below(directory, "best/best-2.safetensors")));
    assert_false(file_is_there(below(directory, "best/best-3.safetensors")));
    /* It is of step 4, not of step 5: the state has seen as much. */
    et_safetensors *file;
    assert_ok(et_safetensors_open(&file, below(directory, "best/best-4.safetensors"), error));
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STEP);
    assert_string_equal(text, "4");
    et_safetensors_close(file);
}

/* The best of one metric or comparison is not the best of another: the first value decides, and
 * replaces best/. If it is not judged again, the old best is there with its own metric. */
static void test_run__best_of_another_metric(void **state)
{
    static const struct {
        const char *metric;
        int comparison;
        bool validates;
        double score;
        int before, best; /* -1: unknown */
        const char *logged;
    } cases[] = {
        { "d/score", ET_COMPARE_HIGHER, true, 5, -1, 1, "best_d/score" },
        { "d/score", ET_COMPARE_HIGHER, true, 4, 1, 1, "best_d/score" },
        { "c/score", ET_COMPARE_HIGHER, true, 1, -1, 3, "best_c/score" },
        { "c/score", ET_COMPARE_LOWER, false, 0, -1, -1, NULL },
        { "other", ET_COMPARE_HIGHER, false, 0, -1, -1, NULL },
        { NULL, ET_COMPARE_HIGHER, true, 9, -1, -1, NULL },
        { "c/score", ET_COMPARE_HIGHER, true, 0.5, 3, 3, "best_c/score" },
        { "c/score", ET_COMPARE_LOWER, true, 7, -1, 8, "best_c/score" },
        { "c/score", ET_COMPARE_LOWER, true, NAN, 8, 8, "best_c/score" },
        { "d/score", ET_COMPARE_LOWER, true, NAN, -1, -1, NULL },
        { "d/score", ET_COMPARE_LOWER, true, 3, -1, 11, "best_d/score" },
    };
    const char *directory = in(state, "another");
    int in_best = 0;
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        driver d;
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        double value;
        int64_t step;
        assert_int_equal(begin_judged(&d, directory, cases[i].metric, cases[i].comparison),
                         i ? i : -1);
        assert_int_equal(et_run_best_step(d.run, &value), cases[i].before);
        assert_true(isnan(value) == (cases[i].before < 0));
        if (cases[i].before < 0)
            assert_int_equal(et_run_since_best(d.run), 0);
        do_step(&d, i + 1);
        et_value_set_float(et_value_set_dict(values, "c"), "score", cases[i].score);
        et_value_set_float(et_value_set_dict(values, "d"), "score", cases[i].score);
        if (cases[i].validates)
            assert_ok(et_run_note_best(d.run, i + 1, values, error));
        assert_int_equal(et_run_best_step(d.run, &value), cases[i].best);
        if (cases[i].logged) {
            assert_ok(et_value_read_float(values, cases[i].logged, &value, error));
            assert_true(value == cases[cases[i].best - 1].score);
            assert_ok(et_value_read_int(values, "best_step", &step, error));
            assert_int_equal(step, cases[i].best);
        } else {
            assert_null(et_value_get(values, "best_step"));
        }
        assert_ok(et_run_save(d.run, i + 1, false, error));
        assert_ok(et_run_finish_saves(d.run, i + 1, error));
        end(&d);
        in_best = cases[i].best > 0 ? cases[i].best : in_best;
        for (int k = 1; k <= i + 1; k++) {
            char name[64];
            snprintf(name, sizeof name, "best/best-%d.safetensors", k);
            assert_int_equal(file_is_there(below(directory, name)), k == in_best);
        }
        et_arena_release(&arena);
    }
}

/* As a process that validates once, at a step. before: the best that it finds; -1: none. */
static void validate_once(const char *directory, const et_run_options *options, int64_t step,
                          const double values[2], int64_t before, int64_t best)
{
    driver d;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    double value;
    begin_run(&d, directory, options);
    assert_int_equal(et_run_best_step(d.run, &value), before);
    do_step(&d, step);
    et_value_set_float(logs, "score", values[0]);
    et_value_set_float(logs, "loss", values[1]);
    assert_ok(et_run_note_best(d.run, step, logs, error));
    assert_int_equal(et_run_best_step(d.run, &value), best);
    assert_ok(et_run_save(d.run, step, false, error));
    assert_ok(et_run_finish_saves(d.run, step, error));
    end(&d);
    et_arena_release(&arena);
}

/* The best of some data is not the best of other data, if the data are known (0: unknown); an
 * earlier best belongs to the next validation's data. */
static void test_run__best_of_other_data(void **state)
{
    static const struct {
        uint64_t data;
        double score;
        int before, best; /* -1: unknown */
    } cases[] = {
        { 0, 5, -1, 1 }, { 7, 4, 1, 1 }, { 7, 6, 1, 3 },  { 8, 2, -1, 4 },
        { 0, 1, 4, 4 },  { 8, 1, 4, 4 }, { 7, 1, -1, 7 },
    };
    const char *directory = in(state, "other_data");
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        const et_run_options options = { .best_metric = "score", .best_data = cases[i].data };
        validate_once(directory, &options, i + 1, (double[]){ cases[i].score, NAN },
                      cases[i].before, cases[i].best);
    }
}

/* Equal values: the lower tie is the best, if it is known, and else the later; without a tie the
 * earlier. */
static void test_run__best_of_ties(void **state)
{
    static const struct {
        double score, loss;
        int best, earliest;
    } cases[] = {
        { 4, NAN, 1, 1 }, { 4, NAN, 2, 1 }, { 4, 3, 3, 1 },        { 4, 3, 4, 1 }, { 4, 2, 5, 1 },
        { 4, NAN, 5, 1 }, { 3, 1, 5, 1 },   { 5, INFINITY, 8, 8 }, { 5, 9, 9, 8 },
    };
    const et_run_options options[] = { { .best_metric = "score", .best_tie = "loss" },
                                       { .best_metric = "score" } };
    const char *const directories[] = { "ties", "no_ties" };
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
            const int is = k ? cases[i].earliest : cases[i].best;
            const int was = !i ? -1 : k ? cases[i - 1].earliest : cases[i - 1].best;
            validate_once(in(state, directories[k]), &options[k], i + 1,
                          (double[]){ cases[i].score, cases[i].loss }, was, is);
        }
}

static int warned;

static void count_warnings(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    warned += level == ET_LOG_WARNING && strstr(text, "score") && strstr(text, "is not a number");
}

/* An equal value is no improvement, whichever is kept; NaN counts as no validation. */
static void test_run__since_best(void **state)
{
    static const struct {
        double score, loss;
        int since, best;
    } cases[] = {
        { NAN, 1, 0, -1 },   { NAN, 1, 0, -1 }, { 4, 2, 0, 3 },  { NAN, 1, 0, 3 },
        { 4, 1, 1, 5 },      { NAN, 0, 1, 5 },  { 4, 1, 2, 7 },  { 4, 9, 3, 7 },
        { 3, 0, 4, 7 },      { NAN, 0, 4, 7 },  { 5, 9, 0, 11 }, { NAN, 0, 0, 11 },
        { 5, 9, 1, 12 + 1 },
    };
    driver d;
    const et_run_options options = { .best_metric = "score", .best_tie = "loss" };
    double value;
    begin_run(&d, in(state, "since"), &options);
    warned = 0;
    et_log_set(count_warnings, NULL);
    for (int i = 0; i < (int)(sizeof cases / sizeof cases[0]); i++) {
        et_arena arena = ET_ARENA_INIT;
        et_value *logs = et_value_dict(&arena);
        do_step(&d, i + 1);
        et_value_set_float(logs, "score", cases[i].score);
        et_value_set_float(logs, "loss", cases[i].loss);
        assert_ok(et_run_note_best(d.run, i + 1, logs, error));
        assert_int_equal(et_run_since_best(d.run), cases[i].since);
        assert_int_equal(et_run_best_step(d.run, &value), cases[i].best);
        et_arena_release(&arena);
    }
    et_log_set(NULL, NULL);
    assert_int_equal(warned, 1);
    end(&d);
}

static void test_run__metric_beside(void **state)
{
    (void)state;
    static const char *const cases[][2] = { { "bleu", "loss" },
                                            { "prices/r2", "prices/loss" },
                                            { "a|b.c", "a|b.loss" },
                                            { "new/validation_r2", "new/loss" } };
    et_arena arena = ET_ARENA_INIT;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(et_metric_beside(cases[i][0], "loss", &arena), cases[i][1]);
    et_arena_release(&arena);
}

/* Earlier versions' checkpoints have no metric: then the best belongs to the metric of the caller.
 */
static void test_run__best_without_its_metric(void **state)
{
    driver d;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena), *tree, *best;
    double value;
    begin_with(&d, in(state, "no_metric"), "score");
    et_value_set_float(values, "score", 4);
    assert_ok(et_run_note_best(d.run, 1, values, error));
    assert_ok(et_state_save(d.state.state, &tree, &arena, error));
    best = (et_value *)et_value_get(tree, "best");
    assert_string_equal(et_value_get(best, "metric")->string, "score");
    assert_false(et_value_get(best, "lower")->boolean);
    et_value *old = et_value_dict(&arena);
    for (const et_value *one = tree->first; one; one = one->next) {
        et_value *part = et_value_set_dict(old, one->key);
        if (one != best && one->kind == ET_VALUE_DICT)
            assert_ok(et_value_merge(part, one, error));
    }
    et_value *kept = et_value_set_dict(old, "best");
    et_value_set_bool(kept, "known", true);
    et_value_set_int(kept, "step", 1);
    assert_non_null(et_part_set_real(kept, "value", 4));
    end(&d);
    begin_judged(&d, in(state, "no_metric2"), "other", ET_COMPARE_LOWER);
    assert_ok(et_state_restore(d.state.state, old, error));
    assert_int_equal(et_run_best_step(d.run, &value), 1);
    assert_true(value == 4);
    end(&d);
    et_arena_release(&arena);
}

/* A metric within a dict; a first value that is NaN is not the best, and nothing is saved as such.
 */
static void test_run__best_nested(void **state)
{
    static const double scores[] = { NAN, 2, 1, 3 };
    static const double best[] = { NAN, 2, 2, 3 };
    const char *directory = in(state, "nested");
    driver d;
    begin_with(&d, directory, "task|deep|score");
    for (int i = 0; i < 4; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena), *info;
        double found = NAN;
        do_step(&d, i + 1);
        et_value *deep = et_value_set_dict(et_value_set_dict(values, "task"), "deep");
        et_value_set_float(deep, "score", scores[i]);
        assert_ok(et_run_note_best(d.run, i + 1, values, error));
        assert_ok(et_run_finish_saves(d.run, i + 1, error));
        bool known = !et_value_read_float(values, "best_task|deep|score", &found, NULL);
        assert_true(known == (i > 0) && (!known || found == best[i]));
        if (known) { /* the file and its entry are of the same step */
            int64_t step;
            assert_ok(et_checkpoint_best_info(&info, directory, &arena, error));
            assert_ok(et_value_read_int(info, ET_CHECKPOINT_STEP, &step, error));
            assert_int_equal(step, i < 3 ? 2 : 4);
            et_value *said = et_value_path(info, "task.deep.score");
            assert_true(said && said->real == best[i]);
            char name[64];
            snprintf(name, sizeof name, "best/best-%d.safetensors", (int)step);
            assert_true(file_is_there(below(directory, name)));
        } else {
            assert_false(file_is_there(below(directory, "best/info.json")));
        }
        et_arena_release(&arena);
    }
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    assert_fails(et_run_note_best(d.run, 5, values, error), ET_ECONFIG,
                 "validation has no value task|deep|score");
    et_arena_release(&arena);
    end(&d);
}

/* Without a directory nothing is written and nothing fails; the best is still known. */
static void test_run__without_a_directory(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    int64_t step = 0;
    double best;
    volatile sig_atomic_t save = 1;
    toy t = toy_new(0);
    toy_attach(&t);
    et_run *run;
    et_run_options options = {
        .state = t.state, .best_metric = "score", .best_comparison = ET_COMPARE_LOWER, .save = &save
    };
    assert_int_equal(et_run_open(&run, &(et_run_options){ 0 }, NULL), ET_EUSAGE);
    assert_ok(et_run_open(&run, &options, error));
    assert_ok(et_run_restore(run, &step, error));
    assert_int_equal(step, -1);
    assert_ok(et_run_begin(run, error));
    assert_null(et_run_sink(run));
    assert_int_equal(et_run_best_step(run, &best), -1);
    assert_true(isnan(best));
    et_run_touch(run);
    et_value_set_float(values, "score", NAN);
    assert_ok(et_run_note_best(run, 2, values, error));
    assert_int_equal(et_run_best_step(run, &best), -1);
    et_value_set_float(values, "score", 2);
    assert_ok(et_run_note_best(run, 3, values, error));
    assert_ok(et_run_note_best(run, 4, values, error));
    assert_int_equal(et_run_since_best(run), 1);
    assert_int_equal(et_run_best_step(run, &best), 3);
    assert_true(best == 2);
    assert_ok(et_run_log(run, 3, values, error));
    assert_ok(et_run_check(run, error));
    assert_ok(et_run_between_steps(run, 3, error));
    assert_ok(et_run_save(run, 3, false, error));
    assert_ok(et_run_look_after_saves(run, 3, error));
    assert_ok(et_run_finish_saves(run, 3, error));
    assert_ok(et_run_close(run, error));
    et_arena_release(&arena);
    toy_free(&t);
}

/* Logs elsewhere, or none; the best noted and not saved. */
static void test_run__logs_elsewhere(void **state)
{
    for (int none = 0; none < 2; none++) {
        const char *directory = in(state, none ? "no_logs" : "elsewhere");
        char logs[700];
        snprintf(logs, sizeof logs, "%s-logs", directory);
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        toy t = toy_new(1);
        toy_attach(&t);
        et_run *run;
        et_run_options options = { .model_dir = directory,
                                   .state = t.state,
                                   .best_metric = "score",
                                   .best_unsaved = true,
                                   .summary_dir = none ? NULL : logs,
                                   .no_logs = none };
        assert_ok(et_run_open(&run, &options, error));
        assert_ok(et_run_begin(run, error));
        assert_int_equal(et_run_sink(run) != NULL, !none);
        et_value_set_float(values, "score", 2);
        assert_ok(et_run_log(run, 1, values, error));
        assert_ok(et_run_note_best(run, 1, values, error));
        assert_ok(et_run_save(run, 1, false, error));
        assert_ok(et_run_finish_saves(run, 1, error));
        assert_ok(et_run_close(run, error));
        assert_true(is_saved(directory, 1));
        assert_false(file_is_there(below(directory, "best")));
        assert_false(file_is_there(below(directory, "metrics.jsonl")));
        assert_false(file_is_there(below(logs, "metrics.jsonl")));
        assert_int_equal(file_is_there(below(logs, "events.out.tfevents.0000000000.etude")), !none);
        et_arena_release(&arena);
        toy_free(&t);
    }
}

/* The save has ended, but that is only reported at the next check. */
static void test_run__logs_wait_for_no_save(void **state)
{
    const et_internals internals = { .waits = true };
    driver d = { .state = toy_new(0) };
    toy_attach(&d.state);
    et_run_options options = { .model_dir = in(state, "beside"),
                               .state = d.state.state,
                               .internals = &internals };
    assert_ok(et_run_open(&d.run, &options, error));
    assert_ok(et_run_begin(d.run, error));
    flushes = 0;
    log_step(&d, 1);
    assert_int_equal(flushes, 1);
    assert_ok(et_run_save(d.run, 1, false, error));
    assert_int_equal(flushes, 2);
    log_step(&d, 1);
    assert_int_equal(flushes, 2);
    assert_ok(et_run_look_after_saves(d.run, 1, error));
    seconds_later += 2;
    log_step(&d, 2);
    assert_int_equal(flushes, 3);
    end(&d);
}

/* They are in the file at once, and durable once a second, with a checkpoint, and at the end. */
static void test_run__logs_are_durable_once_a_second(void **state)
{
    const char *directory = in(state, "second");
    driver d;
    size_t length;
    begin(&d, directory);
    flushes = 0;
    for (int step = 1; step <= 100; step++)
        log_step(&d, step);
    assert_in_range(flushes, 1, 20); /* on a slow machine, 100 logs take some seconds */
    char *text = get_file(below(directory, "metrics.jsonl"), &length);
    assert_non_null(strstr(text, "{\"step\":100,"));
    free(text);
    flushes = 0;
    seconds_later += 2;
    log_step(&d, 101);
    assert_int_equal(flushes, 1);
    log_step(&d, 102);
    assert_ok(et_run_save(d.run, 102, false, error));
    assert_true(flushes >= 2);
    assert_ok(et_run_await_saves(d.run, 102, error));
    log_step(&d, 103);
    flushes = 0;
    end(&d);
    assert_int_equal(flushes, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_run__logs_end_where_the_checkpoint_was),
        cmocka_unit_test(test_run__requests),
        cmocka_unit_test(test_run__observer_and_lock),
        cmocka_unit_test(test_run__warnings_without_a_log_function),
        cmocka_unit_test(test_run__best),
        cmocka_unit_test(test_run__best_waits_for_a_checkpoint),
        cmocka_unit_test(test_run__best_of_another_metric),
        cmocka_unit_test(test_run__best_of_other_data),
        cmocka_unit_test(test_run__best_of_ties),
        cmocka_unit_test(test_run__since_best),
        cmocka_unit_test(test_run__metric_beside),
        cmocka_unit_test(test_run__best_without_its_metric),
        cmocka_unit_test(test_run__best_nested),
        cmocka_unit_test(test_run__without_a_directory),
        cmocka_unit_test(test_run__logs_elsewhere),
        cmocka_unit_test(test_run__logs_wait_for_no_save),
        cmocka_unit_test(test_run__logs_are_durable_once_a_second),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
