/* Framing after tensorflow/core/lib/io/record_writer.cc. A scan of a file that is being
 * written, or was left by a kill, must tell an end from damage:
 *
 *   no bytes left                                end
 *   fewer than a head, or all zeros to the end   torn: stops before it
 *   the length's crc is wrong                    damage
 *   length beyond the end of the file            torn
 *   the data's crc is wrong                      damage
 *
 * The length has a crc of its own for that: a flipped bit in it must not look like a torn tail. */
#include "formats/records/record.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "formats/records/crc32c.h"

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

et_record_frame et_record_frame_of(const void *data, size_t length)
{
    et_record_frame frame = { { 0 }, { 0 } };
    put_little(frame.head, 8, length);
    put_little(frame.head + 8, 4, masked_crc(frame.head, 8));
    put_little(frame.tail, ET_RECORD_TAIL, masked_crc(data, length));
    return frame;
}

bool et_record_read_head(const unsigned char *head, uint64_t *length)
{
    *length = get_little(head, 8);
    return get_little(head + 8, 4) == masked_crc(head, 8);
}

bool et_record_check_tail(const unsigned char *tail, const void *data, size_t length)
{
    return get_little(tail, ET_RECORD_TAIL) == masked_crc(data, length);
}

/* ---- data sets ---- */

/* Nothing is torn here: a file that ends within a record has lost something. */

int et_record_blame(const et_record_place *place, int status, et_error *error)
{
    return et_fail_while(error, status, "%s: record %s at byte %s%s", place->path,
                         et_format_count(place->number).text,
                         et_format_count((int64_t)place->offset).text,
                         place->gzip ? " of its unpacked data" : "");
}

int et_record_refuse(const et_record_place *place, et_record_fault fault, et_error *error)
{
    static const char *const texts[] = {
        [ET_RECORD_BAD_LENGTH] = "the checksum of its length does not match: the file is damaged "
                                 "or holds no TFRecords: copy it again, or name another",
        [ET_RECORD_TOO_LONG] = "a length of 2 GiB or more, which no record has: write the file "
                               "again, of smaller records",
        [ET_RECORD_CUT] = "the file ends within it: copy it again",
        [ET_RECORD_BAD_DATA] = "the checksum of its data does not match: the file is damaged: copy "
                               "it again",
    };
    return et_record_blame(place, et_fail(error, ET_EFORMAT, "%s", texts[fault]), error);
}

int et_record_at(const et_record_place *place, const void *bytes, size_t size, const void **data,
                 size_t *length, et_error *error)
{
    et_assert(place->offset < size);
    const unsigned char *record = (const unsigned char *)bytes + place->offset;
    const uint64_t left = size - place->offset;
    uint64_t count;
    if (left < ET_RECORD_HEAD)
        return et_record_refuse(place, ET_RECORD_CUT, error);
    if (!et_record_read_head(record, &count))
        return et_record_refuse(place, ET_RECORD_BAD_LENGTH, error);
    if (count > ET_RECORD_DATA_MAX)
        return et_record_refuse(place, ET_RECORD_TOO_LONG, error);
    if (count + ET_RECORD_OVERHEAD > left)
        return et_record_refuse(place, ET_RECORD_CUT, error);
    if (!et_record_check_tail(record + ET_RECORD_HEAD + count, record + ET_RECORD_HEAD, count))
        return et_record_refuse(place, ET_RECORD_BAD_DATA, error);
    *data = record + ET_RECORD_HEAD;
    *length = (size_t)count;
    return ET_OK;
}

/* ---- logs, read ---- */

/* From a mapping: records are given where they lie, and no more is copied. */

/* An empty file has no records and is no error. */
int et_record_scan_open(et_record_scan *scan, const char *path, et_error *error)
{
    *scan = (et_record_scan){ 0 };
    const int status = et_mapping_open(&scan->mapping, path, error);
    if (status)
        return status;
    scan->path = et_strdup(path);
    if (scan->path == NULL) {
        et_mapping_close(&scan->mapping);
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
static int damaged(const et_record_scan *scan, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s: damaged: the checksum of a record's %s does not match "
                   "(record at byte %s)",
                   scan->path, what, et_format_count((int64_t)scan->offset).text);
}

/* offset moves behind the record only when all of it is right. */
int et_record_scan_next(et_record_scan *scan, const void **bytes, size_t *length, et_error *error)
{
    et_assert(scan->offset <= scan->mapping.length);
    /* offset never passes the end: a record's length was compared with what is left. */
    const size_t left = scan->mapping.length - scan->offset;
    *bytes = NULL;
    *length = 0;
    if (left == 0)
        return ET_OK;
    const unsigned char *record = (const unsigned char *)scan->mapping.data + scan->offset;
    /* Before any checksum: of zeros, length 0 has a crc that is not 0. */
    scan->torn = left < ET_RECORD_HEAD || only_zeros(record, left);
    if (scan->torn)
        return ET_OK;
    uint64_t size;
    if (!et_record_read_head(record, &size))
        return damaged(scan, "length", error);
    scan->torn = left < ET_RECORD_OVERHEAD || size > left - ET_RECORD_OVERHEAD;
    if (scan->torn)
        return ET_OK;
    if (!et_record_check_tail(record + ET_RECORD_HEAD + size, record + ET_RECORD_HEAD, size))
        return damaged(scan, "data", error);
    scan->offset += size + ET_RECORD_OVERHEAD;
    *bytes = record + ET_RECORD_HEAD;
    *length = size;
    return ET_OK;
}

/* What read gave is invalid from here on. */
void et_record_scan_close(et_record_scan *scan)
{
    et_mapping_close(&scan->mapping);
    et_free(scan->path);
    *scan = (et_record_scan){ 0 };
}

/* ---- logs, written ---- */

/* Append-only, through append.h: offset is where the next record will go. */

/* Where the last whole record of a file ends. Reads the file to its end; only a file that is
 * shorter than it should be, or has no known offset, is. */
static int whole_length(uint64_t *out, const char *path, et_error *error)
{
    et_record_scan scan;
    int status = et_record_scan_open(&scan, path, error);
    if (status)
        return status;
    const void *bytes = NULL;
    size_t length;
    do
        status = et_record_scan_next(&scan, &bytes, &length, error);
    while (!status && bytes != NULL);
    *out = scan.offset;
    et_record_scan_close(&scan);
    return status;
}

/* The buffer's memory is kept from record to record. */
int et_record_log_open(et_record_log *log, const char *path, int64_t offset, et_error *error)
{
    log->buffer = (et_strbuf)ET_STRBUF_INIT;
    return et_append_open(&log->file, path, offset, whole_length, error);
}

/* bytes may be NULL if length is 0: an empty record. */
int et_record_log_write(et_record_log *log, const void *bytes, size_t length, et_error *error)
{
    et_assert(bytes || length == 0);
    const et_record_frame frame = et_record_frame_of(bytes, length);
    /* Framed in memory first: one call of write, so that a kill rarely tears a record. */
    et_strbuf *buffer = &log->buffer;
    et_strbuf_reset(buffer);
    et_strbuf_append_bytes(buffer, frame.head, ET_RECORD_HEAD);
    et_strbuf_append_bytes(buffer, bytes, length);
    et_strbuf_append_bytes(buffer, frame.tail, ET_RECORD_TAIL);
    if (buffer->failed) {
        et_strbuf_release(buffer);
        return et_alloc_failed(error, length + ET_RECORD_OVERHEAD, "a record");
    }
    return et_append_write(&log->file, buffer->data, buffer->length, error);
}

int et_record_log_flush(et_record_log *log, et_error *error)
{
    return et_append_flush(&log->file, error);
}

int et_record_log_close(et_record_log *log, et_error *error)
{
    et_strbuf_release(&log->buffer);
    return et_append_close(&log->file, error);
}
