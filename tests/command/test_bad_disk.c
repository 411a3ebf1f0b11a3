/* Disks that are full or read-only, and standard streams that are full or closed. The disks are
 * small tmpfs in a private mount namespace of this process, which ends with the process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bad_case.h"
#include "sanitized.h"
#include "skip.h"

static bool can_mount;

static void write_map(const char *path, unsigned id)
{
    char text[32];
    int fd = open(path, O_WRONLY);
    snprintf(text, sizeof text, "0 %u 1", id);
    if (fd >= 0) {
        ssize_t written = write(fd, text, strlen(text));
        (void)written;
        close(fd);
    }
}

/* As root, or as root of a user namespace if the system allows one. */
static bool enter_namespace(void)
{
    unsigned user = geteuid(), group = getegid();
    if (user && unshare(CLONE_NEWUSER | CLONE_NEWNS))
        return false;
    if (!user && unshare(CLONE_NEWNS))
        return false;
    if (user) {
        int fd = open("/proc/self/setgroups", O_WRONLY);
        if (fd >= 0 && write(fd, "deny", 4) < 0)
            return false;
        close(fd);
        write_map("/proc/self/uid_map", user);
        write_map("/proc/self/gid_map", group);
    }
    return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int set_up(void **state)
{
    can_mount = enter_namespace();
    return bad_set_up(state);
}

static void put_disk(const char *name)
{
    assert_int_equal(mkdir(name, 0777), 0);
    if (!can_mount || mount("tmpfs", name, "tmpfs", 0, "size=1m")) {
        rmdir(name);
        test_skip("may not mount a tmpfs");
    }
}

static void take_disk(const char *name)
{
    assert_int_equal(umount(name), 0);
    assert_int_equal(rmdir(name), 0);
}

#define ON_DISK                                                                                    \
    "train --config tiny.yaml --model-dir disk/run --set trainer.train_steps=20 "                  \
    "--set task.model.embedding_width=64 "

/* Room for only one checkpoint: it stays and is intact, and with more room the run continues. */
static void test_bad_disk__full_at_a_checkpoint(void **state)
{
    (void)state;
    put_disk("disk");
    bad_end end = bad_start(ON_DISK, NULL, NULL);
    assert_int_equal(end.code, 4);
    const char *last = bad_last_line(end.err);
    bad_assert_says(ON_DISK, last, "saving step ");
    bad_assert_says(ON_DISK, last, "disk/run/checkpoints/ckpt-");
    bad_assert_says(ON_DISK, last, "free some space");
    bad_release(&end);
    char *names = bad_list("disk/run/checkpoints");
    assert_null(strstr(names, ".tmp"));
    assert_string_equal(names, "checkpoint.json ckpt-5.safetensors lock");
    free(names);
    end = bad_start("inspect disk/run", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    assert_int_equal(mount("tmpfs", "disk", "tmpfs", MS_REMOUNT, "size=16m"), 0);
    end = bad_start(ON_DISK, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(ON_DISK, end.err, "resuming     at step 5 of 20");
    bad_release(&end);
    take_disk("disk");
}

/* A model whose checkpoint does not fit: found before the first step, and no file is left. */
static void test_bad_disk__too_small(void **state)
{
    (void)state;
    put_disk("disk");
    static const bad_case cases[] = {
        { "train --config tiny.yaml --model-dir disk/run --set task.model.embedding_width=256",
          .code = 4,
          .words = { "space for a checkpoint: disk/run/checkpoints needs ", "free some space" },
          .lines = 1 },
    };
    bad_run(cases, COUNT(cases));
    take_disk("disk");
}

static void test_bad_disk__full_at_the_start(void **state)
{
    (void)state;
    put_disk("disk");
    char *bytes = calloc(1, 1 << 20);
    int fd = open("disk/rest", O_WRONLY | O_CREAT, 0666);
    while (write(fd, bytes, 4096) > 0)
        continue;
    close(fd);
    free(bytes);
    static const bad_case cases[] = {
        { ON_DISK, .code = 4, .words = { "disk/", "No space left" }, .lines = -1 },
    };
    bad_run(cases, COUNT(cases));
    take_disk("disk");
}

/* The next commands may write files of so many bytes at most. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* ulimit -f: no signal ends the command without a word, and a start that fails leaves nothing. */
static void test_bad_disk__file_size_limit(void **state)
{
    (void)state;
    if (SANITIZED_THREADS)
        test_skip("ThreadSanitizer keeps a file of its own");
    static const char line[] = TRAIN "--set task.model.embedding_width=256";
    static const struct {
        rlim_t bytes;
        const char *said;
    } cases[] = {
        { 1024,
          "m/params.yaml: File too large; raise the limit on the size of a file (ulimit -f)" },
        { 10000, "m/vocabulary.model: File too large; raise the limit on the size of a file" },
        { 400000, " bytes, more than the limit of 400000 bytes; raise the limit (ulimit -f)" },
    };
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    char *files = bad_list(".");
    for (size_t i = 0; i < COUNT(cases); i++) {
        limit_files(cases[i].bytes);
        bad_end end = bad_start(line, NULL, NULL);
        limit_files(before.rlim_cur);
        assert_int_equal(end.code, 4);
        bad_assert_says(line, bad_last_line(end.err), cases[i].said);
        bad_release(&end);
        char *after = bad_list(".");
        assert_string_equal(files, after);
        free(after);
    }
    free(files);
}

static void test_bad_disk__read_only(void **state)
{
    (void)state;
    put_disk("disk");
    bad_train("disk/run", 5);
    assert_int_equal(mount("tmpfs", "disk", "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
    static const bad_case cases[] = {
        { "train --config tiny.yaml --model-dir disk/new", .code = 3,
          .words = { "disk/new: Read-only file system; choose a directory on another" } },
        { "train --config tiny.yaml --model-dir disk/run --set trainer.train_steps=9", .code = 3,
          .words = { "disk/run", "Read-only file system" } },
        { "translate --model-dir disk/run --beam-size 1", .input = "two.en" },
        { "inspect disk/run", .code = 0 },
        { "average --output disk/mean disk/run/checkpoints/ckpt-5.safetensors", .code = 3,
          .words = { "disk/mean", "Read-only file system" } },
    };
    bad_run(cases, COUNT(cases));
    take_disk("disk");
}

/* Results that can't be written are an error, for every command. */
static void test_bad_disk__full_output(void **state)
{
    (void)state;
    bad_train("run", 1);
    static const char *const lines[] = {
        "translate --model-dir run --beam-size 1",
        "score two.en",
        "list",
        "list translation/tiny",
        "inspect run",
        "--help",
        "train --help",
        "evaluate --model-dir run --beam-size 1 --source two.en --reference two.de",
    };
    if (access("/dev/full", W_OK))
        test_skip("no /dev/full");
    for (size_t i = 0; i < COUNT(lines); i++) {
        bad_end end = bad_start(lines[i], "two.en", "/dev/full");
        if (end.code != 4)
            fail_msg("etude %s: exit code %d", lines[i], end.code);
        bad_assert_says(lines[i], bad_last_line(end.err),
                        "etude: standard output: No space left on device");
        bad_release(&end);
    }
    bad_remove("run");
}

/* Started without standard streams, a run must not take its own files for them. */
static void test_bad_disk__closed_streams(void **state)
{
    (void)state;
    for (int closed = 0; closed < 3; closed++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int fd = closed; fd < 3; fd++)
                close(fd);
            execl(ET_TEST_BUILD "/etude", "etude", "train", "--config", "tiny.yaml", "--model-dir",
                  "m", (char *)NULL);
            _exit(127);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        bad_end end = bad_start("inspect m", NULL, NULL);
        assert_int_equal(end.code, 0);
        bad_release(&end);
        bad_remove("m");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_disk__full_at_a_checkpoint),
        cmocka_unit_test(test_bad_disk__too_small),
        cmocka_unit_test(test_bad_disk__full_at_the_start),
        cmocka_unit_test(test_bad_disk__file_size_limit),
        cmocka_unit_test(test_bad_disk__read_only),
        cmocka_unit_test(test_bad_disk__full_output),
        cmocka_unit_test(test_bad_disk__closed_streams),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
