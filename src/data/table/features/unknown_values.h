/* Values that a model has never seen, counted by column. Such values are still encoded, as IDs and
 * columns that no training row had, so predictions from them are unreliable.
 * - unknown: a value that is not among the field's values in the metadata. The field is embedded or
 *   one-hot, or it is hashed or crossed and the metadata has all of its values;
 * - missing: no value in a field that was never missing in training.
 *
 *     et_unknown_values_open(&unseen, encoder, metadata, &error);
 *     et_unknown_values_add(&unseen, cells, NULL, line);
 *     while (et_unknown_values_describe(&unseen, &at, "line", &text)) puts(text.text);
 *
 * One thread at a time. */
#ifndef ETUDE_DATA_TABLE_FEATURES_UNKNOWN_VALUES_H
#define ETUDE_DATA_TABLE_FEATURES_UNKNOWN_VALUES_H

#include <etude/metadata.h>

#include "data/table/features/encoder.h"

typedef struct et_unknown_values_column {
    const char *name;
    int64_t unknown, missing;    /* values */
    int64_t first, first_absent; /* the place of the first of each */
    char value[64];              /* the first unknown one, as far as it fits, terminated */
} et_unknown_values_column;

typedef struct et_unknown_values {
    const et_encoder *encoder; /* borrowed, as is metadata */
    const et_metadata *metadata;
    et_unknown_values_column *column; /* [columns]: the fields of the schema; owned */
    int *entries; /* [columns]: position in the metadata of a field with known levels;
                     -1: another field; owned */
    int columns;
    int64_t rows;
} et_unknown_values;

#define ET_UNSEEN_INIT                                                                             \
    {                                                                                              \
        NULL, NULL, NULL, NULL, 0, 0                                                               \
    }

int et_unknown_values_open(et_unknown_values *self, const et_encoder *encoder,
                           const et_metadata *metadata, et_error *error);
void et_unknown_values_release(et_unknown_values *self);

/* Counts a row: cells as et_encoder_row has them, or values as et_encoder_values has. row: its
 * number in messages, of a line or a row. */
void et_unknown_values_add(et_unknown_values *self, const et_cell *cells, const et_reading *values,
                           int64_t row);
void et_unknown_values_clear(et_unknown_values *self); /* counts from 0 again */
/* Adds the counts of `from`, which come later and are of the same encoder, and clears `from`. */
void et_unknown_values_take(et_unknown_values *self, et_unknown_values *from);

typedef struct et_unknown_values_text {
    char text[640];
} et_unknown_values_text;

/* Gives one text per call; *at is 0 at first: "version: 12 of 500 values unknown to the model,
 * first "9.9" in line 17". false: no more texts. where: the word for a place, such as "line". */
bool et_unknown_values_describe(const et_unknown_values *self, int *at, const char *where,
                                et_unknown_values_text *text);

/* Logs all these texts as warnings about lines. */
void et_unknown_values_warn(const et_unknown_values *self);

#endif
