/* Tensors and shapes, for the library, beyond <etude/tensor.h>. */
#ifndef ETUDE_ENGINE_TENSOR_TENSOR_H
#define ETUDE_ENGINE_TENSOR_TENSOR_H

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

#endif
