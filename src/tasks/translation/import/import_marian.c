/* A Marian model as OPUS-MT or Bergamot publishes it (interchange/marian_files.h): decoder.yml, or
 * config*.yml, names the other files and has the settings of the search. The array or item
 * special:model.yml has the settings of the model (interchange/foreign_settings.h).
 *
 * Such a model begins a target with zeros in place of an embedding. Etude adds a token that begins
 * each target, has an embedding of zeros and is never generated. */
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
 * the files that a release of Marian does not have. Fields of settings are those of Marian.
 *
 * The whole folder comes from a stranger, so links that lead out of it are refused, and names must
 * be names of files in it. */

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

/* Firefox's downloads have no settings. These are the settings of Firefox's translator. */
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
static int import_read_bergamot(et_import *from, et_foreign_file *c, et_error *error)
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
        status = et_alloc_failed(error, "settings");
    *c = (et_foreign_file){ name ? et_import_path(from, name) : from->folder, values, NULL };
    return status || c->name ? status : et_alloc_failed(error, "a path");
}

int et_import_begin_settings(et_import *from, et_error *error)
{
    from->settings = et_value_dict(&from->arena);
    et_value *model = from->facts.settings = et_value_set_dict(from->settings, "model");
    et_value_set_dict(model, "encoder");
    et_value_set_dict(model, "decoder");
    return et_value_failed(model) ? et_alloc_failed(error, "settings") : ET_OK;
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

/* IDs of tokens by text, from a SentencePiece model whose numbers are the IDs. */
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
        const char *text = et_arena_strndup(&from->arena, piece.text, piece.length);
        if (!text || !et_value_append_copy(*tokens, text, &number))
            status = et_alloc_failed(error, "a vocabulary");
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

/* The name of the token that begins a target: the first of these names that is no token yet. */
static const char *const starts[] = { "<pad>", "<start>", "<etude-start>" };

#define COUNT(rows) (sizeof(rows) / sizeof *(rows))

/* The cell of a recurrent decoder; others have one in their settings and do not use it. */
static int read_recurrence(const et_foreign_file *c, et_value *model, et_error *error)
{
    const et_value *kind = et_value_get(c->values, "transformer-decoder-autoreg");
    const et_value *cell = et_value_get(c->values, "dec-cell");
    if (!kind || kind->kind != ET_VALUE_STRING || strcmp(kind->string, "rnn") != 0)
        return ET_OK;
    if (!cell)
        return et_fail(error, ET_ECONFIG, "%s: dec-cell is missing, but must be ssru", c->name);
    if (cell->kind != ET_VALUE_STRING || strcmp(cell->string, "ssru") != 0)
        return et_foreign_refuse(c, cell, "but only ssru is supported in the decoder", error);
    et_value_set_string(et_value_get(model, "decoder"), "recurrence", "ssru");
    return ET_OK;
}

/* ---- the model ---- */

/* The size of a stack's feed-forward layers, if the stack has its own size. */
static int read_inner(const et_foreign_file *c, const char *setting, const char *own,
                      et_foreign_model *m, et_error *error)
{
    const et_value *v = et_value_get(c->values, own);
    const bool has_own = v && (v->kind != ET_VALUE_INT || v->integer != 0);
    const et_foreign_row rows[] = { { has_own ? own : "transformer-dim-ffn", setting,
                                      .kind = ET_FOREIGN_SIZE, .number = ET_TRANSLATION_INNER_MAX },
                                    { 0 } };
    return et_foreign_read(c, rows, m, error);
}

static int read_model(const et_foreign_file *c, et_foreign_model *m, et_error *error)
{
    int status;
    if ((status = et_foreign_read(c, et_foreign_marian.both, m, error)) ||
        (status = et_foreign_read(c, et_foreign_marian.read, m, error)) ||
        (status =
             read_inner(c, "encoder.intermediate_size", "transformer-encoder-dim-ffn", m, error)) ||
        (status =
             read_inner(c, "decoder.intermediate_size", "transformer-decoder-dim-ffn", m, error)) ||
        (status = read_recurrence(c, m->settings, error)))
        return status;
    m->shared = m->all_tied || m->only_shared;
    m->tied = m->all_tied || m->only_tied;
    et_value_set_bool(m->settings, "tied_embeddings", m->tied);
    et_value_set_bool(m->settings, "shared_embeddings", m->shared);
    /* Tokens of each side, and the token that begins a target. */
    const et_value *sizes = et_value_get(c->values, "dim-vocabs");
    if (!sizes || sizes->kind != ET_VALUE_LIST || sizes->count != ET_SIDES)
        return et_fail(error, ET_EFORMAT, "%s: dim-vocabs is not a list of two counts", c->name);
    int side = 0;
    for (const et_value *v = sizes->first; v; v = v->next) {
        if (v->kind != ET_VALUE_INT || v->integer < 2 || v->integer >= INT32_MAX)
            return et_foreign_refuse(c, sizes, "but must be counts of at least 2", error);
        m->tokens[side++] = v->integer + 1;
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
static int find_file(const et_foreign_file *c, const char *field, size_t count, size_t index,
                     const char *const endings[2], const char **name, et_error *error)
{
    const et_value *list = et_value_get(c->values, field);
    if (!list || list->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EFORMAT, "%s has no list %s", c->name, field);
    if (list->count != count)
        return et_foreign_refuse(
            c, list, count == 1 ? "but must be one model" : "but must be two files", error);
    const et_value *v = list->first;
    while (index--)
        v = v->next;
    if (v->kind != ET_VALUE_STRING || !is_name(v->string))
        return et_foreign_refuse(c, list, "but must name files in the folder of the settings",
                                 error);
    if (!et_path_ends(v->string, endings[0]) && !et_path_ends(v->string, endings[1]))
        return et_foreign_refuse(c, list,
                                 count == 1
                                     ? "but only .npz, in float32 or float16, and .bin are "
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

/* The model's settings: a text that ends with zeros. */
static int read_settings(et_import *from, const char *text, size_t length, et_foreign_file *c,
                         et_error *error)
{
    et_value *values = NULL;
    c->name = et_arena_printf(&from->arena, "%s: " ET_MARIAN_SETTINGS, c->name);
    if (length > SETTINGS_MAX)
        return et_fail(error, ET_EFORMAT, "%s is no text", c->name);
    const char *copy = et_arena_strndup(&from->arena, text, length);
    if (!copy || !c->name)
        return et_alloc_failed(error, "settings");
    int status = et_yaml_parse(&values, &from->arena, copy, strlen(copy), c->name, error);
    if (!status && values->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s has no fields", c->name);
    c->values = values;
    return status;
}

static int read_array(et_import *from, const et_npz *npz, et_foreign_file *c, et_error *error)
{
    const et_npz_array *array = et_npz_find(npz, ET_MARIAN_SETTINGS);
    if (!array)
        return et_fail(error, ET_EFORMAT,
                       "%s has no array " ET_MARIAN_SETTINGS ", so it is no model of Marian",
                       c->name);
    if (array->type != ET_NPZ_BYTE || array->bytes > SETTINGS_MAX)
        return et_fail(error, ET_EFORMAT, "%s: " ET_MARIAN_SETTINGS " is no text", c->name);
    char *text = et_arena_alloc(&from->arena, array->bytes + 1);
    int status = text ? et_npz_read(npz, array, text, error) : et_alloc_failed(error, "settings");
    return status ? status : read_settings(from, text, array->bytes, c, error);
}

static int read_npz(et_import *from, const char *name, et_error *error)
{
    et_npz *npz;
    et_foreign_file c = { et_import_path(from, name), NULL, NULL };
    if (!c.name)
        return et_alloc_failed(error, "a path");
    int status = open_npz(from, name, &npz, error);
    if (status)
        return status;
    status = read_array(from, npz, &c, error);
    if (!status)
        status = read_model(&c, &from->facts, error);
    if (status) {
        et_npz_close(npz);
        return status;
    }
    return et_weights_file_open(&from->weights, npz, NULL, et_import_path(from, name), error);
}

static int read_binary(et_import *from, const char *name, et_error *error)
{
    et_marian_model *binary;
    const char *text = NULL;
    size_t length = 0;
    et_foreign_file c = { et_import_path(from, name), NULL, NULL };
    int status = import_open_binary(from, name, &binary, &text, &length, error);
    if (!status && !(status = read_settings(from, text, length, &c, error)))
        status = read_model(&c, &from->facts, error);
    if (status) {
        et_marian_model_close(binary);
        return status;
    }
    return et_weights_file_open(&from->weights, NULL, binary, et_import_path(from, name), error);
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
                       "%s has the tokens %s, %s and %s, but Etude needs one of these names for "
                       "the token that begins a target; rename one of the tokens",
                       et_import_path(from, name), starts[0], starts[1], starts[2]);
    from->start[side] = starts[start];
    et_value_set_int(tokens, starts[start], from->facts.tokens[side] - 1);
    from->tokens[side] = tokens;
    return ET_OK;
}

/* The end is any number in Marian's list. */
static int read_symbols(et_import *from, const et_foreign_file *decoder, et_error *error)
{
    const et_value *target = from->tokens[ET_SIDE_TARGET];
    const et_value *eos = et_value_get(target, "</s>"), *unk = et_value_get(target, "<unk>");
    et_value *never = et_value_set_list(from->facts.settings, "suppressed_tokens");
    const et_value *allowed = et_value_get(decoder->values, "allow-unk");
    int status = ET_OK;
    if (allowed && allowed->kind != ET_VALUE_NULL && allowed->kind != ET_VALUE_BOOL)
        status = et_foreign_refuse(decoder, allowed, "but must be true or false", error);
    if (!status && (!eos || eos->kind != ET_VALUE_INT))
        status = et_fail(error, ET_EFORMAT, "%s: the target's vocabulary has no token </s>",
                         from->folder);
    if (status)
        return status;
    from->facts.eos = eos->integer;
    from->facts.pad = from->facts.tokens[ET_SIDE_TARGET] - 1;
    et_value_add_int(never, from->facts.pad);
    if (!(allowed && allowed->kind == ET_VALUE_BOOL && allowed->boolean) && unk &&
        unk->kind == ET_VALUE_INT)
        et_value_add_int(never, unk->integer);
    return ET_OK;
}

static int read_search(const et_foreign_file *c, et_foreign_model *m, et_error *error)
{
    int status = et_foreign_read(c, et_foreign_marian.search_read, m, error);
    if (!status)
        status = et_foreign_read(c, et_foreign_marian.search, m, error);
    double factor = 0;
    const et_value *longest = et_value_get(c->values, ET_MARIAN_LENGTH_FACTOR);
    if (!status && longest && longest->kind != ET_VALUE_NULL) {
        status = et_value_read_float(c->values, ET_MARIAN_LENGTH_FACTOR, &factor, error);
        if (status)
            return et_fail_while(error, status, "%s", c->name);
        if (!(factor > 0 && factor <= ET_TRANSLATION_FACTOR_MAX))
            return et_foreign_refuse(c, longest, "but must be above 0, and at most 100", error);
    }
    et_value_set_float(m->settings, "decode_length_factor", factor);
    return status;
}

/* A list of a file and numbers, or whether its checksum is compared; the numbers of a binary one
 * are in the file. */
static int read_shortlist(et_import *from, const et_foreign_file *c, et_error *error)
{
    const et_value *list = et_value_get(c->values, "shortlist");
    if (!list || list->kind == ET_VALUE_NULL || (list->kind == ET_VALUE_LIST && !list->count))
        return ET_OK;
    const et_value *file = list->kind == ET_VALUE_LIST ? list->first : NULL;
    if (!file || file->kind != ET_VALUE_STRING || !is_name(file->string) ||
        !et_path_ends(file->string, ET_MARIAN_BINARY))
        return et_foreign_refuse(c, list,
                                 "but only a binary shortlist (.bin) in the folder of the settings "
                                 "is supported; remove this setting",
                                 error);
    const int64_t *tokens = from->facts.tokens;
    char *bytes;
    size_t length;
    int status =
        et_import_read_file(from, file->string, ET_LEXICON_BYTES_MAX, &bytes, &length, error);
    return status ? status
                  : et_lexicon_open(&from->lexicon, bytes, length, tokens[ET_SIDE_SOURCE],
                                    tokens[ET_SIDE_TARGET] - 1, et_import_path(from, file->string),
                                    error);
}

static int read_files(et_import *from, const et_foreign_file *c, et_error *error)
{
    et_value *model = from->facts.settings;
    static const char *const of_models[2] = { ET_MARIAN_NPZ, ET_MARIAN_BINARY };
    static const char *const of_vocabularies[2] = { ET_MARIAN_VOCABULARY, ET_MARIAN_PIECES };
    const char *weights = NULL, *names[ET_SIDES] = { NULL };
    int status = find_file(c, "models", 1, 0, of_models, &weights, error);
    for (size_t side = 0; side < ET_SIDES && !status; side++)
        status = find_file(c, "vocabs", ET_SIDES, side, of_vocabularies, &names[side], error);
    if (!status)
        status = read_search(c, &from->facts, error);
    if (status)
        return status;
    et_assert(weights);
    status = et_path_ends(weights, ET_MARIAN_BINARY) ? read_binary(from, weights, error)
                                                     : read_npz(from, weights, error);
    for (int side = 0; side < ET_SIDES && !status; side++)
        status = read_tokens(from, side, names, error);
    if (!status && from->root) {
        /* Students were trained without dropout and smoothing. With dropout they give nonsense, so
         * fine-tuning must not use dropout. Source: browsermt/students, train-student. */
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
    et_foreign_file c = { et_import_path(from, ET_MARIAN_DECODER), NULL, NULL };
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
    status = c.name ? et_import_begin_settings(from, error) : et_alloc_failed(error, "settings");
    if (!status)
        status = read_files(from, &c, error);
    return status ? status : read_symbols(from, &c, error);
}
