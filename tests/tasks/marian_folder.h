/* A folder of transformers' MarianMT, made here: weights that are formulas, SentencePiece models of
 * single letters, and the JSON files. tools/golden-marian makes the same for transformers. Include
 * after cmocka.h and files.h. */
#ifndef ETUDE_TESTS_TASKS_MARIAN_FOLDER_H
#define ETUDE_TESTS_TASKS_MARIAN_FOLDER_H

#include <math.h>
#include <stdbool.h>

#include "formats/torch_samples.h"

/* Letters: id 2 is "a", 27 "z". */
enum { TOKENS = 30, TAG = 28, PAD = 29, WIDTH = 16, INNER = 24 };

/* ---- SentencePiece models ---- */

static inline void put_field(bytes *to, int number, const void *from, size_t length)
{
    add_number(to, (uint64_t)(number << 3 | 2), 1);
    add_number(to, length, 1);
    add(to, from, length);
}

static inline void put_piece(bytes *to, const char *text, float score, int type)
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
static inline void make_model(bytes *to, char without, int kind)
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

static inline float value_of(const char *name, int64_t i)
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

static inline void add_weight(const char *stem, const char *ending, int rows, int columns)
{
    weight *w = &weights[weight_count++];
    snprintf(w->name, sizeof w->name, "%s%s", stem, ending);
    w->rows = rows;
    w->columns = columns;
    w->at = value_count;
    for (int64_t i = 0; i < (int64_t)columns * (rows ? rows : 1); i++)
        values[value_count++] = value_of(w->name, i);
}

static inline void add_pair(const char *stem, const char *part, int rows, int columns)
{
    char whole[80];
    snprintf(whole, sizeof whole, "%s%s", stem, part);
    add_weight(whole, ".weight", rows, columns);
    add_weight(whole, ".bias", 0, rows ? rows : columns);
}

static inline void add_attention(const char *layer, const char *name)
{
    static const char *const parts[] = { ".q_proj", ".k_proj", ".v_proj", ".out_proj" };
    char stem[80];
    snprintf(stem, sizeof stem, "%s%s", layer, name);
    for (int i = 0; i < 4; i++)
        add_pair(stem, parts[i], WIDTH, WIDTH);
    add_pair(stem, "_layer_norm", 0, WIDTH);
}

static inline void add_layer(const char *stack, int number)
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

static inline void make_weights(void)
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
static inline uint16_t narrow(float value, bool half)
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
static inline const void *stored(const char *type)
{
    static uint16_t halves[sizeof values / sizeof *values];
    if (!strcmp(type, "F32"))
        return values;
    for (size_t i = 0; i < value_count; i++)
        halves[i] = narrow(values[i], !strcmp(type, "F16"));
    return halves;
}

static inline void write_safetensors(const char *path, const char *type)
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
    "\"pad_token_id\": 29, \"decoder_start_token_id\": 29, \"normalize_before\": false, "
    "\"max_position_embeddings\": 48}";
static const char generation[] =
    "{\"num_beams\": 4, \"bad_words_ids\": [[29]], \"max_length\": 10}";

static inline const char *vocabulary(void)
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

static inline const char *folder(void **state, const char *name)
{
    static char path[800];
    snprintf(path, sizeof path, "%s/hf/%s", (const char *)*state, name);
    return path;
}

static inline void put_text(void **state, const char *name, const char *text)
{
    put_file(folder(state, name), text, strlen(text));
}

/* As it is published, without weights of another form. */
static inline void write_folder(void **state)
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
    remove(folder(state, "tokenizer.json"));
    remove(folder(state, "added_tokens.json"));
    write_safetensors(folder(state, "model.safetensors"), "F32");
}

/* Tables of both stacks, 20 rows each; other: those that transformers does not make. */
static inline void add_positions(bool other)
{
    static const char *const stacks[] = { "encoder", "decoder" };
    for (int i = 0; i < 2; i++) {
        char name[80];
        snprintf(name, sizeof name, "model.%s.embed_positions", stacks[i]);
        add_weight(name, ".weight", 20, WIDTH);
        for (int k = 0; k < 20 * WIDTH; k++) {
            const int j = k % (WIDTH / 2), cosine = k % WIDTH >= WIDTH / 2;
            const double by = other ? WIDTH / 2 - 1 : WIDTH / 2;
            const double angle = k / WIDTH * pow(10000, -j / by);
            values[value_count - 20 * WIDTH + (size_t)k] =
                (float)(cosine ? cos(angle) : sin(angle));
        }
    }
}

/* A model that Marian can have: the token that begins a target is zeros, sinusoids are Marian's. */
static inline void write_fitting_folder(void **state)
{
    write_folder(state);
    for (int i = 0; i < WIDTH; i++)
        values[weights[1].at + (size_t)(PAD * WIDTH + i)] = 0;
    values[weights[0].at + PAD] = 0;
    add_positions(true);
    write_safetensors(folder(state, "model.safetensors"), "F32");
}

#endif
