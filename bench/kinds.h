/* The time of a plan by kind of op, and of matrix products by purpose, each kind with its roof.
 * Reads the plan's internals (engine/exec/plan_private.h) and runs its calls one by one.
 */
#ifndef ETUDE_BENCH_KINDS_H
#define ETUDE_BENCH_KINDS_H

#include "engine/exec/plan_private.h"
#include "train/step/step.h"

#define BENCH_KINDS_MAX 48
#define BENCH_RUNS_MAX  64

typedef struct bench_kind {
    const char *name;
    int calls;                      /* in one run of the plan */
    et_cost cost;                   /* in one run; 0: none known */
    double peak;                    /* seconds of the products at their best rate */
    double seconds[BENCH_RUNS_MAX]; /* of each run measured */
} bench_kind;

typedef struct bench_kinds {
    bench_kind kind[BENCH_KINDS_MAX];
    int count, runs;
    double best_rate; /* of the products with weights: operations a second */
} bench_kinds;

/* Finds the kinds of a plan's calls and runs it `runs` times, timing each call. */
void bench_kinds_time(bench_kinds *kinds, et_plan *plan, int runs);

/* Times every product with a weight alone and fills in roofs and costs. Slow, and needs memory. May
 * be called again, for a peak at that time. Returns the peak of the whole plan in seconds, for its
 * products with weights. */
double bench_kinds_peak(bench_kinds *kinds, const et_plan *plan);

/* The seconds that attention's own products add to the peak; fills in the roofs of their kinds.
 * Call after bench_kinds_peak, with a batch bound. Scores that the backward pass computes again,
 * and padding, do not count; in causal segments only visible scores count. */
double bench_kinds_attention_peak(bench_kinds *kinds, const et_plan *plan);

/* Adds something timed elsewhere as a row. */
void bench_kinds_add(bench_kinds *kinds, const char *name, int calls, double seconds);

/* Adds the other work of a trainer's step: its source's next batch, and the optimizer's update by
 * the gradients of the batch before, which are divided by `examples`. */
void bench_kinds_add_others(bench_kinds *kinds, et_step *step, int64_t examples);

/* A table, largest first; shares are of `whole` seconds. */
void bench_kinds_print(bench_kinds *kinds, double whole);

#endif
