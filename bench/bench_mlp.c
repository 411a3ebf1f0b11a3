/* Training steps per second of small classifiers, in which the work besides arithmetic matters.
 *
 *     bench_mlp adult|mnist [SECONDS]
 *
 * adult: 105-64-32-2, as for a table of people; mnist: 784-512-512-10, as for images. Dense layers
 * with bias and relu, softmax cross-entropy, Adam, float32, batches of 128 gathered in a new random
 * order each epoch from 32,768 generated examples. A step is the whole step of the trainer, with
 * metrics. The result is the median of short runs over SECONDS, because a busy machine seldom
 * interrupts a short run. With one thread, processor time is measured. The peak is the time of the
 * matrix products alone, each at its best rate (peak.h). Steps and peak are timed alternately, so
 * that both have the same clock rate. Then the same steps by et_model_fit are timed, and the time
 * is printed by kind of op. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/model.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/numbers/philox.h"
#include "bench.h"
#include "engine/exec/plan_private.h"
#include "kinds.h"
#include "train/step/step.h"

#define BATCH    128
#define EXAMPLES 32768
#define LAYERS   3
#define RUNS_MAX 100000
#define ROUNDS   3 /* of steps and peak in turn */

typedef struct mlp_kind {
    const char *name;
    int64_t width[LAYERS + 1]; /* of the input, of each layer */
    int run;                   /* steps timed together */
} mlp_kind;

static const mlp_kind kinds[] = {
    { "adult", { 105, 64, 32, 2 }, 16 },
    { "mnist", { 784, 512, 512, 10 }, 1 },
};

typedef struct mlp {
    const mlp_kind *kind;
    float *examples;  /* [EXAMPLES, width[0]] */
    int32_t *classes; /* [EXAMPLES] */
    et_source *source;
    et_params *params;
    et_device *device;
    et_pass *pass;
    et_optimizer *optimizer;
    et_overflow overflow;
    et_metrics *metrics;
    et_step step;
} mlp;

/* ---- data ---- */

static void *memory(size_t bytes)
{
    et_error error = ET_ERROR_INIT;
    void *made = et_alloc_aligned(bytes, 64);
    if (!made)
        bench_check(et_alloc_failed(&error, "examples"), &error);
    return made;
}

static void make_examples(mlp *m)
{
    int64_t width = m->kind->width[0], count = EXAMPLES * width;
    et_random random = { 1, 0, et_random_site("examples") };
    m->examples = memory((size_t)count * sizeof(float));
    m->classes = memory(EXAMPLES * sizeof(int32_t));
    for (int64_t i = 0; i < count; i++)
        m->examples[i] = et_random_normal(random, (uint64_t)i);
    random.site = et_random_site("classes");
    uint64_t classes = (uint64_t)m->kind->width[LAYERS];
    for (int32_t i = 0; i < EXAMPLES; i++)
        m->classes[i] = (int32_t)et_random_below(random, (uint64_t)i, classes);
}

static void open_source(mlp *m, et_error *error)
{
    const et_array arrays[] = {
        { "examples", ET_F32, m->examples, et_shape_1(m->kind->width[0]) },
        { "labels", ET_I32, m->classes, et_shape_scalar() },
    };
    const et_batches_options options = {
        .seed = 1, .shuffle = true, .repeat = true, .capacity = { BATCH }
    };
    et_samples *samples;
    bench_check(et_arrays_open(&samples, arrays, 2, EXAMPLES, error), error);
    bench_check(et_batches_open(&m->source, samples, &options, error), error);
}

/* ---- model ---- */

static et_node *build_logits(et_scope *s, void *payload)
{
    const mlp_kind *kind = ((const mlp *)payload)->kind;
    et_dense_options hidden = { .activation = ET_ACTIVATION_RELU }, last = { 0 };
    et_node *h = et_batch_input(s, "examples");
    for (int i = 1; i <= LAYERS; i++)
        h = et_dense_with(et_at(s, "layer", i), h, kind->width[i], i < LAYERS ? &hidden : &last);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "labels"), 0), 1);
    return h;
}

static void build(et_scope *s, void *payload)
{
    build_logits(s, payload);
}

static void open_pass(mlp *m, et_error *error)
{
    const et_pass_options options = { .training = true };
    const et_layout *layout = &m->source->layout;
    bench_check(et_pass_open(&m->pass, m->device, m->params, layout, build, m, &options, error),
                error);
    bench_check(et_params_materialize(m->params, false, error), error);
    et_init_draw(m->params, 1);
    bench_check(et_pass_prepare(m->pass, layout, error), error);
}

static void open_step(mlp *m, et_error *error)
{
    const et_optimizer_setup adam = { .rule = "adam", .learning_rate = 1e-3 };
    bench_check(et_optimizer_open(&m->optimizer, m->device, m->params, NULL, &adam, error), error);
    bench_check(et_metrics_new(&m->metrics, error), error);
    m->overflow = et_overflow_fail();
    et_reducer *reducer;
    bench_check(et_tree_open(&reducer, m->pass, 1, error), error);
    const et_step_parts parts = { .source = m->source,
                                  .pass = m->pass,
                                  .optimizer = m->optimizer,
                                  .overflow = &m->overflow,
                                  .metrics = m->metrics,
                                  .prefix = "training_",
                                  .seed = 1,
                                  .reducer = reducer };
    bench_check(et_step_open(&m->step, &parts, error), error);
}

static void open_mlp(mlp *m, const mlp_kind *kind)
{
    et_error error = ET_ERROR_INIT;
    *m = (mlp){ .kind = kind };
    make_examples(m);
    open_source(m, &error);
    bench_check(et_device_open(&m->device, &error), &error);
    bench_check(et_params_new(&m->params, &error), &error);
    open_pass(m, &error);
    open_step(m, &error);
}

static void close_mlp(mlp *m)
{
    et_step_release(&m->step);
    et_metrics_free(m->metrics);
    et_optimizer_free(m->optimizer);
    et_pass_close(m->pass);
    et_source_close(m->source);
    et_params_free(m->params);
    et_device_close(m->device);
    et_free(m->examples);
    et_free(m->classes);
}

/* ---- measuring ---- */

/* Seconds of a step, the median of runs. */
static double time_steps(mlp *m, double seconds)
{
    static double runs[RUNS_MAX];
    et_error error = ET_ERROR_INIT;
    double end = et_clock_monotonic() + seconds;
    int count = 0;
    for (; count < RUNS_MAX && et_clock_monotonic() < end; count++) {
        double since = bench_work_clock();
        for (int i = 0; i < m->kind->run; i++)
            bench_check(et_step_run(&m->step, &error), &error);
        runs[count] = (bench_work_clock() - since) / m->kind->run;
    }
    return bench_median(runs, count);
}

/* Medians over the rounds: seconds of a step and of its products, and their ratio. The peak is the
 * first round's, because the peak's own matrices add to later ones. */
typedef struct mlp_result {
    double step, peak_time, share, peak;
} mlp_result;

static mlp_result time_rounds(mlp *m, bench_kinds *ops, double seconds)
{
    double step[ROUNDS], peak_time[ROUNDS], share[ROUNDS], peak = 0;
    for (int i = 0; i < ROUNDS; i++) {
        step[i] = time_steps(m, seconds / ROUNDS);
        peak = i ? peak : (double)bench_peak_memory();
        peak_time[i] = bench_kinds_peak(ops, et_pass_plan(m->pass));
        share[i] = peak_time[i] / step[i];
    }
    return (mlp_result){ bench_median(step, ROUNDS), bench_median(peak_time, ROUNDS),
                         bench_median(share, ROUNDS), peak };
}

/* ---- the same by a model object ---- */

static void build_model(et_scope *s, void *payload)
{
    et_output(s, "logits", build_logits(s, payload));
}

#define FIT_ROUNDS 15

/* Seconds of a step, the mean of so many. */
static double time_block(mlp *m, int64_t steps)
{
    et_error error = ET_ERROR_INIT;
    const double since = bench_work_clock();
    for (int64_t i = 0; i < steps; i++)
        bench_check(et_step_run(&m->step, &error), &error);
    return (bench_work_clock() - since) / (double)steps;
}

/* Steps inside et_model_fit and the trainer's alone, alternately, so that disturbances affect both:
 * medians over rounds. */
static void compare_fit(mlp *m, double step, double seconds)
{
    double inside[FIT_ROUNDS], ratio[FIT_ROUNDS];
    et_error error = ET_ERROR_INIT;
    et_model *model;
    const et_model_options options = { .layout = &m->source->layout, .seed = 1 };
    const et_fit fit = { .steps = (int64_t)(seconds / FIT_ROUNDS / step) + 1 };
    bench_check(et_model_open(&model, build_model, m, &options, &error), &error);
    bench_check(et_model_fit(model, m->source, &fit, &error), &error); /* warms up */
    for (int i = 0; i < FIT_ROUNDS; i++) {
        const double outside = time_block(m, fit.steps), since = bench_work_clock();
        bench_check(et_model_fit(model, m->source, &fit, &error), &error);
        inside[i] = (bench_work_clock() - since) / (double)fit.steps;
        ratio[i] = outside / inside[i];
    }
    const double median = bench_median(inside, FIT_ROUNDS);
    printf("%s by et_model_fit: %.0f steps/s, %.1f %% of the trainer's steps alone\n",
           m->kind->name, 1 / median, 100 * bench_median(ratio, FIT_ROUNDS));
    bench_figure(1 / median, "steps/s", 0, "mlp.%s.fit.steps_s", m->kind->name);
    et_model_close(model);
}

static void print_result(const mlp_kind *kind, const mlp_result *result)
{
    double rate = 1 / result->step, peak_time = 1 / result->peak_time;
    printf("%s: %.0f steps/s, %.0f examples/s, %.1f us a step; %.1f %% of the products' roof, "
           "%.0f steps/s; peak %.1f MB\n",
           kind->name, rate, BATCH * rate, 1e6 * result->step, 100 * result->share, peak_time,
           1e-6 * result->peak);
    bench_figure(rate, "steps/s", peak_time, "mlp.%s.steps_s", kind->name);
}

int main(int argc, char **argv)
{
    const mlp_kind *kind = NULL;
    for (size_t i = 0; argc > 1 && i < sizeof kinds / sizeof kinds[0]; i++)
        kind = strcmp(argv[1], kinds[i].name) ? kind : &kinds[i];
    double seconds = argc > 2 ? atof(argv[2]) : 5;
    if (!kind || !(seconds > 0)) {
        fprintf(stderr, "usage: bench_mlp adult|mnist [SECONDS]\n");
        return 2;
    }
    static mlp model;
    static bench_kinds kinds_of_ops;
    bench_print_machine();
    open_mlp(&model, kind);
    time_steps(&model, seconds / 10); /* warms up */
    bench_kinds_time(&kinds_of_ops, et_pass_plan(model.pass), BENCH_RUNS_MAX);
    bench_kinds_add_others(&kinds_of_ops, &model.step, BATCH);
    mlp_result result = time_rounds(&model, &kinds_of_ops, seconds);
    print_result(kind, &result);
    compare_fit(&model, result.step, seconds);
    bench_kinds_print(&kinds_of_ops, result.step);
    close_mlp(&model);
    return 0;
}
