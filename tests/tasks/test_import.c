/* Folders of transformers' MarianMT: a small model whose weights are formulas, beside what
 * transformers computes (tools/golden-marian made the values), in every form of its files, and out
 * again; and folders that must be refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "skip.h"

#include <etude/hypotheses.h>
#include <etude/model_export.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/import_samples.h"
#include "tasks/translation/settings/vocabularies.h"

#define GOLDEN ET_TEST_SOURCE "/tests/tasks/golden/marian.txt"
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

/* ---- out again ---- */

static const char *exported(void **state, const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/out/%s", (const char *)*state, name);
    return path;
}

static int export_folder(void **state, const char *precision, et_error *failure)
{
    static const char *const names[] = { "config.json",       "generation_config.json",
                                         "vocab.json",        "source.spm",
                                         "target.spm",        "tokenizer_config.json",
                                         "model.safetensors", "target_vocab.json" };
    et_translator *t;
    const et_export_options options = { .format = "huggingface", .precision = precision };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(exported(state, names[i]));
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    int status = et_translator_export(t, in(state, "out"), &options, failure);
    et_translator_close(t);
    return status;
}

static int export_of(void **state, const char *model, et_error *failure)
{
    et_translator *t;
    const et_export_options options = { .format = "huggingface" };
    char path[800];
    snprintf(path, sizeof path, "%s", in(state, model));
    assert_ok(et_translator_open(&t, path, NULL, error));
    int status = et_translator_export(t, in(state, "none"), &options, failure);
    et_translator_close(t);
    return status;
}

/* is NULL: there is none. */
static void check_text(const et_value *dict, const char *name, const char *is)
{
    const et_value *v = et_value_get(dict, name);
    if (is)
        assert_string_equal(v ? v->string : "none", is);
    else
        assert_null(v);
}

/* The tensors that came in, and no others, to the bit. */
static void check_tensors(const char *path, const char *type)
{
    et_safetensors *file;
    const size_t width = strcmp(type, "F32") ? 2 : 4;
    assert_ok(et_safetensors_open_foreign(&file, path, error));
    assert_false(et_safetensors_sealed(file));
    assert_string_equal(et_safetensors_metadata(file, "format"), "pt");
    assert_int_equal(et_safetensors_count(file), weight_count);
    for (int i = 0; i < weight_count; i++) {
        const weight *w = &weights[i];
        const size_t count = (size_t)w->columns * (size_t)(w->rows ? w->rows : 1);
        const et_safetensors_tensor *t = et_safetensors_find(file, w->name);
        assert_non_null(t);
        assert_int_equal(t->shape.rank, w->rows ? 2 : 1);
        assert_int_equal(t->shape.size[t->shape.rank - 1], w->columns);
        assert_int_equal(t->bytes, count * width);
        assert_memory_equal(t->data, (const char *)stored(type) + w->at * width, count * width);
    }
    et_safetensors_close(file);
}

/* Every field of `before` has the same value in `after`. */
static void check_json(void **state, const char *name)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *before, *after;
    assert_ok(
        et_value_read_file(&before, &arena, folder(state, name), 1 << 20, et_json_parse, error));
    assert_ok(
        et_value_read_file(&after, &arena, exported(state, name), 1 << 20, et_json_parse, error));
    for (const et_value *v = before->first; v; v = v->next) {
        et_strbuf left = ET_STRBUF_INIT, right = ET_STRBUF_INIT;
        const et_value *is = et_value_get(after, v->key);
        if (!strcmp(v->key, "normalize_before"))
            continue; /* the only value that is taken */
        assert_non_null(is);
        et_json_print(&left, v, 0);
        et_json_print(&right, is, 0);
        assert_string_equal(et_strbuf_text(&left), et_strbuf_text(&right));
        et_strbuf_release(&left);
        et_strbuf_release(&right);
    }
    et_arena_release(&arena);
}

/* What was exported is imported as the same model, to the byte. */
static void check_again(void **state)
{
    et_import *from;
    size_t length, again;
    char *one = get_file(in(state, "model.safetensors"), &length);
    assert_ok(et_import_open(&from, in(state, "out"), error));
    assert_ok(et_import_write(from, in(state, "again.safetensors"), error));
    et_import_close(from);
    char *other = get_file(in(state, "again.safetensors"), &again);
    assert_int_equal(again, length);
    assert_memory_equal(one, other, length);
    free(one);
    free(other);
}

static void test_import__goes_out_again(void **state)
{
    static const char *const types[][2] = {
        { "F32", NULL }, { "F32", "float32" },   { "F16", "float16" },
        { "F16", NULL }, { "BF16", "bfloat16" }, { "BF16", NULL },
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        write_folder(state);
        write_safetensors(folder(state, "model.safetensors"), types[i][0]);
        assert_ok(import(state, error));
        assert_ok(export_folder(state, types[i][1], error));
        check_tensors(exported(state, "model.safetensors"), types[i][0]);
        check_json(state, "config.json");
        check_json(state, "generation_config.json");
        check_json(state, "vocab.json");
        check_again(state);
    }
    assert_fails(export_folder(state, "int8", error), ET_ECONFIG,
                 "precision int8: the format huggingface is only written in float32, bfloat16");
}

/* Tables of their own, and an output of its own. */
static void test_import__tables_go_out_again(void **state)
{
    static const char *const more[] = {
        "\"share_encoder_decoder_embeddings\": false",
        "\"share_encoder_decoder_embeddings\": false, \"tie_word_embeddings\": false",
    };
    for (int i = 0; i < 2; i++) {
        char text[1000];
        write_folder(state);
        snprintf(text, sizeof text, "{%s, %s", more[i], config + 1);
        put_text(state, "config.json", text);
        weight_count = 0;
        value_count = 0;
        add_weight("model.encoder.embed_tokens", ".weight", TOKENS, WIDTH);
        add_weight("model.decoder.embed_tokens", ".weight", TOKENS, WIDTH);
        if (i)
            add_weight("lm_head", ".weight", TOKENS, WIDTH);
        add_weight("final_logits_bias", "", 1, TOKENS);
        add_layer("encoder", 0);
        add_layer("decoder", 0);
        add_layer("decoder", 1);
        write_safetensors(folder(state, "model.safetensors"), "F32");
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        check_tensors(exported(state, "model.safetensors"), "F32");
        check_json(state, "config.json");
        assert_true(file_is_there(exported(state, "target_vocab.json")));
        check_again(state);
    }
}

/* A table under each of these names, as torch.save writes it. */
static void add_copies(const char *const *names, int count)
{
    const size_t first = weights[1].at; /* of model.shared.weight */
    for (int i = 0; i < count; i++) {
        add_weight(names[i], ".weight", TOKENS, WIDTH);
        memcpy(values + weights[weight_count - 1].at, values + first,
               sizeof *values * TOKENS * WIDTH);
    }
}

static void test_import__copies_go_out_again(void **state)
{
    static const char *const names[] = { "lm_head", "model.encoder.embed_tokens",
                                         "model.decoder.embed_tokens" };
    for (int count = 1; count <= 3; count++) {
        write_folder(state);
        add_copies(names, count);
        write_safetensors(folder(state, "model.safetensors"), "F32");
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        check_tensors(exported(state, "model.safetensors"), "F32");
        check_again(state);
    }
}

/* What transformers gives its own table, which the file's must fit. */
static void check_positions(void **state, int64_t rows)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *made;
    assert_ok(et_value_read_file(&made, &arena, exported(state, "config.json"), 1 << 20,
                                 et_json_parse, error));
    assert_int_equal(et_value_get(made, "max_position_embeddings")->integer, rows);
    et_arena_release(&arena);
}

/* The import becomes what its own export is. */
static void export_own(void **state)
{
    et_translator *t;
    char path[800];
    snprintf(path, sizeof path, "%s", in(state, "model.safetensors"));
    assert_ok(et_translator_open(&t, path, NULL, error));
    assert_ok(et_translator_export(t, path, NULL, error));
    et_translator_close(t);
}

/* Tables of sinusoids, also those that transformers makes, go out as they came in. */
static void test_import__positions(void **state)
{
    for (int other = 0; other < 2; other++) {
        write_folder(state);
        add_positions(other);
        write_safetensors(folder(state, "model.safetensors"), "F32");
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        check_tensors(exported(state, "model.safetensors"), "F32");
        check_positions(state, 20);
        check_again(state);
        write_torch(state, true);
        add_positions(other);
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        add_copies((const char *const[]){ "lm_head" }, 1);
        check_tensors(exported(state, "model.safetensors"), "F32");
        weight_count--;
        value_count -= TOKENS * WIDTH;
        remove(folder(state, "pytorch_model.bin"));
        values[value_count - 7] += 1e-6f;
        write_safetensors(folder(state, "model.safetensors"), "F32");
        assert_ok(import(state, error));
        export_own(state);
        assert_ok(export_folder(state, NULL, error));
        check_tensors(exported(state, "model.safetensors"), "F32");
        values[value_count - 7] += 0.1f;
        write_safetensors(folder(state, "model.safetensors"), "F32");
        assert_fails(import(state, error), ET_EFORMAT,
                     "model.decoder.embed_positions.weight is not a table of sinusoids");
    }
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

static int initialize(et_params *params, const char *path, const char *pattern, et_error *failure)
{
    et_import *from;
    assert_ok(et_import_open(&from, path, error));
    int status = et_import_initialize(from, params, pattern, failure);
    et_import_close(from);
    return status;
}

/* An open model needs its folder no more; after its weights were used, they are opened again. */
static void test_import__opens_once(void **state)
{
    static const char *const names[] = { "config.json", "generation_config.json",
                                         "vocab.json",  "source.spm",
                                         "target.spm",  "model.safetensors" };
    et_import *from;
    const char *settings;
    char path[800];
    write_folder(state);
    snprintf(path, sizeof path, "%s/hf//", (const char *)*state);
    assert_ok(et_import_open(&from, path, error));
    assert_true(et_import_is_of(from, path));
    path[strlen(path) - 2] = 0;
    assert_true(et_import_is_of(from, path));
    assert_false(et_import_is_of(from, "hf"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        remove(folder(state, names[i]));
    assert_ok(et_import_print_settings(from, &settings, error));
    assert_non_null(strstr(settings, "experiment: translation/base"));
    et_params *params = make_params(TOKENS);
    assert_ok(et_import_initialize(from, params, ".", error));
    assert_true(values_of(params, "embedding/table")[0] == value_of("model.shared.weight", 0));
    assert_fails(et_import_initialize(from, params, ".", error), ET_ENOTFOUND, "config.json");
    write_folder(state);
    assert_ok(et_import_initialize(from, params, ".", error));
    et_params_free(params);
    et_import_close(from);
}

/* Languages of the folder are rules for punctuation, and go out again. */
static void test_import__languages(void **state)
{
    static const char *const rows[][3] = {
        { "{\"source_lang\": \"en\", \"target_lang\": \"de\"}", "en", "de" },
        /* Tokenizers without a limit have this length. */
        { "{\"source_lang\": \"en\", \"target_lang\": \"de\", "
          "\"model_max_length\": 1000000000000000019884624838656}",
          "en", "de" },
        { "{\"source_lang\": \"ROMANCE\", \"target_lang\": \"zh_Hans\"}", "mul", "zh_Hans" },
        { "{\"source_lang\": 3, \"target_lang\": \"\"}", NULL, NULL },
        { NULL, NULL, NULL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_import *from;
        write_folder(state);
        if (rows[i][0])
            put_text(state, "tokenizer_config.json", rows[i][0]);
        assert_ok(et_import_open(&from, in(state, "hf"), error));
        const et_value *made = et_value_get(et_import_settings(from), "vocabulary");
        check_text(made, "source_punctuation", rows[i][1]);
        check_text(made, "target_punctuation", rows[i][2]);
        et_import_close(from);
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        et_arena arena = ET_ARENA_INIT;
        et_value *out;
        assert_ok(et_value_read_file(&out, &arena, exported(state, "tokenizer_config.json"),
                                     1 << 20, et_json_parse, error));
        check_text(out, "source_lang", rows[i][1]);
        check_text(out, "target_lang", rows[i][2]);
        et_arena_release(&arena);
    }
}

/* The folder alone gives the weights, all or those of a pattern. */
static void test_import__initializes(void **state)
{
    char path[800];
    write_folder(state);
    snprintf(path, sizeof path, "%s/hf", (const char *)*state);
    for (int i = 0; i < 2; i++) {
        et_params *params = make_params(TOKENS);
        assert_ok(initialize(params, path, i ? "^encoder/" : ".", error));
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
    assert_fails(initialize(params, path, ".", error), ET_ECONFIG,
                 "embedding/table is [30, 16] in the folder, but [31, 16] here");
    assert_fails(initialize(params, path, NULL, error), ET_ECONFIG, "this run has no encoder/");
    assert_true(values_of(params, "encoder/layer_0/self_attention/norm/scale")[0] == 7);
    assert_ok(initialize(params, path, "norm", error));
    assert_fails(initialize(params, path, "none", error), ET_ECONFIG,
                 "init_pattern matches no parameter");
    et_params_free(params);
}

/* The export says that tables are shared, as the folder did. */
static void check_shares(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *made;
    bool shares;
    assert_ok(et_value_read_file(&made, &arena, exported(state, "config.json"), 1 << 20,
                                 et_json_parse, error));
    assert_ok(et_value_read_bool(made, "share_encoder_decoder_embeddings", &shares, error));
    assert_true(shares);
    et_arena_release(&arena);
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
        assert_ok(export_folder(state, NULL, error));
        check_tensors(exported(state, "model.safetensors"), "F32");
        check_shares(state);
        check_again(state);
    }
}

/* Kept tensors of another model, or damaged, are refused. */
static void test_import__unused_of_another(void **state)
{
    static const char name[] = "model.encoder.embed_positions.weight";
    size_t length;
    write_folder(state);
    add_positions(false);
    write_safetensors(folder(state, "model.safetensors"), "F32");
    et_import *from;
    assert_ok(et_import_open(&from, in(state, "hf"), error));
    assert_ok(et_import_write(from, in(state, "dir"), error));
    et_import_close(from);
    char *file = get_file(in(state, "dir/unused.safetensors"), &length);
    file[length - 1] ^= 1;
    put_file(in(state, "dir/unused.safetensors"), file, length);
    free(file);
    assert_fails(export_of(state, "dir", error), ET_EFORMAT, "damaged");
    const float wide[2 * WIDTH] = { 0 };
    const et_safetensors_item item = {
        name, { .dtype = ET_F32, .shape = et_shape_2(1, 2 * WIDTH), .data = (void *)wide }
    };
    et_safetensors_written written;
    assert_ok(
        et_safetensors_write(&written, in(state, "dir/unused.safetensors"), &item, 1, NULL, error));
    assert_fails(export_of(state, "dir", error), ET_EFORMAT,
                 "embed_positions.weight belongs to another");
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

/* ---- added tokens ---- */

/* vocab.json without its last two tokens, which are in the file. */
static void put_added(void **state, const char *file, const char *text)
{
    char list[1024];
    write_folder(state);
    snprintf(list, sizeof list, "%s", vocabulary());
    put_text(state, "vocab.json", list);
    replace_in(folder(state, "vocab.json"), ", \"\xe2\x96\x81y\": 26, \"\xe2\x96\x81z\": 27", "");
    replace_in(folder(state, "vocab.json"), "\">>fra<<\": 28, \"<pad>\": 29",
               "\">>fra<<\": 26, \"<pad>\": 27");
    replace_in(folder(state, "config.json"), "\"pad_token_id\": 29, \"decoder_start_token_id\": 29",
               "\"pad_token_id\": 27, \"decoder_start_token_id\": 27");
    put_text(state, file, text);
}

static const struct {
    const char *file, *text;
} added[] = {
    { "added_tokens.json", "{\"<ph>\": 29, \"@@\": 28, \"</s>\": 0}" },
    { "tokenizer_config.json",
      "{\"added_tokens_decoder\": {\"0\": {\"content\": \"</s>\"}, \"28\": "
      "{\"content\": \"@@\"}, \"29\": {\"content\": \"<ph>\"}}}" },
    { "tokenizer.json", "{\"added_tokens\": [{\"id\": 28, \"content\": \"@@\"}, {\"id\": 29, "
                        "\"content\": \"<ph>\"}]}" },
};

/* A text that has an added token becomes the token, here and of the model that goes out again. */
static void test_import__added_tokens(void **state)
{
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        et_import *from;
        et_vocabulary *v;
        size_t length;
        put_added(state, added[i].file, added[i].text);
        assert_ok(import(state, error));
        assert_ok(export_folder(state, NULL, error));
        check_again(state);
        for (int again = 0; again < 2; again++) {
            assert_ok(et_import_open(&from, in(state, again ? "out" : "hf"), error));
            const char *model = et_import_vocabulary(from, ET_SIDE_SOURCE, &length);
            assert_ok(et_vocabulary_parse(&v, model, length, "a vocabulary", error));
            assert_int_equal(et_vocabulary_size(v), TOKENS);
            assert_string_equal(et_vocabulary_token(v, 29), "<ph>");
            check_ids(v, "d@@", 2, (int32_t[]){ 5, 28 });
            check_ids(v, "d<ph> h", 3, (int32_t[]){ 5, 29, 9 });
            et_vocabulary_close(v);
            et_import_close(from);
        }
    }
}

static void test_import__added_tokens_refused(void **state)
{
    static const char *const cases[][2] = {
        { "{\"<ph>\": 29, \"@@\": 28, \"x\": 30}", "added_tokens.json: the added token \"x\" has "
                                                   "the number 30, but the model has weights for "
                                                   "30 tokens (vocab_size" },
        { "{\"<ph>\": 29, \"@@\": 5}",
          "\"@@\" has the number 5, which another token of vocab.json" },
        { "{\"<ph>\": 29, \"</s>\": 28}", "\"</s>\" has the number 28, but another one in vocab" },
        { "{\"<ph>\": 29, \"@@\": 29}", "have one number, 29" },
        { "{\"<ph>\": 29}", "has 29 tokens, including the added tokens, but config.json says 30" },
        { "{\"<ph>\": \"29\"}", "must give added tokens as texts with numbers" },
        { "{\"\": 28}", "must give added tokens as texts with numbers" },
        { "{\"<ph>\": -1}", "must give added tokens as texts with numbers" },
        { "[28]", "added_tokens.json: not" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_added(state, "added_tokens.json", cases[i][0]);
        assert_fails(import(state, error), ET_EFORMAT, cases[i][1]);
    }
    put_added(state, "tokenizer_config.json",
              "{\"added_tokens_decoder\": {\"28x\": {\"content\": "
              "\"@@\"}}}");
    assert_fails(import(state, error), ET_EFORMAT, "added_tokens_decoder must give added tokens");
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
    { "config.json", "\"vocab_size\": 30", "\"vocab_size\": 31",
      "has 30 tokens, including the added tokens, but" },
    { "config.json", "\"max_position_embeddings\": 48", "\"max_position_embeddings\": -1",
      "max_position_embeddings is -1" },
    { "generation_config.json", "\"max_length\": 10", "\"max_length\": \"x\"", "max_length" },
    { "config.json", "\"d_model\": 16", "\"d_model\": \"16\"", "d_model" },
    { "config.json", "\"encoder_layers\": 1", "\"encoder_layers\": 2",
      "no tensor model.encoder.layers.1." },
    { "config.json", "\"encoder_layers\": 1", "\"encoder_layers\": 1000000000",
      "config.json: encoder_layers is 1000000000, but must be 1 to 256" },
    { "config.json", "\"encoder_ffn_dim\": 24", "\"encoder_ffn_dim\": 0",
      "encoder_ffn_dim is 0, but must be 1 to 1048576" },
    { "config.json", "\"decoder_layers\": 2", "\"decoder_layers\": 1",
      "does not belong to a supported part of a model" },
    { "config.json", "\"encoder_ffn_dim\": 24", "\"encoder_ffn_dim\": 23",
      "fc1.weight has the shape [24, 16], but its settings give [23, 16]" },
    { "config.json", "{", "", "config.json" },
    { "generation_config.json", "[[29]]", "[[29, 1]]", "bad_words_ids is [[29,1]]" },
    { "generation_config.json", "[[29]]", "[[99]]", "bad_words_ids has 99" },
    { "generation_config.json", "{", "{\"forced_eos_token_id\": 3, ", "forced_eos_token_id is 3" },
    { "generation_config.json", "{", "{\"repetition_penalty\": 1.5, ",
      "repetition_penalty is 1.5" },
    { "generation_config.json", "{", "{\"forced_bos_token_id\": 3, ", "forced_bos_token_id is 3" },
    { "generation_config.json", "{", "{\"suppress_tokens\": [3], ", "suppress_tokens is [3]" },
    { "generation_config.json", "{", "{\"sequence_bias\": {\"a\": 1}, ", "sequence_bias is {" },
    { "generation_config.json", "{", "{\"min_new_tokens\": 2, ", "min_new_tokens is 2" },
    { "generation_config.json", "{", "{\"eos_token_id\": [0, 5], ", "eos_token_id is [0,5], but" },
    { "generation_config.json", "{", "{\"pad_token_id\": 5, ", "must be as in config.json" },
    { "config.json", "{", "{\"length_penalty\": \"x\", ", "/config.json: length_penalty is \"x\"" },
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
        write_folder(state);
        replace_in(folder(state, refusals[i].file), refusals[i].find, refusals[i].put);
        et_error failure = ET_ERROR_INIT;
        assert_int_not_equal(import(state, &failure), ET_OK);
        if (!strstr(failure.text, refusals[i].words))
            fail_msg("\"%s\" is not in \"%s\"", refusals[i].words, failure.text);
        assert_false(file_is_there(in(state, "model.safetensors")));
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
        cmocka_unit_test(test_import__opens_once),
        cmocka_unit_test(test_import__languages),
        cmocka_unit_test(test_import__untied),
        cmocka_unit_test(test_import__unused_of_another),
        cmocka_unit_test(test_import__forced_end),
        cmocka_unit_test(test_import__goes_out_again),
        cmocka_unit_test(test_import__tables_go_out_again),
        cmocka_unit_test(test_import__copies_go_out_again),
        cmocka_unit_test(test_import__positions),
        cmocka_unit_test(test_import__added_tokens),
        cmocka_unit_test(test_import__added_tokens_refused),
        cmocka_unit_test(test_import__refuses_by_name),
        cmocka_unit_test(test_import__files),
        cmocka_unit_test(test_import__damage),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
