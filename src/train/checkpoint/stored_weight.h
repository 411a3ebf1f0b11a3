/* A weight as a file stores it: float32, bfloat16, or bytes. Bytes are a matrix as scale q
 * (engine/kernel/row_product.h); the scales, float32 [rows, 1] or [1, columns], are a separate
 * tensor named by ET_STORED_SCALE. Only matrices are stored as bytes; the rest of a model is
 * small. */
#ifndef ETUDE_TRAIN_CHECKPOINT_STORED_WEIGHT_H
#define ETUDE_TRAIN_CHECKPOINT_STORED_WEIGHT_H

#include <stdbool.h>

#include "formats/safetensors/safetensors.h"

#define ET_STORED_SCALE "export/scale/" /* before the name of the weight */

/* The tensor of a file that is called prefix and name; NULL: there is none. */
const et_safetensors_tensor *et_stored_find(const et_safetensors *file, const char *prefix,
                                            const char *name);

/* Whether a tensor of a file can be read as a weight of that shape. */
bool et_stored_weight_fits(const et_safetensors *file, const et_safetensors_tensor *there,
                           et_shape shape);

/* to: as many elements as the shape has. */
void et_stored_weight_read(float *to, const et_safetensors *file,
                           const et_safetensors_tensor *there);

/* Whether the weight with this name is a table whose rows are looked up. Its bytes are stored by
 * rows, for look-ups and for the product with the table. The bytes of all other matrices are stored
 * by columns. */
bool et_stored_weight_by_rows(const char *name);

/* Whether a weight of that shape is stored narrower than float32 where that is asked for. */
bool et_stored_weight_is_narrowed(et_shape shape);

/* What is read back from bytes, in the place of the weight: what a model that computes with bytes
 * has, whether it was stored so or not. */
int et_stored_weight_round(float *w, const char *name, et_shape shape, et_error *error);

#endif
