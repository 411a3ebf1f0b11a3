/* `etude translate` as a filter for another program: an answer for each line at once, answers to
 * the lines before a bad line, line numbers counted in the whole input, and the same words for any
 * grouping of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bad_case.h"
#include "skip.h"

enum { LINES = 60 };

static int set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    bad_train("m", 5);
    return 0;
}

/* Both ends of a translator that is at work. */
typedef struct filter {
    pid_t pid;
    FILE *to, *from;
} filter;

/* errors: where standard error goes. */
static filter start(int errors)
{
    int in[2], out[2];
    filter f;
    assert_true(!pipe(in) && !pipe(out));
    f.pid = fork();
    assert_true(f.pid >= 0);
    if (!f.pid) {
        static char program[] = ET_TEST_BUILD "/etude";
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        dup2(errors, STDERR_FILENO);
        close(in[0]), close(in[1]), close(out[0]), close(out[1]);
        alarm(240);
        execl(program, program, "translate", "--model-dir", "m", (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    f.to = fdopen(in[1], "w");
    f.from = fdopen(out[0], "r");
    assert_true(f.to && f.from);
    return f;
}

/* Writes some lines and reads as many answers. */
static void ask(filter *f, const char *lines, int count)
{
    char answer[256];
    fputs(lines, f->to);
    fflush(f->to);
    for (int i = 0; i < count; i++)
        assert_non_null(fgets(answer, sizeof answer, f->from));
}

static int finish(filter *f)
{
    int status;
    fclose(f->to);
    fclose(f->from);
    assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The answers if all lines come at once from a file. */
static char *all_at_once(const char *path)
{
    bad_end end = bad_start("translate --model-dir m", path, NULL);
    if (end.code)
        fail_msg("%s", end.err);
    char *out = strdup(end.out);
    bad_release(&end);
    return out;
}

/* One line, its answer, the next; then several at a time. This program does not write more before
 * an answer is there, so a command that waited for more would end by the alarm. */
static void test_translate__coprocess(void **state)
{
    (void)state;
    static char line[256], answers[65536];
    char *expected = all_at_once("a.en");
    FILE *lines = fopen("a.en", "r");
    assert_non_null(lines);
    signal(SIGPIPE, SIG_IGN);
    alarm(240);
    filter f = start(STDERR_FILENO);
    for (int i = 0, together = 1; i < LINES; i += together) {
        together = i < 20 ? 1 : 4;
        for (int k = 0; k < together; k++) {
            assert_non_null(fgets(line, sizeof line, lines));
            fputs(line, f.to);
        }
        fflush(f.to);
        for (int k = 0; k < together; k++) {
            assert_non_null(fgets(line, sizeof line, f.from));
            strcat(answers, line);
        }
    }
    alarm(0);
    assert_int_equal(finish(&f), 0);
    assert_string_equal(answers, expected);
    fclose(lines);
    free(expected);
}

static void test_translate__before_a_bad_line(void **state)
{
    (void)state;
    char *expected = all_at_once("a.en");
    size_t length;
    char *text = bad_read("a.en", &length);
    FILE *bad = fopen("bad.en", "w");
    assert_non_null(bad);
    fprintf(bad, "%scaf\xe9\nred dog\n", text);
    fclose(bad);
    bad_end end = bad_start("translate --model-dir m", "bad.en", NULL);
    assert_int_equal(end.code, 3);
    assert_string_equal(end.out, expected);
    bad_assert_says("translate", end.err,
                    "etude: standard input:61: byte 4 of the line (0xE9) is not UTF-8");
    bad_release(&end);
    remove("bad.en");
    free(text);
    free(expected);
}

/* The line's number counts from the start of the input, however many batches were before it. */
static void test_translate__cut_line(void **state)
{
    (void)state;
    enum { BEFORE = 5000, WORDS = 2000 };
    FILE *file = fopen("long.en", "w");
    assert_non_null(file);
    for (int i = 0; i < BEFORE; i++)
        fputs("\n", file);
    for (int i = 0; i < WORDS; i++)
        fputs("cat ", file);
    fputs("\n", file);
    fclose(file);
    bad_end end =
        bad_start("translate --model-dir m --beam-size 1 --max-length 3", "long.en", NULL);
    remove("long.en");
    assert_int_equal(end.code, 0);
    assert_int_equal(bad_count_lines(end.out), BEFORE + 1);
    bad_assert_says("translate", end.err, "warning: line 5001: ");
    bad_assert_says("translate", end.err, "more than 1,023; translated in ");
    bad_release(&end);
}

/* On a terminal and in a log, lines of the whole input are counted. */
static void test_translate__counts_lines(void **state)
{
    (void)state;
    static char shown[65536];
    int master, slave;
    bad_end end = bad_start("evaluate --model-dir m --source a.en --reference a.de", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says("evaluate", end.err, "lines  60/60 100%");
    assert_null(strstr(end.err, "step"));
    bad_release(&end);
    if (openpty(&master, &slave, NULL, NULL, NULL))
        test_skip("no pseudo-terminals here: is /dev/pts mounted?");
    fcntl(master, F_SETFL, O_NONBLOCK);
    setenv("TERM", "xterm", 1);
    /* A single line has no bar, the two after it are lines 2 and 3. */
    filter f = start(slave);
    ask(&f, "dog\n", 1);
    ask(&f, "cat\ndog\n", 2);
    assert_int_equal(finish(&f), 0);
    ssize_t length = read(master, shown, sizeof shown - 1);
    assert_true(length > 0);
    bad_assert_says("translate", shown, "\rlines  1  ");
    assert_null(strstr(shown, "step"));
    close(slave);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translate__coprocess),
        cmocka_unit_test(test_translate__before_a_bad_line),
        cmocka_unit_test(test_translate__cut_line),
        cmocka_unit_test(test_translate__counts_lines),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
