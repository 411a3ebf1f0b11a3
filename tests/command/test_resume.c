/* A run that is interrupted at any time and in any way ends like one that is not: the same bytes of
 * checkpoints, best, logs and translations, except times. All by the command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <cmocka.h>

#include "command/test_resume_run.h"

#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "formats/files.h"
#include "sanitized.h"
#include "skip.h"

/* Kills of test_resume__killed_at_random; make kill-test asks for more by ET_TEST_KILLS. */
enum { KILLS = 10 };

/* The unbroken run that others must equal, and how long it took. */
#define WHOLE "whole"
static double whole_seconds;

static int set_up(void **state)
{
    if (run_make_corpus(state))
        return 1;
    run_command whole = { .directory = WHOLE };
    double start = run_clock();
    int status = run(&whole);
    whole_seconds = run_clock() - start;
    if (status)
        print_error("%s\n", run_log(WHOLE));
    return status;
}

/* The command ends with a code and its log has a text. */
static void assert_ends(int code, const char *text, int expected, const char *directory)
{
    char *log = run_log(directory);
    if (code != expected || (text && !strstr(log, text)))
        fail_msg("exit code %d instead of %d, or no \"%s\" in:\n%s", code, expected,
                 text ? text : "", log);
    free(log);
}

static void finish_and_compare(const run_command *command)
{
    assert_ends(run(command), NULL, 0, command->directory);
    run_assert_same(WHOLE, command->directory);
    run_remove(command->directory);
}

/* ---- without interruption ---- */

static void test_resume__everything_is_there(void **state)
{
    (void)state;
    static const char *const names[] = {
        "params.yaml",
        "vocabulary.model",
        "metrics.jsonl",
        "train.log",
        "info.json",
        "checkpoints/checkpoint.json",
        "checkpoints/ckpt-140.safetensors",
        "checkpoints/ckpt-150.safetensors",
        "checkpoints/ckpt-160.safetensors",
        "best/info.json",
        "train/events.out.tfevents.0000000000.etude",
        "validation/events.out.tfevents.0000000000.etude",
        "translations/40.txt",
        "translations/160.txt",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[300];
        snprintf(path, sizeof path, WHOLE "/%s", names[i]);
        if (access(path, R_OK))
            fail_msg("%s is missing", path);
    }
    assert_true(access(WHOLE "/checkpoints/ckpt-130.safetensors", F_OK));
    assert_int_equal(run_count_temporary(WHOLE), 0);
}

static void test_resume__one_thread_or_two(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        run_command command = { .directory = "threads", .threads = threads };
        finish_and_compare(&command);
    }
}

/* With the type that the CPU chooses by itself. The second run consists of two. */
static void test_resume__one_thread_or_two_float32(void **state)
{
    (void)state;
    static const struct {
        const char *directory, *steps;
        int threads;
    } starts[] = { { "float32-1", "trainer.train_steps=80", 1 },
                   { "float32-2", "trainer.train_steps=40", 2 },
                   { "float32-2", "trainer.train_steps=80", 2 } };
    for (int i = 0; i < 3; i++) {
        run_command command = { .directory = starts[i].directory,
                                .settings = { "runtime.mixed_precision_dtype=float32",
                                              starts[i].steps },
                                .threads = starts[i].threads };
        assert_ends(run(&command), NULL, 0, command.directory);
    }
    run_assert_same("float32-1", "float32-2");
}

/* Rules with slots of other shapes, with initial values, or that work on whole tensors. The second
 * run consists of two. */
static void test_resume__rules(void **state)
{
    (void)state;
    static const char *const rules[] = { "adagrad", "lamb", "adafactor_keras", "muon" };
    for (size_t r = 0; r < sizeof rules / sizeof rules[0]; r++) {
        char type[80], directory[2][40];
        snprintf(type, sizeof type, "trainer.optimizer_config.optimizer.type=%s", rules[r]);
        for (int start = 0; start < 3; start++) {
            char *name = directory[start > 0];
            snprintf(name, sizeof directory[0], "%s-%d", rules[r], start > 0);
            run_command command = { .directory = name,
                                    .settings = { type, start == 1 ? "trainer.train_steps=40"
                                                                   : "trainer.train_steps=80" },
                                    .threads = start == 1 ? 2 : 1 };
            assert_ends(run(&command), NULL, 0, name);
        }
        run_assert_same(directory[0], directory[1]);
    }
}

/* Stacks of 64 KB, in which a matrix product does not fit. */
static void test_resume__small_stacks(void **state)
{
    (void)state;
    if (SANITIZED)
        test_skip("not under a sanitizer");
    run_command small = { .directory = "small",
                          .before = { "sh", "-c", "ulimit -s 64 && exec \"$0\" \"$@\"" } };
    finish_and_compare(&small);
    run_command asked = { .directory = "asked",
                          .threads = 2,
                          .before = { "env", "OMP_STACKSIZE=64k" } };
    assert_ends(run(&asked), "OMP_STACKSIZE", 2, "asked");
    assert_true(access("asked", F_OK));
}

/* A mistyped number makes OpenMP fall over; one bounded changes no result. */
static void test_resume__too_many_threads(void **state)
{
    (void)state;
    if (SANITIZED)
        test_skip("not under a sanitizer");
    static const int threads[] = { 2, 100000 };
    static const char *const names[] = { "two", "many" };
    for (int i = 0; i < 2; i++) {
        run_command command = { .directory = names[i],
                                .settings = { "trainer.train_steps=8" },
                                .threads = threads[i] };
        assert_ends(run(&command), i ? "asks for 100000 threads, but there are" : NULL, 0,
                    names[i]);
    }
    run_assert_same("two", "many");
}

/* Recomputed values only change the use of memory; a run may resume with another choice. */
static void test_resume__recomputing(void **state)
{
    (void)state;
    static const char *const names[] = { "recompute-1", "recompute-2" };
    static const char *const choices[][2] = { { "none", "cheap" }, { "feed_forward", "cheap" } };
    for (int i = 0; i < 2; i++)
        for (int part = 0; part < 2; part++) {
            char setting[64];
            snprintf(setting, sizeof setting, "runtime.recompute=%s", choices[i][part]);
            run_command command = { .directory = names[i],
                                    .settings = { setting, part ? "trainer.train_steps=40"
                                                                : "trainer.train_steps=20" } };
            assert_ends(run(&command), NULL, 0, names[i]);
        }
    run_assert_same(names[0], names[1]);
}

static void test_resume__finished_already(void **state)
{
    (void)state;
    run_command command = { .directory = "again" };
    run_copy("again", WHOLE);
    assert_ends(run(&command), "at step 160 of 160; to continue, raise trainer.train_steps", 0,
                "again");
    run_assert_same(WHOLE, "again");
    run_remove("again");
}

/* An end that the run has passed changes nothing and gives a message; other settings of a finished
 * run do so too. */
static void test_resume__past_the_end(void **state)
{
    (void)state;
    static const struct {
        const char *setting, *said;
    } cases[] = {
        { "trainer.train_steps=10", "nothing done the run is at step 160, past "
                                    "trainer.train_steps: 10; to continue, set more than 160\n" },
        { "trainer.summary_interval=9", "at step 160 of 160" },
    };
    for (size_t i = 0; i < 2; i++) {
        run_command command = { .directory = "past", .settings = { cases[i].setting } };
        run_copy("past", WHOLE);
        assert_ends(run(&command), cases[i].said, 0, "past");
        run_assert_same(WHOLE, "past");
        char *log = run_log("past");
        assert_int_equal(strstr(log, "done         ") == NULL, i == 0);
        free(log);
        run_remove("past");
    }
}

/* The loss in the row of a validation at step 44, where training logs nothing: it is the bar's. */
static void get_row_loss(char loss[16], const char *directory)
{
    char *log = run_log(directory);
    const char *row = strstr(log, "\n  44  ");
    assert_non_null(row);
    assert_int_equal(sscanf(row, " 44 %*s %15s", loss), 1);
    free(log);
}

/* It includes steps before the resume: without them the mean would differ. */
static void test_resume__loss_of_the_bar(void **state)
{
    (void)state;
    char whole[16], broken[16];
    static const char *const steps[] = { "trainer.train_steps=40", "trainer.train_steps=48" };
    static const char interval[] = "trainer.validation_interval=44";
    run_command unbroken = { .directory = "bar", .settings = { steps[1], interval } };
    assert_ends(run(&unbroken), NULL, 0, "bar");
    get_row_loss(whole, "bar");
    for (int i = 0; i < 2; i++) {
        run_command part = { .directory = "parts", .settings = { steps[i], interval } };
        assert_ends(run(&part), NULL, 0, "parts");
    }
    get_row_loss(broken, "parts");
    assert_string_equal(whole, broken);
    assert_true(strtod(whole, NULL) > 0);
}

/* The schedule does not know the end, so a run that is made longer is a longer run. */
static void test_resume__extended(void **state)
{
    (void)state;
    run_command first = { .directory = "longer", .settings = { "trainer.train_steps=80" } };
    run_command second = { .directory = "longer" };
    assert_ends(run(&first), NULL, 0, "longer");
    finish_and_compare(&second);
}

/* ---- killed ---- */

static int kills_wanted(void)
{
    const char *text = getenv("ET_TEST_KILLS");
    int count = text ? atoi(text) : 0;
    return count > 0 ? count : KILLS;
}

static double next_random(void)
{
    static uint64_t state = 20240601;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (double)(state >> 11) * 0x1p-53;
}

static bool has_ended(pid_t pid)
{
    siginfo_t info = { 0 };
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid;
}

/* Starts a run and kills it after a random part of *whole, the seconds of a full run; a run that
 * ends earlier corrects *whole. With one thread or two. False: the run was done. */
static bool run_and_kill(const char *directory, double *whole)
{
    run_command command = { .directory = directory, .threads = 1 + (next_random() < 0.5) };
    bool fresh = access(directory, F_OK) != 0;
    double start = run_clock(), end = start + *whole * next_random();
    pid_t pid = run_start(&command);
    while (!has_ended(pid) && run_clock() < end)
        run_sleep(0.0005);
    bool late = has_ended(pid);
    kill(pid, SIGKILL);
    int code = run_wait(pid);
    if (code == -SIGKILL)
        return true;
    if (late && fresh)
        *whole = run_clock() - start;
    assert_ends(code, NULL, 0, directory);
    return false;
}

static void test_resume__killed_at_random(void **state)
{
    (void)state;
    int kills = 0, runs = 1, in_save = 0;
    double whole = whole_seconds;
    run_command command = { .directory = "killed" };
    while (kills < kills_wanted()) {
        if (run_and_kill("killed", &whole)) {
            kills++;
            in_save += run_count_temporary("killed") > 0;
        } else {
            run_assert_same(WHOLE, "killed");
            run_remove("killed");
            runs++;
        }
    }
    finish_and_compare(&command);
    print_message("%d kills of %d runs, %d of them within a write of a file\n", kills, runs,
                  in_save);
}

/* ---- asked to stop ---- */

/* Sends a signal after some time; the run saves and reports it, or was done. */
static void run_and_interrupt(const char *directory, int signal, double seconds)
{
    run_command command = { .directory = directory };
    pid_t pid = run_start(&command);
    run_sleep(seconds);
    /* Before main has set handlers, signals have their default actions. */
    char log[300];
    snprintf(log, sizeof log, "%s.log", directory);
    run_await_text(pid, log, "experiment");
    kill(pid, signal);
    double asked = run_clock();
    int code = run_wait(pid);
    assert_true(run_clock() - asked < 60);
    if (code)
        assert_ends(code, "The same command ", 75, directory);
}

/* Kills a run when each of the texts is in its log of values, then lets it end. */
static void kill_at(const run_command *command, const char *const *texts)
{
    char path[100];
    snprintf(path, sizeof path, "%s/metrics.jsonl", command->directory);
    for (; *texts; texts++) {
        pid_t pid = run_start(command);
        run_await_text(pid, path, *texts);
        kill(pid, SIGKILL);
        run_wait(pid);
    }
    assert_ends(run(command), NULL, 0, command->directory);
}

#define TUNED "trainer.train_steps=80", "trainer.validation_interval=40"

/* A decoder with a recurrence has no other state than its weights. */
static void test_resume__recurrent(void **state)
{
    (void)state;
    static const char *const texts[] = { "{\"step\":24,", "{\"step\":56,", NULL };
    run_command whole = { .directory = "ssru", .settings = { TUNED, "task.model.decoder=ssru" } };
    run_command parts = { .directory = "ssru_parts",
                          .settings = { TUNED, "task.model.decoder=ssru" } };
    assert_ends(run(&whole), NULL, 0, whole.directory);
    kill_at(&parts, texts);
    run_assert_same(whole.directory, parts.directory);
}

/* A run that begins with the weights of another run resumes without it. */
static void test_resume__fine_tuned(void **state)
{
    (void)state;
    static const char *const texts[] = { "{\"step\":8,", "{\"step\":24,", "{\"step\":56,", NULL };
    run_command drawn = { .directory = "drawn", .settings = { TUNED } };
    run_command whole = { .directory = "tuned",
                          .settings = { TUNED, "task.init_checkpoint=from" } };
    run_command parts = { .directory = "tuned_parts",
                          .settings = { TUNED, "task.init_checkpoint=from" } };
    run_copy("from", WHOLE);
    assert_ends(run(&drawn), NULL, 0, "drawn");
    assert_ends(run(&whole), NULL, 0, "tuned");
    kill_at(&parts, texts);
    run_assert_same("tuned", "tuned_parts");
    /* Killed again after a save: the initial weights are not read any more. */
    run_remove("tuned_parts");
    pid_t pid = run_start(&parts);
    run_await_text(pid, "tuned_parts/metrics.jsonl", "{\"step\":40,");
    kill(pid, SIGKILL);
    run_wait(pid);
    run_remove("from");
    assert_ends(run(&parts), NULL, 0, "tuned_parts");
    run_assert_same("tuned", "tuned_parts");
    size_t length;
    char *one = get_file("drawn/checkpoints/ckpt-80.safetensors", &length);
    char *other = get_file("tuned/checkpoints/ckpt-80.safetensors", &length);
    assert_memory_not_equal(one, other, length);
    free(one);
    free(other);
    run_remove("drawn");
    run_remove("tuned");
    run_remove("tuned_parts");
}

/* The largest loss of a step after `from`. */
static double largest_loss(const char *directory, int64_t from)
{
    static const char mark[] = "\"training_loss\":";
    char path[100];
    size_t length;
    double largest = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", directory);
    char *text = get_file(path, &length), *at = text;
    for (char *line;
         (line = strstr(at, "{\"step\":")) != NULL && (at = strstr(line, mark)) != NULL;) {
        double loss = strtod(at + sizeof mark - 1, NULL);
        if (strtoll(line + 8, NULL, 10) > from && loss > largest)
            largest = loss;
    }
    free(text);
    return largest;
}

/* A loss beyond the bound: the run goes back and on with other data, killed or not. */
static void test_resume__recovered(void **state)
{
    (void)state;
    char bound[60];
    static const char *const texts[] = { "{\"step\":48,", "{\"step\":96,", "{\"step\":136,", NULL };
    run_command losses = { .directory = "losses", .settings = { "trainer.summary_interval=1" } };
    assert_ends(run(&losses), NULL, 0, "losses");
    snprintf(bound, sizeof bound, "trainer.loss_upper_bound=%.9g",
             largest_loss("losses", 100) * (1 - 1e-6));
    run_remove("losses");
    run_command whole = { .directory = "recovered",
                          .settings = { bound, "trainer.recovery_begin_steps=101",
                                        "trainer.recovery_max_trials=20" } };
    run_command parts = whole;
    parts.directory = "recovered_parts";
    assert_ends(run(&whole), ". Going back to step 1", 0, "recovered");
    kill_at(&parts, texts);
    run_assert_same("recovered", "recovered_parts");
    run_remove("recovered");
    run_remove("recovered_parts");
}

static void test_resume__interrupted(void **state)
{
    (void)state;
    run_command command = { .directory = "interrupted" };
    /* The first interruption comes when the run has steps, on any machine; others at some moment,
     * or never. */
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "interrupted/metrics.jsonl", "{\"step\":16,"));
    kill(pid, SIGTERM);
    assert_int_equal(run_wait(pid), 75);
    for (int i = 0; i < 3; i++)
        run_and_interrupt("interrupted", i % 2 ? SIGTERM : SIGINT,
                          0.5 * whole_seconds * next_random());
    finish_and_compare(&command);
}

static void test_resume__says_what_was_saved(void **state)
{
    (void)state;
    run_command command = { .directory = "saved" };
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "saved/metrics.jsonl", "{\"step\":16,"));
    kill(pid, SIGINT);
    assert_int_equal(run_wait(pid), 75);
    char *log = run_log("saved");
    char *said = strstr(log, "\ninterrupted: saved step ");
    assert_non_null(said);
    int step = atoi(said + strlen("\ninterrupted: saved step "));
    char expected[200];
    snprintf(expected, sizeof expected,
             "\ninterrupted: saved step %d. The same command resumes from there.\n", step);
    assert_string_equal(said, expected);
    snprintf(expected, sizeof expected, "saved/checkpoints/ckpt-%d.safetensors", step);
    assert_int_equal(access(expected, R_OK), 0);
    free(log);
    finish_and_compare(&command);
}

/* SIGUSR1 saves and the run continues: a run that is killed later resumes from there. */
static void test_resume__asked_to_save(void **state)
{
    (void)state;
#define AT_THE_END "trainer.checkpoint_interval=100000", "trainer.validation_interval=100000"
    size_t length;
    char path[100], steps[64], resuming[64];
    run_command asked = { .directory = "asked",
                          .settings = { AT_THE_END, "trainer.train_steps=100000" } };
    run_command longer = { .directory = "asked", .settings = { AT_THE_END, steps } };
    run_command unasked = { .directory = "unasked", .settings = { AT_THE_END, steps } };
    pid_t pid = run_start(&asked);
    assert_true(run_await_text(pid, "asked/metrics.jsonl", "{\"step\":16,"));
    kill(pid, SIGUSR1);
    assert_true(run_await_text(pid, "asked/checkpoints/checkpoint.json", "ckpt-"));
    char *manifest = get_file("asked/checkpoints/checkpoint.json", &length);
    int step = atoi(strstr(manifest, "ckpt-") + strlen("ckpt-"));
    free(manifest);
    assert_true(step >= 16);
    snprintf(path, sizeof path, "asked/checkpoints/ckpt-%d.safetensors", step);
    assert_ends(0, "saving       step ", 0, "asked");
    snprintf(steps, sizeof steps, "{\"step\":%d,", (step / RUN_SUMMARY + 2) * RUN_SUMMARY);
    assert_true(run_await_text(pid, "asked/metrics.jsonl", steps));
    kill(pid, SIGKILL);
    assert_int_equal(run_wait(pid), -SIGKILL);

    snprintf(steps, sizeof steps, "trainer.train_steps=%d", step + 10);
    snprintf(resuming, sizeof resuming, "resuming     at step %s of ", et_format_count(step).text);
    assert_ends(run(&longer), resuming, 0, "asked");
    assert_true(access(path, F_OK)); /* gone with the next save */
    assert_int_equal(run(&unasked), 0);
    run_assert_same("unasked", "asked");
}

/* Validation of many lines is left soon, and done again from its beginning. */
static void test_resume__interrupted_in_validation(void **state)
{
    (void)state;
#define MANY                                                                                       \
    { "task.validation_data.source_path=many.source",                                              \
      "task.validation_data.target_path=many.target", "trainer.train_steps=48" }
    run_command unbroken = { .directory = "unbroken", .settings = MANY };
    run_command broken = { .directory = "broken", .settings = MANY };
    run_write_pairs("many", 600, 3);
    assert_int_equal(run(&unbroken), 0);
    pid_t pid = run_start(&broken);
    assert_true(run_await_text(pid, "broken/metrics.jsonl", "{\"step\":40,\"train\""));
    double asked = run_clock();
    kill(pid, SIGTERM);
    assert_ends(run_wait(pid), "interrupted: saved step 40.", 75, "broken");
    print_message("left validation after %.3f s\n", run_clock() - asked);
    assert_true(access("broken/translations/40.txt", F_OK));
    assert_int_equal(run(&broken), 0);
    run_assert_same("unbroken", "broken");
}

/* SentencePiece cannot be asked to stop, but its work has no visible result before it is complete.
 */
static void test_resume__interrupted_in_vocabulary_training(void **state)
{
    (void)state;
    run_command command = { .directory = "early",
                            .settings = { "task.train_data.source_path=large.source",
                                          "task.train_data.target_path=large.target",
                                          "trainer.train_steps=2" } };
    run_write_pairs("large", 20000, 4);
    pid_t pid = run_start(&command);
    assert_true(run_await_text(pid, "early.log", "training a vocabulary"));
    double asked = run_clock();
    kill(pid, SIGTERM);
    assert_ends(run_wait(pid), "interrupted before the first step: nothing to save.", 75, "early");
    assert_true(run_clock() - asked < 60); /* not the minutes of a large text, on any machine */
    assert_true(access("early/vocabulary.model", F_OK));
    assert_ends(run(&command), NULL, 0, "early");
}

/* ---- directories ---- */

static void test_resume__locked_by_a_running_process(void **state)
{
    (void)state;
    run_command first = { .directory = "locked" };
    pid_t pid = run_start(&first);
    assert_true(run_await_text(pid, "locked/metrics.jsonl", "{\"step\":16,"));
    kill(pid, SIGSTOP);
    assert_int_equal(rename("locked.log", "first.log"), 0);
    char text[100];
    snprintf(text, sizeof text, "locked by process %ld", (long)pid);
    run_command second = { .directory = "locked", .settings = { "trainer.train_steps=200" } };
    assert_ends(run(&second), text, 1, "locked");
    kill(pid, SIGCONT);
    assert_int_equal(run_wait(pid), 0);
    run_assert_same(WHOLE, "locked");
    run_remove("locked");
}

static void test_resume__failed_start_leaves_nothing(void **state)
{
    (void)state;
    run_command command = { .directory = "new/deep/run",
                            .settings = { "task.train_data.target_path=valid.target" } };
    assert_int_equal(mkdir("new", 0777), 0);
    mkdir("new/deep", 0777);
    pid_t pid = run_start(&command);
    int code = run_wait(pid);
    assert_ends(code, "train.source", 3, "new/deep/run");
    assert_true(access("new/deep/run", F_OK));
    assert_int_equal(access("new/deep", F_OK), 0);
}

/* With an argument, only the cases with that in their names. */
int main(int argc, char **argv)
{
    char pattern[100];
    snprintf(pattern, sizeof pattern, "*%s*", argc > 1 ? argv[1] : "");
    cmocka_set_test_filter(pattern);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resume__everything_is_there),
        cmocka_unit_test(test_resume__one_thread_or_two),
        cmocka_unit_test(test_resume__one_thread_or_two_float32),
        cmocka_unit_test(test_resume__rules),
        cmocka_unit_test(test_resume__small_stacks),
        cmocka_unit_test(test_resume__too_many_threads),
        cmocka_unit_test(test_resume__recomputing),
        cmocka_unit_test(test_resume__finished_already),
        cmocka_unit_test(test_resume__past_the_end),
        cmocka_unit_test(test_resume__loss_of_the_bar),
        cmocka_unit_test(test_resume__extended),
        cmocka_unit_test(test_resume__killed_at_random),
        cmocka_unit_test(test_resume__recurrent),
        cmocka_unit_test(test_resume__fine_tuned),
        cmocka_unit_test(test_resume__recovered),
        cmocka_unit_test(test_resume__interrupted),
        cmocka_unit_test(test_resume__says_what_was_saved),
        cmocka_unit_test(test_resume__asked_to_save),
        cmocka_unit_test(test_resume__interrupted_in_validation),
        cmocka_unit_test(test_resume__interrupted_in_vocabulary_training),
        cmocka_unit_test(test_resume__locked_by_a_running_process),
        cmocka_unit_test(test_resume__failed_start_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, run_remove_corpus);
}
