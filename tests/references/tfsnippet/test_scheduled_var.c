/* TFSnippet, tests/scaffold/test_scheduled_var.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/annealing.h>
#include <etude/checkpoint.h>

#include "formats/files.h"

static et_params *open_store(const char *const *names, int count)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < count; i++)
        assert_ok(
            et_params_declare_variable(params, names[i], et_shape_scalar(), zeros, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    return params;
}

static void test_scheduled_var__scheduled_variable(void **state)
{
    static const char *const name = "v";
    const char *directory = in(state, "saved_var");
    et_params *params = open_store(&name, 1);
    et_scheduled_variable v;
    et_state *tree;
    et_checkpoints *saver;
    int64_t step;
    assert_ok(et_scheduled_variable_init(&v, params, "v", 123, error));
    assert_false(et_params_is_trained(params, et_params_find(params, "v")));
    assert_true(et_scheduled_variable_get(&v) == 123);
    et_scheduled_variable_set(&v, 456);
    assert_true(et_scheduled_variable_get(&v) == 456);
    assert_ok(et_state_new(&tree, error));
    assert_ok(et_state_add_params(tree, params, error));
    assert_ok(et_checkpoints_open(&saver, directory, tree, NULL, error));
    assert_ok(et_checkpoints_save(saver, 0, error));
    assert_ok(et_checkpoints_wait(saver, error));
    et_scheduled_variable_set(&v, 0);
    assert_ok(et_checkpoints_restore(saver, &step, error));
    assert_true(et_scheduled_variable_get(&v) == 456);
    et_scheduled_variable_set(&v, 789);
    assert_true(et_scheduled_variable_get(&v) == 789);
    assert_ok(et_checkpoints_close(saver, error));
    et_state_free(tree);
    et_params_free(params);
}

static void test_scheduled_var__annealing_dynamic_value(void **state)
{
    (void)state;
    static const char *const names[] = { "v", "v2", "v3" };
    et_params *params = open_store(names, 3);
    et_annealing_variable v;
    assert_ok(et_annealing_variable_init(&v, params, "v", 1, 2, -INFINITY, error));
    assert_true(et_scheduled_variable_get(&v.variable) == 1);
    et_annealing_variable_anneal(&v);
    assert_true(et_scheduled_variable_get(&v.variable) == 2);
    et_annealing_variable_anneal(&v);
    assert_true(et_scheduled_variable_get(&v.variable) == 4);
    et_scheduled_variable_set(&v.variable, 2);
    assert_true(et_scheduled_variable_get(&v.variable) == 2);
    et_annealing_variable_anneal(&v);
    assert_true(et_scheduled_variable_get(&v.variable) == 4);
    assert_ok(et_annealing_variable_init(&v, params, "v2", 1, .5, 2, error));
    assert_true(et_scheduled_variable_get(&v.variable) == 2);
    assert_ok(et_annealing_variable_init(&v, params, "v3", 1, .5, .5, error));
    assert_true(et_scheduled_variable_get(&v.variable) == 1);
    for (int i = 0; i < 2; i++) {
        et_annealing_variable_anneal(&v);
        assert_true(et_scheduled_variable_get(&v.variable) == .5);
    }
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scheduled_var__scheduled_variable),
        cmocka_unit_test(test_scheduled_var__annealing_dynamic_value),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
