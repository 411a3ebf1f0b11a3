#include "kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bench.h"
#include "engine/exec/plan_private.h"
#include "peak.h"

/* ---- kinds ---- */

static bench_kind *find(bench_kinds *kinds, const char *name)
{
    for (int i = 0; i < kinds->count; i++)
        if (!strcmp(kinds->kind[i].name, name))
            return &kinds->kind[i];
    et_assert(kinds->count < BENCH_KINDS_MAX);
    bench_kind *kind = &kinds->kind[kinds->count++];
    *kind = (bench_kind){ .name = name };
    return kind;
}

void bench_kinds_time(bench_kinds *kinds, et_plan *plan, int runs)
{
    et_assert(runs >= 1 && runs <= BENCH_RUNS_MAX);
    *kinds = (bench_kinds){ .runs = runs };
    for (int i = 0; i < plan->call_count; i++)
        find(kinds, et_plan_call_kind(&plan->calls[i]))->calls++;
    find(kinds, "packing weights")->calls = plan->pack_group_count;
    for (int run = 0; run < runs; run++) {
        double now = et_clock_monotonic();
        for (int i = 0; i < plan->call_count; i++) {
            const et_plan_call *call = &plan->calls[i];
            et_plan_begin_call(plan, i);
            find(kinds, "packing weights")->seconds[run] += bench_lap(&now);
            call->run(plan, call);
            find(kinds, et_plan_call_kind(call))->seconds[run] += bench_lap(&now);
        }
    }
}

void bench_kinds_add(bench_kinds *kinds, const char *name, int calls, double seconds)
{
    bench_kind *kind = find(kinds, name);
    kind->calls = calls;
    for (int i = 0; i < kinds->runs; i++)
        kind->seconds[i] = seconds;
}

#define OTHERS_RUNS 9

void bench_kinds_add_others(bench_kinds *kinds, et_step *step, int64_t examples)
{
    et_error error = ET_ERROR_INIT;
    double update[OTHERS_RUNS], batch[OTHERS_RUNS], since = 0;
    float *gradients = et_params_gradients(et_pass_params(step->parts.pass));
    et_assert(examples > 0);
    bench_lap(&since);
    for (int i = 0; i < OTHERS_RUNS; i++) {
        bench_check(et_source_next(step->parts.source, step->batch, &error), &error);
        batch[i] = bench_lap(&since);
        et_optimizer_apply(step->parts.optimizer, gradients, 1.0 / (double)examples);
        update[i] = bench_lap(&since);
    }
    bench_kinds_add(kinds, "optimizer", 1, bench_median(update, OTHERS_RUNS));
    bench_kinds_add(kinds, "batch", 1, bench_median(batch, OTHERS_RUNS));
}

/* ---- roofs ---- */

#define SHAPES_MAX 64

/* Products timed already: models repeat a few shapes. */
typedef struct known_peaks {
    et_gemm_shape shape[SHAPES_MAX];
    double seconds[SHAPES_MAX];
    double best_rate;
    int count;
} known_peaks;

static bool same(const et_gemm_shape *a, const et_gemm_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->a == b->a && a->c == b->c &&
           a->pack_b == b->pack_b;
}

static double operations(const et_gemm_shape *shape)
{
    return 2 * (double)shape->m * (double)shape->n * (double)shape->k;
}

static double peak_of(known_peaks *known, et_gemm_shape shape)
{
    for (int i = 0; i < known->count; i++)
        if (same(&known->shape[i], &shape))
            return known->seconds[i];
    et_assert(known->count < SHAPES_MAX);
    known->shape[known->count] = shape;
    known->seconds[known->count] = bench_peak(&shape);
    known->best_rate = fmax(known->best_rate, operations(&shape) / known->seconds[known->count]);
    return known->seconds[known->count++];
}

static double product_peak(known_peaks *known, et_gemm_shape shape, et_dtype act)
{
    shape.a = shape.b = act;
    return peak_of(known, shape);
}

static double matmul_peak(known_peaks *known, const et_plan *plan, const et_plan_call *call)
{
    const et_matmul_options *options = &call->node->attributes.matmul;
    const et_tensor *a = &plan->values[call->in[0]].tensor;
    const et_tensor *c = &plan->values[call->out[0]].tensor;
    et_gemm_shape shape = { .m = c->shape.size[0],
                            .n = c->shape.size[1],
                            .k = a->shape.size[!options->transpose_a],
                            .transpose_a = options->transpose_a,
                            .transpose_b = options->transpose_b,
                            .c = c->dtype,
                            .pack_b = plan->values[call->in[1]].storage == VALUE_IN_PARAMS };
    return product_peak(known, shape, plan->graph->options.act);
}

/* Three products over all rows: logits, and the gradients of rows and table. In blocks of 512 rows
 * each is faster than whole on CPUs with small caches: the better way counts. */
static double vocabulary_peak(known_peaks *known, const et_plan *plan, const et_plan_call *call)
{
    const et_tensor *h = &plan->values[call->in[0]].tensor;
    const et_tensor *table = &plan->values[call->in[1]].tensor;
    int64_t rows = h->shape.size[0], width = h->shape.size[1], words = table->shape.size[0];
    et_dtype act = plan->graph->options.act;
    const int64_t blocks[] = { rows < 512 ? rows : 512, rows };
    double best = INFINITY;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const int64_t block = blocks[i];
        et_gemm_shape logits = {
            .m = block, .n = words, .k = width, .transpose_b = true, .c = act, .pack_b = true
        };
        et_gemm_shape dh = { .m = block, .n = width, .k = words, .c = act, .pack_b = true };
        et_gemm_shape dtable = {
            .m = words, .n = width, .k = block, .transpose_a = true, .c = ET_F32
        };
        double seconds = product_peak(known, logits, act) + product_peak(known, dh, act) +
                         product_peak(known, dtable, act);
        best = fmin(best, seconds * (double)rows / (double)block);
    }
    return best;
}

double bench_kinds_peak(bench_kinds *kinds, const et_plan *plan)
{
    known_peaks known = { .count = 0 };
    double whole = 0;
    for (int i = 0; i < kinds->count; i++) {
        kinds->kind[i].peak = 0;
        kinds->kind[i].cost = (et_cost){ 0 };
    }
    for (int i = 0; i < plan->call_count; i++) {
        const et_plan_call *call = &plan->calls[i];
        bench_kind *kind = find(kinds, et_plan_call_kind(call));
        et_cost cost = et_plan_call_cost(plan, call);
        kind->cost.flops += cost.flops;
        kind->cost.bytes += cost.bytes;
        if (call->node->op == ET_OP_MATMUL)
            kind->peak += matmul_peak(&known, plan, call);
        else if (call->node->op == ET_OP_VOCABULARY_LOSS)
            kind->peak += vocabulary_peak(&known, plan, call);
    }
    for (int i = 0; i < kinds->count; i++)
        whole += kinds->kind[i].peak;
    kinds->best_rate = known.best_rate;
    return whole;
}

/* ---- the peak of attention ---- */

/* Attention's products in one (segment, head): scores [queries, keys] from `dim` columns, outputs
 * [queries, dim] of weights, and [keys, dim] of weights across. A plan has few different ones. */
typedef struct attention_rates {
    int64_t queries, keys, dim;
    double scores, outputs, across; /* operations a second */
} attention_rates;

#define RATES_MAX 8

typedef struct known_rates {
    attention_rates of[RATES_MAX];
    int count;
} known_rates;

/* The mean length of segments that have rows. */
static int64_t typical_length(const et_tensor *offsets)
{
    const int32_t *offset = offsets->data;
    int64_t segments = offsets->shape.size[0] - 1, filled = 0;
    for (int64_t s = 0; s < segments; s++)
        filled += offset[s + 1] > offset[s];
    return filled ? (offset[segments] + filled / 2) / filled : 1;
}

/* Never less than the best rate with weights: peak.h says why. */
static double rate_of(int64_t m, int64_t n, int64_t k, int64_t count, et_dtype act, double least)
{
    const et_gemm_shape shape = { .m = m, .n = n, .k = k, .a = act, .b = act, .c = act };
    return fmax(least, operations(&shape) / bench_peak_run(&shape, count));
}

/* count: products of a call. */
static const attention_rates *rates_of(known_rates *known, const bench_kinds *kinds,
                                       attention_rates want, int64_t count, et_dtype act)
{
    for (int i = 0; i < known->count; i++) {
        const attention_rates *r = &known->of[i];
        if (r->queries == want.queries && r->keys == want.keys && r->dim == want.dim)
            return r;
    }
    et_assert(known->count < RATES_MAX);
    const double least = kinds->best_rate;
    want.scores = rate_of(want.queries, want.keys, want.dim, count, act, least);
    want.outputs = rate_of(want.queries, want.dim, want.keys, count, act, least);
    want.across = rate_of(want.keys, want.dim, want.queries, count, act, least);
    known->of[known->count] = want;
    return &known->of[known->count++];
}

/* Forward q k^T and weights v; backward dout v^T, dS k, and two across: dS^T q and weights^T dout.
 * The cost of the backward direction counts the scores once more, which a peak does not. */
static double attention_peak(known_rates *known, const bench_kinds *kinds, const et_plan *plan,
                             const et_plan_call *call)
{
    const bool grad = call->node->op == ET_OP_ATTENTION_GRAD;
    const int first = grad ? 2 : 0, heads = call->node->attributes.attention.heads;
    const et_tensor *q = &plan->values[call->in[first]].tensor;
    const et_tensor *queries = &plan->values[call->in[first + 2]].tensor;
    const int64_t width = q->shape.size[1] / (call->node->attributes.self ? 3 : 1);
    const attention_rates want = {
        .queries = typical_length(queries),
        .keys = typical_length(&plan->values[call->in[first + 3]].tensor),
        .dim = width / heads,
    };
    const int64_t count = heads * (q->shape.size[0] / want.queries + 1);
    const attention_rates *rate = rates_of(known, kinds, want, count, plan->graph->options.act);
    const double product = et_plan_call_cost(plan, call).flops / (grad ? 5 : 2);
    return product * (1 / rate->scores + 1 / rate->outputs + (grad ? 2 / rate->across : 0));
}

double bench_kinds_attention_peak(bench_kinds *kinds, const et_plan *plan)
{
    known_rates known = { .count = 0 };
    double whole = 0;
    et_assert(kinds->best_rate > 0);
    for (int i = 0; i < plan->call_count; i++) {
        const et_plan_call *call = &plan->calls[i];
        if (call->node->op != ET_OP_ATTENTION && call->node->op != ET_OP_ATTENTION_GRAD)
            continue;
        const double peak = attention_peak(&known, kinds, plan, call);
        find(kinds, et_plan_call_kind(call))->peak += peak;
        whole += peak;
    }
    return whole;
}

/* ---- the table ---- */

static int slower_first(const void *left, const void *right)
{
    const bench_kind *a = left, *b = right; /* seconds[0] is the median by now */
    return a->seconds[0] > b->seconds[0] ? -1 : a->seconds[0] < b->seconds[0];
}

void bench_kinds_print(bench_kinds *kinds, double whole)
{
    for (int i = 0; i < kinds->count; i++)
        kinds->kind[i].seconds[0] = bench_median(kinds->kind[i].seconds, kinds->runs);
    qsort(kinds->kind, (size_t)kinds->count, sizeof kinds->kind[0], slower_first);
    printf("    %-28s %5s %9s %6s %9s %7s %8s\n", "kind", "calls", "ms", "share", "GFLOP/s", "GB/s",
           "roof ms");
    for (int i = 0; i < kinds->count; i++) {
        const bench_kind *kind = &kinds->kind[i];
        printf("    %-28s %5d %9.3f %5.1f%%", kind->name, kind->calls, 1e3 * kind->seconds[0],
               100 * kind->seconds[0] / whole);
        if (kind->cost.bytes > 0)
            printf(" %9.1f %7.1f", 1e-9 * kind->cost.flops / kind->seconds[0],
                   1e-9 * kind->cost.bytes / kind->seconds[0]);
        if (kind->peak > 0)
            printf(" %8.2f", 1e3 * kind->peak);
        putchar('\n');
    }
}
