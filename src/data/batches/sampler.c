/* Random values that differ in each pass. Element e of a sample is element e of the sample's
 * stretch of the numbers of (seed, epoch). Stretches are whole blocks of four, so each block is
 * computed once. */
#include <float.h>
#include <math.h>

#include <etude/dtype.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "data/batches/source.h"
#include "engine/kernel/kernels.h"

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

/* Gets the next run of a sample, row i of item elements; false: none. A kernel draws in [-1, 1),
 * whose way back is exact. */
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

/* Names the first value that is not a probability. */
static int no_probability(const et_batch *batch, const char *field, int64_t i, const float *p,
                          et_error *error)
{
    while (*p >= 0 && *p <= 1)
        p++;
    return et_fail(error, ET_EDATA, "%s of sample %lu is %g: give a probability from 0 to 1", field,
                   (unsigned long)batch->sample[i], (double)*p);
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
        if (!are_probabilities(p + i * item, item))
            return no_probability(from, field->name, i, p + i * item, error);
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
    sampler *self = et_alloc(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a sampler");
    *self = draws;
    self->field = at;
    self->kernels = et_kernels_best();
    made.name = field->name;
    made.item = field->item;
    int status = et_convert_adopt(out, inner, &made, 1, draw, self, error);
    if (status)
        et_free(self);
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
