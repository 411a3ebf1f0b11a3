/* An arithmetic sequence of integers: sample i is start + i step. */
#include <stdio.h>

#include <etude/flows.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "engine/tensor/layout.h"

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

/* How many there are; all of them are int32. */
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
        return status ? status : et_alloc_failed(error, sizeof *self, "a sequence");
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
