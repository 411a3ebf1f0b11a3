/* Bytes become lines through one buffer:
 *
 *   file --packed--> buffer [1 MiB + 64 KiB] --find_line--> a line
 *
 * A line is returned where it is in the buffer, so it is neither copied nor terminated. The longest
 * allowed line, its end and a refill fit at once. The rest, a part of one line, is moved to the
 * front before each refill.
 *
 *   line = { byte except LF } ( LF | CR LF | end of file )
 *
 * A last line without LF counts; a file that ends in LF has no empty line after it. A CR elsewhere
 * is text, but a file with CRs and without any LF is refused, because it would be one line. A byte
 * order mark is skipped only at the start of a file.
 *
 * The first two bytes decide whether a file is packed (RFC 1952: 1f 8b), not its name. io/packed
 * reports damage in packed files, and the line is added here.
 *
 * Invariants:
 *
 *   (1) begin <= end <= BUFFER_SIZE;
 *   (2) number and path are those of the line returned last, so a message names the line after
 *       it. */
#include "data/text/text.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/unicode.h"
#include "data/text/sentences.h"
#include "formats/records/packed.h"

/* Bytes that are read or unpacked at a time. */
#define REFILL ((size_t)64 << 10)

/* A line of the longest length, its end, and room so that a refill is never tiny. */
#define BUFFER_SIZE (ET_TEXT_LINE_MAX + REFILL)

/* Bytes of a byte order mark. */
#define MARK 3

struct et_text {
    const et_strings *paths; /* borrowed, at least one */
    size_t file;             /* index of the open file; paths->count after the last */
    et_packed_reader *bytes; /* of the open file; NULL: none */
    int64_t number;          /* of the last line given, in its file */
    int64_t count;           /* lines given in all */
    char *buffer;            /* [BUFFER_SIZE]: text after unpacking */
    size_t begin, end;       /* the part of buffer not yet given */
    bool drained;            /* the open file has no more text */
};

/* The path of the open file; not after the last file. */
static const char *current_path(const et_text *text)
{
    return text->paths->items[text->file];
}

/* ---- bytes of the file ---- */

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
        status = et_fail(error, ET_EDATA, "%s is a directory: name text files", path);
    else if (!S_ISREG(info.st_mode))
        status = et_fail(error, ET_EDATA, "%s is not a regular file: write the text to one", path);
    if (status) {
        close(*fd);
        *fd = -1;
    }
    return status;
}

/* The line that unpacking has reached, far after the line returned last: the text fills the buffer
 * from front to end. */
static long long line_reached(const et_text *text)
{
    const char *at = text->buffer, *end = text->buffer + text->end;
    long long line = text->number + 1;
    et_assert(text->begin == 0);
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        at++;
        line++;
    }
    return line;
}

/* Adds text after the rest in the buffer. At most REFILL at a time, so that little is moved and
 * little is unpacked early. */
static int refill(et_text *text, et_error *error)
{
    memmove(text->buffer, text->buffer + text->begin, text->end - text->begin);
    text->end -= text->begin;
    text->begin = 0;
    size_t room = BUFFER_SIZE - text->end, got;
    et_assert(room > 0);
    int status = et_packed_read(text->bytes, text->buffer + text->end,
                                room < REFILL ? room : REFILL, &got, error);
    text->end += got;
    text->drained = got == 0;
    return status == ET_EFORMAT
               ? et_fail_while(error, status, "%s:%lld", current_path(text), line_reached(text))
               : status;
}

/* ---- files ---- */

/* Only one file is open at a time; the next one is opened when one of its lines is needed. */

/* May be called twice, and for a reader whose open failed. */
static void close_file(et_text *text)
{
    et_packed_reader_close(text->bytes);
    text->bytes = NULL;
}

/* Opens the file at text->file and skips a byte order mark. Reads until the mark's bytes are there
 * or the file ends, because a single read may return fewer. */
static int open_file(et_text *text, et_error *error)
{
    const char *path = current_path(text);
    int fd;
    text->number = 0;
    text->begin = text->end = 0;
    text->drained = false;
    int status = open_regular(&fd, path, error);
    if (!status)
        status = et_packed_reader_open(&text->bytes, fd, path, NULL, error);
    while (!status && text->end < MARK && !text->drained)
        status = refill(text, error);
    if (!status)
        text->begin = et_utf8_mark(text->buffer, text->end);
    return status;
}

/* Checks all paths before a byte is read; a file may still disappear before its turn. */
int et_text_open(et_text **out, const et_strings *paths, et_error *error)
{
    et_assert(paths->count > 0);
    /* Opens and closes each file: file modes alone do not tell whether reading is permitted. */
    for (size_t i = 0; i < paths->count; i++) {
        int fd;
        int status = open_regular(&fd, paths->items[i], error);
        if (status)
            return status;
        close(fd);
    }
    et_text *text;
    if (ET_ALLOC_ZERO(text, 1, "a text reader", error))
        return ET_ENOMEM;
    text->paths = paths;
    text->buffer = et_alloc(BUFFER_SIZE, 1);
    int status = text->buffer ? open_file(text, error) : et_alloc_failed(error, "a text reader");
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
    et_free(text);
}

/* ---- lines ---- */

/* The public functions. All checks of text are made on whole lines, so that messages can name the
 * line. */

/* Most often a file that is no text, or a book without line ends. */
static int too_long(const et_text *text, et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "%s:%lld: a line of more than %zu bytes: write one sentence per line",
                   current_path(text), (long long)text->number + 1, ET_TEXT_LINE_MAX);
}

/* A CR as the last byte may belong to a CR LF whose LF is not read yet. */
int et_text_check_first(const char *line, size_t size, const char *name, et_error *error)
{
    const char *cr = memchr(line, '\r', size);
    if (!cr || cr + 1 == line + size)
        return ET_OK;
    return et_fail(error, ET_EDATA, "%s: lines end with CR: end them with LF (tr '\\r' '\\n')",
                   name);
}

/* Makes [begin, begin + *length) a line, and *next the begin of the following line; *length is
 * SIZE_MAX at the end of the file. searched: bytes from begin without an LF, so that a long line is
 * not searched again after each refill. Here a line may be one byte longer than allowed, for a CR
 * that is not part of it. */
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
        /* One byte more than the longest line with a CR: no line end can make the line short
         * enough. */
        if (have > ET_TEXT_LINE_MAX + 1)
            return too_long(text, error);
        searched = have;
        int status = refill(text, error);
        if (status)
            return status;
    }
}

const et_text_mark et_text_marks[ET_TEXT_MARKS] = {
    { "\xff\xfe", 2, "is UTF-16 text: save it as UTF-8" },
    { "\xfe\xff", 2, "is UTF-16 text: save it as UTF-8" },
    { "\x1f\x8b", 2, "is gzip data: unpack it first (zcat)" },
    { "\xfd\x37zX", 4, "is xz data: unpack it first (xzcat)" },
    { "\x28\xb5\x2f\xfd", 4, "is zstd data: unpack it first (zstdcat)" },
    { "BZh9", 4, "is bzip2 data: unpack it first (bzcat)" },
    { "PK\3\4", 4, "is a zip archive: unpack it first (unzip)" },
};

/* Bytes are counted from 1, as editors do. NUL is valid UTF-8, but would end the line in C code. */
int et_text_check_line(const char *line, size_t length, const char *name, int64_t number,
                       et_error *error)
{
    const char *nul = memchr(line, 0, length);
    size_t bad;
    if (!nul && et_utf8_valid(line, length, &bad))
        return ET_OK;
    for (const et_text_mark *m = et_text_marks; number == 1 && m < et_text_marks + ET_TEXT_MARKS;
         m++)
        if (length >= m->length && !memcmp(line, m->bytes, m->length))
            return et_fail(error, ET_EDATA, "%s %s", name, m->fault);
    if (nul)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: byte %zu of the line is NUL: save the text as UTF-8", name,
                       (long long)number, (size_t)(nul - line) + 1);
    return et_fail(error, ET_EDATA,
                   "%s:%lld: byte %zu of the line (0x%02X) is not UTF-8: save the text as UTF-8",
                   name, (long long)number, bad + 1, (unsigned)(unsigned char)line[bad]);
}

/* The loop continues with the next file until a line is found or all files are read. */
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
    /* The line is returned in place; the next refill moves it and so ends its validity. */
    text->begin = next;
    text->count++;
    *line = (et_text_line){ start, length, current_path(text), text->file, ++text->number };
    return et_text_check_line(line->text, line->length, line->path, line->number, error);
}

int64_t et_text_count(const et_text *text)
{
    return text->count;
}

/* ---- checksums ---- */

/* Maps the file instead of reading it into memory. Only regular files are opened, since a pipe
 * would block. */
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

int et_text_checksum_files(et_checksum_stream *stream, const et_strings *paths, et_error *error)
{
    uint64_t facts[2] = { paths->count, 0 };
    et_checksum_stream_add(stream, facts, sizeof facts);
    for (size_t i = 0; i < paths->count; i++) {
        int status = et_text_checksum(&facts[0], &facts[1], paths->items[i], error);
        if (status)
            return status;
        et_checksum_stream_add(stream, facts, sizeof facts);
    }
    return ET_OK;
}

/* ---- codes of languages ---- */

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

bool et_language_is_code(const char *text)
{
    size_t length = strspn(text, LETTERS);
    if (length < 2 || length > 3)
        return false;
    for (text += length; *text == '-' || *text == '_'; text += length + 1) {
        length = strspn(text + 1, LETTERS "0123456789");
        if (length < 2 || length > 8)
            return false;
    }
    return !*text;
}

bool et_language_read_pair(const char *text, char source[ET_LANGUAGE_MAX],
                           char target[ET_LANGUAGE_MAX])
{
    const size_t length = strcspn(text, ",");
    *source = *target = 0;
    if (!text[length] || length >= ET_LANGUAGE_MAX || strlen(text + length + 1) >= ET_LANGUAGE_MAX)
        return false;
    memcpy(source, text, length);
    source[length] = 0;
    strcpy(target, text + length + 1);
    if (et_language_is_code(source) && et_language_is_code(target))
        return true;
    *source = *target = 0;
    return false;
}
