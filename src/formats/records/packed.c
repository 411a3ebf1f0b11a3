/* Packed files. Reading uses one buffer of the file's bytes, [begin, end) of raw. Plain files use
 * it only for the first bytes, which show the type of the file, and are then read directly into the
 * caller's memory.
 *
 * Invariants:
 *
 *   (1) begin <= end <= RAW_SIZE;
 *   (2) stream is initialised exactly while gzip;
 *   (3) member: between the first byte of a member and its end, where the file must not end. */
#include "formats/records/packed.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"

/* Bytes that are read from a file, or packed, at a time. */
#define RAW_SIZE ((size_t)64 << 10)

/* Bytes that identify a file's type: a record's head. */
#define FIRST 12

/* zlib's largest window, plus 16 for gzip. */
#define GZIP_WINDOW (15 + 16)

/* Most bytes of a caller's buffer that one call of zlib gets. */
#define CALL_MAX ((size_t)1 << 30)

static const unsigned char gzip_magic[2] = { 0x1f, 0x8b };

struct et_packed_reader {
    const char *path; /* borrowed */
    int fd;
    bool gzip;
    bool member;       /* within a gzip member */
    bool drained;      /* the file has no more bytes */
    size_t begin, end; /* what of raw is not yet given */
    z_stream stream;
    unsigned char raw[RAW_SIZE];
};

/* zlib allocates from the same allocator as the rest of Etude. */
static voidpf zlib_allocate(voidpf payload, uInt count, uInt size)
{
    (void)payload;
    return et_alloc(count, size);
}

static void zlib_release(voidpf payload, voidpf memory)
{
    (void)payload;
    et_free(memory);
}

static z_stream new_stream(void)
{
    z_stream stream = { 0 };
    stream.zalloc = zlib_allocate;
    stream.zfree = zlib_release;
    return stream;
}

/* ---- reading ---- */

static int read_file(et_packed_reader *reader, void *out, size_t room, size_t *got, et_error *error)
{
    ssize_t count;
    do {
        count = read(reader->fd, out, room < CALL_MAX ? room : CALL_MAX);
    } while (count < 0 && errno == EINTR);
    *got = count < 0 ? 0 : (size_t)count;
    reader->drained = count == 0;
    return count < 0 ? et_fail_errno(error, "cannot read %s", reader->path) : ET_OK;
}

/* Moves the rest to the front and appends more bytes. */
static int read_raw(et_packed_reader *reader, et_error *error)
{
    size_t got;
    memmove(reader->raw, reader->raw + reader->begin, reader->end - reader->begin);
    reader->end -= reader->begin;
    reader->begin = 0;
    int status = read_file(reader, reader->raw + reader->end, RAW_SIZE - reader->end, &got, error);
    reader->end += got;
    et_assert(reader->end <= RAW_SIZE);
    return status;
}

/* A single read may give less than asks, so it reads until the first bytes are there or the file
 * is at its end. zlib itself checks header, CRC and length of each member. */
static int begin(et_packed_reader *reader, et_packed_plain_fn *plain, et_error *error)
{
    int status = ET_OK;
    while (!status && reader->end < FIRST && !reader->drained)
        status = read_raw(reader, error);
    if (status)
        return status;
    bool gzip = reader->end >= sizeof gzip_magic &&
                !memcmp(reader->raw, gzip_magic, sizeof gzip_magic) &&
                !(plain && plain(reader->raw, reader->end));
    if (!gzip)
        return et_path_ends(reader->path, ".gz")
                   ? et_fail(error, ET_EFORMAT, "%s is not gzip data: copy it again, or rename it",
                             reader->path)
                   : ET_OK;
    reader->stream = new_stream();
    if (inflateInit2(&reader->stream, GZIP_WINDOW) != Z_OK)
        return et_alloc_failed(error, "unpacking gzip");
    reader->gzip = true;
    return ET_OK;
}

int et_packed_reader_open(et_packed_reader **out, int fd, const char *path,
                          et_packed_plain_fn *plain, et_error *error)
{
    et_packed_reader *reader = et_alloc(1, sizeof *reader);
    if (!reader) {
        close(fd);
        return et_alloc_failed(error, "reading a file");
    }
    /* All but raw, which is written before it is read. */
    memset(reader, 0, offsetof(et_packed_reader, raw));
    reader->path = path;
    reader->fd = fd;
    int status = begin(reader, plain, error);
    if (status) {
        et_packed_reader_close(reader);
        return status;
    }
    *out = reader;
    return ET_OK;
}

bool et_packed_reader_is_gzip(const et_packed_reader *reader)
{
    return reader->gzip;
}

void et_packed_reader_close(et_packed_reader *reader)
{
    if (!reader)
        return;
    if (reader->gzip)
        inflateEnd(&reader->stream);
    close(reader->fd);
    et_free(reader);
}

/* Calls inflate once, for the bytes in raw. Z_BUF_ERROR only means that more input is needed. */
static int inflate_some(et_packed_reader *reader, et_error *error)
{
    z_stream *stream = &reader->stream;
    /* From the first byte of a member to its end. */
    reader->member = true;
    stream->next_in = reader->raw + reader->begin;
    stream->avail_in = (uInt)(reader->end - reader->begin);
    int result = inflate(stream, Z_NO_FLUSH);
    reader->begin = reader->end - stream->avail_in;
    if (result == Z_MEM_ERROR)
        return et_alloc_failed(error, "unpacking gzip");
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        /* zlib finds damage at its position, except for a member's checksum and length, which it
         * finds at the member's end. */
        const char *reason = stream->msg ? stream->msg : "unknown reason";
        const char *fault = "the gzip data is damaged from here on";
        if (!strcmp(reason, "incorrect data check") || !strcmp(reason, "incorrect length check"))
            fault = "the gzip data that ends here is damaged";
        /* The first member's two bytes were checked before. */
        else if (!strcmp(reason, "incorrect header check"))
            fault = "the gzip data is followed by other data";
        return et_fail(error, ET_EFORMAT, "%s (%s): copy the file again", fault, reason);
    }
    /* Another member may follow, unless the file ends here. */
    if (result == Z_STREAM_END) {
        reader->member = false;
        inflateReset(stream);
    }
    return ET_OK;
}

/* Returns as soon as there are any bytes. Input is used up before more is read: the end of the
 * file within a member is a cut file, between members the end. */
static int unpack(et_packed_reader *reader, void *out, size_t room, size_t *got, et_error *error)
{
    z_stream *stream = &reader->stream;
    const uInt most = (uInt)(room < CALL_MAX ? room : CALL_MAX);
    int status = ET_OK;
    stream->next_out = out;
    stream->avail_out = most;
    while (!status && stream->avail_out == most) {
        /* Zeros before a member: none begins with one. */
        while (!reader->member && reader->begin < reader->end && !reader->raw[reader->begin])
            reader->begin++;
        if (reader->begin < reader->end) {
            status = inflate_some(reader, error);
            continue;
        }
        status = read_raw(reader, error);
        if (!status && reader->drained) {
            if (reader->member)
                status = et_fail(error, ET_EFORMAT,
                                 "the gzip file ends in the middle of its data: copy it again");
            break;
        }
    }
    et_assert(stream->avail_out <= most);
    *got = most - stream->avail_out;
    return status;
}

int et_packed_read(et_packed_reader *reader, void *out, size_t room, size_t *got, et_error *error)
{
    et_assert(room > 0);
    *got = 0;
    if (reader->gzip)
        return unpack(reader, out, room, got, error);
    size_t left = reader->end - reader->begin;
    if (!left)
        return read_file(reader, out, room, got, error);
    *got = left < room ? left : room;
    memcpy(out, reader->raw + reader->begin, *got);
    reader->begin += *got;
    return ET_OK;
}

/* ---- writing ---- */

struct et_packed_writer {
    et_file_writer file;
    bool gzip;
    z_stream stream; /* initialised while gzip */
    unsigned char raw[RAW_SIZE];
};

static void free_writer(et_packed_writer *writer)
{
    if (writer->gzip)
        deflateEnd(&writer->stream);
    et_free(writer);
}

int et_packed_writer_open(et_packed_writer **out, const char *path, bool gzip, et_error *error)
{
    et_packed_writer *writer;
    if (ET_ALLOC(writer, 1, "writing a file", error))
        return ET_ENOMEM;
    writer->gzip = false;
    writer->stream = new_stream();
    int status = et_file_writer_open(&writer->file, path, error);
    /* 8: zlib's usual memory, 256 KiB. */
    if (!status && gzip) {
        writer->gzip = deflateInit2(&writer->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW,
                                    8, Z_DEFAULT_STRATEGY) == Z_OK;
        if (!writer->gzip) {
            et_file_writer_abandon(&writer->file);
            status = et_alloc_failed(error, "packing gzip");
        }
    }
    if (status) {
        free_writer(writer);
        return status;
    }
    *out = writer;
    return ET_OK;
}

/* All of the input, and with Z_FINISH the end of the member. */
static int deflate_all(et_packed_writer *writer, const void *bytes, size_t length, int flush,
                       et_error *error)
{
    z_stream *stream = &writer->stream;
    const unsigned char *next = bytes;
    int status = ET_OK, result = Z_OK;
    do {
        uInt piece = (uInt)(length < CALL_MAX ? length : CALL_MAX);
        stream->next_in = (Bytef *)(uintptr_t)next;
        stream->avail_in = piece;
        stream->next_out = writer->raw;
        stream->avail_out = RAW_SIZE;
        result = deflate(stream, piece == length ? flush : Z_NO_FLUSH);
        et_assert(result != Z_STREAM_ERROR);
        next += piece - stream->avail_in;
        length -= piece - stream->avail_in;
        status =
            et_file_writer_write(&writer->file, writer->raw, RAW_SIZE - stream->avail_out, error);
    } while (!status &&
             (length || (flush == Z_FINISH ? result != Z_STREAM_END : !stream->avail_out)));
    return status;
}

int et_packed_write(et_packed_writer *writer, const void *bytes, size_t length, et_error *error)
{
    return writer->gzip ? deflate_all(writer, bytes, length, Z_NO_FLUSH, error)
                        : et_file_writer_write(&writer->file, bytes, length, error);
}

int et_packed_writer_end(et_packed_writer *writer, int status, et_error *error)
{
    if (!writer)
        return status;
    if (!status && writer->gzip)
        status = deflate_all(writer, NULL, 0, Z_FINISH, error);
    status = et_file_writer_end(&writer->file, status, error);
    free_writer(writer);
    return status;
}

/* ---- PNG ---- */

static void put_number(unsigned char out[4], uint32_t number)
{
    for (int i = 0; i < 4; i++)
        out[i] = (unsigned char)(number >> (24 - 8 * i));
}

/* Length, type, bytes, and the checksum of the last two. */
static void put_chunk(et_strbuf *out, const char type[4], const void *bytes, size_t length)
{
    unsigned char number[4];
    uLong sum = crc32_z(crc32_z(0, (const Bytef *)type, 4), (const Bytef *)bytes, length);
    put_number(number, (uint32_t)length);
    et_strbuf_append_bytes(out, number, 4);
    et_strbuf_append_bytes(out, type, 4);
    et_strbuf_append_bytes(out, bytes, length);
    put_number(number, (uint32_t)sum);
    et_strbuf_append_bytes(out, number, 4);
}

/* Each row begins with its filter, 0: none. */
static int pack_rows(unsigned char **out, uLongf *length, const uint8_t *pixels, size_t rows,
                     size_t row, et_error *error)
{
    const size_t bytes = rows * (row + 1);
    unsigned char *plain = et_alloc(bytes, 1);
    *length = compressBound(bytes);
    *out = plain ? et_alloc(*length, 1) : NULL;
    for (size_t i = 0; *out && i < rows; i++) {
        plain[i * (row + 1)] = 0;
        memcpy(plain + i * (row + 1) + 1, pixels + i * row, row);
    }
    int status = *out && compress(*out, length, plain, bytes) == Z_OK
                     ? ET_OK
                     : et_alloc_failed(error, "an image");
    et_free(plain);
    return status;
}

int et_packed_png(et_strbuf *out, const uint8_t *pixels, uint32_t height, uint32_t width,
                  int channels, et_error *error)
{
    static const unsigned char magic[8] = { 0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n' };
    static const unsigned char kinds[4] = { 0, 4, 2, 6 };
    unsigned char *packed, head[13] = { [8] = 8 };
    uLongf length;
    et_assert(channels >= 1 && channels <= 4);
    head[9] = kinds[channels - 1];
    int status =
        pack_rows(&packed, &length, pixels, height, (size_t)width * (size_t)channels, error);
    put_number(head, width);
    put_number(head + 4, height);
    if (!status) {
        et_strbuf_append_bytes(out, magic, sizeof magic);
        put_chunk(out, "IHDR", head, sizeof head);
        put_chunk(out, "IDAT", packed, length);
        put_chunk(out, "IEND", "", 0);
    }
    et_free(packed);
    return !status && out->failed ? et_alloc_failed(error, "an image") : status;
}
