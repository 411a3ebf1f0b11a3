/* What a terminal shows while one of several trainings runs: the bar with the candidate's name and
 * the time left, taken away at the end, and no other lines of this training. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skip.h"

static char shown[1 << 20];

static int set_up(void **state)
{
    (void)state;
    static char directory[] = "series_bar.XXXXXX";
    if (!mkdtemp(directory) || chdir(directory))
        return -1;
    FILE *file = fopen("t.csv", "w");
    if (!file)
        return -1;
    fputs("size,colour,kind\n", file);
    for (int i = 0; i < 400; i++)
        fprintf(file, "%d,%s,%s\n", i * 37 % 101, i % 3 ? "red" : "blue",
                i * 37 % 101 + i % 5 > 50 ? "yes" : "no");
    return fclose(file);
}

static int tear_down(void **state)
{
    (void)state;
    char line[256], here[200];
    if (!getcwd(here, sizeof here) || chdir(".."))
        return -1;
    snprintf(line, sizeof line, "rm -r '%s'", here);
    return system(line); /* NOLINT: a name of mkdtemp */
}

/* Trains with standard error on a terminal, all of which is in shown afterwards. */
static void train(const char *const *more)
{
    static char program[] = ET_TEST_BUILD "/etude";
    const char *words[20] = { program, "train", "--data", "t.csv", "--target", "kind" };
    struct winsize size = { .ws_row = 24, .ws_col = 120 };
    int master, slave, status, count = 6;
    while (*more)
        words[count++] = *more++;
    if (openpty(&master, &slave, NULL, NULL, &size))
        test_skip("no pseudo-terminals here: is /dev/pts mounted?");
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        setenv("TERM", "xterm", 1);
        setenv("LC_ALL", "C", 1);
        setenv("OMP_NUM_THREADS", "1", 1);
        dup2(slave, STDERR_FILENO);
        close(slave), close(master);
        alarm(240);
        execv(program, (char *const *)words);
        _exit(127);
    }
    close(slave);
    size_t length = 0;
    for (ssize_t got; length < sizeof shown - 1 &&
                      (got = read(master, shown + length, sizeof shown - 1 - length)) > 0;)
        length += (size_t)got;
    shown[length] = 0;
    close(master);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
        fail_msg("%s", shown);
}

static void says(const char *text)
{
    if (!strstr(shown, text))
        fail_msg("no \"%s\": %s", text, shown);
}

static void test_series_bar__candidates(void **state)
{
    (void)state;
    train((const char *[]){ "auto", "--experiment", "tabular/auto", "--epochs", "2", NULL });
    says("\rlinear 1/5  step ");
    says("\rlinear 5/5  step ");
    says("\rtabm 3/5  step ");
    says(" left\033[K");
    says("\r\033[K");
    says("candidate  ");
    assert_null(strstr(shown, "parameters"));
    assert_null(strstr(shown, "* = new best"));
}

static void test_series_bar__held_out(void **state)
{
    (void)state;
    train((const char *[]){ "part", "--experiment", "tabular/auto", "--epochs", "2", "--set",
                            "task.held_out=0.2", NULL });
    says("\rrealmlp  step ");
}

static void test_series_bar__quiet(void **state)
{
    (void)state;
    train((const char *[]){ "quiet", "--experiment", "tabular/mlp", "--folds", "2", "--steps", "20",
                            "-q", NULL });
    assert_string_equal(shown, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_series_bar__candidates),
        cmocka_unit_test(test_series_bar__held_out),
        cmocka_unit_test(test_series_bar__quiet),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
