/* Schedules: of each the table of its settings, the check that a table cannot make, and the
 * formula. Formulas are those of Model Garden and Keras (docs of tf.keras.optimizers.schedules),
 * with T a number of steps and s = step - offset. All are in double: a rate is computed once per
 * step, and the rule rounds it once.
 *
 * Code for all schedules finds members by names and marks of the rows: `offset`, `boundaries`,
 * `values`; .epochs marks the length, .zero a length that ends with the run, .nullable a number
 * that must be set.
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
#include "engine/optim/options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/inline.h"
#include "base/numbers/decimal.h"
#include "engine/optim/rules/rule.h"

/* The same members in several structs, so that keys and limits cannot drift apart. Each
 * expands to one row of a table; type is the struct whose member it is. */
#define INITIAL_RATE(type)                                                                         \
    ET_FIELD_FLOAT(type, initial_learning_rate, 0, 0, RATE_MAX,                                    \
                   "learning rate at the start; must be set", .nullable = true)
#define DECAY_STEPS(type, member, ...)                                                             \
    ET_FIELD_INT(type, member, 0, 0, STEPS_MAX, __VA_ARGS__, .epochs = true, .nullable = true)
#define TO_THE_END(type, member, text)                                                             \
    DECAY_STEPS(type, member, text "; 0 or auto: until the end of the run", .zero = "auto")
#define OFFSET(type)                                                                               \
    ET_FIELD_INT(type, offset, 0, 0, STEPS_MAX, "number of steps subtracted from the step")
#define POWER(type)                                                                                \
    ET_FIELD_FLOAT(type, power, -0.5, -100, 100, "exponent of the step; -0.5: inverse square root")

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

/* A number of a list: "0.1", or, with *epochs, "2ep". False: not a finite number of at least 0. */
static bool read_number(const char *text, double *number, bool *epochs)
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
        if (!read_number(texts.items[i], &to[i], &epochs) || (epochs && !epoch))
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

static const et_field constant_fields[] = { ET_FIELD_FLOAT(et_schedule_constant, learning_rate, 0.1,
                                                           0, RATE_MAX, "learning rate"),
                                            TENSORFLOW_NAME, ET_FIELD_END };

static double constant_rate(const et_schedule *self, double step)
{
    (void)step;
    return self->options.constant.learning_rate;
}

/* Numbers as texts: fields know lists of strings only, and read_values reads them. */
static const et_field stepwise_fields[] = {
    ET_FIELD_STRINGS(et_schedule_stepwise, boundaries,
                     "ascending steps or epochs (2ep): the last step of each value except the "
                     "last; none: equal parts of the run"),
    ET_FIELD_STRINGS(et_schedule_stepwise, values, "learning rates, one more than boundaries"),
    OFFSET(et_schedule_stepwise), TENSORFLOW_NAME, ET_FIELD_END
};

/* n values, n - 1 boundaries: at each boundary one value ends. */
static int stepwise_init(et_schedule *self, et_error *error)
{
    const et_schedule_stepwise *o = &self->options.stepwise;
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

/* decay_rate has no default in Model Garden. Above 1 the rate grows. */
static const et_field exponential_fields[] = {
    INITIAL_RATE(et_schedule_exponential),
    TO_THE_END(et_schedule_exponential, decay_steps, "steps per decay"),
    ET_FIELD_FLOAT(et_schedule_exponential, decay_rate, 0, 0, RATE_MAX,
                   "factor of one decay; must be set", .nullable = true),
    ET_FIELD_BOOL(et_schedule_exponential, staircase, false,
                  "decay only at whole multiples of decay_steps", .nullable = true),
    OFFSET(et_schedule_exponential),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

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

/* end_learning_rate may be above the start: then it rises. */
static const et_field polynomial_fields[] = {
    INITIAL_RATE(et_schedule_polynomial),
    TO_THE_END(et_schedule_polynomial, decay_steps, "steps until the final rate"),
    ET_FIELD_FLOAT(et_schedule_polynomial, end_learning_rate, 1e-4, 0, RATE_MAX,
                   "learning rate at the end"),
    ET_FIELD_FLOAT(et_schedule_polynomial, power, 1, 0, 100, "exponent; 1: linear"),
    ET_FIELD_BOOL(et_schedule_polynomial, cycle, false,
                  "start again after decay_steps, with a longer period"),
    OFFSET(et_schedule_polynomial),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

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

/* alpha is a share of initial_learning_rate, not a rate. */
static const et_field cosine_fields[] = {
    INITIAL_RATE(et_schedule_cosine),
    TO_THE_END(et_schedule_cosine, decay_steps, "steps until the final rate"),
    ET_FIELD_FLOAT(et_schedule_cosine, alpha, 0, 0, 1,
                   "fraction of the rate that remains at the end"),
    OFFSET(et_schedule_cosine),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

/* initial * ((1 - alpha) * (1 + cos(pi s / T)) / 2 + alpha), held at T. (Loshchilov and
 * Hutter 2017, one period.) At T / 2 and alpha 0 it is half the initial rate. */
static double cosine_rate(const et_schedule *self, double step)
{
    const et_schedule_cosine *o = &self->options.cosine;
    double done = fmin(step, (double)o->decay_steps) / (double)o->decay_steps;
    return o->initial_learning_rate * ((1 - o->alpha) * 0.5 * (1 + cos(PI * done)) + o->alpha);
}

/* t_mul below 1 is refused: the sum of all periods would be finite, and no period would follow. */
static const et_field cosine_restarts_fields[] = {
    INITIAL_RATE(et_schedule_cosine_restarts),
    DECAY_STEPS(et_schedule_cosine_restarts, first_decay_steps,
                "steps of the first period; must be set"),
    ET_FIELD_FLOAT(et_schedule_cosine_restarts, t_mul, 2, 1, 1000,
                   "factor from one period's length to the next"),
    ET_FIELD_FLOAT(et_schedule_cosine_restarts, m_mul, 1, 0, 1000,
                   "factor from one period's initial rate to the next"),
    ET_FIELD_FLOAT(et_schedule_cosine_restarts, alpha, 0, 0, 1,
                   "fraction of the rate that remains at the end of each period"),
    OFFSET(et_schedule_cosine_restarts),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

/* The cosine again and again, period i being t_mul^i first periods long and m_mul^i as high.
 * After n periods 1 + t + ... + t^(n-1) = (1 - t^n) / (1 - t) first periods have passed, which
 * solved for n gives the logarithm below. t_mul is at least 1, by the table of options. */
static double cosine_restarts_rate(const et_schedule *self, double step)
{
    const et_schedule_cosine_restarts *o = &self->options.cosine_restarts;
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

/* The three schedules of Model Garden that follow a power of the step. */
static const et_field power_fields[] = { INITIAL_RATE(et_schedule_power), POWER(et_schedule_power),
                                         TENSORFLOW_NAME, ET_FIELD_END };

/* initial * max(s, 1)^power: step 0 has no value with a negative power, so it gets that of step 1.
 * Here s = step, there is no offset. */
static double power_rate(const et_schedule *self, double step)
{
    const et_schedule_power *o = &self->options.power;
    return o->initial_learning_rate * pow(fmax(step, 1), o->power);
}

static const et_field power_linear_fields[] = {
    INITIAL_RATE(et_schedule_power_linear),
    POWER(et_schedule_power_linear),
    TO_THE_END(et_schedule_power_linear, total_decay_steps, "step at which the rate is 0"),
    ET_FIELD_FLOAT(et_schedule_power_linear, linear_decay_fraction, 0.1, 0, 1,
                   "final fraction of the steps in which the rate also falls linearly to 0"),
    OFFSET(et_schedule_power_linear),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

/* initial * max(s, 1)^power, times a line from 1 to 0 over the last fraction f of T steps:
 * min(1, (T - s) / (T f)), not below 0. Example, initial 1, power -1, f = 0.5, T = 100: 1/40
 * at 40, (1/60) 0.8 at 60, 0 from 100 on. */
static double power_linear_rate(const et_schedule *self, double step)
{
    const et_schedule_power_linear *o = &self->options.power_linear;
    double total = (double)o->total_decay_steps;
    double rate = o->initial_learning_rate * pow(fmax(step, 1), o->power);
    if (o->linear_decay_fraction > 0)
        rate *= fmax(fmin(1, (total - step) / (total * o->linear_decay_fraction)), 0);
    return rate;
}

/* Its offset differs from OFFSET's: steps before it have their own rate. */
static const et_field power_with_offset_fields[] = {
    INITIAL_RATE(et_schedule_power_with_offset),
    POWER(et_schedule_power_with_offset),
    ET_FIELD_INT(
        et_schedule_power_with_offset, offset, 0, 0, STEPS_MAX,
        "last step (counted from 0) at pre_offset_learning_rate; the power starts after it"),
    ET_FIELD_FLOAT(et_schedule_power_with_offset, pre_offset_learning_rate, 1e6, 0, RATE_MAX,
                   "learning rate up to offset, and the maximum after it"),
    TENSORFLOW_NAME,
    ET_FIELD_END
};

/* As power, counted from the offset and never above the rate before it. Step `offset` itself
 * still has pre_offset_learning_rate, step 0 with an offset of 0 too: as Model Garden has it. */
static double power_with_offset_rate(const et_schedule *self, double step)
{
    const et_schedule_power_with_offset *o = &self->options.power_with_offset;
    if (step <= 0)
        return o->pre_offset_learning_rate;
    return fmin(o->pre_offset_learning_rate,
                o->initial_learning_rate * pow(fmax(step, 1), o->power));
}

/* Numbers as texts, as stepwise has them. */
static const et_field step_cosine_with_offset_fields[] = {
    ET_FIELD_STRINGS(et_schedule_step_cosine_with_offset, boundaries,
                     "ascending steps or epochs (2ep): where the half cosine of each value starts; "
                     "none: equal parts of the run"),
    ET_FIELD_STRINGS(et_schedule_step_cosine_with_offset, values,
                     "learning rates, one per boundary"),
    OFFSET(et_schedule_step_cosine_with_offset), TENSORFLOW_NAME, ET_FIELD_END
};

/* n values, n boundaries: at each boundary one value begins to fall to the next. */
static int step_cosine_init(et_schedule *self, et_error *error)
{
    const et_schedule_step_cosine_with_offset *o = &self->options.step_cosine_with_offset;
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

/* Not in Model Garden: fairseq's schedule with this name, with its usual numbers as defaults. */
static const et_field inverse_sqrt_fields[] = {
    ET_FIELD_FLOAT(et_schedule_inverse_sqrt, peak_learning_rate, 5e-4, 0, RATE_MAX,
                   "learning rate at the end of the warm-up"),
    ET_FIELD_INT(et_schedule_inverse_sqrt, warmup_steps, 4000, 1, STEPS_MAX,
                 "steps of linear warm-up to the peak; then peak * sqrt(warmup_steps / step)"),
    ET_FIELD_FLOAT(et_schedule_inverse_sqrt, warmup_init_learning_rate, 0, 0, RATE_MAX,
                   "learning rate of the first step"),
    ET_FIELD_END
};

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

/* Not in Model Garden: Holzmueller, Grinsztajn and Steinwart 2024. */
static const et_field cosine_log_fields[] = {
    ET_FIELD_FLOAT(et_schedule_cosine_log, peak_learning_rate, 0, 0, RATE_MAX,
                   "highest learning rate of each cosine; must be set", .nullable = true),
    TO_THE_END(et_schedule_cosine_log, decay_steps, "steps of all cosines"),
    ET_FIELD_INT(et_schedule_cosine_log, cycles, 4, 1, 30,
                 "whole cosines from 0 to 0; each lasts about twice as long as the previous one"),
    OFFSET(et_schedule_cosine_log), ET_FIELD_END
};

/* peak (1 - cos(2 pi log2(1 + (2^cycles - 1) s / T))) / 2, held at T: 0 at both ends and between
 * the cosines, whose ends are at (2^i - 1) / (2^cycles - 1) of T. */
static double cosine_log_rate(const et_schedule *self, double step)
{
    const et_schedule_cosine_log *o = &self->options.cosine_log;
    const double done = fmin(step, (double)o->decay_steps) / (double)o->decay_steps;
    const double turns = log2(1 + (exp2((double)o->cycles) - 1) * done);
    return o->peak_learning_rate * 0.5 * (1 - cos(2 * PI * turns));
}

/* ---- the settings of all ---- */

#define SCHEDULE(ID, name, help) static const et_fields name##_table = { #name, name##_fields };
#include "engine/optim/schedules.def"
#undef SCHEDULE

static const char *const rate_types[] = {
    [ET_RATE_NONE] = "none",
#define SCHEDULE(ID, name, help) [ET_RATE_##ID] = #name,
#include "engine/optim/schedules.def"
#undef SCHEDULE
    [ET_RATE_COUNT] = NULL,
};

static const et_field rate_fields[] = {
    ET_FIELD_CHOICE(et_rate_options, type, ET_RATE_NONE, rate_types,
                    "schedule of the learning rate; must be set", .nullable = true,
                    .selects = true),
    ET_FIELD_FLOAT(et_rate_options, peak, -1, 0, RATE_MAX,
                   "peak of the chosen schedule; `learning_rate: NUMBER` sets it, too",
                   .passing = true, .nullable = true),
#define SCHEDULE(ID, name, help) ET_FIELD_STRUCT(et_rate_options, name, &name##_table, help),
#include "engine/optim/schedules.def"
#undef SCHEDULE
    ET_FIELD_END
};
const et_fields et_rate_fields = { "learning_rate", rate_fields };

/* Relation of the row `other` to the peak. */
typedef enum relation {
    ABOVE, /* peak must not be below it */
    GROWS, /* it is a factor: above 1 there is no peak */
    RISES, /* it is an exponent of the step: above 0 there is no peak */
} relation;

/* ORDER learning_rate.type, by designator. peak: the setting with the highest rate; other: a row of
 * the same table that is checked before a peak is set. */
static const struct et_schedule_class {
    int (*init)(et_schedule *self, et_error *error); /* NULL: the rows say it all */
    double (*rate)(const et_schedule *self, double step);
    const char *peak, *other;
    relation relation;
} classes[ET_RATE_COUNT] = {
    [ET_RATE_CONSTANT] = { .rate = constant_rate, .peak = "constant.learning_rate" },
    [ET_RATE_STEPWISE] = { .init = stepwise_init,
                           .rate = stepwise_rate,
                           .peak = "stepwise.values" },
    [ET_RATE_EXPONENTIAL] = { exponential_init, exponential_rate,
                              "exponential.initial_learning_rate", "decay_rate", GROWS },
    [ET_RATE_POLYNOMIAL] = { NULL, polynomial_rate, "polynomial.initial_learning_rate",
                             "end_learning_rate", ABOVE },
    [ET_RATE_COSINE] = { .rate = cosine_rate, .peak = "cosine.initial_learning_rate" },
    [ET_RATE_COSINE_RESTARTS] = { NULL, cosine_restarts_rate,
                                  "cosine_restarts.initial_learning_rate", "m_mul", GROWS },
    [ET_RATE_POWER] = { NULL, power_rate, "power.initial_learning_rate", "power", RISES },
    [ET_RATE_POWER_LINEAR] = { NULL, power_linear_rate, "power_linear.initial_learning_rate",
                               "power", RISES },
    [ET_RATE_POWER_WITH_OFFSET] = { .rate = power_with_offset_rate,
                                    .peak = "power_with_offset.pre_offset_learning_rate" },
    [ET_RATE_STEP_COSINE_WITH_OFFSET] = { .init = step_cosine_init,
                                          .rate = step_cosine_rate,
                                          .peak = "step_cosine_with_offset.values" },
    [ET_RATE_INVERSE_SQRT] = { inverse_sqrt_init, inverse_sqrt_rate,
                               "inverse_sqrt.peak_learning_rate", "warmup_init_learning_rate",
                               ABOVE },
    [ET_RATE_COSINE_LOG] = { .rate = cosine_log_rate, .peak = "cosine_log.peak_learning_rate" },
};

/* The chosen schedule's settings; NULL: none is chosen. */
static void *chosen(et_rate_options *rate, const et_fields **table)
{
    const char *type = rate_types[rate->type];
    const et_field *group = et_fields_find(&et_rate_fields, type, strlen(type));
    *table = group ? group->nested : &et_fields_none;
    return group ? (char *)rate + group->offset : NULL;
}

/* The member of the chosen schedule that a row of this name describes; NULL: it has none. */
static void *member(et_rate_options *rate, const char *name)
{
    const et_fields *table;
    void *settings = chosen(rate, &table);
    const et_field *row = et_fields_find(table, name, strlen(name));
    return row ? (char *)settings + row->offset : NULL;
}

/* The length of a schedule; NULL: not a single number. *ends: 0 means the length of the run. */
static int64_t *length_of(et_rate_options *rate, bool *ends)
{
    const et_fields *table;
    void *settings = chosen(rate, &table);
    const et_field *row = table->fields;
    while (row->kind != ET_FIELD_KIND_END && !row->epochs)
        row++;
    *ends = row->zero;
    return row->epochs ? (int64_t *)(void *)((char *)settings + row->offset) : NULL;
}

/* warmup.<type>: the warm-up over the first steps, see et_schedule_rate. */
static const et_field warmup_linear_fields[] = {
    ET_FIELD_FLOAT(et_warmup_linear, warmup_learning_rate, 0, 0, RATE_MAX,
                   "learning rate of the first step"),
    ET_FIELD_INT(et_warmup_linear, warmup_steps, 0, 0, STEPS_MAX,
                 "steps of linear warm-up; must be set", .nullable = true),
    TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields warmup_linear_table = { "linear", warmup_linear_fields };

/* Power 1 is a line from 1 / warmup_steps of the schedule, not from 0. */
static const et_field warmup_polynomial_fields[] = {
    ET_FIELD_FLOAT(et_warmup_polynomial, power, 1, 0, 100, "exponent of step / warmup_steps"),
    ET_FIELD_INT(et_warmup_polynomial, warmup_steps, 0, 0, STEPS_MAX,
                 "steps of warm-up; must be set", .nullable = true),
    TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields warmup_polynomial_table = { "polynomial", warmup_polynomial_fields };

/* ORDER warmup.type */
static const char *const warmup_types[] = { "none", "linear", "polynomial", NULL };

static const et_field warmup_fields[] = {
    ET_FIELD_CHOICE(et_warmup_options, type, ET_WARMUP_NONE, warmup_types,
                    "warm-up over the first steps of the schedule", .nullable = true,
                    .selects = true),
    ET_FIELD_STRUCT(et_warmup_options, linear, &warmup_linear_table, "linear"),
    ET_FIELD_STRUCT(et_warmup_options, polynomial, &warmup_polynomial_table,
                    "a power of step / warmup_steps"),
    ET_FIELD_END
};
const et_fields et_warmup_fields = { "warmup", warmup_fields };

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

/* A rate that must be set, then a length, in steps or (below 0) epochs. */
static int check_required(et_rate_options *rate, et_error *error)
{
    const et_fields *table;
    const void *settings = chosen(rate, &table);
    for (int lengths = 0; lengths < 2; lengths++)
        for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END; row++) {
            const void *at = (const char *)settings + row->offset;
            if (lengths ? row->epochs && !*(const int64_t *)at
                        : row->kind == ET_FIELD_KIND_FLOAT && row->nullable &&
                              !(*(const double *)at > 0))
                return missing(rate_types[rate->type], row->name, error);
        }
    return ET_OK;
}

/* Options first, so that the class's init can look at them; the lists are dropped at the end,
 * because they live in an arena that the schedule does not know. */
int et_schedule_init(et_schedule *schedule, const et_rate_options *options,
                     const et_warmup_options *warmup, et_error *error)
{
    et_assert(options->type >= 0 && options->type < ET_RATE_COUNT);
    *schedule = (et_schedule){ .options = *options, .warmup = *warmup };
    if (options->type == ET_RATE_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.type is not set; set it to "
                       "constant, inverse_sqrt, cosine or another schedule");
    if (warmup->type != ET_WARMUP_NONE && warmup_steps(warmup) <= 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.warmup.%s.warmup_steps: give a number greater "
                       "than 0",
                       warmup->type == ET_WARMUP_LINEAR ? "linear" : "polynomial");
    et_rate_options *o = &schedule->options;
    const int64_t *offset = member(o, "offset");
    schedule->offset = offset ? *offset : 0;
    schedule->class = &classes[o->type];
    int status = schedule->class->init ? schedule->class->init(schedule, error) : ET_OK;
    if (!status)
        status = check_required(o, error);
    o->stepwise.boundaries = o->stepwise.values = (et_strings){ 0 };
    o->step_cosine_with_offset.boundaries = o->step_cosine_with_offset.values = (et_strings){ 0 };
    return status;
}

/* The formula at s. Before the offset the formula may have no value (a logarithm of a negative
 * number, a cycle of length 0); the rate is then the rate at the offset. */
static double rate_at(const et_schedule *schedule, int64_t step)
{
    double (*formula)(const et_schedule *, double) = schedule->class->rate;
    double rate = formula(schedule, (double)(step - schedule->offset));
    bool usable = isfinite(rate) && rate >= 0;
    return usable || step >= schedule->offset ? rate : formula(schedule, 0);
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

/* ---- the peak ---- */

/* The peak of a schedule, as one number instead of its settings. Schedules by a power of the step
 * are scaled to reach it at the end of their warm-up. */

const char *et_optimization_peak_name(const et_optimization_options *options)
{
    const int type = options->learning_rate.type;
    return classes[type == ET_RATE_NONE ? ET_RATE_CONSTANT : type].peak;
}

/* The values by one factor, so that the largest is wanted. */
static int scale(et_strings *values, const char *name, double wanted, et_arena *arena,
                 et_error *error)
{
    double largest = 0, value;
    bool epochs;
    for (size_t i = 0; i < values->count; i++)
        if (read_number(values->items[i], &value, &epochs) && !epochs)
            largest = fmax(largest, value);
    if (largest <= 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate: %g cannot scale a schedule without "
                       "values; set trainer.optimizer_config.learning_rate.%s",
                       wanted, name);
    const char **items = et_arena_array(arena, values->count, sizeof *items);
    for (size_t i = 0; items && i < values->count; i++) {
        const bool read = read_number(values->items[i], &value, &epochs) && !epochs;
        items[i] =
            read ? et_arena_printf(arena, "%.12g", value / largest * wanted) : values->items[i];
        if (!items[i])
            items = NULL;
    }
    if (!items)
        return et_alloc_failed(error, "learning rates");
    values->items = items;
    return ET_OK;
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
    const struct et_schedule_class *class = &classes[rate->type];
    const double *other = class->other ? member(rate, class->other) : NULL;
    const bool above = class->relation == ABOVE;
    if (other && *other > (above ? wanted : class->relation == GROWS ? 1 : 0))
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate: %g: %s.%s is %g, %s; set "
                       "trainer.optimizer_config.learning_rate.%s instead",
                       wanted, rate_types[rate->type], class->other, *other,
                       above ? "which is larger" : "so the rate increases and has no peak",
                       class->peak);
    et_strings *values = member(rate, "values");
    if (values)
        return scale(values, class->peak, wanted, arena, error);
    /* The factor that a power of the step applies to the rate at the end of the warm-up. */
    double factor = 1;
    if (class->relation == RISES) {
        const int64_t *offset = member(rate, "offset");
        et_assert(other);
        factor =
            pow(fmax((double)(warmup_steps(&options->warmup) - (offset ? *offset : 0)), 1), *other);
    }
    *(double *)member(rate, strchr(class->peak, '.') + 1) = wanted / factor;
    return ET_OK;
}

/* ---- lengths ---- */

/* Whole steps, or thousandths of epochs, as texts, as a file would have them. */
static int make_parts(et_strings *boundaries, const et_strings *values, bool falls, int64_t length,
                      et_arena *arena, et_error *error)
{
    int64_t pieces = (int64_t)values->count - falls;
    size_t count = values->count - !falls;
    const char **items = et_arena_array(arena, count, sizeof *items);
    for (size_t i = 0; items && i < count; i++) {
        double share = pieces ? (double)(falls ? i : i + 1) / (double)pieces : 0;
        long long at = llround(fabs((double)length) * share);
        items[i] = length > 0 ? et_arena_printf(arena, "%lld", at)
                              : et_arena_printf(arena, "%lld.%03lldep", at / 1000, at % 1000);
        if (!items[i])
            items = NULL;
    }
    if (!items)
        return et_alloc_failed(error, "boundaries");
    *boundaries = (et_strings){ items, count };
    return ET_OK;
}

int et_optimization_end_with_run(et_optimization_options *options, int64_t train_steps,
                                 et_arena *arena, et_error *error)
{
    et_rate_options *rate = &options->learning_rate;
    if (options->regularization.type && !options->regularization.decay_steps)
        options->regularization.decay_steps = train_steps;
    bool ends;
    int64_t *steps = length_of(rate, &ends), *offset = member(rate, "offset");
    et_strings *boundaries = member(rate, "boundaries");
    const et_strings *values = member(rate, "values");
    const bool falls = rate->type == ET_RATE_STEP_COSINE_WITH_OFFSET; /* from the first one on */
    bool whole = steps && !*steps && ends;
    bool parts = boundaries && !boundaries->count && values->count > !falls;
    if (train_steps == 0 || !(whole || parts))
        return ET_OK;
    if (*offset && train_steps < 0)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.%s.offset: %lld steps cannot be "
                       "combined with a run length in epochs; set decay_steps",
                       rate_types[rate->type], (long long)*offset);
    if (train_steps > 0 && *offset >= train_steps)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate.%s.offset: %lld steps leave no step "
                       "of %lld for the decay; give a smaller offset",
                       rate_types[rate->type], (long long)*offset, (long long)train_steps);
    if (parts)
        return make_parts(boundaries, values, falls, train_steps - *offset, arena, error);
    *steps = train_steps - *offset;
    return ET_OK;
}

void et_rate_follow_length(et_rate_options *rate, int64_t was, int64_t now)
{
    bool ends;
    int64_t *steps = length_of(rate, &ends);
    const int64_t *offset = member(rate, "offset");
    if (steps && ends && *steps + *offset == was && now > *offset)
        *steps = now - *offset;
}

bool et_optimization_counts_epochs(const et_optimization_options *options)
{
    et_rate_options rate = options->learning_rate;
    bool ends;
    const int64_t *steps = length_of(&rate, &ends);
    const et_strings *boundaries = member(&rate, "boundaries");
    bool counts = (steps && *steps < 0) || options->regularization.decay_steps < 0;
    bool open = boundaries && rate.run.epoch_steps <= 0;
    for (size_t i = 0; open && !counts && i < boundaries->count; i++) {
        double number;
        bool epochs;
        counts = read_number(boundaries->items[i], &number, &epochs) && epochs;
    }
    return counts;
}

void et_optimization_resolve(et_optimization_options *options, int64_t batches, int64_t update)
{
    et_rate_options *rate = &options->learning_rate;
    et_assert(batches > 0 && update > 0 && rate->run.gradients >= 0);
    double taken = (double)update * fmax(1, (double)rate->run.gradients);
    rate->run.epoch_steps = (double)batches / taken;
    bool ends;
    int64_t *lengths[] = { length_of(rate, &ends), &options->regularization.decay_steps };
    for (int i = 0; i < 2; i++)
        if (lengths[i] && *lengths[i] < 0)
            *lengths[i] =
                (int64_t)fmax(1, round((double)et_field_steps(*lengths[i], batches) / taken));
}
