/* A new best of a small state, which is in memory until the next checkpoint. The run may be killed
 * at any call that changes the disk, its writes and allocations may fail, and time may pass. This
 * test receives the library's calls of fsync, rename and unlink, and the clock. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/malloc_fails.h"
#include "base/values/json.h"
#include "formats/safetensors/safetensors.h"
#include "skip.h"
#include "train/run/run.h"
#include "train/run/run_private.h"
#include "train/saved.h"

static atomic_int moments, killed_at; /* of this process so far; at which it is killed, 0: none */
static atomic_bool best_dirty;        /* info.json was replaced, and its folder is not durable */
static const char *_Atomic bad_call, *_Atomic bad_file;
static atomic_int bad_calls; /* that still fail */
static time_t seconds_later; /* otherwise the clock stands still */

/* Everything after which a kill leaves another disk or another process. */
static void pass_moment(void)
{
    if (++moments == killed_at)
        kill(getpid(), SIGKILL);
}

static bool fails(const char *call, const char *path)
{
    const char *bad = bad_call, *file = bad_file;
    if (!bad || strcmp(bad, call) != 0 || !file || !strstr(path, file) || bad_calls <= 0)
        return false;
    bad_calls--;
    errno = ENOSPC;
    return true;
}

static bool ends_in(const char *path, const char *end)
{
    const size_t length = strlen(path), own = strlen(end);
    return length >= own && !strcmp(path + length - own, end);
}

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

int fsync(int fd)
{
    char link[64], name[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    pass_moment();
    if (fails("fsync", name))
        return -1;
    if (ends_in(name, "/best"))
        best_dirty = false;
    return 0; /* a kill of the process leaves what the system has */
}

int rename(const char *from, const char *to)
{
    pass_moment();
    if (fails("rename", to))
        return -1;
    if (strstr(to, "/checkpoints/"))
        require(!best_dirty, "a checkpoint is named before the best is durable");
    if (ends_in(to, "/best/info.json"))
        best_dirty = true;
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

int unlink(const char *path)
{
    pass_moment();
    if (strstr(path, "/best/best-"))
        require(!best_dirty, "a best is removed before the next one is durable");
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_MONOTONIC)
        *now = (struct timespec){ .tv_sec = 1000 + seconds_later };
    return status;
}

/* ---- a run ---- */

typedef struct driver {
    toy state;
    et_run *run;
} driver;

static int64_t begin_with(driver *d, const char *directory, const et_run_options *more)
{
    int64_t step;
    *d = (driver){ .state = toy_new(0) };
    toy_attach(&d->state);
    et_run_options options = *more;
    options.model_dir = directory;
    options.state = d->state.state;
    options.best_metric = "score";
    options.max_to_keep = 2;
    assert_ok(et_run_open(&d->run, &options, error));
    assert_ok(et_run_restore(d->run, &step, error));
    assert_ok(et_run_begin(d->run, error));
    return step;
}

static void begin(driver *d, const char *directory)
{
    begin_with(d, directory, &(et_run_options){ .on_failed_save = ET_FAILED_SAVE_STOP });
}

static void end(driver *d)
{
    assert_ok(et_run_close(d->run, error));
    toy_free(&d->state);
}

/* A step and its validation. The state changes right after it, as the next step does. */
static int validate(driver *d, int64_t step, double score, bool logs, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_checkpoints_wait_read(d->run->checkpoints);
    toy_set(&d->state, step);
    et_run_touch(d->run);
    et_value_set_float(values, "score", score);
    et_value_set_float(values, "loss", 1);
    int status = et_run_note_best(d->run, step, values, error);
    if (!status && logs)
        status = et_run_log(d->run, step, values, error);
    et_arena_release(&arena);
    et_checkpoints_wait_read(d->run->checkpoints);
    toy_set(&d->state, 999);
    toy_set(&d->state, step);
    return status;
}

/* The step whose values the best checkpoint has; -1: none. */
static int64_t best_of(const char *directory)
{
    char *path, name[32];
    et_safetensors *file;
    if (et_checkpoint_best(&path, directory, NULL))
        return -1;
    assert_ok(et_safetensors_open(&file, path, error));
    assert_ok(et_safetensors_verify(file, error));
    const et_safetensors_tensor *w = et_safetensors_find(file, "w");
    assert_non_null(w);
    const int64_t step = (int64_t)((const float *)w->data)[0];
    snprintf(name, sizeof name, "/best-%d.", (int)step);
    assert_non_null(strstr(path, name));
    et_safetensors_close(file);
    et_free(path);
    return step;
}

/* ---- kills ---- */

/* Scores of steps from 1 on: new bests in a row, equal ones, NaN, none for a while, and the last.
 */
static const double scores[] = { 1, 2, NAN, 2, 1, 3, 4, 0, 0, 4, 0, 0, 5, 4, 3, 2, 1, 6, NAN, 7 };
enum { STEPS = sizeof scores / sizeof scores[0], INTERVAL = 5 };

/* The whole program: it does not know whether it begins or resumes. */
static void train(const char *directory, int until, const et_run_options *options)
{
    driver d;
    int64_t step = begin_with(&d, directory, options);
    for (step = step < 0 ? 1 : step + 1; step <= until; step++) {
        assert_ok(et_run_between_steps(d.run, step - 1, error));
        assert_ok(validate(&d, step, scores[step - 1], true, error));
        pass_moment();
        if (step == 13)
            seconds_later += 60; /* what is held is due */
        if (step % INTERVAL == 0)
            assert_ok(et_run_save(d.run, step, false, error));
    }
    assert_ok(et_run_save_unsaved(d.run, until, false, error));
    assert_ok(et_run_finish_saves(d.run, until, error));
    end(&d);
}

/* False: the program came to its end before. */
static bool train_until_killed(const char *directory, int moment, const et_run_options *options)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        moments = 0;
        killed_at = moment;
        train(directory, STEPS, options);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        assert_int_equal(status, 0);
    return WIFSIGNALED(status);
}

/* Of the newest checkpoint: the step that it says is the best; 0: no checkpoint, or it says none.
 */
static int64_t best_named(const char *directory)
{
    char *path;
    et_safetensors *file;
    et_arena arena = ET_ARENA_INIT;
    et_value *tree;
    int64_t step = -1;
    if (et_checkpoint_newest(&path, directory, NULL))
        return -1;
    assert_ok(et_safetensors_open(&file, path, error));
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    assert_ok(et_json_parse(&tree, &arena, text, strlen(text), path, error));
    const et_value *best = et_value_get(tree, "best");
    assert_non_null(best);
    assert_ok(et_value_read_int(best, "step", &step, error));
    et_arena_release(&arena);
    et_safetensors_close(file);
    et_free(path);
    return step;
}

/* Without the wall clock at a line's end. */
static char *without_times(char *text)
{
    char *to = text;
    for (const char *at = text; *at;) {
        const char *time = strstr(at, ",\"time\""), *line = strchr(at, '\n');
        const char *until = time && line && time < line ? time : line ? line : at + strlen(at);
        memmove(to, at, (size_t)(until - at));
        to += until - at;
        *to++ = '\n';
        at = line ? line + 1 : at + strlen(at);
    }
    *to = 0;
    return text;
}

static void assert_same_file(const char *a, const char *b, const char *name)
{
    size_t lengths[2];
    char *texts[] = { get_file(below(a, name), &lengths[0]),
                      get_file(below(b, name), &lengths[1]) };
    if (ends_in(name, ".jsonl"))
        for (int i = 0; i < 2; i++)
            lengths[i] = strlen(without_times(texts[i]));
    if (lengths[0] != lengths[1] || memcmp(texts[0], texts[1], lengths[0]))
        fail_msg("%s/%s is not that of %s", b, name, a);
    free(texts[0]);
    free(texts[1]);
}

static void assert_same_run(const char *a, const char *b)
{
    static const char *const folders[] = { "best", "checkpoints" };
    char names[2048], name[100], *state;
    for (int i = 0; i < 2; i++) {
        snprintf(names, sizeof names, "%s", names_in(below(a, folders[i])));
        assert_string_equal(names, names_in(below(b, folders[i])));
        for (char *file = strtok_r(names, " ", &state); file; file = strtok_r(NULL, " ", &state)) {
            snprintf(name, sizeof name, "%s/%s", folders[i], file);
            if (!ends_in(file, "checkpoint.json")) /* has times */
                assert_same_file(a, b, name);
        }
    }
    assert_same_file(a, b, "metrics.jsonl");
}

/* Killed at every moment, and the resumed run once more; then it ends as one that was not killed.
 */
static void kill_everywhere(void **state, const et_run_options *options)
{
    const char *whole = in(state, "whole"), *killed = in(state, "killed");
    bool dies = true;
    train(whole, STEPS, options);
    for (int moment = 1; dies; moment++) {
        char *again = strdup(killed);
        dies = train_until_killed(killed, moment, options);
        assert_true(best_of(killed) >= best_named(killed));
        if (dies && moment % 3 == 0)
            train_until_killed(killed, moment / 2 + 1, options);
        assert_true(best_of(killed) >= best_named(killed));
        train(killed, STEPS, options);
        assert_same_run(whole, killed);
        remove_directory((void **)&again);
        assert_true(!dies || moment < 1000);
        assert_true(dies || moment > 3 * STEPS);
    }
    char *again = strdup(whole);
    remove_directory((void **)&again);
}

static void test_held_best__killed_at_every_moment(void **state)
{
    kill_everywhere(state, &(et_run_options){ .max_to_keep = 2 });
    kill_everywhere(state, &(et_run_options){ .best_tie = "loss" });
}

/* A run that had its end, or was stopped, and trains more steps. */
static void test_held_best__continues_with_more_steps(void **state)
{
    const char *directory = in(state, "more");
    static const int ends[] = { 2, 4, 7, 13, STEPS };
    static const int bests[] = { 2, 2, 7, 13, STEPS };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        train(directory, ends[i], &(et_run_options){ .best_unsaved = false });
        assert_int_equal(best_of(directory), bests[i]);
        assert_int_equal(best_named(directory), bests[i]);
    }
}

/* ---- when it is written ---- */

/* After a second, between two steps, without a checkpoint. */
static void test_held_best__time_passes(void **state)
{
    const char *directory = in(state, "passes");
    driver d;
    begin(&d, directory);
    assert_ok(validate(&d, 1, 1, false, error));
    assert_ok(et_run_between_steps(d.run, 1, error));
    assert_ok(validate(&d, 2, 2, false, error));
    assert_int_equal(best_of(directory), -1);
    seconds_later += 2;
    assert_ok(et_run_between_steps(d.run, 2, error));
    assert_ok(et_run_await_saves(d.run, 2, error));
    assert_int_equal(best_of(directory), 2);
    assert_string_equal(names_in(below(directory, "checkpoints")), "checkpoint.json lock ");
    end(&d);
}

/* The caller asks that saves are waited for. */
static void test_held_best__waited_for(void **state)
{
    const char *directory = in(state, "waited");
    const et_internals internals = { .waits = true };
    driver d;
    begin_with(&d, directory, &(et_run_options){ .internals = &internals });
    assert_ok(validate(&d, 1, 1, false, error));
    assert_int_equal(best_of(directory), 1);
    end(&d);
}

/* A run that is closed after an error, by a request, and before it goes back. */
static void test_held_best__written_at_any_end(void **state)
{
    const char *directory = in(state, "ends");
    int64_t step;
    driver d;
    begin(&d, directory);
    assert_ok(validate(&d, 1, 1, false, error));
    assert_ok(et_run_save(d.run, 1, false, error));
    assert_ok(validate(&d, 2, 2, false, error));
    assert_ok(et_run_rewind(d.run, &step, error));
    assert_int_equal(step, 1);
    assert_int_equal(best_of(directory), 2);
    assert_ok(validate(&d, 2, 3, false, error));
    assert_ok(et_run_save_unsaved(d.run, 2, true, error));
    assert_int_equal(best_of(directory), 2);
    assert_ok(validate(&d, 3, 4, false, error));
    et_run_close(d.run, NULL);
    toy_free(&d.state);
    assert_int_equal(best_of(directory), 3);
    assert_string_equal(names_in(below(directory, "best")), "best-3.safetensors info.json ");
}

/* ---- failures ---- */

enum { ALWAYS = 99 };

static void break_disk(const char *call, const char *file, int count)
{
    bad_call = call;
    bad_file = file;
    bad_calls = count;
    warnings[0] = 0;
}

/* A best of step 12 cannot be written at the save of step 14; the one of step 6 remains. */
static void test_held_best__fails_at_a_checkpoint(void **state)
{
    static const struct {
        const char *call, *file;
        int count, on_failed_save, status, best;
    } cases[] = {
        { "fsync", "/best/", 1, ET_FAILED_SAVE_STOP, ET_OK, 12 },
        { "rename", "/best/info.json", 1, ET_FAILED_SAVE_GO_ON, ET_OK, 12 },
        { "fsync", "/best/", ALWAYS, ET_FAILED_SAVE_STOP, ET_ENOSPACE, 6 },
        { "rename", "/best-12.", ALWAYS, ET_FAILED_SAVE_STOP, ET_ENOSPACE, 6 },
        { "rename", "/best/info.json", ALWAYS, ET_FAILED_SAVE_GO_ON, ET_OK, 6 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char directory[600];
        et_error failure = ET_ERROR_INIT;
        driver d;
        double value;
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "fails"), i);
        break_disk(NULL, NULL, 0);
        begin_with(&d, directory, &(et_run_options){ .on_failed_save = cases[i].on_failed_save });
        assert_ok(validate(&d, 6, 1, false, error));
        assert_ok(et_run_save(d.run, 6, false, error));
        assert_ok(validate(&d, 12, 2, false, error));
        assert_ok(validate(&d, 13, 1.5, false, error));
        break_disk(cases[i].call, cases[i].file, cases[i].count);
        assert_int_equal(et_run_save(d.run, 14, false, &failure), cases[i].status);
        assert_non_null(strstr(warnings, "saving the best checkpoint, step 12: "));
        assert_non_null(strstr(warnings, "trying once more"));
        if (cases[i].status)
            assert_non_null(strstr(failure.text, "saving the best checkpoint, step 12: "));
        assert_int_equal(et_run_best_step(d.run, &value), cases[i].best);
        assert_int_equal(et_run_since_best(d.run), 1);
        break_disk(NULL, NULL, 0);
        if (cases[i].best == 6)
            assert_fails(et_run_finish_saves(d.run, 14, error), ET_ENOSPACE,
                         "cannot save the best checkpoint, step 12 (score 2)");
        else
            assert_ok(et_run_finish_saves(d.run, 14, error));
        end(&d);
        assert_int_equal(best_of(directory), cases[i].best);
        assert_int_equal(best_named(directory), cases[i].best);
    }
}

/* Nothing goes on after a close: its failure is an error for any setting, or at least a warning. */
static void test_held_best__fails_at_the_close(void **state)
{
    const char *directory = in(state, "close");
    static const int settings[] = { ET_FAILED_SAVE_STOP, ET_FAILED_SAVE_GO_ON };
    for (int i = 0; i < 4; i++) {
        driver d;
        begin_with(&d, directory, &(et_run_options){ .on_failed_save = settings[i % 2] });
        assert_ok(validate(&d, 10 + i, i, false, error));
        break_disk("fsync", "/best/", ALWAYS);
        if (i < 2)
            assert_fails(et_run_close(d.run, error), ET_ENOSPACE,
                         "saving the best checkpoint, step 1");
        else
            assert_int_equal(et_run_close(d.run, NULL), ET_ENOSPACE);
        const char *told = strstr(warnings, "trying once more");
        assert_non_null(told);
        assert_true((strstr(told, "saving the best checkpoint") != NULL) == (i >= 2));
        assert_null(strstr(warnings, "training continues"));
        break_disk(NULL, NULL, 0);
        toy_free(&d.state);
        assert_int_equal(best_of(directory), -1);
    }
}

/* The save of a checkpoint that fails at the close, too, is an error; the best is written. */
static void test_held_best__checkpoint_fails_at_the_close(void **state)
{
    const char *directory = in(state, "other");
    driver d;
    begin(&d, directory);
    assert_ok(validate(&d, 1, 1, false, error));
    d.run->saves.held =
        false; /* until the save below has begun, as if it were a validation later */
    break_disk("fsync", "/ckpt-1.", ALWAYS);
    assert_ok(et_run_save(d.run, 1, false, error));
    d.run->saves.held = true;
    assert_fails(et_run_close(d.run, error), ET_ENOSPACE, "saving step 1: ");
    break_disk(NULL, NULL, 0);
    toy_free(&d.state);
    assert_int_equal(best_of(directory), 1);
}

/* One allocation after another fails: the best is held, or written at once, or known to be lost. */
static void test_held_best__fails_to_allocate(void **state)
{
    bool failed = true;
    if (!malloc_fails_works())
        test_skip("no failing malloc here");
    for (long n = 1; failed; n++) {
        char directory[600];
        et_error failure = ET_ERROR_INIT;
        driver d;
        double value;
        snprintf(directory, sizeof directory, "%s-%ld", in(state, "allocate"), n);
        warnings[0] = 0;
        begin(&d, directory);
        assert_ok(validate(&d, 1, 1, false, error));
        et_arena arena = ET_ARENA_INIT;
        et_value *values = et_value_dict(&arena);
        et_value_set_float(values, "score", 2);
        toy_set(&d.state, 2);
        malloc_fails_begin(n);
        int status = et_run_note_best(d.run, 2, values, &failure);
        failed = malloc_fails_end();
        et_checkpoints_wait_read(d.run->checkpoints);
        toy_set(&d.state, 3);
        if (status)
            assert_int_equal(status, ET_ENOMEM);
        const int64_t best = et_run_best_step(d.run, &value);
        assert_int_equal(best, 2);
        end(&d);
        if (best_of(directory) != best)
            fail_msg("allocation %ld: %d, not %d; %s", n, (int)best_of(directory), (int)best,
                     warnings);
        et_arena_release(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_held_best__killed_at_every_moment),
        cmocka_unit_test(test_held_best__continues_with_more_steps),
        cmocka_unit_test(test_held_best__time_passes),
        cmocka_unit_test(test_held_best__waited_for),
        cmocka_unit_test(test_held_best__written_at_any_end),
        cmocka_unit_test(test_held_best__fails_at_a_checkpoint),
        cmocka_unit_test(test_held_best__fails_at_the_close),
        cmocka_unit_test(test_held_best__checkpoint_fails_at_the_close),
        cmocka_unit_test(test_held_best__fails_to_allocate),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
