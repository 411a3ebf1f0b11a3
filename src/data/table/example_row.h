/* A tf.Example as a row's values. Part of rows. */
#ifndef ETUDE_DATA_TABLE_EXAMPLE_ROW_H
#define ETUDE_DATA_TABLE_EXAMPLE_ROW_H

#include <etude/example.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"

/* values: [cells of the encoder]; texts are borrowed from the example, lists are arena's. ET_EDATA
 * without a place. */
int et_example_row(et_reading *values, const et_encoder *encoder, const et_example *example,
                   et_arena *arena, et_error *error);

#endif
