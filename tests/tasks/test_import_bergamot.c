/* Models of Bergamot and Firefox: a folder becomes a run with the values of its bytes; every form
 * of the folder; the shortlist; settings and files that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tasks/import_samples.h"

#include <etude/hypotheses.h>
#include <etude/model_export.h>
#include <etude/translator.h>

#include <zlib.h>

#include "formats/safetensors/safetensors.h"
#include "tasks/bergamot_folder.h"
#include "tasks/translation/decoding/translator_private.h"
#include "train/checkpoint/run_names.h"

static int import_bergamot(void **state, et_error *failure)
{
    et_import *from;
    remove(in(state, "model.safetensors"));
    int status = et_import_open(&from, in(state, "bergamot/"), failure);
    if (!status)
        status = et_import_write(from, in(state, "model.safetensors"), failure);
    et_import_close(from);
    return status;
}

static void translate_with(void **state, const char *model, const et_translator_options *options,
                           char *results[SENTENCES])
{
    et_translator *t;
    assert_ok(et_translator_open(&t, in(state, model), options, error));
    assert_ok(et_translator_translate(t, sources, SENTENCES, results, error));
    et_translator_close(t);
}

static void translate(void **state, const et_translator_options *options, char *results[SENTENCES])
{
    translate_with(state, "model.safetensors", options, results);
}

static const float *values_named(const char *name)
{
    for (int i = 0; i < bergamot_count; i++)
        if (!strcmp(bergamot_items[i].name, name))
            return bergamot_items[i].values;
    fail_msg("no item %s", name);
    return NULL;
}

/* Columns first, first + 1, ... of a parameter are those of an item [rows, columns]; rows 0: one
 * dimension. */
static void check_parameter(const et_safetensors *file, const char *parameter, int first,
                            const char *item, int rows, int columns)
{
    const et_safetensors_tensor *t = et_safetensors_find(file, parameter);
    if (!t)
        fail_msg("no parameter %s", parameter);
    const float *is = t->data, *expected = values_named(item);
    const int64_t width = t->shape.size[t->shape.rank - 1];
    for (int r = 0; r < (rows ? rows : 1); r++)
        for (int c = 0; c < columns; c++)
            assert_true(is[r * width + first + c] == expected[r * columns + c]);
}

/* By name and place. The row of the token that begins a target is zeros. */
static void check_parameters(void **state)
{
    static const float zeros[WIDTH];
    et_safetensors *file;
    assert_ok(et_safetensors_open(&file, in(state, "model.safetensors"), error));
    check_parameter(file, "embedding/table", 0, "Wemb", PIECES, WIDTH);
    const et_safetensors_tensor *table = et_safetensors_find(file, "embedding/table");
    assert_int_equal(table->shape.size[0], PIECES + 1);
    assert_memory_equal((const float *)table->data + PIECES * WIDTH, zeros, sizeof zeros);
    check_parameter(file, "embedding/bias", 0, "decoder_ff_logit_out_b", 0, PIECES);
    check_parameter(file, "encoder/layer_0/self_attention/qkv/weight", WIDTH, "encoder_l1_self_Wk",
                    WIDTH, WIDTH);
    check_parameter(file, "encoder/layer_0/feed_forward/in/weight", 0, "encoder_l1_ffn_W1", WIDTH,
                    INNER);
    check_parameter(file, "decoder/layer_0/ssru/input/weight", 0, "decoder_l1_rnn_W", WIDTH, WIDTH);
    check_parameter(file, "decoder/layer_1/ssru/gate/weight", 0, "decoder_l2_rnn_Wf", WIDTH, WIDTH);
    check_parameter(file, "decoder/layer_1/ssru/gate/bias", 0, "decoder_l2_rnn_bf", 0, WIDTH);
    check_parameter(file, "decoder/layer_0/ssru/norm/scale", 0, "decoder_l1_rnn_ffn_ln_scale", 0,
                    WIDTH);
    check_parameter(file, "decoder/layer_0/ssru/norm/offset", 0, "decoder_l1_rnn_ffn_ln_bias", 0,
                    WIDTH);
    check_parameter(file, "decoder/layer_1/cross_attention/key_value/weight", WIDTH,
                    "decoder_l2_context_Wv", WIDTH, WIDTH);
    assert_null(et_safetensors_find(file, "decoder/layer_0/ssru/input/bias"));
    assert_null(et_safetensors_find(file, "decoder/layer_0/self_attention/qkv/weight"));
    et_safetensors_close(file);
}

static void assert_equal_results(char *a[SENTENCES], char *b[SENTENCES])
{
    for (int i = 0; i < SENTENCES; i++)
        assert_string_equal(a[i], b[i]);
    et_translator_free_results(b, SENTENCES);
}

/* Bytes and float32 of the same values are the same model. */
static void test_import_bergamot__values(void **state)
{
    char *wide[SENTENCES], *narrow[SENTENCES];
    write_bergamot(state, bergamot_settings, true);
    assert_ok(import_bergamot(state, error));
    check_parameters(state);
    translate(state, NULL, wide);
    write_bergamot(state, bergamot_settings, false);
    assert_ok(import_bergamot(state, error));
    check_parameters(state);
    translate(state, NULL, narrow);
    assert_true(strlen(wide[0]) > 0);
    assert_equal_results(wide, narrow);
    et_translator_free_results(wide, SENTENCES);
}

/* ---- the shortlist ---- */

static bool gives_none(int s, int t)
{
    (void)s, (void)t;
    return false;
}

static bool gives_every(int s, int t)
{
    (void)s, (void)t;
    return true;
}

static void put_lexicon(void **state, uint64_t first, sample_gives_fn *gives)
{
    size_t length;
    char *lexicon = make_lexicon(first, PIECES, PIECES, gives, &length);
    put_file(bergamot(state, "lex.50.50.xxyy.s2t.bin"), lexicon, length);
    et_free(lexicon);
}

/* Of all tokens it changes nothing; of the first ones, translations have only these. An export
 * keeps it. */
static void test_import_bergamot__shortlist(void **state)
{
    char *all[SENTENCES], *listed[SENTENCES];
    const et_translator_options off = { .no_shortlist = true };
    et_translator *t;
    write_bergamot(state, bergamot_settings, false);
    put_lexicon(state, 5, gives_every);
    assert_ok(import_bergamot(state, error));
    translate(state, &off, all);
    translate(state, NULL, listed);
    assert_equal_results(all, listed);
    put_lexicon(state, 8, gives_none);
    assert_ok(import_bergamot(state, error));
    for (int again = 0; again < 2; again++) {
        translate(state, &off, listed);
        assert_equal_results(all, listed);
        translate(state, NULL, listed);
        for (int i = 0; i < SENTENCES; i++) /* </s>, the blank, a, b and half of c */
            assert_int_equal(strspn(listed[i], "abc "), strlen(listed[i]));
        et_translator_free_results(listed, SENTENCES);
        assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
        assert_ok(et_translator_export(t, in(state, "again.safetensors"), NULL, error));
        et_translator_close(t);
        assert_int_equal(rename(in(state, "again.safetensors"), in(state, "model.safetensors")), 0);
    }
    et_translator_free_results(all, SENTENCES);
}

/* All precisions run, and give nearly the same. */
static void test_import_bergamot__precisions(void **state)
{
    static const char *const precisions[] = { "float32", "bfloat16", "int8" };
    write_bergamot(state, bergamot_settings, false);
    assert_ok(import_bergamot(state, error));
    double first = 0;
    for (size_t p = 0; p < 3; p++) {
        et_translator *t;
        et_hypotheses *found;
        const et_translator_options options = { .precision = precisions[p] };
        assert_ok(et_translator_open(&t, in(state, "model.safetensors"), &options, error));
        assert_ok(et_translator_score(t, sources, targets, SENTENCES, &found, error));
        const double score = et_hypotheses_at(found, 1, 0)->log_probability;
        first = p ? first : score;
        assert_true(fabs(score - first) < 0.05 * fabs(first));
        et_hypotheses_free(found);
        char *results[SENTENCES];
        assert_ok(et_translator_translate(t, sources, SENTENCES, results, error));
        et_translator_free_results(results, SENTENCES);
        et_translator_close(t);
    }
}

/* ---- forms of the folder ---- */

static void pack(void **state, const char *name)
{
    size_t length;
    char packed[800], *whole = get_file(bergamot(state, name), &length);
    snprintf(packed, sizeof packed, "%s.gz", bergamot(state, name));
    gzFile file = gzopen(packed, "wb");
    assert_int_equal(gzwrite(file, whole, (unsigned)length), length);
    assert_int_equal(gzclose(file), Z_OK);
    remove(bergamot(state, name));
    free(whole);
}

static void move(void **state, const char *from, const char *to)
{
    assert_int_equal(rename(bergamot(state, from), bergamot(state, to)), 0);
}

/* Packed; without settings, as Firefox has them; a vocabulary a side; without a shortlist. */
static void test_import_bergamot__forms(void **state)
{
    char *expected[SENTENCES], *results[SENTENCES];
    write_bergamot(state, bergamot_settings, false);
    replace_in(bergamot(state, "config.intgemm8bitalpha.yml"), "factor: 2.5", "factor: 2");
    assert_true(et_import_is_folder(in(state, "bergamot")));
    assert_ok(import_bergamot(state, error));
    translate(state, NULL, expected);
    for (int form = 0; form < 4; form++) {
        write_bergamot(state, bergamot_settings, false);
        replace_in(bergamot(state, "config.intgemm8bitalpha.yml"), "factor: 2.5", "factor: 2");
        if (form >= 1)
            remove(bergamot(state, "config.intgemm8bitalpha.yml"));
        if (form == 2) {
            size_t length;
            char *whole = get_file(bergamot(state, "vocab.xxyy.spm"), &length);
            put_file(bergamot(state, "trgvocab.xxyy.spm"), whole, length);
            free(whole);
            move(state, "vocab.xxyy.spm", "srcvocab.xxyy.spm");
        }
        if (form == 3)
            move(state, "model.xxyy.intgemm.alphas.bin", "model.bin");
        if (form % 2 == 0) {
            pack(state, form ? "srcvocab.xxyy.spm" : "vocab.xxyy.spm");
            pack(state, "model.xxyy.intgemm.alphas.bin");
            pack(state, "lex.50.50.xxyy.s2t.bin");
        }
        assert_true(et_import_is_folder(in(state, "bergamot")));
        assert_ok(import_bergamot(state, error));
        translate(state, NULL, results);
        assert_equal_results(expected, results);
        translate_with(state, "bergamot/", NULL, results);
        assert_equal_results(expected, results);
    }
    et_translator_free_results(expected, SENTENCES);
    remove(bergamot(state, "lex.50.50.xxyy.s2t.bin"));
    assert_ok(import_bergamot(state, error));
    translate(state, NULL, results);
    translate(state, &(et_translator_options){ .no_shortlist = true }, expected);
    assert_equal_results(expected, results);
    et_translator_free_results(expected, SENTENCES);
}

/* The factor limits translations, and a Marian export has it; a call's own limit counts more.
 * Without settings the factor is Firefox's, and without the field source length + 50 is the limit.
 */
static void test_import_bergamot__length_factor(void **state)
{
    static const struct {
        const char *put;
        double factor;
    } cases[] = {
        { "max-length-factor: 0.5", 0.5 }, { "max-length-factor: 3", 3 },
        { "skip-cost: true", 0 },          { NULL, 2 },
        { "max-length-factor: ~", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_translator *t;
        et_hypotheses *found;
        size_t length;
        const et_translator_options own = { .max_length = 40 };
        write_bergamot(state, bergamot_settings, false);
        if (cases[i].put)
            replace_in(bergamot(state, "config.intgemm8bitalpha.yml"), "max-length-factor: 2.5",
                       cases[i].put);
        else
            remove(bergamot(state, "config.intgemm8bitalpha.yml"));
        assert_ok(import_bergamot(state, error));
        assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
        assert_true(et_translator_decoder_options(t).length_factor == cases[i].factor);
        et_translator_close(t);
        if (cases[i].factor != 0.5)
            continue;
        for (int forty = 0; forty < 2; forty++) {
            assert_ok(
                et_translator_open(&t, in(state, "model.safetensors"), forty ? &own : NULL, error));
            assert_ok(et_translator_search(t, &sources[3], 1, &found, error)); /* 8 + 1 tokens */
            const int tokens = et_hypotheses_at(found, 0, 0)->tokens;
            assert_true(forty ? tokens > 5 : tokens == 5);
            et_hypotheses_free(found);
            if (!forty) {
                const et_export_options marian = { .format = "marian" };
                assert_ok(et_translator_export(t, in(state, "released"), &marian, error));
                char *text = get_file(in(state, "released/decoder.yml"), &length);
                assert_non_null(strstr(text, "\nmax-length-factor: 0.5\n"));
                free(text);
            }
            et_translator_close(t);
        }
    }
}

/* ---- refused ---- */

/* Fields of the model's settings, by their names. */
static void test_import_bergamot__refuses_by_name(void **state)
{
    static const struct {
        const char *find, *put, *message;
    } cases[] = {
        { "dec-cell: ssru", "dec-cell: gru", "dec-cell is \"gru\", but only ssru" },
        { "dec-cell: ssru\n", "", "dec-cell is missing, but must be ssru" },
        { "autoreg: rnn", "autoreg: average-attention",
          "transformer-decoder-autoreg is \"average-attention\"" },
        { "activation: relu", "activation: gelu", "transformer-ffn-activation is \"gelu\"" },
        { "lemma-dim-emb: 0", "lemma-dim-emb: 8",
          "lemma-dim-emb is 8, but vocabularies of factors" },
        { "ffn-depth: 2", "ffn-depth: 3", "transformer-ffn-depth is 3" },
        { "preprocess: \"\"", "preprocess: n", "transformer-preprocess is \"n\"" },
        { "postprocess: dan", "postprocess: da", "transformer-postprocess is \"da\"" },
        { "postprocess-top: \"\"", "postprocess-top: n", "transformer-postprocess-top is \"n\"" },
        { "omit-bias: false", "omit-bias: true", "output-omit-bias is true" },
        { "type: transformer", "type: s2s", "type is \"s2s\"" },
        { "input-types: []", "input-types: [class]", "input-types is" },
        { "heads: 2", "heads: 3", "transformer-heads is 3, but must divide dim-emb" },
        { "  - 55\n  - 55", "  - 55\n  - 60", "has 55 tokens, but dim-vocabs of the model has 60" },
        { "dim-emb: 16", "dim-emb: 8", "has the shape" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char settings[2000];
        const char *at = strstr(bergamot_settings, cases[i].find);
        assert_non_null(at);
        snprintf(settings, sizeof settings, "%.*s%s%s", (int)(at - bergamot_settings),
                 bergamot_settings, cases[i].put, at + strlen(cases[i].find));
        write_bergamot(state, settings, false);
        et_error failure = ET_ERROR_INIT;
        assert_true(import_bergamot(state, &failure));
        if (!strstr(failure.text, cases[i].message) || !strstr(failure.text, "model.xxyy"))
            if (!strstr(failure.text, cases[i].message) || !strstr(failure.text, "vocab.xxyy"))
                fail_msg("\"%s\" is not in \"%s\"", cases[i].message, failure.text);
    }
}

/* Fields of config*.yml, and names that lead elsewhere. */
static void test_import_bergamot__config(void **state)
{
    static const struct {
        const char *find, *put, *message;
    } cases[] = {
        { "word-penalty: 0", "word-penalty: 0.5", "word-penalty is 0.5" },
        { "beam-size: 1", "beam-size: 100", "beam-size is 100" },
        { "factor: 2.5", "factor: 0", "max-length-factor is 0, but must be above 0" },
        { "factor: 2.5", "factor: -1.5", "max-length-factor is -1.5" },
        { "factor: 2.5", "factor: 1.0e+9", "max-length-factor is" },
        { "factor: 2.5", "factor: .nan", "max-length-factor" },
        { "factor: 2.5", "factor: [2]", "max-length-factor" },
        { "  - model.xxyy", "  - ../model.xxyy",
          "but must name files in the folder of the settings" },
        { "  - vocab.xxyy", "  - /vocab.xxyy",
          "but must name files in the folder of the settings" },
        { "    - lex.50.50", "    - ../lex.50.50", "shortlist is" },
        { "lex.50.50.xxyy.s2t.bin", "lex.s2t.gz", "but only a binary shortlist" },
        { "model.xxyy.intgemm.alphas.bin", "model.onnx", "and .bin are supported" },
        { "vocab.xxyy.spm", "vocab.txt", "and .spm are supported" },
        { "model.xxyy.intgemm.alphas.bin", "model.other.bin", "model.other.bin is missing" },
        { "lex.50.50.xxyy", "lex.other", "lex.other.s2t.bin is missing" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_bergamot(state, bergamot_settings, false);
        replace_in(bergamot(state, "config.intgemm8bitalpha.yml"), cases[i].find, cases[i].put);
        et_error failure = ET_ERROR_INIT;
        assert_true(import_bergamot(state, &failure));
        if (!strstr(failure.text, cases[i].message))
            fail_msg("\"%s\" is not in \"%s\"", cases[i].message, failure.text);
    }
}

/* A translator opens the folder as its import, and says the same of a folder that is refused. */
static void test_import_bergamot__opens(void **state)
{
    static const char *const precisions[] = { "float32", "bfloat16", "int8" };
    char *expected[SENTENCES], *results[SENTENCES];
    et_translator *t;
    write_bergamot(state, bergamot_settings, false);
    put_lexicon(state, 8, gives_none);
    assert_ok(import_bergamot(state, error));
    for (size_t i = 0; i < 6; i++) {
        const et_translator_options options = { .precision = precisions[i % 3],
                                                .no_shortlist = i >= 3 };
        translate(state, &options, expected);
        translate_with(state, "bergamot", &options, results);
        assert_equal_results(expected, results);
        et_translator_free_results(expected, SENTENCES);
    }
    assert_ok(et_translator_open(&t, in(state, "bergamot"), NULL, error));
    assert_ok(et_translator_export(t, in(state, "again.safetensors"), NULL, error));
    et_translator_close(t);
    size_t lengths[2];
    char *files[] = { get_file(in(state, "model.safetensors"), &lengths[0]),
                      get_file(in(state, "again.safetensors"), &lengths[1]) };
    assert_int_equal(lengths[0], lengths[1]);
    assert_memory_equal(files[0], files[1], lengths[0]);
    free(files[0]);
    free(files[1]);
    replace_in(bergamot(state, "config.intgemm8bitalpha.yml"), "beam-size: 1", "beam-size: 100");
    assert_fails(et_translator_open(&t, in(state, "bergamot"), NULL, error), ET_ECONFIG,
                 "beam-size is 100");
    const et_translator_options both = { .shortlist = true, .no_shortlist = true };
    assert_fails(et_translator_open(&t, in(state, "model.safetensors"), &both, error), ET_ECONFIG,
                 "shortlist and no_shortlist");
}

/* Missing files, several models, links that lead out of the folder, files that are cut. */
static void test_import_bergamot__files(void **state)
{
    size_t length;
    write_bergamot(state, bergamot_settings, false);
    remove(bergamot(state, "config.intgemm8bitalpha.yml"));
    move(state, "vocab.xxyy.spm", "words.spm");
    assert_fails(import_bergamot(state, error), ET_ENOTFOUND, "has no vocab*.spm");
    write_bergamot(state, bergamot_settings, false);
    remove(bergamot(state, "config.intgemm8bitalpha.yml"));
    put_file(bergamot(state, "model.other.bin"), "", 0);
    assert_fails(import_bergamot(state, error), ET_EFORMAT, "has several files model*.bin");
    write_bergamot(state, bergamot_settings, false);
    assert_int_equal(rename(bergamot(state, "vocab.xxyy.spm"), in(state, "outside.spm")), 0);
    assert_int_equal(symlink("../outside.spm", bergamot(state, "vocab.xxyy.spm")), 0);
    assert_fails(import_bergamot(state, error), ET_EDENIED, "vocab.xxyy.spm");
    write_bergamot(state, bergamot_settings, false);
    pack(state, "model.xxyy.intgemm.alphas.bin");
    char *whole = get_file(bergamot(state, "model.xxyy.intgemm.alphas.bin.gz"), &length);
    put_file(bergamot(state, "model.xxyy.intgemm.alphas.bin.gz"), whole, length / 2);
    assert_fails(import_bergamot(state, error), ET_EFORMAT, "model.xxyy.intgemm.alphas.bin.gz");
    free(whole);
    write_bergamot(state, bergamot_settings, false);
    whole = get_file(bergamot(state, "model.xxyy.intgemm.alphas.bin"), &length);
    memcpy(whole + 24, &(uint64_t){ 0x5101 }, sizeof(uint64_t)); /* of one processor */
    put_file(bergamot(state, "model.xxyy.intgemm.alphas.bin"), whole, length);
    assert_fails(import_bergamot(state, error), ET_EFORMAT,
                 "Wemb has the type 0x5101, but only float32, float16 and intgemm8 are supported");
    free(whole);
    write_bergamot(state, bergamot_settings, false);
    whole = get_file(bergamot(state, "lex.50.50.xxyy.s2t.bin"), &length);
    put_file(bergamot(state, "lex.50.50.xxyy.s2t.bin"), whole, length - 8);
    assert_fails(import_bergamot(state, error), ET_EFORMAT, "lex.50.50.xxyy.s2t.bin: byte 32");
    free(whole);
    assert_false(et_file_exists(in(state, "model.safetensors")));
}

/* ---- out ---- */

/* Other programs have no such decoder; the format is refused before a file is written. */
static void test_import_bergamot__exports(void **state)
{
    static const char *const formats[] = { "onnx", "ctranslate2", "huggingface" };
    et_translator *t;
    write_bergamot(state, bergamot_settings, false);
    assert_ok(import_bergamot(state, error));
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const et_export_options options = { .format = formats[i] };
        assert_fails(et_translator_export(t, in(state, "out"), &options, error), ET_ECONFIG,
                     "task.model.decoder.recurrence is ssru");
        assert_false(et_file_exists(in(state, "out")));
    }
    et_translator_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_bergamot__values),
        cmocka_unit_test(test_import_bergamot__shortlist),
        cmocka_unit_test(test_import_bergamot__precisions),
        cmocka_unit_test(test_import_bergamot__forms),
        cmocka_unit_test(test_import_bergamot__length_factor),
        cmocka_unit_test(test_import_bergamot__refuses_by_name),
        cmocka_unit_test(test_import_bergamot__config),
        cmocka_unit_test(test_import_bergamot__opens),
        cmocka_unit_test(test_import_bergamot__files),
        cmocka_unit_test(test_import_bergamot__exports),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
