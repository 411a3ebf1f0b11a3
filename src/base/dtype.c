#include <etude/dtype.h>

static const struct {
    size_t size;
    const char *name;
} dtypes[ET_DTYPE_COUNT] = {
    [ET_F32] = { 4, "float32" },
    [ET_BF16] = { 2, "bfloat16" },
    [ET_I32] = { 4, "int32" },
};

size_t et_dtype_size(et_dtype dtype)
{
    return dtypes[dtype].size;
}

const char *et_dtype_name(et_dtype dtype)
{
    return dtypes[dtype].name;
}
