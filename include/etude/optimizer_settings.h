/* Settings of optimizers and schedules as structs, for et_optimizer_setup (optimizer.h). The text
 * et_optimizer_setup.settings can set the same values; if both are given, the text wins.
 *
 *     et_adamw adamw = { .weight_decay_rate = 0.01 };
 *     et_schedule_cosine cosine = { .initial_learning_rate = 1e-3 };
 *     const et_parameter_group groups[] = {
 *         { .pattern = "^encoder/", .learning_rate_multiplier = 0.1 },
 *         { .pattern = "^head/.*bias", .no_weight_decay = true },
 *     };
 *     et_optimizer_setup setup = { .adamw = &adamw, .cosine = &cosine,
 *                                  .parameter_groups = groups, .parameter_group_count = 2 };
 *
 * A task trainer takes such settings from a file:
 *
 *     if (et_optimizer_settings(&settings, NULL, arena, &error) ||
 *         et_settings_read_file(&settings, "optimizer.yaml", &error)) ...
 *     trainer_options.optimization = settings.options;
 *
 * A member that is 0, false or NULL has the default in its comment. To set a number to 0, or a
 * truth value to false, whose default is another value, use the text. Each member has the
 * bounds of the setting of its name (doc/reference/settings.md). All rules clip: clipvalue, the
 * largest absolute value of an element; clipnorm, the largest norm of a parameter's gradient;
 * global_clipnorm, that of all gradients. As in Keras, clipnorm and global_clipnorm exclude each
 * other. Lists are regular expressions that are searched in names of parameters, ended by NULL.
 * Groups of parameters with their own rate and decay are for all rules. */
#ifndef ETUDE_OPTIMIZER_SETTINGS_H
#define ETUDE_OPTIMIZER_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include <etude/dtype.h>
#include <etude/settings.h>

struct et_optimizer_rule;

/* ---- rules ---- */

typedef struct et_sgd {
    double momentum; /* 0: none, and no slot */
    double decay;    /* the rate is divided by 1 + decay * step; 0: none */
    double clipvalue, clipnorm, global_clipnorm;
    bool nesterov;
} et_sgd;

typedef struct et_rmsprop {
    double rho;      /* 0.9: fraction of the mean squares that a step keeps */
    double momentum; /* 0: none */
    double epsilon;  /* 1e-7 */
    double clipvalue, clipnorm, global_clipnorm;
    bool centered; /* subtracts the square of the mean from the mean squares */
} et_rmsprop;

typedef struct et_adagrad {
    double initial_accumulator_value; /* 0.1 */
    double epsilon;                   /* 1e-7 */
    double clipvalue, clipnorm, global_clipnorm;
} et_adagrad;

typedef struct et_adam {
    double beta_1, beta_2; /* of the moments: 0.9, 0.999 */
    double epsilon;        /* 1e-7; added to the root of the second, outside the bias correction */
    double clipvalue, clipnorm, global_clipnorm;
    bool amsgrad; /* divides by the largest second moment so far */
} et_adam;

/* Adam after w -= rate * weight_decay_rate * w. Begins with the members of et_adam. */
typedef struct et_adamw {
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-7 */
    double clipvalue, clipnorm, global_clipnorm;
    bool amsgrad;
    double weight_decay_rate;
    const char *const *exclude_from_weight_decay; /* names that do not decay, unless included */
    const char *const *include_in_weight_decay;
    double gradient_clip_norm; /* 1; as global_clipnorm, before the others */
} et_adamw;

typedef struct et_lamb {
    double beta_1, beta_2; /* 0.9, 0.999 */
    double epsilon;        /* 1e-6 */
    double weight_decay_rate;
    const char *const *exclude_from_weight_decay;
    const char *const *exclude_from_layer_adaptation; /* keep the schedule's rate; NULL: the names
                                                         that do not decay */
    double decay; /* the rate is divided by 1 + decay * step; 0: none */
    double clipvalue, clipnorm, global_clipnorm;
} et_lamb;

typedef struct et_lars {
    double momentum; /* 0.9 */
    double eeta;     /* 0.001 */
    double weight_decay_rate;
    const char *const *exclude_from_weight_decay;
    const char *const *exclude_from_layer_adaptation; /* NULL: as for et_lamb */
    double clipvalue, clipnorm, global_clipnorm;
    bool nesterov;
    bool classic_momentum; /* true: the rate is applied before momentum, not after it */
} et_lars;

/* et_muon.scale: the step length of an orthogonalized matrix [rows, columns], for a rate of 1. */
enum {
    ET_MUON_RMS,   /* as Adam's: each element about 0.2 */
    ET_MUON_SHAPE, /* spectral norm sqrt(max(1, columns / rows)) */
};

/* et_muon.orthogonalization_dtype: an et_dtype, or the faster one on this CPU. */
enum { ET_MUON_AUTO = ET_BF16 + 1 };

/* Exclude embeddings and the layer before the softmax from orthogonalization. Adam updates excluded
 * parameters and those that are not matrices. */
typedef struct et_muon {
    double momentum; /* 0.95 */
    double weight_decay_rate;
    double beta_1, beta_2, epsilon; /* of Adam: 0.9, 0.95, 1e-10 */
    double adam_rate;               /* factor on the learning rate of Adam: 1 */
    const char *const *exclude_from_weight_decay;
    const char *const *exclude_from_orthogonalization;
    double clipvalue, clipnorm, global_clipnorm;
    int64_t iterations;          /* of the orthogonalization: 5 */
    int scale;                   /* ET_MUON_RMS, ET_MUON_SHAPE */
    int orthogonalization_dtype; /* of its products' operands: ET_F32, ET_BF16, ET_MUON_AUTO */
    bool nesterov;               /* true */
} et_muon;

/* ---- groups of parameters, for any rule ---- */

/* Parameters whose names match pattern. The rate of a group is the learning rate times the
 * multiplier, so a schedule changes all groups' rates. exclude_from_weight_decay also holds in a
 * group. ET_ECONFIG: a pattern matches no parameter, or a parameter is in two groups. */
typedef struct et_parameter_group {
    const char *pattern; /* a regular expression that is searched in names; must be set */
    double learning_rate_multiplier; /* 1 */
    double weight_decay_rate;        /* 0: the rule's */
    bool no_weight_decay;            /* instead of weight_decay_rate */
} et_parameter_group;

/* ---- schedules of the learning rate; steps are updates ---- */

/* offset is subtracted from the step first. The formulas hold below 0 too; if one gives no rate
 * there, the rate at the offset is used. */

/* Half a cosine from the initial rate to alpha times that rate. */
typedef struct et_schedule_cosine {
    double initial_learning_rate; /* must be set */
    double alpha;                 /* 0 */
    int64_t decay_steps;          /* 0: until training ends */
    int64_t offset;
} et_schedule_cosine;

/* From the initial rate to the end rate along (1 - step / decay_steps)^power. cycle: decay_steps
 * grows to its next multiple instead of the rate staying at the end. */
typedef struct et_schedule_polynomial {
    double initial_learning_rate; /* must be set */
    double end_learning_rate;     /* 1e-4 */
    double power;                 /* 1 */
    int64_t decay_steps;          /* 0: until training ends */
    bool cycle;
    int64_t offset;
} et_schedule_polynomial;

/* initial_learning_rate decay_rate^(step / decay_steps); staircase: the exponent rounded down. */
typedef struct et_schedule_exponential {
    double initial_learning_rate, decay_rate; /* must be set */
    int64_t decay_steps;                      /* 0: until training ends */
    bool staircase;
    int64_t offset;
} et_schedule_exponential;

/* A line up to the peak, then peak sqrt(warmup_steps / step), as fairseq's. Do not combine with
 * `warmup_steps` of the setup. */
typedef struct et_schedule_inverse_sqrt {
    double peak_learning_rate; /* 5e-4 */
    int64_t warmup_steps;      /* 4000 */
    double warmup_init_learning_rate;
} et_schedule_inverse_sqrt;

/* ---- as a file has them ---- */

/* Settings with the names of the command's trainer.optimizer_config, in arena, with their defaults:
 * no rule and no schedule is chosen. Change them by settings.h; a task trainer refuses missing
 * choices. A trainer uses a number that replaces learning_rate, but et_settings_dict omits the
 * number. out->options is a struct et_optimization_options. rules: the program's own rules, as in
 * et_optimizer_setup; NULL: none. ET_EUSAGE: wrong rules. ET_ENOMEM: also if arena is NULL. */
ET_API int et_optimizer_settings(et_settings *out, const struct et_optimizer_rule *const *rules,
                                 et_arena *arena, et_error *error);

#endif
