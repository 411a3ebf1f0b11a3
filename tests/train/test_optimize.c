/* Optimizers in a program that only uses public headers. */
#include <etude/optimizer.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/tensor/params.h"
#include "train/small_pass.h"

enum { ROWS = 8 };

static et_node *square(et_node *a, et_node *b)
{
    et_node *d = et_sub(a, b);
    return et_mul(d, d);
}

static void build(et_scope *s, void *payload)
{
    (void)payload;
    et_node *h = et_tanh(et_dense(et_in(s, "hidden"), et_batch_input(s, "x"), 6));
    et_loss(s, "loss", square(et_dense(et_in(s, "out"), h, 1), et_batch_input(s, "y")), 1);
}

static const et_pass_options training = { .training = true };

static float *copy_of(const float *values, const et_params *params)
{
    size_t bytes = (size_t)et_params_flat_size(params) * sizeof(float);
    float *copy = malloc(bytes);
    assert_non_null(copy);
    return memcpy(copy, values, bytes);
}

/* Whether the rule's formula, from the weights before an update, gives the weight after it. */
typedef bool rule_fn(double before, double gradient, double after);

static bool is_sgd(double before, double gradient, double after)
{
    return fabs(after - (before - 0.25 * gradient)) < 1e-6;
}

/* Adam's first update: rate times the gradient's sign, but for epsilon. */
static bool is_adam(double before, double gradient, double after)
{
    double expected = before - 0.001 * gradient / (fabs(gradient) + 1e-7 / sqrt(1 - 0.999));
    return fabs(after - expected) < 2e-6;
}

static bool is_adam_10(double before, double gradient, double after)
{
    return is_adam(before, gradient, before + (after - before) / 10);
}

static bool is_adamw(double before, double gradient, double after)
{
    return is_adam(before * (1 - 0.001 * 0.5), gradient, after);
}

static void test_optimize__rules(void **state)
{
    (void)state;
    static const struct {
        et_optimizer_setup setup;
        double rate;
        rule_fn *is_rule;
    } cases[] = {
        { { .rule = "sgd", .learning_rate = 0.25 }, 0.25, is_sgd },
        { { .rule = NULL }, 0.001, is_adam },
        { { .rule = "adam", .learning_rate = 0.01 }, 0.01, is_adam_10 },
        { { .rule = "adamw", .settings = "optimizer: {adamw: {weight_decay_rate: 0.5}}" },
          0.001,
          is_adamw },
        { { .rule = "adam",
            .learning_rate = 9,
            .settings =
                "{optimizer: {type: sgd}, learning_rate: {constant: {learning_rate: 0.25}}}" },
          0.25,
          is_sgd },
        { { .settings = "{optimizer: {type: sgd}, learning_rate: 0.25}" }, 0.25, is_sgd },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        small_pass s;
        et_optimizer *optimizer;
        et_update update;
        small_open(&s, build, ROWS, &training);
        assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL, &cases[c].setup, error));
        small_run(&s);
        float *before = copy_of(et_params_values(s.params), s.params);
        float *gradient = copy_of(et_params_gradients(s.params), s.params);
        assert_float_equal(et_optimizer_learning_rate(optimizer), cases[c].rate, 1e-9);
        assert_ok(et_optimizer_update(optimizer, s.pass, &update, error));
        double squares = 0;
        for (int64_t i = 0; i < et_params_trained_size(s.params); i++) {
            double g = gradient[i] / ROWS;
            squares += g * g;
            if (!cases[c].is_rule(before[i], g, et_params_values(s.params)[i]))
                fail_msg("case %zu: element %d: %g became %g by %g", c, (int)i, before[i],
                         et_params_values(s.params)[i], g);
        }
        assert_true(update.finite);
        assert_float_equal(update.gradient_norm, sqrt(squares), 1e-6);
        assert_float_equal(update.learning_rate, cases[c].rate, 1e-9);
        assert_int_equal(et_optimizer_iterations(optimizer), 1);
        small_run(&s);
        assert_ok(et_optimizer_update(optimizer, s.pass, NULL, error));
        assert_int_equal(et_optimizer_iterations(optimizer), 2);
        et_optimizer_free(optimizer);
        small_close(&s);
        free(before);
        free(gradient);
    }
}

/* Every name that there is, and another rate of each. */
static void test_optimize__all_rules(void **state)
{
    (void)state;
    static const char *const names[] = { "sgd",
                                         "sgd_experimental",
                                         "rmsprop",
                                         "adagrad",
                                         "adam",
                                         "adam_experimental",
                                         "adamw",
                                         "adamw_experimental",
                                         "lamb",
                                         "lars",
                                         "adafactor_keras",
                                         "muon" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        small_pass s;
        et_optimizer *optimizer;
        et_optimizer_setup setup = { .rule = names[i], .learning_rate = 0.125 };
        small_open(&s, build, ROWS, &training);
        assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL, &setup, error));
        float *before = copy_of(et_params_values(s.params), s.params);
        small_run(&s);
        assert_ok(et_optimizer_update(optimizer, s.pass, NULL, error));
        assert_float_equal(et_optimizer_learning_rate(optimizer), 0.125, 1e-9);
        for (int p = 0; p < et_params_count(s.params); p++) {
            int64_t at = et_params_offset(s.params, p);
            if (et_params_values(s.params)[at] == before[at])
                fail_msg("%s: %s stays", names[i], et_params_name(s.params, p));
        }
        et_optimizer_free(optimizer);
        small_close(&s);
        free(before);
    }
}

/* The command's names and forms. */
static void test_optimize__settings(void **state)
{
    (void)state;
    small_pass s;
    et_optimizer *optimizer;
    et_optimizer_setup setup = {
        .rule = "sgd",
        .settings = "{optimizer: {sgd: {momentum: 0.9}}, ema: {enabled: true}, learning_rate:"
                    " {type: cosine, cosine: {initial_learning_rate: 0.5, decay_steps: 4}}}"
    };
    static const double rates[] = { 0.5, 0.4267767, 0.25, 0.0732233, 0, 0 };
    small_open(&s, build, ROWS, &training);
    assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL, &setup, error));
    et_optimizer_start(optimizer);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        assert_float_equal(et_optimizer_learning_rate(optimizer), rates[i], 1e-6);
        small_run(&s);
        assert_ok(et_optimizer_update(optimizer, s.pass, NULL, error));
    }
    et_optimizer_free(optimizer);
    small_close(&s);
}

static void test_optimize__refused(void **state)
{
    (void)state;
    static const struct {
        const char *trains;
        et_optimizer_setup setup;
        const char *words;
    } cases[] = {
        { NULL,
          { .rule = "rmsprob" },
          "no update rule is called rmsprob; there are: sgd, sgd_experimental, rmsprop" },
        { "discriminator/", { .rule = NULL }, "discriminator/" },
        { NULL, { .learning_rate = -0.5 }, "learning_rate" },
        { NULL, { .learning_rate = NAN }, "learning_rate" },
        { NULL, { .settings = "{optimizer: {sgd: {speed: 1}}}" }, "speed" },
        { NULL, { .settings = "{optimizer: {type: sdg}}" }, "sdg" },
        { NULL, { .settings = "{optimizer: {adam: {beta_1: much}}}" }, "beta_1" },
        { NULL, { .settings = "{learning_rate: {type: cosine}}" }, "cosine" },
        { NULL,
          { .settings = "{learning_rate: {type: cosine, cosine: {initial_learning_rate: 1, "
                        "decay_steps: 2ep}}}" },
          "trainer.optimizer_config.learning_rate: the decay is given in epochs, but the steps of "
          "an epoch are unknown here; give steps" },
    };
    small_pass s;
    et_optimizer *optimizer;
    small_open(&s, build, ROWS, &training);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_error why = ET_ERROR_INIT;
        int status = et_optimizer_open(&optimizer, s.device, s.params, cases[i].trains,
                                       &cases[i].setup, &why);
        if (status != ET_ECONFIG || !strstr(why.text, cases[i].words))
            fail_msg("case %zu: status %d, %s", i, status, why.text);
        assert_null(optimizer);
    }
    et_optimizer_setup setup = { .settings = "{optimizer: [" };
    et_error why = ET_ERROR_INIT;
    assert_int_not_equal(et_optimizer_open(&optimizer, s.device, s.params, NULL, &setup, &why), 0);
    assert_non_null(strstr(why.text, "settings"));
    small_close(&s);

    et_params *params;
    int index;
    et_device *device;
    assert_ok(et_device_open(&device, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(
        et_params_declare(params, "w", et_shape_1(3), (et_init){ ET_INIT_ONES, 0 }, &index, error));
    setup = (et_optimizer_setup){ .rule = NULL };
    assert_fails(et_optimizer_open(&optimizer, device, params, NULL, &setup, error), ET_EUSAGE,
                 "et_params_materialize");
    et_params_free(params);
    et_device_close(device);
}

/* Getters of a pass before its first run, also before it is planned. */
static void test_optimize__before_a_run(void **state)
{
    (void)state;
    const et_optimizer_setup setup = { 0 };
    small_pass s = { .source = NULL };
    et_optimizer *optimizer;
    assert_ok(et_device_open(&s.device, error));
    assert_ok(et_params_new(&s.params, error));
    assert_ok(small_source(&s.source, ROWS, error));
    assert_ok(et_batch_new(&s.batch, &s.source->layout, error));
    assert_ok(et_pass_open(&s.pass, s.device, s.params, &s.source->layout, build, NULL, &training,
                           error));
    assert_ok(et_params_materialize(s.params, false, error));
    assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL, &setup, error));
    for (int planned = 0; planned < 2; planned++) {
        assert_true(isnan(et_pass_loss(s.pass)));
        assert_true(et_pass_divisor(s.pass) == 0);
        assert_int_equal(et_pass_measures(s.pass), planned);
        assert_true(et_pass_measured(s.pass, 0).weight == 0);
        assert_null(et_pass_output(s.pass, "none").data);
        assert_null(et_pass_find_not_finite(s.pass));
        assert_fails(et_optimizer_update(optimizer, s.pass, NULL, error), ET_EUSAGE,
                     "there is no gradient yet: run the pass first");
        assert_ok(et_pass_prepare(s.pass, &s.source->layout, error));
    }
    et_optimizer_free(optimizer);
    small_close(&s);
}

/* A faulty batch changes nothing, and the message names the first value that is not finite; the
 * next batch is used. */
static void test_optimize__not_finite(void **state)
{
    (void)state;
    small_pass s;
    et_optimizer *optimizer;
    et_optimizer_setup setup = { 0 };
    et_update update;
    small_open(&s, build, ROWS, &training);
    assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL, &setup, error));
    assert_ok(et_source_next(s.source, s.batch, error));
    float *before = copy_of(et_params_values(s.params), s.params);
    ((float *)s.batch->data[0])[1] = NAN;
    assert_ok(et_pass_run(s.pass, s.batch, 1, 0, error));
    assert_fails(et_optimizer_update(optimizer, s.pass, &update, error), ET_EDIVERGED,
                 "first in x");
    assert_false(update.finite);
    assert_memory_equal(before, et_params_values(s.params),
                        (size_t)et_params_flat_size(s.params) * sizeof(float));
    assert_int_equal(et_optimizer_iterations(optimizer), 0);
    small_run(&s);
    assert_ok(et_optimizer_update(optimizer, s.pass, &update, error));
    assert_true(update.finite);
    et_optimizer_free(optimizer);
    small_close(&s);
    free(before);
}

/* ---- two models in one store ---- */

static et_node *generated(et_scope *s)
{
    return et_tanh(et_dense(et_in(s, "generator"), et_batch_input(s, "x"), 3));
}

static et_node *judged(et_scope *s, et_node *h)
{
    return et_dense(et_in(s, "discriminator"), h, 1);
}

static void build_mean(et_scope *s, void *payload)
{
    build(s, payload);
    et_node *seen = et_variable(s, "seen", et_shape_scalar(), (et_init){ ET_INIT_ZEROS, 0 });
    et_moving_mean(s, seen, et_sum(et_batch_input(s, "x")), 0.75f);
}

/* A moving mean moves with each update, and with none that changes nothing. */
static void test_optimize__moving_mean(void **state)
{
    (void)state;
    small_pass p;
    et_optimizer *optimizer;
    small_open(&p, build_mean, ROWS, &training);
    assert_int_equal(et_source_next(p.source, p.batch, NULL), ET_OK);
    assert_int_equal(et_optimizer_open(&optimizer, p.device, p.params, NULL, NULL, NULL), ET_OK);
    const float *seen =
        et_params_values(p.params) + et_params_offset(p.params, et_params_find(p.params, "seen"));
    double sum = 0, expected = 0;
    for (int i = 0; i < ROWS * FEATURES; i++)
        sum += ((const float *)p.batch->data[0])[i];
    assert_true(fabs(sum) > 0.1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(et_pass_run(p.pass, p.batch, 1, 0, NULL), ET_OK);
        assert_float_equal(*seen, expected, 1e-5);
        assert_int_equal(et_optimizer_update(optimizer, p.pass, NULL, NULL), ET_OK);
        expected = 0.75 * expected + 0.25 * sum;
        assert_float_equal(*seen, expected, 1e-5);
    }
    ((float *)p.batch->data[0])[0] = NAN;
    assert_int_equal(et_pass_run(p.pass, p.batch, 1, 0, NULL), ET_OK);
    assert_int_equal(et_optimizer_update(optimizer, p.pass, NULL, NULL), ET_EDIVERGED);
    assert_float_equal(*seen, expected, 1e-5);
    et_optimizer_free(optimizer);
    small_close(&p);
}

/* Before its first step the average is a copy, also of variables that an update has moved. */
static void test_optimize__average_of_a_moving_mean(void **state)
{
    (void)state;
    small_pass p;
    et_optimizer *optimizer;
    et_optimizer_setup setup = {
        .settings = "ema: {enabled: true, trainable_weights_only: false, start_step: 1000}"
    };
    small_open(&p, build_mean, ROWS, &training);
    assert_int_equal(et_optimizer_open(&optimizer, p.device, p.params, NULL, &setup, NULL), ET_OK);
    int64_t seen = et_params_offset(p.params, et_params_find(p.params, "seen"));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(et_source_next(p.source, p.batch, NULL), ET_OK);
        assert_int_equal(et_pass_run(p.pass, p.batch, 1, 0, NULL), ET_OK);
        assert_int_equal(et_optimizer_update(optimizer, p.pass, NULL, NULL), ET_OK);
        float live = et_params_values(p.params)[seen];
        assert_true(live != 0 && et_optimizer_show_average(optimizer));
        assert_true(et_params_values(p.params)[seen] == live);
        et_params_use(p.params, NULL);
    }
    et_optimizer_free(optimizer);
    small_close(&p);
}

static void build_generator(et_scope *s, void *payload)
{
    (void)payload;
    et_node *y = et_batch_input(s, "y");
    et_loss(s, "loss", square(judged(s, generated(s)), et_scale(y, 2)), 1);
}

static void build_discriminator(et_scope *s, void *payload)
{
    (void)payload;
    et_loss(s, "loss", square(judged(s, generated(s)), et_batch_input(s, "y")), 1);
}

static bool begins(const et_params *params, int index, const char *prefix)
{
    return !strncmp(et_params_name(params, index), prefix, strlen(prefix));
}

/* Checks that exactly the parameters with the prefix have changed. */
static void assert_only(et_params *params, const float *before, const char *prefix)
{
    for (int i = 0; i < et_params_count(params); i++) {
        int64_t at = et_params_offset(params, i);
        size_t bytes = (size_t)et_shape_count(et_params_shape(params, i)) * sizeof(float);
        bool changed = memcmp(et_params_values(params) + at, before + at, bytes) != 0;
        if (changed != begins(params, i, prefix))
            fail_msg("%s by %s: %d", et_params_name(params, i), prefix, changed);
    }
}

/* A pass derives by the parameters of a group alone, and the group may be gone. */
static void test_optimize__a_pass_of_a_group(void **state)
{
    (void)state;
    small_pass s, other;
    et_group *group, *others;
    et_pass *pass;
    et_optimizer *optimizer, *all;
    small_open(&s, build_discriminator, ROWS, &training); /* declares both */
    small_open(&other, build_discriminator, ROWS, &training);
    assert_ok(et_group_match(&group, s.params, "weight", error));
    assert_ok(et_group_new(&others, other.params, "", error));
    et_pass_options options = { .training = true, .group = group, .trains = "discriminator/" };
    assert_fails(et_pass_open(&pass, s.device, s.params, &s.source->layout, build_discriminator,
                              NULL, &options, error),
                 ET_ECONFIG, "et_pass_options.group: trains is also given");
    options = (et_pass_options){ .training = true, .group = others };
    assert_fails(et_pass_open(&pass, s.device, s.params, &s.source->layout, build_discriminator,
                              NULL, &options, error),
                 ET_ECONFIG, "et_pass_options.group: it belongs to another store");
    options.group = group;
    assert_ok(et_pass_open(&pass, s.device, s.params, &s.source->layout, build_discriminator, NULL,
                           &options, error));
    assert_ok(et_optimizer_open(&optimizer, s.device, s.params, NULL,
                                &(et_optimizer_setup){ .group = group }, error));
    assert_ok(et_optimizer_open(&all, s.device, s.params, NULL, NULL, error));
    et_group_free(group);
    et_group_free(others);
    for (int i = 0; i < et_params_count(s.params); i++)
        if (!strstr(et_params_name(s.params, i), "weight"))
            assert_false(et_pass_reaches(pass, i));
    assert_ok(et_source_next(s.source, s.batch, error));
    assert_ok(et_pass_run(pass, s.batch, 1, 0, error));
    assert_ok(et_optimizer_update(optimizer, pass, NULL, error));
    assert_fails(et_optimizer_update(all, pass, NULL, error), ET_EUSAGE,
                 "the pass computes no gradient for it");
    et_optimizer_free(optimizer);
    et_optimizer_free(all);
    et_pass_close(pass);
    small_close(&other);
    small_close(&s);
}

static void test_optimize__each_its_own(void **state)
{
    (void)state;
    static const char *const prefix[2] = { "generator/", "discriminator/" };
    static et_build_fn *const models[2] = { build_generator, build_discriminator };
    small_pass s;
    et_pass *pass[2];
    et_optimizer *optimizer[2];
    et_optimizer_setup setup = { .rule = "adam", .settings = "ema: {enabled: true}" };
    small_open(&s, models[1], ROWS, &training); /* declares both */
    for (int i = 0; i < 2; i++) {
        et_pass_options options = { .training = true, .trains = prefix[i] };
        assert_ok(et_pass_open(&pass[i], s.device, s.params, &s.source->layout, models[i], NULL,
                               &options, error));
        assert_ok(et_optimizer_open(&optimizer[i], s.device, s.params, prefix[i], &setup, error));
        et_optimizer_start(optimizer[i]);
    }
    for (int k = 0; k < 20; k++) {
        int i = k % 2;
        float *before = copy_of(et_params_values(s.params), s.params);
        assert_ok(et_source_next(s.source, s.batch, error));
        assert_ok(et_pass_run(pass[i], s.batch, 1, (uint64_t)k, error));
        assert_ok(et_optimizer_update(optimizer[i], pass[i], NULL, error));
        assert_only(s.params, before, prefix[i]);
        free(before);
    }
    assert_fails(
        et_optimizer_update(optimizer[0], pass[1], NULL, error), ET_EUSAGE,
        "but the pass computes no gradient for it (et_pass_options.trains, .group, .frozen): open "
        "both with the same prefix or group");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(et_optimizer_iterations(optimizer[i]), 10);
        et_optimizer_free(optimizer[i]);
        et_pass_close(pass[i]);
    }
    small_close(&s);
}

/* Two optimizers divide the gradients of one pass by groups: each updates its own, with its own
 * rate; a moving mean moves once. */
static void test_optimize__groups_of_one_pass(void **state)
{
    (void)state;
    static const char *const names[2] = { "/weight$", "/bias$" };
    small_pass p;
    et_group *group[2];
    et_optimizer *optimizer[2];
    small_open(&p, build_mean, ROWS, &training);
    for (int i = 0; i < 2; i++) {
        assert_ok(et_group_match(&group[i], p.params, names[i], error));
        et_optimizer_setup setup = { .rule = "sgd", .learning_rate = 0.25 * (i + 1) };
        setup.group = group[i];
        assert_ok(et_optimizer_open(&optimizer[i], p.device, p.params, NULL, &setup, error));
        et_group_free(group[i]);
    }
    float *before = copy_of(et_params_values(p.params), p.params);
    double sum = 0;
    assert_ok(et_source_next(p.source, p.batch, error));
    for (int i = 0; i < ROWS * FEATURES; i++)
        sum += ((const float *)p.batch->data[0])[i];
    assert_ok(et_pass_run(p.pass, p.batch, 1, 0, error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_optimizer_update(optimizer[i], p.pass, NULL, error));
    const float *gradient = et_params_gradients(p.params), *after = et_params_values(p.params);
    assert_float_equal(after[et_params_offset(p.params, et_params_find(p.params, "seen"))],
                       0.25 * sum, 1e-5);
    for (int i = 0; i < et_params_count(p.params); i++) {
        double rate = strstr(et_params_name(p.params, i), "/weight") ? 0.25 : 0.5;
        int64_t at = et_params_offset(p.params, i);
        int64_t end = at + et_shape_count(et_params_shape(p.params, i));
        for (; et_params_is_trained(p.params, i) && at < end; at++)
            assert_float_equal(after[at], before[at] - rate * gradient[at] / ROWS, 1e-6);
    }
    for (int i = 0; i < 2; i++)
        et_optimizer_free(optimizer[i]);
    free(before);
    small_close(&p);
}

static void test_optimize__groups_refused(void **state)
{
    (void)state;
    small_pass p, other;
    et_group *group;
    et_optimizer *none;
    small_open(&p, build, ROWS, &training);
    small_open(&other, build, ROWS, &training);
    assert_ok(et_group_match(&group, p.params, "/weight$", error));
    et_optimizer_setup setup = { .group = group };
    assert_fails(et_optimizer_open(&none, p.device, p.params, "out/", &setup, error), ET_ECONFIG,
                 "give only one of them");
    assert_null(none);
    assert_fails(et_optimizer_open(&none, other.device, other.params, NULL, &setup, error),
                 ET_ECONFIG, "another store");
    et_group_free(group);
    small_close(&other);
    small_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimize__rules),
        cmocka_unit_test(test_optimize__all_rules),
        cmocka_unit_test(test_optimize__settings),
        cmocka_unit_test(test_optimize__refused),
        cmocka_unit_test(test_optimize__before_a_run),
        cmocka_unit_test(test_optimize__not_finite),
        cmocka_unit_test(test_optimize__moving_mean),
        cmocka_unit_test(test_optimize__average_of_a_moving_mean),
        cmocka_unit_test(test_optimize__each_its_own),
        cmocka_unit_test(test_optimize__a_pass_of_a_group),
        cmocka_unit_test(test_optimize__groups_of_one_pass),
        cmocka_unit_test(test_optimize__groups_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
