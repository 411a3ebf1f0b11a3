/* The best checkpoint of a run if saving it fails: tried once more with the values of the best, and
 * reported at the end if there is none. This test receives the library's calls of fsync and rename,
 * and makes some of those below best/ fail. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/scarce.h"
#include "formats/safetensors/safetensors.h"
#include "train/run/run.h"
#include "train/run/run_private.h"
#include "train/saved.h"

typedef struct fault {
    const char *call; /* "fsync" or "rename" */
    const char *file; /* that has this in its path */
    int count;        /* so many times */
} fault;

static fault bad;
static atomic_int failures;

static bool fails(const char *call, const char *path)
{
    if (!bad.call || strcmp(bad.call, call) != 0 || !strstr(path, bad.file) ||
        failures >= bad.count)
        return false;
    failures++;
    errno = ENOSPC;
    return true;
}

int fsync(int fd)
{
    char link[64], name[600];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof name - 1);
    name[length > 0 ? length : 0] = 0;
    return fails("fsync", name) ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return fails("rename", to) ? -1 : (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

typedef struct driver {
    toy state;
    et_run *run;
} driver;

static void begin(driver *d, const char *directory, int on_failed_save)
{
    int64_t step;
    *d = (driver){ .state = toy_new(0) };
    toy_attach(&d->state);
    const et_run_options options = { .model_dir = directory,
                                     .state = d->state.state,
                                     .best_metric = "score",
                                     .on_failed_save = on_failed_save };
    assert_ok(et_run_open(&d->run, &options, error));
    assert_ok(et_run_restore(d->run, &step, error));
    assert_ok(et_run_begin(d->run, error));
}

static void end(driver *d)
{
    assert_ok(et_run_close(d->run, error));
    toy_free(&d->state);
}

/* A step, its validation, and its save. */
static int do_step(driver *d, int64_t step, double score, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *values = et_value_dict(&arena);
    et_checkpoints_wait_read(d->run->checkpoints); /* as code that changes parameters does */
    toy_set(&d->state, step);
    et_run_touch(d->run);
    et_value_set_float(values, "score", score);
    int status = et_run_note_best(d->run, step, values, error);
    et_checkpoints_wait_read(d->run->checkpoints);
    toy_set(&d->state, 999);
    toy_set(&d->state, step);
    if (!status)
        status = et_run_save(d->run, step, false, error);
    et_arena_release(&arena);
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

#define ALWAYS 99

static void test_saving_best__failures(void **state)
{
    static const struct {
        fault bad;
        double last_score; /* of step 18; those of 6 and 12 are 1 and 2 */
        int on_failed_save;
        int status; /* of the whole */
        int best;   /* in the end */
    } cases[] = {
        { { "rename", "/best-12.", 1 }, 0, ET_FAILED_SAVE_STOP, ET_OK, 12 },
        { { "fsync", "/best-12.", 1 }, 0, ET_FAILED_SAVE_STOP, ET_OK, 12 },
        { { "fsync", "/best", 1 }, 0, ET_FAILED_SAVE_STOP, ET_OK, 12 },
        { { "rename", "/best/info.json", 1 }, 0, ET_FAILED_SAVE_STOP, ET_OK, 12 },
        { { "rename", "/best-12.", 1 }, 0, ET_FAILED_SAVE_GO_ON, ET_OK, 12 },
        { { "rename", "/best-12.", ALWAYS }, 0, ET_FAILED_SAVE_STOP, ET_ENOSPACE, 6 },
        { { "rename", "/best/info.json", ALWAYS }, 0, ET_FAILED_SAVE_STOP, ET_ENOSPACE, -1 },
        { { "rename", "/best-12.", ALWAYS }, 0, ET_FAILED_SAVE_GO_ON, ET_ENOSPACE, 6 },
        { { "rename", "/best-12.", ALWAYS }, 1.5, ET_FAILED_SAVE_GO_ON, ET_ENOSPACE, 18 },
        { { "rename", "/best-12.", ALWAYS }, 2, ET_FAILED_SAVE_GO_ON, ET_OK, 18 },
        { { "rename", "/best-12.", ALWAYS }, 3, ET_FAILED_SAVE_GO_ON, ET_OK, 18 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        driver d;
        char directory[600];
        et_error failure = ET_ERROR_INIT;
        snprintf(directory, sizeof directory, "%s-%zu", in(state, "failures"), i);
        failures = 0;
        warnings[0] = '\0';
        bad = cases[i].bad;
        begin(&d, directory, cases[i].on_failed_save);
        int status = do_step(&d, 6, 1, &failure);
        if (!status)
            status = do_step(&d, 12, 2, &failure);
        if (!status)
            status = do_step(&d, 18, cases[i].last_score, &failure);
        if (!status)
            status = et_run_finish_saves(d.run, 18, &failure);
        end(&d);
        if (status != cases[i].status || best_of(directory) != cases[i].best)
            fail_msg("case %zu: status %d (%s), best %d, warnings: %s", i, status, failure.text,
                     (int)best_of(directory), warnings);
        if (!strstr(warnings, "trying once more"))
            fail_msg("case %zu: %s", i, warnings);
    }
}

/* A lost best is known when the run resumes, also if it ends in another process. */
static void test_saving_best__lost_is_kept(void **state)
{
    const char *directory = in(state, "lost");
    driver d;
    failures = 0;
    bad = (fault){ "rename", "/best-12.", ALWAYS };
    begin(&d, directory, ET_FAILED_SAVE_GO_ON);
    assert_ok(do_step(&d, 6, 1, error));
    assert_ok(do_step(&d, 12, 2, error));
    assert_ok(et_run_await_saves(d.run, 12, error));
    end(&d);
    bad.call = NULL;
    begin(&d, directory, ET_FAILED_SAVE_GO_ON);
    assert_ok(do_step(&d, 18, 1.5, error));
    assert_fails(et_run_finish_saves(d.run, 18, error), ET_EIO, "the best checkpoint, step 12");
    end(&d);
    begin(&d, directory, ET_FAILED_SAVE_GO_ON);
    assert_fails(et_run_finish_saves(d.run, 18, error), ET_EIO, "the best checkpoint, step 12");
    assert_ok(do_step(&d, 24, 2.5, error));
    assert_ok(et_run_finish_saves(d.run, 24, error));
    end(&d);
    assert_int_equal(best_of(directory), 24);
}

/* Somebody removes it. */
static void test_saving_best__gone(void **state)
{
    const char *directory = in(state, "gone");
    driver d;
    bad.call = NULL;
    begin(&d, directory, ET_FAILED_SAVE_STOP);
    assert_ok(do_step(&d, 6, 1, error));
    assert_ok(et_run_finish_saves(d.run, 6, error));
    scarce_begin(0);
    const int status = et_run_finish_saves(d.run, 6, NULL);
    scarce_end();
    assert_int_equal(status, ET_ENOMEM);
    assert_int_equal(unlink(below(directory, "best/best-6.safetensors")), 0);
    assert_fails(et_run_finish_saves(d.run, 6, error), ET_ENOTFOUND,
                 "the best checkpoint, step 6, was saved here, but is missing");
    assert_ok(do_step(&d, 12, 2, error));
    assert_ok(et_run_finish_saves(d.run, 12, error));
    end(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saving_best__failures),
        cmocka_unit_test(test_saving_best__lost_is_kept),
        cmocka_unit_test(test_saving_best__gone),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
