/* The rules that settings can choose, and what rows of their tables mean by their names. */
#include <stddef.h>
#include <string.h>

#include "base/fields/fields.h"
#include "engine/optim/rules/rule.h"

static const struct {
    const et_optimizer_rule *rule;
    size_t settings; /* in et_optimizer_options */
} rules[] = {
#define RULE(ID, name, help) { &et_rule_##name, offsetof(et_optimizer_options, name) },
#include "engine/optim/rules/rules.def"
#undef RULE
};

enum { RULES = sizeof rules / sizeof rules[0] };

const et_optimizer_rule *et_rule_number(const et_optimizer_options *options, int i,
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
        return et_rule_number(options, options->type - ET_OPTIMIZER_NONE - 1, settings);
    *settings = options->own_settings[own];
    return options->own[own];
}

const void *et_rule_member(const et_optimizer_rule *rule, const void *settings, const char *name,
                           et_field_kind kind)
{
    const et_field *row = rule->fields ? et_fields_find(rule->fields, name, strlen(name)) : NULL;
    return row && row->kind == kind ? (const char *)settings + row->offset : NULL;
}

static double number(const et_optimizer_rule *rule, const void *settings, const char *name)
{
    const double *member = et_rule_member(rule, settings, name, ET_FIELD_KIND_FLOAT);
    return member ? *member : 0;
}

static et_strings list(const et_optimizer_rule *rule, const void *settings, const char *name)
{
    const et_strings *member = et_rule_member(rule, settings, name, ET_FIELD_KIND_STRINGS);
    return member ? *member : (et_strings){ NULL, 0 };
}

/* Model Garden's adamw clips by its own norm, and passes the result to Keras. */
int et_rule_clips(const et_optimizer_rule *rule, const void *settings, et_clip clips[ET_CLIPS_MAX])
{
    int count =
        et_clip_add(clips, 0, &et_clip_global_norm, number(rule, settings, "gradient_clip_norm"));
    count = et_clip_add(clips, count, &et_clip_value, number(rule, settings, "clipvalue"));
    count = et_clip_add(clips, count, &et_clip_norm, number(rule, settings, "clipnorm"));
    return et_clip_add(clips, count, &et_clip_global_norm,
                       number(rule, settings, "global_clipnorm"));
}

bool et_rule_decay(const et_optimizer_rule *rule, const void *settings, double *decay,
                   et_strings *include, et_strings *exclude)
{
    const double *rate = et_rule_member(rule, settings, "weight_decay_rate", ET_FIELD_KIND_FLOAT);
    if (!rate) /* Keras's newer name */
        rate = et_rule_member(rule, settings, "weight_decay", ET_FIELD_KIND_FLOAT);
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
