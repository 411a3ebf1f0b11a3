/* The tables of the options in rule_options.h; defaults are Model Garden's. rules.def has the names
 * of the nested tables and the values of `type`. */
#include "engine/optim/rules/rule_options.h"

#include "engine/optim/rules/rule.h"

/* Far above any decay that trains. */
#define DECAY_MAX 1e6

/* The same members in several structs, so that keys and limits cannot drift apart. Each expands to
 * one row or several of a table; type is the struct whose members they are. Decays of moments end
 * below 1: at 1 the bias correction would divide by 0. */
#define EPSILON(type, member, value, text) ET_FIELD_FLOAT(type, member, value, 1e-30, 1, text)
#define BETAS(type, second)                                                                        \
    ET_FIELD_FLOAT(type, beta_1, 0.9, 0, 0.999999, "decay of the first moment"),                   \
        ET_FIELD_FLOAT(type, beta_2, second, 0, 0.9999999, "decay of the second moment")
#define ADAM_MEMBERS(type, eps)                                                                    \
    BETAS(type, 0.999), EPSILON(type, epsilon, eps, "added to the root of the second moment")
#define AMSGRAD(type)                                                                              \
    ET_FIELD_BOOL(type, amsgrad, false, "AMSGrad: divide by the largest second moment so far")
#define MOMENTUM(type, value)                                                                      \
    ET_FIELD_FLOAT(type, momentum, value, 0, 1,                                                    \
                   "momentum: fraction of the last update that is kept; 0: none")
#define NESTEROV(type, value) ET_FIELD_BOOL(type, nesterov, value, "Nesterov momentum")
#define NO_ADAPTATION(type)                                                                        \
    ET_FIELD_STRINGS(                                                                              \
        type, exclude_from_layer_adaptation,                                                       \
        "regular expressions of parameters without layer adaptation; none: " ET_NO_DECAY)
#define RATE_DECAY(type)                                                                           \
    ET_FIELD_FLOAT(type, decay, 0, 0, 1, "the rate is divided by 1 + decay * step")
#define JIT_COMPILE(type)                                                                          \
    ET_FIELD_BOOL(type, jit_compile, false, "no effect: updates are always compiled")

/* Momentum 1 is allowed: a sum of all changes, without forgetting. */
static const et_field sgd_fields[] = { MOMENTUM(et_sgd_options, 0),
                                       NESTEROV(et_sgd_options, false),
                                       RATE_DECAY(et_sgd_options),
                                       ET_RULE_CLIPS(et_sgd_options, 0),
                                       TENSORFLOW_NAME,
                                       ET_FIELD_END };
/* Each table has the name of its setting, for messages that list its members. */
const et_fields et_rule_sgd_fields = { "sgd", sgd_fields };

static const et_field sgd_experimental_fields[] = { MOMENTUM(et_sgd_experimental_options, 0),
                                                    NESTEROV(et_sgd_experimental_options, false),
                                                    JIT_COMPILE(et_sgd_experimental_options),
                                                    ET_RULE_CLIPS(et_sgd_experimental_options, 0),
                                                    TENSORFLOW_NAME,
                                                    ET_FIELD_END };
const et_fields et_rule_sgd_experimental_fields = { "sgd_experimental", sgd_experimental_fields };

static const et_field rmsprop_fields[] = {
    ET_FIELD_FLOAT(et_rmsprop_options, rho, 0.9, 0, 1, "fraction of the mean squares that is kept"),
    MOMENTUM(et_rmsprop_options, 0),
    EPSILON(et_rmsprop_options, epsilon, 1e-7,
            "added to the root of the mean squares; with momentum, to the mean squares"),
    ET_FIELD_BOOL(et_rmsprop_options, centered, false,
                  "subtract the square of the mean from the mean squares (centered)"),
    ET_RULE_CLIPS(et_rmsprop_options, 0),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
const et_fields et_rule_rmsprop_fields = { "rmsprop", rmsprop_fields };

static const et_field adagrad_fields[] = {
    ET_FIELD_FLOAT(et_adagrad_options, initial_accumulator_value, 0.1, 0, HUGE_VAL,
                   "initial value of the sums of squares"),
    EPSILON(et_adagrad_options, epsilon, 1e-7, "added to the root of the sum"),
    ET_RULE_CLIPS(et_adagrad_options, 0), TENSORFLOW_NAME, ET_FIELD_END
};
const et_fields et_rule_adagrad_fields = { "adagrad", adagrad_fields };

static const et_field adam_fields[] = { ADAM_MEMBERS(et_adam_options, 1e-7),
                                        AMSGRAD(et_adam_options), ET_RULE_CLIPS(et_adam_options, 0),
                                        TENSORFLOW_NAME, ET_FIELD_END };
const et_fields et_rule_adam_fields = { "adam", adam_fields };

static const et_field adam_experimental_fields[] = { ADAM_MEMBERS(et_adam_experimental_options,
                                                                  1e-7),
                                                     AMSGRAD(et_adam_experimental_options),
                                                     JIT_COMPILE(et_adam_experimental_options),
                                                     ET_RULE_CLIPS(et_adam_experimental_options, 0),
                                                     TENSORFLOW_NAME,
                                                     ET_FIELD_END };
const et_fields et_rule_adam_experimental_fields = { "adam_experimental",
                                                     adam_experimental_fields };

static const et_field adamw_fields[] = {
    ADAM_MEMBERS(et_adamw_options, 1e-7), AMSGRAD(et_adamw_options),
    ET_RULE_CLIPS(et_adamw_options, 0), ET_RULE_DECAY(et_adamw_options, weight_decay_rate),
    /* Empty lists: everything decays. */
    ET_FIELD_STRINGS(et_adamw_options, include_in_weight_decay,
                     "regular expressions of parameters with weight decay even if excluded"),
    ET_RULE_NO_DECAY(et_adamw_options),
    ET_FIELD_FLOAT(et_adamw_options, gradient_clip_norm, 1, 0, HUGE_VAL,
                   "maximal global L2 norm of the gradient; 0: no limit", .nullable = true),
    TENSORFLOW_NAME, ET_FIELD_END
};
const et_fields et_rule_adamw_fields = { "adamw", adamw_fields };

static const et_field adamw_experimental_fields[] = {
    ADAM_MEMBERS(et_adamw_experimental_options, 1e-7),
    AMSGRAD(et_adamw_experimental_options),
    JIT_COMPILE(et_adamw_experimental_options),
    ET_RULE_CLIPS(et_adamw_experimental_options, 1),
    ET_RULE_DECAY(et_adamw_experimental_options, weight_decay),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
const et_fields et_rule_adamw_experimental_fields = { "adamw_experimental",
                                                      adamw_experimental_fields };

static const et_field lamb_fields[] = {
    ADAM_MEMBERS(et_lamb_options, 1e-6),
    ET_RULE_CLIPS(et_lamb_options, 0),
    ET_FIELD_FLOAT(et_lamb_options, weight_decay_rate, 0, 0, DECAY_MAX,
                   "weight decay, added to the direction before scaling; 0: none"),
    ET_RULE_NO_DECAY(et_lamb_options),
    NO_ADAPTATION(et_lamb_options),
    RATE_DECAY(et_lamb_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
const et_fields et_rule_lamb_fields = { "lamb", lamb_fields };

static const et_field lars_fields[] = {
    MOMENTUM(et_lars_options, 0.9),
    ET_FIELD_FLOAT(et_lars_options, eeta, 1e-3, 0, HUGE_VAL,
                   "step length, as a fraction of the tensor's norm"),
    ET_FIELD_FLOAT(et_lars_options, weight_decay_rate, 0, 0, DECAY_MAX,
                   "L2 weight decay: this times the weight is added to its gradient; 0: none"),
    NESTEROV(et_lars_options, false),
    ET_FIELD_BOOL(et_lars_options, classic_momentum, true,
                  "apply the rate before momentum, not after it"),
    ET_RULE_CLIPS(et_lars_options, 0),
    ET_RULE_NO_DECAY(et_lars_options),
    NO_ADAPTATION(et_lars_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
const et_fields et_rule_lars_fields = { "lars", lars_fields };

/* A setting that Keras has and the schedule replaces. */
#define ONLY_BY_SCHEDULE(setting, value)                                                           \
    ET_FIELD_ONLY(#setting, value,                                                                 \
                  "set the rate by the schedule, trainer.optimizer_config." #setting)

static const et_field adafactor_keras_fields[] = {
    ONLY_BY_SCHEDULE(learning_rate, "0.001"),
    ET_FIELD_FLOAT(et_adafactor_keras_options, beta_2_decay, -0.8, -100, 0,
                   "mean squares keep 1 - step^this (a negative exponent)"),
    ET_FIELD_FLOAT(et_adafactor_keras_options, epsilon_1, 1e-30, 1e-36, 1,
                   "added to squares of the gradient"),
    EPSILON(et_adafactor_keras_options, epsilon_2, 1e-3,
            "lower bound of a tensor's RMS, which scales its step"),
    ET_FIELD_FLOAT(et_adafactor_keras_options, clip_threshold, 1, 1e-30, HUGE_VAL,
                   "maximal RMS of a tensor's step, before the rate is applied"),
    ET_FIELD_BOOL(et_adafactor_keras_options, relative_step, true,
                  "limit the rate to 1 / sqrt(step)"),
    ET_RULE_CLIPS(et_adafactor_keras_options, 0),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
const et_fields et_rule_adafactor_keras_fields = { "adafactor_keras", adafactor_keras_fields };

/* ORDER of the enum. */
static const char *const muon_scales[] = { "rms", "shape", NULL };

static const char *const muon_dtypes[] = {
    [ET_F32] = "float32", [ET_BF16] = "bfloat16", [ET_MUON_AUTO] = "auto", NULL
};

static const et_field muon_fields[] = {
    MOMENTUM(et_muon_options, 0.95),
    NESTEROV(et_muon_options, true),
    ET_FIELD_INT(et_muon_options, iterations, 5, 1, 100,
                 "Newton-Schulz iterations of the orthogonalization"),
    ET_FIELD_CHOICE(et_muon_options, scale, ET_MUON_RMS, muon_scales,
                    "step length: as Adam's, or by the matrix's shape"),
    ET_FIELD_CHOICE(et_muon_options, orthogonalization_dtype, ET_F32, muon_dtypes,
                    "type of the products (sums are float32); auto: bfloat16 if the CPU multiplies "
                    "it faster (with AMX several times as fast)"),
    BETAS(et_muon_options, 0.95),
    EPSILON(et_muon_options, epsilon, 1e-10, "of Adam: added to the root of the second moment"),
    ET_FIELD_FLOAT(et_muon_options, adam_rate, 1, 0, DECAY_MAX,
                   "factor on the learning rate of the parameters that Adam updates"),
    ET_RULE_CLIPS(et_muon_options, 0),
    ET_RULE_DECAY(et_muon_options, weight_decay_rate),
    ET_RULE_NO_DECAY(et_muon_options),
    ET_FIELD_STRINGS(et_muon_options, exclude_from_orthogonalization,
                     "regular expressions of matrices that Adam updates (embeddings, output)"),
    ET_FIELD_END
};
const et_fields et_rule_muon_fields = { "muon", muon_fields };
