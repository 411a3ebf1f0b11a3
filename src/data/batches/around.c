/* Decorators that see each batch: `trace` reports it to a trace, `map` changes it, `numbered`
 * numbers its samples anew. All other methods are the inner source's. Spans count batches from 1 as
 * this source makes them; if something reads ahead, the count is ahead of the training:
 *
 *   batches -> trace -> prefetch:   spans on the thread that fills, batch by batch */
#include "base/alloc.h"
#include "base/assert.h"
#include "data/batches/source.h"

/* ---- methods that call the inner source's ---- */

static et_source *inner_of(const et_source *source)
{
    return ((const et_around *)source)->inner;
}

void et_around_position(const et_source *source, et_position *position)
{
    et_source_position(inner_of(source), position);
}

int et_around_seek(et_source *source, const et_position *position, et_error *error)
{
    return et_source_seek(inner_of(source), position, error);
}

int et_around_rewind(et_source *source, bool next, et_error *error)
{
    return et_source_rewind_to(inner_of(source), next, error);
}

void et_around_describe(const et_source *source, const et_batch *batch, char *text, size_t size)
{
    et_source_describe(inner_of(source), batch, text, size);
}

void et_around_close(et_source *source)
{
    et_source_close(inner_of(source));
    et_free(source);
}

int et_around_batches(et_source *source, int64_t *count, et_error *error)
{
    return et_source_batches(inner_of(source), count, error);
}

uint64_t et_around_content(const et_source *source)
{
    return et_source_content(inner_of(source));
}

void *et_around_new(size_t size, const et_source_class *class, et_source *inner, const char *what,
                    et_error *error)
{
    et_assert(size >= sizeof(et_around) && inner);
    et_around *self = et_alloc_zero(1, size);
    if (!self) {
        et_alloc_failed(error, what);
        return NULL;
    }
    self->source = (et_source){ .class = class, .layout = inner->layout, .begun = inner->begun };
    self->inner = inner;
    return self;
}

/* ---- trace, map, numbered ---- */

typedef struct traced {
    et_around around;
    et_track *track; /* borrowed; of the thread that calls next */
    int64_t batches; /* batches made since the open; seeks do not change the number */
} traced;

typedef struct mapped {
    et_around around;
    et_map_fn *change;
    void *payload;
} mapped;

typedef struct numbered {
    et_around around;
    uint32_t first, stride;
} numbered;

static const et_activity fill_activity = { .name = "fill batch", .kind = "filling batches" };

/* The span ends also when the source within fails, so that tracks stay balanced. */
static int trace_next(et_source *source, et_batch *batch, et_error *error)
{
    traced *self = (traced *)source;
    et_track_begin(self->track, &fill_activity, ++self->batches);
    int status = et_source_next(inner_of(source), batch, error);
    et_track_end(self->track);
    return status;
}

static int map_next(et_source *source, et_batch *batch, et_error *error)
{
    const mapped *self = (const mapped *)source;
    int status = et_source_next(inner_of(source), batch, error);
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

static int numbered_next(et_source *source, et_batch *batch, et_error *error)
{
    const numbered *self = (const numbered *)source;
    int status = et_source_next(inner_of(source), batch, error);
    for (int64_t i = 0; i < batch->filled[0] && !status; i++)
        batch->sample[i] = self->first + self->stride * batch->sample[i];
    return status;
}

/* inner knows its own numbers: the batch has them for so long. */
static void numbered_describe(const et_source *source, const et_batch *batch, char *text,
                              size_t size)
{
    const numbered *self = (const numbered *)source;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        batch->sample[i] = (batch->sample[i] - self->first) / self->stride;
    et_source_describe(inner_of(source), batch, text, size);
    for (int64_t i = 0; i < batch->filled[0]; i++)
        batch->sample[i] = self->first + self->stride * batch->sample[i];
}

static const et_source_class trace_class = { "watch", trace_next, ET_AROUND(et_around_describe) };
static const et_source_class map_class = { "map", map_next, ET_AROUND(et_around_describe) };
static const et_source_class numbered_class = { "numbered", numbered_next,
                                                ET_AROUND(numbered_describe) };

int et_traced_source_open(et_source **out, et_source *inner, et_track *track, et_error *error)
{
    et_assert(track);
    traced *self = et_around_new(sizeof *self, &trace_class, inner, "a source", error);
    if (!self)
        return ET_ENOMEM;
    self->track = track;
    *out = &self->around.source;
    return ET_OK;
}

int et_map_open(et_source **out, et_source *inner, et_map_fn *change, void *payload,
                et_error *error)
{
    if (!change)
        return et_fail(error, ET_EUSAGE,
                       "et_map_open: the function is NULL; give one that changes batches");
    mapped *self = et_around_new(sizeof *self, &map_class, inner, "a source", error);
    if (!self)
        return ET_ENOMEM;
    self->change = change;
    self->payload = payload;
    *out = &self->around.source;
    return ET_OK;
}

int et_numbered_open(et_source **out, et_source *inner, uint32_t first, uint32_t stride,
                     et_error *error)
{
    numbered *self =
        et_around_new(sizeof *self, &numbered_class, inner, "numbers of samples", error);
    if (!self)
        return ET_ENOMEM;
    self->first = first;
    self->stride = stride;
    *out = &self->around.source;
    return ET_OK;
}
