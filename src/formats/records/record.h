/* TFRecord framing: records one after another in a file, each
 *
 *     u64 length | u32 masked crc32c(length) | data | u32 masked crc32c(data)
 *
 * little-endian. Two kinds of file use it. A data set (<etude/records.h>) is complete or wrong: its
 * files are read one record at a time, or directly in memory. A log grows: a killed writer leaves
 * an incomplete end. The scan stops before such an end and reports it, and a log that resumes cuts
 * it off. Every other mismatch is damage and an error. The caller knows the contents of a record.
 * One thread per value. */
#ifndef ETUDE_FORMATS_RECORDS_RECORD_H
#define ETUDE_FORMATS_RECORDS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/records.h>

#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "formats/append.h"

/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in TFRecord files: with the SSE4.2
 * instruction if the processor has it, else with a table. Thread-safe. */

uint32_t et_crc32c(const void *bytes, size_t length);

/* The same by table, on any processor. */
uint32_t et_crc32c_table(const void *bytes, size_t length);

/* The masked checksum that TFRecord stores: rotated right by 15 bits, plus 0xa282ead8. Masking
 * keeps checksums of bytes that contain checksums meaningful. */
uint32_t et_crc32c_mask(uint32_t crc);

/* Bytes before the data of a record (length and its crc), after it, and both. */
#define ET_RECORD_HEAD     12
#define ET_RECORD_TAIL     4
#define ET_RECORD_OVERHEAD 16

/* The most bytes of a record's data: protobuf can't parse more. */
#define ET_RECORD_DATA_MAX ((uint64_t)INT32_MAX)

typedef struct et_record_frame {
    unsigned char head[ET_RECORD_HEAD], tail[ET_RECORD_TAIL];
} et_record_frame;

et_record_frame et_record_frame_of(const void *data, size_t length);

typedef struct et_record_position {
    const char *path;
    bool gzip;       /* the byte is one of the unpacked data */
    int64_t number;  /* of the record, from 1 */
    uint64_t offset; /* the begin of the record */
} et_record_position;

/* Puts "FILE: record 3 at byte 57" before the message that error has. Returns status. */
int et_record_blame(const et_record_position *position, int status, et_error *error);

/* The record of a data set at place->offset of bytes that are in memory. ET_EFORMAT: damage, with
 * its place. */
int et_record_at(const et_record_position *position, const void *bytes, size_t size,
                 const void **data, size_t *length, et_error *error);

/* Where the next record is, and whether the file is gzip. The path is borrowed from the reader. */
et_record_position et_record_reader_position(const et_record_reader *reader);

/* The records of several files, one file after another: { .paths = paths } is before the first
 * record, and paths are borrowed. */
typedef struct et_record_list {
    et_strings paths;
    size_t file;              /* of the record given last; at the end the number of files */
    et_record_reader *reader; /* NULL: no file is open */
} et_record_list;

/* The next record and its place; *bytes is NULL at the end of the last file, else valid until the
 * next call. After a failure only close is allowed. */
int et_record_list_next(et_record_list *list, et_record_position *position, const void **bytes,
                        size_t *length, et_error *error);
void et_record_list_close(et_record_list *list);

/* Reading a log; it is mapped and must not shrink meanwhile. */
typedef struct et_record_scan {
    et_mapping mapping;
    char *path;      /* owned */
    uint64_t offset; /* of the next record; at the end: the length of all whole records */
    bool torn;       /* at the end: bytes of an incomplete record follow offset */
} et_record_scan;

int et_record_scan_open(et_record_scan *scan, const char *path, et_error *error);

/* The next record: *bytes is NULL at the end, else valid until close (never NULL, even for an empty
 * record). A damaged record before a sound one is ET_EFORMAT with its byte; offset stays the same.
 * Damage that no sound record follows is a torn end, as a power loss leaves it. */
int et_record_scan_next(et_record_scan *scan, const void **bytes, size_t *length, et_error *error);
void et_record_scan_close(et_record_scan *scan);

/* Writing: append.h describes allowed offsets, the cut and durability. */
typedef struct et_record_log {
    et_append file;
    et_strbuf buffer; /* one record, framed */
} et_record_log;

int et_record_log_open(et_record_log *log, const char *path, int64_t offset, et_error *error);
int et_record_log_write(et_record_log *log, const void *bytes, size_t length, et_error *error);
int et_record_log_flush(et_record_log *log, et_error *error);
int et_record_log_close(et_record_log *log, et_error *error);

#endif
