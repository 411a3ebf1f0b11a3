/* What is drawn anew in each pass. Element e of a sample is element e of a stretch of its own in
 * the numbers of (seed, epoch): stretches are whole blocks of four, so a block is made once. */
#include <math.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/philox.h"
#include "data/convert.h"

#define BLOCK 4
#define WORD  0x1p-24f /* of the upper 24 bits */

typedef struct sampler {
    int field; /* in the batches within, and in those that are made */
    uint64_t seed;
    float minimum, range; /* of noise */
} sampler;

/* A sample's stretch of numbers, element after element. */
typedef struct stretch {
    et_random random;
    uint64_t block; /* the next */
    et_philox_block words;
} stretch;

static stretch stretch_of(const sampler *self, const char *use, const et_batch *batch, int64_t i,
                          int64_t item)
{
    uint64_t blocks = (uint64_t)((item + BLOCK - 1) / BLOCK);
    return (stretch){ .random = { self->seed, (uint64_t)batch->epoch, et_random_site(use) },
                      .block = batch->sample[i] * blocks };
}

/* [0, 1), as et_random_uniform; elements in order. */
static float uniform(stretch *s, int64_t element)
{
    if (element % BLOCK == 0)
        s->words = et_random_block(s->random, s->block++);
    return (float)(s->words.word[element % BLOCK] >> 8) * WORD;
}

/* NaN is none either. */
static int no_probability(const et_batch *batch, const char *field, int64_t i, float value,
                          et_error *error)
{
    return et_fail(error, ET_EDATA, "%s of sample %lu has %g, which is no probability: from 0 to 1",
                   field, (unsigned long)batch->sample[i], (double)value);
}

static int draw_bernoulli(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    const sampler *self = payload;
    const et_layout_field *field = &to->layout->field[self->field];
    const int64_t item = et_shape_count(field->item);
    const float *p = from->data[self->field];
    float *reals = to->data[self->field];
    int32_t *integers = to->data[self->field];
    for (int64_t i = 0; i < from->filled[0]; i++) {
        stretch numbers = stretch_of(self, "bernoulli", from, i, item);
        for (int64_t e = 0, at = i * item; e < item; e++, at++) {
            if (!(p[at] >= 0 && p[at] <= 1))
                return no_probability(from, field->name, i, p[at], error);
            bool one = uniform(&numbers, e) < p[at];
            if (field->dtype == ET_I32)
                integers[at] = one;
            else
                reals[at] = one ? 1 : 0;
        }
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
    for (int64_t i = 0; i < from->filled[0]; i++) {
        stretch numbers = stretch_of(self, "noise", from, i, item);
        for (int64_t e = 0, at = i * item; e < item; e++, at++) {
            float x = field->dtype == ET_I32 ? (float)integers[at] : reals[at];
            out[at] = x + (self->minimum + self->range * uniform(&numbers, e));
        }
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
        return et_fail(error, ET_ECONFIG, "batches have no field %s to draw from; one is %s",
                       name ? name : "(without a name)", layout->field[0].name);
    const et_layout_field *field = &layout->field[at];
    bool fits = field->dtype == ET_F32 || field->dtype == wanted;
    if (!fits || field->kind != 0 || field->empty == ET_EMPTY_MASK ||
        field->empty == ET_EMPTY_OFFSETS)
        return et_fail(error, ET_ECONFIG,
                       "field %s, %s for each %s: rows of numbers are drawn from", name,
                       et_dtype_name(field->dtype), layout->kind[field->kind]);
    sampler *self = et_alloc(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a sampler");
    *self = draws;
    self->field = at;
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
        return et_fail(error, ET_ECONFIG, "0 and 1 as %s: int32 or float32", et_dtype_name(dtype));
    et_layout_field made = { .dtype = dtype,
                             .empty = dtype == ET_I32 ? ET_EMPTY_NONE : ET_EMPTY_ZERO };
    return sampler_open(out, inner, field, ET_F32, made, draw_bernoulli, (sampler){ .seed = seed },
                        error);
}

int et_noise_open(et_source **out, et_source *inner, const char *field, float minimum,
                  float maximum, uint64_t seed, et_error *error)
{
    if (!isfinite(minimum) || !isfinite(maximum) || !(minimum <= maximum) ||
        !isfinite(maximum - minimum))
        return et_fail(error, ET_ECONFIG, "noise from %g to %g: finite, and not falling",
                       (double)minimum, (double)maximum);
    sampler made = { .seed = seed, .minimum = minimum, .range = maximum - minimum };
    return sampler_open(out, inner, field, ET_I32, (et_layout_field){ .dtype = ET_F32 }, add_noise,
                        made, error);
}
