/* The file of a table whose rows do not fit into memory: its layout, writing it, and checking it.
 * Part of table.c.
 *
 * In the machine's byte order (the magic number shows another order):
 *
 *   head      et_table_head, 32 bytes
 *   rows      [rows] of row_size bytes, as table.c has them in memory
 *   first     uint64 [files]: the first row of each file
 *   foot      et_table_foot, 48 bytes: counts, known only at the end
 *
 * Nothing else follows. Checksums find accidental damage. Malicious contents (ids beyond their
 * tables, NaN) are checked as well. */
#ifndef ETUDE_DATA_TABLE_TABLE_FILE_H
#define ETUDE_DATA_TABLE_TABLE_FILE_H

#include "base/files/checksum.h"
#include "base/files/file.h"
#include "data/table/features/encoder.h"

typedef struct et_table_head {
    uint64_t magic;
    uint32_t version, row_size;
    uint64_t key;      /* of the rows' sources */
    uint64_t checksum; /* of the bytes before it */
} et_table_head;

typedef struct et_table_foot {
    uint64_t rows, files;
    uint64_t payload;     /* checksum of rows and first */
    uint64_t fingerprint; /* of the samples */
    uint64_t magic;
    uint64_t checksum; /* of the bytes before it */
} et_table_foot;

/* A file that is mapped, or will be written. */
typedef struct et_table_parts {
    const unsigned char *rows; /* [count][row_size]; of a file that is written NULL */
    size_t row_size;
    int64_t count;
    const uint64_t *first; /* [files] */
    size_t files;
    uint64_t fingerprint;
} et_table_parts;

/* ---- writing: begin, add rows, then end or abandon ---- */

typedef struct et_table_writer {
    et_file_writer file;
    et_checksum_stream *payload;
} et_table_writer;

int et_table_writer_begin(et_table_writer *writer, const char *path, uint64_t key, size_t row_size,
                          et_error *error);
int et_table_writer_add(et_table_writer *writer, const void *rows, size_t bytes, et_error *error);
/* The file has its name once this has succeeded; on failure it is abandoned. */
int et_table_writer_end(et_table_writer *writer, const et_table_parts *parts, et_error *error);
void et_table_writer_abandon(et_table_writer *writer);

/* ---- reading ---- */

/* The fault of a mapped file, in a word; NULL: none. *current: the file is sound up to its head and
 * holds key; only then is the rest checked, and parts point into it. known: the file was sound
 * before and has not been written since, so only head and foot are read. */
const char *et_table_file_fault(et_table_parts *parts, const et_mapping *mapping, uint64_t key,
                                const et_encoder *encoder, size_t files, bool known, bool *current);

/* Bytes of a row: the items of an encoder's fields, and the line. */
size_t et_table_row_size(const et_encoder *encoder);

#endif
