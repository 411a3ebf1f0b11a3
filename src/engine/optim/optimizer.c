/* The parts of an optimizer, in the order in which each needs the earlier ones, and its getters.
 * update.c makes updates. */
#include "engine/optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/pattern.h"
#include "engine/optim/optimizer_private.h"
#include "engine/tensor/group.h"
#include "engine/tensor/params.h"

static bool is_found(const et_patterns *patterns, size_t index, const et_params *params)
{
    for (int i = 0; i < et_params_count(params); i++)
        if (et_patterns_match_one(patterns, index, et_params_name(params, i)))
            return true;
    return false;
}

/* Other systems name their parameters differently. A settings file with their `LayerNorm` would
 * match nothing, and all norms would decay, so this warns. */
static void warn_of_unfound(const et_patterns *patterns, et_strings list, const char *setting,
                            const et_params *params)
{
    for (size_t i = 0; i < list.count && et_params_count(params); i++)
        if (!is_found(patterns, i, params))
            et_log(ET_LOG_WARNING, "%s: '%s' matches no parameter; the last one is called %s",
                   setting, list.items[i], et_params_name(params, et_params_count(params) - 1));
}

/* A message's name for the list: "trainer.optimizer_config.optimizer.muon.exclude_from_...". */
static int new_patterns(et_patterns **out, et_strings list, const et_optimizer *optimizer,
                        const char *which, et_error *error)
{
    char setting[120];
    snprintf(setting, sizeof setting, "trainer.optimizer_config.optimizer.%s.%s",
             optimizer->rule->name, which);
    int status = et_patterns_new(out, list, setting, error);
    if (!status)
        warn_of_unfound(*out, list, setting, optimizer->params);
    return status;
}

/* Which parameters decay, by the two lists: an included name decays even if excluded. Names are
 * searched once, here; an update knows bits only. */
static int find_decaying(et_optimizer *optimizer, et_error *error)
{
    et_patterns *include, *exclude = NULL;
    et_strings included, excluded;
    double decay;
    if (!et_rule_decay(optimizer->rule, optimizer->settings, &decay, &included, &excluded))
        return ET_OK;
    int status = new_patterns(&include, included, optimizer, "include_in_weight_decay", error);
    if (!status)
        status = new_patterns(&exclude, excluded, optimizer, ET_NO_DECAY, error);
    for (size_t i = 0; !status && i < optimizer->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        const char *name = et_params_name(optimizer->params, tensor->param);
        tensor->decays = et_patterns_match(include, name) || !et_patterns_match(exclude, name);
        tensor->decay = tensor->decays ? decay : 0;
    }
    et_patterns_free(include);
    et_patterns_free(exclude);
    return status;
}

/* Finds the tensors to which the rule's treatment of whole tensors applies. */
static int find_adapting(et_optimizer *optimizer, et_error *error)
{
    et_patterns *exclude;
    et_strings excluded;
    if (!optimizer->rule->adapts)
        return ET_OK;
    const char *list = et_rule_adapts(optimizer->rule, optimizer->settings, &excluded);
    int status = new_patterns(&exclude, excluded, optimizer, list, error);
    if (status)
        return status;
    for (size_t i = 0; i < optimizer->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        tensor->adapts =
            !et_patterns_match(exclude, et_params_name(optimizer->params, tensor->param));
    }
    et_patterns_free(exclude);
    return ET_OK;
}

/* ---- parameter groups ---- */

static int in_two_groups(const et_optimizer *o, const et_optim_tensor *tensor,
                         const et_parameter_group_options *groups, int group, et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "trainer.optimizer_config.parameter_groups: %s is in two groups, '%s' and '%s'; "
                   "change a pattern, so that each parameter is in at most one group",
                   et_params_name(o->params, tensor->param), groups[tensor->group - 1].pattern,
                   groups[group - 1].pattern);
}

static void join_group(et_optim_tensor *tensor, const et_parameter_group_options *g, int group)
{
    tensor->group = group;
    tensor->rate_multiplier = g->learning_rate_multiplier;
    if (g->weight_decay_rate != ET_DECAY_OF_RULE)
        tensor->decay = tensor->decays ? g->weight_decay_rate : 0;
}

/* Parameters that this optimizer leaves alone are no error: they may be frozen for a while. */
static int empty_group(const et_optimizer *o, const et_patterns *pattern,
                       const et_parameter_group_options *g, int group, et_error *error)
{
    if (!is_found(pattern, 0, o->params))
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.parameter_groups[%d].pattern: '%s' matches no "
                       "parameter; the first one is called %s",
                       group - 1, g->pattern, et_params_name(o->params, 0));
    et_log(ET_LOG_WARNING,
           "trainer.optimizer_config.parameter_groups[%d].pattern: '%s' matches only parameters "
           "that this optimizer does not train",
           group - 1, g->pattern);
    return ET_OK;
}

/* group: from 1. */
static int find_group(et_optimizer *o, const et_parameter_group_options *groups, int group,
                      et_error *error)
{
    const et_parameter_group_options *g = &groups[group - 1];
    et_patterns *pattern;
    int found = 0;
    int status =
        et_patterns_new(&pattern, (et_strings){ &g->pattern, 1 }, "parameter_groups", error);
    for (size_t i = 0; !status && i < o->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &o->layout.tensors[i];
        if (!et_patterns_match(pattern, et_params_name(o->params, tensor->param)))
            continue;
        if (tensor->group)
            status = in_two_groups(o, tensor, groups, group, error);
        else
            join_group(tensor, g, group);
        found++;
    }
    if (!status && !found && et_params_count(o->params))
        status = empty_group(o, pattern, g, group, error);
    et_patterns_free(pattern);
    return status;
}

static int find_groups(et_optimizer *o, const et_structs *groups, et_error *error)
{
    int status = ET_OK;
    for (size_t i = 0; !status && i < groups->count; i++)
        status = find_group(o, groups->items, (int)i + 1, error);
    return status;
}

/* What the rule does with a tensor at a time. */
static void find_whole(et_optimizer *optimizer)
{
    const et_optimizer_rule *rule = optimizer->rule;
    for (size_t i = 0; i < optimizer->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        if (rule->scratch)
            tensor->scratch = rule->scratch(optimizer->settings, tensor->shape, tensor->adapts);
        tensor->whole = rule->cut == ET_RULE_WHOLE && (!rule->scratch || tensor->scratch);
        et_assert(!tensor->scratch || tensor->whole);
    }
}

/* Tensors, their decay and rate, what is clipped, and where that puts the cuts. */
static int plan_chunks(et_optimizer *o, const et_group *group, const et_structs *groups,
                       et_error *error)
{
    int status = et_optim_layout_init(&o->layout, group, error);
    if (!status)
        status = find_decaying(o, error);
    if (!status)
        status = find_adapting(o, error);
    if (!status)
        status = find_groups(o, groups, error);
    if (!status)
        find_whole(o);
    o->clip_count = et_rule_clips(o->rule, o->settings, o->clips);
    for (int i = 0; i < o->clip_count; i++)
        o->by_tensor |= o->clips[i].class->scope == ET_CLIP_TENSORS;
    if (!status)
        status = et_optim_layout_divide(&o->layout, o->rule->cut, o->by_tensor, error);
    if (status)
        return status;
    size_t tensors = o->layout.tensor_count + 1;
    size_t pieces = (size_t)(o->layout.size / ET_OPTIM_CHUNK) + tensors;
    o->partial = et_alloc(ET_RULE_SUMS_MAX * pieces, sizeof *o->partial);
    o->tensor_sums = et_alloc(ET_RULE_SUMS_MAX * tensors, sizeof *o->tensor_sums);
    o->squares = et_alloc(tensors, sizeof *o->squares);
    o->factors = et_alloc(tensors, sizeof *o->factors);
    bool ok = o->partial && o->tensor_sums && o->squares && o->factors;
    return ok ? ET_OK : et_alloc_failed(error, pieces * sizeof *o->partial, "an optimizer");
}

/* Makes the slots of the part that this rank owns. */
static int make_own(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    int status = et_optim_owners_init(&optimizer->owners, comm, &optimizer->layout,
                                      optimizer->rule->cut, error);
    return status ? status : et_optimizer_make_slots(optimizer, error);
}

int et_optimizer_shard(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    if (optimizer->held || optimizer->iterations)
        return et_fail(error, ET_EUSAGE,
                       "split an optimizer among ranks before its first update and before you add "
                       "it to a state");
    et_optimizer_free_slots(optimizer);
    et_optim_owners_release(&optimizer->owners);
    return make_own(optimizer, comm, error);
}

void et_optimizer_limit(et_optimizer *optimizer, const et_group *group)
{
    et_assert(!group || et_params_gradients(et_group_params(group)) ==
                            et_params_gradients(optimizer->params));
    optimizer->limit = group;
}

int et_optimizer_param(const et_optimizer *optimizer, int i)
{
    const et_optim_layout *layout = &optimizer->layout;
    if (optimizer->limit)
        return et_group_param(optimizer->limit, i);
    return i >= 0 && (size_t)i < layout->tensor_count ? layout->tensors[i].param : -1;
}

void et_optimizer_hold(et_optimizer *optimizer)
{
    optimizer->held = true;
}

/* The parts that may fail, in an order that lets et_optimizer_free undo any of them:
 * everything not made yet is NULL or 0. */
static int build(et_optimizer *optimizer, const et_group *group,
                 const et_optimization_options *options, et_error *error)
{
    et_group *all = NULL;
    int status =
        et_schedule_init(&optimizer->schedule, &options->learning_rate, &options->warmup, error);
    if (!status && !group)
        status = et_group_new(&all, optimizer->params, "", error);
    if (!status)
        status = plan_chunks(optimizer, group ? group : all, &options->parameter_groups, error);
    et_group_free(all);
    if (!status)
        status = et_optim_average_init(&optimizer->average, &options->ema, &optimizer->layout,
                                       optimizer->params, error);
    if (!status)
        status = make_own(optimizer, NULL, error);
    return status;
}

/* Options are checked as a whole before anything is made. */
static int new_checked(et_optimizer **out, et_params *params, const et_group *group,
                       const et_kernels *kernels, const et_optimization_options *options,
                       et_error *error)
{
    const void *settings;
    int status = et_optimization_check(options, error);
    if (status)
        return status;
    if (et_optimization_counts_epochs(options))
        return et_fail(error, ET_ECONFIG,
                       "trainer.optimizer_config.learning_rate: the decay is given in epochs, but "
                       "the steps of an epoch are unknown here; give steps");
    et_optimizer *optimizer = et_alloc_zero(1, sizeof *optimizer);
    if (!optimizer)
        return et_alloc_failed(error, sizeof *optimizer, "an optimizer");
    optimizer->rule = et_rule_chosen(&options->optimizer, &settings);
    optimizer->regularization = options->regularization;
    optimizer->kernels = kernels;
    optimizer->params = params;
    optimizer->weights = et_params_values(params);
    optimizer->rate_override = NAN;
    optimizer->settings = et_alloc(1, optimizer->rule->size + 1);
    if (!optimizer->settings)
        status = et_alloc_failed(error, optimizer->rule->size, "an optimizer");
    else if (optimizer->rule->size)
        memcpy(optimizer->settings, settings, optimizer->rule->size);
    if (!status)
        status = build(optimizer, group, options, error);
    if (status) {
        et_optimizer_free(optimizer);
        return status;
    }
    *out = optimizer;
    return ET_OK;
}

/* Settings of a program may still have a number for the peak of the rate. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_group *group,
                     const et_kernels *kernels, const et_optimization_options *options,
                     et_error *error)
{
    et_optimization_options final = *options;
    et_arena arena = ET_ARENA_INIT;
    et_assert(et_params_ready(params));
    et_assert(!group || et_group_params(group) == params);
    *out = NULL;
    int status = et_optimization_use_peak(&final, &arena, error);
    if (!status)
        status = new_checked(out, params, group, kernels, &final, error);
    et_arena_release(&arena);
    return status;
}

et_params *et_optimizer_params(const et_optimizer *optimizer)
{
    return optimizer->params;
}

void et_optimizer_free(et_optimizer *optimizer)
{
    if (!optimizer)
        return;
    et_optimizer_free_slots(optimizer);
    et_optim_layout_release(&optimizer->layout);
    et_optim_owners_release(&optimizer->owners);
    et_optim_average_release(&optimizer->average);
    et_free(optimizer->settings);
    et_free(optimizer->partial);
    et_free(optimizer->tensor_sums);
    et_free(optimizer->squares);
    et_free(optimizer->factors);
    et_free(optimizer);
}

void et_optimizer_start(et_optimizer *optimizer)
{
    et_optim_average_start(&optimizer->average, optimizer->weights);
}

int et_optimizer_settled(const et_optimizer *optimizer, et_error *error)
{
    const et_error *failure = &optimizer->owners.failure;
    return failure->status ? et_fail(error, failure->status, "%s", failure->text) : ET_OK;
}

et_comm *et_optimizer_ranks(const et_optimizer *optimizer)
{
    return optimizer->owners.ranks > 1 ? optimizer->owners.comm : NULL;
}

et_cost et_optimizer_cost(const et_optimizer *optimizer)
{
    double element = 2 * sizeof(float) + 2 * sizeof(float);
    if (et_params_shadow(optimizer->params))
        element += sizeof(et_bf16);
    double average =
        optimizer->average.data ? 2 * sizeof(float) * (double)optimizer->layout.size : 0;
    for (int i = 0; i < optimizer->rule_slots; i++)
        average += 2 * sizeof(float) * (double)optimizer->slots[i].size;
    return (et_cost){ .bytes = element * (double)optimizer->layout.size + average };
}

bool et_optimizer_by_elements(const et_optimizer *optimizer)
{
    return optimizer->rule->cut == ET_RULE_ELEMENTS && !optimizer->by_tensor;
}

bool et_optimizer_by_parts(const et_optimizer *optimizer)
{
    int bounding = 0;
    for (int i = 0; i < optimizer->clip_count; i++)
        bounding += optimizer->clips[i].class->scope != ET_CLIP_ALL;
    return !bounding || bounding == optimizer->clip_count;
}

int64_t et_optimizer_iterations(const et_optimizer *optimizer)
{
    return optimizer->iterations;
}

void et_optimizer_set_progress(et_optimizer *optimizer, int64_t iterations, int64_t slots_from)
{
    et_assert(slots_from >= 0 && slots_from <= iterations);
    optimizer->iterations = iterations;
    optimizer->slots_from = slots_from;
}

int64_t et_optimizer_slots_from(const et_optimizer *optimizer)
{
    return optimizer->slots_from;
}

void et_optimizer_restart(et_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->rule_slots; i++)
        et_optimizer_fill_slot(optimizer, i);
    optimizer->slots_from = optimizer->iterations;
}

void et_optimizer_follow_length(et_optimizer *optimizer, int64_t was, int64_t now)
{
    et_rate_follow_length(&optimizer->schedule.options, was, now);
}

double et_optimizer_learning_rate(const et_optimizer *optimizer)
{
    return isnan(optimizer->rate_override)
               ? et_schedule_rate(&optimizer->schedule, optimizer->iterations)
               : optimizer->rate_override;
}

double et_optimizer_regularization(const et_optimizer *optimizer)
{
    return et_regularization_factor(&optimizer->regularization, optimizer->iterations);
}

double et_optimizer_rate_override(const et_optimizer *optimizer)
{
    return optimizer->rate_override;
}

int et_optimizer_set_learning_rate(et_optimizer *optimizer, double rate, et_error *error)
{
    if (rate < 0 || isinf(rate))
        return et_fail(error, ET_ECONFIG, "learning rate %g: give a finite number of at least 0",
                       rate);
    optimizer->rate_override = rate;
    return ET_OK;
}

int et_optimizer_slots(const et_optimizer *optimizer, const et_slot **slots)
{
    *slots = optimizer->slots;
    return optimizer->slot_count;
}

int et_optimizer_parts(const et_optimizer *optimizer, const et_slot_part **parts)
{
    *parts = optimizer->parts;
    return optimizer->part_count;
}

size_t et_optimizer_bytes(const et_optimizer *optimizer)
{
    size_t bytes = 0;
    for (int i = 0; i < optimizer->slot_count; i++)
        bytes += (size_t)optimizer->slots[i].size * sizeof(float);
    return bytes;
}

bool et_optimizer_show_average(et_optimizer *optimizer)
{
    const et_optim_average *average = &optimizer->average;
    if (!average->data)
        return false;
    et_optim_average_fill(average, optimizer->weights, et_params_flat_size(optimizer->params));
    et_params_use(optimizer->params, average->data);
    return true;
}

void et_optimizer_hide_average(et_optimizer *optimizer)
{
    et_params_use(optimizer->params, NULL);
}

float *et_optimizer_average(et_optimizer *optimizer)
{
    return optimizer->average.data;
}
