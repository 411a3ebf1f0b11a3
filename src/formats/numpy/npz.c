/* The header is Python's text of a dict with three keys, in any order. The reader takes what numpy
 * prints: texts in quotes, True and False, a tuple of whole numbers. */
#include "formats/numpy/npz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "formats/torch/zip_archive.h"

/* Numpy's headers are padded to 64 or 128 bytes; a shape of many sizes is far below. */
enum { HEADER_MAX = 4096, PREFIX_MAX = 12 };

struct et_npz {
    const char *path; /* in arena, as the arrays */
    char *bytes;      /* of an archive in memory; owned */
    et_arena arena;
    et_zip *zip;
    et_npz_array *arrays; /* [count] */
    size_t count;
};

static const struct {
    const char *name;
    et_npz_type type;
    int width;
} types[] = {
    { "<f4", ET_NPZ_FLOAT32, 4 }, { "<f2", ET_NPZ_FLOAT16, 2 }, { "|i1", ET_NPZ_BYTE, 1 },
    { "|u1", ET_NPZ_BYTE, 1 },    { "|S1", ET_NPZ_BYTE, 1 },    { "<f8", ET_NPZ_OTHER, 8 },
    { "<i4", ET_NPZ_OTHER, 4 },   { "<i8", ET_NPZ_OTHER, 8 },
};

static int damaged(const et_npz *npz, const char *name, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT, "%s: %s: %s; download it again", npz->path, name, what);
}

/* ---- headers ---- */

static bool skip_to(const char **at, char c)
{
    while (**at == ' ')
        ++*at;
    if (**at != c)
        return false;
    ++*at;
    return true;
}

/* 'text' */
static bool take_text(const char **at, const char **text, size_t *length)
{
    while (**at == ' ')
        ++*at;
    const char quote = **at;
    if (quote != '\'' && quote != '"')
        return false;
    *text = ++*at;
    while (**at && **at != quote)
        ++*at;
    *length = (size_t)(*at - *text);
    return skip_to(at, quote);
}

static bool take_word(const char **at, const char *word)
{
    while (**at == ' ')
        ++*at;
    if (strncmp(*at, word, strlen(word)) != 0)
        return false;
    *at += strlen(word);
    return true;
}

/* (2, 3), (2,), () */
static bool take_shape(const char **at, et_shape *shape)
{
    *shape = (et_shape){ 0 };
    if (!skip_to(at, '('))
        return false;
    while (!skip_to(at, ')')) {
        char *end;
        while (**at == ' ')
            ++*at;
        if (**at < '0' || **at > '9' || shape->rank == ET_RANK_MAX)
            return false;
        const long long size = strtoll(*at, &end, 10);
        if (size > INT32_MAX)
            return false;
        shape->size[shape->rank++] = size;
        *at = end;
        if (!skip_to(at, ',') && **at != ')')
            return false;
    }
    return true;
}

typedef struct header {
    const char *descr;
    size_t descr_length;
    bool fortran, has_order, has_shape;
    et_shape shape;
} header;

static bool is(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && !memcmp(text, word, length);
}

/* One key and its value. */
static bool take_entry(const char **at, header *h)
{
    const char *key;
    size_t length;
    if (!take_text(at, &key, &length) || !skip_to(at, ':'))
        return false;
    if (is(key, length, "descr"))
        return take_text(at, &h->descr, &h->descr_length);
    if (is(key, length, "shape"))
        return (h->has_shape = take_shape(at, &h->shape));
    if (!is(key, length, "fortran_order"))
        return false;
    h->has_order = true;
    h->fortran = take_word(at, "True");
    return h->fortran || take_word(at, "False");
}

static bool parse_header(const char *text, header *h)
{
    *h = (header){ .descr = NULL };
    if (!skip_to(&text, '{'))
        return false;
    while (!skip_to(&text, '}'))
        if (!take_entry(&text, h) || (!skip_to(&text, ',') && *text != '}'))
            return false;
    return h->descr && h->has_order && h->has_shape;
}

/* Finds the type, and checks that the data are as long as the shape says. */
static int fill_array(et_npz *npz, et_npz_array *array, const header *h, uint64_t length,
                      et_error *error)
{
    uint64_t bytes = 0;
    array->shape = h->shape;
    array->type_name = et_arena_printf(&npz->arena, "%.*s", (int)h->descr_length, h->descr);
    if (!array->type_name)
        return et_alloc_failed(error, h->descr_length, "a type");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, array->type_name)) {
            array->type = types[i].type;
            bytes = (uint64_t)types[i].width;
        }
    if (!bytes)
        return ET_OK;
    for (int i = 0; i < h->shape.rank; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)h->shape.size[i], &bytes))
            return damaged(npz, array->name, "its shape is too large", error);
    array->bytes = bytes;
    if (bytes != length - array->begin)
        return damaged(npz, array->name, "its length is not that of its shape", error);
    if (h->fortran && h->shape.rank > 1)
        array->type = ET_NPZ_OTHER;
    return ET_OK;
}

static int read_header(et_npz *npz, et_npz_array *array, et_error *error)
{
    static const char magic[] = "\x93NUMPY";
    unsigned char prefix[PREFIX_MAX];
    char text[HEADER_MAX + 1];
    uint64_t length;
    header h;
    int status = et_zip_length(npz->zip, array->file, &length, error);
    if (!status && length < PREFIX_MAX)
        status = damaged(npz, array->name, "it is too short for an array of numpy", error);
    if (!status)
        status = et_zip_read(npz->zip, array->file, 0, prefix, PREFIX_MAX, error);
    if (status)
        return status;
    if (memcmp(prefix, magic, 6) != 0 || prefix[6] < 1 || prefix[6] > 3)
        return damaged(npz, array->name, "it is no array of numpy", error);
    const uint64_t begin = prefix[6] == 1 ? 10 : 12;
    uint64_t count = prefix[8] | (uint64_t)prefix[9] << 8;
    if (prefix[6] > 1)
        count |= (uint64_t)prefix[10] << 16 | (uint64_t)prefix[11] << 24;
    if (count > HEADER_MAX || begin + count > length)
        return damaged(npz, array->name, "its header is too long", error);
    status = et_zip_read(npz->zip, array->file, begin, text, count, error);
    text[count] = 0;
    if (!status && !parse_header(text, &h))
        status = damaged(npz, array->name, "its header is no description of an array", error);
    array->begin = begin + count;
    return status ? status : fill_array(npz, array, &h, length, error);
}

/* "Wemb.npy" -> "Wemb" */
static int add_array(et_npz *npz, int64_t file, et_error *error)
{
    const char *name = et_zip_name(npz->zip, file);
    const size_t length = name ? strlen(name) : 0;
    et_npz_array *array = &npz->arrays[npz->count];
    if (length <= 4 || strcmp(name + length - 4, ".npy") != 0)
        return et_fail(error, ET_EFORMAT, "%s: %s is no array of numpy, whose name ends in .npy",
                       npz->path, name ? name : "a file without a name");
    array->name = et_arena_printf(&npz->arena, "%.*s", (int)(length - 4), name);
    if (!array->name)
        return et_alloc_failed(error, length, "a name");
    array->file = file;
    npz->count++;
    return read_header(npz, array, error);
}

static int read_all(et_npz *npz, et_error *error)
{
    const int64_t files = et_zip_count(npz->zip);
    int status = ET_OK;
    npz->arrays = et_arena_array(&npz->arena, (size_t)files + 1, sizeof *npz->arrays);
    if (!npz->arrays)
        return et_alloc_failed(error, (size_t)files * sizeof *npz->arrays, "a list of arrays");
    for (int64_t i = 0; i < files && !status; i++)
        status = add_array(npz, i, error);
    return status;
}

/* bytes NULL: a file. */
static int open_any(et_npz **out, const char *path, char *bytes, size_t length, et_error *error)
{
    *out = NULL;
    et_npz *npz = et_alloc_zero(1, sizeof *npz);
    if (!npz) {
        et_free(bytes);
        return et_alloc_failed(error, sizeof *npz, "an archive");
    }
    npz->bytes = bytes;
    npz->path = et_arena_strdup(&npz->arena, path);
    int status = !npz->path ? et_alloc_failed(error, strlen(path), "a path")
                 : bytes    ? et_zip_open_memory(&npz->zip, bytes, length, path, error)
                            : et_zip_open(&npz->zip, path, error);
    if (!status)
        status = read_all(npz, error);
    if (status)
        et_npz_close(npz);
    else
        *out = npz;
    return status;
}

int et_npz_open(et_npz **out, const char *path, et_error *error)
{
    return open_any(out, path, NULL, 0, error);
}

int et_npz_open_memory(et_npz **out, char *bytes, size_t length, const char *name, et_error *error)
{
    return open_any(out, name, bytes, length, error);
}

void et_npz_close(et_npz *npz)
{
    if (!npz)
        return;
    et_zip_close(npz->zip);
    et_arena_release(&npz->arena);
    et_free(npz->bytes);
    et_free(npz);
}

size_t et_npz_count(const et_npz *npz)
{
    return npz->count;
}

const et_npz_array *et_npz_at(const et_npz *npz, size_t index)
{
    return &npz->arrays[index];
}

const et_npz_array *et_npz_find(const et_npz *npz, const char *name)
{
    for (size_t i = npz->count; i-- > 0;)
        if (!strcmp(npz->arrays[i].name, name))
            return &npz->arrays[i];
    return NULL;
}

int et_npz_read(const et_npz *npz, const et_npz_array *array, void *bytes, et_error *error)
{
    return et_zip_read(npz->zip, array->file, array->begin, bytes, array->bytes, error);
}
