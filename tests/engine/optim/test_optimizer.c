#include "engine/optim/optimizer.h"

#include <math.h>
#include <omp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/layers.h>
#include <etude/log.h>

#include "base/dtype.h"
#include "engine/optim/optim.h"
#include "engine/tensor/params.h"

/* Parameters of odd sizes; the last is longer than two chunks. */
static const struct {
    const char *name;
    et_shape shape;
} parameters[] = {
    { "encoder/weight", { 2, { 37, 51 } } },  { "encoder/bias", { 1, { 51 } } },
    { "norm/scale", { 1, { 7 } } },           { "norm/weight", { 2, { 5, 3 } } },
    { "logits/weight", { 2, { 200, 173 } } },
};
enum { COUNT = sizeof parameters / sizeof parameters[0], STEPS = 5 };

static et_params *make_params(bool shadow)
{
    et_params *params;
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < COUNT; i++) {
        int index;
        et_init init = { ET_INIT_NORMAL, 0.5f };
        assert_ok(et_params_declare(params, parameters[i].name, parameters[i].shape, init, &index,
                                    error));
    }
    assert_ok(et_params_materialize(params, shadow, error));
    et_init_draw(params, 7);
    return params;
}

static et_optimizer *make_optimizer(et_params *params, const et_optimization_options *options)
{
    et_optimizer *optimizer;
    assert_ok(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), options, error));
    return optimizer;
}

/* Different in every step and element; zero in the padding. */
static void make_gradients(et_params *params, int step)
{
    float *gradients = et_params_gradients(params);
    for (int p = 0; p < COUNT; p++) {
        int64_t offset = et_params_offset(params, p);
        for (int64_t i = 0; i < et_shape_count(et_params_shape(params, p)); i++)
            gradients[offset + i] = (float)sin((double)(offset + i) * 0.37 + step * 1.3);
    }
}

static et_optimization_options options_of(int type, double rate)
{
    et_optimization_options o = default_options();
    o.optimizer.type = type;
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = rate;
    return o;
}

/* The formulas once more, in double, one element at a time. */
typedef struct naive {
    double *w, *a, *b, *average; /* [flat size] */
    int64_t size;
} naive;

static naive naive_new(et_params *params)
{
    size_t size = (size_t)et_params_flat_size(params);
    naive n = { calloc(size, sizeof(double)), calloc(size, sizeof(double)),
                calloc(size, sizeof(double)), calloc(size, sizeof(double)), (int64_t)size };
    assert_true(n.w && n.a && n.b && n.average);
    for (size_t i = 0; i < size; i++)
        n.w[i] = n.average[i] = et_params_values(params)[i];
    return n;
}

static void naive_free(naive *n)
{
    free(n->w);
    free(n->a);
    free(n->b);
    free(n->average);
}

static double norm_of(et_params *params, double scale)
{
    double sum = 0;
    for (int64_t i = 0; i < et_params_flat_size(params); i++)
        sum += pow(et_params_gradients(params)[i] * scale, 2);
    return sqrt(sum);
}

static void assert_near(et_params *params, const naive *n)
{
    for (int64_t i = 0; i < n->size; i++) {
        double value = et_params_values(params)[i];
        if (!(fabs(value - n->w[i]) <= 2e-6 * fmax(1, fabs(n->w[i]))))
            fail_msg("weight %lld: %.9g, expected %.9g", (long long)i, value, n->w[i]);
    }
}

static void naive_sgd(naive *n, et_params *params, const et_sgd *o, double rate, int step,
                      double scale)
{
    rate /= 1 + o->decay * step;
    for (int64_t i = 0; i < n->size; i++) {
        double g = et_params_gradients(params)[i] * scale;
        n->a[i] = o->momentum * n->a[i] - rate * g;
        n->w[i] += o->nesterov ? o->momentum * n->a[i] - rate * g : n->a[i];
    }
}

static void test_optimizer__sgd(void **state)
{
    (void)state;
    static const et_sgd cases[] = {
        { .momentum = 0 },
        { .momentum = 0.9 },
        { .momentum = 0.9, .nesterov = true },
        { .momentum = 0, .decay = 0.5 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.05);
        o.optimizer.sgd = cases[c];
        et_params *params = make_params(false);
        et_optimizer *optimizer = make_optimizer(params, &o);
        const et_slot *slots;
        assert_int_equal(et_optimizer_slots(optimizer, &slots), cases[c].momentum > 0);
        naive n = naive_new(params);
        for (int step = 0; step < STEPS; step++) {
            make_gradients(params, step);
            naive_sgd(&n, params, &cases[c], 0.05, step, 0.25);
            assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 0.25).finite);
        }
        assert_near(params, &n);
        assert_int_equal(et_optimizer_iterations(optimizer), STEPS);
        naive_free(&n);
        et_optimizer_free(optimizer);
        et_params_free(params);
    }
}

static void naive_adam(naive *n, et_params *params, int step, double rate, double scale,
                       double decay, int decays_from, int decays_to)
{
    double b1 = 0.9, b2 = 0.98, epsilon = 1e-9, t = step + 1;
    double rate_t = rate * sqrt(1 - pow(b2, t)) / (1 - pow(b1, t));
    int64_t from = et_params_offset(params, decays_from);
    int64_t to = decays_to < COUNT ? et_params_offset(params, decays_to) : n->size;
    for (int64_t i = 0; i < n->size; i++) {
        double g = et_params_gradients(params)[i] * scale;
        if (i >= from && i < to)
            n->w[i] -= rate * decay * n->w[i];
        n->a[i] = b1 * n->a[i] + (1 - b1) * g;
        n->b[i] = b2 * n->b[i] + (1 - b2) * g * g;
        n->w[i] -= rate_t * n->a[i] / (sqrt(n->b[i]) + epsilon);
    }
}

static void test_optimizer__adam(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAM, 0.01);
    o.optimizer.adam = (et_adam){ .beta_1 = 0.9, .beta_2 = 0.98, .epsilon = 1e-9 };
    et_params *params = make_params(true);
    et_optimizer *optimizer = make_optimizer(params, &o);
    naive n = naive_new(params);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        naive_adam(&n, params, step, 0.01, 1.0 / 3, 0, 0, 0);
        et_update update = et_optimizer_apply(optimizer, et_params_gradients(params), 1.0 / 3);
        assert_true(update.finite && update.learning_rate == 0.01);
        double norm = norm_of(params, 1.0 / 3);
        assert_true(fabs(update.gradient_norm - norm) < 1e-6 * norm);
    }
    assert_near(params, &n);
    /* The shadow was written in the same pass. */
    for (int64_t i = 0; i < n.size; i++)
        assert_int_equal(et_params_shadow(params)[i],
                         et_bf16_from_float(et_params_values(params)[i]));
    naive_free(&n);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

typedef struct heard {
    char text[400]; /* of the last line */
    int lines;
} heard;

static void hear(void *payload, et_log_level level, const char *text)
{
    heard *h = payload;
    (void)level;
    snprintf(h->text, sizeof h->text, "%s", text);
    h->lines++;
}

/* A pattern that matches no name, such as another system's name, gives a warning. */
static void test_optimizer__patterns_in_no_name(void **state)
{
    (void)state;
    heard h = { .lines = 0 };
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
    et_params *params = make_params(false);
    o.optimizer.adamw.weight_decay_rate = 0.5;
    o.optimizer.adamw.exclude_from_weight_decay = PATTERNS("norm", "LayerNorm", "bias$");
    et_log_set(hear, &h);
    et_optimizer *optimizer = make_optimizer(params, &o);
    et_log_set(NULL, NULL);
    assert_int_equal(h.lines, 1);
    assert_non_null(strstr(h.text, "adamw.exclude_from_weight_decay: 'LayerNorm' matches no "
                                   "parameter; the last one is called"));
    assert_non_null(strstr(h.text, et_params_name(params, et_params_count(params) - 1)));
    et_optimizer_free(optimizer);
    et_params_free(params);
}

/* Excluded: biases and norms; "norm/weight" is included by name all the same. */
static void test_optimizer__adamw_decays_by_name(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
    o.optimizer.adamw =
        (et_adamw){ .beta_1 = 0.9, .beta_2 = 0.98, .epsilon = 1e-9, .weight_decay_rate = 0.5 };
    o.optimizer.adamw.exclude_from_weight_decay = PATTERNS("norm", "bias$", "encoder");
    o.optimizer.adamw.include_in_weight_decay = PATTERNS("^norm/weight");
    et_params *params = make_params(false);
    et_optimizer *optimizer = make_optimizer(params, &o);
    naive n = naive_new(params);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        naive_adam(&n, params, step, 0.01, 1, 0.5, 3, COUNT);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    }
    assert_near(params, &n);
    naive_free(&n);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

/* The gradient's norm is about 130; both clippings count, the smaller wins. */
static void test_optimizer__clips(void **state)
{
    (void)state;
    static const struct {
        double global_clipnorm, gradient_clip_norm, expected;
    } cases[] = { { 0, 0, 0 }, { 0.5, 0, 0.5 }, { 0, 2, 2 },
                  { 3, 2, 2 }, { 0.5, 2, 0.5 }, { 1e9, 1e8, 0 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
        o.optimizer.adamw = (et_adamw){
            .beta_1 = 0.9,
            .beta_2 = 0.98,
            .epsilon = 1e-9,
            .global_clipnorm = cases[c].global_clipnorm,
            .gradient_clip_norm = cases[c].gradient_clip_norm,
        };
        et_params *params = make_params(false);
        et_optimizer *optimizer = make_optimizer(params, &o);
        naive n = naive_new(params);
        for (int step = 0; step < STEPS; step++) {
            make_gradients(params, step);
            double norm = norm_of(params, 1);
            double scale = cases[c].expected > 0 ? cases[c].expected / norm : 1;
            naive_adam(&n, params, step, 0.01, scale, 0, 0, 0);
            et_update update = et_optimizer_apply(optimizer, et_params_gradients(params), 1);
            assert_true(fabs(update.gradient_norm - norm) < 1e-6 * norm);
        }
        assert_near(params, &n);
        naive_free(&n);
        et_optimizer_free(optimizer);
        et_params_free(params);
    }
}

/* The average starts from the weights, and its decay goes 2/11, 3/12, ... */
static void test_optimizer__average(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.1);
    o.ema.enabled = true;
    o.ema.average_decay = 0.3;
    et_params *params = make_params(false);
    et_optimizer *optimizer = make_optimizer(params, &o);
    naive n = naive_new(params);
    static const double decays[STEPS] = { 2.0 / 11, 3.0 / 12, 0.3, 0.3, 0.3 };
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
        for (int64_t i = 0; i < n.size; i++) {
            n.average[i] -= (1 - decays[step]) * (n.average[i] - et_params_values(params)[i]);
            assert_true(fabs(et_optimizer_average(optimizer)[i] - n.average[i]) < 2e-6);
        }
    }
    naive_free(&n);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

static void test_optimizer__average_copies_until_start(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.1);
    o.ema.enabled = true;
    o.ema.start_step = 3;
    et_params *params = make_params(false);
    et_optimizer *optimizer = make_optimizer(params, &o);
    size_t bytes = (size_t)et_params_flat_size(params) * sizeof(float);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
        int same = memcmp(et_optimizer_average(optimizer), et_params_values(params), bytes) == 0;
        assert_int_equal(same, step + 1 < 3);
    }
    et_optimizer_free(optimizer);
    et_params_free(params);
}

static void test_optimizer__not_finite_changes_nothing(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAM, 0.01);
    o.ema.enabled = true;
    et_params *params = make_params(true);
    et_optimizer *optimizer = make_optimizer(params, &o);
    make_gradients(params, 0);
    et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    const et_slot *slots;
    int count = et_optimizer_slots(optimizer, &slots);
    assert_int_equal(count, 3);
    size_t size = (size_t)et_params_flat_size(params), bytes = size * sizeof(float);
    float *before = malloc(4 * bytes);
    assert_non_null(before);
    memcpy(before, et_params_values(params), bytes);
    for (int s = 0; s < 3; s++)
        memcpy(before + (size_t)(s + 1) * size, slots[s].data, bytes);
    static const float bad[] = { NAN, INFINITY, -INFINITY };
    for (size_t b = 0; b < 3; b++) {
        make_gradients(params, 1);
        et_params_gradients(params)[20000 + 5 * b] = bad[b];
        assert_false(et_optimizer_apply(optimizer, et_params_gradients(params), 1).finite);
    }
    make_gradients(params, 1);
    assert_false(et_optimizer_apply(optimizer, et_params_gradients(params), INFINITY).finite);
    assert_memory_equal(before, et_params_values(params), bytes);
    for (int s = 0; s < 3; s++)
        assert_memory_equal(before + (size_t)(s + 1) * size, slots[s].data, bytes);
    assert_int_equal(et_optimizer_iterations(optimizer), 1);
    free(before);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

/* Weights, slots and average after some steps with a number of threads; free it. */
static float *result_with(int threads)
{
    int was = omp_get_max_threads();
    omp_set_num_threads(threads);
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
    o.optimizer.adamw.weight_decay_rate = 0.1;
    o.ema.enabled = true;
    et_params *params = make_params(true);
    et_optimizer *optimizer = make_optimizer(params, &o);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    }
    const et_slot *slots;
    size_t size = (size_t)et_params_flat_size(params);
    assert_int_equal(et_optimizer_slots(optimizer, &slots), 3);
    float *result = malloc(4 * size * sizeof(float));
    assert_non_null(result);
    memcpy(result, et_params_values(params), size * sizeof(float));
    for (size_t s = 0; s < 3; s++)
        memcpy(result + (s + 1) * size, slots[s].data, size * sizeof(float));
    et_optimizer_free(optimizer);
    et_params_free(params);
    omp_set_num_threads(was);
    return result;
}

static void test_optimizer__same_bits_for_any_threads(void **state)
{
    (void)state;
    et_params *params = make_params(false);
    size_t bytes = 4 * (size_t)et_params_flat_size(params) * sizeof(float);
    float *one = result_with(1);
    for (int threads = 2; threads <= 3; threads++) {
        float *many = result_with(threads);
        assert_memory_equal(one, many, bytes);
        free(many);
    }
    free(one);
    et_params_free(params);
}

static void test_optimizer__follows_the_schedule(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.1);
    o.warmup.type = ET_WARMUP_LINEAR;
    o.warmup.linear.warmup_steps = 4;
    et_params *params = make_params(false);
    et_optimizer *optimizer = make_optimizer(params, &o);
    uint64_t version = et_params_version(params);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_update update = et_optimizer_apply(optimizer, et_params_gradients(params), 1);
        assert_true(fabs(update.learning_rate - 0.025 * step) < 1e-15);
    }
    assert_int_equal(et_params_version(params), version + STEPS);
    et_optimizer_set_progress(optimizer, 2, 0);
    assert_true(fabs(et_optimizer_learning_rate(optimizer) - 0.05) < 1e-15);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

/* Slots that are reset in mid-run have the bias correction of a first step: with a constant rate
 * the updates equal those of a new optimizer, and the schedule continues. */
static void test_optimizer__restart(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAM, 0.1);
    et_params *params = make_params(false);
    size_t bytes = (size_t)et_params_flat_size(params) * sizeof(float);
    float *begin = malloc(bytes), *expected = malloc(bytes);
    assert_true(begin && expected);
    memcpy(begin, et_params_values(params), bytes);
    et_optimizer *fresh = make_optimizer(params, &o);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_optimizer_apply(fresh, et_params_gradients(params), 1);
    }
    memcpy(expected, et_params_values(params), bytes);
    et_optimizer *optimizer = make_optimizer(params, &o);
    for (int step = 0; step < 3 * STEPS; step++) {
        make_gradients(params, step + 7);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    }
    et_optimizer_restart(optimizer);
    assert_int_equal(et_optimizer_slots_from(optimizer), 3 * STEPS);
    memcpy(et_params_values(params), begin, bytes);
    for (int step = 0; step < STEPS; step++) {
        make_gradients(params, step);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    }
    assert_memory_equal(et_params_values(params), expected, bytes);
    assert_int_equal(et_optimizer_iterations(optimizer), 4 * STEPS);
    et_optimizer_free(fresh);
    et_optimizer_free(optimizer);
    et_params_free(params);
    free(begin);
    free(expected);
}

static void test_optimizer__wrong_options(void **state)
{
    (void)state;
    et_params *params = make_params(false);
    et_optimizer *optimizer;
    et_optimization_options o = options_of(ET_OPTIMIZER_NONE, 0.1);
    assert_fails(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &o, error),
                 ET_ECONFIG, "is not set");
    assert_null(optimizer);
    et_params_free(params);
}

/* One for half of the steps, then the cosine; and a step that has no length. */
static void test_optimizer__regularization(void **state)
{
    (void)state;
    et_regularization_options r = { ET_REGULARIZATION_FLAT_COSINE, 100 };
    assert_true(et_regularization_factor(&r, 0) == 1 && et_regularization_factor(&r, 50) == 1);
    for (int step = 50; step <= 100; step++) {
        const double wanted = (1 + cos(acos(-1) * (step - 50) / 50)) / 2;
        assert_true(fabs(et_regularization_factor(&r, step) - wanted) < 1e-12);
    }
    assert_true(et_regularization_factor(&r, 100) < 1e-12 &&
                et_regularization_factor(&r, 1000) < 1e-12);
    r.type = ET_REGULARIZATION_CONSTANT;
    assert_true(et_regularization_factor(&r, 1000) == 1);
    r = (et_regularization_options){ ET_REGULARIZATION_FLAT_COSINE, 0 };
    assert_true(et_regularization_factor(&r, 1000) == 1);
}

/* Weight decay follows the factor of each step, in every rule that decays. */
static void test_optimizer__decay_by_regularization(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
    o.optimizer.adamw =
        (et_adamw){ .beta_1 = 0.9, .beta_2 = 0.98, .epsilon = 1e-9, .weight_decay_rate = 0.5 };
    o.regularization = (et_regularization_options){ ET_REGULARIZATION_FLAT_COSINE, STEPS };
    et_params *params = make_params(false);
    et_optimizer *optimizer = make_optimizer(params, &o);
    naive n = naive_new(params);
    for (int step = 0; step < STEPS; step++) {
        const double factor =
            2 * step <= STEPS ? 1 : (1 + cos(acos(-1) * (2.0 * step / STEPS - 1))) / 2;
        make_gradients(params, step);
        naive_adam(&n, params, step, 0.01, 1, 0.5 * factor, 0, COUNT);
        assert_true(fabs(et_optimizer_regularization(optimizer) - factor) < 1e-12);
        et_optimizer_apply(optimizer, et_params_gradients(params), 1);
    }
    assert_near(params, &n);
    naive_free(&n);
    et_optimizer_free(optimizer);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer__sgd),
        cmocka_unit_test(test_optimizer__adam),
        cmocka_unit_test(test_optimizer__patterns_in_no_name),
        cmocka_unit_test(test_optimizer__adamw_decays_by_name),
        cmocka_unit_test(test_optimizer__clips),
        cmocka_unit_test(test_optimizer__average),
        cmocka_unit_test(test_optimizer__average_copies_until_start),
        cmocka_unit_test(test_optimizer__not_finite_changes_nothing),
        cmocka_unit_test(test_optimizer__same_bits_for_any_threads),
        cmocka_unit_test(test_optimizer__follows_the_schedule),
        cmocka_unit_test(test_optimizer__restart),
        cmocka_unit_test(test_optimizer__wrong_options),
        cmocka_unit_test(test_optimizer__regularization),
        cmocka_unit_test(test_optimizer__decay_by_regularization),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
