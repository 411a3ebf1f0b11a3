#include "train/checkpoint/stored_weight.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "engine/kernel/row_product.h"

bool et_stored_weight_by_rows(const char *name)
{
    const char *last = strrchr(name, '/');
    return !strcmp(last ? last + 1 : name, "table");
}

bool et_stored_weight_is_narrowed(et_shape shape)
{
    return shape.rank == 2 && shape.size[0] <= ET_ROW_BYTES_MAX &&
           shape.size[1] <= ET_ROW_BYTES_MAX;
}

/* Without memory, of which a lack would look like a tensor that is not there. */
const et_safetensors_tensor *et_stored_find(const et_safetensors *file, const char *prefix,
                                            const char *name)
{
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < et_safetensors_count(file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(file, i);
        if (!strncmp(tensor->name, prefix, length) && !strcmp(tensor->name + length, name))
            return tensor;
    }
    return NULL;
}

/* NULL: none that fits. */
static const et_safetensors_tensor *find_scale(const et_safetensors *file,
                                               const et_safetensors_tensor *there)
{
    const et_safetensors_tensor *scale = et_stored_find(file, ET_STORED_SCALE, there->name);
    if (!scale || scale->dtype != ET_F32 || there->shape.rank != 2 || scale->shape.rank != 2)
        return NULL;
    const int64_t *size = there->shape.size, *of = scale->shape.size;
    const bool rows = of[0] == size[0] && of[1] == 1, columns = of[0] == 1 && of[1] == size[1];
    return rows || columns ? scale : NULL;
}

bool et_stored_weight_fits(const et_safetensors *file, const et_safetensors_tensor *there,
                           et_shape shape)
{
    if (!et_shape_equal(there->shape, shape))
        return false;
    return there->dtype == ET_F32 || there->dtype == ET_BF16 ||
           (there->dtype == ET_I8 && find_scale(file, there));
}

void et_stored_weight_read(float *to, const et_safetensors *file,
                           const et_safetensors_tensor *there)
{
    const int64_t count = et_shape_count(there->shape);
    if (there->dtype == ET_BF16) {
        /* The upper half of a float32; the file may lie at any address. */
        for (int64_t i = 0; i < count; i++) {
            et_bf16 half;
            memcpy(&half, (const char *)there->data + 2 * i, sizeof half);
            to[i] = et_bf16_to_float(half);
        }
    } else if (there->dtype == ET_I8) {
        const et_safetensors_tensor *scale = find_scale(file, there);
        et_assert(scale);
        /* Scales by row are read as a column of a matrix of one row, so they are copied one at a
         * time. */
        const int64_t rows = there->shape.size[0], columns = there->shape.size[1];
        const bool by_rows = scale->shape.size[0] == rows && scale->shape.size[1] == 1;
        const int8_t *q = there->data;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                float one;
                memcpy(&one, (const char *)scale->data + (size_t)(by_rows ? i : j) * sizeof one,
                       sizeof one);
                to[i * columns + j] = one * q[i * columns + j];
            }
    } else if (there->bytes) {
        memcpy(to, there->data, there->bytes);
    }
}

int et_stored_weight_round(float *w, const char *name, et_shape shape, et_error *error)
{
    if (!et_stored_weight_is_narrowed(shape))
        return ET_OK;
    const int64_t rows = shape.size[0], columns = shape.size[1];
    const bool by_rows = et_stored_weight_by_rows(name);
    int8_t *q = et_alloc((size_t)rows, (size_t)columns);
    float *scale = et_alloc((size_t)(by_rows ? rows : columns), sizeof *scale);
    int status =
        q && scale ? ET_OK : et_alloc_failed(error, (size_t)(rows * columns), "weights as bytes");
    if (!status) {
        et_row_weight_to_bytes(q, scale, w, rows, columns, by_rows);
        et_row_weight_from_bytes(w, q, scale, rows, columns, by_rows);
    }
    et_free(q);
    et_free(scale);
    return status;
}
