/* Wrong words of the command line: exit code 2, or 3 for names that do not exist; and words that
 * only look wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bad_case.h"

static void test_bad_usage__commands(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { "", .code = 2, .words = { "no command given" }, .lines = -1 },
        { "trian", .code = 2, .words = { "no command trian", "Nearest: train", "etude --help" } },
        { "xyzzy", .code = 2, .words = { "no command xyzzy; `etude --help` shows all" } },
        { "--verbose", .code = 2, .words = { "no command --verbose" } },
        { "help xyzzy", .code = 2, .words = { "no command xyzzy" } },
        { "'a\033[31m\nb'", .code = 2, .words = { "no command a\\u001b[31m\\nb" } },
    };
    bad_run(cases, COUNT(cases));
}

static void test_bad_usage__options(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { "train", .code = 2, .words = { "--model-dir is missing" } },
        { "train --model-dir m", .code = 2,
          .words = { "m has no run to resume", "--data", "--experiment (`etude list`" } },
        { "train --experiment translation/tiny", .code = 2, .words = { "--model-dir is missing" } },
        { "train --experimant translation/tiny", .code = 2,
          .words = { "train: no option --experimant", "Nearest: --experiment;",
                     "`etude train --help`" } },
        { "train --param_override x=1", .code = 2, .words = { "Nearest: --params-override" } },
        { "train m --max-st 5", .code = 2,
          .words = { "no option --max-st. Nearest: --max-steps;" } },
        { "translate m --beam-si 5", .code = 2, .words = { "Nearest: --beam-size;" } },
        { "train m --learning-ra 5", .code = 2, .words = { "Nearest: --learning-rate;" } },
        { TRAIN "--max-steps 5.0", .code = 3, .words = { "5.0 is not an integer" }, .lines = 1 },
        { TRAIN "--steps 0x10", .code = 3, .words = { "0x10 is not an integer" } },
        { TRAIN "--steps 0x2ep", .code = 3, .words = { "\"0x2ep\" is not an integer, or epochs" } },
        { TRAIN "--epochs 0x2", .code = 3, .words = { "0x2 is not a number" } },
        { TRAIN "--time-limit 0x10m", .code = 2, .words = { "0x10m: not a time" } },
        { TRAIN "--time-limit infm", .code = 2, .words = { "infm: not a time" } },
        { TRAIN "--memory 0x4G", .code = 2, .words = { "0x4G: not a size" } },
        { TRAIN "--threads 2.0", .code = 2, .words = { "--threads: 2.0 is not an integer" } },
        { "translate m --beam-size 4.", .code = 2,
          .words = { "--beam-size: 4. is not an integer" } },
        { "translate m --alpha 0x1", .code = 2, .words = { "--alpha: 0x1 is not a number" } },
        { "train --model-dir", .code = 2, .words = { "--model-dir needs a value: DIR" } },
        { "train --model-dir --set a.b=1", .code = 2,
          .words = { "--model-dir needs a value", "found --set", "--model-dir=--set" } },
        { "train --accept-changes=yes", .code = 2, .words = { "takes no value", "found yes" } },
        { "train runs/a runs/b", .code = 2, .words = { "train: takes one run, but found" } },
        { "train runs/a --model-dir runs/b", .code = 2,
          .words = { "train: takes one run, but found" } },
        { "train runs/a trainer.train_steps=9", .code = 2,
          .words = { "takes one run, but found runs/a and trainer",
                     "; if this is a setting, write --set trainer.train_steps=9" } },
        { "train trainer.train_steps=9 --model-dir runs/b", .code = 2,
          .words = { "takes one run",
                     "; if this is a setting, write --set trainer.train_steps=9" } },
        { TRAIN "--set train_steps", .code = 2, .words = { "--set train_steps", "key=value" } },
        { TRAIN "--config ''", .code = 2, .words = { "--config: the value is empty; give FILE" } },
        { TRAIN "--set ''", .code = 2, .words = { "--set: the value is empty" } },
        { "train m --experiment tabular/mlp --data t.csv --valid ''", .code = 2,
          .words = { "--valid: the value is empty" } },
        { "train m --experiment tabular/mlp --data t.csv --valid=", .code = 2,
          .words = { "--valid: the value is empty" } },
        { TRAIN "--set task.model.sampled_vocabulary=20", .code = 3, .lines = -1,
          .words = { "task.model.sampled_vocabulary: 20 tokens are too few, as a batch may have up "
                     "to 64" } },
        { TRAIN "--set task.model.sampled_vocabulary=20,runtime.data_shards=2", .code = 3,
          .lines = -1,
          .words = { "20 tokens are too few, as a batch of a shard may have up to 32" } },
        { TRAIN "--tpu 1e400", .code = 2, .words = { "--tpu", "1e400" } },
        { TRAIN "--enable-async-checkpointing=1e400", .code = 2, .words = { "1e400" } },
        { "train m --mode eval --time-limit 1h", .code = 2,
          .words = { "--time-limit cannot be used with --mode eval" } },
        { "train m --mode continuous_eval --memory 1G", .code = 2,
          .words = { "--memory cannot be used with --mode continuous_eval" } },
        { "train m --mode eval --keys k", .code = 2,
          .words = { "--keys cannot be used with --mode" } },
        { "list --markdown --json", .code = 2, .words = { "either --markdown or --json" } },
        { "list --markdown --all", .code = 2, .words = { "--all does not go with --markdown" } },
        { "serve m --batch 9000 --queue 5000", .code = 2,
          .words = { "--queue 5000 is smaller than the largest request, --batch 9000" } },
        { "translate m --score-targets t --noise 2", .code = 2,
          .words = { "--score-targets: translations are given, so leave out --noise" } },
        { "inspect ''", .code = 2, .words = { "inspect: an argument is empty" } },
        { "score ''", .code = 2, .words = { "score: an argument is empty" } },
        { TRAIN "--profile", .code = 2, .words = { "--profile needs a value: FILE" } },
        { TRAIN "--profile-steps 1:2", .code = 2,
          .words = { "--profile-steps: only with --profile FILE" } },
        { "translate m --profile-steps 1:2", .code = 2,
          .words = { "--profile-steps: only with --profile FILE" } },
        { TRAIN "--profile t --profile-steps 5:3", .code = 2,
          .words = { "--profile-steps 5:3: not of the form A:B", "10:20" } },
        { TRAIN "--profile t --profile-steps 0:3", .code = 2,
          .words = { "not of the form A:B, with 1 <= A <= B; for example 10:20" } },
        { TRAIN "--profile t --profile-steps 7", .code = 2, .words = { "7: not of the form A:B" } },
        { TRAIN "--profile t --profile-steps 1:2:3", .code = 2,
          .words = { "1:2:3: not of the form A:B" } },
        { TRAIN "--profile t --profile-steps 1:99999999999999999999", .code = 2,
          .words = { "not of the form A:B" } },
        { TRAIN "--profile t --profile-steps 4:9", .code = 2, .lines = -1,
          .words = { "--profile-steps 4:9: this start does only 3 steps" } },
        { TRAIN "--profile none/t", .code = 3, .words = { "--profile: cannot write none/t" } },
        { TRAIN "--profile .", .code = 3, .words = { "--profile: . is a directory" } },
        { TRAIN "--profile /dev/null", .code = 3, .words = { "/dev/null is a device" } },
        { TRAIN "--mode trian", .code = 2,
          .words = { "--mode: no choice is called trian. Nearest: train (allowed: train, eval, ",
                     "continuous_eval" } },
        { TRAIN "--mode train_and_validate", .code = 2,
          .words = { "--mode train_and_validate: Model Garden documents but never implemented this "
                     "mode; use train_and_eval" } },
        { TRAIN "--gin_file a.gin", .code = 2,
          .words = { "--gin-file: a.gin is not allowed here: gin configures Python functions" } },
        { TRAIN "--gin-params x=1", .code = 2,
          .words = { "--gin-params: x=1 is not allowed here" } },
        { TRAIN "--tpu local", .code = 2,
          .words = { "--tpu: local is not allowed here: Etude trains on the CPU" } },
        { TRAIN "--tpu_platform v4", .code = 2, .words = { "--tpu-platform: v4 is not allowed" } },
        { TRAIN "--tf_data_service grpc://x", .code = 2,
          .words = { "--tf-data-service: grpc://x is not allowed here: each run reads its own "
                     "data" } },
        { TRAIN "--tfhub_handle h", .code = 2,
          .words = { "--tfhub-handle: h is not allowed here" } },
        { TRAIN "--tflex_output_uri u", .code = 2, .words = { "--tflex-output-uri: u is not" } },
        { TRAIN "--pretrain_steps 5", .code = 2,
          .words = { "--pretrain-steps: only for --mode continuous_train_and_eval, which waits for "
                     "another run's pre-training" } },
        { TRAIN "--enable_async_checkpointing=maybe", .code = 2,
          .words = { "--enable-async-checkpointing: \"maybe\" is not true or false" } },
        { TRAIN "--nomode", .code = 2, .words = { "no option --nomode. Nearest: --mode" } },
        { TRAIN "--set =5", .code = 2, .words = { "--set =5", "key=value" } },
        { "translate", .code = 2, .words = { "translate: --model-dir is missing" } },
        { "translate --model-dir m --beam-size four", .code = 2,
          .words = { "--beam-size: \"four\" is not an integer" } },
        { "translate --model-dir m --beam-size 1.5", .code = 2,
          .words = { "--beam-size: 1.5 is not an integer" } },
        { "translate --model-dir m --beam-size=-1", .code = 2, .words = { "-1 is out of range" } },
        { "translate --model-dir m --max-length 1e300", .code = 2,
          .words = { "1e300 is out of range; allowed: 0 to" } },
        { "translate --model-dir m --alpha nan", .code = 2,
          .words = { "--alpha: \"nan\" is not a number" } },
        { "translate --model-dir m --alpha=-1", .code = 2, .words = { "allowed: 0 to 10" } },
        { "translate --model-dir m --alpha 1e308", .code = 2,
          .words = { "--alpha: 1e308 is out of range; allowed: 0 to 10" } },
        { "translate --model-dir m --sampling --alpha 1", .code = 2,
          .words = { "--alpha: only for a search, and sampling does not search" } },
        { "translate --model-dir m --top-k 3 --beam-size 2", .code = 2,
          .words = { "--beam-size: only for a search" } },
        { "translate --model-dir m --sampling --top-p 1.0000001", .code = 2,
          .words = { "--top-p: 1.0000001 is out of range; allowed: 0 to 1" } },
        { "translate --model-dir m --beam-size 65", .code = 2,
          .words = { "--beam-size: 65 is out of range; allowed: 0 to 64" } },
        { "translate --model-dir m --max-length 1000000000", .code = 2,
          .words = { "--max-length: 1000000000 is out of range; allowed: 0 to 65,535" } },
        { "translate --model-dir m --batch 1000000000", .code = 2,
          .words = { "--batch: 1000000000 is out of range; allowed: 1 to 65,536" } },
        { "translate --model-dir m --temperature 2000", .code = 2,
          .words = { "--temperature: 2000 is out of range; allowed: 0 to 1,000" } },
        { "translate --model-dir m --batch 0", .code = 2,
          .words = { "--batch: 0 is out of range; allowed: 1 to" } },
        { "translate --model-dir m --precision int4", .code = 2,
          .words = { "--precision: no choice is called int4. Nearest: int8 (allowed: float32, "
                     "bfloat16, int8)" } },
        { "evaluate --model-dir m --reference a.de", .code = 2,
          .words = { "--source is missing" } },
        { "evaluate --model-dir m --output a.txt", .code = 2, .words = { "--source is missing" } },
        { "evaluate --model-dir . --source a.en", .code = 2,
          .words = { "--reference is missing" } },
        { "evaluate none rows.csv", .code = 3, .words = { "none: no such directory" } },
        { "evaluate none rows.csv --charts", .code = 3, .words = { "none: no such directory" } },
        { "evaluate none --beam-size 2", .code = 3, .words = { "none: no such directory" } },
        { "export none --output a.onnx", .code = 3, .words = { "none: no such directory" } },
        { "evaluate --model-dir m --source a.en --reference a.de --tokenize zh", .code = 2,
          .words = { "--tokenize: no choice is called zh (allowed: 13a, none, char)" } },
        { "score", .code = 2,
          .words = { "score: give a file of references, and files of translations or standard "
                     "input" } },
        { "score a.de --width 18", .code = 2,
          .words = { "--width: 18 is out of range; allowed: 0 to 17" } },
        { "average", .code = 2, .words = { "--output is missing" } },
        { "average --output x", .code = 2,
          .words = { "average: no checkpoint is given; name the checkpoints to average" } },
        { "inspect", .code = 2, .words = { "name a checkpoint, or the directory of a run" } },
        { "list --experiment translation/tiny translation/base", .code = 2,
          .words = { "one experiment" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Right words for things that are not there. */
static void test_bad_usage__names(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { "train --experiment translation/tony --model-dir m", .code = 3,
          .words = { "no experiment is called translation/tony", "Nearest: translation/tiny",
                     "etude list" } },
        { "list translation/bass", .code = 3, .words = { "Nearest: translation/base" } },
        { "translate --model-dir none", .code = 3, .words = { "none: no such directory" } },
        { "translate --model-dir .", .code = 3,
          .words = { ".: not a run of etude", "params.yaml is missing" } },
        { "evaluate --model-dir m --source none.en --reference a.de", .code = 3,
          .words = { "none.en" } },
        { "score none.de", .code = 3, .words = { "none.de" } },
        { "average --output x none.safetensors", .code = 3, .words = { "none.safetensors" } },
        { "inspect none.safetensors", .code = 3, .words = { "none.safetensors" } },
        { "inspect .", .code = 3, .words = { ".: no checkpoint here" } },
        { "inspect a.en", .code = 3, .words = { "a.en: not a safetensors file" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Every command: help with an example, on standard output, exit code 0. */
static void test_bad_usage__help(void **state)
{
    (void)state;
    static const char *const commands[] = { "train",   "evaluate", "translate", "score",
                                            "average", "inspect",  "list" };
    static const char *const forms[] = { "%s --help", "%s -h", "help %s" };
    for (size_t i = 0; i < COUNT(commands); i++)
        for (size_t k = 0; k < COUNT(forms); k++) {
            char line[64], example[64];
            snprintf(line, sizeof line, forms[k], commands[i]);
            snprintf(example, sizeof example, "example:\n    etude %s ", commands[i]);
            bad_end end = bad_start(line, NULL, NULL);
            assert_int_equal(end.code, 0);
            assert_string_equal(end.err, "");
            bad_assert_says(line, end.out, example);
            bad_release(&end);
        }
    static const char *const general[] = { "--help", "-h", "help", "--version", "list" };
    for (size_t i = 0; i < COUNT(general); i++) {
        bad_end end = bad_start(general[i], NULL, NULL);
        assert_int_equal(end.code, 0);
        assert_string_equal(end.err, "");
        bad_assert_says(general[i], end.out, i < 3 ? "usage: etude" : i < 4 ? "etude " : "/tiny");
        bad_release(&end);
    }
}

/* A list shows a run's values: the experiment's, not the fields' defaults. */
static void test_bad_usage__list_values(void **state)
{
    (void)state;
    bad_end end = bad_start("list translation/tiny", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says("list", end.out, "task.model.embedding_width: 128 ");
    bad_assert_says("list", end.out, "trainer.train_steps: 6000 ");
    bad_assert_says("list", end.out, "task.sentencepiece_model_path: null ");
    bad_release(&end);
}

/* Model Garden's spellings, and orders and forms that people use. */
static void test_bad_usage__accepted(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { "train --experiment=translation/tiny --config_file=tiny.yaml --model_dir=m "
          "--params_override=trainer.train_steps=2,runtime.seed=4",
          .lines = -1, .made = "m" },
        { "train --model-dir 'm n/o' --config tiny.yaml", .lines = -1, .made = "m n" },
        { TRAIN "--params-override '{trainer: {train_steps: 1}, runtime: {seed: 3}}'", .lines = -1,
          .made = "m" },
        { TRAIN "--set 'task.train_data.source_path=[a.en, a.en]' "
                "--set 'task.train_data.target_path=[a.de, \"a.de\"]'",
          .lines = -1, .made = "m" },
        { TRAIN "--set trainer.train_steps=1e0", .lines = -1, .made = "m" },
        { TRAIN "--profile m/trace.json", .lines = -1, .made = "m" },
        { "score a.de --lowercase", .input = "a.de" },
        { "score --width=3 -- a.de", .input = "a.de" },
    };
    bad_run(cases, COUNT(cases));
}

/* Unknown kernels: one warning that lists the existing ones, and the command continues. */
static void test_bad_usage__isa(void **state)
{
    (void)state;
    setenv("ETUDE_ISA", "plain", 1);
    bad_end end = bad_start("score a.de", "a.de", NULL);
    assert_int_equal(end.code, 0);
    assert_string_equal(end.err, "");
    bad_release(&end);
    setenv("ETUDE_ISA", "sse\03317", 1);
    end = bad_start("score a.de", "a.de", NULL);
    unsetenv("ETUDE_ISA");
    assert_int_equal(end.code, 0);
    assert_int_equal(bad_count_lines(end.err), 1);
    bad_assert_says("score", end.err,
                    "warning: ETUDE_ISA=sse\\u001b17: this CPU has no such kernels; Etude uses");
    bad_assert_says("score", end.err, " (available: ");
    bad_assert_says("score", end.err, "plain)\n");
    bad_release(&end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_usage__commands),    cmocka_unit_test(test_bad_usage__options),
        cmocka_unit_test(test_bad_usage__names),       cmocka_unit_test(test_bad_usage__help),
        cmocka_unit_test(test_bad_usage__list_values), cmocka_unit_test(test_bad_usage__accepted),
        cmocka_unit_test(test_bad_usage__isa),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
