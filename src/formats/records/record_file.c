/* Data sets of records: <etude/records.h>. Written through io/packed, so that a file is there only
 * when it is whole; read through it, a record at a time.
 *
 * A length with a right checksum may still be any number, in a file that was made so: memory grows
 * with the bytes that are really there, never with what a length says. */
#include <string.h>
#include <strings.h>

#include <etude/records.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/vector.h"
#include "formats/records/packed.h"
#include "formats/records/record.h"
#include "formats/records/record_file.h"

/* Memory that a reader begins with, and doubles as bytes come. */
#define BUFFER_FIRST ((size_t)64 << 10)

/* ---- names of kinds of file ---- */

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
                       "file type %s: Riegeli has no library for C; write tfrecord, or "
                       "tfrecord_compressed where the size counts",
                       name);
    return et_fail(error, ET_ECONFIG,
                   "file type %s: there is none of that name (there are tfrecord, tfrecords, "
                   "tfrecord_compressed, tfrecords_gzip)",
                   *name ? name : "\"\"");
}

/* ---- writing ---- */

struct et_record_writer {
    et_packed_writer *file;
    bool failed; /* a write did: the file is not to be kept */
};

int et_record_writer_open(et_record_writer **out, const char *path, const char *file_type,
                          et_error *error)
{
    bool gzip;
    int status = et_path_check(path, error);
    if (!status)
        status = find_file_type(&gzip, file_type, error);
    if (status)
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
        return et_fail(error, ET_EDATA, "a record of %zu bytes; below 2 GiB can be read again",
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
        return et_fail(error, ET_EIO, "a record could not be written: there is no file");
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

/* ---- reading ---- */

struct et_record_reader {
    et_packed_reader *file;
    et_record_place place; /* of the next record; path owned */
    unsigned char *buffer; /* of the record given last, its head and its tail */
    size_t capacity;
};

/* Whether a file that begins as gzip does is records all the same: a first length of 35,615 (or
 * 65,536 more, ...) begins with gzip's two bytes, and has a checksum behind it, which gzip has not.
 */
static bool begins_with_record(const unsigned char *first, size_t count)
{
    uint64_t length;
    return count >= ET_RECORD_HEAD && et_record_read_head(first, &length);
}

int et_record_reader_open(et_record_reader **out, const char *path, et_error *error)
{
    int fd, status = et_path_check(path, error);
    if (status)
        return status;
    et_record_reader *reader = et_alloc_zero(1, sizeof *reader);
    char *name = et_strdup(path);
    if (reader)
        reader->place = (et_record_place){ .path = name, .number = 1 };
    status = reader && name ? et_file_open(&fd, path, error)
                            : et_alloc_failed(error, sizeof *reader, "a record file");
    if (!status)
        status = et_packed_reader_open(&reader->file, fd, name, begins_with_record, error);
    if (status) {
        et_free(name);
        et_free(reader);
        return status;
    }
    reader->place.gzip = et_packed_reader_is_gzip(reader->file);
    *out = reader;
    return ET_OK;
}

/* Room for one byte more, towards want: doubling, since a damaged file may want anything. */
static int make_room(et_record_reader *reader, size_t have, size_t want, et_error *error)
{
    unsigned char *buffer =
        et_vector_grow(reader->buffer, &reader->capacity, have + 1, 1, BUFFER_FIRST);
    if (!buffer)
        return et_alloc_failed(error, want, "a record");
    reader->buffer = buffer;
    return ET_OK;
}

/* Bytes of the buffer up to want, of which *have are there; fewer at the end of the file. */
static int read_up_to(et_record_reader *reader, size_t want, size_t *have, et_error *error)
{
    int status = ET_OK;
    size_t got = 1;
    while (!status && *have < want && got) {
        status = make_room(reader, *have, want, error);
        if (status)
            break;
        size_t room = reader->capacity < want ? reader->capacity : want;
        status = et_packed_read(reader->file, reader->buffer + *have, room - *have, &got, error);
        *have += got;
    }
    return status == ET_EFORMAT ? et_record_blame(&reader->place, status, error) : status;
}

int et_record_read(et_record_reader *reader, const void **bytes, size_t *length, et_error *error)
{
    const et_record_place *place = &reader->place;
    size_t have = 0;
    uint64_t size;
    *bytes = NULL;
    *length = 0;
    int status = read_up_to(reader, ET_RECORD_HEAD, &have, error);
    if (status || !have)
        return status;
    if (have < ET_RECORD_HEAD)
        return et_record_refuse(place, ET_RECORD_CUT, error);
    if (!et_record_read_head(reader->buffer, &size))
        return et_record_refuse(place, ET_RECORD_BAD_LENGTH, error);
    if (size > ET_RECORD_DATA_MAX)
        return et_record_refuse(place, ET_RECORD_TOO_LONG, error);
    const size_t whole = (size_t)size + ET_RECORD_OVERHEAD;
    status = read_up_to(reader, whole, &have, error);
    if (status)
        return status;
    if (have < whole)
        return et_record_refuse(place, ET_RECORD_CUT, error);
    const unsigned char *data = reader->buffer + ET_RECORD_HEAD;
    if (!et_record_check_tail(data + size, data, (size_t)size))
        return et_record_refuse(place, ET_RECORD_BAD_DATA, error);
    reader->place.offset += whole;
    reader->place.number++;
    *bytes = data;
    *length = (size_t)size;
    return ET_OK;
}

et_record_place et_record_reader_place(const et_record_reader *reader)
{
    return reader->place;
}

void et_record_reader_close(et_record_reader *reader)
{
    if (!reader)
        return;
    et_packed_reader_close(reader->file);
    et_free((char *)(uintptr_t)reader->place.path);
    et_free(reader->buffer);
    et_free(reader);
}
