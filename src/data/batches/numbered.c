#include "data/batches/source.h"

#include "base/alloc.h"

typedef struct numbered {
    et_source source;
    et_source *inner; /* owned */
    uint32_t first, stride;
} numbered;

static int numbered_next(et_source *source, et_batch *batch, et_error *error)
{
    const numbered *self = (const numbered *)source;
    int status = et_source_next(self->inner, batch, error);
    for (int64_t i = 0; i < batch->filled[0] && !status; i++)
        batch->sample[i] = self->first + self->stride * batch->sample[i];
    return status;
}

static void numbered_position(const et_source *source, et_position *position)
{
    et_source_position(((const numbered *)source)->inner, position);
}

static int numbered_seek(et_source *source, const et_position *position, et_error *error)
{
    return et_source_seek(((numbered *)source)->inner, position, error);
}

static int numbered_rewind(et_source *source, bool next, et_error *error)
{
    return et_source_rewind_to(((numbered *)source)->inner, next, error);
}

static int numbered_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(((numbered *)source)->inner, count, error);
}

/* inner knows its own numbers: the batch has them for so long. */
static void numbered_describe(const et_source *source, const et_batch *batch, char *text,
                              size_t size)
{
    const numbered *self = (const numbered *)source;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        batch->sample[i] = (batch->sample[i] - self->first) / self->stride;
    et_source_describe(self->inner, batch, text, size);
    for (int64_t i = 0; i < batch->filled[0]; i++)
        batch->sample[i] = self->first + self->stride * batch->sample[i];
}

static void numbered_close(et_source *source)
{
    numbered *self = (numbered *)source;
    et_source_close(self->inner);
    et_free(self);
}

static uint64_t numbered_content(const et_source *source)
{
    return et_source_content(((const numbered *)source)->inner);
}

static const et_source_class numbered_class = {
    .name = "numbered",
    .next = numbered_next,
    .position = numbered_position,
    .seek = numbered_seek,
    .rewind = numbered_rewind,
    .batches = numbered_batches,
    .content = numbered_content,
    .describe = numbered_describe,
    .close = numbered_close,
};

int et_numbered_open(et_source **out, et_source *inner, uint32_t first, uint32_t stride,
                     et_error *error)
{
    numbered *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "numbers of samples");
    *self = (numbered){
        .source = { .class = &numbered_class, .layout = inner->layout, .begun = inner->begun },
        .inner = inner,
        .first = first,
        .stride = stride
    };
    *out = &self->source;
    return ET_OK;
}
