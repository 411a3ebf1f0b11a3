/* Tables of what options.h declares; defaults are Model Garden's. 0 stands for its null where
 * 0 would make no sense: et_optimization_check asks for what must be set.
 *
 * A row says name, default, limits and help of one member. From the tables base/fields.c
 * makes the parser, the help text and the echo in params.yaml; ranges of single numbers are
 * checked there, and only what takes two settings at once is checked below. The tables nest
 * as the settings do:
 *   optimizer_config.optimizer.{type, sgd, adam, adamw}
 *   optimizer_config.learning_rate.{type, constant, ..., inverse_sqrt}
 *   optimizer_config.warmup.{type, linear, polynomial}
 *   optimizer_config.ema
 * Each `type` names the sibling table that counts. All of them exist all the time, so that a
 * file may hold settings of a schedule that another file then chooses.
 *
 * To add an option: a member in options.h and a row here. To add a choice: a name in the list
 * of types, in the order of the enum, and a table. */
#include "optim/options.h"

#include <math.h>

#include "base/pattern.h"
#include "optim/schedule.h"

/* Far above any rate that trains; Model Garden's pre_offset_learning_rate has it as its
 * default. Steps are whole numbers that a double holds exactly, since schedules compute with
 * doubles. */
#define RATE_MAX  1e6
#define STEPS_MAX ((int64_t)1 << 53)

#define CLIP_HELP "largest global L2 norm of the gradient; 0: gradients are not clipped"

/* The same members in several structs, so that keys and limits cannot drift apart. Each
 * expands to one row (ADAM_MEMBERS and CLIPS to several) of a table; type is the struct whose
 * member it is. Decays of moments end below 1: at 1 the bias correction would divide by 0. */
#define CLIPS(type)                                                                                \
    ET_FIELD_FLOAT(type, clipvalue, 0, 0, HUGE_VAL,                                                \
                   "largest absolute value of an element of the gradient; 0: any"),                \
        ET_FIELD_FLOAT(type, clipnorm, 0, 0, HUGE_VAL,                                             \
                       "largest L2 norm of a parameter's gradient; 0: any"),                       \
        ET_FIELD_FLOAT(type, global_clipnorm, 0, 0, HUGE_VAL, CLIP_HELP)
#define ADAM_MEMBERS(type)                                                                         \
    ET_FIELD_FLOAT(type, beta_1, 0.9, 0, 0.999999, "decay of the first moment"),                   \
        ET_FIELD_FLOAT(type, beta_2, 0.999, 0, 0.9999999, "decay of the second moment"),           \
        ET_FIELD_FLOAT(type, epsilon, 1e-7, 1e-30, 1, "added to the root of the second moment"),   \
        CLIPS(type)
#define INITIAL_RATE(type)                                                                         \
    ET_FIELD_FLOAT(type, initial_learning_rate, 0, 0, RATE_MAX,                                    \
                   "learning rate at the start; must be set")
#define DECAY_STEPS(type, member, text) ET_FIELD_INT(type, member, 0, 0, STEPS_MAX, text)
#define OFFSET(type)                                                                               \
    ET_FIELD_INT(type, offset, 0, 0, STEPS_MAX, "steps that are subtracted from the step first")
#define POWER(type)                                                                                \
    ET_FIELD_FLOAT(type, power, -0.5, -100, 100, "exponent of the step; -0.5: inverse root")

/* optimizer.sgd. Momentum 1 is allowed: a sum of all changes, without forgetting. */
static const et_field sgd_fields[] = {
    ET_FIELD_FLOAT(et_sgd_options, momentum, 0, 0, 1, "share of the last change kept; 0: none"),
    ET_FIELD_BOOL(et_sgd_options, nesterov, false, "momentum as Nesterov has it"),
    ET_FIELD_FLOAT(et_sgd_options, decay, 0, 0, 1, "the rate is divided by 1 + decay * step"),
    CLIPS(et_sgd_options), ET_FIELD_END
};
/* Every table is named as its setting is, for messages that list what it has. */
static const et_fields sgd_table = { "sgd", sgd_fields };

/* optimizer.adam and optimizer.adamw: the same four, and what decays. */
static const et_field adam_fields[] = { ADAM_MEMBERS(et_adam_options), ET_FIELD_END };
static const et_fields adam_table = { "adam", adam_fields };

static const et_field adamw_fields[] = {
    ADAM_MEMBERS(et_adamw_options),
    ET_FIELD_FLOAT(et_adamw_options, weight_decay_rate, 0, 0, RATE_MAX,
                   "a weight loses learning rate * this of itself each step; 0: none"),
    /* Empty lists: everything decays. */
    ET_FIELD_STRINGS(et_adamw_options, include_in_weight_decay,
                     "regular expressions: parameters that decay even if excluded"),
    ET_FIELD_STRINGS(et_adamw_options, exclude_from_weight_decay,
                     "regular expressions: parameters that do not decay"),
    ET_FIELD_FLOAT(et_adamw_options, gradient_clip_norm, 1, 0, HUGE_VAL, CLIP_HELP), ET_FIELD_END
};
static const et_fields adamw_table = { "adamw", adamw_fields };

/* ORDER optimizer.type: the choice is an index into this list, the enum and `rules` of
 * optimizer.c. */
static const char *const optimizer_types[] = { "none", "sgd", "adam", "adamw", NULL };

/* One row for each rule, whether chosen or not. */
static const et_field optimizer_fields[] = {
    ET_FIELD_CHOICE(et_optimizer_options, type, ET_OPTIMIZER_NONE, optimizer_types,
                    "update rule; must be chosen", .nullable = true, .selects = true),
    ET_FIELD_STRUCT(et_optimizer_options, sgd, &sgd_table, "stochastic gradient descent"),
    ET_FIELD_STRUCT(et_optimizer_options, adam, &adam_table, "Adam"),
    ET_FIELD_STRUCT(et_optimizer_options, adamw, &adamw_table, "Adam with weight decay"),
    ET_FIELD_END
};
static const et_fields optimizer_table = { "optimizer", optimizer_fields };

/* learning_rate.<type>: one table for each schedule of schedule.c, where the formulas are. */
static const et_field constant_fields[] = {
    ET_FIELD_FLOAT(et_rate_constant, learning_rate, 0.1, 0, RATE_MAX, "learning rate"), ET_FIELD_END
};
static const et_fields constant_table = { "constant", constant_fields };

/* Numbers as texts: fields know lists of strings only, and schedule.c reads them. */
static const et_field stepwise_fields[] = {
    ET_FIELD_STRINGS(et_rate_stepwise, boundaries,
                     "steps, ascending: the last step of each value but the last"),
    ET_FIELD_STRINGS(et_rate_stepwise, values, "learning rates, one more than boundaries"),
    OFFSET(et_rate_stepwise), ET_FIELD_END
};
static const et_fields stepwise_table = { "stepwise", stepwise_fields };

/* decay_rate has no default in Model Garden. Above 1 the rate grows. */
static const et_field exponential_fields[] = {
    INITIAL_RATE(et_rate_exponential),
    DECAY_STEPS(et_rate_exponential, decay_steps, "steps of one decay; must be set"),
    ET_FIELD_FLOAT(et_rate_exponential, decay_rate, 0, 0, RATE_MAX,
                   "factor of one decay; must be set"),
    ET_FIELD_BOOL(et_rate_exponential, staircase, false, "decay at whole multiples only"),
    OFFSET(et_rate_exponential),
    ET_FIELD_END
};
static const et_fields exponential_table = { "exponential", exponential_fields };

/* end_learning_rate may be above the start: then it rises. */
static const et_field polynomial_fields[] = {
    INITIAL_RATE(et_rate_polynomial),
    DECAY_STEPS(et_rate_polynomial, decay_steps, "steps until the end; must be set"),
    ET_FIELD_FLOAT(et_rate_polynomial, end_learning_rate, 1e-4, 0, RATE_MAX,
                   "learning rate at the end"),
    ET_FIELD_FLOAT(et_rate_polynomial, power, 1, 0, 100, "exponent; 1: a line"),
    ET_FIELD_BOOL(et_rate_polynomial, cycle, false, "begin again after decay_steps, longer"),
    OFFSET(et_rate_polynomial),
    ET_FIELD_END
};
static const et_fields polynomial_table = { "polynomial", polynomial_fields };

/* alpha is a share of initial_learning_rate, not a rate. */
static const et_field cosine_fields[] = {
    INITIAL_RATE(et_rate_cosine),
    DECAY_STEPS(et_rate_cosine, decay_steps, "steps until the end; must be set"),
    ET_FIELD_FLOAT(et_rate_cosine, alpha, 0, 0, 1, "share of the rate that is left at the end"),
    OFFSET(et_rate_cosine), ET_FIELD_END
};
static const et_fields cosine_table = { "cosine", cosine_fields };

/* t_mul below 1 is refused: the sum of all periods would be finite, and past it there is
 * none. */
static const et_field cosine_restarts_fields[] = {
    INITIAL_RATE(et_rate_cosine_restarts),
    DECAY_STEPS(et_rate_cosine_restarts, first_decay_steps,
                "steps of the first period; must be set"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, t_mul, 2, 1, 1000,
                   "each period is this much longer than the one before"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, m_mul, 1, 0, 1000,
                   "each period begins this much higher than the one before"),
    ET_FIELD_FLOAT(et_rate_cosine_restarts, alpha, 0, 0, 1,
                   "share of the rate that is left at each end"),
    OFFSET(et_rate_cosine_restarts),
    ET_FIELD_END
};
static const et_fields cosine_restarts_table = { "cosine_restarts", cosine_restarts_fields };

/* The three schedules of Model Garden that follow a power of the step. */
static const et_field power_fields[] = { INITIAL_RATE(et_rate_power), POWER(et_rate_power),
                                         ET_FIELD_END };
static const et_fields power_table = { "power", power_fields };

/* The line ends at total_decay_steps, however long the run is. */
static const et_field power_linear_fields[] = {
    INITIAL_RATE(et_rate_power_linear),
    POWER(et_rate_power_linear),
    DECAY_STEPS(et_rate_power_linear, total_decay_steps, "step of rate 0; must be set"),
    ET_FIELD_FLOAT(et_rate_power_linear, linear_decay_fraction, 0.1, 0, 1,
                   "last share of the steps, in which a line to 0 lies over the power"),
    OFFSET(et_rate_power_linear),
    ET_FIELD_END
};
static const et_fields power_linear_table = { "power_linear", power_linear_fields };

/* Its offset is not OFFSET's: rows before it have a rate of their own. */
static const et_field power_with_offset_fields[] = {
    INITIAL_RATE(et_rate_power_with_offset), POWER(et_rate_power_with_offset),
    ET_FIELD_INT(et_rate_power_with_offset, offset, 0, 0, STEPS_MAX,
                 "steps at pre_offset_learning_rate before the power begins"),
    ET_FIELD_FLOAT(et_rate_power_with_offset, pre_offset_learning_rate, 1e6, 0, RATE_MAX,
                   "learning rate until offset, and the highest after it"),
    ET_FIELD_END
};
static const et_fields power_with_offset_table = { "power_with_offset", power_with_offset_fields };

/* Not in Model Garden: fairseq's schedule of that name, with its usual numbers as defaults. */
static const et_field inverse_sqrt_fields[] = {
    ET_FIELD_FLOAT(et_rate_inverse_sqrt, peak_learning_rate, 5e-4, 0, RATE_MAX,
                   "learning rate at the end of the warm-up"),
    ET_FIELD_INT(et_rate_inverse_sqrt, warmup_steps, 4000, 1, STEPS_MAX,
                 "steps of a line up to the peak; then peak * sqrt(warmup_steps / step)"),
    ET_FIELD_FLOAT(et_rate_inverse_sqrt, warmup_init_learning_rate, 0, 0, RATE_MAX,
                   "learning rate of the first step"),
    ET_FIELD_END
};
static const et_fields inverse_sqrt_table = { "inverse_sqrt", inverse_sqrt_fields };

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
    [ET_RATE_INVERSE_SQRT] = "inverse_sqrt",
    [ET_RATE_COUNT] = NULL,
};

/* One row for each schedule. Help says the formula where it fits. */
static const et_field rate_fields[] = {
    ET_FIELD_CHOICE(et_rate_options, type, ET_RATE_NONE, rate_types, "schedule; must be chosen",
                    .nullable = true, .selects = true),
    ET_FIELD_STRUCT(et_rate_options, constant, &constant_table, "the same all along"),
    ET_FIELD_STRUCT(et_rate_options, stepwise, &stepwise_table, "steps of given values"),
    ET_FIELD_STRUCT(et_rate_options, exponential, &exponential_table,
                    "initial * decay_rate^(step / decay_steps)"),
    ET_FIELD_STRUCT(et_rate_options, polynomial, &polynomial_table,
                    "a power of the share of steps left"),
    ET_FIELD_STRUCT(et_rate_options, cosine, &cosine_table, "half a cosine"),
    ET_FIELD_STRUCT(et_rate_options, cosine_restarts, &cosine_restarts_table,
                    "half cosines, ever longer"),
    ET_FIELD_STRUCT(et_rate_options, power, &power_table, "initial * step^power"),
    ET_FIELD_STRUCT(et_rate_options, power_linear, &power_linear_table,
                    "a power that a line takes to 0"),
    ET_FIELD_STRUCT(et_rate_options, power_with_offset, &power_with_offset_table,
                    "a power that begins at a step"),
    ET_FIELD_STRUCT(et_rate_options, inverse_sqrt, &inverse_sqrt_table,
                    "warm-up to a peak, then the inverse square root"),
    ET_FIELD_END
};
/* The names of the choices and of the structs agree, so `type` reads as a path. */
static const et_fields rate_table = { "learning_rate", rate_fields };

/* warmup.<type>: what lies over the first steps, see et_schedule_rate. */
static const et_field warmup_linear_fields[] = {
    ET_FIELD_FLOAT(et_warmup_linear, warmup_learning_rate, 0, 0, RATE_MAX,
                   "learning rate of the first step"),
    ET_FIELD_INT(et_warmup_linear, warmup_steps, 0, 0, STEPS_MAX,
                 "steps of a line up to the schedule; must be set"),
    ET_FIELD_END
};
static const et_fields warmup_linear_table = { "linear", warmup_linear_fields };

/* Power 1 is a line from 1 / warmup_steps of the schedule, not from 0. */
static const et_field warmup_polynomial_fields[] = {
    ET_FIELD_FLOAT(et_warmup_polynomial, power, 1, 0, 100, "exponent of step / warmup_steps"),
    ET_FIELD_INT(et_warmup_polynomial, warmup_steps, 0, 0, STEPS_MAX,
                 "steps until the schedule is reached; must be set"),
    ET_FIELD_END
};
static const et_fields warmup_polynomial_table = { "polynomial", warmup_polynomial_fields };

/* ORDER warmup.type */
static const char *const warmup_types[] = { "none", "linear", "polynomial", NULL };

static const et_field warmup_fields[] = {
    ET_FIELD_CHOICE(et_warmup_options, type, ET_WARMUP_NONE, warmup_types,
                    "what lies over the first steps of the schedule", .nullable = true,
                    .selects = true),
    ET_FIELD_STRUCT(et_warmup_options, linear, &warmup_linear_table, "a line"),
    ET_FIELD_STRUCT(et_warmup_options, polynomial, &warmup_polynomial_table, "a power"),
    ET_FIELD_END
};
static const et_fields warmup_table = { "warmup", warmup_fields };

/* The formula is at et_ema_options. */
static const et_field ema_fields[] = {
    ET_FIELD_BOOL(et_ema_options, enabled, false,
                  "keep a moving average of the weights, and evaluate with it"),
    ET_FIELD_FLOAT(et_ema_options, average_decay, 0.99, 0, 1,
                   "share of the average that a step keeps"),
    ET_FIELD_INT(et_ema_options, start_step, 0, 0, STEPS_MAX,
                 "until then the average is a copy of the weights"),
    ET_FIELD_BOOL(et_ema_options, dynamic_decay, true,
                  "keep less at first: (1 + step) / (10 + step)"),
    ET_FIELD_END
};
static const et_fields ema_table = { "ema", ema_fields };

/* The table that the trainer nests. */
static const et_field optimization_fields[] = {
    ET_FIELD_STRUCT(et_optimization_options, optimizer, &optimizer_table, "the update rule"),
    ET_FIELD_STRUCT(et_optimization_options, ema, &ema_table, "the average of the weights"),
    ET_FIELD_STRUCT(et_optimization_options, learning_rate, &rate_table, "the schedule"),
    ET_FIELD_STRUCT(et_optimization_options, warmup, &warmup_table, "the warm-up"), ET_FIELD_END
};
const et_fields et_optimization_fields = { "optimizer_config", optimization_fields };

/* Compiles and forgets: a bad expression is found when settings are read, not after the data. */
static int check_patterns(et_strings expressions, const char *setting, et_error *error)
{
    et_patterns *patterns;
    int status = et_patterns_new(&patterns, expressions, setting, error);
    if (!status)
        et_patterns_free(patterns);
    return status;
}

/* Keras refuses both, and so does Model Garden with it. */
static int check_clips(const char *rule, double norm, double global_norm, et_error *error)
{
    if (norm > 0 && global_norm > 0)
        return et_fail(error, ET_ECONFIG,
                       "optimizer_config.optimizer.%s: clipnorm and global_clipnorm are both set; "
                       "set one of them to 0",
                       rule);
    return ET_OK;
}

/* The rule, then the schedule with its warm-up, then the expressions, which are checked for
 * every rule: a file with a bad one is wrong whatever is chosen. The schedule is made and
 * dropped; its own check is the one that knows what it needs. */
int et_optimization_check(const et_optimization_options *options, et_error *error)
{
    /* Model Garden too refuses a type that was not chosen. */
    if (options->optimizer.type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG,
                       "optimizer_config.optimizer.type: none is chosen; set it to sgd, adam or "
                       "adamw");
    int status = check_clips("sgd", options->optimizer.sgd.clipnorm,
                             options->optimizer.sgd.global_clipnorm, error);
    if (!status)
        status = check_clips("adam", options->optimizer.adam.clipnorm,
                             options->optimizer.adam.global_clipnorm, error);
    if (!status)
        status = check_clips("adamw", options->optimizer.adamw.clipnorm,
                             options->optimizer.adamw.global_clipnorm, error);
    if (status)
        return status;
    et_schedule schedule;
    status = et_schedule_init(&schedule, &options->learning_rate, &options->warmup, error);
    /* Which rule is chosen plays no part here, see above. */
    const et_adamw_options *adamw = &options->optimizer.adamw;
    if (!status)
        status = check_patterns(adamw->include_in_weight_decay,
                                "optimizer.adamw.include_in_weight_decay", error);
    if (!status)
        status = check_patterns(adamw->exclude_from_weight_decay,
                                "optimizer.adamw.exclude_from_weight_decay", error);
    return status;
}
