/* Modes that follow a run of translation: they read the run's files in place, with or without its
 * cache of encoded text, and write none of them. For a program's own task, see
 * examples/test_modes.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bad_case.h"

#define VALIDATED                                                                                  \
    "--set trainer.train_steps=2 --set trainer.checkpoint_interval=1 "                             \
    "--set task.validation_data.source_path=two.en --set task.validation_data.target_path=two.de "

#define TRAINED "m/validation/events.out.tfevents.0000000000.etude"

/* Runs it, and checks that no file of the run came, went or changed its length. */
static bad_end watch(const char *line)
{
    char *before = bad_list("m");
    size_t length, length_after;
    char *log = bad_read("m/metrics.jsonl", &length);
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("etude %s\n    exit code %d: %s", line, end.code, end.err);
    char *after = bad_list("m"), *log_after = bad_read("m/metrics.jsonl", &length_after);
    assert_string_equal(after, before);
    assert_int_equal(length_after, length);
    free(before);
    free(after);
    free(log);
    free(log_after);
    return end;
}

/* A row for each of two checkpoints; numbers equal those in the lines of JSON. */
static void check_table(const char *out)
{
    static const char head[] = "table        all values: m/validation/metrics.jsonl\n"
                               "step  sacrebleu_score  validation_loss\n"
                               "   1  ";
    if (strncmp(out, head, sizeof head - 1) != 0)
        fail_msg("not the head of a table: %s", out);
    size_t length;
    char *lines = bad_read("m/validation/metrics.jsonl", &length);
    const char *row = strstr(out, "\n   1 "), *line = lines;
    for (int step = 1; step <= 2; step++) {
        double bleu, loss;
        int at;
        const char *key = "\"validation_loss\":";
        assert_non_null(row);
        assert_int_equal(sscanf(row, "%d %lf %lf", &at, &bleu, &loss), 3);
        assert_int_equal(at, step);
        line = strstr(line, key);
        assert_non_null(line);
        line += strlen(key);
        assert_true(fabs(strtod(line, NULL) - loss) < 0.01);
        row = strchr(row + 1, '\n');
    }
    assert_string_equal(row, "\n");
    free(lines);
}

static void test_modes__write_nothing(void **state)
{
    (void)state;
    bad_end end = bad_start(TRAIN VALIDATED, NULL, NULL);
    if (end.code)
        fail_msg("exit code %d: %s", end.code, end.err);
    bad_release(&end);
    bad_remove("m/translations");
    end = watch("train --model-dir m --mode eval");
    bad_assert_says("eval", end.out, "checkpoint m/checkpoints/ckpt-2.safetensors, step 2\n");
    bad_assert_says("eval", end.out, "\nsacrebleu_score ");
    char *first = strdup(end.out);
    bad_release(&end);
    /* The same from the text itself. */
    bad_remove("m/cache");
    end = watch("train --model-dir m --mode eval");
    assert_string_equal(end.out, first);
    bad_release(&end);
    /* Values go into separate files, next to the trainer's; the second time nothing is left to
     * measure. */
    size_t trained, after;
    free(bad_read(TRAINED, &trained));
    end = bad_start("train --model-dir m --mode continuous_eval", NULL, NULL);
    assert_int_equal(end.code, 0);
    check_table(end.out);
    bad_release(&end);
    free(bad_read(TRAINED, &after));
    assert_int_equal(after, trained);
    char *lines = bad_read("m/validation/metrics.jsonl", &after);
    bad_assert_says("lines", lines, "{\"step\":1,\"validation_loss\":");
    bad_assert_says("lines", lines, "\n{\"step\":2,\"validation_loss\":");
    free(lines);
    end = watch("train --model-dir m --mode continuous_eval");
    assert_string_equal(end.out, "");
    bad_release(&end);
    free(first);
    bad_remove("m/vocabulary.model");
    static const bad_case gone[] = {
        { "train --model-dir m --mode eval", .code = 3, .lines = -1,
          .words = { "m: no vocabulary yet; train this run first" } },
    };
    bad_run(gone, 1);
    bad_remove("m");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_modes__write_nothing) };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
