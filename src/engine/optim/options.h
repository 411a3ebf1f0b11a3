/* Settings of optimization, `trainer.optimizer_config`: field tables with Model Garden's names and
 * defaults, and with Etude's own settings. A choice (`type`) selects one of the sibling structs;
 * the others keep their defaults and are ignored.
 *
 *     et_optimization_options options;
 *     et_fields_defaults(&et_optimization_fields, &options);
 *     options.optimizer.type = ET_OPTIMIZER_ADAM;
 *     if (et_optimization_check(&options, &error)) ...
 *
 * Plain values; lists and strings are borrowed from the arena that they were parsed into.
 *
 * Learning rates as pure functions of the step (formulas: Model Garden's). A schedule is a value
 * made from options: it borrows nothing and is copied by assignment. Warm-up replaces the first
 * steps of the schedule and does not delay it. Step 0 is the first update.
 *
 *     et_schedule schedule;
 *     if (et_schedule_init(&schedule, &given->learning_rate, &given->warmup, &error)) ...
 *     double rate = et_schedule_rate(&schedule, step);
 *
 * To add one: see README.md. Thread-safe.
 */
#ifndef ETUDE_ENGINE_OPTIM_OPTIONS_H
#define ETUDE_ENGINE_OPTIM_OPTIONS_H

#include <etude/error.h>

#include "base/fields/fields.h"
#include "engine/optim/rules/rule_options.h"

/* learning_rate.type */
enum {
    ET_RATE_NONE,
#define SCHEDULE(ID, name, help) ET_RATE_##ID,
#include "engine/optim/schedules.def"
#undef SCHEDULE
    ET_RATE_COUNT,
};

/* warmup.type */
enum { ET_WARMUP_NONE, ET_WARMUP_LINEAR, ET_WARMUP_POLYNOMIAL };

/* The schedules that <etude/optimizer_settings.h> has no struct for. Steps count updates from 0.
 * Lengths of 0 and missing boundaries come from the run: et_optimization_end_with_run. */
typedef struct et_schedule_constant {
    double learning_rate;
} et_schedule_constant;

typedef struct et_schedule_stepwise {
    et_strings boundaries; /* numbers, of steps or (2ep) of epochs, ascending */
    et_strings values;     /* one more than boundaries */
    int64_t offset;
} et_schedule_stepwise;

/* A cosine again and again, each period t_mul as long and m_mul as high as the one before. */
typedef struct et_schedule_cosine_restarts {
    double initial_learning_rate, t_mul, m_mul, alpha;
    int64_t first_decay_steps, offset;
} et_schedule_cosine_restarts;

/* initial max(step, 1)^power, with power -0.5 as a rule. */
typedef struct et_schedule_power {
    double initial_learning_rate, power;
} et_schedule_power;

/* The power, times a line to 0 over the last linear_decay_fraction of total_decay_steps. */
typedef struct et_schedule_power_linear {
    double initial_learning_rate, power, linear_decay_fraction;
    int64_t total_decay_steps, offset;
} et_schedule_power_linear;

/* pre_offset_learning_rate up to the step offset, then the power counted from there, at most
 * pre_offset_learning_rate. */
typedef struct et_schedule_power_with_offset {
    double initial_learning_rate, power, pre_offset_learning_rate;
    int64_t offset;
} et_schedule_power_with_offset;

/* From each boundary, half a cosine from its value to the next value at the next boundary. The
 * first value holds from 0 to the first boundary, the last one from the last boundary on. (In Model
 * Garden's documentation, segments end at boundaries; in its code and its test, they begin there.
 * There the last segment, of length 0, makes the rate NaN, and the first counts from step 0.) */
typedef struct et_schedule_step_cosine_with_offset {
    et_strings boundaries; /* numbers, of steps or of epochs, ascending */
    et_strings values;     /* as many */
    int64_t offset;
} et_schedule_step_cosine_with_offset;

/* cycles whole cosines from 0 up and down, in the logarithm of the step: each lasts about twice as
 * long as the one before (RealMLP's coslog4). */
typedef struct et_schedule_cosine_log {
    double peak_learning_rate; /* of each cosine */
    int64_t cycles, decay_steps, offset;
} et_schedule_cosine_log;

/* The run's lengths for schedules: not settings; set once they are known. */
typedef struct et_rate_run {
    double epoch_steps; /* updates of an epoch; 0: not known */
    int64_t gradients;  /* that the roles of a cluster add up for an update; 0: 1 */
} et_rate_run;

typedef struct et_rate_options {
    int type;
    double peak; /* of the chosen schedule, until it is used; below 0: the schedule's own */
    et_rate_run run;
#define SCHEDULE(ID, name, help) et_schedule_##name name;
#include "engine/optim/schedules.def"
#undef SCHEDULE
} et_rate_options;

/* Linear from warmup_learning_rate to the schedule's rate at step warmup_steps. */
typedef struct et_warmup_linear {
    double warmup_learning_rate;
    int64_t warmup_steps;
} et_warmup_linear;

/* (max(step, 1) / warmup_steps)^power times the schedule's rate at step warmup_steps. */
typedef struct et_warmup_polynomial {
    double power;
    int64_t warmup_steps;
} et_warmup_polynomial;

typedef struct et_warmup_options {
    int type;
    et_warmup_linear linear;
    et_warmup_polynomial polynomial;
} et_warmup_options;

/* Exponential moving average of the weights. After update s (counted from 1): average -= (1 - d) *
 * (average - weight), d = average_decay, or with dynamic_decay min(average_decay, (1 + s') / (10 +
 * s')), s' = s - start_step; before start_step the average is a copy. It starts from the weights;
 * Model Garden's starts from zeros.
 *
 * trainable_weights_only false: variables, such as statistics of batches, are averaged too. An
 * optimizer of the whole store averages all of them; an optimizer of a part averages variables next
 * to one of its parameters (names agree up to the last slash). Otherwise the average has the
 * variables' current values. */
typedef struct et_ema_options {
    bool enabled, trainable_weights_only;
    double average_decay;
    int64_t start_step;
    bool dynamic_decay;
} et_ema_options;

#define ET_DECAY_OF_RULE (-1.0)

/* Parameters whose names match pattern have their own rate and decay. The rule's lists of names
 * still say which parameters decay. */
typedef struct et_parameter_group_options {
    const char *pattern;             /* a regular expression searched in names */
    double learning_rate_multiplier; /* of the schedule's rate */
    double weight_decay_rate;        /* instead of the rule's; ET_DECAY_OF_RULE: that */
} et_parameter_group_options;

/* regularization.type */
enum { ET_REGULARIZATION_CONSTANT, ET_REGULARIZATION_FLAT_COSINE };

/* A factor on weight decay and on rates of dropout, from 1 on. flat_cosine: 1 for the first half of
 * decay_steps, then half a cosine to 0. */
typedef struct et_regularization_options {
    int type;
    int64_t decay_steps;
} et_regularization_options;

/* The factor before update number step, from 0; decay_steps are the run's by now. */
double et_regularization_factor(const et_regularization_options *options, int64_t step);

/* The setting of frozen parameters, for messages. */
#define ET_SETTING_FROZEN "trainer.optimizer_config.frozen"

typedef struct et_optimization_options {
    et_optimizer_options optimizer;
    et_structs parameter_groups; /* et_parameter_group_options; a parameter is in at most one */
    et_strings frozen;           /* regular expressions of parameters that do not train */
    et_ema_options ema;
    et_rate_options learning_rate;
    et_warmup_options warmup;
    et_regularization_options regularization;
} et_optimization_options;

/* For nesting into the trainer's own table. */
extern const et_fields et_optimization_fields;

/* The type with this name; ET_OPTIMIZER_NONE: no such type. own NULL: Etude's rules only.
 * et_optimizer_names: the names of Etude's rules, separated by commas. */
int et_optimizer_type(const char *name, const et_optimizer_rule *const *own);
extern const char *const et_optimizer_names;

/* The table with the program's rules (NULL: none), whose settings, with their defaults, are added
 * to options; all in arena. ET_EUSAGE: rules that are incomplete or have a name twice. */
int et_optimization_register(const et_fields **table, et_optimization_options *options,
                             const et_optimizer_rule *const *own, et_arena *arena, et_error *error);

/* The settings that a program's setup means; lists and texts live in arena. group is not looked at.
 */
struct et_optimizer_setup;
int et_optimizer_settle(et_optimization_options *options, const struct et_optimizer_setup *setup,
                        et_arena *arena, et_error *error);

/* A number that replaces learning_rate is stored as peak. It becomes the peak of the chosen
 * schedule: the first rate of a falling schedule, whose values are scaled; without a schedule, a
 * constant rate. ET_ECONFIG: a growing schedule. */
int et_optimization_use_peak(et_optimization_options *options, et_arena *arena, et_error *error);
/* That setting, below learning_rate: "cosine.initial_learning_rate". */
const char *et_optimization_peak_name(const et_optimization_options *options);

/* Checks that tables can't make: a type is chosen, its required settings are set, clips do not
 * exclude each other, lists are ascending, patterns compile. Patterns of all rules are checked,
 * chosen or not, since a wrong one makes the file wrong. ET_ECONFIG names the setting and the cure.
 */
int et_optimization_check(const et_optimization_options *options, et_error *error);

/* A schedule that ends with a run of `was` steps now ends with a run of `now` steps. Other
 * schedules, and those in pieces, stay as they are. */
void et_rate_follow_length(et_rate_options *rate, int64_t was, int64_t now);

/* Gives a schedule without length the run's: decay_steps (not cosine_restarts' period) or
 * boundaries end with train_steps of it, less the offset, or epochs (et_field_steps). Several
 * values without boundaries get equal parts. 0: no length is set. Lists are made in arena.
 * ET_ECONFIG: no steps remain after the offset. */
int et_optimization_end_with_run(et_optimization_options *options, int64_t train_steps,
                                 et_arena *arena, et_error *error);

/* Whether a schedule's steps are given in epochs (et_field_steps), with which no optimizer can be
 * made. resolve: replaces epochs by steps. batches: in a pass over the data; update: batches per
 * update. */
bool et_optimization_counts_epochs(const et_optimization_options *options);
void et_optimization_resolve(et_optimization_options *options, int64_t batches, int64_t update);

#define ET_SCHEDULE_VALUES_MAX 64 /* values of a schedule in steps */

typedef struct et_schedule et_schedule;

/* For nesting into optimizer_config. */
extern const et_fields et_rate_fields, et_warmup_fields;

struct et_schedule {
    const struct et_schedule_class *class;
    et_rate_options options; /* its lists are not used after init */
    et_warmup_options warmup;
    int64_t offset; /* subtracted from steps; 0: none */
    int pieces;     /* stepwise, step_cosine_with_offset: number of values */
    double boundaries[ET_SCHEDULE_VALUES_MAX], values[ET_SCHEDULE_VALUES_MAX];
};

/* Lengths in epochs are accepted, for a check of settings; no rate is requested from such a
 * schedule. ET_ECONFIG: a required setting is missing or two do not fit together. */
int et_schedule_init(et_schedule *schedule, const et_rate_options *options,
                     const et_warmup_options *warmup, et_error *error);

/* Steps of the warm-up, linear, polynomial or inverse_sqrt's own; 0: no warm-up. */
int64_t et_schedule_warmup(const et_schedule *schedule);

/* The learning rate of update number step, from 0. */
double et_schedule_rate(const et_schedule *schedule, int64_t step);

#endif
