/* Shapes and tensors. A tensor is a view, copied by value: memory, type and sizes; it owns nothing.
 * Elements are contiguous (row-major, dense).
 *
 *     float pixels[128][784];
 *     et_tensor x = { pixels, ET_F32, et_shape_2(128, 784) };
 *     size_t bytes = et_tensor_bytes(x);
 *     bool same = et_shape_equal(x.shape, et_shape_2(128, 784));
 */
#ifndef ETUDE_TENSOR_H
#define ETUDE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/export.h>

#define ET_RANK_MAX 4

typedef struct et_shape {
    int rank;                  /* 0: a scalar */
    int64_t size[ET_RANK_MAX]; /* outermost first; sizes after rank are 0 */
} et_shape;

typedef struct et_tensor {
    void *data; /* borrowed */
    et_dtype dtype;
    et_shape shape;
} et_tensor;

/* Shapes of rank 0 to 4. */
ET_API et_shape et_shape_scalar(void);
ET_API et_shape et_shape_1(int64_t size);
ET_API et_shape et_shape_2(int64_t rows, int64_t columns);
ET_API et_shape et_shape_3(int64_t height, int64_t width, int64_t channels);
ET_API et_shape et_shape_4(int64_t samples, int64_t height, int64_t width, int64_t channels);

/* Elements (1 for a scalar) and bytes. Invalid: -1 and 0. */
ET_API int64_t et_shape_count(et_shape shape);
ET_API size_t et_tensor_bytes(et_tensor tensor);

/* An invalid shape is equal to no shape. */
ET_API bool et_shape_equal(et_shape left, et_shape right);

/* Writes "[128, 384]" into text; "[rank 9]" for an invalid rank. Returns text. */
#define ET_SHAPE_TEXT_MAX 96
ET_API char *et_shape_print(et_shape shape, char text[ET_SHAPE_TEXT_MAX]);

#endif
