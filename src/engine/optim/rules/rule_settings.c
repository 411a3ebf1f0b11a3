/* The settings of all rules together: the choice of one, rules of the program, and checks. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/text/pattern.h"
#include "engine/optim/rules/rule.h"

/* ---- rules and their rows ---- */

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

/* ---- settings ---- */

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
    for (int i = 0; !status && (rule = rule_number(options, i, &settings)); i++)
        status = check_rule(rule, settings, error);
    if (!status && options->type >= ET_OPTIMIZER_COUNT) {
        rule = et_rule_chosen(options, &settings);
        status = check_rule(rule, settings, error);
    }
    return status;
}
