/* A folder of a Bergamot model, made here: the form of the published ones, with weights that are
 * formulas. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TASKS_BERGAMOT_FOLDER_H
#define ETUDE_TESTS_TASKS_BERGAMOT_FOLDER_H

#include "formats/files.h"
#include "formats/marian_samples.h"
#include "tasks/marian_folder.h"

/* Pieces: </s>, <unk>, a word's beginning and the letters alone and after one. */
enum { PIECES = 3 + 2 * 26, BERGAMOT_ITEMS = 140 };

/* The first piece ends a sentence, as Marian trains them. */
static inline void make_pieces(bytes *to)
{
    char letter[] = "\xe2\x96\x81"
                    "a";
    to->length = 0;
    put_piece(to, "</s>", 0, 3);
    put_piece(to, "<unk>", 0, 2);
    put_piece(to, "\xe2\x96\x81", -9, 1);
    for (letter[3] = 'a'; letter[3] <= 'z'; letter[3]++) {
        put_piece(to, letter, -2, 1);
        put_piece(to, letter + 3, -3, 1);
    }
    ADD(to, "\x12\2\x18\1\x1a\x0a\x0a\x08identity"); /* unigram */
}

static const char bergamot_settings[] =
    "dec-cell: ssru\ndec-depth: 2\ndim-emb: 16\ndim-vocabs:\n  - 55\n  - 55\nenc-depth: 1\n"
    "input-types: []\nlayer-normalization: false\nlemma-dim-emb: 0\noutput-omit-bias: false\n"
    "tied-embeddings: false\ntied-embeddings-all: true\ntied-embeddings-src: false\n"
    "transformer-decoder-autoreg: rnn\ntransformer-dim-ffn: 24\n"
    "transformer-ffn-activation: relu\ntransformer-ffn-depth: 2\ntransformer-heads: 2\n"
    "transformer-postprocess: dan\ntransformer-postprocess-emb: d\n"
    "transformer-postprocess-top: \"\"\ntransformer-preprocess: \"\"\n"
    "transformer-tied-layers: []\ntransformer-train-position-embeddings: false\n"
    "type: transformer\nulr: false\n";
static const char bergamot_config[] =
    "relative-paths: true\nmodels:\n  - model.xxyy.intgemm.alphas.bin\nvocabs:\n"
    "  - vocab.xxyy.spm\n  - vocab.xxyy.spm\nshortlist:\n    - lex.50.50.xxyy.s2t.bin\n"
    "    - false\nbeam-size: 1\nnormalize: 1.0\nword-penalty: 0\nmax-length-factor: 2.5\n"
    "gemm-precision: int8shiftAlphaAll\n";

static sample_item bergamot_items[BERGAMOT_ITEMS];
static char bergamot_names[BERGAMOT_ITEMS][60];
static int bergamot_count;

/* Whole numbers of 1/64 below 2: of intgemm8 bytes with m 64. */
static inline void add_bergamot(const char *stem, const char *ending, int rows, int columns,
                                bool wide)
{
    static float room[24000];
    static size_t used;
    const bool scale = strstr(ending, "ln_scale") != NULL;
    const bool multiplier = strstr(ending, "QuantMultA") != NULL;
    if (!bergamot_count)
        used = 0;
    char *name = bergamot_names[bergamot_count];
    float *to = room + used;
    snprintf(name, sizeof bergamot_names[0], "%s%s", stem, ending);
    assert_true(used + (size_t)(rows * columns) <= sizeof room / sizeof *room);
    for (int i = 0; i < rows * columns; i++) {
        const float x = roundf(value_of(name, i) * 64) / 64;
        to[i] = multiplier ? 11.5f : scale ? 1 + x / 2 : x;
    }
    used += (size_t)(rows * columns);
    const uint32_t type = wide ? ET_MARIAN_NUMBER_FLOAT32 : ET_MARIAN_NUMBER_INTGEMM8;
    bergamot_items[bergamot_count++] = (sample_item){ name, type, rows, columns, to, NULL, 64 };
}

/* A weight and, of intgemm8, its multiplier of rows. */
static inline void add_product(const char *stem, const char *ending, int rows, int columns,
                               bool wide)
{
    char multiplier[60];
    add_bergamot(stem, ending, rows, columns, wide);
    snprintf(multiplier, sizeof multiplier, "%s" ET_MARIAN_MULTIPLIER, ending);
    if (!wide)
        add_bergamot(stem, multiplier, 1, 1, true);
}

static inline void add_bergamot_layer(const char *stem, const char *of, bool wide)
{
    static const char *const parts[][2] = {
        { "_Wq", "_bq" }, { "_Wk", "_bk" }, { "_Wv", "_bv" }, { "_Wo", "_bo" }
    };
    char whole[60];
    snprintf(whole, sizeof whole, "%s%s", stem, of);
    for (int i = 0; i < 4; i++) {
        add_product(whole, parts[i][0], WIDTH, WIDTH, wide);
        add_bergamot(whole, parts[i][1], 1, WIDTH, true);
    }
    add_bergamot(whole, "_Wo_ln_scale", 1, WIDTH, true);
    add_bergamot(whole, "_Wo_ln_bias", 1, WIDTH, true);
    add_product(stem, "ffn_W1", WIDTH, INNER, wide);
    add_bergamot(stem, "ffn_b1", 1, INNER, true);
    add_product(stem, "ffn_W2", INNER, WIDTH, wide);
    add_bergamot(stem, "ffn_b2", 1, WIDTH, true);
    add_bergamot(stem, "ffn_ffn_ln_scale", 1, WIDTH, true);
    add_bergamot(stem, "ffn_ffn_ln_bias", 1, WIDTH, true);
}

/* wide: all in float32. */
static inline void make_bergamot(bytes *to, const char *settings, bool wide)
{
    bergamot_count = 0;
    add_product("", "Wemb", PIECES, WIDTH, wide);
    add_bergamot("", "decoder_ff_logit_out_b", 1, PIECES, true);
    add_bergamot_layer("encoder_l1_", "self", wide);
    for (int i = 1; i <= 2; i++) {
        char stem[20];
        snprintf(stem, sizeof stem, "decoder_l%d_", i);
        add_bergamot_layer(stem, "context", wide);
        add_product(stem, "rnn_W", WIDTH, WIDTH, wide);
        add_product(stem, "rnn_Wf", WIDTH, WIDTH, wide);
        add_bergamot(stem, "rnn_bf", 1, WIDTH, true);
        add_bergamot(stem, "rnn_ffn_ln_scale", 1, WIDTH, true);
        add_bergamot(stem, "rnn_ffn_ln_bias", 1, WIDTH, true);
    }
    bergamot_items[bergamot_count++] = (sample_item){
        "special:model.yml", ET_MARIAN_NUMBER_BYTE, 0, (int)strlen(settings) + 1, NULL, settings, 0
    };
    assert_true(bergamot_count <= BERGAMOT_ITEMS);
    to->length = 0;
    add_marian_model(to, bergamot_items, bergamot_count);
}

static inline const char *bergamot(void **state, const char *name)
{
    static char paths[4][800];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/bergamot/%s", (const char *)*state, name);
    return path;
}

static inline bool gives_every_third(int s, int t)
{
    return (s + t) % 3 == 0;
}

static inline void write_bergamot(void **state, const char *settings, bool wide)
{
    static bytes file;
    size_t length;
    nftw(bergamot(state, ""), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(in(state, "bergamot"), 0777);
    put_file(bergamot(state, "config.intgemm8bitalpha.yml"), bergamot_config,
             sizeof bergamot_config - 1);
    make_pieces(&file);
    put_file(bergamot(state, "vocab.xxyy.spm"), file.data, file.length);
    make_bergamot(&file, settings, wide);
    put_file(bergamot(state, "model.xxyy.intgemm.alphas.bin"), file.data, file.length);
    char *lexicon = make_lexicon(5, PIECES, PIECES, gives_every_third, &length);
    put_file(bergamot(state, "lex.50.50.xxyy.s2t.bin"), lexicon, length);
    et_free(lexicon);
}

#endif
