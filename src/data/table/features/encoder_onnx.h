/* An encoder as nodes of an ONNX model, whose inputs are the columns of the table as they are:
 *
 *     number     float64 [batch, length]; NaN: missing
 *     text       string [batch, length]; "" and the texts that mean a missing value: missing
 *     date       float64, seconds since 1970 of the date as it is written; NaN: missing
 *
 * length: of the schema's field, 1 in files of rows. Columns that no feature reads are no inputs.
 * Every transform adds its own nodes (emit of transforms.h); here are inputs, missing values, and
 * the order of columns.
 *
 * A row that the encoder refuses (a number that is not finite, a fraction of an integer field, no
 * value where the schema requires one, the logarithm of -2) is a row of `refused`. */
#ifndef ETUDE_DATA_TABLE_FEATURES_ENCODER_ONNX_H
#define ETUDE_DATA_TABLE_FEATURES_ENCODER_ONNX_H

#include "data/table/features/encoder.h"
#include "engine/onnx/onnx_model.h"

typedef struct et_encoder_onnx {
    const et_encoder *encoder;
    const char *const *missing; /* as of et_csv_options; NULL: the usual */
    const char *rows;           /* name of the first dimension */
    /* Whether the model has another value of that name: a column must not have it. */
    bool (*is_taken)(void *payload, const char *name);
    void *payload;
} et_encoder_onnx;

/* Adds the inputs and sets values [count] to the fields of the encoder with these numbers, and
 * refused to a bool [rows, 1], or [1] if no row is ever refused. ET_ECONFIG: ONNX cannot express a
 * transform; the error names the column. ET_EDATA: the schema's value for a missing one can't be
 * encoded. */
int et_encoder_onnx_add(const et_encoder_onnx *how, et_onnx *to, const int *fields, int count,
                        const char **values, const char **refused, et_error *error);

#endif
