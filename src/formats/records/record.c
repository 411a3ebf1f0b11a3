/* TFRecord framing (tensorflow/core/lib/io/record_writer.cc), data sets of records, and logs.
 *
 * check() is the only place that reads a frame. In a data set every fault is an error. A scan of a
 * log, which may be open for writing or end where its writer was killed, distinguishes an end from
 * damage:
 *
 *   no bytes left                                end
 *   fewer than a head, or all zeros to the end   torn: the scan stops before it
 *   length beyond the end of the file            torn
 *   a crc is wrong, no sound record follows      torn
 *   a crc is wrong, a sound record follows       damage
 *
 * A power loss leaves any of the first three: the file has its new length, but only some of its new
 * bytes. Bytes that were synced have records after them sooner or later.
 *
 * A length with a right checksum may still be any number in a malicious file: memory grows with the
 * bytes that really exist, never with a length. */
#include "formats/records/record.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "formats/records/crc32c.h"
#include "formats/records/packed.h"

/* Of a reader's memory at first; it doubles as bytes come. */
#define BUFFER_FIRST ((size_t)64 << 10)

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

typedef enum fault { SOUND, BAD_LENGTH, TOO_LONG, CUT, BAD_DATA } fault;

/* Checks the record at `record`, of which `left` bytes are available. *length, of its data, is set
 * if the whole head is available and valid. */
static fault check(const unsigned char *record, uint64_t left, uint64_t most, uint64_t *length)
{
    *length = 0;
    if (left < ET_RECORD_HEAD)
        return CUT;
    if (get_little(record + 8, 4) != masked_crc(record, 8))
        return BAD_LENGTH;
    *length = get_little(record, 8);
    if (*length > most)
        return TOO_LONG;
    if (left < ET_RECORD_OVERHEAD || *length > left - ET_RECORD_OVERHEAD)
        return CUT;
    const unsigned char *data = record + ET_RECORD_HEAD;
    const uint64_t checksum = get_little(data + *length, ET_RECORD_TAIL);
    return checksum == masked_crc(data, *length) ? SOUND : BAD_DATA;
}

/* ---- records of data sets ---- */

int et_record_blame(const et_record_position *position, int status, et_error *error)
{
    return et_fail_while(error, status, "%s: record %s at byte %s%s", position->path,
                         et_format_count(position->number).text,
                         et_format_count((int64_t)position->offset).text,
                         position->gzip ? " of its unpacked data" : "");
}

/* The record at that position has the fault. */
static int refuse(const et_record_position *position, fault found, et_error *error)
{
    static const char *const texts[] = {
        [BAD_LENGTH] = ("the checksum of its length does not match: the file is damaged or not a "
                        "TFRecord file; copy it again, or name another"),
        [TOO_LONG] = "a length of 2 GiB or more: write the file again, with smaller records",
        [CUT] = "the file ends within the record: copy the file again",
        [BAD_DATA] = "the checksum of its data does not match: the file is damaged; copy it again",
    };
    return et_record_blame(position, et_fail(error, ET_EFORMAT, "%s", texts[found]), error);
}

int et_record_at(const et_record_position *position, const void *bytes, size_t size,
                 const void **data, size_t *length, et_error *error)
{
    et_assert(position->offset < size);
    const unsigned char *record = (const unsigned char *)bytes + position->offset;
    uint64_t count;
    const fault found = check(record, size - position->offset, ET_RECORD_DATA_MAX, &count);
    *data = record + ET_RECORD_HEAD;
    *length = (size_t)count;
    return found == SOUND ? ET_OK : refuse(position, found, error);
}

/* ---- data sets, written ---- */

static const struct {
    const char *name;
    bool gzip;
} file_types[] = {
    { "tfrecord", false },
    { "tfrecords", false },
    { "tfrecord_compressed", true },
    { "tfrecords_gzip", true },
};
#define FILE_TYPES (sizeof file_types / sizeof *file_types)

static int find_file_type(bool *gzip, const char *name, et_error *error)
{
    *gzip = false;
    for (size_t i = 0; name && i < FILE_TYPES; i++)
        if (!strcasecmp(name, file_types[i].name)) {
            *gzip = file_types[i].gzip;
            return ET_OK;
        }
    if (!name)
        return ET_OK;
    if (!strcasecmp(name, "riegeli"))
        return et_fail(error, ET_ECONFIG,
                       "file type %s: Riegeli has no C library; use tfrecord, or "
                       "tfrecord_compressed for small files",
                       name);
    return et_fail(
        error, ET_ECONFIG,
        "unknown file type %s (known: tfrecord, tfrecords, tfrecord_compressed, tfrecords_gzip)",
        *name ? name : "\"\"");
}

struct et_record_writer {
    et_packed_writer *file;
    bool failed; /* a write did: the file is not to be kept */
};

int et_record_writer_open(et_record_writer **out, const char *path, const char *file_type,
                          et_error *error)
{
    bool gzip;
    int status;
    if ((status = et_path_check(path, error)) || (status = find_file_type(&gzip, file_type, error)))
        return status;
    et_record_writer *writer = et_alloc_zero(1, sizeof *writer);
    if (!writer)
        return et_alloc_failed(error, sizeof *writer, "a record file");
    status = et_packed_writer_open(&writer->file, path, gzip, error);
    if (status) {
        et_free(writer);
        return status;
    }
    *out = writer;
    return ET_OK;
}

int et_record_write(et_record_writer *writer, const void *bytes, size_t length, et_error *error)
{
    et_assert(bytes || length == 0);
    if (length > ET_RECORD_DATA_MAX)
        return et_fail(error, ET_EDATA,
                       "a record of %zu bytes is too large; write records of less than 2 GiB",
                       length);
    const et_record_frame frame = et_record_frame_of(bytes, length);
    int status = et_packed_write(writer->file, frame.head, ET_RECORD_HEAD, error);
    if (!status && length)
        status = et_packed_write(writer->file, bytes, length, error);
    if (!status)
        status = et_packed_write(writer->file, frame.tail, ET_RECORD_TAIL, error);
    writer->failed |= status != ET_OK;
    return status;
}

int et_record_write_example(et_record_writer *writer, et_example_builder *example, et_error *error)
{
    const void *bytes;
    size_t length;
    int status = et_example_serialized(example, &bytes, &length, error);
    return status ? status : et_record_write(writer, bytes, length, error);
}

int et_record_writer_close(et_record_writer *writer, et_error *error)
{
    int status = ET_OK;
    if (writer->failed) {
        et_record_writer_abandon(writer);
        return et_fail(error, ET_EIO, "cannot write a record: no file is open");
    }
    status = et_packed_writer_commit(writer->file, error);
    et_free(writer);
    return status;
}

void et_record_writer_abandon(et_record_writer *writer)
{
    if (!writer)
        return;
    et_packed_writer_abandon(writer->file);
    et_free(writer);
}

int et_records_write(const char *path, const char *file_type, et_example_builder *const *examples,
                     size_t count, et_error *error)
{
    et_record_writer *writer;
    int status = et_record_writer_open(&writer, path, file_type, error);
    if (status)
        return status;
    for (size_t i = 0; !status && i < count; i++)
        status = et_record_write_example(writer, examples[i], error);
    if (!status)
        return et_record_writer_close(writer, error);
    et_record_writer_abandon(writer);
    return status;
}

/* ---- data sets, read ---- */

struct et_record_reader {
    et_packed_reader *file;
    et_record_position position; /* of the next record; path owned */
    unsigned char *buffer;       /* of the record given last, its head and its tail */
    size_t capacity;
};

/* Whether a file with the first bytes of gzip contains records all the same: a first length of
 * 35,615 (or 65,536 more, ...) begins with gzip's two bytes. A record has a checksum after them,
 * gzip has not. */
static bool begins_with_record(const unsigned char *first, size_t count)
{
    uint64_t length;
    return count >= ET_RECORD_HEAD && check(first, count, UINT64_MAX, &length) != BAD_LENGTH;
}

int et_record_reader_open(et_record_reader **out, const char *path, et_error *error)
{
    int fd, status = et_path_check(path, error);
    if (status)
        return status;
    et_record_reader *reader = et_alloc_zero(1, sizeof *reader);
    char *name = et_strdup(path);
    if (reader)
        reader->position = (et_record_position){ .path = name, .number = 1 };
    status = reader && name ? et_file_open(&fd, path, error)
                            : et_alloc_failed(error, sizeof *reader, "a record file");
    if (!status)
        status = et_packed_reader_open(&reader->file, fd, name, begins_with_record, error);
    if (status) {
        et_free(name);
        et_free(reader);
        return status;
    }
    reader->position.gzip = et_packed_reader_is_gzip(reader->file);
    *out = reader;
    return ET_OK;
}

/* Reads until the buffer has `want` bytes, *have so far; fewer at the end of the file. */
static int read_up_to(et_record_reader *reader, size_t want, size_t *have, et_error *error)
{
    int status = ET_OK;
    size_t got = 1;
    while (!status && *have < want && got) {
        /* Room for one byte more: doubling, since a damaged file may want anything. */
        unsigned char *buffer =
            et_vector_grow(reader->buffer, &reader->capacity, *have + 1, 1, BUFFER_FIRST);
        if (!buffer)
            return et_alloc_failed(error, want, "a record");
        reader->buffer = buffer;
        size_t room = reader->capacity < want ? reader->capacity : want;
        status = et_packed_read(reader->file, reader->buffer + *have, room - *have, &got, error);
        *have += got;
    }
    return status == ET_EFORMAT ? et_record_blame(&reader->position, status, error) : status;
}

int et_record_read(et_record_reader *reader, const void **bytes, size_t *length, et_error *error)
{
    size_t have = 0;
    uint64_t size;
    *bytes = NULL;
    *length = 0;
    int status = read_up_to(reader, ET_RECORD_HEAD, &have, error);
    if (status || !have)
        return status;
    fault found = check(reader->buffer, have, ET_RECORD_DATA_MAX, &size);
    const size_t whole = (size_t)size + ET_RECORD_OVERHEAD;
    if (found == CUT && have == ET_RECORD_HEAD) {
        status = read_up_to(reader, whole, &have, error);
        if (status)
            return status;
        found = check(reader->buffer, have, ET_RECORD_DATA_MAX, &size);
    }
    if (found != SOUND)
        return refuse(&reader->position, found, error);
    reader->position.offset += whole;
    reader->position.number++;
    *bytes = reader->buffer + ET_RECORD_HEAD;
    *length = (size_t)size;
    return ET_OK;
}

et_record_position et_record_reader_position(const et_record_reader *reader)
{
    return reader->position;
}

void et_record_reader_close(et_record_reader *reader)
{
    if (!reader)
        return;
    et_packed_reader_close(reader->file);
    et_free((char *)(uintptr_t)reader->position.path);
    et_free(reader->buffer);
    et_free(reader);
}

int et_record_list_next(et_record_list *list, et_record_position *position, const void **bytes,
                        size_t *length, et_error *error)
{
    *bytes = NULL;
    for (; list->file < list->paths.count; list->file++) {
        int status = list->reader ? ET_OK
                                  : et_record_reader_open(&list->reader,
                                                          list->paths.items[list->file], error);
        if (status)
            return status;
        *position = et_record_reader_position(list->reader);
        status = et_record_read(list->reader, bytes, length, error);
        if (status || *bytes)
            return status;
        et_record_list_close(list);
    }
    return ET_OK;
}

void et_record_list_close(et_record_list *list)
{
    et_record_reader_close(list->reader);
    list->reader = NULL;
}

/* ---- logs, read ---- */

/* Scanning a mapping: records are returned in place, and nothing is copied. */

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

/* Whether a sound record begins at any byte after the first. Long data with a wrong checksum is
 * read again and again only in a malicious file, so the search ends after 64 times the bytes there
 * are: the file then counts as one with sound records. */
static bool sound_follows(const unsigned char *bytes, size_t length)
{
    uint64_t size, work = 0;
    for (size_t at = 1; at + ET_RECORD_OVERHEAD <= length; at++) {
        const fault found = check(bytes + at, length - at, UINT64_MAX, &size);
        work += found == BAD_DATA ? size : 0;
        if (found == SOUND || work / 64 > length)
            return true;
    }
    return false;
}

/* The message has the byte where the record begins, so that a user can cut it out. */
static int damaged(const et_record_scan *scan, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s: damaged: the checksum of a record's %s does not match "
                   "(record at byte %s)",
                   scan->path, what, et_format_count((int64_t)scan->offset).text);
}

/* offset moves past the record only when all of it is sound. */
int et_record_scan_next(et_record_scan *scan, const void **bytes, size_t *length, et_error *error)
{
    et_assert(scan->offset <= scan->mapping.length);
    /* offset never exceeds the length: each record's length was compared with the rest. */
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
    const fault found = check(record, left, UINT64_MAX, &size);
    scan->torn = found == CUT || (found != SOUND && !sound_follows(record, left));
    if (scan->torn)
        return ET_OK;
    if (found != SOUND)
        return damaged(scan, found == BAD_LENGTH ? "length" : "data", error);
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

/* Appending, through append.h: offset is the place of the next record. */

/* The end of the last complete record of a file. Reads the whole file, so it is only used if a file
 * is shorter than it should be, or has no known offset. */
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
