/* The tables of the options in options.h; defaults are Model Garden's. Tables of rules and
 * schedules are next to their formulas (rules/, schedule.c). 0 replaces Model Garden's null where 0
 * would be invalid: et_optimization_check asks for required values.
 *
 * A row has name, default, limits and help of one member. base/fields/fields.c makes the parser,
 * the help text and the echo in params.yaml from the tables, and checks ranges of single numbers;
 * relations of two settings are checked below. All tables always exist, so a file may have settings
 * of a schedule that another file then chooses. */
#include "engine/optim/options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <etude/optimizer.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "engine/optim/optimizer_private.h"
#include "engine/optim/rules/rule.h"

/* ---- update rules ---- */

/* The rules that settings can choose, and what rows of their tables mean by their names. */

static const struct {
    const et_optimizer_rule *rule;
    size_t settings; /* in et_optimizer_options */
} rules[] = {
#define RULE(ID, name, help) { &et_rule_##name, offsetof(et_optimizer_options, name) },
#include "engine/optim/rules/rules.def"
#undef RULE
};

enum { RULES = sizeof rules / sizeof rules[0] };

/* Etude's rule number i, from 0, with its settings; NULL after the last. */
static const et_optimizer_rule *rule_number(const et_optimizer_options *options, int i,
                                            const void **settings)
{
    if (i < 0 || i >= RULES)
        return NULL;
    *settings = (const char *)options + rules[i].settings;
    return rules[i].rule;
}

const et_optimizer_rule *et_rule_chosen(const et_optimizer_options *options, const void **settings)
{
    const int own = options->type - ET_OPTIMIZER_COUNT;
    if (own < 0)
        return rule_number(options, options->type - ET_OPTIMIZER_NONE - 1, settings);
    *settings = options->own_settings[own];
    return options->own[own];
}

/* The row of this kind in a rule's table; NULL: there is none. */
static const et_field *find_row(const et_optimizer_rule *rule, const char *name, et_field_kind kind)
{
    const et_field *row = rule->fields ? et_fields_find(rule->fields, name, strlen(name)) : NULL;
    return row && row->kind == kind ? row : NULL;
}

/* The number of a rule's settings; NULL: it has none of this name. */
static const double *number(const et_optimizer_rule *rule, const void *settings, const char *name)
{
    const et_field *row = find_row(rule, name, ET_FIELD_KIND_FLOAT);
    return row ? (const void *)((const char *)settings + row->offset) : NULL;
}

static et_strings list(const et_optimizer_rule *rule, const void *settings, const char *name)
{
    const et_field *row = find_row(rule, name, ET_FIELD_KIND_STRINGS);
    return row ? et_field_strings(row, settings) : (et_strings){ NULL, 0 };
}

/* Model Garden's adamw clips by its own norm, and passes the result to Keras. */
int et_rule_clips(const et_optimizer_rule *rule, const void *settings, et_clip clips[ET_CLIPS_MAX])
{
    static const struct {
        const char *name;
        et_clip_scope scope;
    } rows[ET_CLIPS_MAX] = { { "gradient_clip_norm", ET_CLIP_ALL },
                             { "clipvalue", ET_CLIP_VALUES },
                             { "clipnorm", ET_CLIP_TENSORS },
                             { "global_clipnorm", ET_CLIP_ALL } };
    int count = 0;
    for (int i = 0; i < ET_CLIPS_MAX; i++) {
        const double *limit = number(rule, settings, rows[i].name);
        if (limit && *limit > 0)
            clips[count++] = (et_clip){ rows[i].scope, *limit };
    }
    return count;
}

bool et_rule_decay(const et_optimizer_rule *rule, const void *settings, double *decay,
                   et_strings *include, et_strings *exclude)
{
    const double *rate = number(rule, settings, "weight_decay_rate");
    if (!rate) /* Keras's newer name */
        rate = number(rule, settings, "weight_decay");
    *decay = rate ? *rate : 0;
    *include = list(rule, settings, "include_in_weight_decay");
    *exclude = list(rule, settings, ET_NO_DECAY);
    return rate;
}

/* An empty list of layer adaptation is that of weight decay, as in Model Garden. */
const char *et_rule_adapts(const et_optimizer_rule *rule, const void *settings, et_strings *exclude)
{
    const char *name = rule->adapts;
    *exclude = list(rule, settings, name);
    if (exclude->count || strcmp(name, ET_NO_ADAPTATION))
        return name;
    *exclude = list(rule, settings, ET_NO_DECAY);
    return ET_NO_DECAY;
}

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
static const et_fields rules_table = { "optimizer", optimizer_fields };

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
        return et_fail(error, ET_EUSAGE, "a program can register at most %d update rules",
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
    if (et_fields_find(&rules_table, rule->name, length) ||
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
    if (rule->adapts && !find_row(rule, rule->adapts, ET_FIELD_KIND_STRINGS))
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

static int register_rules(const et_fields **table, et_optimizer_options *options,
                          const et_optimizer_rule *const *own, et_arena *arena, et_error *error)
{
    const size_t rows = sizeof optimizer_fields / sizeof *optimizer_fields;
    int count = 0, status = ET_OK;
    *table = &rules_table;
    for (; !status && own && own[count]; count++)
        status = check_own(own, count, error);
    if (status || !count)
        return status;
    const char **types =
        et_arena_array(arena, (size_t)(ET_OPTIMIZER_COUNT + count) + 1, sizeof *types);
    et_field *fields = et_arena_array(arena, rows + (size_t)count, sizeof *fields);
    et_fields *made = et_arena_alloc(arena, sizeof *made);
    if (!types || !fields || !made)
        return et_alloc_failed(error, "update rules");
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
            return et_alloc_failed(error, "settings of an update rule");
        memset(options->own_settings[i], 0, own[i]->size);
        et_fields_defaults(own[i]->fields, options->own_settings[i]);
        fields[row++] = (et_field){ .name = own[i]->name,
                                    .kind = ET_FIELD_KIND_STRUCT,
                                    .offset = offsetof(et_optimizer_options, own_settings) +
                                              i * sizeof *options->own_settings,
                                    .nested = own[i]->fields,
                                    .indirect = true,
                                    .help = "update rule of the program" };
    }
    types[ET_OPTIMIZER_COUNT + count] = NULL;
    fields[row] = (et_field)ET_FIELD_END;
    options->own = own;
    *made = (et_fields){ rules_table.name, fields };
    *table = made;
    return ET_OK;
}

/* Keras refuses both, and so does Model Garden with it. Expressions are compiled and forgotten: a
 * bad one is found when settings are read, not after the data. */
static int check_rule(const et_optimizer_rule *rule, const void *settings, et_error *error)
{
    static const char path[] = "trainer.optimizer_config.optimizer";
    const double *norm = number(rule, settings, "clipnorm");
    const double *all = number(rule, settings, "global_clipnorm");
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
        status = et_patterns_new(&patterns, et_field_strings(row, settings), name, error);
        et_patterns_free(patterns);
    }
    return status;
}

static int check_rules(const et_optimizer_options *options, et_error *error)
{
    const et_optimizer_rule *rule;
    const void *settings;
    int status = ET_OK;
    if (options->type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.optimizer.type is not set; set it to one of %s",
                       et_optimizer_names);
    for (int i = 0; !status && (rule = rule_number(options, i, &settings)); i++)
        status = check_rule(rule, settings, error);
    if (!status && options->type >= ET_OPTIMIZER_COUNT) {
        rule = et_rule_chosen(options, &settings);
        status = check_rule(rule, settings, error);
    }
    return status;
}

/* ---- the other settings ---- */

#define NO_EMA_CLIPS "the optimizer's settings of this name clip gradients"

/* The formula is at et_ema_options. */
static const et_field ema_fields[] = {
    ET_FIELD_BOOL(et_ema_options, enabled, false,
                  "keep a moving average of the weights and evaluate with it; a group ema without "
                  "it means true, ema: null means false",
                  .selects = true),
    ET_FIELD_BOOL(et_ema_options, trainable_weights_only, true,
                  "average no variables, such as batch statistics"),
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
    ET_FIELD_INT(et_regularization_options, decay_steps, 0, 0, STEPS_MAX,
                 "steps until the factor is 0; 0 or auto: until the end of the run", .epochs = true,
                 .nullable = true, .zero = "auto", .with = "type=flat_cosine"),
    ET_FIELD_END
};
static const et_fields regularization_table = { "regularization", regularization_fields };

/* The table that the trainer nests. */
static const et_field optimization_fields[] = {
    ET_FIELD_STRUCT(et_optimization_options, optimizer, &rules_table, "update rule"),
    ET_FIELD_STRUCTS(et_optimization_options, parameter_groups, et_parameter_group_options,
                     &parameter_group_table,
                     "parameters with their own rate and decay; a parameter is in at most one"),
    ET_FIELD_STRINGS(et_optimization_options, frozen,
                     "regular expressions: parameters whose names contain a match keep their "
                     "values, and have no gradients or slots"),
    ET_FIELD_STRUCT(et_optimization_options, ema, &ema_table, "moving average of the weights"),
    ET_FIELD_STRUCT(et_optimization_options, learning_rate, &et_rate_fields,
                    "learning rate schedule", .number = "peak"),
    ET_FIELD_STRUCT(et_optimization_options, warmup, &et_warmup_fields, "warm-up",
                    .nullable = true),
    ET_FIELD_STRUCT(et_optimization_options, regularization, &regularization_table,
                    "change of weight decay and dropout over the run"),
    ET_FIELD_END
};
const et_fields et_optimization_fields = { "optimizer_config", optimization_fields };

int et_optimization_register(const et_fields **table, et_optimization_options *options,
                             const et_optimizer_rule *const *own, et_arena *arena, et_error *error)
{
    const et_fields *with;
    int status = register_rules(&with, &options->optimizer, own, arena, error);
    *table = &et_optimization_fields;
    *table = status ? *table : et_fields_with(*table, "optimizer", with, arena);
    return *table ? status : et_alloc_failed(error, "update rules");
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
    const void *settings = NULL;
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
    int status = et_patterns_new(&frozen, options->frozen, ET_SETTING_FROZEN, error);
    et_patterns_free(frozen);
    return status;
}

/* The rule with its groups, then the schedule with its warm-up. The schedule is made and dropped,
 * because only its own init checks what it needs. */
int et_optimization_check(const et_optimization_options *options, et_error *error)
{
    et_schedule schedule;
    int status = check_rules(&options->optimizer, error);
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

/* ---- a program's setup ---- */

/* It becomes settings: defaults, the rule and the rate, then structs, which their
 * tables convert to the dict of an equivalent text, then the text. One reader checks all of them.
 */

/* Pointers of a setup, by the type that they choose. */
typedef struct choice {
    const char *type;
    size_t offset;
} choice;

#define CHOICE(name)                                                                               \
    {                                                                                              \
#name, offsetof(et_optimizer_setup, name)                                                  \
    }

static const choice rule_structs[] = { CHOICE(sgd),  CHOICE(rmsprop), CHOICE(adagrad),
                                       CHOICE(adam), CHOICE(adamw),   CHOICE(lamb),
                                       CHOICE(lars), CHOICE(muon) };
static const choice schedule_structs[] = { CHOICE(cosine), CHOICE(polynomial), CHOICE(exponential),
                                           CHOICE(inverse_sqrt) };

/* Puts a member of a struct into dict, unless it is 0, false or NULL: then the default counts. A
 * value that readers refuse is added as a number, so that they report it. */
static void put_member(et_value *dict, const et_field *row, const void *from)
{
    const void *at = (const char *)from + row->offset;
    int64_t whole = 0;
    if (row->kind == ET_FIELD_KIND_BOOL)
        whole = *(const bool *)at;
    else if (row->kind == ET_FIELD_KIND_INT)
        whole = *(const int64_t *)at;
    else if (row->kind == ET_FIELD_KIND_CHOICE)
        whole = *(const int *)at;
    int64_t names = 0; /* of a choice */
    while (row->kind == ET_FIELD_KIND_CHOICE && row->choices[names])
        names++;
    if (whole < 0 || (names && whole >= names))
        et_value_set_int(dict, row->name, whole);
    else if (whole || (row->kind == ET_FIELD_KIND_FLOAT && *(const double *)at != 0) ||
             (row->kind == ET_FIELD_KIND_STRINGS && *(const void *const *)at))
        et_field_echo(row, from, dict);
}

static const et_fields *table_of(const et_fields *table, const char *name)
{
    const et_field *found = et_fields_find(table, name, strlen(name));
    et_assert(found);
    return found->nested;
}

/* Adds the struct of the pointer that is set: optimizer: {type: adam, adam: {beta_1: 0.8}}. Two
 * pointers are an error; *type becomes NULL if none is set. */
static int put_chosen(et_value *tree, const char *name, const et_optimizer_setup *setup,
                      const choice *all, size_t count, const char **type, et_error *error)
{
    const void *from = NULL;
    *type = NULL;
    for (size_t i = 0; i < count; i++) {
        const void *one = *(const void *const *)((const char *)setup + all[i].offset);
        if (one && from)
            return et_fail(error, ET_ECONFIG,
                           "et_optimizer_setup has both %s and %s: give one of them", *type,
                           all[i].type);
        *type = one ? all[i].type : *type;
        from = one ? one : from;
    }
    if (!from)
        return ET_OK;
    et_value *group = et_value_set_dict(tree, name);
    et_value_set_string(group, "type", *type);
    et_value *dict = et_value_set_dict(group, *type);
    const et_fields *table = table_of(table_of(&et_optimization_fields, name), *type);
    for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END; row++)
        put_member(dict, row, from);
    return ET_OK;
}

/* The rule's struct, that of a rule of the program (own), and the schedule's. */
static int put_structs(et_value *tree, const et_optimizer_setup *setup,
                       const et_optimizer_rule *own, et_arena *arena, et_error *error)
{
    const char *rule, *schedule;
    int status = put_chosen(tree, "optimizer", setup, rule_structs,
                            sizeof rule_structs / sizeof *rule_structs, &rule, error);
    if (status)
        return status;
    if (rule && setup->rule && strcmp(setup->rule, rule) != 0)
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup has rule \"%s\" and settings of %s: give one of them",
                       setup->rule, rule);
    if (setup->rule_options) {
        et_value *echo = et_fields_echo(own->fields, setup->rule_options, arena);
        if (echo)
            et_value_append_copy(et_value_set_dict(tree, "optimizer"), own->name, echo);
        else
            arena->failed = true;
    }
    status = put_chosen(tree, "learning_rate", setup, schedule_structs,
                        sizeof schedule_structs / sizeof *schedule_structs, &schedule, error);
    if (!status && schedule && setup->learning_rate != 0)
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup has learning_rate and the schedule %s: set the rate in "
                       "the schedule",
                       schedule);
    return status;
}

static int put_groups(et_value *tree, const et_optimizer_setup *setup, et_error *error)
{
    const int count = setup->parameter_group_count;
    if (count < 0 || !setup->parameter_groups != !count)
        return et_fail(
            error, ET_ECONFIG,
            "et_optimizer_setup: parameter_groups is %sNULL and parameter_group_count is "
            "%d; give both",
            setup->parameter_groups ? "not " : "", count);
    et_value *list = count ? et_value_set_list(tree, "parameter_groups") : NULL;
    for (int i = 0; list && i < count; i++) {
        const et_parameter_group *g = &setup->parameter_groups[i];
        if (g->no_weight_decay && g->weight_decay_rate != 0)
            return et_fail(error, ET_ECONFIG,
                           "et_optimizer_setup.parameter_groups[%d] has both no_weight_decay and "
                           "weight_decay_rate: give one of them",
                           i);
        if (g->weight_decay_rate < 0)
            return et_fail(error, ET_ECONFIG,
                           "et_optimizer_setup.parameter_groups[%d].weight_decay_rate: %g; give at "
                           "least 0",
                           i, g->weight_decay_rate);
        et_value *group = et_value_add_dict(list);
        if (g->pattern)
            et_value_set_string(group, "pattern", g->pattern);
        if (g->learning_rate_multiplier != 0)
            et_value_set_float(group, "learning_rate_multiplier", g->learning_rate_multiplier);
        if (g->no_weight_decay || g->weight_decay_rate != 0)
            et_value_set_float(group, "weight_decay_rate", g->weight_decay_rate);
    }
    return ET_OK;
}

static int put_rest(et_value *tree, const et_optimizer_setup *setup, et_error *error)
{
    if (setup->warmup_steps < 0 || !(setup->average_decay >= 0 && setup->average_decay <= 1))
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup: warmup_steps %lld must be at least 0, and "
                       "average_decay %g from 0 to 1",
                       (long long)setup->warmup_steps, setup->average_decay);
    et_value *warmup = setup->warmup_steps ? et_value_set_dict(tree, "warmup") : NULL;
    if (warmup) {
        et_value_set_string(warmup, "type", "linear");
        et_value_set_int(et_value_set_dict(warmup, "linear"), "warmup_steps", setup->warmup_steps);
    }
    et_value *ema = setup->average_decay > 0 ? et_value_set_dict(tree, "ema") : NULL;
    if (ema) {
        et_value_set_bool(ema, "enabled", true);
        et_value_set_float(ema, "average_decay", setup->average_decay);
    }
    return ET_OK;
}

static int choose_rule(et_optimization_options *options, const et_optimizer_setup *setup,
                       et_error *error)
{
    const char *name = setup->rule ? setup->rule : "adam";
    options->optimizer.type = et_optimizer_type(name, setup->rules);
    if (options->optimizer.type == ET_OPTIMIZER_NONE)
        return et_fail(error, ET_ECONFIG, "no update rule is called %s; there are: %s", name,
                       et_optimizer_names);
    const int own = options->optimizer.type - ET_OPTIMIZER_COUNT;
    if (setup->rule_options && (own < 0 || !setup->rules[own]->fields))
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup.rule_options is the struct of a rule of the program, "
                       "but %s is %s",
                       name, own < 0 ? "Etude's" : "a rule without settings");
    return ET_OK;
}

int et_optimizer_settle(et_optimization_options *options, const et_optimizer_setup *setup,
                        et_arena *arena, et_error *error)
{
    double rate = setup->learning_rate != 0 ? setup->learning_rate : 1e-3;
    if (!(rate > 0 && isfinite(rate)))
        return et_fail(error, ET_ECONFIG,
                       "learning_rate %g: give a positive number, or 0 for 0.001", rate);
    const et_fields *table;
    et_fields_defaults(&et_optimization_fields, options);
    options->learning_rate.type = ET_RATE_CONSTANT;
    options->learning_rate.constant.learning_rate = rate;
    int status;
    if ((status = et_optimization_register(&table, options, setup->rules, arena, error)) ||
        (status = choose_rule(options, setup, error)))
        return status;
    const int own = options->optimizer.type - ET_OPTIMIZER_COUNT;
    et_value *tree = et_value_dict(arena);
    if ((status = put_structs(tree, setup, own < 0 ? NULL : setup->rules[own], arena, error)) ||
        (status = put_groups(tree, setup, error)) || (status = put_rest(tree, setup, error)))
        return status;
    if (et_value_failed(tree))
        return et_alloc_failed(error, "settings of an optimizer");
    status = et_fields_read(table, options, tree, arena, "et_optimizer_setup", "", error);
    if (status || !setup->settings)
        return status;
    status =
        et_yaml_parse(&tree, arena, setup->settings, strlen(setup->settings), "settings", error);
    return status ? status : et_fields_read(table, options, tree, arena, "settings", "", error);
}

int et_optimizer_settings(et_settings *out, const et_optimizer_rule *const *own, et_arena *arena,
                          et_error *error)
{
    et_optimization_options *options = arena ? et_arena_alloc(arena, sizeof *options) : NULL;
    if (!options)
        return et_alloc_failed(error, "settings of an optimizer");
    et_fields_defaults(&et_optimization_fields, options);
    *out = (et_settings){ .options = options, .arena = arena };
    return et_optimization_register(&out->table, options, own, arena, error);
}
