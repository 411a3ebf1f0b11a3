/* Bytes of a file, plain or gzip, from front to end, and writing such a file. Only this module uses
 * zlib. Several gzip members in a row are one run of bytes, as for gzip -d. Zeros after a member
 * are accepted as the padding of a tape or a block device. Other bytes after a member, or an end
 * within a member, are errors. Memory: 64 KiB and zlib's 40, for files of any size. One thread at a
 * time.
 *
 *     et_packed_reader *reader;
 *     if (et_packed_reader_open(&reader, fd, path, NULL, &error)) ...
 *     while (!(status = et_packed_read(reader, buffer, sizeof buffer, &got, &error)) && got)
 *         use(buffer, got);
 *     et_packed_reader_close(reader);
 */
#ifndef ETUDE_FORMATS_RECORDS_PACKED_H
#define ETUDE_FORMATS_RECORDS_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

typedef struct et_packed_reader et_packed_reader;

/* Decides by its first bytes whether a file that begins like gzip is plain. */
typedef bool et_packed_plain_fn(const unsigned char *first, size_t count);

/* Takes fd, of a regular file, in any case; path is borrowed. ET_EFORMAT: the name ends in .gz and
 * the bytes are not gzip's, as of a download that failed. plain may be NULL. */
int et_packed_reader_open(et_packed_reader **out, int fd, const char *path,
                          et_packed_plain_fn *plain, et_error *error);
bool et_packed_reader_is_gzip(const et_packed_reader *reader);

/* The next bytes, at least one unless the file ends (*got 0). ET_EFORMAT: damaged gzip, in words
 * without a place; *got bytes before it are good. After a failure only close is allowed. */
int et_packed_read(et_packed_reader *reader, void *out, size_t room, size_t *got, et_error *error);
void et_packed_reader_close(et_packed_reader *reader); /* NULL allowed */

typedef struct et_packed_writer et_packed_writer;

/* Equal bytes give an equal file: it has no name and no time. */
int et_packed_writer_open(et_packed_writer **out, const char *path, bool gzip, et_error *error);
int et_packed_write(et_packed_writer *writer, const void *bytes, size_t length, et_error *error);
/* Frees the writer. Commits if status, the result of the writing, is ET_OK; otherwise abandons and
 * returns status. NULL: returns status. */
int et_packed_writer_end(et_packed_writer *writer, int status, et_error *error);

/* PNG, which is zlib's too: pixels [height, width, channels] of a byte each, channels 1 to 4 as
 * <etude/summary_message.h> has them. */
int et_packed_png(et_strbuf *out, const uint8_t *pixels, uint32_t height, uint32_t width,
                  int channels, et_error *error);

#endif
