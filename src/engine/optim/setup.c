/* Turns a program's setup into settings: defaults, the rule and the rate, then structs, which their
 * tables convert to the dict of an equivalent text, then the text. One reader checks all of them.
 */
#include <math.h>
#include <string.h>

#include <etude/optimizer.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "engine/optim/options.h"

/* Pointers of a setup, by the type that they choose. */
typedef struct choice {
    const char *type;
    size_t offset;
} choice;

#define CHOICE(name)                                                                               \
    {                                                                                              \
#name, offsetof(et_optimizer_setup, name)                                                  \
    }

static const choice rules[] = { CHOICE(sgd),   CHOICE(rmsprop), CHOICE(adagrad), CHOICE(adam),
                                CHOICE(adamw), CHOICE(lamb),    CHOICE(lars),    CHOICE(muon) };
static const choice schedules[] = { CHOICE(cosine), CHOICE(polynomial), CHOICE(exponential),
                                    CHOICE(inverse_sqrt) };

/* Puts a member of a struct into dict, unless it is 0, false or NULL: then the default counts. What
 * no reader of the dict accepts is put there as a number. */
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

/* Of the pointers that is set: optimizer: {type: adam, adam: {beta_1: 0.8}}. Two are an error;
 * *type becomes NULL if none is set. */
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
    int status =
        put_chosen(tree, "optimizer", setup, rules, sizeof rules / sizeof *rules, &rule, error);
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
    status = put_chosen(tree, "learning_rate", setup, schedules,
                        sizeof schedules / sizeof *schedules, &schedule, error);
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
    int status = et_optimization_register(&table, options, setup->rules, arena, error);
    if (!status)
        status = choose_rule(options, setup, error);
    if (status)
        return status;
    const int own = options->optimizer.type - ET_OPTIMIZER_COUNT;
    et_value *tree = et_value_dict(arena);
    if ((status = put_structs(tree, setup, own < 0 ? NULL : setup->rules[own], arena, error)) ||
        (status = put_groups(tree, setup, error)) || (status = put_rest(tree, setup, error)))
        return status;
    if (et_value_failed(tree))
        return et_alloc_failed(error, 0, "settings of an optimizer");
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
        return et_alloc_failed(error, sizeof *options, "settings of an optimizer");
    et_fields_defaults(&et_optimization_fields, options);
    *out = (et_settings){ .options = options, .arena = arena };
    return et_optimization_register(&out->table, options, own, arena, error);
}
