/* Which model a job leaves. */
#include "tasks/tabular/jobs.h"

/* The best of sessions that evaluated is not the model of one that does not. */
static void test_model_trainer_model__without_eval_any_more(void **state)
{
    fixture *f = *state;
    et_predictor_close(trained(f, ARGS(SETTINGS, "--max-steps", "100")));
    et_data_set_close(f->dataset);
    f->dataset = open_points(POINTS_FEATURES, 1);
    et_predictor *p = trained(f, ARGS(SETTINGS, "--max-steps", "200"));
    assert_int_equal(et_predictor_step(p), 200);
    et_predictor_close(p);
}

#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(test_model_trainer_model__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_eval_any_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
