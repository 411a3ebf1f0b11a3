/* Small classifiers, where what is not arithmetic shows: training steps a second.
 *
 *     bench_mlp adult|mnist [SECONDS]
 *
 * adult: 105-64-32-2, as for a table of people; mnist: 784-512-512-10, as for images. Dense
 * layers with bias and relu, softmax cross-entropy, Adam, float32, batches of 128 gathered in a
 * new random order each epoch from 32,768 made examples; everything a step of the trainer does,
 * metrics included. The median of short runs over SECONDS counts: a busy machine seldom
 * interrupts one; with one thread processor time is taken. The roof is the time of the matrix
 * products alone, each at its best rate: roof.h. Steps and roof are timed in turn, so that a share
 * compares what the clock was the same for. Then where the time goes, by kind of op. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/nn.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/philox.h"
#include "bench.h"
#include "exec/plan_private.h"
#include "kinds.h"
#include "train/step.h"

#define BATCH    128
#define EXAMPLES 32768
#define LAYERS   3
#define RUNS_MAX 100000
#define ROUNDS   3 /* of steps and roof in turn */

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
    et_task task; /* first member */
    const mlp_kind *kind;
    float *examples;   /* [EXAMPLES, width[0]] */
    int32_t *classes;  /* [EXAMPLES] */
    int32_t *order;    /* [EXAMPLES] of this epoch */
    int64_t at, epoch; /* examples taken of it */
    float *x;          /* [BATCH, width[0]], the batch */
    int32_t labels[BATCH];
    et_params *params;
    et_device *device;
    et_graph *graph;
    et_plan *plan;
    et_optimizer *optimizer;
    et_metrics *metrics;
    et_step step;
} mlp;

/* ---- data ------------------------------------------------------------------------------- */

static void *memory(size_t bytes)
{
    et_error error = ET_ERROR_INIT;
    void *made = et_alloc_aligned(bytes, 64);
    if (!made)
        bench_check(et_alloc_failed(&error, bytes, "examples"), &error);
    return made;
}

static void make_examples(mlp *m)
{
    int64_t width = m->kind->width[0], count = EXAMPLES * width;
    et_random random = { 1, 0, et_random_site("examples") };
    m->examples = memory((size_t)count * sizeof(float));
    m->classes = memory(EXAMPLES * sizeof(int32_t));
    m->order = memory(EXAMPLES * sizeof(int32_t));
    m->x = memory((size_t)(BATCH * width) * sizeof(float));
    for (int64_t i = 0; i < count; i++)
        m->examples[i] = et_random_normal(random, (uint64_t)i);
    random.site = et_random_site("classes");
    uint64_t classes = (uint64_t)m->kind->width[LAYERS];
    for (int32_t i = 0; i < EXAMPLES; i++) {
        m->classes[i] = (int32_t)et_random_below(random, (uint64_t)i, classes);
        m->order[i] = i;
    }
}

/* Another order: Fisher and Yates' shuffle. */
static void shuffle(mlp *m)
{
    et_random random = { 1, (uint64_t)m->epoch++, et_random_site("order") };
    for (int32_t i = EXAMPLES - 1; i > 0; i--) {
        int32_t other = (int32_t)et_random_below(random, (uint64_t)i, (uint64_t)i + 1);
        int32_t kept = m->order[i];
        m->order[i] = m->order[other];
        m->order[other] = kept;
    }
    m->at = 0;
}

static int next(et_task *self, et_plan *plan, et_error *error)
{
    (void)plan, (void)error;
    mlp *m = (mlp *)(void *)self;
    int64_t width = m->kind->width[0];
    if (m->at + BATCH > EXAMPLES || m->epoch == 0)
        shuffle(m);
    for (int i = 0; i < BATCH; i++) {
        int32_t from = m->order[m->at + i];
        memcpy(m->x + i * width, m->examples + from * width, (size_t)width * sizeof(float));
        m->labels[i] = m->classes[from];
    }
    m->at += BATCH;
    return ET_OK;
}

static void describe_batch(const et_task *self, et_strbuf *out)
{
    (void)self;
    et_strbuf_printf(out, "made examples");
}

static const et_task_class made_class = {
    .name = "made examples",
    .next = next,
    .describe_batch = describe_batch,
};

/* ---- model ------------------------------------------------------------------------------ */

static et_node *add_loss(const mlp_kind *kind, et_scope *s)
{
    et_dense_options hidden = { .activation = ET_ACTIVATION_RELU }, last = { 0 };
    et_node *h = et_input(s, "examples", ET_F32, et_shape_2(BATCH, kind->width[0]));
    et_node *labels = et_input(s, "labels", ET_I32, et_shape_1(BATCH));
    for (int i = 1; i <= LAYERS; i++)
        h = et_dense_with(et_at(s, "layer", i), h, kind->width[i], i < LAYERS ? &hidden : &last);
    return et_softmax_loss(h, labels, 0);
}

static void make_plan(mlp *m, et_error *error)
{
    et_graph_options options = { .training = true, .act = ET_F32 };
    bench_check(et_graph_new(&m->graph, m->params, &options, error), error);
    et_node *loss = add_loss(m->kind, et_graph_scope(m->graph));
    bench_check(et_graph_finish(m->graph, error), error);
    bench_check(et_graph_differentiate(m->graph, loss, error), error);
    bench_check(et_params_materialize(m->params, false, error), error);
    et_init_draw(m->params, 1);
    bench_check(et_plan_new(&m->plan, m->graph, m->device, &loss, 1, NULL, error), error);
    et_plan_bind(m->plan, "examples", m->x);
    et_plan_bind(m->plan, "labels", m->labels);
}

static void make_step(mlp *m, et_error *error)
{
    const et_kernels *kernels = m->device->kernels;
    et_optimization_options options;
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_ADAM;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.learning_rate.constant.learning_rate = 1e-3;
    bench_check(et_optimizer_new(&m->optimizer, m->params, NULL, kernels, &options, error), error);
    bench_check(et_metrics_new(&m->metrics, error), error);
    bench_check(et_step_define_metrics(&m->step, m->metrics, error), error);
    bench_check(et_accumulator_init(&m->step.accumulator, m->params, kernels, 1, error), error);
    m->step.task = &m->task;
    m->step.plan = m->plan;
    m->step.optimizer = m->optimizer;
    m->step.seed = 1;
}

static void open_mlp(mlp *m, const mlp_kind *kind)
{
    et_error error = ET_ERROR_INIT;
    *m = (mlp){ .task = { &made_class }, .kind = kind };
    make_examples(m);
    bench_check(et_device_open(&m->device, &error), &error);
    bench_check(et_params_new(&m->params, &error), &error);
    make_plan(m, &error);
    make_step(m, &error);
}

static void close_mlp(mlp *m)
{
    et_accumulator_release(&m->step.accumulator);
    et_metrics_free(m->metrics);
    et_optimizer_free(m->optimizer);
    et_plan_free(m->plan);
    et_graph_free(m->graph);
    et_params_free(m->params);
    et_device_close(m->device);
    et_free(m->examples);
    et_free(m->classes);
    et_free(m->order);
    et_free(m->x);
}

/* ---- measuring -------------------------------------------------------------------------- */

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

/* Medians over the rounds: seconds of a step and of its products, and what they make of it. The
 * peak is the first round's, as the roof's own matrices count in later ones. */
typedef struct mlp_result {
    double step, roof, share, peak;
} mlp_result;

static mlp_result time_rounds(mlp *m, bench_kinds *ops, double seconds)
{
    double step[ROUNDS], roof[ROUNDS], share[ROUNDS], peak = 0;
    for (int i = 0; i < ROUNDS; i++) {
        step[i] = time_steps(m, seconds / ROUNDS);
        peak = i ? peak : (double)bench_peak_memory();
        roof[i] = bench_kinds_roof(ops, m->plan);
        share[i] = roof[i] / step[i];
    }
    return (mlp_result){ bench_median(step, ROUNDS), bench_median(roof, ROUNDS),
                         bench_median(share, ROUNDS), peak };
}

static void print_result(const mlp_kind *kind, const mlp_result *result)
{
    double rate = 1 / result->step, roof = 1 / result->roof;
    printf("%s: %.0f steps/s, %.0f examples/s, %.1f us a step; %.1f %% of the products' roof, "
           "%.0f steps/s; peak %.1f MB\n",
           kind->name, rate, BATCH * rate, 1e6 * result->step, 100 * result->share, roof,
           1e-6 * result->peak);
    bench_figure(rate, "steps/s", roof, "mlp.%s.steps_s", kind->name);
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
    bench_kinds_time(&kinds_of_ops, model.plan, BENCH_RUNS_MAX);
    bench_kinds_add_others(&kinds_of_ops, &model.step, model.params, BATCH);
    mlp_result result = time_rounds(&model, &kinds_of_ops, seconds);
    print_result(kind, &result);
    bench_kinds_print(&kinds_of_ops, result.step);
    close_mlp(&model);
    return 0;
}
