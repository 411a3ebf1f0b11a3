/* What <etude/dataset.h> leaves to the library's own parts. */
#ifndef ETUDE_DATA_TABLE_DATASET_H
#define ETUDE_DATA_TABLE_DATASET_H

#include <etude/dataset.h>

#include "base/arena.h"
#include "data/table/rows/rows.h"
#include "data/table/table.h"

/* What a source is: files, or a frame. */
struct et_data_source {
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

const et_encoder *et_data_set_encoder(const et_data_set *set);

/* A set without sources, for instances: of a model that was trained elsewhere. */
int et_data_set_bare(et_data_set **out, const et_data_set_options *options, et_error *error);

/* Not more than so many passes over what has no end. Owns inner. */
int et_passes_open(et_source **out, et_source *inner, int64_t epochs, et_error *error);

#endif
