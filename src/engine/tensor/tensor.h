/* Tensors and shapes, for the library, beyond <etude/tensor.h>. */
#ifndef ETUDE_ENGINE_TENSOR_TENSOR_H
#define ETUDE_ENGINE_TENSOR_TENSOR_H

#include <etude/data.h>
#include <etude/tensor.h>

#include "base/dtype.h"

/* Whether a tensor can have this shape: rank 0 to ET_RANK_MAX, no size negative, and no more
 * elements than all computations on them can count. Functions that take a shape refuse others. */
bool et_shape_valid(et_shape shape);

/* Element i of a tensor of float32, bfloat16 or int32. */
static inline double et_tensor_number(et_tensor tensor, int64_t i)
{
    return tensor.dtype == ET_I32    ? (double)((const int32_t *)tensor.data)[i]
           : tensor.dtype == ET_BF16 ? (double)et_bf16_to_float(((const et_bf16 *)tensor.data)[i])
                                     : (double)((const float *)tensor.data)[i];
}

/* Whether its elements are float32 or bfloat16. */
static inline bool et_tensor_is_real(et_tensor tensor)
{
    return tensor.dtype == ET_F32 || tensor.dtype == ET_BF16;
}

/* Layouts made from other layouts, or from a program's own rows. */

/* The name of the layout's unit: "token". */
static inline const char *et_layout_unit(const et_layout *layout)
{
    return layout->unit_name ? layout->unit_name : layout->kind[layout->unit];
}

/* The row of masks, as all samples of rows have it. */
extern const et_layout_field et_layout_mask;

/* A copy of rows with their names, in one block: free with et_free. */
int et_layout_own(et_layout_field **out, const et_layout_field *rows, int count, et_error *error);

/* Whether batches can have this layout: checks kinds and rows. ET_ECONFIG names the row. Capacities
 * are not checked. */
int et_layout_check(const et_layout *layout, et_error *error);

/* Checks that a batch is possible: the same checks except types, and capacities of at least 1. */
int et_layout_check_size(const et_layout *layout, et_error *error);

/* Whether one batch can hold samples of both. */
bool et_layout_same(const et_layout *left, const et_layout *right);

/* Whether batches of both have arrays of the same sizes and types, in the same order. */
bool et_layout_fits(const et_layout *left, const et_layout *right);

/* Bytes of a field's array in a batch. */
size_t et_layout_bytes(const et_layout *layout, int field);

#endif
