/* Random values that differ in each pass. Element e of a sample is element e of the sample's
 * stretch of the numbers of (seed, epoch). Stretches are whole blocks of four, so each block is
 * computed once. */
#include <float.h>
#include <math.h>
#include <string.h>

#include <etude/dtype.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "data/batches/source.h"
#include "engine/kernel/kernels.h"
#include "engine/tensor/tensor.h"

/* Sources whose batches have other fields than their inner source. The inner source fills its own
 * batch, from which unchanged fields are passed on. */

#define MADE (-1)

typedef struct convert {
    et_around around;
    et_batch *from;         /* of inner's layout */
    et_layout_field *field; /* [fields], owned */
    et_layout_field *row;   /* [fields], for opening; in the arena, as the next */
    int *passed;            /* [fields]: which of inner's; MADE */
    et_arena arena;
    et_convert_fn *make; /* NULL: no field is made */
    void *payload;
    bool owned; /* payload is */
} convert;

static int convert_next(et_source *source, et_batch *batch, et_error *error)
{
    convert *self = (convert *)source;
    const et_batch *from = self->from;
    int status = et_source_next(self->around.inner, self->from, error);
    if (status)
        return status;
    if (!from->filled[0]) {
        et_batch_clear(batch);
        return ET_OK;
    }
    const et_layout *layout = &source->layout;
    memcpy(batch->filled, from->filled, sizeof batch->filled);
    memcpy(batch->sample, from->sample, layout->capacity[0] * sizeof *batch->sample);
    batch->epoch = from->epoch;
    for (int i = 0; i < layout->fields; i++)
        if (self->passed[i] != MADE)
            memcpy(batch->data[i], from->data[self->passed[i]], et_layout_bytes(layout, i));
    if (self->make)
        status = self->make(self->payload, from, batch, error);
    if (status)
        return status;
    et_assert_equal(batch->filled[0], from->filled[0]);
    et_batch_finish(batch);
    return ET_OK;
}

static void convert_describe(const et_source *source, const et_batch *batch, char *text,
                             size_t size)
{
    const convert *self = (const convert *)source;
    et_batch view = et_batch_view(&self->around.inner->layout, self->from->data, batch);
    et_source_describe(self->around.inner, &view, text, size);
}

static void release(convert *self)
{
    et_batch_free(self->from);
    et_free(self->field);
    et_arena_release(&self->arena);
    et_free(self);
}

static void convert_close(et_source *source)
{
    convert *self = (convert *)source;
    et_source_close(self->around.inner);
    if (self->owned)
        et_free(self->payload);
    release(self);
}

static const et_source_class convert_class = {
    .name = "convert",
    .next = convert_next,
    .position = et_around_position,
    .seek = et_around_seek,
    .describe = convert_describe,
    .close = convert_close,
    .batches = et_around_batches,
    .content = et_around_content,
    .rewind = et_around_rewind,
};

/* With room for `most` fields. NULL: no memory. */
static convert *convert_new(et_source *inner, size_t most, const char *what, et_error *error)
{
    convert *self = et_around_new(sizeof *self, &convert_class, inner, "a source", error);
    if (!self)
        return NULL;
    self->row = et_arena_array(&self->arena, most, sizeof *self->row);
    self->passed = et_arena_array(&self->arena, most, sizeof *self->passed);
    if (!self->arena.failed)
        return self;
    release(self);
    et_alloc_failed(error, what);
    return NULL;
}

/* layout has the rows; status: the result of their check. */
static int convert_end(et_source **out, convert *self, const et_layout *layout, int status,
                       et_error *error)
{
    et_source *source = &self->around.source;
    if (status || (status = et_layout_own(&self->field, layout->field, layout->fields, error)) ||
        (status = et_batch_new(&self->from, &self->around.inner->layout, error))) {
        release(self);
        return status;
    }
    source->layout = *layout;
    source->layout.field = self->field;
    *out = source;
    return ET_OK;
}

static int mask_of(const et_layout *layout)
{
    for (int i = 0; i < layout->fields; i++)
        if (layout->field[i].empty == ET_EMPTY_MASK)
            return i;
    return -1;
}

/* ---- select ---- */

/* The chosen fields, in order, then the mask. */
static int pick_fields(const et_layout *inner, const char *const *fields, int count,
                       et_layout_field *row, int *passed, int *chosen, et_error *error)
{
    int mask = mask_of(inner);
    bool masked = mask < 0;
    for (int i = 0; i < count; i++) {
        int at = fields[i] ? et_layout_find(inner, fields[i]) : -1;
        if (at < 0)
            return et_fail(error, ET_ECONFIG,
                           "batches have no field %s to select; one is called %s",
                           fields[i] ? fields[i] : "(without a name)", inner->field[0].name);
        masked = masked || at == mask;
        passed[(*chosen)++] = at;
    }
    if (!masked)
        passed[(*chosen)++] = mask;
    for (int i = 0; i < *chosen; i++)
        row[i] = inner->field[passed[i]];
    return ET_OK;
}

int et_select_open(et_source **out, et_source *inner, const char *const *fields, int count,
                   et_error *error)
{
    if (count < 1)
        return et_fail(error, ET_ECONFIG, "no field is selected: name at least one");
    convert *self = convert_new(inner, (size_t)count + 1, "a choice", error);
    if (!self)
        return ET_ENOMEM;
    et_layout layout = inner->layout;
    layout.field = self->row;
    layout.fields = 0;
    int status =
        pick_fields(&inner->layout, fields, count, self->row, self->passed, &layout.fields, error);
    return convert_end(out, self, &layout, status, error);
}

/* ---- convert ---- */

/* Inner's rows, with new rows in place of one or after them. */
static void replace(et_layout *layout, et_layout_field *row, int *passed,
                    const et_layout_field *made, int count)
{
    memcpy(row, layout->field, layout->fields * sizeof *row);
    layout->field = row;
    for (int i = 0; i < layout->fields; i++)
        passed[i] = i;
    for (int i = 0; i < count; i++) {
        int at = made[i].name ? et_layout_find(layout, made[i].name) : -1;
        if (at < 0)
            at = layout->fields++;
        row[at] = made[i];
        passed[at] = MADE;
        if (!row[at].name)
            return;
    }
}

int et_convert_open(et_source **out, et_source *inner, const et_layout_field *made, int count,
                    et_convert_fn *make, void *payload, et_error *error)
{
    et_assert(inner);
    if (count < 1 || !made || !make)
        return et_fail(error, ET_ECONFIG,
                       "a conversion to %d fields: give at least one field, and the function that "
                       "fills the fields",
                       made ? count : 0);
    convert *self =
        convert_new(inner, (size_t)inner->layout.fields + (size_t)count, "a conversion", error);
    if (!self)
        return ET_ENOMEM;
    et_layout layout = inner->layout;
    replace(&layout, self->row, self->passed, made, count);
    self->make = make;
    self->payload = payload;
    return convert_end(out, self, &layout, et_layout_check(&layout, error), error);
}

#define BLOCK 4 /* numbers */
#define RUN   (64 * BLOCK)

typedef struct sampler {
    int field; /* in the inner batches, and in the batches made from them */
    uint64_t seed;
    uint32_t site;        /* identifies these random numbers */
    float minimum, range; /* of noise */
    const et_kernels *kernels;
} sampler;

/* A part of a sample's elements: count of them from `first` on, the batch's elements from `at` on.
 */
typedef struct run {
    int64_t first, count, at;
    float number[RUN]; /* [0, 1), as et_random_uniform */
} run;

/* Random numbers that a sample uses up: whole blocks. */
static int64_t stretch_of(int64_t item)
{
    return (item + BLOCK - 1) / BLOCK * BLOCK;
}

/* Gets the next run of a sample: row i of item elements. false: none. The kernel draws in [-1, 1),
 * from which [0, 1) is computed exactly. */
static bool next_run(run *now, const sampler *self, const et_batch *batch, int64_t i, int64_t item)
{
    const et_random random = { self->seed, (uint64_t)batch->epoch, self->site };
    now->first += now->count;
    now->count = item - now->first < RUN ? item - now->first : RUN;
    now->at = i * item + now->first;
    if (!now->count)
        return false;
    self->kernels->draw_uniform(now->number,
                                (int64_t)batch->sample[i] * stretch_of(item) + now->first,
                                now->count, 1, random);
    for (int64_t e = 0; e < now->count; e++)
        now->number[e] = (now->number[e] + 1) * 0.5f;
    return true;
}

/* NaN is not a probability either. */
static bool are_probabilities(const float *p, int64_t count)
{
    int other = 0;
    for (int64_t e = 0; e < count; e++)
        other |= !(p[e] >= 0) | !(p[e] <= 1);
    return !other;
}

/* Draws the values of a sample, in runs. `first`: the number of its first value. A run is so short
 * that a kernel does not divide it among threads, because a source may run in its own thread. */
static void choose(void *to, const float *p, int64_t item, int64_t first, const sampler *self,
                   et_random random, et_dtype dtype)
{
    for (int64_t at = 0; at < item; at += RUN) {
        const int64_t count = item - at < RUN ? item - at : RUN;
        float chosen[RUN];
        if (dtype == ET_F32) {
            self->kernels->bernoulli((float *)to + at, p + at, first + at, count, random, ET_F32);
            continue;
        }
        self->kernels->bernoulli(chosen, p + at, first + at, count, random, ET_F32);
        for (int64_t e = 0; e < count; e++)
            ((int32_t *)to)[at + e] = (int32_t)chosen[e];
    }
}

static int draw_bernoulli(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    const sampler *self = payload;
    const et_layout_field *field = &to->layout->field[self->field];
    const int64_t item = et_shape_count(field->item), stretch = stretch_of(item);
    const et_random random = { self->seed, (uint64_t)from->epoch, self->site };
    const float *p = from->data[self->field];
    char *made = to->data[self->field];
    for (int64_t i = 0; i < from->filled[0]; i++) {
        if (!are_probabilities(p + i * item, item)) {
            const float *first = p + i * item;
            while (*first >= 0 && *first <= 1)
                first++;
            return et_fail(error, ET_EDATA,
                           "%s of sample %lu is %g: give a probability from 0 to 1", field->name,
                           (unsigned long)from->sample[i], (double)*first);
        }
        choose(made + (size_t)(i * item) * et_dtype_size(field->dtype), p + i * item, item,
               (int64_t)from->sample[i] * stretch, self, random, field->dtype);
    }
    return ET_OK;
}

static int add_noise(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    const sampler *self = payload;
    const et_layout_field *field = &from->layout->field[self->field];
    const int64_t item = et_shape_count(field->item);
    const float *reals = from->data[self->field];
    const int32_t *integers = from->data[self->field];
    float *out = to->data[self->field];
    (void)error;
    for (int64_t i = 0; i < from->filled[0]; i++)
        for (run now = { 0 }; next_run(&now, self, from, i, item);)
            for (int64_t e = 0, at = now.at; e < now.count; e++, at++) {
                float x = field->dtype == ET_I32 ? (float)integers[at] : reals[at];
                out[at] = x + (self->minimum + self->range * now.number[e]);
            }
    return ET_OK;
}

/* made: as the field will be, its name and item aside. */
static int sampler_open(et_source **out, et_source *inner, const char *name, et_dtype wanted,
                        et_layout_field made, et_convert_fn *draw, sampler draws, et_error *error)
{
    const et_layout *layout = &inner->layout;
    int at = name ? et_layout_find(layout, name) : -1;
    if (at < 0)
        return et_fail(error, ET_ECONFIG, "batches have no field %s to draw from; one is called %s",
                       name ? name : "(without a name)", layout->field[0].name);
    const et_layout_field *field = &layout->field[at];
    bool fits = field->dtype == ET_F32 || field->dtype == wanted;
    if (!fits || field->kind != 0 || field->empty == ET_EMPTY_MASK ||
        field->empty == ET_EMPTY_OFFSETS)
        return et_fail(
            error, ET_ECONFIG,
            "field %s, %s for each %s: cannot draw from it; choose a field with rows of numbers",
            name, et_dtype_name(field->dtype), layout->kind[field->kind]);
    sampler *self;
    if (ET_ALLOC(self, 1, "a sampler", error))
        return ET_ENOMEM;
    *self = draws;
    self->field = at;
    self->kernels = et_kernels_best();
    made.name = field->name;
    made.item = field->item;
    int status = et_convert_open(out, inner, &made, 1, draw, self, error);
    if (status)
        et_free(self);
    else
        ((convert *)*out)->owned = true;
    return status;
}

int et_bernoulli_open(et_source **out, et_source *inner, const char *field, et_dtype dtype,
                      uint64_t seed, et_error *error)
{
    if (dtype != ET_I32 && dtype != ET_F32)
        return et_fail(error, ET_ECONFIG, "the type of drawn values is %s: choose int32 or float32",
                       et_dtype_name(dtype));
    et_layout_field made = { .dtype = dtype,
                             .empty = dtype == ET_I32 ? ET_EMPTY_NONE : ET_EMPTY_ZERO };
    return sampler_open(out, inner, field, ET_F32, made, draw_bernoulli,
                        (sampler){ .seed = seed, .site = et_random_site("bernoulli") }, error);
}

int et_noise_open(et_source **out, et_source *inner, const char *field, float minimum,
                  float maximum, uint64_t seed, et_error *error)
{
    if (!isfinite(minimum) || !isfinite(maximum) || !(minimum <= maximum) ||
        !isfinite(maximum - minimum))
        return et_fail(error, ET_ECONFIG,
                       "noise from %g to %g: give finite limits, the lower first, at most %g apart",
                       (double)minimum, (double)maximum, (double)FLT_MAX);
    sampler made = { .seed = seed,
                     .site = et_random_site("noise"),
                     .minimum = minimum,
                     .range = maximum - minimum };
    return sampler_open(out, inner, field, ET_I32, (et_layout_field){ .dtype = ET_F32 }, add_noise,
                        made, error);
}
