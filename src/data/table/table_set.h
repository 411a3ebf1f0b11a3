/* Data sets, for the library, beyond <etude/table_set.h>. */
#ifndef ETUDE_DATA_TABLE_TABLE_SET_H
#define ETUDE_DATA_TABLE_TABLE_SET_H

#include <etude/table_set.h>

#include "base/arena.h"
#include "data/table/rows/rows.h"
#include "data/table/table.h"

/* The data of a source: files, or a frame. */
struct et_table_columns {
    const et_encoder *encoder; /* of the data set that it is in; NULL: it is in none */
    char *name;                /* there; owned */
    bool in_memory;            /* a frame; else files */
    bool examples;             /* of files: tf.Examples; else CSV */
    et_strings paths;          /* in the arena */
    et_csv_options csv;        /* the same */
    et_header header;
    et_frame frame; /* columns are borrowed */
    et_arena arena;
};

const et_encoder *et_table_set_encoder(const et_table_set *set);

/* A set without sources, for instances: of a model that was trained elsewhere. */
int et_table_set_bare(et_table_set **out, const et_table_set_options *options, et_error *error);

/* ---- sources ---- */

/* CSV files: a path, a pattern with * or ?, or several with commas between; plain or gzip.
 * format NULL: as the file looks. */
int et_csv_columns_open(et_table_columns **out, const char *paths, const et_csv_format *format,
                        et_error *error);
/* Record files of tf.Examples, plain or GZIP, which their bytes say. */
int et_examples_columns_open(et_table_columns **out, const char *paths, et_error *error);
/* What frame points to is borrowed until the source is closed. */
int et_frame_columns_open(et_table_columns **out, const et_frame *frame, et_error *error);
void et_table_columns_close(et_table_columns *source); /* NULL allowed; not of one in a data set */
const char *et_table_columns_name(const et_table_columns *source); /* NULL: in no data set */

/* The rows of one pass, by number, as samples for batches. */
int et_table_columns_samples(et_samples **out, const et_table_columns *source,
                             const et_read_options *options, et_error *error);

/* ---- data sets ---- */

typedef struct et_table_set_member {
    const char *name; /* "train", "eval"; copied */
    et_table_columns *source;
} et_table_set_member;

/* Owns the sources once it has succeeded. ET_ECONFIG: no source, a name twice, one of the three
 * given twice or not at all, and all that they disagree about. */
int et_table_set_open(et_table_set **out, const et_table_set_member *sources, int count,
                      const et_table_set_options *options, et_error *error);

int et_table_set_count(const et_table_set *dataset); /* of sources */
/* By position, from 0. Borrowed; NULL: no such source. */
et_table_columns *et_table_set_at(const et_table_set *dataset, int position);

#endif
