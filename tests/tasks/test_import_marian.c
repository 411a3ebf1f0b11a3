/* Releases of Marian: a model goes out and comes in again, from a folder or an archive; settings
 * and files that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "skip.h"
#include "tasks/import_samples.h"

#include <etude/hypotheses.h>
#include <etude/model_export.h>
#include <etude/translator.h>

#include "formats/numpy/npz.h"

static const char *release(void **state, const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/marian/%s", (const char *)*state, name);
    return path;
}

static const char *const release_files[] = { "decoder.yml",      "model.npz",  "source.spm",
                                             "source.vocab.yml", "target.spm", "target.vocab.yml" };
enum { RELEASE_FILES = 6 };

static int export_release(void **state, et_error *failure)
{
    et_translator *t;
    const et_export_options options = { .format = "marian" };
    for (int i = 0; i < RELEASE_FILES; i++)
        remove(release(state, release_files[i]));
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    int status = et_translator_export(t, in(state, "marian"), &options, failure);
    et_translator_close(t);
    return status;
}

static int import_from(void **state, const char *path, et_error *failure)
{
    et_import *from;
    remove(in(state, "model.safetensors"));
    int status = et_import_open(&from, path, failure);
    if (!status)
        status = et_import_write(from, in(state, "model.safetensors"), failure);
    et_import_close(from);
    return status;
}

static void write_fitting(void **state)
{
    write_fitting_folder(state);
    assert_ok(import(state, error));
}

/* "" is no array: the release may have another npz. */
static void check_array(const et_npz *npz, const char *name, const char *from, int rows,
                        int columns, bool turned)
{
    static float array[4096];
    const et_npz_array *a = et_npz_find(npz, name);
    assert_non_null(a);
    assert_int_equal(a->shape.rank, 2);
    assert_int_equal(a->shape.size[0], rows);
    assert_int_equal(a->shape.size[1], columns);
    assert_ok(et_npz_read(npz, a, array, error));
    for (int i = 0; i < weight_count; i++)
        if (!strcmp(weights[i].name, from))
            for (int r = 0; r < rows; r++)
                for (int c = 0; c < columns; c++)
                    assert_true(
                        array[r * columns + c] ==
                        values[weights[i].at + (size_t)(turned ? c * rows + r : r * columns + c)]);
}

/* Names and shapes are Marian's; projections are the other way round than in PyTorch. */
static void check_arrays(void **state)
{
    et_npz *npz;
    assert_ok(et_npz_open(&npz, release(state, "model.npz"), error));
    assert_int_equal(et_npz_count(npz), 1 + 1 + 1 + 16 + 2 * 26);
    check_array(npz, "Wemb", "model.shared.weight", TOKENS - 1, WIDTH, false);
    check_array(npz, "decoder_ff_logit_out_b", "final_logits_bias", 1, TOKENS - 1, false);
    check_array(npz, "encoder_l1_self_Wk", "model.encoder.layers.0.self_attn.k_proj.weight", WIDTH,
                WIDTH, true);
    check_array(npz, "encoder_l1_self_Wo_ln_scale",
                "model.encoder.layers.0.self_attn_layer_norm.weight", 1, WIDTH, false);
    check_array(npz, "encoder_l1_ffn_W1", "model.encoder.layers.0.fc1.weight", WIDTH, INNER, true);
    check_array(npz, "decoder_l2_ffn_b2", "model.decoder.layers.1.fc2.bias", 1, WIDTH, false);
    check_array(npz, "decoder_l2_ffn_ffn_ln_bias", "model.decoder.layers.1.final_layer_norm.bias",
                1, WIDTH, false);
    check_array(npz, "decoder_l2_context_Wo", "model.decoder.layers.1.encoder_attn.out_proj.weight",
                WIDTH, WIDTH, true);
    check_array(npz, "decoder_l1_context_bv", "model.decoder.layers.0.encoder_attn.v_proj.bias", 1,
                WIDTH, false);
    et_npz_close(npz);
}

static void read_scores(void **state, double scores[SENTENCES])
{
    et_translator *t;
    et_hypotheses *found;
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    assert_ok(et_translator_score(t, sources, targets, SENTENCES, &found, error));
    for (int i = 0; i < SENTENCES; i++)
        scores[i] = et_hypotheses_at(found, (size_t)i, 0)->log_probability;
    et_hypotheses_free(found);
    et_translator_close(t);
}

/* The files of the release, in an archive, in a folder of it. bomb: of this file it has only the
 * beginning of so many zeros, packed; NULL: of none. */
static void write_packed(void **state, const char *name, const char *bomb, size_t zeros)
{
    static bytes archive, directory;
    archive.length = directory.length = 0;
    for (int i = 0; i < RELEASE_FILES; i++) {
        char inside[80];
        size_t length;
        char *whole = get_file(release(state, release_files[i]), &length);
        snprintf(inside, sizeof inside, "opus/%s", release_files[i]);
        if (bomb && !strcmp(bomb, release_files[i]))
            add_packed(&archive, &directory, inside, "\1\0\0\xff\xff", 5, true, 5, zeros);
        else
            add_member(&archive, &directory, inside, whole, length, length);
        free(whole);
    }
    end_archive(&archive, &directory, RELEASE_FILES);
    put_file(in(state, name), archive.data, archive.length);
}

static void write_archive(void **state, const char *name)
{
    write_packed(state, name, NULL, 0);
}

static void need_zip(void **state)
{
    et_error failure = ET_ERROR_INIT;
    put_file(in(state, "none.zip"), "x", 1);
    (void)import_from(state, in(state, "none.zip"), &failure);
    if (strstr(failure.text, "libzip"))
        test_skip("built without libzip");
    assert_non_null(strstr(failure.text, "none.zip"));
}

/* Out as Marian's release and in again: the model is the same but for what norms add, from a folder
 * or an archive, and goes out again with the same bytes. */
static void test_import_marian__round_trip(void **state)
{
    double before[SENTENCES], after[SENTENCES];
    char *first[RELEASE_FILES];
    size_t length[RELEASE_FILES], again;
    need_zip(state);
    write_fitting(state);
    read_scores(state, before);
    assert_ok(export_release(state, error));
    check_arrays(state);
    write_archive(state, "model.zip");
    for (int i = 0; i < RELEASE_FILES; i++)
        first[i] = get_file(release(state, release_files[i]), &length[i]);
    for (int zip = 0; zip < 2; zip++) {
        assert_ok(import_from(state, in(state, zip ? "model.zip" : "marian"), error));
        read_scores(state, after);
        for (int i = 0; i < SENTENCES; i++)
            assert_true(fabs(before[i] - after[i]) < 1e-3);
    }
    assert_ok(export_release(state, error));
    for (int i = 0; i < RELEASE_FILES; i++) {
        char *now = get_file(release(state, release_files[i]), &again);
        assert_int_equal(again, length[i]);
        assert_memory_equal(now, first[i], again);
        free(now);
        free(first[i]);
    }
}

/* Settings that do not fit are named. */
static void test_import_marian__does_not_fit(void **state)
{
    write_fitting(state);
    write_folder(state);
    assert_ok(import(state, error));
    assert_fails(export_release(state, error), ET_ECONFIG,
                 "task.model.sinusoids is paper, but Marian needs tensor2tensor");
    add_positions(true);
    write_safetensors(folder(state, "model.safetensors"), "F32");
    assert_ok(import(state, error));
    assert_fails(export_release(state, error), ET_ECONFIG,
                 "begin with the token <pad>, whose embedding is not zeros");
}

/* Writes model.npz again with other settings. */
static void put_settings(void **state, const char *find, const char *put)
{
    static float data[120][1024];
    static et_npz_item items[120];
    static char text[4096];
    et_npz *npz;
    assert_ok(et_npz_open(&npz, release(state, "model.npz"), error));
    const size_t count = et_npz_count(npz);
    for (size_t i = 0; i < count; i++) {
        const et_npz_array *a = et_npz_at(npz, i);
        char *into = a->type == ET_NPZ_BYTE ? text : (char *)data[i];
        assert_true(a->bytes <= sizeof data[i]);
        assert_ok(et_npz_read(npz, a, into, error));
        items[i] = (et_npz_item){ a->name, a->type, a->shape, into };
    }
    char *at = strstr(text, find), *made;
    assert_non_null(at);
    assert_true(asprintf(&made, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find)) > 0);
    items[count - 1].data = made;
    items[count - 1].shape = et_shape_1((int64_t)strlen(made) + 1);
    assert_ok(et_npz_write(release(state, "other.npz"), items, count, NULL, NULL, error));
    et_npz_close(npz);
    free(made);
    rename(release(state, "other.npz"), in(state, "marian/model.npz"));
}

static const struct {
    const char *file, *find, *put, *words;
} marian_refusals[] = {
    { "model.npz", "type: transformer", "type: s2s", "type is \"s2s\"" },
    { "model.npz", "autoreg: self-attention", "autoreg: average-attention",
      "transformer-decoder-autoreg is \"average-attention\"" },
    { "model.npz", "autoreg: self-attention", "autoreg: rnn",
      "dec-cell is \"gru\", but only ssru" },
    { "model.npz", "postprocess: dan", "postprocess: da", "transformer-postprocess is \"da\"" },
    { "model.npz", "preprocess: \"\"", "preprocess: n", "transformer-preprocess is \"n\"" },
    { "model.npz", "activation: swish", "activation: gelu",
      "transformer-ffn-activation is \"gelu\"" },
    { "model.npz", "tied-layers: []", "tied-layers: [1, 1]", "transformer-tied-layers is [1,1]" },
    { "model.npz", "input-types: []", "input-types: [class, sequence]", "input-types is [\"class" },
    { "model.npz", "lemma-dim-emb: 0", "lemma-dim-emb: 2", "lemma-dim-emb is 2" },
    { "model.npz", "position-embeddings: false", "position-embeddings: true",
      "transformer-train-position-embeddings is true" },
    { "model.npz", "dim-emb: 16", "dim-emb: 18",
      "Wemb has the shape [29, 16], but its settings give [29, 18]" },
    { "model.npz", "dim-emb: 16", "dim-emb: 15", "dim-emb is 15" },
    { "model.npz", "heads: 2", "heads: 2000", "transformer-heads is 2000, but must be 1 to 1024" },
    { "model.npz", "heads: 2", "heads: 3", "transformer-heads is 3" },
    { "model.npz", "dim-vocabs: [29, 29]", "dim-vocabs: [29]", "dim-vocabs is not a list of two" },
    { "model.npz", "dim-vocabs: [29, 29]", "dim-vocabs: [28, 28]",
      "has 29 tokens, but dim-vocabs" },
    { "model.npz", "dec-depth: 2", "dec-depth: 1",
      "does not belong to a supported part of a model" },
    { "model.npz", "enc-depth: 1", "enc-depth: 2", "there is no tensor encoder_l2_self_Wq" },
    { "model.npz", "dim-ffn: 24", "dim-ffn: 23",
      "encoder_l1_ffn_W1 has the shape [16, 24], but its settings give [16, 23]" },
    { "model.npz", "type: transformer", "type: [", "special:model.yml" },
    { "decoder.yml", "model.npz", "model.onnx", "models is [\"model.onnx\"], but only" },
    { "decoder.yml", "model.npz", "model.intgemm.bin", "model.intgemm.bin is missing" },
    { "decoder.yml", "  - model.npz", "  - model.npz\n  - two.npz", "but must be one model" },
    { "decoder.yml", "model.npz", "../model.npz", "models is [\"../model.npz\"], but must name" },
    { "decoder.yml", "model.npz", "none.npz", "none.npz" },
    { "decoder.yml", "source.vocab.yml", "source.fsv",
      "but only vocabularies in .yml and .spm are supported" },
    { "decoder.yml", "source.vocab.yml", "/etc/passwd.yml", "but must name files in the folder" },
    { "decoder.yml", "word-penalty: 0", "word-penalty: 0.5", "word-penalty is 0.5" },
    { "decoder.yml", "beam-size: 4", "beam-size: 99", "beam-size is 99" },
    { "decoder.yml", "mini-batch: 1", "shortlist: [lex.gz, 50, 50]", "shortlist is [\"lex.gz\"" },
    { "decoder.yml", "models", "model", "has no list models" },
    { "source.vocab.yml", "\"</s>\": 0", "\"</s>\": 1",
      "marian/source.vocab.yml: \"</s>\" and \"<unk>\" have one number, 1" },
    { "target.vocab.yml", "\"<unk>\": 1", "\"<unk>\": 2", "marian/target.vocab.yml: \"<unk>\"" },
    { "source.vocab.yml", "\"</s>\": 0\n\"<unk>\": 1", "\"</s>\": 1\n\"<unk>\": 0",
      "\"</s>\" has the number 1, but target.vocab.yml says 0" },
    { "source.vocab.yml", "\"</s>\": 0", "\"<pad>\": 0", "has no token" },
    { "source.vocab.yml", "\"</s>\": 0\n", "", "has 28 tokens, but dim-vocabs" },
    { "target.vocab.yml", "\"</s>\": 0", "\"</s>\": x", "no token </s>" },
};

static void test_import_marian__refuses_by_name(void **state)
{
    need_zip(state);
    write_fitting(state);
    for (size_t i = 0; i < sizeof marian_refusals / sizeof *marian_refusals; i++) {
        et_error failure = ET_ERROR_INIT;
        write_fitting(state);
        assert_ok(export_release(state, error));
        if (!strcmp(marian_refusals[i].file, "model.npz"))
            put_settings(state, marian_refusals[i].find, marian_refusals[i].put);
        else
            replace_in(release(state, marian_refusals[i].file), marian_refusals[i].find,
                       marian_refusals[i].put);
        if (!import_from(state, in(state, "marian"), &failure))
            fail_msg("%s is taken", marian_refusals[i].put);
        if (!strstr(failure.text, marian_refusals[i].words))
            fail_msg("\"%s\" is not in \"%s\"", marian_refusals[i].words, failure.text);
    }
}

/* A release without a file, a pointer in place of one, and an archive that ends early. */
static void test_import_marian__files(void **state)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    size_t length;
    need_zip(state);
    for (int i = 0; i < RELEASE_FILES; i++) {
        write_fitting(state);
        assert_ok(export_release(state, error));
        put_file(release(state, release_files[i]), lfs, strlen(lfs));
        assert_fails(import_from(state, in(state, "marian"), error), ET_EFORMAT,
                     "run git lfs pull");
        remove(release(state, release_files[i]));
        assert_fails(import_from(state, in(state, "marian"), error), ET_ENOTFOUND,
                     release_files[i]);
    }
    write_fitting(state);
    assert_ok(export_release(state, error));
    write_archive(state, "model.zip");
    char *whole = get_file(in(state, "model.zip"), &length);
    for (size_t cut = 0; cut < length; cut += 1 + length / 50) {
        put_file(in(state, "cut.zip"), whole, cut);
        assert_int_not_equal(import_from(state, in(state, "cut.zip"), NULL), ET_OK);
    }
    for (size_t i = 0; i < length; i += 1 + length / 200) {
        et_error failure = ET_ERROR_INIT;
        whole[i] ^= 4;
        put_file(in(state, "cut.zip"), whole, length);
        if (import_from(state, in(state, "cut.zip"), &failure))
            if (!strstr(failure.text, "cut.zip"))
                fail_msg("%s", failure.text);
        whole[i] ^= 4;
    }
    free(whole);
}

/* Each file as a pointer or a bomb inside of an archive, and an archive in an archive. */
static void test_import_marian__hostile_archive(void **state)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    static bytes archive, directory;
    size_t length;
    need_zip(state);
    for (int i = 0; i < RELEASE_FILES; i++) {
        write_fitting(state);
        assert_ok(export_release(state, error));
        write_packed(state, "bomb.zip", release_files[i], (size_t)2 << 30);
        assert_fails(
            import_from(state, in(state, "bomb.zip"), error), ET_EFORMAT,
            "has 2147483648 bytes, packed into 5; a file of a model has at most 100 times");
        put_file(release(state, release_files[i]), lfs, strlen(lfs));
        write_archive(state, "pointer.zip");
        assert_fails(import_from(state, in(state, "pointer.zip"), error), ET_EFORMAT,
                     "a pointer of 63 bytes in place of the file");
    }
    char *inner = get_file(in(state, "pointer.zip"), &length);
    add_member(&archive, &directory, "model.zip", inner, length, length);
    end_archive(&archive, &directory, 1);
    put_file(in(state, "outer.zip"), archive.data, archive.length);
    assert_fails(import_from(state, in(state, "outer.zip"), error), ET_EFORMAT,
                 "outer.zip: the archive has no decoder.yml");
    free(inner);
    archive.length = directory.length = 0;
    add_member(&archive, &directory, "a/decoder.yml", "", 0, 0);
    add_member(&archive, &directory, "b/decoder.yml", "", 0, 0);
    end_archive(&archive, &directory, 2);
    put_file(in(state, "two.zip"), archive.data, archive.length);
    assert_fails(import_from(state, in(state, "two.zip"), error), ET_EFORMAT,
                 "several models, a/decoder.yml and b/decoder.yml");
}

/* The two languages of a release with this README.md. */
static void check_languages(void **state, const char *readme, const char *source,
                            const char *target)
{
    static const char *const names[] = { "source_punctuation", "target_punctuation" };
    const char *const wanted[] = { source, target };
    et_import *from;
    put_file(release(state, "README.md"), readme, strlen(readme));
    assert_ok(et_import_open(&from, in(state, "marian"), error));
    const et_value *vocabulary = et_value_get(et_import_settings(from), "vocabulary");
    for (int i = 0; i < 2; i++) {
        const et_value *v = et_value_get(vocabulary, names[i]);
        const char *found = v && v->kind == ET_VALUE_STRING ? v->string : "";
        assert_string_equal(found, wanted[i]);
    }
    et_import_close(from);
}

/* README.md names the languages of the newest release, or its link does. */
static void test_import_marian__languages(void **state)
{
#define NORMALIZED "* pre-processing: normalization + SentencePiece (spm32k,spm32k)\n"
    need_zip(state);
    write_fitting(state);
    assert_ok(export_release(state, error));
    check_languages(state, "", "", "");
    check_languages(
        state,
        "# a.zip\n\n* source language(s): deu\r\n* target language(s): mol ron\r\n" NORMALIZED
        "* download: [a.zip](https://host/x/deu-ron/a.zip)\n",
        "deu", "mul");
    check_languages(state,
                    "# a.zip\n" NORMALIZED "* download: [a.zip](https://host/models/en-de/a.zip)\n",
                    "en", "de");
    check_languages(state,
                    "# a.zip\n" NORMALIZED "* download: [a.zip](https://host/m/de+nl-sv/a.zip)\n",
                    "mul", "sv");
    check_languages(state,
                    "# a.zip\n* source language(s): fra\n* target language(s): eng\n" NORMALIZED
                    "# b.zip\n* source language(s): nld\n* target language(s): eng\n" NORMALIZED,
                    "nld", "eng");
    /* Text that was not normalized, and links that name no languages. */
    check_languages(state, "* source language(s): de\n* target language(s): en\n", "", "");
    check_languages(state, NORMALIZED "* download: a-b-c/a.zip\n", "", "");
    check_languages(state, NORMALIZED "* download: /\n* source language(s):", "", "");
    check_languages(state, NORMALIZED "* download:", "", "");
    remove(release(state, "README.md"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_marian__round_trip),
        cmocka_unit_test(test_import_marian__does_not_fit),
        cmocka_unit_test(test_import_marian__refuses_by_name),
        cmocka_unit_test(test_import_marian__files),
        cmocka_unit_test(test_import_marian__hostile_archive),
        cmocka_unit_test(test_import_marian__languages),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
