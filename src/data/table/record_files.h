/* The records of a list of files in memory. Plain files are mapped. GZIP files are unpacked into
 * memory, or into a folder under the checksum of their packed bytes and mapped from there, so the
 * next start need not unpack. One pass over everything finds and checks the records. Read-only
 * after open. Part of records.c. */
#ifndef ETUDE_DATA_TABLE_RECORD_FILES_H
#define ETUDE_DATA_TABLE_RECORD_FILES_H

#include "base/arena.h"
#include "base/fields/fields.h"
#include "formats/records/record.h"

typedef struct et_record_files et_record_files;

/* A record's bytes, borrowed from the files. */
typedef struct et_record_bytes {
    const void *data;
    uint32_t length;
} et_record_bytes;

/* paths: from et_paths_match; borrowed. cache: a folder, made if needed; NULL: none. Damage is
 * ET_EFORMAT; damage in a cache is a warning, and the cache is made again. */
int et_record_files_open(et_record_files **out, const et_strings *paths, const char *cache,
                         et_error *error);
void et_record_files_close(et_record_files *files); /* NULL allowed */

int64_t et_record_files_count(const et_record_files *files); /* of records */
et_record_bytes et_record_files_get(const et_record_files *files, int64_t record);

/* File, number in the file from 1, and offset. */
et_record_position et_record_files_position(const et_record_files *files, int64_t record);

#endif
