/* A Marian model as OPUS-MT or Bergamot publishes it (interchange/marian_files.h): decoder.yml, or
 * config*.yml, names the other files and says how the model is searched; the array or item
 * special:model.yml says what the model is. Fields are as in config.json (import_config.c).
 *
 * Such a model begins a target with zeros in place of an embedding. Here the first token is one
 * more, whose embedding is zeros and which is never generated. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "data/text/sentences.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"

/* A model of Bergamot, as Firefox and translateLocally download it (interchange/marian_files.h):
 * the files that a release of Marian does not have. Fields of settings are those of Marian
 * (import_marian.c).
 *
 * Such a folder comes from a stranger as a whole, so no link leads out of it, and its names are
 * names of files in it. */

/* A model has 60 MB. */
#define MODEL_MAX ((size_t)4 << 30)

/* ---- settings ---- */

static int missing(et_import *from, const char *what, et_error *error)
{
    return et_fail(error, ET_ENOTFOUND, "%s has no %s; download this file, too", from->folder,
                   what);
}

/* A vocabulary of both sides, or one a side. */
static int find_vocabularies(et_import *from, et_value *values, et_error *error)
{
    static const char *const begins[ET_SIDES] = { "srcvocab", "trgvocab" };
    et_value *list = et_value_set_list(values, "vocabs");
    const char *both;
    int status = et_import_find_file(from, ET_BERGAMOT_VOCABULARY, ET_MARIAN_PIECES, &both, error);
    for (int side = 0; side < ET_SIDES && !status; side++) {
        const char *name = both;
        if (!name)
            status = et_import_find_file(from, begins[side], ET_MARIAN_PIECES, &name, error);
        if (!status && !name)
            status = missing(from, "vocab*.spm", error);
        et_value_add_string(list, name ? name : "");
    }
    return status;
}

/* Firefox's downloads have no settings: those of its translator are these. */
static int make_settings(et_import *from, et_value *values, et_error *error)
{
    const char *name;
    int status = et_import_find_file(from, ET_BERGAMOT_MODEL, ET_MARIAN_BINARY, &name, error);
    if (!status && !name)
        status = missing(from, "model*.bin", error);
    et_value_add_string(et_value_set_list(values, "models"), name ? name : "");
    if (!status)
        status = find_vocabularies(from, values, error);
    if (!status)
        status = et_import_find_file(from, ET_BERGAMOT_LEXICON, ET_MARIAN_BINARY, &name, error);
    if (!status && name)
        et_value_add_string(et_value_set_list(values, "shortlist"), name);
    et_value_set_int(values, "beam-size", 1);
    et_value_set_float(values, "normalize", 1);
    et_value_set_float(values, ET_MARIAN_LENGTH_FACTOR, 2);
    return status;
}

/* A folder may also have the settings of other programs; translateLocally reads the usual name. */
static int import_read_bergamot(et_import *from, et_import_config *c, et_error *error)
{
    const char *name = ET_BERGAMOT_USUAL_CONFIG;
    char *root = realpath(from->folder, NULL);
    et_value *values = NULL;
    int status = ET_OK;
    from->root = root ? et_arena_strdup(&from->arena, root) : NULL;
    free(root);
    if (!from->root)
        return et_fail(error, ET_ENOTFOUND, "%s: the folder cannot be opened", from->folder);
    if (!et_import_has(from, name))
        status = et_import_find_file(from, ET_BERGAMOT_CONFIG, ET_MARIAN_VOCABULARY, &name, error);
    if (!status && name) {
        status = et_import_read_yaml(from, name, &values, error);
    } else if (!status) {
        values = et_value_dict(&from->arena);
        status = make_settings(from, values, error);
    }
    if (!status && et_value_failed(values))
        status = et_alloc_failed(error, 0, "settings");
    *c = (et_import_config){ name ? et_import_path(from, name) : from->folder, values };
    return status || c->name ? status : et_alloc_failed(error, 0, "a path");
}

void et_import_set_pair(et_value *settings, const char *source, const char *target)
{
    et_assert(source && target);
    et_value *data = et_value_set_dict(settings, "train_data");
    et_value_set_string(data, "src_lang", source);
    et_value_set_string(data, "tgt_lang", target);
}

/* Codes of Firefox's names have two letters. */
static void import_read_pair(et_import *from, const char *model)
{
    enum { CODE = 2 };
    const char *dot = strchr(model, '.');
    char codes[ET_SIDES][CODE + 1] = { "", "" };
    if (!dot || strcspn(dot + 1, ".") != (size_t)ET_SIDES * CODE)
        return;
    for (int side = 0; side < ET_SIDES; side++)
        memcpy(codes[side], dot + 1 + side * CODE, CODE);
    if (et_language_is_code(codes[0]) && et_language_is_code(codes[1]))
        et_import_set_pair(from->settings, codes[0], codes[1]);
}

/* ---- the other files ---- */

/* IDs of tokens by text, of a SentencePiece model whose numbers are the tokens'. */
static int import_list_pieces(et_import *from, const char *name, et_value **tokens, et_error *error)
{
    et_vocabulary_facts facts;
    et_vocabulary_piece piece;
    char *bytes;
    size_t length, at = 0;
    const char *path = et_import_path(from, name);
    int status = et_import_read_file(from, name, ET_VOCABULARY_BYTES_MAX, &bytes, &length, error);
    if (status)
        return status;
    status = et_vocabulary_check(&facts, bytes, length, path, error);
    *tokens = et_value_dict(&from->arena);
    while (!status && et_vocabulary_next_piece(bytes, length, &at, &piece)) {
        const et_value number = { .kind = ET_VALUE_INT, .integer = (int64_t)(*tokens)->count };
        const char *text = et_arena_printf(&from->arena, "%.*s", (int)piece.length, piece.text);
        if (!text || !et_value_append_copy(*tokens, text, &number))
            status = et_alloc_failed(error, length, "a vocabulary");
    }
    et_free(bytes);
    return status;
}

/* Opens a binary model. settings: the text ET_MARIAN_SETTINGS, borrowed from it. */
static int import_open_binary(et_import *from, const char *name, et_marian_model **model,
                              const char **settings, size_t *length, et_error *error)
{
    char *bytes;
    int status = et_import_read_file(from, name, MODEL_MAX, &bytes, length, error);
    const char *path = et_import_path(from, name);
    *model = NULL;
    if (!status)
        status = et_marian_model_open(model, bytes, *length, path, error);
    if (status)
        return status;
    const et_marian_item *item = et_marian_model_find(*model, ET_MARIAN_SETTINGS);
    if (!item)
        return et_fail(error, ET_EFORMAT,
                       "%s has no item " ET_MARIAN_SETTINGS ", so it is no model of Marian", path);
    if (item->type != ET_MARIAN_TYPE_BYTE)
        return et_fail(error, ET_EFORMAT, "%s: " ET_MARIAN_SETTINGS " is no text", path);
    *settings = item->data;
    *length = (size_t)item->bytes;
    return ET_OK;
}

/* Archives in an archive: the largest models have 2 GB. */
#define WEIGHTS_MAX  ((size_t)16 << 30)
#define SETTINGS_MAX ((uint64_t)1 << 20)

/* The token that begins a target: the first of these names that no token has. */
static const char *const starts[] = { "<pad>", "<start>", "<etude-start>" };

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

static const et_import_fixed model_fields[] = {
    { "layer-normalization", 0, "but only the norms of a Transformer are supported" },
    { "right-left", 0, "but only targets from left to right are supported" },
    { "transformer-ffn-depth", 2, "but only feed-forward layers of two products are supported" },
    { "transformer-no-projection", 0, "but attention needs its projection" },
    { "transformer-no-bias", 0, "but all projections need a bias" },
    { "transformer-no-affine", 0, "but norms need a scale and an offset" },
    { "transformer-train-positions", 0, "but only sinusoidal positions are supported" },
    { "transformer-train-position-embeddings", 0, "but only sinusoidal positions are supported" },
    { "transformer-disable-position-embeddings", 0, "but only sinusoidal positions are supported" },
    { "transformer-pool", 0, "which is not supported" },
    { "output-omit-bias", 0, "but the output needs its bias" },
    { "ulr", 0, "which is not supported" },
    { "lemma-dim-emb", 0, "but vocabularies of factors are not supported" },
    { "factors-dim-emb", 0, "but vocabularies of factors are not supported" },
};
static const et_import_fixed search_fields[] = {
    { "word-penalty", 0, "which is not supported; set it to 0" },
    { "int8shift", 0, "but only float32 is supported" },
    { "int8shiftAll", 0, "but only float32 is supported" },
    { "int8shiftAlpha", 0, "but only float32 is supported" },
    { "int8shiftAlphaAll", 0, "but only float32 is supported" },
};

/* Texts that a field must be; a missing field is the first. */
static const struct {
    const char *field, *values[3], *why;
} texts[] = {
    { "type", { "transformer" }, "but only models of type transformer are supported" },
    { "transformer-decoder-autoreg",
      { "self-attention", "rnn" },
      "but only self-attention and rnn are supported in the decoder" },
    { "transformer-preprocess", { "", "d" }, "but only norms after a layer are supported (\"\")" },
    { "transformer-postprocess",
      { "dan", "an" },
      "but only dropout, sum and norm are supported (\"dan\")" },
    { "transformer-postprocess-emb", { "d", "" }, "but only dropout is supported (\"d\")" },
    { "transformer-postprocess-top",
      { "", "d" },
      "but a norm after the last layer is not supported" },
};

static int check_texts(const et_import_config *c, et_error *error)
{
    for (size_t i = 0; i < COUNT(texts); i++) {
        const et_value *v = et_value_get(c->values, texts[i].field);
        bool known = !v || v->kind == ET_VALUE_NULL;
        for (int k = 0; k < 3 && texts[i].values[k] && !known; k++)
            known = v->kind == ET_VALUE_STRING && !strcmp(v->string, texts[i].values[k]);
        if (!known)
            return et_import_refuse(c, v, texts[i].why, error);
    }
    return ET_OK;
}

/* The cell of a recurrent decoder; others have one in their settings and do not use it. */
static int read_recurrence(const et_import_config *c, et_value *model, et_error *error)
{
    const et_value *kind = et_value_get(c->values, "transformer-decoder-autoreg");
    const et_value *cell = et_value_get(c->values, "dec-cell");
    if (!kind || kind->kind != ET_VALUE_STRING || strcmp(kind->string, "rnn") != 0)
        return ET_OK;
    if (!cell)
        return et_fail(error, ET_ECONFIG, "%s: dec-cell is missing, but must be ssru", c->name);
    if (cell->kind != ET_VALUE_STRING || strcmp(cell->string, "ssru") != 0)
        return et_import_refuse(c, cell, "but only ssru is supported in the decoder", error);
    et_value_set_string(et_value_get(model, "decoder"), "recurrence", "ssru");
    return ET_OK;
}

/* Lists that must be empty, or have one word again and again. */
static int check_list(const et_import_config *c, const char *field, const char *word,
                      const char *why, et_error *error)
{
    const et_value *list = et_value_get(c->values, field);
    if (!list || list->kind == ET_VALUE_NULL)
        return ET_OK;
    if (list->kind != ET_VALUE_LIST)
        return et_import_refuse(c, list, why, error);
    for (const et_value *v = list->first; v; v = v->next)
        if (!word || v->kind != ET_VALUE_STRING || strcmp(v->string, word) != 0)
            return et_import_refuse(c, list, why, error);
    return ET_OK;
}

/* ---- the model ---- */

/* Marian's gelu is x sigmoid(1.702 x), which is another function. */
static int read_activation(const et_import_config *c, et_value *stack, et_error *error)
{
    static const char field[] = "transformer-ffn-activation";
    const et_value *v = et_value_get(c->values, field);
    const char *name = v && v->kind == ET_VALUE_STRING ? v->string : "swish";
    if ((v && v->kind != ET_VALUE_STRING) ||
        (strcmp(name, "swish") != 0 && strcmp(name, "relu") != 0))
        return et_import_refuse(c, v, "but must be swish or relu", error);
    et_value_set_string(stack, "activation", name);
    return ET_OK;
}

/* depth: of its layers; wide: the size of its feed-forward layers, where it has its own. */
static int read_stack(const et_import_config *c, et_value *model, const char *name,
                      const char *depth, const char *wide, et_error *error)
{
    static const char *const rates[][2] = {
        { "transformer-dropout", "dropout_rate" },
        { "transformer-dropout-attention", "attention_dropout_rate" },
        { "transformer-dropout-ffn", "intermediate_dropout" },
    };
    et_value *stack = et_value_set_dict(model, name);
    const et_value *own = et_value_get(c->values, wide);
    const bool has_own = own && (own->kind != ET_VALUE_INT || own->integer != 0);
    int64_t layers = 0, heads = 0, inner = 0;
    int status = et_import_read_size(c, depth, ET_TRANSLATION_LAYERS_MAX, &layers, error);
    if (!status)
        status =
            et_import_read_size(c, "transformer-heads", ET_TRANSLATION_HEADS_MAX, &heads, error);
    if (!status)
        status = et_import_read_size(c, has_own ? wide : "transformer-dim-ffn",
                                     ET_TRANSLATION_INNER_MAX, &inner, error);
    if (!status)
        status = read_activation(c, stack, error);
    for (size_t i = 0; i < COUNT(rates) && !status; i++) {
        double rate = 0;
        status = et_import_read_rate(c, rates[i][0], i ? 0 : 0.1, &rate, error);
        et_value_set_float(stack, rates[i][1], rate);
    }
    et_value_set_int(stack, "num_layers", layers);
    et_value_set_int(stack, "num_attention_heads", heads);
    et_value_set_int(stack, "intermediate_size", inner);
    et_value_set_bool(stack, "use_bias", true);
    et_value_set_bool(stack, "norm_first", false);
    et_value_set_bool(stack, "final_norm", false);
    et_value_set_float(stack, "norm_epsilon", ET_MARIAN_NORM_EPSILON);
    return status;
}

static int read_tables(et_import *from, const et_import_config *c, et_value *model, et_error *error)
{
    bool all = false, output = false, sides = false;
    int status = et_import_read_bool(c, "tied-embeddings-all", false, &all, error);
    if (!status)
        status = et_import_read_bool(c, "tied-embeddings", false, &output, error);
    if (!status)
        status = et_import_read_bool(c, "tied-embeddings-src", false, &sides, error);
    from->facts.shared = all || sides;
    from->facts.tied = all || output;
    et_value_set_bool(model, "tied_embeddings", from->facts.tied);
    et_value_set_bool(model, "shared_embeddings", from->facts.shared);
    return status;
}

static int read_sizes(const et_import_config *c, et_value *model, et_error *error)
{
    int64_t width = 0;
    int status = et_import_read_count(c, "dim-emb", &width, error);
    if (!status)
        status = et_import_check_width(c, "dim-emb", width, error);
    if (!status)
        status =
            et_import_check_heads(c, "transformer-heads", width, "but must divide dim-emb", error);
    et_value_set_int(model, "embedding_width", width);
    et_value_set_float(model, "dropout_rate", 0.1);
    et_value_set_bool(model, "scale_embeddings", true);
    et_value_set_string(model, "sinusoids", "tensor2tensor");
    et_value_set_bool(model, "output_bias", true);
    et_value_set_bool(model, "shrink_beam", true);
    return status;
}

static int read_model(et_import *from, const et_import_config *c, et_value *model, et_error *error)
{
    int status = check_texts(c, error);
    if (!status)
        status = et_import_check_fixed(c, model_fields, COUNT(model_fields), error);
    if (!status)
        status = check_list(c, "transformer-tied-layers", NULL, "but layers are not shared", error);
    if (!status)
        status =
            check_list(c, "input-types", "sequence", "but only sequences are supported", error);
    if (!status)
        status = read_stack(c, model, "encoder", "enc-depth", "transformer-encoder-dim-ffn", error);
    if (!status)
        status = read_stack(c, model, "decoder", "dec-depth", "transformer-decoder-dim-ffn", error);
    if (!status)
        status = read_recurrence(c, model, error);
    if (!status)
        status = read_sizes(c, model, error);
    if (!status)
        status = read_tables(from, c, model, error);
    if (status)
        return status;
    /* Tokens of each side, and the one that begins a target. */
    const et_value *sizes = et_value_get(c->values, "dim-vocabs");
    if (!sizes || sizes->kind != ET_VALUE_LIST || sizes->count != ET_SIDES)
        return et_fail(error, ET_EFORMAT, "%s: dim-vocabs is not a list of two counts", c->name);
    int side = 0;
    for (const et_value *v = sizes->first; v; v = v->next) {
        if (v->kind != ET_VALUE_INT || v->integer < 2 || v->integer >= INT32_MAX)
            return et_import_refuse(c, sizes, "but must be counts of at least 2", error);
        from->facts.tokens[side++] = v->integer + 1;
    }
    return ET_OK;
}

/* ---- files of the settings ---- */

/* A name in the folder of the settings, and no path that leads elsewhere. */
static bool is_name(const char *name)
{
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, "..") != 0;
}

/* Number `index` of a list of `count` files, whose names have one of two endings. */
static int find_file(const et_import_config *c, const char *field, size_t count, size_t index,
                     const char *const endings[2], const char **name, et_error *error)
{
    const et_value *list = et_value_get(c->values, field);
    if (!list || list->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EFORMAT, "%s has no list %s", c->name, field);
    if (list->count != count)
        return et_import_refuse(
            c, list, count == 1 ? "but must be one model" : "but must be two files", error);
    const et_value *v = list->first;
    while (index--)
        v = v->next;
    if (v->kind != ET_VALUE_STRING || !is_name(v->string))
        return et_import_refuse(c, list, "but must name files beside the settings", error);
    if (!et_path_ends(v->string, endings[0]) && !et_path_ends(v->string, endings[1]))
        return et_import_refuse(c, list,
                                count == 1 ? "but only .npz, in float32 or float16, and .bin are "
                                             "supported"
                                           : "but only vocabularies in .yml and .spm are supported",
                                error);
    *name = v->string;
    return ET_OK;
}

static int open_npz(et_import *from, const char *name, et_npz **npz, et_error *error)
{
    const char *path = et_import_path(from, name);
    char *bytes;
    size_t length;
    int status = et_import_check_file(from, name, error);
    if (!status && !from->zip)
        return et_npz_open(npz, path, error);
    if (!status)
        status = et_import_read_file(from, name, WEIGHTS_MAX, &bytes, &length, error);
    return status ? status : et_npz_open_memory(npz, bytes, length, path, error);
}

/* The model's settings, a text with zeros behind it. */
static int read_settings(et_import *from, const char *text, size_t length, et_import_config *c,
                         et_error *error)
{
    et_value *values = NULL;
    c->name = et_arena_printf(&from->arena, "%s: " ET_MARIAN_SETTINGS, c->name);
    if (length > SETTINGS_MAX)
        return et_fail(error, ET_EFORMAT, "%s is no text", c->name);
    const char *copy = et_arena_printf(&from->arena, "%.*s", (int)length, text);
    if (!copy || !c->name)
        return et_alloc_failed(error, length, "settings");
    int status = et_yaml_parse(&values, &from->arena, copy, strlen(copy), c->name, error);
    if (!status && values->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s has no fields", c->name);
    c->values = values;
    return status;
}

static int read_array(et_import *from, const et_npz *npz, et_import_config *c, et_error *error)
{
    const et_npz_array *array = et_npz_find(npz, ET_MARIAN_SETTINGS);
    if (!array)
        return et_fail(error, ET_EFORMAT,
                       "%s has no array " ET_MARIAN_SETTINGS ", so it is no model of Marian",
                       c->name);
    if (array->type != ET_NPZ_BYTE || array->bytes > SETTINGS_MAX)
        return et_fail(error, ET_EFORMAT, "%s: " ET_MARIAN_SETTINGS " is no text", c->name);
    char *text = et_arena_alloc(&from->arena, array->bytes + 1);
    int status = text ? et_npz_read(npz, array, text, error)
                      : et_alloc_failed(error, array->bytes, "settings");
    return status ? status : read_settings(from, text, array->bytes, c, error);
}

static int read_npz(et_import *from, const char *name, et_value *model, et_error *error)
{
    et_npz *npz;
    et_import_config c = { et_import_path(from, name), NULL };
    if (!c.name)
        return et_alloc_failed(error, 0, "a path");
    int status = open_npz(from, name, &npz, error);
    if (status)
        return status;
    status = read_array(from, npz, &c, error);
    if (!status)
        status = read_model(from, &c, model, error);
    if (status) {
        et_npz_close(npz);
        return status;
    }
    return et_weights_file_take_npz(&from->weights, npz, et_import_path(from, name), error);
}

static int read_binary(et_import *from, const char *name, et_value *model, et_error *error)
{
    et_marian_model *binary;
    const char *text = NULL;
    size_t length = 0;
    et_import_config c = { et_import_path(from, name), NULL };
    int status = import_open_binary(from, name, &binary, &text, &length, error);
    if (!status)
        status = read_settings(from, text, length, &c, error);
    if (!status)
        status = read_model(from, &c, model, error);
    if (status) {
        et_marian_model_close(binary);
        return status;
    }
    return et_weights_file_take_marian(&from->weights, binary, et_import_path(from, name), error);
}

/* ---- tokens ---- */

/* Releases with one list name it twice. */
static int read_tokens(et_import *from, int side, const char *const names[], et_error *error)
{
    const char *name = names[side];
    et_value *tokens = NULL;
    et_assert(name && names[0]);
    from->lists[side] = name;
    if (et_path_ends(name, ET_MARIAN_PIECES))
        from->models[side] = name;
    if (side && !strcmp(name, names[0]) && from->facts.tokens[side] == from->facts.tokens[0]) {
        from->tokens[side] = from->tokens[0];
        from->start[side] = from->start[0];
        return ET_OK;
    }
    const bool pieces = et_path_ends(name, ET_MARIAN_PIECES);
    int status = pieces ? import_list_pieces(from, name, &tokens, error)
                        : et_import_read_yaml(from, name, &tokens, error);
    if (status)
        return status;
    if ((int64_t)tokens->count + 1 != from->facts.tokens[side])
        return et_fail(error, ET_EFORMAT, "%s has %zu tokens, but dim-vocabs of the model has %lld",
                       et_import_path(from, name), tokens->count,
                       (long long)from->facts.tokens[side] - 1);
    size_t start = 0;
    while (start < COUNT(starts) && et_value_get(tokens, starts[start]))
        start++;
    if (start == COUNT(starts))
        return et_fail(error, ET_EFORMAT,
                       "%s has tokens %s, %s and %s, which are names of the token that begins a "
                       "target here; rename one of them",
                       et_import_path(from, name), starts[0], starts[1], starts[2]);
    from->start[side] = starts[start];
    et_value_set_int(tokens, starts[start], from->facts.tokens[side] - 1);
    from->tokens[side] = tokens;
    return ET_OK;
}

/* The end is any number in Marian's list. */
static int read_symbols(et_import *from, const et_import_config *decoder, et_value *model,
                        et_error *error)
{
    const et_value *target = from->tokens[ET_SIDE_TARGET];
    const et_value *eos = et_value_get(target, "</s>"), *unk = et_value_get(target, "<unk>");
    et_value *never = et_value_set_list(model, "suppressed_tokens");
    bool allowed = false;
    int status = et_import_read_bool(decoder, "allow-unk", false, &allowed, error);
    if (!status && (!eos || eos->kind != ET_VALUE_INT))
        status = et_fail(error, ET_EFORMAT, "%s: the target's vocabulary has no token </s>",
                         from->folder);
    if (status)
        return status;
    from->facts.eos = eos->integer;
    from->facts.pad = from->facts.tokens[ET_SIDE_TARGET] - 1;
    et_value_add_int(never, from->facts.pad);
    if (!allowed && unk && unk->kind == ET_VALUE_INT)
        et_value_add_int(never, unk->integer);
    return ET_OK;
}

static int read_search(const et_import_config *c, et_value *model, et_error *error)
{
    int status = et_import_check_fixed(c, search_fields, COUNT(search_fields), error);
    if (!status)
        status =
            check_list(c, "output-approx-knn", NULL, "which is not supported; remove it", error);
    double factor = 0;
    const et_value *longest = et_value_get(c->values, ET_MARIAN_LENGTH_FACTOR);
    if (!status && longest && longest->kind != ET_VALUE_NULL) {
        status = et_value_read_float(c->values, ET_MARIAN_LENGTH_FACTOR, &factor, error);
        if (status)
            return et_fail_while(error, status, "%s", c->name);
        if (!(factor > 0 && factor <= ET_TRANSLATION_FACTOR_MAX))
            return et_import_refuse(c, longest, "but must be above 0, and at most 100", error);
    }
    et_value_set_float(model, "decode_length_factor", factor);
    const et_import_field beams = { c, et_value_get(c->values, "beam-size") };
    const et_import_field power = { c, et_value_get(c->values, "normalize") };
    return status ? status : et_import_read_search(beams, power, 0, model, error);
}

/* A list of a file and numbers, or whether its checksum is compared; the numbers of a binary one
 * are in the file. */
static int read_shortlist(et_import *from, const et_import_config *c, et_error *error)
{
    const et_value *list = et_value_get(c->values, "shortlist");
    if (!list || list->kind == ET_VALUE_NULL || (list->kind == ET_VALUE_LIST && !list->count))
        return ET_OK;
    const et_value *file = list->kind == ET_VALUE_LIST ? list->first : NULL;
    if (!file || file->kind != ET_VALUE_STRING || !is_name(file->string) ||
        !et_path_ends(file->string, ET_MARIAN_BINARY))
        return et_import_refuse(
            c, list,
            "but only a binary shortlist beside the settings (.bin) is supported; remove it",
            error);
    const int64_t *tokens = from->facts.tokens;
    char *bytes;
    size_t length;
    int status =
        et_import_read_file(from, file->string, ET_LEXICON_BYTES_MAX, &bytes, &length, error);
    if (!status)
        status =
            et_lexicon_open(&from->lexicon, bytes, length, tokens[ET_SIDE_SOURCE],
                            tokens[ET_SIDE_TARGET] - 1, et_import_path(from, file->string), error);
    return status;
}

static int read_files(et_import *from, const et_import_config *c, et_value *model, et_error *error)
{
    static const char *const of_models[2] = { ET_MARIAN_NPZ, ET_MARIAN_BINARY };
    static const char *const of_vocabularies[2] = { ET_MARIAN_VOCABULARY, ET_MARIAN_PIECES };
    const char *weights = NULL, *names[ET_SIDES] = { NULL };
    int status = find_file(c, "models", 1, 0, of_models, &weights, error);
    for (size_t side = 0; side < ET_SIDES && !status; side++)
        status = find_file(c, "vocabs", ET_SIDES, side, of_vocabularies, &names[side], error);
    if (!status)
        status = read_search(c, model, error);
    if (status)
        return status;
    status = et_path_ends(weights, ET_MARIAN_BINARY) ? read_binary(from, weights, model, error)
                                                     : read_npz(from, weights, model, error);
    for (int side = 0; side < ET_SIDES && !status; side++)
        status = read_tokens(from, side, names, error);
    if (!status && from->root) {
        /* Students were trained without dropout and smoothing. With dropout they give nonsense, so
         * it must not begin with fine-tuning. Source: browsermt/students, train-student. */
        et_value_set_float(et_value_get(model, "encoder"), "dropout_rate", 0);
        et_value_set_float(et_value_get(model, "decoder"), "dropout_rate", 0);
        et_value_set_float(model, "dropout_rate", 0);
        et_value_set_float(model, "label_smoothing", 0);
        import_read_pair(from, weights);
    }
    return status ? status : read_shortlist(from, c, error);
}

int et_import_read_marian(et_import *from, et_error *error)
{
    et_assert(from->marian);
    et_import_config c = { et_import_path(from, ET_MARIAN_DECODER), NULL };
    et_value *values = NULL;
    int status = ET_OK;
    if (et_import_has(from, ET_MARIAN_DECODER)) {
        status = et_import_read_yaml(from, ET_MARIAN_DECODER, &values, error);
        c.values = values;
    } else {
        status = import_read_bergamot(from, &c, error);
    }
    if (status)
        return status;
    from->settings = et_value_dict(&from->arena);
    et_value *model = et_value_set_dict(from->settings, "model");
    if (!c.name || !model)
        return et_alloc_failed(error, 0, "settings");
    status = read_files(from, &c, model, error);
    return status ? status : read_symbols(from, &c, model, error);
}
