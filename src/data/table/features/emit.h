/* Helpers of the transforms' emit functions: nodes over columns of a table, [rows, columns]. */
#ifndef ETUDE_DATA_TABLE_FEATURES_EMIT_H
#define ETUDE_DATA_TABLE_FEATURES_EMIT_H

#include "data/table/features/transforms.h"
#include "engine/onnx/onnx_model.h"

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

/* The rank 0..1 of x, float64 [rows, 1], among the points of fitted, as in the transform quantile.
 * At least two points differ. */
const char *et_emit_portion(et_onnx *to, const et_fitted *fitted, const char *x);

/* et_normal_quantile of float64 values. For values outside (0, 1), the result is any number. In
 * normal_quantile.c. */
const char *et_normal_quantile_emit(et_onnx *to, const char *p);

#endif
