/* Files of a run that another program removes, replaces or cuts while `etude train` works there:
 * nothing is lost silently, and two processes never both succeed in one directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>

#include <signal.h>

#include "command/test_resume_run.h"

#include "base/text/strbuf.h"
#include "formats/files.h"
#include "formats/records/record.h"

#define EVENTS "/events.out.tfevents.0000000000.etude"

/* Whether the last start of a directory printed the text. */
static bool has_said(const char *directory, const char *text)
{
    char *log = run_log(directory);
    bool found = strstr(log, text) != NULL;
    if (!found)
        print_message("%s\n", log);
    free(log);
    return found;
}

/* The only save is at the end, so that no save is in progress when a process is stopped. */
#define SAVED_ONCE "trainer.checkpoint_interval=1000", "trainer.validation_interval=1000"

/* Starts a run, and stops it after step 16, so that it does not finish before the test acts. */
static pid_t start_and_stop(const char *directory)
{
    char path[100];
    run_command command = { .directory = directory, .settings = { SAVED_ONCE } };
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, path, "{\"step\":16,"));
    kill(pid, SIGSTOP);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED | WNOWAIT), 0);
    return pid;
}

/* ---- the lock ---- */

/* The second process finds no lock and may train; the first sees it before it writes. */
static void test_taken_away__lock_with_another_process(void **state)
{
    (void)state;
    pid_t pid = start_and_stop("both");
    assert_int_equal(unlink("both/checkpoints/lock"), 0);
    assert_int_equal(rename("both.log", "first.log"), 0);
    run_command second = { .directory = "both", .settings = { SAVED_ONCE } };
    assert_int_equal(run(&second), 0);
    kill(pid, SIGCONT);
    assert_int_equal(run_wait(pid), 1);
    assert_int_equal(rename("first.log", "both.log"), 0);
    assert_true(has_said("both", "checkpoints/lock was removed, and another process has made it "
                                 "again and uses the directory; stop one of the two"));
    run_command whole = { .directory = "whole", .settings = { SAVED_ONCE } };
    assert_int_equal(run(&whole), 0);
    run_assert_same("whole", "both");
    run_remove("both");
    run_remove("whole");
}

/* With nobody there it is made again, and holds: with its folder too. */
static void test_taken_away__lock_alone(void **state)
{
    (void)state;
    for (int folder = 0; folder < 2; folder++) {
        pid_t pid = start_and_stop("alone");
        assert_int_equal(unlink("alone/checkpoints/lock"), 0);
        if (folder)
            run_remove("alone/checkpoints");
        kill(pid, SIGCONT);
        assert_int_equal(run_wait(pid), 0);
        assert_true(
            has_said("alone", "checkpoints/lock was removed; Etude made and locked it again"));
        assert_int_equal(access("alone/checkpoints/ckpt-160.safetensors", R_OK), 0);
        assert_int_equal(access("alone/checkpoints/lock", R_OK), 0);
        run_command again = { .directory = "alone",
                              .settings = { SAVED_ONCE, "trainer.train_steps=170" } };
        assert_int_equal(run(&again), 0);
        assert_true(has_said("alone", "resuming     at step 160 of 170"));
        run_remove("alone");
    }
}

/* ---- logs ---- */

static int count_lines(const char *path)
{
    size_t length;
    char *text = get_file(path, &length);
    int count = 0;
    for (size_t i = 0; i < length; i++)
        count += text[i] == '\n';
    assert_int_equal(strlen(text), length); /* no hole where something was cut off */
    free(text);
    return count;
}

/* Lines of later steps are there, the file has a warning, and a resumed run cuts it off in the
 * right place. */
static void test_taken_away__metrics(void **state)
{
    (void)state;
    for (int cut = 0; cut < 2; cut++) {
        pid_t pid = start_and_stop("metrics");
        if (cut)
            assert_int_equal(truncate("metrics/metrics.jsonl", 0), 0);
        else
            assert_int_equal(unlink("metrics/metrics.jsonl"), 0);
        kill(pid, SIGCONT);
        assert_int_equal(run_wait(pid), 0);
        assert_true(has_said(
            "metrics",
            "warning: another program removed, replaced or truncated metrics/metrics.jsonl"));
        /* Of 20 logs of training and one of validation, all but 2 of training or a few more. */
        int lines = count_lines("metrics/metrics.jsonl");
        assert_in_range(lines, 10, 19);
        run_command again = { .directory = "metrics",
                              .settings = { SAVED_ONCE, "trainer.train_steps=168" } };
        assert_int_equal(run(&again), 0);
        assert_int_equal(count_lines("metrics/metrics.jsonl"), lines + 2);
        run_remove("metrics");
    }
}

/* TensorBoard's file is made again and can be read, with its folder. */
static void test_taken_away__events(void **state)
{
    (void)state;
    pid_t pid = start_and_stop("events");
    run_remove("events/train");
    kill(pid, SIGCONT);
    assert_int_equal(run_wait(pid), 0);
    assert_true(
        has_said("events", "another program removed, replaced or truncated events/train" EVENTS));
    et_record_scan reader;
    const void *bytes;
    size_t length;
    int count = 0;
    assert_int_equal(et_record_scan_open(&reader, "events/train" EVENTS, NULL), 0);
    for (;;) {
        assert_int_equal(et_record_scan_next(&reader, &bytes, &length, NULL), 0);
        if (!bytes)
            break;
        if (count++ == 0)
            assert_non_null(memmem(bytes, length, "brain.Event:2", 13));
    }
    assert_false(reader.torn);
    et_record_scan_close(&reader);
    assert_in_range(count, 10, 20); /* the version, and logs of training but one or more */
    run_remove("events");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_away__lock_with_another_process),
        cmocka_unit_test(test_taken_away__lock_alone),
        cmocka_unit_test(test_taken_away__metrics),
        cmocka_unit_test(test_taken_away__events),
    };
    return cmocka_run_group_tests(tests, run_make_corpus, run_remove_corpus);
}
