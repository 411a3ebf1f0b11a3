/* A model that is opened, trained, evaluated, saved, loaded, frozen and printed. */
#include "systems/model/disc.h"

#include <math.h>
#include <stdio.h>
#include <sys/mman.h>

#include <etude/model_export.h>

#include "engine/exec/pass.h"
#include "engine/optim/optimizer.h"
#include "engine/tensor/params.h"
#include "systems/modelgarden/task_trainer.h"

static double evaluate(et_model *model, const char *name)
{
    double value = -1;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    assert_ok(et_model_evaluate(model, points, inside, POINTS, logs, error));
    assert_ok(et_value_read_float(logs, name, &value, error));
    et_arena_free(arena);
    return value;
}

static void test_model__learns_a_disc(void **state)
{
    (void)state;
    et_model *model = open_disc();
    const double before = evaluate(model, "validation_accuracy");
    fit_disc(model, &(et_fit){ .epochs = 40 });
    const double after = evaluate(model, "validation_accuracy");
    assert_true(before < 0.8);
    assert_true(after > 0.95);
    et_model_close(model);
}

static void test_model__predicts_each_sample_by_itself(void **state)
{
    (void)state;
    static float all[POINTS][2], one[2];
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 10 });
    assert_int_equal(et_model_width(model), 2);
    assert_ok(et_model_predict(model, points, POINTS, all, error));
    for (int i = 0; i < POINTS; i += 37) {
        assert_ok(et_model_predict(model, points[i], 1, one, error));
        assert_memory_equal(one, all[i], sizeof one);
    }
    int right = 0;
    for (int i = 0; i < POINTS; i++)
        right += (all[i][1] > all[i][0]) == inside[i];
    assert_int_equal((int)(evaluate(model, "validation_accuracy") * POINTS + 0.5), right);
    assert_ok(et_model_predict(model, NULL, 0, NULL, error));
    et_model_close(model);
}

static void test_model__loads_what_it_saved(void **state)
{
    (void)state;
    static float before[POINTS][2], after[POINTS][2];
    static const char *const places[] = { "use.safetensors", "use.export" };
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 5 });
    assert_ok(et_model_predict(model, points, POINTS, before, error));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(system("rm -rf use.export"), 0);
        assert_ok(et_model_save(model, places[i], error));
        et_model *other = open_disc();
        assert_ok(et_model_load(other, places[i], error));
        assert_ok(et_model_predict(other, points, POINTS, after, error));
        assert_memory_equal(before, after, sizeof before);
        et_model_close(other);
    }
    et_model_close(model);
    assert_int_equal(system("rm -rf use.export use.safetensors"), 0);
}

/* A model that loads weights and trains starts from the loaded weights. */
static void test_model__trains_from_loaded_weights(void **state)
{
    (void)state;
    et_model *model = open_disc(), *other = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 20 });
    const double before = evaluate(model, "validation_loss");
    assert_ok(et_model_save(model, "from.safetensors", error));
    assert_ok(et_model_load(other, "from.safetensors", error));
    fit_disc(other, &(et_fit){ .steps = 1 });
    const double after = evaluate(other, "validation_loss");
    assert_true(after < before + 0.05 && after > before - 0.05);
    et_model_close(model);
    et_model_close(other);
    unlink("from.safetensors");
}

static void test_model__averages_are_what_it_predicts_with(void **state)
{
    (void)state;
    static float before[POINTS][2], after[POINTS][2];
    et_model *model, *other = open_disc();
    et_model_options options = disc;
    options.optimizer.average_decay = 0.9;
    assert_ok(et_model_open(&model, build_disc, NULL, &options, error));
    fit_disc(model, &(et_fit){ .epochs = 2 });
    const float live = et_params_values(et_model_params(model))[0];
    assert_ok(et_model_save(model, "average.safetensors", error));
    assert_true(live == et_params_values(et_model_params(model))[0]);
    assert_ok(et_model_load(other, "average.safetensors", error));
    assert_true(live != et_params_values(et_model_params(other))[0]);
    assert_ok(et_model_predict(model, points, POINTS, before, error));
    assert_ok(et_model_predict(other, points, POINTS, after, error));
    assert_memory_equal(before, after, sizeof before);
    et_model_close(model);
    et_model_close(other);
    unlink("average.safetensors");
}

static float value_of(const et_model *model, const char *name)
{
    et_params *params = et_model_params(model);
    return et_params_values(params)[et_params_offset(params, et_params_find(params, name)) + 1];
}

static void test_model__frozen_parameters_stay(void **state)
{
    (void)state;
    et_model *model = open_disc();
    fit_disc(model, &(et_fit){ .epochs = 1 });
    assert_ok(et_freeze(model, "hidden/*", error));
    const float hidden = value_of(model, "hidden/weight"),
                logits = value_of(model, "logits/weight");
    fit_disc(model, &(et_fit){ .epochs = 1 });
    assert_true(hidden == value_of(model, "hidden/weight"));
    assert_true(logits != value_of(model, "logits/weight"));
    assert_ok(et_freeze(model, NULL, error));
    fit_disc(model, &(et_fit){ .epochs = 1 });
    assert_true(hidden != value_of(model, "hidden/weight"));
    et_model_close(model);
}

/* ---- what is frozen costs nothing ---- */

enum { WIDE = 2048 }; /* a weight of 16 MiB */

static void build_wide(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_relu(et_dense(et_in(s, "narrow"), et_batch_input(s, ET_MODEL_X), WIDE));
    h = et_relu(et_dense(et_in(s, "wide"), h, WIDE));
    h = et_dense(et_in(s, "logits"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
    et_output(s, "scores", h);
}

/* Percent of the pages of a parameter's gradients that have memory. */
static size_t resident_gradients(const et_model *model, const char *name)
{
    et_params *params = et_model_params(model);
    const int index = et_params_find(params, name);
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const char *begin =
        (const char *)(et_params_gradients(params) + et_params_offset(params, index));
    const size_t bytes = (size_t)et_shape_count(et_params_shape(params, index)) * sizeof(float);
    const uintptr_t first = ((uintptr_t)begin + page - 1) / page * page;
    const size_t pages = ((uintptr_t)begin + bytes - first) / page;
    unsigned char *in_memory = malloc(pages);
    size_t count = 0;
    assert_non_null(in_memory);
    assert_int_equal(mincore((void *)first, pages * page, in_memory), 0);
    for (size_t i = 0; i < pages; i++)
        count += in_memory[i] & 1;
    free(in_memory);
    return 100 * count / pages;
}

static bool has_gradient(const et_model *model, const char *name)
{
    const et_pass *pass = et_task_trainer_pass(et_model_task_trainer(model));
    return et_pass_reaches(pass, et_params_find(et_model_params(model), name));
}

static void test_model__frozen_parameters_cost_nothing(void **state)
{
    (void)state;
    et_model *model;
    assert_ok(et_model_open(&model, build_wide, NULL, &disc, error));
    assert_ok(et_freeze(model, "wide/*", error));
    fit_disc(model, &(et_fit){ .steps = 3, .batch_size = 8 });
    assert_true(resident_gradients(model, "wide/weight") < 50); /* neighbours have huge pages */
    assert_false(has_gradient(model, "wide/weight"));
    assert_true(has_gradient(model, "narrow/weight"));
    assert_true(has_gradient(model, "logits/bias"));
    /* Adam's two moments of the rest. */
    const size_t rest = 3 * WIDE + 2 * WIDE + 2 + 64;
    assert_true(et_optimizer_bytes(et_model_optimizer(model)) <= 2 * rest * sizeof(float));
    assert_ok(et_freeze(model, NULL, error));
    fit_disc(model, &(et_fit){ .steps = 1, .batch_size = 8 });
    assert_true(resident_gradients(model, "wide/weight") > 95);
    assert_true(has_gradient(model, "wide/weight"));
    assert_true(et_optimizer_bytes(et_model_optimizer(model)) > 2 * WIDE * WIDE * sizeof(float));
    et_model_close(model);
}

/* Frozen and then trained again: gradients of before do not count. */
static void test_model__frozen_after_training(void **state)
{
    (void)state;
    et_model *models[2];
    for (int i = 0; i < 2; i++) {
        models[i] = open_disc();
        if (i) /* leaves gradients of all parameters */
            fit_disc(models[i], &(et_fit){ .steps = 1 });
        assert_ok(et_model_save(models[0], "before.safetensors", error));
        assert_ok(et_model_load(models[i], "before.safetensors", error));
        assert_ok(et_freeze(models[i], "hidden/*", error));
        if (!i)
            continue;
        for (int k = 0; k < 2; k++)
            fit_disc(models[k], &(et_fit){ .steps = 20 });
    }
    assert_same_weights(models[0], models[1]);
    et_model_close(models[0]);
    et_model_close(models[1]);
    unlink("before.safetensors");
}

/* A group of a part that is frozen for a while is no error. */
static void test_model__a_group_is_frozen(void **state)
{
    (void)state;
    et_model *model;
    et_model_options options = disc;
    options.optimizer.parameter_groups =
        &(et_parameter_group){ "hidden", .learning_rate_multiplier = 0.1 };
    options.optimizer.parameter_group_count = 1;
    assert_ok(et_model_open(&model, build_disc, NULL, &options, error));
    assert_ok(et_freeze(model, "hidden/*", error));
    const float hidden = value_of(model, "hidden/weight");
    fit_disc(model, &(et_fit){ .epochs = 1 });
    assert_true(hidden == value_of(model, "hidden/weight"));
    assert_ok(et_freeze(model, NULL, error));
    fit_disc(model, &(et_fit){ .epochs = 1 });
    assert_true(hidden != value_of(model, "hidden/weight"));
    et_model_close(model);
}

static void test_model__prints_its_layers(void **state)
{
    (void)state;
    char *text;
    size_t size;
    FILE *file = open_memstream(&text, &size);
    et_model *model = open_disc();
    assert_ok(et_model_summary(model, file, error));
    fclose(file);
    assert_non_null(strstr(text, "hidden  [16]         48"));
    assert_non_null(strstr(text, "logits  [2]          34"));
    assert_non_null(strstr(text, "82, of them trained: 82"));
    free(text);
    assert_ok(et_freeze(model, "hidden/*", error));
    file = open_memstream(&text, &size);
    assert_ok(et_model_summary(model, file, error));
    fclose(file);
    assert_non_null(strstr(text, "82, of them trained: 34"));
    free(text);
    et_model_close(model);
}

static void test_model__gives_its_parts(void **state)
{
    (void)state;
    et_model *model = open_disc();
    assert_non_null(et_model_device(model));
    assert_non_null(et_model_pass(model));
    assert_null(et_model_optimizer(model));
    assert_null(et_model_controller(model));
    fit_disc(model, &(et_fit){ .steps = 7 });
    assert_int_equal(et_optimizer_iterations(et_model_optimizer(model)), 7);
    assert_int_equal(et_task_trainer_trainer(et_model_task_trainer(model))->step, 7);
    et_model_close(model);
}

/* A schedule that ends with the training begins when its length is known. */
static void test_model__evaluates_before_a_schedule_has_a_length(void **state)
{
    (void)state;
    et_model *model[2];
    et_model_options options = disc;
    options.optimizer =
        (et_optimizer_setup){ .cosine = &(et_schedule_cosine){ .initial_learning_rate = 0.01 } };
    for (int k = 0; k < 2; k++)
        assert_ok(et_model_open(&model[k], build_disc, NULL, &options, error));
    evaluate(model[0], "validation_loss");
    for (int k = 0; k < 2; k++)
        fit_disc(model[k], &(et_fit){ .epochs = 2 });
    assert_same_weights(model[0], model[1]);
    et_model_close(model[0]);
    et_model_close(model[1]);
}

/* A struct and the text of the same settings train the same weights. */
static void test_model__structs_are_the_text_of_settings(void **state)
{
    (void)state;
    static const char *const none[] = { "bias", NULL };
    const et_optimizer_setup structs[] = {
        { .adamw = &(et_adamw){ .beta_1 = 0.8,
                                .weight_decay_rate = 0.1,
                                .exclude_from_weight_decay = none },
          .cosine = &(et_schedule_cosine){ .initial_learning_rate = 0.02, .alpha = 0.1 },
          .warmup_steps = 5 },
        { .sgd = &(et_sgd){ .momentum = 0.9, .nesterov = true }, .learning_rate = 0.02 },
        { .muon = &(et_muon){ .momentum = 0.8 },
          .inverse_sqrt =
              &(et_schedule_inverse_sqrt){ .peak_learning_rate = 0.01, .warmup_steps = 10 } },
    };
    static const char *const texts[] = {
        "{optimizer: {type: adamw, adamw: {beta_1: 0.8, weight_decay_rate: 0.1, "
        "exclude_from_weight_decay: [bias]}}, learning_rate: {type: cosine, cosine: {"
        "initial_learning_rate: 0.02, alpha: 0.1}}, warmup: {type: linear, linear: {"
        "warmup_steps: 5}}}",
        "{optimizer: {type: sgd, sgd: {momentum: 0.9, nesterov: true}}, learning_rate: {type: "
        "constant, constant: {learning_rate: 0.02}}}",
        "{optimizer: {type: muon, muon: {momentum: 0.8}}, learning_rate: {type: inverse_sqrt, "
        "inverse_sqrt: {peak_learning_rate: 0.01, warmup_steps: 10}}}",
    };
    for (int i = 0; i < 3; i++) {
        et_model *model[2];
        et_model_options options = disc;
        options.optimizer = structs[i];
        assert_ok(et_model_open(&model[0], build_disc, NULL, &options, error));
        options.optimizer = (et_optimizer_setup){ .settings = texts[i] };
        assert_ok(et_model_open(&model[1], build_disc, NULL, &options, error));
        for (int k = 0; k < 2; k++)
            fit_disc(model[k], &(et_fit){ .steps = 30 });
        assert_same_weights(model[0], model[1]);
        et_model_close(model[0]);
        et_model_close(model[1]);
    }
}

/* y = 2 a - b + 1, one float for each sample, with all losses of values; POINTS is no multiple of
 * the batch, so the last batch has empty rows. */
typedef et_node *loss_of_rows(et_node *x, et_node *target);

static et_node *huber(et_node *x, et_node *target)
{
    return et_huber_error(x, target, 1);
}

static void build_regression(et_scope *s, void *payload)
{
    loss_of_rows *const *loss = payload;
    et_node *value = et_dense(et_in(s, "value"), et_batch_input(s, ET_MODEL_X), 1);
    et_loss(s, "loss", (*loss)(value, et_batch_input(s, ET_MODEL_Y)), 1);
    et_output(s, "value", value);
}

static void test_model__a_regression_has_one_number_a_sample(void **state)
{
    (void)state;
    static loss_of_rows *const losses[] = { et_squared_error, et_absolute_error, huber };
    static float target[POINTS], found[2][POINTS];
    for (int i = 0; i < POINTS; i++)
        target[i] = 2 * points[i][0] - points[i][1] + 1;
    for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
        for (int column = 0; column < 2; column++) {
            et_model_options options = { .x = et_shape_1(2),
                                         .y = column ? et_shape_1(1) : (et_shape){ 0 },
                                         .optimizer = { .learning_rate = 0.05 } };
            et_model *model;
            assert_ok(et_model_open(&model, build_regression, (void *)(uintptr_t)&losses[k],
                                    &options, error));
            assert_ok(et_model_fit_arrays(model, points, target, POINTS,
                                          &(et_fit){ .epochs = 40, .batch_size = 64 }, error));
            assert_ok(et_model_predict(model, points, POINTS, found[column], error));
            et_model_close(model);
        }
        assert_memory_equal(found[0], found[1], sizeof found[0]);
        double sum = 0;
        for (int i = 0; i < POINTS; i++)
            sum += fabs((double)found[0][i] - (double)target[i]);
        assert_true(sum / POINTS < 0.05);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model__learns_a_disc),
        cmocka_unit_test(test_model__a_regression_has_one_number_a_sample),
        cmocka_unit_test(test_model__predicts_each_sample_by_itself),
        cmocka_unit_test(test_model__loads_what_it_saved),
        cmocka_unit_test(test_model__trains_from_loaded_weights),
        cmocka_unit_test(test_model__averages_are_what_it_predicts_with),
        cmocka_unit_test(test_model__frozen_parameters_stay),
        cmocka_unit_test(test_model__frozen_parameters_cost_nothing),
        cmocka_unit_test(test_model__frozen_after_training),
        cmocka_unit_test(test_model__a_group_is_frozen),
        cmocka_unit_test(test_model__prints_its_layers),
        cmocka_unit_test(test_model__gives_its_parts),
        cmocka_unit_test(test_model__evaluates_before_a_schedule_has_a_length),
        cmocka_unit_test(test_model__structs_are_the_text_of_settings),
    };
    return cmocka_run_group_tests(tests, draw_points, NULL);
}
