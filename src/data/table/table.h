/* Tables as samples: the rows of files or arrays, encoded once, numbered in their order. A row is
 * stored as the items of its fields side by side, in memory or in a mapped file; both give equal
 * batches.
 *
 *     et_table_samples_options options = { .paths = files };
 *     if (et_table_samples_open(&samples, encoder, &options, &error)) ...
 *
 * The encoder may be freed after that. A sample describes itself as "train.csv:17". Equal rows have
 * equal fingerprints, from any files. */
#ifndef ETUDE_DATA_TABLE_TABLE_H
#define ETUDE_DATA_TABLE_TABLE_H

#include "base/arena.h"
#include "data/table/features/encoder.h"

typedef struct et_table_samples_options {
    et_strings paths; /* as et_paths_match gave them */
    bool examples;    /* tf.Examples in record files; else CSV, or JSON lines by the files' names */
    et_csv_options csv;
    et_header header;
    const et_metadata *metadata; /* of training, to count values that a model has never seen
                                    (unknown_values.h), with a warning; NULL: not counted */
    bool keep_unlabelled; /* keep rows without a target, as -1 and NaN; else they are left out, with
                             a warning */
    const char *cache;    /* a folder, made if needed, for files of rows that do not fit into
                             memory; later opens reuse the files. NULL: rows must fit */
    uint64_t memory;      /* bytes of rows that fit; 0: half of the machine's memory */
} et_table_samples_options;

/* ET_EDATA: a row is wrong (the message names the first one), or the table is empty. */
int et_table_samples_open(et_samples **out, const et_encoder *encoder,
                          const et_table_samples_options *options, et_error *error);
/* The number of a file's first row; for a file without rows, of the next file's first row. */
int64_t et_table_first(const et_samples *samples, size_t file);
/* Whether reading the rows gave a warning. */
bool et_table_warned(const et_samples *samples);
/* Like et_table_samples_open, for any rows, into memory. The caller keeps the rows. Reads only the
 * option keep_unlabelled. */
int et_table_read(et_samples **out, const et_encoder *encoder, et_rows *rows,
                  const et_table_samples_options *options, et_error *error);

/* The cache of a table whose rows do not fit into memory: a file in a folder. Its key is made from
 * everything on which the rows depend: contents of the files, encoder, options of reading. */
typedef struct et_table_cache {
    const char *path; /* of the file; NULL: no folder */
    uint64_t facts;   /* of encoder and options */
    uint64_t key;     /* of these and of the files' contents */
    bool known;       /* the file was found undamaged, and has not been written since */
    uint64_t stamp;   /* of the system's facts about the files before they were read */
    const et_table_samples_options *options;
    const et_encoder *encoder;
    et_arena arena;
} et_table_cache;

/* Finds path and key. Files that were read before and are unchanged are not read again. */
int et_table_cache_open(et_table_cache *cache, const et_encoder *encoder,
                        const et_table_samples_options *options, et_error *error);
void et_table_cache_close(et_table_cache *cache);

/* ET_EDATA: a file was written since open. */
int et_table_cache_check(const et_table_cache *cache, et_error *error);

#endif
