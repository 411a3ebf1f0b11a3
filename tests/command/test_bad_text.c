/* Faulty text, for training and on standard input: exit code 3, file and line in the message, no
 * files left; and text that only looks faulty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include "bad_case.h"
#include "sanitized.h"
#include "skip.h"

/* ---- files ---- */

/* a.en with something done to it. */
static void write_variant(const char *path, const char *head, const char *line_end)
{
    char *text = bad_read("a.en", NULL), *rest = text;
    FILE *file = fopen(path, "w");
    fputs(head, file);
    for (char *line; (line = strsep(&rest, "\n")) && rest;)
        fprintf(file, "%s%s", line, line_end);
    fclose(file);
    free(text);
}

static void write_gz(const char *path, double share)
{
    size_t length;
    char *text = bad_read("a.en", &length);
    gzFile file = gzopen(path, "w9");
    assert_int_equal(gzwrite(file, text, (unsigned)length), length);
    gzclose(file);
    free(text);
    text = bad_read(path, &length);
    bad_write(path, text, (size_t)((double)length * share));
    free(text);
}

static int set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    write_variant("crlf.en", "", "\r\n");
    write_variant("bom.en", "\xef\xbb\xbf", "\n");
    write_variant("more.en", "one more\n", "\n");
    write_gz("whole.en.gz", 1);
    write_gz("cut.en.gz", 0.5);
    bad_write_text("text.en.gz", "no gzip\n");
    bad_write_text("latin1", "one\ntwo \xe9t\xe9\n");
    bad_write("nul", "one\ntw\0o\n", 9);
    bad_write("utf16", "\xff\xfeo\0n\0e\0\n\0", 10);
    bad_write_text("columns.tsv", "one\teins\ntwo\n");
    bad_write_text("giant", "");
    return truncate("giant", (off_t)1 << 30);
}

/* ---- training ---- */

static void test_bad_text__train(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN SOURCE "none.en", .code = 3,
          .words = { "none.en: No such file", "check the path" } },
        { TRAIN TARGET "none.de", .code = 3, .words = { "none.de: No such file" } },
        { TRAIN SOURCE ".", .code = 3, .words = { ". is a directory" } },
        { TRAIN SOURCE "/dev/zero", .code = 3, .words = { "/dev/zero is not a regular file" } },
        { TRAIN SOURCE "more.en", .code = 3,
          .words = { "more.en has 61 lines, but a.de has 60",
                     "line N of one file must translate line N of the other" } },
        { TRAIN SOURCE "latin1" TARGET "latin1", .code = 3,
          .words = { "latin1:2: byte 5 of the line (0xE9) is not UTF-8", "UTF-8" } },
        { TRAIN SOURCE "nul" TARGET "nul", .code = 3, .words = { "nul:2: byte 3", "is NUL" } },
        { TRAIN SOURCE "utf16" TARGET "utf16", .code = 3,
          .words = { "utf16 is UTF-16 text: save it as UTF-8" } },
        { TRAIN SOURCE "cut.en.gz", .code = 3, .words = { "cut.en.gz:", "ends in the middle" } },
        { TRAIN SOURCE "text.en.gz", .code = 3, .words = { "text.en.gz is not gzip data" } },
        { TRAIN SOURCE "empty" TARGET "empty", .code = 3, .words = { "empty: the file is empty" } },
        { TRAIN SOURCE "[]" TARGET "[]" SOURCE "null --set task.train_data.tsv_path=columns.tsv",
          .code = 3, .words = { "columns.tsv:2: expected 2 columns, found 1", "TAB" } },
        { TRAIN "--set task.validation_data.source_path=none.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3, .words = { "none.en: No such file" } },
        { TRAIN "--set task.validation_data.source_path=a.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3, .words = { "a.en has 60 lines, but two.de has 2" } },
    };
    bad_run(cases, COUNT(cases));
}

static void test_bad_text__accepted(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN SOURCE "crlf.en", .lines = -1, .made = "m" },
        { TRAIN SOURCE "bom.en", .lines = -1, .made = "m" },
        { TRAIN SOURCE "whole.en.gz", .lines = -1, .made = "m" },
        { TRAIN
          "--set 'task.train_data={source_path: [bom.en, crlf.en], target_path: [a.de, a.de]}'",
          .lines = -1, .made = "m" },
    };
    bad_run(cases, COUNT(cases));
}

/* A line of 1 GB is refused before it is read, in little memory. */
static void test_bad_text__giant_line(void **state)
{
    (void)state;
    static const char *const lines[] = { TRAIN SOURCE "giant", "score a.de", "score giant" };
    bad_end plain = bad_start("score a.de", "a.de", NULL);
    assert_int_equal(plain.code, 0);
    for (size_t i = 0; i < COUNT(lines); i++) {
        char *before = bad_list(".");
        bad_end end = bad_start(lines[i], "giant", NULL);
        assert_int_equal(end.code, 3);
        assert_int_equal(bad_count_lines(end.err), 1);
        bad_assert_says(lines[i], end.err, ":1: a line of more than 1048576 bytes");
        if (!SANITIZED && end.kilobytes > plain.kilobytes + 64 * 1024)
            fail_msg("etude %s: %ld kB of memory", lines[i], end.kilobytes);
        if (end.seconds > 10)
            fail_msg("etude %s: %g seconds", lines[i], end.seconds);
        char *after = bad_list(".");
        assert_string_equal(before, after);
        free(before);
        free(after);
        bad_release(&end);
    }
    bad_release(&plain);
}

/* Root may do everything, so the command runs as nobody: its message is in end.err. */
static int as_nobody(char *const *words)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("end.err", "w", stderr))
            _exit(77);
        if (getuid() == 0 && (setgid(65534) || setuid(65534)))
            _exit(77);
        if (access("a.en", R_OK) || access(ET_TEST_BUILD "/etude", X_OK))
            _exit(77);
        execv(ET_TEST_BUILD "/etude", words);
        _exit(77);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

#define WORDS(...)                                                                                 \
    {                                                                                              \
        "etude", __VA_ARGS__, NULL                                                                 \
    }

#define HIDDEN "etude: cannot open hidden: Permission denied; choose a directory"

static void test_bad_text__not_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *words[8], *says;
    } cases[] = {
        { WORDS("score", "secret"),
          "etude: cannot open secret: Permission denied; choose a directory" },
        { WORDS("train", "--config", "tiny.yaml", "--model-dir", "closed/m"),
          "etude: cannot make the directory closed/m: Permission denied; choose a directory" },
        { WORDS("train", "--config", "tiny.yaml", "--model-dir", "run"),
          "etude: cannot open the lock file run/checkpoints/lock: Permission denied; choose" },
        { WORDS("train", "hidden"), HIDDEN },
        { WORDS("train", "new", "--init", "hidden"),
          "etude: --init: cannot open hidden: Permission" },
        { WORDS("predict", "hidden", "a.en"), HIDDEN },
        { WORDS("translate", "hidden", "a.en"), HIDDEN },
        { WORDS("evaluate", "hidden/a.safetensors"),
          "etude: cannot open hidden/a.safetensors: Permission denied" },
        { WORDS("import", "hidden", "--output", "new"), HIDDEN },
        { WORDS("average", "--last", "1", "hidden", "--output", "new"), HIDDEN },
        { WORDS("inspect", "hidden"), HIDDEN },
        { WORDS("report", "hidden", "--output", "new.html"), HIDDEN },
    };
    bad_write_text("secret", "one\n");
    assert_int_equal(chmod("secret", 0), 0);
    assert_int_equal(mkdir("closed", 0555) || mkdir("hidden", 0444), 0);
    bad_train("run", 1);
    assert_int_equal(chmod("run/checkpoints/lock", 0444), 0);
    char *before = bad_list(".");
    bool asked = true;
    for (size_t i = 0; i < COUNT(cases) && asked; i++) {
        int code = as_nobody((char *const *)cases[i].words);
        char *said = bad_read("end.err", NULL);
        asked = code != 77;
        if (asked && (code != 3 || bad_count_lines(said) != 1 || !strstr(said, cases[i].says)))
            fail_msg("case %zu: exit code %d: %s", i, code, said);
        free(said);
        remove("end.err");
        char *after = bad_list(".");
        assert_string_equal(before, after);
        free(after);
    }
    free(before);
    remove("secret");
    rmdir("closed");
    rmdir("hidden");
    bad_remove("run");
    if (!asked)
        test_skip("nobody but root may come here");
}

/* ---- vocabularies ---- */

/* The size that the message gives works, and one more does not. */
static void check_largest(const char *kind)
{
    char line[512];
    snprintf(line, sizeof line,
             TRAIN "--set task.vocabulary.model_type=%s --set task.vocabulary.size=5000", kind);
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 3);
    const char *last = bad_last_line(end.err);
    bad_assert_says(line, last, "task.vocabulary.size: a vocabulary of 5,000 tokens is larger");
    const char *said = strstr(last, "set its size to ");
    assert_non_null(said);
    int largest = atoi(said + 16);
    bad_release(&end);
    assert_int_not_equal(access("m", F_OK), 0);
    for (int more = 0; more < 2; more++) {
        snprintf(line, sizeof line,
                 TRAIN "--set task.vocabulary.model_type=%s --set task.vocabulary.size=%d", kind,
                 largest + more);
        bad_end again = bad_start(line, NULL, NULL);
        assert_int_equal(again.code, more ? 3 : 0);
        bad_release(&again);
        bad_remove("m");
    }
}

static void test_bad_text__vocabulary_size(void **state)
{
    (void)state;
    check_largest("unigram");
    check_largest("bpe");
    static const bad_case small[] = {
        { TRAIN "--set task.vocabulary.size=8", .code = 3,
          .words = { "task.vocabulary.size: a vocabulary of 8 tokens is smaller", "at least" },
          .lines = 1 },
        { TRAIN "--set task.train_data.max_seq_length=2", .code = 3,
          .words = { "a.en: the filter leaves no pair (max_seq_length 2):", "60 too long",
                     "raise max_seq_length" },
          .lines = 1 },
        { TRAIN "--set task.train_data.max_length_ratio=0.1", .code = 3,
          .words = { "60 lopsided", "raise max_length_ratio" }, .lines = 1 },
    };
    bad_run(small, COUNT(small));
}

/* Trains into m; returns all of standard error. Free it. */
static char *train_and_say(const char *more)
{
    char line[512];
    snprintf(line, sizeof line, TRAIN "%s", more);
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: exit code %d: %s", line, end.code, end.err);
    char *said = strdup(end.err);
    bad_release(&end);
    return said;
}

/* Without a given size, the model is that of the largest size, and the same command resumes. A run
 * that was started with a given size also resumes without it. */
static void test_bad_text__vocabulary_size_open(void **state)
{
    (void)state;
    static const char begin[] = "a vocabulary of ";
    char *said = train_and_say("--set task.vocabulary.size=0"), asked[64];
    const char *at = strstr(said, begin);
    bad_assert_says("size 0", said,
                    "the most that the text allows (task.vocabulary.max_size: 8,000)");
    assert_non_null(at);
    int largest = atoi(at + sizeof begin - 1);
    free(said);
    size_t length, same_length;
    char *model = bad_read("m/vocabulary.model", &length);
    free(train_and_say("--set task.vocabulary.size=0 --set trainer.train_steps=4"));
    bad_remove("m");
    snprintf(asked, sizeof asked, "--set task.vocabulary.size=%d", largest);
    free(train_and_say(asked));
    char *same = bad_read("m/vocabulary.model", &same_length);
    assert_int_equal(length, same_length);
    assert_memory_equal(model, same, length);
    free(train_and_say("--set task.vocabulary.size=0 --set trainer.train_steps=4"));
    free(model);
    free(same);
    bad_remove("m");
    said = train_and_say("--set task.vocabulary.size=0 --set task.vocabulary.max_size=30");
    if (strstr(said, begin))
        fail_msg("the limit was reached, and yet: %s", said);
    free(said);
    bad_remove("m");
}

/* An interval without validation text gives a message; other settings do not. */
static void test_bad_text__no_validation(void **state)
{
    (void)state;
    static const char word[] = "validation   none: task.validation_data names no text";
    char *said = train_and_say("");
    bad_assert_says("no validation", said, word);
    bad_assert_says("no validation", said, "trainer.validation_interval: 1,000");
    free(said);
    bad_remove("m");
    static const char *const quiet[] = {
        "--set trainer.validation_interval=0",
        "--set task.validation_data.source_path=two.en --set "
        "task.validation_data.target_path=two.de",
    };
    for (size_t i = 0; i < COUNT(quiet); i++) {
        said = train_and_say(quiet[i]);
        if (strstr(said, word))
            fail_msg("%s: %s", quiet[i], said);
        free(said);
        bad_remove("m");
    }
}

static void test_bad_text__vocabulary_model(void **state)
{
    (void)state;
    bad_train("m", 1);
    size_t length;
    char *model = bad_read("m/vocabulary.model", &length);
    bad_write("whole.model", model, length);
    bad_write("cut.model", model, length / 2);
    free(model);
    bad_remove("m");
#define MODEL TRAIN "--set task.sentencepiece_model_path="
    static const bad_case cases[] = {
        { MODEL "whole.model", .lines = -1, .made = "m" },
        { MODEL "cut.model", .code = 3, .words = { "cut.model: ", "damaged" } },
        { MODEL "a.en", .code = 3, .words = { "a.en: not a SentencePiece model" } },
        { MODEL "empty", .code = 3, .words = { "empty" } },
        { MODEL "none.model", .code = 3, .words = { "none.model: No such file" } },
        { MODEL ".", .code = 3, .words = { ". is a directory" } },
        { MODEL "giant", .code = 3, .words = { "giant" } },
    };
    bad_run(cases, COUNT(cases));
}

/* ---- standard input ---- */

static void test_bad_text__standard_input(void **state)
{
    (void)state;
    bad_train("run", 1);
#define TRANSLATE "translate --model-dir run --beam-size 1"
    static const bad_case cases[] = {
        { TRANSLATE, .input = "latin1", .code = 3,
          .words = { "standard input:2: byte 5", "(0xE9)" } },
        { TRANSLATE, .input = "nul", .code = 3, .words = { "standard input:2: byte 3", "NUL" } },
        { TRANSLATE, .input = "giant", .code = 3, .words = { "standard input:1: a line of more" } },
        { TRANSLATE, .input = "empty" },
        { TRANSLATE, .input = ".", .code = 3, .words = { "standard input: Is a directory" } },
        { "score a.de", .input = "two.de", .code = 3,
          .words = { "standard input has 2 lines, but a.de has 60" } },
        { "score empty", .input = "empty", .code = 3,
          .words = { "standard input: the file is empty" } },
        { "score latin1", .input = "two.de", .code = 3, .words = { "latin1:2" } },
        { "score two.de", .input = "latin1", .code = 3, .words = { "standard input:2" } },
        { "evaluate --model-dir run --source two.en --reference a.de", .code = 3,
          .words = { "two.en has 2 lines, but a.de has 60" } },
        { "evaluate --model-dir run --source empty --reference empty", .code = 3,
          .words = { "empty: the file is empty" } },
        { "evaluate --model-dir run --source cut.en.gz --reference a.de", .code = 3,
          .words = { "cut.en.gz" } },
    };
    bad_run(cases, COUNT(cases));
    bad_remove("run");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_text__train),
        cmocka_unit_test(test_bad_text__accepted),
        cmocka_unit_test(test_bad_text__giant_line),
        cmocka_unit_test(test_bad_text__not_allowed),
        cmocka_unit_test(test_bad_text__vocabulary_size),
        cmocka_unit_test(test_bad_text__vocabulary_size_open),
        cmocka_unit_test(test_bad_text__no_validation),
        cmocka_unit_test(test_bad_text__vocabulary_model),
        cmocka_unit_test(test_bad_text__standard_input),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
