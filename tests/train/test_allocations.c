/* A training step allocates no memory: batches, passes, update, metrics and progress, in the
 * command's own inner loop. (If oneDNN has no kernels for AVX-512, its float32 products allocate
 * their copies each time: there a step allocates as much as the one before.) Etude's allocations
 * are counted by the allocator, those of libraries (oneDNN, OpenMP, the C library) by replacing
 * malloc. oneDNN 2.6 allocates a few small blocks in every product by operator new. They reach
 * malloc unless the program keeps them (command/etude/small_new.cpp, which is linked here), 554
 * times in 45 bytes a step of this model. */
#include "systems/orbit/controller.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/strbuf.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/malloc_count.h"
#include "formats/events/progress.h"
#include "formats/files.h"
#include "skip.h"
#include "systems/modelgarden/experiment.h"
#include "systems/modelgarden/task_trainer.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"
#include "tasks/translation/translation_task.h"
#include "train/task/task_private.h"

enum { STEPS = 40, ACCUMULATION = 2, CALLS = STEPS * ACCUMULATION, WARM_UP = 10 };

/* Allocations before each step's batches were requested. */
typedef struct counts {
    size_t ours, calls, bytes;
} counts;

/* A task that hands everything on, and counts. */
typedef struct counting_task {
    et_task task;
    et_task *inner;
    counts at[CALLS];
    int count;
} counting_task;

static counting_task *outer(const et_task *self)
{
    return (counting_task *)(void *)self;
}

static void build(et_task *self, et_scope *scope, bool training)
{
    et_task *inner = outer(self)->inner;
    et_task_build(inner, scope, training);
}

static int count_batch(void *payload, et_batch *batch, et_error *error)
{
    counting_task *task = payload;
    malloc_counts all = malloc_count_so_far();
    (void)batch, (void)error;
    task->at[task->count++] = (counts){ et_alloc_count(), all.calls, all.bytes };
    return ET_OK;
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    et_task *inner = outer(self)->inner;
    et_source *source;
    int status = inner->class->data(inner, training, training ? &source : out, error);
    return status || !training ? status : et_map_open(out, source, count_batch, self, error);
}

static const et_task_class counting_class = { .name = "counting", .build = build, .data = data };

/* As the command shows a step. */
static void show(void *self, const et_showing *showing)
{
    static double before;
    assert_true(showing->time > before);
    before = showing->time;
    et_progress_field fields[] = { { "loss", showing->loss, true },
                                   { "lr", showing->learning_rate, false } };
    et_progress_state state = { .step = showing->step,
                                .steps = showing->steps,
                                .fields = fields,
                                .field_count = 2,
                                .rate = showing->rate,
                                .unit = "tok/s",
                                .epoch = showing->epoch,
                                .seconds_left = NAN,
                                .time = showing->time };
    et_progress_update(self, &state);
}

/* ---- a small run ---- */

static void write_text(const char *path)
{
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < 300; i++) {
        for (int k = 0; k <= i % 7; k++)
            et_strbuf_printf(&text, "%c%c%s", 'a' + (i * 7 + k * 3) % 26, 'a' + (i + k * 5) % 26,
                             k < i % 7 ? " " : "\n");
    }
    put_file(path, et_strbuf_text(&text), text.length);
    et_strbuf_release(&text);
}

static const char settings[] = "{task: {model: {encoder: {num_layers: 1}, decoder: {num_layers: 1},"
                               " embedding_width: 32}, vocabulary: {size: 60},"
                               " train_data: {source_path: a, target_path: b,"
                               " global_batch_size: 256, shuffle_pool: 64}},"
                               " trainer: {train_steps: 40, summary_interval: 0,"
                               " checkpoint_interval: 0, gradient_accumulation: 2,"
                               " optimizer_config: {ema: {enabled: true}}}}";

static void configure(et_experiment *experiment, et_dtype act, et_arena *arena)
{
    et_error error = ET_ERROR_INIT;
    put_file("settings.yaml", settings, sizeof settings - 1);
    int status =
        et_experiment_begin(experiment, &et_translation_program, "translation/tiny", arena, &error);
    if (!status)
        status = et_experiment_read_file(experiment, "settings.yaml", arena, &error);
    if (status)
        fail_msg("%s", error.text);
    experiment->runtime.mixed_precision_dtype =
        act == ET_BF16 ? ET_PRECISION_BFLOAT16 : ET_PRECISION_FLOAT32;
}

/* Trains STEPS steps, with a progress bar that nobody sees. */
static void train(counting_task *task, et_dtype act)
{
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_experiment e;
    et_device *device;
    et_params *params;
    et_progress *progress;
    et_task_trainer *trainer = NULL;
    et_controller *controller = NULL;
    et_progress_options shown = ET_PROGRESS_OPTIONS_INIT;
    shown.fd = open("/dev/null", O_WRONLY);
    shown.mode = ET_PROGRESS_BAR;
    configure(&e, act, &arena);
    assert_int_equal(et_progress_open(&progress, &shown, NULL), 0);
    assert_int_equal(et_device_open(&device, NULL), 0);
    assert_int_equal(et_params_new(&params, NULL), 0);
    char directory[] = "run-XXXXXX";
    assert_non_null(mkdtemp(directory));
    et_task_context context = { .model_dir = directory,
                                .params = params,
                                .device = device,
                                .bfloat16 = act == ET_BF16,
                                .seed = 3,
                                .prefetch = 2 };
    et_task_trainer_options trained = { .optimization = &e.trainer.optimizer_config,
                                        .seed = 3,
                                        .bfloat16 = act == ET_BF16,
                                        .batches = (int)e.trainer.gradient_accumulation };
    et_controller_options options = { .run = { .model_dir = directory,
                                               .max_to_keep = e.trainer.max_to_keep,
                                               .observer = { .self = progress, .show = show } },
                                      .train_steps = e.trainer.train_steps,
                                      .steps_per_loop = e.trainer.steps_per_loop,
                                      .summary_interval = e.trainer.summary_interval,
                                      .checkpoint_interval = e.trainer.checkpoint_interval };
    int status = et_translation_task_open(&task->inner, e.task, &context, &error);
    if (!status)
        status = et_task_trainer_open(&trainer, &task->task, device, params, &trained, &error);
    options.trainer = trainer ? et_task_trainer_trainer(trainer) : NULL;
    if (!status)
        status = et_controller_open(&controller, &options, &error);
    if (!status)
        status = et_controller_train(controller, &error);
    if (status)
        fail_msg("%s", error.text);
    assert_int_equal(et_controller_close(controller, NULL), 0);
    et_task_trainer_close(trainer);
    et_translation_task_close(task->inner);
    et_params_free(params);
    et_device_close(device);
    et_progress_close(progress);
    et_arena_release(&arena);
}

/* ---- the counts ---- */

/* Whether the library's products ask for no memory when they run. */
static bool products_are_quiet(void)
{
    return strstr(et_gemm_isa(), "AVX-512") || !strcmp(et_gemm_isa(), "AMX");
}

static void check(et_dtype act, int threads)
{
    omp_set_num_threads(threads);
    counting_task task = { .task.class = &counting_class };
    train(&task, act);
    assert_int_equal(task.count, CALLS);
    const counts *first = &task.at[WARM_UP * ACCUMULATION];
    const counts *last = &task.at[CALLS - ACCUMULATION];
    int steps = STEPS - 1 - WARM_UP;
    assert_true(first->ours > 0);
    assert_int_equal(last->ours, first->ours);
    if (!malloc_count_works())
        return;
    print_message("%s, %d threads, a step: %.1f mallocs of libraries, %.0f bytes; ours %.1f\n",
                  act == ET_BF16 ? "bfloat16" : "float32", threads,
                  (double)(last->calls - first->calls) / steps,
                  (double)(last->bytes - first->bytes) / steps,
                  (double)(last->ours - first->ours) / steps);
    assert_true(first->calls > first->ours); /* allocations of libraries are counted too */
    if (!products_are_quiet()) {
        const counts *middle = &task.at[(WARM_UP + steps / 2) * ACCUMULATION];
        size_t early = (middle->calls - first->calls) * (size_t)(steps - steps / 2);
        size_t late = (last->calls - middle->calls) * (size_t)(steps / 2);
        assert_true(threads > 1 || early == late);
    } else if (threads == 1)
        assert_int_equal(last->calls, first->calls);
    else /* a thread's first product may come late, then it begins its own shelf of blocks */
        assert_in_range(last->calls - first->calls, 0, steps / 2);
}

static void test_allocations__step_float32(void **state)
{
    (void)state;
    check(ET_F32, 1);
    check(ET_F32, 2);
}

static void test_allocations__step_bfloat16(void **state)
{
    (void)state;
    check(ET_BF16, 1);
    check(ET_BF16, 2);
}

static int set_up(void **state)
{
    if (make_directory(state) || chdir(*state))
        return 1;
    write_text("a");
    write_text("b");
    return 0;
}

static int tear_down(void **state)
{
    return chdir("..") || remove_directory(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations__step_float32),
        cmocka_unit_test(test_allocations__step_bfloat16),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
