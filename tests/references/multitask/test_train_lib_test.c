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

typedef enum flag_mode { TRAIN, EVAL, TRAIN_AND_EVAL, MODES } flag_mode;

/* 10 steps, and five batches of each task that has no number of its own. */
static void run_experiment(const et_controller_options *options, flag_mode mode, const tasks *t)
{
    et_controller *controller;
    assert_ok(et_controller_open(&controller, options, error));
    if (mode == TRAIN)
        assert_ok(et_controller_train_to(controller, 10, false, error));
    else if (mode == EVAL)
        assert_ok(et_controller_evaluate(controller, 5, t->results, error));
    else
        assert_ok(et_controller_train_and_evaluate(controller, 10, 5, 10, t->results, error));
    assert_int_equal(et_controller_step(controller), mode == EVAL ? 0 : 10);
    assert_ok(et_controller_close(controller, error));
    assert_int_equal(
        file_is_there(below(options->run.model_dir, "checkpoints/ckpt-10.safetensors")),
        mode != EVAL);
    if (mode != TRAIN) {
        assert_true(isfinite(number_at(t->results, "foo.validation_loss")));
        assert_true(isfinite(number_at(t->results, "foo.foo_acc")));
        assert_true(isfinite(number_at(t->results, "bar.validation_loss")));
        assert_true(isfinite(number_at(t->results, "bar.bar_acc")));
    }
}

/* Here: a controller without a trainer needs a checkpoint, so evaluation alone has a trainer, too.
 */
static void test_train_lib_test__end_to_end(void **state)
{
    static const char *const rules[] = { "sgd_experimental", "sgd" };
    for (int i = 0; i < 2 * MODES; i++) {
        const flag_mode mode = i % MODES;
        char name[30];
        tasks t;
        snprintf(name, sizeof name, "%s%d", rules[i / MODES], (int)mode);
        et_controller_options options = settings_of(in(state, name));
        tasks_init(&t, ET_MULTITASK_JOINT);
        t.optimizer.rule = rules[i / MODES];
        tasks_open(&t);
        options.trainer = et_multitask_trainer(t.multitask);
        options.evaluator = mode == TRAIN ? NULL : et_multitask_evaluator(t.multitask);
        run_experiment(&options, mode, &t);
        tasks_close(&t);
    }
}

/* Here: a controller without a trainer needs a checkpoint, so evaluation alone has a trainer, too.
 */
static void test_train_lib_test__end_to_end_multi_eval(void **state)
{
    for (flag_mode mode = TRAIN; mode < MODES; mode++) {
        char name[30];
        mock foo = mock_foo();
        et_task_trainer *trainer = NULL;
        tasks t;
        snprintf(name, sizeof name, "multi%d", (int)mode);
        et_controller_options options = settings_of(in(state, name));
        tasks_init(&t, ET_MULTITASK_JOINT);
        t.bar.layer = "foo";
        t.parts[0].eval_steps = 2;
        t.parts[1].eval_steps = 3;
        t.trainer.use = ET_EVALUATE_ONLY;
        tasks_open(&t);
        const et_task_trainer_options training = { .optimizer = &t.optimizer,
                                                   .use = ET_TRAIN_ONLY };
        assert_ok(et_task_trainer_open(&trainer, &foo.task, t.device, t.params, &training, error));
        options.trainer = et_task_trainer_trainer(trainer);
        options.evaluator = mode == TRAIN ? NULL : et_multitask_evaluator(t.multitask);
        run_experiment(&options, mode, &t);
        if (mode != TRAIN)
            assert_int_equal(et_multitask_evaluator(t.multitask)->done, 2 + 3);
        et_task_trainer_close(trainer);
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
