/* A model of Bergamot, as Firefox and translateLocally download it (interchange/marian_files.h):
 * the files that a release of Marian does not have. Fields of settings are those of Marian
 * (import_marian.c).
 *
 * Such a folder comes from a stranger as a whole, so no link leads out of it, and its names are
 * names of files in it. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "data/text/sentences.h"
#include "data/text/vocabulary/vocabulary_check.h"
#include "tasks/translation/import/import_private.h"
#include "tasks/translation/interchange/marian_files.h"

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
int et_import_read_bergamot(et_import *from, et_import_config *c, et_error *error)
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
    et_value *data = et_value_set_dict(settings, "train_data");
    et_value_set_string(data, "src_lang", source);
    et_value_set_string(data, "tgt_lang", target);
}

/* Codes of Firefox's names have two letters. */
void et_import_read_pair(et_import *from, const char *model)
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

int et_import_list_pieces(et_import *from, const char *name, et_value **tokens, et_error *error)
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

int et_import_open_binary(et_import *from, const char *name, et_marian_model **model,
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

int et_import_read_lexicon(et_import *from, const char *name, et_error *error)
{
    const int64_t *tokens = from->facts.tokens;
    char *bytes;
    size_t length;
    int status = et_import_read_file(from, name, ET_LEXICON_BYTES_MAX, &bytes, &length, error);
    if (!status)
        status = et_lexicon_open(&from->lexicon, bytes, length, tokens[ET_SIDE_SOURCE],
                                 tokens[ET_SIDE_TARGET] - 1, et_import_path(from, name), error);
    return status;
}
