/* Loss scaling as in Micikevicius et al. 2018, "Mixed precision training", section 3.2, with the
 * dynamic factor of its implementations: halved at once, doubled after `every` good updates. */
#include "train/step/overflow.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "data/batches/source.h"
#include "train/step/step.h"

/* Updates left out in a row: the largest factor has been halved to 1 by then. */
#define LEFT_OUT_MAX 100
#define SCALE_MAX    0x1p100

/* Runs the batch again to name the first value that is not finite. If only the sum of several
 * batches' finite gradients is too large, there is no such value: then its norm is named. */
static int fail(et_overflow *self, et_step *step, int shard, et_error *error)
{
    char batch[768];
    (void)self;
    const char *name = et_pass_find_not_finite(step->parts.pass);
    et_source_describe(step->parts.source, step->batch, batch, sizeof batch);
    return et_fail(error, ET_EDIVERGED,
                   "step %lld: the loss or gradient is not finite, first in %s; batch: %s%s. Lower "
                   "the learning rate or clip gradients",
                   (long long)step->count + 1, name ? name : "the gradient's norm", batch,
                   name || shard == 0 ? "" : ", the last of the sum");
}

static const et_overflow_class fail_class = { .name = "fail", .not_finite = fail };

et_overflow et_overflow_fail(void)
{
    return (et_overflow){ &fail_class, 1 };
}

et_overflow et_overflow_fixed(double scale)
{
    et_assert(scale > 0);
    return (et_overflow){ &fail_class, scale };
}

static int halve_scale(et_overflow *overflow, et_step *step, int shard, et_error *error)
{
    et_overflow_scale *self = (et_overflow_scale *)overflow;
    self->in_a_row = self->in_a_row > 0 ? -1 : self->in_a_row - 1;
    if (self->in_a_row < -LEFT_OUT_MAX)
        return fail(overflow, step, shard, error);
    if (overflow->scale > 1)
        overflow->scale /= 2;
    return ET_OK;
}

static void count_good(et_overflow *overflow)
{
    et_overflow_scale *self = (et_overflow_scale *)overflow;
    self->in_a_row = self->in_a_row < 0 ? 1 : self->in_a_row + 1;
    if (self->every && self->in_a_row >= self->every) {
        self->in_a_row = 0;
        if (overflow->scale < SCALE_MAX)
            overflow->scale *= 2;
    }
}

static int save_scale(const void *self, et_value *dict, et_error *error)
{
    const et_overflow_scale *scale = self;
    (void)error;
    et_part_set_real(dict, "scale", scale->overflow.scale);
    et_value_set_int(dict, "good", scale->in_a_row);
    return ET_OK;
}

static int restore_scale(void *self, const et_value *dict, et_error *error)
{
    et_overflow_scale *scale = self;
    int status = et_part_read_real(dict, "scale", &scale->overflow.scale, error);
    if (!status && !(scale->overflow.scale >= 1))
        status = et_fail(error, ET_EFORMAT, "scale: %g is less than 1", scale->overflow.scale);
    return status ? status : et_value_read_int(dict, "good", &scale->in_a_row, error);
}

static const et_part_class scale_part = { "loss scale", save_scale, restore_scale };

static const et_overflow_class scale_class = { "scale", halve_scale, count_good, &scale_part };

et_overflow_scale et_overflow_scaled(double scale, int64_t every)
{
    et_assert(scale >= 1 && every >= 0);
    return (et_overflow_scale){ { &scale_class, scale }, every, 0 };
}
