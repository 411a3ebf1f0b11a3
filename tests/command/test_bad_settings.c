/* Settings that are wrong, in a file or on the command line: exit code 3, found before anything
 * is made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
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
        { TRAIN "--set trainer.train_steps.x=1", .code = 3,
          .words = { "is a single setting, not a group; remove what follows it" } },
        { TRAIN "--set trainer=5", .code = 3, .words = { "trainer: a group of settings" } },
        { TRAIN "--set runtime.seed=2,trainer.stepz=1", .code = 3,
          .words = { "--set trainer.stepz: no such setting" } },
        { TRAIN "--set '{trainer: {stepz: 1}}'", .code = 3,
          .words = { "trainer.stepz", "train_steps" } },
        { TRAIN "--set '{trainer: '", .code = 3, .words = { "--set", "not YAML" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Settings of Model Garden that have no meaning here: only their defaults are accepted. */
static void test_bad_settings__only(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN "--set trainer.allow_tpu_summary=true", .code = 3,
          .words = { "--set trainer.allow_tpu_summary: only false is allowed here, not true: "
                     "Etude" } },
        { TRAIN "--set runtime.tpu=local", .code = 3,
          .words = { "runtime.tpu: local is not allowed here: Etude trains on the CPU" } },
        { TRAIN "--set runtime.num_gpus=1", .code = 3,
          .words = { "only 0 is allowed here, not 1" } },
        { TRAIN "--set runtime.num_gpus=-1", .code = 3,
          .words = { "not -1: Etude trains on the CPU" } },
        { TRAIN "--set runtime.all_reduce_alg=nccl", .code = 3,
          .words = { "all_reduce_alg: nccl is not allowed here: start ranks with" } },
        { TRAIN "--set runtime.worker_hosts=a:1", .code = 3,
          .words = { "runtime.worker_hosts: a:1 is not allowed here: " } },
        { TRAIN "--set runtime.run_eagerly=1", .code = 3, .words = { "only false" } },
        { TRAIN "--set runtime.distribution_strategy=tpu", .code = 3,
          .words = { "runtime.distribution_strategy: tpu is not supported: Etude trains on the "
                     "CPU" } },
        { TRAIN "--set runtime.distribution_strategy=parameter_server", .code = 3,
          .words = { "parameter_server is not" } },
        { TRAIN "--set runtime.distribution_strategy=multi_worker_mirrored", .code = 3,
          .words = { "multi_worker_mirrored is not" } },
        { TRAIN "--set runtime.distribution_strategy=mirored", .code = 3,
          .words = { "Nearest: mirrored" } },
        { TRAIN "--set runtime.distribution_strategy=false", .code = 3,
          .words = { "no choice is called false" } },
        { TRAIN "--set trainer.eval_tf_while_loop=true", .code = 3,
          .words = { "not true: true would omit" } },
        { TRAIN "--set trainer.train_tf_function=false", .code = 3, .words = { "only true" } },
        { TRAIN "--set trainer.validation_summary_subdir=eval", .code = 3,
          .words = { "only validation is allowed here, not eval" } },
        { TRAIN "--steps 20 --epochs 2", .code = 2,
          .words = { "--steps and --epochs: give only one of them" } },
        { TRAIN "--set trainer.validation_steps=0", .code = 3,
          .words = { "trainer.validation_steps: 0 batches measure nothing" } },
        { TRAIN "--set trainer.validation_steps=-2", .code = 3, .words = { "out of range" } },
        { TRAIN "--set task.train_data.enable_tf_data_service=true", .code = 3,
          .words = { "not true: there is no tf.data service" } },
        { TRAIN "--set task.name=mine", .code = 3, .words = { "a task is named by its kind" } },
        { TRAIN "--mode train_and_eval", .code = 3, .lines = -1,
          .words = { "--mode train_and_eval: the settings name no validation data" } },
        { TRAIN "--mode eval --profile p.json", .code = 2,
          .words = { "--profile: only for modes that train, not for --mode eval" } },
        { TRAIN "--mode eval", .code = 3, .words = { "m: no such directory" } },
        { TRAIN "--mode continuous_eval --set trainer.continuous_eval_timeout=0.3", .code = 3,
          .words = { "m: no checkpoint for 0.3 seconds (trainer.continuous_eval_timeout)" } },
    };
    bad_run(cases, COUNT(cases));
}

/* A file with each of Model Garden's fields of trainer and runtime, as it writes params.yaml. */
static void test_bad_settings__model_garden(void **state)
{
    (void)state;
    bad_write_text("garden.yaml",
                   "runtime:\n"
                   "  all_reduce_alg: null\n  batchnorm_spatial_persistent: false\n"
                   "  dataset_num_private_threads: null\n  default_shard_dim: -1\n"
                   "  distribution_strategy: one_device\n  enable_xla: false\n"
                   "  gpu_thread_mode: null\n  loss_scale: null\n  mixed_precision_dtype: null\n"
                   "  num_cores_per_replica: 1\n  num_gpus: 0\n  num_packs: 1\n"
                   "  per_gpu_thread_count: 0\n  run_eagerly: false\n  task_index: -1\n"
                   "  tpu: null\n  tpu_enable_xla_dynamic_padder: null\n"
                   "  use_tpu_mp_strategy: false\n  worker_hosts: null\n"
                   "trainer:\n"
                   "  allow_tpu_summary: false\n  best_checkpoint_eval_metric: ''\n"
                   "  best_checkpoint_export_subdir: ''\n  best_checkpoint_metric_comp: higher\n"
                   "  checkpoint_interval: 1000\n  continuous_eval_timeout: 3600\n"
                   "  eval_tf_function: true\n  eval_tf_while_loop: false\n  max_to_keep: 5\n"
                   "  preemption_on_demand_checkpoint: true\n  steps_per_loop: 1000\n"
                   "  summary_interval: 1000\n  train_steps: 1\n  train_tf_function: true\n"
                   "  train_tf_while_loop: true\n  validation_interval: 1000\n"
                   "  validation_steps: -1\n  validation_summary_subdir: validation\n"
                   "task:\n  name: null\n  print_translations: null\n  model: "
                   "{decode_max_length: null}\n  allow_image_summary: false\n"
                   "  train_data:\n    enable_tf_data_service: false\n"
                   "    tf_data_service_address: null\n    tf_data_service_job_name: null\n"
                   "    enable_shared_tf_data_service_between_parallel_trainers: false\n"
                   "    apply_tf_data_service_before_batching: false\n    trainer_id: null\n"
                   "    autotune_algorithm: null\n    ram_budget: null\n"
                   "    cycle_length: null\n    deterministic: null\n    seed: null\n"
                   "    prefetch_buffer_size: null\n    is_training: null\n");
    static const bad_case cases[] = {
        { TRAIN "--config garden.yaml --tpu= --tf_data_service '' --gin_file=", .lines = -1,
          .made = "m" },
        { TRAIN "--params_override garden.yaml --mode train --enable_async_checkpointing=false",
          .lines = -1, .made = "m" },
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
          .words = { "task.vocabulary.size: 5 is too small; choose at least 8, or 0" } },
        { TRAIN "--set task.vocabulary.character_coverage=0.5", .code = 3,
          .words = { "character_coverage: 0.5 is out of range; allowed: 0.98 to 1" } },
        { TRAIN SOURCE "'[\"\"]'", .code = 3,
          .words = { "task.train_data.source_path: path 1 of 1 is empty" } },
        { TRAIN SOURCE "'[a.en, \"\"]'", .code = 3,
          .words = { "task.train_data.source_path: path 2 of 2 is empty" } },
        { TRAIN "--set task.model.encoder.norm_first=maybe", .code = 3,
          .words = { "true or false" } },
        { TRAIN "--set runtime.mixed_precision_dtype=float16", .code = 3,
          .words = { "float16 is not allowed here: use bfloat16", "auto, float32, bfloat16" } },
        { TRAIN "--set runtime.mixed_precision_dtype=float61", .code = 3,
          .words = { "no choice is called float61", "Nearest: ", "auto, float32, bfloat16" } },
        { TRAIN "--set trainer.optimizer_config.optimizer.type=slide", .code = 3,
          .words = { "slide is not allowed here: Model Garden defines" } },
        { TRAIN "--set trainer.optimizer_config.optimizer.type=adafactor", .code = 3,
          .words = { "adafactor is not allowed here: ", "adafactor_keras" } },
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
          .words = { ".global_batch_size: 16 tokens are fewer than max_seq_length, 32" } },
        { TRAIN "--set task.train_data.tsv_path=a.en", .code = 3, .words = { "keep one" } },
        { TRAIN "--set task.train_data.target_path=", .code = 3, .words = { "train_data" } },
        { TRAIN "--set 'task.train_data.target_path=[a.de, a.de]'", .code = 3,
          .words = { "1 source_path files but 2 target_path files; give equal numbers" } },
        { "train --experiment translation/tiny --model-dir m", .code = 3,
          .words = { "task.train_data: no data; set source_path and target_path" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=bleu_score", .code = 3,
          .words = { "best_checkpoint_eval_metric: bleu_score needs validation" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=blue_score "
                "--set task.validation_data.source_path=two.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3,
          .words = { "validation has no value blue_score", "Nearest: bleu_score", "chrf_score" } },
        { TRAIN "--set trainer.best_checkpoint_eval_metric=bleu_score "
                "--set trainer.validation_interval=0 "
                "--set task.validation_data.source_path=two.en "
                "--set task.validation_data.target_path=two.de",
          .code = 3, .words = { "trainer.validation_interval is 0" } },
    };
    bad_run(cases, COUNT(cases));
}

#define DATA     " --set task.train_data."
#define NO_LINES "--set task.train_data.source_path=[] --set task.train_data.target_path=[] "

/* Which text: patterns, lists, records, mixes, and Model Garden's settings of input. */
static void test_bad_settings__input(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { TRAIN SOURCE "'none*.en'", .code = 3,
          .words = { "task.train_data.source_path: no file matches none*.en" } },
        { TRAIN SOURCE "a.en,", .code = 3,
          .words = { "source_path", "target_path files; give equal numbers" } },
        { TRAIN SOURCE "'?.en'" TARGET "'?.de,?.de'", .code = 3,
          .words = { "1 source_path files but 2 target_path files; give equal numbers" } },
        { TRAIN SOURCE "c.en", .code = 3, .words = { "cannot open c.en" } },
        { TRAIN DATA "input_path=a.en", .code = 3,
          .words = { "task.train_data: source_path and input_path are both set; keep one" } },
        { TRAIN NO_LINES DATA "input_path=a.en", .code = 3,
          .words = { "task.train_data: input_path needs src_lang and tgt_lang" } },
        { TRAIN NO_LINES DATA "input_path=a.en" DATA "src_lang=en" DATA "tgt_lang=en", .code = 3,
          .words = { "input_path needs src_lang and tgt_lang, the names of two" } },
        { TRAIN NO_LINES DATA "input_path=a.en" DATA "src_lang=en" DATA "tgt_lang=null", .code = 3,
          .words = { "input_path needs src_lang and tgt_lang" } },
        { TRAIN NO_LINES DATA "input_path=a.en" DATA "src_lang=en" DATA "tgt_lang=de", .code = 3,
          .words = { "a.en: record 1 at byte 0: the checksum of its length does not match" } },
        { TRAIN DATA "'mix={source_path: a.en, target_path: a.de}'", .code = 3,
          .words = { "mix and paths are both set" } },
        { TRAIN NO_LINES DATA "'mix=[{weight: 2}]'", .code = 3,
          .words = { "task.train_data.mix[0]: no text is given" } },
        { TRAIN NO_LINES DATA "'mix=[{tsv_path: a.en}, {source_path: a.en}]'", .code = 3,
          .words = { "task.train_data.mix[1]: 1 source_path files but 0 target_path files" } },
        { TRAIN NO_LINES DATA "'mix=[{tsv_path: a.en, weight: 0}]'", .code = 3,
          .words = { "task.train_data.mix[0].weight: 0 is out of range" } },
        { TRAIN NO_LINES DATA "'mix=[{tsv_path: a}, {tsv_path: a}, {tsv_path: a}, {tsv_path: a}, "
                              "{tsv_path: a}, {tsv_path: a}, {tsv_path: a}, {tsv_path: a}, "
                              "{tsv_path: a}]'",
          .code = 3, .words = { "task.train_data.mix: 9 texts; give at most 8" } },
        { TRAIN "--set 'task.validation_data.mix=[{tsv_path: a.en}]'", .code = 3,
          .words = { "task.validation_data.mix: a mix is only for training" } },
        { TRAIN DATA "is_training=false", .code = 3,
          .words = { "task.train_data.is_training: false, and the task learns from it" } },
        { TRAIN "--set task.validation_data.is_training=true", .code = 3,
          .words = { "task.validation_data.is_training: true, and it is scored" } },
        { TRAIN DATA "is_training=perhaps", .code = 3, .words = { "no choice is called perhaps" } },
        { TRAIN DATA "tfds_name=wmt14_translate/de-en", .code = 3,
          .words = { "task.train_data.tfds_name: wmt14_translate/de-en: Etude has no named" } },
        { TRAIN DATA "tfds_split=train", .code = 3,
          .words = { "tfds_split: train: Etude has no named" } },
        { TRAIN DATA "tfds_data_dir=d", .code = 3,
          .words = { "tfds_data_dir: d: Etude has no named" } },
        { TRAIN DATA "tfds_skip_decoding_feature=f", .code = 3, .words = { "Etude has no named" } },
        { TRAIN DATA "tfds_as_supervised=true", .code = 3,
          .words = { "tfds_as_supervised: Etude has no named data sets" } },
        { TRAIN DATA "block_length=0", .code = 3, .words = { "block_length: 0 is out of range" } },
        { TRAIN DATA "seed=-2", .code = 3, .words = { "seed: -2 is out of range" } },
    };
    bad_run(cases, COUNT(cases));
}

/* Every value that validation is documented to log is in metrics.jsonl by that name. */
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
    bad_assert_says(line, end.err, "* = new best chrf_score");
    bad_assert_says(line, end.err, "  *\n");
    bad_release(&end);
    char *metrics = bad_read("m/metrics.jsonl", NULL);
    for (size_t i = 0; i < COUNT(names); i++)
        bad_assert_says(line, metrics, names[i]);
    free(metrics);
    assert_int_equal(access("m/best/best-1.safetensors", F_OK), 0);
    bad_remove("m");
}

/* With validation data the best checkpoint is kept by default, and translate uses it. */
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
        TRAIN "--set trainer.train_steps=2 --set task.validation_data.source_path=two.en "
              "--set task.validation_data.target_path=two.de "
              "--set trainer.best_checkpoint_export_subdir=",
        TRAIN "--set trainer.train_steps=2 --set task.validation_data.source_path=two.en "
              "--set task.validation_data.target_path=two.de "
              "--set trainer.best_checkpoint_export_subdir=best_ckpt",
    };
    for (int i = 0; i < 4; i++) {
        end = bad_start(lines[i], NULL, NULL);
        if (end.code)
            fail_msg("etude %s\n    exit code %d: %s", lines[i], end.code, end.err);
        bad_release(&end);
        assert_int_equal(access("m/best/best-2.safetensors", F_OK), i % 3 ? -1 : 0);
        assert_int_equal(access("m/best_ckpt/info.json", F_OK), i < 3 ? -1 : 0);
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
          .words = { "best_checkpoint_metric_comp: lower needs a metric" } },
        { TRAIN "--set trainer.best_checkpoint_export_subdir=a/b", .code = 3,
          .words = { "\"a/b\" cannot be a link to the best checkpoint; give another name" } },
        { TRAIN "--set trainer.best_checkpoint_export_subdir=..", .code = 3,
          .words = { "\"..\"" } },
        { TRAIN "--set trainer.best_checkpoint_export_subdir=train", .code = 3,
          .words = { "\"train\"" } },
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

/* The experiment may be given only in the file, and anywhere in it. */
static void test_bad_settings__name_in_file(void **state)
{
    (void)state;
    bad_write_text("last.yaml", "trainer:\n  train_steps: 2\nexperiment: translation/tiny\n");
    bad_write_text("other.yaml", "experiment: translation/tony\n");
    static const bad_case cases[] = {
        { "train --model-dir m --config tiny.yaml --config last.yaml", .lines = -1, .made = "m" },
        { "train --model-dir m --config last.yaml --config tiny.yaml", .lines = -1, .made = "m" },
        { "train --model-dir m --config other.yaml", .code = 3,
          .words = { "no experiment is called translation/tony", "Nearest: translation/tiny" } },
    };
    bad_run(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_settings__keys),
        cmocka_unit_test(test_bad_settings__only),
        cmocka_unit_test(test_bad_settings__model_garden),
        cmocka_unit_test(test_bad_settings__values),
        cmocka_unit_test(test_bad_settings__together),
        cmocka_unit_test(test_bad_settings__input),
        cmocka_unit_test(test_bad_settings__metrics_exist),
        cmocka_unit_test(test_bad_settings__best_by_default),
        cmocka_unit_test(test_bad_settings__files),
        cmocka_unit_test(test_bad_settings__name_in_file),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
