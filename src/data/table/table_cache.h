/* The cache of a table whose rows do not fit into memory: a file in a folder, identified by what
 * the rows are made from: contents of the files, encoder, options of reading. Part of table.c. */
#ifndef ETUDE_DATA_TABLE_TABLE_CACHE_H
#define ETUDE_DATA_TABLE_TABLE_CACHE_H

#include "base/arena.h"
#include "data/table/table.h"

typedef struct et_table_cache {
    const char *path; /* of the file; NULL: there is no folder */
    uint64_t facts;   /* of encoder and options */
    uint64_t key;     /* of these and of the files' contents */
    bool known;       /* the file was found sound, and nothing has been written since */
    uint64_t stamp;   /* of the system's facts about the files before they were read */
    const et_table_samples_options *options;
    const et_encoder *encoder;
    et_arena arena;
} et_table_cache;

/* Finds path and key. Files that were read and sound before are not read again. */
int et_table_cache_open(et_table_cache *cache, const et_encoder *encoder,
                        const et_table_samples_options *options, et_error *error);
void et_table_cache_close(et_table_cache *cache);

/* ET_EDATA: a file was written since open. */
int et_table_cache_check(const et_table_cache *cache, et_error *error);

#endif
