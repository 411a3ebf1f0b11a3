/* Tensors and shapes, for the library, beyond <etude/tensor.h>. */
#ifndef ETUDE_ENGINE_TENSOR_TENSOR_H
#define ETUDE_ENGINE_TENSOR_TENSOR_H

#include <etude/tensor.h>

/* Whether a tensor can have it: rank 0 to ET_RANK_MAX, no size negative, and no more elements than
 * can be counted with all that is computed of them. Whatever takes a shape refuses others. */
bool et_shape_valid(et_shape shape);

#endif
