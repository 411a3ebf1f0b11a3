/* The tables of the options in rule_options.h; defaults are Model Garden's. rules.def has the names
 * of the nested tables and the values of `type`. */
#include "engine/optim/rules/rule_options.h"

#include <math.h>
#include <string.h>

#include "base/text/pattern.h"
#include "engine/optim/rules/shared_rows.h"

/* Far above any decay that trains. */
#define DECAY_MAX 1e6

/* The same members in several structs, so that keys and limits cannot drift apart. Each expands to
 * one row or several of a table; type is the struct whose members they are. Decays of moments end
 * below 1: at 1 the bias correction would divide by 0. */
#define GLOBAL_CLIP(type, member, value)                                                           \
    ET_FIELD_FLOAT(type, member, value, 0, HUGE_VAL,                                               \
                   "maximal global L2 norm of the gradient; 0: no limit", .nullable = true)
#define CLIPS_WITH(type, global)                                                                   \
    ET_FIELD_FLOAT(type, clipvalue, 0, 0, HUGE_VAL,                                                \
                   "maximal absolute value of a gradient element; 0: no limit", .nullable = true), \
        ET_FIELD_FLOAT(type, clipnorm, 0, 0, HUGE_VAL,                                             \
                       "maximal L2 norm of a parameter's gradient; 0: no limit",                   \
                       .nullable = true),                                                          \
        GLOBAL_CLIP(type, global_clipnorm, global)
#define CLIPS(type)                        CLIPS_WITH(type, 0)
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
#define DECAY(type, member)                                                                        \
    ET_FIELD_FLOAT(                                                                                \
        type, member, 0, 0, DECAY_MAX,                                                             \
        "decoupled weight decay: each step subtracts learning rate * this * weight; 0: none")
#define NO_DECAY(type)                                                                             \
    ET_FIELD_STRINGS(type, exclude_from_weight_decay,                                              \
                     "regular expressions of parameters without weight decay")
#define NO_ADAPTATION(type)                                                                        \
    ET_FIELD_STRINGS(type, exclude_from_layer_adaptation,                                          \
                     "regular expressions of parameters without layer adaptation; none: "          \
                     "exclude_from_weight_decay")
#define JIT_COMPILE(type)                                                                          \
    ET_FIELD_BOOL(type, jit_compile, false, "no effect: updates are always compiled")

/* Momentum 1 is allowed: a sum of all changes, without forgetting. */
static const et_field sgd_fields[] = { MOMENTUM(et_sgd_options, 0),
                                       NESTEROV(et_sgd_options, false),
                                       ET_FIELD_FLOAT(et_sgd_options, decay, 0, 0, 1,
                                                      "the rate is divided by 1 + decay * step"),
                                       CLIPS(et_sgd_options),
                                       TENSORFLOW_NAME,
                                       ET_FIELD_END };
/* Each table has the name of its setting, for messages that list its members. */
static const et_fields sgd_table = { "sgd", sgd_fields };

static const et_field sgd_experimental_fields[] = { MOMENTUM(et_sgd_experimental_options, 0),
                                                    NESTEROV(et_sgd_experimental_options, false),
                                                    JIT_COMPILE(et_sgd_experimental_options),
                                                    CLIPS(et_sgd_experimental_options),
                                                    TENSORFLOW_NAME,
                                                    ET_FIELD_END };
static const et_fields sgd_experimental_table = { "sgd_experimental", sgd_experimental_fields };

static const et_field rmsprop_fields[] = {
    ET_FIELD_FLOAT(et_rmsprop_options, rho, 0.9, 0, 1, "fraction of the mean squares that is kept"),
    MOMENTUM(et_rmsprop_options, 0),
    EPSILON(et_rmsprop_options, epsilon, 1e-7,
            "added to the root of the mean squares; with momentum, to the mean squares"),
    ET_FIELD_BOOL(et_rmsprop_options, centered, false,
                  "subtract the square of the mean from the mean squares (centered)"),
    CLIPS(et_rmsprop_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields rmsprop_table = { "rmsprop", rmsprop_fields };

static const et_field adagrad_fields[] = {
    ET_FIELD_FLOAT(et_adagrad_options, initial_accumulator_value, 0.1, 0, HUGE_VAL,
                   "initial value of the sums of squares"),
    EPSILON(et_adagrad_options, epsilon, 1e-7, "added to the root of the sum"),
    CLIPS(et_adagrad_options), TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields adagrad_table = { "adagrad", adagrad_fields };

static const et_field adam_fields[] = { ADAM_MEMBERS(et_adam_options, 1e-7),
                                        AMSGRAD(et_adam_options), CLIPS(et_adam_options),
                                        TENSORFLOW_NAME, ET_FIELD_END };
static const et_fields adam_table = { "adam", adam_fields };

static const et_field adam_experimental_fields[] = { ADAM_MEMBERS(et_adam_experimental_options,
                                                                  1e-7),
                                                     AMSGRAD(et_adam_experimental_options),
                                                     JIT_COMPILE(et_adam_experimental_options),
                                                     CLIPS(et_adam_experimental_options),
                                                     TENSORFLOW_NAME,
                                                     ET_FIELD_END };
static const et_fields adam_experimental_table = { "adam_experimental", adam_experimental_fields };

static const et_field adamw_fields[] = {
    ADAM_MEMBERS(et_adamw_options, 1e-7), AMSGRAD(et_adamw_options), CLIPS(et_adamw_options),
    DECAY(et_adamw_options, weight_decay_rate),
    /* Empty lists: everything decays. */
    ET_FIELD_STRINGS(et_adamw_options, include_in_weight_decay,
                     "regular expressions of parameters with weight decay even if excluded"),
    NO_DECAY(et_adamw_options), GLOBAL_CLIP(et_adamw_options, gradient_clip_norm, 1),
    TENSORFLOW_NAME, ET_FIELD_END
};
static const et_fields adamw_table = { "adamw", adamw_fields };

static const et_field adamw_experimental_fields[] = {
    ADAM_MEMBERS(et_adamw_experimental_options, 1e-7),
    AMSGRAD(et_adamw_experimental_options),
    JIT_COMPILE(et_adamw_experimental_options),
    CLIPS_WITH(et_adamw_experimental_options, 1),
    DECAY(et_adamw_experimental_options, weight_decay),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields adamw_experimental_table = { "adamw_experimental",
                                                    adamw_experimental_fields };

static const et_field lamb_fields[] = {
    ADAM_MEMBERS(et_lamb_options, 1e-6),
    CLIPS(et_lamb_options),
    ET_FIELD_FLOAT(et_lamb_options, weight_decay_rate, 0, 0, DECAY_MAX,
                   "weight decay, added to the direction before scaling; 0: none"),
    NO_DECAY(et_lamb_options),
    NO_ADAPTATION(et_lamb_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields lamb_table = { "lamb", lamb_fields };

static const et_field lars_fields[] = {
    MOMENTUM(et_lars_options, 0.9),
    ET_FIELD_FLOAT(et_lars_options, eeta, 1e-3, 0, HUGE_VAL,
                   "step length, as a fraction of the tensor's norm"),
    ET_FIELD_FLOAT(et_lars_options, weight_decay_rate, 0, 0, DECAY_MAX,
                   "L2 weight decay: this times the weight is added to its gradient; 0: none"),
    NESTEROV(et_lars_options, false),
    ET_FIELD_BOOL(et_lars_options, classic_momentum, true,
                  "apply the rate before momentum, not after it"),
    CLIPS(et_lars_options),
    NO_DECAY(et_lars_options),
    NO_ADAPTATION(et_lars_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields lars_table = { "lars", lars_fields };

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
    CLIPS(et_adafactor_keras_options),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
static const et_fields adafactor_keras_table = { "adafactor_keras", adafactor_keras_fields };

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
    CLIPS(et_muon_options),
    DECAY(et_muon_options, weight_decay_rate),
    NO_DECAY(et_muon_options),
    ET_FIELD_STRINGS(et_muon_options, exclude_from_orthogonalization,
                     "regular expressions of matrices that Adam updates (embeddings, output)"),
    ET_FIELD_END
};
static const et_fields muon_table = { "muon", muon_fields };

static const char *const optimizer_types[] = {
    [ET_OPTIMIZER_NONE] = "none",
#define RULE(ID, name, help) [ET_OPTIMIZER_##ID] = #name,
#include "engine/optim/rules/rules.def"
#undef RULE
    [ET_OPTIMIZER_COUNT] = NULL,
};
static const et_field_refusal unimplemented[] = {
    { "slide", "Model Garden defines settings but no code for it" },
    { "adafactor", "Model Garden defines settings but no code for it; use adafactor_keras" },
    { NULL, NULL },
};

static const et_field optimizer_fields[] = {
    ET_FIELD_CHOICE(et_optimizer_options, type, ET_OPTIMIZER_NONE, optimizer_types,
                    "update rule; must be set", .nullable = true, .selects = true,
                    .refused = unimplemented),
#define RULE(ID, name, help) ET_FIELD_STRUCT(et_optimizer_options, name, &name##_table, help),
#include "engine/optim/rules/rules.def"
#undef RULE
    ET_FIELD_END
};
const et_fields et_optimizer_fields = { "optimizer", optimizer_fields };

/* All names, each after a comma; the first comma is skipped. */
const char *const et_optimizer_names = &(
#define RULE(ID, name, help) ", " #name
#include "engine/optim/rules/rules.def"
#undef RULE
    )[2];

int et_optimizer_type(const char *name)
{
    for (int type = ET_OPTIMIZER_NONE + 1; type < ET_OPTIMIZER_COUNT; type++)
        if (!strcmp(name, optimizer_types[type]))
            return type;
    return ET_OPTIMIZER_NONE;
}

/* ---- checks ---- */

/* Each rule's limits, by type, except NONE. */
static const struct {
    const char *rule;
    size_t value, norm, global_norm;
} clips[] = {
#define AT(name, member)                                                                           \
    offsetof(et_optimizer_options, name) + offsetof(et_##name##_options, member)
#define RULE(ID, name, help)                                                                       \
    { #name, AT(name, clipvalue), AT(name, clipnorm), AT(name, global_clipnorm) },
#include "engine/optim/rules/rules.def"
#undef RULE
};

#define LIST(name, list)                                                                           \
    {                                                                                              \
        "trainer.optimizer_config.optimizer." #name "." #list, AT(name, list)                      \
    }
static const struct {
    const char *setting;
    size_t list;
} expressions[] = {
    LIST(adamw, include_in_weight_decay),  LIST(adamw, exclude_from_weight_decay),
    LIST(lamb, exclude_from_weight_decay), LIST(lamb, exclude_from_layer_adaptation),
    LIST(lars, exclude_from_weight_decay), LIST(lars, exclude_from_layer_adaptation),
    LIST(muon, exclude_from_weight_decay), LIST(muon, exclude_from_orthogonalization),
};
#undef LIST
#undef AT

/* Of the options' member there. */
static double number_at(const et_optimizer_options *options, size_t offset)
{
    double value;
    memcpy(&value, (const char *)options + offset, sizeof value);
    return value;
}

int et_rule_usual_clips(const et_optimizer_options *options, et_clip list[ET_CLIPS_MAX], int count)
{
    const int i = options->type - ET_OPTIMIZER_NONE - 1;
    if (i < 0)
        return count;
    count = et_clip_add(list, count, &et_clip_value, number_at(options, clips[i].value));
    count = et_clip_add(list, count, &et_clip_norm, number_at(options, clips[i].norm));
    return et_clip_add(list, count, &et_clip_global_norm, number_at(options, clips[i].global_norm));
}

/* Keras refuses both, and so does Model Garden with it. */
static int check_clips(const et_optimizer_options *options, et_error *error)
{
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++)
        if (number_at(options, clips[i].norm) > 0 && number_at(options, clips[i].global_norm) > 0)
            return et_fail(error, ET_ECONFIG,
                           "trainer.optimizer_config.optimizer.%s: clipnorm and global_clipnorm "
                           "are both set; set one of them to 0",
                           clips[i].rule);
    return ET_OK;
}

/* Compiles and forgets: a bad expression is found when settings are read, not after the data. */
static int check_expressions(const et_optimizer_options *options, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; !status && i < sizeof expressions / sizeof expressions[0]; i++) {
        et_patterns *patterns;
        et_strings list;
        memcpy(&list, (const char *)options + expressions[i].list, sizeof list);
        status = et_patterns_new(&patterns, list, expressions[i].setting, error);
        if (!status)
            et_patterns_free(patterns);
    }
    return status;
}

int et_optimizer_options_check(const et_optimizer_options *options, et_error *error)
{
    if (options->type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.optimizer.type is not set; set it to one of %s",
                       et_optimizer_names);
    int status = check_clips(options, error);
    return status ? status : check_expressions(options, error);
}
