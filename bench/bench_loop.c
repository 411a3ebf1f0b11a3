/* What the trainer itself costs: a run whose steps have next to nothing to compute.
 *
 *     bench_loop [STEPS]
 *
 * The whole of et_run_train with the defaults of a real run (a look at hooks every 1,000
 * steps, a log of metrics as often, progress that is told of every step): only the model is
 * empty, two weights whose softmax is the loss, with plain SGD, and a batch costs nothing.
 * One thread, since the rest of a team has nothing to do, and its processor time. The median of
 * rounds of 1,000 steps counts, each with one log. Checkpoints and set-up lie outside. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <omp.h>

#include "base/file.h"
#include "bench.h"
#include "train/run.h"

#define ROUND      1000 /* steps */
#define ROUNDS_MAX 20000

typedef struct empty_task {
    et_task task; /* first member */
    int32_t label;
    int64_t done;                 /* steps begun */
    double began[ROUNDS_MAX + 1]; /* when round i, from 1, did; round 0 warms up */
} empty_task;

static et_node *build_loss(et_task *self, et_scope *scope)
{
    (void)self;
    et_node *logits = et_param(scope, "w", et_shape_2(1, 2), (et_init){ ET_INIT_ZEROS, 0 });
    return et_softmax_loss(logits, et_input(scope, "label", ET_I32, et_shape_1(1)), 0);
}

static int attach(et_task *self, et_state *state, et_error *error)
{
    (void)self, (void)state, (void)error;
    return ET_OK;
}

static int next(et_task *self, et_plan *plan, et_error *error)
{
    (void)error;
    empty_task *task = (empty_task *)(void *)self;
    if (task->done == 0)
        et_plan_bind(plan, "label", &task->label);
    if (task->done % ROUND == 0)
        task->began[task->done / ROUND] = bench_work_clock();
    task->done++;
    return ET_OK;
}

static int64_t epoch(const et_task *self)
{
    (void)self;
    return 1;
}

static void describe_batch(const et_task *self, et_strbuf *out)
{
    (void)self;
    et_strbuf_printf(out, "nothing");
}

static const et_task_class empty_class = {
    .name = "empty",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .epoch = epoch,
    .describe_batch = describe_batch,
};

static et_trainer_options settings(int64_t steps)
{
    et_trainer_options options;
    et_fields_defaults(&et_trainer_fields, &options);
    options.train_steps = steps;
    options.checkpoint_interval = 0;
    options.validation_interval = 0;
    options.optimizer_config.optimizer.type = ET_OPTIMIZER_SGD;
    options.optimizer_config.learning_rate.type = ET_RATE_CONSTANT;
    options.optimizer_config.learning_rate.constant.learning_rate = 1e-3;
    return options;
}

static void train(empty_task *task, const char *directory, int rounds)
{
    et_error error = ET_ERROR_INIT;
    et_trainer_options trainer = settings(ROUND * (int64_t)(rounds + 1) + 1);
    et_progress_options shown = ET_PROGRESS_OPTIONS_INIT;
    et_device *device;
    et_params *params;
    et_progress *progress;
    et_run *run;
    shown.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bench_check(et_progress_open(&progress, &shown, &error), &error);
    bench_check(et_device_open(&device, &error), &error);
    bench_check(et_params_new(&params, &error), &error);
    et_run_options options = { .model_dir = directory,
                               .trainer = &trainer,
                               .act = ET_F32,
                               .device = device,
                               .params = params,
                               .progress = progress };
    bench_check(et_run_open(&run, &task->task, &options, &error), &error);
    bench_check(et_run_train(run, &error), &error);
    bench_check(et_run_close(run, &error), &error);
    et_params_free(params);
    et_device_close(device);
    et_progress_close(progress);
    close(shown.fd);
}

static void remove_run(const char *directory)
{
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command))
        fprintf(stderr, "bench_loop: %s stays\n", directory);
}

int main(int argc, char **argv)
{
    static empty_task task = { .task = { &empty_class } };
    static double microseconds[ROUNDS_MAX];
    char directory[] = "/tmp/bench_loop-XXXXXX";
    int rounds = argc > 1 ? atoi(argv[1]) / ROUND : 1000;
    if (rounds < 1 || rounds >= ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_loop [STEPS], between %d and %d\n", ROUND,
                ROUND * (ROUNDS_MAX - 1));
        return 2;
    }
    if (!mkdtemp(directory)) {
        perror(directory);
        return 1;
    }
    omp_set_num_threads(1);
    bench_print_machine();
    train(&task, directory, rounds);
    remove_run(directory);
    for (int i = 0; i < rounds; i++)
        microseconds[i] = 1e6 * (task.began[i + 2] - task.began[i + 1]) / ROUND;
    double median = bench_median(microseconds, rounds);
    printf("an empty step of the trainer: %.3f us (the fastest of %d rounds %.3f, the slowest "
           "%.3f)\n",
           median, rounds, microseconds[0], microseconds[rounds - 1]);
    bench_figure(median, "us", NAN, "loop.empty.us");
    return 0;
}
