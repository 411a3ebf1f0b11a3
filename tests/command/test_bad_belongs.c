/* Files next to a checkpoint that do not belong to it: another vocabulary, other settings, other
 * text; and files elsewhere that do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bad_case.h"
#include "base/arena.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "calls.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"

#define NEWEST    "run/checkpoints/ckpt-5.safetensors"
#define AGAIN     "train --model-dir run --set trainer.train_steps=8 "
#define TRANSLATE "translate --model-dir run --beam-size 1 --max-length 3 "
#define EVALUATE  "evaluate --model-dir run --beam-size 1 --source two.en --reference two.de"

/* A new run of five steps, and the original contents of its files. */
static char *vocabulary, *params;
static size_t vocabulary_length, params_length;

static int set_up_run(void **state)
{
    (void)state;
    bad_train("run", 5);
    vocabulary = bad_read("run/vocabulary.model", &vocabulary_length);
    params = bad_read("run/params.yaml", &params_length);
    return 0;
}

static int tear_down_run(void **state)
{
    (void)state;
    free(vocabulary);
    free(params);
    bad_remove("run");
    return 0;
}

/* Every command that reads the run refuses it in one line with these words, and changes
 * nothing. */
static void check_refused(const char *word, const char *other)
{
    const bad_case cases[] = {
        { TRANSLATE, .input = "two.en", .code = 3, .words = { NEWEST, word, other } },
        { TRANSLATE "--checkpoint " NEWEST, .input = "two.en", .code = 3,
          .words = { NEWEST, word, other } },
        { EVALUATE, .code = 3, .words = { NEWEST, word, other } },
        { "inspect run", .code = 3, .words = { NEWEST, word, other } },
        { "inspect --model-dir run", .code = 3, .words = { NEWEST, word, other } },
        { AGAIN, .code = 3, .words = { NEWEST, word, other } },
    };
    bad_run(cases, COUNT(cases));
}

/* But that so few steps end within the warm-up. */
static void check_no_warning(const char *err)
{
    for (const char *at = err; (at = strstr(at, "warning")) != NULL; at += strcspn(at, "\n"))
        if (!memmem(at, strcspn(at, "\n"), "warm-up", strlen("warm-up")))
            fail_msg("a warning: %s", at);
}

static void check_goes_on(const char *line)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: exit code %d: %s", line, end.code, end.err);
    bad_assert_says(line, end.err, "resuming     at step 5 of 8");
    check_no_warning(end.err);
    bad_release(&end);
}

/* A bit of a piece's score: 0x15 and a little-endian float of -2 to -8. */
static void test_bad_belongs__flipped_vocabulary(void **state)
{
    (void)state;
    size_t at = 100;
    while (at + 5 < vocabulary_length &&
           (vocabulary[at] != 0x15 || (unsigned char)vocabulary[at + 4] != 0xc0))
        at++;
    assert_true(at + 5 < vocabulary_length);
    char *flipped = malloc(vocabulary_length);
    assert_non_null(flipped);
    memcpy(flipped, vocabulary, vocabulary_length);
    flipped[at + 1] = (char)(flipped[at + 1] ^ 1);
    bad_write("run/vocabulary.model", flipped, vocabulary_length);
    check_refused("run/vocabulary.model", "restore the file");
    free(flipped);
}

/* The same sentences with other letters: a vocabulary of the same size. */
static void write_other_letters(const char *from, const char *to)
{
    size_t length;
    char *bytes = bad_read(from, &length);
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)(bytes[i] >= 'a' && bytes[i] <= 'z' ? 'z' - (bytes[i] - 'a') : bytes[i]);
    bad_write(to, bytes, length);
    free(bytes);
}

static void test_bad_belongs__vocabulary_of_another_run(void **state)
{
    (void)state;
    static const char line[] = TRAIN SOURCE "z.en" TARGET "z.de";
    write_other_letters("a.en", "z.en");
    write_other_letters("a.de", "z.de");
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    size_t length;
    char *other = bad_read("m/vocabulary.model", &length);
    bad_write("run/vocabulary.model", other, length);
    bad_remove("m");
    check_refused("run/vocabulary.model", "restore the file");
    /* Nor if it is given to a run that has lost its own. */
    bad_write("other.model", other, length);
    remove("run/vocabulary.model");
    static const bad_case given[] = {
        { AGAIN "--set task.sentencepiece_model_path=other.model", .code = 3,
          .words = { "other.model changed since " NEWEST } },
    };
    bad_run(given, 1);
    remove("other.model");
    free(other);
}

/* It is trained again from the same text, to the same bytes. */
static void test_bad_belongs__lost_vocabulary(void **state)
{
    (void)state;
    remove("run/vocabulary.model");
    check_goes_on(AGAIN);
    size_t length;
    char *again = bad_read("run/vocabulary.model", &length);
    assert_int_equal(length, vocabulary_length);
    assert_memory_equal(again, vocabulary, length);
    free(again);
}

/* Writes params.yaml with the first `from` after `after` replaced by `to`. */
static void change_params(const char *after, const char *from, const char *to)
{
    char *at = strstr(params, after);
    assert_non_null(at);
    at = strstr(at, from);
    assert_non_null(at);
    char *text = malloc(params_length + 64);
    assert_non_null(text);
    sprintf(text, "%.*s%s%s", (int)(at - params), params, to, at + strlen(from));
    bad_write_text("run/params.yaml", text);
    free(text);
}

/* Changed settings of the model are refused by all commands; those of training by commands that
 * train or inspect. */
static void test_bad_belongs__changed_settings(void **state)
{
    (void)state;
    change_params("encoder:", "num_attention_heads: 2", "num_attention_heads: 4");
    check_refused("task.model.encoder.num_attention_heads", "params.yaml");
    change_params("decoder:", "norm_epsilon: 1.0e-05", "norm_epsilon: 3.0e-05");
    check_refused("task.model.decoder.norm_epsilon", "3.0e-05");
    static const char *const training[][3] = {
        { "adam:", "beta_1: 0.9", "beta_1: 0.8" },
        { "inverse_sqrt:", "peak_learning_rate: 0.005", "peak_learning_rate: 0.007" },
        { "runtime:", "seed: 1", "seed: 3" },
        { "train_data:", "max_seq_length: 32", "max_seq_length: 31" },
    };
    static const bad_case refused[] = {
        { AGAIN, .code = 3, .words = { NEWEST, "run/params.yaml" } },
        { "inspect --model-dir run", .code = 3, .words = { NEWEST, "run/params.yaml" } },
        { TRANSLATE, .input = "two.en" },
    };
    for (size_t i = 0; i < COUNT(training); i++) {
        change_params(training[i][0], training[i][1], training[i][2]);
        bad_run(refused, COUNT(refused));
    }
}

/* The run's original settings repair its file. */
static void test_bad_belongs__mended_settings(void **state)
{
    (void)state;
    change_params("encoder:", "num_attention_heads: 2", "num_attention_heads: 4");
    check_goes_on("train --config tiny.yaml --model-dir run --set trainer.train_steps=8");
    char *mended = bad_read("run/params.yaml", NULL);
    assert_null(strstr(mended, "num_attention_heads: 4"));
    free(mended);
}

/* An average records its checkpoints, and averages of two kinds of models are refused. */
static void test_bad_belongs__average(void **state)
{
    (void)state;
    bad_end end = bad_start("average --output mean " NEWEST, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    static const char line[] = TRAIN "--set task.model.encoder.num_attention_heads=4";
    end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_release(&end);
    static const bad_case cases[] = {
        { TRANSLATE "--checkpoint mean", .input = "two.en" },
        { "translate --model-dir m --checkpoint mean", .input = "two.en", .code = 3,
          .words = { "m/params.yaml does not match mean", "num_attention_heads is 4" } },
        { "average --output both " NEWEST " m/checkpoints/ckpt-3.safetensors", .code = 3,
          .words = { NEWEST, "m/checkpoints/ckpt-3.safetensors",
                     "task.model.encoder.num_attention_heads is 2 and 4" } },
    };
    bad_run(cases, COUNT(cases));
    bad_remove("m");
    remove("mean");
}

/* ---- text ---- */

static void copy(const char *from, const char *to)
{
    size_t length;
    char *bytes = bad_read(from, &length);
    bad_write(to, bytes, length);
    free(bytes);
}

/* The same text under other names, from another folder, or by an absolute path. */
static void test_bad_belongs__moved_text(void **state)
{
    (void)state;
    assert_int_equal(mkdir("moved", 0755), 0);
    copy("a.en", "moved/b.en");
    copy("a.de", "moved/b.de");
    check_goes_on(AGAIN SOURCE "moved/b.en" TARGET "moved/b.de");
    char here[2048], line[8192];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(line, sizeof line,
             "train --model-dir run --set trainer.train_steps=11" SOURCE "'%s/a.en'" TARGET
             "'%s/a.de'",
             here, here);
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(line, end.err, "resuming     at step 8 of 11");
    bad_assert_says(line, end.err, "(cached)");
    bad_release(&end);
    bad_remove("moved");
}

/* And the cache of the run's own text stays. */
static void test_bad_belongs__other_text(void **state)
{
    (void)state;
    static const bad_case cases[] = {
        { AGAIN SOURCE "two.en" TARGET "two.de", .code = 3,
          .words = { "two.en: the run was trained on other text", "--init RUN" } },
        { AGAIN "--accept-changes" SOURCE "two.en" TARGET "two.de", .code = 3,
          .words = { "two.en: the run was trained on other text" } },
    };
    bad_run(cases, COUNT(cases));
    bad_end end = bad_start(AGAIN, NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says(AGAIN, end.err, "(cached)");
    bad_release(&end);
}

/* ---- another optimizer ---- */

/* Resumes with a change, with a message, and then resumes as a run of the new kind. */
static void check_accepted(const char *set, const char *says)
{
    char line[1024];
    snprintf(line, sizeof line, AGAIN "--set 'trainer.optimizer_config.%s'", set);
    bad_end end = bad_start(line, NULL, NULL);
    assert_int_equal(end.code, 3);
    bad_assert_says(line, end.err, "--accept-changes");
    bad_release(&end);
    strcat(line, " --accept-changes");
    end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: exit code %d: %s", line, end.code, end.err);
    bad_assert_says(line, end.err, "from now on; it was");
    bad_assert_says(line, end.err, says);
    bad_assert_says(line, end.err, "resuming     at step 5 of 8");
    bad_release(&end);
    static const char next[] = "train --model-dir run --set trainer.train_steps=11";
    end = bad_start(next, NULL, NULL);
    if (end.code)
        fail_msg("%s, then %s: exit code %d: %s", line, next, end.code, end.err);
    bad_assert_says(next, end.err, "resuming     at step 8 of 11");
    check_no_warning(end.err);
    bad_release(&end);
    bad_remove("run");
    bad_train("run", 5);
}

static void test_bad_belongs__other_optimizer(void **state)
{
    (void)state;
    check_accepted("optimizer.type=sgd",
                   "the next save drops values that this optimizer does not have: optimizer/m/");
    check_accepted("optimizer.type=adamw", "type is adamw");
    check_accepted("optimizer={type: sgd, sgd: {momentum: 0.9}}",
                   "the optimizer's moments start again from zero");
    check_accepted("ema.enabled=true", "the moving average starts again from the weights");
}

/* ---- runs of before ---- */

/* Writes the newest checkpoint again as versions did that kept no identity. */
static void take_identity_away(void)
{
    et_arena arena = ET_ARENA_INIT;
    et_safetensors *file;
    assert_ok(et_safetensors_open(&file, NEWEST, error));
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    et_value *tree;
    assert_ok(et_json_parse(&tree, &arena, text, strlen(text), NEWEST, error));
    et_value *rest = et_value_dict(&arena);
    for (const et_value *part = tree->first; part; part = part->next)
        if (strcmp(part->key, ET_IDENTITY))
            assert_ok(et_value_merge(et_value_set_dict(rest, part->key), part, error));
    et_strbuf state = ET_STRBUF_INIT;
    et_json_print(&state, rest, 0);
    size_t count = et_safetensors_count(file);
    et_safetensors_item *items = et_arena_array(&arena, count, sizeof *items);
    for (size_t i = 0; i < count; i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(file, i);
        void *data = et_arena_alloc(&arena, (size_t)tensor->bytes);
        memcpy(data, tensor->data, (size_t)tensor->bytes);
        items[i] = (et_safetensors_item){ tensor->name, { data, tensor->dtype, tensor->shape } };
    }
    et_file_writer writer;
    et_safetensors_written written;
    assert_ok(et_checkpoint_file_draft(&writer, &written, NEWEST, items, count, NULL, 5,
                                       et_strbuf_text(&state), error));
    assert_ok(et_file_writer_commit(&writer, error));
    et_strbuf_release(&state);
    et_safetensors_close(file);
    et_arena_release(&arena);
}

/* They open without a word, and their next checkpoint is tied. */
static void test_bad_belongs__run_of_before(void **state)
{
    (void)state;
    take_identity_away();
    static const bad_case reads[] = {
        { TRANSLATE, .input = "two.en" },
    };
    bad_run(reads, COUNT(reads));
    bad_end end = bad_start("inspect --model-dir run", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says("inspect", end.out, "not compared: params.yaml and vocabulary.model");
    bad_assert_says("inspect", end.out, "intact: " NEWEST);
    bad_release(&end);
    static const bad_case refused[] = {
        { AGAIN "--set task.model.embedding_width=32", .code = 3,
          .words = { "run belongs to a run with task.model.embedding_width: 16, but now it is "
                     "32" } },
    };
    bad_run(refused, COUNT(refused));
    check_goes_on(AGAIN);
    end = bad_start("inspect --model-dir run", NULL, NULL);
    assert_int_equal(end.code, 0);
    bad_assert_says("inspect", end.out, "as trained: run/params.yaml, run/vocabulary.model");
    bad_release(&end);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up_run, tear_down_run)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_bad_belongs__flipped_vocabulary),
        TEST(test_bad_belongs__vocabulary_of_another_run),
        TEST(test_bad_belongs__lost_vocabulary),
        TEST(test_bad_belongs__changed_settings),
        TEST(test_bad_belongs__mended_settings),
        TEST(test_bad_belongs__average),
        TEST(test_bad_belongs__moved_text),
        TEST(test_bad_belongs__other_text),
        TEST(test_bad_belongs__other_optimizer),
        TEST(test_bad_belongs__run_of_before),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
