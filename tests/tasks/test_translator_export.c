/* A translator in a directory, in one file, or in memory translates as the run does; an int8 file
 * translates as the run does in int8, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/etude.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/strbuf.h"
#include "engine/tensor/params.h"
#include "tasks/learnt_run.h"
#include "tasks/translation/decoding/translator_private.h"

enum { LINES = 6 };

static const char *const lines[LINES] = {
    "red dog runs", "blue cat", "tree house tree house red", "dog", "cat cat cat", "runs",
};

static int set_up(void **state)
{
    return learnt_run(state, 150, 150);
}

static et_translator *open_at(const char *path, const char *precision)
{
    et_error error = ET_ERROR_INIT;
    et_translator *t;
    const et_translator_options options = { .precision = precision };
    if (et_translator_open(&t, path, &options, &error))
        fail_msg("%s", error.text);
    return t;
}

/* Every text, and how likely it was found, to the bit. */
static void assert_same(et_translator *one, et_translator *other)
{
    et_error error = ET_ERROR_INIT;
    et_hypotheses *left, *right;
    assert_int_equal(et_translator_search(one, lines, LINES, &left, &error), ET_OK);
    assert_int_equal(et_translator_search(other, lines, LINES, &right, &error), ET_OK);
    for (size_t i = 0; i < LINES; i++) {
        const et_hypothesis *a = et_hypotheses_at(left, i, 0), *b = et_hypotheses_at(right, i, 0);
        assert_string_equal(a->text, b->text);
        assert_memory_equal(&a->log_probability, &b->log_probability, sizeof(double));
    }
    et_hypotheses_free(left);
    et_hypotheses_free(right);
}

static void export_to(const char *path, const char *precision)
{
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_at("run", NULL);
    const et_export_options options = { .precision = precision };
    if (et_translator_export(t, path, &options, &error))
        fail_msg("%s", error.text);
    et_translator_close(t);
}

/* An export translates by itself, with the same words; an existing run or export is not
 * overwritten. */
static void test_export__directory(void **state)
{
    (void)state;
    char *wanted[LINES], *results[LINES];
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_at("run", NULL), *alone;
    assert_int_equal(et_translator_translate(t, lines, LINES, wanted, &error), ET_OK);
    assert_int_equal(et_translator_export(t, "alone", NULL, &error), ET_OK);
    assert_int_equal(et_translator_export(t, "alone", NULL, &error), ET_ECONFIG);
    assert_non_null(
        strstr(error.text, "params.yaml exists: choose another directory, or remove it"));
    assert_int_equal(et_translator_export(t, "run", NULL, &error), ET_ECONFIG);
    assert_int_equal(et_translator_export(t, "", NULL, &error), ET_ECONFIG);
    et_translator_close(t);
    char *files = bad_list("alone");
    assert_string_equal(files, "model.safetensors params.yaml vocabulary.model");
    free(files);
    if (et_translator_open(&alone, "alone", NULL, &error))
        fail_msg("%s", error.text);
    assert_string_equal(et_translator_checkpoint(alone), "alone/model.safetensors");
    assert_int_equal(et_translator_step(alone), 150);
    if (et_translator_translate(alone, lines, LINES, results, &error))
        fail_msg("%s", error.text);
    for (size_t i = 0; i < LINES; i++)
        assert_string_equal(results[i], wanted[i]);
    et_translator_free_results(results, LINES);
    et_translator_free_results(wanted, LINES);
    et_translator_close(alone);
    /* damaged weights are reported, not treated as missing */
    size_t length;
    char *bytes = bad_read("alone/model.safetensors", &length);
    bytes[length - 1] ^= 1;
    bad_write("alone/model.safetensors", bytes, length);
    free(bytes);
    assert_int_equal(et_translator_open(&alone, "alone", NULL, &error), ET_EFORMAT);
    bad_remove("alone/model.safetensors");
    assert_int_equal(et_translator_open(&alone, "alone", NULL, &error), ET_ENOTFOUND);
    assert_non_null(strstr(error.text, "alone: no checkpoint yet"));
}

static void test_export__one_file(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    size_t length;
    export_to("one.safetensors", NULL);
    et_translator *run = open_at("run", NULL), *file = open_at("one.safetensors", NULL), *memory;
    assert_string_equal(et_translator_checkpoint(file), "one.safetensors");
    assert_int_equal(et_translator_step(file), 150);
    assert_same(run, file);
    char *bytes = bad_read("one.safetensors", &length);
    if (et_translator_open_memory(&memory, bytes, length, NULL, &error))
        fail_msg("%s", error.text);
    memset(bytes, 0, length); /* borrowed only for the call */
    free(bytes);
    assert_same(run, memory);
    assert_true(et_params_mapped(run->params) && et_params_mapped(file->params) &&
                !et_params_mapped(memory->params));
    /* a translator opened from memory can be exported too */
    assert_int_equal(et_translator_export(memory, "two.safetensors", NULL, &error), ET_OK);
    size_t other;
    char *first = bad_read("one.safetensors", &length),
         *second = bad_read("two.safetensors", &other);
    assert_int_equal(length, other);
    assert_memory_equal(first, second, length);
    free(first);
    free(second);
    et_translator_close(memory);
    et_translator_close(file);
    et_translator_close(run);
}

/* A vocabulary for each side: both are in the file, also if a translator that shares weights
 * exports it. */
static void test_export__sides(void **state)
{
    (void)state;
    static const char *const names[] = { "source_vocabulary.model", "target_vocabulary.model" };
    et_error error = ET_ERROR_INIT;
    size_t length, other;
    bad_end end = bad_start("train --config tiny.yaml --model-dir sides --separate-vocabularies "
                            "--vocab-size auto --steps 40 "
                            "--set trainer.optimizer_config.learning_rate.inverse_sqrt"
                            ".warmup_steps=20",
                            NULL, NULL);
    if (end.code)
        fail_msg("%s", end.err);
    bad_release(&end);
    et_translator *run = open_at("sides", NULL), *memory, *shared, *damaged;
    assert_int_equal(et_translator_export(run, "sides.safetensors", NULL, &error), ET_OK);
    char *bytes = bad_read("sides.safetensors", &length);
    if (et_translator_open_memory(&memory, bytes, length, NULL, &error))
        fail_msg("%s", error.text);
    assert_same(run, memory);
    const et_translator_options shares = { .shares = memory };
    if (et_translator_open(&shared, NULL, &shares, &error))
        fail_msg("%s", error.text);
    assert_same(run, shared);
    assert_int_equal(et_translator_export(shared, "again.safetensors", NULL, &error), ET_OK);
    char *again = bad_read("again.safetensors", &other);
    assert_int_equal(length, other);
    assert_memory_equal(bytes, again, length);
    free(again);
    for (size_t i = 0; i < COUNT(names); i++) {
        char path[64];
        size_t size;
        snprintf(path, sizeof path, "sides/%s", names[i]);
        char *model = bad_read(path, &size), *at = memmem(bytes, length, model, size);
        assert_non_null(at);
        at[size / 2] = (char)(at[size / 2] ^ 16);
        assert_int_equal(et_translator_open_memory(&damaged, bytes, length, NULL, &error),
                         ET_EFORMAT);
        assert_non_null(strstr(error.text, names[i]));
        at[size / 2] = (char)(at[size / 2] ^ 16);
        free(model);
    }
    free(bytes);
    et_translator_close(shared);
    et_translator_close(memory);
    et_translator_close(run);
}

/* A run of our own, whose model transformers can be, exported and imported again, is the same
 * model; biases that it does not have are zeros. */
static void train(const char *line)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s", end.err);
    bad_release(&end);
}

/* The same words, about as likely: the bias of the output is added to logits there. */
static void assert_alike(et_translator *one, et_translator *other)
{
    et_error error = ET_ERROR_INIT;
    et_hypotheses *left, *right;
    assert_int_equal(et_translator_search(one, lines, LINES, &left, &error), ET_OK);
    assert_int_equal(et_translator_search(other, lines, LINES, &right, &error), ET_OK);
    for (size_t i = 0; i < LINES; i++) {
        const et_hypothesis *a = et_hypotheses_at(left, i, 0), *b = et_hypotheses_at(right, i, 0);
        assert_string_equal(a->text, b->text);
        assert_true(fabs(a->log_probability - b->log_probability) < 1e-5 * a->tokens);
    }
    et_hypotheses_free(left);
    et_hypotheses_free(right);
}

/* With more settings, in the directory `post`. */
static et_translator *train_post(const char *settings)
{
    char line[1000];
    snprintf(
        line, sizeof line,
        "train --config tiny.yaml --model-dir post --steps 40 --set '{task: {model: "
        "{length_penalty: length, encoder: {norm_first: false, final_norm: false, "
        "norm_epsilon: 1e-5}, decoder: {norm_first: false, final_norm: false, norm_epsilon: "
        "1e-5}}}}' --set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=20%s",
        settings);
    train(line);
    return open_at("post", NULL);
}

static void test_export__huggingface(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    const et_export_options options = { .format = "huggingface" };
    et_translator *run = train_post("");
    if (et_translator_export(run, "hf", &options, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_translator_export(run, "hf", &options, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "config.json exists"));
    train("import hf --output again");
    et_translator *again = open_at("again", NULL);
    assert_alike(run, again);
    et_translator_close(again);
    et_translator_close(run);
}

/* A vocabulary without a pad token: targets begin with its token BOS, which pads there. */
static void test_export__huggingface_without_pad(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    const et_export_options options = { .format = "huggingface" };
    static const char bos[] = "\x12\x08\xf2\x02\x05<bos>"; /* bos_piece of a trainer_spec */
    et_strbuf text = ET_STRBUF_INIT;
    size_t length;
    char *model = bad_read("run/vocabulary.model", &length), *pad;
    while ((pad = memmem(model, length, "<pad>", 5)) != NULL)
        memcpy(pad, "<bos>", 5);
    et_strbuf_append_bytes(&text, model, length);
    et_strbuf_append(&text, bos);
    bad_write("unpadded.model", text.data, text.length);
    et_strbuf_release(&text);
    free(model);
    bad_remove("post");
    et_translator *run = train_post(" --set task.sentencepiece_model_path=unpadded.model");
    if (et_translator_export(run, "unpadded", &options, &error))
        fail_msg("%s", error.text);
    train("import unpadded --output unpadded_again");
    et_translator *again = open_at("unpadded_again", NULL);
    assert_alike(run, again);
    et_translator_close(again);
    et_translator_close(run);
}

static void test_export__huggingface_refuses(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    const et_export_options options = { .format = "huggingface" };
    train("train --config tiny.yaml --model-dir pre --steps 1 --set "
          "task.model.encoder.norm_first=true");
    et_translator *run = open_at("pre", NULL);
    assert_int_equal(et_translator_export(run, "none", &options, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "task.model.encoder.norm_first is true, but MarianMT of "
                                       "transformers needs false"));
    et_translator_close(run);
    const et_export_options other = { .format = "marionette" };
    run = open_at("run", NULL);
    assert_int_equal(et_translator_export(run, "none", &other, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "huggingface"));
    et_translator_close(run);
}

static void test_export__int8(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    export_to("small.safetensors", "int8");
    et_translator *run = open_at("run", "int8"), *file = open_at("small.safetensors", NULL);
    et_translator *said = open_at("small.safetensors", "int8"), *other;
    assert_same(run, file);
    assert_same(run, said);
    assert_true(et_params_mapped(run->params) && !et_params_mapped(file->params));
    et_translator *wide = open_at("small.safetensors", "float32");
    et_translator_close(wide);
    /* One store holds one kind of weights. */
    const et_translator_options shares[] = { { .shares = run, .precision = "float32" },
                                             { .shares = run },
                                             { .shares = run, .precision = "int8" } };
    for (size_t i = 0; i < COUNT(shares); i++) {
        const int status = et_translator_open(&other, NULL, &shares[i], &error);
        assert_int_equal(status, i ? ET_OK : ET_ECONFIG);
        if (other)
            assert_same(run, other);
        else
            assert_non_null(
                strstr(error.text,
                       "precision int8: all translators that share weights must use it, or none"));
        et_translator_close(other);
    }
    et_translator_close(said);
    et_translator_close(file);
    et_translator_close(run);
}

/* Matrices have a half or a quarter of their size. */
static void test_export__sizes(void **state)
{
    (void)state;
    size_t whole, half, quarter;
    export_to("one.safetensors", "float32");
    export_to("half.safetensors", "bfloat16");
    export_to("small.safetensors", "int8");
    free(bad_read("one.safetensors", &whole));
    free(bad_read("half.safetensors", &half));
    free(bad_read("small.safetensors", &quarter));
    et_translator *t = open_at("half.safetensors", NULL);
    et_translator_close(t);
    assert_true(whole - half > (whole - quarter) / 2);
    assert_in_range((whole - quarter) * 100 / (whole - half), 140, 152);
}

/* The bytes of a malicious file: refused, wherever a bit is wrong. */
static void test_export__damaged(void **state)
{
    (void)state;
    et_translator *t;
    size_t length;
    export_to("one.safetensors", NULL);
    char *bytes = bad_read("one.safetensors", &length);
    for (size_t i = 0; i < length; i += 1 + length / 211) {
        bytes[i] ^= 4;
        assert_int_not_equal(et_translator_open_memory(&t, bytes, length, NULL, NULL), ET_OK);
        assert_null(t);
        bytes[i] ^= 4;
        assert_int_not_equal(et_translator_open_memory(&t, bytes, i, NULL, NULL), ET_OK);
        assert_null(t);
    }
    free(bytes);
}

static void test_export__command(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        int code;
        const char *err; /* a part of standard error */
    } cases[] = {
        { "export run --output a.safetensors", 0, "exported run/checkpoints/ckpt-150" },
        { "export run --output a.safetensors --precision int8", 0, "step 150: a.safetensors" },
        { "translate a.safetensors", 0, "" },
        { "translate --model-dir a.safetensors --precision float32", 0, "" },
        { "evaluate a.safetensors --source two.en --reference two.de", 0, "" },
        { "inspect a.safetensors", 0, "" },
        { "inspect --model-dir a.safetensors", 0, "" },
        { "evaluate a.safetensors", 3,
          "(use --set to name other data): translation has no validation data" },
        { "evaluate a.safetensors --set task.validation_data.source_path=two.en --set "
          "task.validation_data.target_path=two.de",
          0, "" },
        { "export a.safetensors --output b.safetensors", 0, "exported a.safetensors" },
        { "export run --output b", 0, "" },
        { "translate b", 0, "" },
        { "export run --output b", 3,
          "b/params.yaml exists: choose another directory, or remove it" },
        { "export run --output c --precision int8", 3, "give a name that ends in .safetensors" },
        { "export run --output c.safetensors --precision int4", 2, "allowed: float32, bfloat16" },
        { "export a.safetensors --output a.safetensors", 3, "are the same file" },
        { "export run --output run/checkpoints/c.safetensors", 3, "is a file that a run writes" },
        { "export run --output none/c.safetensors", 3, "none/c.safetensors" },
        { "export a.safetensors --output o --format onnx", 0, "" },
        { "export run --output o --format onnx", 3,
          "o/config.json exists: choose another directory, or remove it" },
        { "export run --output c --format ctranslate2", 0, "" },
        { "export run --output p --format onnx --precision int8", 3, "only written in float32" },
        { "export run --output p --format pickle", 2, "allowed: onnx, ctranslate2" },
        { "export run", 2, "--output is missing; name the file or directory to write" },
        { "translate run/checkpoints/ckpt-150.safetensors", 3,
          "has only weights, not a whole model; name the run's directory (and this file with "
          "--checkpoint), or a file that `etude export` wrote" },
        { "translate a.en", 3, "is neither the directory of a run nor an exported model" },
        { "translate a.safetensors --checkpoint best", 3, "leave out checkpoint best" },
        { "translate none.safetensors", 3, "none.safetensors: no such directory" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        bad_end end = bad_start(cases[i].line, "two.en", NULL);
        if (!strstr(end.err, cases[i].err) || end.code != cases[i].code)
            fail_msg("%s: %d\n%s\n%s", cases[i].line, end.code, end.out, end.err);
        bad_release(&end);
    }
}

static bool has(const char *bytes, size_t length, const char *text)
{
    const size_t all = strlen(text);
    for (size_t i = 0; i + all <= length; i++)
        if (!memcmp(bytes + i, text, all))
            return true;
    return false;
}

/* The names that Optimum looks for; engine.onnx.test_exports runs the files, where ONNX Runtime is.
 */
static void test_export__onnx_names(void **state)
{
    (void)state;
    static const struct {
        const char *file, *name;
        bool there;
    } cases[] = {
        { "encoder_model.onnx", "last_hidden_state", true },
        { "decoder_model.onnx", "encoder_hidden_states", true },
        { "decoder_model.onnx", "past_key_values", false },
        { "decoder_model.onnx", "present.0.decoder.key", true },
        { "decoder_model.onnx", "present.0.encoder.value", true },
        { "decoder_with_past_model.onnx", "encoder_attention_mask", true },
        { "decoder_with_past_model.onnx", "encoder_hidden_states", false },
        { "decoder_with_past_model.onnx", "past_key_values.0.decoder.value", true },
        { "decoder_with_past_model.onnx", "past_key_values.0.encoder.key", true },
        { "decoder_with_past_model.onnx", "present.0.decoder.value", true },
        { "decoder_with_past_model.onnx", "present.0.encoder", false },
        /* The encoder's keys and values are read, and not computed again. */
        { "decoder_with_past_model.onnx", "cross_attention/key_value/weight", false },
        { "config.json", "\"use_cache\": true", true },
    };
    et_error error = ET_ERROR_INIT;
    et_translator *t = open_at("run", NULL);
    const et_export_options options = { .format = "onnx" };
    if (et_translator_export(t, "names", &options, &error))
        fail_msg("%s", error.text);
    et_translator_close(t);
    for (size_t i = 0; i < COUNT(cases); i++) {
        size_t length;
        char path[64];
        snprintf(path, sizeof path, "names/%s", cases[i].file);
        char *bytes = bad_read(path, &length);
        if (has(bytes, length, cases[i].name) != cases[i].there)
            fail_msg("%s: %s", path, cases[i].name);
        free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export__directory),
        cmocka_unit_test(test_export__one_file),
        cmocka_unit_test(test_export__sides),
        cmocka_unit_test(test_export__int8),
        cmocka_unit_test(test_export__sizes),
        cmocka_unit_test(test_export__damaged),
        cmocka_unit_test(test_export__command),
        cmocka_unit_test(test_export__onnx_names),
        cmocka_unit_test(test_export__huggingface),
        cmocka_unit_test(test_export__huggingface_without_pad),
        cmocka_unit_test(test_export__huggingface_refuses),
    };
    return cmocka_run_group_tests(tests, set_up, bad_tear_down);
}
