/* The header is Python's text of a dict with three keys, in any order. The reader takes what numpy
 * prints: texts in quotes, True and False, a tuple of whole numbers. */
#include "formats/numpy/npz.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
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
    array->type_name = et_arena_strndup(&npz->arena, h->descr, h->descr_length);
    if (!array->type_name)
        return et_alloc_failed(error, "a type");
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
        return damaged(npz, array->name, "its length does not match its shape", error);
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
    int status;
    if ((status = et_zip_length(npz->zip, array->file, &length, error)) ||
        (length < PREFIX_MAX &&
         (status = damaged(npz, array->name, "it is too short for an array of numpy", error))) ||
        (status = et_zip_read(npz->zip, array->file, 0, prefix, PREFIX_MAX, error)))
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
    array->name = et_arena_strndup(&npz->arena, name, length - 4);
    if (!array->name)
        return et_alloc_failed(error, "a name");
    array->file = file;
    npz->count++;
    return read_header(npz, array, error);
}

/* bytes NULL: a file. */
static int open_any(et_npz **out, const char *path, char *bytes, size_t length, et_error *error)
{
    *out = NULL;
    et_npz *npz = et_alloc_zero(1, sizeof *npz);
    if (!npz) {
        et_free(bytes);
        return et_alloc_failed(error, "an archive");
    }
    npz->bytes = bytes;
    npz->path = et_arena_strdup(&npz->arena, path);
    int status = npz->path ? et_zip_open(&npz->zip, path, bytes, length, error)
                           : et_alloc_failed(error, "a path");
    const int64_t files = status ? 0 : et_zip_count(npz->zip);
    npz->arrays = et_arena_array(&npz->arena, (size_t)files + 1, sizeof *npz->arrays);
    if (!status && !npz->arrays)
        status = et_alloc_failed(error, "a list of arrays");
    for (int64_t i = 0; i < files && !status; i++)
        status = add_array(npz, i, error);
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

/* A zip archive of files without compression (PKWARE's APPNOTE.TXT, 4.3):
 *
 *   each file: local header | name | the array
 *   each file: central header | name
 *   end of the central directory
 *
 * Times are 1980-01-01, the first that the format has, so equal input gives equal bytes. */

#define ENDING ".npy"

enum { ARRAY_ALIGNMENT = 64, ARRAY_PREFIX = 10 };

/* A file of the archive. */
typedef struct member {
    uint32_t checksum, length, position;
} member;

typedef struct writing {
    et_file_writer writer;
    const et_npz_item *items;
    size_t count;
    et_npz_read_fn *read;
    void *self;
    member *members; /* [count] owned */
    et_strbuf head;  /* of one array, or of the archive */
    const char *path;
} writing;

/* CRC-32 of ISO 3309, which zip has; a step for each four bits. */
static uint32_t add_checksum(uint32_t crc, const void *bytes, size_t length)
{
    static const uint32_t table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    const unsigned char *at = bytes;
    for (crc = ~crc; length--; at++) {
        crc = table[(crc ^ *at) & 15] ^ crc >> 4;
        crc = table[(crc ^ *at >> 4) & 15] ^ crc >> 4;
    }
    return ~crc;
}

static void put_number(et_strbuf *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        et_strbuf_append_char(out, (char)(value >> 8 * i));
}

static uint64_t data_bytes(const et_npz_item *item)
{
    return (uint64_t)et_shape_count(item->shape) * (item->type == ET_NPZ_FLOAT32 ? 4 : 1);
}

/* The head of an array, in w->head: as numpy writes it, padded so that data are aligned. */
static void print_array_head(writing *w, const et_npz_item *item)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_printf(&text, "{'descr': '%s', 'fortran_order': False, 'shape': ",
                     item->type == ET_NPZ_FLOAT32 ? "<f4" : "|i1");
    /* (2, 3), (2,), () */
    et_strbuf_append_char(&text, '(');
    for (int i = 0; i < item->shape.rank; i++)
        et_strbuf_printf(&text, "%s%lld", i ? ", " : "", (long long)item->shape.size[i]);
    et_strbuf_append(&text, item->shape.rank == 1 ? ",)" : ")");
    et_strbuf_append(&text, ", }");
    while (!text.failed && (ARRAY_PREFIX + text.length + 1) % ARRAY_ALIGNMENT)
        et_strbuf_append_char(&text, ' ');
    et_strbuf_append_char(&text, '\n');
    et_strbuf_reset(&w->head);
    et_strbuf_append_bytes(&w->head, "\x93NUMPY\1\0", 8);
    put_number(&w->head, (uint32_t)text.length, 2);
    et_strbuf_append_bytes(&w->head, text.data, text.length);
    w->head.failed |= text.failed;
    et_strbuf_release(&text);
}

/* The common part of both headers of a file: version 2.0, no flags, no compression, 1980-01-01. */
static void put_facts(et_strbuf *out, const member *m, const char *name)
{
    put_number(out, 20, 2);
    put_number(out, 0, 2 + 2 + 2);
    put_number(out, 0x21, 2);
    put_number(out, m->checksum, 4);
    put_number(out, m->length, 4);
    put_number(out, m->length, 4);
    put_number(out, (uint32_t)(strlen(name) + strlen(ENDING)), 2);
    put_number(out, 0, 2);
}

static void put_name(et_strbuf *out, const char *name)
{
    et_strbuf_append(out, name);
    et_strbuf_append(out, ENDING);
}

static int too_large(const writing *w, et_error *error)
{
    return et_fail(error, ET_EFAIL, "%s: a .npz archive holds at most 4 GiB; write several files",
                   w->path);
}

/* A text for the file: out of memory or disk, the writer keeps the first failure. */
static void put_text(writing *w, const et_strbuf *text)
{
    if (text->failed && !w->writer.failure.status)
        et_alloc_failed(&w->writer.failure, "an archive");
    et_file_writer_put(&w->writer, text->data, text->length);
}

/* Local header, head, data. */
static int write_member(writing *w, size_t i, et_error *error)
{
    const et_npz_item *item = &w->items[i];
    const uint64_t bytes = data_bytes(item);
    member *m = &w->members[i];
    const void *data;
    print_array_head(w, item);
    if (w->writer.length > UINT32_MAX || bytes > UINT32_MAX - w->head.length)
        return too_large(w, error);
    data = item->data;
    int status = data || !bytes ? ET_OK : w->read(w->self, i, &data, error);
    if (status)
        return status;
    m->position = (uint32_t)w->writer.length;
    m->length = (uint32_t)(w->head.length + bytes);
    m->checksum = add_checksum(0, w->head.data, w->head.length);
    m->checksum = add_checksum(m->checksum, data, bytes);
    et_strbuf local = ET_STRBUF_INIT;
    et_strbuf_append(&local, "PK\3\4");
    put_facts(&local, m, item->name);
    put_name(&local, item->name);
    put_text(w, &local);
    put_text(w, &w->head);
    et_strbuf_release(&local);
    return et_file_writer_write(&w->writer, data, bytes, error);
}

static int write_directory(writing *w, et_error *error)
{
    const uint64_t begin = w->writer.length;
    et_strbuf *out = &w->head;
    et_strbuf_reset(out);
    for (size_t i = 0; i < w->count; i++) {
        et_strbuf_append(out, "PK\1\2");
        put_number(out, 20, 2); /* the version that made it */
        put_facts(out, &w->members[i], w->items[i].name);
        put_number(out, 0, 2 + 2 + 2); /* comment, disk, kind */
        put_number(out, 0, 4);
        put_number(out, w->members[i].position, 4);
        put_name(out, w->items[i].name);
    }
    const size_t length = out->length;
    if (begin + length > UINT32_MAX || w->count >= UINT16_MAX)
        return too_large(w, error);
    et_strbuf_append(out, "PK\5\6");
    put_number(out, 0, 4);
    put_number(out, (uint32_t)w->count, 2);
    put_number(out, (uint32_t)w->count, 2);
    put_number(out, (uint32_t)length, 4);
    put_number(out, (uint32_t)begin, 4);
    put_number(out, 0, 2);
    put_text(w, out);
    return ET_OK;
}

int et_npz_write(const char *path, const et_npz_item *items, size_t count, et_npz_read_fn *read,
                 void *self, et_error *error)
{
    writing w = { .items = items,
                  .count = count,
                  .read = read,
                  .self = self,
                  .head = ET_STRBUF_INIT,
                  .path = path };
    uint64_t bytes = 0;
    w.members = et_alloc_zero(count + 1, sizeof *w.members);
    for (size_t i = 0; i < count; i++)
        bytes += data_bytes(&items[i]);
    int status =
        w.members ? et_disk_check(path, bytes, error) : et_alloc_failed(error, "an archive");
    if (!status && !(status = et_file_writer_open(&w.writer, path, error))) {
        for (size_t i = 0; i < count && !status; i++)
            status = write_member(&w, i, error);
        if (!status)
            status = write_directory(&w, error);
        status = et_file_writer_end(&w.writer, status, error);
    }
    et_strbuf_release(&w.head);
    et_free(w.members);
    return status;
}
