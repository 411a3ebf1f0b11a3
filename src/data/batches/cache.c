/* A pass over a source, kept as arrays: one growing array for each field. */
#include <string.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/vector.h"
#include "data/batches/source.h"

typedef struct cache {
    et_array *array;  /* [fields]: data is the memory, owned until it is handed on */
    et_empty *empty;  /* [fields] */
    int *from;        /* [fields]: of the source's layout */
    size_t *capacity; /* [fields]: bytes */
    int fields;       /* all but the mask */
    int64_t count;
} cache;

static void release(cache *self)
{
    for (int i = 0; self->array && i < self->fields; i++)
        et_free((void *)self->array[i].data);
    et_free(self->array);
    et_free(self->empty);
    et_free(self->from);
    et_free(self->capacity);
}

static int begin(cache *self, const et_layout *layout, et_error *error)
{
    size_t fields = (size_t)layout->fields;
    if (layout->kinds > 1)
        return et_fail(error, ET_ECONFIG,
                       "cannot cache batches that are filled by %ss; only batches of rows",
                       layout->kind[1]);
    self->array = et_alloc_zero(fields, sizeof *self->array);
    self->empty = et_alloc_zero(fields, sizeof *self->empty);
    self->from = et_alloc_zero(fields, sizeof *self->from);
    self->capacity = et_alloc_zero(fields, sizeof *self->capacity);
    if (!self->array || !self->empty || !self->from || !self->capacity)
        return et_alloc_failed(error, fields * sizeof *self->array, "a cache");
    for (int i = 0; i < layout->fields; i++) {
        const et_layout_field *f = &layout->field[i];
        if (f->empty == ET_EMPTY_MASK)
            continue;
        self->array[self->fields] = (et_array){ f->name, f->dtype, NULL, f->item };
        self->empty[self->fields] = f->empty;
        self->from[self->fields++] = i;
    }
    return ET_OK;
}

static int append(cache *self, const et_batch *batch, et_error *error)
{
    for (int i = 0; i < self->fields; i++) {
        et_array *array = &self->array[i];
        size_t row = (size_t)et_shape_count(array->item) * et_dtype_size(array->dtype);
        size_t used = (size_t)self->count * row, added = (size_t)batch->filled[0] * row;
        char *data = et_vector_grow((void *)array->data, &self->capacity[i], used + added, 1, 4096);
        if (!data)
            return et_alloc_failed(error, used + added, "a cache");
        memcpy(data + used, batch->data[self->from[i]], added);
        array->data = data;
    }
    self->count += batch->filled[0];
    return ET_OK;
}

/* Reads to the end, or to the first batch of the next pass, which is given back. */
static int read_pass(cache *self, et_source *source, et_batch *batch, et_error *error)
{
    for (int64_t epoch = -1;; epoch = batch->epoch) {
        et_position before;
        et_source_position(source, &before);
        int status = et_source_next(source, batch, error);
        if (status || !batch->filled[0])
            return status;
        if (epoch >= 0 && batch->epoch != epoch)
            return et_source_seek(source, &before, error);
        status = append(self, batch, error);
        if (status)
            return status;
    }
}

int et_cache_open(et_samples **out, et_source *source, et_error *error)
{
    cache self = { .fields = 0 };
    et_batch *batch = NULL;
    int status = begin(&self, &source->layout, error);
    if (!status)
        status = et_batch_new(&batch, &source->layout, error);
    if (!status)
        status = et_source_claim(source, "a cache", error);
    const bool claimed = !status;
    if (!status)
        status = et_source_rewind(source, error);
    if (!status)
        status = read_pass(&self, source, batch, error);
    if (claimed)
        et_source_end(source);
    if (!status && !self.count)
        status = et_fail(error, ET_EDATA, "the source to cache has no samples");
    if (!status)
        status = et_arrays_adopt(out, self.array, self.empty, self.fields, self.count, error);
    if (!status)
        self.fields = 0;
    et_batch_free(batch);
    release(&self);
    return status;
}
