/* A column of the training table beside its encoded rows: the group or the time of each row. */
#ifndef ETUDE_TASKS_TABULAR_ROW_KEYS_H
#define ETUDE_TASKS_TABULAR_ROW_KEYS_H

#include <stdint.h>

#include "data/table/features/encoder.h"

typedef struct et_row_keys {
    uint64_t *group; /* [count] equal for equal values; NULL: times were asked for */
    double *time;    /* [count] numbers, or dates in seconds (et_date_seconds); NULL: groups were */
    int64_t count;
} et_row_keys;

/* Reads the rows that have a target, in the order of et_table_samples_open with the same encoder
 * and paths. order: of dates. ET_ECONFIG: the table has no such column. ET_EDATA: a row has no
 * value; with times, a value that is neither a number nor a date, or whose time zone cannot be
 * compared with that of earlier rows. */
int et_row_keys_read(et_row_keys *keys, const char *column, bool times, et_date_order order,
                     const et_encoder *encoder, const et_metadata *metadata,
                     const et_strings *paths, const et_rows_options *options, et_error *error);
void et_row_keys_release(et_row_keys *keys);

#endif
