/* Optimizers over part of a store, and rules that need more than single elements. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <etude/layers.h>

#include "engine/optim/optim.h"
#include "engine/optim/optimizer.h"
#include "engine/optim/rules/rule.h"
#include "engine/tensor/params.h"

/* Groups have elements in several ranges; one tensor is longer than a chunk; a variable is in no
 * group. */
static const struct {
    const char *name;
    et_shape shape;
} parameters[] = {
    { "d/bias", { 1, { 7 } } },
    { "g/weight", { 2, { 150, 131 } } },
    { "d/weight", { 2, { 40, 30 } } },
    { "g/bias", { 1, { 131 } } },
};
enum { COUNT = sizeof parameters / sizeof parameters[0], STEPS = 3 };

static et_params *make_params(void)
{
    et_params *params;
    int index;
    et_init init = { ET_INIT_NORMAL, 0.5f };
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < COUNT; i++)
        assert_ok(et_params_declare(params, parameters[i].name, parameters[i].shape, init, &index,
                                    error));
    assert_ok(et_params_declare_variable(params, "mean", et_shape_1(5), init, &index, error));
    assert_ok(et_params_declare_variable(params, "g/mean", et_shape_1(3), init, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    et_init_draw(params, 7);
    return params;
}

static void make_gradients(et_params *params, int step)
{
    for (int p = 0; p < COUNT; p++) {
        float *gradient = et_params_gradients(params) + et_params_offset(params, p);
        for (int64_t i = 0; i < et_shape_count(et_params_shape(params, p)); i++)
            gradient[i] = (float)sin((double)(i + 100 * p) * 0.37 + step * 1.3);
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

/* prefix NULL: all. */
static et_optimizer *make(et_params *params, const char *prefix,
                          const et_optimization_options *options)
{
    et_optimizer *optimizer;
    et_group *group = NULL;
    if (prefix)
        assert_ok(et_group_new(&group, params, prefix, error));
    assert_ok(et_optimizer_new(&optimizer, params, group, et_kernels_best(), options, error));
    et_group_free(group);
    return optimizer;
}

static void step_once(et_optimizer *optimizer, et_params *params, int step)
{
    make_gradients(params, step);
    assert_true(et_optimizer_apply(optimizer, et_params_gradients(params), 0.5).finite);
    et_optimizer_average_variables(optimizer);
}

static size_t bytes_of(const et_params *params)
{
    return (size_t)et_params_flat_size(params) * sizeof(float);
}

/* Each optimizer updates only its part: together they do exactly what one for all does. */
static void test_groups__parts_make_the_whole(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 0.01);
    o.optimizer.adamw.gradient_clip_norm = 0;
    o.optimizer.adamw.weight_decay_rate = 0.1;
    o.optimizer.adamw.exclude_from_weight_decay = PATTERNS("bias");
    o.ema.enabled = true;
    et_params *one = make_params(), *two = make_params();
    et_optimizer *all = make(one, NULL, &o), *g = make(two, "g/", &o), *d = make(two, "d/", &o);
    for (int step = 0; step < STEPS; step++) {
        step_once(all, one, step);
        float *before = malloc(bytes_of(two));
        assert_non_null(before);
        memcpy(before, et_params_values(two), bytes_of(two));
        step_once(g, two, step);
        for (int p = 0; p < COUNT; p += 2) /* d's */
            assert_memory_equal(before + et_params_offset(two, p),
                                et_params_values(two) + et_params_offset(two, p),
                                (size_t)et_shape_count(parameters[p].shape) * sizeof(float));
        step_once(d, two, step);
        assert_memory_equal(et_params_values(one), et_params_values(two), bytes_of(one));
        free(before);
    }
    const et_slot_part *parts, *g_parts;
    int count = et_optimizer_parts(all, &parts), found = 0;
    assert_int_equal(count, 3 * COUNT);
    for (int k = 0; k < 2; k++)
        for (int i = 0, n = et_optimizer_parts(k ? d : g, &g_parts); i < n; i++)
            for (int j = 0; j < count; j++)
                if (!strcmp(parts[j].slot, g_parts[i].slot) && parts[j].param == g_parts[i].param) {
                    size_t size = (size_t)et_shape_count(parts[j].shape) * sizeof(float);
                    assert_memory_equal(parts[j].data, g_parts[i].data, size);
                    found++;
                }
    assert_int_equal(found, count);
    et_optimizer_free(all), et_optimizer_free(g), et_optimizer_free(d);
    et_params_free(one), et_params_free(two);
}

/* Parameters without an average are shown as they are. */
static void test_groups__average(void **state)
{
    (void)state;
    et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.5);
    o.ema.enabled = true;
    et_params *params = make_params();
    et_optimizer *g = make(params, "g/", &o);
    step_once(g, params, 0);
    float *own = et_params_values(params), *average = et_optimizer_average(g);
    own[et_params_offset(params, 0)] = 3;
    own[et_params_offset(params, COUNT)] = 4;
    assert_true(et_optimizer_show_average(g));
    assert_ptr_equal(et_params_values(params), average);
    for (int p = 0; p <= COUNT; p++) {
        int64_t at = et_params_offset(params, p);
        int same = memcmp(own + at, average + at,
                          (size_t)et_shape_count(et_params_shape(params, p)) * sizeof(float)) == 0;
        assert_int_equal(same, strncmp(et_params_name(params, p), "g/", 2) != 0);
    }
    et_params_use(params, NULL);
    et_optimizer_free(g);
    o.ema.enabled = false;
    g = make(params, "g/", &o);
    assert_false(et_optimizer_show_average(g));
    et_optimizer_free(g);
    et_params_free(params);
}

/* A variable that is written between updates, next to g's parameters and elsewhere. */
static void test_groups__average_of_variables(void **state)
{
    (void)state;
    static const struct {
        const char *prefix;
        bool only_weights;
        bool averaged[2]; /* g/mean, mean */
    } cases[] = { { NULL, true, { false, false } },
                  { NULL, false, { true, true } },
                  { "g/", false, { true, false } },
                  { "d/", false, { false, false } } };
    static const double decays[STEPS] = { 0, 2.0 / 11, 0.2 };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 0.5);
        o.ema = (et_ema_options){ .enabled = true,
                                  .trainable_weights_only = cases[c].only_weights,
                                  .average_decay = 0.2,
                                  .dynamic_decay = true,
                                  .start_step = 1 };
        et_params *params = make_params();
        et_optimizer *optimizer = make(params, cases[c].prefix, &o);
        const et_slot_part *parts;
        int index[2] = { et_params_find(params, "g/mean"), et_params_find(params, "mean") };
        int count = et_optimizer_parts(optimizer, &parts), found[2] = { 0 };
        for (int i = 0; i < count; i++)
            for (int k = 0; k < 2; k++)
                found[k] += parts[i].param == index[k];
        double average[2] = { 0 };
        for (int step = 0; step < STEPS; step++) {
            for (int k = 0; k < 2; k++)
                et_params_values(params)[et_params_offset(params, index[k])] =
                    (float)(step * step + k);
            step_once(optimizer, params, step);
            for (int k = 0; k < 2; k++)
                average[k] -= (1 - decays[step]) * (average[k] - (step * step + k));
        }
        assert_true(et_optimizer_show_average(optimizer));
        for (int k = 0; k < 2; k++) {
            double shown = et_params_values(params)[et_params_offset(params, index[k])];
            double now = (STEPS - 1) * (STEPS - 1) + k;
            assert_int_equal(found[k], cases[c].averaged[k]);
            assert_float_equal(shown, cases[c].averaged[k] ? average[k] : now, 1e-6);
            assert_true(fabs(average[k] - now) > 0.1);
        }
        et_params_use(params, NULL);
        et_optimizer_free(optimizer);
        et_params_free(params);
    }
}

static double norm_of(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum);
}

/* With a rate of 1 a weight loses its clipped gradient. scale is 0.5, gradients end at 1. */
static void test_groups__clips(void **state)
{
    (void)state;
    static const struct {
        double value, norm, global;
    } cases[] = { { 0.125, 0, 0 }, { 0, 2, 0 },    { 0.125, 2, 0 }, { 0.25, 0, 3 },
                  { 0, 1e6, 0 },   { 0.75, 0, 0 }, { 0, 0.5, 0 },   { 0.125, 0, 0.5 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_optimization_options o = options_of(ET_OPTIMIZER_SGD, 1);
        o.optimizer.sgd.clipvalue = cases[c].value;
        o.optimizer.sgd.clipnorm = cases[c].norm;
        o.optimizer.sgd.global_clipnorm = cases[c].global;
        et_params *params = make_params(), *start = make_params();
        et_optimizer *optimizer = make(params, NULL, &o);
        int64_t size = et_params_trained_size(params);
        float *expected = calloc((size_t)size, sizeof(float));
        make_gradients(start, 0);
        for (int64_t i = 0; i < size; i++) {
            double g = 0.5 * et_params_gradients(start)[i];
            double limit = cases[c].value > 0 ? cases[c].value : 1;
            expected[i] = (float)fmin(fmax(g, -limit), limit);
        }
        for (int p = 0; p < COUNT && cases[c].norm > 0; p++) {
            float *g = expected + et_params_offset(params, p);
            int64_t count = et_shape_count(parameters[p].shape);
            double norm = norm_of(g, count);
            for (int64_t i = 0; i < count && norm > cases[c].norm; i++)
                g[i] = (float)(g[i] * cases[c].norm / norm);
        }
        double norm = norm_of(expected, size);
        for (int64_t i = 0; i < size && cases[c].global > 0 && norm > cases[c].global; i++)
            expected[i] = (float)(expected[i] * cases[c].global / norm);
        step_once(optimizer, params, 0);
        for (int64_t i = 0; i < size; i++) {
            double moved = (double)et_params_values(start)[i] - et_params_values(params)[i];
            if (!(fabs(moved - expected[i]) < 1e-6))
                fail_msg("case %zu, weight %lld: moved by %g, expected %g", c, (long long)i, moved,
                         expected[i]);
        }
        free(expected);
        et_optimizer_free(optimizer);
        et_params_free(params), et_params_free(start);
    }
}

/* AdamW's own norm comes before all other clips: with moments that keep nothing and an epsilon that
 * outweighs them, a weight loses its clipped gradient. */
static void test_groups__clips_of_adamw(void **state)
{
    (void)state;
    static const struct {
        double own, value, norm, global;
    } cases[] = { { 4, 0.03125, 0, 0 }, { 4, 0, 1, 0 }, { 4, 0.03125, 0, 1 },
                  { 2, 0, 0, 4 },       { 4, 0, 0, 2 }, { 0, 0.125, 0, 0 } };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        et_optimization_options o = options_of(ET_OPTIMIZER_ADAMW, 1024);
        o.optimizer.adamw.beta_1 = o.optimizer.adamw.beta_2 = 0;
        o.optimizer.adamw.epsilon = 1024;
        o.optimizer.adamw.gradient_clip_norm = cases[c].own;
        o.optimizer.adamw.clipvalue = cases[c].value;
        o.optimizer.adamw.clipnorm = cases[c].norm;
        o.optimizer.adamw.global_clipnorm = cases[c].global;
        et_params *params = make_params(), *start = make_params();
        et_optimizer *optimizer = make(params, NULL, &o);
        int64_t size = et_params_trained_size(params);
        float *expected = calloc((size_t)size, sizeof(float));
        make_gradients(start, 0);
        double norm = 0.5 * norm_of(et_params_gradients(start), size);
        double factor = cases[c].own > 0 && norm > cases[c].own ? cases[c].own / norm : 1;
        for (int64_t i = 0; i < size; i++) {
            double g = 0.5 * factor * et_params_gradients(start)[i];
            double limit = cases[c].value > 0 ? cases[c].value : 1;
            expected[i] = (float)fmin(fmax(g, -limit), limit);
        }
        for (int p = 0; p < COUNT && cases[c].norm > 0; p++) {
            float *g = expected + et_params_offset(params, p);
            int64_t count = et_shape_count(parameters[p].shape);
            double own = norm_of(g, count);
            for (int64_t i = 0; i < count && own > cases[c].norm; i++)
                g[i] = (float)(g[i] * cases[c].norm / own);
        }
        norm = norm_of(expected, size);
        for (int64_t i = 0; i < size && cases[c].global > 0 && norm > cases[c].global; i++)
            expected[i] = (float)(expected[i] * cases[c].global / norm);
        step_once(optimizer, params, 0);
        for (int64_t i = 0; i < size; i++) {
            double moved = (double)et_params_values(start)[i] - et_params_values(params)[i];
            if (!(fabs(moved - expected[i]) < 2e-3 * fabs(expected[i]) + 1e-6))
                fail_msg("case %zu, weight %lld: moved by %g, expected %g", c, (long long)i, moved,
                         expected[i]);
        }
        free(expected);
        et_optimizer_free(optimizer);
        et_params_free(params), et_params_free(start);
    }
}

/* A rule that asks for norms of tensors: w -= rate |w| / |g| g, as LARS without the rest. */
static void add_norms(const void *options, const et_rule_step *step, const et_rule_chunk *chunk,
                      double sums[ET_RULE_SUMS_MAX])
{
    (void)options, (void)step;
    for (int64_t i = 0; i < chunk->count; i++) {
        sums[0] += (double)chunk->weight[i] * chunk->weight[i];
        sums[1] += (double)chunk->gradient[i] * chunk->gradient[i];
    }
}

static void trust(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    (void)options, (void)step;
    double ratio = sqrt(chunk->sums[0] / chunk->sums[1]);
    assert_true(chunk->first + chunk->count <= et_shape_count(*chunk->shape));
    for (int64_t i = 0; i < chunk->count; i++)
        chunk->weight[i] -= (float)(chunk->rate * ratio * chunk->gradient[i]);
}

static const et_optimizer_rule trust_rule = { .name = "trust",
                                              .before = add_norms,
                                              .update = trust };

static et_optimizer *make_rule(et_params *params, const et_optimizer_rule *rule)
{
    et_optimizer *optimizer;
    const et_optimizer_rule *const rules[] = { rule, NULL };
    et_optimization_options o = options_of(ET_OPTIMIZER_COUNT, 0.5);
    o.optimizer.own = rules;
    o.optimizer.own_settings[0] = NULL;
    assert_ok(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &o, error));
    return optimizer;
}

static void test_groups__sums_of_tensors(void **state)
{
    (void)state;
    et_params *params = make_params(), *start = make_params();
    et_optimizer *optimizer = make_rule(params, &trust_rule);
    step_once(optimizer, params, 0);
    make_gradients(params, 0);
    for (int p = 0; p < COUNT; p++) {
        int64_t count = et_shape_count(parameters[p].shape), at = et_params_offset(params, p);
        const float *w = et_params_values(start) + at, *g = et_params_gradients(params) + at;
        double ratio = norm_of(w, count) / norm_of(g, count);
        for (int64_t i = 0; i < count; i++)
            assert_true(fabs(et_params_values(params)[at + i] - (w[i] - 0.5 * ratio * g[i])) <
                        1e-6);
    }
    et_optimizer_free(optimizer);
    et_params_free(params), et_params_free(start);
}

/* A rule with a slot of rows: matrices only, each row's is the sum of its gradients. */
static bool rows_of(et_shape parameter, bool adapts, et_shape *slot)
{
    (void)adapts;
    *slot = et_shape_1(parameter.size[0]);
    return parameter.rank == 2;
}

static int row_slots(const void *options, et_rule_slot slots[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slots[0] = (et_rule_slot){ .name = "moment" };
    slots[1] = (et_rule_slot){ .name = "rows", .shape = rows_of };
    return 2;
}

static void add_rows(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    (void)options, (void)step;
    assert_int_equal(chunk->count, et_shape_count(*chunk->shape));
    assert_int_equal(chunk->slot[1] != NULL, chunk->shape->rank == 2);
    int64_t width = chunk->shape->rank == 2 ? chunk->shape->size[1] : 1;
    for (int64_t i = 0; i < chunk->count; i++) {
        chunk->slot[0][i] = chunk->gradient[i];
        if (chunk->slot[1])
            chunk->slot[1][i / width] += chunk->gradient[i];
    }
}

static const et_optimizer_rule row_rule = {
    .name = "rows", .cut = ET_RULE_WHOLE, .slots = row_slots, .update = add_rows
};

static void test_groups__slots_of_other_shapes(void **state)
{
    (void)state;
    et_params *params = make_params();
    et_optimizer *optimizer = make_rule(params, &row_rule);
    const et_slot_part *parts;
    step_once(optimizer, params, 0);
    make_gradients(params, 0);
    for (int64_t i = 0; i < et_params_trained_size(params); i++)
        et_params_gradients(params)[i] *= 0.5f;
    assert_int_equal(et_optimizer_parts(optimizer, &parts), COUNT + 2);
    for (int i = 0; i < COUNT + 2; i++) {
        const float *g = et_params_gradients(params) + et_params_offset(params, parts[i].param);
        et_shape shape = parameters[parts[i].param].shape;
        if (i < COUNT) {
            assert_string_equal(parts[i].slot, "moment");
            assert_true(et_shape_equal(parts[i].shape, shape));
            assert_memory_equal(parts[i].data, g, (size_t)et_shape_count(shape) * sizeof(float));
            continue;
        }
        assert_string_equal(parts[i].slot, "rows");
        assert_true(et_shape_equal(parts[i].shape, et_shape_1(shape.size[0])));
        for (int64_t row = 0; row < shape.size[0]; row++) {
            double sum = 0;
            for (int64_t k = 0; k < shape.size[1]; k++)
                sum += g[row * shape.size[1] + k];
            assert_true(fabs(parts[i].data[row] - sum) < 1e-4);
        }
    }
    et_optimizer_free(optimizer);
    et_params_free(params);
}

static void test_groups__two_norms_exclude_each_other(void **state)
{
    (void)state;
    et_params *params = make_params();
    et_optimizer *optimizer;
    et_optimization_options o = options_of(ET_OPTIMIZER_ADAM, 0.1);
    o.optimizer.adam.clipnorm = o.optimizer.adam.global_clipnorm = 1;
    assert_fails(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &o, error),
                 ET_ECONFIG, "optimizer.adam: clipnorm and global_clipnorm are both set");
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups__parts_make_the_whole),
        cmocka_unit_test(test_groups__average),
        cmocka_unit_test(test_groups__average_of_variables),
        cmocka_unit_test(test_groups__clips),
        cmocka_unit_test(test_groups__clips_of_adamw),
        cmocka_unit_test(test_groups__sums_of_tensors),
        cmocka_unit_test(test_groups__slots_of_other_shapes),
        cmocka_unit_test(test_groups__two_norms_exclude_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
