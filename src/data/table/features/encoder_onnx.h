/* An encoder as nodes of an ONNX model. The inputs are the raw columns of the table:
 *
 *     number     float64 [batch, length]; NaN: missing
 *     text       string [batch, length]; "" and the texts that mean a missing value: missing
 *     date       float64, seconds since 1970 of the date as it is written; NaN: missing
 *
 * length is that of the schema's field, 1 in files of rows. Columns that no feature reads are not
 * inputs. Every transform adds its own nodes (emit of transforms.h). This file adds the inputs,
 * handles missing values, and orders the columns.
 *
 * `refused` is true for rows that the encoder refuses: a number that is not finite, a fraction in
 * an integer field, a missing value that the schema requires, the logarithm of -2. */
#ifndef ETUDE_DATA_TABLE_FEATURES_ENCODER_ONNX_H
#define ETUDE_DATA_TABLE_FEATURES_ENCODER_ONNX_H

#include "data/table/features/encoder.h"
#include "engine/onnx/onnx_model.h"

typedef struct et_encoder_onnx {
    const et_encoder *encoder;
    const char *const *missing; /* as of et_csv_options; NULL: the usual */
    const char *rows;           /* name of the first dimension */
    /* Whether the model has another value of that name. A column must not have the same name. */
    bool (*is_taken)(void *payload, const char *name);
    void *payload;
} et_encoder_onnx;

/* Adds the inputs. Sets values [count] to the encoder's fields with these numbers, and refused to a
 * bool [rows, 1], or [1] if no row is ever refused. ET_ECONFIG: ONNX cannot express a transform;
 * the error names the column. ET_EDATA: a default of the schema cannot be encoded. */
int et_encoder_onnx_add(const et_encoder_onnx *how, et_onnx *to, const int *fields, int count,
                        const char **values, const char **refused, et_error *error);

#endif
