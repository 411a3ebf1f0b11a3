/* Folders of transformers' MarianMT: a small model whose weights are formulas, in every form of its
 * files, compared with values that transformers computes (made by tools/golden-marian); and folders
 * that must be refused. The SentencePiece models are made here, of single letters. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/files.h"
#include "skip.h"

#include <etude/hypotheses.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "tasks/marian_folder.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/vocabularies.h"

#define GOLDEN ET_TEST_SOURCE "/tests/tasks/golden/marian.txt"
enum { LONGEST = 9, SENTENCES = 4 };

static const char *const sources[SENTENCES] = { "d h", "k b p g v", "j", "f f s c l e r i" };
static const char *const targets[SENTENCES] = { "c n", "u k", "b m h o t", "q a d d" };

static int import(void **state, et_error *error)
{
    et_import *from;
    char path[800];
    snprintf(path, sizeof path, "%s/hf/", (const char *)*state); /* a slash, as a shell gives it */
    remove(in(state, "model.safetensors"));
    int status = et_import_open(&from, path, error);
    if (!status)
        status = et_import_write(from, in(state, "model.safetensors"), error);
    et_import_close(from);
    return status;
}

/* ---- beside transformers ---- */

static void check_scores(et_translator *t, FILE *golden)
{
    et_hypotheses *found;
    assert_ok(et_translator_score(t, sources, targets, SENTENCES, &found, error));
    for (int i = 0; i < SENTENCES; i++) {
        int number;
        double expected;
        assert_int_equal(fscanf(golden, "score %d %la\n", &number, &expected), 2);
        const et_hypothesis *h = et_hypotheses_at(found, (size_t)i, 0);
        assert_true(fabs(h->log_probability - expected) < 1e-5 * h->tokens);
    }
    et_hypotheses_free(found);
}

static void check_search(et_translator *t, FILE *golden, int size)
{
    et_hypotheses *found;
    assert_ok(et_translator_search(t, sources, SENTENCES, &found, error));
    for (int i = 0; i < SENTENCES; i++) {
        int number, beams, id, count = 0;
        double score;
        const et_hypothesis *h = et_hypotheses_at(found, (size_t)i, 0);
        assert_int_equal(fscanf(golden, "beam %d %d %la", &beams, &number, &score), 3);
        assert_int_equal(beams, size);
        for (; fscanf(golden, "%*[ ]%d", &id) == 1; count++)
            if (count < h->id_count)
                assert_int_equal(h->ids[count], id);
        (void)!fscanf(golden, "\n");
        /* The end is in transformers' list alone. */
        assert_in_range(count - h->id_count, 0, 1);
        assert_int_equal(count, h->tokens);
        if (size > 1)
            assert_true(fabs(h->score - score) < 1e-5);
    }
    et_hypotheses_free(found);
}

static void check_model(void **state)
{
    FILE *golden = fopen(GOLDEN, "r");
    assert_non_null(golden);
    assert_ok(import(state, error));
    for (int size = 1; size <= 4; size += 3) {
        et_translator *t;
        et_translator_options options = { .beam_size = size, .max_length = LONGEST };
        assert_ok(et_translator_open(&t, in(state, "model.safetensors"), &options, error));
        if (size == 1)
            check_scores(t, golden);
        check_search(t, golden, size);
        et_translator_close(t);
    }
    fclose(golden);
}

static void test_import__is_what_transformers_computes(void **state)
{
    write_folder(state);
    check_model(state);
}

static void test_import__halves(void **state)
{
    static const char *const types[] = { "F16", "BF16" };
    for (int i = 0; i < 2; i++) {
        write_folder(state);
        write_safetensors(folder(state, "model.safetensors"), types[i]);
        check_model(state);
    }
}

/* A file of torch.save in either layout, with copies of the shared table. */
static void write_torch(void **state, bool old)
{
    static bytes *file;
    static sample_tensor tensors[120];
    static char keys[120][8];
    if (!file)
        file = malloc(sizeof *file);
    assert_non_null(file);
    for (int i = 0; i < weight_count; i++) {
        const weight *w = &weights[i];
        const int count = w->columns * (w->rows ? w->rows : 1);
        snprintf(keys[i], sizeof keys[i], "%d", i);
        tensors[i] = (sample_tensor){ w->name, "FloatStorage", keys[i],
                                      w->rows, w->columns,     0,
                                      count,   values + w->at, (size_t)count * sizeof *values };
    }
    tensors[weight_count] = tensors[1];
    tensors[weight_count].name = "lm_head.weight";
    tensors[weight_count].key = "copy";
    (old ? make_old : make_archive)(file, tensors, weight_count + 1);
    write_folder(state);
    remove(folder(state, "model.safetensors"));
    put_file(folder(state, "pytorch_model.bin"), file->data, file->length);
}

static void test_import__torch(void **state)
{
    make_weights();
    write_torch(state, true);
    check_model(state);
    write_torch(state, false);
    et_error error = ET_ERROR_INIT;
    if (import(state, &error) && strstr(error.text, "libzip"))
        test_skip("built without libzip");
    check_model(state);
}

/* ---- tokens ---- */

static void check_ids(const et_vocabulary *v, const char *text, int count, const int32_t *expected)
{
    et_tokens tokens = ET_TOKENS_INIT;
    assert_ok(et_vocabulary_encode(v, text, strlen(text), &tokens, error));
    assert_int_equal(tokens.count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(tokens.ids[i], expected[i]);
    et_tokens_release(&tokens);
}

/* Numbers are vocab.json's; pieces without one are unknown, and letters of the other language have
 * a number and no piece. */
static void test_import__tokens(void **state)
{
    et_import *from;
    et_vocabulary *v[ET_SIDES];
    write_folder(state);
    assert_ok(et_import_open(&from, in(state, "hf"), error));
    for (int side = 0; side < ET_SIDES; side++) {
        size_t length;
        const char *bytes_of = et_import_vocabulary(from, side, &length);
        assert_ok(et_vocabulary_parse(&v[side], bytes_of, length, "a vocabulary", error));
        assert_int_equal(et_vocabulary_size(v[side]), TOKENS);
        assert_int_equal(et_vocabulary_start(v[side]), PAD);
        assert_int_equal(et_vocabulary_eos(v[side]), 0);
    }
    check_ids(v[0], "d h", 2, (int32_t[]){ 5, 9 });
    check_ids(v[0], "hello d", 2, (int32_t[]){ 1, 5 });
    check_ids(v[0], ">>fra<< d", 2, (int32_t[]){ TAG, 5 });
    check_ids(v[1], "q", 1, (int32_t[]){ 18 });
    et_tokens tokens = ET_TOKENS_INIT;
    assert_ok(et_vocabulary_encode(v[0], ">>deu<< d", 9, &tokens, error)); /* no such tag: text */
    assert_int_not_equal(tokens.ids[0], TAG);
    assert_ok(et_vocabulary_encode(v[0], "q", 1, &tokens, error));
    for (size_t i = 0; i < tokens.count; i++)
        assert_int_not_equal(tokens.ids[i], 18);
    et_tokens_release(&tokens);
    assert_string_equal(et_vocabulary_token(v[0], 18), "\xe2\x96\x81q");
    for (int side = 0; side < ET_SIDES; side++)
        et_vocabulary_close(v[side]);
    et_import_close(from);
}

/* ---- a run's weights ---- */

/* Two parameters of the model, with other values. */
static et_params *make_params(int64_t rows)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "encoder/layer_0/self_attention/norm/scale",
                                et_shape_1(WIDTH), (et_init){ 0 }, &index, error));
    assert_ok(et_params_declare(params, "embedding/table", et_shape_2(rows, WIDTH), (et_init){ 0 },
                                &index, error));
    assert_ok(et_params_materialize(params, true, error));
    for (int64_t i = 0; i < et_params_elements(params); i++)
        et_params_values(params)[i] = 7;
    return params;
}

static const float *values_of(et_params *params, const char *name)
{
    return et_params_values(params) + et_params_offset(params, et_params_find(params, name));
}

/* The folder alone gives the weights, all or those of a pattern. */
static void test_import__initializes(void **state)
{
    char path[800];
    write_folder(state);
    snprintf(path, sizeof path, "%s/hf", (const char *)*state);
    for (int i = 0; i < 2; i++) {
        et_params *params = make_params(TOKENS);
        assert_ok(et_import_initialize(params, path, i ? "^encoder/" : NULL, error));
        const float *gain = values_of(params, "encoder/layer_0/self_attention/norm/scale");
        const float *table = values_of(params, "embedding/table");
        for (int k = 0; k < WIDTH; k++) {
            const char *norm = "model.encoder.layers.0.self_attn_layer_norm.weight";
            assert_true(gain[k] == value_of(norm, k));
            assert_true(table[k] == (i ? 7 : value_of("model.shared.weight", k)));
        }
        et_params_free(params);
    }
    et_params *params = make_params(TOKENS + 1);
    assert_fails(et_import_initialize(params, path, NULL, error), ET_ECONFIG,
                 "embedding/table is [30, 16] in the folder, but [31, 16] here");
    assert_true(values_of(params, "encoder/layer_0/self_attention/norm/scale")[0] == 7);
    assert_ok(et_import_initialize(params, path, "norm", error));
    assert_fails(et_import_initialize(params, path, "none", error), ET_ECONFIG,
                 "init_pattern matches no parameter");
    et_params_free(params);
}

/* Tables that config.json says are one, as transformers since 5 writes them if the output has its
 * own: equal or not. */
static void test_import__untied(void **state)
{
    static const char *const names[] = { "model.encoder.embed_tokens.weight",
                                         "model.decoder.embed_tokens.weight", "lm_head.weight" };
    for (int apart = 0; apart < 2; apart++) {
        et_import *from;
        char text[1024];
        bool shared;
        write_folder(state);
        for (int i = 0; i < 3; i++) {
            add_weight(names[i], "", TOKENS, WIDTH);
            if (!apart && i < 2)
                memcpy(values + weights[weight_count - 1].at, values + weights[1].at,
                       sizeof *values * TOKENS * WIDTH);
        }
        write_safetensors(folder(state, "model.safetensors"), "F32");
        snprintf(text, sizeof text, "{\"tie_word_embeddings\": false, %s", config + 1);
        put_text(state, "config.json", text);
        assert_ok(import(state, error));
        assert_ok(et_import_open(&from, in(state, "hf"), error));
        assert_ok(et_value_read_bool(et_value_get(et_import_settings(from), "model"),
                                     "shared_embeddings", &shared, error));
        assert_int_equal(shared, !apart);
        et_import_close(from);
    }
}

/* Translations that are cut off: by EOS if the folder says so. */
static void test_import__forced_end(void **state)
{
    for (int i = 0; i < 2; i++) {
        et_translator *t;
        et_hypotheses *found;
        et_translator_options options = { .beam_size = 4, .max_length = 3 };
        write_folder(state);
        if (i)
            put_text(state, "generation_config.json",
                     "{\"num_beams\": 4, \"bad_words_ids\": [[29]], \"forced_eos_token_id\": 0}");
        assert_ok(import(state, error));
        assert_ok(et_translator_open(&t, in(state, "model.safetensors"), &options, error));
        assert_ok(et_translator_search(t, sources, SENTENCES, &found, error));
        bool cut = false;
        for (int k = 0; k < SENTENCES; k++) {
            const et_hypothesis *h = et_hypotheses_at(found, (size_t)k, 0);
            cut |= h->id_count == 3;
            assert_true(h->id_count <= 3 - i && h->tokens <= 3);
        }
        assert_int_equal(cut, !i);
        et_hypotheses_free(found);
        et_translator_close(t);
    }
}

/* ---- what is refused ---- */

static const struct {
    const char *file, *find, *put, *words;
} refusals[] = {
    { "config.json", "\"marian\"", "\"t5\"", "model_type is \"t5\"" },
    { "config.json", "\"swish\"", "\"mish\"", "activation_function is \"mish\"" },
    { "config.json", "\"normalize_before\": false", "\"normalize_before\": true",
      "normalize_before is true" },
    { "config.json", "\"normalize_before\": false", "\"static_position_embeddings\": false",
      "static_position_embeddings is false" },
    { "config.json", "start_token_id\": 29", "start_token_id\": 0", "decoder_start_token_id is 0" },
    { "config.json", "encoder_attention_heads\": 2", "encoder_attention_heads\": 3",
      "encoder_attention_heads is 3" },
    { "config.json", "\"vocab_size\": 30", "\"vocab_size\": 31", "has 30 tokens, but config.json" },
    { "config.json", "\"d_model\": 16", "\"d_model\": \"16\"", "d_model" },
    { "config.json", "\"encoder_layers\": 1", "\"encoder_layers\": 2",
      "no tensor model.encoder.layers.1." },
    { "config.json", "\"decoder_layers\": 2", "\"decoder_layers\": 1",
      "does not belong to a supported part of a model" },
    { "config.json", "\"encoder_ffn_dim\": 24", "\"encoder_ffn_dim\": 23",
      "fc1.weight has the shape [24, 16], but config.json gives [23, 16]" },
    { "config.json", "{", "", "config.json" },
    { "generation_config.json", "[[29]]", "[[29, 1]]", "bad_words_ids is [[29,1]]" },
    { "generation_config.json", "[[29]]", "[[99]]", "bad_words_ids has 99" },
    { "generation_config.json", "{", "{\"forced_eos_token_id\": 3, ", "forced_eos_token_id is 3" },
    { "generation_config.json", "{", "{\"repetition_penalty\": 1.5, ",
      "repetition_penalty is 1.5" },
    { "vocab.json", "\"<pad>\": 29", "\"<pad>\": 31", "\"<pad>\" has no number from 0 to 29" },
    { "vocab.json", "\"<pad>\": 29", "\"<pad>\": 1", "have one number, 1" },
    { "vocab.json", "\"<unk>\": 1,", "\"<unk>\": 1, \"<unk>\": 1,", "<unk>" },
    { "vocab.json", "\"<unk>\"", "\"unk\"", "has no token \"<unk>\"" },
    { "vocab.json", "\"</s>\": 0, \"<unk>\": 1", "\"</s>\": 1, \"<unk>\": 0",
      "\"</s>\" has the number 1, but config.json says 0" },
};

static void test_import__refuses_by_name(void **state)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        size_t length;
        write_folder(state);
        char *text = get_file(folder(state, refusals[i].file), &length), *made;
        char *at = strstr(text, refusals[i].find);
        assert_non_null(at);
        assert_true(asprintf(&made, "%.*s%s%s", (int)(at - text), text, refusals[i].put,
                             at + strlen(refusals[i].find)) > 0);
        put_text(state, refusals[i].file, made);
        et_error failure = ET_ERROR_INIT;
        assert_int_not_equal(import(state, &failure), ET_OK);
        if (!strstr(failure.text, refusals[i].words))
            fail_msg("\"%s\" is not in \"%s\"", refusals[i].words, failure.text);
        assert_false(file_is_there(in(state, "model.safetensors")));
        free(made);
        free(text);
    }
}

static void test_import__files(void **state)
{
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    static const char *const names[] = { "model.safetensors", "source.spm", "vocab.json",
                                         "config.json" };
    static bytes model;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        write_folder(state);
        put_text(state, names[i], lfs);
        assert_fails(import(state, error), ET_EFORMAT, "run git lfs pull");
        remove(folder(state, names[i]));
        assert_fails(import(state, error), ET_ENOTFOUND, i ? names[i] : "neither model.safetens");
    }
    write_folder(state);
    put_text(state, "tf_model.h5", "x");
    remove(folder(state, "model.safetensors"));
    assert_fails(import(state, error), ET_ENOTFOUND, "but tf_model.h5, which is not supported");
    remove(folder(state, "tf_model.h5"));
    write_folder(state);
    make_model(&model, 'q', 2);
    put_file(folder(state, "source.spm"), model.data, model.length);
    assert_fails(import(state, error), ET_EFORMAT, "its kind is not unigram");
}

/* A download that ends early, at any place, and any damaged byte of the small files. */
static void test_import__damage(void **state)
{
    static const char *const names[] = { "source.spm", "vocab.json", "config.json",
                                         "generation_config.json" };
    size_t length;
    write_folder(state);
    char *whole = get_file(folder(state, "model.safetensors"), &length);
    for (size_t cut = 0; cut < length; cut += 1 + length / 50) {
        put_file(folder(state, "model.safetensors"), whole, cut);
        assert_int_not_equal(import(state, NULL), ET_OK);
    }
    free(whole);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        write_folder(state);
        whole = get_file(folder(state, names[n]), &length);
        for (size_t i = 0; i < length; i++) {
            et_import *from;
            et_error failure = ET_ERROR_INIT;
            whole[i] ^= (char)(1 << i % 8);
            put_file(folder(state, names[n]), whole, length);
            if (et_import_open(&from, in(state, "hf"), &failure))
                assert_true(failure.text[0] != 0);
            et_import_close(from);
            whole[i] ^= (char)(1 << i % 8);
        }
        free(whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import__is_what_transformers_computes),
        cmocka_unit_test(test_import__halves),
        cmocka_unit_test(test_import__torch),
        cmocka_unit_test(test_import__tokens),
        cmocka_unit_test(test_import__initializes),
        cmocka_unit_test(test_import__untied),
        cmocka_unit_test(test_import__forced_end),
        cmocka_unit_test(test_import__refuses_by_name),
        cmocka_unit_test(test_import__files),
        cmocka_unit_test(test_import__damage),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
