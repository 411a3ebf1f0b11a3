/* TFRecord framing: records one after the other in a file, each
 *
 *     u64 length | u32 masked crc32c(length) | data | u32 masked crc32c(data)
 *
 * little-endian. A killed writer leaves a torn tail: the reader stops before it and says so, a
 * writer that goes on cuts it off. Anything else that does not check is damage and an error.
 * What is in a record is the caller's matter. One thread per value. */
#ifndef ETUDE_IO_RECORD_H
#define ETUDE_IO_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "io/append.h"

#define ET_RECORD_OVERHEAD 16 /* bytes around the data of a record */

/* Reading; the file is mapped and must not shrink meanwhile. */
typedef struct et_record_reader {
    et_mapping mapping;
    char *path;      /* owned */
    uint64_t offset; /* of the next record; at the end: the length of what is whole */
    bool torn;       /* at the end: bytes of an incomplete record follow offset */
} et_record_reader;

int et_record_reader_open(et_record_reader *reader, const char *path, et_error *error);

/* The next record: *bytes is NULL at the end, else valid until close (never NULL, even for an
 * empty record). Damage is ET_EFORMAT with its byte; offset stays where it is. */
int et_record_read(et_record_reader *reader, const void **bytes, size_t *length, et_error *error);
void et_record_reader_close(et_record_reader *reader);

/* Writing: append.h says what offset may be, what is cut off and what is durable when. */
typedef struct et_record_writer {
    et_append file;
    et_strbuf buffer; /* one record, framed */
} et_record_writer;

int et_record_writer_open(et_record_writer *writer, const char *path, int64_t offset,
                          et_error *error);
int et_record_write(et_record_writer *writer, const void *bytes, size_t length, et_error *error);
int et_record_writer_flush(et_record_writer *writer, et_error *error);
int et_record_writer_close(et_record_writer *writer, et_error *error);

#endif
