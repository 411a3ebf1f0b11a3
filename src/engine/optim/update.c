/* An update is two passes over the flat arrays, each a loop over pieces of fixed size that threads
 * share: the norm (no weight may change before the norm is known to be finite), then the rule,
 * which clips, changes weights, and writes the shadow and the average while a piece is in cache.
 * Passes for a rule or a clip come in between: sums of each tensor, clipping of values. The
 * parameters were looked up when the optimizer was made; here are only slices of flat arrays
 * (optimizer_private.h), with their decay and learning rates.
 *
 * Invariants:
 *
 *   (1) chunks cover the group once, in order;
 *   (2) padding stays zero: its gradient is zero, and every rule keeps it zero;
 *   (3) an update that is not finite leaves weights, slots and iterations unchanged;
 *   (4) an update allocates nothing.
 *
 * If ranks divide the optimizer, each updates its part of the chunks as a process alone
 * would, with slots only for this part, and gets the other weights from the other ranks. Norms are
 * of the whole gradient, which all ranks have, and chunks have the same places. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/threads/team.h"
#include "engine/kernel/parallel.h"
#include "engine/optim/optimizer_private.h"
#include "engine/tensor/params.h"

/* One update under way. */
typedef struct update {
    et_optimizer *optimizer;
    float *gradients;
    double scale;          /* of gradients, clipping of all included */
    double rate;           /* of the schedule */
    double regularization; /* et_optimizer_regularization */
    et_rule_step step;
    et_bf16 *shadow; /* NULL: the store keeps none */
    et_range own;    /* elements that this rank updates, of arrays over the group */
    bool has_factors;
    float *scratch; /* of the thread; NULL: the rule has none */
} update;

/* Blocks begin .. end - 1. */
static void square_part(const et_optimizer *optimizer, const float *gradients, int64_t begin,
                        int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const et_optim_section *block = &optimizer->layout.blocks[i];
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
    ET_PARALLEL(layout->size > ET_OPTIM_CHUNK, layout->block_count, 1, square_part, o,
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

static void clamp_part(const update *u, double most, int64_t begin, int64_t end)
{
    float limit = (float)(most / fabs(u->scale));
    for (int64_t i = begin; i < end; i++) {
        const et_optim_section *block = &u->optimizer->layout.blocks[i];
        float *gradient = u->gradients + block->begin;
        for (int64_t k = 0; k < block->count; k++) {
            float g = gradient[k];
            g = g < -limit ? -limit : g;
            gradient[k] = g > limit ? limit : g;
        }
    }
}

/* The factor for a gradient of that norm; 1 if it is small enough. */
static double shorten(double norm, double limit)
{
    return norm > limit ? limit / norm : 1;
}

/* norm: of gradients times scale, before any clip. */
static void clip_all(update *u, double norm)
{
    et_optimizer *o = u->optimizer;
    for (int i = 0; i < o->clip_count; i++) {
        const et_clip *clip = &o->clips[i];
        if (clip->scope == ET_CLIP_VALUES && u->scale != 0) {
            ET_PARALLEL(o->layout.size > ET_OPTIM_CHUNK, o->layout.block_count, 1, clamp_part, u,
                        clip->limit);
            norm = gradient_norm(u);
        } else if (clip->scope == ET_CLIP_TENSORS) {
            double sum = 0; /* of squares after the tensors' factors */
            for (size_t t = 0; t < o->layout.tensor_count; t++) {
                double before = u->has_factors ? o->factors[t] : 1;
                double own = sqrt(o->squares[t]) * fabs(u->scale) * before;
                o->factors[t] = before * shorten(own, clip->limit);
                sum += o->squares[t] * o->factors[t] * o->factors[t];
            }
            u->has_factors = true;
            norm = sqrt(sum) * fabs(u->scale);
        } else if (clip->scope == ET_CLIP_ALL) {
            double factor = shorten(norm, clip->limit);
            u->scale *= factor;
            norm *= factor;
        }
    }
}

/* Pointers moved to a chunk's beginning. An average that will be a copy has none: the formula with
 * decay 0 rounds, a copy does not. */
static void fill_chunk(const update *u, const et_optim_section *part, et_rule_chunk *chunk)
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
    chunk->rate = u->rate * tensor->rate_multiplier;
    chunk->gradient_scale = (float)(u->scale * factor);
    chunk->decay = tensor->decay * u->regularization;
    chunk->adapts = tensor->adapts;
    chunk->scratch = u->scratch;
    chunk->shape = &tensor->shape;
    chunk->first = begin - tensor->begin;
    chunk->sums = &o->tensor_sums[ET_RULE_SUMS_MAX * part->tensor];
    for (int i = 0; i < ET_RULE_SLOTS_MAX; i++) {
        const int64_t *at = o->offsets[i].at;
        int64_t packed = part->packed - u->own.begin;
        bool none = i >= o->rule_slots || (at && at[part->tensor] < 0);
        int64_t position = none ? 0 : at ? at[part->tensor] + chunk->first : packed;
        chunk->slot[i] = none ? NULL : o->slots[i].data + position;
    }
}

/* Returns the part of a piece before at; *rest becomes the part after it. Both may be empty. */
static et_optim_section cut_off(et_optim_section *rest, int64_t at)
{
    et_optim_section head = *rest;
    const int64_t most = rest->count > 0 ? rest->count : 0;
    head.count = at - rest->begin < 0 ? 0 : at - rest->begin < most ? at - rest->begin : most;
    rest->begin += head.count;
    rest->packed += head.count;
    rest->count -= head.count;
    return head;
}

/* sums: of the chunk that the piece is of. */
typedef void section_fn(const update *u, const et_optim_section *section, double *sums);

/* Splits a piece into sections that change and sections that stay (et_optimizer_limit), in
 * order. */
static void split(const update *u, et_optim_section section, double *sums, section_fn *change,
                  section_fn *stay)
{
    const et_range *ranges;
    const int count = et_group_ranges(u->optimizer->limit, &ranges);
    for (int i = 0; i < count && section.count; i++) {
        const et_optim_section before = cut_off(&section, ranges[i].begin);
        const et_optim_section within = cut_off(&section, ranges[i].end);
        if (before.count && stay)
            stay(u, &before, sums);
        if (within.count)
            change(u, &within, sums);
    }
    if (section.count && stay)
        stay(u, &section, sums);
}

/* A program's rule gets the mean gradient, clipped; the first method that sees it. */
static void scale_gradient(const et_rule_chunk *chunk)
{
    for (int64_t i = 0; i < chunk->count; i++)
        chunk->gradient[i] *= chunk->gradient_scale;
}

/* Sums of a rule that asks for them are of tensors, and so are its chunks: one changes or stays as
 * a whole. */
static void sum_section(const update *u, const et_optim_section *section, double *sums)
{
    const et_optimizer *o = u->optimizer;
    et_rule_chunk chunk;
    fill_chunk(u, section, &chunk);
    if (!o->rule->fused)
        scale_gradient(&chunk);
    o->rule->before(o->settings, &u->step, &chunk, sums);
}

/* Chunks begin .. end - 1. */
static void sum_part(const update *u, int64_t begin, int64_t end)
{
    const et_optimizer *o = u->optimizer;
    for (int64_t i = begin; i < end; i++) {
        et_optim_section own = et_optim_section_in(&o->layout.chunks[i], u->own);
        double *sums = &o->partial[ET_RULE_SUMS_MAX * i];
        memset(sums, 0, ET_RULE_SUMS_MAX * sizeof *sums);
        if (own.count && o->limit)
            split(u, own, sums, sum_section, NULL);
        else if (own.count)
            sum_section(u, &own, sums);
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
        memcpy(copy, o->weights + at, block.count * sizeof *copy);
        o->kernels->sgd(&block, &(et_momentum){ .accumulator = NULL });
    }
}

/* Updates shadow and average of weights that no rule has changed here, because another rank has, or
 * nobody. */
static void follow_section(const update *u, const et_optim_section *section, double *sums)
{
    (void)sums;
    const et_optimizer *o = u->optimizer;
    const float *weight = o->weights + section->begin;
    if (u->shadow)
        o->kernels->to_bf16(u->shadow + section->begin, weight, section->count);
    if (o->average.data && u->step.average_decay == 0)
        memcpy(o->average.data + section->begin, weight, section->count * sizeof *weight);
    else if (o->average.data)
        follow_with_average(u, section->begin, section->count);
}

static void follow_range(const update *u, const et_optim_section *chunk, et_range range)
{
    const et_optim_section part = et_optim_section_in(chunk, range);
    if (part.count)
        follow_section(u, &part, NULL);
}

static void update_section(const update *u, const et_optim_section *section, double *sums)
{
    const et_optimizer *o = u->optimizer;
    et_rule_chunk chunk;
    (void)sums;
    fill_chunk(u, section, &chunk);
    if (!o->rule->fused && !o->rule->before)
        scale_gradient(&chunk);
    o->rule->update(o->settings, &u->step, &chunk);
    if (o->rule->writes || !o->rule->fused)
        memset(chunk.gradient, 0, chunk.count * sizeof(float));
    if (!o->rule->fused)
        follow_section(u, section, NULL);
    else if (o->average.data && !chunk.average)
        memcpy(o->average.data + section->begin, chunk.weight, chunk.count * sizeof(float));
}

static void update_chunk(const update *u, et_optim_section own)
{
    if (own.count && u->optimizer->limit)
        split(u, own, NULL, update_section, follow_section);
    else if (own.count)
        update_section(u, &own, NULL);
}

static void update_part(const update *u, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        update_chunk(u, et_optim_section_in(&u->optimizer->layout.chunks[i], u->own));
}

/* At most as many as OpenMP has now. */
static int threads_of(const et_optim_team *team)
{
    const int most = omp_get_max_threads();
    return most < team->threads ? most : et_team_most(team->threads);
}

/* For a rule with scratch, whose chunks take unequal time. */
static void update_by_team(const update *u, bool much)
{
    const et_optim_team *team = &u->optimizer->team;
    const bool share = et_parallel_wanted(much) && team->threads > 1;
    update own = *u;
    own.scratch = team->scratch;
    for (size_t i = 0; i < (share ? team->together : team->count); i++)
        update_chunk(&own, team->sections[i]);
    if (!share)
        return;
#pragma omp parallel firstprivate(own) num_threads(threads_of(team))
    {
        own.scratch += (size_t)omp_get_thread_num() * team->each;
#pragma omp for schedule(dynamic, 1) nowait
        for (size_t i = team->together; i < team->count; i++)
            update_chunk(&own, team->sections[i]);
    }
}

static void follow_part(const update *u, int64_t begin, int64_t end)
{
    const et_optim_layout *layout = &u->optimizer->layout;
    for (int64_t i = begin; i < end; i++) {
        follow_range(u, &layout->chunks[i], (et_range){ 0, u->own.begin });
        follow_range(u, &layout->chunks[i], (et_range){ u->own.end, layout->size });
    }
}

static et_comm_chunk weights_of(const et_optim_owners *owners, int rank,
                                const et_optim_section *run, float *values)
{
    et_optim_section part =
        et_optim_section_in(run, (et_range){ owners->cut[rank], owners->cut[rank + 1] });
    return (et_comm_chunk){ rank, part.count ? values + part.begin : NULL,
                            part.count * sizeof *values };
}

/* Copies each rank's part of the weights to all ranks, in a ring as in the second half of an
 * all-reduce: in round k each rank sends its part to the rank k after it and gets the part of the
 * rank k before it. All ranks call this after an agreement; the next agreement reports a
 * failure. */
static void exchange_weights(const update *u)
{
    et_optimizer *o = u->optimizer;
    if (o->owners.ranks == 1)
        return;
    et_optim_owners *owners = &o->owners;
    int rank = owners->rank, ranks = owners->ranks, status = ET_OK;
    for (int k = 1; k < ranks; k++) {
        int to = (rank + k) % ranks, from = (rank - k + ranks) % ranks;
        et_optim_section run = { .packed = 0 };
        for (int i = 0; !status && i < o->layout.range_count; i++) {
            run.begin = o->layout.ranges[i].begin;
            run.count = o->layout.ranges[i].end - run.begin;
            et_comm_chunk mine = weights_of(owners, rank, &run, o->weights);
            et_comm_chunk theirs = weights_of(owners, from, &run, o->weights);
            mine.rank = to;
            status = et_comm_exchange(owners->comm, mine, theirs, &owners->failure);
            run.packed += run.count;
        }
    }
    if (u->shadow || o->average.data)
        ET_PARALLEL(o->layout.size > ET_OPTIM_CHUNK, o->layout.chunk_count, 1, follow_part, u);
}

/* Chunks are independent, so which thread takes which changes nothing. */
static void update_all(const update *u)
{
    et_optimizer *o = u->optimizer;
    bool much = o->layout.size > ET_OPTIM_CHUNK;
    /* Weights may have been loaded since the optimizer was made. */
    if (o->iterations == 0)
        et_optimizer_start(o);
    if (o->rule->before) {
        ET_PARALLEL(much, o->layout.chunk_count, 1, sum_part, u);
        /* The sums of a tensor's chunks are added in order. */
        memset(o->tensor_sums, 0,
               ET_RULE_SUMS_MAX * o->layout.tensor_count * sizeof *o->tensor_sums);
        for (size_t i = 0; i < o->layout.chunk_count; i++)
            for (int k = 0; k < ET_RULE_SUMS_MAX; k++)
                o->tensor_sums[ET_RULE_SUMS_MAX * o->layout.chunks[i].tensor + k] +=
                    o->partial[ET_RULE_SUMS_MAX * i + (size_t)k];
    }
    if (o->rule->scratch)
        update_by_team(u, much);
    else
        ET_PARALLEL(much, o->layout.chunk_count, 1, update_part, u);
    exchange_weights(u);
}

/* The decay of the update that makes iterations `step`; 0: the average becomes a copy. The dynamic
 * one (TensorFlow's ExponentialMovingAverage, num_updates; averages of weights: Polyak and Juditsky
 * 1992) is 2/11 at the first step and 0.99 after 890. Without it, the initial values
 * would weigh 0.99^s after s steps, and so matter for hundreds of steps. */
static float average_decay(const et_optim_average *average, int64_t step)
{
    const et_ema_options *ema = &average->options;
    if (!ema->enabled || step < ema->start_step)
        return 0;
    double since = (double)(step - ema->start_step);
    double dynamic = (1 + since) / (10 + since);
    return (float)(ema->dynamic_decay ? fmin(ema->average_decay, dynamic) : ema->average_decay);
}

void et_optimizer_average_variables(et_optimizer *optimizer)
{
    const et_optim_average *average = &optimizer->average;
    const float *values = optimizer->weights;
    const float decay = average->variable_count ? average_decay(average, optimizer->iterations) : 0;
    for (int i = average->range_count - average->variable_count; i < average->range_count; i++) {
        const et_range range = average->ranges[i];
        for (int64_t at = range.begin; at < range.end; at++)
            /* A copy with decay 0: the formula rounds. */
            average->data[at] =
                decay == 0 ? values[at]
                           : average->data[at] + (1.0f - decay) * (values[at] - average->data[at]);
    }
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
        bounding += optimizer->clips[i].scope != ET_CLIP_ALL;
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

/* Computes the norm first, over all gradients: a step with a gradient that is not finite must not
 * change any weight. The average's decay and the bias correction count this update (iterations +
 * 1), the rate does not: all as in Keras. */
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
        .regularization = et_optimizer_regularization(optimizer),
        .step = { .iterations = optimizer->iterations,
                  .slot_updates = optimizer->iterations - optimizer->slots_from,
                  .average_decay =
                      optimizer->average.data
                          ? average_decay(&optimizer->average, optimizer->iterations + 1)
                          : 0,
                  .kernels = optimizer->kernels },
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
