/* Parameter groups: with every rule, each group is updated as by a separate optimizer. */
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

#include <etude/log.h>

#include "base/arena.h"
#include "engine/optim/all_shapes.h"
#include "engine/optim/optim.h"
#include "engine/optim/optimizer_private.h"
#include "engine/tensor/params.h"

enum { STEPS = 4 };

/* text: as trainer.optimizer_config has it. */
static et_optimization_options options_of(int type, double rate, const char *text, et_arena *arena)
{
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = rate;
    o.optimizer.type = type;
    o.optimizer.adamw.gradient_clip_norm = 0;
    o.optimizer.adamw_experimental.adam.global_clipnorm = 0;
    assert_ok(read_options(&o, text, arena, error));
    return o;
}

/* expression NULL: all parameters. */
static et_optimizer *open_rule(et_params *params, const char *expression, int type, double rate,
                               const char *text)
{
    et_optimizer *optimizer;
    et_group *group = NULL;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = options_of(type, rate, text, &arena);
    if (expression)
        assert_ok(et_group_match(&group, params, expression, error));
    assert_ok(et_optimizer_new(&optimizer, params, group, et_kernels_best(), &o, error));
    et_group_free(group);
    et_arena_release(&arena);
    return optimizer;
}

static void make_gradients(et_params *params, int step)
{
    for (int p = 0; p < COUNT; p++) {
        float *gradient = et_params_gradients(params) + et_params_offset(params, p);
        for (int64_t i = 0; i < et_shape_count(parameters[p].shape); i++)
            gradient[i] = (float)sin((double)(i + 100 * p) * 0.37 + step * 1.3);
    }
}

/* Updates by all of them, one after the other. */
static void train(et_optimizer *const *optimizers, int count)
{
    et_params *params = et_optimizer_params(optimizers[0]);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < count; i++) {
            make_gradients(params, step);
            assert_true(et_optimizer_apply(optimizers[i], et_params_gradients(params), 0.5).finite);
        }
}

static void assert_same(et_params *a, et_params *b)
{
    const size_t bytes = (size_t)et_params_flat_size(a) * sizeof(float);
    assert_memory_equal(et_params_values(a), et_params_values(b), bytes);
}

/* Three groups: two with a rate, the rest. Decay where the rule has one. */
static void compare(int type, const char *decay, const char *other, const char *setting)
{
    static const char *const expressions[] = { "weight$", "bias|norm", "^embedding$" };
    static const double rates[] = { 0.01, 0.005, 0.02 };
    const char *texts[] = { decay, other, decay };
    char all[400];
    et_optimizer *whole, *parts[3];
    et_params *one = make_params(), *two = make_params();
    snprintf(
        all, sizeof all,
        "{parameter_groups: [{pattern: 'bias|norm', learning_rate_multiplier: 0.5%s}, {pattern: "
        "^embedding$, learning_rate_multiplier: 2}], %s",
        setting, decay + 1);
    whole = open_rule(one, NULL, type, 0.01, all);
    for (int i = 0; i < 3; i++)
        parts[i] = open_rule(two, expressions[i], type, rates[i], texts[i]);
    train(&whole, 1);
    train(parts, 3);
    assert_same(one, two);
    et_optimizer_free(whole);
    for (int i = 0; i < 3; i++)
        et_optimizer_free(parts[i]);
    et_params_free(one);
    et_params_free(two);
}

static void test_parameter_groups__are_optimizers_of_their_own(void **state)
{
    (void)state;
    for (int type = ET_OPTIMIZER_NONE + 1; type <= OWN_RULE; type++)
        compare(type, "{ema: {enabled: false}}", "{}", "");
}

static void test_parameter_groups__decay_by_themselves(void **state)
{
    (void)state;
    int rules = 0;
    for (int type = ET_OPTIMIZER_NONE + 1; type < ET_OPTIMIZER_COUNT; type++) {
        static const char format[] = "{optimizer: {%s: {%s: %g}}}";
        et_optimization_options o = { .optimizer.type = type };
        const void *own;
        double rate;
        et_strings list;
        const et_optimizer_rule *rule = et_rule_chosen(&o.optimizer, &own);
        const char *name =
            type == ET_OPTIMIZER_ADAMW_EXPERIMENTAL ? "weight_decay" : "weight_decay_rate";
        char decay[100], other[100], none[100];
        if (!et_rule_decay(rule, own, &rate, &list, &list))
            continue;
        snprintf(decay, sizeof decay, format, rule->name, name, 0.1);
        snprintf(other, sizeof other, format, rule->name, name, 0.3);
        snprintf(none, sizeof none, format, rule->name, name, 0.0);
        compare(type, decay, other, ", weight_decay_rate: 0.3");
        compare(type, decay, none, ", weight_decay_rate: 0");
        compare(type, none, other, ", weight_decay_rate: 0.3");
        compare(type, decay, decay, ", weight_decay_rate: null");
        rules++;
    }
    assert_int_equal(rules, 5);
}

/* A name that the rule's list excludes does not decay, whatever group it is in. */
static void test_parameter_groups__leave_the_lists_of_names(void **state)
{
    (void)state;
    et_params *one = make_params(), *two = make_params();
    et_optimizer *by_group =
        open_rule(one, NULL, ET_OPTIMIZER_ADAMW, 0.01,
                  "{optimizer: {adamw: {weight_decay_rate: 0, exclude_from_weight_decay: bias}}, "
                  "parameter_groups: {pattern: ., weight_decay_rate: 0.1}}");
    et_optimizer *by_rule = open_rule(
        two, NULL, ET_OPTIMIZER_ADAMW, 0.01,
        "{optimizer: {adamw: {weight_decay_rate: 0.1, exclude_from_weight_decay: bias}}}");
    train(&by_group, 1);
    train(&by_rule, 1);
    assert_same(one, two);
    et_optimizer_free(by_group);
    et_optimizer_free(by_rule);
    et_params_free(one);
    et_params_free(two);
}

/* A rate of 0 changes nothing, and a schedule or a rate that is set counts for all groups. */
static void test_parameter_groups__follow_the_rate(void **state)
{
    (void)state;
    static const char text[] = "{parameter_groups: [{pattern: bias, learning_rate_multiplier: 0}]}";
    et_params *one = make_params(), *two = make_params();
    et_optimizer *some = open_rule(one, NULL, ET_OPTIMIZER_ADAM, 0.5, text),
                 *others = open_rule(two, "^((?!bias).)*$", ET_OPTIMIZER_ADAM, 0.25, "{}");
    assert_ok(et_optimizer_set_learning_rate(some, 0.25, error));
    train(&some, 1);
    train(&others, 1);
    assert_same(one, two);
    et_optimizer_free(some);
    et_optimizer_free(others);
    et_params_free(one);
    et_params_free(two);
}

static void test_parameter_groups__same_bits_for_any_threads(void **state)
{
    (void)state;
    static const char text[] =
        "{ema: {enabled: true}, parameter_groups: [{pattern: bias, learning_rate_multiplier: 3}, "
        "{pattern: tall, learning_rate_multiplier: 0.1, weight_decay_rate: 0.2}]}";
    const int was = omp_get_max_threads();
    for (int type = ET_OPTIMIZER_ADAMW; type <= ET_OPTIMIZER_ADAMW; type++) {
        et_params *first = NULL;
        for (int threads = 1; threads <= 5; threads += 2) {
            et_params *params = make_params();
            omp_set_num_threads(threads);
            et_optimizer *optimizer = open_rule(params, NULL, type, 0.01, text);
            train(&optimizer, 1);
            et_optimizer_free(optimizer);
            if (first)
                assert_same(first, params);
            if (first)
                et_params_free(params);
            else
                first = params;
        }
        et_params_free(first);
    }
    omp_set_num_threads(was);
}

/* ---- what is refused ---- */

static const struct wrong {
    int type;
    const char *groups, *says;
} wrong[] = {
    { ET_OPTIMIZER_ADAM, "[{pattern: encodr/}]",
      "parameter_groups[0].pattern: 'encodr/' matches no parameter; the first one is called "
      "embedding" },
    { ET_OPTIMIZER_ADAM, "[{pattern: wide/}, {pattern: bias}]",
      "wide/bias is in two groups, 'wide/' and 'bias'" },
    { ET_OPTIMIZER_ADAM, "[{pattern: wide}, {pattern: tall}, {pattern: wide}]",
      "wide/weight is in two groups, 'wide' and 'wide'" },
    { ET_OPTIMIZER_ADAM, "[{learning_rate_multiplier: 2}]",
      "parameter_groups[0].pattern is not set" },
    { ET_OPTIMIZER_ADAM, "[{pattern: wide}, {pattern: ''}]",
      "parameter_groups[1].pattern is not set" },
    { ET_OPTIMIZER_ADAM, "[{pattern: 'wide('}]", "parameter_groups[0].pattern" },
    { ET_OPTIMIZER_ADAM, "[{pattern: wide, weight_decay_rate: 0.1}]",
      "the update rule adam has no weight decay" },
    { ET_OPTIMIZER_ADAMW, "[{pattern: wide, weight_decay_rate: -0.5}]", "weight_decay_rate: -0.5" },
};

static void test_parameter_groups__refused(void **state)
{
    (void)state;
    et_params *params = make_params();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[200];
        et_arena arena = ET_ARENA_INIT;
        et_optimizer *optimizer;
        snprintf(text, sizeof text, "{parameter_groups: %s}", wrong[i].groups);
        et_optimization_options o = options_of(wrong[i].type, 0.1, text, &arena);
        assert_fails(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &o, error),
                     ET_ECONFIG, wrong[i].says);
        assert_null(optimizer);
        et_arena_release(&arena);
    }
    et_params_free(params);
}

static void test_parameter_groups__refused_by_the_reader(void **state)
{
    (void)state;
    static const struct {
        const char *groups, *says;
    } texts[] = {
        { "[{pattern: a, learning_rate_multiplier: -1}]", "learning_rate_multiplier: -1" },
        { "[{pattern: a, learning_rate_multiplier: .nan}]", "learning_rate_multiplier" },
        { "[{pattern: a, weight_decay_rate: -2}]", "parameter_groups[0].weight_decay_rate: -2" },
        { "[{pattern: a, learning_rate: 0.1}]", "learning_rate" },
        { "[{pattern: [a, b]}]", "pattern" },
        { "[encoder]", "parameter_groups[0]" },
        { "3", "parameter_groups" },
    };
    et_arena arena = ET_ARENA_INIT;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[200];
        et_optimization_options o = default_options();
        snprintf(text, sizeof text, "{parameter_groups: %s}", texts[i].groups);
        assert_fails(read_options(&o, text, &arena, error), ET_ECONFIG, texts[i].says);
    }
    et_arena_release(&arena);
}

static char said[300];

static void hear(void *payload, et_log_level level, const char *text)
{
    (void)payload, (void)level;
    snprintf(said, sizeof said, "%s", text);
}

/* Of a frozen part a group has nothing for now, and that is said. */
static void test_parameter_groups__of_what_is_not_trained(void **state)
{
    (void)state;
    et_params *params = make_params();
    et_log_set(hear, NULL);
    et_optimizer *optimizer =
        open_rule(params, "^wide/", ET_OPTIMIZER_ADAM, 0.1, "{parameter_groups: {pattern: tall}}");
    et_log_set(NULL, NULL);
    assert_non_null(
        strstr(said, "'tall' matches only parameters that this optimizer does not train"));
    et_optimizer_free(optimizer);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameter_groups__are_optimizers_of_their_own),
        cmocka_unit_test(test_parameter_groups__decay_by_themselves),
        cmocka_unit_test(test_parameter_groups__leave_the_lists_of_names),
        cmocka_unit_test(test_parameter_groups__follow_the_rate),
        cmocka_unit_test(test_parameter_groups__same_bits_for_any_threads),
        cmocka_unit_test(test_parameter_groups__refused),
        cmocka_unit_test(test_parameter_groups__refused_by_the_reader),
        cmocka_unit_test(test_parameter_groups__of_what_is_not_trained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
