/* One training step of a translation model, as the trainer does it, and where its time goes.
 *
 *     bench_step tiny|base float32|bfloat16 [STEPS [none|cheap|feed_forward]]
 *
 * Batches of 4,096 tokens a side of made pairs, 10,000 pieces, dropout and Adam as the
 * experiment has them. The roof is the time of the model's matrix products alone (attention's
 * small ones not counted), each at the best rate measured in this process: roof.h. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "bench.h"
#include "kinds.h"

#define WARM_UP   3
#define STEPS_MAX 1000

/* Things of a step that are no step of the plan. */
static void add_others(bench_kinds *kinds, bench_model *model)
{
    et_error error = ET_ERROR_INIT;
    double update[9], batch[9], since = 0;
    int64_t tokens = model->batch.target_tokens;
    const float *gradients = et_params_gradients(model->params);
    bench_lap(&since);
    for (int i = 0; i < 9; i++) {
        bench_check(model->task.class->next(&model->task, model->plan, &error), &error);
        batch[i] = bench_lap(&since);
        et_optimizer_apply(model->optimizer, gradients, 1.0 / (double)tokens);
        update[i] = bench_lap(&since);
    }
    bench_kinds_add(kinds, "optimizer", 1, bench_median(update, 9));
    bench_kinds_add(kinds, "batch", 1, bench_median(batch, 9));
}

typedef struct step_result {
    double seconds; /* median */
    double tokens;  /* target tokens of a step, mean */
    double planned, peak;
    double roof;
} step_result;

static void print_result(const bench_model *model, const step_result *r, const char *name)
{
    const char *type = bench_dtype_short(model->act);
    double rate = r->tokens / r->seconds;
    printf("%s %s: %.0f target tokens/s, %.2f ms a step of %.0f target tokens\n", name, type, rate,
           1e3 * r->seconds, r->tokens);
    printf("    roof %.2f ms: %.1f %% of it reached; %.1f MB planned, peak %.1f MB; plan made in "
           "%.1f ms (%d kernel calls)\n",
           1e3 * r->roof, 100 * r->roof / r->seconds, 1e-6 * r->planned, 1e-6 * r->peak,
           1e3 * model->plan_seconds, et_plan_steps(model->plan));
    bench_figure(rate, "target tokens/s", r->tokens / r->roof, "step.%s.%s.tokens_s", name, type);
    bench_figure(1e3 * r->seconds, "ms", 1e3 * r->roof, "step.%s.%s.ms", name, type);
    bench_figure(r->roof / r->seconds, "share", 1, "step.%s.%s.roof_share", name, type);
    bench_figure(1e-6 * r->planned, "MB", NAN, "step.%s.%s.planned_mb", name, type);
    bench_figure(1e-6 * r->peak, "MB", NAN, "step.%s.%s.peak_mb", name, type);
    bench_figure(1e3 * model->plan_seconds, "ms", NAN, "step.%s.%s.plan_ms", name, type);
}

static step_result time_steps(bench_model *model, int steps)
{
    static double seconds[STEPS_MAX];
    step_result result = { .planned = (double)bench_model_planned(model) };
    for (int i = 0; i < WARM_UP; i++)
        bench_model_step(model);
    double since = 0;
    bench_lap(&since);
    for (int i = 0; i < steps; i++) {
        bench_model_step(model);
        seconds[i] = bench_lap(&since);
        result.tokens += (double)model->step.tokens / steps;
    }
    result.seconds = bench_median(seconds, steps);
    result.peak = (double)bench_peak_memory();
    return result;
}

static et_recompute recompute_named(const char *name)
{
    return !strcmp(name, "none")           ? ET_RECOMPUTE_NONE
           : !strcmp(name, "feed_forward") ? ET_RECOMPUTE_MARKED
                                           : ET_RECOMPUTE_CHEAP;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: bench_step tiny|base float32|bfloat16 [STEPS [RECOMPUTE]]\n");
        return 2;
    }
    int steps = argc > 3 ? atoi(argv[3]) : 20;
    if (steps < 1 || steps > STEPS_MAX) {
        fprintf(stderr, "bench_step: between 1 and %d steps\n", STEPS_MAX);
        return 2;
    }
    static bench_model model;
    static bench_kinds kinds;
    bench_print_machine();
    bench_model_open(&model, argv[1], bench_dtype(argv[2]),
                     recompute_named(argc > 4 ? argv[4] : "cheap"));
    step_result result = time_steps(&model, steps);
    bench_kinds_time(&kinds, &model, steps < BENCH_RUNS_MAX ? steps : BENCH_RUNS_MAX);
    add_others(&kinds, &model);
    result.roof = bench_kinds_roof(&kinds, &model);
    print_result(&model, &result, argv[1]);
    bench_kinds_print(&kinds, result.seconds);
    bench_model_close(&model);
    return 0;
}
