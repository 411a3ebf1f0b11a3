/* A source from a program's iterator. Its position has the pass, the number of batches taken from
 * it, and the number of their rows. Rows are the numbers of samples.
 *
 * Invariants:
 *
 *   (1) made: the iterator of pass `epoch` exists, and `batch` batches of it were taken;
 *   (2) not made: the next batch makes the iterator and skips that many batches. */
#include <stdio.h>
#include <string.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/options.h"
#include "engine/tensor/tensor.h"

typedef struct factory {
    et_source source;
    et_factory make;
    et_layout_field *field; /* owned */
    et_batch *left_out;
    bool repeat;
    bool made; /* the iterator is */
    int64_t epoch, batch, row;
} factory;

static void leave(factory *self)
{
    if (self->made && self->make.end)
        self->make.end(self->make.payload);
    self->made = false;
}

static void number_rows(const factory *self, et_batch *batch)
{
    memset(batch->filled, 0, sizeof batch->filled);
    batch->epoch = self->epoch;
    for (int64_t i = 0; i < batch->layout->capacity[0]; i++)
        batch->sample[i] = (uint32_t)(self->row + i);
}

static int next(factory *self, et_batch *batch, et_error *error)
{
    return et_callback_status(self->make.next(self->make.payload, batch, error), "next", error);
}

static int leave_out(factory *self, et_error *error)
{
    if (self->make.skip)
        return et_callback_status(self->make.skip(self->make.payload, self->batch, error), "skip",
                                  error);
    for (int64_t i = 0; i < self->batch; i++) {
        number_rows(self, self->left_out);
        int status = next(self, self->left_out, error);
        if (status)
            return status;
        if (!self->left_out->filled[0])
            return et_fail(
                error, ET_EDATA,
                "pass %lld ended before batch %lld, where training resumes: the function that "
                "makes batches must depend only on the pass",
                (long long)self->epoch, (long long)self->batch);
    }
    return ET_OK;
}

static int load(factory *self, et_error *error)
{
    if (self->made)
        return ET_OK;
    int status = et_callback_status(self->make.begin(self->make.payload, self->epoch, error),
                                    "begin", error);
    if (status)
        return status;
    self->made = true;
    status = self->batch ? leave_out(self, error) : ET_OK;
    if (status)
        leave(self);
    return status;
}

static int factory_next(et_source *source, et_batch *batch, et_error *error)
{
    factory *self = (factory *)source;
    while (self->repeat || self->epoch == 0) {
        int status = load(self, error);
        if (status)
            return status;
        number_rows(self, batch);
        status = next(self, batch, error);
        for (int k = 0; !status && k < batch->layout->kinds; k++)
            if (batch->filled[k] < 0 || batch->filled[k] > batch->layout->capacity[k])
                status = et_fail(error, ET_EDATA, "a batch is filled with %lld of %lld %ss",
                                 (long long)batch->filled[k], (long long)batch->layout->capacity[k],
                                 batch->layout->kind[k]);
        if (status)
            return status;
        if (batch->filled[0]) {
            et_batch_finish(batch);
            self->batch++;
            self->row += batch->filled[0];
            return ET_OK;
        }
        /* The next pass, at its beginning. */
        if (self->repeat && !self->batch)
            return et_fail(error, ET_EDATA, "pass %lld has no batches", (long long)self->epoch);
        leave(self);
        self->epoch++;
        self->batch = self->row = 0;
    }
    et_batch_clear(batch);
    return ET_OK;
}

static void factory_position(const et_source *source, et_position *position)
{
    const factory *self = (const factory *)source;
    et_position_put(position, "epoch", self->epoch);
    et_position_put(position, "batch", self->batch);
    et_position_put(position, "row", self->row);
    et_position_put(position, "fingerprint", (int64_t)self->make.fingerprint);
}

/* Begins the pass immediately, so that an invalid position is refused before training continues. */
static int try_position(factory *self, int64_t epoch, int64_t batch, int64_t row, et_error *error)
{
    const factory before = *self;
    if (epoch < 0 || batch < 0 || row < batch || (!self->repeat && epoch + (batch > 0) > 1))
        return et_fail(error, ET_EDATA,
                       "the saved position (epoch %lld, batch %lld, row %lld) is not in the data",
                       (long long)epoch, (long long)batch, (long long)row);
    leave(self);
    self->epoch = epoch;
    self->batch = batch;
    self->row = row;
    int status = batch ? load(self, error) : ET_OK;
    if (status) {
        self->epoch = before.epoch;
        self->batch = before.batch;
        self->row = before.row;
    }
    return status;
}

static int factory_seek(et_source *source, const et_position *position, et_error *error)
{
    factory *self = (factory *)source;
    int64_t epoch = 0, batch = 0, row = 0, fingerprint = 0;
    int status;
    if ((status = et_position_get(position, "fingerprint", &fingerprint, error)) ||
        (status = et_position_get(position, "epoch", &epoch, error)) ||
        (status = et_position_get(position, "batch", &batch, error)) ||
        (status = et_position_get(position, "row", &row, error)))
        return status;
    if (fingerprint != (int64_t)self->make.fingerprint)
        return et_fail(error, ET_EDATA,
                       "the saved position is for other data: restore the data, or start in "
                       "another directory");
    return try_position(self, epoch, batch, row, error);
}

/* An iterator that has given no batch is kept. */
static int factory_rewind(et_source *source, bool next, et_error *error)
{
    factory *self = (factory *)source;
    const int64_t epoch = next && self->repeat ? self->epoch + (self->batch > 0) : 0;
    return epoch == self->epoch && !self->batch ? ET_OK : try_position(self, epoch, 0, 0, error);
}

static void factory_describe(const et_source *source, const et_batch *batch, char *text,
                             size_t size)
{
    (void)source;
    snprintf(text, size, "rows %lu to %lu of pass %lld", (unsigned long)batch->sample[0],
             (unsigned long)(batch->sample[0] + (uint32_t)batch->filled[0] - 1),
             (long long)batch->epoch);
}

static void release(factory *self)
{
    et_batch_free(self->left_out);
    et_free(self->field);
    et_free(self);
}

static void factory_close(et_source *source)
{
    factory *self = (factory *)source;
    leave(self);
    release(self);
}

static uint64_t factory_content(const et_source *source)
{
    return ((const factory *)source)->make.fingerprint;
}

static const et_source_class factory_class = {
    .name = "factory",
    .next = factory_next,
    .position = factory_position,
    .seek = factory_seek,
    .describe = factory_describe,
    .close = factory_close,
    .content = factory_content,
    .rewind = factory_rewind,
};

static int check(const et_layout *layout, const et_factory *make, et_error *error)
{
    int status = et_layout_check(layout, error);
    et_assert(make->begin && make->next);
    for (int k = 0; !status && k < layout->kinds; k++)
        if (layout->capacity[k] < 1 || layout->capacity[k] > INT32_MAX)
            status = et_fail(error, ET_ECONFIG, "a batch of %lld %ss: give 1 to 2^31 - 1",
                             (long long)layout->capacity[k], layout->kind[k]);
    return status;
}

int et_factory_open(et_source **out, const et_layout *layout, const et_factory *make, bool repeat,
                    et_error *error)
{
    int status = check(layout, make, error);
    factory *self = status ? NULL : et_alloc_zero(1, sizeof *self);
    if (!self)
        return status ? status : et_alloc_failed(error, "a source");
    self->source = (et_source){ .class = &factory_class, .layout = *layout };
    self->make = *make;
    self->repeat = repeat;
    status = et_layout_own(&self->field, layout->field, layout->fields, error);
    if (!status) {
        self->source.layout.field = self->field;
        status = et_batch_new(&self->left_out, &self->source.layout, error);
    }
    if (status) {
        release(self);
        return status;
    }
    *out = &self->source;
    return ET_OK;
}
