/* Samples from arrays in memory: row i of each array is sample i. A row begins one stride after the
 * previous one. The stride is the size of a row, except for windows, which overlap. */
#include "data/batches/source.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/files/checksum.h"
#include "base/vector.h"
#include "engine/tensor/tensor.h"

typedef struct arrays {
    et_samples samples;
    const unsigned char **data; /* [fields but the mask]; borrowed unless owned */
    size_t *size;               /* [fields but the mask]: bytes of a row */
    size_t stride;              /* of a window; 0: as size */
    bool owned;
    int count;
    et_layout_field *field; /* [count + 1] */
    et_arena arena;         /* of these lists and of names */
} arrays;

static int arrays_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    (void)error;
    const arrays *self = (const arrays *)samples;
    for (int k = 0; k < self->count; k++) {
        size_t size = self->size[k], stride = self->stride ? self->stride : size;
        unsigned char *to = (unsigned char *)batch->data[k] + (size_t)batch->filled[0] * size;
        for (int64_t i = 0; i < pick.count; i++, to += size)
            memcpy(to, self->data[k] + (size_t)pick.which[i] * stride, size);
    }
    batch->filled[0] += pick.count;
    return ET_OK;
}

static void arrays_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                            size_t size)
{
    (void)samples, (void)kind;
    snprintf(text, size, "row %lu", (unsigned long)which);
}

static void arrays_close(et_samples *samples)
{
    arrays *self = (arrays *)samples;
    for (int k = 0; self->owned && k < self->count; k++)
        et_free((void *)self->data[k]);
    et_arena_release(&self->arena);
    et_free(self);
}

static const et_samples_class arrays_class = {
    .name = "arrays",
    .fill = arrays_fill,
    .describe = arrays_describe,
    .close = arrays_close,
};

static int add_array(arrays *self, const et_array *array, uint64_t *print, et_error *error)
{
    int k = self->count;
    if (!array->name || !*array->name || !array->data || array->item.rank >= ET_RANK_MAX)
        return et_fail(error, ET_ECONFIG, "array %d: give a name, data and at most %d dimensions",
                       k, ET_RANK_MAX);
    if (et_dtype_size(array->dtype) && array->dtype >= ET_U8)
        return et_fail(error, ET_ECONFIG,
                       "array %s: batches cannot have the type %s: use %s, %s or %s", array->name,
                       et_dtype_name(array->dtype), et_dtype_name(ET_F32), et_dtype_name(ET_BF16),
                       et_dtype_name(ET_I32));
    int64_t elements = et_shape_count(array->item);
    size_t element = et_dtype_size(array->dtype);
    if (!element || elements > (int64_t)(PTRDIFF_MAX / element) / self->samples.count)
        return et_fail(error, ET_ECONFIG, "array %s: %s", array->name,
                       element ? "too large for any memory" : "its type is invalid");
    if (elements < 1 || !strcmp(array->name, et_layout_mask.name))
        return et_fail(error, ET_ECONFIG, "array %s: %s", array->name,
                       elements < 1 ? "its rows are empty or too large"
                                    : "this name is reserved for batches");
    for (int i = 0; i < k; i++)
        if (!strcmp(array->name, self->field[i].name))
            return et_fail(error, ET_ECONFIG, "array %s: another array has this name", array->name);
    char *name = et_arena_strdup(&self->arena, array->name);
    if (!name)
        return et_alloc_failed(error, "arrays");
    self->data[k] = array->data;
    self->size[k] = (size_t)elements * element;
    self->field[k] = (et_layout_field){
        .name = name,
        .dtype = array->dtype,
        .item = array->item,
        .empty = array->dtype == ET_I32 ? ET_EMPTY_NONE : ET_EMPTY_ZERO,
    };
    self->count++;
    size_t stride = self->stride ? self->stride : self->size[k];
    size_t bytes = stride * ((size_t)self->samples.count - 1) + self->size[k];
    uint64_t facts[] = { *print, et_checksum(name, strlen(name)), (uint64_t)array->dtype,
                         et_checksum(array->data, bytes) };
    *print = et_checksum(facts, sizeof facts);
    return ET_OK;
}

/* stride 0: rows are adjacent. */
static int open_arrays(et_samples **out, const et_array *array, int fields, int64_t count,
                       size_t stride, et_error *error)
{
    if (fields < 1 || count < 1 || count > UINT32_MAX || !array)
        return et_fail(
            error, ET_ECONFIG,
            "%d arrays of %lld samples: give at least one array and 1 to 2^32 - 1 samples",
            array ? fields : 0, (long long)count);
    arrays *self = et_alloc_zero(1, sizeof *self);
    size_t n = (size_t)fields;
    uint64_t print = (uint64_t)count;
    if (!self)
        return et_alloc_failed(error, "arrays");
    self->samples.class = &arrays_class;
    self->samples.count = self->samples.total[0] = count;
    self->samples.largest[0] = 1;
    self->stride = stride;
    self->data = et_arena_array(&self->arena, n, sizeof *self->data);
    self->size = et_arena_array(&self->arena, n, sizeof *self->size);
    self->field = et_arena_array(&self->arena, n + 1, sizeof *self->field);
    int status = self->arena.failed ? et_alloc_failed(error, "arrays") : ET_OK;
    for (int k = 0; !status && k < fields; k++)
        status = add_array(self, &array[k], &print, error);
    if (status) {
        arrays_close(&self->samples);
        return status;
    }
    self->field[fields] = et_layout_mask;
    self->samples.layout =
        (et_layout){ .kinds = 1, .fields = fields + 1, .kind = { "sample" }, .field = self->field };
    self->samples.fingerprint = print;
    *out = &self->samples;
    return ET_OK;
}

int et_arrays_open(et_samples **out, const et_array *array, int fields, int64_t count,
                   et_error *error)
{
    return open_arrays(out, array, fields, count, 0, error);
}

/* As et_arrays_open, with empty[i] for each array. On success, the samples own the memory of the
 * arrays (et_alloc). */
static int arrays_adopt(et_samples **out, const et_array *array, const et_empty *empty, int fields,
                        int64_t count, et_error *error)
{
    int status = open_arrays(out, array, fields, count, 0, error);
    if (status)
        return status;
    arrays *self = (arrays *)*out;
    self->owned = true;
    for (int k = 0; k < fields; k++)
        self->field[k].empty = empty[k];
    return ET_OK;
}

int et_windows_open(et_samples **out, const et_array *array, int64_t count, int64_t size,
                    et_error *error)
{
    if (size < 1 || size > count)
        return et_fail(
            error, ET_ECONFIG,
            "windows of %lld rows over %lld rows: give a width from 1 to the number of rows",
            (long long)size, (long long)count);
    if (!et_shape_valid(array->item) || array->item.rank + 1 >= ET_RANK_MAX)
        return et_fail(error, ET_ECONFIG, "windows: items may have at most %d dimensions",
                       ET_RANK_MAX - 2);
    et_array window = *array;
    window.item.rank++;
    window.item.size[0] = size;
    for (int i = 0; i < array->item.rank; i++)
        window.item.size[i + 1] = array->item.size[i];
    size_t stride = et_tensor_bytes((et_tensor){ .dtype = array->dtype, .shape = array->item });
    return open_arrays(out, &window, 1, count - size + 1, stride, error);
}

et_tensor et_samples_array(const et_samples *samples, const char *field)
{
    const arrays *self = (const arrays *)samples;
    int k = et_layout_find(&samples->layout, field);
    et_tensor tensor = { .data = NULL };
    if (samples->class != &arrays_class || k < 0 || k >= self->count || self->stride)
        return tensor;
    et_layout whole = samples->layout;
    whole.capacity[0] = samples->count;
    tensor = (et_tensor){ .data = (void *)self->data[k],
                          .dtype = self->field[k].dtype,
                          .shape = et_layout_shape(&whole, k) };
    return tensor;
}

/* A pass over a source, kept as arrays: one growing array for each field. */

typedef struct cache {
    et_array *array;  /* [fields]: data is the memory, owned until it is handed on */
    et_empty *empty;  /* [fields] */
    int *from;        /* [fields]: of the source's layout */
    size_t *capacity; /* [fields]: bytes */
    int fields;       /* all but the mask */
    int64_t count;
} cache;

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
        return et_alloc_failed(error, "a cache");
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
        for (int i = 0; i < self->fields; i++) {
            et_array *array = &self->array[i];
            size_t row = (size_t)et_shape_count(array->item) * et_dtype_size(array->dtype);
            size_t used = (size_t)self->count * row, added = (size_t)batch->filled[0] * row;
            if (!et_vector_grow(&array->data, &self->capacity[i], used + added, 1))
                return et_alloc_failed(error, "a cache");
            memcpy((char *)array->data + used, batch->data[self->from[i]], added);
        }
        self->count += batch->filled[0];
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
        status = arrays_adopt(out, self.array, self.empty, self.fields, self.count, error);
    if (!status)
        self.fields = 0;
    et_batch_free(batch);
    for (int i = 0; self.array && i < self.fields; i++)
        et_free((void *)self.array[i].data);
    et_free(self.array);
    et_free(self.empty);
    et_free(self.from);
    et_free(self.capacity);
    return status;
}

/* ---- a sequence of integers ---- */

/* An arithmetic sequence of integers: sample i is start + i step. */

typedef struct sequence {
    et_samples samples;
    et_layout_field *field; /* [2]: the integers, the mask; owned */
    int64_t start, step;
} sequence;

static int sequence_fill(et_samples *samples, et_pick pick, et_batch *batch, et_error *error)
{
    const sequence *self = (const sequence *)samples;
    int32_t *to = (int32_t *)batch->data[0] + batch->filled[0];
    (void)error;
    for (int64_t i = 0; i < pick.count; i++)
        to[i] = (int32_t)(self->start + self->step * (int64_t)pick.which[i]);
    batch->filled[0] += pick.count;
    return ET_OK;
}

static void sequence_describe(const et_samples *samples, uint32_t which, int kind, char *text,
                              size_t size)
{
    const sequence *self = (const sequence *)samples;
    (void)kind;
    snprintf(text, size, "%s %lld", self->field[0].name,
             (long long)self->start + (long long)self->step * which);
}

static void sequence_close(et_samples *samples)
{
    et_free(((sequence *)samples)->field);
    et_free(samples);
}

static const et_samples_class sequence_class = {
    .name = "sequence",
    .sized = true,
    .fill = sequence_fill,
    .describe = sequence_describe,
    .close = sequence_close,
};

/* Counts the integers, and checks that all fit into int32. */
static int count_integers(int64_t *count, int64_t start, int64_t stop, int64_t step,
                          et_error *error)
{
    bool within = start >= INT32_MIN && start <= INT32_MAX && stop >= (int64_t)INT32_MIN - 1 &&
                  stop <= (int64_t)INT32_MAX + 1;
    if (!within || step < INT32_MIN || step > INT32_MAX)
        return et_fail(error, ET_ECONFIG,
                       "integers from %lld to %lld in steps of %lld: they must fit in int32",
                       (long long)start, (long long)stop, (long long)step);
    *count = 0;
    if (step > 0 && start < stop)
        *count = (stop - start + step - 1) / step;
    else if (step < 0 && start > stop)
        *count = (start - stop - step - 1) / -step;
    if (!*count || *count > UINT32_MAX)
        return et_fail(error, ET_ECONFIG,
                       "integers from %lld in steps of %lld before %lld: these are %lld numbers; "
                       "use 1 to 4,294,967,295",
                       (long long)start, (long long)step, (long long)stop, (long long)*count);
    return ET_OK;
}

int et_sequence_open(et_samples **out, const char *field, int64_t start, int64_t stop, int64_t step,
                     et_error *error)
{
    const et_layout_field rows[] = { { .name = field, .dtype = ET_I32, .empty = ET_EMPTY_NONE },
                                     et_layout_mask };
    et_layout layout = { .kinds = 1, .fields = 2, .kind = { "sample" }, .field = rows };
    int64_t count = 0;
    int status = count_integers(&count, start, stop, step, error);
    if (!status)
        status = et_layout_check(&layout, error);
    sequence *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "a sequence");
    status = et_layout_own(&self->field, rows, 2, error);
    if (status) {
        et_free(self);
        return status;
    }
    layout.field = self->field;
    uint64_t facts[] = { (uint64_t)start, (uint64_t)step, (uint64_t)count };
    self->start = start;
    self->step = step;
    self->samples = (et_samples){
        .class = &sequence_class,
        .layout = layout,
        .count = count,
        .total = { count },
        .largest = { 1 },
        .fingerprint = et_checksum(facts, sizeof facts),
    };
    *out = &self->samples;
    return ET_OK;
}
