/* Directories of runs that do not fit the command, damaged checkpoints, and a loss that is not a
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "bad_case.h"

#define KEPT      "run/checkpoints/ckpt-5.safetensors"
#define NEWEST    "run/checkpoints/ckpt-10.safetensors"
#define AGAIN     "train --experiment translation/tiny --config tiny.yaml --model-dir run "
#define TRANSLATE "translate --model-dir run --beam-size 1 --max-length 3"
#define EVALUATE  "evaluate --model-dir run --beam-size 1 --source two.en --reference two.de"

/* A run of ten steps, saved at five and ten. */
static int set_up(void **state)
{
    if (bad_set_up(state))
        return -1;
    bad_train("run", 10);
    return 0;
}

/* ---- directories ---- */

static void test_bad_run__other_settings(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { AGAIN "--set trainer.train_steps=20 --set task.model.embedding_width=32", .code = 3,
          .words = { NEWEST
                     " belongs to a run with task.model.embedding_width: 16, but now it is 32",
                     "train another run (--model-dir)" } },
        { AGAIN "--set task.vocabulary.size=29", .code = 3,
          .words = { "size: 30, but now it is 29" } },
        { AGAIN "--set runtime.seed=2", .code = 3,
          .words = { "runtime.seed: 1, but now it is 2" } },
        { AGAIN "--set trainer.optimizer_config.optimizer.adam.beta_1=0.5", .code = 3,
          .words = { "beta_1: 0.9, but now it is 0.5", "--accept-changes" } },
        { AGAIN "--accept-changes --set task.model.embedding_width=32", .code = 3,
          .words = { "embedding_width: 16, but now it is 32" } },
        { "train --model-dir run --config tiny.yaml --experiment translation/base", .code = 3,
          .words = { "tiny.yaml:1: these are settings for translation/tiny" } },
    };
    size_t length, after;
    char *kept = bad_read("run/params.yaml", &length);
    bad_run(cases, COUNT(cases));
    char *now = bad_read("run/params.yaml", &after);
    assert_int_equal(length, after);
    assert_memory_equal(kept, now, length);
    free(kept);
    free(now);
}

static void test_bad_run__accepted_changes(void **state)
{
    (void)state;
    bad_train("m", 5);
    static const char line[] = TRAIN "--set trainer.train_steps=6 --accept-changes "
                                     "--set trainer.optimizer_config.optimizer.adam.beta_1=0.5";
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(line, end.err, "beta_1 is 0.5 from now on; it was 0.9");
    bad_assert_says(line, end.err, "resuming     at step 5 of 6");
    bad_release(&end);
    char *kept = bad_read("m/params.yaml", NULL);
    bad_assert_says(line, kept, "beta_1: 0.5");
    free(kept);
    bad_remove("m");
}

/* Valid runs: the additional output of --verbose, which changes nothing else. */
static void test_bad_run__verbose(void **state)
{
    (void)state;
    static const char *const more[] = { "kernels      ", "step  2  train  training_loss",
                                        "gradient_norm", "step  4  saving" };
    static const char line[] = TRAIN "--set trainer.train_steps=4 --set trainer.summary_interval=2";
    static const char verbose[] =
        TRAIN "--set trainer.train_steps=4 --set trainer.summary_interval=2 --verbose";
    size_t length[2];
    char *saved[2];
    for (int i = 0; i < 2; i++) {
        bad_end end = bad_start(i ? verbose : line, NULL, NULL);
        assert_int_equal(end.code, 0);
        for (size_t word = 0; word < COUNT(more); word++)
            if ((strstr(end.err, more[word]) != NULL) != (i == 1))
                fail_msg("run %d: %s, in: %s", i, more[word], end.err);
        bad_release(&end);
        saved[i] = bad_read("m/checkpoints/ckpt-4.safetensors", &length[i]);
        bad_remove("m");
    }
    assert_int_equal(length[0], length[1]);
    assert_memory_equal(saved[0], saved[1], length[0]);
    free(saved[0]);
    free(saved[1]);
}

/* Names that are too long as a whole or in part: of the folders that could be made none is left. */
static void test_bad_run__long_names(void **state)
{
    (void)state;
    static const struct {
        const char *part; /* again and again, up to length */
        size_t length;
        const char *said;
    } cases[] = {
        { "d/", 5000, "--model-dir: the name has 5000 bytes" },
        { "d/", 4096, "--model-dir: the name has 4096 bytes" },
        { "d/", 3970, "more than 3968: choose" },
        { "new/a/b/c/"
          "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
          "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
          "ddd"
          "dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd"
          "dddd"
          "dddddd",
          280, "File name too long" },
    };
    char *before = bad_list(".");
    for (size_t i = 0; i < COUNT(cases); i++) {
        static char line[6000];
        size_t at = (size_t)snprintf(line, sizeof line, "train --config tiny.yaml --model-dir ");
        for (size_t k = 0; k < cases[i].length; k++)
            line[at + k] = cases[i].part[k % strlen(cases[i].part)];
        line[at + cases[i].length] = 0;
        bad_end end = bad_start(line, NULL, NULL);
        assert_int_equal(end.code, 3);
        bad_assert_says("train", end.err, cases[i].said);
        bad_release(&end);
        char *after = bad_list(".");
        assert_string_equal(before, after);
        free(after);
    }
    free(before);
}

static void test_bad_run__locked(void **state)
{
    (void)state;
    int fd = open("run/checkpoints/lock", O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && flock(fd, LOCK_EX) == 0);
    static const bad_case busy[] = {
        { AGAIN "--set trainer.train_steps=20", .code = 1,
          .words = { "run/", "is locked by process" } },
    };
    bad_run(busy, 1);
    static const bad_case readers[] = {
        { TRANSLATE, .input = "two.en" },
        { EVALUATE, .lines = -1 },
        { "inspect run", .code = 0 },
    };
    bad_run(readers, COUNT(readers));
    close(fd);
}

static void test_bad_run__not_whole(void **state)
{
    (void)state;
    bad_train("m", 1);
    static const bad_case cases[] = {
        { "translate --model-dir m", .code = 3,
          .words = { "m: no checkpoint yet", "train this run first" } },
        { "evaluate --model-dir m --source two.en --reference two.de", .code = 3,
          .words = { "m: no checkpoint yet" } },
        { "inspect m", .code = 3, .words = { "m: no checkpoint here" } },
    };
    bad_remove("m/checkpoints");
    bad_run(cases, COUNT(cases));
    bad_write_text("m/params.yaml", "experiment: translation/tony\n");
    static const bad_case damaged[] = {
        { "translate --model-dir m", .code = 3,
          .words = { "m/params.yaml:1", "translation/tony" } },
    };
    bad_run(damaged, COUNT(damaged));
    bad_write_text("m/params.yaml", "runtime: {seed: 1}\n");
    static const bad_case nameless[] = {
        { "translate --model-dir m", .code = 3, .words = { "m/params.yaml", "does not name" } },
        { "train --model-dir m", .code = 3, .words = { "m/params.yaml", "does not name" } },
    };
    bad_run(nameless, COUNT(nameless));
    bad_remove("m");
    bad_train("m", 1);
    remove("m/vocabulary.model");
    static const bad_case wordless[] = {
        { "translate --model-dir m", .code = 3, .words = { "m/vocabulary.model: No such file" } },
    };
    bad_run(wordless, COUNT(wordless));
    bad_remove("m");
}

static void test_bad_run__above(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { "train --config tiny.yaml --model-dir a.en", .code = 2, .words = { "a.en" } },
        { "train --config tiny.yaml --model-dir a.en/m", .code = 3, .words = { "a.en" } },
        { "train --config tiny.yaml --model-dir new/deep/m" SOURCE "none.en", .code = 3,
          .words = { "none.en" } },
        { "train --config tiny.yaml --model-dir new/deep/m", .lines = -1, .made = "new" },
    };
    bad_run(cases, COUNT(cases));
}

/* ---- damaged checkpoints ---- */

/* The translation of two.en by the model of step 5. */
static char *translation_of_kept(void)
{
    bad_end end = bad_start(TRANSLATE " --checkpoint " KEPT, "two.en", NULL);
    assert_int_equal(end.code, 0);
    char *text = strdup(end.out);
    bad_release(&end);
    return text;
}

/* If the newest checkpoint is damaged, the message names it, and the one before it is used. */
static void check_passed_over(const char *expected, const char *what)
{
    bad_end end = bad_start(TRANSLATE, "two.en", NULL);
    if (end.code || strcmp(end.out, expected))
        fail_msg("%s: exit code %d: %s%s", what, end.code, end.out, end.err);
    bad_assert_says(what, end.err, "warning: " NEWEST ": ");
    bad_assert_says(what, end.err, "trying the checkpoint before step 10");
    bad_release(&end);
}

static void check_refused(const char *what)
{
    static const char *const lines[] = { "inspect " NEWEST, TRANSLATE " --checkpoint " NEWEST,
                                         "average --output mean " NEWEST, "inspect run" };
    for (size_t i = 0; i < COUNT(lines); i++) {
        bad_end end = bad_start(lines[i], NULL, NULL);
        if (end.code != 3 || bad_count_lines(end.err) != 1 || access("mean", F_OK) == 0)
            fail_msg("%s: etude %s: exit code %d: %s", what, lines[i], end.code, end.err);
        bad_assert_says(lines[i], end.err, NEWEST);
        bad_assert_says(lines[i], end.err, "damaged");
        bad_release(&end);
    }
}

static void test_bad_run__cut(void **state)
{
    (void)state;
    size_t length;
    char *bytes = bad_read(NEWEST, &length), *expected = translation_of_kept();
    const size_t lengths[] = { 0, 1, 7, 8, 100, length / 3, length / 2, length - 64, length - 1 };
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char what[64];
        snprintf(what, sizeof what, "cut at %zu of %zu", lengths[i], length);
        bad_write(NEWEST, bytes, lengths[i]);
        check_passed_over(expected, what);
        if (i % 4 == 0)
            check_refused(what);
    }
    bad_write(NEWEST, bytes, length);
    free(bytes);
    free(expected);
}

static void test_bad_run__flipped(void **state)
{
    (void)state;
    enum { PLACES = 24 };
    size_t length;
    char *bytes = bad_read(NEWEST, &length), *expected = translation_of_kept();
    for (size_t i = 0; i < PLACES; i++) {
        char what[64];
        size_t at = i < 10 ? i : (length - 1) * (i - 9) / (PLACES - 10);
        snprintf(what, sizeof what, "bit %zu of byte %zu of %zu", i % 8, at, length);
        bytes[at] = (char)(bytes[at] ^ 1 << i % 8);
        bad_write(NEWEST, bytes, length);
        check_passed_over(expected, what);
        if (i % 8 == 7)
            check_refused(what);
        bytes[at] = (char)(bytes[at] ^ 1 << i % 8);
    }
    bad_write(NEWEST, bytes, length);
    free(bytes);
    free(expected);
}

/* inspect names the tensor and the byte. */
static void test_bad_run__inspect_names(void **state)
{
    (void)state;
    size_t length;
    char *bytes = bad_read(NEWEST, &length);
    bytes[length - 5] = (char)(bytes[length - 5] ^ 4);
    bad_write("flipped", bytes, length);
    bad_end end = bad_start("inspect --tensors flipped", NULL, NULL);
    assert_int_equal(end.code, 3);
    assert_int_equal(bad_count_lines(end.err), 1);
    bad_assert_says("inspect", end.err, "checksum");
    bad_assert_says("inspect", end.err, "(byte ");
    bad_assert_says("inspect", end.out, " damaged\n");
    bad_assert_says("inspect", end.out, " ok\n");
    assert_null(strstr(end.out, "intact: "));
    bad_release(&end);
    remove("flipped");
    free(bytes);
}

/* Training and evaluation skip it too, and training saves step 10 again. */
static void test_bad_run__goes_on_from_the_one_before(void **state)
{
    (void)state;
    size_t length, again_length;
    char *bytes = bad_read(NEWEST, &length);
    bad_write(NEWEST, bytes, length - 1);
    bad_end end = bad_start(EVALUATE, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(EVALUATE, end.err, "warning: " NEWEST);
    bad_assert_says(EVALUATE, end.out, "checkpoint " KEPT ", step 5");
    bad_release(&end);
    end = bad_start(AGAIN "--set trainer.train_steps=10", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says("train", end.err, "warning: " NEWEST);
    bad_assert_says("train", end.err, "resuming     at step 5 of 10");
    bad_release(&end);
    char *again = bad_read(NEWEST, &again_length);
    assert_int_equal(length, again_length);
    assert_memory_equal(bytes, again, length);
    free(bytes);
    free(again);
}

static void test_bad_run__none_is_sound(void **state)
{
    (void)state;
    bad_train("m", 10);
    assert_int_equal(truncate("m/checkpoints/ckpt-5.safetensors", 100), 0);
    assert_int_equal(truncate("m/checkpoints/ckpt-10.safetensors", 0), 0);
    static const bad_case cases[] = {
        { "translate --model-dir m", .code = 3,
          .words = { "m/checkpoints: all 2 checkpoints are damaged (the oldest:", "ckpt-5",
                     "another directory" },
          .lines = 2 },
        { TRAIN "--set trainer.train_steps=10", .code = 3,
          .words = { "all 2 checkpoints are damaged (the oldest:" }, .lines = 2 },
    };
    bad_run(cases, COUNT(cases));
    bad_remove("m");
}

/* If the best checkpoint is damaged, the message names it, and the newest is used. */
static void test_bad_run__best(void **state)
{
    (void)state;
    static const char line[] =
        TRAIN "--set trainer.train_steps=4 --set trainer.validation_interval=2 "
              "--set task.validation_data.source_path=two.en "
              "--set task.validation_data.target_path=two.de "
              "--set trainer.best_checkpoint_eval_metric=validation_loss "
              "--set trainer.best_checkpoint_metric_comp=lower";
    static const char evaluate[] = "evaluate --model-dir m --beam-size 1 --source two.en "
                                   "--reference two.de";
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    end = bad_start(evaluate, NULL, NULL);
    bad_assert_says(evaluate, end.out, "checkpoint m/best/best-");
    bad_release(&end);
    char best[64];
    for (int step = 2; step <= 4; step += 2) {
        snprintf(best, sizeof best, "m/best/best-%d.safetensors", step);
        if (truncate(best, 5000) == 0)
            break;
    }
    end = bad_start(evaluate, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(evaluate, end.err, best);
    bad_assert_says(evaluate, end.err, "using the newest checkpoint instead of the best");
    bad_assert_says(evaluate, end.out, "checkpoint m/checkpoints/ckpt-4.safetensors");
    bad_release(&end);
    bad_remove("m");
}

/* ---- a loss that is not a number ---- */

/* A learning rate so high that weights overflow within some steps: all saved values are finite, and
 * nothing is saved afterwards. */
static void test_bad_run__diverges(void **state)
{
    (void)state;
    static const char line[] =
        TRAIN "--set trainer.train_steps=50 --set trainer.checkpoint_interval=1 "
              "--set trainer.max_to_keep=50 --set trainer.optimizer_config.optimizer.type=sgd "
              "--set trainer.optimizer_config.learning_rate.type=constant "
              "--set trainer.optimizer_config.learning_rate.constant.learning_rate=1e6";
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 5);
    const char *last = bad_last_line(end.err);
    int step = 0;
    assert_int_equal(sscanf(last, "etude: step %d: loss or gradient is not finite", &step), 1);
    bad_assert_says(line, last, "first in ");
    bad_assert_says(line, last, "coder/layer_0/");
    bad_assert_says(line, last, "batch: a.en:");
    bad_assert_says(line, last, "Lower the learning rate");
    bad_release(&end);
    assert_in_range(step, 2, 50);
    for (int i = 1; i <= step; i++) {
        char inspect[64];
        snprintf(inspect, sizeof inspect, "inspect m/checkpoints/ckpt-%d.safetensors", i);
        end = bad_start(inspect, NULL, NULL);
        assert_int_equal(end.code, i < step ? 0 : 3);
        bad_release(&end);
    }
    bad_remove("m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_run__other_settings),
        cmocka_unit_test(test_bad_run__accepted_changes),
        cmocka_unit_test(test_bad_run__verbose),
        cmocka_unit_test(test_bad_run__long_names),
        cmocka_unit_test(test_bad_run__locked),
        cmocka_unit_test(test_bad_run__not_whole),
        cmocka_unit_test(test_bad_run__above),
        cmocka_unit_test(test_bad_run__cut),
        cmocka_unit_test(test_bad_run__flipped),
        cmocka_unit_test(test_bad_run__inspect_names),
        cmocka_unit_test(test_bad_run__goes_on_from_the_one_before),
        cmocka_unit_test(test_bad_run__none_is_sound),
        cmocka_unit_test(test_bad_run__best),
        cmocka_unit_test(test_bad_run__diverges),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
