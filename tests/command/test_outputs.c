/* Outputs of commands: refused for files that the command reads or that a run keeps, and in folders
 * that do not exist. Refused before any work, with all files unchanged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bad_case.h"
#include "sanitized.h"
#include "skip.h"

#define CKPT     "m/checkpoints/ckpt-5.safetensors"
#define AVERAGE  "average --output "
#define EVALUATE "evaluate --model-dir m --source a.en --reference a.de "

static int set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    bad_train("m", 5);
    return symlink("a.en", "soft") || link("a.en", "hard") || symlink(CKPT, "soft.st") ||
           link(CKPT, "hard.st") || symlink("m", "other") || symlink("m/params.yaml", "settings");
}

/* All bytes below the directory, with their names, by the system's own command. */
static char *sum(void)
{
    static char text[65536];
    FILE *from = popen("find . -type f ! -name 'end.*' ! -name lock | sort | xargs cksum", "r");
    assert_non_null(from);
    size_t length = fread(text, 1, sizeof text - 1, from);
    text[length] = 0;
    assert_int_equal(pclose(from), 0);
    return strdup(text);
}

static void run_all(const bad_case *cases, size_t count)
{
    char *before = sum();
    bad_run(cases, count);
    char *after = sum();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_outputs__of_average(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { AVERAGE CKPT " " CKPT, .code = 3,
          .words = { "--output: ", "are the same file: write to another file" } },
        { AVERAGE "other/checkpoints/ckpt-5.safetensors " CKPT, .code = 3,
          .words = { "are the same file: write to another file" } },
        { AVERAGE "soft.st " CKPT, .code = 3,
          .words = { "soft.st and " CKPT " are the same file" } },
        { AVERAGE "hard.st " CKPT, .code = 3,
          .words = { "hard.st and " CKPT " are the same file" } },
        { AVERAGE CKPT " hard.st", .code = 3,
          .words = { CKPT " and hard.st are the same file: write to another file" } },
        { AVERAGE "m/checkpoints/ckpt-9.safetensors " CKPT, .code = 3,
          .words = { "m/checkpoints/ckpt-9.safetensors is a file that a run writes" } },
        { AVERAGE "other/params.yaml " CKPT, .code = 3, .words = { "a file that a run writes" } },
        { AVERAGE "settings " CKPT, .code = 3,
          .words = { "settings is a file that a run writes" } },
        { AVERAGE "m/vocabulary.model " CKPT, .code = 3, .words = { "a file that a run writes" } },
        { AVERAGE "m/metrics.jsonl " CKPT, .code = 3, .words = { "a file that a run writes" } },
        { AVERAGE "none/x " CKPT, .code = 3, .words = { "--output: cannot write none/x" } },
        { AVERAGE "m " CKPT, .code = 3, .words = { "m is a directory" } },
    };
    run_all(cases, COUNT(cases));
}

/* Within 60 sentences nothing was decoded, or the checkpoint's line would be there. */
static void test_outputs__of_evaluate(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { EVALUATE "--output a.en", .code = 3,
          .words = { "--output: a.en and a.en are the same file: write to another file" } },
        { EVALUATE "--output soft", .code = 3,
          .words = { "soft and a.en are the same file: write to another file" } },
        { EVALUATE "--output hard", .code = 3,
          .words = { "hard and a.en are the same file: write to another file" } },
        { EVALUATE "--output ./a.de", .code = 3,
          .words = { "./a.de and a.de are the same file: write to another file" } },
        { EVALUATE "--checkpoint hard.st --output hard.st", .code = 3, .words = { "hard.st" } },
        { EVALUATE "--output " CKPT, .code = 3, .words = { "a file that a run writes" } },
        { EVALUATE "--output none/x", .code = 3, .words = { "--output: cannot write none/x" } },
        { EVALUATE "--profile a.en", .code = 3, .words = { "--profile: a.en and" } },
        { EVALUATE "--profile m/params.yaml", .code = 3, .words = { "--profile: m/params.yaml" } },
        { EVALUATE "--output x --profile ./x", .code = 3,
          .words = { "--profile: another option writes ./x" } },
    };
    run_all(cases, COUNT(cases));
}

static void test_outputs__of_profiles(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN "--profile a.en", .code = 3,
          .words = { "--profile: a.en and a.en are the same file: write to another file" } },
        { TRAIN "--profile soft", .code = 3, .words = { "soft and a.en" } },
        { TRAIN "--profile tiny.yaml", .code = 3, .words = { "tiny.yaml" } },
        { TRAIN "--profile m/params.yaml", .code = 3, .words = { "a file that a run writes" } },
        { "train --config tiny.yaml --model-dir n --profile n/params.yaml", .code = 3,
          .words = { "n/params.yaml is a file that a run writes" } },
        { "train --config tiny.yaml --model-dir n --profile m/checkpoints/checkpoint.json",
          .code = 3, .words = { "a file that a run writes" } },
        { "translate --model-dir m --profile a.en", .input = "a.en", .code = 3,
          .words = { "--profile: a.en and standard input are the same file" } },
        { "translate --model-dir m --profile m/metrics.jsonl", .code = 3,
          .words = { "a file that a run writes" } },
    };
    run_all(cases, COUNT(cases));
}

/* Results that are appended to their own input: the shell opens the file, so only the command can
 * notice it. */
static void test_outputs__appended(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "'" ET_TEST_BUILD "/etude' translate --model-dir m <a.en >>a.en",
        "'" ET_TEST_BUILD "/etude' translate --model-dir m <a.en >>hard",
        "'" ET_TEST_BUILD "/etude' inspect " CKPT " >>hard.st",
        "'" ET_TEST_BUILD "/etude' score a.de <a.en >>a.de",
        "'" ET_TEST_BUILD "/etude' " EVALUATE ">>soft",
    };
    char *before = sum();
    for (size_t i = 0; i < COUNT(lines); i++) {
        char line[1024];
        snprintf(line, sizeof line, "%s 2>end.err", lines[i]);
        int status = system(line);
        char *said = bad_read("end.err", NULL);
        assert_int_equal(WEXITSTATUS(status), 3);
        bad_assert_says(lines[i], said, "etude: standard output and ");
        bad_assert_says(lines[i], said, " are the same file");
        free(said);
    }
    remove("end.err");
    char *after = sum();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* A disk that is full after decoding: the scores are printed, and the failure is reported. */
static void test_outputs__full_later(void **state)
{
    (void)state;
    if (SANITIZED_THREADS)
        test_skip("ThreadSanitizer keeps a file of its own");
    int status = system("{ trap '' XFSZ; ulimit -f 0; '" ET_TEST_BUILD "/etude' " EVALUATE
                        "--output x --beam-size 1; echo \"exit $?\"; } 2>&1 | cat >said");
    assert_int_equal(status, 0);
    char *said = bad_read("said", NULL);
    bad_assert_says("evaluate", said, "\nBLEU");
    bad_assert_says("evaluate", said, "\nchrF2");
    bad_assert_says("evaluate", said, "etude: cannot write x: File too large");
    assert_null(strstr(said, "exit 0"));
    assert_int_not_equal(access("x", F_OK), 0);
    remove("said");
    free(said);
}

/* New files next to a run's files are allowed, and existing files that nobody reads are replaced.
 */
static void test_outputs__right(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { AVERAGE "m/average.safetensors " CKPT, .lines = 1, .made = "m/average.safetensors" },
        { AVERAGE "x " CKPT, .lines = 1, .made = "x" },
        { EVALUATE "--output m/out --beam-size 1", .lines = -1, .made = "m/out" },
        { EVALUATE "--output params.yaml --beam-size 1", .lines = -1, .made = "params.yaml" },
    };
    bad_run(cases, COUNT(cases));
    bad_write_text("x", "old");
    bad_end end = bad_start(AVERAGE "x " CKPT, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    end = bad_start("inspect x", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outputs__of_average),  cmocka_unit_test(test_outputs__of_evaluate),
        cmocka_unit_test(test_outputs__of_profiles), cmocka_unit_test(test_outputs__appended),
        cmocka_unit_test(test_outputs__full_later),  cmocka_unit_test(test_outputs__right),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
