#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "systems/tfsnippet/loop_private.h"
#include "systems/tfsnippet/trainer_fixture.h"

static void test_scalar__mistakes(void **state)
{
    (void)state;
    const et_annealing_scalar_options no_number = { .initial_value = NAN,
                                                    .ratio = 0.5,
                                                    .steps = 1 };
    et_loop loop = { .at = { 0 } };
    et_annealing_scalar scalar;
    assert_fails(et_annealing_scalar_init(&scalar, &loop, &no_number, error), ET_ECONFIG, "finite");
    assert_fails(et_annealing_scalar_init(&scalar, &loop, NULL, error), ET_EUSAGE,
                 "et_annealing_scalar_options: NULL");
}

static et_params *open_store(bool shadow)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    et_params *params = NULL;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "kernel", et_shape_2(3, 3), zeros, &index, error));
    assert_ok(et_params_declare_variable(params, "rate", et_shape_scalar(), zeros, &index, error));
    assert_ok(et_params_declare_variable(params, "means", et_shape_1(4), zeros, &index, error));
    assert_ok(et_params_materialize(params, shadow, error));
    return params;
}

static void test_variable__anneals(void **state)
{
    (void)state;
    et_params *params = open_store(true);
    et_annealing_variable v;
    assert_int_equal(et_annealing_variable_init(&v, params, "rate", NAN, 0.5, 0.25, NULL),
                     ET_ECONFIG);
    assert_ok(et_annealing_variable_init(&v, params, "rate", 1, 0.5, 2, error));
    assert_true(et_scheduled_variable_get(&v.variable) == 2);
    assert_ok(et_annealing_variable_init(&v, params, "rate", 1, 0.5, 0.25, error));
    static const double expected[] = { 1, 0.5, 0.25, 0.25 };
    for (int i = 0; i < 4; i++) {
        assert_true(et_scheduled_variable_get(&v.variable) == expected[i]);
        et_annealing_variable_anneal(&v);
    }
    v.minimum = -INFINITY;
    v.ratio = 0.1;
    uint64_t version = et_params_version(params);
    et_annealing_variable_anneal(&v);
    assert_true(et_params_version(params) > version);
    assert_true((float)et_scheduled_variable_get(&v.variable) == 0.25f * 0.1f);
    int64_t at = et_params_offset(params, v.variable.index);
    assert_int_equal(et_params_shadow(params)[at], et_bf16_from_float(0.25f * 0.1f));
    et_scheduled_variable_set(&v.variable, 2);
    et_dynamic dynamic = et_scheduled_variable_dynamic(&v.variable);
    assert_true(et_dynamic_get(&dynamic) == 2);
    et_params_free(params);
}

static void test_variable__mistakes(void **state)
{
    (void)state;
    et_params *params = open_store(false), *empty = NULL;
    et_scheduled_variable v;
    et_annealing_variable a;
    assert_fails(et_scheduled_variable_init(&v, params, "none", 1, error), ET_ECONFIG,
                 "the store has no variable none");
    assert_fails(et_scheduled_variable_init(&v, params, NULL, 1, error), ET_ECONFIG,
                 "without a name");
    assert_fails(et_scheduled_variable_init(&v, params, "kernel", 1, error), ET_ECONFIG,
                 "only a parameter of this name");
    assert_fails(et_scheduled_variable_init(&v, params, "means", 1, error), ET_ECONFIG,
                 "means is [4]");
    assert_fails(et_scheduled_variable_init(&v, params, "rate", 1e300, error), ET_ECONFIG,
                 "finite");
    assert_fails(et_annealing_variable_init(&a, params, "rate", 1, NAN, 0, error), ET_ECONFIG,
                 "numbers");
    assert_ok(et_params_new(&empty, error));
    assert_fails(et_scheduled_variable_init(&v, empty, "rate", 1, error), ET_ECONFIG, "no memory");
    et_params_free(params);
    et_params_free(empty);
}

/* ---- bound_values ---- */

static double count_up(void *payload)
{
    return ++*(double *)payload;
}

/* Each is requested every time; the old values are restored. */
static void test_bound_values__puts_and_takes_back(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    double counted = 0;
    et_bound_values bound;
    const et_bound_value bound_values[] = {
        { .variable = "weight", .value = { .get = count_up, .payload = &counted } },
        { .optimizer = w.optimizer, .value = { .constant = 0.5 } },
    };
    et_scheduled_variable weight;
    assert_ok(et_scheduled_variable_init(&weight, w.params, "weight", 7, error));
    assert_ok(et_bound_values_init(&bound, w.params, bound_values, 2, error));
    et_bound_values_keep(&bound);
    for (int i = 1; i < 4; i++) {
        assert_ok(et_bound_values_apply(&bound, error));
        assert_true(et_scheduled_variable_get(&weight) == i);
        assert_true(et_optimizer_learning_rate(w.optimizer) == 0.5);
    }
    et_bound_values_put_back(&bound);
    assert_true(et_scheduled_variable_get(&weight) == 7);
    assert_true(et_optimizer_learning_rate(w.optimizer) == 0.01);
    et_bound_values_release(&bound);
    const et_bound_value same[] = { { .variable = "weight", .value = { .constant = 7 } } };
    uint64_t version = et_params_version(w.params);
    assert_ok(et_bound_values_init(&bound, w.params, same, 1, error));
    assert_ok(et_bound_values_apply(&bound, error));
    assert_int_equal(et_params_version(w.params), version);
    et_bound_values_release(&bound);
    world_close(&w);
}

static void test_bound_values__mistakes(void **state)
{
    (void)state;
    world w;
    world_open(&w);
    et_bound_values bound;
    const et_bound_value nowhere = { .value = { .constant = 1 } };
    const et_bound_value both = { .variable = "weight", .optimizer = w.optimizer };
    const et_bound_value none = { .variable = "none" };
    const et_bound_value rate = { .optimizer = w.optimizer, .value = { .constant = -1 } };
    const et_bound_value wrong = { .optimizer = w.optimizer, .value = { .constant = NAN } };
    assert_fails(et_bound_values_init(&bound, w.params, &nowhere, 1, error), ET_ECONFIG,
                 "bound value 0");
    assert_fails(et_bound_values_init(&bound, w.params, &both, 1, error), ET_ECONFIG,
                 "bound value 0");
    assert_fails(et_bound_values_init(&bound, w.params, &none, 1, error), ET_ECONFIG,
                 "variable none");
    assert_ok(et_bound_values_init(&bound, w.params, &rate, 1, error));
    assert_fails(et_bound_values_apply(&bound, error), ET_ECONFIG, "learning rate -1");
    et_bound_values_release(&bound);
    assert_ok(et_bound_values_init(&bound, w.params, &wrong, 1, error));
    assert_fails(et_bound_values_apply(&bound, error), ET_ECONFIG,
                 "nan is not a learning rate; give a finite number of at least 0");
    et_bound_values_release(&bound);
    assert_fails(et_optimizer_set_learning_rate(w.optimizer, INFINITY, error), ET_ECONFIG,
                 "learning rate inf");
    assert_ok(et_optimizer_set_learning_rate(w.optimizer, 0.25, error));
    assert_true(et_optimizer_learning_rate(w.optimizer) == 0.25);
    assert_ok(et_optimizer_set_learning_rate(w.optimizer, NAN, error));
    assert_true(et_optimizer_learning_rate(w.optimizer) == 0.01);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar__mistakes),
        cmocka_unit_test(test_variable__anneals),
        cmocka_unit_test(test_variable__mistakes),
        cmocka_unit_test(test_bound_values__puts_and_takes_back),
        cmocka_unit_test(test_bound_values__mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
