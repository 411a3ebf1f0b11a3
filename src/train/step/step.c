/* A step. Everything before the update only reads the weights. So a save may read them at the same
 * time, and a step that diverges changes nothing but gradients. The loss is checked before the
 * update, the gradient inside it, before any weight changes. */
#include "train/step/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/flag.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"
#include "formats/events/log_names.h"
#include "train/step/update.h"

/* ---- overflow ---- */

/* Loss scaling as in Micikevicius et al. 2018, "Mixed precision training", section 3.2, with the
 * dynamic factor of its implementations: halved at once, doubled after `every` good updates. */

/* Updates left out in a row: the largest factor has been halved to 1 by then. */
#define LEFT_OUT_MAX 100
#define SCALE_MAX    0x1p100

/* Writes "row 17 has nan in x" if the batch's field of this name has a value that is not finite. */
static bool describe_value(const et_step *step, const char *name, char *text, size_t size)
{
    const et_layout *layout = step->batch->layout;
    const int k = et_layout_find(layout, name);
    const et_layout_field *field = k < 0 ? NULL : &layout->field[k];
    if (!field || field->kind || field->dtype != ET_F32)
        return false;
    const int64_t each = et_shape_count(field->item), count = step->batch->filled[0] * each;
    const float *value = step->batch->data[k];
    int64_t i = 0;
    while (i < count && isfinite(value[i]))
        i++;
    if (i == count)
        return false;
    et_batch one = *step->batch;
    one.sample += i / each;
    one.filled[0] = 1;
    et_source_describe(step->parts.source, &one, text, size);
    const size_t used = strlen(text);
    snprintf(text + used, size - used, " has %g in %s", (double)value[i], name);
    return true;
}

/* Runs the batch again to name the first value that is not finite. If only the sum of several
 * batches' finite gradients is too large, there is no such value: then its norm is named. */
static int fail(et_overflow *self, et_step *step, int shard, et_error *error)
{
    char batch[768];
    (void)self;
    const char *name = et_pass_find_not_finite(step->parts.pass);
    if (name && describe_value(step, name, batch, sizeof batch))
        return et_fail(error, ET_EDIVERGED,
                       "step %lld: the loss or gradient is not finite: %s; correct this value",
                       (long long)step->count + 1, batch);
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

/* ---- steps ---- */

#define UPDATES   10
#define NAMED_MAX 4

/* ---- parameters that get no gradient ---- */

static bool is_zero(const float *gradient, int64_t count)
{
    int64_t i = 0;
    while (i < count && gradient[i] == 0)
        i++;
    return i == count;
}

static void examine_unreached(et_unreached *unreached, const et_params *params,
                              const float *gradient)
{
    et_unreached *u = unreached;
    int left = 0;
    if (!u->count)
        return;
    for (int i = 0; i < u->count; i++)
        if (is_zero(gradient + et_params_offset(params, u->param[i]),
                    et_shape_count(et_params_shape(params, u->param[i]))))
            u->param[left++] = u->param[i];
    u->count = left;
    if (++u->updates < UPDATES || !left)
        return;
    et_strbuf names = ET_STRBUF_INIT;
    for (int i = 0; i < u->count && i < NAMED_MAX; i++)
        et_strbuf_printf(&names, "%s%.100s", i ? ", " : "", et_params_name(params, u->param[i]));
    if (u->count > NAMED_MAX)
        et_strbuf_printf(&names, " and %d more", u->count - NAMED_MAX);
    et_log(ET_LOG_WARNING,
           "%d of %d parameters are not trained: their gradient was exactly zero in the first %d "
           "updates (%s). Zeros before a relu cause this, and inputs that are all zeros: start "
           "from random values, or choose another model",
           u->count, u->trained, UPDATES, et_strbuf_text(&names));
    et_strbuf_release(&names);
    u->count = 0;
}

/* ---- making ---- */

int et_judge_loss(et_loss_bound bound, const char *name, double loss, int64_t step, et_error *error)
{
    if (!(bound.most > 0 && loss > bound.most && step >= bound.from))
        return ET_OK;
    return et_fail(error, ET_EDIVERGED,
                   "step %lld: %s is %g, more than loss_upper_bound %g. Lower the learning rate or "
                   "clip gradients",
                   (long long)step, name, loss, bound.most);
}

static int define_ratio(et_metrics *metrics, const char *prefix, const char *measure, int *index,
                        et_error *error)
{
    char name[256];
    snprintf(name, sizeof name, "%s%s", prefix, measure);
    int status = et_metrics_define(metrics, name, &et_metric_ratio, error);
    if (!status)
        *index = et_metrics_index(metrics, name);
    return status;
}

int et_define_measures(et_metrics *metrics, const et_pass *pass, const char *prefix,
                       const char *skip, int *index, et_error *error)
{
    const int measures = et_pass_measures(pass);
    const bool total = !skip && !et_pass_loss_is_measured(pass, ET_LOGGED_LOSS);
    int status = ET_OK;
    index[measures] = -1;
    if (total)
        status = define_ratio(metrics, prefix, ET_LOGGED_LOSS, &index[measures], error);
    for (int i = 0; !status && i < measures; i++) {
        const char *measure = et_pass_measured(pass, i).name;
        index[i] = -1;
        if (strcmp(measure, skip ? skip : total ? ET_LOGGED_LOSS : "") != 0)
            status = define_ratio(metrics, prefix, measure, &index[i], error);
    }
    return status;
}

/* The norm comes after the measures and the loss. */
static int define_metrics(et_step *step, const et_step_parts *parts, et_error *error)
{
    static const char norm[] = ET_LOGGED_GRADIENT_NORM;
    int measures = et_pass_measures(step->parts.pass);
    if (ET_ALLOC(step->metric, (size_t)measures + 2, "a step", error))
        return ET_ENOMEM;
    int status = et_define_measures(step->parts.metrics, step->parts.pass, parts->prefix,
                                    parts->skip, step->metric, error);
    if (!status)
        status = et_metrics_define(step->parts.metrics, norm, &et_metric_mean, error);
    if (!status)
        step->metric[measures + 1] = et_metrics_index(step->parts.metrics, norm);
    return status;
}

int et_step_open(et_step *step, const et_step_parts *parts, et_error *error)
{
    *step = (et_step){ .parts = *parts,
                       .reducer = parts->reducer,
                       .update_cost = et_optimizer_cost(parts->optimizer),
                       .loss = NAN };
    const size_t all = (size_t)et_params_count(et_pass_params(parts->pass));
    et_unreached *u = &step->unreached;
    step->track = et_device_track(et_pass_device(parts->pass));
    int status;
    if ((status = et_batch_new(&step->batch, &step->parts.source->layout, error)) ||
        (status =
             et_pass_variant(step->parts.pass, &step->parts.source->layout, &step->variant, error)))
        return status;
    if (step->reducer->first == 0) {
        if (ET_ALLOC(u->param, all + 1, "a step", error))
            return ET_ENOMEM;
        for (int i = 0, param; (param = et_optimizer_param(parts->optimizer, i)) >= 0; i++)
            if (et_pass_reaches(parts->pass, param))
                u->param[u->count++] = param;
        u->trained = u->count;
    }
    return define_metrics(step, parts, error);
}

void et_step_release(et_step *step)
{
    et_batch_free(step->batch);
    et_reducer_close(step->reducer);
    et_free(step->unreached.param);
    step->unreached = (et_unreached){ .param = NULL };
    et_free(step->metric);
    *step = (et_step){ 0 };
}

static void sane(const et_step *step)
{
    et_assert(step->parts.source && step->parts.pass && step->parts.optimizer &&
              step->parts.overflow && step->parts.metrics);
    et_assert(step->reducer && step->batch && step->metric);
    et_assert(step->reducer->shards >= 1 && step->reducer->first < step->reducer->end);
    et_assert(step->drawn >= 0 && step->drawn <= step->reducer->shards);
    et_assert(!step->taken || step->drawn == 1);
    et_assert(step->count >= 0 && step->units >= 0);
}

static const et_activity data_activity = { .name = "next batch", .kind = "waiting for data" };
static const et_activity update_activity = { .name = "update", .kind = "update" };

/* A span of its own: its length is how long training waits for data. */
static int take_batch(et_step *step, int shard, et_error *error)
{
    et_track_begin(step->track, &data_activity, et_step_number(step, shard) + 1);
    int status =
        step->parts.hooks.next
            ? step->parts.hooks.next(step->parts.hooks.self, step->parts.source, step->batch, error)
            : et_source_next(step->parts.source, step->batch, error);
    et_track_end(step->track);
    if (!status && !step->batch->filled[0])
        status = et_fail(error, ET_EDATA,
                         "the data ended at step %lld: make it repeat, or train fewer steps",
                         (long long)step->count + 1);
    step->units += step->batch->filled[step->parts.source->layout.unit];
    return status;
}

/* The weights may change when no save reads them. Only the optimizer waits for this: all other
 * computing of a step may run during a save. */
static int apply(et_step *step, et_error *error)
{
    examine_unreached(&step->unreached, et_pass_params(step->parts.pass), step->sum.gradient);
    et_track_begin(step->track, &update_activity, -1);
    int status = et_update_apply(step->parts.optimizer, &step->sum, step->parts.overflow->scale,
                                 &step->update, error);
    et_track_end_with(step->track, step->update_cost);
    return status;
}

/* After the update, which has measured it. */
void et_step_add_norm(et_step *step)
{
    et_assert(step->updated);
    et_metrics_add_at(step->parts.metrics, step->metric[step->sum.measures + 1],
                      step->update.gradient_norm, 1);
}

/* A mean over rows weighs by rows: windows of unequal batches are exact. */
void et_step_add_measures(et_step *step)
{
    const et_measured *measured = step->sum.measured;
    for (int i = 0, count = step->sum.measures; i < count; i++)
        et_metrics_add_at(step->parts.metrics, step->metric[i], measured[i].total,
                          measured[i].weight);
    et_metrics_add_at(step->parts.metrics, step->metric[step->sum.measures], step->sum.loss,
                      step->sum.divisor);
}

int et_step_go_back(et_step *step, et_error *error)
{
    et_assert(step->reducer->shards > 1);
    return et_source_seek(step->parts.source, &step->begin, error);
}

/* Up to batch number `shard` of the step: those before it that are other ranks' are passed over. */
static int reach(et_step *step, int shard, et_error *error)
{
    int status = ET_OK;
    while (!status && step->drawn <= shard)
        status = take_batch(step, step->drawn++, error);
    return status;
}

/* The rank that computed the shard describes the failure. A skipped step still consumes its batches
 * on every rank if the position in the data must not depend on which rank computed them. */
static int not_finite(et_step *step, int shard, et_error *error)
{
    et_reducer *reducer = step->reducer;
    int status = step->parts.overflow->class->not_finite(step->parts.overflow, step, shard, error);
    if (status)
        status = et_reducer_failed(reducer, shard, status, error);
    step->count += !status;
    int drawn = reducer->whole ? reach(step, reducer->shards - 1, status ? NULL : error) : ET_OK;
    return status ? status : drawn;
}

int et_step_take(et_step *step, et_error *error)
{
    sane(step);
    if (step->taken)
        return ET_OK;
    step->units = 0;
    step->updated = false;
    step->loss = NAN;
    if (step->reducer->shards > 1)
        et_source_position(step->parts.source, &step->begin);
    step->drawn = 1;
    int status = take_batch(step, 0, error);
    step->taken = !status;
    return status;
}

/* A shard of this process; the last one also takes the step's other batches. */
static int run_shard(void *self, int shard, et_error *error)
{
    et_step *step = self;
    const et_step_parts *parts = &step->parts;
    et_reducer *reducer = step->reducer;
    if (shard > reducer->first && et_flag_is_set(parts->stop))
        return ET_EINTERRUPTED;
    int status;
    if ((status = reach(step, shard, error)) ||
        (status = et_pass_check(parts->pass, step->variant, step->batch, error)))
        return status;
    et_reducer_expect(reducer, shard);
    et_pass_run_variant(parts->pass, step->variant, step->batch, parts->seed,
                        (uint64_t)et_step_number(step, shard));
    status = et_reducer_add(reducer, shard, parts->pass, error);
    if (!status && parts->hooks.seen)
        status = parts->hooks.seen(parts->hooks.self, step, error);
    if (status || shard + 1 < reducer->end || !reducer->whole)
        return status;
    return reach(step, reducer->shards - 1, error);
}

int et_step_gather(et_step *step, bool *left_out, et_error *error)
{
    *left_out = false;
    int status = et_step_take(step, error);
    if (status)
        return status;
    step->taken = false;
    et_assert(step->parts.overflow->scale > 0);
    et_pass_set_scale(step->parts.pass, (float)step->parts.overflow->scale);
    et_pass_set_dropout(step->parts.pass, et_optimizer_regularization(step->parts.optimizer));
    step->reducer->seed = step->parts.seed;
    step->reducer->step = step->count;
    status = et_reducer_sum(step->reducer, ET_OK, run_shard, step, &step->sum, error);
    *left_out = status == ET_EDIVERGED;
    if (*left_out)
        return not_finite(step, step->reducer->bad, error);
    if (status != ET_EINTERRUPTED || step->reducer->shards == 1)
        return status;
    /* An update of many batches may take minutes, too long for a user who asks to stop. So far it
     * has changed only the sum of gradients and the position in the data. */
    status = et_step_go_back(step, error);
    return status ? status
                  : et_fail(error, ET_EINTERRUPTED, "asked to stop in step %lld",
                            (long long)step->count + 1);
}

void et_step_updated(et_step *step)
{
    et_assert(!step->taken);
    step->count++;
    step->updated = true;
    if (step->sum.divisor > 0)
        step->loss = step->sum.loss / step->sum.divisor;
}

int et_step_update(et_step *step, et_error *error)
{
    bool left_out;
    int status = et_step_gather(step, &left_out, error);
    if (status || left_out)
        return status;
    const double loss = et_mean_of(step->sum.loss, step->sum.divisor);
    if ((status = et_judge_loss(step->parts.bound, "the loss", loss, step->count + 1, error)) ||
        (status = apply(step, error)))
        return status;
    if (!step->update.finite)
        return not_finite(step, step->reducer->shards - 1, error);
    et_overflow_good(step->parts.overflow);
    et_update_finish(step->parts.optimizer, step->parts.pass, step->sum.means);
    et_step_updated(step);
    return ET_OK;
}

int et_step_run(et_step *step, et_error *error)
{
    int status = et_step_update(step, error);
    if (!status && step->updated) {
        et_step_add_measures(step);
        et_step_add_norm(step);
    }
    return status;
}
