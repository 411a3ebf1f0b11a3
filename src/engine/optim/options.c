/* The tables of the options in options.h; defaults are Model Garden's. 0 replaces its null where 0
 * would be invalid: et_optimization_check asks for required values.
 *
 * A row has name, default, limits and help of one member. base/fields/fields.c makes the parser,
 * the help text and the echo in params.yaml from the tables, and checks ranges of single numbers;
 * relations of two settings are checked below. The tables nest as the settings do:
 *
 *   optimizer_config.optimizer: rule_options.c
 *   optimizer_config.learning_rate.{type, constant, ..., inverse_sqrt}
 *   optimizer_config.warmup.{type, linear, polynomial}
 *   optimizer_config.ema
 *
 * Each `type` names the sibling table that has effect. All tables always exist, so a file may have
 * settings of a schedule that another file then chooses.
 *
 * To add an option: a member in options.h and a row here. To add a choice: a name in the list of
 * types, in the order of the enum, and a table. */
#include "engine/optim/options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "engine/optim/rules/rule.h"
#include "engine/optim/schedule.h"

/* C17 has no name for it. */
#define PI 3.14159265358979323846

/* Far above any rate that trains; Model Garden's pre_offset_learning_rate has it as its
 * default. Steps are whole numbers that a double holds exactly, since schedules compute with
 * doubles. */
#define RATE_MAX  1e6
#define STEPS_MAX ((int64_t)1 << 53)

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

/* learning_rate.<type>: one table for each schedule; schedule.c has the formulas. */
static const et_field constant_fields[] = { ET_FIELD_FLOAT(et_rate_constant, learning_rate, 0.1, 0,
                                                           RATE_MAX, "learning rate"),
                                            TENSORFLOW_NAME, ET_FIELD_END };
static const et_fields constant_table = { "constant", constant_fields };

/* Numbers as texts: fields know lists of strings only, and schedule.c reads them. */
static const et_field stepwise_fields[] = {
    ET_FIELD_STRINGS(et_rate_stepwise, boundaries,
                     "ascending steps or epochs (2ep): the last step of each value except the "
                     "last; none: equal parts of the run"),
    ET_FIELD_STRINGS(et_rate_stepwise, values, "learning rates, one more than boundaries"),
    OFFSET(et_rate_stepwise), TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields stepwise_table = { "stepwise", stepwise_fields };

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
static const et_fields exponential_table = { "exponential", exponential_fields };

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
static const et_fields polynomial_table = { "polynomial", polynomial_fields };

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
static const et_fields cosine_table = { "cosine", cosine_fields };

/* t_mul below 1 is refused: the sum of all periods would be finite, and no period would follow. */
static const et_field cosine_restarts_fields[] = {
    INITIAL_RATE(et_rate_cosine_restarts),
    DECAY_STEPS(et_rate_cosine_restarts, first_decay_steps,
                "steps of the first period; must be set"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, t_mul, 2, 1, 1000,
                   "factor from one period's length to the next"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, m_mul, 1, 0, 1000,
                   "factor from one period's initial rate to the next"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, alpha, 0, 0, 1,
                   "fraction of the rate that remains at the end of each period"),
    OFFSET(et_rate_cosine_restarts),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields cosine_restarts_table = { "cosine_restarts", cosine_restarts_fields };

/* The three schedules of Model Garden that follow a power of the step. */
static const et_field power_fields[] = { INITIAL_RATE(et_rate_power), POWER(et_rate_power),
                                         TENSORFLOW_NAME, ET_FIELD_END };
static const et_fields power_table = { "power", power_fields };

static const et_field power_linear_fields[] = {
    INITIAL_RATE(et_rate_power_linear),
    POWER(et_rate_power_linear),
    TO_THE_END(et_rate_power_linear, total_decay_steps, "step at which the rate is 0"),
    ET_FIELD_FLOAT(et_rate_power_linear, linear_decay_fraction, 0.1, 0, 1,
                   "final fraction of the steps in which the rate also falls linearly to 0"),
    OFFSET(et_rate_power_linear),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields power_linear_table = { "power_linear", power_linear_fields };

/* Its offset differs from OFFSET's: steps before it have their own rate. */
static const et_field power_with_offset_fields[] = {
    INITIAL_RATE(et_rate_power_with_offset),
    POWER(et_rate_power_with_offset),
    ET_FIELD_INT(
        et_rate_power_with_offset, offset, 0, 0, STEPS_MAX,
        "last step (counted from 0) at pre_offset_learning_rate; the power starts after it"),
    ET_FIELD_FLOAT(et_rate_power_with_offset, pre_offset_learning_rate, 1e6, 0, RATE_MAX,
                   "learning rate up to offset, and the maximum after it"),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields power_with_offset_table = { "power_with_offset", power_with_offset_fields };

/* Numbers as texts, as stepwise has them. */
static const et_field step_cosine_with_offset_fields[] = {
    ET_FIELD_STRINGS(et_rate_step_cosine_with_offset, boundaries,
                     "ascending steps or epochs (2ep): where the half cosine of each value starts; "
                     "none: equal parts of the run"),
    ET_FIELD_STRINGS(et_rate_step_cosine_with_offset, values, "learning rates, one per boundary"),
    OFFSET(et_rate_step_cosine_with_offset), TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields step_cosine_with_offset_table = { "step_cosine_with_offset",
                                                         step_cosine_with_offset_fields };

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
static const et_fields inverse_sqrt_table = { "inverse_sqrt", inverse_sqrt_fields };

/* Not in Model Garden: Holzmueller, Grinsztajn and Steinwart 2024. */
static const et_field cosine_log_fields[] = {
    ET_FIELD_FLOAT(et_rate_cosine_log, peak_learning_rate, 0, 0, RATE_MAX,
                   "highest learning rate of each cosine; must be set", .nullable = true),
    TO_THE_END(et_rate_cosine_log, decay_steps, "steps of all cosines"),
    ET_FIELD_INT(et_rate_cosine_log, cycles, 4, 1, 30,
                 "whole cosines from 0 to 0; each lasts about twice as long as the previous one"),
    OFFSET(et_rate_cosine_log), ET_FIELD_END
};
static const et_fields cosine_log_table = { "cosine_log", cosine_log_fields };

/* ORDER learning_rate.type, by designator: a name in the wrong place cannot be written. */
static const char *const rate_types[] = {
    [ET_RATE_NONE] = "none",
    [ET_RATE_CONSTANT] = "constant",
    [ET_RATE_STEPWISE] = "stepwise",
    [ET_RATE_EXPONENTIAL] = "exponential",
    [ET_RATE_POLYNOMIAL] = "polynomial",
    [ET_RATE_COSINE] = "cosine",
    [ET_RATE_COSINE_RESTARTS] = "cosine_restarts",
    [ET_RATE_POWER] = "power",
    [ET_RATE_POWER_LINEAR] = "power_linear",
    [ET_RATE_POWER_WITH_OFFSET] = "power_with_offset",
    [ET_RATE_STEP_COSINE_WITH_OFFSET] = "step_cosine_with_offset",
    [ET_RATE_INVERSE_SQRT] = "inverse_sqrt",
    [ET_RATE_COSINE_LOG] = "cosine_log",
    [ET_RATE_COUNT] = NULL,
};

/* One row for each schedule. Help has the formula if it fits. */
static const et_field rate_fields[] = {
    ET_FIELD_CHOICE(et_rate_options, type, ET_RATE_NONE, rate_types,
                    "schedule of the learning rate; must be set", .nullable = true,
                    .selects = true),
    ET_FIELD_FLOAT(et_rate_options, peak, -1, 0, RATE_MAX,
                   "peak of the chosen schedule; `learning_rate: NUMBER` sets it, too",
                   .passing = true, .nullable = true),
    ET_FIELD_STRUCT(et_rate_options, constant, &constant_table, "constant rate"),
    ET_FIELD_STRUCT(et_rate_options, stepwise, &stepwise_table, "given values, stepwise"),
    ET_FIELD_STRUCT(et_rate_options, exponential, &exponential_table,
                    "initial * decay_rate^(step / decay_steps)"),
    ET_FIELD_STRUCT(et_rate_options, polynomial, &polynomial_table,
                    "polynomial: a power of the fraction of steps that remain"),
    ET_FIELD_STRUCT(et_rate_options, cosine, &cosine_table, "half a cosine"),
    ET_FIELD_STRUCT(et_rate_options, cosine_restarts, &cosine_restarts_table,
                    "half cosines, each period longer"),
    ET_FIELD_STRUCT(et_rate_options, power, &power_table, "initial * step^power"),
    ET_FIELD_STRUCT(et_rate_options, power_linear, &power_linear_table,
                    "a power of the step, with a linear decay to 0 at the end"),
    ET_FIELD_STRUCT(et_rate_options, power_with_offset, &power_with_offset_table,
                    "a power of the step, starting at an offset"),
    ET_FIELD_STRUCT(et_rate_options, step_cosine_with_offset, &step_cosine_with_offset_table,
                    "half cosines from value to value"),
    ET_FIELD_STRUCT(et_rate_options, inverse_sqrt, &inverse_sqrt_table,
                    "warm-up to a peak, then the inverse square root"),
    ET_FIELD_STRUCT(et_rate_options, cosine_log, &cosine_log_table,
                    "whole cosines, each about twice as long"),
    ET_FIELD_END
};
/* The names of the choices and of the structs agree, so `type` reads as a path. */
static const et_fields rate_table = { "learning_rate", rate_fields };

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
static const et_fields warmup_table = { "warmup", warmup_fields };

#define NO_EMA_CLIPS "the optimizer's settings of this name clip gradients"

/* The formula is at et_ema_options. */
static const et_field ema_fields[] = {
    ET_FIELD_BOOL(et_ema_options, enabled, false,
                  "keep a moving average of the weights and evaluate with it; a group ema without "
                  "it means true, ema: null means false",
                  .selects = true),
    ET_FIELD_BOOL(et_ema_options, trainable_weights_only, true,
                  "must be false: variables such as batch statistics are not averaged"),
    ET_FIELD_FLOAT(et_ema_options, average_decay, 0.99, 0, 1,
                   "fraction of the average that remains after a step"),
    ET_FIELD_INT(et_ema_options, start_step, 0, 0, STEPS_MAX,
                 "steps before averaging starts; until then the average is a copy of the weights"),
    ET_FIELD_BOOL(et_ema_options, dynamic_decay, true,
                  "use a lower decay at first: (1 + step) / (10 + step)"),
    ET_FIELD_ONLY("clipvalue", "null", NO_EMA_CLIPS),
    ET_FIELD_ONLY("clipnorm", "null", NO_EMA_CLIPS),
    ET_FIELD_ONLY("global_clipnorm", "null", NO_EMA_CLIPS),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields ema_table = { "ema", ema_fields };

/* Not in Model Garden; PyTorch has param_groups. */
static const et_field parameter_group_fields[] = {
    ET_FIELD_STRING(et_parameter_group_options, pattern, NULL,
                    "regular expression: the group has the parameters whose names contain a match; "
                    "must be set"),
    ET_FIELD_FLOAT(et_parameter_group_options, learning_rate_multiplier, 1, 0, RATE_MAX,
                   "factor on the learning rate of these parameters"),
    ET_FIELD_FLOAT(et_parameter_group_options, weight_decay_rate, ET_DECAY_OF_RULE,
                   ET_DECAY_OF_RULE, RATE_MAX,
                   "weight decay of these parameters, except those that the update rule's lists "
                   "exclude; -1 or null: the rule's",
                   .nullable = true),
    ET_FIELD_END
};
static const et_fields parameter_group_table = { "parameter_groups", parameter_group_fields };

/* ORDER of the enum. */
static const char *const regularization_types[] = { "constant", "flat_cosine", NULL };

static const et_field regularization_fields[] = {
    ET_FIELD_CHOICE(et_regularization_options, type, ET_REGULARIZATION_CONSTANT,
                    regularization_types,
                    "factor on weight decay and dropout rates; flat_cosine: 1 in the first half, "
                    "then half a cosine to 0"),
    DECAY_STEPS(et_regularization_options, decay_steps,
                "steps until the factor is 0; 0 or auto: until the end of the run", .zero = "auto",
                .with = "type=flat_cosine"),
    ET_FIELD_END
};
static const et_fields regularization_table = { "regularization", regularization_fields };

/* The table that the trainer nests. */
static const et_field optimization_fields[] = {
    ET_FIELD_STRUCT(et_optimization_options, optimizer, &et_optimizer_fields, "update rule"),
    ET_FIELD_STRUCTS(et_optimization_options, parameter_groups, et_parameter_group_options,
                     &parameter_group_table,
                     "parameters with their own rate and decay; a parameter is in at most one"),
    ET_FIELD_STRINGS(et_optimization_options, frozen,
                     "regular expressions: parameters whose names contain a match keep their "
                     "values, and have no gradients or slots"),
    ET_FIELD_STRUCT(et_optimization_options, ema, &ema_table, "moving average of the weights"),
    ET_FIELD_STRUCT(et_optimization_options, learning_rate, &rate_table, "learning rate schedule",
                    .number = "peak"),
    ET_FIELD_STRUCT(et_optimization_options, warmup, &warmup_table, "warm-up", .nullable = true),
    ET_FIELD_STRUCT(et_optimization_options, regularization, &regularization_table,
                    "change of weight decay and dropout over the run"),
    ET_FIELD_END
};
const et_fields et_optimization_fields = { "optimizer_config", optimization_fields };

int et_optimization_register(const et_fields **table, et_optimization_options *options,
                             const et_optimizer_rule *const *own, et_arena *arena, et_error *error)
{
    const et_fields *rules;
    int status = et_optimizer_register(&rules, &options->optimizer, own, arena, error);
    *table = &et_optimization_fields;
    *table = status ? *table : et_fields_with(*table, "optimizer", rules, arena);
    return *table ? status : et_alloc_failed(error, sizeof optimization_fields, "update rules");
}

double et_regularization_factor(const et_regularization_options *options, int64_t step)
{
    if (options->type == ET_REGULARIZATION_CONSTANT || options->decay_steps <= 0)
        return 1;
    const double done = fmin(1, (double)step / (double)options->decay_steps);
    return done <= 0.5 ? 1 : 0.5 * (1 + cos(PI * (2 * done - 1)));
}

/* at: "trainer.optimizer_config.parameter_groups[0]" */
static int check_group(const et_parameter_group_options *g, const et_optimizer_options *optimizer,
                       const char *at, et_error *error)
{
    char setting[96];
    et_patterns *pattern;
    const void *settings;
    double decay;
    et_strings list;
    const et_optimizer_rule *rule = et_rule_chosen(optimizer, &settings);
    if (!g->pattern || !*g->pattern)
        return et_fail(error, ET_ECONFIG,
                       "%s.pattern is not set; give a regular expression that matches the names of "
                       "the group's parameters",
                       at);
    if (g->weight_decay_rate < 0 && g->weight_decay_rate != ET_DECAY_OF_RULE)
        return et_fail(error, ET_ECONFIG,
                       "%s.weight_decay_rate: %g; give at least 0, or null for the update rule's",
                       at, g->weight_decay_rate);
    if (g->weight_decay_rate != ET_DECAY_OF_RULE &&
        !et_rule_decay(rule, settings, &decay, &list, &list))
        return et_fail(error, ET_ECONFIG,
                       "%s.weight_decay_rate: the update rule %s has no weight decay; choose "
                       "another rule, such as adamw",
                       at, rule->name);
    snprintf(setting, sizeof setting, "%s.pattern", at);
    int status = et_patterns_new(&pattern, (et_strings){ &g->pattern, 1 }, setting, error);
    if (!status)
        et_patterns_free(pattern);
    return status;
}

static int check_frozen(const et_optimization_options *options, et_error *error)
{
    et_patterns *frozen;
    for (size_t i = 0; i < options->frozen.count; i++)
        if (!*options->frozen.items[i])
            return et_fail(error, ET_ECONFIG,
                           ET_SETTING_FROZEN ": an empty expression matches every name; give a "
                                             "part of a name");
    if (!options->frozen.count)
        return ET_OK;
    int status = et_patterns_new(&frozen, options->frozen, ET_SETTING_FROZEN, error);
    if (!status)
        et_patterns_free(frozen);
    return status;
}

/* The rule with its groups, then the schedule with its warm-up. The schedule is made and dropped;
 * its own check is the one that knows what it needs. */
int et_optimization_check(const et_optimization_options *options, et_error *error)
{
    et_schedule schedule;
    int status = et_optimizer_options_check(&options->optimizer, error);
    const et_parameter_group_options *groups = options->parameter_groups.items;
    for (size_t i = 0; !status && i < options->parameter_groups.count; i++) {
        char at[80];
        snprintf(at, sizeof at, "trainer.optimizer_config.parameter_groups[%zu]", i);
        status = check_group(&groups[i], &options->optimizer, at, error);
    }
    if (!status)
        status = check_frozen(options, error);
    return status ? status
                  : et_schedule_init(&schedule, &options->learning_rate, &options->warmup, error);
}

/* ---- lengths ---- */

/* Offsets of members in a schedule's options; 0, the offset of the type: the schedule has no such
 * member. */
typedef struct rate_length {
    size_t steps;              /* an int64_t */
    size_t boundaries, values; /* et_strings */
    size_t offset;             /* an int64_t */
    bool period;               /* of several: it has to be given */
    bool falls;                /* from boundary to boundary, the first one on */
} rate_length;

#define AT(member) offsetof(et_rate_options, member)

static const rate_length lengths[ET_RATE_COUNT] = {
    [ET_RATE_EXPONENTIAL] = { AT(exponential.decay_steps), .offset = AT(exponential.offset) },
    [ET_RATE_POLYNOMIAL] = { AT(polynomial.decay_steps), .offset = AT(polynomial.offset) },
    [ET_RATE_COSINE] = { AT(cosine.decay_steps), .offset = AT(cosine.offset) },
    [ET_RATE_COSINE_LOG] = { AT(cosine_log.decay_steps), .offset = AT(cosine_log.offset) },
    [ET_RATE_COSINE_RESTARTS] = { AT(cosine_restarts.first_decay_steps), .period = true },
    [ET_RATE_POWER_LINEAR] = { AT(power_linear.total_decay_steps),
                               .offset = AT(power_linear.offset) },
    [ET_RATE_STEPWISE] = { .boundaries = AT(stepwise.boundaries),
                           .values = AT(stepwise.values),
                           .offset = AT(stepwise.offset) },
    [ET_RATE_STEP_COSINE_WITH_OFFSET] = { .boundaries = AT(step_cosine_with_offset.boundaries),
                                          .values = AT(step_cosine_with_offset.values),
                                          .offset = AT(step_cosine_with_offset.offset),
                                          .falls = true },
};

static void *member(et_rate_options *rate, size_t at)
{
    return at ? (char *)rate + at : NULL;
}

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
        return et_alloc_failed(error, count * sizeof *items, "boundaries");
    *boundaries = (et_strings){ items, count };
    return ET_OK;
}

int et_optimization_end_with_run(et_optimization_options *options, int64_t train_steps,
                                 et_arena *arena, et_error *error)
{
    et_rate_options *rate = &options->learning_rate;
    const rate_length *length = &lengths[rate->type];
    if (options->regularization.type && !options->regularization.decay_steps)
        options->regularization.decay_steps = train_steps;
    int64_t *steps = member(rate, length->steps), *offset = member(rate, length->offset);
    et_strings *boundaries = member(rate, length->boundaries);
    const et_strings *values = member(rate, length->values);
    bool whole = steps && !*steps && !length->period;
    bool parts = boundaries && !boundaries->count && values->count > !length->falls;
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
        return make_parts(boundaries, values, length->falls, train_steps - *offset, arena, error);
    *steps = train_steps - *offset;
    return ET_OK;
}

void et_rate_follow_length(et_rate_options *rate, int64_t was, int64_t now)
{
    const rate_length *length = &lengths[rate->type];
    int64_t *steps = member(rate, length->steps);
    const int64_t *offset = member(rate, length->offset);
    if (steps && !length->period && *steps + *offset == was && now > *offset)
        *steps = now - *offset;
}

bool et_optimization_counts_epochs(const et_optimization_options *options)
{
    et_rate_options rate = options->learning_rate;
    const int64_t *steps = member(&rate, lengths[rate.type].steps);
    const et_strings *boundaries = member(&rate, lengths[rate.type].boundaries);
    bool counts = (steps && *steps < 0) || options->regularization.decay_steps < 0;
    bool open = boundaries && rate.run.epoch_steps <= 0;
    for (size_t i = 0; open && !counts && i < boundaries->count; i++) {
        double number;
        bool epochs;
        counts = et_schedule_read(boundaries->items[i], &number, &epochs) && epochs;
    }
    return counts;
}

void et_optimization_resolve(et_optimization_options *options, int64_t batches, int64_t update)
{
    et_rate_options *rate = &options->learning_rate;
    int64_t *steps = member(rate, lengths[rate->type].steps);
    et_assert(batches > 0 && update > 0 && rate->run.gradients >= 0);
    double taken = (double)update * fmax(1, (double)rate->run.gradients);
    rate->run.epoch_steps = (double)batches / taken;
    int64_t *lengths_of[] = { steps, &options->regularization.decay_steps };
    for (int i = 0; i < 2; i++)
        if (lengths_of[i] && *lengths_of[i] < 0)
            *lengths_of[i] =
                (int64_t)fmax(1, round((double)et_field_steps(*lengths_of[i], batches) / taken));
}
