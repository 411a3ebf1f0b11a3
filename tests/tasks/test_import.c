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
#include "formats/torch_samples.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/vocabularies.h"

#define GOLDEN ET_TEST_SOURCE "/tests/tasks/golden/marian.txt"
enum { TOKENS = 30, TAG = 28, PAD = 29, WIDTH = 16, INNER = 24, LONGEST = 9, SENTENCES = 4 };

/* Letters: id 2 is "a", 27 "z". */
static const char *const sources[SENTENCES] = { "d h", "k b p g v", "j", "f f s c l e r i" };
static const char *const targets[SENTENCES] = { "c n", "u k", "b m h o t", "q a d d" };

/* ---- SentencePiece models ---- */

static void put_field(bytes *to, int number, const void *from, size_t length)
{
    add_number(to, (uint64_t)(number << 3 | 2), 1);
    add_number(to, length, 1);
    add(to, from, length);
}

static void put_piece(bytes *to, const char *text, float score, int type)
{
    static bytes piece;
    piece.length = 0;
    put_field(&piece, 1, text, strlen(text));
    ADD(&piece, "\x15");
    add(&piece, &score, sizeof score);
    ADD(&piece, "\x18");
    add_number(&piece, (uint64_t)type, 1);
    put_field(to, 1, piece.data, piece.length);
}

/* All letters but one, and a word that no vocabulary has. */
static void make_model(bytes *to, char without, int kind)
{
    char letter[] = "\xe2\x96\x81"
                    "a";
    to->length = 0;
    put_piece(to, "<unk>", 0, 2);
    put_piece(to, "<s>", 0, 3);
    put_piece(to, "</s>", 0, 3);
    put_piece(to, "\xe2\x96\x81", -9, 1);
    put_piece(to, "\xe2\x96\x81hello", -1, 1);
    for (letter[3] = 'a'; letter[3] <= 'z'; letter[3]++)
        if (letter[3] != without)
            put_piece(to, letter, -2, 1);
    ADD(to, "\x12\2\x18");
    add_number(to, (uint64_t)kind, 1);
    ADD(to, "\x1a\x0a\x0a\x08identity");
}

/* ---- weights ---- */

typedef struct weight {
    char name[80];
    int rows, columns; /* rows 0: one dimension */
    size_t at;         /* of its first element in values */
} weight;

static weight weights[120];
static int weight_count;
static float values[40000];
static size_t value_count;

static float value_of(const char *name, int64_t i)
{
    uint32_t sum = 0;
    const size_t length = strlen(name);
    for (uint32_t k = 0; name[k]; k++)
        sum += (k + 1) * (unsigned char)name[k];
    uint32_t u = (uint32_t)(i + 1) * 2654435761u + sum * 40503u;
    u = (u ^ u >> 15) * 2246822519u;
    const float x = (float)((int)((u ^ u >> 13) >> 25) - 64) / 64;
    if (!strcmp(name, "final_logits_bias"))
        return i ? x : x + 1.5f;
    if (!strcmp(name, "model.shared.weight"))
        return x;
    const bool norm = length > 11 && !strcmp(name + length - 11, "norm.weight");
    return norm ? 1 + x / 2 : x / 2;
}

static void add_weight(const char *stem, const char *ending, int rows, int columns)
{
    weight *w = &weights[weight_count++];
    snprintf(w->name, sizeof w->name, "%s%s", stem, ending);
    w->rows = rows;
    w->columns = columns;
    w->at = value_count;
    for (int64_t i = 0; i < (int64_t)columns * (rows ? rows : 1); i++)
        values[value_count++] = value_of(w->name, i);
}

static void add_pair(const char *stem, const char *part, int rows, int columns)
{
    char whole[80];
    snprintf(whole, sizeof whole, "%s%s", stem, part);
    add_weight(whole, ".weight", rows, columns);
    add_weight(whole, ".bias", 0, rows ? rows : columns);
}

static void add_attention(const char *layer, const char *name)
{
    static const char *const parts[] = { ".q_proj", ".k_proj", ".v_proj", ".out_proj" };
    char stem[80];
    snprintf(stem, sizeof stem, "%s%s", layer, name);
    for (int i = 0; i < 4; i++)
        add_pair(stem, parts[i], WIDTH, WIDTH);
    add_pair(stem, "_layer_norm", 0, WIDTH);
}

static void add_layer(const char *stack, int number)
{
    char stem[80];
    snprintf(stem, sizeof stem, "model.%s.layers.%d.", stack, number);
    add_attention(stem, "self_attn");
    if (!strcmp(stack, "decoder"))
        add_attention(stem, "encoder_attn");
    add_pair(stem, "fc1", INNER, WIDTH);
    add_pair(stem, "fc2", WIDTH, INNER);
    add_pair(stem, "final_layer_norm", 0, WIDTH);
}

static void make_weights(void)
{
    weight_count = 0;
    value_count = 0;
    add_weight("final_logits_bias", "", 1, TOKENS);
    add_weight("model.shared.weight", "", TOKENS, WIDTH);
    add_layer("encoder", 0);
    add_layer("decoder", 0);
    add_layer("decoder", 1);
    assert_true(value_count <= sizeof values / sizeof *values);
}

/* The values are whole numbers of 1/128, below 2: exact in both. */
static uint16_t narrow(float value, bool half)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!half)
        return (uint16_t)(bits >> 16);
    if (!value)
        return 0;
    return (uint16_t)((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 112) << 10 |
                      (bits >> 13 & 0x3ff));
}

/* All values, of 4 or 2 bytes. */
static const void *stored(const char *type)
{
    static uint16_t halves[sizeof values / sizeof *values];
    if (!strcmp(type, "F32"))
        return values;
    for (size_t i = 0; i < value_count; i++)
        halves[i] = narrow(values[i], !strcmp(type, "F16"));
    return halves;
}

static void write_safetensors(const char *path, const char *type)
{
    static char file[1 << 18];
    const size_t width = strcmp(type, "F32") ? 2 : 4;
    size_t length = 8;
    for (int i = 0; i < weight_count; i++) {
        const weight *w = &weights[i];
        const size_t count = (size_t)w->columns * (size_t)(w->rows ? w->rows : 1);
        length += (size_t)snprintf(file + length, 512, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[",
                                   i ? "," : "{", w->name, type);
        length += (size_t)snprintf(file + length, 64, w->rows ? "%d,%d]" : "%.0d%d]", w->rows,
                                   w->columns);
        length += (size_t)snprintf(file + length, 128, ",\"data_offsets\":[%zu,%zu]}",
                                   w->at * width, (w->at + count) * width);
    }
    file[length++] = '}';
    const uint64_t header = length - 8;
    memcpy(file, &header, sizeof header);
    assert_true(length + value_count * width <= sizeof file);
    memcpy(file + length, stored(type), value_count * width);
    put_file(path, file, length + value_count * width);
}

/* ---- a folder ---- */

static const char config[] =
    "{\"model_type\": \"marian\", \"vocab_size\": 30, \"d_model\": 16, \"encoder_layers\": 1, "
    "\"decoder_layers\": 2, \"encoder_ffn_dim\": 24, \"decoder_ffn_dim\": 24, "
    "\"encoder_attention_heads\": 2, \"decoder_attention_heads\": 2, \"activation_function\": "
    "\"swish\", \"scale_embedding\": true, \"dropout\": 0.1, \"eos_token_id\": 0, "
    "\"pad_token_id\": 29, \"decoder_start_token_id\": 29, \"normalize_before\": false}";
static const char generation[] =
    "{\"num_beams\": 4, \"bad_words_ids\": [[29]], \"max_length\": 10}";

static const char *vocabulary(void)
{
    static char text[1024];
    int at = snprintf(text, sizeof text,
                      "{\"</s>\": 0, \"<unk>\": 1, \">>fra<<\": %d, \"<pad>\": %d", TAG, PAD);
    for (int i = 2; i < TAG; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, ", \"\xe2\x96\x81%c\": %d", 'a' + i - 2,
                       i);
    snprintf(text + at, sizeof text - (size_t)at, "}");
    return text;
}

static const char *folder(void **state, const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/hf/%s", (const char *)*state, name);
    return path;
}

static void put_text(void **state, const char *name, const char *text)
{
    put_file(folder(state, name), text, strlen(text));
}

/* As it is published, without weights of another form. */
static void write_folder(void **state)
{
    static bytes model;
    mkdir(in(state, "hf"), 0777);
    make_weights();
    put_text(state, "config.json", config);
    put_text(state, "generation_config.json", generation);
    put_text(state, "vocab.json", vocabulary());
    make_model(&model, 'q', 1);
    put_file(folder(state, "source.spm"), model.data, model.length);
    make_model(&model, 's', 1);
    put_file(folder(state, "target.spm"), model.data, model.length);
    remove(folder(state, "pytorch_model.bin"));
    remove(folder(state, "target_vocab.json"));
    remove(folder(state, "tokenizer_config.json"));
    write_safetensors(folder(state, "model.safetensors"), "F32");
}

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
      "belongs to no part of a model" },
    { "config.json", "\"encoder_ffn_dim\": 24", "\"encoder_ffn_dim\": 23",
      "fc1.weight has the shape [24, 16], but config.json gives [23, 16]" },
    { "config.json", "{", "", "config.json" },
    { "generation_config.json", "[[29]]", "[[29, 1]]", "bad_words_ids is [[29,1]]" },
    { "generation_config.json", "[[29]]", "[[99]]", "bad_words_ids has 99" },
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
        cmocka_unit_test(test_import__refuses_by_name),
        cmocka_unit_test(test_import__files),
        cmocka_unit_test(test_import__damage),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
