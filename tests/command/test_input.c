/* Forms of training text: runs with records and mixes train as with lines, and resume to the same
 * bytes. All by the command. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/records.h>

#include "command/test_resume_run.h"

#include "calls.h"

/* Settings of these runs: shorter than in test_resume. */
#define SHORT "trainer.train_steps=40", "trainer.validation_interval=40"
#define RECORDS                                                                                    \
    "task.train_data={source_path: [], target_path: [], input_path: 'part-?', src_lang: s, "       \
    "tgt_lang: t}"
#define MIX                                                                                        \
    "task.train_data={source_path: [], target_path: [], src_lang: s, tgt_lang: t, mix: "           \
    "[{source_path: train.source, target_path: train.target, weight: 3}, {input_path: part-1}]}"

static FILE *open_lines(const char *name)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    return file;
}

/* The training text as records, its first half in part-0, its second in part-1 (GZIP). */
static void write_records(int lines)
{
    FILE *source = open_lines("train.source"), *target = open_lines("train.target");
    et_record_writer *writers[2];
    et_example_builder *b;
    char left[1000], right[1000];
    assert_ok(et_record_writer_open(&writers[0], "part-0", "tfrecord", error));
    assert_ok(et_record_writer_open(&writers[1], "part-1", "tfrecord_compressed", error));
    assert_ok(et_example_builder_new(&b, NULL, error));
    for (int64_t i = 0; fgets(left, sizeof left, source) && fgets(right, sizeof right, target);
         i++) {
        left[strcspn(left, "\n")] = right[strcspn(right, "\n")] = 0;
        et_example_add_text(et_example_add_text(et_example_reset(b), "s", left), "t", right);
        et_example_add_ints(b, "unique_id", &i, 1);
        assert_ok(et_record_write_example(writers[i >= lines / 2], b, error));
    }
    et_example_builder_free(b);
    for (int i = 0; i < 2; i++)
        assert_ok(et_record_writer_close(writers[i], error));
    fclose(source);
    fclose(target);
}

static int set_up(void **state)
{
    if (run_make_corpus(state))
        return 1;
    FILE *source = open_lines("train.source");
    int lines = 0;
    for (int c; (c = getc(source)) != EOF;)
        lines += c == '\n';
    fclose(source);
    write_records(lines);
    return 0;
}

static void assert_runs(const run_command *command)
{
    int code = run(command);
    char *log = run_log(command->directory);
    if (code)
        fail_msg("exit code %d:\n%s", code, log);
    free(log);
}

/* Training's messages from its first step on, without times and rates. */
static void read_losses(const char *directory, char *out, size_t size)
{
    char path[200], line[4000];
    size_t used = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    FILE *file = open_lines(path);
    *out = 0;
    while (fgets(line, sizeof line, file)) {
        const char *loss = strstr(line, "\"training_loss\"");
        if (loss)
            used += (size_t)snprintf(out + used, size - used, "%.40s\n", loss);
    }
    fclose(file);
    assert_true(used > 100 && used < size);
}

/* The same pairs in the same order: the same losses to the last digit. */
static void test_input__records_train_as_lines(void **state)
{
    (void)state;
    static char lines[8000], records[8000];
    run_command command = { .directory = "lines", .settings = { SHORT } };
    assert_runs(&command);
    command = (run_command){ .directory = "records", .settings = { SHORT, RECORDS } };
    assert_runs(&command);
    read_losses("lines", lines, sizeof lines);
    read_losses("records", records, sizeof records);
    assert_string_equal(lines, records);
}

/* Killed after some steps and resumed, compared with a run without a stop. */
static void check_resume(const char *text, const char *whole, const char *halves)
{
    char metrics[100];
    run_command command = { .directory = whole, .settings = { SHORT, text } };
    assert_runs(&command);
    command.directory = halves;
    snprintf(metrics, sizeof metrics, "%s/metrics.jsonl", halves);
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, metrics, "{\"step\":16,"));
    kill(pid, SIGKILL);
    assert_int_equal(run_wait(pid), -SIGKILL);
    assert_runs(&command);
    run_assert_same(whole, halves);
}

static void test_input__records_resume(void **state)
{
    (void)state;
    check_resume(RECORDS, "r-whole", "r-halves");
}

static void test_input__mix_resumes(void **state)
{
    (void)state;
    check_resume(MIX, "m-whole", "m-halves");
}

/* A run only resumes with the texts and weights with which it began. */
static void test_input__other_text(void **state)
{
    (void)state;
    static const char *const others[] = {
        "task.train_data={source_path: [], target_path: [], src_lang: s, tgt_lang: t, mix: "
        "[{source_path: train.source, target_path: train.target, weight: 2}, {input_path: "
        "part-1}]}",
        "task.train_data={source_path: [], target_path: [], src_lang: s, tgt_lang: t, mix: "
        "[{source_path: train.source, target_path: train.target, weight: 3}, {input_path: "
        "part-0}]}",
    };
    run_command command = { .directory = "o", .settings = { "trainer.train_steps=10", MIX } };
    assert_runs(&command);
    for (int i = 0; i < 2; i++) {
        command.settings[0] = "trainer.train_steps=20";
        command.settings[1] = others[i];
        assert_int_equal(run(&command), 3);
        char *log = run_log("o");
        if (!strstr(log, "was trained with other texts or weights (checksum"))
            fail_msg("%s", log);
        free(log);
    }
    command.settings[1] = MIX;
    assert_runs(&command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_input__records_train_as_lines),
        cmocka_unit_test(test_input__records_resume),
        cmocka_unit_test(test_input__mix_resumes),
        cmocka_unit_test(test_input__other_text),
    };
    return cmocka_run_group_tests(tests, set_up, run_remove_corpus);
}
