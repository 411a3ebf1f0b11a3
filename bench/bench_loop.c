/* Measures the trainer's own cost, with a run whose steps compute almost nothing.
 *
 *     bench_loop [STEPS]
 *
 * Times et_controller_train over a task with the defaults of a real run (actions are checked every
 * 1,000 steps, metrics logged as often, progress is reported at every step). Only the model is
 * almost empty: the loss is the softmax of two weights, the optimizer is plain SGD, and batches
 * need no work. Measures processor time with one thread, because other threads would have nothing
 * to do. The result is the median of rounds of 1,000 steps, each with one log. Checkpoints and
 * set-up are not measured. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <omp.h>

#include "bench.h"
#include "formats/events/progress.h"
#include "systems/modelgarden/task_trainer.h"
#include "systems/orbit/controller.h"
#include "train/run/options.h"

#define ROUND      1000 /* steps */
#define ROUNDS_MAX 20000

typedef struct empty_source {
    et_source source;             /* first member */
    int64_t done;                 /* batches given */
    double began[ROUNDS_MAX + 1]; /* when round i, from 1, did; round 0 warms up */
} empty_source;

/* ---- a source whose batches cost nothing ---- */

static int next(et_source *self, et_batch *batch, et_error *error)
{
    (void)error;
    empty_source *source = (empty_source *)(void *)self;
    if (source->done % ROUND == 0)
        source->began[source->done / ROUND] = bench_work_clock();
    source->done++;
    batch->filled[0] = 1;
    return ET_OK;
}

static void position(const et_source *self, et_position *position)
{
    et_position_put(position, "batch", ((const empty_source *)(const void *)self)->done);
}

static int seek(et_source *self, const et_position *position, et_error *error)
{
    return et_position_get(position, "batch", &((empty_source *)(void *)self)->done, error);
}

static void describe(const et_source *self, const et_batch *batch, char *text, size_t size)
{
    (void)self, (void)batch;
    snprintf(text, size, "nothing");
}

/* It is static. */
static void close_source(et_source *self)
{
    (void)self;
}

static const et_source_class empty_class = {
    .name = "empty",
    .next = next,
    .position = position,
    .seek = seek,
    .describe = describe,
    .close = close_source,
};

static const et_layout_field label = { .name = "label", .dtype = ET_I32 };

static empty_source source = {
    .source = { .class = &empty_class,
                .layout = { .kinds = 1,
                            .fields = 1,
                            .kind = { "row" },
                            .capacity = { 1 },
                            .field = &label } },
};

/* ---- a task with next to nothing to compute ---- */

static void build(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    et_node *logits = et_param(scope, "w", et_shape_2(1, 2), (et_init){ ET_INIT_ZEROS, 0 });
    et_loss(scope, "loss", et_softmax_loss(logits, et_batch_input(scope, "label"), 0), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    (void)self, (void)error;
    *out = training ? &source.source : NULL;
    return ET_OK;
}

static const et_task_class empty_task_class = { .name = "empty", .build = build, .data = data };

/* ---- a run ---- */

/* As the command does. */
static void show(void *self, const et_showing *showing)
{
    const et_progress_field fields[] = { { "loss", showing->loss, true },
                                         { "lr", showing->learning_rate, false } };
    const et_progress_state state = { .step = showing->step,
                                      .steps = showing->steps,
                                      .fields = fields,
                                      .field_count = sizeof fields / sizeof fields[0],
                                      .rate = showing->rate,
                                      .unit = showing->unit,
                                      .epoch = showing->epoch,
                                      .seconds_left = NAN,
                                      .time = showing->time };
    et_progress_update(self, &state);
}

static void tell(void *self, const char *text)
{
    et_progress_message(self, text);
}

static et_controller_options settings(int64_t steps, const char *directory, et_progress *progress)
{
    et_trainer_options options;
    et_fields_defaults(&et_trainer_fields, &options);
    return (et_controller_options){
        .run = { .model_dir = directory,
                 .max_to_keep = options.max_to_keep,
                 .observer = { .self = progress, .show = show, .tell = tell } },
        .train_steps = steps,
        .steps_per_loop = options.steps_per_loop,
        .summary_interval = options.summary_interval,
    };
}

static void train(const char *directory, int rounds)
{
    const et_optimizer_setup sgd = { .rule = "sgd", .learning_rate = 1e-3 };
    const et_task_trainer_options options = { .optimizer = &sgd };
    et_error error = ET_ERROR_INIT;
    et_progress_options shown = ET_PROGRESS_OPTIONS_INIT;
    et_task task = { .class = &empty_task_class };
    et_device *device;
    et_params *params;
    et_progress *progress;
    et_task_trainer *trainer;
    et_controller *controller;
    shown.fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    bench_check(et_progress_open(&progress, &shown, &error), &error);
    bench_check(et_device_open(&device, &error), &error);
    bench_check(et_params_new(&params, &error), &error);
    bench_check(et_task_trainer_open(&trainer, &task, device, params, &options, &error), &error);
    et_controller_options run = settings(ROUND * (int64_t)(rounds + 1) + 1, directory, progress);
    run.trainer = et_task_trainer_trainer(trainer);
    bench_check(et_controller_open(&controller, &run, &error), &error);
    bench_check(et_controller_train(controller, &error), &error);
    bench_check(et_controller_close(controller, &error), &error);
    et_task_trainer_close(trainer);
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
    train(directory, rounds);
    remove_run(directory);
    for (int i = 0; i < rounds; i++)
        microseconds[i] = 1e6 * (source.began[i + 2] - source.began[i + 1]) / ROUND;
    double median = bench_median(microseconds, rounds);
    printf("an empty step of the trainer: %.3f us (the fastest of %d rounds %.3f, the slowest "
           "%.3f)\n",
           median, rounds, microseconds[0], microseconds[rounds - 1]);
    bench_figure(median, "us", NAN, "loop.empty.us");
    return 0;
}
