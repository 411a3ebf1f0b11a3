/* Tensors and shapes, for the library, beyond <etude/tensor.h>. */
#ifndef ETUDE_ENGINE_TENSOR_TENSOR_H
#define ETUDE_ENGINE_TENSOR_TENSOR_H

#include <etude/tensor.h>

/* Whether a tensor can have this shape: rank 0 to ET_RANK_MAX, no size negative, and no more
 * elements than all computations on them can count. Functions that take a shape refuse others. */
bool et_shape_valid(et_shape shape);

#endif
