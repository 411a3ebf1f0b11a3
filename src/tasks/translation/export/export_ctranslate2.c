/* The model for CTranslate2: model.bin, config.json and shared_vocabulary.json, or with two
 * vocabularies source_vocabulary.json and target_vocabulary.json, as its converters write them
 * (ctranslate2/specs, binary version 6, TransformerSpec revision 7).
 *
 *   model.bin: u32 version | name | u32 revision | u32 variables, each
 *                  name | u8 rank | u32 size... | u8 type | u32 bytes | data
 *              | u32 aliases, each  name | name of the variable
 *   name: u16 length with the final 0 | text | 0; all little-endian
 *
 * A dense layer is [inputs, units] here and [units, inputs] there; queries, keys and values are
 * side by side in both. A stack has a norm at its end if, and only if, it is pre-norm. */
#include "formats/torch/transformers_files.h"
#include "tasks/translation/export/export_private.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/kernel/positions.h"

#define VERSION   6
#define REVISION  7
#define POSITIONS ET_TRANSLATION_SOURCE_MAX

/* Types, with CTranslate2's numbers. */
enum { TYPE_FLOAT32 = 0, TYPE_INT8 = 1, TYPE_INT16 = 2 };

/* The file while it is written. Variables are counted first, and again while they are written. */
typedef struct output {
    const et_translator *t;
    et_transformer model;
    et_file_writer writer;
    bool counting;
    uint32_t count;
    float *room; /* for the largest matrix, turned, and for positions; owned */
    char name[192];
    et_error *error;
} output;

/* ---- bytes ---- */

static void put(output *o, const void *bytes, size_t length)
{
    if (!o->counting)
        et_file_writer_put(&o->writer, bytes, length);
}

static void put_number(output *o, uint32_t value, int bytes)
{
    unsigned char little[4];
    for (int i = 0; i < bytes; i++)
        little[i] = (unsigned char)(value >> (8 * i));
    put(o, little, (size_t)bytes);
}

static void put_name(output *o, const char *name)
{
    const size_t length = strlen(name) + 1;
    put_number(o, (uint32_t)length, 2);
    put(o, name, length);
}

static void put_head(output *o, const char *name, int rank, const int64_t *sizes, int type,
                     size_t element)
{
    size_t bytes = element;
    put_name(o, name);
    put_number(o, (uint32_t)rank, 1);
    for (int i = 0; i < rank; i++) {
        put_number(o, (uint32_t)sizes[i], 4);
        bytes *= (size_t)sizes[i];
    }
    put_number(o, (uint32_t)type, 1);
    put_number(o, (uint32_t)bytes, 4);
    o->count++;
}

/* ---- variables ---- */

static void put_option(output *o, const char *stack, const char *name, int value, int type)
{
    const int bytes = type == TYPE_INT8 ? 1 : 2;
    snprintf(o->name, sizeof o->name, "%s/%s", stack, name);
    put_head(o, o->name, 0, NULL, type, (size_t)bytes);
    put_number(o, (uint32_t)value, bytes);
}

static void put_floats(output *o, const char *name, const float *values, et_shape shape)
{
    put_head(o, name, shape.rank, shape.size, TYPE_FLOAT32, sizeof *values);
    put(o, values, et_shape_count(shape) * sizeof *values);
}

/* Writes an Etude parameter under CTranslate2's name; turned: transposes the matrix. */
static void put_param(output *o, const char *to, const char *from, bool turned)
{
    et_params *params = o->t->params;
    const int i = et_params_find(params, from);
    et_assert(i >= 0);
    const float *values = et_params_values_of(params, i);
    et_shape shape = et_params_shape(params, i);
    if (turned && !o->counting) {
        const int64_t rows = shape.size[0], columns = shape.size[1];
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                o->room[c * rows + r] = values[r * columns + c];
        values = o->room;
    }
    if (turned)
        shape = et_shape_2(shape.size[1], shape.size[0]);
    put_floats(o, to, values, shape);
}

static void put_norm(output *o, const char *to, const char *from)
{
    static const char *const parts[][2] = { { "beta", "offset" }, { "gamma", "scale" } };
    for (int i = 0; i < 2; i++) {
        char name[192];
        snprintf(o->name, sizeof o->name, "%s/layer_norm/%s", to, parts[i][0]);
        snprintf(name, sizeof name, "%s/%s", from, parts[i][1]);
        put_param(o, o->name, name, false);
    }
}

/* parts: of a sub-layer, in the order of linear_0, linear_1, ... */
static void put_block(output *o, const char *layer, const char *to, const char *from,
                      const char *const *parts, int count)
{
    char there[160], here[160];
    snprintf(there, sizeof there, "%s/%s", layer, to);
    snprintf(here, sizeof here, "%s/%s/norm", layer, from);
    put_norm(o, there, here);
    for (int i = 0; i < count; i++) {
        snprintf(there, sizeof there, "%s/%s/linear_%d", layer, to, i);
        snprintf(here, sizeof here, "%s/%s/%s", layer, from, parts[i]);
        char name[192];
        snprintf(name, sizeof name, "%s/bias", here);
        snprintf(o->name, sizeof o->name, "%s/bias", there);
        if (et_params_find(o->t->params, name) >= 0)
            put_param(o, o->name, name, false);
        snprintf(name, sizeof name, "%s/weight", here);
        snprintf(o->name, sizeof o->name, "%s/weight", there);
        put_param(o, o->name, name, true);
    }
}

static void put_layer(output *o, const char *stack, int number)
{
    static const char *const self[] = { "qkv", "output" };
    static const char *const cross[] = { "query", "key_value", "output" };
    static const char *const inner[] = { "in", "out" };
    char layer[64];
    snprintf(layer, sizeof layer, "%s/layer_%d", stack, number);
    put_block(o, layer, "self_attention", "self_attention", self, 2);
    if (!strcmp(stack, "decoder"))
        put_block(o, layer, "attention", "cross_attention", cross, 3);
    put_block(o, layer, "ffn", "feed_forward", inner, 2);
}

/* Their numbers of activations: ReLU, GELU by tanh, Swish, GELU, one more, tanh, sigmoid. */
static int activation_of(et_activation activation)
{
    switch (activation) {
    case ET_ACTIVATION_RELU:
        return 0;
    case ET_ACTIVATION_SWISH:
        return 2;
    case ET_ACTIVATION_GELU:
        return 3;
    case ET_ACTIVATION_TANH:
        return 5;
    case ET_ACTIVATION_SIGMOID:
        return 6;
    default:
        return -1;
    }
}

static void put_stack(output *o, const char *name, const et_transformer_stack *stack)
{
    const bool decoder = !strcmp(name, "decoder");
    put_option(o, name, "activation", activation_of(stack->activation), TYPE_INT8);
    put_option(o, name, "num_heads", stack->num_attention_heads, TYPE_INT16);
    put_option(o, name, "pre_norm", stack->norm_first, TYPE_INT8);
    put_option(o, name, "scale_embeddings", !o->model.plain_embeddings, TYPE_INT8);
    if (!decoder) {
        put_option(o, name, "embeddings_merge", 0, TYPE_INT8);
        put_option(o, name, "multi_query_attention", 0, TYPE_INT8);
    } else {
        put_option(o, name, "alibi", 0, TYPE_INT8);
        put_option(o, name, "alibi_use_positive_positions", 0, TYPE_INT8);
        put_option(o, name, "scale_alibi", 0, TYPE_INT8);
        put_option(o, name, "start_from_zero_embedding", 0, TYPE_INT8);
        put_option(o, name, "alignment_heads", 1, TYPE_INT16);
        put_option(o, name, "alignment_layer", -1, TYPE_INT16);
    }
    for (int i = 0; i < stack->num_layers; i++)
        put_layer(o, name, i);
    char norm[32];
    snprintf(norm, sizeof norm, "%s/final_norm", name);
    if (stack->final_norm)
        put_norm(o, name, norm);
}

/* Tables with CTranslate2's names. The target's table comes first, because the others may be the
 * same table. */
typedef struct table {
    const char *name;
    const et_transformer_tokens *tokens;
} table;
enum { TABLES = 3 };

static void list_tables(const output *o, table tables[TABLES])
{
    tables[0] = (table){ "decoder/embeddings/weight", &o->model.target };
    tables[1] = (table){ "encoder/embeddings_0/weight", &o->model.source };
    tables[2] = (table){ "decoder/projection/weight", &o->model.output };
}

/* The first table that is the same as number i: number i itself, or an earlier one. */
static int first_of(const table tables[TABLES], int i)
{
    int k = 0;
    while (strcmp(tables[k].tokens->scope, tables[i].tokens->scope) != 0)
        k++;
    return k;
}

/* The bias of logits, with the tokens that are never generated far below all others. */
static void put_output_bias(output *o)
{
    et_params *params = o->t->params;
    const int64_t count = o->model.output.count;
    const int i = et_params_find_printf(params, "%s/bias", o->model.output.scope);
    if (i < 0 && !o->t->choice.never_count)
        return;
    for (int64_t k = 0; k < count && !o->counting; k++)
        o->room[k] = i < 0 ? 0 : et_params_values_of(params, i)[k];
    for (int k = 0; k < o->t->choice.never_count && !o->counting; k++)
        o->room[o->t->choice.never[k]] = -1e9f;
    put_floats(o, "decoder/projection/bias", o->room, et_shape_1(count));
}

static void put_variables(output *o)
{
    const int64_t width = o->model.width;
    put_stack(o, "decoder", &o->model.decoder);
    table tables[TABLES];
    list_tables(o, tables);
    for (int i = 0; i < TABLES; i++) {
        char name[192];
        snprintf(name, sizeof name, "%s/table", tables[i].tokens->scope);
        if (first_of(tables, i) == i)
            put_param(o, tables[i].name, name, false);
    }
    put_output_bias(o);
    if (!o->counting)
        et_positions_fill(o->room, POSITIONS, width, o->model.open_positions);
    put_floats(o, "decoder/position_encodings/encodings", o->room, et_shape_2(POSITIONS, width));
    put_stack(o, "encoder", &o->model.encoder);
}

/* ---- files ---- */

static int make_room(output *o)
{
    int64_t most = POSITIONS * o->model.width;
    for (int i = 0; i < et_params_count(o->t->params); i++) {
        const int64_t size = et_shape_count(et_params_shape(o->t->params, i));
        most = size > most ? size : most;
    }
    if (most > UINT32_MAX / (int64_t)sizeof *o->room)
        return et_fail(o->error, ET_EFAIL, "CTranslate2 does not support matrices of %lld elements",
                       (long long)most);
    return ET_ALLOC(o->room, most, "a model to export", o->error);
}

static int write_bytes(output *o, const char *path)
{
    o->counting = true;
    put_variables(o);
    const uint32_t variables = o->count;
    o->counting = false;
    o->count = 0;
    int status = et_file_writer_open(&o->writer, path, o->error);
    if (status)
        return status;
    put_number(o, VERSION, 4);
    put_name(o, "TransformerSpec");
    put_number(o, REVISION, 4);
    put_number(o, variables, 4);
    put_variables(o);
    et_assert_equal(o->count, variables);
    table tables[TABLES];
    uint32_t count = 1;
    list_tables(o, tables);
    for (int i = 0; i < TABLES; i++)
        count += first_of(tables, i) < i;
    put_number(o, count, 4);
    for (int i = 0; i < TABLES; i++)
        if (first_of(tables, i) < i) {
            put_name(o, tables[i].name);
            put_name(o, tables[first_of(tables, i)].name);
        }
    put_name(o, "encoder/position_encodings/encodings");
    put_name(o, "decoder/position_encodings/encodings");
    return et_file_writer_end(&o->writer, ET_OK, o->error);
}

static int write_values(const char *path, const et_value *values, et_error *error)
{
    return values && !et_value_failed(values) ? et_json_write(path, values, 2, "\n", error)
                                              : et_alloc_failed(error, "a vocabulary");
}

static int write_config(const et_translator *t, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    if (dict) {
        const et_vocabulary *v = t->sides.target;
        const int32_t bos = et_vocabulary_bos(v);
        et_value_set_bool(dict, "add_source_bos", false);
        et_value_set_bool(dict, "add_source_eos", true);
        et_value_set_string(dict, "bos_token", bos < 0 ? "<s>" : et_vocabulary_token(v, bos));
        et_value_set_string(dict, "decoder_start_token",
                            et_vocabulary_token(v, et_vocabulary_start(v)));
        et_value_set_string(dict, "eos_token", et_vocabulary_token(v, et_vocabulary_eos(v)));
        et_value_set_string(dict, "unk_token", et_vocabulary_token(v, et_vocabulary_unk(v)));
        et_value_set_float(dict, "layer_norm_epsilon",
                           (double)et_translator_transformer(t).encoder.norm_epsilon);
        et_value_set_bool(dict, "multi_query_attention", false);
    }
    int status = write_values(path, dict, error);
    et_arena_release(&arena);
    return status;
}

/* Refuses settings for which CTranslate2's Transformer has no variable. */
static int check_model(const et_translator *t, et_error *error)
{
    const et_transformer model = et_translator_transformer(t);
    const et_transformer_stack *stacks[] = { &model.encoder, &model.decoder };
    for (int i = 0; i < 2; i++) {
        if (stacks[i]->final_norm != stacks[i]->norm_first)
            return et_fail(error, ET_ECONFIG,
                           "CTranslate2 needs final_norm: true with pre-norm and false with "
                           "post-norm, unlike this model");
        if (activation_of(stacks[i]->activation) < 0)
            return et_fail(error, ET_ECONFIG,
                           "CTranslate2 does not support the activation %s of the feed-forward",
                           et_activation_names[stacks[i]->activation]);
    }
    if (model.encoder.norm_epsilon != model.decoder.norm_epsilon)
        return et_fail(error, ET_ECONFIG,
                       "CTranslate2 needs the same norm_epsilon in encoder and decoder");
    return et_sides_check_symbols(t->sides, "CTranslate2", error);
}

/* Vocabularies come first, then settings, then weights: a directory that has them is whole. */
static int write_one(void *self, int which, const char *path, et_error *error)
{
    const et_translator *t = *(const et_translator *const *)self;
    const et_vocabularies *v = t->vocabularies;
    if (which < v->count) {
        const et_vocabulary *vocabulary = v->models[which];
        et_arena arena = ET_ARENA_INIT;
        et_value *list = et_value_list(&arena);
        for (int32_t i = 0; list && i < et_vocabulary_size(vocabulary); i++)
            et_value_add_string(list, et_vocabulary_token(vocabulary, i));
        int status = write_values(path, list, error);
        et_arena_release(&arena);
        return status;
    }
    if (which == v->count)
        return write_config(t, path, error);
    output o = { .t = t, .model = et_translator_transformer(t), .error = error };
    int status = make_room(&o);
    if (!status)
        status =
            et_disk_check(path, (uint64_t)et_params_elements(t->params) * sizeof(float), error);
    if (!status)
        status = write_bytes(&o, path);
    et_free(o.room);
    return status;
}

int et_translator_export_ctranslate2(const et_translator *t, const char *directory,
                                     const et_export_options *options, et_error *error)
{
    et_assert(t && directory && options);
    (void)options;
    const et_vocabularies *v = t->vocabularies;
    const int count = v->count + 2;
    char vocabularies[ET_SIDES][64];
    const char *names[ET_SIDES + 2];
    for (int i = 0; i < v->count; i++) {
        snprintf(vocabularies[i], sizeof vocabularies[i], "%s_vocabulary.json", v->roles[i].side);
        names[i] = vocabularies[i];
    }
    names[v->count] = ET_TRANSFORMERS_CONFIG;
    names[v->count + 1] = "model.bin";
    int status = check_model(t, error);
    if (!status)
        status = et_directory_write(directory, names, count, write_one, &t, error);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
