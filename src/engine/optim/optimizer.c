/* The parts of an optimizer, in the order in which each needs the earlier ones, and its getters.
 * update.c makes updates. */
#include "engine/optim/optimizer.h"

#include <etude/log.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/text/pattern.h"
#include "base/threads/team.h"
#include "engine/optim/optimizer_private.h"
#include "engine/tensor/params.h"

/* ---- the layout ---- */

/* Neighbours that a rule treats equally share chunks, so many small parameters cost little. A run
 * of neighbours ends if the next parameter of the group does not follow directly, or has another
 * rate or decay; the padding after a parameter belongs to its run. If a rule works on whole
 * tensors, padding is left out, because the rule counts elements. */

static int64_t padded_end(const et_optim_layout *layout, size_t i)
{
    const et_optim_tensor *tensor = &layout->tensors[i];
    bool last = i + 1 == layout->tensor_count;
    int64_t next = last ? layout->size : layout->tensors[i + 1].packed;
    return tensor->begin + next - tensor->packed;
}

/* Tensors of a group: nothing decays, adapts or is whole; all have the schedule's rate. */
static int layout_init(et_optim_layout *layout, const et_group *group, et_error *error)
{
    const et_range *ranges;
    const int count = et_group_count(group);
    *layout = (et_optim_layout){ .size = et_group_size(group) };
    layout->range_count = et_group_ranges(group, &ranges);
    if (ET_ALLOC(layout->tensors, count, "an optimizer", error) ||
        ET_ALLOC(layout->ranges, layout->range_count, "an optimizer", error))
        return ET_ENOMEM;
    memcpy(layout->ranges, ranges, layout->range_count * sizeof *ranges);
    const et_params *params = et_group_params(group);
    const et_range *range = NULL;
    int64_t packed = 0; /* of the range's begin */
    for (int i = 0; i < count; i++) {
        int param = et_group_param(group, i);
        int64_t begin = et_params_offset(params, param);
        et_shape shape = et_params_shape(params, param);
        if (et_shape_count(shape) == 0)
            continue;
        if (!range || begin >= range->end) {
            packed += range ? range->end - range->begin : 0;
            range = ranges;
            while (range < ranges + layout->range_count &&
                   (begin < range->begin || begin >= range->end))
                range++;
        }
        et_assert(range < ranges + layout->range_count);
        layout->tensors[layout->tensor_count++] =
            (et_optim_tensor){ .param = param,
                               .begin = begin,
                               .packed = packed + begin - range->begin,
                               .size = et_shape_count(shape),
                               .shape = shape,
                               .rate_multiplier = 1 };
    }
    return ET_OK;
}

/* Cuts a run from `begin` on, not at multiples of the store's: it starts with a whole piece. */
static void cut(et_optim_section *sections, size_t *count, et_optim_section run, int64_t size)
{
    for (int64_t at = 0; at < run.count; at += size)
        sections[(*count)++] =
            (et_optim_section){ run.begin + at, run.packed + at,
                                run.count - at < size ? run.count - at : size, run.tensor };
}

static bool continues(const et_optim_layout *layout, size_t i, bool alike)
{
    const et_optim_tensor *a = &layout->tensors[i], *b = a + 1;
    if (b->begin != padded_end(layout, i))
        return false;
    return !alike || (a->decay == b->decay && a->rate_multiplier == b->rate_multiplier);
}

/* Makes runs of adjacent tensors that, if `alike`, all decay or all do not. */
static void cut_runs(const et_optim_layout *layout, et_optim_section *sections, size_t *count,
                     bool alike)
{
    size_t first = 0;
    for (size_t i = 0; i < layout->tensor_count; i++) {
        if (i + 1 < layout->tensor_count && continues(layout, i, alike))
            continue;
        const et_optim_tensor *tensor = &layout->tensors[first];
        et_optim_section run = { tensor->begin, tensor->packed,
                                 padded_end(layout, i) - tensor->begin, (int)first };
        cut(sections, count, run, ET_OPTIM_CHUNK);
        first = i + 1;
    }
}

static void cut_tensors(const et_optim_layout *layout, et_optim_section *sections, size_t *count,
                        bool by_rule)
{
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const et_optim_tensor *tensor = &layout->tensors[i];
        et_optim_section run = { tensor->begin, tensor->packed, tensor->size, (int)i };
        cut(sections, count, run, by_rule && tensor->whole ? INT64_MAX : ET_OPTIM_CHUNK);
    }
}

/* Makes chunks from the tensors' members, and blocks, of whole tensors if by_tensor. Call once. At
 * most a piece for each full one, and one more for each tensor. */
static int layout_divide(et_optim_layout *layout, et_rule_granularity how, bool by_tensor,
                         et_error *error)
{
    size_t most = (size_t)(layout->size / ET_OPTIM_CHUNK) + layout->tensor_count + 1;
    if (ET_ALLOC(layout->chunks, most, "an optimizer's chunks", error) ||
        ET_ALLOC(layout->blocks, most, "an optimizer's chunks", error))
        return ET_ENOMEM;
    if (how == ET_RULE_ELEMENTS && !by_tensor)
        cut_runs(layout, layout->chunks, &layout->chunk_count, true);
    else
        cut_tensors(layout, layout->chunks, &layout->chunk_count, true);
    if (by_tensor)
        cut_tensors(layout, layout->blocks, &layout->block_count, false);
    else
        cut_runs(layout, layout->blocks, &layout->block_count, false);
    et_assert(layout->chunk_count <= most && layout->block_count <= most);
    return ET_OK;
}

/* ---- owners ---- */

/* The begin of a tensor that is nearest to `at`. */
static int64_t nearest_tensor(const et_optim_layout *layout, int64_t at)
{
    int64_t nearest = layout->size;
    for (size_t i = layout->tensor_count; i-- > 0;) {
        int64_t begin = layout->tensors[i].packed;
        if (begin >= at || at - begin <= nearest - at)
            nearest = begin;
        if (begin < at)
            break;
    }
    return nearest;
}

/* As long a part for each rank. */
static int owners_init(et_optim_owners *owners, et_comm *comm, const et_optim_layout *layout,
                       et_rule_granularity how, et_error *error)
{
    *owners = (et_optim_owners){ .comm = comm,
                                 .rank = et_comm_rank(comm),
                                 .ranks = et_comm_size(comm),
                                 .failure = ET_ERROR_INIT };
    const int ranks = owners->ranks;
    if (ET_ALLOC(owners->cut, (size_t)ranks + 1, "an optimizer's ranks", error))
        return ET_ENOMEM;
    const int64_t lines = et_flat_up(layout->size) / ET_FLAT_ALIGN;
    for (int r = 0; r <= ranks; r++) {
        int64_t at = (lines + ranks - 1) / ranks * r * ET_FLAT_ALIGN;
        if (r == ranks || at > layout->size)
            at = layout->size;
        const bool inner = r > 0 && r < ranks;
        owners->cut[r] = inner && how != ET_RULE_ELEMENTS ? nearest_tensor(layout, at) : at;
        et_assert(!r || owners->cut[r] >= owners->cut[r - 1]);
    }
    return ET_OK;
}

static void owners_release(et_optim_owners *owners)
{
    et_free(owners->cut);
    *owners = (et_optim_owners){ .cut = NULL };
}

/* ---- the team ---- */

/* Work is counted in elements: the time per element is about the same for matrices whose smaller
 * sides are about equal. */

/* Floats of scratch that a thread has at most: 4 MiB. The products of a matrix that needs more are
 * long enough to be shared out. */
#define OWN_MOST ((size_t)1 << 20)

/* Descending. */
ET_SORT_BY(by_count, et_optim_section, ET_DOWN(count), ET_UP(begin))

/* Appends either the chunks that all threads do together, or the others. Returns the largest
 * scratch that one needs, in whole cache lines. */
static size_t team_append(et_optim_team *team, const et_optim_layout *layout, et_range own,
                          bool together)
{
    int64_t whole = 0; /* elements of whole tensors */
    for (size_t i = 0; i < layout->chunk_count; i++)
        if (layout->tensors[layout->chunks[i].tensor].whole)
            whole += et_optim_section_in(&layout->chunks[i], own).count;
    const size_t first = team->count;
    size_t most = 0;
    for (size_t i = 0; i < layout->chunk_count; i++) {
        const et_optim_section section = et_optim_section_in(&layout->chunks[i], own);
        const et_optim_tensor *tensor = &layout->tensors[section.tensor];
        const bool large =
            tensor->scratch > OWN_MOST || (tensor->whole && section.count * team->threads > whole);
        if (!section.count || large != together)
            continue;
        team->sections[team->count++] = section;
        most = tensor->scratch > most ? tensor->scratch : most;
    }
    qsort(team->sections + first, team->count - first, sizeof *team->sections, by_count);
    return (most + 15) / 16 * 16;
}

static int team_init(et_optim_team *team, const et_optim_layout *layout, et_range own,
                     et_error *error)
{
    *team = (et_optim_team){ .threads = et_team_threads() };
    if (ET_ALLOC(team->sections, layout->chunk_count, "an optimizer", error))
        return ET_ENOMEM;
    size_t floats = team_append(team, layout, own, true);
    team->together = team->count;
    team->each = team_append(team, layout, own, false);
    const size_t alone = team->count - team->together;
    if (alone < (size_t)team->threads)
        team->threads = alone ? (int)alone : 1;
    if ((size_t)team->threads * team->each > floats)
        floats = (size_t)team->threads * team->each;
    team->scratch = et_alloc_array((floats ? floats : 1) * sizeof(float));
    return team->scratch ? ET_OK : et_alloc_failed(error, "an optimizer's scratch");
}

/* ---- the average ---- */

/* Ranges of the store that have an average, and copies in and out of them. */

/* Length of a name without its last part, with the slash. */
static size_t scope_length(const char *name)
{
    const char *slash = strrchr(name, '/');
    return slash ? (size_t)(slash - name) + 1 : 0;
}

/* Whether the group has a parameter in the variable's scope. */
static bool has_neighbour(const et_optim_layout *layout, const et_params *params,
                          const char *variable)
{
    size_t length = scope_length(variable);
    for (size_t i = 0; i < layout->tensor_count; i++) {
        const char *name = et_params_name(params, layout->tensors[i].param);
        if (scope_length(name) == length && !strncmp(name, variable, length))
            return true;
    }
    return false;
}

static int average_init(et_optim_average *average, const et_ema_options *options,
                        const et_optim_layout *layout, const et_params *params, et_error *error)
{
    const int count = layout->range_count + et_params_count(params);
    *average = (et_optim_average){ .options = *options };
    if (!options->enabled)
        return ET_OK;
    if (ET_ALLOC(average->ranges, count, "an average", error) ||
        ET_ALLOC(average->variables, count, "an average", error))
        return ET_ENOMEM;
    average->range_count = layout->range_count;
    memcpy(average->ranges, layout->ranges, layout->range_count * sizeof(et_range));
    if (!options->trainable_weights_only) {
        /* Variables come after all trained parameters, so ranges stay in order. */
        const bool all = layout->size == et_params_trained_size(params);
        for (int nth = 0; nth < et_params_count(params); nth++) {
            int index = et_params_in_order(params, nth);
            int64_t begin = et_params_offset(params, index);
            int64_t size = et_shape_count(et_params_shape(params, index));
            if (et_params_is_trained(params, index) || size == 0)
                continue;
            if (!all && !has_neighbour(layout, params, et_params_name(params, index)))
                continue;
            average->variables[average->variable_count++] = index;
            average->ranges[average->range_count++] = (et_range){ begin, begin + size };
        }
    }
    return ET_OK;
}

static void average_copy(const et_optim_average *average, const float *values, int64_t begin,
                         int64_t end)
{
    et_assert(begin <= end);
    memcpy(average->data + begin, values + begin, (end - begin) * sizeof(float));
}

/* Without an average, nothing depends on the initial values. */
void et_optimizer_start(et_optimizer *optimizer)
{
    const et_optim_average *average = &optimizer->average;
    for (int i = 0; average->data && i < average->range_count; i++)
        average_copy(average, optimizer->weights, average->ranges[i].begin, average->ranges[i].end);
}

/* ---- slots ---- */

/* The arrays of an optimizer, and their owners: for each slot the rule gives the shape for a
 * tensor, and a rank keeps the slots that it updates. Slots are packed arrays over the group. The
 * average is an array over the whole store, which can then point to it. */

/* Whether this rank updates a tensor's first element. A rule for whole tensors then updates all of
 * it. */
static bool owns(const et_optimizer *o, size_t tensor)
{
    const et_range own = et_optim_own(&o->owners);
    int64_t at = o->layout.tensors[tensor].packed;
    return at >= own.begin && at < own.end;
}

/* As it began. */
static void fill_slot(et_optimizer *optimizer, int s)
{
    for (int64_t at = 0; at < optimizer->slots[s].size; at++)
        optimizer->slots[s].data[at] = optimizer->initial[s];
}

/* Zeros, which is right for moments and momentum; what begins otherwise is set later. */
static int add_slot(et_optimizer *optimizer, const char *name, int64_t size, et_error *error)
{
    size_t bytes = size * sizeof(float);
    float *data = et_alloc_array(bytes ? bytes : sizeof(float)); /* a rank may own no element */
    if (!data)
        return et_alloc_failed(error, "an optimizer's slot");
    et_assert(optimizer->slot_count <= ET_RULE_SLOTS_MAX);
    optimizer->slots[optimizer->slot_count++] = (et_slot){ name, data, size };
    return ET_OK;
}

/* False: a tensor has no such slot. */
static bool slot_shape(const et_rule_slot *slot, const et_optim_tensor *tensor, et_shape *shape)
{
    *shape = tensor->shape;
    return !slot || !slot->shape || slot->shape(tensor->shape, tensor->adapts, shape);
}

/* Offsets of the tensors' parts in a slot of another shape. */
static int lay_out_slot(et_optimizer *optimizer, const et_rule_slot *slot, int64_t **at,
                        int64_t *size, et_error *error)
{
    size_t count = optimizer->layout.tensor_count;
    et_assert(optimizer->rule->cut == ET_RULE_WHOLE);
    *size = 0;
    if (ET_ALLOC(*at, count, "an optimizer's slot", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        et_shape shape;
        (*at)[i] = -1;
        if (!slot_shape(slot, &optimizer->layout.tensors[i], &shape) || !owns(optimizer, i))
            continue;
        (*at)[i] = *size;
        *size += et_flat_up(et_shape_count(shape));
    }
    return ET_OK;
}

/* The elements of a part, of a tensor's slot, that each rank keeps. A slot of another shape is kept
 * whole by the tensor's owner. NULL: there is one rank. */
static const int64_t *cut_part(et_optimizer *o, const et_optim_tensor *tensor, int64_t count,
                               bool placed)
{
    const et_optim_owners *owners = &o->owners;
    int64_t *cut = o->cuts ? o->cuts + (size_t)o->part_count * ((size_t)owners->ranks + 1) : NULL;
    for (int r = 0; cut && r <= owners->ranks; r++) {
        int64_t at = owners->cut[r] - tensor->packed;
        at = placed && at > 0 ? count : at;
        cut[r] = at < 0 ? 0 : at < count ? at : count;
    }
    return cut;
}

/* The begin of this rank's elements of a part; any number if it has none. */
static int64_t part_begin(const et_optimizer *o, size_t tensor, const int64_t *at)
{
    if (at)
        return at[tensor] < 0 ? 0 : at[tensor];
    return owns(o, tensor) ? o->layout.tensors[tensor].packed - et_optim_own(&o->owners).begin : 0;
}

/* Adds the parts of slot s that a checkpoint saves; the average is complete on every rank. */
static void add_parts(et_optimizer *optimizer, int s, const et_rule_slot *slot, const int64_t *at)
{
    bool average = !slot;
    for (size_t i = 0; i < optimizer->layout.tensor_count; i++) {
        const et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        et_shape shape;
        if (!slot_shape(slot, tensor, &shape))
            continue;
        const int64_t *cut =
            average ? NULL : cut_part(optimizer, tensor, et_shape_count(shape), at != NULL);
        int64_t begin = average ? tensor->begin : part_begin(optimizer, i, at);
        optimizer->parts[optimizer->part_count++] =
            (et_slot_part){ optimizer->slots[s].name, tensor->param,
                            optimizer->slots[s].data + begin, shape, cut };
    }
}

/* One slot more, the last, if an average is wanted. */
static int make_average(et_optimizer *optimizer, et_error *error)
{
    if (!optimizer->average.options.enabled)
        return ET_OK;
    int at = optimizer->slot_count;
    int status = add_slot(optimizer, "average", et_params_flat_size(optimizer->params), error);
    if (status)
        return status;
    optimizer->average.data = optimizer->slots[at].data;
    const et_optim_average *average = &optimizer->average;
    add_parts(optimizer, at, NULL, NULL);
    for (int i = 0; i < average->variable_count; i++) {
        int param = average->variables[i];
        optimizer->parts[optimizer->part_count++] =
            (et_slot_part){ optimizer->slots[at].name, param,
                            average->data + et_params_offset(optimizer->params, param),
                            et_params_shape(optimizer->params, param), NULL };
    }
    et_optimizer_start(optimizer);
    return ET_OK;
}

/* A checkpoint tells slots apart by their names, "average" among them. */
static int check_slots(const et_optimizer_rule *rule, const et_rule_slot *slots, int count,
                       et_error *error)
{
    if (count < 0 || count > ET_RULE_SLOTS_MAX)
        return et_fail(error, ET_EUSAGE, "update rule %s: %d slots; give 0 to %d", rule->name,
                       count, ET_RULE_SLOTS_MAX);
    for (int i = 0; i < count; i++) {
        bool bad = !slots[i].name || !*slots[i].name || !strcmp(slots[i].name, "average");
        for (int k = 0; !bad && k < i; k++)
            bad = !strcmp(slots[k].name, slots[i].name);
        if (bad || (slots[i].shape && rule->cut != ET_RULE_WHOLE))
            return et_fail(error, ET_EUSAGE, "update rule %s: slot %d: %s", rule->name, i,
                           bad ? "give a name that no other slot has, not \"average\""
                               : "its shape may differ only with ET_RULE_WHOLE");
    }
    return ET_OK;
}

/* Slots, average and scratch of this rank's elements (optimizer->owners); the rule says which slots
 * its options need. After a failure, everything made so far is freed with the rest. */
static int make_slots(et_optimizer *optimizer, et_error *error)
{
    /* Names are static strings of the rule; checkpoints identify slots by them. */
    et_rule_slot slots[ET_RULE_SLOTS_MAX] = { { .name = NULL } };
    const et_range own = et_optim_own(&optimizer->owners);
    int status = ET_OK, count = 0;
    if (optimizer->rule->scratch)
        status = team_init(&optimizer->team, &optimizer->layout, own, error);
    if (!status && optimizer->rule->slots)
        count = optimizer->rule->slots(optimizer->settings, slots);
    if (!status)
        status = check_slots(optimizer->rule, slots, count, error);
    if (status)
        return status;
    size_t most = ((size_t)count + 1) * optimizer->layout.tensor_count +
                  (size_t)optimizer->average.variable_count + 1;
    optimizer->rule_slots = count;
    size_t each = (size_t)optimizer->owners.ranks + 1;
    status = ET_ALLOC(optimizer->parts, most, "an optimizer", error);
    if (!status && each > 2)
        status = ET_ALLOC(optimizer->cuts, most * each, "an optimizer", error);
    for (int i = 0; !status && i < count; i++) {
        int64_t **at = &optimizer->offsets[i].at, size = own.end - own.begin;
        optimizer->initial[i] = slots[i].initial;
        if (slots[i].shape)
            status = lay_out_slot(optimizer, &slots[i], at, &size, error);
        if (!status)
            status = add_slot(optimizer, slots[i].name, size, error);
        if (!status)
            add_parts(optimizer, i, &slots[i], *at);
        if (!status && slots[i].initial != 0)
            fill_slot(optimizer, i);
    }
    return status ? status : make_average(optimizer, error);
}

static void free_slots(et_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->slot_count; i++)
        et_free_array(optimizer->slots[i].data);
    for (int i = 0; i < ET_RULE_SLOTS_MAX; i++) {
        et_free(optimizer->offsets[i].at);
        optimizer->offsets[i].at = NULL;
    }
    et_free(optimizer->team.sections);
    et_free_array(optimizer->team.scratch);
    optimizer->team = (et_optim_team){ .sections = NULL };
    et_free(optimizer->parts);
    et_free(optimizer->cuts);
    optimizer->slot_count = optimizer->part_count = 0;
    optimizer->parts = NULL;
    optimizer->cuts = NULL;
}

/* ---- decay and adaptation ---- */

static bool is_found(const et_patterns *patterns, size_t index, const et_params *params)
{
    for (int i = 0; i < et_params_count(params); i++)
        if (et_patterns_match_one(patterns, index, et_params_name(params, i)))
            return true;
    return false;
}

/* A message's name for the list: "trainer.optimizer_config.optimizer.muon.exclude_from_...". */
static int new_patterns(et_patterns **out, et_strings list, const et_optimizer *optimizer,
                        const char *which, et_error *error)
{
    char setting[120];
    snprintf(setting, sizeof setting, "trainer.optimizer_config.optimizer.%s.%s",
             optimizer->rule->name, which);
    int status = et_patterns_new(out, list, setting, error);
    /* Other systems name their parameters differently. A settings file with their `LayerNorm` would
     * match nothing, and all norms would decay, so this warns. */
    const et_params *params = optimizer->params;
    for (size_t i = 0; !status && i < list.count && et_params_count(params); i++)
        if (!is_found(*out, i, params))
            et_log(ET_LOG_WARNING, "%s: '%s' matches no parameter; the last one is called %s",
                   setting, list.items[i], et_params_name(params, et_params_count(params) - 1));
    return status;
}

/* Finds the parameters that decay, by the two lists: an included name decays even if excluded.
 * Names are searched once, here; an update knows bits only. */
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
        if (tensor->group) {
            status = et_fail(error, ET_ECONFIG,
                             "trainer.optimizer_config.parameter_groups: %s is in two groups, '%s' "
                             "and '%s'; change a pattern, so that each parameter is in at most one "
                             "group",
                             et_params_name(o->params, tensor->param),
                             groups[tensor->group - 1].pattern, g->pattern);
        } else {
            tensor->group = group;
            tensor->rate_multiplier = g->learning_rate_multiplier;
            if (g->weight_decay_rate != ET_DECAY_OF_RULE)
                tensor->decay = tensor->decays ? g->weight_decay_rate : 0;
        }
        found++;
    }
    if (!status && !found && et_params_count(o->params)) {
        if (!is_found(pattern, 0, o->params))
            status =
                et_fail(error, ET_ECONFIG,
                        "trainer.optimizer_config.parameter_groups[%d].pattern: '%s' matches no "
                        "parameter; the first one is called %s",
                        group - 1, g->pattern, et_params_name(o->params, 0));
        else /* they may be frozen for a while */
            et_log(ET_LOG_WARNING,
                   "trainer.optimizer_config.parameter_groups[%d].pattern: '%s' matches only "
                   "parameters that this optimizer does not train",
                   group - 1, g->pattern);
    }
    et_patterns_free(pattern);
    return status;
}

/* Tensors, their decay and rate, the clips, and the cuts that these allow. */
static int plan_chunks(et_optimizer *o, const et_group *group, const et_structs *groups,
                       et_error *error)
{
    int status = layout_init(&o->layout, group, error);
    if (!status)
        status = find_decaying(o, error);
    if (!status)
        status = find_adapting(o, error);
    for (size_t i = 0; !status && i < groups->count; i++)
        status = find_group(o, groups->items, (int)i + 1, error);
    const et_optimizer_rule *rule = o->rule;
    for (size_t i = 0; !status && i < o->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &o->layout.tensors[i];
        if (rule->scratch)
            tensor->scratch = rule->scratch(o->settings, tensor->shape, tensor->adapts);
        tensor->whole = rule->cut == ET_RULE_WHOLE && (!rule->scratch || tensor->scratch);
        et_assert(!tensor->scratch || tensor->whole);
    }
    o->clip_count = et_rule_clips(o->rule, o->settings, o->clips);
    for (int i = 0; i < o->clip_count; i++)
        o->by_tensor |= o->clips[i].scope == ET_CLIP_TENSORS;
    if (!status)
        status = layout_divide(&o->layout, o->rule->cut, o->by_tensor, error);
    if (status)
        return status;
    size_t tensors = o->layout.tensor_count + 1;
    size_t pieces = (size_t)(o->layout.size / ET_OPTIM_CHUNK) + tensors;
    return ET_ALLOC(o->partial, ET_RULE_SUMS_MAX * pieces, "an optimizer", error) ||
                   ET_ALLOC(o->tensor_sums, ET_RULE_SUMS_MAX * tensors, "an optimizer", error) ||
                   ET_ALLOC(o->squares, tensors, "an optimizer", error) ||
                   ET_ALLOC(o->factors, tensors, "an optimizer", error)
               ? ET_ENOMEM
               : ET_OK;
}

/* Makes the slots of the part that this rank owns. */
static int make_own(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    int status =
        owners_init(&optimizer->owners, comm, &optimizer->layout, optimizer->rule->cut, error);
    return status ? status : make_slots(optimizer, error);
}

int et_optimizer_shard(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    if (optimizer->held || optimizer->iterations)
        return et_fail(error, ET_EUSAGE,
                       "split an optimizer among ranks before its first update and before you add "
                       "it to a state");
    free_slots(optimizer);
    owners_release(&optimizer->owners);
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
        status = average_init(&optimizer->average, &options->ema, &optimizer->layout,
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
    et_optimizer *optimizer;
    if (ET_ALLOC_ZERO(optimizer, 1, "an optimizer", error))
        return ET_ENOMEM;
    optimizer->rule = et_rule_chosen(&options->optimizer, &settings);
    optimizer->regularization = options->regularization;
    optimizer->kernels = kernels;
    optimizer->params = params;
    optimizer->weights = et_params_values(params);
    optimizer->rate_override = NAN;
    optimizer->settings = et_alloc(1, optimizer->rule->size + 1);
    if (!optimizer->settings)
        status = et_alloc_failed(error, "an optimizer");
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
    free_slots(optimizer);
    et_free(optimizer->layout.tensors);
    et_free(optimizer->layout.chunks);
    et_free(optimizer->layout.blocks);
    et_free(optimizer->layout.ranges);
    owners_release(&optimizer->owners);
    et_free(optimizer->average.ranges);
    et_free(optimizer->average.variables);
    et_free(optimizer->settings);
    et_free(optimizer->partial);
    et_free(optimizer->tensor_sums);
    et_free(optimizer->squares);
    et_free(optimizer->factors);
    et_free(optimizer);
}

void et_optimizer_restart(et_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->rule_slots; i++)
        fill_slot(optimizer, i);
    optimizer->slots_from = optimizer->iterations;
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
        bytes += optimizer->slots[i].size * sizeof(float);
    return bytes;
}

bool et_optimizer_show_average(et_optimizer *optimizer)
{
    const et_optim_average *average = &optimizer->average;
    if (!average->data)
        return false;
    /* Values without an average are copied. */
    int64_t at = 0;
    for (int i = 0; i < average->range_count; i++) {
        average_copy(average, optimizer->weights, at, average->ranges[i].begin);
        at = average->ranges[i].end;
    }
    average_copy(average, optimizer->weights, at, et_params_flat_size(optimizer->params));
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
