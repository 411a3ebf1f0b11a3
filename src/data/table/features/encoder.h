/* Encoders: from rows of a table to the arrays of a model. The same code runs in training and
 * prediction. An encoder is made only from schema, metadata and features, three texts that are
 * stored with the model.
 *
 *     et_encoder_new(&encoder, schema, metadata, features, &error);
 *     const et_layout *layout = et_encoder_layout(encoder);
 *     et_encoder_row(encoder, cells, places, "train.csv:17", &error);
 *
 * Each top-level feature is a field of the layout with its name: numbers side by side (ET_F32
 * [width]), ids (ET_I32 [width], also ids of words), a target (ET_I32 scalar: a class; ET_F32
 * [targets]: numbers, or 0 and 1 for several targets of two classes), or a weight (ET_F32 scalar).
 * Features of type key are no fields. An encoder does not change after it is made; any number of
 * threads may encode. */
#ifndef ETUDE_DATA_TABLE_FEATURES_ENCODER_H
#define ETUDE_DATA_TABLE_FEATURES_ENCODER_H

#include <etude/data.h>
#include <etude/feature_set.h>

#include "data/table/rows/rows.h"
#include "engine/onnx/onnx_model.h"

typedef enum et_encoded_kind {
    ET_ENCODED_NUMBERS,
    ET_ENCODED_IDS,
    ET_ENCODED_WORDS,   /* ids of one text, below cardinality[0], or -1 */
    ET_ENCODED_CLASS,   /* the target is one of classes */
    ET_ENCODED_LABELS,  /* targets of two classes each: 1 of yes, 0 of no, NaN: missing */
    ET_ENCODED_VALUES,  /* the target is numbers */
    ET_ENCODED_WRITTEN, /* the target's numbers as in the file, of an exact encoder */
    ET_ENCODED_WEIGHT,  /* the weight of a row, at least 0 */
} et_encoded_kind;

/* One field of the layout. */
typedef struct et_encoded_field {
    const char *name;
    et_encoded_kind kind;
    int64_t width;              /* columns */
    const int32_t *cardinality; /* IDS, WORDS: [width], how many ids each column has */
    const int32_t *unknown;     /* IDS: [width], the id of a value without an entry; for hash and
                                   cross, which accept any value, the id of a missing value */
    const char *const *column;  /* [width], description of each column, for messages and tables */
    int classes;                /* CLASS */
    const char *const *label;   /* CLASS: [classes]; LABELS: [2 width], no and yes of each */
} et_encoded_field;

static inline bool et_encoded_is_target(et_encoded_kind kind)
{
    return kind == ET_ENCODED_CLASS || kind == ET_ENCODED_LABELS || kind == ET_ENCODED_VALUES;
}

typedef struct et_encoder et_encoder;

/* Copies the three. ET_ECONFIG: they disagree; one message has all differences. */
int et_encoder_new(et_encoder **out, const et_schema *schema, const et_metadata *metadata,
                   const et_feature_set *features, et_error *error);
/* An encoder with exact targets. A float32 cannot represent targets such as 1e12 +- 3,000. So a
 * target of numbers is (number - offset) / scale, computed in double, with the mean and the
 * deviation of the metadata (et_encoder_unit). The next field of the layout, "<target>/written",
 * has the numbers themselves: ET_I32 [2 targets], the bytes of doubles (et_encoded_written). */
int et_encoder_new_exact(et_encoder **out, const et_schema *schema, const et_metadata *metadata,
                         const et_feature_set *features, et_error *error);
void et_encoder_free(et_encoder *encoder); /* NULL allowed */

const et_layout *et_encoder_layout(const et_encoder *encoder); /* of samples, targets included */
int et_encoder_fields(const et_encoder *encoder);
const et_encoded_field *et_encoder_field(const et_encoder *encoder, int index);
/* Of samples without targets and weights, `batch` of them, in arena. NULL: no memory. */
et_layout *et_encoder_input_layout(const et_encoder *encoder, int64_t batch, et_arena *arena);
/* Room for a row: the items of all fields, in arena. NULL, or arena->failed: no memory. */
void **et_encoder_items(const et_encoder *encoder, et_arena *arena);
int et_encoder_target(const et_encoder *encoder); /* place of the first target; -1: none */
const et_schema *et_encoder_schema(const et_encoder *encoder); /* the encoder's own */
/* The rows that it encodes, for their readers; valid as long as the encoder. */
const et_row_layout *et_encoder_row_layout(const et_encoder *encoder);
/* number = offset + scale x value, for a column of a target that is numbers. For an encoder that is
 * not exact: 0 and 1. */
typedef struct et_target_unit {
    double offset, scale;
} et_target_unit;
et_target_unit et_encoder_unit(const et_encoder *encoder, int64_t column);
/* Warns of columns whose features cannot distinguish values in float32 (identity of 1e12 +- 3,000).
 * If there are many, only the first columns are named. */
void et_encoder_warn_coarse(const et_encoder *encoder);
/* written: index of the field with an exact encoder's numbers; -1: none. encoded_written: number i
 * of an item; NaN: missing. */
int et_encoder_written(const et_encoder *encoder);
double et_encoded_written(const void *item, int64_t i);
/* The position in the schema of the first field of key number n, and its feature's name; -1: no
 * such key. */
int et_encoder_key(const et_encoder *encoder, int n, const char **name);
uint64_t et_encoder_fingerprint(const et_encoder *encoder);

/* Number of values in a row: the lengths of the schema's fields, in order. A field of variable
 * length counts as one value, which may be a list. */
int et_encoder_cells(const et_encoder *encoder);
/* The index of the field's first value in a row, and its number of values. */
int et_encoder_cell(const et_encoder *encoder, int field);
int et_encoder_cell_count(const et_encoder *encoder, int field);
/* The index of the row's weight; -1: none. */
int et_encoder_weight(const et_encoder *encoder);
/* Whether features read a field. target false: features other than targets and weights; true:
 * targets or weights. */
bool et_encoder_reads(const et_encoder *encoder, int field, bool target);

/* Writes one row: cells [et_encoder_cells]; to[f]: the destination of field f's item. A missing
 * target is written as -1 or NaN. A field with to[f] NULL is skipped. where: "file:line" for
 * messages; NULL: the caller adds the place to the recorded error. ET_EDATA: a value is not a
 * number, a label is unknown, or a required value is missing. */
int et_encoder_row(const et_encoder *encoder, const et_cell *cells, void *const *to,
                   const char *where, et_error *error);
/* Writes one row of values that are not text. Values of integer fields must be whole, unless the
 * field allows fractions. */
int et_encoder_values(const et_encoder *encoder, const et_reading *values, void *const *to,
                      const char *where, et_error *error);
/* A row of either kind, not of JSON; messages begin with the row's place, "train.csv:17". */
int et_row_encode(const et_encoder *encoder, const et_rows *rows, const et_row *row,
                  void *const *to, et_error *error);
/* Writes the item of a field in a row without values: the replacement of missing values, even if
 * the schema requires them. ET_EDATA: the schema's value for it can't be encoded. */
int et_encoder_missing(const et_encoder *encoder, int field, void *item, et_error *error);

/* An encoder as nodes of an ONNX model. The inputs are the raw columns of the table:
 *
 *     number     float64 [batch, length]; NaN: missing
 *     text       string [batch, length]; "" and the texts that mean a missing value: missing
 *     date       float64, seconds since 1970 of the date as it is written; NaN: missing
 *
 * length is the length of the schema's field, 1 in files of rows. Columns that no feature reads are
 * not inputs. Every transform adds its own nodes (emit of transforms.h). This file adds the inputs,
 * handles missing values, and orders the columns.
 *
 * `refused` is true for rows that the encoder refuses: a number that is not finite, a fraction in
 * an integer field, a missing value that the schema requires, the logarithm of -2. */
typedef struct et_encoder_onnx {
    const et_encoder *encoder;
    const char *const *missing; /* as of et_csv_options; NULL: the usual */
    const char *rows;           /* name of the first dimension */
    /* Whether the model has another value with this name, which a column must not have. */
    bool (*is_taken)(void *payload, const char *name);
    void *payload;
} et_encoder_onnx;

/* Adds the inputs. Sets values [count] to the encoder's fields with these numbers, and refused to a
 * bool [rows, 1], or [1] if no row is ever refused. ET_ECONFIG: ONNX cannot express a transform;
 * the error names the column. ET_EDATA: a default of the schema cannot be encoded. */
int et_encoder_onnx_add(const et_encoder_onnx *how, et_onnx *to, const int *fields, int count,
                        const char **values, const char **refused, et_error *error);

#endif
