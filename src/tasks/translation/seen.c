#include "tasks/translation/seen.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "data/source.h"

typedef struct watched {
    et_source source;
    et_source *inner; /* owned */
    et_seen *seen;
} watched;

static int seen_next(et_source *source, et_batch *batch, et_error *error)
{
    watched *self = (watched *)source;
    int status = et_source_next(self->inner, batch, error);
    for (int64_t i = 0; i < batch->filled[0] && !status; i++) {
        et_assert(batch->sample[i] < self->seen->count);
        self->seen->is[batch->sample[i]] = true;
    }
    return status;
}

static void seen_position(const et_source *source, et_position *position)
{
    const watched *self = (const watched *)source;
    self->inner->class->position(self->inner, position);
}

static int seen_seek(et_source *source, const et_position *position, et_error *error)
{
    watched *self = (watched *)source;
    memset(self->seen->is, 0, (size_t)self->seen->count * sizeof *self->seen->is);
    return et_source_seek(self->inner, position, error);
}

static int seen_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(((watched *)source)->inner, count, error);
}

static void seen_describe(const et_source *source, const et_batch *batch, char *text, size_t size)
{
    const watched *self = (const watched *)source;
    et_source_describe(self->inner, batch, text, size);
}

static void seen_close(et_source *source)
{
    watched *self = (watched *)source;
    et_source_close(self->inner);
    et_free(self);
}

static uint64_t seen_content(const et_source *source)
{
    return et_source_content(((const watched *)source)->inner);
}

static const et_source_class seen_class = {
    .name = "seen",
    .next = seen_next,
    .position = seen_position,
    .seek = seen_seek,
    .batches = seen_batches,
    .content = seen_content,
    .describe = seen_describe,
    .close = seen_close,
};

int et_seen_open(et_source **out, et_source *inner, et_seen *seen, et_error *error)
{
    watched *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "validation");
    self->source = (et_source){ &seen_class, inner->layout };
    self->inner = inner;
    self->seen = seen;
    *out = &self->source;
    return ET_OK;
}
