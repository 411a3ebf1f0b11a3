/* Schedules as rows of a table: a check of the settings and a formula each. Formulas are those of
 * Model Garden and Keras (docs of tf.keras.optimizers.schedules), with T a number of steps and s =
 * step - offset. All are in double: a rate is computed once per step, and the rule rounds it once.
 *
 * Invariants:
 *
 *   (1) et_schedule_rate is a pure function of the schedule and the step, so a resumed run
 *       continues with the same bits;
 *   (2) after init a schedule borrows nothing: lists of texts have become numbers;
 *   (3) after a successful init, no formula divides by zero from the offset on.
 *
 * The warm-up is not a separate schedule: it replaces the first steps of one: rate(step) =
 * warm(step, rate(W)) for step < W. Only inverse_sqrt has its own warm-up. */
#include "engine/optim/schedule.h"

#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/inline.h"
#include "base/numbers/decimal.h"

/* C17 has no name for it. */
#define PI 3.14159265358979323846

/* A position so near to a period's end counts as a restart: it is less than one step, and more than
 * rounding errors. */
#define RESTART_NEAR 1e-12

/* For settings of a schedule whose default 0 means "not given". */
static int missing(const char *type, const char *name, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "trainer.optimizer_config.learning_rate.%s.%s: give a number greater than 0",
                   type, name);
}

static double constant_rate(const et_schedule *self, double step)
{
    (void)step;
    return self->options.constant.learning_rate;
}

bool et_schedule_read(const char *text, double *number, bool *epochs)
{
    char *end;
    *number = et_decimal_read(text, &end);
    *epochs = end != text && !strcmp(end, "ep");
    return end != text && (!*end || *epochs) && isfinite(*number) && *number >= 0;
}

/* Reads the texts of a list as numbers: rates or, if epoch is not NULL, steps, where *epoch is the
 * steps of an epoch. */
static int read_numbers(double *to, et_strings texts, const double *epoch, const char *type,
                        const char *name, et_error *error)
{
    if (texts.count > ET_SCHEDULE_VALUES_MAX)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.%s.%s: %zu numbers; give at most %d",
                       type, name, texts.count, ET_SCHEDULE_VALUES_MAX);
    for (size_t i = 0; i < texts.count; i++) {
        bool epochs;
        if (!et_schedule_read(texts.items[i], &to[i], &epochs) || (epochs && !epoch))
            return et_fail(
                error, ET_ECONFIG,
                "trainer.optimizer_config.learning_rate.%s.%s: '%s' is not a number of at least 0",
                type, name, texts.items[i]);
        if (epochs)
            to[i] *= *epoch;
    }
    return ET_OK;
}

/* Reads both lists; boundaries must ascend strictly, or a value would have no step. Boundaries in
 * epochs whose steps are unknown are compared later. */
static int read_values(et_schedule *self, const char *type, et_strings boundaries,
                       et_strings values, et_error *error)
{
    const double epoch = self->options.run.epoch_steps > 0 ? self->options.run.epoch_steps : NAN;
    int status = read_numbers(self->values, values, NULL, type, "values", error);
    if (!status)
        status = read_numbers(self->boundaries, boundaries, &epoch, type, "boundaries", error);
    self->pieces = (int)values.count;
    for (size_t i = 1; !status && i < boundaries.count; i++)
        if (self->boundaries[i] <= self->boundaries[i - 1])
            status = et_fail(
                error, ET_ECONFIG,
                "trainer.optimizer_config.learning_rate.%s.boundaries: %g follows %g; sort them",
                type, self->boundaries[i], self->boundaries[i - 1]);
    return status;
}

/* n values, n - 1 boundaries: at each boundary one value ends. */
static int stepwise_init(et_schedule *self, et_error *error)
{
    const et_rate_stepwise *o = &self->options.stepwise;
    if (!o->values.count || o->boundaries.count + 1 != o->values.count)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.stepwise: %zu boundaries and %zu "
                       "values; give one more value than boundaries",
                       o->boundaries.count, o->values.count);
    return read_values(self, "stepwise", o->boundaries, o->values, error);
}

/* v[0] up to and at b[0], v[i] on (b[i-1], b[i]], the last value after the last boundary. */
static double stepwise_rate(const et_schedule *self, double step)
{
    int piece = 0;
    /* At most 63 comparisons a step; the boundary itself belongs to the piece it ends. */
    while (piece < self->pieces - 1 && step > self->boundaries[piece])
        piece++;
    return self->values[piece];
}

/* A factor of 0 would be 0^0 at the first step and 0 ever after. */
static int exponential_init(et_schedule *self, et_error *error)
{
    return self->options.exponential.decay_rate <= 0 ? missing("exponential", "decay_rate", error)
                                                     : ET_OK;
}

/* initial * decay_rate^(step / D); staircase: the exponent is rounded down. */
static double exponential_rate(const et_schedule *self, double step)
{
    const et_schedule_exponential *o = &self->options.exponential;
    double exponent = step / (double)o->decay_steps;
    if (o->staircase)
        exponent = floor(exponent);
    return o->initial_learning_rate * pow(o->decay_rate, exponent);
}

/* (initial - end) * (1 - s / T)^power + end, end and power 0 included, held at T; cycle: T grows to
 * the multiple of itself that is next. Example, 1 to 0 over T = 100 with power 1: at 150 without
 * cycle 0; with cycle T is 200 there, so 1 - 150/200 = 0.25. */
static double polynomial_rate(const et_schedule *self, double step)
{
    const et_schedule_polynomial *o = &self->options.polynomial;
    double steps = (double)o->decay_steps;
    if (!o->cycle)
        step = fmin(step, steps);
    else if (step != 0)
        steps *= ceil(step / steps);
    return (o->initial_learning_rate - o->end_learning_rate) * pow(1 - step / steps, o->power) +
           o->end_learning_rate;
}

/* initial * ((1 - alpha) * (1 + cos(pi s / T)) / 2 + alpha), held at T. (Loshchilov and
 * Hutter 2017, one period.) At T / 2 and alpha 0 it is half the initial rate. */
static double cosine_rate(const et_schedule *self, double step)
{
    const et_schedule_cosine *o = &self->options.cosine;
    double done = fmin(step, (double)o->decay_steps) / (double)o->decay_steps;
    return o->initial_learning_rate * ((1 - o->alpha) * 0.5 * (1 + cos(PI * done)) + o->alpha);
}

/* The cosine again and again, period i being t_mul^i first periods long and m_mul^i as high.
 * After n periods 1 + t + ... + t^(n-1) = (1 - t^n) / (1 - t) first periods have passed, which
 * solved for n gives the logarithm below. t_mul is at least 1, by the table of options. */
static double cosine_restarts_rate(const et_schedule *self, double step)
{
    const et_rate_cosine_restarts *o = &self->options.cosine_restarts;
    double t = o->t_mul;
    double f = step / (double)o->first_decay_steps;
    double restart;
    /* f: share of the current period; periods are 1, t, t^2, ... first periods long. */
    if (t == 1) {
        restart = floor(f);
        f -= restart;
    } else {
        restart = floor(log(1 - f * (1 - t)) / log(t));
        f = (f - (1 - pow(t, restart)) / (1 - t)) / pow(t, restart);
        /* The logarithms' quotient of a step at a restart may be rounded to either side of it. */
        if (f > 1 - RESTART_NEAR) {
            restart++;
            f = 0;
        }
    }
    /* alpha is the rate at the end of each period, whatever the height: it is outside the product
     * with m. */
    double height = pow(o->m_mul, restart);
    return o->initial_learning_rate *
           ((1 - o->alpha) * 0.5 * height * (1 + cos(PI * f)) + o->alpha);
}

/* initial * max(s, 1)^power: step 0 has no value with a negative power, so it gets that of step 1.
 * Here s = step, there is no offset. */
static double power_rate(const et_schedule *self, double step)
{
    const et_rate_power *o = &self->options.power;
    return o->initial_learning_rate * pow(fmax(step, 1), o->power);
}

/* initial * max(s, 1)^power, times a line from 1 to 0 over the last fraction f of T steps:
 * min(1, (T - s) / (T f)), not below 0. Example, initial 1, power -1, f = 0.5, T = 100: 1/40
 * at 40, (1/60) 0.8 at 60, 0 from 100 on. */
static double power_linear_rate(const et_schedule *self, double step)
{
    const et_rate_power_linear *o = &self->options.power_linear;
    double total = (double)o->total_decay_steps;
    double rate = o->initial_learning_rate * pow(fmax(step, 1), o->power);
    if (o->linear_decay_fraction > 0)
        rate *= fmax(fmin(1, (total - step) / (total * o->linear_decay_fraction)), 0);
    return rate;
}

/* As power, counted from the offset and never above the rate before it. Step `offset` itself
 * still has pre_offset_learning_rate, step 0 with an offset of 0 too: as Model Garden has it. */
static double power_with_offset_rate(const et_schedule *self, double step)
{
    const et_rate_power_with_offset *o = &self->options.power_with_offset;
    if (step <= 0)
        return o->pre_offset_learning_rate;
    return fmin(o->pre_offset_learning_rate,
                o->initial_learning_rate * pow(fmax(step, 1), o->power));
}

/* n values, n boundaries: at each boundary one value begins to fall to the next. */
static int step_cosine_init(et_schedule *self, et_error *error)
{
    const et_rate_step_cosine_with_offset *o = &self->options.step_cosine_with_offset;
    if (!o->values.count)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.step_cosine_with_offset.values: "
                       "give at least one number");
    if (o->boundaries.count != o->values.count)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.step_cosine_with_offset: %zu "
                       "boundaries and %zu values; give equal numbers of both",
                       o->boundaries.count, o->values.count);
    return read_values(self, "step_cosine_with_offset", o->boundaries, o->values, error);
}

/* On [b[i], b[i+1]]: (v[i] - v[i+1]) (1 + cos(pi (s - b[i]) / (b[i+1] - b[i]))) / 2 + v[i+1].
 * From 0 to b[0] it is v[0]. Below 0, before the offset, the first formula holds with b[0] = 0. */
static double step_cosine_rate(const et_schedule *self, double step)
{
    const double *b = self->boundaries, *v = self->values;
    int piece = 0;
    while (piece < self->pieces - 1 && step >= b[piece + 1])
        piece++;
    if (piece == self->pieces - 1 || (step >= 0 && step <= b[piece]))
        return v[piece];
    double done = (step - (step < 0 ? 0 : b[piece])) / (b[piece + 1] - b[piece]);
    return (v[piece] - v[piece + 1]) * 0.5 * (1 + cos(PI * done)) + v[piece + 1];
}

/* A second warm-up would overlap the first and lower the rate twice. */
static int inverse_sqrt_init(et_schedule *self, et_error *error)
{
    if (self->warmup.type != ET_WARMUP_NONE)
        return et_fail(
            error, ET_ECONFIG,
            "trainer.optimizer_config.warmup.type: learning_rate.type inverse_sqrt warms up by "
            "itself; set warmup.type to none");
    if (self->options.inverse_sqrt.warmup_steps <= 0)
        return missing("inverse_sqrt", "warmup_steps", error);
    return ET_OK;
}

/* init + step * (peak - init) / W, then peak * sqrt(W / step): what fairseq documents as
 * inverse_sqrt. Its step is the number of updates done, as ours. */
static double inverse_sqrt_rate(const et_schedule *self, double step)
{
    const et_schedule_inverse_sqrt *o = &self->options.inverse_sqrt;
    double warmup = (double)o->warmup_steps;
    double rise = (o->peak_learning_rate - o->warmup_init_learning_rate) / warmup;
    if (step < warmup)
        return o->warmup_init_learning_rate + step * rise;
    return o->peak_learning_rate * sqrt(warmup / step);
}

/* peak (1 - cos(2 pi log2(1 + (2^cycles - 1) s / T))) / 2, held at T: 0 at both ends and between
 * the cosines, whose ends are at (2^i - 1) / (2^cycles - 1) of T. */
static double cosine_log_rate(const et_schedule *self, double step)
{
    const et_rate_cosine_log *o = &self->options.cosine_log;
    const double done = fmin(step, (double)o->decay_steps) / (double)o->decay_steps;
    const double turns = log2(1 + (exp2((double)o->cycles) - 1) * done);
    return o->peak_learning_rate * 0.5 * (1 - cos(2 * PI * turns));
}

#define OFFSET(member) offsetof(et_rate_options, member)

/* Settings that must be given: a rate above 0, and a number of steps, or of epochs, which is below
 * 0. */
#define REQUIRED_RATE(schedule, rate) .required_rate = { #rate, OFFSET(schedule.rate) }
#define REQUIRED(schedule, rate, steps)                                                            \
    REQUIRED_RATE(schedule, rate), .required_steps = { #steps, OFFSET(schedule.steps) }

/* ORDER learning_rate.type, by designator. A row: the name, the check (NULL: the tables of
 * options and what is required say it all), the formula, the offset. To add one see README.md. */
static const et_schedule_class classes[ET_RATE_COUNT] = {
    [ET_RATE_NONE] = { .name = "none" },
    [ET_RATE_CONSTANT] = { .name = "constant", .rate = constant_rate },
    [ET_RATE_STEPWISE] = { .name = "stepwise",
                           .init = stepwise_init,
                           .rate = stepwise_rate,
                           .offset = OFFSET(stepwise.offset) },
    [ET_RATE_EXPONENTIAL] = { .name = "exponential",
                              .init = exponential_init,
                              .rate = exponential_rate,
                              .offset = OFFSET(exponential.offset),
                              REQUIRED(exponential, initial_learning_rate, decay_steps) },
    [ET_RATE_POLYNOMIAL] = { .name = "polynomial",
                             .rate = polynomial_rate,
                             .offset = OFFSET(polynomial.offset),
                             REQUIRED(polynomial, initial_learning_rate, decay_steps) },
    [ET_RATE_COSINE] = { .name = "cosine",
                         .rate = cosine_rate,
                         .offset = OFFSET(cosine.offset),
                         REQUIRED(cosine, initial_learning_rate, decay_steps) },
    [ET_RATE_COSINE_RESTARTS] = { .name = "cosine_restarts",
                                  .rate = cosine_restarts_rate,
                                  .offset = OFFSET(cosine_restarts.offset),
                                  REQUIRED(cosine_restarts, initial_learning_rate,
                                           first_decay_steps) },
    [ET_RATE_POWER] = { .name = "power",
                        .rate = power_rate,
                        REQUIRED_RATE(power, initial_learning_rate) },
    [ET_RATE_POWER_LINEAR] = { .name = "power_linear",
                               .rate = power_linear_rate,
                               .offset = OFFSET(power_linear.offset),
                               REQUIRED(power_linear, initial_learning_rate, total_decay_steps) },
    [ET_RATE_POWER_WITH_OFFSET] = { .name = "power_with_offset",
                                    .rate = power_with_offset_rate,
                                    .offset = OFFSET(power_with_offset.offset),
                                    REQUIRED_RATE(power_with_offset, initial_learning_rate) },
    [ET_RATE_STEP_COSINE_WITH_OFFSET] = { .name = "step_cosine_with_offset",
                                          .init = step_cosine_init,
                                          .rate = step_cosine_rate,
                                          .offset = OFFSET(step_cosine_with_offset.offset) },
    [ET_RATE_INVERSE_SQRT] = { .name = "inverse_sqrt",
                               .init = inverse_sqrt_init,
                               .rate = inverse_sqrt_rate },
    [ET_RATE_COSINE_LOG] = { .name = "cosine_log",
                             .rate = cosine_log_rate,
                             .offset = OFFSET(cosine_log.offset),
                             REQUIRED(cosine_log, peak_learning_rate, decay_steps) },
};

/* Steps of the warm-up, 0 without one. NONE needs no special case: no step is below 0. */
static int64_t warmup_steps(const et_warmup_options *warmup)
{
    switch (warmup->type) {
    case ET_WARMUP_LINEAR:
        return warmup->linear.warmup_steps;
    case ET_WARMUP_POLYNOMIAL:
        return warmup->polynomial.warmup_steps;
    default:
        return 0;
    }
}

/* Class and options first, so that the class's init can look at them; the lists are dropped
 * at the end, because they live in an arena that the schedule does not know. */
int et_schedule_init(et_schedule *schedule, const et_rate_options *options,
                     const et_warmup_options *warmup, et_error *error)
{
    et_assert(options->type >= 0 && options->type < ET_RATE_COUNT);
    *schedule =
        (et_schedule){ .class = &classes[options->type], .options = *options, .warmup = *warmup };
    if (options->type == ET_RATE_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.type is not set; set it to "
                       "constant, inverse_sqrt, cosine or another schedule");
    if (warmup->type != ET_WARMUP_NONE && warmup_steps(warmup) <= 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.warmup.%s.warmup_steps: give a number greater "
                       "than 0",
                       warmup->type == ET_WARMUP_LINEAR ? "linear" : "polynomial");
    const et_schedule_class *class = schedule->class;
    int status = class->init ? class->init(schedule, error) : ET_OK;
    et_rate_options *o = &schedule->options;
    const void *rate = (const char *)o + class->required_rate.at;
    const void *steps = (const char *)o + class->required_steps.at;
    if (!status && class->required_rate.name && !(*(const double *)rate > 0))
        status = missing(class->name, class->required_rate.name, error);
    if (!status && class->required_steps.name && !*(const int64_t *)steps)
        status = missing(class->name, class->required_steps.name, error);
    o->stepwise.boundaries = o->stepwise.values = (et_strings){ 0 };
    o->step_cosine_with_offset.boundaries = o->step_cosine_with_offset.values = (et_strings){ 0 };
    return status;
}

/* The formula at s. Before the offset it may give no rate (a logarithm of a negative number, a
 * cycle of length 0): then the rate is that of the offset. */
static double rate_at(const et_schedule *schedule, int64_t step)
{
    const et_schedule_class *class = schedule->class;
    int64_t offset = 0;
    if (class->offset)
        memcpy(&offset, (const char *)&schedule->options + class->offset, sizeof offset);
    double rate = class->rate(schedule, (double)(step - offset));
    bool usable = isfinite(rate) && rate >= 0;
    return usable || step >= offset ? rate : class->rate(schedule, 0);
}

int64_t et_schedule_warmup(const et_schedule *schedule)
{
    return schedule->options.type == ET_RATE_INVERSE_SQRT
               ? schedule->options.inverse_sqrt.warmup_steps
               : warmup_steps(&schedule->warmup);
}

/* With W steps of warm-up and p = rate(W): linear w0 + step / W (p - w0), which is w0 at step 0;
 * polynomial p (max(step, 1) / W)^power. The warm-up ends at the schedule's rate at that step, p,
 * not at its initial rate. */
ET_NOINLINE static double warm_rate(const et_schedule *schedule, int64_t step, int64_t warmup)
{
    double peak = rate_at(schedule, warmup);
    if (schedule->warmup.type == ET_WARMUP_LINEAR) {
        double first = schedule->warmup.linear.warmup_learning_rate;
        return first + (double)step / (double)warmup * (peak - first);
    }
    double done = fmax((double)step, 1) / (double)warmup;
    return peak * pow(done, schedule->warmup.polynomial.power);
}

double et_schedule_rate(const et_schedule *schedule, int64_t step)
{
    et_assert(step >= 0);
    et_assert(schedule->class && schedule->class->rate);
    int64_t warmup = warmup_steps(&schedule->warmup);
    return step < warmup ? warm_rate(schedule, step, warmup) : rate_at(schedule, step);
}
