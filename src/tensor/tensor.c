#include <etude/tensor.h>

#include <stdio.h>

et_shape et_shape_scalar(void)
{
    return (et_shape){ 0, { 0 } };
}

et_shape et_shape_1(int64_t size)
{
    return (et_shape){ 1, { size } };
}

et_shape et_shape_2(int64_t rows, int64_t columns)
{
    return (et_shape){ 2, { rows, columns } };
}

int64_t et_shape_count(et_shape shape)
{
    int64_t count = 1;
    for (int i = 0; i < shape.rank; i++)
        count *= shape.size[i];
    return count;
}

size_t et_tensor_bytes(et_tensor tensor)
{
    return (size_t)et_shape_count(tensor.shape) * et_dtype_size(tensor.dtype);
}

bool et_shape_equal(et_shape left, et_shape right)
{
    if (left.rank != right.rank)
        return false;
    for (int i = 0; i < left.rank; i++)
        if (left.size[i] != right.size[i])
            return false;
    return true;
}

char *et_shape_print(et_shape shape, char text[ET_SHAPE_TEXT_MAX])
{
    int length = snprintf(text, ET_SHAPE_TEXT_MAX, "[");
    for (int i = 0; i < shape.rank; i++)
        length += snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "%s%lld",
                           i ? ", " : "", (long long)shape.size[i]);
    snprintf(text + length, (size_t)(ET_SHAPE_TEXT_MAX - length), "]");
    return text;
}
