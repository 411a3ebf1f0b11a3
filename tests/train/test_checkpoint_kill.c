/* A process that saves all the time is killed at random instants: there must always be a complete
 * checkpoint that loads, not older than the last save that was reported done. */
#include "train/checkpoint/checkpoint.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/train.h"

enum { KILLS = 30 };

/* The child's report before it is killed. */
typedef struct report {
    _Atomic int64_t begun; /* save was called */
    _Atomic int64_t done;  /* wait returned: durable */
} report;

/* Resumes, then saves every step for ever, the best one at every third. */
static void child(const char *directory, report *said)
{
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_checkpoint_options options = { .max_to_keep = 2 };
    et_checkpoints *checkpoints;
    toy t = toy_new(0);
    int64_t step;
    toy_attach(&t);
    if (et_checkpoints_open(&checkpoints, directory, t.state, &options, &error) ||
        et_checkpoints_restore(checkpoints, &step, &error))
        _exit(1);
    for (step = step < 0 ? 1 : step + 1;; step++) {
        toy_set(&t, step);
        said->begun = step;
        et_value *metrics = et_value_dict(&arena);
        if ((step % 3 == 0 && et_checkpoints_save_best(checkpoints, step, metrics, &error)) ||
            et_checkpoints_save(checkpoints, step, &error) ||
            et_checkpoints_wait(checkpoints, &error))
            _exit(2);
        said->done = step;
    }
}

static void wait_microseconds(long microseconds)
{
    struct timespec time = { 0, microseconds * 1000 };
    nanosleep(&time, NULL);
}

/* Waits until the child saves, then some random time, so that most kills fall inside a save. done:
 * until a save was done, too, whichever child's it was. */
static void run_and_kill(const char *directory, report *said, long microseconds, bool done)
{
    int64_t before = said->begun;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child(directory, said);
    for (int i = 0; i < 60000 && (said->begun == before || (done && !said->done)); i++)
        wait_microseconds(1000);
    wait_microseconds(microseconds);
    assert_int_equal(kill(pid, SIGKILL), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The newest loads, is the old or the new one, and is whole; so is the best, if there is one. */
static void check(const char *directory, const report *said)
{
    toy t = toy_new(0);
    toy_attach(&t);
    char *path;
    int64_t step = -1;
    int status = et_checkpoint_newest(&path, directory, NULL);
    if (status)
        assert_int_equal(said->done, 0);
    else
        assert_ok(et_checkpoint_restore_file(t.state, path, ET_RESTORE_STRICT, &step, error));
    if (step >= 0)
        assert_true(toy_is(&t, step));
    assert_in_range(step + 1, said->done ? said->done + 1 : 0, said->begun + 1);
    et_free(path);
    if (!et_checkpoint_best(&path, directory, NULL)) {
        assert_ok(et_checkpoint_restore_file(t.state, path, ET_RESTORE_STRICT, &step, error));
        assert_true(toy_is(&t, step));
        assert_in_range(step, 0, said->begun);
        et_free(path);
    }
    toy_free(&t);
}

static void test_checkpoint_kill__always_loads(void **state)
{
    const char *directory = *state;
    report *said =
        mmap(NULL, sizeof *said, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(said != MAP_FAILED);
    unsigned random = 12345;
    for (int i = 0; i < KILLS; i++) {
        random = random * 1103515245u + 12345u;
        /* The last child is killed after a complete save: on a slow disk, no other may have one. */
        run_and_kill(directory, said, (long)(random >> 8) % 15000, i == KILLS - 1);
        check(directory, said);
    }
    assert_true(said->done > 0);
    munmap(said, sizeof *said);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_kill__always_loads),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
