/* The table of element types, by designator in the order of et_dtype. A new type needs a row here
 * and a case in every kernel's switch over types. */
#include "base/dtype.h"

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
