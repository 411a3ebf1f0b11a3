/* An update is two passes over the flat arrays, each a loop over pieces of fixed size that
 * threads share: the norm (no weight may change before it is known to be finite), then the
 * rule, which clips, moves weights, writes the shadow and the average while all of a piece is
 * in cache. Which parameters there are is asked once, when the optimizer is made; after that
 * only slices of flat arrays are left, and whether they decay.
 *
 * Invariants:
 *   (1) chunks cover [0, size) once, in order;
 *   (2) padding stays zero: its gradient is zero and so is what every rule makes of it;
 *   (3) an update that is not finite leaves weights, slots and iterations as they were;
 *   (4) nothing is allocated by an update. */
#include "optim/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kernel/share.h"
#include "optim/pattern.h"
#include "optim/rule.h"
#include "optim/schedule.h"

/* Elements of one piece of work: all arrays of it (weight, two slots, gradient, average and
 * shadow: 22 bytes an element, 352 KiB) stay in the second-level cache, and its size does not
 * depend on threads, so neither do sums. */
#define CHUNK 16384

/* One table of all rules. ORDER optimizer.type. NONE is refused by et_optimization_check
 * before anyone looks here. */
static const et_rule_class *const rules[] = {
    [ET_OPTIMIZER_NONE] = NULL,
    [ET_OPTIMIZER_SGD] = &et_rule_sgd,
    [ET_OPTIMIZER_ADAM] = &et_rule_adam,
    [ET_OPTIMIZER_ADAMW] = &et_rule_adamw,
};

/* A part of the flat arrays with one answer to "does it decay". */
typedef struct chunk {
    int64_t begin, count;
    bool decays;
} chunk;

struct et_optimizer {
    const et_rule_class *rule;    /* a row of `rules` */
    et_optimizer_options options; /* its lists are not used after new */
    et_ema_options ema;
    et_schedule schedule;
    const et_kernels *kernels; /* borrowed, static */
    et_params *params;         /* borrowed */
    float *weights;            /* the store's own */
    int64_t size;              /* of the flat arrays */
    int64_t iterations;        /* updates done, 0 before the first */
    int64_t slots_from;        /* iterations when the rule's slots began */
    chunk *chunks;             /* [chunk_count], owned, ascending */
    size_t chunk_count;
    double *partial; /* sums of squares of blocks of CHUNK elements */
    int rule_slots, slot_count;
    et_slot slots[ET_RULE_SLOTS_MAX + 1]; /* the rule's, then the average */
    float *average;                       /* NULL without ema */
};

/* Blocks of the norm; they ignore parameters' bounds, which matter to decay only. */
static int64_t blocks_of(int64_t size)
{
    return (size + CHUNK - 1) / CHUNK;
}

/* Which parameters decay, by the two lists: an included name decays even if excluded. decays:
 * [count of parameters]. Names are searched once, here; an update knows bits only. */
static int find_decaying(bool *decays, const et_params *params, const et_adamw_options *options,
                         et_error *error)
{
    et_patterns *include, *exclude = NULL;
    int status = et_patterns_new(&include, options->include_in_weight_decay,
                                 "optimizer.adamw.include_in_weight_decay", error);
    if (!status)
        status = et_patterns_new(&exclude, options->exclude_from_weight_decay,
                                 "optimizer.adamw.exclude_from_weight_decay", error);
    for (int i = 0; !status && i < et_params_count(params); i++) {
        const char *name = et_params_name(params, i);
        decays[i] = et_patterns_match(include, name) || !et_patterns_match(exclude, name);
    }
    et_patterns_free(include);
    et_patterns_free(exclude);
    return status;
}

/* Cuts [begin, end) into chunks. */
static void cut(et_optimizer *optimizer, int64_t begin, int64_t end, bool decays)
{
    /* From begin on, not at multiples of CHUNK: a run starts with a whole chunk. */
    for (; begin < end; begin += CHUNK) {
        int64_t count = end - begin < CHUNK ? end - begin : CHUNK;
        optimizer->chunks[optimizer->chunk_count++] = (chunk){ begin, count, decays };
    }
}

/* Neighbours with the same answer share chunks, so that many small parameters cost little.
 *
 * A run of neighbours ends at the offset of the first parameter with another answer, so the
 * padding behind a parameter belongs to its chunk. At most one chunk for each block and one
 * more for each run are needed. */
static int make_chunks(et_optimizer *optimizer, const bool *decays, et_error *error)
{
    int count = et_params_count(optimizer->params);
    size_t most = (size_t)blocks_of(optimizer->size) + (size_t)count;
    optimizer->chunks = et_alloc(most, sizeof *optimizer->chunks);
    if (!optimizer->chunks)
        return et_alloc_failed(error, most * sizeof *optimizer->chunks, "an optimizer's chunks");
    /* Where the current run of neighbours starts. */
    int64_t begin = 0;
    for (int i = 0; i < count; i++) {
        bool last = i + 1 == count;
        if (!last && decays[i + 1] == decays[i])
            continue;
        int64_t end = last ? optimizer->size : et_params_offset(optimizer->params, i + 1);
        cut(optimizer, begin, end, decays[i]);
        begin = end;
    }
    et_assert(optimizer->chunk_count <= most);
    et_assert(begin == optimizer->size || count == 0);
    return ET_OK;
}

/* decays is needed while cutting only. Rules other than AdamW have no decay: one run. */
static int plan_chunks(et_optimizer *optimizer, const et_optimization_options *options,
                       et_error *error)
{
    size_t count = (size_t)et_params_count(optimizer->params);
    bool *decays = et_alloc_zero(count, sizeof *decays);
    if (!decays)
        return et_alloc_failed(error, count, "an optimizer");
    int status = ET_OK;
    if (options->optimizer.type == ET_OPTIMIZER_ADAMW)
        status = find_decaying(decays, optimizer->params, &options->optimizer.adamw, error);
    if (!status)
        status = make_chunks(optimizer, decays, error);
    et_free(decays);
    return status;
}

/* Slots start at zero, which is right for moments and momentum; the average is set later. */
static int add_slot(et_optimizer *optimizer, const char *name, et_error *error)
{
    size_t bytes = (size_t)optimizer->size * sizeof(float);
    float *data = et_alloc_array(bytes);
    if (!data)
        return et_alloc_failed(error, bytes, "an optimizer's slot");
    et_assert(optimizer->slot_count <= ET_RULE_SLOTS_MAX);
    optimizer->slots[optimizer->slot_count++] = (et_slot){ name, data };
    return ET_OK;
}

/* The rule says which slots its options need; the average, if wanted, is one more and the
 * last. */
static int make_slots(et_optimizer *optimizer, et_error *error)
{
    /* Names are static strings of the rule's; checkpoints know the slots by them. */
    const char *names[ET_RULE_SLOTS_MAX];
    int status = ET_OK;
    optimizer->rule_slots = optimizer->rule->slots(&optimizer->options, names);
    et_assert(optimizer->rule_slots >= 0 && optimizer->rule_slots <= ET_RULE_SLOTS_MAX);
    for (int i = 0; !status && i < optimizer->rule_slots; i++)
        status = add_slot(optimizer, names[i], error);
    if (status || !optimizer->ema.enabled)
        return status;
    status = add_slot(optimizer, "average", error);
    if (status)
        return status;
    optimizer->average = optimizer->slots[optimizer->rule_slots].data;
    et_optimizer_start(optimizer);
    return ET_OK;
}

/* The parts that may fail, in an order that lets et_optimizer_free undo any of them:
 * everything not made yet is NULL or 0. */
static int build(et_optimizer *optimizer, const et_optimization_options *options, et_error *error)
{
    size_t blocks = (size_t)blocks_of(optimizer->size);
    optimizer->partial = et_alloc(blocks, sizeof *optimizer->partial);
    if (!optimizer->partial)
        return et_alloc_failed(error, blocks * sizeof *optimizer->partial, "an optimizer");
    int status =
        et_schedule_init(&optimizer->schedule, &options->learning_rate, &options->warmup, error);
    if (!status)
        status = plan_chunks(optimizer, options, error);
    if (!status)
        status = make_slots(optimizer, error);
    return status;
}

/* Options are checked as a whole before anything is made. */
int et_optimizer_new(et_optimizer **out, et_params *params, const et_kernels *kernels,
                     const et_optimization_options *options, et_error *error)
{
    et_assert(et_params_ready(params));
    *out = NULL;
    /* The schedule is checked again in build; this is before there is anything to free. */
    int status = et_optimization_check(options, error);
    if (status)
        return status;
    et_optimizer *optimizer = et_alloc_zero(1, sizeof *optimizer);
    if (!optimizer)
        return et_alloc_failed(error, sizeof *optimizer, "an optimizer");
    optimizer->rule = rules[options->optimizer.type];
    optimizer->options = options->optimizer;
    optimizer->ema = options->ema;
    optimizer->kernels = kernels;
    optimizer->params = params;
    optimizer->weights = et_params_values(params);
    optimizer->size = et_params_flat_size(params);
    status = build(optimizer, options, error);
    if (status) {
        et_optimizer_free(optimizer);
        return status;
    }
    *out = optimizer;
    return ET_OK;
}

void et_optimizer_free(et_optimizer *optimizer)
{
    if (!optimizer)
        return;
    for (int i = 0; i < optimizer->slot_count; i++)
        et_free_array(optimizer->slots[i].data);
    et_free(optimizer->chunks);
    et_free(optimizer->partial);
    et_free(optimizer);
}

/* Without an average there is nothing that depends on the start values. */
void et_optimizer_start(et_optimizer *optimizer)
{
    if (optimizer->average)
        memcpy(optimizer->average, optimizer->weights, (size_t)optimizer->size * sizeof(float));
}

/* Elements begin .. end - 1, whole blocks of them. */
static void square_part(const et_optimizer *optimizer, const float *gradients, int64_t begin,
                        int64_t end)
{
    for (int64_t at = begin; at < end; at += CHUNK) {
        int64_t count = end - at < CHUNK ? end - at : CHUNK;
        optimizer->partial[at / CHUNK] = optimizer->kernels->sum_of_squares(gradients + at, count);
    }
}

/* sqrt(sum of g^2) |scale|. Partial sums of fixed blocks, added in order: equal bits for any
 * number of threads. Sums are double: float32 squares of a few million gradients would lose
 * the small ones, and overflow long before the gradients themselves do. An infinity or NaN
 * anywhere comes through to the result, which is how it is found. */
static double gradient_norm(et_optimizer *optimizer, const float *gradients, double scale)
{
    int64_t size = optimizer->size, blocks = blocks_of(size);
    ET_SHARE(size > CHUNK, size, CHUNK, square_part, optimizer, gradients);
    double sum = 0;
    for (int64_t i = 0; i < blocks; i++)
        sum += optimizer->partial[i];
    return sqrt(sum) * fabs(scale);
}

/* What the average keeps at the update that makes iterations `step`; 0: it becomes a copy.
 * The dynamic decay is 2/11 at the first step and 0.99 after 890: without it the start
 * values, of which 0.99^s is left after s steps, would weigh for hundreds of them. */
static double average_decay(const et_ema_options *ema, int64_t step)
{
    if (step < ema->start_step)
        return 0;
    double since = (double)(step - ema->start_step);
    double dynamic = (1 + since) / (10 + since);
    return ema->dynamic_decay ? fmin(ema->average_decay, dynamic) : ema->average_decay;
}

/* Runs the rule on one chunk: pointers moved to where it begins, and the copy that an average
 * is before start_step. */
static void update_chunk(et_optimizer *optimizer, const et_rule_step *step, const chunk *part,
                         const float *gradients, et_bf16 *shadow)
{
    int64_t begin = part->begin;
    /* The formula with decay 0 rounds; a copy does not. */
    bool copied = optimizer->average && step->average_decay == 0;
    et_rule_chunk piece = {
        .weight = optimizer->weights + begin,
        .gradient = gradients + begin,
        .shadow = shadow ? shadow + begin : NULL,
        /* Padding takes part: it is zero on both sides, and a run needs no test for it. */
        .average = optimizer->average && !copied ? optimizer->average + begin : NULL,
        .count = part->count,
        .decays = part->decays,
    };
    for (int i = 0; i < optimizer->rule_slots; i++)
        piece.slot[i] = optimizer->slots[i].data + begin;
    optimizer->rule->update(optimizer->kernels, &optimizer->options, step, &piece);
    if (copied)
        memcpy(optimizer->average + begin, piece.weight, (size_t)part->count * sizeof(float));
}

/* Chunks begin .. end - 1. */
static void update_part(et_optimizer *optimizer, const et_rule_step *step, const float *gradients,
                        et_bf16 *shadow, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        update_chunk(optimizer, step, &optimizer->chunks[i], gradients, shadow);
}

/* Chunks are independent, so which thread takes which changes nothing. The shadow is NULL
 * where the store keeps none. */
static void update_all(et_optimizer *optimizer, const et_rule_step *step, const float *gradients)
{
    et_bf16 *shadow = et_params_shadow(optimizer->params);
    /* Weights may have been loaded since the optimizer was made. */
    if (optimizer->iterations == 0)
        et_optimizer_start(optimizer);
    ET_SHARE(optimizer->size > CHUNK, (int64_t)optimizer->chunk_count, 1, update_part, optimizer,
             step, gradients, shadow);
}

/* The norm first, of all gradients: a step with one that is not finite must not have changed
 * any weight when that is found. The average's decay and the bias correction count this
 * update (iterations + 1), the rate does not: all as in Keras. */
et_update et_optimizer_apply(et_optimizer *optimizer, const float *gradients, double gradient_scale)
{
    et_assert(et_params_values(optimizer->params) == optimizer->weights);
    et_update result = {
        .gradient_norm = gradient_norm(optimizer, gradients, gradient_scale),
        .learning_rate = et_optimizer_learning_rate(optimizer),
    };
    result.finite = isfinite(result.gradient_norm) != 0;
    if (!result.finite)
        return result;
    /* g * clip / max(norm, clip) (Pascanu, Mikolov and Bengio 2013): a factor of the scale,
     * so clipping needs no pass of its own. */
    double clip = optimizer->rule->clip_norm(&optimizer->options);
    if (clip > 0 && result.gradient_norm > clip)
        gradient_scale *= clip / result.gradient_norm;
    et_rule_step step = {
        .iterations = optimizer->iterations,
        .slot_updates = optimizer->iterations - optimizer->slots_from,
        .rate = result.learning_rate,
        .gradient_scale = (float)gradient_scale,
        .average_decay = (float)average_decay(&optimizer->ema, optimizer->iterations + 1),
    };
    update_all(optimizer, &step, gradients);
    /* Weights and shadow are written; only copies of them in other layouts are out of date. */
    optimizer->iterations++;
    et_params_changed(optimizer->params, false);
    return result;
}

et_cost et_optimizer_cost(const et_optimizer *optimizer)
{
    double element = 2 * sizeof(float) + 2 * sizeof(float) * (1.0 + optimizer->slot_count);
    if (et_params_shadow(optimizer->params))
        element += sizeof(et_bf16);
    return (et_cost){ .bytes = element * (double)optimizer->size };
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
        memset(optimizer->slots[i].data, 0, (size_t)optimizer->size * sizeof(float));
    optimizer->slots_from = optimizer->iterations;
}

double et_optimizer_learning_rate(const et_optimizer *optimizer)
{
    return et_schedule_rate(&optimizer->schedule, optimizer->iterations);
}

int et_optimizer_slots(const et_optimizer *optimizer, const et_slot **slots)
{
    *slots = optimizer->slots;
    return optimizer->slot_count;
}

float *et_optimizer_average(et_optimizer *optimizer)
{
    return optimizer->average;
}
