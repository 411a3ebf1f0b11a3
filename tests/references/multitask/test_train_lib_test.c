/* Model Garden, official/modeling/multitask/train_lib_test.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>

#include "references/multitask/tasks.h"

#include "formats/files.h"

/* The case's settings. */
static et_controller_options settings_of(const char *model_dir)
{
    static const et_outer_loop_options outer;
    return (et_controller_options){ .run.model_dir = model_dir,
                                    .outer_loop = &outer,
                                    .steps_per_loop = 10,
                                    .summary_interval = 10,
                                    .checkpoint_interval = 10 };
}

/* Trains 10 steps, and evaluates five batches of each task: apart, or together. */
static void test_train_lib_test__end_to_end(void **state)
{
    static const char *const rules[] = { "sgd_experimental", "sgd" };
    enum { TRAIN, EVAL, TRAIN_AND_EVAL };
    for (int i = 0; i < 6; i++) {
        const int mode = i % 3;
        char name[30];
        et_controller *controller;
        tasks t;
        snprintf(name, sizeof name, "%s%d", rules[i / 3], mode);
        et_controller_options options = settings_of(in(state, name));
        tasks_init(&t, ET_MULTITASK_JOINT);
        t.optimizer.rule = rules[i / 3];
        tasks_open(&t);
        options.trainer = et_multitask_trainer(t.multitask);
        options.evaluator = mode == TRAIN ? NULL : et_multitask_evaluator(t.multitask);
        assert_ok(et_controller_open(&controller, &options, error));
        if (mode == TRAIN)
            assert_ok(et_controller_train_to(controller, 10, false, error));
        else if (mode == EVAL)
            assert_ok(et_controller_evaluate(controller, 5, t.results, error));
        else
            assert_ok(et_controller_train_and_evaluate(controller, 10, 5, 10, t.results, error));
        assert_int_equal(et_controller_step(controller), mode == EVAL ? 0 : 10);
        assert_ok(et_controller_close(controller, error));
        assert_int_equal(file_is_there(below(in(state, name), "checkpoints/ckpt-10.safetensors")),
                         mode != EVAL);
        if (mode != TRAIN) {
            assert_true(isfinite(number_at(t.results, "foo.validation_loss")));
            assert_true(isfinite(number_at(t.results, "bar.bar_acc")));
        }
        tasks_close(&t);
    }
}

/* foo trains; foo and bar, with foo's model, are evaluated on two and three batches. */
static void test_train_lib_test__end_to_end_multi_eval(void **state)
{
    for (int train = 0; train < 2; train++) {
        const char *run = in(state, train ? "multi1" : "multi0");
        et_controller_options options = settings_of(run);
        et_controller *controller;
        tasks t;
        tasks_init(&t, ET_MULTITASK_JOINT);
        t.bar.layer = "foo";
        t.parts[0].eval_steps = 2;
        t.parts[1].eval_steps = 3;
        t.trainer.use = ET_EVALUATE_ONLY;
        tasks_open(&t);
        if (train) {
            const et_task_trainer_options training = { .optimizer = &t.optimizer,
                                                       .use = ET_TRAIN_ONLY };
            const et_outer_loop_options restored = { .weights = t.params };
            mock foo = mock_foo();
            et_params *params;
            et_task_trainer *trainer;
            assert_ok(et_params_new(&params, error));
            assert_ok(
                et_task_trainer_open(&trainer, &foo.task, t.device, params, &training, error));
            options.trainer = et_task_trainer_trainer(trainer);
            assert_ok(et_controller_open(&controller, &options, error));
            assert_ok(et_controller_train_to(controller, 10, false, error));
            assert_ok(et_controller_close(controller, error));
            options.trainer = NULL;
            options.evaluator = et_multitask_evaluator(t.multitask);
            options.outer_loop = &restored;
            assert_ok(et_controller_open(&controller, &options, error));
            assert_ok(et_controller_evaluate(controller, 5, t.results, error));
            assert_int_equal(et_controller_step(controller), 10);
            assert_ok(et_controller_close(controller, error));
            assert_memory_equal(et_params_values(params), et_params_values(t.params),
                                (size_t)et_params_elements(params) * sizeof(float));
            et_task_trainer_close(trainer);
            et_params_free(params);
        } else {
            assert_ok(et_evaluate(et_multitask_evaluator(t.multitask), 0, 5, NULL, NULL, t.results,
                                  error));
        }
        assert_int_equal(et_multitask_evaluator(t.multitask)->done, 2 + 3);
        assert_true(isfinite(number_at(t.results, "foo.validation_loss")));
        assert_true(isfinite(number_at(t.results, "bar.bar_acc")));
        tasks_close(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_lib_test__end_to_end),
        cmocka_unit_test(test_train_lib_test__end_to_end_multi_eval),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
