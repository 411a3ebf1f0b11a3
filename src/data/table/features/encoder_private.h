/* Features, for this folder. An encoder is a list of steps: a fitted transform, the values of a row
 * that it reads, and the position of its columns. encoder_new.c makes it, encoder.c encodes rows.
 *
 * Invariants:
 *
 *   (1) a step's values are cells of the schema, and its columns are within its field's item;
 *   (2) steps are in the order of fields and of columns, and fill every column of every field;
 *   (3) an encoder never changes, so any number of threads may encode rows. */
#ifndef ETUDE_DATA_TABLE_FEATURES_ENCODER_PRIVATE_H
#define ETUDE_DATA_TABLE_FEATURES_ENCODER_PRIVATE_H

#include <math.h>
#include <string.h>

#include "base/arena.h"
#include "data/table/features/encoder.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/schema.h"
#include "engine/onnx/onnx_model.h"
#include "engine/tensor/tensor.h"

#define ET_ENCODER_CROSS_MAX 16            /* fields of a cross */
#define ET_ENCODER_ITEM      sizeof(float) /* of numbers and of ids */

/* A value of a row. */
typedef struct et_encoder_input {
    const et_schema_field *field; /* of the encoder's schema */
    et_reading missing;           /* replaces a missing value */
} et_encoder_input;

typedef struct et_encoder_step {
    et_fitted_transform fitted;
    int field;     /* of the layout */
    size_t offset; /* bytes, in its item */
    bool coarse;   /* float32 cannot distinguish its values */
} et_encoder_step;

/* How features other than targets read a field's values. NONE: as numbers, or not at all. HASHED:
 * as any text, by a hash. KNOWN: as the levels of the metadata. */
typedef enum et_encoder_levels {
    ET_LEVELS_NONE,
    ET_LEVELS_HASHED,
    ET_LEVELS_KNOWN,
} et_encoder_levels;

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

/* ---- transforms: shared functions, and transforms outside transforms.c ---- */

/* The transform has one column, named after the field. */
void et_fit_one_column(et_fitted_transform *fitted, const et_fitting *with);
/* The initial line: x itself. */
void et_fit_line(et_fitted_transform *fitted, const et_fitting *with);
void et_fit_standardize(et_fitted_transform *fitted, const et_fitting *with);
/* Reports that the metadata of the field is not enough. */
void et_fitting_lacks(const et_fitting *with, const char *what);

/* The number of points below x; or_equal: not above x. */
int et_fitted_points_below(const et_fitted_transform *f, double x, bool or_equal);

static inline int et_put_number(void *to, double x, double of, et_error *error)
{
    float value = (float)x;
    memcpy(to, &value, sizeof value);
    return isfinite(value)
               ? ET_OK
               : et_fail(error, ET_EDATA, "%g is too large for float32: correct it", of);
}

/* In transforms_quantiles.c. */
void et_fit_quantile(et_fitted_transform *fitted, const et_fitting *with);
int et_apply_quantile(const et_fitted_transform *f, const et_reading *value, void *to,
                      et_error *error);
const char *et_emit_quantile(et_emitting *e);
void et_fit_robust(et_fitted_transform *fitted, const et_fitting *with);
int et_apply_robust(const et_fitted_transform *f, const et_reading *value, void *to,
                    et_error *error);
const char *et_emit_robust(et_emitting *e);
void et_fit_clip(et_fitted_transform *fitted, const et_fitting *with);
int et_apply_clip(const et_fitted_transform *f, const et_reading *value, void *to, et_error *error);
const char *et_emit_clip(et_emitting *e);

/* ---- emit: nodes over columns of a table, [rows, columns] ---- */

const char *et_emit_cast(et_onnx *to, const char *x, et_onnx_type type);
const char *et_emit_number(et_onnx *to, double x); /* float64 [1] */
/* [rows, 1] to [rows]. */
const char *et_emit_flat(et_onnx *to, const char *x);
/* How many values of each row are true, int64 [rows, 1]. */
const char *et_emit_count(et_onnx *to, const char *rows);
/* One-hot rows, float32 [rows, columns]: 1 at index, int64 [rows, 1]. */
const char *et_emit_one_hot(et_onnx *to, const char *index, int64_t columns);

/* Node op of x and a member (its offset) of each fitted transform, as a vector. */
const char *et_emit_with_each(const et_emitting *e, const char *op, const char *x, size_t member);
/* (x - offset) / divisor * span */
const char *et_emit_deviation(const et_emitting *e);

#endif
