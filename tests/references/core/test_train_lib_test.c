/* Model Garden, official/core/train_lib_test.py, with the mock task of mock.h as a kind whose
 * experiment is "mock". */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <etude/modelgarden.h>
#include <etude/outer_loop.h>
#include <etude/settings.h>

#include "references/core/mock.h"

static const char config[] =
    "{\"trainer\": {\"checkpoint_interval\": 10, \"steps_per_loop\": 10, \"summary_interval\": 10, "
    "\"train_steps\": 10, \"validation_steps\": 5, \"validation_interval\": 10, "
    "\"continuous_eval_timeout\": 1, \"validation_summary_subdir\": \"validation\", "
    "\"optimizer_config\": {\"optimizer\": {\"type\": \"sgd\"}, "
    "\"learning_rate\": {\"type\": \"constant\"}}}}";

/* ---- the kind ---- */

typedef struct mock_options {
    const char *init_checkpoint;
} mock_options;

static const et_field rows[] = {
    ET_FIELD_STRING(mock_options, init_checkpoint, "", "weights to begin with"), ET_FIELD_END
};
static const et_fields fields = { "task", rows };

static int open_task(et_task **out, const et_task_class *class, et_error *error)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return et_fail(error, ET_ENOMEM, "a task");
    (*out)->class = class;
    return ET_OK;
}

static int open_mock(et_task **out, const void *options, const et_task_context *context,
                     et_error *error)
{
    (void)options, (void)context;
    return open_task(out, &mock_class, error);
}

static void losses_of_nan(et_task *self, et_scope *s, const et_nodes *labels,
                          const et_nodes *outputs, const et_nodes *aux_losses)
{
    et_node *aux = et_nodes_need(s, aux_losses, "loss");
    (void)self, (void)labels, (void)outputs;
    et_penalty(s, "loss", et_add(aux, et_sqrt(et_offset(et_abs(aux), -1e9f))), 1);
}

static void losses_above_1(et_task *self, et_scope *s, const et_nodes *labels,
                           const et_nodes *outputs, const et_nodes *aux_losses)
{
    (void)self, (void)labels, (void)outputs;
    et_penalty(s, "loss", et_offset(et_nodes_need(s, aux_losses, "loss"), 1), 1);
}

static et_task_class nan_class, large_class; /* of main */

static int open_nan(et_task **out, const void *options, const et_task_context *context,
                    et_error *error)
{
    (void)options, (void)context;
    return open_task(out, &nan_class, error);
}

static int open_large(et_task **out, const void *options, const et_task_context *context,
                      et_error *error)
{
    (void)options, (void)context;
    return open_task(out, &large_class, error);
}

static void close_mock(et_task *task)
{
    free(task);
}

static const et_experiment_row experiments[] = { { "mock", "the mock task", NULL },
                                                 { NULL, NULL, NULL } };
#define KIND(open_)                                                                                \
    {                                                                                              \
        .name = "mock", .fields = &fields, .size = sizeof(mock_options),                           \
        .experiments = experiments, .open = (open_), .close = close_mock                           \
    }
static const et_task_kind mock_kind = KIND(open_mock);
static const et_task_kind nan_kind = KIND(open_nan);
static const et_task_kind large_kind = KIND(open_large);

/* ---- OrbitExperimentRunner ---- */

typedef struct runner {
    const char *mode;
    et_task_context context;
    et_task *task;
    et_task_trainer *trainer;
    et_outer_loop_options outer;
    et_controller_options config; /* of the settings */
    et_controller *controller;
} runner;

static void runner_open(runner *r, const et_task_kind *kind, const char *settings, const char *mode,
                        const char *model_dir)
{
    const bool trains = strstr(mode, "train");
    *r = (runner){ .mode = mode, .context.model_dir = model_dir };
    assert_ok(et_device_open(&r->context.device, error));
    assert_ok(et_params_new(&r->context.params, error));
    assert_ok(et_task_open(&r->task, kind, "mock", settings, &r->context, error));
    et_task_trainer_options options = *et_task_trainer_config(r->task);
    options.use = trains ? ET_TRAIN_AND_EVALUATE : ET_EVALUATE_ONLY;
    assert_ok(et_task_trainer_open(&r->trainer, r->task, r->context.device, r->context.params,
                                   &options, error));
    assert_ok(et_task_controller_config(r->task, r->trainer, &r->config, error));
    et_controller_options calls = r->config;
    calls.outer_loop = &r->outer;
    calls.validation_interval = calls.validation_steps = 0;
    if (!strcmp(mode, "continuous_eval")) {
        calls.trainer = NULL;
        r->outer.weights = r->context.params;
    }
    assert_ok(et_controller_open(&r->controller, &calls, error));
}

static bool is_trained(void *payload, int64_t step)
{
    return step >= ((const runner *)payload)->config.train_steps;
}

static int runner_run(runner *r, bool run_post_eval, et_value *logs, et_error *error)
{
    const et_controller_options *o = &r->config;
    et_arena *arena = et_arena_new();
    et_value *dropped = et_value_dict(arena);
    int status = ET_OK;
    if (!strcmp(r->mode, "train"))
        status = et_controller_train_to(r->controller, o->train_steps, false, error);
    else if (!strcmp(r->mode, "train_and_eval"))
        status =
            et_controller_train_and_evaluate(r->controller, o->train_steps, o->validation_steps,
                                             o->validation_interval, dropped, error);
    else if (!strcmp(r->mode, "eval"))
        status = et_controller_evaluate(r->controller, o->validation_steps, dropped, error);
    else
        status = et_controller_evaluate_continuously(r->controller, o->validation_steps, 1,
                                                     is_trained, r, dropped, error);
    if (!status && run_post_eval)
        status = et_controller_evaluate(r->controller, o->validation_steps, logs, error);
    et_arena_free(arena);
    return status;
}

static void runner_close(runner *r)
{
    et_controller_close(r->controller, NULL);
    et_task_trainer_close(r->trainer);
    et_task_close(r->task);
    et_params_free(r->context.params);
    et_device_close(r->context.device);
}

/* run_experiment */
static void run(const char *mode, const char *model_dir, bool run_post_eval, et_value *logs)
{
    runner r;
    runner_open(&r, &mock_kind, config, mode, model_dir);
    assert_ok(runner_run(&r, run_post_eval, logs, error));
    runner_close(&r);
}

/* The list of checkpoints is TensorFlow's file "checkpoint"; here they have a folder. */
static void check_modes(void **state, const char *name,
                        void (*run_one)(const char *mode, const char *model_dir, bool run_post_eval,
                                        et_value *logs))
{
    static const char *const modes[] = { "train", "eval", "train_and_eval" };
    for (int i = 0; i < 6; i++) {
        const char *mode = modes[i / 2];
        const bool run_post_eval = i % 2;
        char model_dir[500];
        et_arena *arena = et_arena_new();
        et_value *logs = et_value_dict(arena);
        snprintf(model_dir, sizeof model_dir, "%s-%d", in(state, name), i);
        run_one(mode, model_dir, run_post_eval, logs);
        if (strstr(mode, "eval"))
            assert_true(file_is_there(below(model_dir, "validation")));
        assert_true((et_value_get(logs, "validation_loss") != NULL) == run_post_eval);
        assert_true(logs->count > 0 ? run_post_eval : !run_post_eval);
        assert_true(file_is_there(below(model_dir, "params.yaml")));
        if (strcmp(mode, "eval")) {
            assert_true(file_is_there(below(model_dir, "checkpoints/ckpt-10.safetensors")));
            run_one("continuous_eval", model_dir, run_post_eval, logs);
        }
        et_arena_free(arena);
    }
}

static void test_train_lib_test__end_to_end(void **state)
{
    check_modes(state, "run", run);
}

/* The runner's two steps, each with its own arguments. */
static void run_by_class(const char *mode, const char *model_dir, bool run_post_eval,
                         et_value *logs)
{
    runner r;
    runner_open(&r, &mock_kind, config, mode, model_dir);
    assert_non_null(et_task_trainer_evaluator(r.trainer));
    const int64_t before = et_task_trainer_trainer(r.trainer)->step;
    assert_ok(runner_run(&r, run_post_eval, logs, error));
    if (!strncmp(mode, "train", 5))
        assert_int_equal(et_controller_step(r.controller), 10);
    assert_int_equal(before, 0);
    runner_close(&r);
}

static void test_train_lib_test__end_to_end_class(void **state)
{
    check_modes(state, "class", run_by_class);
}

static void test_train_lib_test__recovery_nan_error(void **state)
{
    static const char *const modes[] = { "train", "train_and_eval" };
    for (int i = 0; i < 2; i++) {
        runner r;
        runner_open(&r, &nan_kind, config, modes[i], in(state, modes[i]));
        assert_fails(runner_run(&r, false, NULL, error), ET_EDIVERGED, "step 1: the loss");
        runner_close(&r);
    }
}

/* Differs: every loss is above the bound, and the reference returns from ten such steps as if they
 * had trained; here the second failure in a row ends the run with an error, after the one trial. */
static void test_train_lib_test__recovery(void **state)
{
    char settings[1000];
    float before[64];
    runner r;
    snprintf(settings, sizeof settings,
             "%.*s, \"loss_upper_bound\": 1.0, \"recovery_max_trials\": 1}}",
             (int)strlen(config) - 2, config);
    runner_open(&r, &large_kind, settings, "train", in(state, "large"));
    const int bias = et_params_find(r.context.params, "dense_0/bias"); /* the last parameter */
    const size_t bytes = (size_t)(et_params_offset(r.context.params, bias) + 1) * sizeof(float);
    assert_true(bias == 1 && bytes <= sizeof before);
    memcpy(before, et_params_values(r.context.params), bytes);
    assert_fails(runner_run(&r, false, NULL, error), ET_EDIVERGED,
                 "2 times in a row; the limit is 1");
    assert_memory_equal(et_params_values(r.context.params), before, bytes);
    runner_close(&r);
}

static void test_train_lib_test__parse_configuration(void **state)
{
    (void)state;
    et_arena *arena = et_arena_new();
    mock_options options;
    et_settings settings = { .table = &fields, .options = &options, .arena = arena };
    et_fields_defaults(&fields, &options);
    et_settings_lock(&settings);
    assert_fails(et_settings_override(&settings, "{init_checkpoint: Foo}", error), ET_ECONFIG,
                 "locked");
    assert_string_equal(options.init_checkpoint, "");
    et_settings open = { .table = &fields, .options = &options, .arena = arena };
    assert_ok(et_settings_override(&open, "{init_checkpoint: Bar}", error));
    assert_string_equal(options.init_checkpoint, "Bar");
    et_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_lib_test__end_to_end),
        cmocka_unit_test(test_train_lib_test__end_to_end_class),
        cmocka_unit_test(test_train_lib_test__recovery_nan_error),
        cmocka_unit_test(test_train_lib_test__recovery),
        cmocka_unit_test(test_train_lib_test__parse_configuration),
    };
    nan_class = large_class = mock_class;
    nan_class.build_losses = losses_of_nan;
    large_class.build_losses = losses_above_1;
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
