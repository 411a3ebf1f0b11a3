/* Decorators that see each batch: `trace` reports it to a trace, `map` changes it. Every other
 * method calls the inner source's. Spans count batches from 1 as this source makes them; if
 * something reads ahead, the count is ahead of the training:
 *
 *   batches -> trace -> prefetch:   spans on the thread that fills, batch by batch */
#include "base/alloc.h"
#include "base/assert.h"
#include "data/batches/source.h"

typedef struct around {
    et_source source;
    et_source *inner; /* owned */
    et_track *track;  /* trace: borrowed; of the thread that calls next */
    int64_t batches;  /* made since it was opened; a seek does not change it */
    et_map_fn *change;
    void *payload;
} around;

static const et_activity fill_activity = { .name = "fill batch", .kind = "filling batches" };

/* The span ends also when the source within fails, so that tracks stay balanced. */
static int trace_next(et_source *source, et_batch *batch, et_error *error)
{
    around *self = (around *)source;
    et_track_begin(self->track, &fill_activity, ++self->batches);
    int status = et_source_next(self->inner, batch, error);
    et_track_end(self->track);
    return status;
}

static int map_next(et_source *source, et_batch *batch, et_error *error)
{
    around *self = (around *)source;
    int status = et_source_next(self->inner, batch, error);
    if (status || !batch->filled[0])
        return status;
    status = self->change(self->payload, batch, error);
    const et_layout *layout = &source->layout;
    for (int i = 0; !status && i < layout->kinds; i++)
        if (batch->filled[i] < 0 || batch->filled[i] > layout->capacity[i])
            status = et_fail(
                error, ET_EUSAGE,
                "et_map: the function left %lld of %lld samples in filled[%d]; leave 0 to all",
                (long long)batch->filled[i], (long long)layout->capacity[i], i);
    return status;
}

static void around_position(const et_source *source, et_position *position)
{
    const around *self = (const around *)source;
    self->inner->class->position(self->inner, position);
}

static int around_seek(et_source *source, const et_position *position, et_error *error)
{
    return et_source_seek(((around *)source)->inner, position, error);
}

static int around_rewind(et_source *source, bool next, et_error *error)
{
    return et_source_rewind_to(((around *)source)->inner, next, error);
}

static void around_describe(const et_source *source, const et_batch *batch, char *text, size_t size)
{
    et_source_describe(((const around *)source)->inner, batch, text, size);
}

static void around_close(et_source *source)
{
    et_source_close(((around *)source)->inner);
    et_free(source);
}

static int around_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(((around *)source)->inner, count, error);
}

static uint64_t around_content(const et_source *source)
{
    return et_source_content(((const around *)source)->inner);
}

static const et_source_class trace_class = {
    "watch",      trace_next,     around_position, around_seek,   around_describe,
    around_close, around_batches, around_content,  around_rewind,
};

static const et_source_class map_class = {
    "map",        map_next,       around_position, around_seek,   around_describe,
    around_close, around_batches, around_content,  around_rewind,
};

static int around_open(et_source **out, const around *made, et_error *error)
{
    around *self = et_alloc(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a source");
    *self = *made;
    self->source.layout = made->inner->layout;
    self->source.begun = made->inner->begun;
    *out = &self->source;
    return ET_OK;
}

int et_traced_source_open(et_source **out, et_source *inner, et_track *track, et_error *error)
{
    et_assert(inner && track);
    around made = { .source.class = &trace_class, .inner = inner, .track = track };
    return around_open(out, &made, error);
}

int et_map_open(et_source **out, et_source *inner, et_map_fn *change, void *payload,
                et_error *error)
{
    et_assert(inner);
    if (!change)
        return et_fail(error, ET_EUSAGE,
                       "et_map_open: the function is NULL; give one that changes batches");
    around made = {
        .source.class = &map_class, .inner = inner, .change = change, .payload = payload
    };
    return around_open(out, &made, error);
}
