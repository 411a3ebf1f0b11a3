/* The simplest decorator there is, and a pattern for others: every method calls the one of the
 * source within, next between the two ends of a span. Spans count batches from 1, as this source
 * makes them, which is ahead of what training uses.
 *
 *   iterator -> watch -> prefetch:   spans on the thread that fills, batch by batch */
#include "data/pair_watch.h"

#include "base/alloc.h"
#include "base/assert.h"

typedef struct watch {
    et_pair_source source;
    et_pair_source *inner; /* owned */
    et_track *track;       /* borrowed; of the thread that calls next */
    int64_t batches;       /* made since it was opened; a restore does not change it */
} watch;

static const et_label fill_label = { .name = "fill batch", .kind = "filling batches" };

/* The span ends also when the source within fails, so that tracks stay balanced. */
static int watch_next(et_pair_source *source, et_pair_batch *batch, et_error *error)
{
    watch *self = (watch *)source;
    et_track_begin(self->track, &fill_label, ++self->batches);
    int status = et_pair_source_next(self->inner, batch, error);
    et_track_end(self->track);
    return status;
}

/* A watch has no position of its own. */
static void watch_save(const et_pair_source *source, et_pair_position *position)
{
    et_pair_source_save(((const watch *)source)->inner, position);
}

static int watch_restore(et_pair_source *source, const et_pair_position *position, et_error *error)
{
    return et_pair_source_restore(((watch *)source)->inner, position, error);
}

static void watch_close(et_pair_source *source)
{
    et_pair_source_close(((watch *)source)->inner);
    et_free(source);
}

static const et_pair_source_class watch_class = {
    .name = "watch",
    .next = watch_next,
    .save = watch_save,
    .restore = watch_restore,
    .close = watch_close,
};

/* The shape is the inner source's: whoever is outside sees no difference. */
int et_pair_watch_open(et_pair_source **out, et_pair_source *inner, et_track *track,
                       et_error *error)
{
    et_assert(inner && track);
    watch *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "watching batches");
    self->source = (et_pair_source){ &watch_class, inner->shape };
    self->inner = inner;
    self->track = track;
    *out = &self->source;
    return ET_OK;
}
