/* A zip archive of files without compression (PKWARE's APPNOTE.TXT, 4.3):
 *
 *   each file: local header | name | the array
 *   each file: central header | name
 *   end of the central directory
 *
 * Times are 1980-01-01, the first that the format has, so equal input gives equal bytes. */
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "formats/numpy/npz.h"

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

/* What both headers of a file have: version 2.0, no flags, no compression, 1980-01-01. */
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
    return et_fail(error, ET_EFAIL, "%s: more than 4 GiB, which such an archive cannot hold",
                   w->path);
}

static int put_head(writing *w, et_error *error)
{
    return w->head.failed ? et_alloc_failed(error, w->head.length, "an archive")
                          : et_file_writer_write(&w->writer, w->head.data, w->head.length, error);
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
    status = local.failed ? et_alloc_failed(error, local.length, "an archive")
                          : et_file_writer_write(&w->writer, local.data, local.length, error);
    et_strbuf_release(&local);
    if (!status)
        status = put_head(w, error);
    return status || !bytes ? status : et_file_writer_write(&w->writer, data, bytes, error);
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
    return put_head(w, error);
}

static int write_all(writing *w, et_error *error)
{
    int status = et_file_writer_open(&w->writer, w->path, error);
    if (status)
        return status;
    for (size_t i = 0; i < w->count && !status; i++)
        status = write_member(w, i, error);
    if (!status)
        status = write_directory(w, error);
    if (!status)
        return et_file_writer_commit(&w->writer, error);
    et_file_writer_abandon(&w->writer);
    return status;
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
    int status = w.members ? et_disk_check(path, bytes, error)
                           : et_alloc_failed(error, count * sizeof *w.members, "an archive");
    if (!status)
        status = write_all(&w, error);
    et_strbuf_release(&w.head);
    et_free(w.members);
    return status;
}
