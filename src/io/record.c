/* Framing after tensorflow/core/lib/io/record_writer.cc. A reader of a file that is being
 * written, or was left by a kill, must tell an end from damage:
 *
 *   no bytes left                                end
 *   fewer than a head, or all zeros to the end   torn: stops before it
 *   the length's crc is wrong                    damage
 *   length beyond the end of the file            torn
 *   the data's crc is wrong                      damage
 *
 * The length has a crc of its own for that: a flipped bit in it must not look like a torn tail. */
#include "io/record.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/crc32c.h"
#include "base/format.h"

/* Bytes before the data of a record (length and its crc) and behind it. */
enum { HEAD = 12, TAIL = 4 };
_Static_assert(HEAD + TAIL == ET_RECORD_OVERHEAD, "the overhead is head and tail");

/* An unsigned number of count bytes, the lowest first, at any address. */
static uint64_t get_little(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void put_little(unsigned char *bytes, int count, uint64_t value)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

/* crc32c.h says why it is masked. */
static uint32_t masked_crc(const void *bytes, size_t length)
{
    return et_crc32c_mask(et_crc32c(bytes, length));
}

/* Reading ---------------------------------------------------------------------------------
 *
 * From a mapping: records are given where they lie, and no more is copied. */

/* An empty file has no records and is no error. */
int et_record_reader_open(et_record_reader *reader, const char *path, et_error *error)
{
    *reader = (et_record_reader){ 0 };
    const int status = et_mapping_open(&reader->mapping, path, error);
    if (status)
        return status;
    reader->path = et_strdup(path);
    if (reader->path == NULL) {
        et_mapping_close(&reader->mapping);
        return et_alloc_failed(error, strlen(path), "a path");
    }
    return ET_OK;
}

/* After a crash of the machine, a file may have got its new length and not yet its bytes. */
static bool only_zeros(const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* With the byte where the record begins, for whoever cuts it out by hand. */
static int damaged(const et_record_reader *reader, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s: damaged: the checksum of a record's %s does not match "
                   "(record at byte %s)",
                   reader->path, what, et_format_count((int64_t)reader->offset).text);
}

/* offset moves behind the record only when all of it is right. */
int et_record_read(et_record_reader *reader, const void **bytes, size_t *length, et_error *error)
{
    et_assert(reader->offset <= reader->mapping.length);
    /* offset never passes the end: a record's length was compared with what is left. */
    const size_t left = reader->mapping.length - reader->offset;
    *bytes = NULL;
    *length = 0;
    if (left == 0)
        return ET_OK;
    const unsigned char *record = (const unsigned char *)reader->mapping.data + reader->offset;
    /* Before any checksum: of zeros, length 0 has a crc that is not 0. */
    reader->torn = left < HEAD || only_zeros(record, left);
    if (reader->torn)
        return ET_OK;
    if (get_little(record + 8, 4) != masked_crc(record, 8))
        return damaged(reader, "length", error);
    const uint64_t size = get_little(record, 8);
    reader->torn = left < ET_RECORD_OVERHEAD || size > left - ET_RECORD_OVERHEAD;
    if (reader->torn)
        return ET_OK;
    if (get_little(record + HEAD + size, TAIL) != masked_crc(record + HEAD, size))
        return damaged(reader, "data", error);
    reader->offset += size + ET_RECORD_OVERHEAD;
    *bytes = record + HEAD;
    *length = size;
    return ET_OK;
}

/* What read gave is invalid from here on. */
void et_record_reader_close(et_record_reader *reader)
{
    et_mapping_close(&reader->mapping);
    et_free(reader->path);
    *reader = (et_record_reader){ 0 };
}

/* Writing ---------------------------------------------------------------------------------
 *
 * Append-only, through append.h: offset is where the next record will go. */

/* Where the last whole record of a file ends. Reads the file to its end; only a file that is
 * shorter than it should be, or has no known offset, is. */
static int whole_length(uint64_t *out, const char *path, et_error *error)
{
    et_record_reader reader;
    int status = et_record_reader_open(&reader, path, error);
    if (status)
        return status;
    const void *bytes = NULL;
    size_t length;
    do
        status = et_record_read(&reader, &bytes, &length, error);
    while (!status && bytes != NULL);
    *out = reader.offset;
    et_record_reader_close(&reader);
    return status;
}

/* The buffer's memory is kept from record to record. */
int et_record_writer_open(et_record_writer *writer, const char *path, int64_t offset,
                          et_error *error)
{
    writer->buffer = (et_strbuf)ET_STRBUF_INIT;
    return et_append_open(&writer->file, path, offset, whole_length, error);
}

/* bytes may be NULL if length is 0: an empty record. */
int et_record_write(et_record_writer *writer, const void *bytes, size_t length, et_error *error)
{
    et_assert(bytes || length == 0);
    unsigned char head[HEAD], tail[TAIL];
    put_little(head, 8, length);
    put_little(head + 8, 4, masked_crc(head, 8));
    put_little(tail, TAIL, masked_crc(bytes, length));
    /* Framed in memory first: one call of write, so that a kill rarely tears a record. */
    et_strbuf *buffer = &writer->buffer;
    et_strbuf_reset(buffer);
    et_strbuf_append_bytes(buffer, head, HEAD);
    et_strbuf_append_bytes(buffer, bytes, length);
    et_strbuf_append_bytes(buffer, tail, TAIL);
    if (buffer->failed) {
        et_strbuf_release(buffer);
        return et_alloc_failed(error, length + ET_RECORD_OVERHEAD, "a record");
    }
    return et_append_write(&writer->file, buffer->data, buffer->length, error);
}

int et_record_writer_flush(et_record_writer *writer, et_error *error)
{
    return et_append_flush(&writer->file, error);
}

int et_record_writer_close(et_record_writer *writer, et_error *error)
{
    et_strbuf_release(&writer->buffer);
    return et_append_close(&writer->file, error);
}
