/* Element types of tensors.
 *
 *     size_t bytes = count * et_dtype_size(ET_BF16);      2 for each element
 */
#ifndef ETUDE_DTYPE_H
#define ETUDE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/export.h>

/* The upper half of a float32. */
typedef uint16_t et_bf16;

/* ET_U8 and later types occur only in files, never in ops or batches. */
typedef enum et_dtype { ET_F32, ET_BF16, ET_I32, ET_U8, ET_I8, ET_DTYPE_COUNT } et_dtype;

/* Bytes of one element; 0 for an invalid type. */
ET_API size_t et_dtype_size(et_dtype dtype);

#endif
