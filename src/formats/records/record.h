/* TFRecord framing: records one after the other in a file, each
 *
 *     u64 length | u32 masked crc32c(length) | data | u32 masked crc32c(data)
 *
 * little-endian. One framing for two kinds of file: data sets (<etude/records.h>), which are whole
 * or wrong, and logs, which grow: a killed writer leaves a torn tail there, the scan stops before
 * it and says so, a log that goes on cuts it off; anything else that does not check is damage and
 * an error. What is in a record is the caller's matter. One thread per value. */
#ifndef ETUDE_FORMATS_RECORDS_RECORD_H
#define ETUDE_FORMATS_RECORDS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "formats/events/append.h"

/* Bytes before the data of a record (length and its crc), behind it, and both. */
#define ET_RECORD_HEAD     12
#define ET_RECORD_TAIL     4
#define ET_RECORD_OVERHEAD 16

/* The bytes around the data of a record, of which there are no more than this in a data set: what
 * protobuf can parse. */
#define ET_RECORD_DATA_MAX ((uint64_t)INT32_MAX)

typedef struct et_record_frame {
    unsigned char head[ET_RECORD_HEAD], tail[ET_RECORD_TAIL];
} et_record_frame;

et_record_frame et_record_frame_of(const void *data, size_t length);

/* false: the checksum of the length is wrong. */
bool et_record_read_head(const unsigned char *head, uint64_t *length);
bool et_record_check_tail(const unsigned char *tail, const void *data, size_t length);

/* What can be wrong with a record of a data set, and saying so: "FILE: record 3 at byte 57: ...".
 */
typedef enum et_record_fault {
    ET_RECORD_BAD_LENGTH,
    ET_RECORD_TOO_LONG,
    ET_RECORD_CUT,
    ET_RECORD_BAD_DATA,
} et_record_fault;

typedef struct et_record_place {
    const char *path;
    bool gzip;       /* the byte is one of the unpacked data */
    int64_t number;  /* of the record, from 1 */
    uint64_t offset; /* where it begins */
} et_record_place;

/* "record 3 at byte 57" behind the path, to put a message behind with et_fail_while. */
int et_record_blame(const et_record_place *place, int status, et_error *error);
int et_record_refuse(const et_record_place *place, et_record_fault fault, et_error *error);

/* The record at place->offset in bytes that are in memory, with all that is checked in one. */
int et_record_at(const et_record_place *place, const void *bytes, size_t size, const void **data,
                 size_t *length, et_error *error);

/* Reading a log; it is mapped and must not shrink meanwhile. */
typedef struct et_record_scan {
    et_mapping mapping;
    char *path;      /* owned */
    uint64_t offset; /* of the next record; at the end: the length of what is whole */
    bool torn;       /* at the end: bytes of an incomplete record follow offset */
} et_record_scan;

int et_record_scan_open(et_record_scan *scan, const char *path, et_error *error);

/* The next record: *bytes is NULL at the end, else valid until close (never NULL, even for an
 * empty record). Damage is ET_EFORMAT with its byte; offset stays where it is. */
int et_record_scan_next(et_record_scan *scan, const void **bytes, size_t *length, et_error *error);
void et_record_scan_close(et_record_scan *scan);

/* Writing: append.h says what offset may be, what is cut off and what is durable when. */
typedef struct et_record_log {
    et_append file;
    et_strbuf buffer; /* one record, framed */
} et_record_log;

int et_record_log_open(et_record_log *log, const char *path, int64_t offset, et_error *error);
int et_record_log_write(et_record_log *log, const void *bytes, size_t length, et_error *error);
int et_record_log_flush(et_record_log *log, et_error *error);
int et_record_log_close(et_record_log *log, et_error *error);

#endif
