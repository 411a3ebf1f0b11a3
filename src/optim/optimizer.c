/* An update is two passes over the flat arrays, each a loop over pieces of fixed size that
 * threads share: the norm (no weight may change before it is known to be finite), then the
 * rule, which clips, moves weights, writes the shadow and the average while all of a piece is
 * in cache. Between them come passes that a rule or a clip asks for: sums of each tensor, clipping
 * of values. Which parameters there are is asked once, when the optimizer is made; after that only
 * slices of flat arrays are left (layout.h), and whether and how they decay and learn.
 *
 * Slots lie over the group alone, packed; the average over the whole store, which can then be
 * pointed at it.
 *
 * Invariants:
 *   (1) chunks cover the group once, in order;
 *   (2) padding stays zero: its gradient is zero and so is what every rule makes of it;
 *   (3) an update that is not finite leaves weights, slots and iterations as they were;
 *   (4) nothing is allocated by an update.
 *
 * Where ranks share it out (owners.h), each does what it does alone of its part of the chunks, with
 * slots for no more, and takes the other weights as others have made them: norms are of the whole
 * gradient, which all have, and chunks are where they would be. */
#include "optim/optimizer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kernel/share.h"
#include "base/pattern.h"
#include "optim/average.h"
#include "optim/layout.h"
#include "optim/owners.h"
#include "optim/schedule.h"

/* One table of all rules. NONE is refused by et_optimization_check before anyone looks here. */
static const et_rule_class *const rules[] = {
    [ET_OPTIMIZER_NONE] = NULL,
#define RULE(ID, name, help) [ET_OPTIMIZER_##ID] = &et_rule_##name,
#include "optim/rules.def"
#undef RULE
};

/* A slot as a rule sees it: where each tensor's part begins. */
typedef struct slot_place {
    int64_t *at; /* [tensors], owned; -1: it has none, here; NULL: as the tensor lies in the group,
                    from this rank's part on */
} slot_place;

struct et_optimizer {
    const et_rule_class *rule;    /* a row of `rules`, or of whoever made it */
    et_optimizer_options options; /* its lists are not used after new */
    et_schedule schedule;
    double rate_override;      /* in its place; NaN: none */
    const et_kernels *kernels; /* borrowed, static */
    et_params *params;         /* borrowed */
    float *weights;            /* the store's own */
    int64_t iterations;        /* updates done, 0 before the first */
    int64_t slots_from;        /* iterations when the rule's slots began */
    et_optim_layout layout;
    et_optim_owners owners;
    et_clip clips[ET_CLIPS_MAX];
    int clip_count;
    bool by_tensor;      /* a clip asks for norms of tensors */
    double *partial;     /* [blocks or chunks x ET_RULE_SUMS_MAX]: sums of a pass, by piece */
    double *tensor_sums; /* [tensors x ET_RULE_SUMS_MAX]: the rule's */
    double *squares;     /* [tensors]: of gradients, where by_tensor */
    double *factors;     /* [tensors]: of the gradient's scale, where by_tensor */
    float *scratch;      /* [what the rule asks for], owned; NULL: none */
    int rule_slots, slot_count;
    et_slot slots[ET_RULE_SLOTS_MAX + 1]; /* the rule's, then the average */
    slot_place places[ET_RULE_SLOTS_MAX];
    et_slot_part *parts; /* [part_count], owned */
    int part_count;
    int64_t *cuts; /* [most parts x (ranks + 1)], owned: where parts point; NULL: one rank */
    float initial[ET_RULE_SLOTS_MAX]; /* of the rule's slots */
    et_optim_average average;
};

/* "optimizer.adamw.include_in_weight_decay": what a message calls a list. */
static int new_patterns(et_patterns **out, et_strings list, const et_rule_class *rule,
                        const char *which, et_error *error)
{
    char setting[120];
    snprintf(setting, sizeof setting, "optimizer_config.optimizer.%s.%s", rule->name, which);
    return et_patterns_new(out, list, setting, error);
}

/* Which parameters decay, by the two lists: an included name decays even if excluded. Names are
 * searched once, here; an update knows bits only. */
static int find_decaying(et_optimizer *optimizer, et_error *error)
{
    et_patterns *include, *exclude = NULL;
    et_strings included = { 0 }, excluded = { 0 };
    if (!optimizer->rule->decay)
        return ET_OK;
    optimizer->rule->decay(&optimizer->options, &included, &excluded);
    int status =
        new_patterns(&include, included, optimizer->rule, "include_in_weight_decay", error);
    if (!status)
        status =
            new_patterns(&exclude, excluded, optimizer->rule, "exclude_from_weight_decay", error);
    for (size_t i = 0; !status && i < optimizer->layout.tensor_count; i++) {
        et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        const char *name = et_params_name(optimizer->params, tensor->param);
        tensor->decays = et_patterns_match(include, name) || !et_patterns_match(exclude, name);
    }
    et_patterns_free(include);
    et_patterns_free(exclude);
    return status;
}

/* The same for what a rule does with whole tensors. */
static int find_adapting(et_optimizer *optimizer, et_error *error)
{
    et_patterns *exclude;
    et_strings excluded = { 0 };
    if (!optimizer->rule->adapt)
        return ET_OK;
    const char *list = optimizer->rule->adapt(&optimizer->options, &excluded);
    int status = new_patterns(&exclude, excluded, optimizer->rule, list, error);
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

static int cut_again(et_optimizer *optimizer, et_error *error)
{
    return et_optim_layout_cut(&optimizer->layout, optimizer->rule->cut, optimizer->by_tensor,
                               error);
}

/* Whether this rank updates a tensor's first element: all of it, of a rule that has them whole. */
static bool owns(const et_optimizer *o, size_t tensor)
{
    const et_range own = et_optim_own(&o->owners);
    int64_t at = o->layout.tensors[tensor].packed;
    return at >= own.begin && at < own.end;
}

/* As much as the tensor needs that needs most: tensors use it in turn. */
static int make_scratch(et_optimizer *o, et_error *error)
{
    size_t most = 0;
    for (size_t i = 0; o->rule->scratch && i < o->layout.tensor_count; i++) {
        const et_optim_tensor *tensor = &o->layout.tensors[i];
        size_t floats = owns(o, i) ? o->rule->scratch(tensor->shape, tensor->adapts) : 0;
        most = floats > most ? floats : most;
    }
    if (!most)
        return ET_OK;
    o->scratch = et_alloc_array(most * sizeof(float));
    return o->scratch ? ET_OK
                      : et_alloc_failed(error, most * sizeof(float), "an optimizer's scratch");
}

/* Tensors, what decays, what is clipped, and where that puts the cuts. */
static int plan_chunks(et_optimizer *optimizer, const et_group *group, et_error *error)
{
    et_optimizer *o = optimizer;
    int status = et_optim_layout_init(&o->layout, group, error);
    if (!status)
        status = find_decaying(o, error);
    if (!status)
        status = find_adapting(o, error);
    o->clip_count = o->rule->clips ? o->rule->clips(&o->options, o->clips) : 0;
    for (int i = 0; i < o->clip_count; i++)
        o->by_tensor |= o->clips[i].class->scope == ET_CLIP_TENSORS;
    if (!status)
        status = cut_again(o, error);
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

static void fill_slot(et_optimizer *optimizer, int s)
{
    for (int64_t at = 0; at < optimizer->slots[s].size; at++)
        optimizer->slots[s].data[at] = optimizer->initial[s];
}

/* Zeros, which is right for moments and momentum; what begins otherwise is set later. */
static int add_slot(et_optimizer *optimizer, const char *name, int64_t size, et_error *error)
{
    size_t bytes = (size_t)size * sizeof(float);
    float *data = et_alloc_array(bytes ? bytes : sizeof(float)); /* a rank may have none of it */
    if (!data)
        return et_alloc_failed(error, bytes, "an optimizer's slot");
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

/* Where a tensor's part of a slot of another shape begins: at multiples of 16 elements. */
static int place_slot(et_optimizer *optimizer, const et_rule_slot *slot, int64_t **at,
                      int64_t *size, et_error *error)
{
    size_t count = optimizer->layout.tensor_count;
    et_assert(optimizer->rule->cut == ET_RULE_WHOLE);
    *at = et_alloc(count + 1, sizeof **at);
    *size = 0;
    if (!*at)
        return et_alloc_failed(error, count * sizeof **at, "an optimizer's slot");
    for (size_t i = 0; i < count; i++) {
        et_shape shape;
        (*at)[i] = -1;
        if (!slot_shape(slot, &optimizer->layout.tensors[i], &shape) || !owns(optimizer, i))
            continue;
        (*at)[i] = *size;
        *size += (et_shape_count(shape) + 15) / 16 * 16;
    }
    return ET_OK;
}

/* Which elements of a part each rank keeps, of a tensor's slot of so many; all of it is who has the
 * tensor's where it is of another shape. NULL: there is one rank. */
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

/* Where this rank's elements of a part begin; none: anywhere. */
static int64_t part_begin(const et_optimizer *o, size_t tensor, const int64_t *at)
{
    if (at)
        return at[tensor] < 0 ? 0 : at[tensor];
    return owns(o, tensor) ? o->layout.tensors[tensor].packed - et_optim_own(&o->owners).begin : 0;
}

/* What a checkpoint saves of slot s; the average is whole on every rank. */
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

static void add_average_parts(et_optimizer *optimizer, int s)
{
    const et_optim_average *average = &optimizer->average;
    add_parts(optimizer, s, NULL, NULL);
    for (int i = 0; i < average->variable_count; i++) {
        int param = average->variables[i];
        optimizer->parts[optimizer->part_count++] =
            (et_slot_part){ optimizer->slots[s].name, param,
                            average->data + et_params_offset(optimizer->params, param),
                            et_params_shape(optimizer->params, param), NULL };
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
    add_average_parts(optimizer, at);
    et_optimizer_start(optimizer);
    return ET_OK;
}

static int make_parts(et_optimizer *optimizer, size_t most, et_error *error)
{
    size_t each = (size_t)optimizer->owners.ranks + 1;
    optimizer->parts = et_alloc(most, sizeof *optimizer->parts);
    if (each > 2)
        optimizer->cuts = et_alloc(most * each, sizeof *optimizer->cuts);
    return optimizer->parts && (optimizer->cuts || each == 2)
               ? ET_OK
               : et_alloc_failed(error, most * sizeof *optimizer->parts, "an optimizer");
}

/* The rule says which slots its options need. */
static int make_slots(et_optimizer *optimizer, et_error *error)
{
    /* Names are static strings of the rule's; checkpoints know the slots by them. */
    et_rule_slot slots[ET_RULE_SLOTS_MAX] = { { .name = NULL } };
    int status = ET_OK, count = optimizer->rule->slots(&optimizer->options, slots);
    et_assert(count >= 0 && count <= ET_RULE_SLOTS_MAX);
    size_t most = ((size_t)count + 1) * optimizer->layout.tensor_count +
                  (size_t)optimizer->average.variable_count + 1;
    optimizer->rule_slots = count;
    status = make_parts(optimizer, most, error);
    const et_range own = et_optim_own(&optimizer->owners);
    for (int i = 0; !status && i < count; i++) {
        int64_t **at = &optimizer->places[i].at, size = own.end - own.begin;
        optimizer->initial[i] = slots[i].initial;
        if (slots[i].shape)
            status = place_slot(optimizer, &slots[i], at, &size, error);
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
        et_free(optimizer->places[i].at);
        optimizer->places[i].at = NULL;
    }
    et_free_array(optimizer->scratch);
    et_free(optimizer->parts);
    et_free(optimizer->cuts);
    optimizer->slot_count = optimizer->part_count = 0;
    optimizer->scratch = NULL;
    optimizer->parts = NULL;
    optimizer->cuts = NULL;
}

/* What it keeps, of what it owns. */
static int make_own(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    int status = et_optim_owners_init(&optimizer->owners, comm, &optimizer->layout,
                                      optimizer->rule->cut, error);
    if (!status)
        status = make_scratch(optimizer, error);
    return status ? status : make_slots(optimizer, error);
}

int et_optimizer_share_out(et_optimizer *optimizer, et_comm *comm, et_error *error)
{
    et_assert(optimizer->iterations == 0);
    free_slots(optimizer);
    et_optim_owners_release(&optimizer->owners);
    return make_own(optimizer, comm, error);
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
        status = plan_chunks(optimizer, group ? group : all, error);
    et_group_free(all);
    if (!status)
        status = et_optim_average_init(&optimizer->average, &options->ema, &optimizer->layout,
                                       optimizer->params, error);
    if (!status)
        status = make_own(optimizer, NULL, error);
    return status;
}

int et_optimizer_new_rule(et_optimizer **out, et_params *params, const et_group *group,
                          const et_kernels *kernels, const et_rule_class *rule,
                          const et_optimization_options *options, et_error *error)
{
    et_assert(et_params_ready(params));
    et_assert(!group || et_group_params(group) == params);
    *out = NULL;
    et_optimizer *optimizer = et_alloc_zero(1, sizeof *optimizer);
    if (!optimizer)
        return et_alloc_failed(error, sizeof *optimizer, "an optimizer");
    optimizer->rule = rule;
    optimizer->options = options->optimizer;
    optimizer->kernels = kernels;
    optimizer->params = params;
    optimizer->weights = et_params_values(params);
    optimizer->rate_override = NAN;
    int status = build(optimizer, group, options, error);
    if (status) {
        et_optimizer_free(optimizer);
        return status;
    }
    *out = optimizer;
    return ET_OK;
}

et_params *et_optimizer_params(const et_optimizer *optimizer)
{
    return optimizer->params;
}

/* Options are checked as a whole before anything is made. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_group *group,
                     const et_kernels *kernels, const et_optimization_options *options,
                     et_error *error)
{
    *out = NULL;
    int status = et_optimization_check(options, error);
    if (status)
        return status;
    return et_optimizer_new_rule(out, params, group, kernels, rules[options->optimizer.type],
                                 options, error);
}

void et_optimizer_free(et_optimizer *optimizer)
{
    if (!optimizer)
        return;
    free_slots(optimizer);
    et_optim_layout_release(&optimizer->layout);
    et_optim_owners_release(&optimizer->owners);
    et_optim_average_release(&optimizer->average);
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

int et_optimizer_scale_rate(et_optimizer *optimizer, const et_group *group, double factor,
                            et_error *error)
{
    et_assert(et_group_params(group) == optimizer->params && factor >= 0);
    et_optim_layout *layout = &optimizer->layout;
    size_t at = 0;
    /* Both in order of places. */
    for (int i = 0; i < et_group_count(group); i++) {
        int param = et_group_param(group, i);
        int64_t begin = et_params_offset(optimizer->params, param);
        while (at < layout->tensor_count && layout->tensors[at].begin < begin)
            at++;
        if (at < layout->tensor_count && layout->tensors[at].param == param)
            layout->tensors[at].rate *= factor;
    }
    return cut_again(optimizer, error);
}

/* ---- an update --------------------------------------------------------------------------- */

/* One update under way. */
typedef struct update {
    et_optimizer *optimizer;
    float *gradients;
    double scale; /* of gradients, clipping of all included */
    double rate;  /* of the schedule */
    et_rule_step step;
    et_bf16 *shadow; /* NULL: the store keeps none */
    et_range own;    /* elements that this rank updates, of arrays over the group */
    bool has_factors;
} update;

/* Blocks begin .. end - 1. */
static void square_part(const et_optimizer *optimizer, const float *gradients, int64_t begin,
                        int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_optim_piece *block = &optimizer->layout.blocks[i];
        optimizer->partial[i] =
            optimizer->kernels->sum_of_squares(gradients + block->begin, block->count);
    }
}

/* sqrt(sum of g^2) |scale|. Partial sums of fixed blocks, added in order: equal bits for any
 * number of threads. Sums are double: float32 squares of a few million gradients would lose
 * the small ones, and overflow long before the gradients themselves do. An infinity or NaN
 * anywhere comes through to the result, which is how it is found. */
static double gradient_norm(const update *u)
{
    et_optimizer *o = u->optimizer;
    const et_optim_layout *layout = &o->layout;
    ET_SHARE(layout->size > ET_OPTIM_CHUNK, (int64_t)layout->block_count, 1, square_part, o,
             u->gradients);
    double sum = 0;
    for (size_t i = 0; o->by_tensor && i < layout->tensor_count; i++)
        o->squares[i] = 0;
    for (size_t i = 0; i < layout->block_count; i++) {
        sum += o->partial[i];
        if (o->by_tensor)
            o->squares[layout->blocks[i].tensor] += o->partial[i];
    }
    return sqrt(sum) * fabs(u->scale);
}

/* The norm after the tensors' factors. */
static double clipped_norm(const update *u, double norm)
{
    const et_optimizer *o = u->optimizer;
    double sum = 0;
    if (!u->has_factors)
        return norm;
    for (size_t i = 0; i < o->layout.tensor_count; i++)
        sum += o->squares[i] * o->factors[i] * o->factors[i];
    return sqrt(sum) * fabs(u->scale);
}

static void clamp_part(const update *u, const et_clip *clip, int64_t begin, int64_t end)
{
    float limit = (float)(clip->limit / fabs(u->scale));
    for (int64_t i = begin; i < end; i++) {
        const et_optim_piece *block = &u->optimizer->layout.blocks[i];
        clip->class->values(u->gradients + block->begin, block->count, limit);
    }
}

static void clip_tensors(update *u, const et_clip *clip)
{
    et_optimizer *o = u->optimizer;
    for (size_t i = 0; i < o->layout.tensor_count; i++) {
        double before = u->has_factors ? o->factors[i] : 1;
        double norm = sqrt(o->squares[i]) * fabs(u->scale) * before;
        o->factors[i] = before * clip->class->factor(norm, clip->limit);
    }
    u->has_factors = true;
}

/* norm: of gradients times scale, before any clip. */
static void clip_all(update *u, double norm)
{
    et_optimizer *o = u->optimizer;
    for (int i = 0; i < o->clip_count; i++) {
        const et_clip *clip = &o->clips[i];
        if (clip->class->scope == ET_CLIP_VALUES && u->scale != 0) {
            ET_SHARE(o->layout.size > ET_OPTIM_CHUNK, (int64_t)o->layout.block_count, 1, clamp_part,
                     u, clip);
            norm = gradient_norm(u);
        } else if (clip->class->scope == ET_CLIP_TENSORS) {
            clip_tensors(u, clip);
            norm = clipped_norm(u, norm);
        } else if (clip->class->scope == ET_CLIP_ALL) {
            u->scale *= clip->class->factor(norm, clip->limit);
        }
    }
}

/* Pointers moved to where a chunk begins. Of an average that is to be a copy there is none: the
 * formula with decay 0 rounds, a copy does not. */
static void fill_chunk(const update *u, const et_optim_piece *part, et_rule_chunk *chunk)
{
    const et_optimizer *o = u->optimizer;
    const et_optim_tensor *tensor = &o->layout.tensors[part->tensor];
    int64_t begin = part->begin;
    double factor = u->has_factors ? o->factors[part->tensor] : 1;
    chunk->weight = o->weights + begin;
    chunk->gradient = u->gradients + begin;
    chunk->shadow = u->shadow ? u->shadow + begin : NULL;
    /* Padding takes part: it is zero on both sides, and a run needs no test for it. */
    chunk->average = o->average.data && u->step.average_decay != 0 ? o->average.data + begin : NULL;
    chunk->count = part->count;
    chunk->rate = u->rate * tensor->rate;
    chunk->gradient_scale = (float)(u->scale * factor);
    chunk->decays = tensor->decays;
    chunk->adapts = tensor->adapts;
    chunk->scratch = o->scratch;
    chunk->shape = &tensor->shape;
    chunk->first = begin - tensor->begin;
    chunk->sums = &o->tensor_sums[ET_RULE_SUMS_MAX * part->tensor];
    for (int i = 0; i < ET_RULE_SLOTS_MAX; i++) {
        const int64_t *at = o->places[i].at;
        int64_t packed = part->packed - u->own.begin;
        int64_t place = i >= o->rule_slots ? -1 : at ? at[part->tensor] : packed;
        chunk->slot[i] = place < 0 ? NULL : o->slots[i].data + place;
    }
}

/* Chunks begin .. end - 1. */
static void sum_part(const update *u, int64_t begin, int64_t end)
{
    const et_optimizer *o = u->optimizer;
    for (int64_t i = begin; i < end; i++) {
        et_rule_chunk chunk;
        et_optim_piece own = et_optim_piece_in(&o->layout.chunks[i], u->own);
        double *sums = &o->partial[ET_RULE_SUMS_MAX * i];
        memset(sums, 0, ET_RULE_SUMS_MAX * sizeof *sums);
        if (!own.count)
            continue;
        fill_chunk(u, &own, &chunk);
        o->rule->before(o->kernels, &o->options, &u->step, &chunk, sums);
    }
}

/* A tensor's sums are those of its chunks, added in order. */
static void add_up(et_optimizer *o)
{
    memset(o->tensor_sums, 0, ET_RULE_SUMS_MAX * o->layout.tensor_count * sizeof *o->tensor_sums);
    for (size_t i = 0; i < o->layout.chunk_count; i++)
        for (int k = 0; k < ET_RULE_SUMS_MAX; k++)
            o->tensor_sums[ET_RULE_SUMS_MAX * o->layout.chunks[i].tensor + k] +=
                o->partial[ET_RULE_SUMS_MAX * i + (size_t)k];
}

static void update_part(const update *u, int64_t begin, int64_t end)
{
    const et_optimizer *o = u->optimizer;
    for (int64_t i = begin; i < end; i++) {
        et_rule_chunk chunk;
        et_optim_piece own = et_optim_piece_in(&o->layout.chunks[i], u->own);
        if (!own.count)
            continue;
        fill_chunk(u, &own, &chunk);
        o->rule->update(o->kernels, &o->options, &u->step, &chunk);
        if (o->rule->writes)
            memset(chunk.gradient, 0, (size_t)chunk.count * sizeof(float));
        if (o->average.data && !chunk.average)
            memcpy(o->average.data + own.begin, chunk.weight, (size_t)chunk.count * sizeof(float));
    }
}

/* The average's kernel is part of every rule's: with a gradient of zeros that moves nothing, on a
 * copy, since even then it may change the sign of a zero. */
static void follow_with_average(const update *u, int64_t begin, int64_t count)
{
    enum { BLOCK = 1024 };
    static const float zeros[BLOCK];
    const et_optimizer *o = u->optimizer;
    float copy[BLOCK];
    for (int64_t at = begin; at < begin + count; at += BLOCK) {
        int64_t rest = begin + count - at;
        et_slice_update block = { .weight = copy,
                                  .gradient = zeros,
                                  .average = o->average.data + at,
                                  .average_decay = u->step.average_decay,
                                  .count = rest < BLOCK ? rest : BLOCK };
        memcpy(copy, o->weights + at, (size_t)block.count * sizeof *copy);
        o->kernels->sgd(&block, &(et_momentum){ .accumulator = NULL });
    }
}

/* What follows weights that others have made. */
static void follow_range(const update *u, const et_optim_piece *chunk, et_range range)
{
    const et_optimizer *o = u->optimizer;
    et_optim_piece part = et_optim_piece_in(chunk, range);
    const float *weight = o->weights + part.begin;
    if (!part.count)
        return;
    if (u->shadow)
        o->kernels->to_bf16(u->shadow + part.begin, weight, part.count);
    if (o->average.data && u->step.average_decay == 0)
        memcpy(o->average.data + part.begin, weight, (size_t)part.count * sizeof *weight);
    else if (o->average.data)
        follow_with_average(u, part.begin, part.count);
}

static void follow_part(const update *u, int64_t begin, int64_t end)
{
    const et_optim_layout *layout = &u->optimizer->layout;
    for (int64_t i = begin; i < end; i++) {
        follow_range(u, &layout->chunks[i], (et_range){ 0, u->own.begin });
        follow_range(u, &layout->chunks[i], (et_range){ u->own.end, layout->size });
    }
}

/* Their weights come here, and ours go there. */
static void exchange_weights(const update *u)
{
    et_optimizer *o = u->optimizer;
    if (o->owners.ranks == 1)
        return;
    et_optim_owners_spread(&o->owners, &o->layout, o->weights);
    if (u->shadow || o->average.data)
        ET_SHARE(o->layout.size > ET_OPTIM_CHUNK, (int64_t)o->layout.chunk_count, 1, follow_part,
                 u);
}

/* Chunks are independent, so which thread takes which changes nothing. A rule with scratch has
 * them one after another, and shares out the loops in each. */
static void update_all(const update *u)
{
    et_optimizer *o = u->optimizer;
    bool much = o->layout.size > ET_OPTIM_CHUNK && !o->rule->scratch;
    /* Weights may have been loaded since the optimizer was made. */
    if (o->iterations == 0)
        et_optimizer_start(o);
    if (o->rule->before) {
        ET_SHARE(much, (int64_t)o->layout.chunk_count, 1, sum_part, u);
        add_up(o);
    }
    ET_SHARE(much, (int64_t)o->layout.chunk_count, 1, update_part, u);
    exchange_weights(u);
    if (o->average.data)
        et_optim_average_follow(&o->average, o->weights, u->step.average_decay);
}

/* The norm first, of all gradients: a step with one that is not finite must not have changed
 * any weight when that is found. The average's decay and the bias correction count this
 * update (iterations + 1), the rate does not: all as in Keras. */
et_update et_optimizer_apply(et_optimizer *optimizer, float *gradients, double gradient_scale)
{
    return et_optimizer_apply_part(optimizer, gradients, gradient_scale, NAN);
}

et_update et_optimizer_apply_part(et_optimizer *optimizer, float *gradients, double gradient_scale,
                                  double norm)
{
    et_assert(et_params_values(optimizer->params) == optimizer->weights);
    update u = {
        .optimizer = optimizer,
        .gradients = gradients,
        .scale = gradient_scale,
        .rate = et_optimizer_learning_rate(optimizer),
        .step = { .iterations = optimizer->iterations,
                  .slot_updates = optimizer->iterations - optimizer->slots_from,
                  .average_decay =
                      et_optim_average_decay(&optimizer->average, optimizer->iterations + 1) },
        .shadow = et_params_shadow(optimizer->params),
        .own = et_optim_own(&optimizer->owners),
    };
    double own = gradient_norm(&u);
    et_update result = { .gradient_norm = isnan(norm) ? own : norm, .learning_rate = u.rate };
    result.finite = isfinite(result.gradient_norm) != 0;
    if (!result.finite)
        return result;
    clip_all(&u, result.gradient_norm);
    et_params_begin_change(optimizer->params);
    update_all(&u);
    /* Weights and shadow are written; only copies of them in other layouts are out of date. */
    optimizer->iterations++;
    et_params_changed(optimizer->params, false);
    return result;
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

/* For a resumed run, whose slots are restored by the same caller. */
void et_optimizer_set_iterations(et_optimizer *optimizer, int64_t iterations)
{
    et_assert(iterations >= 0);
    optimizer->iterations = iterations;
    optimizer->slots_from = 0;
}

void et_optimizer_set_slots_from(et_optimizer *optimizer, int64_t iterations)
{
    et_assert(iterations >= 0 && iterations <= optimizer->iterations);
    optimizer->slots_from = iterations;
}

int64_t et_optimizer_slots_from(const et_optimizer *optimizer)
{
    return optimizer->slots_from;
}

void et_optimizer_restart(et_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->rule_slots; i++)
        fill_slot(optimizer, i);
    optimizer->slots_from = optimizer->iterations;
}

double et_optimizer_learning_rate(const et_optimizer *optimizer)
{
    return isnan(optimizer->rate_override)
               ? et_schedule_rate(&optimizer->schedule, optimizer->iterations)
               : optimizer->rate_override;
}

double et_optimizer_rate_override(const et_optimizer *optimizer)
{
    return optimizer->rate_override;
}

int et_optimizer_set_learning_rate(et_optimizer *optimizer, double rate, et_error *error)
{
    if (rate < 0 || isinf(rate))
        return et_fail(error, ET_ECONFIG, "learning rate %g: finite, and not negative", rate);
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

float *et_optimizer_average(et_optimizer *optimizer)
{
    return optimizer->average.data;
}
