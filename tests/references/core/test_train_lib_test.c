/* Model Garden, official/core/train_lib_test.py, with the mock task of mock.h. */
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

/* ---- losses ---- */

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

/* ---- OrbitExperimentRunner ---- */

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

/* run_experiment */
static void run(const char *mode, const char *model_dir, bool run_post_eval, et_value *logs)
{
    runner r;
    runner_open(&r, config, mode, model_dir);
    assert_ok(runner_run(&r, run_post_eval, logs, error));
    runner_close(&r);
}

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

/* Here: no function runs an experiment in a mode; a program calls its controller, as the runner
 * above. The folder of the checkpoints is their list, in place of a file "checkpoint". */
static void test_train_lib_test__end_to_end(void **state)
{
    check_modes(state, "run", run);
}

/* The runner's two steps, each with its own arguments. */
static void run_by_class(const char *mode, const char *model_dir, bool run_post_eval,
                         et_value *logs)
{
    runner r;
    runner_open(&r, config, mode, model_dir);
    assert_non_null(et_task_trainer_evaluator(r.trainer));
    const int64_t before = et_task_trainer_trainer(r.trainer)->step;
    assert_ok(runner_run(&r, run_post_eval, logs, error));
    if (!strncmp(mode, "train", 5))
        assert_int_equal(et_controller_step(r.controller), 10);
    assert_int_equal(before, 0);
    runner_close(&r);
}

/* Here: no type runs an experiment in a mode; a program calls its controller, as the runner
 * above. The folder of the checkpoints is their list, in place of a file "checkpoint". */
static void test_train_lib_test__end_to_end_class(void **state)
{
    check_modes(state, "class", run_by_class);
}

static void test_train_lib_test__recovery_nan_error(void **state)
{
    static const char *const modes[] = { "train", "train_and_eval" };
    et_task_class nan_class = mock_class;
    nan_class.build_losses = losses_of_nan;
    mock_opens = &nan_class;
    for (int i = 0; i < 2; i++) {
        runner r;
        runner_open(&r, config, modes[i], in(state, modes[i]));
        assert_fails(runner_run(&r, false, NULL, error), ET_EDIVERGED, "step 1: the loss");
        runner_close(&r);
    }
    mock_opens = &mock_class;
}

/* Differs: every loss is above the bound, and the reference returns from ten such steps as if they
 * had trained; here the second failure in a row ends the run with an error, after the one trial. */
static void test_train_lib_test__recovery(void **state)
{
    char settings[1000];
    float before[64];
    et_task_class large_class = mock_class;
    runner r;
    large_class.build_losses = losses_above_1;
    mock_opens = &large_class;
    snprintf(settings, sizeof settings,
             "%.*s, \"loss_upper_bound\": 1.0, \"recovery_max_trials\": 1}}",
             (int)strlen(config) - 2, config);
    runner_open(&r, settings, "train", in(state, "large"));
    const int bias = et_params_find(r.context.params, "dense_0/bias"); /* the last parameter */
    const size_t bytes = (size_t)(et_params_offset(r.context.params, bias) + 1) * sizeof(float);
    assert_true(bias == 1 && bytes <= sizeof before);
    memcpy(before, et_params_values(r.context.params), bytes);
    assert_fails(runner_run(&r, false, NULL, error), ET_EDIVERGED,
                 "2 times in a row; the limit is 1");
    assert_memory_equal(et_params_values(r.context.params), before, bytes);
    runner_close(&r);
    mock_opens = &mock_class;
}

static void test_train_lib_test__parse_configuration(void **state)
{
    (void)state;
    et_arena *arena = et_arena_new();
    mock_options options;
    et_settings settings = { .table = &mock_fields, .options = &options, .arena = arena };
    et_fields_defaults(&mock_fields, &options);
    et_settings_lock(&settings);
    assert_fails(et_settings_override(&settings, "{init_checkpoint: Foo}", error), ET_ECONFIG,
                 "locked");
    assert_string_equal(options.init_checkpoint, "");
    et_settings open = { .table = &mock_fields, .options = &options, .arena = arena };
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
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
