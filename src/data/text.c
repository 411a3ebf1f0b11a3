/* Bytes become lines through two buffers:
 *
 *   file --read_raw--> raw [64 KiB]
 *        --unpack (gzip) or pass (plain)--> buffer [1 MiB + 64 KiB]
 *        --find_line--> a line
 *
 * A line is given where it lies in buffer, so it is not copied and not terminated; the longest
 * line allowed, its end and a refill fit at once. What is not yet given, a part of one line, is
 * moved to the front before each refill.
 *
 *   line = { byte except LF } ( LF | CR LF | end of file )
 * A last line without LF counts; a file that ends in LF has no empty line behind it. A CR
 * elsewhere is text, but a file of CRs without any LF is refused: its lines would be one. A byte
 * order mark is skipped at the start of a file only.
 *
 * Whether a file is packed its first two bytes say (RFC 1952: 1f 8b), not its name; but a name
 * in .gz without them is refused, as a download that failed. Several members in a row are one
 * text, as gzip -d has it; zeros behind a member are the padding of a tape or a block device.
 *
 * Invariants:
 *   (1) begin <= end <= BUFFER_SIZE, raw_begin <= raw_end <= RAW_SIZE;
 *   (2) stream is initialised exactly while packed;
 *   (3) number and path are those of the line given last, so a message names the line after it. */
#include "data/text.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/file.h"
#include "base/unicode.h"
#include "base/checksum.h"

/* What is read from a file at a time, and unpacked at a time. */
#define RAW_SIZE ((size_t)64 << 10)

/* A line of the longest length, its end, and room so that a refill is never tiny. */
#define BUFFER_SIZE (ET_TEXT_LINE_MAX + RAW_SIZE)

static const unsigned char gzip_magic[2] = { 0x1f, 0x8b };
static const char byte_order_mark[3] = "\xef\xbb\xbf";

struct et_text {
    const et_strings *paths;   /* borrowed, at least one */
    size_t file;               /* index of the open file; paths->count after the last */
    int fd;                    /* -1: none */
    int64_t number;            /* of the last line given, in its file */
    int64_t count;             /* lines given in all */
    char *buffer;              /* [BUFFER_SIZE]: text as it is after unpacking */
    size_t begin, end;         /* what of it is not yet given */
    bool drained;              /* the open file has no more text */
    unsigned char *raw;        /* [RAW_SIZE]: bytes of the file */
    size_t raw_begin, raw_end; /* what of it is not yet unpacked */
    bool raw_drained;          /* the file has no more bytes */
    bool packed;               /* the open file is gzip */
    bool member;               /* within a gzip member: the file must not end here */
    z_stream stream;           /* live while packed */
};

/* Of the file that is open: not after the last. */
static const char *current_path(const et_text *text)
{
    return text->paths->items[text->file];
}

/* zlib's memory comes from where all memory comes from. It asks for about 40 KiB for each file. */
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

/* ---- bytes of the file ----
 *
 * The lowest layer: descriptors and reads, interrupted ones begun again. */

/* Opens a regular file; opening without blocking keeps a named pipe from stopping us. Every
 * reason has its own message: a directory, a pipe and a missing file have different cures. */
static int open_regular(int *fd, const char *path, et_error *error)
{
    struct stat info;
    int status = et_path_check(path, error);
    *fd = status ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (status)
        return status;
    if (*fd < 0)
        return et_fail_errno(error, "cannot open %s", path);
    if (fstat(*fd, &info))
        status = et_fail_errno(error, "cannot open %s", path);
    else if (S_ISDIR(info.st_mode))
        status = et_fail(error, ET_EDATA, "%s is a directory: name the text files in it", path);
    else if (!S_ISREG(info.st_mode))
        status = et_fail(error, ET_EDATA, "%s is not a regular file: write the text to one", path);
    if (status) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* Moves what is left in raw to its front and puts more bytes behind it. No bytes read is the
 * end. */
static int read_raw(et_text *text, et_error *error)
{
    memmove(text->raw, text->raw + text->raw_begin, text->raw_end - text->raw_begin);
    text->raw_end -= text->raw_begin;
    text->raw_begin = 0;
    ssize_t got;
    do {
        got = read(text->fd, text->raw + text->raw_end, RAW_SIZE - text->raw_end);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return et_fail_errno(error, "cannot read %s", current_path(text));
    text->raw_end += (size_t)got;
    et_assert(text->raw_end <= RAW_SIZE);
    text->raw_drained = got == 0;
    return ET_OK;
}

/* ---- unpacking ----
 *
 * Both kinds of file end up as text in the buffer; what is above does not know which it was. */

/* The line that unpacking has come to, far ahead of the one given last: text lies from the
 * buffer's front to where zlib writes next. */
static long long line_unpacked(const et_text *text)
{
    const char *at = text->buffer, *end = (const char *)text->stream.next_out;
    long long line = text->number + 1;
    et_assert(at <= end && text->begin == 0);
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        line++;
    }
    return line;
}

/* zlib finds damage where it stands, but for what a member's end says of the whole member: its
 * checksum and its length. */
static int gzip_failed(const et_text *text, et_error *error)
{
    const char *reason = text->stream.msg ? text->stream.msg : "unknown reason";
    const char *fault = "the gzip data is damaged from here on";
    if (!strcmp(reason, "incorrect data check") || !strcmp(reason, "incorrect length check"))
        fault = "the gzip data that ends here is damaged";
    /* Of the first member these two bytes are known. */
    else if (!strcmp(reason, "incorrect header check"))
        fault = "what follows the gzip data is no gzip data";
    return et_fail(error, ET_EFORMAT, "%s:%lld: %s (%s): copy the file again", current_path(text),
                   line_unpacked(text), fault, reason);
}

/* A download that broke off looks like this. */
static int gzip_cut(const et_text *text, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s:%lld: the gzip file ends in the middle of its data: copy it again",
                   current_path(text), line_unpacked(text));
}

/* Zeros before a member: none begins with one. */
static void skip_padding(et_text *text)
{
    while (text->raw_begin < text->raw_end && !text->raw[text->raw_begin])
        text->raw_begin++;
}

/* Unpacks into room bytes at out; *got of them. A file may hold several members in a row.
 * Returns as soon as there is any text, so that a line can be looked for. Input is used up
 * before more is read: the end of the file within a member is a cut file, between members the
 * end. Z_BUF_ERROR only says that no progress was possible without more input. */
static int unpack(et_text *text, char *out, size_t room, size_t *got, et_error *error)
{
    et_assert(text->packed && room > 0);
    z_stream *stream = &text->stream;
    stream->next_out = (Bytef *)out;
    stream->avail_out = (uInt)room;
    while (stream->avail_out == room) {
        if (!text->member)
            skip_padding(text);
        if (text->raw_begin == text->raw_end) {
            int status = read_raw(text, error);
            if (status)
                return status;
            if (text->raw_drained) {
                *got = 0;
                text->drained = true;
                return text->member ? gzip_cut(text, error) : ET_OK;
            }
            continue;
        }
        /* From the first byte of a member to its end. */
        text->member = true;
        stream->next_in = text->raw + text->raw_begin;
        stream->avail_in = (uInt)(text->raw_end - text->raw_begin);
        int result = inflate(stream, Z_NO_FLUSH);
        text->raw_begin = text->raw_end - stream->avail_in;
        if (result == Z_MEM_ERROR)
            return et_alloc_failed(error, RAW_SIZE, "unpacking gzip");
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            return gzip_failed(text, error);
        /* What follows may be another member; at the end of the file nothing does. */
        if (result == Z_STREAM_END) {
            text->member = false;
            inflateReset(stream);
        }
    }
    et_assert(stream->avail_out <= room);
    *got = room - stream->avail_out;
    return ET_OK;
}

/* Plain text: copies what has been read ahead, then reads on. */
static int pass(et_text *text, char *out, size_t room, size_t *got, et_error *error)
{
    if (text->raw_begin == text->raw_end) {
        int status = read_raw(text, error);
        if (status)
            return status;
        text->drained = text->raw_drained;
    }
    *got = text->raw_end - text->raw_begin;
    if (*got > room)
        *got = room;
    memcpy(out, text->raw + text->raw_begin, *got);
    text->raw_begin += *got;
    return ET_OK;
}

/* Puts more text behind what is left in the buffer. At most RAW_SIZE at a time, so that little
 * is moved and little unpacked ahead. */
static int refill(et_text *text, et_error *error)
{
    memmove(text->buffer, text->buffer + text->begin, text->end - text->begin);
    text->end -= text->begin;
    text->begin = 0;
    size_t room = BUFFER_SIZE - text->end;
    size_t got = 0;
    et_assert(room > 0);
    if (room > RAW_SIZE)
        room = RAW_SIZE;
    int status = text->packed ? unpack(text, text->buffer + text->end, room, &got, error)
                              : pass(text, text->buffer + text->end, room, &got, error);
    text->end += got;
    return status;
}

/* ---- files ----
 *
 * One is open at a time; the next is opened when a line is wanted of it. */

/* May be called twice, and on a reader whose open failed. */
static void close_file(et_text *text)
{
    if (text->packed)
        inflateEnd(&text->stream);
    text->packed = false;
    if (text->fd >= 0)
        close(text->fd);
    text->fd = -1;
}

/* The window is 32 KiB; zlib itself checks header, CRC and length of each member. */
static int begin_gzip(et_text *text, et_error *error)
{
    memset(&text->stream, 0, sizeof text->stream);
    text->stream.zalloc = zlib_allocate;
    text->stream.zfree = zlib_release;
    /* 15: the largest window; 16 more: gzip. */
    if (inflateInit2(&text->stream, 15 + 16) != Z_OK)
        return et_alloc_failed(error, RAW_SIZE, "unpacking gzip");
    text->packed = true;
    return ET_OK;
}

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* Opens the file at text->file, finds out whether it is gzip and skips a byte order mark. Both
 * need bytes that a single read may not give, so it reads until they are there or the file is at
 * its end. */
static int open_file(et_text *text, et_error *error)
{
    const char *path = current_path(text);
    text->number = 0;
    text->begin = text->end = text->raw_begin = text->raw_end = 0;
    text->drained = text->raw_drained = text->member = false;
    int status = open_regular(&text->fd, path, error);
    while (!status && text->raw_end < sizeof gzip_magic && !text->raw_drained)
        status = read_raw(text, error);
    if (status)
        return status;
    if (text->raw_end >= sizeof gzip_magic && !memcmp(text->raw, gzip_magic, sizeof gzip_magic))
        status = begin_gzip(text, error);
    else if (ends_with(path, ".gz"))
        status =
            et_fail(error, ET_EFORMAT, "%s is not gzip data: copy it again, or rename it", path);
    while (!status && text->end < sizeof byte_order_mark && !text->drained)
        status = refill(text, error);
    if (!status && text->end >= sizeof byte_order_mark &&
        !memcmp(text->buffer, byte_order_mark, sizeof byte_order_mark))
        text->begin = sizeof byte_order_mark;
    return status;
}

/* All paths are looked at before a byte is read; a file may still go away until its turn. */
int et_text_open(et_text **out, const et_strings *paths, et_error *error)
{
    et_assert(paths->count > 0);
    /* Opened and closed: permissions are asked where the files are, not guessed from their
     * modes. */
    for (size_t i = 0; i < paths->count; i++) {
        int fd;
        int status = open_regular(&fd, paths->items[i], error);
        if (status)
            return status;
        close(fd);
    }
    et_text *text = et_alloc_zero(1, sizeof *text);
    if (!text)
        return et_alloc_failed(error, sizeof *text, "a text reader");
    text->paths = paths;
    text->fd = -1;
    text->buffer = et_alloc(BUFFER_SIZE, 1);
    text->raw = et_alloc(RAW_SIZE, 1);
    int status = text->buffer && text->raw
                     ? open_file(text, error)
                     : et_alloc_failed(error, BUFFER_SIZE + RAW_SIZE, "a text reader");
    if (status) {
        et_text_close(text);
        return status;
    }
    *out = text;
    return ET_OK;
}

void et_text_close(et_text *text)
{
    if (!text)
        return;
    close_file(text);
    et_free(text->buffer);
    et_free(text->raw);
    et_free(text);
}

/* ---- lines ----
 *
 * What callers see. All checks of text are made on whole lines, so that a message can name one. */

/* Most often a file that is no text, or a book without line ends. */
static int too_long(const et_text *text, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "%s:%lld: a line of more than %zu bytes: text must have one sentence a line",
                   current_path(text), (long long)text->number + 1, ET_TEXT_LINE_MAX);
}

/* Bytes are counted from 1, as editors do. NUL is valid UTF-8, but what is made of lines in C
 * would end there. */
static int check_line(const et_text_line *line, et_error *error)
{
    const char *nul = memchr(line->text, 0, line->length);
    size_t at;
    if (nul)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: byte %zu of the line is NUL: save the file as UTF-8 text",
                       line->path, (long long)line->number, (size_t)(nul - line->text) + 1);
    if (!et_utf8_valid(line->text, line->length, &at))
        return et_fail(error, ET_EDATA,
                       "%s:%lld: byte %zu of the line (0x%02X) is not UTF-8: save the file as "
                       "UTF-8",
                       line->path, (long long)line->number, at + 1,
                       (unsigned)(unsigned char)line->text[at]);
    return ET_OK;
}

/* The last byte may be one: its LF is what is missing. */
int et_text_check_first(const char *line, size_t size, const char *name, et_error *error)
{
    const char *cr = memchr(line, '\r', size);
    if (!cr || cr + 1 == line + size)
        return ET_OK;
    return et_fail(error, ET_EDATA,
                   "%s: its lines end in CR alone: make them end in LF (tr '\\r' '\\n')", name);
}

/* Makes [begin, begin + *length) a line and *next where the following begins; *length is
 * SIZE_MAX at the end of the file. searched: bytes from begin that hold no LF, so that a long
 * line is not searched again after each refill. A line may be one byte longer than allowed here,
 * for the CR that is no part of it. */
static int find_line(et_text *text, size_t *length, size_t *next, et_error *error)
{
    size_t searched = 0;
    for (;;) {
        char *start = text->buffer + text->begin;
        size_t have = text->end - text->begin;
        char *newline = have > searched ? memchr(start + searched, '\n', have - searched) : NULL;
        bool first = !newline && text->number == 0;
        if (first && (text->drained || have > ET_TEXT_LINE_MAX + 1) &&
            et_text_check_first(start, have, current_path(text), error))
            return ET_EDATA;
        if (newline || text->drained) {
            *length = newline ? (size_t)(newline - start) : have;
            *next = text->begin + *length + (newline ? 1 : 0);
            if (!newline && have == 0)
                *length = SIZE_MAX;
            return ET_OK;
        }
        /* One more than the longest line with a CR: no line end can make it short enough now. */
        if (have > ET_TEXT_LINE_MAX + 1)
            return too_long(text, error);
        searched = have;
        int status = refill(text, error);
        if (status)
            return status;
    }
}

/* Files follow each other without a seam: the loop goes on until one has a line or all are read. */
int et_text_next(et_text *text, et_text_line *line, et_error *error)
{
    size_t length = SIZE_MAX, next = 0;
    *line = (et_text_line){ 0 };
    while (text->file < text->paths->count) {
        int status = find_line(text, &length, &next, error);
        if (status)
            return status;
        if (length != SIZE_MAX)
            break;
        close_file(text);
        if (++text->file < text->paths->count && (status = open_file(text, error)))
            return status;
    }
    if (text->file == text->paths->count)
        return ET_OK;
    const char *start = text->buffer + text->begin;
    if (length && start[length - 1] == '\r')
        length--;
    if (length > ET_TEXT_LINE_MAX)
        return too_long(text, error);
    /* The line is given where it lies; the next refill moves it away, which ends its life. */
    text->begin = next;
    text->count++;
    *line = (et_text_line){ start, length, current_path(text), text->file, ++text->number };
    return check_line(line, error);
}

int64_t et_text_count(const et_text *text)
{
    return text->count;
}

/* ---- checksums ---- */

/* Mapped, not read into memory; a regular file is asked for first, since a pipe would block. */
int et_text_checksum(uint64_t *checksum, uint64_t *length, const char *path, et_error *error)
{
    et_mapping mapping;
    int fd;
    int status = open_regular(&fd, path, error);
    if (status)
        return status;
    close(fd);
    status = et_mapping_open(&mapping, path, error);
    if (status)
        return status;
    *checksum = et_checksum(mapping.data, mapping.length);
    *length = mapping.length;
    et_mapping_close(&mapping);
    return ET_OK;
}
