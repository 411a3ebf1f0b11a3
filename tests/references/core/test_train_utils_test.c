/* Model Garden, official/core/train_utils_test.py. The best checkpoint is that of a run: best/ has
 * its weights and info.json. */
#include "references/hyperparams/settings_of.h"

#include <etude/layers.h>
#include <etude/module.h>
#include <etude/outer_loop.h>
#include <etude/run_files.h>

#include "formats/files.h"

/* ---- dicts ---- */

static void assert_no_leaf(const char *text, const char *path, const char *said)
{
    et_error error = ET_ERROR_INIT;
    assert_null(et_value_leaf(settings_of(text).extra, path, &error));
    assert_int_equal(error.status, ET_EFORMAT);
    assert_non_null(strstr(error.text, said));
}

static void test_train_utils_test__get_leaf_nested_dict(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    const et_settings d = settings_of("{a: {i: {x: 5}}}");
    assert_int_equal(et_value_leaf(d.extra, "a.i.x", &error)->integer, 5);
}

static void test_train_utils_test__get_leaf_nested_dict_not_leaf(void **state)
{
    (void)state;
    assert_no_leaf("{a: {i: {x: 5}}}", "a.i", "a.i is a group, not a value; name one of: x");
}

static void test_train_utils_test__get_leaf_nested_dict_path_not_exist_missing_key(void **state)
{
    (void)state;
    assert_no_leaf("{a: {i: {x: 5}}}", "a.i.y", "no value has the path a.i.y; a.i has: x");
}

static void test_train_utils_test__get_leaf_nested_dict_path_not_exist_out_of_range(void **state)
{
    (void)state;
    assert_no_leaf("{a: {i: {x: 5}}}", "a.i.z", "no value has the path a.i.z");
}

static void test_train_utils_test__get_leaf_nested_dict_path_not_exist_meets_leaf(void **state)
{
    (void)state;
    assert_no_leaf("{a: {i: 5}}", "a.i.z", "no value has the path a.i.z; a.i is an integer");
}

/* int() of Python. */
static int to_integer(void *payload, et_value *leaf, et_error *error)
{
    (void)payload, (void)error;
    const int64_t integer = leaf->kind == ET_VALUE_STRING  ? strtoll(leaf->string, NULL, 10)
                            : leaf->kind == ET_VALUE_FLOAT ? (int64_t)leaf->real
                                                           : leaf->integer;
    leaf->kind = ET_VALUE_INT;
    leaf->integer = integer;
    return ET_OK;
}

static void test_train_utils_test__cast_leaf_nested_dict(void **state)
{
    (void)state;
    const et_settings d = settings_of("{a: {i: {x: '123'}}, b: 456.5}");
    assert_ok(et_value_each_leaf(d.extra, to_integer, NULL, error));
    assert_settings(&d, "{a: {i: {x: 123}}, b: 456}");
}

/* ---- lists of parameters ---- */

static void assert_file(const char *path, const char *expected)
{
    char text[500] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(text, 1, sizeof text - 1, file);
    fclose(file);
    assert_string_equal(text, expected);
}

static int declare(et_params *params, const char *name, et_shape shape)
{
    int index;
    assert_ok(et_params_declare(params, name, shape, (et_init){ ET_INIT_ZEROS, 0 }, &index, error));
    return index;
}

static void test_train_utils_test__write_model_params_keras_model(void **state)
{
    (void)state;
    et_params *params;
    assert_ok(et_params_new(&params, error));
    declare(params, "fake_keras_model/dense/kernel:0", et_shape_2(3, 4));
    declare(params, "fake_keras_model/dense/bias:0", et_shape_1(4));
    declare(params, "fake_keras_model/dense_1/kernel:0", et_shape_2(4, 4));
    declare(params, "fake_keras_model/dense_1/bias:0", et_shape_1(4));
    assert_ok(et_run_files_write_params("train_utils-keras.txt", params, error));
    assert_file("train_utils-keras.txt", "fake_keras_model/dense/kernel:0 [3, 4]\n"
                                         "fake_keras_model/dense/bias:0 [4]\n"
                                         "fake_keras_model/dense_1/kernel:0 [4, 4]\n"
                                         "fake_keras_model/dense_1/bias:0 [4]\n"
                                         "\nTotal params: 36\n");
    et_params_free(params);
}

static void test_train_utils_test__write_model_params_module(void **state)
{
    (void)state;
    static const char *const names[] = { "dense", "dense_1" };
    const int64_t inputs[] = { 3, 4 };
    et_params *params;
    et_module *model, *dense[2];
    const et_module_variable *variables;
    size_t count;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_module_new(&model, "FakeModule", "fake_module", NULL, error));
    for (int i = 0; i < 2; i++) {
        char w[64], b[64];
        assert_ok(et_module_new(&dense[i], "Dense", names[i], model, error));
        snprintf(w, sizeof w, "%s/w:0", et_module_scope_name(dense[i]));
        snprintf(b, sizeof b, "%s/b:0", et_module_scope_name(dense[i]));
        const int weights = declare(params, w, et_shape_2(inputs[i], 4));
        const int bias = declare(params, b, et_shape_1(4));
        assert_ok(et_module_add_param(dense[i], "w", params, weights, error));
        assert_ok(et_module_add_param(dense[i], "b", params, bias, error));
        assert_ok(et_module_add_module(model, i ? "dense2" : "dense", dense[i], error));
    }
    assert_ok(et_module_trainable_variables(model, &variables, &count, error));
    assert_ok(et_run_files_write_variables("train_utils-module.txt", variables, count, error));
    assert_file("train_utils-module.txt", "fake_module/dense/b:0 [4]\n"
                                          "fake_module/dense/w:0 [3, 4]\n"
                                          "fake_module/dense_1/b:0 [4]\n"
                                          "fake_module/dense_1/w:0 [4, 4]\n"
                                          "\nTotal params: 36\n");
    et_module_free(model);
    et_module_free(dense[0]);
    et_module_free(dense[1]);
    et_params_free(params);
}

/* ---- settings ---- */

/* The settings of the experiment, the flag --tpu, and --params_override. */
static et_settings parse(void)
{
    et_settings params = settings_of("{runtime: {tpu: fake}, task: {model: {model_id: bar}}, "
                                     "trainer: {train_steps: -1, validation_steps: -1}}");
    params.strict = true;
    assert_ok(et_settings_override(&params, "{runtime: {tpu: bar}}", error));
    assert_ok(et_settings_override(&params,
                                   "task.model.model_id=new,trainer.train_steps=10,"
                                   "trainer.validation_steps=11",
                                   error));
    return params;
}

static void test_train_utils_test__construct_experiment_from_flags(void **state)
{
    (void)state;
    const et_settings params = parse();
    et_settings locked = parse();
    et_settings_lock(&locked);
    assert_true(is_same(et_settings_dict(&params, arena), et_settings_dict(&locked, arena)));
    assert_settings(&locked, "{runtime: {tpu: bar}, task: {model: {model_id: new}}, "
                             "trainer: {train_steps: 10, validation_steps: 11}}");
}

/* ---- the best checkpoint ---- */

#define EVERY 100 /* steps between evaluations */

/* A variable v, and the metric of it: in each period of EVERY steps those of the row. */
typedef struct scored {
    et_trainer trainer;
    et_evaluator evaluator;
    float v;
    const float *values;   /* [periods] */
    const double *metrics; /* [periods] */
    bool image;            /* among the results */
} scored;

static int attach(et_trainer *self, et_state *state, et_error *error)
{
    return et_state_add_tensor(state, "v", &((scored *)(void *)self)->v, et_shape_1(1), error);
}

static int train(et_trainer *self, int64_t num_steps, et_value *logs, et_error *error)
{
    scored *s = (scored *)(void *)self;
    (void)logs, (void)error;
    self->step += num_steps;
    s->v = s->values[self->step / EVERY - 1];
    return ET_OK;
}

static int no_step(et_evaluator *self, bool *more, et_error *error)
{
    (void)self, (void)error;
    *more = false;
    return ET_OK;
}

static int add_results(et_evaluator *self, et_value *logs, et_error *error)
{
    const scored *s = (const scored *)(void *)((char *)self - offsetof(scored, evaluator));
    et_value *group = et_value_set_dict(logs, "test_metric");
    (void)error;
    et_value_set_float(group, "metric_1", s->metrics[s->trainer.step / EVERY - 1]);
    et_value *image = s->image ? et_value_set_list(group, "image") : NULL;
    for (int i = 0; image && i < 16 * 8; i++)
        et_value_add_float(image, 0);
    return ET_OK;
}

static const et_trainer_class trainer_class = { .name = "scored",
                                                .attach = attach,
                                                .train = train };
static const et_evaluator_class evaluator_class = { .name = "validation",
                                                    .step = no_step,
                                                    .end = add_results };

/* v in the best checkpoint; *step: of it. */
static float best_of(const char *directory, int64_t *step)
{
    et_params *params;
    char *path;
    et_checkpoint_facts facts = { NULL, 0, NULL };
    assert_ok(et_params_new(&params, error));
    declare(params, "v", et_shape_1(1));
    assert_ok(et_params_materialize(params, false, error));
    assert_ok(et_checkpoint_load(&path, params, directory, "best", false, &facts, error));
    const float v = et_params_values(params)[0];
    *step = facts.step;
    et_checkpoint_free_path(path);
    et_params_free(params);
    return v;
}

/* Trains and evaluates `periods` times; expected: v of the best checkpoint after each. */
static void run(const char *directory, scored *s, int periods, const float *expected)
{
    static const int64_t steps_of_best[] = { 100, 200, 200 };
    et_controller *controller;
    const et_outer_loop_options outer = { .payload = NULL };
    s->trainer = (et_trainer){ .class = &trainer_class };
    s->evaluator = (et_evaluator){ .class = &evaluator_class };
    const et_controller_options options = { .trainer = &s->trainer,
                                            .evaluator = &s->evaluator,
                                            .run = { .model_dir = directory,
                                                     .best_metric = "test_metric|metric_1",
                                                     .best_comparison = ET_COMPARE_HIGHER },
                                            .steps_per_loop = EVERY,
                                            .outer_loop = &outer };
    assert_ok(et_controller_open(&controller, &options, error));
    for (int i = 0; i < periods; i++) {
        int64_t step;
        et_value *logs = et_value_dict(arena);
        assert_ok(et_controller_train_to(controller, (i + 1) * EVERY, true, error));
        assert_ok(et_controller_evaluate(controller, -1, logs, error));
        assert_ok(et_controller_save(controller, error));
        assert_true(best_of(directory, &step) == expected[i]);
        assert_int_equal(step, steps_of_best[i]);
    }
    assert_ok(et_controller_close(controller, error));
}

static char directory[64];

static const char *make_run(const char *name)
{
    snprintf(directory, sizeof directory, "train_utils-%s-XXXXXX", name);
    assert_non_null(mkdtemp(directory));
    return directory;
}

static int remove_run(void **state)
{
    (void)state;
    return nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static void test_train_utils_test__maybe_export(void **state)
{
    (void)state;
    static const float values[] = { 1, 3, 5 }, best[] = { 1, 3, 3 };
    static const double metrics[] = { 5, 6, 1 };
    scored s = { .values = values, .metrics = metrics };
    run(make_run("maybe"), &s, 3, best);
}

static void assert_info(bool image)
{
    static const float values[] = { 1 };
    static const double metrics[] = { 5 };
    scored s = { .values = values, .metrics = metrics, .image = image };
    et_settings info = settings_of("{}");
    run(make_run("info"), &s, 1, values);
    assert_ok(et_settings_read_file(&info, below(directory, "best/info.json"), error));
    assert_settings(&info, "{test_metric: {metric_1: 5.0}, best_ckpt_global_step: 100}");
}

static void test_train_utils_test__export_best_eval_metric(void **state)
{
    (void)state;
    assert_info(false);
}

static void test_train_utils_test__export_best_eval_metric_skips_non_scalar_values(void **state)
{
    (void)state;
    assert_info(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_utils_test__get_leaf_nested_dict),
        cmocka_unit_test(test_train_utils_test__get_leaf_nested_dict_not_leaf),
        cmocka_unit_test(test_train_utils_test__get_leaf_nested_dict_path_not_exist_missing_key),
        cmocka_unit_test(test_train_utils_test__get_leaf_nested_dict_path_not_exist_out_of_range),
        cmocka_unit_test(test_train_utils_test__get_leaf_nested_dict_path_not_exist_meets_leaf),
        cmocka_unit_test(test_train_utils_test__cast_leaf_nested_dict),
        cmocka_unit_test(test_train_utils_test__write_model_params_keras_model),
        cmocka_unit_test(test_train_utils_test__write_model_params_module),
        cmocka_unit_test(test_train_utils_test__construct_experiment_from_flags),
        cmocka_unit_test_teardown(test_train_utils_test__maybe_export, remove_run),
        cmocka_unit_test_teardown(test_train_utils_test__export_best_eval_metric, remove_run),
        cmocka_unit_test_teardown(
            test_train_utils_test__export_best_eval_metric_skips_non_scalar_values, remove_run),
    };
    return cmocka_run_group_tests(tests, make_arena, free_arena);
}
