/* The n-th allocation fails, for every n until nothing fails: an error each time, no crash, and
 * afterwards everything works. AddressSanitizer finds leaks. */
#include "train/checkpoint/checkpoint.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/allocator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "train/checkpoint/identity.h"
#include "train/toy_run.h"
#include "train/train.h"
#include <etude/metrics.h>

static atomic_long left; /* allocations until one fails; below 0: none does */

static bool fails(void)
{
    return atomic_fetch_sub(&left, 1) == 1;
}

static void *allocate(void *payload, size_t size, size_t alignment)
{
    (void)payload;
    void *memory = NULL;
    if (fails() || posix_memalign(&memory, alignment < 16 ? 16 : alignment, size ? size : 1))
        return NULL;
    return memory;
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return fails() ? NULL : realloc(memory, size);
}

static void release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static const et_allocator failing = { NULL, allocate, reallocate, release };

static int rule_and_state(int type, et_error *error)
{
    et_params *params = NULL;
    et_optimizer *optimizer = NULL;
    et_state *state = NULL;
    et_metrics *metrics = NULL;
    et_optimization_options options;
    int index;
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = type;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.ema.enabled = true;
    options.ema.trainable_weights_only = false;
    et_shape shape = et_shape_2(9, 4);
    int status = et_params_new(&params, error);
    if (!status)
        status = et_params_declare(params, "w", shape, (et_init){ 0 }, &index, error);
    if (!status)
        status = et_params_declare_variable(params, "mean", shape, (et_init){ 0 }, &index, error);
    if (!status)
        status = et_params_materialize(params, true, error);
    if (!status)
        status = et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &options, error);
    if (!status)
        status = et_state_new(&state, error);
    if (!status)
        status = et_state_add_params(state, params, error);
    if (!status)
        status = et_state_add_optimizer(state, "optimizer", optimizer, error);
    if (!status)
        status = et_metrics_new(&metrics, error);
    if (!status)
        status = et_metrics_define(metrics, "loss", &et_metric_mean, error);
    if (!status)
        status = et_state_add(state, "metrics", &et_metrics_state, metrics, error);
    et_metrics_free(metrics);
    et_state_free(state);
    et_optimizer_free(optimizer);
    et_params_free(params);
    return status;
}

/* Rules with lists of names, with slots of other shapes, with scratch. */
static int parameters_and_state(const char *directory, et_error *error)
{
    static const int types[] = { ET_OPTIMIZER_ADAMW, ET_OPTIMIZER_LAMB,
                                 ET_OPTIMIZER_ADAFACTOR_KERAS, ET_OPTIMIZER_MUON };
    int status = ET_OK;
    (void)directory;
    for (size_t i = 0; !status && i < sizeof types / sizeof types[0]; i++)
        status = rule_and_state(types[i], error);
    return status;
}

/* Restores, saves, saves the best, looks for it, averages. */
static int checkpoints_with(toy *t, const char *directory, et_error *error)
{
    et_checkpoints *checkpoints = NULL;
    et_arena arena = ET_ARENA_INIT;
    char *path = NULL;
    int64_t step;
    et_checkpoint_options options = { .max_to_keep = 2 };
    int status = et_checkpoints_open(&checkpoints, directory, t->state, &options, error);
    if (!status)
        status = et_checkpoints_restore(checkpoints, &step, error);
    for (int i = 1; !status && i <= 3; i++)
        status = et_checkpoints_save(checkpoints, i, error);
    et_value *metrics = et_value_dict(&arena);
    if (!status && !metrics)
        status = ET_ENOMEM;
    if (!status)
        status = et_checkpoints_save_best(checkpoints, 3, metrics, error);
    int closed = et_checkpoints_close(checkpoints, status ? NULL : error);
    if (!status)
        status = closed;
    if (!status)
        status = et_checkpoint_newest(&path, directory, error);
    if (!status)
        status = et_checkpoint_average((const char *const[]){ path, path }, 2, false,
                                       below(directory, "average.safetensors"), NULL, error);
    et_free(path);
    et_arena_release(&arena);
    return status;
}

static int checkpoints(const char *directory, et_error *error)
{
    static toy t;
    long budget = atomic_load(&left);
    atomic_store(&left, -1);
    t = toy_new(4);
    toy_attach(&t);
    atomic_store(&left, budget);
    int status = checkpoints_with(&t, directory, error);
    toy_free(&t);
    return status;
}

/* A weight, a variable that follows it and a loss. */
static void build(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    et_init init = et_init_glorot_uniform(4, 8);
    et_node *h = et_param(scope, "h", et_shape_2(2, 4), init);
    et_node *table = et_param(scope, "table", et_shape_2(8, 4), init);
    et_node *mean = et_variable(scope, "mean", et_shape_2(2, 4), (et_init){ ET_INIT_ZEROS, 0 });
    et_moving_mean(scope, mean, et_tanh(h), 0.9f);
    et_loss(scope, "loss", et_vocabulary_loss(h, table, et_batch_input(scope, "labels"), 0.1f), 1);
}

static int data(et_task *self, bool training, et_source **out, et_error *error)
{
    static const int32_t labels[4] = { 1, 5, 0, 7 };
    const et_array arrays[] = { { "labels", ET_I32, labels, et_shape_scalar() } };
    (void)self;
    return toy_source(out, arrays, 1, 4, 2, training, error);
}

static const et_task_class task_class = { .name = "toy", .build = build, .data = data };

/* Set up and not trained. */
static int a_run(const char *directory, et_error *error)
{
    toy_run r;
    toy_run_init(&r, &task_class);
    int status = toy_run_start(&r, directory, error);
    toy_run_close(&r);
    return status;
}

static bool never(void *payload)
{
    (void)payload;
    return false;
}

/* Two steps without a controller, and an evaluation, whose plan is made when it begins. */
static int a_task(const char *directory, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    toy_run r;
    (void)directory;
    toy_run_init(&r, &task_class);
    int status = toy_run_start_trainer(&r, error);
    et_value *logs = et_value_dict(&arena);
    if (!status && !logs)
        status = ET_ENOMEM;
    et_trainer *trainer = r.trainer ? et_task_trainer_trainer(r.trainer) : NULL;
    if (!status)
        status = trainer->class->start(trainer, error);
    for (; !status && trainer->step < 2; trainer->step++)
        status = trainer->class->step(trainer, error);
    if (!status)
        status = et_evaluate(et_task_trainer_evaluator(r.trainer), 0, 0, never, NULL, logs, error);
    et_arena_release(&arena);
    toy_run_close(&r);
    return status;
}

static toy saved;

/* Averages are loaded, and an identity is found, or there is an error: never what would be there
 * without them. */
static int averages_and_identity(const char *directory, et_error *error)
{
    et_params *params = NULL;
    et_arena arena = ET_ARENA_INIT;
    et_identity identity;
    char *path = NULL;
    int index;
    int status;
    if (!(status = et_checkpoint_newest(&path, directory, error)) &&
        !(status = et_params_new(&params, error)) &&
        !(status = et_params_declare(params, "w", et_shape_2(TOY_ROWS, TOY_COLUMNS), (et_init){ 0 },
                                     &index, error)) &&
        !(status = et_params_materialize(params, false, error)) &&
        !(status = et_checkpoint_load_weights(params, path, true, NULL, error)))
        assert_memory_equal(et_params_values(params), saved.average, TOY_SIZE * sizeof(float));
    if (!status && !(status = et_identity_of_newest(&identity, directory, &arena, error)))
        assert_non_null(identity.values);
    et_free(path);
    et_params_free(params);
    et_arena_release(&arena);
    return status;
}

static void check(const char *directory, int (*work)(const char *directory, et_error *error))
{
    et_allocator_set(&failing);
    int failures = 0;
    for (long n = 1; n < 20000; n += n < 50 ? 1 : 13) {
        et_error error = ET_ERROR_INIT;
        atomic_store(&left, n);
        int status = work(directory, &error);
        bool reached = atomic_exchange(&left, -1) <= 0;
        if (status && status != ET_ENOMEM)
            fail_msg("allocation %ld: status %d, not out of memory: %s", n, status, error.text);
        failures += status == ET_ENOMEM;
        if (!status && !reached)
            break;
    }
    assert_true(failures > 10);
    et_error error = ET_ERROR_INIT;
    assert_int_equal(work(directory, &error), 0);
    et_allocator_set(NULL);
}

static void test_out_of_memory__parameters_and_state(void **state)
{
    check(*state, parameters_and_state);
}

static void test_out_of_memory__checkpoints(void **state)
{
    check(in(state, "run"), checkpoints);
}

static void test_out_of_memory__run(void **state)
{
    check(in(state, "a run"), a_run);
}

static void test_out_of_memory__evaluation(void **state)
{
    check(*state, a_task);
}

static void test_out_of_memory__averages_and_identity(void **state)
{
    const char *directory = in(state, "averaged");
    et_arena arena = ET_ARENA_INIT;
    et_value *identity = et_value_dict(&arena);
    et_checkpoints *checkpoints;
    et_value_set_int(identity, "text", 7);
    saved = toy_new(5);
    toy_attach(&saved);
    assert_ok(et_state_add_identity(saved.state, identity, error));
    assert_ok(et_checkpoints_open(&checkpoints, directory, saved.state,
                                  &(et_checkpoint_options){ 0 }, error));
    assert_ok(et_checkpoints_save(checkpoints, 5, error));
    assert_ok(et_checkpoints_close(checkpoints, error));
    check(directory, averages_and_identity);
    toy_free(&saved);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory__parameters_and_state),
        cmocka_unit_test(test_out_of_memory__checkpoints),
        cmocka_unit_test(test_out_of_memory__averages_and_identity),
        cmocka_unit_test(test_out_of_memory__run),
        cmocka_unit_test(test_out_of_memory__evaluation),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
