/* Both layouts give a dict of tensors and the position of each storage. In an archive a storage is
 * found by name when it is read. In the old layout all positions are known after opening, because
 * storages follow one another. */
#include "formats/torch/torch_file.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/map.h"
#include "formats/torch/zip_archive.h"

struct et_torch_file {
    const char *path; /* in arena, as all that tensors point to */
    et_arena arena;
    et_pickle_tensor *tensors; /* [count] */
    size_t count;
    /* An archive: */
    et_zip *zip;
    const char *prefix; /* "archive", the folder of its files */
    /* The old layout: */
    et_mapping mapping;
    et_map positions; /* of storages, by key: where their bytes begin in the mapping */
};

static int damaged(const et_torch_file *file, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s: %s; download it again", file->path, what);
}

/* ---- an archive ---- */

static const char pickle_name[] = "/data.pkl";

/* The file "NAME/data.pkl" gives the folder of all. */
static int find_pickle(et_torch_file *file, int64_t *index, et_error *error)
{
    const size_t suffix = strlen(pickle_name);
    for (int64_t i = 0; i < et_zip_count(file->zip); i++) {
        const char *name = et_zip_name(file->zip, i);
        const size_t length = name ? strlen(name) : 0;
        if (length <= suffix || strcmp(name + length - suffix, pickle_name) != 0)
            continue;
        file->prefix = et_arena_strndup(&file->arena, name, length - suffix);
        *index = i;
        return file->prefix ? ET_OK : et_alloc_failed(error, "a name");
    }
    return et_fail(error, ET_EFORMAT,
                   "%s: a zip archive without data.pkl, so not a file of torch.save", file->path);
}

/* The number of a file below the archive's folder; -1: none. */
static int find_member(const et_torch_file *file, const char *folder, const char *name,
                       int64_t *index, et_error *error)
{
    const size_t length = strlen(file->prefix) + strlen(folder) + strlen(name) + 1;
    char *whole = et_alloc(length, 1);
    if (!whole)
        return et_alloc_failed(error, "a name");
    snprintf(whole, length, "%s%s%s", file->prefix, folder, name);
    *index = et_zip_find(file->zip, whole);
    et_free(whole);
    return ET_OK;
}

static int check_order(const et_torch_file *file, et_error *error)
{
    int64_t index;
    char word[8] = "";
    uint64_t length = 0;
    int status = find_member(file, "/byteorder", "", &index, error);
    if (status || index < 0)
        return status;
    status = et_zip_length(file->zip, index, &length, error);
    if (!status && length < sizeof word)
        status = et_zip_read(file->zip, index, 0, word, length, error);
    if (status || !strcmp(word, "little"))
        return status;
    return et_fail(error, ET_EFORMAT, "%s: the order of its bytes is not \"little\"", file->path);
}

static int open_archive(et_torch_file *file, et_error *error)
{
    int64_t index = -1;
    uint64_t length = 0;
    char *bytes = NULL;
    int status = et_zip_open(&file->zip, file->path, NULL, 0, error);
    if (!status && !(status = find_pickle(file, &index, error)) &&
        !(status = check_order(file, error)))
        status = et_zip_length(file->zip, index, &length, error);
    if (!status && length > ET_TORCH_PICKLE_MAX)
        status = damaged(file, "its pickle is too long for a file of weights", error);
    if (!status && !(bytes = et_alloc(length + 1, 1)))
        status = et_alloc_failed(error, "a pickle");
    if (!status)
        status = et_zip_read(file->zip, index, 0, bytes, length, error);
    et_pickle pickle = { .bytes = bytes, .length = length, .name = file->path };
    if (!status)
        status = et_pickle_read_tensors(&pickle, &file->tensors, &file->count, &file->arena, error);
    et_free(bytes);
    return status;
}

/* ---- the old layout ---- */

/* The magic number 0x1950a86a20f9469cfc6c and the version 1001, a pickle each. */
static const unsigned char magic[] = { 0x80, 0x02, 0x8a, 0x0a, 'l',  0xfc, 0x9c,
                                       'F',  0xf9, ' ',  'j',  0xa8, 'P',  0x19,
                                       '.',  0x80, 0x02, 'M',  0xe9, 0x03, '.' };

/* Little-endian, of 8 bytes. */
static uint64_t count_at(const char *bytes)
{
    uint64_t count = 0;
    for (size_t i = 0; i < 8; i++)
        count |= (uint64_t)(unsigned char)bytes[i] << 8 * i;
    return count;
}

/* Every storage of the list belongs to a tensor, because its type is written there alone. */
static int find_positions(et_torch_file *file, et_pickle *pickle, et_error *error)
{
    const char **keys;
    size_t count = 0;
    et_map by_key = ET_MAP_INIT;
    int status = et_pickle_read_texts(pickle, &keys, &count, &file->arena, error);
    for (size_t i = 0; i < file->count && !status; i++)
        if (!et_map_put(&by_key, file->tensors[i].storage->key, (int64_t)i))
            status = et_alloc_failed(error, "names of storages");
    for (size_t i = 0; i < count && !status; i++) {
        int64_t index;
        const et_pickle_storage *storage =
            et_map_get(&by_key, keys[i], &index) ? file->tensors[index].storage : NULL;
        const size_t left = pickle->length - pickle->at;
        if (!storage) {
            status = damaged(file, "a storage belongs to no tensor", error);
        } else if (left < 8 || count_at(pickle->bytes + pickle->at) != storage->count ||
                   storage->count > (left - 8) / storage->width) {
            status = damaged(file, "it ends early, or a storage has another length", error);
        } else if (!et_map_put(&file->positions, keys[i], (int64_t)pickle->at + 8)) {
            status = et_alloc_failed(error, "names of storages");
        }
        if (!status)
            pickle->at += 8 + storage->count * storage->width;
    }
    et_map_release(&by_key);
    return status;
}

static int open_old(et_torch_file *file, et_error *error)
{
    bool little = true;
    et_pickle pickle = { .bytes = file->mapping.data,
                         .length = file->mapping.length,
                         .at = sizeof magic,
                         .name = file->path };
    int status;
    if ((status = et_pickle_read_order(&pickle, &little, error)) ||
        (!little &&
         (status = damaged(file, "the order of its bytes is not little-endian", error))) ||
        (status =
             et_pickle_read_tensors(&pickle, &file->tensors, &file->count, &file->arena, error)))
        return status;
    return find_positions(file, &pickle, error);
}

/* ---- both ---- */

static bool begins_with(const et_mapping *mapping, const void *bytes, size_t length)
{
    return mapping->length >= length && !memcmp(mapping->data, bytes, length);
}

static int open_file(et_torch_file *file, et_error *error)
{
    int status = et_mapping_open(&file->mapping, file->path, error);
    if (status)
        return status;
    if (begins_with(&file->mapping, "PK\3\4", 4))
        return open_archive(file, error);
    if (begins_with(&file->mapping, magic, sizeof magic))
        return open_old(file, error);
    return et_fail(error, ET_EFORMAT,
                   "%s: not a file of torch.save (%zu bytes, neither a zip archive nor a pickle "
                   "with its magic number)",
                   file->path, file->mapping.length);
}

int et_torch_file_open(et_torch_file **out, const char *path, et_error *error)
{
    *out = NULL;
    et_torch_file *file;
    if (ET_ALLOC_ZERO(file, 1, "a file of weights", error))
        return ET_ENOMEM;
    file->path = et_arena_strdup(&file->arena, path);
    int status = file->path ? open_file(file, error) : et_alloc_failed(error, "a path");
    if (status)
        et_torch_file_close(file);
    else
        *out = file;
    return status;
}

void et_torch_file_close(et_torch_file *file)
{
    if (!file)
        return;
    et_zip_close(file->zip);
    et_mapping_close(&file->mapping);
    et_map_release(&file->positions);
    et_arena_release(&file->arena);
    et_free(file);
}

size_t et_torch_file_count(const et_torch_file *file)
{
    return file->count;
}

const et_pickle_tensor *et_torch_file_at(const et_torch_file *file, size_t index)
{
    et_assert(index < file->count);
    return &file->tensors[index];
}

/* A file of the archive that is not as long as its storage is refused before a byte is unpacked. */
static int read_member(const et_torch_file *file, const et_pickle_tensor *tensor, void *bytes,
                       uint64_t length, et_error *error)
{
    const et_pickle_storage *storage = tensor->storage;
    int64_t index;
    uint64_t has = 0, wanted;
    int status;
    if ((status = find_member(file, "/data/", storage->key, &index, error)) ||
        (index < 0 && (status = damaged(file, "a storage is not in the archive", error))) ||
        (status = et_zip_length(file->zip, index, &has, error)) ||
        ((__builtin_mul_overflow(storage->count, storage->width, &wanted) || has != wanted) &&
         (status = damaged(file, "a storage of the archive has another length", error))))
        return status;
    return et_zip_read(file->zip, index, tensor->offset * storage->width, bytes, length, error);
}

int et_torch_file_read(const et_torch_file *file, const et_pickle_tensor *tensor, void *bytes,
                       et_error *error)
{
    int64_t position;
    const uint64_t width = tensor->storage->width;
    const uint64_t length = (uint64_t)et_shape_count(tensor->shape) * width;
    int status = ET_OK;
    if (!length)
        return ET_OK;
    if (file->zip)
        status = read_member(file, tensor, bytes, length, error);
    else if (!et_map_get(&file->positions, tensor->storage->key, &position))
        status = damaged(file, "a storage is not in the file", error);
    else
        memcpy(bytes, (const char *)file->mapping.data + position + tensor->offset * width, length);
    return status ? et_fail_while(error, status, "%s", tensor->name) : ET_OK;
}
