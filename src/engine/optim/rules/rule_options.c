/* The tables of the options in rule_options.h; defaults are Model Garden's. rules.def has the names
 * of the nested tables and the values of `type`. */
#include "engine/optim/rules/rule_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/pattern.h"
#include "engine/optim/rules/rule.h"
#include "engine/optim/rules/shared_rows.h"

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
#define JIT_COMPILE(type)                                                                          \
    ET_FIELD_BOOL(type, jit_compile, false, "no effect: updates are always compiled")

/* Momentum 1 is allowed: a sum of all changes, without forgetting. */
static const et_field sgd_fields[] = { MOMENTUM(et_sgd_options, 0),
                                       NESTEROV(et_sgd_options, false),
                                       ET_FIELD_FLOAT(et_sgd_options, decay, 0, 0, 1,
                                                      "the rate is divided by 1 + decay * step"),
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
#define RULE(ID, name, help)                                                                       \
    ET_FIELD_STRUCT(et_optimizer_options, name, &et_rule_##name##_fields, help),
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

int et_optimizer_type(const char *name, const et_optimizer_rule *const *own)
{
    for (int type = ET_OPTIMIZER_NONE + 1; type < ET_OPTIMIZER_COUNT; type++)
        if (!strcmp(name, optimizer_types[type]))
            return type;
    for (int i = 0; own && own[i]; i++)
        if (!strcmp(name, own[i]->name))
            return ET_OPTIMIZER_COUNT + i;
    return ET_OPTIMIZER_NONE;
}

/* ---- rules of the program ---- */

static const struct {
    const char *name;
    et_field_kind kind;
} meanings[] = {
    { "clipvalue", ET_FIELD_KIND_FLOAT },
    { "clipnorm", ET_FIELD_KIND_FLOAT },
    { "global_clipnorm", ET_FIELD_KIND_FLOAT },
    { "gradient_clip_norm", ET_FIELD_KIND_FLOAT },
    { "weight_decay", ET_FIELD_KIND_FLOAT },
    { "weight_decay_rate", ET_FIELD_KIND_FLOAT },
    { ET_NO_DECAY, ET_FIELD_KIND_STRINGS },
    { "include_in_weight_decay", ET_FIELD_KIND_STRINGS },
};

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

static int check_own(const et_optimizer_rule *const *own, int i, et_error *error)
{
    const et_optimizer_rule *rule = own[i];
    if (i == ET_OWN_RULES_MAX)
        return et_fail(error, ET_EUSAGE, "a program has at most %d update rules of its own",
                       ET_OWN_RULES_MAX);
    if (!rule->name || !*rule->name || !rule->update || !rule->fields != !rule->size)
        return et_fail(error, ET_EUSAGE,
                       "update rule %s: set name and update, and both or none of fields and size",
                       rule->name ? rule->name : "without a name");
    const size_t length = strlen(rule->name);
    if (strspn(rule->name, LETTERS) != length)
        return et_fail(error, ET_EUSAGE,
                       "update rule %s: give a name of letters, digits and underscores",
                       rule->name);
    if (et_fields_find(&et_optimizer_fields, rule->name, length) ||
        !strcmp(rule->name, optimizer_types[ET_OPTIMIZER_NONE]) ||
        et_optimizer_type(rule->name, own) != ET_OPTIMIZER_COUNT + i)
        return et_fail(error, ET_EUSAGE,
                       "the update rule %s is already registered; give the new rule another name",
                       rule->name);
    if (rule->writes || rule->fused || (unsigned)rule->cut > ET_RULE_ELEMENTS ||
        (rule->scratch && rule->cut != ET_RULE_WHOLE) ||
        (rule->before && rule->cut == ET_RULE_ELEMENTS))
        return et_fail(error, ET_EUSAGE,
                       "update rule %s: scratch is for ET_RULE_WHOLE, before for whole tensors or "
                       "their parts, and internal members must be 0",
                       rule->name);
    if (rule->adapts && !et_rule_member(rule, rule, rule->adapts, ET_FIELD_KIND_STRINGS))
        return et_fail(error, ET_EUSAGE, "update rule %s: adapts: no row %s of STRINGS", rule->name,
                       rule->adapts);
    for (size_t k = 0; rule->fields && k < sizeof meanings / sizeof meanings[0]; k++) {
        const et_field *row =
            et_fields_find(rule->fields, meanings[k].name, strlen(meanings[k].name));
        if (row && row->kind != meanings[k].kind)
            return et_fail(error, ET_EUSAGE,
                           "update rule %s: the row %s must be a %s (optimizer_rule.h)", rule->name,
                           row->name,
                           meanings[k].kind == ET_FIELD_KIND_FLOAT ? "FLOAT" : "STRINGS");
    }
    return ET_OK;
}

int et_optimizer_register(const et_fields **table, et_optimizer_options *options,
                          const et_optimizer_rule *const *own, et_arena *arena, et_error *error)
{
    const size_t rows = sizeof optimizer_fields / sizeof *optimizer_fields;
    int count = 0, status = ET_OK;
    *table = &et_optimizer_fields;
    for (; !status && own && own[count]; count++)
        status = check_own(own, count, error);
    if (status || !count)
        return status;
    const char **types =
        et_arena_array(arena, (size_t)(ET_OPTIMIZER_COUNT + count) + 1, sizeof *types);
    et_field *fields = et_arena_array(arena, rows + (size_t)count, sizeof *fields);
    et_fields *made = et_arena_alloc(arena, sizeof *made);
    if (!types || !fields || !made)
        return et_alloc_failed(error, rows * sizeof *fields, "update rules");
    memcpy(types, optimizer_types, sizeof optimizer_types);
    memcpy(fields, optimizer_fields, sizeof optimizer_fields);
    fields[0].choices = types;
    size_t row = rows - 1;
    for (int i = 0; i < count; i++) {
        types[ET_OPTIMIZER_COUNT + i] = own[i]->name;
        options->own_settings[i] = own[i]->fields ? et_arena_alloc(arena, own[i]->size) : NULL;
        if (!own[i]->fields)
            continue;
        if (!options->own_settings[i])
            return et_alloc_failed(error, own[i]->size, "settings of an update rule");
        memset(options->own_settings[i], 0, own[i]->size);
        et_fields_defaults(own[i]->fields, options->own_settings[i]);
        fields[row++] = (et_field){ .name = own[i]->name,
                                    .kind = ET_FIELD_KIND_STRUCT,
                                    .offset = offsetof(et_optimizer_options, own_settings) +
                                              (size_t)i * sizeof *options->own_settings,
                                    .nested = own[i]->fields,
                                    .indirect = true,
                                    .help = "update rule of the program" };
    }
    types[ET_OPTIMIZER_COUNT + count] = NULL;
    fields[row] = (et_field)ET_FIELD_END;
    options->own = own;
    *made = (et_fields){ et_optimizer_fields.name, fields };
    *table = made;
    return ET_OK;
}

/* ---- checks ---- */

/* Keras refuses both, and so does Model Garden with it. Expressions are compiled and forgotten: a
 * bad one is found when settings are read, not after the data. */
static int check_rule(const et_optimizer_rule *rule, const void *settings, et_error *error)
{
    static const char path[] = "trainer.optimizer_config.optimizer";
    const double *norm = et_rule_member(rule, settings, "clipnorm", ET_FIELD_KIND_FLOAT);
    const double *all = et_rule_member(rule, settings, "global_clipnorm", ET_FIELD_KIND_FLOAT);
    if (norm && *norm > 0 && all && *all > 0)
        return et_fail(error, ET_ECONFIG,
                       "%s.%s: clipnorm and global_clipnorm are both set; set one of them to 0",
                       path, rule->name);
    int status = ET_OK;
    for (const et_field *row = rule->fields ? rule->fields->fields : NULL;
         !status && row && row->kind != ET_FIELD_KIND_END; row++) {
        char name[160];
        et_patterns *patterns;
        if (row->kind != ET_FIELD_KIND_STRINGS ||
            (strncmp(row->name, "exclude_from_", 13) && strncmp(row->name, "include_in_", 11)))
            continue;
        snprintf(name, sizeof name, "%s.%s.%s", path, rule->name, row->name);
        status = et_patterns_new(
            &patterns, *(const et_strings *)et_rule_member(rule, settings, row->name, row->kind),
            name, error);
        if (!status)
            et_patterns_free(patterns);
    }
    return status;
}

int et_optimizer_options_check(const et_optimizer_options *options, et_error *error)
{
    const et_optimizer_rule *rule;
    const void *settings;
    int status = ET_OK;
    if (options->type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.optimizer.type is not set; set it to one of %s",
                       et_optimizer_names);
    for (int i = 0; !status && (rule = et_rule_number(options, i, &settings)); i++)
        status = check_rule(rule, settings, error);
    if (!status && options->type >= ET_OPTIMIZER_COUNT) {
        rule = et_rule_chosen(options, &settings);
        status = check_rule(rule, settings, error);
    }
    return status;
}
