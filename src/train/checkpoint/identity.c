#include "train/checkpoint/identity.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

static int save(const void *self, et_value *dict, et_error *error)
{
    return et_value_merge(dict, self, error);
}

/* Whether it fits was asked before anything was opened. */
static int restore(void *self, const et_value *dict, et_error *error)
{
    (void)self;
    (void)dict;
    (void)error;
    return ET_OK;
}

static const et_part_class identity_class = { "identity of the run", save, restore };

int et_state_add_identity(et_state *state, const et_value *values, et_error *error)
{
    et_assert(values && values->kind == ET_VALUE_DICT);
    /* The class never writes through it. */
    return et_state_add_optional(state, ET_IDENTITY, &identity_class, (void *)values, error);
}

int et_identity_parse(const et_value **out, const char *text, const char *path, et_arena *arena,
                      et_error *error)
{
    et_value *tree;
    *out = NULL;
    if (!text)
        return ET_OK;
    int status = et_json_parse(&tree, arena, text, strlen(text), path, error);
    const et_value *found = status ? NULL : et_value_get(tree, ET_IDENTITY);
    if (found && found->kind == ET_VALUE_DICT)
        *out = found;
    return status;
}

bool et_identity_same(const et_value *a, const et_value *b)
{
    if (et_value_is_number(a) && et_value_is_number(b))
        return et_value_number(a) == et_value_number(b);
    if (a->kind != b->kind || a->count != b->count)
        return false;
    if (a->kind == ET_VALUE_STRING)
        return !strcmp(a->string, b->string);
    if (a->kind == ET_VALUE_BOOL)
        return a->boolean == b->boolean;
    const et_value *x = a->first, *y = b->first;
    for (; x && y; x = x->next, y = y->next)
        if (!et_identity_same(x, y))
            return false;
    return true;
}

uint64_t et_identity_data(const et_identity *identity)
{
    const et_value *digits = identity ? et_value_get(identity->values, ET_IDENTITY_DATA) : NULL;
    uint64_t data = 0;
    return digits && digits->kind == ET_VALUE_STRING && et_checksum_parse(&data, digits->string)
               ? data
               : 0;
}

/* Finds the first value that differs between a and b, which are at path. */
static int compare(const et_identity *a, const et_identity *b, const et_value *x, const et_value *y,
                   et_strbuf *path, et_error *error)
{
    int status = ET_OK;
    size_t length = path->length;
    if (x->kind == ET_VALUE_DICT) {
        for (const et_value *child = x->first; child && !status; child = child->next) {
            const et_value *other = et_value_get(y, child->key);
            et_strbuf_printf(path, "%s%s", length ? "." : "", child->key);
            if (other)
                status = compare(a, b, child, other, path, error);
            et_strbuf_truncate(path, length);
        }
        return status;
    }
    if (et_identity_same(x, y))
        return ET_OK;
    et_strbuf was = ET_STRBUF_INIT, is = ET_STRBUF_INIT;
    et_json_print(&was, x, 0);
    et_json_print(&is, y, 0);
    status = et_fail(error, ET_ECONFIG, "%s and %s belong to different models: %s is %s and %s",
                     a->checkpoint, b->checkpoint, et_strbuf_text(path), et_strbuf_text(&was),
                     et_strbuf_text(&is));
    et_strbuf_release(&was);
    et_strbuf_release(&is);
    return status;
}

/* Not of the model: two trainings of one may be averaged. */
static bool is_of_training(const char *key)
{
    return !strcmp(key, ET_IDENTITY_TRAINING) || !strcmp(key, ET_IDENTITY_DATA) ||
           !strcmp(key, ET_IDENTITY_DELIMITER);
}

/* The model's settings first, since people can read them. */
int et_identity_compare(const et_identity *a, const et_identity *b, et_error *error)
{
    et_strbuf path = ET_STRBUF_INIT;
    const et_value *x = et_value_get(a->values, ET_IDENTITY_MODEL);
    const et_value *y = et_value_get(b->values, ET_IDENTITY_MODEL);
    int status = x && y ? compare(a, b, x, y, &path, error) : ET_OK;
    for (x = a->values ? a->values->first : NULL; x && !status; x = x->next) {
        y = et_value_get(b->values, x->key);
        if (!y || is_of_training(x->key) || !strcmp(x->key, ET_IDENTITY_MODEL))
            continue;
        et_strbuf_reset(&path);
        et_strbuf_append(&path, x->key);
        status = compare(a, b, x, y, &path, error);
    }
    et_strbuf_release(&path);
    return status;
}

const char *et_identity_other_file(const et_value *a, const et_value *b)
{
    for (const et_value *x = a ? a->first : NULL; x; x = x->next) {
        const et_value *y = et_value_get(b, x->key);
        if (y && x->kind == ET_VALUE_STRING && !is_of_training(x->key) && !et_identity_same(x, y))
            return x->key;
    }
    return NULL;
}

int et_identity_of_file(et_identity *out, const char *path, et_arena *arena, et_error *error)
{
    et_safetensors *file;
    et_error why = ET_ERROR_INIT;
    *out = (et_identity){ NULL, NULL };
    int status = et_safetensors_open(&file, path, &why);
    if (!status) {
        const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
        if (text && !(status = et_identity_parse(&out->values, text, path, arena, &why)))
            out->checkpoint = path;
        et_safetensors_close(file);
    }
    return status == ET_ENOMEM ? et_fail(error, status, "%s", why.text) : ET_OK;
}

/* From the files' names: the restore reads the manifest and reports its errors. */
int et_identity_of_newest(et_identity *out, const char *model_dir, et_arena *arena, et_error *error)
{
    et_manifest manifest = { 0 };
    *out = (et_identity){ 0 };
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    if (!et_file_exists(directory.text))
        return ET_OK;
    int status = et_manifest_rebuild(&manifest, directory.text, ET_CHECKPOINT_PREFIX, error);
    for (size_t i = manifest.count; i-- && !status && !out->checkpoint;) {
        const char *path =
            et_arena_printf(arena, "%s/%s", directory.text, manifest.entries[i].file);
        status =
            path ? et_identity_of_file(out, path, arena, error) : et_alloc_failed(error, "a path");
    }
    et_manifest_release(&manifest);
    return status;
}
