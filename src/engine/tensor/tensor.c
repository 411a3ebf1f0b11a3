/* Shapes as values. Nothing here allocates or fails. Callers check sizes, because they know which
 * are too large (a setting, a file's header). Sizes after the rank are zero in shapes made here,
 * and are never read. */
#include "engine/tensor/tensor.h"

#include <stdio.h>

et_shape et_shape_scalar(void)
{
    return (et_shape){ 0, { 0 } };
}

/* Vectors, matrices, images: what models here are made of. A view may have other ranks,
 * up to ET_RANK_MAX, since tensors in files do. */
et_shape et_shape_1(int64_t size)
{
    return (et_shape){ 1, { size } };
}

et_shape et_shape_2(int64_t rows, int64_t columns)
{
    return (et_shape){ 2, { rows, columns } };
}

et_shape et_shape_3(int64_t height, int64_t width, int64_t channels)
{
    return (et_shape){ 3, { height, width, channels } };
}

et_shape et_shape_4(int64_t samples, int64_t height, int64_t width, int64_t channels)
{
    return (et_shape){ 4, { samples, height, width, channels } };
}

bool et_shape_valid(et_shape shape)
{
    return et_shape_count(shape) >= 0;
}

/* Rows are dense, so bytes are elements times the size of one. */
size_t et_tensor_bytes(et_tensor tensor)
{
    int64_t count = et_shape_count(tensor.shape);
    return count < 0 ? 0 : (size_t)count * et_dtype_size(tensor.dtype);
}

/* [4] and [1, 4] are two shapes: nothing here broadcasts. */
bool et_shape_equal(et_shape left, et_shape right)
{
    if (left.rank != right.rank || left.rank < 0 || left.rank > ET_RANK_MAX)
        return false;
    /* Sizes beyond the rank are not compared: they may be uninitialized. */
    for (int i = 0; i < left.rank; i++)
        if (left.size[i] != right.size[i])
            return false;
    return true;
}

/* "[]" for a scalar, "[128, 384]" for a matrix. ET_SHAPE_TEXT_MAX holds any four 64-bit numbers
 * with their commas, so nothing is ever cut. */
char *et_shape_print(et_shape shape, char text[ET_SHAPE_TEXT_MAX])
{
    int length = snprintf(text, ET_SHAPE_TEXT_MAX, "[");
    if (shape.rank < 0 || shape.rank > ET_RANK_MAX) {
        snprintf(text, ET_SHAPE_TEXT_MAX, "[rank %d]", shape.rank);
        return text;
    }
    for (int i = 0; i < shape.rank; i++)
        length += snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "%s%lld",
                           i ? ", " : "", (long long)shape.size[i]);
    snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "]");
    return text;
}
