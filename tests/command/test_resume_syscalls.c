/* A run is killed at every system call of a save (strace injects the signal when the call is
 * entered): the old checkpoint or the new one loads, and the same command ends as a run that
 * was not killed. Calls are counted per thread and chosen by file, so only those of the thread
 * that saves count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "command/test_resume_run.h"

#include "base/alloc.h"
#include "formats/files.h"
#include "skip.h"
#include "train/checkpoint/checkpoint.h"

/* The run has a checkpoint at step 10 and saves, with the best one, at 20. All intervals divide
 * 10, so that a run which ended there is the beginning of one to 20. */
#define SETTINGS                                                                                   \
    "trainer.train_steps=20", "trainer.validation_interval=10", "trainer.summary_interval=10",     \
        "trainer.max_to_keep=1"
#define UNBROKEN  "unbroken"
#define BEGUN     "begun"
#define DIRECTORY "killed"

typedef struct point {
    const char *calls;
    const char *files; /* of strace, below DIRECTORY; $$ is the process; "" for all */
    bool fresh;        /* from the first start; else from step 10 */
    bool sparse;       /* with so many calls that the short test takes each at twice the number of
                        * the last */
} point;

#define CHECKPOINT                                                                                 \
    "checkpoints/ckpt-20.safetensors.tmp.$$ checkpoints/ckpt-20.safetensors "                      \
    "checkpoints/checkpoint.json.tmp.$$"
#define BEST "best/best-20.safetensors.tmp.$$ best/best-20.safetensors best/info.json.tmp.$$"

/* The main thread opens directories too, so they only count for fsync. */
static const point points[] = {
    { "openat", CHECKPOINT, false, false },
    { "write,writev,pwrite64,pwritev,pwritev2", CHECKPOINT, false, true },
    { "fsync,fdatasync,sync_file_range", CHECKPOINT " checkpoints", false, false },
    { "rename,renameat,renameat2", CHECKPOINT, false, false },
    { "close", CHECKPOINT, false, false },
    { "unlink,unlinkat", "checkpoints/ckpt-10.safetensors", false, false },
    { "openat", BEST, false, false },
    { "write,writev,pwrite64,pwritev,pwritev2", BEST, false, true },
    { "fsync,fdatasync,sync_file_range", BEST " best", false, false },
    { "rename,renameat,renameat2", BEST, false, false },
    { "rename,renameat,renameat2", "", true, false },
    { "mkdir,mkdirat,ftruncate,fallocate", "", true, true },
};

#define POINT_COUNT (sizeof points / sizeof points[0])

static bool strace_works(void)
{
    return system("strace -o /dev/null -f -e trace=fsync -e inject=fsync:signal=KILL true "
                  ">/dev/null 2>&1") == 0;
}

/* strace replaces the process and traces from a grandchild (-D), so that the process keeps its
 * number, which is in the names of temporary files. */
static void write_script(const point *at, int number, char script[2000])
{
    char files[1000], *state;
    int length = snprintf(script, 2000,
                          "exec strace -D -f -o strace.log -e trace=%s -e "
                          "inject=%s:signal=KILL:when=%d",
                          at->calls, at->calls, number);
    snprintf(files, sizeof files, "%s", at->files);
    for (char *file = strtok_r(files, " ", &state); file; file = strtok_r(NULL, " ", &state))
        length += snprintf(script + length, (size_t)(2000 - length),
                           " -P \"$PWD/" DIRECTORY "/%s\"", file);
    snprintf(script + length, (size_t)(2000 - length), " \"$@\"");
}

static void assert_old_or_new_loads(const point *at)
{
    char *path;
    et_error error = ET_ERROR_INIT;
    int status = et_checkpoint_newest(&path, DIRECTORY, &error);
    if (at->fresh && status == ET_ENOTFOUND)
        return;
    if (status)
        fail_msg("%s", error.text);
    if (!at->fresh)
        assert_true(strstr(path, "/ckpt-10.") || strstr(path, "/ckpt-20."));
    et_free(path);
}

/* False: there are less than number such calls. */
static bool kill_at(const point *at, int number)
{
    char script[2000];
    char absolute[1000];
    run_remove(DIRECTORY);
    if (!at->fresh)
        run_copy(DIRECTORY, BEGUN);
    assert_non_null(getcwd(absolute, sizeof absolute - sizeof DIRECTORY - 1));
    strcat(absolute, "/" DIRECTORY);
    write_script(at, number, script);
    run_command command = { .directory = absolute,
                            .settings = { SETTINGS },
                            .before = { "sh", "-c", script, "sh" } };
    int code = run(&command);
    if (code != -SIGKILL)
        return false;
    assert_old_or_new_loads(at);
    run_command again = { .directory = absolute, .settings = { SETTINGS } };
    assert_int_equal(run(&again), 0);
    run_assert_same(UNBROKEN, DIRECTORY);
    return true;
}

static int set_up(void **state)
{
    run_command unbroken = { .directory = UNBROKEN, .settings = { SETTINGS } };
    run_command begun = { .directory = BEGUN, .settings = { SETTINGS, "trainer.train_steps=10" } };
    return run_make_corpus(state) || run(&unbroken) || run(&begun);
}

static void test_resume_syscalls__killed_at_every_call(void **state)
{
    (void)state;
    bool all = getenv("ET_TEST_KILLS") != NULL;
    if (!strace_works())
        test_skip("strace is missing or may not trace: no kill at chosen system calls");
    for (size_t i = 0; i < POINT_COUNT; i++) {
        int kills = 0, number = 1;
        while (kill_at(&points[i], number)) {
            kills++;
            number = points[i].sparse && !all ? 2 * number + 1 : number + 1;
        }
        print_message("%3d kills at %s of %s\n", kills, points[i].calls,
                      *points[i].files ? points[i].files : "the first start");
        if (!kills)
            fail_msg("no such call");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume_syscalls__killed_at_every_call),
    };
    return cmocka_run_group_tests(tests, set_up, run_remove_corpus);
}
