/* Signals to `etude train`: several at once count as one request, a hang-up is a request, and no
 * request waits for a long update. Signals do not change the results of the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "command/test_resume_run.h"

#include "base/text/strbuf.h"
#include "formats/files.h"
#include "sanitized.h"
#include "skip.h"

#define WHOLE "whole"

static int set_up(void **state)
{
    signal(SIGHUP, SIG_DFL); /* the tests themselves may run under nohup */
    signal(SIGXCPU, SIG_DFL);
    if (run_make_corpus(state))
        return 1;
    run_command whole = { .directory = WHOLE };
    return run(&whole);
}

static void assert_ends(int code, const char *text, int expected, const char *directory)
{
    char *log = run_log(directory);
    if (code != expected || !strstr(log, text))
        fail_msg("exit code %d instead of %d, or no \"%s\" in:\n%s", code, expected, text, log);
    free(log);
}

/* Runs to the end, and the result does not show the interruption. */
static void finish_and_compare(const run_command *command, const char *whole)
{
    run_command again = *command;
    again.before[0] = NULL;
    assert_ends(run(&again), "resuming ", 0, command->directory);
    run_assert_same(whole, command->directory);
    run_remove(command->directory);
}

static pid_t start_and_await_step_16(const run_command *command)
{
    char metrics[100];
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", command->directory);
    pid_t pid = run_start(command);
    assert_true(run_await_text(pid, metrics, "{\"step\":16,"));
    return pid;
}

/* timeout, Slurm and systemd signal a process and its group; one ^C may come twice. */
static void test_signals__some_at_once_are_one(void **state)
{
    (void)state;
    static const struct {
        int first, second;
        double between;
    } pairs[] = { { SIGTERM, SIGTERM, 0.002 },
                  { SIGINT, SIGTERM, 0 },
                  { SIGTERM, SIGCONT, 0.005 },
                  { SIGHUP, SIGTERM, 0.02 },
                  { SIGINT, SIGINT, 0.1 } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        run_command command = { .directory = "twice" };
        pid_t pid = start_and_await_step_16(&command);
        /* Stopped between the two of most pairs, so that it cannot end before the second. */
        kill(pid, SIGSTOP);
        kill(pid, pairs[i].first);
        if (i % 2)
            kill(pid, SIGCONT);
        run_sleep(pairs[i].between);
        kill(pid, pairs[i].second);
        kill(pid, SIGCONT);
        assert_ends(run_wait(pid), "interrupted: saved step ", 75, "twice");
        assert_ends(75, "\nstopping     saving a checkpoint; ", 75, "twice");
        finish_and_compare(&command, WHOLE);
    }
}

/* A run that cannot print, because nobody reads its pipe, neither continues nor ends. Starts one,
 * and lets it stall once it has a run to save. */
static pid_t start_stalled(const run_command *command, int *pipe)
{
    char log[100], bytes[512];
    et_strbuf said = ET_STRBUF_INIT;
    snprintf(log, sizeof log, "%s.log", command->directory);
    assert_int_equal(mkfifo(log, 0666), 0);
    *pipe = open(log, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_true(*pipe >= 0 && fcntl(*pipe, F_SETPIPE_SZ, 4096) >= 4096);
    pid_t pid = run_start(command);
    while (!strstr(et_strbuf_text(&said), "experiment ")) {
        ssize_t got = read(*pipe, bytes, sizeof bytes);
        assert_true(got > 0 || errno == EAGAIN);
        if (got > 0)
            et_strbuf_append_bytes(&said, bytes, (size_t)got);
        run_sleep(0.001);
    }
    et_strbuf_release(&said);
    memset(bytes, '\n', sizeof bytes);
    /* Fills the pipe to the last byte: otherwise a part of the words would still fit. */
    while (write(*pipe, bytes, sizeof bytes) > 0)
        continue;
    while (write(*pipe, bytes, 1) > 0)
        continue;
    return pid;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = { 0 };
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Signals that were sent to it and that it has not taken. */
static bool has_pending(pid_t pid)
{
    char path[64], line[256];
    unsigned long long pending = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "ShdPnd: %llx", &pending) == 1)
            break;
    fclose(file);
    return pending != 0;
}

/* When it was taken at the latest. */
static double send_and_await(pid_t pid, int number)
{
    kill(pid, number);
    while (!has_ended(pid) && has_pending(pid))
        run_sleep(0.001);
    return run_clock();
}

/* Two requests that a stalled run takes within a second, as this program's own clock shows; when it
 * took the first at the latest. False: the machine was too slow for that. */
static bool ask_twice(pid_t pid, double *taken)
{
    double begun = run_clock();
    *taken = send_and_await(pid, SIGTERM);
    run_sleep(0.3);
    return send_and_await(pid, SIGINT) - begun < 0.6;
}

/* A run that was asked twice. */
static pid_t start_asked(const run_command *command, int *fd, double *taken)
{
    for (int tries = 0; tries < 20; tries++) {
        pid_t pid = start_stalled(command, fd);
        run_sleep(0.3);
        if (ask_twice(pid, taken))
            return pid;
        kill(pid, SIGKILL);
        run_wait(pid);
        close(*fd);
        remove("blocked.log");
        run_remove("blocked");
    }
    fail_msg("this machine takes a second to hand on a signal");
    return -1;
}

/* A second request a second later or more comes from a user who does not want to wait; a hang-up
 * does not.
 */
static void test_signals__impatience(void **state)
{
    (void)state;
    if (SANITIZED_THREADS)
        test_skip("ThreadSanitizer runs no handler while a write blocks");
    static const struct {
        int second, code;
    } cases[] = { { SIGINT, 128 + SIGINT }, { SIGTERM, 128 + SIGTERM }, { SIGHUP, 75 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_command command = { .directory = "blocked",
                                .settings = { "trainer.validation_interval=1" } };
        int fd;
        double taken;
        pid_t pid = start_asked(&command, &fd, &taken);
        while (run_clock() < taken + 2)
            run_sleep(0.01);
        assert_false(has_ended(pid));
        kill(pid, cases[i].second);
        char bytes[4096];
        if (cases[i].code == 75)
            while (!has_ended(pid))
                if (read(fd, bytes, sizeof bytes) < 0)
                    run_sleep(0.001);
        assert_int_equal(run_wait(pid), cases[i].code);
        close(fd);
        remove("blocked.log");
        run_remove("blocked");
    }
}

static void test_signals__a_line_that_drops(void **state)
{
    (void)state;
    static const int signals[] = { SIGHUP, SIGXCPU };
    for (int i = 0; i < 2; i++) {
        run_command command = { .directory = "dropped" };
        pid_t pid = start_and_await_step_16(&command);
        kill(pid, signals[i]);
        assert_ends(run_wait(pid), "interrupted: saved step ", 75, "dropped");
        finish_and_compare(&command, WHOLE);
    }
}

/* As nohup has it. */
static void test_signals__ignored_from_the_start(void **state)
{
    (void)state;
    run_command command = { .directory = "nohup",
                            .before = { "sh", "-c", "trap '' HUP; exec \"$0\" \"$@\"" } };
    pid_t pid = start_and_await_step_16(&command);
    kill(pid, SIGHUP);
    assert_int_equal(run_wait(pid), 0);
    run_assert_same(WHOLE, "nohup");
    run_remove("nohup");
}

/* Before there is a run, a hang-up prints that and leaves no file. */
static void test_signals__before_the_first_step(void **state)
{
    (void)state;
    run_command command = { .directory = "early",
                            .settings = { "task.train_data.source_path=large.source",
                                          "task.train_data.target_path=large.target" } };
    run_write_pairs("large", 20000, 4);
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "early.log", "training a vocabulary"));
    kill(pid, SIGHUP);
    assert_ends(run_wait(pid), "interrupted before the first step: nothing to save.", 75, "early");
    run_remove("early");
}

/* ---- saves that fail ---- */

static void limit_files_of(pid_t pid, rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, NULL, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

#define WITHOUT_END                                                                                \
    "trainer.train_steps=100000000", "trainer.checkpoint_interval=100000000",                      \
        "trainer.summary_interval=16", "trainer.validation_interval=100000000"

/* The failure ends the run at once, not at the next save, which is never due. */
static void test_signals__a_failed_save_ends_the_run(void **state)
{
    (void)state;
    run_command command = { .directory = "full", .settings = { WITHOUT_END } };
    pid_t pid = start_and_await_step_16(&command);
    limit_files_of(pid, 100000);
    kill(pid, SIGUSR1);
    assert_ends(run_wait(pid), "File too large; raise the limit on the size of a file (ulimit -f)",
                4, "full");
    assert_ends(4, "; trying once more\n", 4, "full");
    assert_ends(4, "\netude: saving step ", 4, "full");
    run_remove("full");
}

/* Two rows of metrics.jsonl from now: the first may be of a step that a save waits behind. */
static void await_later_steps(pid_t pid)
{
    struct stat before, now;
    for (int rows = 0; rows < 2; rows++) {
        assert_int_equal(stat("full/metrics.jsonl", &before), 0);
        do {
            assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
            run_sleep(0.001);
            assert_int_equal(stat("full/metrics.jsonl", &now), 0);
        } while (now.st_size <= before.st_size);
    }
}

/* Or it continues, and saves when it can again. */
static void test_signals__a_failed_save_is_survived(void **state)
{
    (void)state;
    run_command command = { .directory = "full",
                            .settings = { WITHOUT_END, "trainer.on_failed_save=go_on" } };
    pid_t pid = start_and_await_step_16(&command);
    limit_files_of(pid, 100000);
    kill(pid, SIGUSR1);
    if (!run_await_text(pid, "full.log", "; training continues, and the steps since"))
        assert_ends(run_wait(pid), "-", 75, "full");
    limit_files_of(pid, RLIM_INFINITY);
    kill(pid, SIGUSR1);
    assert_true(run_await_text(pid, "full/checkpoints/checkpoint.json", "ckpt-"));
    /* Before the next step, a signal finds nothing to save, and the exit is 75. */
    await_later_steps(pid);
    limit_files_of(pid, 100000);
    kill(pid, SIGTERM);
    assert_ends(run_wait(pid), "\netude: saving step ", 4, "full");
    run_remove("full");
}

/* ---- long updates ---- */

/* Minutes of an update that never ends within the test. */
static void test_signals__a_long_update_is_left(void **state)
{
    (void)state;
    run_command command = { .directory = "long",
                            .settings = { "trainer.gradient_accumulation=65536" } };
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "long.log", "training     "));
    run_sleep(0.2);
    double asked = run_clock();
    kill(pid, SIGTERM);
    assert_ends(run_wait(pid), "interrupted before the first step: nothing to save.", 75, "long");
    print_message("left an update after %.3f s\n", run_clock() - asked);
    run_remove("long");
}

/* An abandoned update is done again from its first batch. */
static void test_signals__updates_that_were_left(void **state)
{
    (void)state;
#define FEW                                                                                        \
    { "trainer.gradient_accumulation=300", "trainer.train_steps=4",                                \
      "trainer.summary_interval=1",        "trainer.validation_interval=4",                        \
      "trainer.checkpoint_interval=2",     "runtime.prefetch=2" }
    run_command unbroken = { .directory = "unbroken", .settings = FEW };
    run_command broken = { .directory = "broken", .settings = FEW };
    assert_ends(run(&unbroken), "", 0, "unbroken");
    for (int step = 1; step <= 3; step++) {
        char text[32];
        snprintf(text, sizeof text, "{\"step\":%d,", step);
        pid_t pid = run_start(&broken);
        assert_true(run_await_text(pid, "broken/metrics.jsonl", text));
        run_sleep(0.02);
        kill(pid, SIGTERM);
        snprintf(text, sizeof text, "interrupted: saved step %d.", step);
        assert_ends(run_wait(pid), text, 75, "broken");
    }
    finish_and_compare(&broken, "unbroken");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals__some_at_once_are_one),
        cmocka_unit_test(test_signals__impatience),
        cmocka_unit_test(test_signals__a_line_that_drops),
        cmocka_unit_test(test_signals__ignored_from_the_start),
        cmocka_unit_test(test_signals__before_the_first_step),
        cmocka_unit_test(test_signals__a_failed_save_ends_the_run),
        cmocka_unit_test(test_signals__a_failed_save_is_survived),
        cmocka_unit_test(test_signals__a_long_update_is_left),
        cmocka_unit_test(test_signals__updates_that_were_left),
    };
    return cmocka_run_group_tests(tests, set_up, run_remove_corpus);
}
