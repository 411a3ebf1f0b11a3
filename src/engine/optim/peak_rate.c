/* The peak of a schedule, as one number instead of its settings. A row names the setting of a
 * schedule that is its peak; schedules by a power of the step are scaled to reach it at the end of
 * their warm-up. */
#include <math.h>
#include <stddef.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "engine/optim/options.h"
#include "engine/optim/schedule.h"

#define AT(member) offsetof(et_rate_options, member)

/* A schedule's highest rate. other: the setting that a wrong peak exceeds, or that makes it grow.
 */
typedef struct peak {
    const char *name;
    size_t rate;   /* a double; 0: values are the texts */
    size_t values; /* an et_strings */
    size_t power;  /* a double, the exponent of the step; 0: none */
    size_t offset; /* an int64_t, of steps before it */
    const char *other;
    size_t lowest, growth; /* doubles: at most the peak; at most 1 */
} peak;

static const peak peaks[ET_RATE_COUNT] = {
    [ET_RATE_CONSTANT] = { .name = "constant.learning_rate", .rate = AT(constant.learning_rate) },
    [ET_RATE_STEPWISE] = { .name = "stepwise.values", .values = AT(stepwise.values) },
    [ET_RATE_EXPONENTIAL] = { .name = "exponential.initial_learning_rate",
                              .rate = AT(exponential.initial_learning_rate),
                              .other = "exponential.decay_rate",
                              .growth = AT(exponential.decay_rate) },
    [ET_RATE_POLYNOMIAL] = { .name = "polynomial.initial_learning_rate",
                             .rate = AT(polynomial.initial_learning_rate),
                             .other = "polynomial.end_learning_rate",
                             .lowest = AT(polynomial.end_learning_rate) },
    [ET_RATE_COSINE] = { .name = "cosine.initial_learning_rate",
                         .rate = AT(cosine.initial_learning_rate) },
    [ET_RATE_COSINE_RESTARTS] = { .name = "cosine_restarts.initial_learning_rate",
                                  .rate = AT(cosine_restarts.initial_learning_rate),
                                  .other = "cosine_restarts.m_mul",
                                  .growth = AT(cosine_restarts.m_mul) },
    [ET_RATE_POWER] = { .name = "power.initial_learning_rate",
                        .rate = AT(power.initial_learning_rate),
                        .power = AT(power.power),
                        .other = "power.power" },
    [ET_RATE_POWER_LINEAR] = { .name = "power_linear.initial_learning_rate",
                               .rate = AT(power_linear.initial_learning_rate),
                               .power = AT(power_linear.power),
                               .offset = AT(power_linear.offset),
                               .other = "power_linear.power" },
    [ET_RATE_POWER_WITH_OFFSET] = { .name = "power_with_offset.pre_offset_learning_rate",
                                    .rate = AT(power_with_offset.pre_offset_learning_rate) },
    [ET_RATE_STEP_COSINE_WITH_OFFSET] = { .name = "step_cosine_with_offset.values",
                                          .values = AT(step_cosine_with_offset.values) },
    [ET_RATE_INVERSE_SQRT] = { .name = "inverse_sqrt.peak_learning_rate",
                               .rate = AT(inverse_sqrt.peak_learning_rate),
                               .other = "inverse_sqrt.warmup_init_learning_rate",
                               .lowest = AT(inverse_sqrt.warmup_init_learning_rate) },
    [ET_RATE_COSINE_LOG] = { .name = "cosine_log.peak_learning_rate",
                             .rate = AT(cosine_log.peak_learning_rate) },
};

const char *et_optimization_peak_name(const et_optimization_options *options)
{
    const int type = options->learning_rate.type;
    return peaks[type == ET_RATE_NONE ? ET_RATE_CONSTANT : type].name;
}

static double number(const et_rate_options *rate, size_t at)
{
    return at ? *(const double *)(const void *)((const char *)rate + at) : 0;
}

static int refuse(const peak *of, double wanted, const char *why, double found, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "trainer.optimizer_config.learning_rate: %g: %s is %g, %s; set "
                   "trainer.optimizer_config.learning_rate.%s instead",
                   wanted, of->other, found, why, of->name);
}

/* The values by one factor, so that the largest is wanted. */
static int scale(et_strings *values, const char *name, double wanted, et_arena *arena,
                 et_error *error)
{
    double largest = 0, value;
    bool epochs;
    for (size_t i = 0; i < values->count; i++)
        if (et_schedule_read(values->items[i], &value, &epochs) && !epochs)
            largest = fmax(largest, value);
    if (largest <= 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate: %g cannot scale a schedule without "
                       "values; set trainer.optimizer_config.learning_rate.%s",
                       wanted, name);
    const char **items = et_arena_array(arena, values->count, sizeof *items);
    for (size_t i = 0; items && i < values->count; i++) {
        const bool read = et_schedule_read(values->items[i], &value, &epochs) && !epochs;
        items[i] =
            read ? et_arena_printf(arena, "%.12g", value / largest * wanted) : values->items[i];
        if (!items[i])
            items = NULL;
    }
    if (!items)
        return et_alloc_failed(error, values->count * sizeof *items, "learning rates");
    values->items = items;
    return ET_OK;
}

/* The factor that a power of the step applies to the rate at the end of the warm-up. */
static double share_at_peak(const et_optimization_options *options, const peak *of)
{
    const et_rate_options *rate = &options->learning_rate;
    const et_warmup_options *warmup = &options->warmup;
    const int64_t steps = warmup->type == ET_WARMUP_LINEAR       ? warmup->linear.warmup_steps
                          : warmup->type == ET_WARMUP_POLYNOMIAL ? warmup->polynomial.warmup_steps
                                                                 : 0;
    const int64_t offset =
        of->offset ? *(const int64_t *)(const void *)((const char *)rate + of->offset) : 0;
    return of->power ? pow(fmax((double)(steps - offset), 1), number(rate, of->power)) : 1;
}

int et_optimization_use_peak(et_optimization_options *options, et_arena *arena, et_error *error)
{
    et_rate_options *rate = &options->learning_rate;
    const double wanted = rate->peak;
    rate->peak = -1;
    if (wanted < 0)
        return ET_OK;
    if (rate->type == ET_RATE_NONE)
        rate->type = ET_RATE_CONSTANT;
    const peak *of = &peaks[rate->type];
    et_assert(of->name);
    if (of->lowest && number(rate, of->lowest) > wanted)
        return refuse(of, wanted, "which is larger", number(rate, of->lowest), error);
    if (of->growth && number(rate, of->growth) > 1)
        return refuse(of, wanted, "so the rate increases and has no peak", number(rate, of->growth),
                      error);
    if (of->power && number(rate, of->power) > 0)
        return refuse(of, wanted, "so the rate increases and has no peak", number(rate, of->power),
                      error);
    if (of->values)
        return scale((et_strings *)(void *)((char *)rate + of->values), of->name, wanted, arena,
                     error);
    *(double *)(void *)((char *)rate + of->rate) = wanted / share_at_peak(options, of);
    return ET_OK;
}
