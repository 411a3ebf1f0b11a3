#include "kinds.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bench.h"
#include "exec/cost.h"
#include "roof.h"

/* ---- kinds ------------------------------------------------------------------------------ */

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
    for (int i = 0; i < plan->step_count; i++)
        find(kinds, et_plan_step_kind(&plan->steps[i]))->calls++;
    find(kinds, "packing weights")->calls = plan->pack_group_count;
    for (int run = 0; run < runs; run++) {
        double now = et_clock_monotonic();
        for (int i = 0; i < plan->step_count; i++) {
            const et_plan_step *step = &plan->steps[i];
            et_plan_begin_step(plan, i);
            find(kinds, "packing weights")->seconds[run] += bench_lap(&now);
            step->run(plan, step);
            find(kinds, et_plan_step_kind(step))->seconds[run] += bench_lap(&now);
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

void bench_kinds_add_others(bench_kinds *kinds, et_step *step, et_params *params, int64_t examples)
{
    et_error error = ET_ERROR_INIT;
    double update[OTHERS_RUNS], batch[OTHERS_RUNS], since = 0;
    const float *gradients = et_params_gradients(params);
    et_assert(examples > 0);
    bench_lap(&since);
    for (int i = 0; i < OTHERS_RUNS; i++) {
        bench_check(step->task->class->next(step->task, step->plan, &error), &error);
        batch[i] = bench_lap(&since);
        et_optimizer_apply(step->optimizer, gradients, 1.0 / (double)examples);
        update[i] = bench_lap(&since);
    }
    bench_kinds_add(kinds, "optimizer", 1, bench_median(update, OTHERS_RUNS));
    bench_kinds_add(kinds, "batch", 1, bench_median(batch, OTHERS_RUNS));
}

/* ---- roofs ------------------------------------------------------------------------------ */

#define SHAPES_MAX 64

/* Products timed already: models repeat a few shapes. */
typedef struct known_roofs {
    et_gemm_shape shape[SHAPES_MAX];
    double seconds[SHAPES_MAX];
    int count;
} known_roofs;

static bool same(const et_gemm_shape *a, const et_gemm_shape *b)
{
    return a->m == b->m && a->n == b->n && a->k == b->k && a->transpose_a == b->transpose_a &&
           a->transpose_b == b->transpose_b && a->a == b->a && a->c == b->c &&
           a->pack_b == b->pack_b;
}

static double roof_of(known_roofs *known, et_gemm_shape shape)
{
    for (int i = 0; i < known->count; i++)
        if (same(&known->shape[i], &shape))
            return known->seconds[i];
    et_assert(known->count < SHAPES_MAX);
    known->shape[known->count] = shape;
    known->seconds[known->count] = bench_roof(&shape);
    return known->seconds[known->count++];
}

static double product_roof(known_roofs *known, et_gemm_shape shape, et_dtype act)
{
    shape.a = shape.b = act;
    return roof_of(known, shape);
}

static double matmul_roof(known_roofs *known, const et_plan *plan, const et_plan_step *step)
{
    const et_matmul_options *options = &step->node->attributes.matmul;
    const et_tensor *a = &plan->values[step->in[0]].tensor;
    const et_tensor *c = &plan->values[step->out[0]].tensor;
    et_gemm_shape shape = { .m = c->shape.size[0],
                            .n = c->shape.size[1],
                            .k = a->shape.size[!options->transpose_a],
                            .transpose_a = options->transpose_a,
                            .transpose_b = options->transpose_b,
                            .c = c->dtype,
                            .pack_b = plan->values[step->in[1]].place == PLACE_PARAM };
    return product_roof(known, shape, plan->graph->options.act);
}

/* Three products over all rows: logits, and the gradients of rows and table. In blocks of 512
 * rows each is faster than whole where the caches are small: the better way counts. */
static double vocabulary_roof(known_roofs *known, const et_plan *plan, const et_plan_step *step)
{
    const et_tensor *h = &plan->values[step->in[0]].tensor;
    const et_tensor *table = &plan->values[step->in[1]].tensor;
    int64_t rows = h->shape.size[0], width = h->shape.size[1], words = table->shape.size[0];
    et_dtype act = plan->graph->options.act;
    double best = INFINITY;
    for (int64_t block = 512; block <= rows; block *= rows > block ? rows / block : 2) {
        et_gemm_shape logits = {
            .m = block, .n = words, .k = width, .transpose_b = true, .c = act, .pack_b = true
        };
        et_gemm_shape dh = { .m = block, .n = width, .k = words, .c = act, .pack_b = true };
        et_gemm_shape dtable = {
            .m = words, .n = width, .k = block, .transpose_a = true, .c = ET_F32
        };
        double seconds = product_roof(known, logits, act) + product_roof(known, dh, act) +
                         product_roof(known, dtable, act);
        best = fmin(best, seconds * (double)rows / (double)block);
    }
    return best;
}

double bench_kinds_roof(bench_kinds *kinds, const et_plan *plan)
{
    known_roofs known = { .count = 0 };
    double whole = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const et_plan_step *step = &plan->steps[i];
        bench_kind *kind = find(kinds, et_plan_step_kind(step));
        et_cost cost = et_plan_step_cost(plan, step);
        kind->cost.flops += cost.flops;
        kind->cost.bytes += cost.bytes;
        if (step->node->op == ET_OP_MATMUL)
            kind->roof += matmul_roof(&known, plan, step);
        else if (step->node->op == ET_OP_VOCABULARY_LOSS)
            kind->roof += vocabulary_roof(&known, plan, step);
    }
    for (int i = 0; i < kinds->count; i++)
        whole += kinds->kind[i].roof;
    return whole;
}

/* ---- the table -------------------------------------------------------------------------- */

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
        if (kind->roof > 0)
            printf(" %8.2f", 1e3 * kind->roof);
        putchar('\n');
    }
}
