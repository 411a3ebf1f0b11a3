/* Turns a program's setup into settings: defaults, the rule and the rate, then structs, converted
 * to the dict of an equivalent text, then the text. One reader checks all of them. */
#include <math.h>
#include <string.h>

#include <etude/optimizer.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "engine/optim/options.h"

/* ---- members of public structs ---- */

/* A member has the kind of its setting: a double, int64_t, bool, or texts ended by NULL. */
typedef struct member {
    const char *name; /* of the struct and of the setting; NULL: the end */
    size_t offset;
} member;

/* Of a member of et_optimization_options. */
#define NAME(member) #member

#define ROW(type, name)                                                                            \
    {                                                                                              \
#name, offsetof(type, name)                                                                \
    }
#define CLIPS(type) ROW(type, clipvalue), ROW(type, clipnorm), ROW(type, global_clipnorm)
#define BETAS(type) ROW(type, beta_1), ROW(type, beta_2), ROW(type, epsilon)
#define END                                                                                        \
    {                                                                                              \
        NULL, 0                                                                                    \
    }

static const member sgd[] = { ROW(et_sgd, momentum), ROW(et_sgd, decay), CLIPS(et_sgd),
                              ROW(et_sgd, nesterov), END };
static const member rmsprop[] = { ROW(et_rmsprop, rho),      ROW(et_rmsprop, momentum),
                                  ROW(et_rmsprop, epsilon),  CLIPS(et_rmsprop),
                                  ROW(et_rmsprop, centered), END };
static const member adagrad[] = { ROW(et_adagrad, initial_accumulator_value),
                                  ROW(et_adagrad, epsilon), CLIPS(et_adagrad), END };
static const member adam[] = { BETAS(et_adam), CLIPS(et_adam), ROW(et_adam, amsgrad), END };
static const member adamw[] = { BETAS(et_adamw),
                                ROW(et_adamw, weight_decay_rate),
                                ROW(et_adamw, exclude_from_weight_decay),
                                CLIPS(et_adamw),
                                ROW(et_adamw, gradient_clip_norm),
                                ROW(et_adamw, amsgrad),
                                END };
static const member lamb[] = { BETAS(et_lamb),
                               ROW(et_lamb, weight_decay_rate),
                               ROW(et_lamb, exclude_from_weight_decay),
                               ROW(et_lamb, exclude_from_layer_adaptation),
                               ROW(et_lamb, decay),
                               CLIPS(et_lamb),
                               END };
static const member lars[] = { ROW(et_lars, momentum),
                               ROW(et_lars, eeta),
                               ROW(et_lars, weight_decay_rate),
                               ROW(et_lars, exclude_from_weight_decay),
                               ROW(et_lars, exclude_from_layer_adaptation),
                               CLIPS(et_lars),
                               ROW(et_lars, nesterov),
                               END };
static const member muon[] = { ROW(et_muon, momentum),
                               ROW(et_muon, weight_decay_rate),
                               BETAS(et_muon),
                               ROW(et_muon, adam_rate),
                               ROW(et_muon, exclude_from_weight_decay),
                               ROW(et_muon, exclude_from_orthogonalization),
                               CLIPS(et_muon),
                               END };

static const member cosine[] = { ROW(et_schedule_cosine, initial_learning_rate),
                                 ROW(et_schedule_cosine, alpha),
                                 ROW(et_schedule_cosine, decay_steps), END };
static const member polynomial[] = { ROW(et_schedule_polynomial, initial_learning_rate),
                                     ROW(et_schedule_polynomial, end_learning_rate),
                                     ROW(et_schedule_polynomial, power),
                                     ROW(et_schedule_polynomial, decay_steps),
                                     ROW(et_schedule_polynomial, cycle),
                                     END };
static const member exponential[] = { ROW(et_schedule_exponential, initial_learning_rate),
                                      ROW(et_schedule_exponential, decay_rate),
                                      ROW(et_schedule_exponential, decay_steps),
                                      ROW(et_schedule_exponential, staircase), END };
static const member inverse_sqrt[] = { ROW(et_schedule_inverse_sqrt, peak_learning_rate),
                                       ROW(et_schedule_inverse_sqrt, warmup_steps),
                                       ROW(et_schedule_inverse_sqrt, warmup_init_learning_rate),
                                       END };

/* Pointers of a setup, by the type that they choose. */
typedef struct choice {
    const char *type;
    size_t offset;
    const member *members;
} choice;

#define CHOICE(name)                                                                               \
    {                                                                                              \
#name, offsetof(et_optimizer_setup, name), name                                            \
    }

static const choice rules[] = { CHOICE(sgd),   CHOICE(rmsprop), CHOICE(adagrad), CHOICE(adam),
                                CHOICE(adamw), CHOICE(lamb),    CHOICE(lars),    CHOICE(muon) };
static const choice schedules[] = { CHOICE(cosine), CHOICE(polynomial), CHOICE(exponential),
                                    CHOICE(inverse_sqrt) };

/* ---- a struct as a dict ---- */

static void put_member(et_value *dict, et_field_kind kind, const char *name, const void *at)
{
    if (kind == ET_FIELD_KIND_FLOAT && *(const double *)at != 0) {
        et_value_set_float(dict, name, *(const double *)at);
    } else if (kind == ET_FIELD_KIND_INT && *(const int64_t *)at) {
        et_value_set_int(dict, name, *(const int64_t *)at);
    } else if (kind == ET_FIELD_KIND_BOOL && *(const bool *)at) {
        et_value_set_bool(dict, name, true);
    } else if (kind == ET_FIELD_KIND_STRINGS && *(const char *const *const *)at) {
        et_value *list = et_value_set_list(dict, name);
        for (const char *const *item = *(const char *const *const *)at; *item; item++)
            et_value_add_string(list, *item);
    }
}

/* The pointer that is set; *chosen NULL: none is. Two set pointers are an error. */
static int choose(const et_optimizer_setup *setup, const choice *all, size_t count,
                  const choice **chosen, const void **from, et_error *error)
{
    *chosen = NULL;
    for (size_t i = 0; i < count; i++) {
        const void *one = *(const void *const *)((const char *)setup + all[i].offset);
        if (one && *chosen)
            return et_fail(error, ET_ECONFIG,
                           "et_optimizer_setup has both %s and %s: give one of them",
                           (*chosen)->type, all[i].type);
        if (one) {
            *chosen = &all[i];
            *from = one;
        }
    }
    return ET_OK;
}

static const et_field *row(const et_fields *table, const char *name)
{
    const et_field *found = et_fields_find(table, name, strlen(name));
    et_assert(found);
    return found;
}

/* optimizer: {type: adam, adam: {beta_1: 0.8}} */
static void put_chosen(et_value *tree, const char *name, const choice *chosen, const void *from)
{
    const et_fields *table = row(row(&et_optimization_fields, name)->nested, chosen->type)->nested;
    et_value *group = et_value_set_dict(tree, name);
    et_value_set_string(group, "type", chosen->type);
    et_value *dict = et_value_set_dict(group, chosen->type);
    for (const member *m = chosen->members; m->name; m++)
        put_member(dict, row(table, m->name)->kind, m->name, (const char *)from + m->offset);
}

static int put_rule(et_value *tree, const et_optimizer_setup *setup, et_error *error)
{
    const choice *rule;
    const void *from = NULL;
    int status = choose(setup, rules, sizeof rules / sizeof *rules, &rule, &from, error);
    if (status || !rule)
        return status;
    if (setup->rule && strcmp(setup->rule, rule->type) != 0)
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup has rule \"%s\" and settings of %s: give one of them",
                       setup->rule, rule->type);
    put_chosen(tree, "optimizer", rule, from);
    return ET_OK;
}

static int put_schedule(et_value *tree, const et_optimizer_setup *setup, et_error *error)
{
    const choice *schedule;
    const void *from = NULL;
    int status =
        choose(setup, schedules, sizeof schedules / sizeof *schedules, &schedule, &from, error);
    if (status || !schedule)
        return status;
    if (setup->learning_rate != 0)
        return et_fail(error, ET_ECONFIG,
                       "et_optimizer_setup has learning_rate and the schedule %s: set the rate in "
                       "the schedule",
                       schedule->type);
    put_chosen(tree, NAME(learning_rate), schedule, from);
    return ET_OK;
}

static int put_group(et_value *list, const et_parameter_group *g, int i, et_error *error)
{
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
    return ET_OK;
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
    et_value *list = count ? et_value_set_list(tree, NAME(parameter_groups)) : NULL;
    int status = ET_OK;
    for (int i = 0; list && !status && i < count; i++)
        status = put_group(list, &setup->parameter_groups[i], i, error);
    return status;
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

/* ---- the whole ---- */

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

static int read_structs(const et_fields *table, et_optimization_options *options,
                        const et_optimizer_setup *setup, et_arena *arena, et_error *error)
{
    et_value *tree = et_value_dict(arena);
    int status = put_rule(tree, setup, error);
    if (!status && setup->rule_options) {
        /* The struct of the program's rule, which choose_rule has found. */
        const et_optimizer_rule *rule = setup->rules[options->optimizer.type - ET_OPTIMIZER_COUNT];
        et_value *own = et_fields_echo(rule->fields, setup->rule_options, arena);
        et_value *group = own ? et_value_set_dict(tree, "optimizer") : NULL;
        if (own)
            et_value_append_copy(group, rule->name, own);
        else
            arena->failed = true;
    }
    if (!status)
        status = put_schedule(tree, setup, error);
    if (!status)
        status = put_groups(tree, setup, error);
    if (!status)
        status = put_rest(tree, setup, error);
    if (!status && et_value_failed(tree))
        status = et_alloc_failed(error, 0, "settings of an optimizer");
    return status ? status
                  : et_fields_read(table, options, tree, arena, "et_optimizer_setup", "", error);
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
    if (!status)
        status = read_structs(table, options, setup, arena, error);
    if (status || !setup->settings)
        return status;
    et_value *tree;
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
