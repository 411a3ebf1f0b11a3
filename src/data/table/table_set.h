/* Data sets, for the library, beyond <etude/table_set.h>. */
#ifndef ETUDE_DATA_TABLE_TABLE_SET_H
#define ETUDE_DATA_TABLE_TABLE_SET_H

#include <etude/table_set.h>

#include "base/arena.h"
#include "data/table/rows/rows.h"
#include "data/table/table.h"

/* The data of a source: files, a frame, or an object of a program's class. */
struct et_table_columns {
    const et_encoder *encoder; /* of its data set; NULL: in no data set */
    char *name;                /* in the data set; owned */
    bool in_memory;            /* a frame */
    et_own_columns *own;       /* borrowed; NULL: a frame or files */
    bool examples;             /* tf.Examples; else CSV */
    const char *paths;         /* of files: as given; in the arena */
    et_csv_options csv;        /* the same */
    et_header header;
    et_frame frame; /* columns are borrowed */
    et_arena arena;
};

const et_encoder *et_table_set_encoder(const et_table_set *set);

/* The rows of one pass, by number, as samples for batches. */
int et_table_columns_samples(et_samples **out, const et_table_columns *source,
                             const et_read_options *options, et_error *error);

#endif
