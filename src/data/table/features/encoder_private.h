/* An encoder is a list of steps: a fitted transform, the values of a row that it reads, and the
 * position of its columns. encoder_new.c makes it, encoder.c encodes rows.
 *
 * Invariants:
 *
 *   (1) a step's values are cells of the schema, and its columns are within its field's item;
 *   (2) steps are in the order of fields and of columns, and fill every column of every field;
 *   (3) an encoder never changes, so any number of threads may encode rows. */
#ifndef ETUDE_DATA_TABLE_FEATURES_ENCODER_PRIVATE_H
#define ETUDE_DATA_TABLE_FEATURES_ENCODER_PRIVATE_H

#include "base/arena.h"
#include "data/table/features/encoder.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/schema.h"
#include "engine/tensor/layout.h"

#define ET_ENCODER_CROSS_MAX 16            /* fields of a cross */
#define ET_ENCODER_ITEM      sizeof(float) /* of numbers and of ids */

/* A value of a row. */
typedef struct et_encoder_input {
    const et_schema_field *field; /* of the encoder's schema */
    et_reading missing;           /* replaces a missing value */
} et_encoder_input;

typedef struct et_encoder_step {
    et_fitted fitted;
    int field;     /* of the layout */
    size_t offset; /* bytes, in its item */
    bool coarse;   /* float32 cannot distinguish its values */
} et_encoder_step;

typedef struct et_encoder_key_field {
    const char *name;
    int position;
} et_encoder_key_field;

struct et_encoder {
    et_arena arena;
    et_schema *schema;
    et_encoder_input *inputs; /* [values of a row] */
    et_row_layout row;
    et_encoder_levels *levels; /* [fields of the schema] */
    et_encoder_step *steps;    /* [step_count] */
    size_t step_count, step_capacity;
    et_encoded_field *fields; /* [field_count] */
    et_layout_field *layout_fields;
    et_encoder_key_field *keys; /* [key_count] */
    int field_count, key_count;
    et_layout layout;
    uint64_t fingerprint;
};

#endif
