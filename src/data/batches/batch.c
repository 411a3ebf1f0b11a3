/* A batch is one block of memory: the struct, its pointers, and the arrays in the layout's order,
 * each padded to whole cache lines, then the sample numbers. So copying a batch is one memcpy of
 * everything after the pointers. */
#include <string.h>

#include <etude/data.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/batches/source.h"
#include "engine/tensor/tensor.h"

#define LINE 64

static size_t padded(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Bytes of the struct and its pointers, without the arrays after them. */
static size_t head_bytes(const et_layout *layout)
{
    return padded(sizeof(et_batch) + layout->fields * sizeof(void *));
}

static size_t array_bytes(const et_layout *layout)
{
    size_t bytes = padded(layout->capacity[0] * sizeof(uint32_t));
    for (int i = 0; i < layout->fields; i++)
        bytes += padded(et_layout_bytes(layout, i));
    return bytes;
}

int et_batch_new(et_batch **out, const et_layout *layout, et_error *error)
{
    *out = NULL;
    int status = et_layout_check_size(layout, error);
    if (status)
        return status;
    size_t head = head_bytes(layout), bytes = head + array_bytes(layout);
    unsigned char *block = et_alloc_aligned(bytes, LINE);
    if (!block)
        return et_alloc_failed(error, "a batch");
    memset(block, 0, bytes);
    et_batch *batch = (et_batch *)(void *)block;
    batch->layout = layout;
    batch->data = (void **)(void *)(block + sizeof *batch);
    unsigned char *at = block + head;
    for (int i = 0; i < layout->fields; i++) {
        batch->data[i] = at;
        at += padded(et_layout_bytes(layout, i));
    }
    batch->sample = (uint32_t *)(void *)at;
    et_batch_clear(batch);
    *out = batch;
    return ET_OK;
}

void et_batch_free(et_batch *batch)
{
    et_free(batch);
}

static void set_ints(int32_t *values, int64_t begin, int64_t end, int32_t value)
{
    for (int64_t i = begin; i < end; i++)
        values[i] = value;
}

static void set_floats(float *values, int64_t begin, int64_t end, float value)
{
    for (int64_t i = begin; i < end; i++)
        values[i] = value;
}

void et_batch_finish(et_batch *batch)
{
    const et_layout *layout = batch->layout;
    for (int k = 0; k < layout->kinds; k++) {
        const int64_t filled = batch->filled[k], most = layout->capacity[k];
        batch->filled[k] = filled < 0 ? 0 : filled > most ? most : filled;
    }
    for (int i = 0; i < layout->fields; i++) {
        const et_layout_field *f = &batch->layout->field[i];
        int64_t item = et_shape_count(f->item);
        int64_t begin = batch->filled[f->kind] * item;
        int64_t end = et_shape_count(et_layout_shape(batch->layout, i));
        size_t size = et_dtype_size(f->dtype);
        switch (f->empty) {
        case ET_EMPTY_ZERO:
            memset((char *)batch->data[i] + (size_t)begin * size, 0, (size_t)(end - begin) * size);
            break;
        case ET_EMPTY_NONE:
            et_assert(f->dtype == ET_I32);
            set_ints(batch->data[i], begin, end, -1);
            break;
        case ET_EMPTY_OFFSETS:
            et_assert(f->dtype == ET_I32);
            set_ints(batch->data[i], begin, end, (int32_t)batch->filled[f->offsets_of]);
            break;
        case ET_EMPTY_MASK:
            et_assert(f->dtype == ET_F32);
            set_floats(batch->data[i], 0, begin, 1);
            set_floats(batch->data[i], begin, end, 0);
            break;
        }
    }
    for (int64_t i = batch->filled[0]; i < layout->capacity[0]; i++)
        batch->sample[i] = 0;
}

void et_batch_clear(et_batch *batch)
{
    memset(batch->filled, 0, sizeof batch->filled);
    batch->epoch = 0;
    et_batch_finish(batch);
}

void et_batch_copy(et_batch *to, const et_batch *from)
{
    et_assert(to != from && to->layout->fields == from->layout->fields);
    et_assert_equal(array_bytes(to->layout), array_bytes(from->layout));
    size_t head = head_bytes(to->layout);
    memcpy((char *)to + head, (const char *)from + head, array_bytes(from->layout));
    memcpy(to->filled, from->filled, sizeof to->filled);
    to->epoch = from->epoch;
}

et_batch et_batch_view(const et_layout *layout, void **data, const et_batch *batch)
{
    et_batch view = {
        .layout = layout, .data = data, .sample = batch->sample, .epoch = batch->epoch
    };
    memcpy(view.filled, batch->filled, sizeof view.filled);
    return view;
}
