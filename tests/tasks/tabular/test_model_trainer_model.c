/* Which model a job leaves. */
#include "tasks/tabular/jobs.h"

/* The best of sessions that evaluated is not the model of one that does not. */
static void test_model_trainer_model__without_eval_any_more(void **state)
{
    fixture *f = *state;
    et_predictor_close(trained(f, ARGS(SETTINGS, "--max-steps", "100")));
    et_table_set_close(f->dataset);
    f->dataset = open_points(POINTS_FEATURES, 1);
    et_predictor *p = trained(f, ARGS(SETTINGS, "--max-steps", "200"));
    assert_int_equal(et_predictor_facts(p)->step, 200);
    et_predictor_close(p);
}

/* What a program keeps in the model's folder would go with it: told before the first step. */
static void test_model_trainer_model__foreign_file(void **state)
{
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    char path[128];
    et_predictor_close(trained(f, ARGS(SETTINGS, "--max-steps", "20")));
    put_file(f, "model/keep.txt");
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS(SETTINGS, "--max-steps", "40"), &status, &error);
    assert_int_equal(status, ET_ECONFIG);
    assert_contains(error.text, "/model/keep.txt is not a file of a model");
    assert_null(strstr(f->lines, "Global steps"));
    assert_true(is_there(f, "model/model.safetensors"));
    snprintf(path, sizeof path, "%s/model.old", f->output);
    assert_int_equal(mkdir(path, 0777), 0);
    put_file(f, "model.old/keep.txt");
    snprintf(path, sizeof path, "%s/model/keep.txt", f->output);
    unlink(path);
    train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class,
          ARGS(SETTINGS, "--max-steps", "40"), &status, &error);
    assert_int_equal(status, ET_ECONFIG);
    assert_contains(error.text, "/model.old/keep.txt is not a file of a model");
}

/* Sides the other way round: what was best of the first rows is none of these, and any value is a
 * new best. */
static void test_model_trainer_model__other_evaluation(void **state)
{
    fixture *f = *state;
    et_predictor *p = trained(f, ARGS(SETTINGS, "--max-steps", "400"));
    const int64_t before = et_predictor_facts(p)->step;
    et_predictor_close(p);
    et_table_set_close(f->dataset);
    f->dataset = open_points(POINTS_FEATURES, 2);
    for (int i = POINTS - POINTS_EVAL; i < POINTS; i++)
        points_side[i] = !strcmp(points_side[i], "above") ? "below" : "above";
    p = trained(f, ARGS(SETTINGS, "--max-steps", "500"));
    assert_true(before <= 400 && et_predictor_facts(p)->step > 400);
    et_predictor_close(p);
}

/* A metric that is the same of any model. */
static void evaluate_blindly(et_model_builder *self, et_scope *s, const et_nodes *inputs,
                             const et_nodes *outputs, et_builder_evaluation *out)
{
    et_classification_builder.build_evaluation(self, s, inputs, outputs, out);
    out->total = out->weight;
}

static void test_model_trainer_model__equal_evaluations(void **state)
{
    static const et_model_builder_class blind = { .name = "blind",
                                                  .base = &et_feed_forward_builder,
                                                  .build_evaluation = evaluate_blindly };
    fixture *f = *state;
    et_error error = ET_ERROR_INIT;
    int status;
    et_predictor *p = train(f, &blind, &et_feed_forward_arguments_class,
                            ARGS(SETTINGS, "--max-steps", "400"), &status, &error);
    ok(status, &error);
    assert_int_equal(et_predictor_facts(p)->step, 400); /* of the lowest loss */
    et_predictor_close(p);
}

#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(test_model_trainer_model__##name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(without_eval_any_more),
        CASE(foreign_file),
        CASE(other_evaluation),
        CASE(equal_evaluations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
