/* Settings that are wrong, in a file or on the command line: exit code 3, found before anything
 * is made. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bad_case.h"

static void test_bad_settings__keys(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN "--set task.model.encoder.num_heads=4", .code = 3,
          .words = { "--set task.model.encoder.num_heads: no such setting",
                     "Nearest: num_attention_heads", "task.model.encoder has: num_layers" } },
        { TRAIN "--set tasks.model.embedding_width=4", .code = 3, .words = { "Nearest: task " } },
        { TRAIN "--set trainer.train_steps.x=1", .code = 3, .words = { "nothing is below it" } },
        { TRAIN "--set trainer=5", .code = 3, .words = { "trainer: is a group of settings" } },
        { TRAIN "--set runtime.seed=2,trainer.stepz=1", .code = 3,
          .words = { "--set trainer.stepz: no such setting" } },
        { TRAIN "--set '{trainer: {stepz: 1}}'", .code = 3,
          .words = { "trainer.stepz", "train_steps" } },
        { TRAIN "--set '{trainer: '", .code = 3, .words = { "--set", "not YAML" } },
    };
    bad_run(cases, COUNT(cases));
}

static void test_bad_settings__values(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN "--set trainer.train_steps=-4", .code = 3,
          .words = { "--set trainer.train_steps: -4 is out of range; allowed: 0 to" } },
        { TRAIN "--set trainer.train_steps=0", .code = 3, .words = { "trainer.train_steps: 0" } },
        { TRAIN "--set trainer.train_steps=many", .code = 3,
          .words = { "trainer.train_steps: \"many\" is not an integer" } },
        { TRAIN "--set trainer.train_steps=", .code = 3, .words = { "trainer.train_steps: \"\"" } },
        { TRAIN "--set trainer.train_steps=99999999999999999999", .code = 3,
          .words = { "train_steps" } },
        { TRAIN "--set runtime.loss_scale=large", .code = 3,
          .words = { "runtime.loss_scale: large; give dynamic, a positive number or null" } },
        { TRAIN "--set runtime.loss_scale=-1", .code = 3, .words = { "loss_scale: -1" } },
        { TRAIN "--set trainer.loss_upper_bound=-1", .code = 3,
          .words = { "loss_upper_bound: -1" } },
        { TRAIN "--set trainer.recovery_max_trials=-2", .code = 3,
          .words = { "recovery_max_trials: -2" } },
        { TRAIN "--set trainer.recovery_begin_steps=-1", .code = 3,
          .words = { "recovery_begin_steps: -1" } },
        { TRAIN "--set 'trainer.train_steps=[1, 2]'", .code = 3, .words = { "not a list" } },
        { TRAIN "--set trainer.train_steps=1,foo", .code = 3, .words = { "\"1,foo\" is not an" } },
        { TRAIN "--set task.model.dropout_rate=nan", .code = 3, .words = { "is not a number" } },
        { TRAIN "--set task.model.dropout_rate=.nan", .code = 3,
          .words = { "dropout_rate: .nan" } },
        { TRAIN "--set task.model.dropout_rate=1.5", .code = 3, .words = { "allowed: 0 to 0.99" } },
        { TRAIN "--set runtime.seed=-1", .code = 3,
          .words = { "allowed: 0 to 4,503,599,627,370,496" } },
        { TRAIN "--set task.vocabulary.size=5", .code = 3,
          .words = { "task.vocabulary.size: 5 is too small; choose 8 or more, or 0" } },
        { TRAIN "--set task.vocabulary.character_coverage=0.5", .code = 3,
          .words = { "character_coverage: 0.5 is out of range; allowed: 0.98 to 1" } },
        { TRAIN SOURCE "'[\"\"]'", .code = 3,
          .words = { "task.train_data.source_path: path 1 of 1 is empty" } },
        { TRAIN SOURCE "'[a.en, \"\"]'", .code = 3,
          .words = { "task.train_data.source_path: path 2 of 2 is empty" } },
        { TRAIN "--set task.sentencepiece_model_path='\"\"'", .code = 3,
          .words = { "task.sentencepiece_model_path: the path is empty" } },
        { TRAIN "--set task.model.encoder.norm_first=maybe", .code = 3,
          .words = { "true or false" } },
        { TRAIN "--set runtime.mixed_precision_dtype=float16", .code = 3,
          .words = { "no such choice as float16", "Nearest: bfloat16",
                     "auto, float32, bfloat16" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Settings that are right one by one. */
static void test_bad_settings__together(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN "--set task.model.encoder.num_attention_heads=3", .code = 3,
          .words = { "encoder.num_attention_heads: 3 heads do not divide",
                     "embedding_width, 16" } },
        { TRAIN "--set task.model.decoder.num_attention_heads=5", .code = 3,
          .words = { "decoder.num_attention_heads: 5" } },
        { TRAIN "--set task.model.embedding_width=17", .code = 3, .words = { "17 is odd" } },
        { TRAIN "--set task.train_data.global_batch_size=16", .code = 3,
          .words = { "global_batch_size: 16 tokens hold no sentence of max_seq_length, 32" } },
        { TRAIN "--set task.train_data.tsv_path=a.en", .code = 3, .words = { "keep one" } },
        { TRAIN "--set task.train_data.target_path=", .code = 3, .words = { "train_data" } },
        { TRAIN "--set 'task.train_data.target_path=[a.de, a.de]'", .code = 3,
          .words = { "1 source_path and 2 target_path files; they go in pairs" } },
        { "train --experiment translation/tiny --model-dir m", .code = 3,
          .words = { "task.train_data: no data; set source_path and target_path" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=bleu_score", .code = 3,
          .words = { "best_checkpoint_eval_metric: bleu_score needs validation" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=blue_score "
                "--set task.validation_data.source_path=two.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3,
          .words = { "validation gives no blue_score", "Nearest: bleu_score", "chrf_score" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=bleu_score "
                "--set trainer.validation_interval=0 "
                "--set task.validation_data.source_path=two.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3, .words = { "trainer.validation_interval: 0" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Every value that validation is said to give, it gives: in metrics.jsonl by the same name. */
static void test_bad_settings__metrics_exist(void **state)
{
    (void)state;
    static const char *const names[] = { "validation_loss",     "validation_perplexity",
                                         "validation_accuracy", "sacrebleu_score",
                                         "bleu_score",          "chrf_score" };
    static const char line[] = TRAIN "--set trainer.train_steps=1 "
                                     "--set task.validation_data.source_path=two.en "
                                     "--set task.validation_data.target_path=two.de "
                                     "--set trainer.best_checkpoint_eval_metric=chrf_score";
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("etude %s\n    exit code %d: %s", line, end.code, end.err);
    bad_assert_says(line, end.err, "best_step 1  best so far, saved\n");
    bad_release(&end);
    char *metrics = bad_read("m/metrics.jsonl", NULL);
    for (size_t i = 0; i < COUNT(names); i++)
        bad_assert_says(line, metrics, names[i]);
    free(metrics);
    assert_int_equal(access("m/best/best-1.safetensors", F_OK), 0);
    bad_remove("m");
}

/* With validation data one is kept without being asked for, and translate takes it. */
static void test_bad_settings__best_by_default(void **state)
{
    (void)state;
    static const char plain[] = TRAIN "--set trainer.train_steps=2";
    bad_end end = bad_start(plain, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    assert_int_equal(access("m/best", F_OK), -1);
    bad_remove("m");
    static const char validated[] = TRAIN "--set trainer.train_steps=2 "
                                          "--set task.validation_data.source_path=two.en "
                                          "--set task.validation_data.target_path=two.de";
    static const char *const lines[] = {
        validated,
        TRAIN "--set trainer.train_steps=2 --set task.validation_data.source_path=two.en "
              "--set task.validation_data.target_path=two.de "
              "--set trainer.best_checkpoint_eval_metric=null",
    };
    for (int i = 0; i < 2; i++) {
        end = bad_start(lines[i], NULL, NULL);
        if (end.code)
            fail_msg("etude %s\n    exit code %d: %s", lines[i], end.code, end.err);
        bad_release(&end);
        assert_int_equal(access("m/best/best-2.safetensors", F_OK), i ? -1 : 0);
        if (!i) {
            end =
                bad_start("evaluate --model-dir m --source two.en --reference two.de", NULL, NULL);
            bad_assert_says("evaluate", end.out, "checkpoint m/best/best-2.safetensors");
            bad_release(&end);
        }
        bad_remove("m");
    }
    static const bad_case cases[] = {
        { TRAIN "--set trainer.best_checkpoint_metric_comp=lower", .code = 3,
          .words = { "best_checkpoint_metric_comp: lower goes with a metric of your own" } },
        { TRAIN "--set trainer.best_checkpoint_export_subdir=top", .code = 3,
          .words = { "best_checkpoint_export_subdir: top; the best checkpoint is kept in best" } },
    };
    bad_run(cases, COUNT(cases));
}

static void test_bad_settings__files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words[4];
    } files[] = {
        { "trainer:\n  train_steps: 5\n  tran_steps: 5\n",
          { "bad.yaml:3: trainer.tran_steps: no such setting", "Nearest: train_steps" } },
        { "trainer:\n  train_steps: five\n", { "bad.yaml:2: trainer.train_steps: \"five\"" } },
        { "trainer:\n  train_steps: -1\n", { "bad.yaml:2: trainer.train_steps: -1 is out of" } },
        { "trainer:\n\ttrain_steps: 5\n", { "bad.yaml:2:1: not YAML", "spaces, not tabs" } },
        { "trainer: {train_steps: 5\n", { "bad.yaml:2", "not YAML" } },
        { "trainer:\n  train_steps: 5\n  train_steps: 6\n", { "bad.yaml:3", "train_steps" } },
        { "- trainer\n", { "bad.yaml:1", "not a list" } },
        { "just words\n", { "bad.yaml:1", "not text" } },
        { "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", { "bad.yaml:1: the anchor &a" } },
        { "task: *all\n", { "bad.yaml:1", "all" } },
        { "trainer: !!python/object {}\n", { "bad.yaml:1" } },
        { "trainer:\n  train_steps: 3\nexperiment: translation/base\n",
          { "bad.yaml:3: these are settings for translation/base, not for translation/tiny" } },
        { "experiment: [translation/tiny]\n", { "bad.yaml:1: experiment: needs a name" } },
        { "trainer:\n  # \xff\n", { "bad.yaml:2", "UTF-8" } },
    };
    for (size_t i = 0; i < COUNT(files); i++) {
        bad_case row = { TRAIN "--config bad.yaml", .code = 3 };
        memcpy(row.words, files[i].words, sizeof files[i].words);
        bad_write_text("bad.yaml", files[i].text);
        bad_run(&row, 1);
    }
    static const bad_case unreadable[] = {
        { TRAIN "--config none.yaml", .code = 3, .words = { "none.yaml" } },
        { TRAIN "--config .", .code = 3, .words = { ". is a directory, not a file" } },
        { TRAIN "--config /dev/zero", .code = 3, .words = { "/dev/zero is a device" } },
        { TRAIN "--config bomb.yaml", .code = 3, .words = { "bomb.yaml" } },
        { TRAIN "--config giant.yaml", .code = 3, .words = { "giant.yaml is longer than" } },
    };
    char *bomb = malloc(1 << 19);
    memset(bomb, '[', (1 << 19) - 1);
    bomb[(1 << 19) - 1] = 0;
    bad_write_text("bomb.yaml", bomb);
    free(bomb);
    bad_write_text("giant.yaml", "");
    assert_int_equal(truncate("giant.yaml", (off_t)1 << 30), 0);
    bad_run(unreadable, COUNT(unreadable));
}

/* The experiment may come from the file alone, and may stand anywhere in it. */
static void test_bad_settings__name_in_file(void **state)
{
    (void)state;
    bad_write_text("last.yaml", "trainer:\n  train_steps: 2\nexperiment: translation/tiny\n");
    bad_write_text("other.yaml", "experiment: translation/tony\n");
    static const bad_case cases[] = {
        { "train --model-dir m --config tiny.yaml --config last.yaml", .lines = -1, .made = "m" },
        { "train --model-dir m --config last.yaml --config tiny.yaml", .lines = -1, .made = "m" },
        { "train --model-dir m --config other.yaml", .code = 3,
          .words = { "no experiment named translation/tony", "Nearest: translation/tiny" } },
    };
    bad_run(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_settings__keys),
        cmocka_unit_test(test_bad_settings__values),
        cmocka_unit_test(test_bad_settings__together),
        cmocka_unit_test(test_bad_settings__metrics_exist),
        cmocka_unit_test(test_bad_settings__best_by_default),
        cmocka_unit_test(test_bad_settings__files),
        cmocka_unit_test(test_bad_settings__name_in_file),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
