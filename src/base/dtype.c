/* The table of element types, by designator in the order of et_dtype, and the number of elements of
 * a shape. A new type needs a row here and a case in every kernel's switch over types. */
#include "base/dtype.h"

#include <etude/tensor.h>

/* size: bytes of one element; name: for messages. */
static const struct {
    size_t size;
    const char *name;
} dtypes[ET_DTYPE_COUNT] = {
    [ET_F32] = { 4, "float32" }, [ET_BF16] = { 2, "bfloat16" }, [ET_I32] = { 4, "int32" },
    [ET_U8] = { 1, "uint8" },    [ET_I8] = { 1, "int8" },
};

size_t et_dtype_size(et_dtype dtype)
{
    return (unsigned)dtype < ET_DTYPE_COUNT ? dtypes[dtype].size : 0;
}

const char *et_dtype_name(et_dtype dtype)
{
    return (unsigned)dtype < ET_DTYPE_COUNT ? dtypes[dtype].name : "no type";
}

/* Elements, up to 16 bytes of each, and sums of a few such arrays fit 64 bits. */
#define COUNT_MAX (INT64_MAX / 256)

/* The empty product is 1: a scalar has one element. -1: not valid. */
int64_t et_shape_count(et_shape shape)
{
    int64_t count = 1;
    if (shape.rank < 0 || shape.rank > ET_RANK_MAX)
        return -1;
    for (int i = 0; i < shape.rank; i++)
        if (shape.size[i] < 0 || __builtin_mul_overflow(count, shape.size[i], &count))
            return -1;
    return count <= COUNT_MAX ? count : -1;
}
